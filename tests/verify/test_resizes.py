"""Verification of resizes in place on small scenes: pod ``a`` of 300m, beside ``b`` of 500m."""

from typing import Any

import pytest

from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead, ResourceAmounts
from kubeledger.model.bodies.lifecycle import PodResized
from kubeledger.verify import Contradiction, Finding
from kubeledger.verify.rules.admission.resizes import RULE_RESIZE
from tests.verify.admission_world import (
    Step,
    add,
    admitted,
    asks,
    identity,
    judge,
    listed,
    ran,
    start,
)
from tests.verify.histories import kubelet_of

RESIZED_S = 30
BOTH = [
    *admitted("b", 1),
    *admitted("a", 2),
    listed("b", asks("500m"), at=10),
    listed("a", asks("300m"), at=10),
    ran("b", 3),
    ran("a", 4),
    ran("b", 950),
]
POLICIES: dict[str, Any] = {
    "cpuManagerPolicy": "none",
    "memoryManagerPolicy": "None",
    "memorySwap": {},
}
VERSIONS = ("1.33.0", "1.34.0", "1.35.0", "1.36.2")


def resized(
    outcome: str,
    cpu: str | None = None,
    at: float = RESIZED_S,
    pod: str = "a",
    **more: Any,  # noqa: ANN401 # any field
) -> Step:
    resources = None if cpu is None else {"c": {"requests": {"cpu": cpu}}}
    body = PodResized(**identity(pod), outcome=outcome, resources=resources, **more)  # type: ignore[arg-type] # checked by msgspec
    return at, body


def verdict(version: str, *steps: Step, **settings: Any) -> tuple[str, str]:  # noqa: ANN401 # any setting
    found = judge(start(version, **{**POLICIES, **settings}), BOTH, steps)
    return [
        (each.verdict, "; ".join(each.missing) or each.why)
        for each in found
        if isinstance(each, Finding) and each.rule == RULE_RESIZE
    ][-1]


def short(cpu: int, version: str = "1.36.2", used: int = 500) -> dict[str, Any]:
    message = (
        f"Node didn't have enough resource: cpu, requested: {cpu}, used: {used}, capacity: 1000"
    )
    return {"reason": "OutOfcpu", "message": message}


NEVER = "Node didn't have enough capacity: cpu, requested: 1200, capacity: 1000"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_fits_is_allocated(version: str) -> None:
    """Beside what the other pod has; to say that it waits, or never can be, is a lie."""
    asks_for = "the pod asks for 500m of cpu (500m of 1000m in use); 1 of 10 pods were active"
    given = verdict(version, resized("allocated", "500m"))
    assert given == ("match", f"the resize fits: {asks_for}")
    assert verdict(version, resized("deferred", "500m", **short(500)))[0] == "impossible"
    assert verdict(version, resized("infeasible", "500m", message=NEVER))[0] == "impossible"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_does_not_fit_now_is_deferred(version: str) -> None:
    said, why = verdict(version, resized("deferred", "600m", **short(600)))
    assert said == "match"
    assert why.startswith("no room now: Node didn't have enough resource")
    for lie in (short(601), short(600, used=499), {"reason": "OutOfmemory"}):
        assert verdict(version, resized("deferred", "600m", **lie))[0] == "impossible"
    assert verdict(version, resized("allocated", "600m"))[0] == "impossible"


@pytest.mark.parametrize("version", VERSIONS)
def test_one_larger_than_the_node_is_infeasible_until_1_36_tries_it_for_ever(version: str) -> None:
    infeasible = resized("infeasible", "1200m", message=NEVER)
    deferred = resized("deferred", "1200m", **short(1200))
    if version == "1.36.2":
        said, why = verdict(version, deferred)
        assert said == "match"
        assert why.startswith(
            "it is tried for ever, but the node has only 1000m of cpu: Node didn't"
        )
        assert verdict(version, infeasible)[0] == "impossible"
    else:
        said, why = verdict(version, infeasible)
        assert (said, why) == ("match", f"it can never be: {NEVER}")
        assert verdict(version, deferred)[0] == "impossible"


def test_a_resize_before_counts() -> None:
    """What was allocated to it is what it has; what it gives back, others may have."""
    smaller, larger = resized("allocated", "100m"), resized("allocated", "400m", 40)
    assert verdict("1.36.2", smaller, larger)[0] == "match"
    assert verdict("1.36.2", smaller, resized("actuated", "100m", 40))[0] == "match"
    said, why = verdict("1.36.2", smaller, resized("actuated", "300m", 40))
    assert (said, why) == ("impossible", "what was allocated last to the pod is something else")
    assert verdict("1.36.2", resized("actuated", "300m"))[0] == "unverifiable"


def test_a_guaranteed_pod_beside_exclusive_cpus_is_infeasible() -> None:
    resources = {"c": {"limits": {"cpu": "2", "memory": "1"}, "requests": {"cpu": "2"}}}
    message = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
    body = PodResized(**identity("a"), outcome="infeasible", message=message, resources=resources)
    guaranteed = {"name": "c", "resources": {"limits": {"cpu": "300m", "memory": "1"}}}
    status = {"qosClass": "Guaranteed"}
    steps = [*BOTH[:3], listed("a", guaranteed, at=10, status=status), *BOTH[4:]]
    for policy, expected in (("static", "match"), ("none", "impossible")):
        settings = {**POLICIES, "cpuManagerPolicy": policy}
        found = judge(start("1.36.2", **settings), steps, [(RESIZED_S, body)])
        assert [
            each.verdict for each in found if isinstance(each, Finding) and each.rule == RULE_RESIZE
        ] == [expected]


