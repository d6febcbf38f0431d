"""What ``get`` shows: the state's pods, devices, images and probes with kubectl's columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from kubeledger.cli.output import counted, write_table
from kubeledger.cli.screen import paged, screen_width
from kubeledger.kubelet.kube.statuses import bare_id, instances_in, objects_of, statuses_in
from kubeledger.kubelet.lifecycle.printing import CREATING, print_pod
from kubeledger.kubelet.lifecycle.stages import OF_CONTAINER, failure_of_waiting, order_of
from kubeledger.kubelet.lifecycle.state import PodState
from kubeledger.model.bodies.lifecycle import PodListed, PodStarted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.pod_stages import KINDS, PodStages, StageEpisode
from kubeledger.replay.node.state import NodeState, document

Item = dict[str, Any]

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 24 * 3600
_UNKNOWN = "<unknown>"
_NONE = "<none>"


class Table(msgspec.Struct, frozen=True):
    """One resource of the node.

    Attributes:
        items: objects as ``-o json`` shows them, from a state and the records that lead to it;
            each has a ``name``, most a ``namespace``.
        columns: heads, as ``write_table`` takes them.
        row: (n,) cells of an object, given the time of asking.
    """

    items: Callable[[NodeState, Records], list[Item]]
    columns: str
    row: Callable[[Item, int], Sequence[Any]]

    def write(self, items: Sequence[Item], now_ns: int, form: str) -> None:
        """A ``table`` of the objects, or a ``wide`` one."""
        rows = (self.row(item, now_ns) for item in items)
        with paged():
            write_table(self.columns, rows, form, screen_width())


def matches(item: Item, name: str) -> bool:
    """Whether a name as people write it means this object."""
    if name in (item["name"], f"{item.get('namespace')}/{item['name']}", item.get("uid")):
        return True
    image = item.get("image_id", "")
    return bool(name) and (image.startswith(name) or image.partition(":")[2].startswith(name))


def not_known(resource: str, state: NodeState) -> str:
    """Why nothing can be shown where no record says what there is; empty where one does."""
    if resource == "images" and state.images.detected_ts_ns is None:
        removed = state.images.images_removed
        hint = f" By then {counted(removed, 'image')} had been deleted: ask" if removed else " Ask"
        return (
            "No image list is known: the kubelet logs its images at --v=5 only."
            f"{hint} `kubeledger why IMAGE`, `kubeledger sql 'from image_gc_deletions'`."
        )
    if resource == "pods" and not state.lifecycle.gone:
        return (
            "No pod is known: no record until then lists the node's pods. `kubeledger ls`"
            " lists what there is."
        )
    return ""


def human_duration(seconds: int) -> str:
    """As kubectl writes an age (``HumanDuration``): two units where the first is small."""
    if seconds < 2 * _MINUTE_S:
        return f"{max(seconds, 0)}s"
    for below_s, unit_s, unit, part_s, part in (
        (10 * _MINUTE_S, _MINUTE_S, "m", 1, "s"),
        (3 * _HOUR_S, _MINUTE_S, "m", 0, ""),
        (8 * _HOUR_S, _HOUR_S, "h", _MINUTE_S, "m"),
        (2 * _DAY_S, _HOUR_S, "h", 0, ""),
        (8 * _DAY_S, _DAY_S, "d", _HOUR_S, "h"),
    ):
        if seconds < below_s:
            rest = seconds % unit_s // part_s if part_s else 0
            return f"{seconds // unit_s}{unit}" + (f"{rest}{part}" if rest else "")
    return f"{seconds // _DAY_S}d"


def _age(since_ns: int | None, now_ns: int) -> str:
    return _UNKNOWN if since_ns is None else human_duration((now_ns - since_ns) // NS_PER_S)


def _pods(state: NodeState, records: Records) -> list[Item]:
    plain = document(state, ["pods"])["pods"]
    seen = seen_of(state, records)
    found = []
    for key, pod in state.lifecycle.pods.items():
        about = seen[key]
        ready = _ready(state, key, pod, about.unready)
        printed = print_pod(
            pod, about.waiting, ready, about.sidecars,
            order=about.inits, ends=about.ends, leaving=about.leaving,
        )  # fmt: skip
        is_known = printed.total or about.is_bare
        shown = {
            "namespace": pod.namespace,
            "name": pod.name,
            "ready": f"{printed.ready}/{printed.total}" if is_known else None,
            "status": printed.status,
            "restarts": printed.restarts if is_known else None,
        }
        since = {"since_ts_ns": seen[key].since_ts_ns}
        found.append({**shown, "node": state.node, **plain[key], **since})
    return sorted(found, key=lambda item: (item["namespace"], item["name"], item["uid"] or ""))


def _pod_row(item: Item, now_ns: int) -> Sequence[Any]:
    age = _age(item["since_ts_ns"], now_ns)
    shown = [item[name] for name in ("namespace", "name", "ready", "status", "restarts")]
    shown[2:] = (_UNKNOWN if each is None else each for each in shown[2:])
    return *shown, age, item["node"], item["qos_class"] or _UNKNOWN, item["uid"] or _UNKNOWN


def _ready(state: NodeState, key: str, pod: PodState, unready: Collection[str]) -> set[str]:
    """Containers that are ready if they run.

    Their startup probe has succeeded, and their readiness probe says so (``UpdatePodStatus`` in
    pkg/kubelet/prober/prober_manager.go). Of a probe that nothing is known of its status tells.

    Args:
        unready: IDs of containers that run, and whose status says that they are not ready.
    """
    workers = state.prober.pods.get(key, {})
    return {
        name
        for name, container in pod.containers.items()
        if (name in workers or container.container_id not in unready)
        and all(
            worker.cached_result == "success"
            for probe_type, worker in workers.get(name, {}).items()
            if probe_type != "liveness"
        )
    }


def _devices(state: NodeState, _: Records) -> list[Item]:
    manager = state.devicemanager
    found = list[Item]()
    for key, containers in manager.pods.items():
        for container, resources in containers.items():
            for resource, held in resources.items():
                pod = {"namespace": held.namespace, "pod": held.pod, "pod_key": key}
                holder = {**pod, "container": container, "since_ts_ns": held.since_ts_ns}
                for device in held.device_ids:
                    numa = _numa_of(held.numa, device)
                    found.append({"name": device, "resource": resource, "numa": numa, **holder})
    held_ids = {(item["resource"], item["name"]) for item in found}
    found += [
        {"name": device, "resource": name, "numa": None}
        for name, resource in manager.resources.items()
        for device in resource.device_ids or ()
        if (name, device) not in held_ids
    ]
    return sorted(found, key=lambda item: (item["resource"], item["name"], item.get("pod") or ""))


def _numa_of(numa: dict[str, tuple[str, ...]] | None, device: str) -> str | None:
    found = next((node for node, devices in (numa or {}).items() if device in devices), None)
    return _NONE if found == "-1" else found


def _device_row(item: Item, now_ns: int) -> Sequence[Any]:
    device = item["resource"], item["name"]
    if "pod_key" not in item:
        return *device, "", _NONE, _NONE, _NONE, "", ""
    holder = item["namespace"] or _UNKNOWN, item["pod"] or item["pod_key"], item["container"]
    age = _age(item["since_ts_ns"], now_ns)
    return *device, item["numa"] or _UNKNOWN, *holder, age, item["pod_key"]


def _images(state: NodeState, _: Records) -> list[Item]:
    plain = document(state, ["images"])["images"]["images"]
    return [
        {"name": image_id.partition(":")[2][:12] or image_id, "image_id": image_id, **image}
        for image_id, image in sorted(plain.items())
    ]


def _image_row(item: Item, now_ns: int) -> Sequence[Any]:
    last = item["last_used_ts_ns"]
    last_used = _NONE if last is None else f"{_age(last, now_ns)} ago"
    shown = (item["name"], _size(item["size_bytes"]), _word(item["in_use"]), last_used)
    return (
        *shown,
        _age(item["first_detected_ts_ns"], now_ns),
        _word(item["pinned"]),
        item["image_id"],
    )


def _size(size_bytes: int | None) -> str:
    """In decimal units, as crictl has it."""
    if size_bytes is None:
        return _UNKNOWN
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g}{unit}" if value < 1000 else f"{value:.0f}{unit}"


def _word(value: bool | None) -> str:
    return _UNKNOWN if value is None else str(value).lower()


_OF_PROBE = ("namespace", "name", "container", "type")


def _probes(state: NodeState, _: Records) -> list[Item]:
    plain = document(state, ["probes"])["probes"]
    found = list[Item]()
    for key, containers in plain.items():
        pod = state.lifecycle.pods.get(key)
        names = (_UNKNOWN, key) if pod is None else (pod.namespace, pod.name)
        for container, workers in containers.items():
            for probe_type, worker in workers.items():
                about = zip(_OF_PROBE, (*names, container, probe_type), strict=True)
                found.append({**dict(about), **worker})
    return sorted(found, key=lambda item: [item[name] for name in _OF_PROBE])


def _last(item: Item) -> str:
    if item["last_result"] is None:
        return _NONE
    return f"{item['last_result']} x{item['run']}" if item["run"] else str(item["last_result"])


def _probe_row(item: Item, now_ns: int) -> Sequence[Any]:
    last = item["last_tick_ts_ns"]
    ticks = item["ticks"]
    failed = sum(count for result, count in ticks.items() if result not in ("success", "warning"))
    names = (item[name] for name in _OF_PROBE)
    result = "on hold" if item["on_hold"] else item["cached_result"]
    seen = _NONE if last is None else f"{_age(last, now_ns)} ago"
    counts = sum(ticks.values()), failed
    return *names, result, _last(item), seen, *counts, item["container_id"] or _UNKNOWN


TABLES: dict[str, Table] = {
    "pods": Table(
        _pods, "NAMESPACE, NAME, READY, STATUS, RESTARTS, AGE, NODE*, QOS*, UID*", _pod_row
    ),
    "devices": Table(
        _devices,
        "RESOURCE, DEVICE, NUMA, NAMESPACE, POD, CONTAINER, AGE, POD UID*",
        _device_row,
    ),
    "images": Table(
        _images, "IMAGE ID, SIZE, IN USE, LAST USED, AGE, PINNED*, FULL ID*", _image_row
    ),
    "probes": Table(
        _probes,
        "NAMESPACE, POD, CONTAINER, PROBE, RESULT, LAST, SEEN, TICKS*, FAILED*, CONTAINER ID*",
        _probe_row,
    ),
}
"""Name of a resource -> how it is shown."""


Records = Callable[[Collection[str]], Iterator[Record]]
"""Records of some kinds, up to the time that is asked about."""

_INITS = "initContainers"
_NODE_LOST = "NodeLost"
"""Reason of the pods of a node that its controller no longer hears of."""
_KINDS = frozenset(kind for kind in KINDS if not kind.startswith("prober."))
"""Probes put no container into a state of waiting, and are most of all records."""


class SeenPod(msgspec.Struct):
    """What records say of a pod.

    Attributes:
        since_ts_ns: its creation, or the first record about it.
        waiting: container -> reason for which it cannot be started, see ``print_pod``.
        inits, sidecars: init containers, in their order; those that run beside the others.
        ends: ID of a container -> the reason that its status gives for its end.
        unready: IDs of containers that run, and are not ready by their newest status.
        leaving: what a list shows of a pod that is deleted, see ``print_pod``.
        is_bare: its spec names no container.
    """

    since_ts_ns: int
    waiting: dict[str | None, str] = {}
    inits: list[str] = []
    sidecars: set[str] = set()
    ends: dict[str, str] = {}
    unready: set[str] = set()
    leaving: Literal["", "Terminating", "Unknown"] = ""
    is_bare: bool = False

    def take(self, body: PodListed) -> None:
        """What a list shows, and no other record."""
        if body.deletion_ts_ns is not None:
            is_lost = (body.status or {}).get("reason") == _NODE_LOST
            self.leaving = "Unknown" if is_lost else "Terminating"
        self.is_bare = body.spec is not None and not [*objects_of(body.spec.get("containers"))]
        inits = {str(each.get("name")): each for each in objects_of((body.spec or {}).get(_INITS))}
        self.inits = [*inits] or self.inits
        self.sidecars |= {
            name for name, each in inits.items() if each.get("restartPolicy") == "Always"
        }
        for status in statuses_in(body.status):
            container_id, shown = bare_id(status.get("containerID")), status.get("state")
            runs = isinstance(shown, dict) and "running" in shown
            if runs and status.get("ready") is False:
                self.unready.add(container_id)
            else:
                self.unready.discard(container_id)
        for each in instances_in(body.status):
            if each.state == "terminated" and isinstance(reason := each.shown.get("reason"), str):
                self.ends[each.container_id] = reason


def seen_of(state: NodeState, records: Records) -> dict[str, SeenPod]:
    """Key of each of the state's pods -> what its records say.

    A pod that a kubelet did not speak of leaves the state, and comes back when the next one does:
    its age goes on.
    """
    seen = {key: SeenPod(pod.since_ts_ns) for key, pod in state.lifecycle.pods.items()}
    stages = PodStages()
    for record in records(_KINDS):
        stages.take(record)
        body: Any = record.body
        about = seen.get(body.pod_uid or f"{body.namespace}/{body.pod}")
        if about is None:
            continue
        about.since_ts_ns = min(about.since_ts_ns, record.ts_ns)
        if isinstance(body, PodListed | PodStarted):
            about.since_ts_ns = min(about.since_ts_ns, body.created_ts_ns or record.ts_ns)
        if isinstance(body, PodListed):
            about.take(body)
    _add_waiting(seen, stages.episodes())
    return seen


def _add_waiting(seen: dict[str, SeenPod], episodes: Iterable[StageEpisode]) -> None:
    for each in sorted(episodes, key=lambda each: each.last_ts_ns):
        about = seen.get(each.pod_uid or "") or seen.get(f"{each.namespace}/{each.pod}")
        if about is None or not each.is_open:
            continue
        if failure_of_waiting(each.reason, "") is not None:
            about.waiting[each.container] = each.reason
        elif each.stage not in OF_CONTAINER and order_of(each.stage) < order_of("image"):
            about.waiting.setdefault(None, CREATING)
