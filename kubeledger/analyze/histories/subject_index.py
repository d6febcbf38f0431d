"""Where a pod is named: its name, its name with the namespace, its UID -> the records."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable

import msgspec

from kubeledger.analyze.histories.derived import Fold, Stretch
from kubeledger.ledger.names import SUBJECTS
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import subjects_of, uids_in

_BYTES = 8


class Places(msgspec.Struct):
    """Where the records of one stretch name whom.

    Attributes:
        count: of the records.
        seqs: subject -> for each record that names it which of the stretch it is, and its seq, as
            eight bytes each, the low one first.
        uids: subject -> UIDs of the pods that records name by it, in the order of replay.
        latest_ns: kind -> the latest time of its records.
    """

    count: int = 0
    seqs: dict[str, bytearray] = {}
    uids: dict[str, dict[str, None]] = {}
    latest_ns: dict[str, int] = {}


def _note(places: Places, record: Record) -> None:
    place = places.count.to_bytes(_BYTES, "little") + record.seq.to_bytes(_BYTES, "little")
    places.count += 1
    for subject in subjects_of(record.body):
        places.seqs.setdefault(subject, bytearray()).extend(place)
    for subject, uid in uids_in(record.body):
        if uid not in (known := places.uids.setdefault(subject, {})):
            known[uid] = None
    kind, latest = record.kind, places.latest_ns
    latest[kind] = max(latest.get(kind, record.ts_ns), record.ts_ns)


SUBJECT_INDEX = Fold(SUBJECTS, Places, _note)


def seqs_naming(subjects: Collection[str], stretches: Iterable[Stretch[Places]]) -> list[int]:
    """Numbers of the records that name one of some subjects, in the order of replay."""
    found: list[int] = []
    for stretch in stretches:
        packed = b"".join(stretch.value.seqs.get(subject, b"") for subject in subjects)
        numbers = iter(struct.unpack(f"<{len(packed) // _BYTES}Q", packed))
        found += (seq for _, seq in sorted(set(zip(numbers, numbers, strict=True))))
    return found


def uids_of(subject: str, stretches: Iterable[Stretch[Places]]) -> set[str]:
    """UIDs of the pods that records name so."""
    return {uid for stretch in stretches for uid in stretch.value.uids.get(subject, ())}


def latest_of(kinds: Collection[str], stretches: Iterable[Stretch[Places]]) -> int | None:
    """The latest time of records of some kinds; None where there is none."""
    times = [
        ts_ns
        for stretch in stretches
        for kind, ts_ns in stretch.value.latest_ns.items()
        if kind in kinds
    ]
    return max(times, default=None)
