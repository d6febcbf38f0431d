"""What can no longer be trusted once a decision would have been another one.

The observations behind a changed decision were made in a world in which the recorded
decision had been taken. How far that reaches depends on the decision: a pod that would
have been refused never holds devices or memory; another cgroup value changes no other
decision that is verified here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubeledger.cgroups.paths import owner_of
from kubeledger.verify import Finding

__all__ = ["Pods", "Taint"]

_ALL_OF_NODE = "node"
_USAGE = "usage"
"""What pods used: evictions rest on it, and kills for the node's memory."""
_RUN_END = "images.GarbageCollected"
_RUN_START = "images.GarbageCollectionStarted"
_REMOVAL = "images.ImageDeleted"
_OF_RUN = frozenset({_RUN_START, _REMOVAL, _RUN_END})
_OF_START = ("usage_percent", "low_threshold_percent", "bytes_to_free")

_REACH: dict[str, tuple[str, ...]] = {
    "lifecycle.PodAdmitted": ("pod", "node"),
    "lifecycle.PodRejected": ("pod", "node"),
    "lifecycle.PodEvicted": ("pod", "node"),
    "eviction.ReclaimAttempted": ("node",),
    "oom.ProcessKilled": ("pod", "usage"),
    "preemption.PodPreempted": ("pod", "node"),
    "preemption.PreemptionFailed": ("pod", "node"),
    "cpumanager.CpuAllocationFailed": ("pod", "node"),
    "cpumanager.CpusAllocated": ("pod", "cpumanager"),
    "cpumanager.CpusReleased": ("cpumanager",),
    "devicemanager.AllocationFailed": ("pod", "node"),
    "devicemanager.DevicesAllocated": ("pod", "devices"),
    "devicemanager.DevicesReleased": ("devices",),
    "memorymanager.MemoryAllocated": ("pod", "memorymanager"),
    "memorymanager.MemoryAllocationFailed": ("pod", "node"),
    "memorymanager.MemoryReleased": ("memorymanager",),
    "topologymanager.AffinityDecided": ("pod", "devices"),
    "prober.ProbeTransitioned": ("container",),
    "lifecycle.ContainerKilled": ("container",),
    "lifecycle.ContainerRestarted": ("container",),
    "lifecycle.RestartBackedOff": ("container",),
}
"""Kind of a changed decision -> what is not as recorded behind it."""

_ADMISSIONS = frozenset({"lifecycle.PodAdmitted", "lifecycle.PodRejected"})
_NODE_WIDE = frozenset(
    {
        "lifecycle.PodAdmitted",
        "lifecycle.PodRejected",
        "lifecycle.PodEvicted",
        "eviction.NodeConditionsChanged",
        "eviction.PodSpared",
        "eviction.ReclaimAttempted",
        "preemption.PodPreempted",
        "preemption.PreemptionFailed",
        "cpumanager.CpuAllocationFailed",
        "cpumanager.CpusAllocated",
        "memorymanager.MemoryAllocated",
        "memorymanager.MemoryAllocationFailed",
        "devicemanager.AllocationFailed",
        "devicemanager.DevicesAllocated",
    }
)
"""Decisions that rest on which other pods are on the node."""


class Pods(NamedTuple):
    """The pods of a ledger.

    Attributes:
        subjects: UID -> ``pod/NS/NAME``.
        gone: ``pod/NS/NAME`` -> when a pod of that name had left the node.
    """

    subjects: Mapping[str, str]
    gone: Mapping[str, Sequence[int]]


class _Apart(NamedTuple):
    """A pod that would have lived another life since ``from_ns``, for the change ``seq``."""

    seq: int
    from_ns: int


