"""CPUs of containers: given and taken back as the CPU manager's static policy must.

A container of a Guaranteed pod that requests whole CPUs gets as many for itself, out of the
shared pool less the reserved ones, or an init container's of the same pod. Which of them are
taken follows from the machine, the policy's options and the NUMA nodes of the affinity. They go
back when the pod is not active any more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kubeledger.kubelet.cpumanager.policy_options import FULL_PCPUS_ONLY
from kubeledger.kubelet.cpumanager.policy_static import StaticPolicy, returned_cpus
from kubeledger.kubelet.cpumanager.state_checkpoint import Assignments, State, StateError
from kubeledger.kubelet.kube.containermanager import AllocationError, CPUSet, parse, set_of, text_of
from kubeledger.kubelet.kube.maporder import MapOrder, explore
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.debts import Missed
from kubeledger.verify.evidence.pod_objects import Spec
from kubeledger.verify.rules.activity import is_active
from kubeledger.verify.rules.assignments import Holder
from kubeledger.verify.rules.cpu_table import CpuTable, set_or_none, union
from kubeledger.verify.variant import RECORDED

_FILE: Final = "pkg/kubelet/cm/cpumanager/"
_AFFINITY_LINE: Final = "opology Affinity"
_LATE_NS: Final = 20 * NS_PER_S
"""Stale assignments are looked for every ten seconds."""
_NOT_RESTORED: Final = "could not restore state from checkpoint"
_CORRUPT: Final = "checkpoint is corrupted"
_OTHER_POLICY: Final = re.compile(
    r'configured policy "(?P<configured>[^"]*)" differs from state checkpoint policy '
    r'"(?P<stored>[^"]*)"'
)
_SHORT: Final = re.compile(
    r"not enough cpus available to satisfy request"
    r"(?:: requested=(?P<requested>\d+), available=(?P<available>\d+))?$"
)
_PHYSICAL: Final = re.compile(
    r"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
    r"(?P<available>\d+), requested CPUs = (?P<requested>\d+), CPUs per core = \d+$"
)


class CpuVerifier(CpuTable):
    """The CPU manager's decisions."""

    rule = f"{_FILE}policy_static.go Allocate"
    released = f"{_FILE}cpu_manager.go removeStaleState"
    validated = f"{_FILE}policy_static.go validateState"

    def started(self, record: Record, body: CpuManagerStarted, state: NodeState) -> None:
        """Under a variant the first process may refuse the file that another one left."""
        is_first = self.start is None
        super().started(record, body, state)
        policy, _ = self.policy
        if not (is_first and body.restored and self.is_varied) or policy is None:
            return
        errors = state_errors(policy, self.pool or 0, self.contents())
        if errors and (self.complete or "reserved" in errors[0]):
            missed = Missed(
                since=record,
                kind=CpuStateRefused.kind,
                subject="node",
                expected={"error": errors[0]},
                why=f"the kubelet would not start with this cpu_manager_state: {errors[0]}",
                rule=self.validated,
            )
            self.context.absent(missed, certain=True)

    def judge(self, record: Record, holder: Holder, state: NodeState) -> Judgement:
        body = record.body
        if isinstance(body, CpusAllocated):
            return self._judge_grant(record, body, holder, state)
        if isinstance(body, CpusReleased):
            return self._judge_release(record, body, holder, state)
        assert isinstance(body, CpuAllocationFailed)
        return self._judge_refusal(record, body, holder, state)

    def _judge_grant(
        self, record: Record, body: CpusAllocated, holder: Holder, state: NodeState
    ) -> Judgement:
        given, pool_after, pool = parse(body.cpu_set), set_or_none(body.default_cpu_set), self.pool
        if pool_after is not None:
            self.not_given_back(record, pool_after | given, record.ts_ns)
        specs = self.specs(record)
        counts = self.counts(specs)
        seqs = [*(spec.seq for spec in specs[:1]), *([self.start_seq] if self.start else [])]
        if wrong := _wrong_count(specs, counts, body) or self._wrong_cpus(given, pool_after):
            expected = {"requested": counts[-1]} if counts else None
            return same(False, wrong, expected=expected, inputs=seqs, certain=True)
        reused = self.reusable(specs[0].pod if specs else None, holder)
        if pool is not None:
            denied = f"the shared pool was {text_of(pool)}"
            if short := given & ~pool & ~reused:
                denied = f"CPU {text_of(short)} was not in the shared pool: {denied}"
            elif pool_after is not None:
                without = f"without {text_of(given)}"
                denied = f"{denied} and cannot be {body.default_cpu_set} {without}"
            after = pool & ~given if pool_after is None else pool_after
            back, gone = (given | after) & ~pool & ~reused, pool & ~given & ~after
            if (odd := self.by_lost_lines(record, holder, back, gone, denied, state)) is not None:
                return odd
        policy, unknown = self.policy
        inputs = {
            "the pod's spec": counts,
            "the CPU manager's lines": body.told_by != "state_file",
            "the shared pool before it": body.told_by == "state_file" or pool is not None,
        }
        if missing := [*(name for name, value in inputs.items() if not value), *unknown]:
            return lacks(missing)
        assert policy is not None
        assert pool is not None
        decided = [give(policy, pool, given.bit_count(), affinity, reused)
                   for affinity in self._affinities(record, policy, holder)]  # fmt: skip
        free = pool & ~policy.reserved | reused
        again = f", {text_of(reused)} an init container's before" if reused else ""
        out_of = f"out of {text_of(free)}{again}"
        unseen = self.unlogged_before(specs[0].pod, holder) if reused else None
        return self._choice(body, decided, free, out_of, seqs, unseen)

    def _choice(
        self,
        body: CpusAllocated,
        decided: list[CPUSet | str],
        free: CPUSet,
        out_of: str,
        seqs: list[int],
        unseen: str | None,
    ) -> Judgement:
        """Judge which of the free CPUs were taken.

        Args:
            decided: by each affinity that may be stored.
            unseen: a container of the pod that may have taken some of them by no record.
        """
        given, exact = parse(body.cpu_set), self.facts.units_sorted_by_free_cpus
        count, order = given.bit_count(), order_of(self.policy[0])
        other = next((each for each in decided if each != given), given)
        if other != given and (exact or isinstance(other, str)):
            nodes = ", ".join(map(str, body.numa_nodes or ()))
            aligned = f", the affinity is NUMA node {nodes}" if nodes else ""
            why = f"{out_of}{aligned}: {_instead(other)}, {order}, and it got {text_of(given)}"
            if given in decided:
                return open_to("the affinity of the container", denied=why, inputs=seqs)
            if unseen is not None and given & ~free == 0:
                return open_to(f"the CPUs of container {unseen}", denied=why, inputs=seqs)
            cpus = None if isinstance(other, str) else text_of(other)
            return same(False, why, expected={"cpu_set": cpus}, inputs=seqs)
        only = free.bit_count() == count
        choice = f"they are the first {order}" if exact else f"any {count} of them may be given"
        why = f"it requests {_cpus(count)} in a Guaranteed pod, so it gets {text_of(given)} alone, "
        why += f"{out_of}: {'no others were free' if only else choice}"
        expected = {"cpu_set": body.cpu_set, "requested": body.requested}
        ruling = Ruling(allowed=True, why=why, expected=expected, inputs=tuple(seqs))
        return judge([replace(ruling, chosen=only or exact)])

    def _affinities(
        self, record: Record, policy: StaticPolicy, holder: Holder
    ) -> Sequence[int | None]:
        """The NUMA nodes that may have been stored: those of the line, which may be lost."""
        stored = self.context.alignment.stored(*holder)
        if self.context.variant != RECORDED and stored is not None:
            return [hint.affinity for hint in stored.hints]
        nodes: tuple[int, ...] | None = getattr(record.body, "numa_nodes", None)
        if nodes is not None:
            return [set_of(nodes)]
        told = [piece.text or "" for piece in record.evidence]
        is_any = not told or any(_AFFINITY_LINE in text for text in told)
        none_stored = self.context.settings.get("topologyManagerPolicy") == "none"
        masks = () if is_any or none_stored else policy.topology.node_masks
        return [None, *(hint.affinity for *_, hint in masks)]

    def _wrong_cpus(self, given: CPUSet, pool_after: CPUSet | None) -> str:
        """Words for reserved CPUs, such as there are not, and such as everybody has."""
        cpus = self.start.cpus if self.start is not None else None
        machine = given if cpus is None else set_of(map(int, cpus))
        if spared := given & (self.reserved or 0):
            return f"CPU {text_of(spared)} is reserved, and given to no container"
        if given & ~machine:
            return f"the machine has the CPUs {text_of(machine)}, not {text_of(given)}"
        if both := given & (pool_after or 0):
            return f"CPU {text_of(both)} is given to it alone and still in the shared pool"
        return ""

    def _judge_release(
        self, record: Record, body: CpusReleased, holder: Holder, state: NodeState
    ) -> Judgement:
        held, asks = self.held.get(holder), any(self.counts(self.specs(record)))
        found = self.given_back(record, holder, state, asks=asks)
        if held is None or self.is_of_a_whole(record):
            return found
        if found.verdict == "impossible" and not self.facts.cpus_kept_on_failed_update:
            found = lacks(["the end of the pod"])
        cpus, siblings = held.value, self.siblings(holder)
        pool_after = set_or_none(body.default_cpu_set)
        expected = {"default_cpu_set": body.default_cpu_set}
        expected["cpu_set"] = body.cpu_set and text_of(cpus)
        if pool_after is not None and self.pool is not None:
            after = self.pool | returned_cpus(cpus, siblings, self.facts)
            text = expected["default_cpu_set"] = text_of(after)
            denied = f"it had {text_of(cpus)}, so the shared pool becomes {text}"
            back, gone = pool_after & ~after, after & ~pool_after
            if (odd := self.by_lost_lines(record, holder, back, gone, denied, state)) is not None:
                return odd
        if found.verdict == "match" and self.facts.pending_admission_pod:
            found = self._late(record, holder, found)
        if expected["cpu_set"] != body.cpu_set:
            found = same(False, f"it had {expected['cpu_set']}", inputs=(held.seq,))
        return replace(found, expected=expected)

    def _late(self, record: Record, holder: Holder, found: Judgement) -> Judgement:
        """Say it where a pod has kept its CPUs for long as the last one that was to be admitted."""
        interval = self.context.timeline.interval(record.ts_ns, holder[0])
        ended_ns = None if interval is None else interval.terminated_ns
        late = ended_ns is not None and record.ts_ns - ended_ns > _LATE_NS
        if not late or self.pending != holder[0]:
            return found
        kept = "it counted as active until another pod was to be admitted"
        return replace(found, why=f"{found.why}; {kept}")

    def _judge_refusal(
        self, record: Record, body: CpuAllocationFailed, holder: Holder, state: NodeState
    ) -> Judgement:
        specs, pool, held = self.specs(record), self.pool, self.held.get(holder)
        counts = self.counts(specs)
        policy, unknown = self.policy
        inputs = {"the shared pool before it": pool, "the pod's spec": counts or None}
        missing = [name for name, value in inputs.items() if value is None]
        if missing or policy is None:
            return lacks([*missing, *unknown])
        assert pool is not None
        self.not_given_back(record, pool, record.ts_ns)
        if held is not None:
            return self._judge_refusal_of_own(record, policy, pool, holder, state)
        asked = counts[-1] if body.requested is None else body.requested
        seqs = [specs[0].seq, self.start_seq]
        reused = self.reusable(specs[0].pod, holder)
        decided = [give(policy, pool, asked, affinity, reused)
                   for affinity in self._affinities(record, policy, holder)]  # fmt: skip
        told = told_by(body.error, asked)
        free, on_cores = pool & ~policy.reserved | reused, ""
        if told is not None and told[1]:
            free, on_cores = pool & ~policy.reserved_physical, " on cores without a reserved CPU"
        why = f"it requests {_cpus(counts[-1])}, and {free.bit_count()} were free{on_cores}"
        why += self._kept(pool, state)
        if asked in counts and body.error in decided:
            more = "" if told is not None else f": {body.error}"
            return same(True, why + more, inputs=seqs)
        says_all = told is not None and (told[0] is None) != self.facts.cpu_shortage_names_numbers
        if told is not None and says_all and asked in counts and self.context.variant == RECORDED:
            maybe = [h for h in self.held if not self.surely_has(h, record.ts_ns)]
            unlogged = self.unlogged(state, but=holder)
            least = 0 if unlogged is None else free.bit_count() - sum(unlogged)
            most = (free | union(self.held[h].value for h in maybe)).bit_count()
            count = least if told[0] is None else told[0]
            if (maybe or unlogged != []) and least <= count <= most and count < asked:
                return open_to("all holders of CPUs", denied=why, inputs=seqs)
        error = decided[0] if isinstance(decided[0], str) else None
        why = f"{why}: {_instead(decided[0])}"
        return same(False, why, expected={"error": error}, inputs=seqs)

    def _judge_refusal_of_own(
        self, record: Record, policy: StaticPolicy, pool: CPUSet, holder: Holder, state: NodeState
    ) -> Judgement:
        """A container has its CPUs: whether cores are whole is asked before that is seen."""
        held = self.held[holder]
        has = f"it has its CPUs {text_of(held.value)} already"
        try:
            policy.enforce_smt_alignment(State(pool), held.value.bit_count())
            error = ""
        except AllocationError as refused:
            error = str(refused)
        if error and error == getattr(record.body, "error", ""):
            free = (pool & ~policy.reserved_physical).bit_count()
            why = f"{has}, but {FULL_PCPUS_ONLY} asks for as many others before that is seen, and "
            why += f"only {free} were free on cores without a reserved CPU{self._kept(pool, state)}"
            rule = f"{_FILE}policy_static.go enforceSMTAlignment"
            return same(True, why, inputs=[held.seq, self.start_seq], rule=rule)
        why = f"{has}, and is left as it is"
        may_be_refused = policy.options.full_physical_cpus_only
        sure = self.surely_has(holder, record.ts_ns) and not may_be_refused
        if sure or self.context.variant != RECORDED:  # a variant is not asked what was
            return same(False, why, expected={"error": None}, inputs=[held.seq])
        return open_to("all holders of CPUs", denied=why, inputs=[held.seq])

    def _kept(self, pool: CPUSet, state: NodeState) -> str:
        """Words for CPUs that pods have which have ended."""
        pods, held = self.context.pods, self.held.items()
        over = (has.value for of, has in held if is_active(state, pods, of[0])[0] is False)
        kept = union(over) & ~pool
        return f"; CPU {text_of(kept)} was still that of pods which had ended" if kept else ""

    def judge_file(self, body: CpuStateRefused) -> Judgement:
        """Decide the error again, where all that the file held is known."""
        if _NOT_RESTORED in body.error:
            return self._judge_unread(body.error)
        policy, pool = self.policy[0], self.pool
        if not self.complete or pool is None or policy is None:
            return lacks(["what cpu_manager_state held"])
        errors = state_errors(policy, pool, self.contents())
        said = next((error for error in errors if error in body.error), None)
        why = f"cpu_manager_state does not fit: {said or errors[0]}" if errors else "the file fits"
        return same(said is not None, why, expected={"error": said or next(iter(errors), None)})

    def _judge_unread(self, error: str) -> Judgement:
        """A file that could not be read, or that another policy wrote."""
        file, rule = self.last_file, f"{_FILE}state/state_checkpoint.go restoreState"
        if (match := _OTHER_POLICY.search(error)) is not None:
            own = match["configured"] if self.start is None else self.start.policy
            if own != match["configured"]:
                return same(False, f"the configured policy is {own}", rule=rule)
            if own == match["stored"]:
                return same(False, "both policies are the same", rule=rule)
            if file is not None and file.policy == match["stored"]:
                why = f"policy {file.policy} wrote cpu_manager_state, and {own} does not read that"
                return same(True, why, rule=rule)
        elif _CORRUPT in error and file is not None and file.checksum_ok is False:
            why = "the checksum of cpu_manager_state is not that of its content"
            return same(True, why, rule=rule)
        return lacks(["what cpu_manager_state held"])


