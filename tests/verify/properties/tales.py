"""Tales: whole stories that did not happen, each told over a true history in all its records.

A lie of :mod:`.lies` changes one field of one decision. A tale is what a log would hold had the
kubelet not done what it owed, done it in another order or at another time: a restart that never
came and all that followed on it, an init container after its main container, a run of image GC
that stops early and says so at its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import msgspec

from kubeledger.kubelet.kube.quantity import value_of
from kubeledger.model.bodies.cgroups import CgroupRemoved
from kubeledger.model.bodies.eviction import (
    NodeConditionsChanged,
    PodUsageObserved,
    ReclaimAttempted,
)
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminated,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from tests.verify.properties.reimported import numbered

LONG_NS = 1_800 * NS_PER_S
"""What an outsider calls long: half an hour without a restart."""
_APART_NS = 15 * NS_PER_S
"""Farther than what stamps, relists and the round of a snapshot leave open."""
_HOOK = "post_start_hook"

Records = Sequence[Record]
Others = dict[int, Record | None]
"""Seq -> the record in its place; None where it is gone."""


class Tale(msgspec.Struct, frozen=True):
    """One story.

    Attributes:
        what: of it, for people.
        records: the history as it is told.
        about: subjects, of which one has to be named; a subject's beginning is enough.
    """

    what: str
    records: list[Record]
    about: tuple[str, ...]


Teller = Callable[[Records, Random], Iterator[Tale]]

# -- how a history is changed --------------------------------------------------------------------


def with_fields(record: Record, **fields: Any) -> Record:  # noqa: ANN401 # any field
    return msgspec.structs.replace(record, body=msgspec.structs.replace(record.body, **fields))


def told_with(records: Records, others: Others) -> list[Record]:
    """The history with some records as others, or gone; in the order of time again."""
    told = [r for each in records if (r := others.get(each.seq, each)) is not None]
    moved = any(r is not None and r.ts_ns != records[0].ts_ns for r in others.values())
    return numbered(sorted(told, key=lambda r: r.ts_ns) if moved and _in_order(records) else told)


def _in_order(records: Records) -> bool:
    return all(a.ts_ns <= b.ts_ns for a, b in pairwise(records))


def at_time(record: Record, ts_ns: int) -> Record:
    return msgspec.structs.replace(record, ts_ns=ts_ns)


def of_kinds(records: Records, *kinds: type) -> list[Any]:
    """The records whose bodies are of these kinds; each kind has fields of its own."""
    return [record for record in records if isinstance(record.body, kinds)]


def pod_of(body: Any) -> tuple[str, str]:  # noqa: ANN401 # any body
    return getattr(body, "namespace", ""), getattr(body, "pod", "")


def subjects_of(body: Any) -> tuple[str, ...]:  # noqa: ANN401 # any body
    namespace, pod = pod_of(body)
    return f"pod/{namespace}/{pod}", f"container/{namespace}/{pod}/"


def specs_of(records: Records) -> dict[tuple[str, str], dict[str, Any]]:
    """Pod -> its spec, of pods of which all lists show one."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in of_kinds(records, PodListed):
        if (spec := record.body.spec) is not None:
            found.setdefault(pod_of(record.body), spec)
    return found


def _without(records: Records, pod: tuple[str, str], container: str, from_ns: int) -> set[int]:
    """Records that a container would not have left had it not been started again."""
    return {
        record.seq
        for record in records
        if record.ts_ns >= from_ns and pod_of(record.body) == pod
        if getattr(record.body, "container", None) == container
    }


def _frozen(records: Records, pod: tuple[str, str], since_ns: int) -> set[int]:
    """Lists of the pod that show what came later."""
    return {
        record.seq
        for record in of_kinds(records, PodListed)
        if pod_of(record.body) == pod and record.ts_ns > since_ns
    }


def ends_ns(records: Records, pod: tuple[str, str]) -> int:
    """When something ends the pod; the end of the records where nothing does."""
    for record in records:
        body: Any = record.body
        name = (getattr(body, "victim_namespace", None), getattr(body, "victim_pod", None))
        if pod not in (pod_of(body), name):
            continue
        gone = isinstance(body, PodListed) and (
            body.gone
            or (body.status or {}).get("phase") in ("Failed", "Succeeded")
            or "deletionTimestamp" in (body.annotations or {})
        )
        ended = isinstance(body, PodConfigChanged) and body.operation in ("DELETE", "REMOVE")
        if (
            gone
            or ended
            or name == pod
            or isinstance(body, PodTerminating | PodTerminated | PodEvicted | PodRejected)
        ):
            return record.ts_ns
    return records[-1].ts_ns


