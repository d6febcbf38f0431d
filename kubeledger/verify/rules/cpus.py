"""CPUs of containers: given and taken back as the CPU manager's static policy must.

A container of a Guaranteed pod that requests whole CPUs gets as many for itself, out of the
shared pool less the reserved ones, or an init container's of the same pod. They go back when the
pod is not active any more. Lines and the state file show the pool, so one world is enough: the
pool as logged. What it denies may still be right if a line was lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, Final

import msgspec

from kubeledger.kubelet.cpumanager.decider import (
    Cpus,
    assignable,
    exclusive_cpus,
    released_pool,
    reusable,
    state_error,
)
from kubeledger.kubelet.cpumanager.policy_options import StaticPolicyOptions
from kubeledger.kubelet.cpumanager.policy_static import StaticPolicy
from kubeledger.kubelet.cpumanager.state_mem import State
from kubeledger.kubelet.cpumanager.topology import CPUTopology, machine_of
from kubeledger.kubelet.kube.admission import AllocationError
from kubeledger.kubelet.kube.cpuset import cpu_set_text, cpus_in, cpus_of, set_of
from kubeledger.model.bodies.cpumanager import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
)
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Decision, Record
from kubeledger.model.units import NS_PER_S, parse_go_duration
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.rules.assignments import AssignmentVerifier, Holder, Spec, specs_in

_FILE: Final = "pkg/kubelet/cm/cpumanager/"
_SLACK_NS: Final = 5 * NS_PER_S
_BY_SOCKET: Final = "AlignBySocket"
_STRICT: Final = "StrictCPUReservation"
_NONE: Final[Cpus] = frozenset()
_SHORT = re.compile(
    r"not enough cpus available to satisfy request"
    r"(?:: requested=(?P<requested>\d+), available=(?P<available>\d+))?$"
)


class CpuVerifier(AssignmentVerifier[Cpus]):
    """The CPU manager's decisions."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CpusAllocated,
        CpusReleased,
        CpuAllocationFailed,
        CpuStateRefused,
    )
    rule = f"{_FILE}policy_static.go Allocate"
    released = f"{_FILE}cpu_manager.go removeStaleState"
    file = "cpu_manager_state"
    denied = "cpu_manager_state shows other CPUs of containers than the lines"
    validated = f"{_FILE}policy_static.go validateState"
    grants, releases, shortages, refusals = decides
    starts, files = CpuManagerStarted, CpuManagerStateRead
    none = _NONE

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._pool: Cpus | None = None
        self._start: CpuManagerStarted | None = None
        self._start_seq = 0

    def text(self, value: Cpus) -> str:
        """What a container has."""
        return cpu_set_text(value)

    def contents_of(self, body: CpuManagerStateRead) -> dict[Holder, Cpus]:
        """Containers and their CPUs."""
        entries = ((uid, sets) for uid, sets in body.assignments.items() if uid)
        return {(uid, name): cpus_of(text) for uid, sets in entries for name, text in sets.items()}

    def reset(self) -> None:
        """Nothing is known of the table."""
        super().reset()
        self._pool, self._start = None, None

    def started(self, record: Record, body: CpuManagerStarted, state: NodeState) -> None:
        """A new process has the file's assignments, or none."""
        pool, before = _set(body.default_cpu_set), self._pool
        self.begin(body.restored, same=pool == before)
        self._start, self._start_seq, self._pool = body, record.seq, pool
        self.complete = self.complete and pool is not None

    def adopt(self, record: Record, reading: Mapping[Holder, Cpus]) -> None:
        """A file shows the pool as well, as it was before what lines show then."""
        assert isinstance(record.body, CpuManagerStateRead)
        super().adopt(record, reading)
        self._pool, self.complete = cpus_of(record.body.default_cpu_set), True
        for holder, change in self.meanwhile(record):
            if isinstance(change.body, CpusAllocated):
                self._pool |= reading.get(holder, _NONE) - self._siblings(holder)
            elif holder not in reading and (cpus := _set(getattr(change.body, "cpu_set", None))):
                super().take(record, holder, cpus)
                self._pool -= cpus

    def _file_read(self, record: Record, body: CpuManagerStateRead, state: NodeState) -> None:
        super()._file_read(record, body, state)
        period = self.context.settings.get("cpuManagerReconcilePeriod")
        if body.checksum_ok is not False and isinstance(period, str):
            with suppress(ValueError):
                wait_ns = 2 * parse_go_duration(period) + _SLACK_NS
                self._not_given_back(record, cpus_of(body.default_cpu_set), record.ts_ns - wait_ns)

    def _not_given_back(self, record: Record, pool: Cpus, noticed_ns: int) -> None:
        lacking = [holder for holder, held in self.held.items() if not held.value & pool]
        self.overdue(record, lacking, noticed_ns)

    def given(self, body: CpusAllocated) -> Cpus:
        """The CPUs of a grant."""
        return cpus_of(body.cpu_set)

    def judge(self, record: Record, holder: Holder, state: NodeState) -> Judgement:
        """Judge a grant, a release, or that there was too little."""
        body = record.body
        if isinstance(body, CpusAllocated):
            return self._judge_grant(record, body, holder, state)
        if isinstance(body, CpusReleased):
            return self._judge_release(record, body, holder, state)
        assert isinstance(body, CpuAllocationFailed)
        return self._judge_shortage(record, body, holder, state)

    def take(self, record: Record, holder: Holder, value: Cpus) -> None:
        """The pool is what the line says, or what is left of it."""
        super().take(record, holder, value)
        pool_after = _set(getattr(record.body, "default_cpu_set", None))
        self._pool = (
            self._pool - value if pool_after is None and self._pool is not None else pool_after
        )

    def lose(self, record: Record, holder: Holder) -> None:
        """What no other container of the pod has goes back."""
        pool_after, held = (
            _set(getattr(record.body, "default_cpu_set", None)),
            self.held.get(holder),
        )
        if pool_after is not None:
            self._pool = pool_after
        elif self._pool is not None and held is not None:
            self._pool |= held.value - self._siblings(holder)
        super().lose(record, holder)

    @property
    def _reserved(self) -> Cpus | None:
        """CPUs that no container gets; None where no line says."""
        return None if self._start is None else _set(self._start.reserved_cpu_set)

    def _judge_grant(
        self, record: Record, body: CpusAllocated, holder: Holder, state: NodeState
    ) -> Judgement:
        given, pool_after, pool = cpus_of(body.cpu_set), _set(body.default_cpu_set), self._pool
        if pool_after is not None:
            self._not_given_back(record, pool_after | given, record.ts_ns)
        specs = self.specs(record)
        counts = self._counts(specs)
        seqs = [*(spec.seq for spec in specs[:1]), *([self._start_seq] if self._start else [])]
        if wrong := _wrong_count(specs, counts, body) or self._wrong_cpus(given, pool_after):
            expected = {"requested": counts[-1]} if counts else None
            return same(False, wrong, expected=expected, inputs=seqs, certain=True)
        reused = self._reusable(specs, holder)
        if pool is not None:
            denied = f"the shared pool was {cpu_set_text(pool)}"
            if short := given - pool - reused:
                denied = f"CPU {cpu_set_text(short)} was not in the shared pool: {denied}"
            elif pool_after is not None:
                without = f"without {cpu_set_text(given)}"
                denied = f"{denied} and cannot be {body.default_cpu_set} {without}"
            after = pool - given if pool_after is None else pool_after
            back = (given | after) - pool - reused
            odd = self._by_lost_lines(record, holder, back, pool - given - after, denied, state)
            if odd is not None:
                return odd
        inputs = {
            "the pod's spec": counts,
            "the CPU manager's lines": body.told_by != "state_file",
            "the shared pool before it": body.told_by == "state_file" or pool is not None,
            "the reserved CPUs": self._reserved is not None,
        }
        if missing := [name for name, value in inputs.items() if not value]:
            return lacks(missing)
        free = assignable(pool or given, self._reserved or _NONE, reused)
        return self._choice(body, given, free, reused, seqs)

    def _wrong_cpus(self, given: Cpus, pool_after: Cpus | None) -> str:
        """Words for reserved CPUs, such as there are not, and such as everybody has."""
        cpus = self._start.cpus if self._start is not None else None
        machine = given if cpus is None else frozenset(map(int, cpus))
        if spared := given & (self._reserved or _NONE):
            return f"CPU {cpu_set_text(spared)} is reserved, and given to no container"
        if given - machine:
            return f"the machine has the CPUs {cpu_set_text(machine)}, not {cpu_set_text(given)}"
        if both := given & (pool_after or _NONE):
            return f"CPU {cpu_set_text(both)} is given to it alone and still in the shared pool"
        return ""

    def _choice(
        self, body: CpusAllocated, given: Cpus, free: Cpus, reused: Cpus, seqs: list[int]
    ) -> Judgement:
        """Which of the free CPUs: those of the affinity's NUMA nodes, and by the topology."""
        start = self._start
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
        only, ordered = len(free) == len(given), _NONE
        sorts = self.facts.units_sorted_by_free_cpus
        if options == () and sorts and free <= places.keys():
            ordered = self._first(free, len(given), nodes)
        choice = "no others were free" if only else f"any {len(given)} of them may be given"
        if not only and ordered == given:
            choice = "they are the first by NUMA node, socket and core"
        again = f", {cpu_set_text(reused)} an init container's before" if reused else ""
        why = (
            f"it requests {_cpus(len(given))} in a Guaranteed pod, so it gets "
            f"{cpu_set_text(given)} alone, out of {cpu_set_text(free)}{again}: {choice}"
        )
        expected = {"cpu_set": body.cpu_set, "requested": body.requested}
        chosen = Ruling(allowed=True, chosen=only or ordered == given, why=why, expected=expected,
                        inputs=tuple(seqs))  # fmt: skip
        return judge([chosen])

    def _first(self, free: Cpus, count: int, nodes: tuple[int, ...] | None) -> Cpus:
        """The CPUs that the static policy takes out of those that are free."""
        profile, start = self.context.profile, self._start
        assert profile is not None
        assert start is not None
        assert start.cpus is not None
        topology = CPUTopology(machine_of(start.cpus), self.facts)
        policy = StaticPolicy(topology, 0, StaticPolicyOptions(), profile)
        affinity = None if nodes is None else set_of(nodes)
        with suppress(AllocationError):
            return frozenset(cpus_in(policy.allocate_cpus(State(set_of(free)), count, affinity, 0)))
        return _NONE

    def _judge_release(
        self, record: Record, body: CpusReleased, holder: Holder, state: NodeState
    ) -> Judgement:
        held, asks = self.held.get(holder), any(self._counts(self.specs(record)))
        found = self.given_back(record, holder, state, asks=asks)
        if held is None:
            return found
        if found.verdict == "impossible" and not self.facts.cpus_kept_on_failed_update:
            found = lacks(["the end of the pod"])
        cpus, siblings = held.value, self._siblings(holder)
        pool_after, expected = _set(body.default_cpu_set), {"default_cpu_set": body.default_cpu_set}
        expected["cpu_set"] = body.cpu_set and cpu_set_text(cpus)
        if pool_after is not None and self._pool is not None:
            after = released_pool(self._pool, cpus, siblings, self.facts)
            text = expected["default_cpu_set"] = cpu_set_text(after)
            denied = f"it had {cpu_set_text(cpus)}, so the shared pool becomes {text}"
            odd = self._by_lost_lines(
                record, holder, pool_after - after, after - pool_after, denied, state
            )
            if odd is not None:
                return odd
        if expected["cpu_set"] != body.cpu_set:
            found = same(False, f"it had {expected['cpu_set']}", inputs=(held.seq,))
        return msgspec.structs.replace(found, expected=expected)

    def _judge_shortage(
        self, record: Record, body: CpuAllocationFailed, holder: Holder, state: NodeState
    ) -> Judgement:
        short, specs = _SHORT.match(body.error), self.specs(record)
        counts, pool = self._counts(specs), self._pool
        if short is None or pool is None or not counts:
            inputs = {
                "the cores of the machine": short,
                "the shared pool before it": pool,
                "the pod's spec": counts or None,
            }
            return lacks([name for name, value in inputs.items() if value is None])
        free = assignable(pool, self._reserved or _NONE, self._reusable(specs, holder))
        asked = body.requested if body.requested is not None else counts[-1]
        given = int(short["available"] or len(free))
        why = f"it requests {_cpus(counts[-1])}, and {len(free)} were free"
        maybe = [h for h in self.held if not self.surely_has(h, record.ts_ns)]
        unlogged = self._unlogged(state)
        least = 0 if unlogged is None else len(free) - sum(unlogged)
        most = len(free.union(*(self.held[h].value for h in maybe)))
        if asked in counts and asked > given != len(free) and least <= given <= most:
            return open_to("all holders of CPUs", denied=why, inputs=[specs[0].seq])
        return same(asked in counts and asked > given == len(free), why, inputs=[specs[0].seq])

    def _by_lost_lines(
        self, record: Record, holder: Holder, back: Cpus, gone: Cpus, denied: str, state: NodeState
    ) -> Judgement | None:
        """The judgement where CPUs came into the pool, or left it, by no line; else None.

        They came by a release of somebody who is not seen to keep them, and left by a grant to a
        container that asks for CPUs and has got none by any record.
        """
        if not back and not gone:
            return None
        having = [h for h, held in sorted(self.held.items()) if held.value & back]
        seqs = [self.held[h].seq for h in having]
        sure = [h for h in having if self.surely_has(h, record.ts_ns)]
        if sure and sure[0] != holder:
            cpus = cpu_set_text(self.held[sure[0]].value & back)
            denied = f"CPU {cpus} was {self.named(sure[0])}'s, and not given back"
        nobodys = back.difference(*(self.held[h].value for h in having))
        counts = self._unlogged(state) if gone else None
        left = counts is None or any(count <= len(gone) for count in counts)
        if sure or (self.complete and nobodys) or not left:
            return same(False, denied, inputs=seqs)
        assumes = [f"the release of the CPUs of {self.named(h)}" for h in having]
        assumes += ["all holders of CPUs"] if nobodys else []
        assumes += [f"who got CPU {cpu_set_text(gone)}"] if gone else []
        return open_to(" and ".join(assumes), denied=denied, inputs=seqs)

    def _unlogged(self, state: NodeState) -> list[int] | None:
        """How many CPUs containers ask for that have none by any record; None: not known."""
        counts: list[int] = []
        if any(self.context.pods.at(0, key) is None for key in state.lifecycle.pods):
            return None
        for listed in self.context.pods.newest():
            for spec in specs_in(listed):
                holder = (listed.uid or "", spec.container.name or "")
                if holder not in self.held and self.may_have_got(holder):
                    counts += filter(None, self._counts([spec]))
        return counts

    def _reusable(self, specs: list[Spec], holder: Holder) -> Cpus:
        """CPUs of init containers; without a spec those of all other containers of the pod."""
        if not specs:
            return self._siblings(holder)
        of_pod = {name: h.value for (pod, name), h in self.held.items() if pod == holder[0]}
        return reusable(specs[0].pod, holder[1], of_pod, self.facts)

    def _siblings(self, holder: Holder) -> Cpus:
        """CPUs of the other containers of a pod."""
        others = (h.value for key, h in self.held.items() if key[0] == holder[0] and key != holder)
        return _NONE.union(*others)

    def _counts(self, specs: list[Spec]) -> list[int]:
        """How many CPUs the container gets alone by each version of its spec that says."""
        counts = []
        for spec in specs:
            with suppress(BadInputError):
                count = exclusive_cpus(spec.pod, spec.container, self.facts)
                counts += [count] if count or spec.defaulted else []
        return counts

    def judge_file(self, body: CpuStateRefused) -> Judgement:
        """Decide the error again, where all that the file held is known."""
        start, pool, reserved = self._start, self._pool, self._reserved
        if not self.complete or pool is None or reserved is None or not (start and start.cpus):
            return lacks(["what cpu_manager_state held"])
        held = {holder: has.value for holder, has in self.held.items()}
        machine, strict = frozenset(map(int, start.cpus)), _STRICT in (start.options or ())
        error = state_error(pool, held, reserved, machine, strict=strict)
        why = f"cpu_manager_state does not fit: {error}" if error else "the file fits"
        right = error is not None and error in body.error
        return same(right, why, expected={"error": error})


def _wrong_count(specs: list[Spec], counts: list[int], body: CpusAllocated) -> str:
    given = len(cpus_of(body.cpu_set))
    if body.requested is not None and body.requested != given:
        return f"{_cpus(body.requested)} requested, but it got {given}: {body.cpu_set}"
    if not counts or given in counts:
        return ""
    if not counts[-1]:
        asked = specs[0].container.requests.get("cpu", "none")
        return f"only Guaranteed pods get whole CPUs exclusively, and it requests {asked}"
    return f"it requests {_cpus(counts[-1])}, but got {given}: {body.cpu_set}"


def _cpus(count: int) -> str:
    return f"{count} CPU{'' if count == 1 else 's'}"


def _set(text: str | None) -> Cpus | None:
    return None if text is None else cpus_of(text)
