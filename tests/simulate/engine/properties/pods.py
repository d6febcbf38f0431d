"""What must hold of preemptions, kills and sums, whatever happens on a node."""

from collections.abc import Iterator
from typing import Any

from kubeledger.kubelet.cgroups.pod_config import shares_of_milli_cpu
from kubeledger.model.bodies.cgroups import CgroupRemoved, CgroupUpdated
from kubeledger.model.bodies.eviction import PodPreempted, PreemptionFailed
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodRejected,
    PodTerminated,
)
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTicksFolded
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import Plan

_CRITICAL = 2_000_000_000
_QUIET_NS = 90 * NS_PER_S


def only_critical_pods_preempt(plan: Plan, records: list[Record]) -> Iterator[str]:
    """Preemptors are critical; a critical victim is of lower priority."""
    pods = {planned.manifest["metadata"]["uid"]: planned for planned in plan.pods}

    def rank(uid: str | None) -> tuple[bool, int | None]:
        planned = pods[str(uid)]
        priority = planned.manifest["spec"].get("priority")
        return planned.source == "file" or (priority or 0) >= _CRITICAL, priority

    for record in records:
        body = record.body
        if not isinstance(body, PodPreempted | PreemptionFailed):
            continue
        critical, priority = rank(body.preemptor_uid)
        if not critical:
            yield f"{record.seq}: {body.preemptor_pod} preempts and is not critical"
        if isinstance(body, PodPreempted):
            theirs_critical, theirs = rank(body.victim_uid)
            lower = priority is not None and theirs is not None and theirs < priority
            if theirs_critical and not lower:
                yield f"{record.seq}: {body.victim_pod} ({theirs}) goes for {priority}"


def kills_have_their_failures(plan: Plan, records: list[Record]) -> Iterator[str]:
    """Before a liveness kill its threshold of failures, one after the other, in one process.

    A worker goes on counting when another instance of its container begins.
    """
    thresholds = {
        (planned.manifest["metadata"]["uid"], container["name"], kind): container[key]
        for planned in plan.pods
        for group in ("containers", "initContainers")
        for container in planned.manifest["spec"].get(group) or ()
        for kind, key in (("liveness", "livenessProbe"), ("startup", "startupProbe"))
        if container.get(key)
    }
    runs: dict[tuple[Any, ...], int] = {}
    for record in records:
        body = record.body
        if isinstance(body, KubeletStarted):
            runs = {}
        elif isinstance(body, ProbeExecuted | ProbeTicksFolded) and body.result != "error":
            of = (body.pod_uid, body.container, body.probe_type)
            count = body.count if isinstance(body, ProbeTicksFolded) else 1
            failed = body.result in ("failure", "unknown")
            runs[of] = runs.get(of, 0) + count if failed else 0
        elif isinstance(body, ContainerKilled) and body.reason in (
            "liveness_probe",
            "startup_probe",
        ):
            kind = body.reason.partition("_")[0]
            run = runs.pop((body.pod_uid, body.container, kind), 0)
            probe = thresholds.get((body.pod_uid, body.container, kind))
            if probe is None or run < probe["failureThreshold"]:
                yield f"{record.seq}: {body.pod}/{body.container} was killed after {run} failures"


_STIRS = (
    ContainerDied,
    ContainerKilled,
    KubeletStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodRejected,
    PodTerminated,
)


def qos_sums(plan: Plan, records: list[Record]) -> Iterator[str]:
    """While nothing comes or goes the burstable level has what its pods ask for together."""
    milli = {
        planned.manifest["metadata"]["uid"]: _milli_cpu(planned.manifest["spec"])
        for planned in plan.pods
    }
    tree: dict[str, CgroupUpdated] = {}
    stirred_ns = plan.start_ns
    stops_ns = [plan.start_ns + restart.at_ns for restart in plan.kubelet_restarts]

    def is_settled(now_ns: int) -> bool:
        # A kubelet that was stopped meanwhile writes nothing.
        until_ns = min([now_ns, *(each for each in stops_ns if each > stirred_ns)])
        return until_ns - stirred_ns > _QUIET_NS

    for record in records:
        body = record.body
        if isinstance(body, _STIRS):
            if is_settled(record.ts_ns):
                yield from _sums(tree, milli, record.seq)
            stirred_ns = record.ts_ns
        elif isinstance(body, CgroupUpdated):
            tree[body.cgroup] = body
        elif isinstance(body, CgroupRemoved):
            tree.pop(body.cgroup, None)
    if is_settled(records[-1].ts_ns):
        yield from _sums(tree, milli, records[-1].seq)


def _sums(tree: dict[str, CgroupUpdated], milli: dict[str, int], seq: int) -> Iterator[str]:
    levels = {c.qos_class: c for c in tree.values() if c.level == "qos"}
    pods = [c for c in tree.values() if c.level == "pod"]
    for pod in pods:
        asked = milli[str(pod.pod_uid)]
        if pod.cpu_shares not in (None, shares_of_milli_cpu(asked)):
            yield f"{seq}: {pod.cgroup} has {pod.cpu_shares} shares for {asked}m"
    burstable = levels.get("Burstable")
    if burstable is not None and burstable.cpu_shares is not None:
        total = sum(milli[str(pod.pod_uid)] for pod in pods if pod.qos_class == "Burstable")
        if burstable.cpu_shares != shares_of_milli_cpu(total):
            yield f"{seq}: burstable pods ask for {total}m and have {burstable.cpu_shares} shares"
    best_effort = levels.get("BestEffort")
    if best_effort is not None and best_effort.cpu_shares not in (None, 2):
        yield f"{seq}: best-effort pods have {best_effort.cpu_shares} shares"


def _milli_cpu(spec: dict[str, Any]) -> int:
    """What a pod asks for: its containers and sidecars together, or more while it begins."""
    sidecars = highest = 0
    for container in spec.get("initContainers") or ():
        own = _container_milli(container)
        if container.get("restartPolicy") == "Always":
            sidecars += own
            highest = max(highest, sidecars)
        else:
            highest = max(highest, sidecars + own)
    return max(highest, sidecars + sum(map(_container_milli, spec["containers"])))


def _container_milli(container: dict[str, Any]) -> int:
    text = container["resources"].get("requests", {}).get("cpu", "0")
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000
