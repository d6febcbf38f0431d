"""CPUs of containers: given and taken back as the CPU manager's static policy must.

A container of a Guaranteed pod that requests whole CPUs gets as many for itself, out of the
shared pool less the reserved ones, or an init container's of the same pod. They go back when the
pod is not active any more. Lines and the state file tell the pool, so one world is enough: the
pool as told. What it denies may still be right by a line that was lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, Final

from kubeledger.cpumanager.decider import (
    Cpus,
    assignable,
    released_pool,
    state_error,
)
from kubeledger.cpumanager.records import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
)
from kubeledger.cpumanager.topology import take_aligned
from kubeledger.kube.cpuset import cpu_set_text, cpus_of
from kubeledger.machine import Body, Decision, Record
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.units import NS_PER_S, parse_go_duration
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.assignments import (
    NOTICED_NS,
    Holder,
    Spec,
    whose,
)
from kubeledger.verify.rules.cpu_table import NONE, RELEASE, CpuTable, counts_of
from kubeledger.verify.verifier import See

__all__ = ["CpuRule"]

_FILE: Final = "pkg/kubelet/cm/cpumanager/"
_VALIDATE: Final = f"{_FILE}policy_static.go validateState"
_LOOP: Final = "cpuManagerReconcilePeriod"
_SLACK_NS: Final = 10 * NS_PER_S
_BY_SOCKET: Final = "AlignBySocket"
_STRICT: Final = "StrictCPUReservation"
_SHORT = re.compile(
    r"not enough cpus available to satisfy request"
    r"(?:: requested=(?P<requested>\d+), available=(?P<available>\d+))?$"
)


class CpuRule(CpuTable):
    """The CPU manager's decisions."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CpusAllocated,
        CpusReleased,
        CpuAllocationFailed,
        CpuStateRefused,
    )
    rule = f"{_FILE}policy_static.go Allocate"

    def sees(self) -> Mapping[type[Body], See]:
        """Decisions, what the manager began with, its file, and the ends of pods."""
        return {
            **super().sees(),
            CpuAllocationFailed: self._failed,
            CpuManagerStarted: self.started,
            CpuManagerStateRead: self._file_read,
            CpuStateRefused: self._state_refused,
            CpusAllocated: self._allocated,
            CpusReleased: self._released,
            KubeletStarted: self._process_started,
        }

    def _process_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self.process_started()
        if not body.from_start:
            self.reset()
            self.pool, self.start = None, None

    def started(self, record: Record, body: CpuManagerStarted, state: NodeState) -> None:
        """A new process has the file's assignments, or none."""
        self.start = body, record.seq
        pool = None if body.default_cpu_set is None else cpus_of(body.default_cpu_set)
        if body.restored is False:
            self.reset()
            self.complete = True
        else:
            same_pool = body.restored is True and pool is not None and pool == self.pool
            self.complete = same_pool and (self.complete or self.was_complete)
        self.was_complete = False
        self.pool = pool

    def _file_read(self, record: Record, body: CpuManagerStateRead, state: NodeState) -> None:
        self.compare(record.ts_ns)
        if not self.relied_on(record, body.checksum, body.checksum_ok):
            return
        shown, pool = self.shown_by(body), cpus_of(body.default_cpu_set)
        if not self.complete or self.pool is None:
            self.adopt(record, shown)
            self.pool, self.complete = pool, True
            for holder, change in self.meanwhile(record):
                if isinstance(change.body, CpusAllocated):
                    self.pool |= shown.get(holder, NONE) - self.siblings(holder)
                elif holder not in shown and change.body.cpu_set:  # type: ignore[attr-defined]
                    cpus = cpus_of(change.body.cpu_set)  # type: ignore[attr-defined]
                    self.take(record, holder, cpus)
                    self.pool -= cpus
            return
        for holder in self.held:
            if (cpus := shown.get(holder, NONE)) or holder in shown:
                says = f"the file has {cpu_set_text(cpus)} for container {holder[1]}"
            else:
                says = f"the file's shared pool is {body.default_cpu_set}"
            self.show(record, holder, cpus, says)
        period = self.bench.settings.get(_LOOP)
        with suppress(ValueError):
            wait_ns = 2 * parse_go_duration(period) if isinstance(period, str) else None
            if wait_ns is not None:
                self.overdue(record, pool, wait_ns + _SLACK_NS)

    def _allocated(self, record: Record, body: CpusAllocated, state: NodeState) -> None:
        self.compare(record.ts_ns)
        given, behind = cpus_of(body.cpu_set), _set(body.default_cpu_set)
        if behind is not None:
            self.overdue(record, behind | given, NOTICED_NS)
        about, facts = whose(state, body), self.facts()
        recorded: Fields = {"cpu_set": body.cpu_set, "requested": body.requested}
        found = self.foreign(record, body)
        if found is not None:
            recorded = {"namespace": body.namespace, "pod": body.pod}
        elif facts is not None:
            found = self._judge(record, body, about.holder, facts, state)
        found = found or lacks([self.bench.missing_profile])
        self.conclude(record, about.subject, found, recorded=recorded)
        if behind is not None or self.pool is not None:
            self.pool = behind if behind is not None else (self.pool or given) - given
        self.take(record, about.holder, given)

    def _judge(
        self,
        record: Record,
        body: CpusAllocated,
        holder: Holder,
        facts: ResourceManagerFacts,
        state: NodeState,
    ) -> Judgement:
        given, behind, pool = cpus_of(body.cpu_set), _set(body.default_cpu_set), self.pool
        specs = self.specs(record, body)
        counts = counts_of(specs, facts)
        seqs = [*(seq for spec in specs[:1] for seq in spec.seqs)]
        seqs += [self.start[1]] if self.start is not None else []
        if wrong := _wrong_count(specs, counts, body) or self.wrong_machine(given, behind):
            expected = {"requested": counts[-1]} if counts else None
            return same(False, wrong, expected=expected, inputs=seqs, certain=True)
        reused = self.reusable(specs, holder, facts)
        if pool is not None:
            rest = f"CPU {cpu_set_text(given - pool - reused)} was not in the shared pool"
            before = f"{rest} ({cpu_set_text(pool)})"
            if not given - pool - reused:
                before = (
                    f"the shared pool was {cpu_set_text(pool)} and cannot be "
                    f"{body.default_cpu_set} without {cpu_set_text(given)}"
                )
            after = pool - given if behind is None else behind
            back = (given | after) - pool - reused
            odd = self.by_lost_lines(record, holder, back, pool - given - after, before, state)
            if odd is not None:
                return odd
        if missing := self._missing(counts, body):
            return lacks(missing)
        free = assignable(pool or given, self.reserved or NONE, reused)
        return self._choice(body, given, free, reused, seqs, facts)

    def _missing(self, counts: list[int], body: CpusAllocated) -> list[str]:
        missing = [] if counts else ["the pod's spec"]
        if body.told_by == "state_file":
            missing.append("the CPU manager's lines")
        elif self.pool is None:
            missing.append("the shared pool before it")
        if self.reserved is None:
            missing.append("the reserved CPUs")
        return missing

    def _choice(
        self,
        body: CpusAllocated,
        given: Cpus,
        free: Cpus,
        reused: Cpus,
        seqs: list[int],
        facts: ResourceManagerFacts,
    ) -> Judgement:
        """Which of the free CPUs: those of the affinity's NUMA nodes, and by the topology."""
        start = self.start[0] if self.start is not None else None
        options = start.options if start is not None else None
        places = {int(cpu): place for cpu, place in ((start and start.cpus) or {}).items()}
        nodes = body.numa_nodes
        on_nodes = {cpu for cpu, place in places.items() if place.numa_node in (nodes or ())}
        aligns = options is not None and _BY_SOCKET not in options and nodes is not None
        if places and aligns and len(given & on_nodes) < min(len(given), len(free & on_nodes)):
            why = (
                f"the affinity is NUMA node {', '.join(map(str, nodes or ()))}, of which "
                f"{cpu_set_text(free & on_nodes)} were free, and it got {cpu_set_text(given)}"
            )
            return same(False, why, inputs=seqs)
        only, ordered = len(free) == len(given), NONE
        if options == () and facts.whole_numa_nodes_first and free <= places.keys():
            ordered = take_aligned(places, free, len(given), nodes)
        choice = "no others were free" if only else f"any {len(given)} of them may be given"
        if not only and ordered == given:
            choice = "they are the first by NUMA node, socket and core"
        again = f", {cpu_set_text(reused)} an init container's before" if reused else ""
        why = (
            f"it requests {_cpus(len(given))} in a Guaranteed pod, so it gets "
            f"{cpu_set_text(given)} alone; {cpu_set_text(free)} free for that{again} (shared pool "
            f"{cpu_set_text(self.pool or ())}, reserved "
            f"{cpu_set_text(self.reserved or ()) or 'none'}): {choice}"
        )
        expected = {"cpu_set": body.cpu_set, "requested": body.requested}
        chosen = Ruling(allowed=True, chosen=only or ordered == given, why=why, expected=expected,
                        inputs=tuple(seqs))  # fmt: skip
        return judge([chosen])

    def _released(self, record: Record, body: CpusReleased, state: NodeState) -> None:
        self.compare(record.ts_ns)
        about, facts = whose(state, body), self.facts()
        recorded = {"cpu_set": body.cpu_set, "default_cpu_set": body.default_cpu_set}
        held = self.held.get(about.holder)
        siblings, pool = self.siblings(about.holder), self.pool
        found = self.foreign(record, body)
        if found is not None:
            recorded = {"namespace": body.namespace, "pod": body.pod}
        elif facts is not None:
            found = self._judge_release(record, body, about.holder, facts, state)
        found = found or lacks([self.bench.missing_profile])
        self.conclude(record, about.subject, found, recorded=recorded, rule=RELEASE)
        if body.default_cpu_set is not None:
            self.pool = cpus_of(body.default_cpu_set)
        elif pool is not None and held is not None:
            self.pool = pool | (held.value - siblings)
        self.lose(record, about.holder)

    def _judge_release(
        self,
        record: Record,
        body: CpusReleased,
        holder: Holder,
        facts: ResourceManagerFacts,
        state: NodeState,
    ) -> Judgement:
        held, pool, siblings = self.held.get(holder), self.pool, self.siblings(holder)
        asks = counts_of(self.specs(record, body), facts)
        if held is None and self.complete and not body.inferred:
            none = "it had no CPUs of its own, and only those of containers that had are given back"
            if not (asks and any(asks) and self.may_have_got(holder)):
                return same(False, none)
            return open_to("what it had before", denied=none)
        cpus, seqs = (held.value, (held.seq,)) if held is not None else (None, ())
        expected = {"cpu_set": body.cpu_set, "default_cpu_set": body.default_cpu_set}
        behind = _set(body.default_cpu_set)
        if cpus is not None and body.cpu_set is not None:
            expected["cpu_set"] = cpu_set_text(cpus)
        if cpus is not None and pool is not None and behind is not None:
            after = released_pool(pool, cpus, siblings, facts)
            text = expected["default_cpu_set"] = cpu_set_text(after)
            denied = f"it had {cpu_set_text(cpus)}, so the shared pool is {text} behind it"
            odd = self.by_lost_lines(record, holder, behind - after, after - behind, denied, state)
            if odd is not None:
                return odd
        if cpus is not None and expected["cpu_set"] != body.cpu_set:
            return same(False, f"it had {expected['cpu_set']}", expected=expected, inputs=seqs)
        ended = self.activity.inactive(state, holder[0])
        alive = self.activity.surely_alive(state, holder[0], record.ts_ns)
        if facts.cpus_kept_on_failed_update and ended is None and alive:
            why = f"CPUs are taken from pods that are not active any more, and {alive}"
            return same(False, why, inputs=seqs)
        if ended is None or cpus is None:
            return lacks(["the end of the pod" if ended is None else "what it had before"])
        back = cpus - siblings if facts.release_spares_siblings else cpus
        why = f"{ended}; {cpu_set_text(back)} went back to the shared pool"
        if not back:
            why = f"{ended}; {cpu_set_text(cpus)} is another container's of the pod as well"
        return same(True, why, expected=expected, inputs=seqs)

    def _failed(self, record: Record, body: CpuAllocationFailed, state: NodeState) -> None:
        about, facts, short = whose(state, body), self.facts(), _SHORT.match(body.error)
        specs = self.specs(record, body)
        counts = counts_of(specs, facts) if facts is not None else []
        if facts is None or short is None or self.pool is None or not counts:
            inputs = {
                self.bench.missing_profile: facts,
                "the cores of the machine": short,
                "the shared pool before it": self.pool,
                "the pod's spec": counts or None,
            }
            missing = [name for name, value in inputs.items() if value is None]
            self.lacking(record, about.subject, missing)
            return
        free = assignable(
            self.pool, self.reserved or NONE, self.reusable(specs, about.holder, facts)
        )
        asked = body.requested if body.requested is not None else counts[-1]
        told = int(short["available"] or len(free))
        why = f"it requests {_cpus(counts[-1])}, and {len(free)} were free"
        maybe = [h for h in self.held if not self.surely_has(h, record.ts_ns)]
        untold = self.untold(state)
        least = 0 if untold is None else len(free) - sum(untold)
        most = len(free.union(*(self.held[h].value for h in maybe)))
        found = same(asked in counts and asked > told == len(free), why, inputs=specs[0].seqs)
        if asked in counts and asked > told != len(free) and least <= told <= most:
            found = open_to("all holders of CPUs", denied=why, inputs=specs[0].seqs)
        self.conclude(record, about.subject, found)

    def _state_refused(self, record: Record, body: CpuStateRefused, state: NodeState) -> None:
        pool = self.pool
        cpus = self.start[0].cpus if self.start is not None else None
        if pool is None or cpus is None or self.reserved is None or not self.complete:
            found = lacks(["what cpu_manager_state held"])
            self.conclude(record, "node", found, rule=_VALIDATE)
            return
        held = {holder: has.value for holder, has in self.held.items()}
        strict = self.start is not None and _STRICT in (self.start[0].options or ())
        error = state_error(pool, held, self.reserved, frozenset(map(int, cpus)), strict=strict)
        why = f"cpu_manager_state does not fit: {error}" if error else "cpu_manager_state fits"
        found = same(error is not None and error in body.error, why, expected={"error": error})
        self.conclude(record, "node", found, recorded={"error": body.error}, rule=_VALIDATE)


def _wrong_count(specs: list[Spec], counts: list[int], body: CpusAllocated) -> str:
    given = len(cpus_of(body.cpu_set))
    if body.requested is not None and body.requested != given:
        return f"{_cpus(body.requested)} were asked for, and it got {given}: {body.cpu_set}"
    if not counts or given in counts:
        return ""
    if not counts[-1]:
        asked = specs[0].container.requests.get("cpu", "none")
        return f"only whole CPUs of Guaranteed pods are given alone, and it requests {asked}"
    return f"it requests {_cpus(counts[-1])}, and got {given}: {body.cpu_set}"


def _cpus(count: int) -> str:
    return f"{count} CPU{'' if count == 1 else 's'}"


def _set(text: str | None) -> Cpus | None:
    return None if text is None else cpus_of(text)
