"""Tales that an outsider would think of: what no rule was made for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import CheckpointRead, DevicesAllocated
from kubeledger.model.bodies.images import ImageDeleted, ImagesDetected
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodResized,
    PodTerminated,
)
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.units import NS_PER_S
from tests.verify.properties.tales import (
    Others,
    Records,
    Tale,
    Teller,
    at_time,
    first_of,
    of_kinds,
    pod_of,
    specs_of,
    subjects_of,
    told_with,
    with_fields,
)

_ALL = ("node", "pod/", "container/", "image/", "cgroup/")


def _said(kind: type, change: Callable[[Any, Random], dict[str, Any] | None]) -> Teller:
    """A decision of some kind says something else; nothing changes around it."""

    def teller(records: Records, random: Random) -> Iterator[Tale]:
        for record in of_kinds(records, kind):
            fields = change(record.body, random)
            if fields and not getattr(record.body, "inferred", False):
                told = told_with(records, {record.seq: with_fields(record, **fields)})
                about = subjects_of(record.body) if pod_of(record.body)[1] else _ALL
                yield Tale(f"{record.seq} {fields}", told, about)

    return teller


def _by_one(body: CgroupUpdated, random: Random) -> dict[str, Any] | None:
    """One share, or 100 µs, or a page more or less."""
    if body.level not in ("pod", "qos") or (body.cpu_shares or 0) == 2:
        return None
    weight = body.unified.get("cpu.weight", "1")
    if weight != "1":
        return {"unified": body.unified | {"cpu.weight": str(int(weight) + random.choice((-1, 1)))}}
    if body.cpu_shares:
        return {"cpu_shares": body.cpu_shares + random.choice((-1, 1))}
    return None


def _page_more(body: CgroupUpdated, random: Random) -> dict[str, Any] | None:
    limit = body.memory_limit_bytes
    if body.level != "pod" or limit in (None, -1) or not limit or limit > 1 << 60:
        return None
    other = limit + random.choice((-4096, 4096))
    unified = body.unified | ({"memory.max": str(other)} if "memory.max" in body.unified else {})
    return {"memory_limit_bytes": other, "unified": unified}


def _protected(body: CgroupUpdated, random: Random) -> dict[str, Any] | None:
    """Memory is reserved for a pod that has nothing reserved."""
    if body.level == "pod" and body.unified.get("memory.min") == "0":
        return {"unified": body.unified | {"memory.min": str(random.choice((1, 64)) << 20)}}
    return None


def _set(name: str, value: object, denies: Callable[[Records], bool]) -> Teller:
    """Every source of a setting shows another value, by which some decisions are wrong."""

    def teller(records: Records, random: Random) -> Iterator[Tale]:
        others: Others = {}
        for record in of_kinds(records, SettingsObserved):
            known = record.body.settings.get(name)
            if known is not None and known.value != json.dumps(value):
                other = msgspec.structs.replace(known, value=json.dumps(value))
                settings = {**record.body.settings, name: other}
                others[record.seq] = with_fields(record, settings=settings)
        if others and denies(records):
            yield Tale(f"{name} {value}", told_with(records, others), _ALL)

    return teller


def _young_ones_went(records: Records) -> bool:
    """Whether images went for space that came since the kubelet began."""
    young, is_first = set[str](), True
    for record in of_kinds(records, KubeletStarted, ImagesDetected, ImageDeleted):
        if isinstance(record.body, ImageDeleted):
            if record.body.pass_ != "age" and record.body.image_id in young:
                return True
        elif isinstance(record.body, KubeletStarted):
            young, is_first = set(), True
        else:
            images = record.body.images
            young |= {it.image_id for it in images if it.new and not is_first}
            is_first = False
    return False


def _ran_together(records: Records) -> bool:
    """Whether two pods ran when one was admitted."""
    lists = [r for r in of_kinds(records, PodListed) if (r.body.status or {}).get("phase")]
    running = Counter(r.ts_ns for r in lists if r.body.status["phase"] == "Running")
    return max(running.values(), default=0) > 1


def _actuated_first(records: Records, random: Random) -> Iterator[Tale]:
    """The runtime has what was asked for ten seconds before that is allocated."""
    for record in of_kinds(records, PodResized):
        cause = next((r for r in records if r.seq == record.cause), None)
        if record.body.outcome == "actuated" and cause is not None:
            told = told_with(records, {record.seq: at_time(record, cause.ts_ns - 10 * NS_PER_S)})
            yield Tale(f"{record.seq}", told, subjects_of(record.body))


def _not_in_file(records: Records, random: Random) -> Iterator[Tale]:
    """The checkpoint lacks a device that a container runs with."""
    for record in of_kinds(records, CheckpointRead):
        for n, entry in enumerate(record.body.entries):
            given = [(node, ids) for node, ids in entry.numa.items() if ids]
            if given:
                node, ids = given[0]
                less = msgspec.structs.replace(entry, numa={**entry.numa, node: ids[1:]})
                entries = (*record.body.entries[:n], less, *record.body.entries[n + 1 :])
                told = told_with(records, {record.seq: with_fields(record, entries=entries)})
                yield Tale(f"{record.seq} {entry.container}", told, _ALL)
                break


def _no_such_device(body: DevicesAllocated, random: Random) -> dict[str, Any] | None:
    if body.told_by != "call" or not body.device_ids:
        return None
    return {"device_ids": tuple(sorted(("no-such", *body.device_ids[1:])))}


def _terminated_first(records: Records, random: Random) -> Iterator[Tale]:
    """A pod has ended, and its container runs on for a while."""
    for record in of_kinds(records, PodTerminated):
        died = [
            r
            for r in of_kinds(records, ContainerDied)
            if pod_of(r.body) == pod_of(record.body)
            and not r.body.sandbox
            and r.ts_ns <= record.ts_ns
        ]
        start = died and first_of(
            records, ContainerStarted, pod_of(record.body), died[-1].body.container
        )
        if start and start.ts_ns < died[-1].ts_ns - 60 * NS_PER_S:
            told = told_with(records, {record.seq: at_time(record, died[-1].ts_ns - 40 * NS_PER_S)})
            yield Tale(f"{record.seq}", told, subjects_of(record.body))


def _evicted_lives(records: Records, random: Random) -> Iterator[Tale]:
    """The containers of an evicted pod run on for five minutes."""
    for record in of_kinds(records, PodEvicted):
        mine = [
            r
            for r in of_kinds(records, ContainerDied, PodTerminated)
            if pod_of(r.body) == pod_of(record.body) and r.ts_ns >= record.ts_ns
        ]
        if mine and records[-1].ts_ns > mine[-1].ts_ns + 400 * NS_PER_S:
            others: Others = {r.seq: at_time(r, r.ts_ns + 300 * NS_PER_S) for r in mine}
            yield Tale(f"{record.seq}", told_with(records, others), subjects_of(record.body))


def _before_it_came(records: Records, random: Random) -> Iterator[Tale]:
    """A container runs half a minute before the kubelet is handed its pod."""
    for record in of_kinds(records, PodConfigChanged):
        starts = (r for r in of_kinds(records, ContainerStarted) if not r.body.sandbox)
        first = next((r for r in starts if pod_of(r.body) == pod_of(record.body)), None)
        at_ns = record.ts_ns - 30 * NS_PER_S
        is_new = record.body.operation == "ADD" and first is not None and first.ts_ns > record.ts_ns
        if is_new and first is not None and at_ns > records[0].ts_ns + 60 * NS_PER_S:
            told = told_with(records, {first.seq: at_time(first, at_ns)})
            yield Tale(f"{record.seq}", told, subjects_of(record.body))


def _sidecar_late(records: Records, random: Random) -> Iterator[Tale]:
    """A main container starts before its pod's sidecar does."""
    for pod, spec in specs_of(records).items():
        sidecars = [c["name"] for c in spec.get("initContainers") or () if "restartPolicy" in c]
        side = first_of(records, ContainerStarted, pod, sidecars[0]) if sidecars else None
        main = first_of(records, ContainerStarted, pod, spec["containers"][0]["name"])
        if side is not None and main is not None and side.ts_ns <= main.ts_ns:
            others: Others = {
                r.seq: with_fields(r, status={"phase": "Pending"})
                for r in of_kinds(records, PodListed)
                if pod_of(r.body) == pod and r.body.spec
            }
            others[side.seq] = at_time(side, main.ts_ns + 10 * NS_PER_S)
            yield Tale(f"{side.seq}", told_with(records, others), subjects_of(side.body))


