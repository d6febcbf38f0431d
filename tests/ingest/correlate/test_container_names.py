"""Whose an ID is where a terse log tells no names: by back-offs, sandboxes and kills."""

from __future__ import annotations

import pytest

from kubeledger.ingest.correlate.context import ContainerRef
from kubeledger.model.bodies.lifecycle import ContainerDied, ContainerRestarted, ContainerStarted
from tests.ingest.pod_world import at, facts_of, ingest_lines, klog, of, values, world

UID = "aaaaaaaa-0000-4000-8000-00000000000a"
POD = f"a_shop({UID})"
SANDBOX, FIRST, SECOND, THIRD = (digit * 64 for digit in "0123")
RESTART = ("container", "container_id", "previous_container_id", "reason")


def pleg(clock: str, kind: str, container_id: str) -> str:
    """A line of the sync loop."""
    event = f'{{"ID":"{UID}","Type":"Container{kind}","Data":"{container_id}"}}'
    return klog(clock, "kubelet.go", f'"SyncLoop (PLEG): event for pod" pod="shop/a" event={event}')


def no_sandbox(clock: str) -> str:
    """The kubelet is about to start one."""
    text = '"No sandbox for pod can be found. Need to start a new one" pod="shop/a"'
    return klog(clock, "util.go", text)


def back_off(clock: str, seconds: int, name: str = "c") -> str:
    """The pod worker's line."""
    text = f"back-off {seconds}s restarting failed container={name} pod={POD}"
    error = f'failed to \\"StartContainer\\" for \\"{name}\\" with CrashLoopBackOff: \\"{text}\\"'
    return klog(
        clock, "pod_workers.go", f'"Error syncing pod, skipping" err="{error}" pod="shop/a"'
    )


def test_a_back_off_names_what_ended() -> None:
    """And tells that this was a restart: the first one waits for nothing. Then the next ones."""
    log = [
        no_sandbox("09:59:59.0"),
        pleg("10:00:00.0", "Started", SANDBOX),
        pleg("10:00:02.0", "Started", FIRST),
        pleg("10:00:05.0", "Died", FIRST),
        back_off("10:00:05.1", 10),
        pleg("10:00:20.0", "Started", SECOND),
        pleg("10:00:25.0", "Died", SECOND),
        back_off("10:00:25.1", 20),
        pleg("10:00:50.0", "Died", THIRD),
    ]
    facts = facts_of(ingest_lines(world(), log), ContainerRestarted)
    assert [(fact.ts_ns, *values(fact.body, *RESTART)) for fact in facts] == [
        (at("10:00:02.0"), "c", FIRST, None, None),
        (at("10:00:20.0"), "c", SECOND, FIRST, "exited"),
        (at("10:00:50.0"), "c", THIRD, SECOND, "exited"),
    ]


@pytest.mark.parametrize(
    "also",
    [
        [pleg("10:00:02.5", "Started", SECOND)],
        [pleg("10:00:02.5", "Started", SECOND), pleg("10:00:04.5", "Died", SECOND)],
    ],
)
def test_a_back_off_in_a_pod_of_several_containers(also: list[str]) -> None:
    """Which of them it is about cannot be told."""
    log = [
        pleg("10:00:00.0", "Started", SANDBOX),
        pleg("10:00:02.0", "Started", FIRST),
        *also,
        pleg("10:00:05.0", "Died", FIRST),
        back_off("10:00:05.1", 10),
    ]
    assert of(ingest_lines(world(), log), ContainerRestarted) == []


def test_a_sandbox_that_was_not_ready_at_first() -> None:
    """Its first event is an end; then it runs beside the only container."""
    log = [
        pleg("10:00:00.0", "Died", SANDBOX),
        pleg("10:00:01.0", "Started", SANDBOX),
        pleg("10:00:02.0", "Started", FIRST),
        pleg("10:00:05.0", "Died", FIRST),
        back_off("10:00:05.1", 10),
    ]
    (body,) = of(ingest_lines(world(), log), ContainerRestarted)
    assert values(body, *RESTART) == ("c", FIRST, None, None)


def test_the_sandbox_comes_alone() -> None:
    """After a new one was called for; what comes with a container may be either."""
    alone = [
        no_sandbox("10:00:00.0"),
        pleg("10:00:01.0", "Started", SANDBOX),
        pleg("10:00:04.0", "Died", SANDBOX),
    ]
    (ended,) = of(
        ingest_lines(world(), [*alone, pleg("10:00:05.0", "Started", FIRST)]), ContainerDied
    )
    assert ended.sandbox
    together = [
        no_sandbox("10:00:00.0"),
        pleg("10:00:01.0", "Started", FIRST),
        pleg("10:00:01.0", "Started", SANDBOX),
        pleg("10:00:04.0", "Died", FIRST),
    ]
    (ended,) = of(ingest_lines(world(), together), ContainerDied)
    assert ended.sandbox is None


@pytest.mark.parametrize(
    ("died", "started", "previous"),
    [("10:00:20.0", "10:00:21.0", FIRST), ("10:00:02.5", "10:00:20.0", None)],
)
def test_what_a_named_container_follows(died: str, started: str, previous: str | None) -> None:
    """Kills name all containers of the pod: what ended beside the running ones was the other.

    An init container ends before the others start, and a container may start for the first time
    long after.
    """
    context = world()
    context.containers[SECOND] = ContainerRef(UID, "d")
    context.containers[THIRD] = ContainerRef(UID, "c")
    second = "10:00:03.0"
    log = [
        pleg("10:00:00.0", "Started", SANDBOX),
        pleg("10:00:02.0", "Started", FIRST),
        *sorted([pleg(second, "Started", SECOND), pleg(died, "Died", FIRST)]),
        pleg(started, "Started", THIRD),
    ]
    bodies = of(ingest_lines(context, log), ContainerRestarted)
    assert [values(body, *RESTART) for body in bodies] == (
        [] if previous is None else [("c", THIRD, previous, "exited")]
    )


def test_a_first_start_is_no_restart() -> None:
    """A pod whose only other container is an init container that ended."""
    context = world()
    context.containers[SECOND] = ContainerRef(UID, "c")
    log = [
        pleg("10:00:00.0", "Started", SANDBOX),
        pleg("10:00:02.0", "Started", FIRST),
        pleg("10:00:03.0", "Died", FIRST),
        pleg("10:00:04.0", "Started", SECOND),
    ]
    facts = ingest_lines(context, log)
    assert of(facts, ContainerRestarted) == []
    assert [body.container for body in of(facts, ContainerStarted)] == [None, None, "c"]
