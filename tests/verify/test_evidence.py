"""What the evidence model says of simulated nodes, of which everything is known.

The pods that surely counted did, and those that did are among those that may have: of whole
histories, and of histories of which lines, files and both ends are lost.
"""

import random
from collections.abc import Iterator
from functools import cache, partial
from itertools import pairwise
from random import Random

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import (
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    PodRejected,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.record import Body
from kubeledger.simulate.engine.sim import Sim
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.gather import Gathered, still_asked
from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.processes import Process
from tests.marks import nightly
from tests.random_scenarios import random_plan
from tests.verify.histories import kubelet_of, scene, settled
from tests.verify.properties.losses import LOSSES
from tests.verify.properties.truths import Truth

_MS = 1_000_000
_ASKED_NS = 3600 * 1000 * _MS
"""So far back rules ask."""

Counted = list[tuple[int, dict[str, str]]]
"""Time, and UID -> name of the pods that count from it on, until the next."""


class Watched(Sim):
    """A simulated node whose active pods are written down after each step."""

    def watch(self) -> tuple[Truth, Counted]:
        counted: Counted = []
        go_on = self.schedule.run_next

        def run_next(until_ns: int) -> bool:
            went_on = go_on(until_ns)
            if self.running_kubelet() is not None:
                pods = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in self.world.active_pods()}
                counted.append((self.schedule.now_ns, pods))
            else:
                counted.append((self.schedule.now_ns, {"": ""}))
            return went_on

        self.schedule.run_next = run_next  # type: ignore[method-assign]
        return Truth("", tuple(self.run()), True), counted


@cache
def watched(seed: int) -> tuple[Truth, Counted]:
    return Watched(msgspec.structs.replace(random_plan(seed), every_tick=True)).watch()


def wrong(seed: int, how: str, forgotten: int = 0) -> Iterator[str]:
    """What the timeline says wrongly of a node whose records are degraded.

    ``forgotten``: in percent; so much of the time is over, and nobody asks about it any more.
    """
    truth, counted = watched(seed)
    records = LOSSES[how](truth, Random(f"{seed}{how}"))
    context = settled(records)
    times = [record.ts_ns for record in records]
    begin_ns, end_ns = min(times, default=0), max(times, default=0)
    asked_ns = begin_ns + (end_ns - begin_ns) * forgotten // 100
    if forgotten:
        context.settle(asked_ns + _ASKED_NS)
    for (ts_ns, pods), (next_ns, _) in pairwise(counted):
        at_ns = ts_ns + _MS
        is_short = "" in pods or next_ns - ts_ns < 2 * _MS
        if is_short or at_ns > end_ns or (forgotten and ts_ns < asked_ns):
            continue
        found = context.timeline.active(at_ns, at_ns)
        for key in found.must.keys() - pods.keys():
            yield f"{at_ns}: {found.must[key].full_name} did not count"
        names = {interval.full_name for interval in found.may.values()}
        for key in pods.keys() - found.may.keys() if found.loss is None else ():
            known = how != "pod" or key in context.timeline.pods  # of some nothing at all is left
            if known and pods[key] not in names:
                yield f"{at_ns}: {pods[key]} counted"


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("seed", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_what_counted_lies_between_what_must_and_what_may(seed: int, how: str) -> None:
    assert list(wrong(seed, how)) == []


@pytest.mark.parametrize("forgotten", [60, *nightly(30, 90)])
@pytest.mark.parametrize("seed", [60, *nightly(*range(61, 64))])
def test_what_is_forgotten_is_not_missed(seed: int, forgotten: int) -> None:
    """Pods that are gone, and what another state took the place of."""
    assert [(how, each) for how in LOSSES for each in wrong(seed, how, forgotten)] == []


def pod(name: str, body: type[Body], **fields: object) -> Body:
    return body(**{"namespace": "d", "pod": name, "pod_uid": f"u-{name}"} | fields)


def config(operation: str = "ADD", uid: str | None = "u-a") -> Body:
    return pod("a", PodConfigChanged, operation=operation, source="api", pod_uid=uid)


def shown(phase: str = "Running", **fields: object) -> Body:
    return pod("a", PodListed, spec={}, status={"phase": phase}, listed_by="kubelet", **fields)


def runs(name: str) -> Body:
    return pod(name, ContainerStarted, container="c", container_id=name, sandbox=False)


def test_pods_that_are_gone_are_forgotten() -> None:
    """Only those that no source has, and of which nothing is told any more."""
    start = kubelet_of("1.30.14")
    steps: list[tuple[float, Body]] = [(0, start)]
    for name in "abc":
        steps += [
            (1, pod(name, PodConfigChanged, operation="ADD", source="api")),
            (1, pod(name, PodListed, spec={"containers": []}, status={}, listed_by="api")),
            (2, runs(name)),
        ]
    steps += [(9, pod(name, PodConfigChanged, operation="REMOVE", source="api")) for name in "ab"]
    steps += [(5000, pod("b", ContainerStarted, container="c", container_id="b2"))]
    records = scene(*steps)
    context = VerifyContext()
    for record in records:
        context.prescan(record)
        context.settle(record.ts_ns)
    assert set(context.timeline.pods) == {"u-b", "u-c"}
    assert [listed.uid for listed in context.pods.newest()] == ["u-b", "u-c"]
    assert context.timeline.active(records[-1].ts_ns, records[-1].ts_ns).loss is None


ENDS = partial(pod, "a", PodTerminating, grace_period_s=0)
CAME: list[tuple[float, Body]] = [(0, kubelet_of(from_start=True)), (1, config()), (2, runs("a"))]
AGAIN = (100, kubelet_of(pid=2, from_start=True))
OF_FILE = msgspec.structs.replace(config(), source="file")
REFUSED = pod("a", PodRejected, reason="OutOfcpu", message="")


@pytest.mark.parametrize(
    ("steps", "at_s", "counts"),
    [
        ([*CAME, (11, ENDS(reason="deleted"))], 10, "must"),
        ([*CAME, (8, runs("b")), (11, ENDS(reason="ended"))], 10, "may"),  # a relist saw it before
        ([*CAME[:2], (2, shown("Pending")), (10, REFUSED)], 9, "may"),
        ([*CAME, (10, shown(gone=True)), (20, shown())], 30, "must"),
        ([*CAME, (9, config("REMOVE", uid=None))], 20, ""),
        ([*CAME, (9, pod("a", PodTerminated)), AGAIN], 150, ""),
        ([*CAME, (9, config("DELETE")), AGAIN, (101, config())], 110, "may"),
        # The line with which a static pod came is lost, not that of its mirror.
        ([CAME[0], (1, OF_FILE), (2, runs("a")), AGAIN, (130, config())], 120, "may"),
        ([CAME[0], (1, OF_FILE), (2, runs("a")), AGAIN, (130, OF_FILE)], 120, ""),
    ],
)
def test_when_a_pod_counts(steps: list[tuple[float, Body]], at_s: int, counts: str) -> None:
    timeline = settled(scene(*steps, (200, runs("b")), start_s=0)).timeline
    found = timeline.active(at_s * 1000 * _MS, at_s * 1000 * _MS)
    assert ("must" if "u-a" in found.must else "may" if "u-a" in found.may else "") == counts


def test_a_pod_is_down_when_that_is_told_first() -> None:
    down = [(at_s, pod("a", PodTerminated)) for at_s in (20, 30)]
    (interval,) = settled(scene(*CAME, *down, start_s=0)).timeline.pods["u-a"].intervals
    assert interval.terminated_ns == 20_000 * _MS


def test_a_pod_by_its_name() -> None:
    """The newest that had come, else the first; none where another UID is asked for."""
    timeline = settled(scene(*CAME, (50, config(uid="u-2")), start_s=0)).timeline
    asked = [(0, None), (10, None), (60, None), (60, "u-3")]
    found = [timeline.pod(at_s * 1000 * _MS, uid, "d", "a") for at_s, uid in asked]
    assert [each and each.uid for each in found] == ["u-a", "u-a", "u-2", None]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(120, 160))