def _instead(decided: CPUSet | str) -> str:
    return f"refused, {decided}" if isinstance(decided, str) else f"it gets {text_of(decided)}"


def _wrong_count(specs: list[Spec], counts: list[int], body: CpusAllocated) -> str:
    given = parse(body.cpu_set).bit_count()
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


def told_by(error: str, asked: int) -> tuple[int | None, bool] | None:
    """How many CPUs were free by the error of an allocation, and whether it counts whole cores.

    Of those only the CPUs of cores without a reserved one are counted.

    Args:
        asked: CPUs that the container asks for. The text has what was left of them once those on
            the affinity's NUMA nodes were taken.

    Returns:
        None: the error tells nothing of that kind; no number: it does not say it.
    """
    if (match := _SHORT.match(error)) is not None:
        requested, available = match["requested"], match["available"]
        return None if available is None else asked - int(requested) + int(available), False
    match = _PHYSICAL.match(error)
    return None if match is None else (int(match["available"]), True)


def give(
    policy: StaticPolicy, pool: CPUSet, count: int, affinity: int | None, reusable: CPUSet
) -> CPUSet | str:
    """The CPUs that a container gets of the pool and of ``reusable`` ones, or why none."""
    state = State(pool)
    try:
        policy.enforce_smt_alignment(state, count)
        return policy.allocate_cpus(state, count, affinity, reusable)
    except AllocationError as error:
        return str(error)


def state_errors(policy: StaticPolicy, pool: CPUSet, held: Assignments) -> list[str]:
    """What it may say of a state file that does not fit; empty if it does."""

    def error(order: MapOrder) -> str:
        try:
            policy.validate_state(State(pool, held), order)
        except StateError as fault:
            return str(fault)
        return ""

    return list(dict.fromkeys(filter(None, explore(error))))


def order_of(policy: StaticPolicy | None) -> str:
    """By what CPUs are chosen, in words."""
    options = () if policy is None else policy.options.names
    names = [name for name in options if name != FULL_PCPUS_ONLY]
    return f"by {' and '.join(names)}" if names else "by NUMA node, socket and core"
