"""Tales that no finding named: what else a false story about a kubelet would be.

As in :mod:`.tales` each is told in all its records: who was really evicted, killed or refused lives
on, or is as good as gone, in the lists as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import msgspec

from kubeledger.model.bodies.eviction import (
    NodeConditionsChanged,
    PodPreempted,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import EvictionSignalObserved, ImageDeleted, PullDecided
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from tests.verify.properties.reimported import numbered
from tests.verify.properties.tales import (
    Others,
    Records,
    Tale,
    Teller,
    at_time,
    ends_ns,
    first_of,
    inits_of,
    of_kinds,
    pod_of,
    specs_of,
    subjects_of,
    told_with,
    with_fields,
)

_ALL = ("node", "pod/", "container/", "image/")


def _lists(records: Records, pod: tuple[str, str]) -> list[Any]:
    return [r for r in of_kinds(records, PodListed) if pod_of(r.body) == pod and r.body.spec]


def _container(spec: dict[str, Any], name: str) -> dict[str, Any] | None:
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return next((each for each in every if each["name"] == name), None)


def _in_lists(
    records: Records,
    body: Any,  # noqa: ANN401 # of a container
    change: Callable[[dict[str, Any]], dict[str, Any] | None],
) -> Others:
    """Lists that show a container otherwise."""
    others: Others = {}
    for r in _lists(records, pod_of(body)):
        spec = dict(r.body.spec)
        for part in ("initContainers", "containers"):
            each = [
                (change(c) or c) if c["name"] == body.container else c for c in spec.get(part) or ()
            ]
            spec = spec | ({part: each} if each else {})
        if spec != r.body.spec:
            others[r.seq] = with_fields(r, spec=spec)
    return others


def _one(record: Record, others: Others, records: Records) -> Tale:
    body = record.body
    said = subjects_of(body) if pod_of(body)[1] else _ALL
    return Tale(f"{record.seq} {pod_of(body)}", told_with(records, others), said)


# -- probes ----------------------------------------------------------------------------------------


def _wrong_probe(records: Records, random: Random) -> Iterator[Tale]:
    """A kill, and the restart, name the other probe, which the container may not even have."""
    other = {"liveness_probe": "startup_probe", "startup_probe": "liveness_probe"}
    for kill in of_kinds(records, ContainerKilled):
        if kill.body.reason in other:
            reason = other[kill.body.reason]
            others: Others = {kill.seq: with_fields(kill, reason=reason, message=None)}
            for r in of_kinds(records, ContainerRestarted):
                if r.body.previous_container_id == kill.body.container_id:
                    others[r.seq] = with_fields(r, reason=reason)
            yield _one(kill, others, records)


def _one_tick_early(records: Records, random: Random) -> Iterator[Tale]:
    """A probe fails one tick before its threshold, and what follows comes then, too."""
    for record in of_kinds(records, ProbeTransitioned):
        body = record.body
        ticks = [
            r
            for r in of_kinds(records, ProbeExecuted)
            if r.body.container_id == body.container_id and r.body.probe_type == body.probe_type
            and r.ts_ns <= record.ts_ns
        ]  # fmt: skip
        if body.inferred or body.to_result != "failure" or (body.threshold or 1) < 2:
            continue
        if (
            len(ticks) < 2
            or ticks[-1].body.result == "success"
            or ticks[-2].body.result == "success"
        ):
            continue
        by = ticks[-2].ts_ns - record.ts_ns
        moved: Others = {
            r.seq: at_time(r, r.ts_ns + by)
            for r in of_kinds(records, ProbeTransitioned, ContainerKilled)
            if r.body.container_id == body.container_id and r.ts_ns == record.ts_ns
        }
        yield _one(record, {**moved, ticks[-1].seq: None}, records)


def _delayed(container: dict[str, Any], kind: str) -> dict[str, Any] | None:
    probe = container.get(kind)
    return None if probe is None else container | {kind: probe | {"initialDelaySeconds": 3600}}


def _other_delay(records: Records, random: Random) -> Iterator[Tale]:
    """Lists show an initial delay that was far from over when the probe failed."""
    for record in of_kinds(records, ProbeTransitioned):
        # Of a container that has ended nothing is probed: no delay holds its failure back.
        if record.body.to_result == "failure" and record.body.run and not record.body.inferred:
            change = partial(_delayed, kind=f"{record.body.probe_type}Probe")
            if others := _in_lists(records, record.body, change):
                yield _one(record, others, records)


def _kill_never_came(records: Records, random: Random) -> Iterator[Tale]:
    """The liveness probe failed for good, and the container runs on."""
    for kill in of_kinds(records, ContainerKilled):
        body = kill.body
        if body.reason != "liveness_probe" or not body.container_id:
            continue
        who = pod_of(body), body.container
        again = next((r for r in of_kinds(records, ContainerStarted) if r.ts_ns > kill.ts_ns
                      and (pod_of(r.body), r.body.container) == who), None)  # fmt: skip
        if again is None or ends_ns(records, pod_of(body)) < again.ts_ns + 600 * NS_PER_S:
            continue
        gone = {
            r.seq
            for r in records
            if r.ts_ns >= kill.ts_ns and pod_of(r.body) == pod_of(body) and r.seq >= kill.seq
            and (isinstance(r.body, PodListed)
                 or getattr(r.body, "container", "") == body.container)
        }  # fmt: skip
        yield _one(kill, dict.fromkeys(gone), records)


# -- evictions -------------------------------------------------------------------------------------


def _second_evicted(records: Records, random: Random) -> Iterator[Tale]:
    """The second of the ranking is evicted in the place of the first: only its name is said."""
    for record in of_kinds(records, PodEvicted):
        rank = next((r for r in records if r.seq == record.cause), None)
        ranked: tuple[Any, ...] = getattr(getattr(rank, "body", None), "ranked", None) or ()
        if len(ranked) > 1 and pod_of(ranked[-1]) != pod_of(record.body):
            who = {n: getattr(ranked[-1], n) for n in ("namespace", "pod", "pod_uid")}
            told = told_with(records, {record.seq: with_fields(record, **who)})
            yield Tale(f"{record.seq} {ranked[-1].pod}", told, _ALL)


def _no_pressure(records: Records, random: Random) -> Iterator[Tale]:
    """A pod is evicted though there was much of everything before and after."""
    for record in of_kinds(records, PodEvicted):
        if record.body.signal is None or record.body.threshold_kind == "local_storage":
            continue
        others: Others = {
            r.seq: with_fields(r, available=r.body.capacity * 9 // 10)
            for r in of_kinds(records, EvictionSignalObserved)
            if abs(r.ts_ns - record.ts_ns) < 90 * NS_PER_S
        }
        if len(others) > 3:
            yield _one(record, others, records)


def _too_soon(records: Records, random: Random) -> Iterator[Tale]:
    """A pod is evicted half a minute before there was any pressure."""
    acts = of_kinds(records, ReclaimAttempted, PodEvicted, NodeConditionsChanged)
    for record in of_kinds(records, PodEvicted):
        near = [r for r in acts if 0 <= record.ts_ns - r.ts_ns <= NS_PER_S]
        if any(0 < record.ts_ns - r.ts_ns < 120 * NS_PER_S for r in acts if r not in near):
            continue
        others: Others = {
            r.seq: at_time(r, r.ts_ns - 33 * NS_PER_S)
            for r in records
            if r in near
            or (pod_of(r.body) == pod_of(record.body) and r.ts_ns <= record.ts_ns + NS_PER_S
                and r.ts_ns >= record.ts_ns
                and isinstance(r.body, PodTerminating | ContainerKilled | KubernetesEvent))
        }  # fmt: skip
        if record.ts_ns - records[0].ts_ns > 90 * NS_PER_S:
            yield _one(record, others, records)


def _cleared_early(records: Records, random: Random) -> Iterator[Tale]:
    """A pressure condition goes half a minute or more before its transition period is over."""
    before: Any = None
    for record in of_kinds(records, NodeConditionsChanged):
        since, before = before, record
        if since is not None and len(record.body.conditions) < len(since.body.conditions):
            at_ns = record.ts_ns - 40 * NS_PER_S
            if since.ts_ns < at_ns:
                told = told_with(records, {record.seq: at_time(record, at_ns)})
                yield Tale(f"{record.seq}", told, ("node",))


# -- admission, preemption -------------------------------------------------------------------------


def _refused(records: Records, random: Random) -> Iterator[Tale]:
    """A pod is refused for want of CPU that is there."""
    for record in of_kinds(records, PodAdmitted):
        body = record.body
        if body.inferred or not _lists(records, pod_of(body)):
            continue
        why = "Node didn't have enough resource: cpu, requested: 10, used: 0, capacity: 5"
        refused = PodRejected(namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid,
                              reason="OutOfcpu", message=why)  # fmt: skip
        others: Others = {
            r.seq: None
            for r in records
            if r.seq > record.seq and pod_of(r.body) == pod_of(body)
            and not isinstance(r.body, PodListed)
        }  # fmt: skip
        for r in _lists(records, pod_of(body)):
            status = {"phase": "Failed", "reason": "OutOfcpu", "message": f"Pod {why}"}
            others[r.seq] = with_fields(r, status=status)
        others[record.seq] = msgspec.structs.replace(record, kind=refused.kind, body=refused)
        yield _one(record, others, records)


def _let_in(records: Records, random: Random) -> Iterator[Tale]:
    """A pod for which there is not enough is let in."""
    for record in of_kinds(records, PodRejected):
        body = record.body
        if not body.reason.startswith("OutOf"):
            continue
        let_in = PodAdmitted(namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid,
                             inferred=False)  # fmt: skip
        others: Others = {
            r.seq: None
            for r in records
            if pod_of(r.body) == pod_of(body) and isinstance(r.body, KubernetesEvent)
        }
        for r in _lists(records, pod_of(body)):
            others[r.seq] = with_fields(r, status={"phase": "Pending"})
        others[record.seq] = msgspec.structs.replace(record, kind=let_in.kind, body=let_in)
        yield _one(record, others, records)


def _above(records: Records, random: Random) -> Iterator[Tale]:
    """The victim of a preemption has a priority above the preemptor's."""
    for record in of_kinds(records, PodPreempted):
        body = record.body
        victim = body.victim_namespace, body.victim_pod
        others: Others = {
            r.seq: with_fields(r, spec=r.body.spec | {
                "priority": 2_000_001_000, "priorityClassName": "system-node-critical"})
            for r in _lists(records, victim)
        }  # fmt: skip
        if others:
            told = told_with(records, others)
            yield Tale(f"{record.seq} {victim}", told, (f"pod/{'/'.join(victim)}", "pod/"))


