"""Resizes on both sides of what versions changed that no recorded case shows; reasons."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines, container

LINES = Lines("resize")
NODE = {"cpu": "2", "memory": "2Gi", "pods": "10"}
Steps = list[dict[str, Any]]


def pod(uid: str, cpu: str, generation: int = 1, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """A pod that asks for CPU, and is limited to as much with ``guaranteed``."""
    amounts = {"cpu": cpu, "memory": more.pop("memory", "128Mi")}
    limits = amounts if more.pop("guaranteed", False) else None
    spec = {"containers": [container(requests=amounts, limits=limits)], **more.pop("spec", {})}
    return {"metadata": {"name": uid, "uid": uid, "generation": generation}, "spec": spec, **more}


def case(*steps: dict[str, Any], **more: object) -> dict[str, Any]:
    """Steps a minute apart."""
    timed = [{"at": f"2026-01-05T08:{at:02}:00Z", **step} for at, step in enumerate(steps)]
    return {"nodeAllocatable": NODE, "nodeAllocatableAbsolute": NODE, "steps": timed, **more}


def add(*pods: dict[str, Any]) -> dict[str, Any]:
    return {"op": "add", "pods": list(pods)}


def update(*pods: dict[str, Any]) -> dict[str, Any]:
    return {"op": "update", "pods": list(pods)}


def steps(version: str, case_input: dict[str, Any]) -> Steps:
    found: Steps = LINES.decided(version, case_input)["steps"]
    return found


def condition(step: dict[str, Any], uid: str = "a") -> tuple[str, str]:
    """Type and reason of a pod's first condition."""
    first = step["conditions"][uid][0]
    return first["type"], first["reason"]


TWO_PODS = case(
    add(pod("a", "500m"), pod("b", "1")),
    update(pod("a", "1500m", 2)),
    {"op": "remove", "uids": ["b"]},
    {"op": "periodic"},
    {"op": "completed", "uids": ["a"]},
)


def test_before_the_queue_a_pod_waits_for_its_own_sync() -> None:
    """Room that another pod gives back is noticed at once from 1.34 on."""
    old, new = steps("1.33.13", TWO_PODS), steps("1.34.9", TWO_PODS)
    assert [step["retried"] for step in old] == [["a", "b"], ["a"], [], ["a"], ["a"]]
    assert [step["retried"] for step in new] == [[], ["a"], ["a"], [], []]
    assert condition(old[2]) == ("PodResizePending", "Deferred")
    assert condition(new[2]) == condition(old[3]) == ("PodResizeInProgress", "")
    assert old[4]["conditions"] == new[4]["conditions"] == {}
    assert [step["conditions"]["a"][0]["observedGeneration"] for step in (old[1], new[1])] == [0, 2]
    assert "infeasibleMetric" not in old[1]
    assert new[2]["deferredAcceptedMetric"] == {"pods_removed": 1}


def test_actuated_resources_outlive_the_kubelet() -> None:
    """In 1.33 a restart finds a resize under way by what was actuated."""
    grown = pod("a", "1", 2)
    found = steps(
        "1.33.13", case(add(pod("a", "500m")), update(grown), {"op": "restart"}, add(grown))
    )
    assert [len(step["conditions"]) for step in found] == [0, 1, 0, 1]
    assert condition(found[3]) == ("PodResizeInProgress", "")


@pytest.mark.parametrize("version", ["1.32.0", "1.33.13", "1.34.9", "1.35.6", "1.36.2"])
def test_more_than_the_node_has(version: str) -> None:
    """Infeasible up to 1.35, then deferred; no resizes at all before 1.33."""
    found = steps(version, case(add(pod("a", "500m")), update(pod("a", "3", 2))))[1]
    kinds = {"1.32.0": None, "1.36.2": "Deferred"}
    kind = kinds.get(version, "Infeasible")
    assert (condition(found)[1] if found["conditions"] else None) == kind
    assert found["pending"] == (["a"] if kind == "Deferred" else [])
    texts = {"1.35.6": "Pod resize Infeasible: {", "1.36.2": "Pod resize OutOfcpu: {"}
    told = [event.split(" ", 2)[2] for event in found["events"]]
    assert [text.startswith(texts.get(version, "?")) for text in told] == [True] * len(told)
    assert len(told) == (version in texts)


