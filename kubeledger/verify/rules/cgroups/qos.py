"""The cgroups ``burstable`` and ``besteffort``: what they hold, and the writes that leave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.kubelet.cgroups.node_config import (
    QOS_HUGE_PAGE_LIMIT,
    QOSRequests,
    kubepods_resources,
    qos_config,
    qos_unified,
)
from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.kubelet.cgroups.pod_config import (
    MILLI_PER_CPU,
    MIN_SHARES,
    SHARES_PER_CPU,
    shares_of_milli_cpu,
)
from kubeledger.kubelet.cgroups.reducer import CgroupState
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.times import ROUND_NS
from kubeledger.verify.rules.cgroups.files import (
    NO_VALUES,
    Compared,
    Option,
    Values,
    compare,
    is_unified,
    kernel_values,
    value_of,
)
from kubeledger.verify.rules.cgroups.options import NO_RESERVE, Rules, listed
from kubeledger.verify.rules.cgroups.writes import PERIOD_NS, Amounts, Summer, Sums, Write, Writes

_BEAT_NS: Final = PERIOD_NS + 2 * NS_PER_S
"""A kubelet that logs its writes logs one at least this often."""
_SOON_NS: Final = 3 * NS_PER_S // 2
"""Most snapshots read the files so soon after the second that they are named after."""
_AROUND_NS: Final = 10 * NS_PER_S
_ORPHANS_NS: Final = 60 * NS_PER_S
"""So long after its start a kubelet may still kill pods that were taken away without it."""
_LIMIT: Final = ("memory_limit_bytes", "unified/memory.max")
"""Files of a QoS level that are written only with a memory reserve; else they stay."""
_WHOLE_LOG: Final = "the whole log; a part with a line of the minute timer is missing"
_NO_LIST: Final = "a list of the pods from then on"
_UNREPORTED: Final = "what the sync loop logs after the preemption that it waits for"
_UNSEEN: Final = "the write of the QoS cgroups that gave these values"

_Moment = tuple[int, int, Write | None]
"""The span in which a write was, and the write where a line shows it."""


class QOSLevels:
    """Judges ``burstable`` and ``besteffort``, and the writes."""

    def __init__(self, context: VerifyContext, writes: Writes, summer: Summer) -> None:
        self._context = context
        self._writes = writes
        self._summer = summer

    # Writes -------------------------------------------------------------------------------

    def written(self, write: Write, rules: Rules) -> Judgement:
        """Whether a write was due, and counted what pods request."""
        if not rules.per_qos:
            return same(False, "cgroupsPerQOS is off, so there are no QoS cgroups to write")
        if not write.explained:
            return self._not_due(write.ts_ns)
        logged = tuple(seq for seq, _, _ in write.reserves.values())
        wrong, unknown = self._reckoning(write, rules)
        if wrong is None:
            why = f"a write of the QoS cgroups was due: {write.explained}"
            return same(True, why, expected={}, inputs=(*write.inputs, *logged))
        missing = self._lost(write.ts_ns, write.ts_ns + _AROUND_NS, unknown)
        return lacks([missing]) if missing is not None else same(False, wrong, inputs=logged)

    def _not_due(self, ts_ns: int) -> Judgement:
        """Neither a tick of the timer nor a pod explains it."""
        last_ns, next_ns = self._writes.around(ts_ns)
        if last_ns is None or next_ns is None:
            which = "start" if last_ns is None else "next line"
            return lacks([f"the {which} of the minute timer"])
        process = self._context.timeline.process(ts_ns)
        complete = process is not None and process.number == 0 and process.from_start
        if not complete and (process is None or ts_ns <= process.started_ns + _ORPHANS_NS):
            return lacks(["the pods that were removed before the process started"])
        odd = [write for write in self._writes.within(last_ns, next_ns) if not write.explained]
        moved = len(odd) == 1 and round((next_ns - last_ns) / PERIOD_NS) == 2
        unknown = self._context.timeline.unknown_pods(ts_ns)
        phrases = () if unknown is None else (unknown.phrase,)
        if not self._context.timeline.is_listed_from(ts_ns):
            phrases = (*phrases, _NO_LIST)  # the lines of a pod may have been left out, all of them
        missing = self._lost(ts_ns, ts_ns + _AROUND_NS, phrases, moved=moved)
        why = (
            f"no write of the QoS cgroups was due at {format_ts(ts_ns)}: the minute timer fires at "
            f"{format_ts(next_ns)} and whole minutes from it, no pod was synced for the first "
            "time, and none was taken down"
        )
        return same(False, why) if missing is None else open_to(missing, denied=why)

    def _lost(
        self, ts_ns: int, end_ns: int, unknown: Sequence[str], *, moved: bool = False
    ) -> str | None:
        """What may be missing of the pods that counted at a time; None where nothing is."""
        if unknown:
            return unknown[0]
        last_ns, next_ns = self._writes.around(ts_ns)
        if last_ns and next_ns and next_ns - last_ns > 3 * PERIOD_NS // 2 and not moved:
            return _WHOLE_LOG
        loss = self._context.coverage.missing(ts_ns - _AROUND_NS, end_ns)
        if loss is not None:
            return loss.phrase
        # Where the next process's first lines are lost, so may be the last ones of this.
        for process in self._context.timeline.processes.all:
            cut = process.started_ns > end_ns and not process.from_start
            if cut and not self._writes.within(end_ns, process.started_ns):
                return _WHOLE_LOG
        return _UNREPORTED if self._context.timeline.iterations.waits_on(ts_ns) else None

    def _reckoning(self, write: Write, rules: Rules) -> tuple[str | None, Sequence[str]]:
        """Why the sums that a write logged cannot be; None where they can, or are not known.

        And what may be unknown for that.
        """
        percent = rules.reserve_percent
        if not write.reserves or percent is None:
            return None, ()
        if percent == NO_RESERVE:
            return "memory is not among qosReserved, so no reserve is computed", ()
        for qos_class, (_, _, logged) in sorted(write.reserves.items()):
            if logged != percent:
                return f"the reserve of {qos_class} is {percent} %, not {logged} %", ()
        sums = self._summer.between(write.ts_ns, write.ts_ns, rules)
        if sums.missing or not sums.memory or _agreeing(write, sums):
            return None, ()
        found = ", ".join(f"{n} of {name}" for name, (_, n, _) in sorted(write.reserves.items()))
        _, guaranteed, burstable = sums.usual
        why = f"the active pods request {guaranteed} bytes (Guaranteed) and {burstable} bytes "
        why += "(Burstable), and no other set that can have been active requests what it counted "
        return f"{why}with: {found}", sums.unknown

    # Levels -------------------------------------------------------------------------------

    def level(
        self, body: CgroupUpdated, ts_ns: int, rules: Rules, before: CgroupState | None
    ) -> tuple[Judgement, Compared | None]:
        """Whether some write can have left what a level holds; ``before``: what it held last."""
        percent, missing = rules.reserve_percent, list[str]()
        if percent is None:
            missing = ["the settings qosReserved and featureGates"]
        elif percent != NO_RESERVE and self._allocatable(ts_ns, rules) is None:
            missing = ["the machine's memory and what is reserved of it"]
        found = [(m, self._summer.between(m[0], m[1], rules)) for m in self._last_writes(ts_ns)]
        missing += [phrase for _, sums in found for phrase in sums.missing]
        if missing:
            return lacks(list(dict.fromkeys(missing))), None
        options = (self._option(body, ts_ns, rules, before, sums, m[2]) for m, sums in found)
        compared = compare(body, options)
        if compared is None:
            return lacks([NO_VALUES]), None
        if compared.ruling.allowed:
            return judge([compared.ruling]), compared
        unknown = [phrase for _, sums in found for phrase in sums.unknown]
        # Who counted at a write is as uncertain as the lines around the write.
        spans = ((ts_ns, ts_ns + ROUND_NS), *((start, end) for (start, end, _), _ in found))
        losses = (self._lost(start, end, unknown) for start, end in spans)
        excuse = next(filter(None, losses), None) or self._usage(body, ts_ns, compared)
        if excuse is None:
            sums = self._summer.between(*self._unseen(ts_ns)[:2], rules)
            again = compare(body, [self._option(body, ts_ns, rules, before, sums, None)])
            if again is None or not again.ruling.allowed:
                return judge([compared.ruling]), compared
        return open_to(excuse or _UNSEEN, denied=compared.ruling.why), compared

    def _last_writes(self, ts_ns: int) -> list[_Moment]:
        """The writes that may be the last before the files were read, the most likely first."""
        found = [*self._writes.before(ts_ns), *self._writes.within(ts_ns, ts_ns + ROUND_NS)]
        last_ns = max((w.ts_ns for w in self._writes.before(ts_ns)), default=0)
        if last_ns < ts_ns - _BEAT_NS or any(write.failed for write in found):
            return [self._unseen(ts_ns)]
        soon = [write for write in found if write.ts_ns <= ts_ns + _SOON_NS]
        return [(w.ts_ns, w.ts_ns, w) for w in (*reversed(soon), *found[len(soon) :])]

    def _unseen(self, ts_ns: int) -> _Moment:
        """A write that no line shows: it was some time between the last one and the reading."""
        before = [write.ts_ns for write in self._writes.before(ts_ns) if not write.failed]
        return (before[-1] if before else ts_ns - _BEAT_NS), ts_ns + ROUND_NS, None

    def _option(
        self,
        body: CgroupUpdated,
        ts_ns: int,
        rules: Rules,
        before: CgroupState | None,
        sums: Sums,
        write: Write | None,
    ) -> Option:
        """All that a write can have left by any sum of requests, the usual one first."""
        unified, where = is_unified(body), parse_cgroup_path(body.cgroup)
        qos_class = body.qos_class if where is None else where.qos_class
        burstable, percent = qos_class == "Burstable", rules.reserve_percent
        reserve = None if percent == NO_RESERVE else percent
        allocatable = None if reserve is None else self._allocatable(ts_ns, rules)
        memory = (_agreeing(write, sums) if write is not None else []) or sums.memory
        asked = [QOSRequests(sums.usual[0], *each) for each in memory]
        limits: list[int | None] = [None] if reserve is None else []
        of = {"allocatable_memory": allocatable, "memory_reserve_percent": reserve}
        for config in (qos_config(each, **of) for each in asked if reserve is not None):
            best_effort, own = config.best_effort_memory_limit, config.burstable_memory_limit
            limits.append(own if burstable else best_effort)
        shares = [shares_of_milli_cpu(milli) for milli in sums.cpu] if burstable else [MIN_SHARES]
        values = kernel_values(unified=unified, shares=shares, memory=limits)
        values["unified/pids.max" if unified else "other/pids.max"] = ("max",)
        for size in body.hugetlb_limit_bytes:
            values[f"hugetlb_limit_bytes/{size}"] = (QOS_HUGE_PAGE_LIMIT,)
        if unified and burstable and rules.memory_qos:
            values |= _protection(asked, rules)
        for key in _LIMIT if reserve is None else ():
            held = None if before is None else value_of(before, key)
            values[key] = () if held is None else (held, *values.get(key, ()))
        why = _who(shares[:1], sums) if burstable else f"BestEffort pods share {MIN_SHARES} shares"
        left = "no memory limit is written"
        if reserve is not None:
            left = f"{reserve} % of the memory that pods of better classes request is kept from "
            left += f"them, which leaves {limits[0] if limits else 'some'} of {allocatable} "
            left += "allocatable bytes"
        inputs = sums.inputs
        if write is not None:
            seqs = (*(seq for seq, _, _ in write.reserves.values()), write.seq, rules.seq)
            inputs += tuple(seq for seq in seqs if seq is not None)
        fields = {"level": "qos", "qos_class": qos_class, "pod_uid": None}
        known = {key: possible for key, possible in values.items() if possible}
        return Option(known, f"{why}, and {left}", inputs, fields)

    def _usage(self, body: CgroupUpdated, ts_ns: int, compared: Compared) -> str | None:
        """A limit below the usage is refused by the kernel, and the usage is written in its stead.

        That a class uses more than half of the machine's memory is not taken into account.

        Source: v1.20.2 pkg/kubelet/cm/qos_container_manager_linux.go retrySetMemoryReserve
        """
        most, found = self._context.machine.memory_bytes(ts_ns), body.memory_limit_bytes
        if most is None or found is None or not compared.differing.keys() <= set(_LIMIT):
            return None
        expected = (compared.ruling.expected or {})["memory_limit_bytes"]
        if not 0 <= expected < found <= most or expected > most // 2:
            return None
        return "the memory usage when the limit was written"

    def _allocatable(self, ts_ns: int, rules: Rules) -> int | None:
        """Bytes less both reserves, as the QoS reserve computes them; None when it is not known."""
        memory = self._context.machine.memory_bytes(ts_ns)
        if memory is None or rules.reservation is None:
            return None
        left = kubepods_resources({"memory": Quantity.of(memory)}, rules.reservation)
        return left["memory"].value()


def _agreeing(write: Write, sums: Sums) -> list[Amounts]:
    """The sums of memory requests that a write can have logged; all where it logged none."""
    logged = [write.reserves.get(name, (0, None, 0))[1] for name in ("Guaranteed", "Burstable")]
    return [each for each in sums.memory
            if all(n in (None, asked) for n, asked in zip(logged, each, strict=True))]  # fmt: skip


def _protection(asked: Sequence[QOSRequests], rules: Rules) -> Values:
    """Memory files of ``burstable`` with the gate MemoryQoS; what may be left as it was is none."""
    facts, tiered = rules.profile.cgroups, rules.tiered
    written = [qos_unified(each, facts, tiered_reservation=tiered)["burstable"] for each in asked]
    always = [name for name in (written or [{}])[0] if all(name in files for files in written)]
    return {f"unified/{name}": tuple(files[name] for files in written) for name in always}


def _who(shares: Sequence[int], sums: Sums) -> str:
    """From which requests Burstable pods have their shares, by the usual sum."""
    milli = sums.usual[0]
    why = f"Burstable pods (of {sums.pods} active pods) request {milli}m CPU together"
    for usual in shares:
        why += f", which are {usual} shares"
        if usual == milli * SHARES_PER_CPU // MILLI_PER_CPU:
            why += f" ({milli} * {SHARES_PER_CPU} / {MILLI_PER_CPU})"
    if sums.parts:
        why += f": {listed((name, f'{part}m') for name, part in sums.parts.items())}"
    return why