def _one_more(records: Records, random: Random) -> Iterator[Tale]:
    """One more pod is said to be preempted, and lives on."""
    for record in of_kinds(records, PodPreempted):
        body = record.body
        pods = {pod_of(r.body): r.body for r in of_kinds(records, ContainerStarted)
                if r.ts_ns < record.ts_ns}  # fmt: skip
        taken = {(r.body.victim_namespace, r.body.victim_pod)
                 for r in of_kinds(records, PodPreempted)}  # fmt: skip
        for pod, each in pods.items():
            mine = (body.preemptor_namespace, body.preemptor_pod)
            if pod in taken or pod == mine or ends_ns(records, pod) < record.ts_ns + 60 * NS_PER_S:
                continue
            more = msgspec.structs.replace(body, victim_namespace=pod[0], victim_pod=pod[1],
                                           victim_uid=each.pod_uid)  # fmt: skip
            at = records.index(record) + 1
            extra = msgspec.structs.replace(record, body=more)
            told = numbered([*records[:at], extra, *records[at:]])
            yield Tale(f"{record.seq} {pod}", told, (f"pod/{'/'.join(pod)}", "pod/"))
            break


# -- containers ------------------------------------------------------------------------------------


def _inits_turned(records: Records, random: Random) -> Iterator[Tale]:
    """The second init container runs before the first."""
    for pod, spec in specs_of(records).items():
        inits = inits_of(spec)
        if len(inits) < 2:
            continue
        names = {inits[0]: inits[1], inits[1]: inits[0]}
        kinds = ContainerStarted | ContainerDied | ContainerRestarted | RestartBackedOff
        others: Others = {
            r.seq: with_fields(r, container=names[r.body.container])
            for r in records
            if pod_of(r.body) == pod and isinstance(r.body, kinds)
            and r.body.container in names
        }  # fmt: skip
        first = first_of(records, ContainerStarted, pod, inits[0])
        second = first_of(records, ContainerStarted, pod, inits[1])
        if first is None or second is None:
            continue
        others |= {r.seq: with_fields(r, status={"phase": "Pending"}) for r in _lists(records, pod)}
        yield _one(first, others, records)


