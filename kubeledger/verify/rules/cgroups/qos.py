"""The cgroups ``burstable`` and ``besteffort``: what they hold, and the writes that leave it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.cgroups.paths import parse_cgroup_path
from kubeledger.cgroups.qos_config import (
    QOS_HUGE_PAGE_LIMIT,
    QOSRequests,
    qos_config,
    qos_unified,
)
from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, judge, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.cgroups.files import Compared, Option, compare
from kubeledger.verify.rules.cgroups.node import Machine
from kubeledger.verify.rules.cgroups.settings import NO_RESERVE, Rules
from kubeledger.verify.rules.cgroups.sums import Span, Summer, Sums
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values, recorded_of
from kubeledger.verify.rules.cgroups.words import qos_pods, shares_sum
from kubeledger.verify.rules.cgroups.writes import PERIOD_NS, READ_NS, WHOLE_LOG, Write, Writes

__all__ = ["UNTOLD", "QOSLevels"]

UNTOLD: Final = "what the sync loop tells behind the preemption that it waits for"

_BEAT_NS: Final = PERIOD_NS + 2 * NS_PER_S
"""A kubelet that logs its writes logs one at least this often."""
_SOON_NS: Final = 3 * NS_PER_S // 2
_AROUND_NS: Final = 10 * NS_PER_S
_ORPHANS_NS: Final = 60 * NS_PER_S
"""So long after its start a kubelet may still kill pods that were taken away without it."""
_UNWRITTEN: Final = ("memory_limit_bytes", "unified/memory.max")
"""Files of a QoS level that are written only with a memory reserve."""
_KEPT_MAX: Final = 4

Kept = dict[str, tuple[Any, ...]]
"""Field -> (1 or more,) values that stood in a file which this kubelet does not write."""


class _Moment(msgspec.Struct, frozen=True):
    """When a write can have been made: the told one, or one that no line tells of."""

    rules: Rules
    start_ns: int
    end_ns: int
    write: Write | None


class _Reckoned(NamedTuple):
    """What a write reckoned with, by the records ``inputs``.

    Attributes:
        allocatable: the machine's memory less what is reserved; None where it plays no part.
    """

    sums: Sums
    rules: Rules
    allocatable: int | None
    inputs: tuple[int, ...]


class QOSLevels:
    """Judges ``burstable`` and ``besteffort``, and the writes."""

    def __init__(self, bench: Bench, machine: Machine, writes: Writes) -> None:
        self._bench = bench
        self._machine = machine
        self._writes = writes
        self._summer = Summer(bench)
        self._kept: dict[str, Kept] = {}

    # Writes -------------------------------------------------------------------------------

    def written(self, write: Write, rules: Rules) -> Judgement:
        """Whether a write was due, and reckoned with what pods request."""
        if not rules.settings.per_qos:
            return same(False, "cgroupsPerQOS is off, so there are no QoS cgroups to write")
        logged = tuple(seq for seq, _, _ in write.reserves.values())
        if not write.explained:
            return self._not_due(write)
        wrong, unknown = self._reckoning(write, rules)
        if wrong is None:
            why = f"a write of the QoS cgroups was due: {write.explained}"
            return same(True, why, expected={}, inputs=(*write.inputs, *logged))
        missing = self._lost(write.ts_ns, write.ts_ns + _AROUND_NS, unknown)
        return lacks([missing]) if missing is not None else same(False, wrong, inputs=logged)

    def _not_due(self, write: Write) -> Judgement:
        """Neither a beat nor a pod explains it."""
        ts_ns = write.ts_ns
        last_ns, next_ns = self._writes.around(ts_ns)
        if last_ns is None:
            return lacks(["the start of the minute timer"])
        if next_ns is None:
            return lacks(["the next beat of the minute timer"])
        process = self._bench.timeline.process(ts_ns)
        orphans = process is None or (
            ts_ns <= process.started_ns + _ORPHANS_NS
            and (process.number > 0 or not process.from_start)
        )
        between = [w for w in self._writes.within(last_ns, next_ns) if not w.explained]
        moved = len(between) == 1 and round((next_ns - last_ns) / PERIOD_NS) == 2
        unknown = self._bench.timeline.unknown_pods(ts_ns)
        missing = self._lost(
            ts_ns, ts_ns + _AROUND_NS, () if unknown is None else (unknown.phrase,), moved=moved
        )
        if missing is not None or orphans:
            return lacks([missing or "the pods that were taken away before the process started"])
        why = (
            f"no write of the QoS cgroups was due at {format_ts(ts_ns)}: the minute timer beats at "
            f"{format_ts(next_ns)} and whole minutes from it, no pod was synced for the first "
            "time, and none was taken down"
        )
        return same(False, why)

    def _lost(
        self, ts_ns: int, end_ns: int, unknown: tuple[str, ...], *, moved: bool = False
    ) -> str | None:
        """What may be missing of the pods that counted at a time; None where nothing is."""
        if unknown:
            return unknown[0]
        if not moved and self._writes.minutes_lost(ts_ns):
            return WHOLE_LOG
        loss = self._bench.coverage.missing(ts_ns - _AROUND_NS, end_ns)
        if loss is not None:
            return loss.phrase
        if self._writes.ends_early(end_ns):
            return WHOLE_LOG
        return UNTOLD if self._bench.timeline.turns.waits_on(ts_ns) else None

    def _reckoning(self, write: Write, rules: Rules) -> tuple[str | None, tuple[str, ...]]:
        """Why the sums that a write logged cannot be; None where they can, or are not known.

        And what may be unknown for that.
        """
        percent = rules.settings.reserve_percent
        if not write.reserves or percent is None:
            return None, ()
        if percent == NO_RESERVE:
            return "memory is not among qosReserved, so no reserve is computed", ()
        for qos_class, (_, _, logged) in sorted(write.reserves.items()):
            if logged != percent:
                return f"the reserve of {qos_class} is {percent} %, not {logged} %", ()
        sums = self._summer.between(write.ts_ns, write.ts_ns, rules)
        if sums.missing or not sums.exact or any(_agrees(write, of) for of in sums.possible):
            return None, ()
        told = ", ".join(f"{number} of {name}" for name, (_, number, _) in
                         sorted(write.reserves.items()))  # fmt: skip
        usual = sums.usual
        why = (
            f"the active pods request {usual.guaranteed_memory} bytes (Guaranteed) and "
            f"{usual.burstable_memory} bytes (Burstable), and no other set that can have been "
            f"active requests what it reckoned with: {told}"
        )
        return why, sums.unknown

    # Levels -------------------------------------------------------------------------------

    def level(
        self, body: CgroupUpdated, ts_ns: int, rules: Rules
    ) -> tuple[Judgement, Compared | None]:
        """Whether some write can have left what a level holds."""
        kept = dict(self._kept.get(body.cgroup, {}))
        missing: list[str] = []
        unknown: list[str] = []
        reckoned = [
            self._reckoned(ts_ns, moment, missing, unknown)
            for moment in self._moments(ts_ns, rules)
        ]
        if missing:
            return lacks(list(dict.fromkeys(missing))), None
        options = (option for each in reckoned for option in _options(body, each, kept))
        compared = compare(body, options)
        if compared is None:
            return lacks(["values in the cgroup's files"]), None
        self._keep(body, rules)
        cut = None
        if not compared.ruling.allowed:
            cut = self._excuse(body, ts_ns, rules, compared, kept, tuple(unknown))
        return (judge([compared.ruling]) if cut is None else lacks([cut])), compared

    def _moments(self, ts_ns: int, rules: Rules) -> list[_Moment]:
        """Each write that can have been the last one before the files were read."""
        before, after = self._writes.before(ts_ns), self._writes.within(ts_ns, ts_ns + READ_NS)
        told = [*before, *after]
        if not before or before[-1].ts_ns < ts_ns - _BEAT_NS or any(w.failed for w in told):
            return [self._unseen(ts_ns, rules)]
        # Most snapshots read the files soon after the second that they are named after.
        soon = [write for write in told if write.ts_ns <= ts_ns + _SOON_NS]
        likely = (*reversed(soon), *told[len(soon) :])
        return [_Moment(rules, write.ts_ns, write.ts_ns, write) for write in likely]

    def _unseen(self, ts_ns: int, rules: Rules) -> _Moment:
        """A write that no line tells of: it was some time between the last one and the reading."""
        before = [write for write in self._writes.before(ts_ns) if not write.failed]
        start_ns = before[-1].ts_ns if before else ts_ns - _BEAT_NS
        return _Moment(rules, start_ns, ts_ns + READ_NS, None)

    def _reckoned(
        self, ts_ns: int, moment: _Moment, missing: list[str], unknown: list[str]
    ) -> _Reckoned:
        """What a write reckoned with; what is not known goes to the lists."""
        rules, write = moment.rules, moment.write
        percent = rules.settings.reserve_percent
        limit = None
        if percent is None:
            missing.append("the settings qosReserved and featureGates")
        elif percent != NO_RESERVE:
            limit = self._machine.memory_allocatable(ts_ns, rules)
            if limit is None:
                missing.append("the machine's memory and what is reserved of it")
        sums = self._summer.between(moment.start_ns, moment.end_ns, rules)
        missing += sums.missing
        unknown += sums.unknown
        if write is not None and sums.exact and len(write.reserves) > 1:
            agreeing = tuple(of for of in sums.possible if _agrees(write, of))
            if agreeing:
                sums = msgspec.structs.replace(sums, possible=agreeing)
        inputs = sums.inputs
        if write is not None:
            inputs += (*(seq for seq, _, _ in write.reserves.values()), write.seq)
            inputs += () if rules.settings.seq is None else (rules.settings.seq,)
        return _Reckoned(sums, rules, limit, inputs)

    def _excuse(
        self,
        body: CgroupUpdated,
        ts_ns: int,
        rules: Rules,
        compared: Compared,
        kept: Kept,
        unknown: tuple[str, ...],
    ) -> str | None:
        """Why a value that no known write gives may be right all the same."""
        if lost := self._lost(ts_ns, ts_ns + READ_NS, unknown):
            return lost
        if reason := self._by_usage(body, ts_ns, compared):
            return reason
        missing: list[str] = []
        reckoned = self._reckoned(ts_ns, self._unseen(ts_ns, rules), missing, [])
        again = None if missing else compare(body, _options(body, reckoned, kept))
        if again is None or not again.ruling.allowed:
            return None
        return "the write of the QoS cgroups that gave these values"

    def _by_usage(self, body: CgroupUpdated, ts_ns: int, compared: Compared) -> str | None:
        """A limit below the usage is refused by the kernel, and the usage is written in its stead.

        That a class uses more than half of the machine's memory is not taken into account.

        Source: v1.20.2 pkg/kubelet/cm/qos_container_manager_linux.go retrySetMemoryReserve
        """
        capacity = self._machine.at(ts_ns)
        if compared.differing != ("memory_limit_bytes",) or capacity is None:
            return None
        expected = (compared.ruling.expected or {})["memory_limit_bytes"]
        found = body.memory_limit_bytes
        most = capacity.amounts["memory"].value() if "memory" in capacity.amounts else 0
        if found is None or not 0 <= expected < found <= most or expected > most // 2:
            return None
        return "the memory usage when the limit was written"

    def _keep(self, body: CgroupUpdated, rules: Rules) -> None:
        """Remember what stands in the files of a level that are not written."""
        if rules.settings.reserve_percent != NO_RESERVE:
            self._kept.pop(body.cgroup, None)
            return
        kept = self._kept.setdefault(body.cgroup, {})
        for key, value in recorded_of(body, _UNWRITTEN).items():
            kept[key] = tuple(dict.fromkeys((*kept.get(key, ()), value)))[-_KEPT_MAX:]


def _agrees(write: Write, requests: QOSRequests) -> bool:
    """Whether a sum is what a write logged."""
    summed = {"Guaranteed": requests.guaranteed_memory, "Burstable": requests.burstable_memory}
    return all(summed.get(name) == number for name, (_, number, _) in write.reserves.items())


def _options(body: CgroupUpdated, reckoned: _Reckoned, kept: Kept) -> Iterator[Option]:
    """All that a write can have left, the usual first.

    One for each sum; where there are too many, one that holds all between the ends.
    """
    sums = reckoned.sums
    options = (_option(body, requests, reckoned, kept) for requests in sums.possible)
    if sums.exact:
        yield from options
        return
    found = list(options)
    usual, low, high = (option.values for option in found)
    values = dict(usual)
    for key in ("cpu_shares", "unified/cpu.weight", *_UNWRITTEN, "unified/memory.min"):
        if key not in usual or (usual[key] == low[key] == high[key]):
            continue
        ends = [int(each[key][0]) for each in (low, usual, high) if str(each[key][0]).isdecimal()]
        if len(ends) < len(found):
            values.pop(key)
        else:
            values[key] = Span(ends[1], (min(ends), max(ends)))
    yield Option(values, found[0].why, found[0].inputs, found[0].fields)


def _option(body: CgroupUpdated, requests: QOSRequests, reckoned: _Reckoned, kept: Kept) -> Option:
    sums, rules, allocatable, inputs = reckoned
    percent = rules.settings.reserve_percent
    reserved = percent is not None and percent != NO_RESERVE
    config = qos_config(
        requests,
        allocatable_memory=allocatable,
        memory_reserve_percent=percent if reserved else None,
    )
    where = parse_cgroup_path(body.cgroup)
    qos_class = body.qos_class if where is None else where.qos_class
    burstable = qos_class == "Burstable"
    shares = config.burstable_shares if burstable else config.best_effort_shares
    memory = config.burstable_memory_limit if burstable else config.best_effort_memory_limit
    unified = is_unified(body)
    values: Values = kernel_values(
        unified=unified, shares=[shares], quota_us=[None], period_us=None, memory=memory
    )
    for key in _UNWRITTEN if memory is None else ():
        values.pop(key, None)
        if key in kept:
            values[key] = kept[key]
    values["unified/pids.max" if unified else "other/pids.max"] = ("max",)
    if unified and burstable and rules.settings.memory_qos:
        files = qos_unified(
            requests, rules.profile.cgroups, tiered_reservation=rules.settings.tiered
        )
        values |= {f"unified/{name}": (text,) for name, text in files["burstable"].items()}
    for size in body.hugetlb_limit_bytes:
        values[f"hugetlb_limit_bytes/{size}"] = (QOS_HUGE_PAGE_LIMIT,)
    fields = {"level": "qos", "qos_class": qos_class, "pod_uid": None}
    of = f" (of {sums.pods} active pods)" if requests == sums.usual else ""
    why = f"BestEffort pods share {shares} shares"
    if burstable:
        milli, pods = requests.burstable_milli_cpu, qos_pods(sums.parts.get(requests, ()))
        why = (
            f"Burstable pods{of} request {milli}m CPU together, which are {shares} shares"
            f"{shares_sum(milli, shares)}{f': {pods}' if pods else ''}"
        )
    asked = f"{requests.guaranteed_memory} bytes of the Guaranteed pods"
    if not burstable:
        asked += f" and {requests.burstable_memory} bytes of the Burstable pods{of}"
    left = (
        f"{percent} % of the requested {asked} is kept from them, which leaves {memory} of "
        f"{allocatable} allocatable bytes"
        if reserved
        else "no memory limit is written"
    )
    return Option(values, f"{why}, and {left}", inputs, fields)