def test_between_allocatable_and_what_evictions_leave() -> None:
    """Deferred for ever where capacity is taken without the eviction threshold."""
    grown = case(
        add(pod("a", "500m")),
        update(pod("a", "2200m", 2)),
        nodeAllocatableAbsolute={"cpu": "2500m"},
    )
    kinds = [condition(steps(version, grown)[1])[1] for version in ("1.33.13", "1.34.9")]
    assert kinds == ["Infeasible", "Infeasible"]  # no memory without the threshold
    grown["nodeAllocatableAbsolute"]["memory"] = "2Gi"
    kinds = [condition(steps(version, grown)[1])[1] for version in ("1.33.13", "1.34.9")]
    assert kinds == ["Infeasible", "Deferred"]


@pytest.mark.parametrize(("version", "refused"), [("1.33.13", True), ("1.34.9", False)])
def test_a_guaranteed_pod_beside_static_cpus_changes_its_memory(
    version: str, refused: bool
) -> None:
    """Any change was refused up to 1.33."""
    old, new = (pod("a", "1", n, memory=f"{n}Gi", guaranteed=True) for n in (1, 2))
    found = steps(version, case(add(old), update(new), cpuManagerPolicy="static"))[1]
    assert bool(found["allocated"]) is not refused
    if refused:
        message = found["conditions"]["a"][0]["message"]
        assert message.endswith("alongside CPU Manager static policy")


@pytest.mark.parametrize(("version", "tried"), [("1.34.9", False), ("1.35.6", True)])
def test_a_change_of_the_pods_own_resources_is_noticed(version: str, tried: bool) -> None:
    """In 1.35 it only lets what is pending be tried again."""
    whole = {"resources": {"requests": {"cpu": "1"}}}
    later = {"resources": {"requests": {"cpu": "900m"}}}
    found = steps(
        version,
        case(
            add(pod("a", "500m", spec=whole), pod("b", "1")),
            update(pod("a", "600m", 2, memory="3Gi", spec=whole)),
            update(pod("a", "600m", 3, memory="3Gi", spec=later)),
        ),
    )
    assert found[2]["retried"] == (["a"] if tried else [])


@pytest.mark.parametrize(("version", "tried"), [("1.35.6", False), ("1.36.2", True)])
def test_a_pod_that_ends_gives_room(version: str, tried: bool) -> None:
    """Noticed from 1.36 on."""
    ended = pod("b", "1", status={"phase": "Succeeded"})
    wanted = update(pod("a", "1500m", 2))
    found = steps(
        version,
        case(add(pod("a", "500m"), pod("b", "1")), wanted, {"op": "reconcile", "pods": [ended]}),
    )
    assert found[2]["retried"] == (["a"] if tried else [])


def test_amounts_are_compared_not_texts() -> None:
    """The same amount in other words is no resize, and is written as the kubelet writes it."""
    found = steps("1.36.2", case(add(pod("a", "0.5")), update(pod("a", "500m", 2))))
    assert found[0]["allocated"]["a"]["containers"]["c0"]["requests"]["cpu"] == "500m"
    assert (found[1]["retried"], found[1]["allocated"]) == ([], {})


def test_characters_that_go_escapes_in_an_event() -> None:
    odd = pod("a", "1", 2)
    odd["spec"]["containers"][0]["name"] = "a<b"
    old = pod("a", "500m")
    old["spec"]["containers"][0]["name"] = "a<b"
    assert '"name":"a\\u003cb"' in steps("1.36.2", case(add(old), update(odd)))[1]["events"][0]