def next_process_ns(records: Records, ts_ns: int) -> int:
    """When the next kubelet starts; the end of the records where none does."""
    later = (r.ts_ns for r in records if r.kind == "node.KubeletStarted" and r.ts_ns > ts_ns)
    return next(later, records[-1].ts_ns)


# -- restarts and the order of starts --------------------------------------------------------------


def _never_restarted(records: Records, random: Random) -> Iterator[Tale]:
    """The container ended, its policy is Always, and nothing more is seen of it."""
    for record in of_kinds(records, ContainerRestarted):
        body: Any = record.body
        pod = pod_of(body)
        if specs_of(records).get(pod, {}).get("restartPolicy") != "Always":
            continue
        died = [
            r
            for r in of_kinds(records, ContainerDied)
            if pod_of(r.body) == pod
            and r.body.container == body.container
            and r.ts_ns <= record.ts_ns
        ]
        if (
            not died
            or min(ends_ns(records, pod), next_process_ns(records, died[-1].ts_ns)) - died[-1].ts_ns
            < LONG_NS
        ):
            continue
        gone = _without(records, pod, body.container, died[-1].ts_ns) - {died[-1].seq}
        gone |= _frozen(records, pod, died[-1].ts_ns)
        yield Tale(
            f"{pod} {body.container}", told_with(records, dict.fromkeys(gone)), subjects_of(body)
        )


def inits_of(spec: dict[str, Any]) -> list[str]:
    return [c["name"] for c in spec.get("initContainers") or () if "restartPolicy" not in c]


def first_of(records: Records, kind: type, pod: tuple[str, str], container: str) -> Any:  # noqa: ANN401 # as of `_of`
    return next(
        (
            r
            for r in of_kinds(records, kind)
            if pod_of(r.body) == pod and r.body.container == container
        ),
        None,
    )


def _never_initialized(records: Records, random: Random) -> Iterator[Tale]:
    """An init container ended well, and the next, or the main ones, were never started."""
    for pod, spec in specs_of(records).items():
        inits = inits_of(spec)
        names = [*inits, *(c["name"] for c in spec["containers"])]
        for number, name in enumerate(inits):
            died = first_of(records, ContainerDied, pod, name)
            then = first_of(records, ContainerStarted, pod, names[number + 1])
            if died is None or then is None or died.body.exit_code != 0:
                continue
            until = min(ends_ns(records, pod), next_process_ns(records, died.ts_ns))
            if until - died.ts_ns < LONG_NS:
                continue
            frozen = _frozen(records, pod, died.ts_ns)
            gone: dict[int, Record | None] = {
                r.seq: with_fields(r, status={"phase": "Pending"})
                for r in records
                if r.seq in frozen
            }
            for other in names[number + 1 :]:
                gone |= dict.fromkeys(_without(records, pod, other, died.ts_ns))
            yield Tale(
                f"{pod} {names[number + 1]}",
                told_with(records, gone),
                subjects_of(died.body),
            )


def _main_before_init(records: Records, random: Random) -> Iterator[Tale]:
    """The main container's start stands before its init container's."""
    for pod, spec in specs_of(records).items():
        inits, own = inits_of(spec), [c["name"] for c in spec["containers"]]
        main = first_of(records, ContainerStarted, pod, own[0])
        init = first_of(records, ContainerStarted, pod, inits[0]) if inits else None
        over = first_of(records, ContainerDied, pod, inits[0]) if inits else None
        if main is None or init is None or over is None or not init.ts_ns < main.ts_ns:
            continue
        if over.ts_ns - init.ts_ns < NS_PER_S:
            continue
        told = []
        for record in records:
            told += [at_time(main, init.ts_ns)] if record is init else []
            told += [record] if record is not main else []
        yield Tale(f"{pod} {own[0]}", numbered(told), subjects_of(main.body))


