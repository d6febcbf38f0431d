"""A ledger from the copies that ``remote.shipping`` made, proved before it is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, NodeInfo, load_manifest, save_manifest
from kubeledger.ledger.names import (
    MANIFEST,
    NODES,
    SEGMENTS,
    TEMPORARY_SUFFIX,
    node_directory,
)
from kubeledger.ledger.regular import file_crc
from kubeledger.ledger.segments import list_segments
from kubeledger.ledger.storage import (
    SHARED_DIRECTORY,
    make_directory,
    storage_errors,
    sync_directory,
)
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError
from kubeledger.remote.store import Store, StoredObject, no_directory

__all__ = ["Copy", "Restored", "find_copies", "restore"]

_FILE = re.compile(
    r"(?:(?P<prefix>.*)/)?(?P<name>nodes/(?P<directory>[^/]+)/"
    r"(?:segments/\d{20}\.jsonl\.zst|base\.json|base/\d{20}\.zst))"
)
"""What of a copy is taken, and nothing else: names in a bucket may be anybody's."""

_STAGING = ".restoring"


class Copy(NamedTuple):
    """A node's ledger as it was shipped.

    Attributes:
        prefix: below the store's URL; empty if the URL is the copy's own.
        directory: of the node, as in a ledger.
        files: segments and what stands in place of dropped records.
    """

    prefix: str
    directory: str
    files: tuple[StoredObject, ...]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def name_of(self, file: StoredObject) -> str:
        """A file's path in a ledger."""
        return file.path.removeprefix(f"{self.prefix}/") if self.prefix else file.path


class Restored(NamedTuple):
    """A node of a restored ledger."""

    node: str
    first_seq: int
    last_seq: int
    head: str


def find_copies(store: Store, node: str | None = None) -> list[Copy]:
    """Copies below a URL: one of a copy, of a node, or of all that was shipped to.

    Args:
        store: of the URL.
        node: only copies of this node.

    Raises:
        BadQuestionError: there is none.
        StorageError: as storage does.
    """
    if node is None:
        copies = _copies(store.list())
    else:
        directory = node_directory(node)
        copies = _copies(store.list(directory)) or _copies(store.list())
        copies = [copy for copy in copies if copy.directory == directory]
    if not copies:
        of = f" of {node}" if node is not None else ""
        raise BadQuestionError(
            f"no shipped ledger{of} is there", advice="`kubeledger ship` makes one", file=store.url
        )
    return copies


def restore(store: Store, copies: Sequence[Copy], directory: Path) -> list[Restored]:
    """Make a new ledger of copies, which is there once all of it is proved.

    What was downloaded before an end is not downloaded again.

    Args:
        store: where the copies are.
        copies: (n,) each of another node.
        directory: of the ledger; nothing may be there, or an empty directory.

    Raises:
        BadQuestionError: something is there, no directory can be made there, or two copies are
            of one node.
        DamagedLedgerError: a copy is incomplete or damaged.
        StorageError: as storage does.
        LedgerUnavailableError: the disk refuses.
    """
    _refuse_several(store, copies)
    staging = directory.with_name(directory.name + _STAGING)
    with storage_errors("make the ledger", directory):
        try:
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                raise BadQuestionError(
                    f"{directory} is not empty", advice="name a new directory with --ledger DIR"
                )
            make_directory(staging.parent, SHARED_DIRECTORY)
            make_directory(staging / NODES)
        except OSError as error:
            raise no_directory(error, str(directory)) from error
    counted: dict[str, NodeInfo] = {}
    for copy in copies:
        # First what the manifest counts, then what is there: more may come in between.
        counted |= _counted(store, copy, staging)
        for fresh in _copies(store.list(copy.prefix)):
            for file in fresh.files if fresh[:2] == copy[:2] else ():
                _download(store, file, staging / fresh.name_of(file))
    with storage_errors("make the ledger", directory):
        save_manifest(staging, Manifest(nodes=counted))
        _count(Ledger.open(staging))
        restored = _proved(Ledger.open(staging))
        if directory.exists():
            directory.rmdir()
        os.sync()
        os.rename(staging, directory)  # noqa: PTH104 - named as the system call it is
        sync_directory(directory.absolute().parent)
    return restored


def _copies(objects: Iterable[StoredObject]) -> list[Copy]:
    """The copies that objects are of, sorted."""
    found: dict[tuple[str, str], list[StoredObject]] = {}
    for each in objects:
        match = _FILE.fullmatch(each.path)
        if match is not None:
            found.setdefault((match["prefix"] or "", match["directory"]), []).append(each)
    return sorted(
        Copy(prefix, directory, tuple(files)) for (prefix, directory), files in found.items()
    )


def _refuse_several(store: Store, copies: Sequence[Copy]) -> None:
    by_node: dict[str, list[Copy]] = {}
    for copy in copies:
        by_node.setdefault(copy.directory, []).append(copy)
    for directory, several in by_node.items():
        if len(several) > 1:
            places = ", ".join(
                f"{store.address(c.prefix)} ({c.size_bytes:,} bytes)" for c in several
            )
            raise BadQuestionError(
                f"there are {len(several)} ledgers of {directory}: {places}",
                advice="name one of them with --from",
            )


def _counted(store: Store, copy: Copy, staging: Path) -> dict[str, NodeInfo]:
    """What the copy's manifest counts; nothing where it is lost, for then lines are counted."""
    data = store.get(f"{copy.prefix}/{MANIFEST}" if copy.prefix else MANIFEST)
    path = staging / MANIFEST
    path.write_bytes(data or b"")
    manifest = load_manifest(staging)
    nodes = manifest.nodes if manifest else {}
    return {node: info for node, info in nodes.items() if node_directory(node) == copy.directory}


def _download(store: Store, file: StoredObject, path: Path) -> None:
    """A file that is there is whole: it got its name when it was."""
    with storage_errors("make the ledger", path):
        make_directory(path.parent)
        if path.name == "base.json" or not path.exists():
            part = path.with_name(path.name + TEMPORARY_SUFFIX)
            store.download(file.path, part)
            os.replace(part, path)  # noqa: PTH105 - named as the system call it is


def _count(ledger: Ledger) -> None:
    """Write the manifest with all that is there: a copy's manifest may lack its last segments."""
    nodes: dict[str, NodeInfo] = {}
    for node in ledger.nodes():
        info = nodes[node] = ledger.info(node)
        directory = ledger.path / NODES / node_directory(node) / SEGMENTS
        paths = {segment.first_seq: segment.path for segment in list_segments(directory)}
        for segment in info.segments:
            if not segment.sealed:
                segment.sealed = True
                segment.stored_bytes = paths[segment.first_seq].stat().st_size
                segment.stored_crc = file_crc(paths[segment.first_seq])
    save_manifest(ledger.path, Manifest(nodes=nodes))


def _proved(ledger: Ledger) -> list[Restored]:
    """Every byte.

    Raises:
        DamagedLedgerError: the first thing that is wrong.
    """
    report = audit(ledger)
    for finding in report.findings:
        if not finding.is_loss:  # what was lost before it was shipped is no damage of the copy
            raise DamagedLedgerError(
                finding.problem,
                advice=f"the copy is damaged; what was downloaded is in {ledger.path}",
                file=finding.file,
                offset=finding.offset,
            )
    return [Restored(node.node, node.first_seq, node.last_seq, node.head) for node in report.nodes]
