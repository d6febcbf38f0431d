"""Files that a command reads and writes for itself; ``-`` is standard input and output.

An input that cannot be read is bad input, an output that cannot be written an
:class:`OutputError`: neither is the fault of a ledger.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from kubeledger.ledger.storage import TEMPORARY_SUFFIX, NotRegularError, read_regular
from kubeledger.model.errors import BadInputError, LedgerUnavailableError, OutputError

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

        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
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
    reason = (error.strerror or str(error)).lower()
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
