"""In which order the containers of a sandbox first start, by the relists that told them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    KubernetesEvent,
    PodListed,
    PodTerminated,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Contradiction, Finding
from kubeledger.verify.rules.restarts import RestartVerifier
from kubeledger.verify.rules.syncs import SyncVerifier
from tests.verify.container_scenes import WHO, Step, added, began, event, killed, listed
from tests.verify.histories import kubelet_of, nothing_but, outcomes, scene

alone = nothing_but(SyncVerifier, RestartVerifier)
INITS = [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]


def start(name: str, container_id: str = "") -> ContainerStarted:
    return ContainerStarted(
        **WHO, container=name, container_id=container_id or f"{name}-1", sandbox=False
    )


def end(name: str, code: int = 0, container_id: str = "") -> ContainerDied:
    return ContainerDied(
        **WHO,
        container=name,
        container_id=container_id or f"{name}-1",
        sandbox=False,
        exit_code=code,
    )


SANDBOX = ContainerStarted(**WHO, container=None, container_id="sandbox", sandbox=True)
NO_SANDBOX = ContainerDied(**WHO, container=None, container_id="sandbox", sandbox=True)


def said(*steps: Step, **spec: Any) -> list[str]:  # noqa: ANN401 # any field of a spec
    """What contradicts each other in a pod that a kubelet is handed after a minute."""
    pod = listed(**({"initContainers": INITS} | spec))
    told = [*began(), (70, added()), (71, SANDBOX), *steps, (400, pod)]
    found = outcomes(scene(*((at_s + 0.3, body) for at_s, body in told)))  # not whole seconds
    return [each.why for each in found if isinstance(each, Contradiction)]


ORDER: list[Step] = [(72, start("init")), (75, end("init")), (76, start("side"))]


def test_in_order() -> None:
    assert said(*ORDER, (77, start("app"))) == []


@pytest.mark.parametrize("late_s", [0.0, 0.5])
def test_one_relist_tells_in_any_order(late_s: float) -> None:
    """What one relist saw says nothing of what was first."""
    steps = [*ORDER[:2], (76, start("app")), (76 + late_s, start("side"))]
    assert said(*steps) == []


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (
            [*ORDER[:2], (76, start("app")), (86, start("side"))],
            "app waits for init container side",
        ),
        (
            [(72, start("init")), (72, start("app")), (75, end("init"))],
            "app waits for init container init",
        ),
        (
            [(72, start("side")), (75, start("init"))],
            "side waits for init container init",
        ),
        (
            [*ORDER[:2], (76, start("app")), (77, end("app")), (86, start("side"))],
            "app waits for init container side",
        ),
    ],
)
def test_out_of_order(steps: list[Step], why: str) -> None:
    assert said(*steps) == [f"container {why}"]


def test_another_process_shows_the_same_sandbox() -> None:
    """What the first relist of a process finds has no order; what it tells later has."""
    found = [(90, kubelet_of(pid=2)), (91, added()), (92, SANDBOX), (92, start("app"))]
    before = [*ORDER[:2], (76, start("app"))]
    assert said(*before, *found, (92.1, start("side"))) == []
    assert said(*before, *found, (102, start("side"))) != []


@pytest.mark.parametrize(("policy", "told"), [("Never", 1), ("Always", 0)])
def test_after_a_failed_one(policy: str, told: int) -> None:
    steps = [(72, start("init")), (75, end("init", 1)), (76, start("app"))]
    assert len(said(*steps, restartPolicy=policy)) == told


@pytest.mark.parametrize(
    ("policy", "code", "owed"), [("Never", 0, 1), ("OnFailure", 0, 1), ("Never", 1, 0)]
)
def test_after_one_that_ended_well_the_next_is_owed(policy: str, code: int, owed: int) -> None:
    """The pod goes on, though none of its containers runs and none is started again."""
    ran = [
        (72, start("init")),
        (73, event("Started", "Started container")),
        (75, end("init", code)),
    ]
    pod = listed(initContainers=INITS, restartPolicy=policy)
    steps = [*began(), (70, added()), (71, SANDBOX), *ran, (400, pod), (2000, pod)]
    found = [
        each.why
        for each in outcomes(scene(*((at_s + 0.3, body) for at_s, body in steps)))
        if "the next to start" in each.why
    ]
    assert len(found) == owed


HOOK = {"lifecycle": {"postStart": {"exec": {"command": ["sleep"]}}}}


@pytest.mark.parametrize(
    ("inits", "own", "box_s", "owed"),
    [
        ([{}, {}], [{}], 71, True),
        ([{}, {"image": "else"}], [{}], 71, False),
        ([{}, {"imagePullPolicy": "Always"}], [{}], 71, False),
        ([{}], [HOOK, {}], 71, False),
        ([{}], [{}, HOOK], 71, True),
        ([{}], [{}], 71, True),
        ([{}], [{}], 75, True),
    ],
    ids=["next init", "other image", "pulled", "hook", "later hook", "main", "sandbox told last"],
)
def test_without_events_the_next_is_owed_where_nothing_holds_it_up(
    inits: list[dict[str, Any]], own: list[dict[str, Any]], box_s: float, owed: bool
) -> None:
    """Only events would tell of a pull or a hook that lasts."""
    there = {"image": "app:1", "imagePullPolicy": "IfNotPresent"}
    befores, mains = (
        [{"name": name} | there | each for name, each in zip(names, given, strict=False)]
        for names, given in ((("init", "next"), inits), (("app", "last"), own))
    )
    pod = listed(initContainers=befores, containers=mains)
    pod = msgspec.structs.replace(pod, created_ts_ns=1_070 * NS_PER_S)
    steps = [*began(), (70, added()), (75, start("init")), (75, end("init"))]
    told = [*steps, (box_s, SANDBOX), (400, pod), (2000, pod)]
    told.sort(key=lambda step: step[0])
    found = outcomes(scene(*((at_s + 0.3, body) for at_s, body in told)))
    assert any("the next to start" in each.why for each in found) == owed


_KILLED = killed("app-1", reason="spec_changed")


def _shows(image: str, status: str) -> PodListed:
    shown = {"name": "app", "image": status, "containerID": "containerd://app-1", "state": {}}
    return msgspec.structs.replace(listed({"image": image}), status={"containerStatuses": [shown]})


@pytest.mark.parametrize(
    ("image", "status", "now", "later", "owed"),
    [
        ("x:1", "x:1", "x:2", (), True),
        ("x:1", "docker.io/library/x:1", "x:2", (), True),
        ("x:1", "x:9", "x:2", (), False),  # another name of the same image
        ("x:2", "x:1", "x:2", (), False),
        (None, "x:1", "x:2", (), False),
        ("x:1", "x:1", f"x:1@sha256:{'a' * 64}", (), False),  # which a log may leave out
        ("x:1", "x:1", "x:2", [(100.0, _KILLED)], False),
        ("x:1", "x:1", "x:2", [(100.0, _shows("x:1", "x:1"))], False),
    ],
)
def test_a_container_of_another_image_than_the_spec_is_killed(
    image: str | None, status: str, now: str, later: Sequence[Step], owed: bool
) -> None:
    """Whatever the first list says that shows it: its pull tells with what it was made."""
    pulled = event("Pulled", f'Container image "{image}" already present on machine')
    steps = [*began(), (65, _shows(now, "")), (70, added()), (71, SANDBOX)]
    steps += [(72, msgspec.structs.replace(pulled, container=None))] * (image is not None)
    steps += [(73, start("app")), (80, _shows(now, status)), *later]
    other = msgspec.structs.replace(added(), pod="q", pod_uid="u-2")
    told = [*steps, *((at_s, other) for at_s in range(110, 400, 10))]
    found = outcomes(scene(*((at_s + 0.3, body) for at_s, body in told)))
    why = "the image of container app is x:2 since this list, and it runs on with x:1 for 180 s"
    assert [each.why for each in found if "image of" in each.why] == [why] * owed


def test_a_start_is_told_once() -> None:
    assert said(*ORDER, (77, start("app")), (90, start("app"))) == [
        "a container starts after its start is told"
    ]


def test_nothing_starts_after_the_end() -> None:
    over = [(80, end("side", 137)), (80, NO_SANDBOX), (80.1, PodTerminated(**WHO))]
    assert said(*ORDER, *over, (81, start("side", "side-2"))) == [
        "a container starts after the pod is terminated"
    ]


@pytest.mark.parametrize(("ends", "is_owed"), [((), True), ((end("side", 137),), False)])
def test_what_waits_for_a_sidecar_that_ended_at_once(
    ends: tuple[ContainerDied, ...], is_owed: bool
) -> None:
    """No sync saw it run, so nothing that comes after it is started."""
    event = KubernetesEvent(
        **WHO, object_kind="Pod", container="side", type="Normal", reason="Started", message="m",
        count=1,
    )  # fmt: skip
    steps = [(72, event), (72, start("side")), *((72, each) for each in ends)]
    told = [*began(), (70, added()), (71, SANDBOX), *steps]
    told += [(73, listed(initContainers=INITS[1:]))]
    other = msgspec.structs.replace(added(), pod="q", pod_uid="u-2")
    told += [(at_s, other) for at_s in range(80, 1_200, 10)]
    found = outcomes(scene(*((at_s + 0.3, body) for at_s, body in told)))
    owed = [each.subject for each in found if isinstance(each, Finding) and not each.recorded]
    assert ("container/default/p/app" in owed) == is_owed