def _twice_at_once(records: Records, random: Random) -> Iterator[Tale]:
    """A second instance of a container starts while the first runs on."""
    for start in of_kinds(records, ContainerStarted):
        body = start.body
        end = next((r for r in of_kinds(records, ContainerDied)
                    if r.body.container_id == body.container_id), None)  # fmt: skip
        until = records[-1].ts_ns if end is None else end.ts_ns
        if body.sandbox or body.container is None or until - start.ts_ns < 90 * NS_PER_S:
            continue
        other = with_fields(at_time(start, start.ts_ns + 45 * NS_PER_S), container_id="f" * 64)
        told = numbered(sorted([*records, other], key=lambda r: r.ts_ns))
        yield _one(start, {}, told)


def _after_the_end(records: Records, random: Random) -> Iterator[Tale]:
    """A container starts again in a pod that is being taken down."""
    for stop in of_kinds(records, PodTerminating):
        mine = [r for r in of_kinds(records, ContainerDied) if pod_of(r.body) == pod_of(stop.body)
                and r.body.container and r.ts_ns >= stop.ts_ns]  # fmt: skip
        for died in mine[:1]:
            id_, at_ns = "e" * 64, died.ts_ns + 2 * NS_PER_S
            names = {n: getattr(died.body, n) for n in ("namespace", "pod", "pod_uid", "container")}
            start = ContainerStarted(**names, container_id=id_, sandbox=False)
            again = ContainerRestarted(
                **names, container_id=id_, previous_container_id=died.body.container_id,
                reason="exited",
            )  # fmt: skip
            extra = [
                msgspec.structs.replace(died, ts_ns=at_ns, role=body.role, kind=body.kind, v=body.v,
                                        cause=None, body=body)
                for body in (start, again)
            ]  # fmt: skip
            told = numbered(sorted([*records, *extra], key=lambda r: r.ts_ns))
            yield _one(stop, {}, told)


