"""The cgroups ``burstable`` and ``besteffort``: what they hold, and the writes that leave it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubeledger.kubelet.cgroups.conversions import (
    MILLI_PER_CPU,
    MIN_SHARES,
    SHARES_PER_CPU,
    shares_of_milli_cpu,
)
from kubeledger.kubelet.cgroups.paths import parse_cgroup_path
from kubeledger.kubelet.cgroups.qos_config import (
    QOS_HUGE_PAGE_LIMIT,
    QOSConfig,
    QOSRequests,
    qos_config,
    qos_unified,
)
from kubeledger.kubelet.cgroups.state import CgroupState
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, judge, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.cgroups.files import NO_VALUES, Compared, Option, compare
from kubeledger.verify.rules.cgroups.node import Machine
from kubeledger.verify.rules.cgroups.options import listed
from kubeledger.verify.rules.cgroups.settings import NO_RESERVE, Rules
from kubeledger.verify.rules.cgroups.sums import Amounts, Summer, Sums
from kubeledger.verify.rules.cgroups.values import Values, is_unified, kernel_values, value_of
from kubeledger.verify.rules.cgroups.writes import PERIOD_NS, READ_NS, Write, Writes

__all__ = ["UNTOLD", "WHOLE_LOG", "QOSLevels"]

UNTOLD: Final = "what the sync loop tells behind the preemption that it waits for"
WHOLE_LOG: Final = "the whole log, of which a piece with a beat of the minute timer is not there"

_BEAT_NS: Final = PERIOD_NS + 2 * NS_PER_S
"""A kubelet that logs its writes logs one at least this often."""
_SOON_NS: Final = 3 * NS_PER_S // 2
"""Most snapshots read the files so soon after the second that they are named after."""
_AROUND_NS: Final = 10 * NS_PER_S
_ORPHANS_NS: Final = 60 * NS_PER_S
"""So long after its start a kubelet may still kill pods that were taken away without it."""
_LIMIT: Final = ("memory_limit_bytes", "unified/memory.max")
"""Files of a QoS level that are written only with a memory reserve; else they stay."""
_BY_MEMORY: Final = (*_LIMIT, "unified/memory.min", "unified/memory.low")
_SHARES: Final = ("cpu_shares", "unified/cpu.weight")


class QOSLevels:
    """Judges ``burstable`` and ``besteffort``, and the writes."""

    def __init__(self, bench: Bench, machine: Machine, writes: Writes) -> None:
        self._bench = bench
        self._machine = machine
        self._writes = writes
        self._summer = Summer(bench)

    # Writes -------------------------------------------------------------------------------

    def written(self, write: Write, rules: Rules) -> Judgement:
        """Whether a write was due, and reckoned with what pods request."""
        if not rules.settings.per_qos:
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
        """Neither a beat nor a pod explains it."""
        last_ns, next_ns = self._writes.around(ts_ns)
        if last_ns is None or next_ns is None:
            which = "start" if last_ns is None else "next beat"
            return lacks([f"the {which} of the minute timer"])
        process = self._bench.timeline.process(ts_ns)
        if process is None or (
            ts_ns <= process.started_ns + _ORPHANS_NS
            and (process.number > 0 or not process.from_start)
        ):
            return lacks(["the pods that were taken away before the process started"])
        odd = [write for write in self._writes.within(last_ns, next_ns) if not write.explained]
        moved = len(odd) == 1 and round((next_ns - last_ns) / PERIOD_NS) == 2
        unknown = self._bench.timeline.unknown_pods(ts_ns)
        phrases = () if unknown is None else (unknown.phrase,)
        missing = self._lost(ts_ns, ts_ns + _AROUND_NS, phrases, moved=moved)
        if missing is not None:
            return lacks([missing])
        why = (
            f"no write of the QoS cgroups was due at {format_ts(ts_ns)}: the minute timer beats at "
            f"{format_ts(next_ns)} and whole minutes from it, no pod was synced for the first "
            "time, and none was taken down"
        )
        return same(False, why)

    def _lost(
        self, ts_ns: int, end_ns: int, unknown: Sequence[str], *, moved: bool = False
    ) -> str | None:
        """What may be missing of the pods that counted at a time; None where nothing is."""
        if unknown:
            return unknown[0]
        last_ns, next_ns = self._writes.around(ts_ns)
        if last_ns and next_ns and next_ns - last_ns > 3 * PERIOD_NS // 2 and not moved:
            return WHOLE_LOG
        loss = self._bench.coverage.missing(ts_ns - _AROUND_NS, end_ns)
        if loss is not None:
            return loss.phrase
        # Where the next process's first lines are lost, so may be the last ones of this.
        for process in self._bench.timeline.processes.all:
            cut = process.started_ns > end_ns and not process.from_start
            if cut and not self._writes.within(end_ns, process.started_ns):
                return WHOLE_LOG
        return UNTOLD if self._bench.timeline.turns.waits_on(ts_ns) else None

    def _reckoning(self, write: Write, rules: Rules) -> tuple[str | None, Sequence[str]]:
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
        if sums.missing or not sums.memory or _agreeing(write, sums):
            return None, ()
        told = ", ".join(f"{n} of {name}" for name, (_, n, _) in sorted(write.reserves.items()))
        _, guaranteed, burstable = sums.usual
        why = (
            f"the active pods request {guaranteed} bytes (Guaranteed) and {burstable} bytes "
            "(Burstable), and no other set that can have been active requests what it reckoned "
            f"with: {told}"
        )
        return why, sums.unknown

    # Levels -------------------------------------------------------------------------------

    def level(
        self, body: CgroupUpdated, ts_ns: int, rules: Rules, before: CgroupState | None
    ) -> tuple[Judgement, Compared | None]:
        """Whether some write can have left what a level holds.

        Args:
            body: what a snapshot shows.
            ts_ns: its time.
            rules: of the kubelet process that runs.
            before: what the one before showed.
        """
        self._writes.settle()
        missing = self._lacking(ts_ns, rules)
        told = self._told(ts_ns)
        sums = [self._summer.between(start_ns, end_ns, rules) for start_ns, end_ns, _ in told]
        missing += [phrase for each in sums for phrase in each.missing]
        if missing:
            return lacks(list(dict.fromkeys(missing))), None
        compared = compare(
            body,
            (
                option
                for (_, _, write), of in zip(told, sums, strict=True)
                for option in self._options(body, ts_ns, rules, before, of, write)
            ),
        )
        if compared is None:
            return lacks([NO_VALUES]), None
        if compared.ruling.allowed:
            return judge([compared.ruling]), compared
        unknown = [phrase for each in sums for phrase in each.unknown]
        excuse = self._lost(ts_ns, ts_ns + READ_NS, unknown) or self._usage(body, ts_ns, compared)
        if excuse is None:
            start_ns, end_ns, _ = self._unseen(ts_ns)
            of = self._summer.between(start_ns, end_ns, rules)
            again = compare(body, self._options(body, ts_ns, rules, before, of, None))
            if again is not None and again.ruling.allowed:
                excuse = "the write of the QoS cgroups that gave these values"
        return (judge([compared.ruling]) if excuse is None else lacks([excuse])), compared

    def _lacking(self, ts_ns: int, rules: Rules) -> list[str]:
        percent = rules.settings.reserve_percent
        if percent is None:
            return ["the settings qosReserved and featureGates"]
        if percent != NO_RESERVE and self._machine.memory_allocatable(ts_ns, rules) is None:
            return ["the machine's memory and what is reserved of it"]
        return []

    def _told(self, ts_ns: int) -> list[tuple[int, int, Write | None]]:
        """When each write can have been that may be the last before the files were read."""
        before = self._writes.before(ts_ns)
        after = self._writes.within(ts_ns, ts_ns + READ_NS)
        told = [*before, *after]
        if not before or before[-1].ts_ns < ts_ns - _BEAT_NS or any(w.failed for w in told):
            return [self._unseen(ts_ns)]
        soon = [write for write in told if write.ts_ns <= ts_ns + _SOON_NS]
        return [(w.ts_ns, w.ts_ns, w) for w in (*reversed(soon), *told[len(soon) :])]

    def _unseen(self, ts_ns: int) -> tuple[int, int, None]:
        """A write that no line tells of: it was some time between the last one and the reading."""
        before = [write.ts_ns for write in self._writes.before(ts_ns) if not write.failed]
        return (before[-1] if before else ts_ns - _BEAT_NS), ts_ns + READ_NS, None

    def _options(
        self,
        body: CgroupUpdated,
        ts_ns: int,
        rules: Rules,
        before: CgroupState | None,
        sums: Sums,
        write: Write | None,
    ) -> Iterator[Option]:
        """All that a write can have left, one for each sum of CPU requests, the usual first."""
        percent, qos_class = rules.settings.reserve_percent, _class_of(body)
        reserve = None if percent == NO_RESERVE else percent
        allocatable = None if reserve is None else self._machine.memory_allocatable(ts_ns, rules)
        inputs = sums.inputs
        if write is not None:
            seqs = (*(seq for seq, _, _ in write.reserves.values()), write.seq, rules.settings.seq)
            inputs += tuple(seq for seq in seqs if seq is not None)
        memory = _agreeing(write, sums) if write is not None else []
        asked = [
            QOSRequests(sums.usual[0], *each) for each in memory or sums.memory or [sums.usual[1:]]
        ]
        configs = [
            qos_config(each, allocatable_memory=allocatable, memory_reserve_percent=reserve)
            for each in asked
        ]
        values = _by_memory(body, asked, configs, rules)
        if not sums.memory:
            values = {key: of for key, of in values.items() if key not in _BY_MEMORY}
        for key in _LIMIT if reserve is None else ():
            held = None if before is None else value_of(before, key)
            values[key] = () if held is None else (held, *values.get(key, ()))
        values = {key: of for key, of in values.items() if of}
        left = "no memory limit is written"
        if reserve is not None:
            left = _left(asked[0], configs[0], qos_class, f"{reserve} %", allocatable)
        fields = {"level": "qos", "qos_class": qos_class, "pod_uid": None}
        for milli in (sums.cpu or sums.usual[:1]) if qos_class == "Burstable" else [None]:
            shares = MIN_SHARES if milli is None else shares_of_milli_cpu(milli)
            own = kernel_values(unified=is_unified(body), shares=[shares])
            own = {key: of for key, of in own.items() if key in _SHARES and sums.cpu}
            yield Option(values | own, f"{_who(milli, shares, sums)}, and {left}", inputs, fields)

    def _usage(self, body: CgroupUpdated, ts_ns: int, compared: Compared) -> str | None:
        """A limit below the usage is refused by the kernel, and the usage is written in its stead.

        That a class uses more than half of the machine's memory is not taken into account.

        Source: v1.20.2 pkg/kubelet/cm/qos_container_manager_linux.go retrySetMemoryReserve
        """
        capacity, found = self._machine.at(ts_ns), body.memory_limit_bytes
        if capacity is None or found is None or not compared.differing.keys() <= set(_LIMIT):
            return None
        expected = (compared.ruling.expected or {})["memory_limit_bytes"]
        most = capacity.amounts["memory"].value() if "memory" in capacity.amounts else 0
        if not 0 <= expected < found <= most or expected > most // 2:
            return None
        return "the memory usage when the limit was written"


def _agreeing(write: Write, sums: Sums) -> list[Amounts]:
    """The sums of memory requests that a write can have logged; all where it logged none."""
    logged = [write.reserves.get(name, (0, None, 0))[1] for name in ("Guaranteed", "Burstable")]
    return [each for each in sums.memory
            if all(n in (None, asked) for n, asked in zip(logged, each, strict=True))]  # fmt: skip


def _class_of(body: CgroupUpdated) -> str | None:
    where = parse_cgroup_path(body.cgroup)
    return body.qos_class if where is None else where.qos_class


def _by_memory(
    body: CgroupUpdated, asked: Sequence[QOSRequests], configs: Sequence[QOSConfig], rules: Rules
) -> Values:
    """What is written whatever CPU is requested, for any of some requests of memory."""
    unified, burstable = is_unified(body), _class_of(body) == "Burstable"
    limits = [
        each.burstable_memory_limit if burstable else each.best_effort_memory_limit
        for each in configs
    ]
    values = kernel_values(unified=unified, shares=[MIN_SHARES], memory=limits)
    values["unified/pids.max" if unified else "other/pids.max"] = ("max",)
    values |= {f"hugetlb_limit_bytes/{s}": (QOS_HUGE_PAGE_LIMIT,) for s in body.hugetlb_limit_bytes}
    tiered, facts = rules.settings.tiered, rules.profile.cgroups
    for each in asked if unified and burstable and rules.settings.memory_qos else ():
        files = qos_unified(each, facts, tiered_reservation=tiered)["burstable"]
        for name, text in files.items():
            values[f"unified/{name}"] = (*values.get(f"unified/{name}", ()), text)
    return {key: of for key, of in values.items() if key not in _SHARES}


def _who(milli: int | None, shares: int, sums: Sums) -> str:
    """Whose shares they are, and from which requests; ``milli``: None for BestEffort."""
    if milli is None:
        return f"BestEffort pods share {shares} shares"
    is_usual = milli == sums.usual[0]
    of = f" (of {sums.pods} active pods)" if is_usual else ""
    why = f"Burstable pods{of} request {milli}m CPU together, which are {shares} shares"
    if shares == milli * SHARES_PER_CPU // MILLI_PER_CPU:
        why += f" ({milli} * {SHARES_PER_CPU} / {MILLI_PER_CPU})"
    if is_usual and sums.parts:
        why += f": {listed([(name, f'{part}m') for name, part in sums.parts.items()])}"
    return why


def _left(
    requests: QOSRequests, config: QOSConfig, qos_class: str | None, percent: str, of: int | None
) -> str:
    """What a reserve of memory leaves to a class, of so many allocatable bytes."""
    kept = f"{requests.guaranteed_memory} bytes of the Guaranteed"
    limit = config.burstable_memory_limit
    if qos_class != "Burstable":
        kept += f" and {requests.burstable_memory} bytes of the Burstable"
        limit = config.best_effort_memory_limit
    return (
        f"{percent} of the requested {kept} pods is kept from them, which leaves {limit} of {of} "
        "allocatable bytes"
    )
