"""What can no longer be trusted once a decision would have differed.

The observations after a changed decision were made in a world in which the recorded
decision had been taken. How far that reaches depends on the decision: a pod that would
have been refused never holds devices or memory, and leaves more room to others; another
cgroup value changes no other decision that is verified here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kubeledger.analyze.whatif.pods import Pods
from kubeledger.analyze.whatif.world import Trust, World, pod_of
from kubeledger.kubelet.cgroups.paths import owner_of
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding
from kubeledger.verify.rules.admission.case import AdmissionCase
from kubeledger.verify.rules.assignments import NONE_POLICY

_ALL_OF_NODE = "node"
_USAGE = "usage"
"""What pods used: evictions rest on it, and kills for the node's memory."""
_IMAGES = "images"
_RUN_END = "images.GarbageCollected"
_RUN_START = "images.GarbageCollectionStarted"
_REMOVAL = "images.ImageDeleted"
_OF_RUN = frozenset({_RUN_START, _REMOVAL, _RUN_END})
_OF_START = ("usage_percent", "low_threshold_percent", "bytes_to_free")

_REACH: dict[str, tuple[str, ...]] = {
    "oom.ProcessKilled": ("pod", "usage"),
    "cpumanager.CpusAllocated": ("pod", "cpumanager"),
    "cpumanager.CpusReleased": ("cpumanager",),
    "devicemanager.DevicesReleased": ("devices",),
    "dra.ClaimPrepared": ("pod", "claims"),
    "dra.ClaimReleased": ("claims",),
    "memorymanager.MemoryAllocated": ("pod", "memorymanager"),
    "memorymanager.MemoryReleased": ("memorymanager",),
    "imagepull.PullDecided": ("container",),
    "imagepull.PullEnded": ("container",),
    "prober.ProbeTransitioned": ("container",),
    "lifecycle.ContainerKilled": ("container",),
    "lifecycle.ContainerRestarted": ("container",),
    "lifecycle.RestartBackedOff": ("container",),
}
"""Kind of a changed decision -> what is not as recorded after it, besides pods as a whole."""

_CPUS, _NO_START = "cpumanager.CpusAllocated", "cpumanager.CpuStateRefused"
_ADMITTED = "lifecycle.PodAdmitted"
_REJECTED = "lifecycle.PodRejected"
_EVICTED = "lifecycle.PodEvicted"
_PREEMPTED = "preemption.PodPreempted"
_RECLAIM = "eviction.ReclaimAttempted"
_KILLED = "lifecycle.ContainerKilled"
_GRACE = "grace_period_s"
_ENDS_WITHIN_S = 10
"""The end of a container is acted on so soon."""
_RESTARTING = frozenset({"liveness_probe", "startup_probe", "post_start_hook"})
_AFFINITY = "topologymanager.AffinityDecided"
_ASKED = frozenset({_ADMITTED, _REJECTED, _PREEMPTED, "preemption.PreemptionFailed"})
_CLAIMS = frozenset(
    {
        _AFFINITY, "cpumanager.CpuAllocationFailed", "cpumanager.CpusAllocated",
        "memorymanager.MemoryAllocated", "memorymanager.MemoryAllocationFailed",
        "devicemanager.AllocationFailed", "devicemanager.DevicesAllocated",
    }
)  # fmt: skip
"""Decisions within an admission about what no two pods can have."""
_GIVEN = {"cpumanager.CpusAllocated": "cpu_set", "memorymanager.MemoryAllocated": "blocks"}
"""Kind of a grant -> what it gives; nothing: the pod is refused."""
_DOUBTED = _ASKED | {_EVICTED, _RECLAIM}
"""Of which it is said what may come of them where that is not sure."""
_ABSENT, _BESIDES = ("absent",), ("besides",)
_SURELY_ABSENT = ("absent", "sure")
_SURELY_BESIDES = ("besides", "sure")


