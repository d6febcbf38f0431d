"""Occurrences of what goes wrong, one row each: :data:`~.told.Row`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kubeledger.analyze.problems.told import Row, Told, whole_us
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.model.bodies import eviction, images, ledger, lifecycle, node, prober
from kubeledger.model.patterns import regex
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import APART_NS, APART_OF_NS, TroubleEpisode
from kubeledger.replay.episodes.pod_stages import StageEpisode

HARMLESS_S = 30
"""Pods that waited no longer, and a node that was not ready so long, did nobody harm."""
NOT_ASKED_YET = "container runtime status check may not have completed yet"
"""Why no pod is synchronized by a kubelet that has just started."""
SILENT_MIN = 5
"""A kubelet says more often what goes on: mounts are tried every two minutes, pulls waited for."""
VALUES = regex(r'"[^"]*"|[0-9a-f-]*[0-9][0-9a-f-]*')
"""What alike messages differ in."""

_HARMLESS_NS = HARMLESS_S * NS_PER_S
_MINUTE_NS = 60 * NS_PER_S
_NO_STATS = regex(r"^(failed to get( imageFs info| image stats|$)|invalid capacity 0)")
"""How image GC fails before there are statistics of the disk."""
_NEVER = "pleg was last seen active 2562047h"
"""As kubelets up to 1.18 say it."""
_DIGITS = regex(r"[0-9]+")

Rows = Callable[[Told], Iterable[Row]]
"""Gives the occurrences of one kind."""


def _row(at: Any, **said: object) -> dict[str, Any]:  # noqa: ANN401 # a record or an episode
    return {"seq": at.seq, "ts_ns": whole_us(at.ts_ns), **said}


def slashed(*names: str | None) -> str:
    """Names that are known, as in ``default/web/app``."""
    return "/".join(name for name in names if name is not None)


def _pod(body: Any) -> str:  # noqa: ANN401 # of a pod
    return slashed(body.namespace, body.pod)


def _container(body: Any) -> str:  # noqa: ANN401 # of a container
    return slashed(body.namespace, body.pod, body.container)


def _uid_and_container(body: Any) -> tuple[str, str] | None:  # noqa: ANN401 # of a container
    known = body.pod_uid is not None and body.container is not None
    return (body.pod_uid, body.container) if known else None


def of(body: type[Body], say: Callable[[Any], dict[str, object]]) -> Rows:
    """All records of a kind, and what each of them says."""
    return lambda told: (_row(record, **say(each)) for record, each in told.bodies(body))


# --- the node -----------------------------------------------------------------------------


def not_ready(told: Told) -> Iterator[Row]:
    """Not those that a start or a shutdown brings along."""
    starts = [record.ts_ns for record in told.of(node.KubeletStarted)]
    shutdowns = [record.ts_ns for record in told.of(node.ShutdownProgressed)]
    for each in told.conditions:
        begin_ns, until_ns = each.ts_ns, each.until_ts_ns
        if each.condition != "Ready" or each.status == "True":
            continue
        is_brief = until_ns is not None and until_ns - begin_ns < _HARMLESS_NS
        if is_brief and any(begin_ns - _MINUTE_NS <= ts <= (until_ns or 0) for ts in starts):
            continue
        if any(abs(ts_ns - begin_ns) <= _MINUTE_NS for ts_ns in shutdowns):
            continue
        said, is_open = each.message, until_ns is None
        yield _row(
            each,
            subject="node",
            cause=each.reason if said is None else _DIGITS.sub("#", said),
            message=each.reason if said is None else said,
            is_open=is_open,
            lasted_ns=0 if until_ns is None else whole_us(until_ns) - whole_us(begin_ns),
        )


def pressure(told: Told) -> Iterator[Row]:
    """Conditions other than ``Ready``."""
    for each in told.conditions:
        if each.condition != "Ready" and each.status == "True":
            yield _row(each, subject=each.condition)


def kubelet_deaths(told: Told) -> Iterator[Row]:
    """Those that nobody asked for."""
    for record, body in told.bodies(node.KubeletExited):
        if body.reason != "stopped":
            said = {"message": body.message, "pid": body.pid}
            yield _row(record, subject="kubelet", exit_seq=record.seq, **said)


def kubelet_restarts(told: Told) -> Iterator[Row]:
    """Kubelets that began after another one, also those of which only the end is recorded."""
    starts = [(record.seq, body) for record, body in told.bodies(node.KubeletStarted)]
    for record, body in told.bodies(node.KubeletStarted):
        if body.restart:
            yield _row(record, subject="kubelet", pid=body.pid, start_seq=record.seq)
    for record, exit_ in told.bodies(node.KubeletExited):
        before = [start.pid for seq, start in starts if seq < record.seq]
        if exit_.pid is not None and before and exit_.pid not in before:
            yield _row(record, subject="kubelet", pid=exit_.pid, start_seq=record.seq)


def violations(told: Told) -> Iterator[Row]:
    """What can never be."""
    for each in told.violations:
        bugs = tuple(sorted(each.bugs))
        yield _row(each, subject=each.subject, message=each.message, bugs=bugs)


def troubles(told: Told) -> Iterator[Row]:
    """Those that nothing else tells: a condition, a trouble that they follow from, a start."""
    starts = [r.ts_ns for r, body in told.bodies(node.KubeletStarted) if body.from_start]
    unready = [
        (each.ts_ns - _MINUTE_NS, each.until_ts_ns)
        for each in told.conditions
        if each.condition == "Ready" and each.status != "True"
    ]
    for each in told.troubles:
        begin_ns, end_ns = each.ts_ns, _end_of(each)
        silent_ns = APART_OF_NS.get(each.trouble, APART_NS)
        # Of a process that ended, what the next one does not say is over.
        goes_on = (
            each.passed_ts_ns is None
            and each.last_ts_ns >= told.latest_ns - silent_ns
            and not any(ts_ns > each.last_ts_ns for ts_ns in starts)
        )
        if not (goes_on or end_ns - begin_ns >= _HARMLESS_NS):
            continue
        if each.message.startswith(NOT_ASKED_YET) or _NEVER in each.message:
            continue
        if any(
            since_ns <= each.last_ts_ns and (until is None or until >= begin_ns - _MINUTE_NS)
            for since_ns, until in unready
        ):
            continue
        if any(_follows(each, other) for other in told.troubles):
            continue
        said = {"message": each.message, "attempts": each.attempts}
        lasted_ns = whole_us(end_ns) - whole_us(begin_ns)
        yield _row(each, subject=each.trouble, lasted_ns=lasted_ns, is_open=goes_on, **said)


def _end_of(trouble: TroubleEpisode) -> int:
    return trouble.last_ts_ns if trouble.passed_ts_ns is None else trouble.passed_ts_ns


_OF_NO_API = frozenset({"status_update_failed", "lease_update_failed", "registration_failed"})
_OF_NO_NODE = frozenset({"status_update_failed", "lease_update_failed", "storage_not_ready"})
_OWN_CERTIFICATE = regex(r"x509|expired")


def _follows(trouble: TroubleEpisode, other: TroubleEpisode) -> bool:
    """Whether one is there because another is."""
    if other.ts_ns > trouble.last_ts_ns or _end_of(other) < trouble.ts_ns:
        return False
    what = trouble.trouble
    if other.trouble == "api_unreachable" and what == "certificate":
        return _OWN_CERTIFICATE.search(trouble.message) is None
    return (
        (what == "sync_skipped" and other.trouble != what)
        or (other.trouble == "api_unreachable" and what in _OF_NO_API)
        or (other.trouble == "registration_failed" and what in _OF_NO_NODE)
    )


def out_of_memory(told: Told) -> Iterator[Row]:
    """Reports of the kernel without a kill."""
    caused = {record.cause for record in told.of(eviction.ProcessKilled)}
    for record, body in told.bodies(eviction.OutOfMemory):
        if record.seq not in caused:
            uid = None if body.pod_uid is None else f"pod {body.pod_uid}"
            names = (body.invoked_by, _pod(body) or None, uid, body.cgroup)
            subject = next((each for each in names if each is not None), "the node")
            yield _row(record, subject=subject, asked=body.invoked_by)


def gc_failed(told: Told) -> Iterator[Row]:
    """Not the one without statistics yet: a kubelet sends an event of it only if it fails again."""
    runs = [
        (r, body) for r, body in told.bodies(images.GarbageCollected) if body.outcome == "failed"
    ]
    starts = {record.seq: body for record, body in told.bodies(images.GarbageCollectionStarted)}
    for record, body in runs:
        is_early = not body.error or _NO_STATS.search(body.error)
        if is_early and not any(
            other.seq != record.seq and abs(other.ts_ns - record.ts_ns) <= 10 * _MINUTE_NS
            for other, _ in runs
        ):
            continue
        start, wanted = starts.get(record.cause or 0), body.bytes_to_free
        yield _row(
            record,
            subject="image GC",
            wanted_bytes=start.bytes_to_free if wanted is None and start else wanted,
            freed_bytes=body.bytes_freed,
            error=body.error or None,
        )


def reclaim_failed(told: Told) -> Iterator[Row]:
    """Attempts of which no pod that had to go is known."""
    evicting = {record.cause for record in told.of(lifecycle.PodEvicted)}
    spared: dict[int | None, list[str]] = {}
    for record, body in told.bodies(eviction.PodSpared):
        spared.setdefault(record.cause, []).append(_pod(body))
    for record, tried in told.bodies(eviction.ReclaimAttempted):
        if tried.outcome == "nothing" or (tried.outcome is None and record.seq not in evicting):
            ranked = None if tried.ranked is None else [_pod(each) for each in tried.ranked]
            left = spared.get(record.seq)
            said = {"outcome": tried.outcome, "ranked": ranked, "spared": left}
            yield _row(record, subject=_short(tried, "something"), **said)


def reclaimed(told: Told) -> Iterator[Row]:
    """Attempts for which unused images and containers sufficed."""
    for record, body in told.bodies(eviction.ReclaimAttempted):
        if body.outcome == "node_level":
            yield _row(record, subject=_short(body, "something"))


def _short(body: eviction.ReclaimAttempted | lifecycle.PodEvicted, unknown: str) -> str:
    """What was short."""
    names = (each for each in (body.signal, body.resource) if each is not None)
    return next(names, unknown)


def shutdowns(told: Told) -> Iterator[Row]:
    """Whether the kubelet let it go on, and how many groups of pods were late."""
    steps = [(record, body.step) for record, body in told.bodies(node.ShutdownProgressed)]
    for record, step in steps:
        if step == "detected":
            after = Counter(each for later, each in steps if later.seq > record.seq)
            late, completed = after["timed_out"], after["completed"] > 0
            yield _row(record, subject="shutdown", timed_out=late, completed=completed)


def reboots(told: Told) -> Iterator[Row]:
    """As the kubelet reports them."""
    for record, body in told.bodies(lifecycle.KubernetesEvent):
        if body.object_kind == "Node" and body.reason == "Rebooted":
            yield _row(record, subject="reboot")


def findings(told: Told) -> Iterator[Row]:
    """About the sources; those of the clock are told by steps of it."""
    for record, body in told.bodies(ledger.FindingReported):
        if not body.finding.startswith("clock_"):
            yield _row(record, subject=body.finding, message=body.message)


LOG_LOST = of(node.LogThinned, lambda body: {"subject": "log"})
CLOCK_STEPS = of(node.ClockStepped, lambda body: {"subject": "clock"})
NOT_UNDERSTOOD = of(
    ledger.LinesNotUnderstood, lambda body: {"subject": body.shape, "lines": body.count}
)
DELETED = of(images.ImageDeleted, lambda body: {"subject": "images"})


# --- pods ---------------------------------------------------------------------------------


def stuck(told: Told) -> Iterator[Row]:
    """Pods that are, or were at their end, at a stage before their start."""
    ran = _first_starts(told)
    for each, row in _before_start(told):
        if row["is_stuck"]:
            began_ns = ran.get((each.pod_uid, each.container))
            row["ran"] = began_ns is not None and began_ns < each.ts_ns
            if _is_long(row) or not row["is_ended"] or not row["ran"]:
                yield row


def _first_starts(told: Told) -> dict[tuple[str | None, str | None], int]:
    """Pod's UID and container -> when it first started; also under no container's name."""
    found: dict[tuple[str | None, str | None], int] = {}
    for record, body in told.bodies(lifecycle.ContainerStarted):
        if body.pod_uid is not None and body.container is not None and not body.sandbox:
            for name in (body.container, None):
                key = (body.pod_uid, name)
                found[key] = min(found.get(key, record.ts_ns), record.ts_ns)
    return found


def waited(told: Told) -> Iterator[Row]:
    """Pods that got past a stage before their start late, or were not heard of again."""
    for each, row in _before_start(told):
        if not row["is_stuck"] and (_is_long(row) or each.passed_ts_ns is None):
            yield row


def not_ended(told: Told) -> Iterator[Row]:
    """Pods that could not be stopped at once."""
    for each in told.stages:
        if each.stage in {"stop", "teardown"}:
            row = _of_stage(told, each)
            if row["is_stuck"] or _is_long(row):
                yield row


def _is_long(row: Row) -> bool:
    return bool(row["lasted_ns"] >= _HARMLESS_NS)


def _before_start(told: Told) -> Iterator[tuple[StageEpisode, dict[str, Any]]]:
    """Refusals are told by themselves, and what a refused pod lacks is moot."""
    refused_ns: dict[object, int] = {}
    for record, body in told.bodies(lifecycle.PodRejected):
        for key in (body.pod_uid, (body.namespace, body.pod)):
            refused_ns[key] = min(refused_ns.get(key, record.ts_ns), record.ts_ns)
    refused_ns.pop(None, None)
    for each in told.stages:
        if each.stage in {"run", "ready", "stop", "teardown"}:
            continue
        times = (refused_ns.get(key) for key in (each.pod_uid, (each.namespace, each.pod)))
        if not any(
            ts_ns is not None and (ts_ns <= each.ts_ns or each.stage == "admission")
            for ts_ns in times
        ):
            yield each, _of_stage(told, each)


def _of_stage(told: Told, each: StageEpisode) -> dict[str, Any]:
    about = each.about if each.stage in {"image", "create", "resources"} else None
    ends = (each.passed_ts_ns, each.ended_ts_ns, each.last_ts_ns)
    end_ns = next(ns for ns in ends if ns is not None)
    is_heard = each.last_ts_ns >= told.latest_ns - SILENT_MIN * _MINUTE_NS
    return _row(
        each,
        name=slashed(each.namespace, each.pod_uid if each.pod is None else each.pod),
        stage=each.stage,
        cause=VALUES.sub("#", each.message) if about is None else about,
        is_ended=each.ended_ts_ns is not None,
        is_stuck=each.passed_ts_ns is None and (each.ended_ts_ns is not None or is_heard),
        lasted_ns=whole_us(end_ns) - whole_us(each.ts_ns),
        attempts=each.attempts,
        reason=each.reason,
        message=each.message,
        about_what=each.about,
    )


def failed(told: Told) -> Iterator[Row]:
    """Pods that came to an end in error by themselves, as lists show them.

    None that was stopped, or of which it is told that its containers crash; what the kubelet kills
    for a reason of the pod's (``DeadlineExceeded``) is told by that.
    """
    ended = _uids(
        told,
        *(lifecycle.PodEvicted, lifecycle.PodRejected, eviction.PodPreempted),
        eviction.ProcessKilled,
    )
    stopped_ns: dict[str | None, int] = {}
    for record, end in told.bodies(lifecycle.PodTerminating):
        if end.reason != "ended" and end.pod_uid is not None:
            stopped_ns[end.pod_uid] = min(stopped_ns.get(end.pod_uid, record.ts_ns), record.ts_ns)
    crashing = {each.pod_uid for each in told.stages if each.stage == "run"} - {None}
    interrupted = crashing | _uids(told, lifecycle.ContainerKilled)
    pods: dict[tuple[str, str, str | None], list[tuple[Record, dict[str, Any]]]] = {}
    for record, body in told.bodies(lifecycle.PodListed):
        status, uid = body.status or {}, body.pod_uid
        reason = status.get("reason")
        if reason in _OF_SHUTDOWN or uid in ended:
            continue
        was_stopped = stopped_ns.get(uid, record.ts_ns + 1) <= record.ts_ns
        if reason is not None or not (uid in interrupted or was_stopped):
            pods.setdefault((body.namespace, body.pod, uid), []).append((record, status))
    for (namespace, pod, _), listed in pods.items():
        codes = {code for _, status in listed for code in _exit_codes(status)}
        yield {
            "seq": min(record.seq for record, _ in listed),
            "ts_ns": min(whole_us(record.ts_ns) for record, _ in listed),
            "name": slashed(namespace, pod),
            "codes": tuple(sorted(codes)),
            **{name: _said_first(name, listed) for name in ("reason", "message")},
        }


_OF_SHUTDOWN = ("NodeShutdown", "Shutdown", "Terminated")


def _uids(told: Told, *bodies: type[Body]) -> set[str | None]:
    """Of pods that records of these kinds are about."""
    found: set[str | None] = set()
    for record in told.of(*bodies):
        body: Any = record.body
        is_victim = isinstance(body, eviction.PodPreempted)
        found.add(body.victim_uid if is_victim else body.pod_uid)
    return found - {None}


def _said_first(name: str, listed: Iterable[tuple[Record, dict[str, Any]]]) -> str | None:
    said = (status.get(name) for _, status in listed)
    return next((str(each) for each in said if each is not None), None)


def _exit_codes(status: dict[str, Any]) -> Iterator[str]:
    for container in objects_of(status.get("containerStatuses")):
        for state in objects_of([container.get("state")]):
            for end in objects_of([state.get("terminated")]):
                if end.get("exitCode") is not None:
                    yield str(end["exitCode"])


def preempted(told: Told) -> Iterator[Row]:
    """One victim each."""
    for record, body in told.bodies(eviction.PodPreempted):
        names = (body.preemptor_namespace, body.preemptor_pod)
        missing = [f"{each.resource}={each.quantity}" for each in body.insufficient]
        yield _row(
            record,
            subject=None if None in names else slashed(*names),
            preemptor_uid=body.preemptor_uid,
            victim=body.victim_pod,
            name=slashed(body.victim_namespace, body.victim_pod),
            missing=", ".join(missing) or None,
        )


def evicted(told: Told) -> Iterator[Row]:
    """A pod counts once, and also if the manager did not wait for its end: it had failed then."""
    pods: dict[str, list[tuple[Record, lifecycle.PodEvicted]]] = {}
    for record, body in told.bodies(lifecycle.PodEvicted):
        pods.setdefault(_pod(body) if body.pod_uid is None else body.pod_uid, []).append(
            (record, body)
        )
    for its in pods.values():
        record, body = its[0]
        subject = _short(body, "signal not recorded")
        late = all(each.evicted is False for _, each in its)
        yield _row(record, subject=subject, kind=body.threshold_kind, name=_pod(body), late=late)


def spared(told: Told) -> Iterator[Row]:
    """Critical pods that were to be evicted."""
    for record, body in told.bodies(eviction.PodSpared):
        yield _row(record, subject=_pod(body))


def refused(told: Told) -> Iterator[Row]:
    """Pods that the kubelet did not admit."""
    for record, body in told.bodies(lifecycle.PodRejected):
        yield _row(record, subject=body.reason, name=_pod(body), message=body.message)


def resizes(told: Told) -> Iterator[Row]:
    """Of each pod the last one, if it does not fit."""
    last: dict[str, tuple[Record, lifecycle.PodResized]] = {}
    for record, body in told.bodies(lifecycle.PodResized):
        last[_pod(body) if body.pod_uid is None else body.pod_uid] = record, body
    for record, body in last.values():
        if body.outcome in {"deferred", "infeasible"}:
            said = {"outcome": body.outcome, "reason": body.reason, "message": body.message}
            yield _row(record, name=_pod(body), **said)


# --- containers ---------------------------------------------------------------------------


def oom_kills(told: Told) -> Iterator[Row]:
    """Whom the kernel killed, and whose memory was used up."""
    for record, body in told.bodies(eviction.ProcessKilled):
        of_pod = "" if body.pod_uid is None else f" of pod {body.pod_uid}"
        process = None if body.process is None else body.process + of_pod
        name = _container(body)
        yield _row(
            record,
            subject=name or (body.cgroup if process is None else process),
            reason=body.reason,
            shared=body.cgroup if body.reason is None else None,
            about=body.pod_uid if body.pod is None else name,
        )


_OF_PROBES = ("liveness_probe", "startup_probe", "post_start_hook")


def killed(told: Told) -> Iterator[Row]:
    """Containers that a probe or hook killed."""
    back_offs = _back_offs(told)
    for record, body in told.bodies(lifecycle.ContainerKilled):
        if body.reason in _OF_PROBES:
            back_off_s = back_offs.get(_uid_and_container(body))
            yield _row(record, subject=_container(body), reason=body.reason, back_off_s=back_off_s)


def _back_offs(told: Told) -> dict[tuple[str, str] | None, int | None]:
    """Pod's UID and container -> the longest of its back-offs, s."""
    found: dict[tuple[str, str] | None, int | None] = {}
    for _, body in told.bodies(lifecycle.RestartBackedOff):
        key = _uid_and_container(body)
        found[key] = max(found.get(key) or 0, body.back_off_s)
    found[None] = None
    return found