def _main_after_failure(records: Records, random: Random) -> Iterator[Tale]:
    """The last init container failed under Never, and the main ones started all the same."""
    for pod, spec in specs_of(records).items():
        inits = inits_of(spec)
        over = first_of(records, ContainerDied, pod, inits[-1]) if inits else None
        if over is None or over.body.exit_code != 0 or spec.get("restartPolicy") != "Never":
            continue
        others: dict[int, Record | None] = {over.seq: with_fields(over, exit_code=1)}
        others |= dict.fromkeys(
            _frozen(records, pod, 0)
            - {
                r.seq
                for r in of_kinds(records, PodListed)
                if pod_of(r.body) == pod and r.ts_ns < over.ts_ns
            }
        )
        listed = [r for r in of_kinds(records, PodListed) if pod_of(r.body) == pod]
        if listed and listed[0].ts_ns > over.ts_ns:  # its spec, without a status
            others[listed[0].seq] = with_fields(listed[0], status={})
        if any(first_of(records, ContainerStarted, pod, c["name"]) for c in spec["containers"]):
            yield Tale(f"{pod} {inits[-1]}", told_with(records, others), subjects_of(over.body))


def _as_never(records: Records, pod: tuple[str, str]) -> dict[int, Record | None]:
    return {
        r.seq: with_fields(r, spec=r.body.spec | {"restartPolicy": "Never"})
        for r in of_kinds(records, PodListed)
        if pod_of(r.body) == pod and r.body.spec is not None
    }


def _never_after_hook(records: Records, random: Random) -> Iterator[Tale]:
    """Its postStart hook failed, its policy is Never, and it is started again."""
    for record in of_kinds(records, ContainerRestarted):
        body: Any = record.body
        spec = specs_of(records).get(pod_of(body))
        sidecars = [] if spec is None else spec.get("initContainers") or []
        if any(c["name"] == body.container and "restartPolicy" in c for c in sidecars):
            continue  # it starts again under any policy
        if body.reason == _HOOK and (others := _as_never(records, pod_of(body))):
            told = told_with(records, others)
            yield Tale(f"{pod_of(body)} {body.container}", told, subjects_of(body))


def _too_early(records: Records, random: Random) -> Iterator[Tale]:
    """A restart right after the end, though a back-off runs; start and death have one stamp."""
    for held in of_kinds(records, RestartBackedOff):
        pod, name = pod_of(held.body), held.body.container
        mine: list[Any] = [
            r
            for r in records
            if pod_of(r.body) == pod and getattr(r.body, "container", None) == name
        ]
        later = [r for r in mine if r.ts_ns > held.ts_ns]
        start = next((r for r in later if isinstance(r.body, ContainerStarted)), None)
        again = next((r for r in later if isinstance(r.body, RestartBackedOff)), None)
        if (
            start is None
            or start.ts_ns - held.ts_ns < 5 * NS_PER_S
            or (again is not None and again.ts_ns < start.ts_ns)
        ):
            continue
        at_ns = held.ts_ns + NS_PER_S
        ends = [
            r.ts_ns for r in mine if r.ts_ns <= held.ts_ns and isinstance(r.body, ContainerDied)
        ]
        if not ends or at_ns > ends[-1] + (held.body.back_off_s - 4) * NS_PER_S:
            continue  # the back-off is over by then, or nearly
        death = next(
            (
                r
                for r in later
                if isinstance(r.body, ContainerDied)
                and r.body.container_id == start.body.container_id
            ),
            None,
        )
        with_it = [
            r
            for r in later
            if r.ts_ns <= start.ts_ns + NS_PER_S
            and not isinstance(r.body, RestartBackedOff | ContainerDied)
        ]
        others: dict[int, Record | None] = {r.seq: at_time(r, at_ns) for r in with_it}
        if death is not None:
            others[death.seq] = at_time(death, at_ns)
        yield Tale(f"{pod} {name}", told_with(records, others), subjects_of(held.body))


def _reason(records: Records, random: Random) -> Iterator[Tale]:
    """A restart names another reason."""
    reasons = ("exited", "liveness_probe", "startup_probe", "spec_changed", _HOOK)
    for record in of_kinds(records, ContainerRestarted):
        body: Any = record.body
        if body.reason is not None:
            other = random.choice([each for each in reasons if each != body.reason])
            told = told_with(records, {record.seq: with_fields(record, reason=other)})
            yield Tale(f"{pod_of(body)} {body.reason} -> {other}", told, subjects_of(body))


