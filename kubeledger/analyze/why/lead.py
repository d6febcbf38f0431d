"""How a sentence begins: whom it is about, what happened, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubeledger.analyze.sql.summaries import subject_of, summary_of
from kubeledger.model.bodies.images import GarbageCollectionStarted, ImageDeleted
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.verify import Finding

__all__ = ["clause"]


def clause(record: Record, finding: Finding, cause: Record | None) -> str:
    """One decision in words that stand alone: subject, what happened, when and why.

    Args:
        record: the decision.
        finding: what is found about it.
        cause: what led to it, as far as it is known.
    """
    when, body = format_ts(record.ts_ns), record.body
    sound = finding.verdict in {"match", "admissible"}
    why = finding.why.rstrip(".")
    if sound and record.kind in _WHOLE:
        return f"at {when} {why}"
    if sound and record.kind == "prober.ProbeTransitioned":
        return f"{_container(body)}: {why}"
    tell = _LEADS.get(record.kind)
    begin = tell(body, when) if tell is not None else _any(record, when)
    if isinstance(body, ImageDeleted):
        begin += _collected(body, cause)
    if finding.verdict == "unverifiable":
        said = getattr(body, "message", None) or getattr(body, "error", None)
        missing = " and ".join(finding.missing)
        return f"{begin}{f': {said}' if said else ''} (not decided again: {missing} is missing)"
    return f"{begin}{': ' if sound else ', which cannot be as it is recorded: '}{why}"


def _pod(body: Any) -> str:  # noqa: ANN401 # any body
    if body.namespace and body.pod:
        return f"pod {body.namespace}/{body.pod}"
    return f"pod {body.pod_uid}"


def _container(body: Any) -> str:  # noqa: ANN401 # any body
    pod = _pod(body).removeprefix("pod ")
    return f"container {pod}/{body.container}" if body.container else f"a container of pod {pod}"


def _aligned(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    who = _container(body) if body.container else _pod(body)
    return f"the NUMA affinity of {who} was decided at {when}"


def _refused(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    reason = f" ({body.reason})" if body.reason else ""
    return f"{_pod(body)} was refused{reason} at {when}"


def _deleted(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    size = "" if body.size_bytes is None else f" ({body.size_bytes} bytes)"
    return f"image {body.image_id}{size} was deleted at {when}"


def _collected(image: ImageDeleted, cause: Record | None) -> str:
    """By which collection, and what that wanted."""
    if image.pass_ == "age":
        return " by the image collection, as unused for longer than imageMaximumGCAge"
    if image.pass_ == "all":
        resource = f" to reclaim {image.reclaimed}" if image.reclaimed else ""
        short = f", as {' and '.join(image.signals)} was short" if image.signals else ""
        return f" with all unused images by the eviction manager{resource}{short}"
    body = cause.body if cause is not None else None
    if cause is None or not isinstance(body, GarbageCollectionStarted):
        return ""
    return (
        f" by the image collection that began at {format_ts(cause.ts_ns)} at "
        f"{body.usage_percent} % of the disk used and wanted to free {body.bytes_to_free} bytes"
    )


def _written(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    seen = "was there" if body.created else "had changed"
    return f"cgroup {body.cgroup} {seen} at {when}"


def _devices(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    ids = ", ".join(body.device_ids) if body.device_ids else "devices"
    return f"{_container(body)} got {ids} of {body.resource} at {when}"


def _no_devices(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    return f"{_container(body)} was refused {body.resource or 'devices'} at {when}"


def _cpus(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    return f"{_container(body)} got CPUs {body.cpu_set} of its own at {when}"


def _memory(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    return f"{_container(body)} got memory of NUMA nodes at {when}"


def _put_off(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    return f"the restart of {_container(body)} was put off for {body.back_off_s} s at {when}"


def _out_of_memory(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    process = "a process" if body.pid is None else f"process {body.pid} ({body.process})"
    where = f" in {_container(body)}" if body.pod else ""
    limits = {"container_limit": "the container's limit", "pod_limit": "the pod's limit"}
    limit = limits.get(body.reason, "the node's memory" if body.reason == "node" else "")
    by = f", for {limit} of memory was used up" if limit and body.limit_bytes is None else ""
    return f"the kernel's OOM killer killed {process}{where} at {when}{by}"


def _preempted(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    preemptor = f" for {body.preemptor_namespace}/{body.preemptor_pod}"
    gone = f"pod {body.victim_namespace}/{body.victim_pod} was preempted"
    return f"{gone}{preemptor if body.preemptor_pod else ''} at {when}"


def _changed(body: Any, when: str) -> str:  # noqa: ANN401 # any body
    turn = f"from {body.from_result} to {body.to_result}"
    return f"the {body.probe_type} result of {_container(body)} went {turn} at {when}"


_WHOLE = frozenset(
    {
        "images.GarbageCollectionStarted",
        "preemption.PodPreempted",
        "preemption.PreemptionFailed",
    }
)
"""Kinds whose reasons name the subject and say what happened to it."""

_LEADS: Mapping[str, Callable[[Any, str], str]] = {
    "cgroups.CgroupUpdated": _written,
    "cpumanager.CpusAllocated": _cpus,
    "devicemanager.AllocationFailed": _no_devices,
    "devicemanager.DevicesAllocated": _devices,
    "images.GarbageCollected": lambda _, when: f"the image collection that ended at {when}",
    "images.ImageDeleted": _deleted,
    "lifecycle.ContainerKilled": lambda body, when: f"{_container(body)} was killed at {when}",
    "lifecycle.ContainerRestarted": (
        lambda body, when: f"{_container(body)} was started again at {when}"
    ),
    "lifecycle.PodAdmitted": lambda body, when: f"{_pod(body)} was admitted at {when}",
    "lifecycle.PodEvicted": lambda body, when: f"{_pod(body)} was evicted at {when}",
    "lifecycle.PodRejected": _refused,
    "lifecycle.RestartBackedOff": _put_off,
    "memorymanager.MemoryAllocated": _memory,
    "oom.ProcessKilled": _out_of_memory,
    "preemption.PodPreempted": _preempted,
    "prober.ProbeTransitioned": _changed,
    "topologymanager.AffinityDecided": _aligned,
}
"""Kind of a decision -> how its clause begins."""


def _any(record: Record, when: str) -> str:
    body = msgspec.to_builtins(record.body)
    subject, summary = subject_of(body), summary_of(record.kind, body)
    return f"{subject}: {summary} at {when}" if subject else f"{summary} at {when}"
