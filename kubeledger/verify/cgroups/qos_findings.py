"""Findings about the values of the QoS levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import msgspec

from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.judging import Judged, Option, judge
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.cgroups.machine import Capacity, Machine
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.cgroups.qos_level import UNWRITTEN, Kept, qos_options
from kubeledger.verify.cgroups.settings import NO_RESERVE
from kubeledger.verify.cgroups.speech import Speaker
from kubeledger.verify.cgroups.sums import Sums, sums_between
from kubeledger.verify.cgroups.timing import WHOLE_LOG, WriteJudge
from kubeledger.verify.cgroups.values import recorded_of
from kubeledger.verify.cgroups.window import READ_NS
from kubeledger.verify.cgroups.writes import PERIOD_NS, Write

__all__ = ["QOSLevels"]

_BEAT_NS: Final = PERIOD_NS + 2 * NS_PER_S
"""A kubelet that logs its writes logs one at least this often."""
_SOON_NS: Final = 3 * NS_PER_S // 2
_KEPT_MAX: Final = 4


class _Moment(msgspec.Struct, frozen=True):
    """When a write can have been made: the told one, or one that no line tells of."""

    rules: Rules
    start_ns: int
    end_ns: int
    write: Write | None


class _Writing(msgspec.Struct, frozen=True):
    """A write that can have been the last one.

    Attributes:
        rules: under which it was made.
        sums: with which it can have reckoned.
        inputs: records that tell of it.
    """

    rules: Rules
    sums: Sums
    inputs: tuple[int, ...]


class QOSLevels:
    """Judges ``burstable`` and ``besteffort``."""

    def __init__(
        self, bench: Bench, speaker: Speaker, machine: Machine, lives: Lives, judge: WriteJudge
    ) -> None:
        self._bench = bench
        self._speaker = speaker
        self._machine = machine
        self._lives = lives
        self._judge = judge
        self._writes = judge.writes
        self._kept: dict[str, Kept] = {}

    def find(self, record: Record, rules: Rules) -> None:
        """``burstable`` or ``besteffort``, once all writes that a snapshot can show are told."""
        body = record.body
        assert isinstance(body, CgroupUpdated)
        if not rules.settings.per_qos and not body.created:
            self._speaker.not_per_qos(record, body)
            return
        moments, unseen = self._moments(record, rules), self._unseen(record, rules)
        kept = dict(self._kept.get(body.cgroup, {}))

        def again() -> None:
            self._speaker.say(record, body, self._judged(record, moments, unseen, kept))

        judged = self._judged(record, moments, unseen, kept)
        if isinstance(judged, Judged):
            self._keep(body, rules)
            if judged.verdict == "impossible":
                self._judge.hold(
                    record.ts_ns,
                    sure=again,
                    doubtful=lambda missing: self._speaker.unverifiable(record, body, [missing]),
                )
                return
        self._speaker.say(record, body, judged)

    def _judged(
        self, record: Record, moments: Sequence[_Moment], unseen: _Moment, kept: Kept
    ) -> Judged | list[str]:
        """By what is known now of the pods; what is missing where nothing can be said."""
        body = record.body
        assert isinstance(body, CgroupUpdated)
        writings = [self._writing(moment) for moment in moments]
        missing: list[str] = []
        options = self._qos_options(record, body, writings, kept, missing)
        if missing:
            return list(dict.fromkeys(missing))
        judged = judge(body, options)
        if judged.verdict != "impossible":
            return judged
        unknown = [named for writing in writings for named in writing.sums.unknown]
        reason = unknown[0] if unknown else self._excuse(record, unseen, judged, kept)
        return judged if reason is None else [reason]

    def _qos_options(
        self,
        record: Record,
        body: CgroupUpdated,
        writings: Sequence[_Writing],
        kept: Kept,
        missing: list[str],
    ) -> Iterable[Option]:
        """All that the level can hold after some writes; ``missing`` takes what is for that."""
        limits = [self._allocatable(record.ts_ns, writing.rules, missing) for writing in writings]
        missing += [named for writing in writings for named in writing.sums.missing]
        return chain.from_iterable(
            qos_options(
                body,
                writing.sums,
                writing.rules,
                allocatable_memory=limit,
                kept=kept,
                inputs=writing.inputs,
            )
            for writing, limit in zip(writings, limits, strict=True)
        )

    def _excuse(self, record: Record, unseen: _Moment, judged: Judged, kept: Kept) -> str | None:
        """Why a value that no known write gives may be right all the same."""
        body = record.body
        assert isinstance(body, CgroupUpdated)
        if not self._lives.complete(record.ts_ns):
            return "the pods that were active"
        if not self._judge.told_until(record.ts_ns + READ_NS):
            return WHOLE_LOG
        if reason := _by_usage(body, judged, self._machine.at(record.ts_ns)):
            return reason
        options = self._qos_options(record, body, [self._writing(unseen)], kept, [])
        if judge(body, options).verdict == "impossible":
            return None
        return "the write of the QoS cgroups that gave these values"

    def _allocatable(self, ts_ns: int, rules: Rules, missing: list[str]) -> int | None:
        percent = rules.settings.reserve_percent
        if percent is None:
            missing.append("the settings qosReserved and featureGates")
            return None
        if percent == NO_RESERVE:
            return None
        allocatable = self._machine.memory_allocatable(ts_ns, rules)
        if allocatable is None:
            missing.append("the machine's memory and what is reserved of it")
        return allocatable

    def _moments(self, record: Record, rules: Rules) -> list[_Moment]:
        """Each write that can have been the last one before the files were read."""
        ts_ns, recent = record.ts_ns, self._writes.recent
        before = [write for write in recent if write.ts_ns <= ts_ns]
        after = [write for write in recent if ts_ns < write.ts_ns <= ts_ns + READ_NS]
        told = [*before[-1:], *after]
        usable = [write for write in told if not write.failed and write.rules is not None]
        if not before or before[-1].ts_ns < ts_ns - _BEAT_NS or len(usable) < len(told):
            return [self._unseen(record, rules)]
        # Most snapshots read the files soon after the second that they are named after.
        soon = [write for write in usable if write.ts_ns <= ts_ns + _SOON_NS]
        return [
            _Moment(write.rules, write.ts_ns, write.ts_ns, write)
            for write in (*reversed(soon), *usable[len(soon) :])
            if write.rules is not None
        ]

    def _unseen(self, record: Record, rules: Rules) -> _Moment:
        """A write that no line tells of: it was some time between the last one and the reading."""
        before = [
            write.ts_ns
            for write in self._writes.recent
            if write.ts_ns <= record.ts_ns and not write.failed
        ]
        start = before[-1] if before else record.ts_ns - _BEAT_NS
        return _Moment(rules, start, record.ts_ns + READ_NS, None)

    def _writing(self, moment: _Moment) -> _Writing:
        """With which sums it can have reckoned, by what is known now."""
        rules, write = moment.rules, moment.write
        if write is not None:
            return _Writing(rules, self._sums(write, rules), _seqs(write))
        sums = sums_between(self._lives, self._bench.pods, rules, moment.start_ns, moment.end_ns)
        return _Writing(rules, sums, ())

    def _sums(self, write: Write, rules: Rules) -> Sums:
        """Sums at a write; those that agree with what it logged about memory."""
        sums = sums_between(self._lives, self._bench.pods, rules, write.ts_ns, write.ts_ns)
        if write.requests is None:
            return sums
        agreeing = [
            requests
            for requests in sums.possible
            if (requests.guaranteed_memory, requests.burstable_memory) == write.requests
        ]
        if not agreeing:
            return sums
        usual = sums.usual
        if usual not in agreeing:
            usual = min(
                agreeing, key=lambda r: abs(r.burstable_milli_cpu - usual.burstable_milli_cpu)
            )
        return msgspec.structs.replace(sums, usual=usual, possible=frozenset(agreeing))

    def _keep(self, body: CgroupUpdated, rules: Rules) -> None:
        """Remember what stands in the files of a level that are not written."""
        if rules.settings.reserve_percent != NO_RESERVE:
            self._kept.pop(body.cgroup, None)
            return
        kept = self._kept.setdefault(body.cgroup, {})
        for key, value in recorded_of(body, UNWRITTEN).items():
            kept[key] = tuple(dict.fromkeys((*kept.get(key, ()), value)))[-_KEPT_MAX:]


def _seqs(write: Write) -> tuple[int, ...]:
    logged = (seq for seq, _, _ in write.reserves.values())
    settings = write.rules.settings.seq if write.rules is not None else None
    return (*logged, write.record.seq, *(() if settings is None else (settings,)))


def _by_usage(body: CgroupUpdated, judged: Judged, capacity: Capacity | None) -> str | None:
    """A limit below the usage is refused by the kernel, and the usage is written in its stead.

    That a class uses more than half of the machine's memory is not taken into account.

    Source: v1.20.2 pkg/kubelet/cm/qos_container_manager_linux.go retrySetMemoryReserve
    """
    if judged.differing != ("memory_limit_bytes",) or capacity is None:
        return None
    expected, found = judged.expected["memory_limit_bytes"], body.memory_limit_bytes
    most = capacity.amounts["memory"].value() if "memory" in capacity.amounts else 0
    if found is None or not 0 <= expected < found <= most or expected > most // 2:
        return None
    return "the memory usage when the limit was written"
