"""Where lakes and sources of tests stand, and small sources to put there."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import msgspec
import zstandard

from kubeledger.fleet.rules import rules_version
from kubeledger.fleet.store import Store
from kubeledger.fleet.task import node_task
from kubeledger.fleet.types import Head, NodeResult, NodeSpec

RECORDING = Path(__file__).parent.parent.parent / "recordings" / "node-a.tar.zst"
NAME = b"node-a"
MACHINE = "a" * 32
LINES = 1200
"""Of a small log: a start, and the first pods."""


class Place:
    """A directory or a bucket.

    Attributes:
        url: of it.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def put(self, name: str, path: Path) -> str:
        """Copy a file or a directory there; returns its URL."""
        store = Store(self.url, make=True)
        files = sorted(file for file in path.rglob("*") if file.is_file()) or [path]
        for file in files:
            below = "" if file == path else f"/{file.relative_to(path).as_posix()}"
            store.replace(f"{name}{below}", file.read_bytes())
        return f"{self.url}/{name}"


@cache
def recorded_file(name: str) -> bytes:
    """A file of the recording of node-a."""
    with (
        zstandard.open(RECORDING) as plain,
        tarfile.open(fileobj=plain, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member)
            if member.name.endswith(f"/{name}") and content is not None:
                return content.read()
    raise AssertionError(name)


def log_lines(first: int = 0, last: int = LINES, node: str = "node-a") -> bytes:
    """Some lines of its log."""
    lines = recorded_file("kubelet.log").splitlines(keepends=True)[first:last]
    return b"".join(lines).replace(NAME, node.encode())


def write_bundle(
    directory: Path,
    *,
    node: str = "node-a",
    machine: str | None = MACHINE,
    labels: Iterable[tuple[str, str]] = (),
    log: bytes | None = None,
) -> Path:
    """A small bundle: a part of the log, and the node object unless no machine is to be told."""
    directory.mkdir(parents=True)
    (directory / "kubelet.log").write_bytes(log_lines(node=node) if log is None else log)
    if machine is not None:
        told = msgspec.json.decode(recorded_file("node.json").replace(NAME, node.encode()))
        told["status"]["nodeInfo"]["machineID"] = machine
        told["metadata"]["labels"] |= dict(labels)
        (directory / "node.json").write_bytes(msgspec.json.encode(told))
    return directory


class Killed(BaseException):
    """The process ends here; nothing of it can be caught by the code under test."""


class DyingStore(Store):
    """A store of a process that dies before its n-th write."""

    writes_left = 1 << 30

    def _spend(self) -> None:
        if self.writes_left == 0:
            raise Killed
        self.writes_left -= 1

    def create(self, path: str, content: bytes | Path) -> bool:
        """Write, or die."""
        self._spend()
        return super().create(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Write, or die."""
        self._spend()
        super().replace(path, content)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove one after the other, or die."""
        for path in paths:
            self._spend()
            super().delete([path])


Task = Callable[..., NodeResult]


def task(lake: str, source: str | None = None, **options: object) -> NodeResult:
    """Run a task here."""
    given = {"year": 2026, "rules": rules_version()} | options
    return node_task(NodeSpec(lake=lake, source=source, **given))  # type: ignore[arg-type]  # as the caller says


def task_elsewhere(
    environment: dict[str, str], lake: str, source: str | None = None, **options: object
) -> None:
    """Run a task in a process that may not have this environment."""
    os.environ.update(environment)
    head_of(task(lake, source, **options))


def head_of(result: NodeResult) -> Head:
    """The only node of a task that went well."""
    assert result.failure is None, result.failure
    (head,) = result.heads
    return head