def _change_ignored(records: Records, random: Random) -> Iterator[Tale]:
    """The spec has another image, and the container runs on as if nothing had been."""
    starts = of_kinds(records, ContainerStarted)
    random.shuffle(starts)
    for start in starts[:6]:
        body: Any = start.body
        pod, spec = pod_of(body), specs_of(records).get(pod_of(body), {})
        names = [c["name"] for c in spec.get("containers", ())]
        until = min(ends_ns(records, pod), next_process_ns(records, start.ts_ns))
        death = next(
            (
                r.ts_ns
                for r in of_kinds(records, ContainerDied, ContainerKilled)
                if r.body.container_id == body.container_id
            ),
            until,
        )
        lists = [r for r in of_kinds(records, PodListed) if pod_of(r.body) == pod and r.body.spec]
        span = min(until, death) - start.ts_ns
        if body.container not in names or span < 200 * NS_PER_S or not lists:
            continue
        if "file" in str(lists[0].body.annotations):
            continue
        at_ns = start.ts_ns + NS_PER_S * random.randint(10, 20)
        containers = [
            c | ({"image": "example/other:2"} if c["name"] == body.container else {})
            for c in spec["containers"]
        ]
        late = {
            r.seq: with_fields(r, spec=r.body.spec | {"containers": containers})
            for r in lists
            if r.ts_ns > at_ns
        }
        new = spec | {"containers": containers}
        shown = [r for r in lists if r.ts_ns <= at_ns] or lists
        listed = at_time(with_fields(shown[-1], spec=new), at_ns + 2 * NS_PER_S)
        update = msgspec.structs.replace(
            start,
            ts_ns=at_ns,
            seq=0,
            role="observation",
            kind=PodConfigChanged.kind,
            v=1,
            cause=None,
            body=PodConfigChanged(
                namespace=pod[0], pod=pod[1], pod_uid=body.pod_uid, operation="UPDATE", source="api"
            ),
        )
        extra = [update, msgspec.structs.replace(listed, seq=0, cause=None)]
        if not _in_order(records):
            continue
        told = sorted([*(late.get(r.seq, r) for r in records), *extra], key=lambda r: r.ts_ns)
        yield Tale(f"{pod} {body.container}", numbered(told), subjects_of(body))


def _false_change(records: Records, random: Random) -> Iterator[Tale]:
    """A kill names a changed definition, where all lists show one."""
    for record in of_kinds(records, ContainerKilled):
        body: Any = record.body
        if body.reason in ("liveness_probe", "startup_probe"):
            words = f"Container {body.container} definition changed, will be restarted"
            others: dict[int, Record | None] = {
                record.seq: with_fields(record, reason="spec_changed", message=words)
            }
            for again in of_kinds(records, ContainerRestarted):
                if again.body.previous_container_id == body.container_id:
                    others[again.seq] = with_fields(again, reason="spec_changed")
            yield Tale(
                f"{pod_of(body)} {body.container}", told_with(records, others), subjects_of(body)
            )


# -- causes before effects -------------------------------------------------------------------------


def _cgroup_too_early(records: Records, random: Random) -> Iterator[Tale]:
    """A cgroup is removed a good while before what leads to it."""
    for record in of_kinds(records, CgroupRemoved):
        at_ns = record.ts_ns - 40 * NS_PER_S
        path = record.body.cgroup
        uid = path.rpartition("pod")[2].partition("/")[0].replace("_", "-").removesuffix(".slice")
        starts = [
            r.ts_ns
            for r in of_kinds(records, ContainerStarted)
            if (r.body.pod_uid or "?") in (uid, uid.replace("-", ""))
        ]
        ends = [
            r.ts_ns
            for r in of_kinds(records, ContainerDied, ContainerKilled, PodTerminating)
            if (r.body.pod_uid or "?") == uid
        ]
        if starts and min(starts) < at_ns and (not ends or min(ends) > at_ns + _APART_NS):
            told = told_with(records, {record.seq: at_time(record, at_ns)})
            yield Tale(path, told, (f"cgroup/{path}", "pod/", "container/"))


# -- evictions -------------------------------------------------------------------------------------


