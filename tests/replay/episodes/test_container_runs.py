"""The instances of containers, each from its start to its end."""

from typing import Any

from msgspec.structs import replace

from kubeledger.model.bodies.eviction import ProcessKilled
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodEvicted,
    PodListed,
)
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.replay.episodes.container_runs import ContainerRun, container_runs
from tests.replay.strategies import record

POD: dict[str, Any] = {"namespace": "shop", "pod": "a", "pod_uid": "u"}
APP: dict[str, Any] = {**POD, "container": "app", "container_id": "1"}
BEGAN = "2026-11-21T10:00:00Z"
ENDED = "2026-11-21T10:00:09Z"


def runs(*said: tuple[int, Body] | tuple[int, Body, int]) -> list[ContainerRun]:
    """What records at these seconds add up to; the third is the number of the cause."""
    return container_runs(
        replace(record(seq, body, at * NS_PER_S), cause=cause[0] if cause else None)
        for seq, (at, body, *cause) in enumerate(said, 1)
    )


def listed(**status: object) -> PodListed:
    return PodListed(
        **POD,
        spec={},
        status={"containerStatuses": [{"name": "app", **status}]},
        listed_by="kubelet",
    )


def killed(reason: str) -> ContainerKilled:
    return ContainerKilled(**APP, reason=reason, message=None, grace_period_s=1)


def evicted() -> PodEvicted:
    return PodEvicted(**POD, resource="memory", message=None, evicted=None)


def test_from_start_to_end() -> None:
    """The same start again is no other one, and what has ended does not end again."""
    (run,) = runs(
        (1, ContainerStarted(**APP)),
        (5, ContainerStarted(**APP)),
        (7, ContainerDied(**APP, exit_code=3)),
        (9, ContainerDied(**APP, exit_code=4)),
    )
    assert (run.since_ts_ns, run.ended_ts_ns) == (1 * NS_PER_S, 7 * NS_PER_S)
    assert (run.ended_seq, run.exit_code, run.ended_by, run.kills) == (3, 3, None, ())


def test_a_restart_names_the_one_before() -> None:
    """Both are there, in the order of their begin, whatever the order of the records."""
    again = {**APP, "container_id": "2"}
    before, run = runs(
        (9, ContainerStarted(**again)),
        (9, ContainerRestarted(**again, previous_container_id="1", restart_count=1)),
        (2, ContainerStarted(**APP)),
    )
    assert (before.container_id, before.is_restart) == ("1", False)
    assert (run.container_id, run.is_restart, run.restart_count) == ("2", True, 1)
    assert run.previous_container_id == "1"


def test_what_ended_it_is_its_last_kill() -> None:
    """A kill that came to nothing, and what that went back to, did not end it."""
    (run,) = runs(
        (1, ContainerStarted(**APP)),
        (2, evicted()),
        (3, killed("preempted"), 2),
        (600, evicted()),
        (601, killed("evicted"), 4),
        (603, ContainerDied(**APP), 5),
    )
    assert run.kills == (3, 5)
    assert (run.ended_by, run.ended_for) == (5, 4)


def test_the_kernel_need_not_have_ended_it() -> None:
    """It killed a process in it; only its end says whether that was the one."""
    kernel = ProcessKilled(**APP)
    (run,) = runs((1, ContainerStarted(**APP)), (2, kernel))
    assert (run.kills, run.ended_by) == ((2,), None)
    (run,) = runs((1, ContainerStarted(**APP)), (2, kernel), (3, ContainerDied(**APP), 2))
    assert run.ended_by == 2


def test_lists_alone_show_both_of_a_container() -> None:
    """The present one and the one before, with their times to the second."""
    last = {"terminated": {"containerID": "x://1", "startedAt": BEGAN, "finishedAt": ENDED,
                           "exitCode": 1}}  # fmt: skip
    now = {"running": {"startedAt": ENDED}}
    found = runs((1, listed(containerID="x://2", restartCount=3, lastState=last, state=now)))
    assert [(r.container_id, r.restart_count, r.began) for r in found] == [
        ("1", 2, True),
        ("2", 3, True),
    ]
    assert (found[0].listed_ts_ns, found[0].ended_ts_ns) == (parse_ts(BEGAN), parse_ts(ENDED))
    assert (found[0].exit_code, found[1].ended_ts_ns) == (1, None)


def test_one_whose_start_failed() -> None:
    """Runtimes write 1970 for what never began."""
    ended = {"terminated": {"startedAt": "1970-01-01T00:00:00Z", "finishedAt": ENDED}}
    (run,) = runs((1, listed(containerID="x://1", restartCount=0, state=ended)))
    assert (run.failed, run.began) == (True, False)


def test_sandboxes_and_nameless_are_none() -> None:
    nameless = {**APP, "container": None}
    assert not runs(
        (1, ContainerStarted(**nameless, sandbox=True)),
        (2, ContainerDied(**nameless)),
        (3, ContainerStarted(**APP, sandbox=True)),
        (4, ContainerKilled(**{**APP, "container_id": None}, reason=None, message=None,
                            grace_period_s=None)),
    )  # fmt: skip


def test_a_start_that_was_seen_late_began_by_its_status() -> None:
    """A PLEG that hangs tells of it when it is well again; a relist may take two seconds."""
    state = {"running": {"startedAt": BEGAN}}
    began_ns = parse_ts(BEGAN)
    for late_s, shown_s in ((2, 2), (90, 0)):
        at = began_ns // NS_PER_S + late_s
        (run,) = runs(
            (at, ContainerStarted(**APP)), (at + 9, listed(containerID="x://1", state=state))
        )
        assert run.shown_ts_ns == began_ns + shown_s * NS_PER_S