def _again_though_well(records: Records, random: Random) -> Iterator[Tale]:
    """A container that ended well is started again under OnFailure."""
    for again in of_kinds(records, ContainerRestarted):
        body, spec = again.body, specs_of(records).get(pod_of(again.body))
        own = [] if spec is None else [c["name"] for c in spec["containers"]]
        died = next((r for r in of_kinds(records, ContainerDied)
                     if r.body.container_id == body.previous_container_id), None)  # fmt: skip
        if spec is None or died is None or body.reason != "exited" or body.container not in own:
            continue
        if died.body.exit_code is None or body.previous_container_id is None:
            continue
        others: Others = {died.seq: with_fields(died, exit_code=0)}
        for r in _lists(records, pod_of(body)):
            text = msgspec.json.encode(r.body.status or {}).decode()
            status = {"phase": "Running"} if body.previous_container_id in text else r.body.status
            spec = r.body.spec | {"restartPolicy": "OnFailure"}
            others[r.seq] = with_fields(r, status=status, spec=spec)
        yield _one(again, others, records)


def _first_back_off(records: Records, random: Random) -> Iterator[Tale]:
    """A back-off begins anew though the container ended again and again."""
    for record in of_kinds(records, RestartBackedOff):
        if record.body.back_off_s >= 40:
            yield _one(record, {record.seq: with_fields(record, back_off_s=10)}, records)


