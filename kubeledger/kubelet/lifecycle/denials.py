"""Where a pod's status denies itself, or the spec beside it.

The kubelet writes a status as a whole, from one look at the runtime and at the results of probes:
some of its parts go with each other in every version. The API server keeps the containers'
statuses and conditions as they are; what others may write (phase Failed, the condition Ready),
and what comes between two looks (a probe's result of a container that just ended), is no part here.

Source: v1.35.6 pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses, getPhase;
    prober/prober_manager.go UpdatePodStatus; status/generate.go; pkg/apis/core/v1/helper/qos
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.pod import Pod, PodSpec
from kubeledger.kubelet.kube.podclass import CONFIG_MIRROR, CONFIG_SOURCE, pod_qos
from kubeledger.kubelet.kube.statuses import (
    ALWAYS,
    LOST_EXIT_CODE,
    NEVER,
    bare_id,
    instances_in,
    objects_of,
    statuses_in,
    time_in,
)
from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S, format_ts

_UNKNOWN: Final = "ContainerStatusUnknown"
"""Of a container that is not there any more when its pod ends: the rest of its status stays."""
_SLACK_NS: Final = 2 * NS_PER_S
_CALL_NS: Final = 600 * NS_PER_S
"""A runtime takes down a start when it is over: what ended at once has ended before that."""
_Json = Mapping[str, Any]


class Denial(NamedTuple):
    """Two parts of one status that no kubelet writes together.

    Attributes:
        container: whose; None for the pod's.
        one, other: what each says.
        since_ns: a clock that was set back since then explains it; None where no clock does.
    """

    container: str | None
    one: str
    other: str
    since_ns: int | None = None


def denials(body: PodListed) -> Iterator[Denial]:
    """All that a list's entry shows, in the order of the status; none of a manifest's.

    A mirror may have the spec of the manifest before. Of a static pod in the kubelet's own list
    nobody else writes the status, and nothing delays the end of its phase.
    """
    spec, status = body.spec or {}, body.status or {}
    own = {str(each.get("name")): each for each in objects_of(spec.get("containers"))}
    inits = {str(each.get("name")): each for each in objects_of(spec.get("initContainers"))}
    if not own or CONFIG_MIRROR in body.annotations:
        return
    shown = list(objects_of(status.get("containerStatuses")))
    for kind, specs in (("initContainerStatuses", inits), ("containerStatuses", own)):
        for entry in objects_of(status.get(kind)):
            name = str(entry.get("name"))
            for one, other in _of_container(specs.get(name), entry, is_init=specs is inits):
                yield Denial(name, one, other)
    names = {str(entry.get("name")) for entry in shown}
    for name in sorted(own.keys() - names) if names else ():
        yield Denial(None, f"statuses of containers {', '.join(sorted(names))}", f"spec of {name}")
    yield from _of_order(spec, status, own, inits)
    yield from _of_pod(spec, status, shown, has_init=bool(inits))
    yield from _of_class(spec, status)
    yield from _of_times(body)
    if _is_static(body) and body.listed_by == "kubelet":
        yield from _of_phase(spec, status, shown, names=own.keys() | inits.keys())


def _of_container(spec: _Json | None, entry: _Json, *, is_init: bool) -> Iterator[tuple[str, str]]:
    if spec is None:
        yield "a container's status", "no such container in the spec"
        return
    state, at = _state(entry, "state")
    _, last = _state(entry, "lastState")
    if state == "terminated" and at.get("reason") == _UNKNOWN:
        return
    runs, code = state == "running", at.get("exitCode")
    ready, started = entry.get("ready"), entry.get("started")
    # Kubelets before 1.28 take a sidecar for an init container as any other.
    is_sidecar = is_init and spec.get("restartPolicy") == ALWAYS
    if is_init and not is_sidecar and ready and (runs or code):
        yield "ready", "an init container that has not ended well"
    if not is_init and state and not runs and ready and not spec.get("readinessProbe"):
        yield "ready", f"it is {state}"
    if state and not runs and started and not spec.get("startupProbe"):
        yield "started", f"it is {state}"
    if runs and started is False and not is_init and not spec.get("startupProbe"):
        yield "not started", "running, without a startup probe"
    if runs and started and ready is False and not is_init and not _is_probed(spec):
        yield "not ready", "running, without a probe"
    present, ended, before = (bare_id(each.get("containerID")) for each in (entry, at, last))
    if ended and present and ended != present:
        yield f"container {present}", f"the state of container {ended}"
    if before and before == (present if runs else ended):
        yield f"it is {state}", f"it ended before, as the same container {before}"
    elif before and (runs or ended) and entry.get("restartCount") == 0:
        yield "restartCount 0", f"container {before} before it"
    if at.get("reason") == "CrashLoopBackOff" and _is_first(entry):
        yield "CrashLoopBackOff", "no end before it"
    for each in (at, last):
        reason, code = each.get("reason"), each.get("exitCode")
        if (reason == "Completed" and code) or (reason == "Error" and code == 0):
            yield f"reason {reason}", f"exitCode {code}"


def _of_order(
    spec: _Json, status: _Json, own: Mapping[str, _Json], inits: Mapping[str, _Json]
) -> Iterator[Denial]:
    """Nothing of the pod starts after an init container that failed for good.

    Only a sandbox made anew lets a container have started before, and that of a pod that may not
    start again never is.
    """
    if any(each.get("restartPolicyRules") for each in (*inits.values(), *own.values())):
        return
    for entry in objects_of(status.get("initContainerStatuses")):
        name, (_, at) = str(entry.get("name")), _state(entry, "state")
        policy = inits.get(name, {}).get("restartPolicy") or spec.get("restartPolicy")
        is_lost = at.get("exitCode") == LOST_EXIT_CODE or at.get("reason") == _UNKNOWN
        over_ns = time_in(at, "finishedAt")
        if policy != NEVER or is_lost or over_ns is None or not at.get("exitCode"):
            continue
        shown = objects_of(status.get("containerStatuses"))
        for other, field in product(shown, ("state", "lastState")):
            began_ns = time_in(_state(other, field)[1], "startedAt")
            if began_ns is not None and began_ns >= over_ns:
                one = f"it started at {format_ts(began_ns)}"
                failed = f"init container {name} had failed"
                since_ns = None if spec.get("restartPolicy") == NEVER else over_ns
                yield Denial(str(other.get("name")), one, failed, since_ns)


def _of_times(body: PodListed) -> Iterator[Denial]:
    """A pod begins, then its containers, one instance after another.

    A static pod may come anew under its UID while containers of the one before still end.
    """
    is_static = _is_static(body) or CONFIG_MIRROR in body.annotations
    since = None if is_static else time_in(body.status or {}, "startTime")
    before: dict[str, int] = {}
    for each in instances_in(body.status):
        began, ended = each.time("startedAt"), each.time("finishedAt")
        last = None if is_static else before.get(each.name)
        start, end = (f"container {each.container_id} {what}" for what in ("began", "ended"))
        turns = (
            ("the pod began", since, start, began, _SLACK_NS),
            ("the instance before ended", last, start, began, _SLACK_NS),
            (start, began, end, ended, _CALL_NS),
        )
        for first, first_ns, later, ns, slack_ns in turns:
            if first_ns is not None and ns is not None and first_ns > ns + slack_ns:
                one, other = f"{first} at {format_ts(first_ns)}", f"{later} at {format_ts(ns)}"
                yield Denial(each.name, one, other, since_ns=ns)
        if ended is not None and each.shown.get("exitCode") != LOST_EXIT_CODE:
            before[each.name] = ended


def _is_probed(spec: _Json) -> bool:
    """Only the next sync makes ready what a startup probe found started."""
    return bool(spec.get("readinessProbe") or spec.get("startupProbe"))


def _of_pod(
    spec: _Json, status: _Json, shown: list[dict[str, Any]], *, has_init: bool
) -> Iterator[Denial]:
    given = {each.get("type"): each for each in objects_of(status.get("conditions"))}
    ready, whole = (given.get(each, {}) for each in ("ContainersReady", "Ready"))
    phase, sees = status.get("phase"), ready.get("status")
    unready = [each for each in shown if each.get("ready") is False]
    is_ready = shown and all(each.get("ready") for each in shown)
    says = f"condition ContainersReady is {sees}"
    if sees == "True" and unready:
        yield Denial(str(unready[0].get("name")), "not ready", says)
    sidecars = (each.get("restartPolicy") for each in objects_of(spec.get("initContainers")))
    is_denied = ready.get("reason") == "ContainersNotReady" and ALWAYS not in sidecars
    if is_denied and is_ready:
        yield Denial(None, "all containers are ready", f"{says}: ContainersNotReady")
    if whole.get("status") == "True" and sees == "False":
        yield Denial(None, "condition Ready is True", says)
    if phase == "Pending" and sees == "True" and not has_init:
        yield Denial(None, "phase Pending", says)
    for entry in shown if phase in ("Succeeded", "Running") else ():
        state, at = _state(entry, "state")
        name, reason = str(entry.get("name")), at.get("reason")
        if phase == "Running" and state == "waiting" and _is_first(entry):
            yield Denial(name, "phase Running", "a container that never ran")
        code = at.get("exitCode") if reason != _UNKNOWN else None
        if phase == "Succeeded" and (state == "running" or code):
            yield Denial(name, "phase Succeeded", f"exitCode {code}" if code else "it is running")


def _of_phase(
    spec: _Json, status: _Json, shown: list[dict[str, Any]], *, names: Collection[str]
) -> Iterator[Denial]:
    """Without a reason (an eviction, a deadline, a shutdown) phases follow from the containers."""
    phase, states = status.get("phase"), {_state(each, "state")[0] for each in shown}
    if phase == "Failed" and "running" in states and not status.get("reason"):
        yield Denial(None, "phase Failed", "a container that runs")
    has_own = any(each.get("restartPolicy") for each in objects_of(spec.get("containers")))
    is_never = spec.get("restartPolicy") == NEVER and not has_own and len(names) == len(shown)
    if phase == "Running" and is_never and states == {"terminated"}:
        yield Denial(None, "phase Running", "all containers have ended, and are not restarted")


def _of_class(spec: _Json, status: _Json) -> Iterator[Denial]:
    """The class is that of what the pod was made with; a resize keeps it."""
    told = status.get("qosClass")
    if not all("resources" in each for each in objects_of(spec.get("containers"))):
        return  # the API writes them of each container, if only as ``{}``
    try:
        pod = Pod(spec=msgspec.convert(spec, PodSpec))
        known = [pod_qos(pod, status_wins=False, pod_level=each) for each in (False, True)]
    except (msgspec.ValidationError, BadInputError):
        return
    if told is not None and told not in known:
        yield Denial(None, f"qosClass {told}", f"resources of class {known[1]}")


def _state(entry: _Json, field: str) -> tuple[str, _Json]:
    """The one state that is set, and what it says."""
    states = entry.get(field)
    for state, shown in states.items() if isinstance(states, dict) else ():
        if isinstance(shown, dict):
            return str(state), shown
    return "", {}


def _is_first(entry: _Json) -> bool:
    """No instance ended before. The API writes that as ``{}``: without the key it was left out."""
    return "lastState" in entry and not _state(entry, "lastState")[1]


_FIXED: Final = (
    *("hostNetwork", "nodeName", "preemptionPolicy", "priority", "priorityClassName"),
    *("runtimeClassName", "schedulerName", "serviceAccountName"),
)
"""Fields of a spec that are set once; the API server lets nobody change them."""


class Lasting(NamedTuple):
    """What stays as it is (texts), or only rises (a number), while a pod lives.

    Attributes:
        kind: of fact.
        container: whose; None for the pod's.
        of: the life that it belongs to: a pod's, or a container's ID.
        value: None where it is not told; ``shown`` is what a list says of it.
    """

    kind: str
    container: str | None
    of: str
    value: tuple[str | None, ...] | int | None
    shown: object


def lasting(body: PodListed) -> Iterator[Lasting]:
    """The facts of a list's entry that go on in later ones of the same source.

    A static pod may come anew under its UID, and goes on after a restart. A runtime that loses
    all of a container's instances makes the kubelet count from 0 again, and of what it had lost
    nothing is sure.
    """
    if not (status := body.status):
        return
    by = f", by the {body.listed_by}"
    life = f"{body.pod_uid} since {status.get('startTime')}{by}"
    phase, deleted = status.get("phase"), int(body.deletion_ts_ns is not None)
    ended = None if _is_static(body) or not phase else int(phase in TERMINAL_PHASES)
    for field in () if _is_static(body) else _FIXED:
        if (value := (body.spec or {}).get(field)) is not None:
            yield Lasting("spec", None, f"{field} of {body.pod_uid}{by}", (str(value),), value)
    if "startTime" in status:  # else it may be another life
        yield Lasting("phase", None, life, ended, phase)
        yield Lasting("deletionTimestamp", None, life, deleted, body.deletion_ts_ns)
    since = time_in(status, "startTime")
    yield Lasting("startTime", None, f"{body.pod_uid}{by}", since, life)
    if body.created_ts_ns is not None:
        made = format_ts(body.created_ts_ns)
        yield Lasting("creationTimestamp", None, str(body.pod_uid), (made,), made)
    for entry in statuses_in(status):
        count, name = entry.get("restartCount"), str(entry.get("name"))
        of, image = bare_id(entry.get("containerID")), str(entry.get("imageID") or "")
        if of and image.startswith("sha256:"):  # a digest is that of one of the image's names
            yield Lasting("image", name, of, (image,), image)
        yield Lasting("restarts", name, life, (isinstance(count, int) and count) or None, count)
    for each in instances_in(status):
        of, shown = each.container_id, each.shown
        restarts, began = each.restart_count, each.time("startedAt")
        if began is not None and restarts is not None:
            start = f"{body.pod_uid}, restart {restarts} at {format_ts(began)}"
            yield Lasting("containerID", each.name, start, (of,), of)
        facts = {"restartCount": restarts, "startedAt": began}
        is_over = each.state == "terminated" or shown.get("reason") == "CrashLoopBackOff"
        if shown.get("exitCode") != LOST_EXIT_CODE and shown.get("reason") != _UNKNOWN:
            if is_over or each.state == "running":
                yield Lasting("state", each.name, f"{of}{by}", int(is_over), each.state)
            facts |= {"finishedAt": each.time("finishedAt"), "exitCode": shown.get("exitCode")}
        for kind, value in facts.items():
            if value is not None:
                text = format_ts(value) if kind.endswith("At") else str(value)
                yield Lasting(kind, each.name, of, (text,), text)
        yield Lasting("name", None, of, (each.name,), each.name)


def _is_static(body: PodListed) -> bool:
    return body.annotations.get(CONFIG_SOURCE) in ("file", "http")


def differences(given: object, used: object, what: str = "") -> Iterator[tuple[str, str, str]]:
    """Where a list lacks what a manifest gives, and what each says; the kubelet fills in the rest.

    A zero is as good as nothing, and gets the default; but no probe is filled in.
    """
    if isinstance(given, dict) and isinstance(used, dict):
        for name, value in given.items():
            yield from differences(value, used.get(name), f"{name} of {what}" if what else name)
    elif isinstance(given, list) and isinstance(used, list) and what.lower().endswith("containers"):
        by_name = {container["name"]: container for container in used}
        for container in given:
            name = container["name"]
            yield from differences(container, by_name.get(name), f"container {name}")
    elif given != used and (given or isinstance(used, dict)):
        yield what, _says(given), _says(used)


def _says(value: object) -> str:
    return "there" if isinstance(value, dict) else "missing" if value is None else str(value)
