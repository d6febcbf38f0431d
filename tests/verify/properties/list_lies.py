"""Lies told in a recorded node's lists and settings, and in the order of its lines.

Where :mod:`~tests.verify.properties.raw_lies` changes what tells of a decision, these change what
it rests on: the pod, the settings, what was read before, and when it came. The decision itself
stands as it was, and cannot have been right then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.images import EvictionSignalObserved, ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodRejected,
    RestartBackedOff,
)
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.units import NS_PER_S, format_ts, parse_ts
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.pods import ListedPod, PodRegister
from tests.verify.properties.raw_lies import Bundle, Edits, Liar, RawLie, subjects

Json = dict[str, Any]
Change = Callable[[Json, Any], bool]
"""Changes a pod of a list; gives whether it did. The other is the body that it is about."""


# -- lists -----------------------------------------------------------------------------------------


def lists_of(bundle: Bundle, uid: str) -> Iterator[tuple[str, Json, Json]]:
    """File, its content and a pod in it, of each list that has the pod."""
    for path in sorted(bundle.path.rglob("pods.json")):
        text = path.read_bytes()
        if uid.encode() in text:
            held = json.loads(text)
            mine = (pod for pod in held.get("items") or () if uid in str(pod["metadata"]))
            for pod in mine:
                yield str(path.relative_to(bundle.path)), held, pod


def rewritten(bundle: Bundle, file: str, *documents: Any) -> Edits:  # noqa: ANN401 # any JSON
    """Another JSON in a file, or several."""
    edits: Edits = dict.fromkeys((file, n) for n in range(1, len(bundle.lines(file))))
    return edits | {(file, 0): "\n".join(map(json.dumps, documents)).encode()}


def shown_otherwise(kinds: tuple[type, ...], change: Change, *, who: str = "pod_uid",
              once: bool = False) -> Liar:  # fmt: skip
    """All lists, or ``once`` only one, show something else of the pod of a decision."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        told = set[str]()
        for record in bundle.some(random, *kinds):
            uid = getattr(record.body, who, None)
            if uid is None or uid in told:
                continue
            edits: Edits = {}
            for file, held, pod in lists_of(bundle, uid):
                if not (once and edits) and change(pod, record.body):
                    edits |= rewritten(bundle, file, held)
            if edits:
                told.add(uid)
                yield RawLie(f"{record.seq}", edits, subjects(record.body))

    return liar


def _containers(pod: Json, body: Any) -> list[Json]:  # noqa: ANN401 # of a container, or a pod
    name = getattr(body, "container", None)
    spec = pod["spec"]
    each = [*spec.get("initContainers", ()), *spec["containers"]]
    return [container for container in each if name in (None, container["name"])]


def _never(pod: Json, body: ContainerRestarted) -> bool:
    own = {container["name"] for container in pod["spec"]["containers"]}
    always = pod["spec"].get("restartPolicy") == "Always"
    changes = body.reason == "exited" and always and body.container in own
    pod["spec"]["restartPolicy"] = "Never"
    return changes


def _well_ended(pod: Json, body: RestartBackedOff) -> bool:
    own = {container["name"] for container in pod["spec"]["containers"]}
    ends = [state for state in _states(pod) if "exitCode" in state]
    for state in ends:
        state |= {"exitCode": 0, "reason": "Completed"}
    pod["spec"]["restartPolicy"] = "OnFailure"
    return body.container in own and bool(ends)


def _threshold(pod: Json, body: ProbeTransitioned) -> bool:
    probe = _containers(pod, body)[0].get(f"{body.probe_type}Probe")
    if probe is None or body.to_result != "failure" or body.threshold is None:
        return False
    probe["failureThreshold"] = body.threshold + 2
    return True


def _grace(pod: Json, body: ContainerKilled) -> bool:
    if body.grace_period_s is None or body.reason in ("evicted", "pod_deleted", "node_shutdown"):
        return False  # which is given with it
    pod["spec"]["terminationGracePeriodSeconds"] = body.grace_period_s + 7
    return True


def _request(pod: Json, body: PodAdmitted) -> bool:
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    for name in ("requests", "limits"):
        resources[name] = {**resources.get(name, {}), "cpu": "900"}
    return True


