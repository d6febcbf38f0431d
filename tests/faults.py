"""A disk that fails where a test wants it to, and one that loses power.

    with FaultyDisk(directory, Fault(at=7, error=errno.ENOSPC)):
        ...                                # the seventh call that touches the disk fails

    with suppress(PowerCut), FaultyDisk(directory, Fault(at=7, crash=True)) as disk:
        ...                                # the process dies in the middle of the call
    disk.lose_power("strict")              # and the machine with it

While the disk is in place, the calls of ``os`` by which files change (those of
``CALLS``) pass through it, as far as they concern the directory. A sync is only taken down
and not carried out: the disk knows what a sync would have made durable, which is quicker, and
lets it play through what a real disk may keep and forget. Other ways to write files
(``open(..., "w")``) are not seen; the ledger uses none.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec

CALLS = ("open", "write", "fsync", "close", "replace", "unlink", "mkdir", "ftruncate", "fstat")

Loss = Literal["nothing", "strict", "unsynced", "half", "blank"]
"""What a power cut takes, beyond what was on its way:

``nothing``: only the process died. ``strict``: all that was not synced, names too. The others
keep names and lose content that was not synced: ``unsynced`` all of it, ``half`` its second
half, ``blank`` puts zeros in its place (blocks were given to the file before their content).
"""

LOSSES: tuple[Loss, ...] = ("nothing", "strict", "unsynced", "half", "blank")


class PowerCut(BaseException):  # no error of the program, and nothing may catch it
    """The process dies here: from now on nothing reaches the disk."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls fail, and how.

    Attributes:
        at: the n-th call, from 1, of those that count.
        call: only calls of this name count; None: all of ``CALLS``.
        error: errno of the failure.
        lasting: all later calls that count fail, too.
        short: a write that fails puts half of its bytes on the disk before.
        crash: :class:`PowerCut` instead of an error, for this call and all later ones.
    """

    at: int
    call: str | None = None
    error: int = errno.EIO
    lasting: bool = False
    short: bool = False
    crash: bool = False


class _File:
    """A file whatever its name; ``durable`` is its content as of the last sync."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable


class FaultyDisk:
    """A directory on a disk that fails by plan; one at a time in a process.

    Attributes:
        calls: names of the calls so far; ``len(disk.calls)`` bounds ``Fault.at``.
    """

    def __init__(self, directory: Path, fault: Fault | None = None) -> None:
        self.directory = directory.absolute()
        self.calls: list[str] = []
        self._fault = fault
        self._counted = 0
        self._dead = False
        self._lock = threading.RLock()
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}
        self._descriptors: dict[int, Path] = {}
        self._names: dict[Path, _File] = {}
        self._durable_names: dict[Path, _File] = {}
        self._durable_directories: set[Path] = {self.directory}

    def __enter__(self) -> FaultyDisk:
        for path in sorted(self.directory.rglob("*")):
            if path.is_dir():
                self._durable_directories.add(path)
            else:
                self._names[path] = self._durable_names[path] = _File(path.read_bytes())
        for name in CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """The real calls again."""
        for name, real in self._real.items():
            setattr(os, name, real)

    @property
    def struck(self) -> bool:
        """Whether the fault came."""
        return self._fault is not None and self._counted >= self._fault.at

    def lose_power(self, loss: Loss) -> None:
        """Leave of the directory what such a power cut leaves; to be called after the context."""
        names = self._durable_names if loss == "strict" else self._names
        if loss == "nothing":
            return
        contents = {path: self._left(path, file, loss) for path, file in names.items()}
        for path in sorted(self.directory.rglob("*"), reverse=True):
            if not path.is_dir():
                path.unlink()
            elif loss == "strict" and path not in self._durable_directories:
                path.rmdir()
        for path, content in contents.items():
            if path.parent.is_dir():
                path.write_bytes(content)

    def _left(self, path: Path, file: _File, loss: Loss) -> bytes:
        if loss == "strict":
            return file.durable
        now = path.read_bytes()
        if not now.startswith(file.durable):
            return now  # cut back, and that reached the disk
        rest = now[len(file.durable) :]
        kept = {"unsynced": b"", "half": rest[: len(rest) // 2], "blank": bytes(len(rest))}
        return file.durable + kept[loss]

    def _strike(self, name: str) -> bool:
        """Count a call; whether it is to fail."""
        self.calls.append(name)
        fault = self._fault
        if fault is None or fault.call not in {None, name}:
            return False
        self._counted += 1
        if fault.crash and self._counted >= fault.at:
            self._dead = True
        return self._counted == fault.at or (fault.lasting and self._counted > fault.at)

    def _enter(self, name: str) -> None:
        if self._strike(name) or self._dead:
            self._fail()

    def _fail(self) -> None:
        if self._dead:
            raise PowerCut
        assert self._fault is not None
        raise OSError(self._fault.error, os.strerror(self._fault.error))

    def _ours(self, path: object) -> Path | None:
        if not isinstance(path, str | Path):
            return None
        place = Path(path).absolute()
        return place if place.is_relative_to(self.directory) else None

    def _open(self, path: object, flags: int, mode: int = 0o777, **named: Any) -> int:  # noqa: ANN401 # as os.open
        place = self._ours(path)
        real = self._real["open"]
        if place is None:
            return int(real(path, flags, mode, **named))
        with self._lock:
            self._enter("open")
            descriptor = int(real(path, flags, mode, **named))
            self._descriptors[descriptor] = place
            if not flags & os.O_DIRECTORY:
                self._names.setdefault(place, _File())
            return descriptor

    def _write(self, descriptor: int, data: Any) -> int:  # noqa: ANN401 # any buffer, as os.write
        real = self._real["write"]
        if descriptor not in self._descriptors:
            return int(real(descriptor, data))
        with self._lock:
            fails = self._strike("write")
            if (fails or self._dead) and self._fault is not None:
                # A crash in the middle of a write leaves a part of it; a dead process nothing.
                if fails and (self._fault.short or self._fault.crash):
                    real(descriptor, data[: len(data) // 2])
                self._fail()
            return int(real(descriptor, data))

    def _fsync(self, descriptor: int) -> None:
        place = self._descriptors.get(descriptor)
        if place is None:
            self._real["fsync"](descriptor)
            return
        with self._lock:
            self._enter("fsync")
            if not place.is_dir():
                if place in self._names:
                    self._names[place].durable = place.read_bytes()
                return
            for names in (self._durable_names, self._names):
                for path in [path for path in names if path.parent == place]:
                    self._settle(path)
            self._durable_directories |= {path for path in place.iterdir() if path.is_dir()}

    def _settle(self, path: Path) -> None:
        """Make durable whether a name is there."""
        if path in self._names:
            self._durable_names[path] = self._names[path]
        else:
            self._durable_names.pop(path, None)

    def _close(self, descriptor: int) -> None:
        real = self._real["close"]
        if descriptor not in self._descriptors:
            real(descriptor)
            return
        with self._lock:
            del self._descriptors[descriptor]
            real(descriptor)  # closed even if it fails, as Linux does; and by a dead process
            if self._strike("close") and not self._dead:
                self._fail()

    def _replace(self, source: object, target: object) -> None:
        old, new = self._ours(source), self._ours(target)
        if old is None or new is None:
            self._real["replace"](source, target)
            return
        with self._lock:
            self._enter("replace")
            self._real["replace"](source, target)
            self._names[new] = self._names.pop(old)

    def _unlink(self, path: object, **named: Any) -> None:  # noqa: ANN401 # as os.unlink
        place = self._ours(path)
        if place is None:
            self._real["unlink"](path, **named)
            return
        with self._lock:
            self._enter("unlink")
            self._real["unlink"](path, **named)
            self._names.pop(place, None)

    def _mkdir(self, path: object, mode: int = 0o777, **named: Any) -> None:  # noqa: ANN401 # as os.mkdir
        if self._ours(path) is None:
            self._real["mkdir"](path, mode, **named)
            return
        with self._lock:
            self._enter("mkdir")
            self._real["mkdir"](path, mode, **named)

    def _ftruncate(self, descriptor: int, size_bytes: int) -> None:
        if descriptor in self._descriptors:
            with self._lock:
                self._enter("ftruncate")
                self._real["ftruncate"](descriptor, size_bytes)
            return
        self._real["ftruncate"](descriptor, size_bytes)

    def _fstat(self, descriptor: int) -> os.stat_result:
        if descriptor in self._descriptors:
            with self._lock:
                self._enter("fstat")
        status: os.stat_result = self._real["fstat"](descriptor)
        return status
