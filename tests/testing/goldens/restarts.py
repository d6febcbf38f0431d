"""Restarts of containers that end by themselves, and how long they wait."""

from __future__ import annotations

from typing import Any

from kubeledger.model.bodies.lifecycle import RestartBackedOff
from tests.testing.goldens.prober import ProbeWorld
from tests.testing.goldens.registry import Lie, Made, golden
from tests.testing.goldens.world import container

__all__: list[str] = []


def crashing(version: str, waits: tuple[int, ...], **settings: Any) -> tuple[ProbeWorld, list[int]]:  # noqa: ANN401 # any JSON value
    """A container that ends as soon as it runs; the seqs of what held it back."""
    node = ProbeWorld(version, **settings)
    node.pod("web", container())
    node.begin()
    node.wait(1)
    held = []
    for number, wait in enumerate(waits, start=2):
        node.again(number, "exited")
        node.wait(1)
        node.died("web", node.container_id, 1)
        body = RestartBackedOff(**node.of("web"), container="app", back_off_s=wait)
        held.append(node.add(body))
        node.wait(wait / 2)
        node.add(body)  # every sync tells it again
        node.wait(wait / 2)
    return node, held


@golden("restarts-back-off", "1.20.2", "1.36.2")
def back_off(version: str) -> Made:
    """Each start that follows an exit doubles the wait for the next one."""
    node, held = crashing(version, (10, 20, 40, 80))
    return node, Lie(held[2], {"back_off_s": 20})


@golden("restarts-back-off-maximum")
def maximum(version: str) -> Made:
    """The wait is never longer than five minutes."""
    node, held = crashing(version, (10, 20, 40, 80, 160, 300, 300))
    return node, Lie(held[-1] + 1, {"back_off_s": 320})


@golden("restarts-reason")
def reason(version: str) -> Made:
    """A container that nobody killed has ended by itself."""
    node = ProbeWorld(version)
    node.pod("web", container())
    node.begin()
    seq = node.again(2, "exited", after=30)
    return node, Lie(seq, {"reason": "liveness_probe"})


@golden("restarts-on-failure")
def on_failure(version: str) -> Made:
    """Under restart policy OnFailure a container that failed runs again, no other does."""
    node = ProbeWorld(version)
    node.pod("web", container(), restartPolicy="OnFailure")
    node.begin()
    seq = node.again(2, "exited", after=30)
    return node, Lie(seq - 2, {"exit_code": 0}, blames=seq)


@golden("restarts-configured-maximum")
def configured(version: str) -> Made:
    """crashLoopBackOff.maxContainerRestartPeriod bounds the wait."""
    limit = {"maxContainerRestartPeriod": "30s"}
    node, held = crashing(version, (10, 20, 30, 30), crashLoopBackOff=limit)
    return node, Lie(held[-1] + 1, {"back_off_s": 60})
