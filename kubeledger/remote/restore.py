"""A ledger from the copies that ``remote.shipping`` made, proved before it is there.

Names in a bucket may be anybody's: what is odd is left out and told, and a copy that cannot be
proved is one node less, not the end of the others.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kubeledger.ledger.audit import audit
from kubeledger.ledger.base import BASE
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, NodeInfo, load_manifest, save_manifest
from kubeledger.ledger.segments import list_segments
from kubeledger.ledger.storage import (
    MANIFEST,
    NODES,
    SEGMENTS,
    SHARED_DIRECTORY,
    TEMPORARY_SUFFIX,
    file_crc,
    make_directory,
    node_directory,
    segment_first_seq,
    storage_errors,
    sync_directory,
)
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError, KubeledgerError
from kubeledger.remote.store import Refused, StorageError, Store, StoredObject, no_directory

_FILE = re.compile(
    r"(?:(?P<prefix>.*)/)?(?P<name>nodes/(?P<directory>[^/]+)/"
    r"(?:segments/\d{20}\.jsonl\.zst|base\.json|base/\d{20}\.zst))"
)
"""What of a copy is taken, and nothing else: names in a bucket may be anybody's."""

_STAGING = ".restoring"
_ALONE = ".alone"
"""Of a node's own ledger, until all are proved."""
_DAMAGED = ".damaged"