def _limit(pod: Json, body: CgroupUpdated) -> bool:
    """Asked for and given; or it would be a resize that waits."""
    found = False
    for each in (*pod["spec"]["containers"], *pod.get("status", {}).get("containerStatuses", ())):
        limits = (each.get("resources") or {}).get("limits", {})
        if "cpu" in limits and body.cpu_quota_us not in (None, -1):
            limits["cpu"], found = "7", True
    return found


def _states(pod: Json) -> Iterator[Json]:
    for status in pod.get("status", {}).get("containerStatuses", ()):
        yield from (*status.get("state", {}).values(), *status.get("lastState", {}).values())


def _count(pod: Json, body: ContainerRestarted) -> bool:
    found = False
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if (body.container_id or "-") in status.get("containerID", ""):
            status["restartCount"], found = status["restartCount"] + 3, True
    return found


def _shown(other: Callable[[Any], Any], *path: str) -> Change:
    """What a pod's status, or its containers', shows at a path is another; None: it stays."""

    def change(pod: Json, body: Any) -> bool:  # noqa: ANN401 - any body
        found = False
        *above, last = path
        for shown in (pod.get("status", {}), *pod.get("status", {}).get("containerStatuses", ())):
            for step in above:
                shown = shown.get(step) or {}
            if shown.get(last) is not None and (after := other(shown[last])) is not None:
                shown[last], found = after, True
        return found

    return change


def _later(seconds: int) -> Callable[[str], str]:
    return lambda text: f"{format_ts(parse_ts(text) + seconds * NS_PER_S)[:19]}Z"


def _other_id(text: str) -> str | None:
    return f"{text[:-4]}beef" if re.search("[0-9a-f]{64}$", text) else None


def _other_code(code: int) -> int:
    return 0 if code else 3


def _other_class(told: str) -> str:
    return {"Burstable": "BestEffort"}.get(told, "Burstable")


_AT = "terminated", "finishedAt"
_FIELDS: dict[str, Change] = {
    "container's ID": _shown(_other_id, "containerID"),
    "image's ID": _shown(_other_id, "imageID"),
    "start of a container": _shown(_later(20), "state", "running", "startedAt"),
    "earlier start of a container": _shown(_later(-600), "state", "running", "startedAt"),
    "end of a container": _shown(_later(20), "state", *_AT),
    "earlier end of a container": _shown(_later(-20), "state", *_AT),
    "end of the container before": _shown(_later(-20), "lastState", *_AT),
    "exit code before": _shown(
        lambda code: 0 if code else 3, "lastState", "terminated", "exitCode"
    ),
    "readiness": _shown(lambda ready: not ready, "ready"),
    "started": _shown(lambda started: not started, "started"),
    "restart count": _shown(lambda count: count + 1, "restartCount"),
    "QoS class": _shown(
        lambda told: {"Burstable": "BestEffort"}.get(told, "Burstable"), "qosClass"
    ),
    "phase": _shown(lambda phase: {"Running": "Succeeded"}.get(phase, "Running"), "phase"),
    "start of a pod": _shown(_later(90), "startTime"),
}
"""Field of a pod's status -> who changes it."""


def _refusal(pod: Json, body: PodRejected) -> bool:
    status = pod.get("status", {})
    if status.get("reason") != body.reason:
        return False
    status["reason"] = "OutOfexample.com/other"
    return True


def _without_priority(pod: Json, body: PodPreempted) -> bool:
    changes = int(pod["spec"].get("priority", 0)) > 0
    pod["spec"] |= {"priority": 0, "priorityClassName": ""}
    return changes


