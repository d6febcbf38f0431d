"""Pieces of the two real recordings that hold a behaviour as a whole."""

from __future__ import annotations

from collections.abc import Collection

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import DevicesAllocated
from kubeledger.model.bodies.images import EvictionSignalObserved, GarbageCollected, ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.record import Body, Record
from kubeledger.model.units import parse_ts
from kubeledger.replay.excerpts import renumbered
from tests.testing.goldens.registry import Lie, Made, golden
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
    """Whether it tells something that decisions rest on; ``seen`` is what was told already."""
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


def last(records: list[Record], kind: type[Body], at: int = -1) -> int:
    """Seq of the last record of a kind, or of the one at an index."""
    return [record.seq for record in records if isinstance(record.body, kind)][at]


LIVES = (
    "lifecycle.ContainerStarted", "lifecycle.ContainerDied", "lifecycle.ContainerKilled",
    "lifecycle.ContainerRestarted", "lifecycle.PodConfigChanged", "lifecycle.PodAdmitted",
    "lifecycle.RestartBackedOff", "prober.ProbeExecuted", "prober.ProbeTransitioned",
)  # fmt: skip


@golden("node-a-liveness", "1.20.2")
def liveness(version: str) -> Made:
    """Pod live-fail of node-a: two kills by its liveness probe, and the restarts."""
    records = excerpt("node-a", "2026-11-21T03:00:27.5Z", LIVES, {"live-fail"})
    return records, Lie(last(records, ProbeTransitioned), {"from_result": "unknown"})


@golden("node-b-readiness")
def readiness(version: str) -> Made:
    """Pod ready-flap of node-b: its readiness goes both ways."""
    records = excerpt("node-b", "2026-11-21T03:07:50Z", LIVES, {"ready-flap-node-b"})
    return records, Lie(last(records, ProbeTransitioned), {"to_result": "failure"})


@golden("node-b-startup-back-off")
def startup(version: str) -> Made:
    """Pod startup-never of node-b: killed by its startup probe, and held back longer each time."""
    records = excerpt("node-b", "2026-11-21T03:08:25Z", LIVES, {"startup-never-node-b"})
    return records, Lie(last(records, RestartBackedOff), {"back_off_s": 20})


@golden("node-b-startup-kill")
def startup_killed(version: str) -> Made:
    """The same pod: the message of the kill."""
    records = excerpt("node-b", "2026-11-21T03:07:25Z", LIVES, {"startup-never-node-b"})
    seq = last(records, ContainerKilled)
    return records, Lie(seq, {"message": "Container app failed liveness probe, will be restarted"})


IMAGES = (
    "images.GarbageCollected", "images.GarbageCollectionStarted", "images.ImageDeleted",
    "images.ImageFsObserved", "images.ImagesDetected",
)  # fmt: skip


@golden("node-a-images", "1.20.2")
def images(version: str) -> Made:
    """The first space pass of node-a, at 72 % with a threshold of 5 %: all that is unused goes."""
    records = excerpt("node-a", "2026-11-21T02:57:43Z", IMAGES, ())
    return records, Lie(last(records, ImageDeleted), {"size_bytes": 1})


@golden("node-b-images")
def images_of_new_kubelet(version: str) -> Made:
    """The second space pass of node-b, and its error word for word."""
    records = excerpt("node-b", "2026-11-21T03:11:04Z", IMAGES, ())
    return records, Lie(last(records, GarbageCollected), {"bytes_freed": 42_999_879})


ADMISSIONS = (
    "cgroups.CgroupUpdated", "devicemanager", "images.EvictionSignalObserved",
    "lifecycle.ContainerDied", "lifecycle.ContainerStarted", "lifecycle.PodAdmitted",
    "lifecycle.PodConfigChanged", "lifecycle.PodRejected", "lifecycle.PodTerminated", "preemption",
)  # fmt: skip


@golden("node-a-preemption", "1.20.2")
def preemption(version: str) -> Made:
    """A critical pod of node-a lacks 450m of cpu: filler-c goes, and then gpu-a."""
    records = excerpt("node-a", "2026-11-21T03:00:37Z", ADMISSIONS)
    lie = {"victim_pod": "filler-a"}
    return records, Lie(last(records, PodPreempted), lie)


@golden("node-b-preemption")
def preemption_of_static_pods(version: str) -> Made:
    """On node-b one victim is enough; another pod finds none, as it asks for too much."""
    records = excerpt("node-b", "2026-11-21T03:07:58Z", ADMISSIONS)
    lie = {"victim_pod": "filler-b-node-b"}
    return records, Lie(last(records, PodPreempted), lie)


DEVICES = (
    "devicemanager", "lifecycle.PodConfigChanged", "lifecycle.PodRejected", "topologymanager"
)  # fmt: skip


@golden("node-a-devices", "1.20.2")
def devices(version: str) -> Made:
    """GPUs and NICs of node-a: gpu-a uses the device of its init container again."""
    pods = {"gpu-a", "gpu-b", "gpu-c"}
    records = excerpt("node-a", "2026-11-21T03:00:22Z", DEVICES, pods)
    return records, Lie(last(records, DevicesAllocated, 0), {"device_ids": ("gpu-9",)})
