"""What can no longer be trusted once a decision would have been another one.

The observations behind a changed decision were made in a world in which the recorded
decision had been taken. How far that reaches depends on the decision: a pod that would
have been refused never holds devices or memory; another cgroup value changes no other
decision that is verified here.
"""

from __future__ import annotations

from collections.abc import Callable

from kubeledger.verify import Finding

__all__ = ["Taint"]

_ALL_OF_NODE = "node"
_USAGE = "usage"
"""What pods used: evictions rest on it, and kills for the node's memory."""
_RUN_END = "images.GarbageCollected"
_WITHIN_RUN = frozenset({"images.GarbageCollectionStarted", "images.ImageDeleted"})
"""Decisions of one image GC run; the others of the run follow from the same inputs."""

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
    "images.GarbageCollected": ("images",),
    "prober.ProbeTransitioned": ("container",),
    "lifecycle.ContainerKilled": ("container",),
    "lifecycle.ContainerRestarted": ("container",),
    "lifecycle.RestartBackedOff": ("container",),
}
"""Kind of a changed decision -> what is not as recorded behind it."""

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


class Taint:
    """What has been touched by changes so far, and by which first.

    Memory grows with the changes, and with nothing else.
    """

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._run: int | None = None

    def of(self, finding: Finding) -> int | None:
        """Seq of the change that makes this decision's inputs untrustworthy; None: they hold."""
        touched = [self._first[scope] for scope in _scopes(finding) if scope in self._first]
        return min(touched, default=None)

    def pass_by(self, finding: Finding) -> None:
        """What was changed inside an image GC run is felt from the end of the run on."""
        if finding.kind == _RUN_END and self._run is not None:
            self._first.setdefault("images", self._run)
            self._run = None

    def change(self, finding: Finding) -> None:
        """A decision would have been another one."""
        if finding.kind in _WITHIN_RUN:
            self._run = finding.seq if self._run is None else self._run
            return
        if _is_affinity_alone(finding) or _is_refused_all_the_same(finding):
            return
        for reach in _REACH.get(finding.kind, ()):
            scope = _NAMES[reach](finding)
            self._first.setdefault(scope, finding.seq)


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


def _pod_of(finding: Finding) -> str:
    """``pod/NS/NAME`` of a pod's or a container's subject; the subject itself otherwise."""
    kind, *rest = finding.subject.split("/")
    return "/".join(("pod", *rest[:2])) if kind in {"pod", "container"} else finding.subject


_NAMES: dict[str, Callable[[Finding], str]] = {
    "pod": _pod_of,
    "container": lambda finding: finding.subject,
    "cpumanager": lambda _: "cpumanager",
    "devices": lambda _: "devices",
    "memorymanager": lambda _: "memorymanager",
    "images": lambda _: "images",
    "usage": lambda _: _USAGE,
    "node": lambda _: _ALL_OF_NODE,
}


def _scopes(finding: Finding) -> list[str]:
    """Everything whose change would change the inputs of this decision."""
    scopes = [finding.subject, _pod_of(finding)]
    subsystem = finding.kind.partition(".")[0]
    if subsystem == "images":
        scopes.append("images")
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
