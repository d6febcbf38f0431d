"""The eviction manager of a simulated kubelet: every ten seconds it reads signals and acts.

One pod at most is evicted in a round; the next round then comes as soon as the pod is gone.
Up to 1.20 the first round comes before the first statistics, and does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeledger.eviction.reclaim import ReclaimFunction, reclaim_functions
from kubeledger.eviction.signals import DiskLayout
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.critical import is_critical_pod
from kubeledger.kube.pod import Toleration
from kubeledger.simulate.cgroup_values import MOST_PIDS
from kubeledger.simulate.config import duration_ns, integer
from kubeledger.simulate.disks import DiskSpace, container_usage, disk_space, uses_anything
from kubeledger.simulate.ranking import message_of, over_its_limit, rank
from kubeledger.simulate.thresholds import (
    ALLOCATABLE_MEMORY,
    CONDITION_OF,
    MEMORY,
    RESOURCE_OF,
    Reading,
    Threshold,
    met,
    thresholds_of,
)
from kubeledger.simulate.world import SimPod
from kubeledger.units import NS_PER_S

if TYPE_CHECKING:
    from kubeledger.simulate.kubelet import Kubelet

__all__ = ["EvictionLoop"]

_PERIOD_NS = 10 * NS_PER_S
_CLEANUP_NS = 30 * NS_PER_S
_POLL_NS = NS_PER_S
_NO_STATS_UNTIL_MINOR = 20
_PIDS_OF_NODE = 150
_MEMORY_TAINT = "node.kubernetes.io/memory-pressure"
_REASON = "Evicted"


class EvictionLoop:
    """Watches memory and disks, reclaims, and evicts pods."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._sim = sim = kubelet.sim
        self._facts = sim.profile.eviction
        self._layout: DiskLayout = "shared" if sim.world.image_disk is None else "dedicated"
        self._thresholds = thresholds_of(
            sim.settings, sim.profile, dedicated=self._layout == "dedicated"
        )
        self._transition_ns = duration_ns(sim.settings, "evictionPressureTransitionPeriod", "5m")
        self._soft_grace_s = integer(sim.settings, "evictionMaxPodGracePeriod", 0)
        self._first_met: dict[Threshold, int] = {}
        self._met: list[Threshold] = []
        self._condition_seen: dict[str, int] = {}
        self._conditions: tuple[str, ...] = ()
        self._seqs: dict[str, int] = {}

    def start(self) -> None:
        """The rounds begin."""
        unready = self._sim.profile.version.minor <= _NO_STATS_UNTIL_MINOR
        self._kubelet.after(_PERIOD_NS if unready else 0, self._round)

    def refusal(self, pod: SimPod) -> tuple[str, str] | None:
        """Why a pod is kept out: reason and message; None when it is not.

        Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go Admit; v1.20.2
        """
        if not self._conditions or is_critical_pod(pod.api):
            return None
        if self._conditions == ("MemoryPressure",):
            if pod.qos_class != "BestEffort":
                return None
            if any(_stands_memory_pressure(t) for t in pod.api.spec.tolerations or ()):
                return None
        return _REASON, f"The node had condition: [{' '.join(self._conditions)}]. "

    # -- rounds --------------------------------------------------------------------------------

    def _round(self) -> None:
        evicted = self._synchronize()
        if evicted:
            until_ns = self._sim.schedule.now_ns + _CLEANUP_NS
            self._kubelet.after(_POLL_NS, lambda: self._await_cleanup(evicted, until_ns))
        else:
            self._kubelet.after(_PERIOD_NS, self._round)

    def _await_cleanup(self, pods: list[SimPod], until_ns: int) -> None:
        """The next round comes when the evicted pods are gone, or took too long.

        Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go waitForPodsCleanup
        """
        if all(pod.terminated for pod in pods) or self._sim.schedule.now_ns >= until_ns:
            self._round()
        else:
            self._kubelet.after(_POLL_NS, lambda: self._await_cleanup(pods, until_ns))

    def _synchronize(self) -> list[SimPod]:
        """One round; the pods that were evicted.

        Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go synchronize; v1.20.2
        Differs: all statistics are new in each round.
        """
        readings = self._observe()
        starved = self._starved(readings)
        if evicted := self._evict_over_limit():
            return evicted
        # Memory comes before all else; what is left has no order of its own.
        starved.sort(key=lambda t: t.signal not in (MEMORY, ALLOCATABLE_MEMORY))
        if not starved:
            return []
        threshold = starved[0]
        if self._reclaim(threshold.signal):
            return []
        return self._evict(threshold, starved, readings)

    def _starved(self, readings: dict[str, Reading]) -> list[Threshold]:
        """Thresholds that are met for as long as they have to be; conditions follow from all."""
        now_ns = self._sim.schedule.now_ns
        found = met(self._thresholds, readings, minimum=False)
        found += [t for t in met(self._met, readings, minimum=True) if t not in found]
        self._first_met = {t: self._first_met.get(t, now_ns) for t in found}
        for threshold in found:
            self._condition_seen[CONDITION_OF[threshold.signal]] = now_ns
        self._conditions = tuple(
            sorted(
                name
                for name, seen_ns in self._condition_seen.items()
                if now_ns - seen_ns < self._transition_ns
            )
        )
        self._met = [
            t for t, since_ns in self._first_met.items() if now_ns - since_ns >= t.grace_ns
        ]
        return list(self._met)

    def _reclaim(self, signal: str) -> bool:
        """Free what the node can do without; whether that was enough."""
        functions = reclaim_functions(signal, self._layout, self._facts)
        if not functions:
            return False
        if ReclaimFunction.IMAGES in functions:
            self._kubelet.images.delete_unused(self._seqs.get(signal))
        minimum = self._facts.reclaim_must_reach_minimum
        return not met(self._thresholds, self._observe(), minimum=minimum)

    def _evict(
        self, threshold: Threshold, starved: list[Threshold], readings: dict[str, Reading]
    ) -> list[SimPod]:
        resource, sim = RESOURCE_OF[threshold.signal], self._sim
        pods = rank(
            sim.world.active_pods(), resource, lambda pod: container_usage(sim, pod), sim.profile
        )
        for pod in pods:
            used = container_usage(sim, pod)
            message = message_of(pod, resource, used, starved, readings, sim.profile)
            if self._evict_pod(pod, message, resource, self._grace_s(threshold, pod)):
                return [pod]
        return []

    def _grace_s(self, threshold: Threshold, pod: SimPod) -> int:
        """What an evicted pod is given."""
        if not threshold.grace_ns:
            return self._immediate_s
        own = pod.spec.get("terminationGracePeriodSeconds")
        if self._facts.soft_eviction_grace_at_most_the_pods and own is not None:
            return min(self._soft_grace_s, int(own))
        return self._soft_grace_s

    @property
    def _immediate_s(self) -> int:
        return 1 if self._facts.immediate_eviction_grants_a_second else 0

    def _evict_over_limit(self) -> list[SimPod]:
        """Pods that use more of the disk than they may."""
        evicted: list[SimPod] = []
        for pod in self._sim.world.active_pods():
            if not uses_anything(self._sim, pod):
                continue
            message = over_its_limit(pod, container_usage(self._sim, pod), self._sim.profile)
            if message and self._evict_pod(pod, message, None, self._immediate_s):
                evicted.append(pod)
        return evicted

    def _evict_pod(self, pod: SimPod, message: str, resource: str | None, grace_s: int) -> bool:
        if is_critical_pod(pod.api):
            return False
        signals = [s for s, of in RESOURCE_OF.items() if of == resource and s in self._seqs]
        cause = next((self._seqs[t.signal] for t in self._met if t.signal in signals), None)
        self._kubelet.pods.evict(pod, _REASON, message, resource, cause, grace_s=grace_s)
        return True

    # -- signals -------------------------------------------------------------------------------

    def _observe(self) -> dict[str, Reading]:
        """Read all signals, and write them down."""
        readings = self._read()
        for name in sorted(readings):
            reading = readings[name]
            self._seqs[name] = self._sim.journal.write(
                EvictionSignalObserved(
                    signal=name, available=reading.available, capacity=reading.capacity
                )
            )
        return readings

    def _read(self) -> dict[str, Reading]:
        """The signals of this version."""
        sim, world = self._sim, self._sim.world
        used = sum(
            usage.memory_bytes
            for pod in world.pods.values()
            if uses_anything(sim, pod)
            for usage in container_usage(sim, pod).values()
        )
        pods_bytes = self._kubelet.cgroups.pods_memory_bytes
        node, image = disk_space(sim, world.disk), disk_space(sim, world.image_fs())
        running = sum(c.state == "running" for p in world.pods.values() for c in p.containers)
        readings = {
            MEMORY: Reading(max(world.memory_bytes - used, 0), world.memory_bytes),
            ALLOCATABLE_MEMORY: Reading(max(pods_bytes - used, 0), pods_bytes),
            "pid.available": Reading(MOST_PIDS - _PIDS_OF_NODE - running, MOST_PIDS),
        }
        readings |= _of_disk("nodefs", node) | _of_disk("imagefs", image)
        if self._facts.split_disk_known:
            readings |= _of_disk("containerfs", image)
        return readings


def _of_disk(name: str, space: DiskSpace) -> dict[str, Reading]:
    return {
        f"{name}.available": Reading(space.available_bytes, space.capacity_bytes),
        f"{name}.inodesFree": Reading(space.inodes_free, space.inodes),
    }


def _stands_memory_pressure(toleration: Toleration) -> bool:
    """Whether the taint of memory pressure is tolerated."""
    if toleration.effect and toleration.effect != "NoSchedule":
        return False
    if toleration.key and toleration.key != _MEMORY_TAINT:
        return False
    if toleration.operator in ("", None, "Equal"):
        return not toleration.value
    return toleration.operator == "Exists"