# -- images ----------------------------------------------------------------------------------------


def _never_pull(records: Records, random: Random) -> Iterator[Tale]:
    """An image is pulled though its policy is Never."""
    for record in of_kinds(records, PullDecided):
        if record.body.decision == "pull" and record.body.container:
            others = _in_lists(records, record.body, lambda c: c | {"imagePullPolicy": "Never"})
            if others:
                yield _one(record, others, records)


def _pulled_at_once(records: Records, random: Random) -> Iterator[Tale]:
    """An image is pulled again two seconds after its pull was put off."""
    for record in of_kinds(records, PullDecided):
        body = record.body
        pulls = [r for r in of_kinds(records, PullDecided) if r.ts_ns > record.ts_ns]
        who = pod_of(body), body.image
        pull = next((r for r in pulls if (pod_of(r.body), r.body.image) == who), None)
        if body.decision != "back_off" or pull is None or pull.body.decision != "pull":
            continue
        if pull.ts_ns - record.ts_ns > 8 * NS_PER_S:
            by = record.ts_ns + 2 * NS_PER_S - pull.ts_ns
            others: Others = {
                r.seq: at_time(r, r.ts_ns + by)
                for r in records
                if pod_of(r.body) == pod_of(body)
                and pull.ts_ns <= r.ts_ns <= pull.ts_ns + NS_PER_S
                and "Pull" in f"{r.kind}{getattr(r.body, 'reason', '')}"
            }
            yield _one(pull, others, records)


def _used_image(records: Records, random: Random) -> Iterator[Tale]:
    """An image that a pod runs on is removed."""
    used = {
        text.rpartition("@")[2]
        for r in of_kinds(records, PodListed)
        for status in (r.body.status or {}).get("containerStatuses") or ()
        if "running" in status.get("state", {}) and (text := status.get("imageID") or "")
    }
    known = {r.body.image_id for r in of_kinds(records, ImageDeleted)}
    for record in of_kinds(records, ImageDeleted):
        for other in sorted(used - known)[:1]:
            told = told_with(records, {record.seq: with_fields(record, image_id=other)})
            yield Tale(f"{record.seq} {other[:20]}", told, ("node", "image/"))


INVENTED: dict[str, Teller] = {
    "killed by the wrong probe": _wrong_probe,
    "failed one tick early": _one_tick_early,
    "failed before its delay": _other_delay,
    "liveness kill never came": _kill_never_came,
    "the last of the ranking evicted": _second_evicted,
    "evicted without pressure": _no_pressure,
    "evicted before the pressure": _too_soon,
    "condition cleared early": _cleared_early,
    "refused though it fits": _refused,
    "let in though it does not fit": _let_in,
    "a higher priority preempted": _above,
    "one more preempted": _one_more,
    "init containers turned": _inits_turned,
    "two instances at once": _twice_at_once,
    "started after the pod's end": _after_the_end,
    "started again though it ended well": _again_though_well,
    "back-off begins anew": _first_back_off,
    "pulled under Never": _never_pull,
    "pulled within its back-off": _pulled_at_once,
    "image in use removed": _used_image,
}
"""What is told -> who tells it."""
