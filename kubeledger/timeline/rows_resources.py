"""What pods hold and what the kubelet writes: devices, CPUs, cgroup values, images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from kubeledger.analyze.wording import bytes_text
from kubeledger.kubelet.kube.containermanager import cpus_of
from kubeledger.timeline.drawing import NodeView, Row, Section, ViewRow

_CGROUP_VALUES = {"memory_limit_bytes": "mem", "cpu_shares": "shares", "cpu_quota_us": "quota"}


def resource_sections(view: NodeView) -> list[Section]:
    """Devices, claims, CPUs, cgroups and images, a section each; those without rows have none."""
    cgroups, changing = _cgroups(view)
    return [
        Section(id="devices", title="Devices", rows=_devices(view)),
        Section(id="claims", title="Claims", rows=_claims(view)),
        Section(id="cpus", title="CPUs", rows=_cpus(view)),
        Section(
            id="cgroups",
            title=f"Cgroup values that changed ({len(changing)} of {cgroups})",
            rows=changing,
        ),
        Section(id="images", title="Images", rows=_images(view)),
    ]


def _devices(view: NodeView) -> list[Row]:
    """A lane a device: who held it, and who still does although its pod ended."""
    holds: dict[tuple[str, str], list[ViewRow]] = defaultdict(list)
    for row in view.rows(
        "device_allocations",
        "namespace, pod, pod_uid, container, resource, device_ids, numa_nodes,"
        " epoch_ns(released_ts) AS released_ns, epoch_ns(pod_terminated_ts) AS ended_ns",
    ):
        for device in row["device_ids"]:
            holds[row["resource"], device].append(row)
    return [_device(*key, holds[key]) for key in sorted(holds)]


def _device(resource: str, device: str, holds: list[ViewRow]) -> Row:
    numa = {node for hold in holds for node in hold["numa_nodes"] or ()}
    only = numa.pop() if len(numa) == 1 else None
    note = resource if only is None or only < 0 else f"{resource} NUMA {only}"
    row = Row(label=device, note=note)
    kind = f"held{only % 2}" if only is not None and only >= 0 else "held"
    for hold in _joined(holds):
        end_ns = hold["released_ns"]
        ended_ns = hold["ended_ns"]
        held_on = ended_ns is not None and (end_ns is None or ended_ns < end_ns)
        label = f"{hold['pod'] or hold['pod_uid']}/{' → '.join(hold['containers'])}"
        row.bar(kind, hold["ts_ns"], ended_ns if held_on else end_ns, label, hold["seq"])
        if held_on:
            row.bar("held_ended", ended_ns, end_ns, "pod ended, still held")
    return row


def _joined(holds: Iterable[ViewRow]) -> Iterator[ViewRow]:
    """Grants of one device to one pod as one: the containers take it over from one another."""
    by_pod: dict[str, ViewRow] = {}
    for hold in holds:
        if (first := by_pod.get(hold["pod_uid"])) is None:
            by_pod[hold["pod_uid"]] = {**hold, "containers": [hold["container"]]}
        elif hold["container"] not in first["containers"]:
            first["containers"].append(hold["container"])
    return iter(by_pod.values())


def _claims(view: NodeView) -> list[Row]:
    """A lane a claim: the pods that held it, side by side where they shared it."""
    lanes: dict[str, Row] = {}
    for row in view.rows(
        "claims",
        "namespace, pod, pod_uid, claim, epoch_ns(released_ts) AS released_ns, unprepared,"
        " list(DISTINCT driver) OVER (PARTITION BY seq) AS drivers,"
        " row_number() OVER (PARTITION BY seq) AS n",
    ):
        if row["n"] > 1:
            continue
        name = f"{row['namespace']}/{row['claim']}"
        note = " ".join(sorted(driver for driver in row["drivers"] if driver))
        lane = lanes.setdefault(name, Row(label=name, note=note))
        label = row["pod"] or row["pod_uid"]
        lane.bar("held", row["ts_ns"], row["released_ns"], label, row["seq"])
        if row["unprepared"]:
            lane.mark("changed", row["released_ns"], "unprepared")
    return [lanes[name] for name in sorted(lanes)]


def _cpus(view: NodeView) -> list[Row]:
    """A lane a CPU that a container had for itself."""
    lanes: dict[int, Row] = {}
    for row in view.rows(
        "cpu_assignments",
        "namespace, pod, container, cpu_set, epoch_ns(released_ts) AS released_ns",
    ):
        for cpu in sorted(cpus_of(row["cpu_set"])):
            lane = lanes.setdefault(cpu, Row(label=f"CPU {cpu}"))
            label = f"{row['pod']}/{row['container']}"
            lane.bar("held", row["ts_ns"], row["released_ns"], label, row["seq"])
    return [lanes[cpu] for cpu in sorted(lanes)]


def _cgroups(view: NodeView) -> tuple[int, list[Row]]:
    """The number of cgroups seen, and a lane for each whose values changed after it was created."""
    columns = ", ".join(["cgroup", "created", *_CGROUP_VALUES])
    updates: dict[str, list[ViewRow]] = defaultdict(list)
    for row in view.rows("cgroup_updates", columns):
        updates[row["cgroup"]].append(row)
    lanes = []
    for cgroup in sorted(updates):
        rows = updates[cgroup]
        steps = [(old, new, _change(old, new)) for old, new in pairwise(rows)]
        if not any(text and not new["created"] for _, new, text in steps):
            continue
        lane = Row(label=cgroup)
        last = rows[0]
        lane.bar("values", last["ts_ns"], rows[1]["ts_ns"], "", last["seq"])
        for index, (_, new, text) in enumerate(steps):
            end_ns = steps[index + 1][1]["ts_ns"] if index + 1 < len(steps) else None
            lane.bar("values", new["ts_ns"], end_ns, text, new["seq"])
            lane.mark("changed", new["ts_ns"], text, new["seq"])
        lanes.append(lane)
    return len(updates), lanes


def _change(old: ViewRow, new: ViewRow) -> str:
    return " · ".join(
        f"{word} {_amount(name, old[name])}→{_amount(name, new[name])}"
        for name, word in _CGROUP_VALUES.items()
        if old[name] != new[name] and new[name] is not None
    )


def _amount(name: str, value: int | None) -> str:
    if value is None:
        return "?"
    if name == "memory_limit_bytes":
        return f"{value >> 20}Mi" if 0 <= value < 1 << 60 else "max"
    return str(value)


def _images(view: NodeView) -> list[Row]:
    """Images that were listed or deleted: there from each first listing until a deletion.

    An image that is listed again after its deletion came back, or the deletion failed.
    """
    lanes: dict[str, Row] = {}
    listed: dict[str, list[int]] = {}
    for row in view(
        """SELECT image_id, list(DISTINCT epoch_ns(ts) ORDER BY epoch_ns(ts)) AS passes,
            max(size_bytes) AS size_bytes
        FROM images_detected WHERE node = $node GROUP BY image_id
        ORDER BY size_bytes DESC, image_id"""
    ):
        listed[row["image_id"]] = row["passes"]
        lanes[row["image_id"]] = _image(row["image_id"], row["size_bytes"])
    deletions: dict[str, list[ViewRow]] = defaultdict(list)
    for row in view.rows("image_gc_deletions", "image_id, size_bytes, cause"):
        deletions[row["image_id"]].append(row)
        lanes.setdefault(row["image_id"], _image(row["image_id"], row["size_bytes"]))
    for image_id, lane in lanes.items():
        passes = listed.get(image_id, [])
        gone_ns = 0
        for row in deletions[image_id]:
            began_ns = next((ns for ns in passes if gone_ns < ns <= row["ts_ns"]), None)
            if began_ns is not None:
                lane.bar("image", began_ns, row["ts_ns"])
            lane.mark("deleted", row["ts_ns"], "del", row["seq"])
            gone_ns = row["ts_ns"]
        began_ns = next((ns for ns in passes if ns > gone_ns), None)
        if began_ns is not None:
            lane.bar("image", began_ns, None)
    return list(lanes.values())


def _image(image_id: str, size_bytes: int | None) -> Row:
    name = image_id.removeprefix("sha256:")[:12]
    return Row(label=name, note="" if size_bytes is None else bytes_text(size_bytes))
