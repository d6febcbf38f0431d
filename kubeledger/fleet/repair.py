"""What is damaged in a lake, made again: of a node from its ledger, or else from its sources.

A repaired node is its next generation, by the same protocol as an import's: nothing is written
over what a marker names, and who dies on the way, or comes second, has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kubeledger.fleet.contents import content_of, options_of
from kubeledger.fleet.generation import commit_generation, fetch_ledger
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import (
    CLAIMS,
    COMPACT,
    DONE,
    FAILURES,
    INDEX,
    LAKE,
    LEDGERS,
    NODES,
    CompactIndex,
    Index,
    LakeFormat,
    claim_path,
    decoded,
    done_path,
    encoded,
    node_of,
)
from kubeledger.fleet.sources import fetch, refuse_changed
from kubeledger.fleet.types import Failure, Head, LakeFile, NodeSpec, SourceSeen
from kubeledger.ledger.sealing import unsealed
from kubeledger.ledger.storage import node_directory, node_name
from kubeledger.model.errors import BadInputError, DamagedLedgerError
from kubeledger.remote.store import Store

_FIRST_LAYOUT = b'{"format":"kubeledger lake","layout":1}'
_DAMAGED = "it is not what was written there"
_GONE = "it is gone"
_NAMELESS = (
    "neither a marker nor a claim names this node: the lake lost it (import its sources again), or "
    "its first import died (`kubeledger fleet compact` removes what it left) or is still running"
)

_KINDS: dict[str, type[msgspec.Struct]] = {
    CLAIMS: Head,
    DONE: Head,
    INDEX: Index,
    COMPACT: CompactIndex,
    FAILURES: Failure,
}


def mend_small_files(url: str) -> list[str]:
    """Remove small files that cannot be read, and write again what the others show.

    A marker's claim says the same as it does. Where both are gone the lake does not know the node
    any more (``lost_nodes``), until its sources are imported again; what is left of it is used
    then. Indexes and compacted files are copies, and a failure is reported again.

    Returns:
        paths of what was damaged.

    Raises:
        BadQuestionError: there is no lake.
        StorageError: storage fails.
    """
    store = Store(url)
    damaged = []
    for room, kind in _KINDS.items():
        for each in store.list(room):
            if each.path.endswith(".json") and not _is_readable(store, each.path, kind):
                claimed = _claimed(store, each.path) if room == DONE else None
                if claimed is None:
                    store.delete([each.path])
                else:
                    store.replace(each.path, encoded(claimed))
                damaged.append(each.path)
    if not _names_layout(store) and (store.list(DONE) or store.list(CLAIMS)):
        store.replace(LAKE, encoded(LakeFormat()))  # markers of a newer layout are not readable
        damaged.append(LAKE)
    lake = Lake.open(url)
    damaged += [done_path(head.node, head.id) for head in lake.unmarked(lake.marked())]
    lake.complete_claims()
    claims = {each.path for each in store.list(CLAIMS)}
    for head in lake.heads().values():
        claim = claim_path(head.node, head.generation)
        if claim not in claims and store.create(claim, encoded(head)):
            damaged += [] if claim in damaged else [claim]
    compacted = lake.compacted_once()
    broken = [each for each in compacted if not lake.is_as_written(each.file)]
    if broken:
        lake.put_compacted(each for each in compacted if each not in broken)
    return damaged + [each.file.path for each in broken]


def flaws(url: str) -> Iterator[tuple[str, str]]:
    """Path of all that is missing or damaged in a lake, and what is wrong; nothing is changed.

    Raises:
        BadQuestionError: there is no lake.
        StorageError: storage fails.
    """
    store = Store(url)
    lake = Lake(store)
    small = {room: [e for e in store.list(room) if e.path.endswith(".json")] for room in _KINDS}
    bad = {
        each.path
        for room, kind in _KINDS.items()
        for each in small[room]
        if not _is_readable(store, each.path, kind)
    }
    heads: dict[str, Head] = {}
    for each in (*small[CLAIMS], *small[DONE]):
        content = None if each.path in bad else store.get(each.path)
        if content is not None:
            head = decoded(content, Head, each.path)
            if head.node not in heads or heads[head.node].generation < head.generation:
                heads[head.node] = head
    if not heads and not bad and store.get(LAKE) is None:
        Lake.open(url)
    if not _names_layout(store):
        yield LAKE, _DAMAGED
    yield from ((path, _DAMAGED) for path in sorted(bad))
    there = {each.path for room in (CLAIMS, DONE) for each in small[room]}
    for head in heads.values():
        small_files = (done_path(head.node, head.id), claim_path(head.node, head.generation))
        yield from ((path, _GONE) for path in small_files if path not in there)
        yield from _broken(lake, head.files)
    if not any(path.startswith(COMPACT) for path in bad):
        yield from _broken(lake, (each.file for each in lake.compacted_once()))
    known = {node_directory(node) for node in heads}
    for directory in sorted({*store.folders(LEDGERS), *store.folders(NODES)} - known):
        if any(store.list(f"{room}{directory}/") for room in (LEDGERS, NODES)):
            yield f"{LEDGERS}{directory}", _NAMELESS


def _broken(lake: Lake, files: Iterable[LakeFile]) -> Iterator[tuple[str, str]]:
    for file in files:
        is_as_written = lake.is_as_written(file)
        if not is_as_written:
            yield file.path, _GONE if is_as_written is None else _DAMAGED


def lost_nodes(lake: Lake, files: Iterable[str], now_ns: int) -> list[Failure]:
    """Nodes that the lake does not know any more, as failures that it keeps until they are back.

    Args:
        lake: whose small files are repaired.
        files: paths of small files that were damaged.
        now_ns: the time, for those that are reported for the first time.

    Returns:
        a failure for each, sorted by node; also those of repairs before.

    Raises:
        StorageError, DamagedLedgerError: storage fails.
    """
    known = {f"node {key}" for key in lake.heads()}
    lost = {each.source: each for each in lake.failures() if each.source.startswith("node ")}
    for path in files:
        directory = node_of(path) if path.startswith(DONE) else ""
        subject = f"node {node_name(directory) or directory}"
        if directory and subject not in known | lost.keys():
            lost[subject] = Failure(
                source=subject,
                kind="storage",
                reason="neither its marker nor a claim can be read: the lake lost it",
                advice="import its sources again",
                ts_ns=now_ns,
            )
            lake.fail(lost[subject])
    return [lost[subject] for subject in sorted(lost.keys() - known)]


def _claimed(store: Store, marker: str) -> Head | None:
    """What a marker said, by its claim; None where there is none. All claims are readable."""
    for each in store.list(f"{CLAIMS}{marker.split('/')[1]}/"):
        content = store.get(each.path)
        head = None if content is None else decoded(content, Head, each.path)
        if head is not None and done_path(head.node, head.id) == marker:
            return head
    return None


def _is_readable(store: Store, path: str, kind: type[msgspec.Struct]) -> bool:
    content = store.get(path)
    try:
        return content is not None and decoded(content, kind, path) is not None
    except DamagedLedgerError:
        return False


def _names_layout(store: Store) -> bool:
    """Whether ``lake.json`` is as one was written; of a layout that is not known, with its CRC."""
    content = store.get(LAKE) or b""
    return content == _FIRST_LAYOUT or unsealed(content, LakeFormat) is not None


def repaired(spec: NodeSpec, lake: Lake, scratch: Path) -> tuple[Head, bool]:
    """Repair what is damaged of a node; the head, and whether it is a new one.

    Args:
        scratch: an empty directory.

    Raises:
        BadQuestionError: the lake knows no such node.
        BadInputError: its ledger is damaged, and a source that it was made from is not there.
        MovedOnError: an import was first.
        KubeledgerError, OSError: as of an import.
    """
    assert spec.node is not None
    head = lake.node(spec.node)
    broken = frozenset(file.path for file in head.files if not lake.is_as_written(file))
    if not broken:
        return head, False
    sources = head.sources
    if any(path.startswith(LEDGERS) for path in broken):
        sources = _imported_again(head, scratch, partly=spec.repair == "partly")
    else:
        fetch_ledger(lake, head, scratch / "ledger")
    return commit_generation(lake, scratch, sources, head.summary, head, broken), True


def _imported_again(head: Head, scratch: Path, *, partly: bool) -> tuple[SourceSeen, ...]:
    """Make a node's ledger from its sources, in their order; those that it is made from."""
    name = head.summary.name
    used: list[SourceSeen] = []
    for number, known in enumerate(head.sources):
        place, opened = scratch / f"source-{number}", scratch / f"opened-{number}"
        place.mkdir()
        opened.mkdir()
        try:
            path, now = fetch(known.url, place)
            if now.digest != known.digest:
                raise BadInputError("it is not the one that was imported", file=known.url)
        except BadInputError as error:
            if partly:
                continue
            raise BadInputError(
                f"the ledger is damaged, and cannot be made again from {known.url}: "
                f"{error.message}",
                advice="put it back, or do without: kubeledger fleet repair --partly",
            ) from error
        options = known.options or {}
        content = content_of(path, opened, options_of(options, None))
        if name not in content.names:  # it was reported
            (opened / "again").mkdir()
            content = content_of(path, opened / "again", options_of(options, name))
        content.add_to(name, scratch / "ledger")
        refuse_changed(now)
        used.append(msgspec.structs.replace(known, stamp=now.stamp))
    if not used:
        raise BadInputError(
            "the ledger is damaged, and none of its sources is there as it was",
            advice="put one back",
        )
    return tuple(used)
