"""The least loss that still makes a truth impossible: fewer lost records, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubeledger.model.bodies.lifecycle import ContainerRestarted
from kubeledger.model.bodies.node import LogThinned
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.record import Record
from tests.verify.properties.measure import Case, judged, kind_of
from tests.verify.properties.reimported import numbered, reimported
from tests.verify.properties.truths import named

_TOLD_AGAIN = (ContainerRestarted, ProbeTransitioned)


def least_loss(case: Case) -> tuple[list[Record], list[Record]]:
    """The records whose loss suffices, and the history without them.

    Of a case of simulated records that is wrong; both are empty where it is not, or where the
    loss is more than records that are missing (a log that begins in the middle).
    """
    whole = named(case.truth).records
    records = case.records()
    kinds = {kind_of(outcome) for outcome in judged(records).wrong}
    bodies = {id(record.body) for record in records}
    reported = [record for record in records if isinstance(record.body, LogThinned)]
    lost = [r for r in whole if id(r.body) not in bodies and not isinstance(r.body, _TOLD_AGAIN)]

    def without(gone: Sequence[Record]) -> list[Record]:
        seqs = {record.seq for record in gone}
        left = reimported(whole, [record for record in whole if record.seq not in seqs])
        again = [record for record in reported if record.ts_ns >= left[0].ts_ns]
        for record in again:
            at = next((i for i, r in enumerate(left) if r.ts_ns > record.ts_ns), len(left))
            left.insert(at, record)
        return numbered(left)

    def fails(gone: Sequence[Record]) -> bool:
        return bool(kinds & {kind_of(outcome) for outcome in judged(without(gone)).wrong})

    if not kinds or not fails(lost):
        return [], []
    least = _least(lost, fails)
    return least, without(least)


def _least(lost: list[Record], fails: Callable[[Sequence[Record]], bool]) -> list[Record]:
    """Delta debugging: leave out ever smaller pieces of what is lost, while it still fails."""
    size = max(1, len(lost) // 2)
    while True:
        at = 0
        while at < len(lost):
            fewer = lost[:at] + lost[at + size :]
            if fails(fewer):
                lost = fewer
            else:
                at += size
        if size == 1:
            return lost
        size = max(1, size // 2)
