"""Where a pod is named: its name, its name with the namespace, its UID -> the records."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import msgspec

from kubeledger.analyze.histories.derived import STRETCH, Fold, Stretch
from kubeledger.ledger.names import SUBJECTS
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import subjects_of

_BYTES = 4


class Places(msgspec.Struct):
    """Where the records of one stretch name whom.

    Attributes:
        seqs: subject -> for each record its place in the stretch, as four bytes, the low one first.
        latest_ns: kind -> the latest time of its records.
    """

    seqs: dict[str, bytearray] = {}
    latest_ns: dict[str, int] = {}


def _note(places: Places, record: Record) -> None:
    place = ((record.seq - 1) % STRETCH).to_bytes(_BYTES, "little")
    for subject in subjects_of(record.body):
        places.seqs.setdefault(subject, bytearray()).extend(place)
    kind, latest = record.kind, places.latest_ns
    latest[kind] = max(latest.get(kind, record.ts_ns), record.ts_ns)


SUBJECT_INDEX = Fold(SUBJECTS, Places, _note)


def seqs_naming(subjects: Collection[str], stretches: Iterable[Stretch[Places]]) -> list[int]:
    """Numbers of the records that name one of some subjects, ascending."""
    found: set[int] = set()
    for stretch in stretches:
        base = (stretch.first_seq - 1) // STRETCH * STRETCH + 1
        packed = (stretch.value.seqs.get(subject, b"") for subject in subjects)
        places = memoryview(bytes(chain.from_iterable(packed)))
        found.update(
            base + int.from_bytes(places[at : at + _BYTES], "little")
            for at in range(0, len(places), _BYTES)
        )
    return sorted(found)


def latest_of(kinds: Collection[str], stretches: Iterable[Stretch[Places]]) -> int | None:
    """The latest time of records of some kinds; None where there is none."""
    times = [
        ts_ns
        for stretch in stretches
        for kind, ts_ns in stretch.value.latest_ns.items()
        if kind in kinds
    ]
    return max(times, default=None)