class Taint:
    """What has been touched by changes so far, and by which first.

    Memory grows with the changes, and with nothing else.
    """

    def __init__(
        self,
        world: World | None = None,
        pods: Pods | None = None,
        high_threshold_percent: int | None = None,
    ) -> None:
        """Nothing is touched yet.

        Args:
            world: the pods that live apart; None: that none does, so far.
            pods: who is who; None: that is not known.
            high_threshold_percent: of image GC under the variant; None: the recorded one.
        """
        self._pods = pods or Pods()
        self._world = world or World(self._pods)
        self._first: dict[str, int] = {}
        self._unsure_claims: dict[str, int] = {}
        self._questions: dict[int, AdmissionCase] = {}
        self._trust: Trust = "sure"
        self._start: int | None = None
        self._run: int | None = None
        self._high_percent = high_threshold_percent
        self._kept: dict[str, int] = {}
        self._gone = False
        self._is_calm = False

    def note_question(self, seq: int, case: AdmissionCase) -> None:
        """What the decision of an admission rests on, before its finding comes."""
        self._questions[seq] = case

    def of(self, finding: Finding) -> int | None:
        """Seq of the change that makes this decision's inputs untrustworthy; None: they hold."""
        if finding.kind == _RUN_START:
            self._is_calm = self._is_far_below(finding)
        if self._is_calm and finding.kind in _OF_RUN:
            return None
        self._world.pass_time(finding.ts_ns)
        touched = [self._first[scope] for scope in self._scopes(finding) if scope in self._first]
        touched += [seq for seq in self._pods_changed(finding) if seq is not None]
        return min(touched, default=None)

    def _pods_changed(self, finding: Finding) -> list[int | None]:
        """Changes after which pods differ on which this decision rests."""
        world, pod = self._world, pod_of(finding.subject)
        if finding.kind in _ASKED:
            return self._of_admission(finding)
        if (uid := _uid_of_cgroup(finding.subject)) is not None:
            owner = self._pods.subjects.get(uid)
            return [world.others() if owner is None else world.diverged_at(owner, finding.ts_ns)]
        found = [world.diverged_at(pod, finding.ts_ns)]
        subsystem = finding.kind.partition(".")[0]
        if subsystem in {"devicemanager", "topologymanager", "cpumanager", "memorymanager"}:
            claims_none = finding.kind == _AFFINITY and world.asks_for_none(pod)
            found.append(None if claims_none else world.holders(pod))
        elif subsystem == "eviction" or finding.kind == _EVICTED:
            found.append(None if self._is_not_short(finding) else world.others(pod))
        elif _is_of_node(finding):
            found.append(world.weighing() if subsystem == "cgroups" else world.others(pod))
        return found

    def _of_admission(self, finding: Finding) -> list[int | None]:
        """See :meth:`World.trust`."""
        pod, case = pod_of(finding.subject), self._questions.get(finding.seq)
        asks = pod if case is None else f"pod/{case.interval.full_name}"
        unsure = self._unsure_claims.get(asks)
        self._trust = self._world.trust(finding, case, claims_sure=unsure is None)
        own = [] if finding.kind == _PREEMPTED else [self._world.diverged_at(asks, finding.ts_ns)]
        if own and own[0] is not None:
            self._trust = "doubtful"
        if self._trust == "sure":
            return []
        return [*own, self._world.others(asks), unsure]

    def _is_not_short(self, finding: Finding) -> bool:
        """Whether an eviction for memory would not have come, whatever other pods there were."""
        recorded = finding.recorded or {}
        is_memory = recorded.get("resource") == "memory"
        return is_memory and _would_not_be(finding) and self._world.has_memory(finding.ts_ns)

    def _scopes(self, finding: Finding) -> list[str]:
        """Everything else whose change would change the inputs of this decision."""
        if finding.kind in _ASKED:
            return [pod_of(finding.subject)]
        uid = _uid_of_cgroup(finding.subject)
        if uid is not None:
            pod = self._pods.subjects.get(uid)
            return [finding.subject] if pod is None else [finding.subject, pod]
        return _scopes(finding)

    def pass_by(self, finding: Finding, doubt: int | None = None, *, is_open: bool = False) -> None:
        """A decision was taken, on inputs that a change may have touched.

        One that is open, for an input is missing under the variant alone, is as good as doubtful.

        What was changed inside an image GC run is felt from the end of the run on. A pod that
        would perhaps not have been admitted would perhaps have done nothing of what it did.
        """
        case = self._questions.pop(finding.seq, None)
        if is_open:
            self._trust = "doubtful"
            doubt = finding.seq if doubt is None else doubt
        if finding.kind in _CLAIMS and doubt is not None:
            self._unsure_claims.setdefault(pod_of(finding.subject), doubt)
        if finding.kind in {_ADMITTED, _REJECTED}:
            self._unsure_claims.pop(pod_of(finding.subject), None)
        if doubt is not None:
            self._doubtful(finding, doubt, case)
        if finding.kind == _RUN_END:
            self._is_calm = False
            if self._run is not None:
                self._first.setdefault(_IMAGES, self._run)
            self._run = self._start = None

    def _doubtful(self, finding: Finding, doubt: int, case: AdmissionCase | None) -> None:
        """Whatever would have been possible after it."""
        if finding.kind in _ASKED:
            if self._trust != "doubtful":
                return
            if finding.kind == _PREEMPTED:
                self._part(finding, doubt, _BESIDES)
            was_there = finding.kind in {_ADMITTED, _PREEMPTED}
            self._world.part_by(finding, case, doubt, was_there=was_there)
        elif finding.kind == _EVICTED:
            self._part(finding, doubt, _BESIDES)
            if not _would_not_be(finding):
                self._world.part_all(doubt, finding.ts_ns)
        elif finding.kind == _RECLAIM:
            self._reclaims(finding, doubt)
        elif finding.kind == "devicemanager.DevicesAllocated":
            self._part(finding, doubt, ("holds",))

    def _part(self, finding: Finding, seq: int, flags: Collection[str]) -> None:
        self._world.part(pod_of(finding.subject), seq, finding.ts_ns, flags)

    def _reclaims(self, finding: Finding, seq: int) -> None:
        """The node would have reclaimed something else: pods, and of a disk images before them."""
        fields = {**(finding.expected or {}), **(finding.recorded or {})}
        # What pods besides use without a limit is in no record: that nobody would be evicted
        # then is as good as the readings that were made.
        if fields.get("resource") != "memory":
            self._first.setdefault(_IMAGES, seq)
            self._first.setdefault(_USAGE, seq)
        if not _would_not_be(finding):
            self._world.part_all(seq, finding.ts_ns)

    def _is_far_below(self, finding: Finding) -> bool:
        """Whether no space pass begins under the variant, whatever images it kept before.

        They would fill the disk a little more than was observed; that is taken into account.
        """
        recorded = finding.recorded
        if self._gone or finding.expected is not None or recorded is None:
            return False
        numbers = [n for n in map(recorded.get, _OF_START) if isinstance(n, int)]
        if self._high_percent is None or len(numbers) < len(_OF_START):
            return False
        usage_percent, low_percent, bytes_to_free = numbers
        # To be freed is what is used above the low threshold: a lower bound of the capacity.
        capacity_bytes = bytes_to_free * 100 // (usage_percent - low_percent + 1)
        kept_bytes = sum(self._kept.values())
        if kept_bytes == 0:
            return usage_percent < self._high_percent
        if capacity_bytes <= 0:
            return False
        more_percent = -(-kept_bytes * 100 // capacity_bytes)
        return usage_percent + more_percent < self._high_percent

    def end(self, finding: Finding) -> None:
        """A container would have ended at another time, which changes what its pod used."""
        if finding.kind == "lifecycle.ContainerKilled":
            self._first.setdefault(_USAGE, finding.seq)

    def change(self, finding: Finding, doubt: int | None = None) -> None:
        """A decision would have differed, for sure unless it follows a change."""
        if finding.kind == _RUN_START:
            self._start = finding.seq
            return
        if finding.kind == _REMOVAL:
            self._removal(finding)
            return
        if _is_affinity_alone(finding) or _is_refused_all_the_same(finding) or _is_idle(finding):
            return
        in_words = finding.kind in _ASKED and self._trust == "sure but for words"
        if doubt is None or in_words or finding.kind not in _DOUBTED:
            self._change_pods(finding, finding.expected or {})
        scopes = {"pod": pod_of(finding.subject), "container": finding.subject}
        for reach in _REACH.get(finding.kind, ()):
            self._first.setdefault(scopes.get(reach, reach), finding.seq)

    def _change_pods(self, finding: Finding, expected: dict[str, Any]) -> None:
        """Who would be on the node, or would not, if that is sure."""
        seq, at_ns, kind, recorded = finding.seq, finding.ts_ns, finding.kind, finding.recorded
        if kind == _RECLAIM:
            self._reclaims(finding, seq)
        elif kind == _ADMITTED and expected.get("admit") is True:
            self._world.part_all(seq, at_ns)  # for others are killed for it
        elif kind == _ADMITTED:
            self._part(finding, seq, _SURELY_ABSENT)
        elif kind == _REJECTED:
            self._part(finding, seq, _SURELY_BESIDES)
        elif kind.endswith("AllocationFailed"):
            self._part(finding, seq, _BESIDES)
        elif kind == _CPUS and expected.get("cpu_set") is None:
            self._part(finding, seq, _ABSENT)  # it would be refused
        elif kind == _NO_START:
            self._world.part_all(seq, at_ns)
        elif kind == _EVICTED and expected.keys() == {"message"}:
            return  # in other words
        elif kind in {_EVICTED, _KILLED} and _GRACE in expected:
            self._ends_otherwise(finding, expected)
        elif kind in {_PREEMPTED, _EVICTED}:
            self._part(finding, seq, _ABSENT if recorded is None else _SURELY_BESIDES)
            if expected.get("victim_pod"):
                other = f"pod/{expected['victim_namespace']}/{expected['victim_pod']}"
                self._world.part(other, seq, at_ns, _ABSENT)
            elif expected.get("pod"):
                self._world.part_all(seq, at_ns)
        elif kind == _AFFINITY:
            refused = expected.get("admit") is False
            self._part(finding, seq, _ABSENT if refused else _BESIDES)
        elif kind == "devicemanager.DevicesAllocated":
            self._part(finding, seq, ("holds",) if expected.get("device_ids") else _ABSENT)
        elif kind in _GIVEN and expected.get(_GIVEN[kind], "") is None:
            self._part(finding, seq, _ABSENT)

    def _ends_otherwise(self, finding: Finding, expected: dict[str, Any]) -> None:
        """Its containers would get more or less time to end; one that is restarted stays."""
        recorded = finding.recorded or {}
        graces = [g for g in (recorded.get(_GRACE), expected[_GRACE]) if isinstance(g, int)]
        if recorded.get("reason") not in _RESTARTING and len(set(graces)) > 1:
            until_ns = finding.ts_ns + (max(graces) + _ENDS_WITHIN_S) * NS_PER_S
            pod = pod_of(finding.subject)
            self._world.shift_end(pod, finding.seq, finding.ts_ns, until_ns)

    def _removal(self, finding: Finding) -> None:
        """The node would have other images, and another amount of space, from the run's end on."""
        if self._run is None:
            self._run = finding.seq if self._start is None else self._start
        size = (finding.recorded or {}).get("size_bytes")
        if finding.expected is None and isinstance(size, int):
            self._kept[finding.subject] = size
        else:
            self._gone = True


def _is_affinity_alone(finding: Finding) -> bool:
    """The pod is admitted all the same, aligned to other nodes.

    That is an input of the container's allocations, which are decided with it; what comes
    after them is touched only if they would have differed.
    """
    expected, recorded = finding.expected or {}, finding.recorded or {}
    return (
        finding.kind == "topologymanager.AffinityDecided"
        and expected.get("admit") is True
        and recorded.get("admit") is True
        and expected.keys() == recorded.keys()
        and all(expected[name] == recorded[name] for name in expected.keys() - {"hint"})
    )


def _is_refused_all_the_same(finding: Finding) -> bool:
    """The kubelet would refuse the pod in other words, which changes nothing after it."""
    expected = finding.expected or {}
    return (
        finding.kind == "lifecycle.PodRejected"
        and finding.recorded is not None
        and "reason" in expected
        and expected.get("admit") is not True
    )


def _is_idle(finding: Finding) -> bool:
    """Nobody is given CPUs or memory of its own, and the pods are admitted all the same."""
    return NONE_POLICY in finding.rule and not finding.kind.endswith("AllocationFailed")


def _would_not_be(finding: Finding) -> bool:
    """Whether nothing of the kind would be decided, by what was observed."""
    return finding.verdict == "impossible" and finding.expected is None


def _uid_of_cgroup(subject: str) -> str | None:
    """UID of the pod whose cgroup, or whose container's, that is."""
    if not subject.startswith("cgroup/"):
        return None
    owner = owner_of(subject.removeprefix("cgroup/"))
    return None if owner is None else owner.pod_uid


def _is_of_node(finding: Finding) -> bool:
    """Whether a decision rests on all pods of the node together."""
    subsystem = finding.kind.partition(".")[0]
    if subsystem == "oom":
        return (finding.recorded or {}).get("reason") == _ALL_OF_NODE
    return subsystem == "cgroups" and not finding.subject.startswith(("pod/", "container/"))


def _scopes(finding: Finding) -> list[str]:
    """Everything but pods whose change would change the inputs of this decision."""
    subsystem = finding.kind.partition(".")[0]
    if subsystem == "images":
        return [_IMAGES]
    scopes = [finding.subject, pod_of(finding.subject)]
    if subsystem in {"devicemanager", "topologymanager"}:
        scopes.append("devices")
    if subsystem in {"cpumanager", "memorymanager"}:
        scopes.append(subsystem)
    if subsystem == "dra":
        scopes.append("claims")
    if subsystem == "eviction" or finding.kind == _EVICTED:
        scopes.append(_USAGE)
    if subsystem == "oom" and _is_of_node(finding):
        scopes.append(_USAGE)
    return scopes