def test_many_nodes(seed: int) -> None:
    assert [(how, each) for how in LOSSES for each in wrong(seed, how)] == []


def test_most_of_what_counts_is_sure_where_nothing_is_lost() -> None:
    truth, counted = watched(1)
    context = settled(truth.records)
    pairs = [
        (len(pods), context.timeline.active(ts_ns + _MS, ts_ns + _MS))
        for (ts_ns, pods), (next_ns, _) in pairwise(counted)
        if "" not in pods and next_ns - ts_ns >= 2 * _MS
    ]
    sure = sum(len(found.must) for _, found in pairs)
    assert sure >= 0.9 * sum(count for count, _ in pairs)
    assert sum(found.loss is not None for _, found in pairs) < 0.05 * len(pairs)


# What is remembered of a pod: what says nothing of later times goes.

_RUNS = 40
_BEFORE = _RUNS * 10 - 5
"""In the last run of the container."""


def _crash_loop() -> list[HistoryEntry]:
    """Added, then a container that starts and dies again and again, with an update each time."""
    entries = [HistoryEntry(0, 1, "add")]
    for run in range(_RUNS):
        at, name = run * 10 + 1, f"c{run}"
        entries += [
            HistoryEntry(at, at, "started", container="app", container_id=name),
            HistoryEntry(at + 1, at + 1, "update"),
            HistoryEntry(at + 2, at + 2, "died", container_id=name),
        ]
    return entries


def test_runs_between_the_first_and_the_last_go() -> None:
    entries = _crash_loop()
    random.Random(7).shuffle(entries)
    kept = sorted(entry.ts_ns for entry in still_asked(entries, _BEFORE))
    last = (_RUNS - 1) * 10 + 1
    assert kept == [0, 1, 2, 3, last, last + 1, last + 2]


def test_what_is_asked_for_stays() -> None:
    """All of a later time, however much, and whatever ends the pod."""
    entries = [*_crash_loop(), HistoryEntry(200, 500, "killed", "evicted", "app", "c5")]
    assert still_asked(entries, 0) == entries
    kept = still_asked(entries, _BEFORE)
    assert [entry.word for entry in kept if entry.what == "killed"] == ["evicted"]


def test_to_forget_again_changes_nothing() -> None:
    once = still_asked(_crash_loop(), _BEFORE)
    assert set(still_asked(once, _BEFORE)) == set(once)


@pytest.mark.parametrize(("number", "times"), [(0, [10, 20]), (1, [])])
def test_lists_of_a_later_process_whose_start_is_missing_show_no_whole(
    number: int, times: list[int]
) -> None:
    """What they show as an earlier one's did leaves no record."""
    process = Process(
        number=number, pid=None, version=None, seq=1, started_ns=0, from_start=False, ended_ns=30
    )
    gathered = Gathered(configured={number: 5}, listed=[10, 20])
    assert list(gathered.complete_times(process, 15)) == times
