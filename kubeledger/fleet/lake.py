"""The lake: which files are true of each node, and how a new generation becomes so.

``docs/fleet.md`` has the protocol. In short: files first, then a claim that only one can make, then
the marker. Whatever is not named by the marker of a node's highest generation does not count.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from kubeledger.fleet.layout import (
    CLAIMS,
    COMPACT,
    DONE,
    FAILURES,
    INDEX,
    LAKE,
    LAYOUT,
    ROW_ROOMS,
    CompactIndex,
    Index,
    LakeFormat,
    Marked,
    claim_path,
    claims_of,
    decoded,
    done_of,
    done_path,
    encoded,
    failure_path,
    node_of,
)
from kubeledger.fleet.types import Compacted, Failure, Head, LakeFile
from kubeledger.model.errors import BadQuestionError, DamagedLedgerError, KubeledgerError
from kubeledger.remote.store import StorageError, Store, StoredObject, absolute_url, digest_of_file

R = TypeVar("R")
T = TypeVar("T")

_READERS = 32
"""Objects read at once: each costs a round trip and hardly any work."""

_LOOKS = 20

_TURNS = 20
"""Each time that another import of the same node is first, a task begins again."""


class MovedOnError(KubeledgerError):
    """Another import was first: the node has a newer generation than the one built upon."""

    exit_code = 4


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep removed: files that no head names."""

    files: int
    size_bytes: int


