"""From what single records show of pods to their lives."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from kubeledger.kubelet.kube.keys import name_key
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.builder import LifeBuilder, Surroundings
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.podlife import ContainerRun, PodHistory
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process, Processes
from kubeledger.verify.evidence.signs import Sign
from kubeledger.verify.evidence.turns import Turns

__all__ = ["Gathered", "gather"]

_RUNS_MAX: Final = 256
"""So many runs of a pod's containers are remembered, the last ones."""
_LAG_NS: Final = 10 * NS_PER_S
"""A list may show the status of so much earlier."""

_CALLS: Final = frozenset(
    {"add", "update", "delete", "remove", "evicted", "preempted", "terminating", "ending_event"}
)

Signs = Mapping[str, Mapping[str | None, Sequence[Sign]]]
"""``namespace/name`` -> UID -> signs, in any order."""


class Gathered(msgspec.Struct):
    """What all signs together say.

    Attributes:
        pods: key -> pod.
        configured: process -> its first config line.
        listed: (n,) times of the kubelet's lists.
        preempted_for: pod -> when the last victim was killed for it, as far as records show.
    """

    pods: dict[str, PodHistory] = {}
    configured: dict[int, int] = {}
    listed: list[int] = []
    preempted_for: dict[str, int] = {}

    def all_told(self, process: Process, ts_ns: int) -> Iterator[int]:
        """Times around another at which every pod is told: a start, or a list of the kubelet's.

        Config lines show all pods that come; without any, a list shows its own time alone.
        """
        if process.from_start:
            yield process.started_ns
        # Lists leave no record of what an earlier one showed alike, perhaps under another process.
        later = process.number > 0 and not process.from_start
        if later or process.number not in self.configured:
            return
        index = bisect_right(self.listed, ts_ns)
        for listed_ns in self.listed[max(index - 1, 0) : index + 1]:
            if process.started_ns <= listed_ns < (process.ended_ns or listed_ns + 1):
                yield listed_ns


def gather(
    signs: Signs,
    lists: Mapping[str, list[int]],
    processes: Processes,
    turns: Turns,
    coverage: Coverage,
    specs: PodRegister,
) -> Gathered:
    """Make the lives of all pods.

    Args:
        signs: of all pods.
        lists: whose list -> times, in order.
        processes: settled, like all that follow.
        turns: of the sync loops.
        coverage: what may be missing.
        specs: the pods' objects.
    """
    found = Gathered(listed=lists["kubelet"])
    told: dict[str, tuple[str, str | None, list[Sign]]] = {}
    for full_name, of_name in signs.items():
        for key, pod_uid, own in _by_pod(full_name, of_name):
            known = told.get(key)
            if known is None:
                told[key] = (full_name, pod_uid, own)
            else:
                known[2].extend(own)
    for _, _, own in told.values():
        own.sort(key=attrgetter("ts_ns", "seq"))
        for sign in own:
            process = processes.at(sign.ts_ns)
            if sign.what in ("add", "update", "delete", "remove") and process is not None:
                first = found.configured.get(process.number, sign.ts_ns)
                found.configured[process.number] = min(first, sign.ts_ns)
            if sign.other is not None:
                uid, namespace, pod = sign.other
                key = uid or name_key(namespace, pod)
                last = found.preempted_for.get(key, 0)
                found.preempted_for[key] = max(last, sign.ts_ns)
    around = Surroundings(processes, turns, coverage, specs, found.configured)
    for key, (full_name, pod_uid, own) in told.items():
        namespace, _, name = full_name.partition("/")
        history = PodHistory(key=key, uid=pod_uid, namespace=namespace, name=name)
        history.created_ns = _created_ns(own)
        history.runs = _runs(own)
        history.calls = _calls(own)
        history.shown_ns = _shown(own, lists)
        history.failures = [sign for sign in own if sign.shown is not None and sign.shown.failed]
        builder = LifeBuilder(history, own, around)
        history.lives = builder.lives()
        if history.lives or history.runs:
            found.pods[key] = history
    return found


