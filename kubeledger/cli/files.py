"""Files and ledgers that a command reads and writes; ``-`` is standard input and output.

An input that cannot be read is bad input, an output that cannot be written an
:class:`OutputError`: neither is the fault of a ledger.
"""

from __future__ import annotations

import errno
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import IO, TYPE_CHECKING, BinaryIO

import click

from kubeledger.cli.output import printable
from kubeledger.ledger.storage import OWN_DIRECTORY, TEMPORARY_SUFFIX, NotRegularError, read_regular
from kubeledger.model.errors import (
    BadInputError,
    KubeledgerError,
    LedgerUnavailableError,
    OutputError,
    reason_of,
)

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.analyze.sql.listing import Filter
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.model.bodies.ledger import RecordsLost

STANDARD_INPUT = "standard input"
STANDARD_OUTPUT = "standard output"
"""What messages call them."""

_ADVICE = {
    errno.ENOENT: "make the directory first",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
}


def is_standard(name: str | Path | None) -> bool:
    """Whether a name stands for standard input or output."""
    return str(name) == "-"


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, or standard input.

    Raises:
        BadInputError: it cannot be opened.
    """
    if is_standard(name):
        yield _stdin()
        return
    with _input_errors(name):
        file = Path(name).open("rb")  # noqa: SIM115 # errors of the caller are others
    with file:
        yield file


def read_input(name: str, bytes_max: int) -> bytes:
    """The content of a regular file, or of standard input.

    Raises:
        BadInputError: it cannot be read, or is larger than that.
    """
    if not is_standard(name):
        with _input_errors(name):
            return read_regular(Path(name), bytes_max, links=True)
    data = _stdin().read(bytes_max + 1)
    if len(data) > bytes_max:
        raise BadInputError(f"is larger than {bytes_max >> 20} MiB", file=STANDARD_INPUT)
    return data


@contextmanager
def _input_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL byte
        from kubeledger.ingest.sources.streams import permission_advice

        reason = reason_of(error)
        piped = isinstance(error, NotRegularError)
        advice = "give - and pipe into it" if piped else permission_advice(error)
        raise BadInputError(
            f"cannot be read: {reason.lower()}", file=name, advice=advice
        ) from error


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise BadInputError("is closed", file=STANDARD_INPUT)
    return sys.stdin.buffer


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Tell errors of writing the output at ``path`` from all others.

    Raises:
        OutputError: the file cannot be written.
    """
    own = {str(path), f"{path}{TEMPORARY_SUFFIX}"}
    try:
        yield
    except LedgerUnavailableError as error:
        if error.file not in own or not isinstance(error.__cause__, OSError):
            raise
        raise _output_error(path, error.__cause__) from error
    except OSError as error:
        if error.filename not in own:
            raise
        raise _output_error(path, error) from error


def _output_error(path: Path, error: OSError) -> OutputError:
    reason = reason_of(error).lower()
    advice = _ADVICE.get(error.errno or 0, "name another file")
    return OutputError(f"cannot be written: {reason}", advice=advice, file=str(path))


@contextmanager
def new_output(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of the one at ``path`` when all of it was written, or never.

    ``-`` is standard output.

    Raises:
        OSError: it cannot be written.
    """
    if is_standard(path):
        yield sys.stdout.buffer
        return
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        if error.filename is None:  # of a write, which knows its descriptor only
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_lines_to(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines of records to a file, all of it or nothing, or to standard output.

    Returns:
        how many.

    Raises:
        OutputError: the file cannot be written.
    """
    from kubeledger.ledger.standalone import write_lines

    if not is_standard(path):
        with output_errors(path):
            return write_lines(path, lines)
    count = 0
    for line in lines:
        sys.stdout.buffer.write(line)
        count += 1
    return count


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