class Lake:
    """A lake, for readers and writers."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._proved: set[tuple[str, StoredObject]] = set()

    @classmethod
    def open(cls, url: str) -> Lake:
        """A lake that is there.

        Raises:
            BadQuestionError: there is none.
            DamagedLedgerError: of a newer layout, or what should name the layout does not.
            StorageError: it cannot be read.
        """
        place = absolute_url(url)
        is_there = "://" in place or Path(place).is_dir()
        store = Store(place) if is_there else None
        content = None if store is None else store.get(LAKE)
        if store is None or content is None:
            raise BadQuestionError(
                "there is no lake", advice="`kubeledger fleet import` makes one", file=place
            )
        found = decoded(content, LakeFormat, store.address(LAKE))
        if found.layout > LAYOUT or found.format != LakeFormat().format:
            raise DamagedLedgerError(
                f"the lake has layout {found.layout}, and this program knows {LAYOUT}",
                advice="use the kubeledger that wrote it, or a newer one",
                file=store.address(LAKE),
            )
        return cls(store)

    @classmethod
    def open_or_create(cls, url: str) -> Lake:
        """A lake, made where nothing is yet.

        Raises:
            BadQuestionError: something else is there.
            DamagedLedgerError, StorageError: as of ``open``.
        """
        store = Store(url, make=True)
        if store.get(LAKE) is None:
            strange = next((each.path for each in store.list() if each.path != LAKE), None)
            if strange is not None:
                raise BadQuestionError(
                    f"this is not a lake, and not empty: it has {strange}",
                    advice="name an empty place, or a lake",
                    file=store.url,
                )
            store.create(LAKE, encoded(LakeFormat()))
        return cls.open(url)

    def heads(self) -> dict[str, Head]:
        """Key of each node -> its newest generation, sorted by key."""
        marked = self.marked()
        return _newest([*marked, *self.unmarked(marked)])

    def marked(self) -> list[Head]:
        """All generations that have a marker; the newest of each node counts."""
        return [marked.head for marked in self._markers(DONE, self._index()).values()]

    def unmarked(self, marked: Iterable[Head]) -> Iterator[Head]:
        """Generations that were claimed, and whole, and have no marker: it is lost, or to come.

        A claim says what its marker does, so that a lost marker takes no node away.
        """
        known = {claim_path(head.node, head.generation) for head in marked}
        newest = {each.path.split("/")[1]: each.path for each in self.store.list(CLAIMS)}
        for path in newest.values():
            head = None if path in known else self._read(path, Head)
            if head is not None and self._gone(head) is None:
                yield head

    def head(self, node: str) -> Head | None:
        """Newest generation of one node; None for a node that the lake does not know.

        A generation that was claimed and not marked is completed first.
        """
        claims = self.store.list(claims_of(node))
        if claims:
            self._complete(claims[-1].path)
        return _newest(each.head for each in self._markers(done_of(node), {}).values()).get(node)

    def node(self, key: str) -> Head:
        """Newest generation of a node, as :meth:`head`.

        Raises:
            BadQuestionError: the lake knows no such node.
        """
        head = self.head(key)
        if head is None:
            raise BadQuestionError(f"the lake knows no node {key}", file=self.store.url)
        return head

    def commit(self, head: Head, base: Head | None) -> None:
        """Make a generation the newest one of its node.

        Args:
            head: the new generation; it names all its files, which are there.
            base: the generation that it was built upon; None for a node's first.

        Raises:
            MovedOnError: it is not the newest any more; nothing was changed.
            StorageError: storage fails; the generation before holds, or this one.
        """
        gone = self._gone(head)
        if gone is not None:
            newest = self.head(head.node)
            if newest is not None and newest.generation >= head.generation:
                raise MovedOnError(f"another import of {head.node} was first")
            raise StorageError("it is gone", advice="import again", file=self.store.address(gone))
        claim = claim_path(head.node, head.generation)
        while not self.store.create(claim, encoded(head)):
            claimed = self._complete(claim)
            if claimed is None:  # that one came to nothing, and its claim is gone
                continue
            if claimed.id != head.id:
                raise MovedOnError(f"another import of {head.node} was first")
            break
        later = [each.path for each in self.store.list(claims_of(head.node)) if each.path > claim]
        if later:  # the claims before it were tidied away long ago
            self.store.delete([claim])
            raise MovedOnError(f"another import of {head.node} was first")
        self._mark(head)
        self._tidy(head, base)

    def complete_claims(self) -> None:
        """Write the markers of those who died before they did."""
        for node in {each.path.split("/")[1] for each in self.store.list(CLAIMS)}:
            claims = self.store.list(f"{CLAIMS}{node}/")
            if claims:
                self._complete(claims[-1].path)

    def _complete(self, claim: str) -> Head | None:
        """Write the marker of a claim, whose process may have died before.

        Returns:
            None for a claim that is not there, or that names files which are gone: it is removed.
        """
        head = self._read(claim, Head)
        if head is None:
            return None
        there = self._marker(head)
        if (there is None or there.generation < head.generation) and self._gone(head) is not None:
            self.store.delete([claim])
            return None
        self._mark(head)
        return head

    def _mark(self, head: Head) -> None:
        """Write a marker, in place of one that an earlier generation of the same ID left."""
        path = done_path(head.node, head.id)
        if self.store.create(path, encoded(head)):
            return
        there = self._marker(head)
        if there is not None and there.generation < head.generation:
            self.store.replace(path, encoded(head))

    def _marker(self, head: Head) -> Head | None:
        """The marker of the same ID; None where there is none."""
        return self._read(done_path(head.node, head.id), Head)

    def _read(self, path: str, type_: type[T]) -> T | None:
        """What a small file says; None where there is none."""
        content = self.store.get(path)
        return None if content is None else decoded(content, type_, self.store.address(path))

    def is_as_written(self, file: LakeFile) -> bool | None:
        """Whether a file holds what was written, each byte; None where it is not there."""
        found = self.store.stat(file.path)
        if found is None:
            return None
        known = (file.digest, found)
        if known not in self._proved and found.size_bytes == file.size_bytes:
            digest = self.store.digest(file.path)
            if digest is None:
                return None
            if digest == file.digest:
                self._proved.add(known)
        return known in self._proved

    def prove(self, files: Iterable[LakeFile]) -> None:
        """Read files that are to be answered from; one that is not there is its reader's to tell.

        Raises:
            DamagedLedgerError: one is not what was written.
            StorageError: storage fails.
        """
        listed = list(files)
        with ThreadPoolExecutor(_READERS) as readers:
            for file, is_sound in zip(listed, readers.map(self.is_as_written, listed), strict=True):
                if is_sound is False:
                    raise self.damaged(file)

    def damaged(self, file: LakeFile) -> DamagedLedgerError:
        """What to report of a file that is not there, or not as it was written."""
        return DamagedLedgerError(
            "this file of the lake is missing or damaged",
            advice="`kubeledger fleet repair` makes it again",
            file=self.store.address(file.path),
        )

    def _gone(self, head: Head) -> str | None:
        """A file that a generation names and that is not there, or not in full."""
        for file in head.files:
            found = self.store.stat(file.path)
            if found is None or found.size_bytes != file.size_bytes:
                return file.path
        return None

    def _tidy(self, head: Head, base: Head | None) -> None:
        """Remove what the generation takes the place of, and what killed imports left beside it.

        A file that is older than the claim was written for a generation that cannot come any more.
        """
        claim = claim_path(head.node, head.generation)
        claims = self.store.list(claims_of(head.node))
        kept = {file.path for file in head.files}
        before = [] if base is None else [done_path(base.node, base.id)]
        self.store.delete(before)
        self.store.delete(each.path for each in claims if each.path < claim)
        if base is not None:
            self.store.delete(file.path for file in base.files if file.path not in kept)
        claimed_ns = max((each.modified_ns for each in claims if each.path == claim), default=0)
        for folder in {path.rpartition("/")[0] for path in kept - _paths(base)}:
            beside = (each for each in self.store.list(folder) if each.path not in kept)
            self.store.delete(each.path for each in beside if each.modified_ns < claimed_ns)

    def _markers(self, prefix: str, known: Mapping[str, Marked]) -> dict[str, Marked]:
        """Path -> marker, of all below a prefix.

        Args:
            prefix: whole segments.
            known: path -> marker that need not be read again unless its tag changed.
        """
        for _ in range(_LOOKS):
            tags = {each.path: each.tag for each in filter(_is_json, self.store.list(prefix))}
            known = {
                path: known[path] for path in known.keys() & tags if known[path].tag == tags[path]
            }
            missing = sorted(tags.keys() - known)
            with ThreadPoolExecutor(_READERS) as readers:
                read = dict(zip(missing, readers.map(self.store.get, missing), strict=True))
            known |= {
                path: Marked(tag=tags[path], head=decoded(content, Head, self.store.address(path)))
                for path, content in read.items()
                if content is not None
            }
            if None not in read.values():
                return known
            # A newer generation took the place of one while it was to be read: look again.
        raise StorageError(
            "markers change faster than they can be read", advice="try again", file=self.store.url
        )

    def _index(self) -> dict[str, Marked]:
        newest = max(filter(_is_json, self.store.list(INDEX)), key=_modified, default=None)
        index = None if newest is None else self._read(newest.path, Index)
        return {} if index is None else index.markers

    def write_index(self) -> int:
        """Put all markers into one file; returns how many.

        The index is a copy: markers that it lacks, or that changed, are read one by one.
        """
        before = [each.path for each in self.store.list(INDEX)]
        markers = self._markers(DONE, self._index())
        path = self._put_digest(INDEX, Index(markers=markers))
        self.store.delete(each for each in before if each != path)
        return len(markers)

    def compacted(self) -> tuple[Compacted, ...]:
        """Compacted files that are there; they are copies, and any may be missing."""
        there = {each.path for each in self.store.list(COMPACT)}
        return tuple(each for each in self.compacted_once() if each.file.path in there)

    def compacted_once(self) -> tuple[Compacted, ...]:
        """Compacted files that were written, and count where they are there."""
        indexes = filter(_is_json, self.store.list(COMPACT))
        newest = max(map(_modified, indexes), default=None)
        index = None if newest is None else self._read(newest[1], CompactIndex)
        return () if index is None else index.files

    def put_compacted(self, files: Iterable[Compacted]) -> None:
        """Let these compacted files count, which are there, and no others."""
        kept = tuple(files)
        named = {each.file.path for each in kept}
        old = [each.file.path for each in self.compacted() if each.file.path not in named]
        indexes = [each.path for each in filter(_is_json, self.store.list(COMPACT))]
        path = self._put_digest(COMPACT, CompactIndex(files=kept))
        self.store.delete(each for each in (*indexes, *old) if each != path)

    def _put_digest(self, prefix: str, value: msgspec.Struct) -> str:
        """Write an object that is called by its digest; returns its path."""
        content = encoded(value)
        path = f"{prefix}{hashlib.blake2b(content, digest_size=16).hexdigest()}.json"
        self.store.replace(path, content)
        return path

    def failures(self) -> list[Failure]:
        """Sources that are not in the lake, sorted by source."""
        paths = [each.path for each in filter(_is_json, self.store.list(FAILURES))]
        with ThreadPoolExecutor(_READERS) as readers:
            read = readers.map(partial(self._read, type_=Failure), paths)
            found = [failure for failure in read if failure is not None]
        return sorted(found, key=lambda failure: failure.source)

    def fail(self, failure: Failure) -> None:
        """Keep why a source is not in the lake, in place of what was kept of it before."""
        self.store.replace(failure_path(failure.source), encoded(failure))

    def forget_failure(self, source: str) -> None:
        """The source is in the lake now."""
        self.store.delete([failure_path(source)])

    def sweep(self, before_ns: int) -> Swept:
        """Remove what no head names and was written before an instant (storage's clock).

        What is younger may belong to an import that continues, unless it is older than its node's
        claim.
        """
        self.complete_claims()
        claimed_ns = {each.path.split("/")[1]: each.modified_ns for each in self.store.list(CLAIMS)}
        heads = self.heads().values()
        kept = {file.path for head in heads for file in head.files}
        kept |= {done_path(head.node, head.id) for head in heads}
        kept |= {each.file.path for each in self.compacted()}
        kept |= {each.path for each in filter(_is_json, self.store.list(COMPACT))}
        unnamed = (each for each in self._data() if each.path not in kept)
        old = [
            each
            for each in unnamed
            if each.modified_ns < max(before_ns, claimed_ns.get(node_of(each.path), before_ns))
        ]
        self.store.delete(each.path for each in old)
        old += self.store.delete_parts(before_ns)
        return Swept(files=len(old), size_bytes=sum(each.size_bytes for each in old))

    def _data(self) -> list[StoredObject]:
        rooms = (*(f"{room}/" for room in ROW_ROOMS), "nodes/", "ledgers/", DONE, COMPACT)
        return [each for room in rooms for each in self.store.list(room)]


def in_turns(once: Callable[[Path], R], scratch: Path) -> R:
    """Do something in a new directory, gone afterwards; again where another import was first.

    Raises:
        MovedOnError: so it was each time.
    """
    place = scratch / "node"
    for left in reversed(range(_TURNS)):
        place.mkdir()
        try:
            return once(place)
        except MovedOnError:
            if not left:
                raise
        finally:
            shutil.rmtree(place, ignore_errors=True)
    raise AssertionError("the last turn returns or raises")


def lake_file(path: str, file: Path, rows: int | None = None) -> LakeFile:
    """A local file as it will stand in the lake."""
    size = file.stat().st_size
    return LakeFile(path=path, size_bytes=size, digest=digest_of_file(file), rows=rows)


def _paths(head: Head | None) -> set[str]:
    return set() if head is None else {file.path for file in head.files}


def _is_json(stored: StoredObject) -> bool:
    return stored.path.endswith(".json")


def _modified(stored: StoredObject) -> tuple[int, str]:
    return stored.modified_ns, stored.path


def _newest(heads: Iterable[Head]) -> dict[str, Head]:
    return {
        head.node: head for head in sorted(heads, key=lambda each: (each.node, each.generation))
    }
