"""``kubeledger fleet sql``: read-only SQL over all nodes of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubeledger.cli.complete import complete_fleet_queries
from kubeledger.cli.fleet_options import known_lake_option
from kubeledger.cli.options import reports_errors
from kubeledger.cli.sql import Asked, answer, asking_options
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.clock import Span
    from kubeledger.analyze.sql.tables import Tables


@click.command(
    "sql", epilog="Example: kubeledger fleet sql --run impossible --lake s3://bucket/lake"
)
@known_lake_option
@asking_options(complete_fleet_queries)
@reports_errors
def fleet_sql(lake: str | None, asked: Asked) -> None:
    """Ask read-only SQL over all nodes of a lake, or run a shipped query.

    QUERY is one SELECT over the views of `kubeledger sql`, each over all nodes, and `nodes` and
    `failures`; `-` reads it from standard input. Without QUERY it is an interactive shell.
    """
    from kubeledger.fleet.query import LakeTables, fleet_queries

    def opened() -> tuple[Tables, Span]:
        if lake is None:
            raise BadQuestionError("which lake?", advice="name it with --lake URL")
        tables = LakeTables(lake)
        return tables, tables.span

    answer(asked, opened, fleet_queries())