def _not_ranked(records: Records, random: Random) -> Iterator[Tale]:
    """A pod is missing from the ranking."""
    for record in of_kinds(records, ReclaimAttempted):
        body: Any = record.body
        if body.ranked is not None and len(body.ranked) > 1:
            out = random.randrange(1, len(body.ranked))
            ranked = body.ranked[:out] + body.ranked[out + 1 :]
            told = told_with(records, {record.seq: with_fields(record, ranked=ranked)})
            yield Tale(f"{body.resource} without {body.ranked[out].pod}", told, ("node", "pod/"))


def _are_equal(records: Records, record: Record, pods: Sequence[Any]) -> bool:
    """Whether the last reading before a ranking shows no difference between pods."""
    specs = specs_of(records)
    read = [r for r in of_kinds(records, PodUsageObserved) if r.seq < record.seq]
    rows = {pod_of(row): row for row in read[-1].body.pods} if read else {}
    body: Any = record.body
    fields = {"memory": "memory_bytes", "pids": "processes"}
    field = fields.get(body.resource, "storage_bytes")

    def shown(pod: tuple[str, str]) -> tuple[Any, ...]:
        row = rows.get(pod)
        return specs.get(pod, {}).get("priority"), row is None, getattr(row, field, None)

    return len({shown(pod_of(pod)) for pod in pods}) == 1


def _reversed(records: Records, random: Random) -> Iterator[Tale]:
    """The ranking is reversed behind the victim."""
    for record in of_kinds(records, ReclaimAttempted):
        body: Any = record.body
        if body.ranked is not None and len(body.ranked) > 2:
            if _are_equal(records, record, body.ranked[1:]):
                continue  # any order of them is right
            ranked = (body.ranked[0], *body.ranked[:0:-1])
            told = told_with(records, {record.seq: with_fields(record, ranked=ranked)})
            yield Tale(f"{body.resource}, {len(ranked)} pods", told, ("node", "pod/"))


def _hard_thresholds(records: Records) -> dict[str, str]:
    """Signal -> the threshold of every process, where it has one."""
    found: list[dict[str, str]] = []
    for record in of_kinds(records, SettingsObserved):
        setting = record.body.settings.get("evictionHard")
        if setting is not None:
            given = json.loads(setting.value) or {}
            found.append(
                {
                    n: v
                    for n, v in given.items()
                    if n in ("memory.available", "nodefs.available", "imagefs.available")
                }
            )
    return found[0] if found and all(each == found[0] for each in found) else {}


