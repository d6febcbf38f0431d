"""``kubeledger fleet report`` and ``sql``: all nodes of a lake as one page, or as tables."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from kubeledger.cli.complete import complete_fleet_queries
from kubeledger.cli.fleet_options import (
    Running,
    ask_lake,
    engine_options,
    known_lake_option,
    lake_option,
    print_failures,
)
from kubeledger.cli.options import option, output_file, reports_errors
from kubeledger.cli.output import counted
from kubeledger.cli.sql import Asked, asking_options
from kubeledger.cli.sql import answer as sql_answer
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.clock import Span
    from kubeledger.analyze.sql.tables import Tables
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.types import Failure


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

    sql_answer(asked, opened, fleet_queries())


_FAILED = 1


def _worst(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """So many nodes; None: all."""
    if value == "all":
        return None
    if not value.isdecimal() or not int(value):
        raise click.BadParameter(
            f"{value!r} is neither a number of nodes nor all", context, parameter
        )
    return int(value)


@click.command(
    epilog="Example: kubeledger fleet report --lake /data/lake --out fleet.html --pages nodes"
)
@lake_option
@option("--out FILE", "The page; - is standard output.", type=output_file, default="fleet.html")
@option(
    "--pages DIR",
    "Write the worst nodes' timeline pages there, and link to them.",
    type=click.Path(path_type=Path, file_okay=False),
)
@option("--worst N|all", "How many nodes get a page of their own.", default="20", callback=_worst)
@engine_options
@reports_errors
def report(lake: str, out: Path, pages: Path | None, worst: int | None, running: Running) -> None:
    """Draw all nodes of a lake as one HTML file that opens from disk, worst nodes first.

    A row a node: what went wrong, how often, when, and what stands out against the other nodes of
    its pool; above it the same by pool and by version of the kubelet. The page says how it
    compares. With --pages the worst nodes have timeline pages, which are made on the engine.
    """
    from kubeledger.cli.files import is_standard, new_output, output_errors
    from kubeledger.cli.progress import progress
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.report.collect import collect
    from kubeledger.fleet.report.page import fleet_page

    place = Lake.open(lake)
    with progress("reading") as bar:
        facts = collect(lake, report=bar.report)
    links: dict[str, str] = {}
    failures: list[Failure] = []
    if pages is not None:
        keys = [node.node for node in facts.nodes[:worst]]
        failures = _write_pages(place, keys, pages, running)
        failed = {failure.source for failure in failures}
        base = Path() if is_standard(out) else out.parent
        links = {key: _link(pages, key, base) for key in keys if f"node {key}" not in failed}
    page = fleet_page(facts, links).encode()
    with output_errors(out), new_output(out) as file:
        file.write(page)
    if not is_standard(out):
        own = f", {counted(len(links), 'page')} of nodes in {pages}" if pages is not None else ""
        nodes = counted(len(facts.nodes), "node")
        click.echo(f"{out}: {nodes}, {len(page):,} bytes{own}; open it in a browser")
        print_failures(failures)
    if failures:
        sys.exit(_FAILED)


def _write_pages(
    lake: Lake, keys: Sequence[str], directory: Path, running: Running
) -> list[Failure]:
    """Write the pages of these nodes; what failed."""
    import zstandard

    from kubeledger.cli.files import new_output, output_errors
    from kubeledger.fleet.report.page import node_page, page_name
    from kubeledger.fleet.types import Failure

    with output_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    failures = []
    for key, answer in ask_lake(
        lake, keys, node_page, lambda task: task, lambda task: task, "drawing", running
    ):
        if isinstance(answer, Failure):
            failures.append(answer)
            continue
        path = directory / page_name(key)
        with output_errors(path), new_output(path) as file:
            zstandard.ZstdDecompressor().copy_stream(io.BytesIO(answer), file)
    return sorted(failures, key=lambda failure: failure.source)


def _link(pages: Path, node: str, base: Path) -> str:
    """From the fleet's page to a node's."""
    from kubeledger.fleet.report.page import page_name

    return quote(Path(os.path.relpath(pages / page_name(node), base)).as_posix())
