"""The eviction manager of a simulated kubelet: every ten seconds it reads signals and acts.

One pod at most is evicted in a round; the next round then comes as soon as the pod is gone.
Up to 1.20 the first round comes before the first statistics, and does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from kubeledger.kubelet.eviction.decisions import Decision, Eviction, EvictionConfig, Round
from kubeledger.kubelet.eviction.messages import REASON, node_condition_message
from kubeledger.kubelet.eviction.signals import (
    ALLOCATABLE_MEMORY,
    CONDITION_OF,
    RESOURCE_OF,
    ContainerStats,
    FsStats,
    MemoryStats,
    NodeStats,
    PodReference,
    PodStats,
    ReclaimFunction,
    RlimitStats,
    RuntimeStats,
    Summary,
    make_signal_observations,
)
from kubeledger.kubelet.eviction.synchronize import EvictionManager
from kubeledger.kubelet.eviction.thresholds import (
    Threshold,
    ThresholdSettings,
    parse_threshold_config,
    threshold_quantity,
)
from kubeledger.kubelet.kube.pod import Taint
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.lifecycle.predicate import tolerates
from kubeledger.kubelet.lifecycle.termination import overridden_grace_s
from kubeledger.model.bodies.eviction import (
    ContainerUsage,
    NodeCondition,
    NodeConditionsChanged,
    PodSpared,
    PodUsage,
    PodUsageObserved,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.machine import duration_ns, integer, table
from kubeledger.simulate.engine.memory import container_usage, disk_space, uses_anything
from kubeledger.simulate.engine.world import MOST_PIDS, SimPod

if TYPE_CHECKING:
    from kubeledger.simulate.engine.sim import Sim


_PERIOD_NS = 10 * NS_PER_S
_CLEANUP_NS = 30 * NS_PER_S
_POLL_NS = NS_PER_S
_NO_STATS_UNTIL_MINOR = 20
_PIDS_OF_NODE = 150
_MEMORY_PRESSURE = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")


class EvictionLoop(Loop):
    """Watches memory and disks, reclaims, and evicts pods."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        sim = kubelet.sim
        settings = sim.settings
        enforced = settings.get("enforceNodeAllocatable")
        thresholds = ThresholdSettings(
            eviction_hard=table(settings, "evictionHard"),
            eviction_soft=table(settings, "evictionSoft"),
            eviction_soft_grace_period=table(settings, "evictionSoftGracePeriod"),
            eviction_minimum_reclaim=table(settings, "evictionMinimumReclaim"),
            enforce_node_allocatable=("pods",) if enforced is None else tuple(enforced),
        )
        config = EvictionConfig(
            thresholds=parse_threshold_config(thresholds, sim.profile),
            pressure_transition_period_ns=duration_ns(
                settings, "evictionPressureTransitionPeriod", "5m"
            ),
            max_pod_grace_period_s=integer(settings, "evictionMaxPodGracePeriod", 0),
            layout="shared" if sim.world.image_disk is None else "dedicated",
            local_storage_isolation=settings.get("localStorageCapacityIsolation") is not False,
        )
        self._manager = EvictionManager(config, sim.profile)
        self._seqs: dict[str, int] = {}
        self._conditions: tuple[str, ...] = ()
        self._after: list[Summary] = []

    def start(self) -> None:
        """The rounds begin."""
        unready = self._sim.profile.version.minor <= _NO_STATS_UNTIL_MINOR
        self._kubelet.after(_PERIOD_NS if unready else 0, self._round)

    def refusal(self, pod: SimPod) -> tuple[str, str] | None:
        """Why a pod is kept out: reason and message; None when it is not.

        Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go Admit; v1.20.2
        """
        conditions = self._manager.node_conditions
        if not conditions or is_critical_pod(pod.api):
            return None
        if conditions == ("MemoryPressure",):
            if pod.qos_class != "BestEffort":
                return None
            if any(tolerates(each, _MEMORY_PRESSURE) for each in pod.api.spec.tolerations or ()):
                return None
        return REASON, node_condition_message(conditions)

    # -- rounds --------------------------------------------------------------------------------

    def _round(self) -> None:
        evicted = self._synchronize()
        if evicted:
            until_ns = self._clock.now_ns + _CLEANUP_NS
            self._kubelet.after(_POLL_NS, lambda: self._await_cleanup(evicted, until_ns))
        else:
            self._kubelet.after(_PERIOD_NS, self._round)

    def _await_cleanup(self, pods: list[SimPod], until_ns: int) -> None:
        """The next round comes when the evicted pods are gone, or took too long.

        Source: v1.36.2 pkg/kubelet/eviction/eviction_manager.go waitForPodsCleanup
        """
        if all(pod.terminated for pod in pods) or self._clock.now_ns >= until_ns:
            self._round()
        else:
            self._kubelet.after(_POLL_NS, lambda: self._await_cleanup(pods, until_ns))

    def _synchronize(self) -> list[SimPod]:
        """One round; the pods that were evicted.

        Differs: all statistics are new in each round.
        """
        sim = self._sim
        active = {pod.uid: pod for pod in sim.world.active_pods()}
        self._after.clear()
        summary = self._summary()
        self._record_signals(summary)
        found, decision = self._manager.synchronize(
            sim.schedule.now_ns, summary, [pod.api for pod in active.values()], self._reclaim
        )
        self._write_conditions(found)
        threshold = decision.threshold
        cause = None if threshold is None else self._seqs[threshold.signal]
        if decision.ranking or decision.evicted:
            self._write_usage(summary)
        if threshold is not None:
            cause = self._write_reclaim(found, decision, threshold, cause)
            for after in self._after:
                self._record_signals(after)
            for uid in decision.passed_over:  # critical pods whose turn it was
                self._journal.write(PodSpared(**active[uid].identity), cause=cause)
        evicted = [active[each.pod.metadata.uid or ""] for each in decision.evicted]
        for pod, each in zip(evicted, decision.evicted, strict=True):
            body = self._evicted(pod, found, decision, each)
            self._kubelet.pods.evict(pod, body, REASON, cause, grace_s=each.grace_period_s)
        return evicted

    def _reclaim(self, threshold: Threshold, functions: Sequence[ReclaimFunction]) -> Summary:
        """Free what the node can do without; containers are removed when they end anyway."""
        if ReclaimFunction.IMAGES in functions:
            self._kubelet.images.delete_unused(self._seqs.get(threshold.signal))
        summary = self._summary()
        self._after.append(summary)
        return summary

    # -- records ---------------------------------------------------------------------------------

    def _write_conditions(self, found: Round) -> None:
        """The node conditions, where they are others than before."""
        if found.node_conditions != self._conditions:
            met = {CONDITION_OF[threshold.signal] for threshold in found.met + found.unresolved}
            self._journal.write(
                NodeConditionsChanged(
                    conditions=cast(tuple[NodeCondition, ...], found.node_conditions),
                    observed=cast(tuple[NodeCondition, ...], tuple(sorted(met))),
                )
            )
        self._conditions = found.node_conditions

    def _write_usage(self, summary: Summary) -> None:
        """What pods use, where they are ranked by it."""
        rows = tuple(
            PodUsage(
                namespace=each.pod_ref.namespace or "",
                pod=each.pod_ref.name or "",
                pod_uid=each.pod_ref.uid,
                memory_bytes=each.memory.working_set_bytes if each.memory is not None else None,
                memory_ts_ns=self._clock.now_ns,
                storage_bytes=each.ephemeral_storage.used_bytes if each.ephemeral_storage else None,
                containers=tuple(
                    ContainerUsage(
                        name=one.name or "",
                        rootfs_bytes=one.rootfs.used_bytes if one.rootfs is not None else None,
                        logs_bytes=one.logs.used_bytes if one.logs is not None else None,
                    )
                    for one in each.containers or ()
                ),
            )
            for each in summary.pods or ()
        )
        self._journal.write(PodUsageObserved(pods=rows))

    def _write_reclaim(
        self, found: Round, decision: Decision, threshold: Threshold, cause: int | None
    ) -> int:
        """The reclaim; returns its seq."""
        outcome = "evicting" if decision.evicted else "nothing"
        if decision.reclaimed and not decision.still_met:
            outcome = "node_level"
        pods = self._sim.world.pods
        ranked = (pods[each.uid].identity for group in decision.ranking for each in group)
        body = ReclaimAttempted(
            resource=RESOURCE_OF[threshold.signal],
            ranked=tuple(RankedPod(**pod) for pod in ranked) or None,
        )
        fields = _fields(found, threshold) | {"outcome": outcome}
        return self._journal.write(msgspec.structs.replace(body, **fields), cause=cause)

    def _evicted(
        self, pod: SimPod, found: Round, decision: Decision, evicted: Eviction
    ) -> PodEvicted:
        """One evicted pod."""
        own = evicted.pod.spec.termination_grace_period_seconds
        facts = self._sim.profile.lifecycle
        body = PodEvicted(
            **pod.identity,
            resource=None,
            signal=evicted.cause,
            threshold_kind="local_storage",
            grace_period_s=overridden_grace_s(facts, evicted.grace_period_s, own),
            message=evicted.message.text,
            evicted=True,
        )
        if decision.threshold is None:
            return body
        order = [each.uid for group in decision.ranking for each in group]
        return msgspec.structs.replace(
            body,
            resource=RESOURCE_OF[decision.threshold.signal],
            rank=order.index(pod.uid) + 1,
            **_fields(found, decision.threshold),
        )

    # -- statistics ----------------------------------------------------------------------------

    def _record_signals(self, summary: Summary) -> None:
        """Write down what the signals say."""
        readings = make_signal_observations(summary, self._sim.profile.eviction)
        for name in sorted(readings):
            reading = readings[name]
            self._seqs[name] = self._journal.write(
                EvictionSignalObserved(
                    signal=name, available=reading.available, capacity=reading.capacity
                )
            )

    def _summary(self) -> Summary:
        """The statistics of the node, and of pods."""
        sim, world = self._sim, self._sim.world
        pods = [_pod_stats(sim, pod) for pod in world.pods.values() if _is_measured(pod)]
        used = sum(each.memory.working_set_bytes or 0 for each in pods if each.memory is not None)
        image_fs = FsStats(**disk_space(sim, world.image_fs())._asdict())
        running = sum(c.state == "running" for p in world.pods.values() for c in p.containers)
        return Summary(
            node=NodeStats(
                memory=_memory(sim.plan.node.memory_bytes, used),
                fs=FsStats(**disk_space(sim, world.disk)._asdict()),
                runtime=RuntimeStats(image_fs=image_fs, container_fs=image_fs),
                rlimit=RlimitStats(max_pid=MOST_PIDS, running=_PIDS_OF_NODE + running),
                system_containers=(
                    ContainerStats(
                        name="pods", memory=_memory(self._kubelet.cgroups.pods_memory_bytes, used)
                    ),
                ),
            ),
            pods=tuple(pods),
        )