def _not_evicted(records: Records, random: Random) -> Iterator[Tale]:
    """A signal stays at a tenth of its hard threshold for 110 s, and nothing is done."""
    hard = _hard_thresholds(records)
    signals = [r for r in of_kinds(records, EvictionSignalObserved) if r.body.signal in hard]
    acts = [r.ts_ns for r in of_kinds(records, ReclaimAttempted, PodEvicted, NodeConditionsChanged)]
    if not signals:
        return
    for _ in range(3):
        first = random.choice(signals)
        name, until = first.body.signal, first.ts_ns + 110 * NS_PER_S
        near = any(first.ts_ns - 400 * NS_PER_S < ts < until + 60 * NS_PER_S for ts in acts)
        if near or next_process_ns(records, first.ts_ns) < until + NS_PER_S:
            continue
        others: dict[int, Record | None] = {}
        for r in signals:
            body: Any = r.body
            if body.signal == name and first.ts_ns <= r.ts_ns <= until:
                text = hard[name]
                quantity = (
                    int(body.capacity * float(text[:-1]) // 100)
                    if text[-1] == "%"
                    else value_of(text)
                )
                available = quantity // 10 - random.randrange(1 << 12)
                others[r.seq] = with_fields(r, available=max(available, 0))
        if len(others) >= 8:
            yield Tale(f"{name} {first.seq}", told_with(records, others), ("node", "pod/"))


def _outcome(records: Records, random: Random) -> Iterator[Tale]:
    """An eviction ended otherwise."""
    for record in of_kinds(records, PodEvicted):
        body: Any = record.body
        if body.evicted is not None:
            told = told_with(records, {record.seq: with_fields(record, evicted=not body.evicted)})
            yield Tale(f"{pod_of(body)} {body.evicted}", told, subjects_of(body))


def _eviction_grace(records: Records, random: Random) -> Iterator[Tale]:
    """An eviction gives another grace period."""
    for record in of_kinds(records, PodEvicted):
        body: Any = record.body
        if body.grace_period_s is not None:
            other = body.grace_period_s + random.choice((3, 7, 20))  # a worker and a runtime differ
            told = told_with(records, {record.seq: with_fields(record, grace_period_s=other)})
            yield Tale(f"{pod_of(body)} {body.grace_period_s} -> {other}", told, subjects_of(body))


def _no_conditions(records: Records, random: Random) -> Iterator[Tale]:
    """The node's conditions changed, and the change never came."""
    for record in of_kinds(records, NodeConditionsChanged):
        told = told_with(records, {record.seq: None})
        yield Tale(f"{record.seq} {record.body.conditions}", told, ("node", "pod/"))


# -- shutdown --------------------------------------------------------------------------------------


def _stopped(records: Records) -> list[Record]:
    return [r for r in of_kinds(records, PodTerminating) if r.body.reason == "shutdown"]


def _admitted_in_shutdown(records: Records, random: Random) -> Iterator[Tale]:
    """A pod that comes while the node shuts down is let in."""
    for record in of_kinds(records, PodRejected):
        body: Any = record.body
        if body.reason == "NodeShutdown":
            let_in = PodAdmitted(
                namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid, inferred=False
            )
            others: dict[int, Record | None] = {
                record.seq: msgspec.structs.replace(record, kind=let_in.kind, v=1, body=let_in)
            }
            for r in records:
                if pod_of(r.body) == pod_of(body) and isinstance(
                    r.body, PodListed | KubernetesEvent
                ):
                    others[r.seq] = None
                    if isinstance(r.body, PodListed) and r.body.spec is not None:
                        others[r.seq] = with_fields(r, status={"phase": "Pending"})
            yield Tale(f"{pod_of(body)}", told_with(records, others), subjects_of(body))


def _not_stopped(records: Records, random: Random) -> Iterator[Tale]:
    """A pod runs on while all others are stopped."""
    for record in _stopped(records):
        pod = pod_of(record.body)
        gone = {r.seq for r in records if pod_of(r.body) == pod and r.ts_ns >= record.ts_ns}
        yield Tale(f"{pod}", told_with(records, dict.fromkeys(gone)), subjects_of(record.body))


def _long_grace(records: Records, random: Random) -> Iterator[Tale]:
    """A pod gets more time than there is."""
    for record in _stopped(records):
        body: Any = record.body
        longer = (body.grace_period_s or 0) + random.choice((5, 30, 100))
        others: dict[int, Record | None] = {record.seq: with_fields(record, grace_period_s=longer)}
        for r in of_kinds(records, ContainerKilled):
            if pod_of(r.body) == pod_of(body) and r.body.reason == "node_shutdown":
                others[r.seq] = with_fields(r, grace_period_s=longer)
        yield Tale(f"{pod_of(body)} {longer}", told_with(records, others), subjects_of(body))


def _wrong_turn(records: Records, random: Random) -> Iterator[Tale]:
    """Pods of a higher priority are stopped with the first."""
    stopped = _stopped(records)
    for record in stopped:
        if record.ts_ns > stopped[0].ts_ns + 4 * NS_PER_S:  # an end is told so late
            pod = pod_of(record.body)
            others: dict[int, Record | None] = {
                r.seq: at_time(r, stopped[0].ts_ns)
                for r in records
                if pod_of(r.body) == pod
                and isinstance(r.body, PodTerminating | ContainerKilled)
                and r.ts_ns == record.ts_ns
            }
            yield Tale(f"{pod}", told_with(records, others), subjects_of(record.body))


# -- probes ----------------------------------------------------------------------------------------


def _no_startup(records: Records, random: Random) -> Iterator[Tale]:
    """The startup probe succeeded, and its change to success never came."""
    for record in of_kinds(records, ProbeTransitioned):
        body: Any = record.body
        others = [
            r
            for r in of_kinds(records, ProbeTransitioned)
            if r is not record and not r.body.inferred
        ]
        until = min(ends_ns(records, pod_of(body)), next_process_ns(records, record.ts_ns))
        is_told = not body.inferred and others and until - record.ts_ns > 60 * NS_PER_S
        if body.probe_type == "startup" and body.to_result == "success" and is_told:
            told = told_with(records, {record.seq: None})
            yield Tale(f"{pod_of(body)} {body.container}", told, subjects_of(body))


# -- images ----------------------------------------------------------------------------------------


def _run_of(records: Records, end: Record) -> list[Any]:
    at = records.index(end)
    before = [i for i, r in enumerate(records[:at]) if isinstance(r.body, GarbageCollected)]
    return [
        r
        for r in records[(before[-1] if before else 0) : at]
        if isinstance(r.body, ImageDeleted) and r.body.pass_ in ("space", None)
    ]


def _shorter(records: Records, end: Record, gone: Sequence[Any]) -> list[Record]:
    """The history as it were had a run not removed some images, and said so."""
    body: Any = end.body
    less = sum(r.body.size_bytes or 0 for r in gone)
    freed = None if body.bytes_freed is None else body.bytes_freed - less
    error = body.error.replace(str(body.bytes_freed), str(freed))
    others: dict[int, Record | None] = dict.fromkeys(r.seq for r in gone)
    others[end.seq] = with_fields(
        end, bytes_freed=freed, error=error, images_removed=body.images_removed - len(gone)
    )
    return told_with(records, others)


def _stops_early(records: Records, random: Random) -> Iterator[Tale]:
    """A run of image GC leaves its last images, though it has not freed enough."""
    for end in of_kinds(records, GarbageCollected):
        removed = _run_of(records, end)
        if len(removed) > 1 and end.body.outcome == "failed":
            gone = removed[-random.randint(1, len(removed) - 1) :]
            yield Tale(
                f"{len(gone)} of {len(removed)}", _shorter(records, end, gone), ("node", "image/")
            )


def _skipped(records: Records, random: Random) -> Iterator[Tale]:
    """A run leaves out an image that was old and unused in its own detect pass."""
    for end in of_kinds(records, GarbageCollected):
        removed = _run_of(records, end)
        if len(removed) > 1:
            gone = removed[random.randrange(len(removed) - 1)]
            left = (end.body.bytes_freed or 0) - (gone.body.size_bytes or 0)
            if end.body.bytes_to_free is not None and left >= end.body.bytes_to_free:
                continue  # the order among equals is free, and this is enough
            yield Tale(
                f"{gone.body.image_id}",
                _shorter(records, end, [gone]),
                ("node", "image/"),
            )


def _amount(records: Records, random: Random) -> Iterator[Tale]:
    """A run says that it has to free another amount."""
    for start in of_kinds(records, GarbageCollectionStarted):
        body: Any = start.body
        for part in (3, 10, 50):
            amount = body.bytes_to_free + random.choice((1, -1)) * (
                body.bytes_to_free * part // 100
            )
            others: dict[int, Record | None] = {start.seq: with_fields(start, bytes_to_free=amount)}
            end = next(
                (r for r in of_kinds(records, GarbageCollected) if r.cause == start.seq), None
            )
            if end is not None:
                error = end.body.error.replace(str(body.bytes_to_free), str(amount))
                others[end.seq] = with_fields(end, bytes_to_free=amount, error=error)
            yield Tale(f"{part} %", told_with(records, others), ("node", "image/"))


TALES: dict[str, Teller] = {
    "restart never came": _never_restarted,
    "next container never came": _never_initialized,
    "main before init": _main_before_init,
    "main after failed init": _main_after_failure,
    "Never after failed hook": _never_after_hook,
    "back-off too early": _too_early,
    "restart's reason": _reason,
    "spec change ignored": _change_ignored,
    "kill for no change": _false_change,
    "cgroup removed early": _cgroup_too_early,
    "pod not ranked": _not_ranked,
    "ranking reversed": _reversed,
    "no eviction": _not_evicted,
    "eviction's outcome": _outcome,
    "eviction's grace": _eviction_grace,
    "conditions never came": _no_conditions,
    "admitted in shutdown": _admitted_in_shutdown,
    "not stopped in shutdown": _not_stopped,
    "grace above the period": _long_grace,
    "shutdown out of turn": _wrong_turn,
    "startup never came": _no_startup,
    "GC stops early": _stops_early,
    "GC skips an image": _skipped,
    "GC amount": _amount,
}
"""What is told -> who tells it."""
