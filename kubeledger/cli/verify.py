"""``kubeledger verify``: decide recorded decisions again, and compare."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import ledger_option, node_option, output_option, reports_errors

if TYPE_CHECKING:
    from kubeledger.replay.histories import History
    from kubeledger.verify import Outcome

__all__ = ["histories_for", "verify"]

_DIFFERENCE = 1
"""Exit code: a decision that the kubelet could not have taken."""

_UNVERIFIED = 5
"""Exit code with ``--strict``: nothing is wrong, but not all could be verified."""


@click.command(epilog="Example: kubeledger verify /var/tmp/node-a --junit verify.xml")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 5 when decisions could not be verified or sources contradict each other.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the findings as JUnit XML.",
)
@click.option("--all", "all_", is_flag=True, help="List every decision, not only what is wrong.")
@output_option("table", "json", "jsonl")
@reports_errors
def verify(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    strict: bool,
    junit: Path | None,
    all_: bool,
    output: str,
) -> None:
    """Decide every recorded decision again, by the rules of that kubelet version.

    Each is a match (what `decide` gives), admissible (another choice the kubelet had),
    impossible, or unverifiable, and then the missing input is named. SOURCE is a ledger, a
    *.ledger.jsonl file, or a node's files, which are imported for the while; without one the
    ledger is verified. Exits with 1 when a decision is impossible.
    """
    from kubeledger.cli.verify_output import Junit, writer_of
    from kubeledger.verify.tally import Tally

    tally = Tally()
    with histories_for(sources, ledger, node) as histories, writer_of(output, all_) as writer:
        report = Junit(junit) if junit is not None else None
        for history in histories:
            writer.begin(history.node)
            for outcome in _outcomes(history):
                tally.add(outcome)
                writer.write(outcome)
                if report is not None:
                    report.write(history.node, outcome)
        writer.end(tally)
        if report is not None:
            report.save(tally)
    if tally.count("impossible"):
        sys.exit(_DIFFERENCE)
    if strict and (tally.count("unverifiable") or tally.contradictions):
        sys.exit(_UNVERIFIED)


def _outcomes(history: History) -> Iterator[Outcome]:
    return history.verify()


@contextmanager
def histories_for(
    sources: tuple[str, ...], ledger: Path, node: str | None
) -> Iterator[list[History]]:
    """Histories of the sources, or of the ledger when there are none.

    Raises:
        BadQuestionError: none of them is of ``node``.
        KubeledgerError: as ``open_histories``.
    """
    from kubeledger.errors import BadQuestionError
    from kubeledger.importers.histories import open_histories
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.replay.histories import histories_of_ledger

    if not sources:
        yield histories_of_ledger(Ledger.open(ledger), node)
        return
    with open_histories(sources, node=node) as histories:
        if not histories:
            raise BadQuestionError(f"no source holds records of node {node!r}")
        yield histories
