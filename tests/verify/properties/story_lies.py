"""The stories of :mod:`~tests.verify.properties.tales`, told in a node's files before the import.

What did not happen leaves no line, no event, no cgroup and no status: a story is told in the log,
in the files of events, in cgroups and in lists at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any

from kubeledger.model.bodies.cgroups import CgroupRemoved
from kubeledger.model.bodies.eviction import NodeConditionsChanged
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
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminating,
)
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from tests.verify.properties.clocks import moved_by
from tests.verify.properties.list_lies import Json, lists_of, rewritten, shown_otherwise
from tests.verify.properties.raw_lies import (
    LOG,
    Bundle,
    Edits,
    Liar,
    RawLie,
    number_alone,
    subjects,
    values_of,
)
from tests.verify.properties.tales import ends_ns, inits_of, next_process_ns, specs_of

_EVENTS = ("events.json", "events-watch.json")
_LONG_NS = 960 * NS_PER_S
"""The longest back-off and ten minutes are over then."""
_APART_NS = 15 * NS_PER_S
"""Farther than what stamps, relists and the round of a snapshot leave open."""


# -- in all files --------------------------------------------------------------------------------


def _without_events(bundle: Bundle, told_of: Callable[[Json], bool]) -> Edits:
    """The files of events without some."""
    edits: Edits = {}
    for path in sorted(path for name in _EVENTS for path in bundle.path.rglob(name)):
        file = str(path.relative_to(bundle.path))
        documents = list(_documents(b"\n".join(bundle.lines(file)).decode()))
        left = [kept for each in documents if (kept := _less(each, told_of)) is not None]
        if left != documents:
            edits |= rewritten(bundle, file, *left)
    return edits


def _less(held: Any, told_of: Callable[[Json], bool]) -> Any:  # noqa: ANN401 # a list, or an event
    """A document without some events; None: nothing is left of it."""
    if isinstance(held, list):
        return [row for row in held if not told_of(row.get("object", row))]
    if "items" in held:
        return held | {"items": [row for row in held["items"] if not told_of(row)]}
    return None if told_of(held) else held


def _documents(text: str) -> Iterator[Any]:
    """JSON after JSON, as a watch writes it."""
    decoder, at = json.JSONDecoder(), 0
    while (found := re.compile(r"\S").search(text, at)) is not None:
        held, at = decoder.raw_decode(text, found.start())
        yield held


def _unseen(bundle: Bundle, words: Iterable[str]) -> Edits:
    """Lines of cgroups and metrics that hold one of these words are not there."""
    needles = [word.encode() for word in words]
    names = ("cgroupfs.txt", "metrics-probes.txt")
    edits: Edits = {}
    for path in sorted(path for name in names for path in bundle.path.rglob(name)):
        file = str(path.relative_to(bundle.path))
        for n, line in enumerate(bundle.lines(file)):
            if any(needle in line for needle in needles):
                edits[file, n] = None
    return edits


def _untold(bundle: Bundle, body: Any, containers: Iterable[str], since: Record) -> Edits:  # noqa: ANN401 # of a pod
    """Nothing is heard of containers of a pod after a record, but in lists."""
    names, ids = set(containers), list[str]()
    for start in bundle.of(ContainerStarted):
        own = start.body.pod_uid == body.pod_uid and start.body.container in names
        if own and start.ts_ns >= since.ts_ns:
            ids.append(start.body.container_id)
    gone: Edits = _unseen(bundle, ids)
    for each in ids:
        gone |= dict.fromkeys(bundle.log(each))
    for name in names:
        for words in (f"{{{name}}}", f'containerName="{name}"', f"):{name}", f"container={name} "):
            for pod in (f"{body.namespace}/{body.pod}", f"{body.pod}_{body.namespace}"):
                gone |= dict.fromkeys(bundle.log(pod, words, since=since))

    def of_these(event: Json) -> bool:
        about = event.get("involvedObject") or {}
        path = str(about.get("fieldPath"))
        return about.get("uid") == body.pod_uid and any(f"{{{name}}}" in path for name in names)

    return gone | _without_events(bundle, of_these)


def _listed_ns(bundle: Bundle) -> dict[str, int]:
    """File of a list -> when it was taken."""
    return {
        bundle.below(evidence.file): record.ts_ns
        for record in bundle.of(PodListed)
        for evidence in record.evidence[:1]
    }


def _in_later_lists(
    bundle: Bundle, uid: str, since_ns: int, change: Callable[[Json], bool]
) -> Edits:
    """The pod otherwise in each list after some time."""
    times, edits = _listed_ns(bundle), Edits()
    last_ns = max(times.values(), default=0)
    for file, held, pod in lists_of(bundle, uid):
        if times.get(file, last_ns) > since_ns and change(pod):
            edits |= rewritten(bundle, file, held)
    return edits


# -- restarts and starts ---------------------------------------------------------------------------


def _never_restarted(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A container ended, and all lists show that it did: it is never started again."""
    died = {r.body.container_id: r for r in bundle.of(ContainerDied)}
    for record in bundle.some(random, ContainerRestarted):
        body = record.body
        end = died.get(body.previous_container_id)
        if end is None or not _is_long(bundle, body, end):
            continue

        def as_then(pod: Json, body: Any = body) -> bool:  # noqa: ANN401 # of the record
            return _ended_for_good(pod, body.container, body.previous_container_id)

        shown = _in_later_lists(bundle, body.pod_uid or "-", end.ts_ns, as_then)
        edits = _untold(bundle, body, [body.container], end) | shown
        yield RawLie(f"{record.seq}", edits, subjects(body))