def _by_pod(
    name: str, of_name: Mapping[str | None, Sequence[Sign]]
) -> Iterator[tuple[str, str | None, list[Sign]]]:
    """Give each sign to a pod; one without UID to the newest pod of its name by then.

    Of a pod that is brought while its predecessor is not heard of again, the UID is told later.
    """
    by_uid = {uid: list(signs) for uid, signs in of_name.items() if uid is not None}
    unnamed = list(of_name.get(None, ()))
    if not by_uid:
        if unnamed:
            yield name, None, unnamed
        return
    came = sorted((_first_ns(signs), uid) for uid, signs in by_uid.items())
    last_ns = {uid: max(sign.ts_ns for sign in signs) for uid, signs in by_uid.items()}
    for sign in unnamed:
        index = bisect_right(came, sign.ts_ns, key=lambda pod: pod[0])
        is_next = 0 < index < len(came) and last_ns[came[index - 1][1]] < sign.ts_ns
        index += sign.what == "add" and is_next
        by_uid[came[max(index - 1, 0)][1]].append(sign)
    for uid, signs in by_uid.items():
        yield uid or name_key(*name.split("/", 1)), uid, signs


def _first_ns(signs: Sequence[Sign]) -> int:
    """When a pod can have come at the earliest, as far as its own signs show."""
    created_ns = _created_ns(signs)
    return min(sign.ts_ns for sign in signs) if created_ns is None else created_ns


def _created_ns(signs: Sequence[Sign]) -> int | None:
    times = [s.shown.created_ns for s in signs if s.shown is not None and not s.shown.mirror]
    return min((ts_ns for ts_ns in times if ts_ns is not None), default=None)


def _runs(signs: Sequence[Sign]) -> list[ContainerRun]:
    """Starts, kills and deaths of containers, put together."""
    by_id: dict[str, ContainerRun] = {}
    last: dict[str | None, ContainerRun] = {}
    for sign in signs:
        if sign.what not in ("started", "killed", "died"):
            continue
        run = by_id.get(sign.container_id or "")
        if run is None and sign.container_id is None:
            run = last.get(sign.container)
            if run is None or run.died_ns is not None:
                continue
        if run is None:
            run = ContainerRun(name=sign.container, container_id=sign.container_id)
            by_id[sign.container_id or ""] = run
        run.name = run.name or sign.container
        last[run.name] = run
        _note(run, sign)
    return list(by_id.values())[-_RUNS_MAX:]


def _calls(signs: Sequence[Sign]) -> list[Sign]:
    """What config sources say of a pod, and what decides that it ends."""
    found: list[Sign] = []
    for sign in signs:
        again = sign.what == "update" and found and found[-1].what == "update"
        if sign.what in _CALLS and not again:
            found.append(sign)
    return found


def _note(run: ContainerRun, sign: Sign) -> None:
    run.sandbox = run.sandbox if sign.sandbox is None else sign.sandbox
    if sign.what == "started" and run.started_ns is None:
        run.started_ns, run.started_seq = sign.ts_ns, sign.seq
    elif sign.what == "killed" and run.killed_ns is None:
        run.killed_ns, run.killed_seq = sign.ts_ns, sign.seq
    elif sign.what == "died":
        if run.died_ns is None:
            run.died_ns, run.died_seq = sign.ts_ns, sign.seq
        if run.exit_code is None:
            run.exit_code = sign.number


def _shown(signs: Sequence[Sign], lists: Mapping[str, list[int]]) -> tuple[int, int] | None:
    """First and last time that lists show the pod alive.

    A list that shows the same again leaves no record: it was shown until another state is.
    """
    found: list[int] = []
    listed = sorted(
        (s for s in signs if s.shown is not None), key=lambda s: (s.shown and s.shown.by, s.ts_ns)
    )
    for by, of_source in groupby(listed, key=lambda s: s.shown.by if s.shown else ""):
        times, states = lists[by], list(of_source)
        for index, sign in enumerate(states):
            if sign.shown is None or not sign.shown.alive:
                continue
            later = states[index + 1].ts_ns if index + 1 < len(states) else times[-1] + 1
            last = times[bisect_left(times, later) - 1]
            found += (sign.ts_ns, max(last - _LAG_NS, sign.ts_ns - _LAG_NS))
    return (min(found), max(found)) if found else None
