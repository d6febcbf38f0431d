"""What is derived from a node's records once, kept beside them, and carried on as they grow.

A fold takes the records one after the other. What it has come to is kept for each stretch of
records (:data:`STRETCH`), bound to the ledger by the chain digest of the stretch's last record,
and to what made it by :func:`rules_version`. What does not fit is made again. Where imports overlap
in time, an earlier record may come later: there all records, in the order of replay, are one
stretch, which is kept for as long as nothing is appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise
from typing import Any, TypeVar

import msgspec

from kubeledger.analyze.histories.noting import Fold, Noting, Stretch
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Span, is_superseded
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.snapshots import Snapshot, SnapshotStore, modules_version
from kubeledger.model.errors import LedgerUnavailableError
from kubeledger.model.record import Record

_ROOMS = ("model", "kubelet", "ledger", "replay", "verify", "analyze")


def rules_version() -> str:
    """Digest of the modules that answers rest on."""
    return modules_version(_ROOMS)


STRETCH = 1 << 18
"""Records of one stretch: the first is 1, 1 + STRETCH and so on."""

KEPT_FROM = 500
"""Fewer records are read again at each question: to load what they gave costs no less."""

T = TypeVar("T")


class _Kept(msgspec.Struct, frozen=True):
    """As it is kept.

    Attributes:
        superseded: spans of the stretch that were superseded, so that they are not in the value.
        is_whole: all records up to the last were taken in, in the order of replay.
    """

    first_seq: int
    superseded: list[Span]
    is_whole: bool
    value: msgspec.Raw


def stretches_of(
    ledger: Ledger, look: Reading, fold: Fold[T], missing_max: int | None = None
) -> list[Stretch[T]] | None:
    """What all records of a node give, stretch by stretch; what is missing is made and kept.

    Args:
        missing_max: so many records may be missing; None: any number.

    Returns:
        None where more records are missing, or the ledger is short and ``missing_max`` is given.

    Raises:
        KubeledgerError: its records cannot be read, or are not as they were written.
    """
    shelf, folds = _Shelf(ledger, look), [fold, *fold.beside]
    if shelf.count < KEPT_FROM:
        return shelf.replayed([fold]) if missing_max is None else None
    found = list(shelf.kept(fold))
    missing = shelf.count - sum(each.last_seq - each.first_seq + 1 for each in found)
    if missing_max is not None and missing > missing_max:
        return None
    besides = [list(shelf.kept(each)) for each in fold.beside if missing]
    for at, last in enumerate(shelf.ends):
        if found[at].last_seq < last:
            there = [found[at], *(each[at] for each in besides)]
            grown = shelf.grown(folds, there, last)
            found[at] = grown[0]
            for each, before, now in zip(folds, there, grown, strict=True):
                if last - before.last_seq >= KEPT_FROM or last % STRETCH == 0:
                    shelf.keep(each, now)
    return found


def alongside(
    ledger: Ledger, node: str, records: Iterator[Record], folds: Sequence[Fold[Any]]
) -> Iterator[Record]:
    """All records of a node as they are read for something else, in the order of replay.

    What they give is kept, stretch by stretch, where it is not there.

    Raises:
        KubeledgerError: as :func:`stretches_of`.
    """
    with ledger.reading(node) as look:
        shelf = _Shelf(ledger, look)
        found = [list(shelf.kept(fold)) for fold in folds]
    for at, last in enumerate(shelf.ends if shelf.count >= KEPT_FROM else ()):
        there = [(fold, each[at]) for fold, each in zip(folds, found, strict=True)]
        made = [(fold, fold.type()) for fold, each in there if each.last_seq < last]
        noting = Noting(made)
        yield from noting.passing(records, last)
        if noting.beyond is not None:
            records = chain((noting.beyond,), records)
        with ledger.reading(node) as look:
            now = _Shelf(ledger, look)
            if now.form == shelf.form and now.last_seq >= last:
                for fold, value in made:
                    now.keep(fold, Stretch(found[0][at].first_seq, last, value))
    yield from records


def prove(ledger: Ledger, look: Reading, folds: Sequence[Fold[Any]]) -> Iterator[tuple[str, int]]:
    """Where what is kept is not what the records give: of which fold, and the last record.

    Raises:
        KubeledgerError: as :func:`stretches_of`.
    """
    shelf = _Shelf(ledger, look)
    for stretches in zip(*map(shelf.kept, folds), strict=True):
        both = zip(folds, stretches, strict=True)
        there = [(fold, each) for fold, each in both if each.last_seq >= each.first_seq]
        for last in sorted({each.last_seq for _, each in there}):
            same = [(fold, each) for fold, each in there if each.last_seq == last]
            first = same[0][1].first_seq
            empty = [Stretch(first, first - 1, fold.type()) for fold, _ in same]
            fresh = shelf.grown([fold for fold, _ in same], empty, last)
            for (fold, each), made in zip(same, fresh, strict=True):
                if each.value != made.value:
                    yield fold.place, last


class _Shelf:
    """The records of one node as they are now, and what is kept of them.

    Attributes:
        first_seq, last_seq: the first record, and the last.
        superseded: spans of those that are.
        is_whole: all records are one stretch, in the order of replay.
    """

    def __init__(self, ledger: Ledger, look: Reading) -> None:
        info = look.info()
        self._ledger, self._look = ledger, look
        self.first_seq, self.last_seq = look.begin.seq + 1, info.last_seq
        self.superseded, self.is_whole = info.superseded, not look.is_in_order

    @property
    def count(self) -> int:
        """How many numbers records have."""
        return self.last_seq - self.first_seq + 1

    @property
    def form(self) -> tuple[int, list[Span], bool]:
        """What has to be the same for what was read before to be kept."""
        return self.first_seq, self.superseded, self.is_whole

    @property
    def ends(self) -> list[int]:
        """The last record of each stretch."""
        if self.is_whole:
            return [self.last_seq]
        begins = range((self.first_seq - 1) // STRETCH * STRETCH, self.last_seq, STRETCH)
        return [min(self.last_seq, begin + STRETCH) for begin in begins]

    def kept(self, fold: Fold[T]) -> Iterator[Stretch[T]]:
        """Each stretch as far as it is kept; an empty one where nothing that fits is."""
        store = self._ledger.snapshots(self._look.node, fold.place)
        newest = _newest_kept(store, self._look, self.last_seq)
        first_seq = self.first_seq
        for last in self.ends:
            seq = newest.get((last - 1) // STRETCH)
            if seq is None or (self.is_whole and seq < last):
                there = None
            else:
                there = self._loaded(store, seq, first_seq, fold)
            yield there or Stretch(first_seq, first_seq - 1, fold.type())
            first_seq = last + 1

    def _loaded(
        self, store: SnapshotStore, seq: int, first_seq: int, fold: Fold[T]
    ) -> Stretch[T] | None:
        """What is kept up to a record; None where it does not fit."""
        snapshot = store.load(seq, rules_version())
        kept = None if snapshot is None else decoded(snapshot.state, _Kept)
        clip = clipped(self.superseded, first_seq, seq)
        form = first_seq, clip, self.is_whole
        if kept is None or (kept.first_seq, kept.superseded, kept.is_whole) != form:
            return None
        value = decoded(kept.value, fold.type)
        return None if value is None else Stretch(first_seq, seq, value)

    def replayed(self, folds: Sequence[Fold[Any]]) -> list[Stretch[Any]]:
        """What all records give, as one stretch."""
        there = (r for r in self._look.replay(verify="crc") if r.seq <= self.last_seq)
        values = [(fold, fold.type()) for fold in folds]
        Noting(values).take(there, self.last_seq)
        return [Stretch(self.first_seq, self.last_seq, value) for _, value in values]

    def grown(
        self, folds: Sequence[Fold[Any]], stretches: Sequence[Stretch[Any]], last_seq: int
    ) -> list[Stretch[Any]]:
        """Stretches with the records up to one, which are read once where all lack them."""
        if self.is_whole:
            return self.replayed(folds)
        superseded = clipped(self.superseded, 1, last_seq)
        ends = sorted({last_seq, *(each.last_seq for each in stretches)})
        for begin, end in pairwise(ends):
            both = zip(folds, stretches, strict=True)
            noting = Noting([(fold, each.value) for fold, each in both if each.last_seq <= begin])
            records = islice(self._look.records(begin, verify="crc"), end - begin)
            noting.take((r for r in records if not is_superseded(r.seq, superseded)), end)
        return [each._replace(last_seq=last_seq) for each in stretches]

    def keep(self, fold: Fold[T], stretch: Stretch[T]) -> None:
        """In place of what was kept of fewer records; nothing where it cannot be written."""
        store = self._ledger.snapshots(self._look.node, fold.place)
        superseded = clipped(self.superseded, stretch.first_seq, stretch.last_seq)
        value = msgspec.Raw(msgspec.msgpack.encode(stretch.value))
        kept = _Kept(stretch.first_seq, superseded, self.is_whole, value)
        with suppress(LedgerUnavailableError):
            saved = save(store, self._look, stretch.last_seq, kept)
            if saved and stretch.last_seq > stretch.first_seq:
                store.drop(stretch.first_seq, stretch.last_seq - 1)


def clipped(spans: list[Span], first_seq: int, last_seq: int) -> list[Span]:
    """The parts of spans that lie between two records."""
    return [
        (max(first, first_seq), min(last, last_seq))
        for first, last in spans
        if first <= last_seq and last >= first_seq
    ]


def _newest_kept(store: SnapshotStore, look: Reading, last_seq: int) -> dict[int, int]:
    """Stretch -> the newest record up to which it is kept, where the chain is the same.

    A digest stands for all records before it, so the last that fits will do.
    """
    seqs = [seq for seq in store.seqs() if look.begin.seq < seq <= last_seq]
    while seqs and loaded(store, look, seqs[-1]) is None:
        seqs.pop()
    return {(seq - 1) // STRETCH: seq for seq in seqs}


def decoded(data: bytes | msgspec.Raw, type_: type[T]) -> T | None:
    """What was encoded; None where it is damaged, or of another form."""
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def save(store: SnapshotStore, look: Reading, seq: int, value: msgspec.Struct) -> bool:
    """Keep what the records up to one give, bound to them and to the rules; whether it is kept.

    Raises:
        LedgerUnavailableError: it cannot be written.
    """
    digest = look.digest_at(seq)
    if digest is not None:
        state = msgspec.msgpack.encode(value)
        store.save(
            Snapshot(seq=seq, ts_ns=0, version=rules_version(), chain=digest.hex(), state=state)
        )
    return digest is not None


def loaded(store: SnapshotStore, look: Reading, seq: int) -> Snapshot | None:
    """What was kept up to a record, if the chain and the rules are the same."""
    snapshot = store.load(seq, rules_version())
    digest = None if snapshot is None else look.digest_at(seq)
    is_same = snapshot is not None and digest is not None and digest.hex() == snapshot.chain
    return snapshot if is_same else None
