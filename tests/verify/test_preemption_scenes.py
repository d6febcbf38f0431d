"""Every branch of the verification of preemption, on small scenes."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.devicemanager import DevicesReported
from kubeledger.model.bodies.eviction import InsufficientResource, PreemptionFailed
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodConfigChanged, PodTerminated
from kubeledger.verify import Finding, Outcome
from tests.verify.admission_world import (
    CRITICAL,
    add,
    admitted,
    asks,
    died,
    findings_of,
    identity,
    judge,
    listed,
    preempted,
    ran,
    refused,
    start,
)

VERSIONS = ["1.20.2", "1.36.2"]
Step = tuple[float, Any]


def pods(*requests: str, **specs: dict[str, Any]) -> list[Step]:
    steps: list[Step] = []
    for second, (name, cpu) in enumerate(zip("abcdefg", requests, strict=False), start=1):
        steps += [*admitted(name, second), ran(name, second + 0.5)]
        steps.append(listed(name, asks(cpu, "10Mi"), **specs.get(name, {})))
    return steps


def critical(cpu: str, at: float = 20, *, let_in: bool = True) -> list[Step]:
    """A critical pod x, which is let in 3 seconds later."""
    after = [(at + 3, PodAdmitted(**identity("x")))] if let_in else []
    return [add("x", at), *after, listed("x", asks(cpu), priority=CRITICAL)]


def later(at: float = 60) -> Step:
    return at, PodConfigChanged(**identity("z"), operation="RECONCILE", source="api")


def verdict(found: list[Outcome], name: str) -> str:
    """The verdict on a pod as a victim (the last finding about it)."""
    return findings_of(found, name)[-1].verdict


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("named", [True, False])
def test_the_right_victims(version: str, named: bool) -> None:
    """Named or not, the preemptor is the critical pod whose turn it is."""
    preemptor = "x" if named else None
    found = judge(
        start(version),
        pods("300m", "400m", "200m"),
        critical("500m"),
        preempted("b", preemptor, 20.1, ("cpu", 400)),
        [died("b", 22), (22.1, PodTerminated(**identity("b"))), later()],
    )
    finding = findings_of(found, "b")[-1]
    assert finding.verdict == "match"
    assert finding.recorded == finding.expected
    assert finding.why == (
        "ns/b (Burstable, no priority, 400m of cpu) was killed because ns/x (priority 2000000000) "
        "lacked 400m of cpu (500m of cpu requested, 900m of 1000m in use): it is nearer to the "
        "missing 400m of cpu than ns/a (300m of cpu)"
    )
    assert verdict(found, "x") == "match"


def test_devices_of_two_kinds_that_the_node_object_does_not_list_yet() -> None:
    """Of neither it need list the likely number; but what was missing is one that it can give."""
    kinds = ("example.com/gpu", "example.com/nic")
    sent = [(5, DevicesReported(resource=kind, total=4, healthy=4, device_ids=tuple("0123")))
            for kind in kinds]  # fmt: skip
    holds, asked = ({"name": "c", "resources": {"requests": dict.fromkeys(kinds, count)}}
                    for count in "32")  # fmt: skip
    vital = listed("x", asked, priority=CRITICAL)
    for lacking, expected in ((2, "match"), (3, "match"), (4, "impossible")):
        missing = ((kinds[0], lacking), (kinds[1], 2))
        found = judge(
            start(),
            sent,
            [*admitted("a", 10), ran("a", 11), listed("a", holds, at=12)],
            [add("x", 20), (23, PodAdmitted(**identity("x"))), vital],
            preempted("a", "x", 20.1, *missing),
            [died("a", 22), (22.1, PodTerminated(**identity("a"))), later()],
        )
        assert verdict(found, "a") == expected


def test_nobody_had_to_die() -> None:
    """There was room; or the pod is not critical, or is refused whatever is done."""
    found = judge(start(), pods("300m"), critical("500m"), preempted("a", "x", 20.1))
    assert findings_of(found, "a")[-1].why.startswith("no pod had to be killed: the pod asks for")
    plain = [*admitted("x", 20), listed("x", asks("900m"))]
    found = judge(start(), pods("300m"), plain, preempted("a", "x", 20.005, ("cpu", 200)))
    assert verdict(found, "a") == "impossible"
    found = judge(start(), pods("300m"), critical("2"), preempted("a", "x", 20.1, ("cpu", 1300)))
    assert verdict(found, "a") == "impossible"


def test_what_came_of_the_kill() -> None:
    """A wait that cannot have run out; containers that ran on; an error that was reported."""
    world: list[Any] = [start(), pods("600m"), critical("500m"), later()]
    failed = preempted("a", "x", 20.1, ("cpu", 100), evicted=False)
    found = judge(*world, failed, died("a", 22))
    assert findings_of(found, "a")[-1].expected == {
        "victim_namespace": "ns", "victim_pod": "a", "victim_uid": "uid-a",
        "preemptor_namespace": "ns", "preemptor_pod": "x", "preemptor_uid": "uid-x",
        "insufficient": [{"resource": "cpu", "quantity": 100}], "evicted": True,
    }  # fmt: skip
    assert verdict(found, "a") == "impossible"
    slow: list[Any] = [start(), pods("600m"), critical("500m", let_in=False), later()]
    found = judge(*slow, (35, PodAdmitted(**identity("x"))), failed)
    assert verdict(found, "a") == "match"


def test_whose_room_it_was() -> None:
    found = judge(start(), pods("300m"), preempted("a", None, 20))
    assert findings_of(found, "a")[-1].missing == ("the pod that room was made for",)
    twice: list[Step] = [
        *critical("500m", let_in=False),
        add("y", 20),
        listed("y", priority=CRITICAL),
    ]
    after = [(22.0, PodAdmitted(**identity("x"))), (22.1, PodAdmitted(**identity("y")))]
    found = judge(start(), pods("300m"), twice, after, preempted("a", None, 20.1))
    assert findings_of(found, "a")[-1].missing == ("the pod that room was made for",)


def test_when_the_log_begins_late() -> None:
    found = judge(
        start(whole=False),
        pods("300m", "400m"),
        critical("500m"),
        preempted("q", "x", 20.1, ("cpu", 200)),
    )
    assert findings_of(found, "q")[-1].missing == ("the pods that ran before the log begins",)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_victims(version: str) -> None:
    """The error names what would still be missing with all candidates gone."""

    def failed(error: str, *missing: tuple[str, int], cpu: str = "1500m") -> Finding:
        body = PreemptionFailed(
            preemptor_namespace="ns",
            preemptor_pod="x",
            preemptor_uid="uid-x",
            insufficient=tuple(InsufficientResource(resource=r, quantity=q) for r, q in missing),
            error=error,
        )
        steps = [add("x", 20), (20.1, body), listed("x", asks(cpu), priority=CRITICAL)]
        return findings_of(judge(start(version), pods("300m"), steps), "x")[-1]

    words = (
        "preemption: error finding a set of pods to preempt: no set of running pods found to "
        "reclaim resources: [(res: cpu, q: {}), ]"
    )
    finding = failed(words.format(500), ("cpu", 800))
    assert finding.verdict == "match"
    assert finding.why.endswith("it would still lack 500m of cpu")
    assert failed(words.format(400)).verdict == "impossible"
    finding = failed(words.format(500), ("cpu", 700))
    assert (finding.verdict, finding.why) == ("impossible", "what is missing is 800m of cpu")
    assert "some victims" in failed(words.format(500), cpu="900m").why
    assert "nothing is missing" in failed(words.format(500), cpu="100m").why


def test_a_refusal_by_a_later_handler_while_pods_go() -> None:
    """With those that may be gone it fits, and then it may have been the shutdown."""
    gone = PodConfigChanged(**identity("a"), operation="DELETE", source="api")
    for steps, verdict_ in (([(15, gone)], "unverifiable"), ([], "impossible")):
        refusal = refused("x", 20, "NodeShutdown", "Pod was rejected as the node is shutting down.")
        shown = [listed("x", asks("900m"), priority=CRITICAL), later()]
        others = pods("300m", a={"priority": CRITICAL + 1})
        found = judge(start(), others, steps, refusal, shown)
        assert findings_of(found, "x")[-1].verdict == verdict_


def test_a_wrong_victim_stays_wrong_behind_a_cut() -> None:
    at, body = preempted("c", "x", 20.1, ("cpu", 400), evicted=None)
    found = judge(
        start("1.20.2"),
        pods("300m", "400m", "200m", c={"priority": CRITICAL + 1}),
        critical("500m"),
        (at, msgspec.structs.replace(body, cut=True)),
        later(),
    )
    assert verdict(found, "c") == "impossible"
