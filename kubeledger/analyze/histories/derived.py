"""What is derived from a node's records once, kept beside them, and carried on as they grow.

A fold takes the records one after the other. What it has come to is kept for each stretch of
records (:data:`STRETCH`), bound to the ledger by the chain digest of the stretch's last record,
and to what made it by :func:`rules_version`. What does not fit is made again. Where imports overlap
in time, an earlier record may come later: there all records, in the order of replay, are one
stretch, which is kept for as long as nothing is appended.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, Span, is_superseded
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.snapshots import Snapshot, SnapshotStore, modules_version
from kubeledger.ledger.storage import SUBJECTS
from kubeledger.model.errors import LedgerUnavailableError
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import naming_of

_ROOMS = ("model", "kubelet", "ledger", "replay", "verify", "analyze")


def rules_version() -> str:
    """Digest of the modules that answers rest on."""
    return modules_version(_ROOMS)


STRETCH = 1 << 18
"""Records of one stretch: the first is 1, 1 + STRETCH and so on."""

KEPT_FROM = 500
"""Fewer records are read again at each question: to load what they gave costs no less."""

T = TypeVar("T")


class Fold(NamedTuple, Generic[T]):
    """What is to be derived.

    Attributes:
        place: name of the directory where it is kept.
        type: of its value, a msgspec structure with defaults for all fields.
        note: takes in a record, those of a stretch in the order of replay.
    """

    place: str
    type: type[T]
    note: Callable[[T, Record], None]


class Stretch(NamedTuple, Generic[T]):
    """What consecutive records give; those superseded are left out.

    Attributes:
        value: the fold's.
    """

    first_seq: int
    last_seq: int
    value: T


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
    info = look.info()
    first_seq, last_seq = look.begin.seq + 1, info.last_seq
    if last_seq - first_seq + 1 < KEPT_FROM:
        return [_replayed(look, info, fold)] if missing_max is None else None
    store = ledger.snapshots(look.node, fold.place)
    if not look.is_in_order:
        return _whole(store, look, info, fold, missing_max)
    found = list(_kept_of(store, look, info, fold))
    missing = last_seq - first_seq + 1 - sum(each.last_seq - each.first_seq + 1 for each in found)
    if missing_max is not None and missing > missing_max:
        return None
    for at, (stretch, last) in enumerate(zip(found, _ends(first_seq, last_seq), strict=True)):
        if stretch.last_seq < last:
            superseded = clipped(info.superseded, stretch.first_seq, last)
            grown = _grown(look, stretch, last, superseded, fold)
            if last - stretch.last_seq >= KEPT_FROM or last % STRETCH == 0:
                with suppress(LedgerUnavailableError):
                    _keep(store, look, grown, superseded)
            found[at] = grown
    return found


def prove(ledger: Ledger, look: Reading, fold: Fold[T]) -> Iterator[int]:
    """Last records of the stretches that are kept and are not what the records give.

    Raises:
        KubeledgerError: as :func:`stretches_of`.
    """
    info, store = look.info(), ledger.snapshots(look.node, fold.place)
    if not look.is_in_order:
        whole = _kept_whole(store, look, info, fold)
        if whole is not None and whole != _replayed(look, info, fold):
            yield whole.last_seq
        return
    for there in _kept_of(store, look, info, fold):
        fresh = Stretch(there.first_seq, there.first_seq - 1, fold.type())
        superseded = clipped(info.superseded, there.first_seq, there.last_seq)
        if _grown(look, fresh, there.last_seq, superseded, fold).value != there.value:
            yield there.last_seq


def _whole(
    store: SnapshotStore, look: Reading, info: NodeInfo, fold: Fold[T], missing_max: int | None
) -> list[Stretch[T]] | None:
    """All records as one stretch, in the order of replay."""
    stretch = _kept_whole(store, look, info, fold)
    if stretch is None:
        if missing_max is not None and info.last_seq - look.begin.seq > missing_max:
            return None
        stretch = _replayed(look, info, fold)
        with suppress(LedgerUnavailableError):
            _keep(store, look, stretch, info.superseded, is_whole=True)
    return [stretch]


def _kept_whole(
    store: SnapshotStore, look: Reading, info: NodeInfo, fold: Fold[T]
) -> Stretch[T] | None:
    is_there = info.last_seq in _newest_kept(store, look, info.last_seq).values()
    seq = info.last_seq if is_there else None
    return _loaded(store, seq, look.begin.seq + 1, info.superseded, fold, is_whole=True)


def _replayed(look: Reading, info: NodeInfo, fold: Fold[T]) -> Stretch[T]:
    there = (record for record in look.replay(verify="crc") if record.seq <= info.last_seq)
    return folded(fold, there)._replace(first_seq=look.begin.seq + 1, last_seq=info.last_seq)


def folded(fold: Fold[T], records: Iterable[Record]) -> Stretch[T]:
    """What some records give, in the order of replay, of which nothing is kept."""
    value, last_seq = fold.type(), 0
    for record in records:
        fold.note(value, record)
        last_seq = max(last_seq, record.seq)
    return Stretch(1, last_seq, value)


def _ends(first_seq: int, last_seq: int) -> Iterator[int]:
    """The last record of each stretch from one record to another."""
    for end in range((first_seq - 1) // STRETCH * STRETCH, last_seq, STRETCH):
        yield min(last_seq, end + STRETCH)


def _kept_of(
    store: SnapshotStore, look: Reading, info: NodeInfo, fold: Fold[T]
) -> Iterator[Stretch[T]]:
    """Each stretch as far as it is kept; an empty one where nothing that fits is."""
    kept = _newest_kept(store, look, info.last_seq)
    first_seq = look.begin.seq + 1
    for last in _ends(first_seq, info.last_seq):
        superseded = clipped(info.superseded, first_seq, last)
        there = _loaded(store, kept.get((last - 1) // STRETCH), first_seq, superseded, fold)
        yield there or Stretch(first_seq, first_seq - 1, fold.type())
        first_seq = last + 1


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


def _loaded(
    store: SnapshotStore,
    seq: int | None,
    first_seq: int,
    superseded: list[Span],
    fold: Fold[T],
    *,
    is_whole: bool = False,
) -> Stretch[T] | None:
    """What is kept up to a record; None where it does not fit."""
    snapshot = None if seq is None else store.load(seq, rules_version())
    kept = None if snapshot is None else decoded(snapshot.state, _Kept)
    if snapshot is None or kept is None:
        return None
    clip = clipped(superseded, first_seq, snapshot.seq)
    if (kept.first_seq, kept.superseded, kept.is_whole) != (first_seq, clip, is_whole):
        return None
    value = decoded(kept.value, fold.type)
    return None if value is None else Stretch(first_seq, snapshot.seq, value)


def decoded(data: bytes | msgspec.Raw, type_: type[T]) -> T | None:
    """What was encoded; None where it is damaged, or of another form."""
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _grown(
    look: Reading, stretch: Stretch[T], last_seq: int, superseded: list[Span], fold: Fold[T]
) -> Stretch[T]:
    records = look.records(stretch.last_seq, verify="crc")
    for record in islice(records, last_seq - stretch.last_seq):
        if not is_superseded(record.seq, superseded):
            fold.note(stretch.value, record)
    return stretch._replace(last_seq=last_seq)


def _keep(
    store: SnapshotStore,
    look: Reading,
    stretch: Stretch[T],
    superseded: list[Span],
    *,
    is_whole: bool = False,
) -> None:
    value = msgspec.Raw(msgspec.msgpack.encode(stretch.value))
    kept = _Kept(stretch.first_seq, superseded, is_whole, value)
    if save(store, look, stretch.last_seq, kept) and stretch.last_seq > stretch.first_seq:
        store.drop(stretch.first_seq, stretch.last_seq - 1)


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


# Where a pod is named: its name, its name with the namespace, its UID -> the records.

_SHIFT, _MORE = 7, 0x80


class Numbers(msgspec.Struct, array_like=True):
    """Numbers in an order that mostly ascends, a byte or two each.

    Attributes:
        packed: of each what it is more than the one before, twice that, one less if it is less:
            seven bits a byte, the low ones first, the eighth is set where more follow.
    """

    last: int = 0
    packed: bytearray = msgspec.field(default_factory=bytearray)

    def append(self, number: int) -> None:
        """One more."""
        more = number - self.last
        rest = more << 1 if more >= 0 else (-more << 1) - 1
        self.last = number
        while rest >= _MORE:
            self.packed.append(rest & (_MORE - 1) | _MORE)
            rest >>= _SHIFT
        self.packed.append(rest)

    def __iter__(self) -> Iterator[int]:
        number = rest = at = 0
        for byte in self.packed:
            rest |= (byte & (_MORE - 1)) << at
            at += _SHIFT
            if byte < _MORE:
                number += -((rest + 1) >> 1) if rest & 1 else rest >> 1
                yield number
                rest = at = 0


class Life(msgspec.Struct, array_like=True):
    """Of a pod, by its UID: the first record about it, in the order of replay, and the last."""

    first_seq: int
    first_ns: int
    last_ns: int


class Places(msgspec.Struct):
    """Where the records of one stretch name whom.

    Attributes:
        runs: first and last numbers of records that follow each other, in the order of replay.
        seqs: subject -> numbers of the records that name it, in the order of replay.
        uids: subject -> UIDs of the pods that records name by it, in the order of replay.
        lives: UID -> what is known of that pod.
        latest_ns: kind -> the latest time of its records.
    """

    runs: list[list[int]] = []
    seqs: dict[str, Numbers] = {}
    uids: dict[str, dict[str, None]] = {}
    lives: dict[str, Life] = {}
    latest_ns: dict[str, int] = {}


def _note(places: Places, record: Record) -> None:
    seq, ts_ns, runs = record.seq, record.ts_ns, places.runs
    if runs and runs[-1][1] == seq - 1:
        runs[-1][1] = seq
    else:
        runs.append([seq, seq])
    naming = naming_of(record.body)
    for subject in naming.subjects:
        if (numbers := places.seqs.get(subject)) is None:
            numbers = places.seqs[subject] = Numbers()
        numbers.append(seq)
    for subject, uid in naming.calls:
        if uid not in (known := places.uids.setdefault(subject, {})):
            known[uid] = None
    for uid in naming.about:
        if (life := places.lives.get(uid)) is None:
            places.lives[uid] = Life(seq, ts_ns, ts_ns)
        else:
            life.last_ns = ts_ns
    kind, latest = record.kind, places.latest_ns
    latest[kind] = max(latest.get(kind, ts_ns), ts_ns)


SUBJECT_INDEX = Fold(SUBJECTS, Places, _note)


def seqs_naming(subjects: Collection[str], stretches: Iterable[Stretch[Places]]) -> list[int]:
    """Numbers of the records that name one of some subjects, in the order of replay."""
    found: list[int] = []
    for stretch in stretches:
        seqs, runs = stretch.value.seqs, stretch.value.runs
        numbers = sorted({seq for each in subjects if each in seqs for seq in seqs[each]})
        if runs != sorted(runs):
            ranked = sorted((first, rank) for rank, (first, _) in enumerate(runs))
            at = {seq: ranked[bisect(ranked, (seq, len(runs))) - 1][1] for seq in numbers}
            numbers.sort(key=lambda seq: (at[seq], seq))
        found += numbers
    return found


def uids_of(subject: str, stretches: Iterable[Stretch[Places]]) -> set[str]:
    """UIDs of the pods that records name so."""
    return {uid for stretch in stretches for uid in stretch.value.uids.get(subject, ())}


def lives_of(uids: Collection[str], stretches: Iterable[Stretch[Places]]) -> dict[str, Life]:
    """UID -> what is known of each of some pods, the first to be told of first."""
    found: dict[str, Life] = {}
    for stretch in stretches:
        for uid, life in stretch.value.lives.items():
            if uid in uids:
                known = found.setdefault(uid, life)
                found[uid] = Life(known.first_seq, known.first_ns, life.last_ns)
    return found


def latest_of(kinds: Collection[str], stretches: Iterable[Stretch[Places]]) -> int | None:
    """The latest time of records of some kinds; None where there is none."""
    times = [
        ts_ns
        for stretch in stretches
        for kind, ts_ns in stretch.value.latest_ns.items()
        if kind in kinds
    ]
    return max(times, default=None)
