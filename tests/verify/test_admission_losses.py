"""What lost lines leave open: nothing is impossible because something is not told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeledger.devicemanager.records import AllocationFailed
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.lifecycle.records import PodConfigChanged, PodListed, PodRejected
from kubeledger.machine import Record
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify import Finding
from kubeledger.verify.admission.foresight import Foresight
from kubeledger.verify.admission.judgement import OTHER_VICTIMS, VICTIMS
from tests.verify.admission_world import (
    Step,
    add,
    admitted,
    alone,
    asks,
    died,
    findings_of,
    judge,
    listed,
    preempted,
    ran,
    refused,
    start,
)
from tests.verify.histories import recorded, scene
from tests.verify.test_preemption_scenes import critical, later, pods, verdict

OUT_OF_CPU = "Node didn't have enough resource: cpu, requested: 600, used: {}, capacity: 1000"


def _out(used: int, at: float = 50) -> list[Step]:
    return [
        *refused("x", at, "OutOfcpu", OUT_OF_CPU.format(used)),
        listed("x", asks("600m"), status={"phase": "Failed"}),
    ]


def _verdict_of(*steps: Any, name: str = "x") -> str:  # noqa: ANN401 # steps
    return findings_of(judge(start(), *steps), name)[-1].verdict


def test_the_end_of_a_pod_may_be_lost() -> None:
    """Nothing shows ``b`` alive at the refusal: it may have ended, and may not have."""
    for used, expected in ((800, "match"), (500, "admissible"), (700, "impossible")):
        shown = [listed("a", asks("500m")), listed("b", asks("300m"), at=20)]
        gone = listed("b", asks("300m"), at=100, status={"phase": "Failed"})
        both = [*admitted("a", 1), *admitted("b", 2)]
        assert _verdict_of(both, shown, gone, _out(used)) == expected


@pytest.mark.parametrize("sign", [died("b", 60), ran("b", 60), preempted("b", "y", 60)])
def test_what_happens_to_a_pod_later_shows_it_alive(sign: Step) -> None:
    """It counted, so its share was in use."""
    shown = [listed("a", asks("500m")), listed("b", asks("300m"), at=20)]
    gone = listed("b", asks("300m"), at=100, status={"phase": "Failed"})
    both = [*admitted("a", 1), *admitted("b", 2)]
    assert _verdict_of(both, shown, gone, sign, _out(800)) == "match"
    assert _verdict_of(both, shown, gone, sign, _out(500)) == "impossible"


def test_the_line_of_an_add_may_be_lost() -> None:
    """A list shows ``b``, which was made before: it may have counted, and others may be lost."""
    shown = [listed("a", asks("500m")), listed("b", asks("300m"), created_s=1_800_000_000)]
    shown[1] = (900, msgspec.structs.replace(shown[1][1], created_ts_ns=1))
    for used, expected in ((800, "match"), (500, "admissible"), (700, "unverifiable")):
        assert _verdict_of(admitted("a", 1), shown, _out(used)) == expected
    later_add = add("b", 80)
    assert _verdict_of(admitted("a", 1), shown, later_add, _out(800)) == "impossible"


def test_own_numbers_rest_on_nothing_else() -> None:
    """Request and capacity are the pod's and the node's, wherever the log begins."""
    for whole in (True, False):
        for old, new in (("requested: 600", "requested: 650"), ("capacity: 1000", "capacity: 900")):
            message = OUT_OF_CPU.format(500).replace(old, new)
            told = judge(
                start(whole=whole),
                refused("x", 50, "OutOfcpu", message),
                listed("x", asks("600m"), status={"phase": "Failed"}),
            )
            (found,) = findings_of(told, "x")
            assert found.verdict == "impossible"
            assert new.partition(": ")[2] in found.why
            assert found.expected is not None
            assert old in found.expected["message"]


@pytest.mark.parametrize("live", [True, False])
def test_victims_whose_lines_are_lost(live: bool) -> None:
    """Room had to be made, and no line tells by whom; unless all others lived on."""
    steps = [*pods("300m", "400m", "200m"), *critical("500m"), later()]
    if not live:
        # All are still there when room is made, and nothing shows who is later.
        steps = [(min(at, 19) if isinstance(b, PodListed) else at, b) for at, b in steps]
        steps += [died(name, 24) for name in "abc"]
    (found,) = findings_of(judge(start(), steps), "x")
    assert found.verdict == ("impossible" if live else "unverifiable")
    assert live or found.missing == (VICTIMS,)


def test_one_line_a_victim_of_which_one_is_lost() -> None:
    """The other victim's line is there, and does not suffice."""
    steps = [*pods("300m", "400m", "200m"), *critical("800m"), later()]
    steps = [(min(at, 19) if isinstance(b, PodListed) else at, b) for at, b in steps]
    found = judge(start(), steps, preempted("b", "x", 20.1, ("cpu", 700)))
    assert verdict(found, "b") == "unverifiable"
    assert findings_of(found, "b")[-1].missing == (OTHER_VICTIMS,)


