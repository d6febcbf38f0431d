"""What the CPU manager knew before a decision, as far as records tell.

Both the lines of each decision and ``cpu_manager_state`` tell it. Where a log begins late it is
unknown until one of them does.
"""

from __future__ import annotations

import msgspec

from kubeledger.cpumanager.decider import Cpus, reusable
from kubeledger.cpumanager.records import CpuManagerStarted, CpusAllocated, CpusReleased
from kubeledger.kube.cpuset import cpu_set_text, cpus_of
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.verify.assignments.common import FILE_NS, Holder, Spec

__all__ = ["CpuBelief"]

_BY_SOCKET = "AlignBySocket"
_STRICT = "StrictCPUReservation"


class CpuBelief(msgspec.Struct):
    """The shared pool, and who holds which CPUs.

    Attributes:
        pool: None where it is unknown.
        held: holder -> CPUs and the record that told of them.
        complete: nobody else holds any.
        start: what the running process began with, and its record; None before it is told.
        adopted_ns: when a state file was taken over, until the next decision.
        changed_ns: time of the last decision.
    """

    pool: Cpus | None = None
    held: dict[Holder, tuple[Cpus, int]] = {}
    complete: bool = False
    start: tuple[CpuManagerStarted, int] | None = None
    adopted_ns: int | None = None
    changed_ns: int = 0

    @property
    def reserved(self) -> Cpus | None:
        """CPUs that no container gets; None where no line tells."""
        told = self.start[0].reserved_cpu_set if self.start is not None else None
        return None if told is None else cpus_of(told)

    @property
    def machine(self) -> Cpus | None:
        """All CPUs; None where no line tells."""
        cpus = self.start[0].cpus if self.start is not None else None
        return None if cpus is None else frozenset(map(int, cpus))

    @property
    def strict(self) -> bool:
        """Reserved CPUs are not in the shared pool either."""
        return self.start is not None and _STRICT in (self.start[0].options or ())

    def begin(self, seq: int, body: CpuManagerStarted) -> None:
        """A new process has the file's assignments, or none."""
        self.start = body, seq
        pool = None if body.default_cpu_set is None else cpus_of(body.default_cpu_set)
        if body.restored is False:
            self.held.clear()
            self.complete = True
        elif body.restored is None or pool is None or pool != self.pool:
            self.complete = False
        self.pool = pool

    def adopt(self, seq: int, ts_ns: int, pool: Cpus, shown: dict[Holder, Cpus]) -> None:
        """Take over a state file."""
        self.held = {holder: (cpus, seq) for holder, cpus in shown.items()}
        self.pool, self.complete, self.adopted_ns = pool, True, ts_ns

    def denied_by(self, ts_ns: int, shown: dict[Holder, Cpus]) -> list[tuple[int, str]]:
        """What a state file shows otherwise, each with its record, unless it changed just then."""
        if ts_ns - self.changed_ns < FILE_NS:
            return []
        return [
            (seq, f"container {holder[1]} has {cpu_set_text(cpus)}")
            for holder, (cpus, seq) in sorted(self.held.items())
            if shown.get(holder) != cpus
        ]

    def unsettle(self, ts_ns: int) -> None:
        """Of a file just taken over nobody knows whether it was read before this or behind it."""
        if self.adopted_ns is not None and ts_ns - self.adopted_ns < FILE_NS:
            self.pool, self.complete = None, False
            self.held.clear()
        self.adopted_ns = None

    def give(self, ts_ns: int, seq: int, holder: Holder, body: CpusAllocated) -> None:
        """A container got CPUs, as recorded."""
        given = cpus_of(body.cpu_set)
        if body.default_cpu_set is not None:
            self.pool = cpus_of(body.default_cpu_set)
        elif self.pool is not None:
            self.pool -= given
        self.held[holder] = given, seq
        self.changed_ns = ts_ns

    def take_back(self, ts_ns: int, holder: Holder, body: CpusReleased) -> None:
        """A container gave back its CPUs, as recorded."""
        held = self.held.get(holder)
        if body.default_cpu_set is not None:
            self.pool = cpus_of(body.default_cpu_set)
        elif self.pool is not None and held is not None:
            self.pool |= held[0] - self.siblings(holder)
        self.held.pop(holder, None)
        self.changed_ns = ts_ns

    def siblings(self, holder: Holder) -> Cpus:
        """CPUs of the other containers of a pod."""
        return frozenset().union(
            *(c for (pod, name), (c, _) in self.held.items()
              if pod == holder[0] and name != holder[1])
        )  # fmt: skip

    def reusable(self, specs: list[Spec], holder: Holder, facts: ResourceManagerFacts) -> Cpus:
        """CPUs of init containers that a container of the same pod may get as well.

        Without its spec, those of all other containers of the pod.
        """
        of_pod = {name: cpus for (pod, name), (cpus, _) in self.held.items() if pod == holder[0]}
        if not specs:
            return self.siblings(holder)
        return reusable(specs[0].pod, holder[1], of_pod, facts)

    def others(self, holder: Holder, given: Cpus) -> list[tuple[Holder, Cpus, int]]:
        """Containers of other pods that hold some of these CPUs, which are not in the pool."""
        return [
            (other, both, seq)
            for other, (cpus, seq) in sorted(self.held.items())
            if other[0] != holder[0] and (both := given & cpus - (self.pool or frozenset()))
        ]

    def wrong_machine(self, given: Cpus) -> str:
        """Words for reserved CPUs, and such as there are not; "" where all is well, as below."""
        if spared := given & (self.reserved or frozenset()):
            return f"CPU {cpu_set_text(spared)} is reserved, and given to no container"
        if self.machine is not None and given - self.machine:
            had, got = cpu_set_text(self.machine), cpu_set_text(given)
            return f"the machine has the CPUs {had}, not {got}"
        return ""

    def wrong_pool(self, given: Cpus, body: CpusAllocated, reused: Cpus) -> str:
        """Words for CPUs that were not in the shared pool, or are still."""
        if self.pool is not None and given - self.pool - reused:
            rest, pool = cpu_set_text(given - self.pool - reused), cpu_set_text(self.pool)
            return f"CPU {rest} was not in the shared pool ({pool})"
        if body.default_cpu_set is None:
            return ""
        behind = cpus_of(body.default_cpu_set)
        if given & behind:
            both = cpu_set_text(given & behind)
            return f"CPU {both} is given to it alone and still in the shared pool"
        if self.pool is not None and behind != self.pool - given:
            return (
                f"the shared pool was {cpu_set_text(self.pool)} and cannot be "
                f"{body.default_cpu_set} without {cpu_set_text(given)}"
            )
        return ""

    def misaligned(self, given: Cpus, free: Cpus, body: CpusAllocated) -> str:
        """Words where CPUs of the affinity's NUMA nodes were free and others were given."""
        start = self.start[0] if self.start is not None else None
        if body.numa_nodes is None or start is None or start.cpus is None:
            return ""
        if start.options is None or _BY_SOCKET in start.options:
            return ""
        on_nodes = {
            int(cpu) for cpu, place in start.cpus.items() if place.numa_node in body.numa_nodes
        }
        if len(given & on_nodes) >= min(len(given), len(free & on_nodes)):
            return ""
        return (
            f"the affinity is NUMA node {', '.join(map(str, body.numa_nodes))}, of which "
            f"{cpu_set_text(free & on_nodes)} were free, and it got {cpu_set_text(given)}"
        )