def _until_ns(bundle: Bundle, body: Any, since: Record) -> int:  # noqa: ANN401 # of a pod
    """Till when all is heard of a pod that lives on: its end, the process's, the log's."""
    lines = bundle.of(ContainerDied, ContainerStarted, EvictionSignalObserved, ProbeExecuted)
    pod = body.namespace, body.pod
    later = ends_ns(bundle.records, pod), next_process_ns(bundle.records, since.ts_ns)
    last: Record = lines[-1]
    return min(*later, last.ts_ns)


def _is_long(bundle: Bundle, body: Any, end: Record) -> bool:  # noqa: ANN401 # of a pod
    return _until_ns(bundle, body, end) - end.ts_ns >= _LONG_NS


def _ended_for_good(pod: Json, name: str, container_id: str) -> bool:
    """The status after its last end; where the list has no more of that, after some end."""
    found = False
    for status in pod.get("status", {}).get("containerStatuses", ()):
        states = status.get("state", {}), status.get("lastState", {})
        ends = [s["terminated"] for s in states if "terminated" in s]
        if status["name"] != name or not ends:
            continue
        own = next((e for e in ends if container_id in e.get("containerID", "")), ends[-1])
        status |= {"state": {"terminated": own}, "lastState": {}, "ready": False, "started": False}
        status["containerID"], found = own["containerID"], True
    if found:
        _unready(pod)
    return found


def _unready(pod: Json) -> None:
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"], condition["reason"] = "False", "ContainersNotReady"