class Taint:
    """What has been touched by changes so far, and by which first.

    Memory grows with the changes, and with nothing else.
    """

    def __init__(self, pods: Pods | None = None, high_threshold_percent: int | None = None) -> None:
        """Nothing is touched yet.

        Args:
            pods: who is who; None: that is not known.
            high_threshold_percent: of image GC under the variant; None: the recorded one.
        """
        self._pods = pods or Pods({}, {})
        self._first: dict[str, int] = {}
        self._apart: dict[str, _Apart] = {}
        self._start: int | None = None
        self._run: int | None = None
        self._high_percent = high_threshold_percent
        self._kept: dict[str, int] = {}
        self._gone = False
        self._is_calm = False

    def of(self, finding: Finding) -> int | None:
        """Seq of the change that makes this decision's inputs untrustworthy; None: they hold."""
        if finding.kind == _RUN_START:
            self._is_calm = self._is_far_below(finding)
        if self._is_calm and finding.kind in _OF_RUN:
            return None
        self._forget_gone(finding.ts_ns)
        scopes = self._scopes(finding)
        touched = [self._first[scope] for scope in scopes if scope in self._first]
        touched += [self._apart[scope].seq for scope in scopes if scope in self._apart]
        if _ALL_OF_NODE in scopes:
            touched += [each.seq for each in self._apart.values()]
        return min(touched, default=None)

    def _part(self, finding: Finding, seq: int) -> None:
        """From here on the pod would have lived another life, or perhaps."""
        self._apart.setdefault(_pod_of(finding), _Apart(seq, finding.ts_ns))

    def _forget_gone(self, now_ns: int) -> None:
        """A pod that has left the node leaves it as it would have been without."""
        for pod, apart in list(self._apart.items()):
            if any(apart.from_ns < gone_ns <= now_ns for gone_ns in self._pods.gone.get(pod, ())):
                del self._apart[pod]

    def _scopes(self, finding: Finding) -> list[str]:
        """Everything whose change would change the inputs of this decision."""
        uid = _uid_of_cgroup(finding.subject)
        if uid is None:
            return _scopes(finding)
        pod = self._pods.subjects.get(uid)
        return [_ALL_OF_NODE] if pod is None else [finding.subject, pod]

    def pass_by(self, finding: Finding, doubt: int | None = None) -> None:
        """A decision was taken, on inputs that a change may have touched.

        What was changed inside an image GC run is felt from the end of the run on. A pod that
        would perhaps not have been let in would perhaps have done nothing of what it did.
        """
        others = _ALL_OF_NODE in self._first or self._apart.keys() - {_pod_of(finding)}
        if doubt is not None and others and finding.kind in _ADMISSIONS:
            self._part(finding, doubt)
        if finding.kind == _RUN_END:
            self._is_calm = False
            if self._run is not None:
                self._first.setdefault("images", self._run)
            self._run = self._start = None

    def _is_far_below(self, finding: Finding) -> bool:
        """Whether no space pass begins under the variant, whatever images it kept before.

        They would fill the disk a little more than was observed; that is reckoned with.
        """
        told = finding.recorded
        if self._gone or finding.expected is not None or told is None:
            return False
        numbers = [n for n in map(told.get, _OF_START) if isinstance(n, int)]
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

    def change(self, finding: Finding) -> None:
        """A decision would have been another one."""
        if finding.kind == _RUN_START:
            self._start = finding.seq
            return
        if finding.kind == _REMOVAL:
            self._removal(finding)
            return
        if _is_affinity_alone(finding) or _is_refused_all_the_same(finding):
            return
        for reach in _REACH.get(finding.kind, ()):
            if reach == _ALL_OF_NODE and _is_of_pod(finding):
                self._part(finding, finding.seq)
            else:
                self._first.setdefault(_NAMES[reach](finding), finding.seq)

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
    """The pod is let in all the same, aligned to other nodes.

    That is an input of the container's allocations, which are decided with it; what comes
    behind them is touched only if they would have been others.
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
    """The kubelet would refuse the pod in other words, which changes nothing behind it."""
    expected = finding.expected or {}
    return (
        finding.kind == "lifecycle.PodRejected"
        and finding.recorded is not None
        and "reason" in expected
        and expected.get("admit") is not True
    )


def _is_of_pod(finding: Finding) -> bool:
    return finding.subject.startswith(("pod/", "container/"))


def _pod_of(finding: Finding) -> str:
    """``pod/NS/NAME`` of a pod's or a container's subject; the subject itself otherwise."""
    kind, *rest = finding.subject.split("/")
    return "/".join(("pod", *rest[:2])) if kind in {"pod", "container"} else finding.subject


def _uid_of_cgroup(subject: str) -> str | None:
    """UID of the pod whose cgroup, or whose container's, that is."""
    if not subject.startswith("cgroup/"):
        return None
    owner = owner_of(subject.removeprefix("cgroup/"))
    return None if owner is None else owner.pod_uid


_NAMES: dict[str, Callable[[Finding], str]] = {
    "pod": _pod_of,
    "container": lambda finding: finding.subject,
    "cpumanager": lambda _: "cpumanager",
    "devices": lambda _: "devices",
    "memorymanager": lambda _: "memorymanager",
    "usage": lambda _: _USAGE,
    "node": lambda _: _ALL_OF_NODE,
}


def _scopes(finding: Finding) -> list[str]:
    """Everything whose change would change the inputs of this decision."""
    subsystem = finding.kind.partition(".")[0]
    if subsystem == "images":
        return ["images"]
    scopes = [finding.subject, _pod_of(finding)]
    if subsystem in {"devicemanager", "topologymanager"}:
        scopes.append("devices")
    if subsystem in {"cpumanager", "memorymanager"}:
        scopes.append(subsystem)
    if subsystem == "eviction" or finding.kind == "lifecycle.PodEvicted":
        scopes.append(_USAGE)
    if subsystem == "oom" and (finding.recorded or {}).get("reason") == "node":
        scopes += [_USAGE, _ALL_OF_NODE]
    if finding.kind in _NODE_WIDE or (
        subsystem == "cgroups" and not finding.subject.startswith(("pod/", "container/"))
    ):
        scopes.append(_ALL_OF_NODE)
    return scopes