def _critical(pod: Json, body: PodEvicted) -> bool:
    pod["spec"] |= {"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}
    return True


# -- settings --------------------------------------------------------------------------------------


def _set(kinds: tuple[type, ...], pattern: bytes, value: bytes) -> Liar:
    """Every file that has a setting has another value, which denies some of the decisions."""
    form = re.compile(pattern)

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        decided = bundle.some(random, *kinds)
        names = ("kubelet-config.yaml", "configz.json", "kubelet.log")
        edits: Edits = {}
        for path in sorted(path for name in names for path in bundle.path.rglob(name)):
            file = str(path.relative_to(bundle.path))
            for n, line in enumerate(bundle.lines(file)):
                if (after := form.sub(value, line)) != line:
                    edits[file, n] = after
        if edits and decided:
            yield RawLie(value.decode(), edits, ("node", "pod/", "container/"))

    return liar


# -- what was read before ------------------------------------------------------------------------


def _without_pressure(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A pod is evicted though much memory was there before and after."""
    signals = [r for r in bundle.of(EvictionSignalObserved) if "emory.available" in r.body.signal]
    for record in bundle.some(random, PodEvicted):
        if "memory" not in record.body.message:
            continue
        edits: Edits = {}
        for each in signals:
            if abs(each.ts_ns - record.ts_ns) < 60 * NS_PER_S:
                edits |= bundle.said(each, r"available(=\"|: )(\d+)Ki", r"available\g<1>\g<2>000Ki")
        if edits:
            yield RawLie(f"{record.seq}", edits, ("node", "pod/"))


def _in_use(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """Another image is removed: one that a pod runs on."""
    text = b"".join(path.read_bytes() for path in bundle.path.rglob("pods.json"))
    used = sorted(set(re.findall(rb'"imageID": ?"[^"]*?(sha256:[0-9a-f]{64})"', text)))
    for record in bundle.some(random, ImageDeleted):
        others = [each.decode() for each in used if each.decode() != record.body.image_id]
        if others and record.body.image_id:
            other = random.choice(others)
            edits = bundle.said(record, re.escape(record.body.image_id), other)
            if edits:
                yield RawLie(f"{record.seq} {other[:20]}", edits, ("node", "image/"))


# -- order -----------------------------------------------------------------------------------------


def _outlived(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A container ends minutes after it was killed, whatever its grace period."""
    died = {r.body.container_id: r for r in bundle.of(ContainerDied)}
    for record in bundle.some(random, ContainerKilled):
        end = died.get(record.body.container_id)
        if end is not None and 0 < end.ts_ns - record.ts_ns < 40 * NS_PER_S:
            by = random.choice((400, 900))
            if end.ts_ns + by * NS_PER_S > bundle.records[-1].ts_ns:
                continue
            edits = bundle.at(by, end)
            for file, held, pod in lists_of(bundle, record.body.pod_uid or "-"):
                if _ended_later(pod, record.body.container_id, by):
                    edits |= rewritten(bundle, file, held)
            yield RawLie(f"{record.seq} {by:+}", edits, subjects(record.body))


def _ended_later(pod: Json, container_id: str, seconds: float) -> bool:
    found = False
    for state in _states(pod):
        if container_id in state.get("containerID", "") and "finishedAt" in state:
            ended_ns = parse_ts(state["finishedAt"]) + round(seconds * NS_PER_S)
            state["finishedAt"], found = f"{format_ts(ended_ns)[:19]}Z", True
    return found


def _main_first(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A main container starts before its pod's init container."""
    register = PodRegister()
    for record in bundle.records:
        if record.kind == "lifecycle.PodListed":
            register.note(record)
    register.settle()
    added = {r.body.pod_uid: r.ts_ns for r in bundle.of(PodConfigChanged)
             if r.body.operation == "ADD"}  # fmt: skip
    starts = [r for r in bundle.of(ContainerStarted) if not r.body.sandbox and r.body.container]
    for record in random.sample(starts, len(starts)):
        listed = register.at(record.ts_ns, record.body.pod_uid)
        first = next((r for r in starts if r.body.pod_uid == record.body.pod_uid), None)
        if first is None or first is record or not _has_init(listed, first.body.container):
            continue
        if _has_init(listed, record.body.container) or record.ts_ns - first.ts_ns > 600 * NS_PER_S:
            continue
        by = (first.ts_ns - record.ts_ns) / NS_PER_S - 5
        if added.get(record.body.pod_uid, first.ts_ns) > first.ts_ns - 5 * NS_PER_S:
            continue
        if edits := bundle.at(by, record):
            yield RawLie(f"{record.seq}", edits, subjects(record.body))


def _has_init(listed: ListedPod | None, name: str) -> bool:
    specs = versions_of(() if listed is None else (listed,))
    return any(c.name == name for spec in specs for c in spec.spec.init_containers or ())


def _exchanged(*kinds: type) -> Liar:
    """Two decisions about different pods change places."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        found = bundle.some(random, *kinds)
        for one, other in zip(found[::2], found[1::2], strict=False):
            apart = (other.ts_ns - one.ts_ns) / NS_PER_S
            edits = bundle.at(apart, one) | bundle.at(-apart, other)
            if abs(apart) > 30 and subjects(one.body) != subjects(other.body) and edits:
                about = (*subjects(one.body), *subjects(other.body))
                yield RawLie(f"{one.seq} {other.seq}", edits, about)

    return liar


def _hours_off(*kinds: type) -> Liar:
    """The lines of a decision have stamps of hours before or after, within the log."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        for record in bundle.some(random, *kinds):
            by = random.choice((-7200, -3600, -900, 900, 3600, 7200))
            first, last = bundle.records[0].ts_ns, bundle.records[-1].ts_ns
            is_within = first < record.ts_ns + by * NS_PER_S < last
            if is_within and (edits := bundle.at(by, record)):
                yield RawLie(f"{record.seq} {by:+}", edits, subjects(record.body))

    return liar


def _again(kind: type, seconds: float) -> Liar:
    """The lines of a decision stand a second time, later."""

    def liar(bundle: Bundle, random: Random) -> Iterator[RawLie]:
        for record in bundle.some(random, kind):
            edits: Edits = {}
            for (file, n), line in bundle.at(seconds, record).items():
                lines = bundle.lines(file)
                stamp = (line or b"")[5:21]
                later = (k for k in range(n, len(lines)) if lines[k][5:21] > stamp)
                place = file, next(later, len(lines) - 1)
                after = edits.get(place) or lines[place[1]]
                edits[place] = (line or b"") + b"\n" + after
            if edits:
                yield RawLie(f"{record.seq}", edits, subjects(record.body))

    return liar


def _while_another_runs(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """The next instance of a container starts before the one before has ended."""
    died = {r.body.container_id: r for r in bundle.of(ContainerDied)}
    starts = {r.body.container_id: r for r in bundle.of(ContainerStarted)}
    for record in bundle.some(random, ContainerRestarted):
        before_id = record.body.previous_container_id
        end, before, start = died.get(before_id), starts.get(before_id), starts.get(
            record.body.container_id
        )  # fmt: skip
        if end is None or start is None or before is None:
            continue
        if end.ts_ns - before.ts_ns < 30 * NS_PER_S:
            continue
        by = (end.ts_ns - start.ts_ns) / NS_PER_S - 15
        if edits := bundle.at(by, start):
            yield RawLie(f"{record.seq}", edits, subjects(record.body))


LIST_LIARS: dict[str, Liar] = {
    **{
        f"{name} in a list": shown_otherwise((ContainerStarted,), change, once=True)
        for name, change in _FIELDS.items()
    },
    **{
        f"{name} in lists": shown_otherwise((PodAdmitted,), change)
        for name, change in _FIELDS.items()
    },
    "restart under Never": shown_otherwise((ContainerRestarted,), _never),
    "restart after success": shown_otherwise((RestartBackedOff,), _well_ended),
    "threshold of a probe in lists": shown_otherwise((ProbeTransitioned,), _threshold),
    "grace period in lists": shown_otherwise((ContainerKilled,), _grace),
    "request in lists": shown_otherwise((PodAdmitted,), _request),
    "CPU limit in lists": shown_otherwise((CgroupUpdated,), _limit),
    "three restarts more in a list": shown_otherwise((ContainerRestarted,), _count, once=True),
    "refusal's reason in lists": shown_otherwise((PodRejected,), _refusal),
    "preemptor without priority": shown_otherwise(
        (PodPreempted,), _without_priority, who="preemptor_uid"
    ),
    "critical pod evicted": shown_otherwise((PodEvicted,), _critical),
    "eviction threshold in settings": _set(
        (PodEvicted,), rb'(memory\.available"?: ?")\d+Mi', rb"\g<1>1Mi"
    ),
    "more pods than settings allow": _set((PodAdmitted,), rb'(maxPods"?: ?)\d+', rb"\g<1>3"),
    "evicted without pressure": _without_pressure,
    "image in use removed": _in_use,
    "outlived its kill": _outlived,
    "main before init": _main_first,
    "two kills exchanged": _exchanged(ContainerKilled),
    "two refusals exchanged": _exchanged(PodRejected),
    "two back-offs exchanged": _exchanged(RestartBackedOff),
    "hours off": _hours_off(
        ContainerKilled, PodEvicted, PodPreempted, RestartBackedOff, ContainerRestarted
    ),
    "killed twice": _again(ContainerKilled, 90),
    "evicted twice": _again(PodEvicted, 90),
    "preempted twice": _again(PodPreempted, 45),
    "started while another runs": _while_another_runs,
}
"""What is changed -> who tells it."""
