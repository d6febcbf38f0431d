"""Events beside decisions: one that tells of another pod or container than was decided about."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodRejected,
    RestartBackedOff,
)
from kubeledger.model.record import Body
from kubeledger.verify import Contradiction
from kubeledger.verify.rules.events import EventVerifier
from tests.verify.histories import kubelet_of, nothing_but, outcomes, scene

Step = tuple[float, Body]

alone = nothing_but(EventVerifier)


def whose(pod: str, container: str | None = "app") -> dict[str, Any]:
    named = {"namespace": "ns", "pod": pod, "pod_uid": f"uid-{pod}"}
    return named if container is None else {**named, "container": container}


def event(reason: str, pod: str, container: str | None = "app", message: str = "") -> Body:
    about = whose(pod, container)
    return KubernetesEvent(
        **about, object_kind="Pod", type="Normal", reason=reason, message=message
    )


def killed(pod: str, container: str = "app") -> Body:
    of = f"{pod}-{container}"
    return ContainerKilled(**whose(pod, container), container_id=of, reason=None, message=None,
                           grace_period_s=30)  # fmt: skip


def started(pod: str) -> Body:
    return ContainerStarted(**whose(pod), container_id=f"{pod}-app", sandbox=False)


def died(pod: str) -> Body:
    return ContainerDied(**whose(pod), container_id=f"{pod}-app", sandbox=False)


def preempted(pod: str) -> Body:
    victim = {f"victim_{name.removeprefix('pod_')}": value
              for name, value in whose(pod, None).items()}  # fmt: skip
    return PodPreempted(**victim, preemptor_namespace=None, preemptor_pod=None, preemptor_uid=None,
                        insufficient=(), evicted=True)  # fmt: skip


def refused(pod: str) -> Body:
    return PodRejected(**whose(pod, None), reason="OutOfcpu", message="")


def held_back(pod: str) -> Body:
    return RestartBackedOff(**whose(pod), back_off_s=20)


def told(
    *steps: Step, from_start: bool = True, by_its_event: Body | None = None
) -> list[Contradiction]:
    """Of a log whose other events, before and after, go each with its decision.

    Args:
        by_its_event: only the event behind it shows this one.
    """
    added = (PodConfigChanged(**whose(pod, None), operation="ADD", source="api") for pod in "abcd")
    around = ((at_s + late_s, body) for at_s in (2.0, 400.0)
              for late_s, body in enumerate((killed("c"), event("Killing", "c"))))  # fmt: skip
    relist = (1.5, died("d"))  # of all that ran before this process
    every = [
        (0, kubelet_of(from_start=from_start)),
        relist,
        *((1.0, body) for body in added),
        *around,
        *steps,
        (900, died("d")),
    ]
    records = scene(*sorted(every, key=lambda step: step[0]))
    for at, (record, behind) in enumerate(pairwise(records)):
        if record.body is by_its_event:
            records[at] = msgspec.structs.replace(record, evidence=behind.evidence)
    found = outcomes(records)
    return [each for each in found if isinstance(each, Contradiction)]


BACK_OFF = "Back-off restarting failed container"


@pytest.mark.parametrize(
    ("decided", "reason", "pod", "container", "is_denied"),
    [
        (killed("a"), "Killing", "a", "app", False),
        (killed("a"), "Killing", "b", "app", True),
        (killed("a"), "Killing", "a", "side", True),
        (killed("a"), "Killing", "nobody", "app", False),  # the log knows no such pod
        (started("a"), "Started", "b", "app", True),
        (died("b"), "Started", "b", "app", False),  # it ended at once
        (preempted("a"), "Preempting", "b", None, True),
        (preempted("a"), "Preempting", "a", None, False),
        (refused("a"), "OutOfcpu", "b", None, True),
        (refused("a"), "OutOfmemory", "b", None, False),  # and no such refusal lacks its event
        (held_back("a"), "BackOff", "b", None, True),
        (held_back("a"), "BackOff", "a", None, False),  # old kubelets name no container
    ],
)
def test_event_of_another(
    decided: Body, reason: str, pod: str, container: str | None, is_denied: bool
) -> None:
    message = BACK_OFF if reason == "BackOff" else ""
    found = told((100.0, decided), (100.5, event(reason, pod, container, message)))
    assert [each.subject for each in found] == [f"pod/ns/{pod}"] * is_denied


def test_one_missing_line_proves_nothing() -> None:
    assert not told((100.0, event("Killing", "a")))
    assert not told((100.0, killed("a")))
    # Nor do two that are apart.
    assert not told((100.0, killed("a")), (107.0, event("Killing", "b")))


def test_a_relist_that_stalls_explains_an_event() -> None:
    steps = (100.0, event("Started", "a")), (100.2, event("Started", "b")), (101.0, started("b"))
    assert not told(*steps, (250.0, started("a")))
    # An event that another start of it has does not explain both.
    assert told((100.0, started("a")), (100.1, event("Started", "b")),
                (200.0, started("b")), (200.1, event("Started", "b")))  # fmt: skip


def test_events_of_a_process_whose_log_is_not_whole() -> None:
    steps = (100.0, killed("a")), (100.5, event("Killing", "b"))
    assert told(*steps)
    assert not told(*steps, from_start=False)
    assert not told(*steps, (300, kubelet_of(pid=2)))  # no event of this one after it goes well


def test_what_only_its_event_shows() -> None:
    own, steps = killed("b"), ((100.0, killed("a")), (100.1, event("Killing", "a")))
    by_itself = (100.2, own), (100.3, event("Killing", "b"))
    assert not told(*by_itself, by_its_event=own)
    assert not told(*steps, *by_itself, by_its_event=own)
    # A wrong name shows itself, and nothing more.
    assert told(steps[0], *by_itself, by_its_event=own)