def _without_uids() -> list[Record]:
    """Only manifests show the pods of node-b."""
    return [
        msgspec.structs.replace(
            r,
            body=msgspec.structs.replace(
                r.body, listed_by="manifest", pod_uid=None, pod=r.body.pod.removesuffix("-node-b")
            ),
        )
        if isinstance(r.body, PodListed)
        else r
        for r in recorded("node-b")
    ]


def test_pods_without_uids() -> None:
    """They are told apart by their names."""
    found = [o for o in alone(_without_uids()) if isinstance(o, Finding)]
    assert {f.verdict for f in found if f.kind == PodPreempted.kind} == {"match"}
    assert not [f for f in found if f.verdict == "impossible"]


def test_a_refusal_that_no_line_tells() -> None:
    """A victimless preemption is followed by a refusal, but its lines may be lost."""

    def scene_with(status: dict[str, Any]) -> list[str]:
        failed = AllocationFailed(
            namespace="ns",
            pod="a",
            pod_uid="uid-a",
            container="c",
            resource="example.com/gpu",
            error="no",
            told_by="log",
        )
        told = judge(start(), add("a", 1), (1.01, failed), listed("a", status=status), later())
        return [o.kind for o in told if isinstance(o, Finding) and o.recorded is None]

    assert scene_with({}) == []
    message = "Pod was rejected: Allocate failed due to no, which is unexpected"
    failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    assert len(scene_with(failed)) <= 1


def _signal(at: float, available: int, name: str = "nodefs.available") -> Step:
    return at, EvictionSignalObserved(signal=name, available=available, capacity=1000)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        (range(3, 100, 10), "impossible"),
        ([3, 13, 23, 43, 53, 63, 73, 83, 93], "unverifiable"),
        ([3, 13, 23, 33, 43, 53, 63, 73], "unverifiable"),
        ([63, 73, 83, 93], "unverifiable"),
    ],
)
def test_no_pressure_is_told_by_readings_without_a_gap(readings: Any, expected: str) -> None:  # noqa: ANN401
    """A reading that was short may stand in a line that is lost."""
    message = "The node had condition: [DiskPressure]. "
    told = judge(
        start(evictionHard={"nodefs.available": "10%"}),
        [_signal(at, 500) for at in readings],
        refused("x", 98, "Evicted", message),
        listed("x", asks("1m"), status={"phase": "Failed"}),
    )
    (found,) = findings_of(told, "x")
    assert found.verdict == expected


def test_real_nodes_without_any_line_of_a_kind() -> None:
    """ADDs or victims are missing: nothing is impossible."""
    for node in ("node-a", "node-b"):
        for kind in (PodConfigChanged, PodPreempted):
            rest = [r for r in recorded(node) if not isinstance(r.body, kind)]
            assert not [
                o for o in alone(rest) if not isinstance(o, Finding) or o.verdict == "impossible"
            ], (node, kind)


def test_a_refusal_of_a_later_pod_of_that_name() -> None:
    """The first ``x`` was let in; the line that handed over the second is lost."""
    message = OUT_OF_CPU.format(500)
    body = PodRejected(
        namespace="ns", pod="x", pod_uid="another", reason="OutOfcpu", message=message
    )
    found = judge(start(), admitted("x", 1), (50, body), listed("x", asks("600m")))
    assert findings_of(found, "x")[-1].verdict == "unverifiable"


def test_a_status_of_the_process_before_refuses_nobody() -> None:
    """The pod was let in, and a list shows yet how it was refused before."""
    failed = AllocationFailed(
        namespace="ns",
        pod="a",
        pod_uid="uid-a",
        container="c",
        resource="example.com/gpu",
        error="no",
        told_by="status",
    )
    turn = add("a", 1), (1.5, failed), admitted("a", 1)[1]
    found = judge(start(), *turn, listed("a"))
    assert [f.verdict for f in findings_of(found, "a")] == ["match"]


def test_pods_without_an_add_are_those_of_the_next_list() -> None:
    """What was listed before is known, and what comes up later was not there yet."""
    foresight = Foresight()
    steps = [listed(name, at=at) for name, at in (("a", 10), ("b", 20), ("c", 20), ("d", 30))]
    records = scene(*steps)
    for record in records:
        foresight.pod_listed(record)
    begin_ns = records[0].ts_ns - 10 * NS_PER_S
    for at, names in ((5, ["a"]), (12, ["b", "c"]), (19.5, ["b", "c", "d"]), (31, [])):
        next_ones = foresight.listed_next(begin_ns + int(at * NS_PER_S))
        assert [key for key, _ in next_ones] == [f"uid-{name}" for name in names]