def test_what_is_not_known_is_not_judged() -> None:
    """Settings that decide, what was asked for, a version that does not resize."""
    given = resized("allocated", "500m")
    assert verdict("1.36.2", given, cpuManagerPolicy=None) == (
        "unverifiable",
        "the setting cpuManagerPolicy",
    )
    assert verdict("1.36.2", resized("deferred")) == ("unverifiable", "what the pod asked for")
    assert verdict("1.26.0", given)[1] == "resizes in place by the rules of this kubelet"


def test_what_lists_show_that_it_asked_for() -> None:
    """The line of an allocation names none; a list that comes after shows what may fit."""
    asked = listed("a", asks("400m"), at=60)
    assert verdict("1.36.2", resized("allocated"), asked)[0] == "match"
    too_much = listed("a", asks("700m"), at=60)
    assert verdict("1.36.2", resized("allocated"), too_much)[0] == "unverifiable"
    assert verdict("1.36.2", resized("deferred"), too_much)[0] != "impossible"


def allocations(cpu: str, at: float, **others: str) -> Step:
    pods = {
        f"uid-{name}": PodResources(containers={"c": ResourceAmounts(requests={"cpu": amount})})
        for name, amount in {"a": cpu, "b": "500m", **others}.items()
    }
    return at, PodsStateRead(which="allocated", pods=pods, checksum=1, checksum_ok=True)


@pytest.mark.parametrize(
    ("shown", "told", "contradicted"),
    [
        (("300m", "400m"), ["400m"], False),
        (("300m", "0.4"), ["400m"], False),
        (("300m", "450m"), ["400m"], True),
        (("300m", "300m"), ["400m"], True),
        (("300m", "400m"), [], False),
        (("300m", "300m"), [], False),
    ],
)
def test_the_state_file_shows_what_was_allocated(
    shown: tuple[str, str],
    told: list[str],
    contradicted: bool,  # a column
) -> None:
    """Each resize that a record tells is in it; of one that it shows alone the line is lost."""
    steps = [resized("allocated", cpu, 30 + n) for n, cpu in enumerate(told)]
    files = [allocations(cpu, 20 + 60 * n) for n, cpu in enumerate(shown)]
    found = judge(start("1.36.2", **POLICIES), BOTH, steps, files)
    assert any(isinstance(each, Contradiction) for each in found) is contradicted


@pytest.mark.parametrize(("asked", "contradicted"), [("300m", True), ("400m", False)])
def test_no_list_shows_the_pod_to_ask_for_what_the_file_has(
    asked: str,
    contradicted: bool,  # a column
) -> None:
    """It has what no list shows that it asked for, though a later one is there."""
    files = [allocations("300m", 20), allocations("400m", 80)]
    later = listed("a", asks(asked), priority=0)
    found = judge(start("1.36.2", **POLICIES), BOTH, files, [later])
    assert any(isinstance(each, Contradiction) for each in found) is contradicted


def test_what_a_resize_gave_no_line_or_list_says() -> None:
    """So nobody is known not to fit beside it."""
    new = *admitted("c", 60), listed("c", asks("300m"), at=70)
    for steps, said in (([], "impossible"), ([resized("allocated")], "unverifiable")):
        found = judge(start("1.36.2", **POLICIES), BOTH, steps, new)
        of_it = (each for each in found if each.subject.endswith("/c"))
        assert [each.verdict for each in of_it if isinstance(each, Finding)] == [said]


@pytest.mark.parametrize(("told", "said"), [("400m", "match"), ("350m", "impossible")])
def test_what_is_told_of_a_resize_is_what_lists_show(told: str, said: str) -> None:
    """No more than one change came between two lists."""
    asked = listed("a", asks("400m"), at=60)
    assert verdict("1.36.2", resized("allocated", told), asked)[0] == said


def test_a_pod_may_be_changed_while_no_kubelet_runs() -> None:
    """The next process is handed it as it is then: that is another change between two lists."""
    begun = 40, kubelet_of(pid=2, restart=True)
    later = add("a", 41), listed("a", asks("400m"), at=60)
    assert verdict("1.36.2", resized("allocated", "350m"), begun, *later)[0] == "match"


@pytest.mark.parametrize(
    ("used", "said"),
    [(500, "match"), (200, "match"), (100, "match"), (400, "impossible")],
)
def test_a_status_may_have_come_back_since_the_last_list(used: int, said: str) -> None:
    """The other pod counts with what a list says that it had, or was allocated since."""
    had = {"containerStatuses": [{"name": "c", **asks("500m")}]}
    steps = (
        resized("allocated", "200m", pod="b"),
        listed("b", asks("200m"), at=31, status=had),
        resized("allocated", "100m", 40, pod="b"),
    )
    deferred = resized("deferred", "1200m", 70, **short(1200, used=used))
    assert verdict("1.36.2", *steps, deferred)[0] == said


@pytest.mark.parametrize(("used", "said"), [(200, "match"), (150, "impossible")])
def test_a_later_list_does_not_show_which_status_had_come_back(used: int, said: str) -> None:
    """None by then had a status with resources: any of the resizes so far may be the one."""
    had = {"containerStatuses": [{"name": "c", **asks("100m")}]}
    steps = (
        resized("allocated", "200m", 15, pod="b"),
        resized("allocated", "100m", 30, pod="b"),
        listed("b", asks("100m"), at=31),
        resized("deferred", "1200m", 70, **short(1200, used=used)),
        listed("b", asks("100m"), at=200, status=had),
    )
    assert verdict("1.36.2", *steps)[0] == said
