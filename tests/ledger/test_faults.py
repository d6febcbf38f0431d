"""The operating system refuses: each call, once. Nothing acknowledged is lost."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ledger import manifest
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import storage_errors, write_atomically
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.errors import KubeledgerError, LedgerUnavailableError
from tests.ledger.making import NODE, append, batch, ledger_of, segment_paths, seqs, sizes

CALLS = ["write", "fsync", "open", "replace", "unlink", "mkdir", "ftruncate", "fstat"]


class Fault:
    """Fails the ``at``-th call of one function of ``os``, and all after it if ``lasting``."""

    def __init__(self, call: str, at: int, *, lasting: bool, number: int = errno.EIO) -> None:
        self.real: Callable[..., Any] = getattr(os, call)
        self.at = at
        self.lasting = lasting
        self.number = number
        self.count = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the real one
        self.count += 1
        if self.count == self.at or (self.lasting and self.count > self.at):
            raise OSError(self.number, os.strerror(self.number))
        return self.real(*arguments, **named)


def session(ledger: Ledger) -> int:
    """Appends that roll segments over; how many records were acknowledged."""
    acknowledged = 0
    # Any other error, an OSError above all, would be one that a user cannot read.
    with suppress(LedgerUnavailableError), ledger.writer() as writer:
        for start in range(0, 12, 2):
            acknowledged = writer.append(NODE, batch(start, 2))[-1]
    return acknowledged


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("call", CALLS)
def test_each_call_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, lasting: bool
) -> None:
    """From the first call of its kind to the last that a session makes."""
    for at in range(1, 200):
        ledger = Ledger.create(tmp_path / f"{at}", WriterOptions(segment_bytes=2000))
        fault = Fault(call, at, lasting=lasting)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fault)
            acknowledged = session(ledger)
        if fault.count < at:
            break
        with ledger.writer() as writer:
            following = writer.next_seq(NODE)
            assert writer.append(NODE, batch(following - 1, 1)) == [following]
        assert acknowledged <= following - 1 <= 12
        assert sizes(ledger) == list(range(following))
        assert audit(ledger).findings == ()
    assert fault.count < at
    assert acknowledged == 12


def test_a_full_disk_leaves_the_writer_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a batch is taken back; with space again, the same writer goes on."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 300:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) // 2])

    before = segment_paths(ledger)[0].read_bytes()
    with ledger.writer() as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(LedgerUnavailableError, match="no space left") as caught:
                writer.append(NODE, batch(2, 5))
        assert caught.value.advice == "free some space and run it again"
        assert segment_paths(ledger)[0].read_bytes() == before
        assert writer.append(NODE, batch(2, 5)) == [3, 4, 5, 6, 7]
    assert audit(ledger).findings == ()


def test_after_a_failed_sync_the_writer_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another sync would prove nothing: only opening again does."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    with ledger.writer() as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", Fault("fsync", 2, lasting=False))
            with pytest.raises(LedgerUnavailableError, match="input/output error"):
                writer.append(NODE, batch(2, 2))
        with pytest.raises(LedgerUnavailableError, match="opened again"):
            writer.append(NODE, batch(2, 2))
    assert append(ledger, batch(2, 1)) == [[3]]


def test_an_interrupt_takes_the_batch_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a write is no half batch."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    write = os.write

    def interrupted(descriptor: int, data: bytes) -> int:
        write(descriptor, data[:700])
        raise KeyboardInterrupt

    before = segment_paths(ledger)[0].read_bytes()
    with ledger.writer() as writer, monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.append(NODE, batch(2, 5))
    assert segment_paths(ledger)[0].read_bytes() == before
    assert seqs(ledger) == [1, 2]


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EROFS, "read-only file system"),
        (errno.EACCES, "permission denied"),
        (errno.ENOSPC, "no space left"),
    ],
)
def test_a_ledger_that_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    """A clear sentence for a writer; readers need no lock."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    real = os.open

    def refuse(path: str, flags: int, *arguments: Any, **named: Any) -> int:  # noqa: ANN401 - as the real one
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number))
        return real(path, flags, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(LedgerUnavailableError, match=reason), ledger.writer():
            pass
        with pytest.raises(LedgerUnavailableError, match=reason):
            Ledger.create(tmp_path / "new")
        assert seqs(ledger) == [1, 2]


def test_a_directory_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No permission is told as such, not as an empty ledger."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(manifest, "read_regular", refuse)
    with pytest.raises(LedgerUnavailableError, match="permission denied"):
        Ledger.open(ledger.path)


def test_a_failed_replacement_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    for call in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, Fault(call, 1, lasting=True))
            with pytest.raises(OSError, match="Input/output error"):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]


def test_a_seal_that_fails_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All appends were acknowledged; the next writer seals."""
    ledger = Ledger.create(tmp_path / "l", WriterOptions(segment_bytes=1000))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("kubeledger.ledger.sealing.compress", full)
        with pytest.raises(KubeledgerError, match="no space left"):
            append(ledger, batch(0, 4), batch(4, 1))
    assert seqs(ledger) == [1, 2, 3, 4, 5]
    assert {path.suffix for path in segment_paths(ledger)} == {".jsonl"}
    append(ledger, batch(5, 1))
    assert [path.suffix for path in segment_paths(ledger)] == [".zst", ".jsonl"]
    assert seqs(ledger) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("doing", "advice"), [("read it", "read access"), ("seal it", "write access")]
)
def test_what_is_forbidden_is_named(tmp_path: Path, doing: str, advice: str) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "a" / "b"))
    with pytest.raises(LedgerUnavailableError) as reported, storage_errors(doing, tmp_path):
        raise refused
    assert reported.value.file == str(tmp_path / "a" / "b")
    assert advice in reported.value.advice