class Copy(NamedTuple):
    """A node's ledger as it was shipped.

    Attributes:
        prefix: below the store's URL; empty if the URL is the copy's own.
        files: segments and what stands in place of dropped records.
    """

    prefix: str
    directory: str
    files: tuple[StoredObject, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def name_of(self, file: StoredObject) -> str:
        """A file's path in a ledger."""
        return file.path.removeprefix(f"{self.prefix}/") if self.prefix else file.path


class Copies(NamedTuple):
    """What is below a URL.

    Attributes:
        unknown: folders that may hold more, for their names could not all be listed.
    """

    copies: tuple[Copy, ...]
    unknown: tuple[Refused, ...]


class Restored(NamedTuple):
    """A node of a restored ledger."""

    node: str
    first_seq: int
    last_seq: int
    head: str


class Outcome(NamedTuple):
    """What a restore gave.

    Attributes:
        nodes: that are in the ledger.
        left_out: where objects are that were not taken, and why.
        failed: a node's directory, and why it is not there.
    """

    nodes: tuple[Restored, ...]
    left_out: tuple[Refused, ...]
    failed: tuple[tuple[str, KubeledgerError], ...]


def find_copies(store: Store, node: str | None = None) -> Copies:
    """Copies below a URL: one of a copy, of a node, or of all that was shipped to.

    Args:
        node: only copies of this node.

    Raises:
        BadQuestionError: there is none.
        StorageError: as storage does.
    """
    directory = "" if node is None else node_directory(node)
    copies, unknown = _found(store, directory)
    if node is not None:
        if not copies:
            copies, unknown = _found(store)
        copies = [copy for copy in copies if copy.directory == directory]
    if not copies:
        of = f" of {node}" if node is not None else ""
        advice = "`kubeledger ship` makes one"
        for each in unknown:
            advice = f"{store.address(each.path)} cannot be listed: {each.reason}"
        raise BadQuestionError(f"no shipped ledger{of} is there", advice=advice, file=store.url)
    return Copies(tuple(copies), tuple(unknown))


def restore(store: Store, found: Copies, directory: Path) -> Outcome:
    """Make a new ledger of copies, which is there once all of it is proved.

    What was downloaded before an end is not downloaded again. Of several nodes, those whose copy
    is sound are restored; what was downloaded of another one is kept beside the ledger.

    Args:
        directory: of the ledger; nothing may be there, or an empty directory.

    Raises:
        BadQuestionError: something is there, no directory can be made there, or all nodes have
            two copies.
        DamagedLedgerError: all copies are incomplete or damaged.
        StorageError: as storage does.
        LedgerUnavailableError: the disk refuses.
    """
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
    by_node: dict[str, list[Copy]] = {}
    for copy in found.copies:
        by_node.setdefault(copy.directory, []).append(copy)
    restored: list[Restored] = []
    left_out = list(found.unknown)
    failed: list[tuple[str, KubeledgerError]] = []
    for name, copies in by_node.items():
        try:
            _refuse_several(store, copies)
            proved, odd = _brought(store, copies[0], staging / (name + _ALONE))
        except (BadQuestionError, DamagedLedgerError, StorageError) as error:
            failed.append((name, error))
            continue
        restored.append(proved)
        left_out += odd
    if not restored:
        raise failed[0][1]
    _join(staging, [node.node for node in restored], directory)
    return Outcome(tuple(restored), tuple(left_out), tuple(failed))


def _join(staging: Path, nodes: Sequence[str], directory: Path) -> None:
    """One ledger of those that were proved alone; it gets its name last."""
    with storage_errors("make the ledger", directory):
        joined = Manifest(nodes={})
        for node in nodes:
            alone = staging / (node_directory(node) + _ALONE)
            joined.nodes |= (load_manifest(alone) or joined).nodes
            here = staging / NODES / node_directory(node)
            shutil.rmtree(here, ignore_errors=True)  # of one who died right here
            os.replace(alone / NODES / here.name, here)  # noqa: PTH105 - named as the system call it is
            shutil.rmtree(alone)
        save_manifest(staging, joined)
        if directory.exists():
            directory.rmdir()
        rest = sorted(staging.glob("*" + _ALONE))
        if rest:
            aside = directory.with_name(directory.name + _DAMAGED)
            make_directory(aside)
            for each in rest:
                shutil.rmtree(aside / each.name, ignore_errors=True)
                os.replace(each, aside / each.name)  # noqa: PTH105 - named as the system call it is
        os.sync()
        os.rename(staging, directory)  # noqa: PTH104 - named as the system call it is
        sync_directory(directory.absolute().parent)


def _found(store: Store, prefix: str = "") -> tuple[list[Copy], list[Refused]]:
    objects, unknown = store.find(prefix)
    return _copies(objects), unknown


def _brought(store: Store, copy: Copy, place: Path) -> tuple[Restored, list[Refused]]:
    """One copy as a ledger of its own, proved; and what was found there that is not of it."""
    with storage_errors("make the ledger", place):
        make_directory(place / NODES)
    # First what the manifest counts, then what is there: more may come in between.
    counted = _counted(store, copy, place)
    listed, unknown = _found(store, copy.prefix)
    files = [file for fresh in listed if fresh[:2] == copy[:2] for file in fresh.files]
    segments = [segment for info in counted.values() for segment in info.segments]
    last_seq = segments[-1].last_seq if segments else 0
    known = {segment.first_seq for segment in segments}
    later: list[tuple[StoredObject, Path]] = []
    left_out: list[Refused] = []
    for file in files:
        path = place / copy.name_of(file)
        first_seq = segment_first_seq(path.name) if path.parent.name == SEGMENTS else None
        if first_seq is not None and first_seq not in known:
            if first_seq <= last_seq:
                left_out.append(Refused(file.path, "the copy's manifest does not count it"))
                continue
            later.append((file, path))
        _download(store, file, path)
    try:
        proved = _proved(place, counted)
    except DamagedLedgerError as error:
        if not (counted and later):
            raise
        for file, path in later:
            path.unlink()
            reason = f"does not continue the copy: {error.message}"
            left_out.append(Refused(file.path, reason))
        proved = _proved(place, counted)
    return proved, [*left_out, *unknown]


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
    if len(copies) > 1:
        places = ", ".join(f"{store.address(c.prefix)} ({c.size_bytes:,} bytes)" for c in copies)
        raise BadQuestionError(
            f"there are {len(copies)} ledgers of {copies[0].directory}: {places}",
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
        if path.name == BASE or not path.exists():
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


def _proved(place: Path, counted: Mapping[str, NodeInfo]) -> Restored:
    """Every byte."""
    with storage_errors("make the ledger", place):
        save_manifest(place, Manifest(nodes=dict(counted)))
        _count(Ledger.open(place))
    report = audit(Ledger.open(place))
    for finding in report.findings:
        if not finding.is_loss:  # what was lost before it was shipped is no damage of the copy
            raise DamagedLedgerError(
                finding.problem,
                advice="the copy is damaged; what was downloaded stays beside the ledger",
                file=finding.file,
                offset=finding.offset,
            )
    (node,) = report.nodes
    return Restored(node.node, node.first_seq, node.last_seq, node.head)
