"""``kubeledger verify``: decide recorded decisions again, and compare."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubeledger.cli.options import (
    Seconds,
    ledger_option,
    node_option,
    option,
    output_file,
    output_option,
    reports_errors,
)
from kubeledger.cli.screen import paged
from kubeledger.cli.service import metrics_option
from kubeledger.model.errors import BadInputError, BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.analyze.histories.noting import Fold

_DIFFERENCE = 1
"""Exit code: a decision that the kubelet could not have taken."""

_UNVERIFIED = 5
"""Exit code with ``--strict``: nothing is wrong, but not all could be verified."""


@click.command(epilog="Example: kubeledger verify /var/tmp/node-a --junit verify.xml")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@option(
    "--strict", "Exit with 5 when decisions could not be verified or sources contradict each other."
)
@option(
    "--junit FILE",
    "Also write the findings as JUnit XML; - writes it to standard output, and nothing else.",
    type=output_file,
)
@option("--all all_", "List every decision in the table, not only what is wrong.")
@option("-f --follow", "Go on with what is appended: say what is wrong as soon as it is settled.")
@option(
    "--settle settle_s SECONDS",
    "With --follow: seconds after which no later record changes a verdict.",
    type=Seconds(min=0),
    default=5.0,
)
@metrics_option("With --follow: serve /metrics, /healthz, /readyz.")
@output_option("table", "wide", "json", "jsonl", "csv")
@reports_errors
def verify(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    strict: bool,
    junit: Path | None,
    all_: bool,
    follow: bool,
    settle_s: float,
    metrics_address: str | None,
    output: str,
) -> None:
    """Decide every recorded decision again, by the rules of that kubelet version.

    Each is a match (what `decide` gives), admissible (another choice the kubelet had),
    impossible, or unverifiable, and then the missing input is named. SOURCE is a ledger, a
    *.ledger.jsonl file, or a node's files, which are imported temporarily; without one
    the ledger is verified. What can never be, one device in two pods for instance, is a violation.
    Exits with 1 when a decision is impossible, or something is violated.

    `-o json` holds counts, every decision, contradiction and violation; `-o jsonl` and `-o csv`
    have a line for each. Decisions that an import inferred are counted apart.

    With --follow, whatever may still change is verified again each time a recorder or an import has
    appended to the ledger, since evidence for a decision may come after it. Impossible and missed
    decisions and contradictions are reported once, --settle seconds later by the ledger's time, or
    after the ledger has stood still for that long; what later records put right is withdrawn.
    Verifying takes at most a tenth of the time. Ctrl-C ends it, with exit code 1 if anything
    impossible is left.
    """
    if follow:
        from kubeledger.cli.verify_output import follow_verdicts

        if sources or junit is not None:
            raise click.UsageError("--follow follows the ledger: without SOURCE and --junit")
        wrong = follow_verdicts(ledger, node, settle_s, output, metrics_address)
        sys.exit(_DIFFERENCE if wrong else 0)
    if metrics_address is not None:
        raise click.UsageError("--metrics-address is for --follow")

    from kubeledger.cli.files import is_standard
    from kubeledger.cli.verify_output import junit_writer, writer_of
    from kubeledger.verify.finding import Tally

    tally = Tally()
    with ExitStack() as stack:
        histories = stack.enter_context(histories_for(sources, ledger, node))
        writers = []
        if not is_standard(junit):
            stack.enter_context(paged(wanted=output in ("table", "wide")))
            writers.append(stack.enter_context(writer_of(output, all_)))
        if junit is not None:
            writers.append(stack.enter_context(junit_writer(junit)))
        for history in histories:
            for writer in writers:
                writer.begin(history.node)
            for outcome in history.keeping(_asked_next).verify():
                tally.add(outcome)
                for writer in writers:
                    writer.write(outcome)
        for writer in writers:
            writer.end(tally)
    if tally.count("impossible") or tally.violations:
        sys.exit(_DIFFERENCE)
    if strict and (tally.count("unverifiable") or tally.contradictions):
        sys.exit(_UNVERIFIED)


def _asked_next() -> Sequence[Fold[Any]]:
    """Where all records are read anyhow, what a question about a pod would read them for."""
    from kubeledger.analyze.why.names import kept_folds

    return kept_folds()


@contextmanager
def histories_for(
    sources: tuple[str, ...], ledger: Path, node: str | None
) -> Iterator[list[History]]:
    """Histories of the sources, or of the ledger when there are none; losses are warned of.

    Raises:
        BadInputError: the sources hold no record.
        BadQuestionError: the ledger holds none, or there is none of ``node``.
        KubeledgerError: as ``open_histories``.
    """
    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.analyze.histories.sources import open_histories
    from kubeledger.cli.files import warn_of_losses, warn_of_losses_in
    from kubeledger.cli.progress import progress, watched
    from kubeledger.ledger.ledger import Ledger

    if not sources:
        opened = Ledger.open(ledger)
        warn_of_losses(opened, node)
        with progress("reading the ledger") as bar:
            histories = histories_of_ledger(opened, node)
            totals = {each.node: opened.info(each.node).last_seq for each in histories}
            yield watched(histories, bar, totals)
        return
    with progress("reading the sources") as bar, open_histories(sources, node=node) as histories:
        if not histories and node is None:
            raise BadInputError("no source holds a record", advice="name other files")
        if not histories:
            raise BadQuestionError(f"no source holds a record of node {node!r}")
        warn_of_losses_in(histories)
        yield watched(histories, bar, {})
