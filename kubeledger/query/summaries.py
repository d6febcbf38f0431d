"""A record in one line: whom it is about, and what it says.

One template a kind over the fields of its body; what stands in brackets is left out when a
field in it is None, which else reads ``?``. Nothing here decides anything: the words say what
the record holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

__all__ = ["TEMPLATES", "subject_of", "summary_of"]

TEMPLATES: Mapping[str, str] = {
    "cgroups.CgroupRemoved": "{cgroup} is gone",
    "cgroups.CgroupUpdated": "{cgroup}: {changed}",
    "cgroups.QOSCgroupsUpdated": "QoS cgroups written",
    "cgroups.QOSReserveComputed": "{qos_class} requests {requested_bytes} bytes",
    "cpumanager.CpuAllocationFailed": "refused[: {requested} CPUs]: {error}",
    "cpumanager.CpuManagerStarted": (
        "CPU manager with policy {policy}[, reserved {reserved_cpu_set}]"
        "[, shared {default_cpu_set}]"
    ),
    "cpumanager.CpuStateRefused": "cpu_manager_state refused: {error}",
    "cpumanager.CpusAllocated": "got CPUs {cpu_set} alone",
    "cpumanager.CpusReleased": "gave back CPUs[ {cpu_set}]",
    "devicemanager.AllocationFailed": "{resource} refused: {error}",
    "devicemanager.AllocationRequested": "asks for {needed} of {resource}",
    "devicemanager.CheckpointRead": "checkpoint with {entries#} entries, checksum {checksum}",
    "devicemanager.CpuManagerStateRead": "CPU policy {policy}, default set {default_cpu_set}",
    "devicemanager.DevicesAllocated": "got {device_ids} of {resource}",
    "devicemanager.DevicesReleased": "devices given back",
    "devicemanager.DevicesReported": "{resource}: devices reported[, {healthy} of {total} healthy]",
    "devicemanager.EndpointStopped": "plugin of {resource} stopped: {error}",
    "devicemanager.PluginRegistered": "plugin of {resource} registered",
    "eviction.NodeConditionsChanged": "pressure conditions reported: {conditions}",
    "eviction.PodSpared": "not evicted, because it is critical",
    "eviction.PodUsageObserved": "usage of {pods#} pods",
    "eviction.ReclaimAttempted": (
        "{resource} is to be reclaimed[: {signal} {observed}, {threshold_kind} threshold"
        " {threshold}][, {outcome}]"
    ),
    "images.EvictionSignalObserved": "{signal}: {available} of {capacity}",
    "images.GarbageCollected": "image GC {outcome}: {images_removed} removed, {bytes_freed} bytes",
    "images.GarbageCollectionStarted": (
        "image GC at {usage_percent} % (high {high_threshold_percent} %), "
        "{bytes_to_free} bytes to free"
    ),
    "images.ImageDeleted": "{image_id} deleted[, {size_bytes} bytes]",
    "images.ImageFsObserved": "{available_bytes} of {capacity_bytes} bytes free",
    "images.ImagesDetected": "{images#} images listed",
    "ledger.FindingReported": "{finding}: {message}",
    "ledger.ImportCompleted": "import completed, {accounts#} sources",
    "ledger.ImportStarted": "import started, {sources#} sources",
    "ledger.LinesNotUnderstood": "{count} lines not understood: {shape}",
    "ledger.RecordsDropped": "records {first_seq} to {last_seq} were dropped: {policy}",
    "ledger.RecordsLost": "records {first_seq} to {last_seq} had been acknowledged and are lost",
    "ledger.RecordsRedacted": "{records} records before this one hold pseudonyms",
    "ledger.RecordsSuperseded": "records of earlier imports hold no more",
    "lifecycle.ContainerDied": "container died[, exit code {exit_code}]",
    "lifecycle.ContainerKilled": "container killed[ ({reason})][: {message}]",
    "lifecycle.ContainerRestarted": "container started again[ ({reason})]",
    "lifecycle.ContainerStarted": "container started[: {container_id}]",
    "lifecycle.PodAdmitted": "admitted",
    "lifecycle.PodConfigChanged": "{operation} from {source}",
    "lifecycle.PodEvicted": "evicted[ for {resource}][: {message}]",
    "lifecycle.PodListed": "listed by {listed_by}",
    "lifecycle.PodRejected": "refused[ ({reason})][: {message}]",
    "lifecycle.PodTerminated": "terminated",
    "lifecycle.PodTerminating": "is stopped: {reason}[, with {grace_period_s} s]",
    "lifecycle.ReasonReported": "{type} {reason}: {message}",
    "lifecycle.RestartBackedOff": "restart put off for {back_off_s} s",
    "memorymanager.MemoryAllocated": "got memory of NUMA nodes",
    "memorymanager.MemoryAllocationFailed": "refused: {error}",
    "memorymanager.MemoryManagerStarted": "memory manager with policy {policy}",
    "memorymanager.MemoryManagerStateRead": "memory policy {policy}, {assignments#} pods",
    "memorymanager.MemoryReleased": "gave back its memory",
    "memorymanager.MemoryStateRefused": "memory_manager_state refused: {error}",
    "node.ClockStepped": "the clock went back",
    "node.KubeletExited": "kubelet[ {pid}] ended ({reason}): {message}",
    "node.KubeletStarted": "kubelet[ {kubelet_version}] started[, process {pid}]",
    "node.LogThinned": (
        "the log lost lines: {beats_missing} of {beats_expected} beats are missing, "
        "{lines_cut} lines are cut"
    ),
    "node.NodeObserved": "{cpus} CPUs, {memory_capacity_bytes} bytes of memory",
    "node.SettingsObserved": "{settings#} settings",
    "oom.OutOfMemory": "out of memory: {usage_bytes} of {limit_bytes} bytes used[ by {cgroup}]",
    "oom.ProcessKilled": (
        "killed by the kernel, out of memory[ ({reason})][: {process}][, process {pid}]"
    ),
    "preemption.PodPreempted": "preempted for {preemptor_namespace}/{preemptor_pod}",
    "preemption.PreemptionFailed": "no victims found: {error}",
    "prober.ProbeCountersRead": (
        "{probe_type}: {successful} successful, {failed} failed, {unknown} unknown so far"
    ),
    "prober.ProbeExecuted": "{probe_type} {result}[: {output}]",
    "prober.ProbeTicksFolded": "{probe_type} {result}, {count} times[: {output}]",
    "prober.ProbeTransitioned": "{probe_type} {from_result} -> {to_result}",
    "topologymanager.AffinityDecided": "merged hint on policy {policy}",
    "topologymanager.HintsGenerated": "hints for {hints}",
}
"""kind -> template; ``{field#}`` is how many the field holds, ``[...]`` only said when known."""

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_SUBJECTS: tuple[tuple[str, ...], ...] = (
    ("namespace", "pod", "container"),
    ("victim_namespace", "victim_pod"),
    ("preemptor_namespace", "preemptor_pod"),
    ("pod_uid", "container"),
    ("resource",),
    ("image_id",),
    ("cgroup",),
    ("file",),
)
"""Fields that name whom a record is about; the first that is there counts."""


def summary_of(kind: str, body: Mapping[str, Any]) -> str:
    """What the record says, on one line.

    Args:
        kind: kind of the record.
        body: its body as plain JSON values.
    """
    template = TEMPLATES.get(kind)
    if template is None:
        return ""
    told = _OPTIONAL.sub(lambda part: part[1] if _is_known(part[1], body) else "", template)
    text = _Words().vformat(told, (), body)
    return " ".join(text.removesuffix(": ?").split())


def _is_known(template: str, body: Mapping[str, Any]) -> bool:
    fields = (name for _, name, _, _ in Formatter().parse(template) if name)
    return all(body.get(name.removesuffix("#")) is not None for name in fields)


def subject_of(body: Mapping[str, Any]) -> str:
    """Whom the record is about, e.g. ``default/web/app``; empty for the node itself."""
    for fields in _SUBJECTS:
        needed = fields[: 2 if fields[0].endswith("namespace") else 1]
        if all(body.get(field) for field in needed):
            return "/".join(str(body[field]) for field in fields if body.get(field))
    return ""


class _Words(Formatter):
    """Fields as words: None is ``?``, a list its items, ``name#`` the count."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:  # noqa: ANN401 - as Formatter
        """Look up a field of the body."""
        name = field_name.removesuffix("#")
        value = kwargs.get(name)
        if name != field_name:
            return len(value or ()), name
        if isinstance(value, list | tuple | dict):
            return ", ".join(str(item) for item in value) or "none", name
        return "?" if value is None else value, name
