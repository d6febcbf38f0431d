"""Where lakes and sources of tests stand, and small sources to put there."""

import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import zstandard

from kubeledger.fleet.generation import commit_generation
from kubeledger.fleet.identity import rules_version
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.task import node_task
from kubeledger.fleet.types import Head, NodeResult, NodeSpec, NodeSummary, SourceSeen
from kubeledger.ledger.ledger import Ledger

RECORDING = Path(__file__).parent.parent.parent / "recordings" / "node-a.tar.zst"
NAME = b"node-a"
MACHINE = "a" * 32
LINES = 1200
"""Of a small log: a start, and the first pods."""


@cache
def recorded_file(name: str) -> bytes:
    """A file of the recording of node-a."""
    with zstandard.open(RECORDING) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if member.name.endswith(f"/{name}") and content is not None:
                return content.read()
    raise AssertionError(name)


def log_lines(first: int = 0, last: int = LINES, node: str = "node-a") -> bytes:
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
        reported = msgspec.json.decode(recorded_file("node.json").replace(NAME, node.encode()))
        reported["status"]["nodeInfo"]["machineID"] = machine
        reported["metadata"]["labels"] |= dict(labels)
        (directory / "node.json").write_bytes(msgspec.json.encode(reported))
    return directory


Task = Callable[..., NodeResult]


def task(lake: str, source: str | None = None, **options: object) -> NodeResult:
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


# Lakes for tests: a ledger of one node becomes the node's next generation, as by an import.


def put_node(lake: Lake, ledger: Path, key: str, *, pool: str | None = None) -> Head:
    """Put a ledger of one node into a lake, as the next generation of the node of that key."""
    (name,) = Ledger.open(ledger).nodes()
    source = SourceSeen(url=str(ledger), stamp="", digest=f"{hash(ledger):x}", size_bytes=1)
    with TemporaryDirectory() as scratch:
        shutil.copytree(ledger, Path(scratch) / "ledger")
        summary = NodeSummary(node=key, name=name, pool=pool)
        return commit_generation(lake, Path(scratch), (source,), summary, lake.head(key))