def _without_probe(records: Records, random: Random) -> Iterator[Tale]:
    """No list shows the probe for which a container is killed."""
    for record in of_kinds(records, ContainerKilled):
        which = (record.body.reason or "").removesuffix("_probe")
        lists = [
            r
            for r in of_kinds(records, PodListed)
            if pod_of(r.body) == pod_of(record.body) and r.body.spec
        ]
        if which not in ("liveness", "startup") or not lists:
            continue
        others: Others = {}
        for r in lists:
            own = [
                {k: v for k, v in c.items() if k != f"{which}Probe"}
                for c in r.body.spec["containers"]
            ]
            others[r.seq] = with_fields(r, spec=r.body.spec | {"containers": own})
        yield Tale(f"{record.seq}", told_with(records, others), subjects_of(record.body))


def _other_exit(records: Records, random: Random) -> Iterator[Tale]:
    """A container is said to have ended with another code than lists show."""
    listed = {
        ended.get("containerID", "").rpartition("/")[2]
        for r in of_kinds(records, PodListed)
        for status in (r.body.status or {}).get("containerStatuses") or ()
        for each in ("state", "lastState")
        if (ended := status.get(each, {}).get("terminated"))
    }
    for record in of_kinds(records, ContainerDied):
        body = record.body
        if body.container and body.exit_code is not None and body.container_id in listed:
            told = told_with(
                records, {record.seq: with_fields(record, exit_code=body.exit_code + 1)}
            )
            yield Tale(f"{record.seq}", told, subjects_of(body))


FURTHER: dict[str, Teller] = {
    "cgroup: CPU by one": _said(CgroupUpdated, _by_one),
    "cgroup: memory by a page": _said(CgroupUpdated, _page_more),
    "cgroup: memory.min of none": _said(CgroupUpdated, _protected),
    "restart count jumps": _said(
        ContainerRestarted,
        lambda body, _: body.restart_count and {"restart_count": body.restart_count + 2},
    ),
    "threshold of a change": _said(
        ProbeTransitioned, lambda body, _: body.threshold and {"threshold": body.threshold + 1}
    ),
    "a device that is none": _said(DevicesAllocated, _no_such_device),
    "checkpoint lacks a device": _not_in_file,
    "images younger than allowed": _set("imageMinimumGCAge", "9h0m0s", _young_ones_went),
    "more pods than allowed": _set("maxPods", 1, _ran_together),
    "no threshold that is met": _set(
        "evictionHard",
        {"memory.available": "1Ki", "nodefs.available": "1Ki"},
        lambda records: bool(of_kinds(records, PodEvicted)),
    ),
    "actuated before allocated": _actuated_first,
    "a pod ended before its container": _terminated_first,
    "evicted but lives on": _evicted_lives,
    "started before the pod came": _before_it_came,
    "sidecar after main": _sidecar_late,
    "killed for a probe that is none": _without_probe,
    "another exit code": _other_exit,
}
"""What is told -> who tells it."""
