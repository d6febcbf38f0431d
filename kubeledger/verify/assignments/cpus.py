"""CPUs of containers: given and taken back as the static policy could have done it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from kubeledger.cpumanager.decider import (
    Cpus,
    assignable,
    exclusive_cpus,
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
from kubeledger.errors import BadInputError
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.cpuset import cpu_set_text, cpus_of
from kubeledger.lifecycle.records import PodConfigChanged, PodTerminated
from kubeledger.machine import Body, Decision, Record
from kubeledger.node.records import KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.units import NS_PER_S, parse_go_duration
from kubeledger.verify.assignments.common import (
    NOTICED_NS,
    AssignmentVerifier,
    Holder,
    Spec,
    Whose,
    spec_of,
    whose,
)
from kubeledger.verify.assignments.cpu_belief import CpuBelief
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.verifier import See

__all__ = ["CpuAssignmentVerifier"]

_FILE = "pkg/kubelet/cm/cpumanager/"
_ALLOCATE = f"{_FILE}policy_static.go Allocate"
_RELEASE = f"{_FILE}cpu_manager.go removeStaleState"
_VALIDATE = f"{_FILE}policy_static.go validateState"
_LOOP = "cpuManagerReconcilePeriod"
_SLACK_NS = 10 * NS_PER_S
_SHORT = re.compile(
    r"not enough cpus available to satisfy request"
    r"(?:: requested=(?P<requested>\d+), available=(?P<available>\d+))?$"
)


class CpuAssignmentVerifier(AssignmentVerifier):
    """The CPU manager's decisions, judged again."""

    decides: ClassVar[tuple[type[Decision], ...]] = (
        CpusAllocated,
        CpusReleased,
        CpuAllocationFailed,
        CpuStateRefused,
    )

    file = "cpu_manager_state"
    denied = "cpu_manager_state shows other CPUs of containers than the lines told"

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._belief = CpuBelief()

    def sees(self) -> Mapping[type[Body], See]:
        """Decisions, what the manager began with, its file, and the ends of pods."""
        return {
            CpuAllocationFailed: self._failed,
            CpuManagerStarted: lambda record, body, state: self._belief.begin(record.seq, body),
            CpuManagerStateRead: self._file_read,
            CpuStateRefused: self._state_refused,
            CpusAllocated: self._allocated,
            CpusReleased: self._released,
            EvictionSignalObserved: self._time_passed,
            KubeletStarted: self._process_started,
            PodConfigChanged: lambda record, body, state: self._pods.added(body),
            PodTerminated: lambda record, body, state: self._pods.terminated(record, body),
        }

    def _process_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        self._pods.forget()
        if not body.from_start:
            # What it began with, and did until here, no line tells.
            self._belief = CpuBelief()

    def _time_passed(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        """Each turn of the reconcile loop lets go of what pods that ended held."""
        self._doubt.passed(record.ts_ns)
        period = self.bench.settings.get(_LOOP)
        if isinstance(period, str):
            with suppress(ValueError):
                self._overdue(record, 2 * parse_go_duration(period) + _SLACK_NS)

    def _file_read(self, record: Record, body: CpuManagerStateRead, state: NodeState) -> None:
        if not self._relied_on(record, body.checksum, body.checksum_ok):
            return
        shown = {
            (uid, name): cpus_of(text)
            for uid, sets in body.assignments.items()
            for name, text in sets.items()
            if uid
        }
        belief = self._belief
        if not belief.complete or belief.pool is None:
            belief.adopt(record.seq, record.ts_ns, cpus_of(body.default_cpu_set), shown)
        elif sides := belief.denied_by(record.ts_ns, shown):
            side = (record.seq, f"the file's shared pool is {body.default_cpu_set}")
            self._doubt.raise_(record.ts_ns, side, *sides)

    def _allocated(self, record: Record, body: CpusAllocated, state: NodeState) -> None:
        self._overdue(record)
        self._doubt.decided(record.ts_ns)
        self._belief.unsettle(record.ts_ns)
        about = whose(state, body)
        facts = self._facts()
        if facts is None:
            self._unknown(record, about, _ALLOCATE, [self.bench.missing_profile])
        else:
            self._judge(record, body, about, facts)
        self._belief.give(record.ts_ns, record.seq, about.holder, body)

    def _judge(
        self, record: Record, body: CpusAllocated, about: Whose, facts: ResourceManagerFacts
    ) -> None:
        belief, given = self._belief, cpus_of(body.cpu_set)
        specs = spec_of(self.bench, record, body)
        counts = _counts(specs, facts)
        seqs = [seq for spec in specs[:1] for seq in spec.seqs]
        if belief.start is not None:
            seqs.append(belief.start[1])
        recorded = {"cpu_set": body.cpu_set, "requested": body.requested}
        wrong = _wrong_count(specs, counts, body) or belief.wrong_machine(given)
        if wrong:
            count = {"requested": counts[-1]} if counts else None
            self._found(record, "impossible", about, _ALLOCATE, wrong, seqs,
                        expected=count, recorded=recorded, certain=True)  # fmt: skip
            return
        reused = belief.reusable(specs, about.holder, facts)
        for other, both, seq in belief.others(about.holder, given):
            wrong = f"CPU {cpu_set_text(both)} was {self._named(other)}'s, and not given back"
            seqs.append(seq)
        wrong = wrong or belief.wrong_pool(given, body, reused)
        missing = self._missing(counts, body)
        if not wrong and not missing:
            free = assignable(belief.pool or given, belief.reserved or frozenset(), reused)
            wrong = belief.misaligned(given, free, body)
        if wrong:
            self._found(record, "impossible", about, _ALLOCATE, wrong, seqs, recorded=recorded)
        elif missing:
            self._unknown(record, about, _ALLOCATE, missing)
        else:
            why = self._chosen(given, free, reused)
            verdict: Verdict = "match" if len(free) == len(given) else "admissible"
            self._found(record, verdict, about, _ALLOCATE, why, seqs,
                        expected=recorded, recorded=recorded)  # fmt: skip

    def _chosen(self, given: Cpus, free: Cpus, reused: Cpus) -> str:
        """Why these CPUs."""
        only = len(free) == len(given)
        choice = "no others were free" if only else f"any {len(given)} of them may be given"
        again = f", {cpu_set_text(reused)} an init container's before" if reused else ""
        return (
            f"it requests {_cpus(len(given))} in a Guaranteed pod, so it gets "
            f"{cpu_set_text(given)} alone; {cpu_set_text(free)} free for that{again} (shared pool "
            f"{cpu_set_text(self._belief.pool or ())}, reserved "
            f"{cpu_set_text(self._belief.reserved or ()) or 'none'}): {choice}"
        )

    def _missing(self, counts: list[int], body: CpusAllocated) -> list[str]:
        missing = [] if counts else ["the pod's spec"]
        if body.told_by == "state_file":
            missing.append("the CPU manager's lines")
        elif self._belief.pool is None:
            missing.append("the shared pool before it")
        if self._belief.reserved is None:
            missing.append("the reserved CPUs")
        return missing

    def _released(self, record: Record, body: CpusReleased, state: NodeState) -> None:
        belief = self._belief
        self._doubt.decided(record.ts_ns)
        belief.unsettle(record.ts_ns)
        about, facts = whose(state, body), self._facts()
        if facts is None:
            self._unknown(record, about, _RELEASE, [self.bench.missing_profile])
        elif about.holder not in belief.held and belief.complete and not body.inferred:
            why = "it had no CPUs of its own, and only those of containers that had are given back"
            self._found(record, "impossible", about, _RELEASE, why)
        else:
            self._judge_release(record, body, state, about, facts)
        belief.take_back(record.ts_ns, about.holder, body)

    def _judge_release(
        self,
        record: Record,
        body: CpusReleased,
        state: NodeState,
        about: Whose,
        facts: ResourceManagerFacts,
    ) -> None:
        belief, uid = self._belief, about.holder[0]
        cpus, *seqs = belief.held.get(about.holder, (None,))
        siblings = belief.siblings(about.holder)
        recorded = {"cpu_set": body.cpu_set, "default_cpu_set": body.default_cpu_set}
        expected = dict(recorded)
        if cpus is not None and body.cpu_set is not None:
            expected["cpu_set"] = cpu_set_text(cpus)
        if cpus is not None and belief.pool is not None and body.default_cpu_set is not None:
            pool = released_pool(belief.pool, cpus, siblings, facts)
            expected["default_cpu_set"] = cpu_set_text(pool)
        if expected != recorded:
            why = (
                f"it had {expected['cpu_set']}, so the shared pool is "
                f"{expected['default_cpu_set']} behind it"
            )
            self._found(record, "impossible", about, _RELEASE, why, seqs,
                        expected=expected, recorded=recorded)  # fmt: skip
        elif facts.cpus_kept_on_failed_update and (
            alive := self._pods.surely_alive(state, uid, record.ts_ns)
        ):
            why = f"CPUs are taken from pods that are not active any more, and {alive}"
            self._found(record, "impossible", about, _RELEASE, why, seqs, recorded=recorded)
        elif (ended := self._pods.inactive(state, uid)) is None or cpus is None:
            missing = "the end of the pod" if ended is None else "what it had before"
            self._unknown(record, about, _RELEASE, [missing])
        else:
            back = cpus - siblings if facts.release_spares_siblings else cpus
            why = f"{ended}; {cpu_set_text(back)} went back to the shared pool"
            if not back:
                why = f"{ended}; {cpu_set_text(cpus)} is another container's of the pod as well"
            self._found(record, "match", about, _RELEASE, why, seqs,
                        expected=expected, recorded=recorded)  # fmt: skip

    def _failed(self, record: Record, body: CpuAllocationFailed, state: NodeState) -> None:
        belief = self._belief
        belief.unsettle(record.ts_ns)
        about, facts, short = whose(state, body), self._facts(), _SHORT.match(body.error)
        specs = spec_of(self.bench, record, body)
        counts = _counts(specs, facts) if facts is not None else []
        if facts is None or short is None or belief.pool is None or not counts:
            inputs = {
                self.bench.missing_profile: facts,
                "the cores of the machine": short,
                "the shared pool before it": belief.pool,
                "the pod's spec": counts or None,
            }
            missing = [name for name, value in inputs.items() if value is None]
            self._unknown(record, about, _ALLOCATE, missing)
            return
        reused = belief.reusable(specs, about.holder, facts)
        free = assignable(belief.pool, belief.reserved or frozenset(), reused)
        asked = body.requested if body.requested is not None else counts[-1]
        right = asked > len(free) and asked in counts
        right = right and short["available"] in (None, str(len(free)))
        why = f"it requests {_cpus(counts[-1])}, and {len(free)} were free"
        self._found(record, "match" if right else "impossible", about, _ALLOCATE, why,
                    [*specs[0].seqs])  # fmt: skip

    def _state_refused(self, record: Record, body: CpuStateRefused, state: NodeState) -> None:
        belief = self._belief
        about, pool, machine = Whose(("", ""), "node"), belief.pool, belief.machine
        if pool is None or machine is None or belief.reserved is None or not belief.complete:
            self._unknown(record, about, _VALIDATE, ["what cpu_manager_state held"])
            return
        held = {holder: cpus for holder, (cpus, _) in belief.held.items()}
        error = state_error(pool, held, belief.reserved, machine, strict=belief.strict)
        right = error is not None and error in body.error
        why = f"cpu_manager_state does not fit: {error}" if error else "cpu_manager_state fits"
        self._found(record, "match" if right else "impossible", about, _VALIDATE, why,
                    expected={"error": error}, recorded={"error": body.error})  # fmt: skip

    def _overdue(self, record: Record, wait_ns: int = NOTICED_NS) -> None:
        """Who still holds CPUs although its pod ended: they were due to be given back."""
        belief = self._belief
        if not belief.held or not belief.complete:
            return
        for holder, ended in self._pods.overdue(belief.held, record.ts_ns, wait_ns):
            cpus, seq = belief.held.pop(holder)
            text = cpu_set_text(cpus)
            self.bench.absent(
                record,
                CpusReleased.kind,
                subject=f"container/{self._pod(holder)}/{holder[1]}",
                expected={"pod_uid": holder[0], "container": holder[1], "cpu_set": text},
                why=f"pod {self._pod(holder)} ended, and its CPUs {text} were not given back",
                rule=_RELEASE,
                inputs=[seq, ended.seq],
            )

    def _pod(self, holder: Holder) -> str:
        listed = self.bench.pods.at(0, holder[0])
        return f"{listed.namespace}/{listed.name}" if listed is not None else holder[0]

    def _named(self, holder: Holder) -> str:
        return f"container {holder[1]} of pod {self._pod(holder)}"

    def _found(
        self,
        record: Record,
        verdict: Verdict,
        about: Whose,
        rule: str,
        why: str,
        inputs: Sequence[int] = (),
        *,
        expected: Fields | None = None,
        recorded: Any = None,  # noqa: ANN401 - fields
        certain: bool = False,
    ) -> None:
        self.bench.find(record, verdict, subject=about.subject, why=why, rule=rule,
                        inputs=inputs, expected=expected, recorded=recorded,
                        certain=certain)  # fmt: skip


def _counts(specs: list[Spec], facts: ResourceManagerFacts) -> list[int]:
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