def _fields(found: Round, threshold: Threshold) -> dict[str, object]:
    seen = found.observations[threshold.signal]
    kind = "hard" if threshold.is_hard else "soft"
    since = dict(zip(found.met + found.unresolved, found.since_ns, strict=True))
    return {
        "signal": threshold.signal,
        "threshold": threshold_quantity(threshold.value, seen.capacity).value(),
        "threshold_kind": "allocatable" if threshold.signal == ALLOCATABLE_MEMORY else kind,
        "since_ts_ns": since[threshold],
        "observed": seen.available,
    }


def _is_measured(pod: SimPod) -> bool:
    """Whether there are statistics of a pod: a container of it runs.

    Source: v1.36.2 pkg/kubelet/stats/cri_stats_provider.go removeTerminatedContainers; v1.20.2
    """
    return any(container.state == "running" for container in pod.containers)


def _pod_stats(sim: Sim, pod: SimPod) -> PodStats:
    """What a pod's running containers use; inodes and processes are not simulated."""
    reference = PodReference(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    if not uses_anything(sim, pod):
        return PodStats(pod_ref=reference, memory=MemoryStats(working_set_bytes=0))
    running = {each.name for each in pod.containers if each.state == "running"}
    usage = {name: u for name, u in container_usage(sim, pod).items() if name in running}
    return PodStats(
        pod_ref=reference,
        containers=tuple(
            ContainerStats(
                name=name,
                memory=MemoryStats(working_set_bytes=each.memory_bytes),
                rootfs=FsStats(used_bytes=each.disk_bytes),
                logs=FsStats(used_bytes=0),
            )
            for name, each in usage.items()
        ),
        memory=MemoryStats(working_set_bytes=sum(u.memory_bytes for u in usage.values())),
        ephemeral_storage=FsStats(used_bytes=sum(u.disk_bytes for u in usage.values())),
    )


def _memory(capacity_bytes: int, used_bytes: int) -> MemoryStats:
    available = max(capacity_bytes - used_bytes, 0)
    return MemoryStats(available_bytes=available, working_set_bytes=capacity_bytes - available)
