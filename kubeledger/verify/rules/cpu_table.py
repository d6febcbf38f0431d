"""The CPU manager's table: the shared pool, and who has CPUs alone.

Lines and the state file tell both. What a pool denies may still be so by a line that was lost.
"""

from __future__ import annotations

from typing import Final

from kubeledger.cpumanager.decider import Cpus, exclusive_cpus, reusable
from kubeledger.cpumanager.records import (
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
)
from kubeledger.errors import BadInputError
from kubeledger.kube.cpuset import cpu_set_text, cpus_of
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.verify.belief import Judgement, open_to, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.assignments import AssignmentRule, Holder, Spec, specs_in

__all__ = ["NONE", "RELEASE", "CpuTable", "counts_of"]

NONE: Final[Cpus] = frozenset()
RELEASE: Final = "pkg/kubelet/cm/cpumanager/cpu_manager.go removeStaleState"


class CpuTable(AssignmentRule[Cpus]):
    """What the CPU manager holds, as far as records tell.

    Attributes:
        pool: the shared pool; None where it is unknown.
        start: what the running process began with, and its record; None before it is told.
    """

    file = "cpu_manager_state"
    denied = "cpu_manager_state shows other CPUs of containers than the lines told"
    grants, releases, files = CpusAllocated, CpusReleased, CpuManagerStateRead

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.pool: Cpus | None = None
        self.start: tuple[CpuManagerStarted, int] | None = None

    @property
    def reserved(self) -> Cpus | None:
        """CPUs that no container gets; None where no line tells."""
        told = self.start[0].reserved_cpu_set if self.start is not None else None
        return None if told is None else cpus_of(told)

    def text(self, value: Cpus) -> str:
        """What a container has."""
        return f"has {cpu_set_text(value)}"

    def shown_by(self, body: CpuManagerStateRead) -> dict[Holder, Cpus]:
        """Containers and their CPUs."""
        entries = ((uid, sets) for uid, sets in body.assignments.items() if uid)
        return {(uid, name): cpus_of(text) for uid, sets in entries for name, text in sets.items()}

    def wrong_machine(self, given: Cpus, behind: Cpus | None) -> str:
        """Words for reserved CPUs, such as there are not, and such as everybody has."""
        cpus = self.start[0].cpus if self.start is not None else None
        machine = given if cpus is None else frozenset(map(int, cpus))
        if spared := given & (self.reserved or NONE):
            return f"CPU {cpu_set_text(spared)} is reserved, and given to no container"
        if given - machine:
            had, got = cpu_set_text(machine), cpu_set_text(given)
            return f"the machine has the CPUs {had}, not {got}"
        if both := given & (behind or NONE):
            return f"CPU {cpu_set_text(both)} is given to it alone and still in the shared pool"
        return ""

    def by_lost_lines(
        self, record: Record, holder: Holder, back: Cpus, gone: Cpus, denied: str, state: NodeState
    ) -> Judgement | None:
        """The judgement where CPUs came into the pool, or left it, by no line; else None.

        They came by a release of somebody who is not seen to keep them, and left by a grant to a
        container that asks for CPUs and is not told to have got any.
        """
        if not back and not gone:
            return None
        assumes, seqs = [], []
        for cpu in sorted(back):
            having = [h for h, held in sorted(self.held.items()) if cpu in held.value]
            seqs += [self.held[h].seq for h in having]
            sure = [h for h in having if self.surely_has(h, record.ts_ns)]
            if sure or (self.complete and not having):
                if sure and sure[0] != holder:
                    denied = f"CPU {cpu} was {self.named(sure[0])}'s, and not given back"
                return same(False, denied, inputs=seqs)
            names = [f"the release of the CPUs of {self.named(h)}" for h in having]
            assumes.append(" or ".join(names) or "all holders of CPUs")
        if gone:
            counts = self.untold(state)
            if counts is not None and not any(count <= len(gone) for count in counts):
                return same(False, denied, inputs=seqs)
            assumes.append(f"who got CPU {cpu_set_text(gone)}")
        return open_to(" and ".join(dict.fromkeys(assumes)), denied=denied, inputs=seqs)

    def untold(self, state: NodeState) -> list[int] | None:
        """How many CPUs containers ask for that are not told to have any; None: not known."""
        facts, counts = self.facts(), []
        pods = state.lifecycle.pods
        if facts is None or any(self.bench.pods.at(0, key) is None for key in pods):
            return None
        for listed in self.bench.pods.newest():
            for spec in specs_in(listed):
                holder = (listed.uid or "", spec.container.name or "")
                if holder not in self.held and self.may_have_got(holder):
                    counts += [count for count in counts_of([spec], facts) if count]
        return counts

    def reusable(self, specs: list[Spec], holder: Holder, facts: ResourceManagerFacts) -> Cpus:
        """CPUs of init containers; without a spec those of all other containers of the pod."""
        if not specs:
            return self.siblings(holder)
        of_pod = {name: h.value for (pod, name), h in self.held.items() if pod == holder[0]}
        return reusable(specs[0].pod, holder[1], of_pod, facts)

    def siblings(self, holder: Holder) -> Cpus:
        """CPUs of the other containers of a pod."""
        others = (h.value for key, h in self.held.items() if key[0] == holder[0] and key != holder)
        return NONE.union(*others)

    def overdue(self, record: Record, pool: Cpus, wait_ns: int) -> None:
        """Whose pod ended long before, and whose CPUs a told pool still lacks."""
        for holder, held in sorted(self.held.items()):
            ended = self.end_of(holder)
            if ended is None or not self.complete or record.ts_ns - ended.ts_ns <= wait_ns:
                continue
            if held.value & pool:
                continue
            text = cpu_set_text(held.value)
            del self.held[holder]
            self.bench.absent(
                record,
                CpusReleased.kind,
                subject=f"container/{self.pod(holder)}/{holder[1]}",
                expected={"pod_uid": holder[0], "container": holder[1], "cpu_set": text},
                why=f"pod {self.pod(holder)} ended, and its CPUs {text} were not given back",
                rule=RELEASE,
                inputs=[held.seq, ended.seq],
            )


def counts_of(specs: list[Spec], facts: ResourceManagerFacts) -> list[int]:
    """How many CPUs the container gets alone by each version of its spec that tells."""
    counts = []
    for spec in specs:
        try:
            count = exclusive_cpus(spec.pod, spec.container, facts)
        except BadInputError:
            continue
        if count or spec.defaulted:
            counts.append(count)
    return counts