def crashed(told: Told) -> Iterator[Row]:
    """Containers that fail by themselves; what a probe or the kernel killed is told by that."""
    back_offs = _back_offs(told)
    by_kernel = {_uid_and_container(body) for _, body in told.bodies(eviction.ProcessKilled)}
    explained = by_kernel | {
        _uid_and_container(body)
        for _, body in told.bodies(lifecycle.ContainerKilled)
        if body.reason in _OF_PROBES
    }
    codes: dict[tuple[str, str] | None, list[int]] = {}
    for record, body in told.bodies(lifecycle.ContainerDied):
        key = _uid_and_container(body)
        is_by_itself = body.exit_code and record.cause is None and not body.sandbox
        if is_by_itself and not (body.exit_code == 137 and key in by_kernel - {None}):
            codes.setdefault(key, []).append(body.exit_code or 0)
    for each in told.stages:
        key = _uid_and_container(each)
        deaths = codes.get(key, []) if key else []
        if each.stage == "run" and (deaths or key is None or key not in explained):
            yield _row(
                each,
                subject=_container(each),
                back_off_s=back_offs.get(key),
                deaths=len(deaths) or None,
                exit_code=deaths[0] if deaths else None,
                attempts=each.attempts,
                reason=each.reason,
                message=each.message,
            )


def unready(told: Told) -> Iterator[Row]:
    """Containers that ceased to be ready, that never became so, or failed without a known start."""
    were_ready = set()
    for record, body in told.bodies(prober.ProbeTransitioned):
        if body.to_result == "success":
            were_ready.add(_uid_and_container(body))
        is_loss = (body.from_result, body.to_result) == ("success", "failure")
        if body.probe_type == "readiness" and is_loss:
            yield _row(record, subject=_container(body), form="ceased")
    started = {_uid_and_container(body) for _, body in told.bodies(lifecycle.ContainerStarted)}
    for each in told.stages:
        key = _uid_and_container(each)
        if each.stage == "ready" and each.is_open and (key is None or key not in were_ready):
            form = "never" if key is not None and key in started else "failing"
            yield _row(each, subject=_container(each), form=form)
