"""A ledger of what a command's sources hold, for commands that ask SQL."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from kubeledger.cli.output import printable
from kubeledger.ledger.storage import OWN_DIRECTORY
from kubeledger.model.errors import KubeledgerError

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.model.bodies.ledger import RecordsLost


@contextmanager
def ledger_for(sources: Sequence[str], ledger: Path) -> Iterator[Path]:
    """Directory of a ledger that holds the sources' records.

    Args:
        sources: ledgers, recordings, or whatever an import takes. One ledger is used as it is;
            of anything else a ledger is made that is thrown away at the end.
        ledger: the one to use where there are no sources.

    Raises:
        BadInputError: a source cannot be read, or is an excerpt, whose records do not begin with
            the first.
        KubeledgerError: as of an import or of the ledger.
    """
    from kubeledger import open as open_ledger
    from kubeledger.analyze.histories.sources import is_ledger, open_histories
    from kubeledger.ingest.api import import_sources
    from kubeledger.ledger.ledger import Ledger

    if not sources or (len(sources) == 1 and sources[0] and is_ledger(Path(sources[0]))):
        yield Ledger.open(Path(sources[0]) if sources else ledger).path
        return
    with tempfile.TemporaryDirectory(prefix="kubeledger-") as scratch:
        copy = Path(scratch) / "ledger"
        if all(each and each != "-" and not _holds_records(Path(each)) for each in sources):
            import_sources(sources, Ledger.create(copy), keep=False)
        else:
            with open_histories(sources) as histories, open_ledger(copy) as opened:
                for history in histories:
                    opened.append(history.read(None))
        yield copy


@contextmanager
def redacted_ledger(ledger: Ledger, wanted: Filter, key: bytes) -> Iterator[Path]:
    """Directory of a ledger that holds the records with pseudonyms for names; thrown away."""
    from kubeledger.analyze.redaction import redacted
    from kubeledger.analyze.sql.exports import records_of_excerpt
    from kubeledger.ledger.standalone import write_recording

    with tempfile.TemporaryDirectory(prefix="kubeledger-") as scratch:
        recording = Path(scratch) / "redacted.ledger.jsonl"
        write_recording(recording, redacted(lambda: records_of_excerpt(ledger, wanted), key))
        with ledger_for([str(recording)], recording) as directory:
            yield directory


def _holds_records(path: Path) -> bool:
    from kubeledger.analyze.histories.sources import is_ledger, is_recording

    return is_ledger(path) or is_recording(path)


def warn_of_losses(ledger: Ledger, node: str | None = None) -> None:
    """One line on stderr for each node of a ledger, or the one named, that lost records.

    A ledger that cannot be read is not this function's matter.
    """
    try:
        for name in ledger.nodes():
            if node in (None, name):
                _warn(name, [loss.lost for loss in ledger.info(name).missing])
    except KubeledgerError:
        return


def warn_of_readers(ledger: Path) -> None:
    """One line on stderr where others than its user can read a ledger, or write to it."""
    if ledger.stat().st_mode & ~OWN_DIRECTORY & 0o777:
        advice = f"chmod -R go= {quote(str(ledger))}"
        click.echo(
            f"warning: other users can read {ledger}, which holds what pods were given: {advice}",
            err=True,
        )


def warn_of_losses_in(histories: Iterable[History]) -> None:
    """As :func:`warn_of_losses`, from the records of histories.

    Raises:
        KubeledgerError: records cannot be read.
    """
    from kubeledger.verify.evidence.line_classes import LostRecords

    for history in histories:
        lost = LostRecords()
        for record in history.read({body.kind for body in LostRecords.KINDS}):
            lost.note(record)
        _warn(history.node, [body for _, body in lost.missing()])


def _warn(node: str, losses: list[RecordsLost]) -> None:
    if losses:
        spans = ", ".join(
            f"{loss.first_seq} to {loss.last_seq}"
            if loss.first_seq < loss.last_seq
            else str(loss.last_seq)
            for loss in losses
        )
        words = (
            f"warning: the ledger lost acknowledged records of {node} ({spans}): the answer rests "
            "on what is left; import the same sources again, `kubeledger audit` shows more"
        )
        click.echo(printable(words), err=True)
