"""Resizes in place in a simulated node, by version: what is allocated, and what comes of it."""

from functools import partial

import pytest

from kubeledger.model.bodies.cgroups import CgroupUpdated, PodsStateRead
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    KubernetesEvent,
    PodListed,
    PodResized,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import KubeletRestart
from kubeledger.verify.finding import Contradiction, Finding
from tests.simulate.engine.scenes import outcomes, played
from tests.verify.histories import changed

VERSIONS = ("1.33.13", "1.34.9", "1.35.6", "1.36.2")


run = partial(played, "resizes")


def told(found: list[Record], pod: str) -> list[tuple[int, str, str | None]]:
    return [
        (r.ts_ns // (60 * NS_PER_S) % 60, r.body.outcome, r.body.reason)
        for r in found
        if isinstance(r.body, PodResized) and r.body.pod == pod
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_by_version(version: str) -> None:
    """What is larger than the node is infeasible up to 1.35, and else deferred for ever."""
    found = run(version)
    beyond = "deferred", "OutOfcpu"
    assert told(found, "shop") == [
        (1, "allocated", None),
        (1, "actuated", None),
        (3, "deferred", "OutOfcpu"),
        # Without a queue the pod waits for its own sync; with one, for the other pod's status.
        (7 if version == "1.33.13" else 6, "allocated", None),
        (7 if version == "1.33.13" else 6, "actuated", None),
        (9, *(beyond if version == "1.36.2" else ("infeasible", None))),
        (12, "allocated", None),
        (12, "allocated", "Error"),
        (14, "actuated", None),
    ]
    assert told(found, "batch") == [(6, "allocated", None), (6, "actuated", None)]
    (kill,) = (r.body for r in found if isinstance(r.body, ContainerKilled))
    assert (kill.reason, kill.message) == ("resized", "Container job resize requires restart")


@pytest.mark.parametrize("version", VERSIONS)
def test_all_is_verified(version: str) -> None:
    """Each resize, by the real decider, and the cgroups that are written for it.

    Whether a status that makes room has come back a second after that resize, no record shows.
    """
    found = outcomes(run(version))
    assert not any(isinstance(each, Contradiction) for each in found)
    findings = [each for each in found if isinstance(each, Finding)]
    resizes = [each.verdict for each in findings if each.kind == PodResized.kind]
    room_made = "match" if version == "1.33.13" else "unverifiable"
    assert resizes == ["match"] * 5 + [room_made] + ["match"] * 5
    assert {each.verdict for each in findings} <= {"match", "admissible", "unverifiable"}


def test_what_the_runtime_has_got() -> None:
    """Cgroups and statuses follow the allocation, and a limit below the use waits."""
    found = run("1.36.2")
    cpus = [
        r.body.unified.get("cpu.weight")
        for r in found
        if isinstance(r.body, CgroupUpdated) and r.body.container == "server"
    ]
    assert cpus == ["20", "28", "59", "8"]
    shown = [
        (one["resources"]["requests"]["cpu"], [c["reason"] for c in status["conditions"][4:]])
        for r in found
        if isinstance(r.body, PodListed) and r.body.pod == "shop" and (status := r.body.status)
        for one in status["containerStatuses"]
        if "resources" in one
    ]
    assert list(dict.fromkeys((cpu, *why) for cpu, why in shown)) == [
        ("500m",),
        ("700m",),
        ("700m", "Deferred"),
        ("1500m",),
        ("1500m", "Deferred"),
        ("1500m", "Error"),
        ("200m",),
    ]


def test_events_since_1_35() -> None:
    """Since 1.36 they name what refused the resize."""
    for version, says in (("1.34.9", None), ("1.35.6", "Deferred"), ("1.36.2", "OutOfcpu")):
        events = [r.body for r in run(version) if isinstance(r.body, KubernetesEvent)]
        refused = [each.message for each in events if each.reason == "ResizeDeferred"]
        assert [text.partition(":")[0] for text in refused][:1] == (
            [] if says is None else [f"Pod resize {says}"]
        )
        assert any(each.reason == "ResizeCompleted" for each in events)


def test_a_kubelet_that_starts_goes_on_with_its_checkpoint() -> None:
    restart = KubeletRestart(at_ns=4 * 60 * NS_PER_S, down_ns=10 * NS_PER_S)
    found = run("1.36.2", kubelet_restarts=(restart,))
    assert told(found, "shop")[2:5] == [
        (3, "deferred", "OutOfcpu"),
        (4, "deferred", "OutOfcpu"),
        (6, "allocated", None),
    ]
    assert {each.verdict for each in outcomes(found) if isinstance(each, Finding)} <= {
        "match",
        "admissible",
        "unverifiable",
    }


def test_lies_are_caught() -> None:
    """About outcomes and words; the state file shows an allocation that is another."""
    found = run("1.36.2")
    deferred = next(r for r in found if getattr(r.body, "outcome", "") == "deferred")
    for lie in ({"outcome": "infeasible", "reason": None}, {"outcome": "allocated"},
                {"message": "Node didn't have enough resource: cpu, requested: 1500, used: 1001, "
                            "capacity: 2000"}):  # fmt: skip
        verdicts = {
            each.verdict
            for each in outcomes(changed(found, deferred.seq, **lie))
            if isinstance(each, Finding) and each.seq == deferred.seq
        }
        assert verdicts == {"impossible"}, lie
    files = [r for r in found if isinstance(r.body, PodsStateRead)]
    before = files[0].body
    assert isinstance(before, PodsStateRead)
    lied = outcomes(changed(found, files[-1].seq, pods=before.pods))
    assert any(isinstance(each, Contradiction) for each in lied)