def _never_initialized(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """An init container ended well, and the next ones, or the main ones, never start."""
    specs = specs_of(bundle.records)
    for died in bundle.some(random, ContainerDied):
        body = died.body
        spec = specs.get((body.namespace, body.pod), {})
        inits = inits_of(spec)
        if body.exit_code != 0 or body.container not in inits or not _is_long(bundle, body, died):
            continue
        later = [
            *inits[inits.index(body.container) + 1 :],
            *(c["name"] for c in spec["containers"]),
        ]

        def waiting(pod: Json, later: list[str] = later) -> bool:
            status = pod.get("status", {})
            for kind in ("initContainerStatuses", "containerStatuses"):
                for each in status.get(kind, ()):
                    if each["name"] in later:
                        each |= {"state": {"waiting": {"reason": "PodInitializing"}}}
                        each |= {"lastState": {}, "ready": False, "started": False}
                        each |= {"restartCount": 0, "imageID": ""}
                        each.pop("containerID", None)
            status["phase"] = "Pending"
            _unready(pod)
            return True

        shown = _in_later_lists(bundle, body.pod_uid or "-", died.ts_ns, waiting)
        yield RawLie(f"{died.seq}", _untold(bundle, body, later, died) | shown, subjects(body))


def _main_after_failure(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """The last init container failed under ``Never``, and the main ones start all the same."""
    specs = specs_of(bundle.records)
    for died in bundle.some(random, ContainerDied):
        body = died.body
        spec = specs.get((body.namespace, body.pod), {})
        if body.container not in inits_of(spec)[-1:] or body.exit_code != 0:
            continue
        mains = [c["name"] for c in spec["containers"]]
        if not any(r.body.pod_uid == body.pod_uid and r.body.container in mains
                   for r in bundle.of(ContainerStarted)):  # fmt: skip
            continue

        def failed(pod: Json, body: Any = body) -> bool:  # noqa: ANN401 # of the record
            pod["spec"]["restartPolicy"] = "Never"
            for status in pod.get("status", {}).get("initContainerStatuses", ()):
                ended = status.get("state", {}).get("terminated")
                if status["name"] == body.container and ended is not None:
                    ended |= {"exitCode": 1, "reason": "Error"}
                    status["ready"] = False
            return True

        edits = _in_later_lists(bundle, body.pod_uid or "-", 0, failed)
        own = bundle.log(body.container_id, "exitCode")
        edits |= {at: re.sub(rb'(exitCode"?[=:] ?)0', rb"\g<1>1", line) for at, line in own.items()}
        yield RawLie(f"{died.seq}", edits, subjects(body))


def _never_after_hook(pod: Json, body: ContainerRestarted) -> bool:
    pod["spec"]["restartPolicy"] = "Never"
    own = {container["name"] for container in pod["spec"]["containers"]}
    return body.reason == "post_start_hook" and body.container in own


def _unkilled(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A probe's kill is not told: the container ended by itself, and is started again."""
    for record in bundle.some(random, ContainerKilled):
        body = record.body
        if body.reason not in ("liveness_probe", "startup_probe", "post_start_hook"):
            continue

        def killing(event: Json, body: Any = body) -> bool:  # noqa: ANN401 # of the record
            about = event.get("involvedObject") or {}
            return about.get("uid") == body.pod_uid and event.get("reason") == "Killing"

        edits = dict.fromkeys(bundle.told(record)) | _without_events(bundle, killing)
        yield RawLie(f"{record.seq}", edits, subjects(body))


def _change_ignored(bundle: Bundle, random: Random, *, is_told: bool = True) -> Iterator[RawLie]:
    """An update gives another image, and the container runs on as if nothing had been.

    Or it is not told, and no list shows the container with what it was made with.
    """
    died = {r.body.container_id: r.ts_ns for r in bundle.of(ContainerDied, ContainerKilled)}
    times = {*_listed_ns(bundle).values()}
    adds = [r for r in bundle.of(PodConfigChanged)
            if r.body.operation == "ADD" and r.body.source == "api"]  # fmt: skip
    for start in bundle.some(random, ContainerStarted):
        body = start.body
        own_adds = [r for r in adds if r.body.pod_uid == body.pod_uid and r.ts_ns <= start.ts_ns]
        added = own_adds[-1] if own_adds else start
        is_later = next_process_ns(bundle.records, added.ts_ns) < start.ts_ns
        if not own_adds or is_later or body.sandbox or not body.container:
            continue
        pod = body.namespace, body.pod
        until = _until_ns(bundle, body, start)
        until = min(until, died.get(body.container_id, until))
        own = [c["name"] for c in specs_of(bundle.records).get(pod, {}).get("containers", ())]
        lists = [ns for ns in sorted(times) if start.ts_ns + NS_PER_S < ns < until - 190 * NS_PER_S]
        if len(lists) < 2 or body.container not in own:
            continue  # no list shows the image before, or for long after
        if not is_told and not _is_pull_told(bundle, start):
            continue  # nothing else says with what it was made

        def other_image(pod: Json, body: Any = body) -> bool:  # noqa: ANN401 # of the record
            for container in pod["spec"]["containers"]:
                if container["name"] == body.container:
                    container["image"] = "example.com/other:2"
            return True

        at_ns = lists[0] + 6 * NS_PER_S if is_told else start.ts_ns - 20 * NS_PER_S
        edits = _in_later_lists(bundle, body.pod_uid, at_ns, other_image)
        line, *_ = bundle.told(added, files=(LOG,)).values()
        update = moved_by(line, (at_ns - added.ts_ns) / NS_PER_S).replace(b"ADD", b"UPDATE")
        if edits:
            told = bundle.besides(update) if is_told else {}
            yield RawLie(f"{start.seq}", edits | told, subjects(body))


def _is_pull_told(bundle: Bundle, start: Record) -> bool:
    """Whether the log has the event of the image that a container is started with."""
    body: Any = start.body
    return any(
        r.body.reason == "Pulled"
        and (r.body.pod_uid, r.body.container) == (body.pod_uid, body.container)
        and 0 <= start.ts_ns - r.ts_ns < 20 * NS_PER_S
        for r in bundle.of(KubernetesEvent)
    )


# -- kills, cgroups --------------------------------------------------------------------------------


def _false_change(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A kill names a changed definition, where all lists show one."""
    for record in bundle.some(random, ContainerKilled):
        body = record.body
        if body.reason in ("liveness_probe", "startup_probe"):
            words = rf"Container {body.container} definition changed"
            edits = bundle.said(record, rf"Container {body.container} failed \w+ probe", words)
            if edits:
                yield RawLie(f"{record.seq}", edits, subjects(body))


def _cgroup_too_early(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A pod's cgroup is in no snapshot of the last minute before what ends the pod."""
    ends = bundle.of(ContainerDied, ContainerKilled, PodTerminating)
    starts = bundle.of(ContainerStarted)
    shots = sorted({(r.ts_ns, bundle.below(e.file)) for r in bundle.records
                    for e in r.evidence if e.file.endswith("cgroupfs.txt")})  # fmt: skip
    for record in bundle.some(random, CgroupRemoved):
        uid = record.body.pod_uid
        ended = min((r.ts_ns for r in ends if r.body.pod_uid == uid), default=record.ts_ns)
        began = min((r.ts_ns for r in starts if r.body.pod_uid == uid), default=ended)
        own = [(ns, file) for ns, file in shots if began + 10 * NS_PER_S < ns <= record.ts_ns]
        later = [(ns, file) for ns, file in own if file != own[0][1] and ns > ended - 90 * NS_PER_S]
        gone = sorted({file for _, file in later})
        if uid is None or not any(ns < ended - _APART_NS for ns, _ in later):
            continue
        needles = record.body.cgroup.encode() + b"/", f"pod{uid}".encode() + b"/"
        edits: Edits = {
            (file, n): None
            for file in gone
            for n, line in enumerate(bundle.lines(file))
            if any(needle in line for needle in needles)
        }
        if edits:
            yield RawLie(record.body.cgroup, edits, ("cgroup/", "pod/", "container/"))


# -- evictions -------------------------------------------------------------------------------------


def _outcome(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A pod could not be evicted, it says, and its containers ended well in time."""
    for record in bundle.some(random, PodEvicted):
        for at, line in bundle.told(record, files=(LOG,)).items():
            if b"is evicted successfully" in line:
                failed = re.sub(
                    rb'"Eviction manager: pod is evicted successfully"(.*)',
                    rb'"Eviction manager: pod failed to evict"\g<1>'
                    rb' err="timed out waiting to kill pod"',
                    line,
                )
                failed = failed.replace(b"is evicted successfully", b"failed to evict <nil>")
                yield RawLie(f"{record.seq}", {at: b"E" + failed[1:]}, subjects(record.body))


def _no_conditions(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """The node's conditions changed, and no round says so until they change again."""
    changes = bundle.of(NodeConditionsChanged)
    for record in random.sample(changes, len(changes)):
        if not record.body.conditions:
            continue
        later = [r for r in changes if r.ts_ns > record.ts_ns]
        (first, *_) = sorted(n for _, n in bundle.told(record, files=(LOG,)))
        last = min((n for r in later[:1] for _, n in bundle.told(r, files=(LOG,))),
                   default=len(bundle.lines(LOG)))  # fmt: skip
        told = bundle.log("node conditions -") | bundle.log("NodeHas")
        edits: Edits = {at: None for at in told if first <= at[1] < last}
        names = {"MemoryPressure": "Memory", "DiskPressure": "Disk", "PIDPressure": "PID"}
        words = [names[each] for each in record.body.conditions]

        def of_these(event: Json, words: list[str] = words) -> bool:
            reason = str(event.get("reason"))
            return reason.startswith("NodeHas") and any(word in reason for word in words)

        yield RawLie(f"{record.seq}", edits | _without_events(bundle, of_these), ("node", "pod/"))


# -- shutdown --------------------------------------------------------------------------------------


def _not_stopped(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A pod is not stopped while the node shuts down: nothing is heard of it any more."""
    for record in bundle.some(random, PodTerminating):
        body = record.body
        if body.reason != "shutdown" or body.pod_uid is None:
            continue
        until = next_process_ns(bundle.records, record.ts_ns)
        first = min(n for _, n in bundle.told(record, files=(LOG,)))
        later = (n for r in bundle.records if r.kind == "node.KubeletStarted" and r.ts_ns >= until
                 for _, n in bundle.told(r, files=(LOG,)))  # fmt: skip
        last = min(later, default=len(bundle.lines(LOG)))
        told = bundle.log(f'"{body.namespace}/{body.pod}"') | bundle.log(body.pod_uid)
        edits: Edits = {at: None for at in told if first <= at[1] < last}
        yield RawLie(f"{record.seq}", edits, subjects(body))


def _admitted_in_shutdown(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A pod that comes while the node shuts down is not refused."""
    for record in bundle.some(random, PodRejected):
        body = record.body
        if body.reason != "NodeShutdown" or body.pod_uid is None:
            continue

        def of_pod(event: Json, uid: str = body.pod_uid) -> bool:
            return (event.get("involvedObject") or {}).get("uid") == uid

        def pending(pod: Json) -> bool:
            pod["status"] = {"phase": "Pending", "qosClass": pod["status"].get("qosClass")}
            return True

        told = bundle.log(f'"{body.namespace}/{body.pod}"', "NodeShutdown") | bundle.log(
            f'"{body.namespace}/{body.pod}"', "shut"
        )
        edits: Edits = dict.fromkeys(told)
        edits |= _in_later_lists(bundle, body.pod_uid, 0, pending)
        edits |= _without_events(bundle, of_pod)
        yield RawLie(f"{record.seq}", edits, subjects(body))


# -- probes, images --------------------------------------------------------------------------------


def _no_startup(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """The startup probe succeeded, and that changed nothing: no other probe is made since."""
    for record in bundle.some(random, ProbeTransitioned):
        body = record.body
        if body.probe_type != "startup" or body.to_result != "success" or body.inferred:
            continue

        def starting(pod: Json, body: Any = body) -> bool:  # noqa: ANN401 # of the record
            found = False
            for status in pod.get("status", {}).get("containerStatuses", ()):
                if (body.container_id or "-") in status.get("containerID", ""):
                    status["started"], status["ready"], found = False, False, True
            if found:
                _unready(pod)
            return found

        names = f"{body.namespace}/{body.pod}", f"{body.pod}_{body.namespace}"
        told = [at for name in names for at in bundle.log(name, "robe", since=record)]
        own = {at for at, line in bundle.told(record).items() if b"SyncLoop" not in line}
        edits: Edits = dict.fromkeys(at for at in told if at not in own)
        edits |= _in_later_lists(bundle, body.pod_uid or "-", record.ts_ns, starting)
        yield RawLie(f"{record.seq}", edits, subjects(body))


def _stops_early(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A run of image GC leaves its last images, though it has not freed enough."""
    for end in bundle.some(random, GarbageCollected):
        removed = [r for r in bundle.of(ImageDeleted) if r.cause == end.cause and r.cause]
        if len(removed) < 2 or end.body.outcome != "failed" or not end.body.bytes_freed:
            continue
        gone = removed[-random.randint(1, len(removed) - 1) :]
        less = end.body.bytes_freed - sum(r.body.size_bytes or 0 for r in gone)
        edits: Edits = dict.fromkeys(bundle.told(*gone))
        edits |= bundle.said(end, number_alone(str(end.body.bytes_freed)), str(less))
        yield RawLie(f"{end.seq} {len(gone)} of {len(removed)}", edits, ("node", "image/"))


def _amount(bundle: Bundle, random: Random) -> Iterator[RawLie]:
    """A run of image GC has to free another amount, it says at its start and at its end."""
    for start in bundle.some(random, GarbageCollectionStarted):
        amount = start.body.bytes_to_free
        end = next((r for r in bundle.of(GarbageCollected) if r.cause == start.seq), None)
        if amount is None:
            continue
        other = amount + random.choice((1, -1)) * amount * random.choice((3, 10, 50)) // 100
        both = [start] if end is None else [start, end]
        edits: Edits = {}
        for record in both:
            edits |= bundle.said(record, number_alone(str(amount)), str(other))
        yield RawLie(f"{start.seq} {other}", edits, ("node", "image/"))


STORY_LIARS: dict[str, Liar] = {
    "restart never came, in lists too": _never_restarted,
    "next container never came": _never_initialized,
    "main after failed init": _main_after_failure,
    "Never after failed hook": shown_otherwise((ContainerRestarted,), _never_after_hook),
    "restart's reason": _unkilled,
    "spec change ignored": _change_ignored,
    "another image from the start": partial(_change_ignored, is_told=False),
    "kill for no change": _false_change,
    "cgroup removed early": _cgroup_too_early,
    "eviction's outcome": _outcome,
    "eviction's grace": values_of(
        (ContainerKilled,),
        ("grace_period_s", r"(?<=gracePeriod=){}\b", ("+3", "+7", "+20")),
        reason="evicted",
    ),
    "conditions never came": _no_conditions,
    "not stopped in shutdown": _not_stopped,
    "admitted in shutdown": _admitted_in_shutdown,
    "startup never came": _no_startup,
    "GC stops early": _stops_early,
    "GC amount": _amount,
}
"""What is told -> who tells it."""
