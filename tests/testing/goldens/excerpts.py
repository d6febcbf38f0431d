"""Pieces of the two real recordings that hold a behaviour as a whole."""

from collections.abc import Collection
from functools import partial
from typing import Any

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.images import EvictionSignalObserved, GarbageCollected, ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.record import Body, Record
from kubeledger.model.units import parse_ts
from kubeledger.replay.instants import renumbered
from tests.testing.goldens.registry import GOLDENS, Golden, Lie
from tests.verify.histories import recorded

__all__: list[str] = []

_ALWAYS = ("node.KubeletStarted", "node.SettingsObserved")


def excerpt(
    node: str, until: str, kinds: Collection[str], pods: Collection[str] | None = None
) -> list[Record]:
    """Records of some kinds, about some pods, up to a time; each pod is listed once.

    Args:
        node: name of the recording.
        until: RFC 3339; what the records of this time tell is still there.
        kinds: kinds, or their packages.
        pods: names; None: all.
    """
    until_ns = parse_ts(until)
    seen = set[str]()

    def is_kept(record: Record) -> bool:
        body = record.body
        if isinstance(body, PodListed | NodeObserved):
            # Lists show the specs of pods that came before, and the node's object stands last.
            return _is_first(body, seen)
        packages = {record.kind, record.kind.partition(".")[0]}
        in_time = record.ts_ns <= until_ns
        return in_time and bool(packages & {*kinds, *_ALWAYS}) and _is_first(body, seen)

    def is_about(record: Record) -> bool:
        # Merged hints of all pods together tell the machine's NUMA nodes.
        name = getattr(record.body, "pod", None)
        whole = pods is None or name is None or record.kind.startswith("topologymanager.")
        return whole or name in (pods or ())

    return list(renumbered(r for r in recorded(node) if is_about(r) and is_kept(r)))


def _is_first(body: Body, seen: set[str]) -> bool:
    """Whether decisions rest on what it says; ``seen`` is what was said already."""
    match body:
        case PodListed():
            key = f"pod {body.pod}"
            if body.gone or body.listed_by != "kubelet":
                return False
        case EvictionSignalObserved():
            key = f"signal {body.signal}"  # one tells the machine's size
        case PodConfigChanged():
            return body.operation != "RECONCILE"  # a status came back
        case ContainerStarted():
            return not body.sandbox
        case CgroupUpdated():
            return body.level == "node"
        case _:
            return True
    if key in seen:
        return False
    seen.add(key)
    return True


LIVES = (
    "lifecycle.ContainerStarted", "lifecycle.ContainerDied", "lifecycle.ContainerKilled",
    "lifecycle.ContainerRestarted", "lifecycle.PodConfigChanged", "lifecycle.PodAdmitted",
    "lifecycle.RestartBackedOff", "prober.ProbeExecuted", "prober.ProbeTransitioned",
)  # fmt: skip
IMAGES = (
    "images.GarbageCollected", "images.GarbageCollectionStarted", "images.ImageDeleted",
    "images.ImageFsObserved", "images.ImagesDetected",
)  # fmt: skip
ADMISSIONS = (
    "cgroups.CgroupUpdated", "devicemanager", "images.EvictionSignalObserved",
    "lifecycle.ContainerDied", "lifecycle.ContainerStarted", "lifecycle.PodAdmitted",
    "lifecycle.PodConfigChanged", "lifecycle.PodRejected", "lifecycle.PodTerminated", "preemption",
)  # fmt: skip
DEVICES = (
    "devicemanager", "lifecycle.PodConfigChanged", "lifecycle.PodRejected", "topologymanager"
)  # fmt: skip
_KILL = {"message": "Container app failed liveness probe, will be restarted"}
_STARTUP = "startup-never-node-b"
_GPUS = {"gpu-a", "gpu-b", "gpu-c"}

EXCERPTS: dict[
    str,
    tuple[str, str, Collection[str], Collection[str] | None, type[Body], dict[str, Any]],
] = {
    "node-a-liveness": ("Pod live-fail of node-a: two kills by its liveness probe, and the "
                        "restarts.", "03:00:27.5", LIVES, {"live-fail"}, ProbeTransitioned,
                        {"from_result": "unknown"}),
    "node-b-readiness": ("Pod ready-flap of node-b: its readiness goes both ways.", "03:07:50",
                         LIVES, {"ready-flap-node-b"}, ProbeTransitioned, {"to_result": "failure"}),
    "node-b-startup-back-off": ("Pod startup-never of node-b: killed by its startup probe, and "
                                "held back longer each time.", "03:08:25", LIVES, {_STARTUP},
                                RestartBackedOff, {"back_off_s": 20}),
    "node-b-startup-kill": ("The same pod: the message of the kill.", "03:07:25", LIVES, {_STARTUP},
                            ContainerKilled, _KILL),
    "node-a-images": ("The first space pass of node-a, at 72 % with a threshold of 5 %: all that "
                      "is unused goes.", "02:57:43", IMAGES, (), ImageDeleted, {"size_bytes": 1}),
    "node-b-images": ("The second space pass of node-b, and its error word for word.", "03:11:04",
                      IMAGES, (), GarbageCollected, {"bytes_freed": 42_999_879}),
    "node-a-preemption": ("A critical pod of node-a lacks 450m of cpu: filler-c goes, and then "
                          "gpu-a.", "03:00:37", ADMISSIONS, None, PodPreempted,
                          {"victim_pod": "filler-a"}),
    "node-b-preemption": ("On node-b one victim is enough; another pod finds none, as it asks for "
                          "too much.", "03:07:58", ADMISSIONS, None, PodPreempted,
                          {"victim_pod": "filler-b-node-b"}),
    "node-a-devices": ("GPUs and NICs of node-a: gpu-a uses the device of its init container "
                       "again.", "03:00:22", DEVICES, _GPUS, DevicesAllocated,
                       {"device_ids": ("gpu-9",)}),
}  # fmt: skip
"""Name -> what it shows; until when, which kinds, about which pods; and the lie: the last record of
a kind (of devices the first), and what is wrong in it."""


def _golden(name: str) -> Golden:
    why, until, kinds, pods, kind, fields = EXCERPTS[name]
    records = excerpt(name[: len("node-a")], f"2026-11-21T{until}Z", kinds, pods)
    seqs = [record.seq for record in records if isinstance(record.body, kind)]
    lie = Lie(seqs[0] if kind is DevicesAllocated else seqs[-1], fields)
    return Golden(name, tuple(records), lie, why)


GOLDENS |= {name: partial(_golden, name) for name in EXCERPTS}
