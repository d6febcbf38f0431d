"""Probes: thresholds, holds, gates, and the kills that follow."""

from __future__ import annotations

from typing import Any

from kubeledger.model.bodies.lifecycle import ContainerKilled, ContainerRestarted, PodConfigChanged
from kubeledger.model.bodies.prober import (
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)
from tests.testing.goldens.registry import Lie, Made, golden
from tests.testing.goldens.world import World, container

__all__ = ["ProbeWorld", "probe"]

ALL = ("1.20.2", "1.28.0", "1.36.2")


def probe(period: int = 10, failure: int = 3, success: int = 1) -> dict[str, Any]:
    """A probe of a spec."""
    return {
        "exec": {"command": ["cat", "/tmp/ok"]},
        "periodSeconds": period,
        "failureThreshold": failure,
        "successThreshold": success,
        "timeoutSeconds": 1,
    }


class ProbeWorld(World):
    """A node with a pod ``web`` whose container ``app`` is probed every ten seconds."""

    container_id = ""

    def begin(self, number: int = 1, container: str = "app") -> str:
        """An instance of the container runs."""
        self.container_id = self.started("web", number, container)
        return self.container_id

    def tick(
        self, result: TickResult, type_: ProbeType = "liveness", *, after: float = 10,
        container: str = "app",
    ) -> int:  # fmt: skip
        """The probe is run."""
        return self.add(
            ProbeExecuted(
                **self.of("web"),
                container=container,
                container_id=self.container_id,
                probe_type=type_,
                result=result,
                output=None,
            ),
            after=after,
        )

    def change(
        self,
        tick: int,
        before: ProbeResult,
        after: ProbeResult,
        run: int,
        type_: ProbeType = "liveness",
        *,
        container: str = "app",
    ) -> int:
        """The cached result changes, because the run reached its threshold."""
        return self.add(
            ProbeTransitioned(
                **self.of("web"),
                container=container,
                container_id=self.container_id,
                probe_type=type_,
                from_result=before,
                to_result=after,
                run=run,
                threshold=run,
            ),
            cause=tick,
            after=0,
        )

    def kill(
        self, reason: str, message: str, cause: int, grace_s: int = 30, container: str = "app"
    ) -> int:
        """The container is killed."""
        return self.add(
            ContainerKilled(
                **self.of("web"),
                container=container,
                container_id=self.container_id,
                reason=reason,
                message=message,
                grace_period_s=grace_s,
            ),
            cause=cause,
            after=0.001,
        )

    def again(self, number: int, reason: str, container: str = "app", after: float = 1) -> int:
        """It ends, and is started again."""
        old = self.container_id
        self.wait(after)
        died = self.died("web", old, 137 if reason.endswith("probe") else 1, container=container)
        self.begin(number, container)
        return self.add(
            ContainerRestarted(
                **self.of("web"),
                container=container,
                container_id=self.container_id,
                previous_container_id=old,
                reason=reason,
            ),
            cause=died,
            after=0,
        )


WORDS = "Container app failed {} probe, will be restarted"


def killed(version: str) -> tuple[ProbeWorld, int, int]:
    """A liveness probe fails three times, and the container is killed; change and kill."""
    node = ProbeWorld(version)
    node.pod("web", container(livenessProbe=probe()))
    node.begin()
    node.tick("success")
    for _ in range(2):
        node.tick("failure")
    change = node.change(node.tick("failure"), "success", "failure", 3)
    kill = node.kill("liveness_probe", WORDS.format("liveness"), change)
    node.again(2, "liveness_probe")
    node.tick("success")
    return node, change, kill


@golden("prober-liveness-threshold", *ALL)
def liveness_threshold(version: str) -> Made:
    """Three failures in a row make the cached result a failure."""
    node, change, _ = killed(version)
    return node, Lie(change, {"run": 2})


@golden("prober-liveness-kill", *ALL)
def liveness_kill(version: str) -> Made:
    """The sync that follows kills the container, with the pod's grace period."""
    node, _, kill = killed(version)
    return node, Lie(kill, {"grace_period_s": 60})


@golden("prober-startup-gate", *ALL)
def startup_gate(version: str) -> Made:
    """Until the startup probe has succeeded nobody else probes."""
    node = ProbeWorld(version)
    node.pod("web", container(livenessProbe=probe(), startupProbe=probe(failure=30)))
    node.begin()
    for _ in range(3):
        node.tick("failure", "startup")
    seq = node.change(node.tick("success", "startup"), "unknown", "success", 1, "startup")
    for _ in range(3):
        node.tick("success")
    return node, Lie(seq, {"to_result": "failure"})


@golden("prober-startup-kill", *ALL)
def startup_kill(version: str) -> Made:
    """A startup probe that never succeeds kills, and the next instance begins at unknown."""
    node = ProbeWorld(version)
    node.pod("web", container(startupProbe=probe(failure=2)))
    node.begin()
    for number in (1, 2):
        node.tick("failure", "startup")
        seq = node.change(node.tick("failure", "startup"), "unknown", "failure", 2, "startup")
        node.kill("startup_probe", WORDS.format("startup"), seq)
        node.again(number + 1, "startup_probe")
    return node, Lie(seq, {"from_result": "success"})


@golden("prober-readiness-flap", *ALL)
def readiness_flap(version: str) -> Made:
    """Readiness follows its thresholds both ways, and never kills."""
    node = ProbeWorld(version)
    node.pod("web", container(readinessProbe=probe(failure=2, success=2)))
    node.begin()
    cached: ProbeResult = "failure"
    seq = 0
    for results in (("success", "success"), ("failure", "failure"), ("success", "success")):
        to: ProbeResult = "success" if results[0] == "success" else "failure"
        node.tick(to, "readiness")
        seq = node.change(node.tick(to, "readiness"), cached, to, 2, "readiness")
        cached = to
    node.tick("success", "readiness")
    return node, Lie(seq, {"threshold": 3})


@golden("prober-streak-broken", *ALL)
def streak_broken(version: str) -> Made:
    """A success between failures begins the count anew; a warning counts as a success."""
    node = ProbeWorld(version)
    node.pod("web", container(livenessProbe=probe()))
    node.begin()
    node.tick("success")
    results: tuple[TickResult, ...] = ("failure", "failure", "warning", "failure", "failure")
    ticks = [node.tick(result) for result in results]
    seq = node.change(node.tick("failure"), "success", "failure", 3)
    node.kill("liveness_probe", WORDS.format("liveness"), seq)
    node.again(2, "liveness_probe")
    node.tick("success")
    return node, Lie(ticks[2], {"result": "failure"}, blames=seq)


@golden("prober-hold", *ALL)
def hold(version: str) -> Made:
    """Behind a failure the worker waits for a new container, and counts anew from nothing."""
    node = ProbeWorld(version)
    node.pod("web", container(livenessProbe=probe(failure=2)))
    node.begin()
    for number in (1, 2):
        node.tick("success")
        node.tick("failure")
        seq = node.change(node.tick("failure"), "success", "failure", 2)
        node.kill("liveness_probe", WORDS.format("liveness"), seq)
        node.again(number + 1, "liveness_probe")
    node.tick("success")
    return node, Lie(seq, {"run": 4})


@golden("prober-sidecar")
def sidecar(version: str) -> Made:
    """A restartable init container is probed and killed like any other container."""
    node = ProbeWorld(version)
    proxy = container("proxy", restartPolicy="Always", livenessProbe=probe(failure=2))
    node.pod("web", init=(proxy,))
    node.begin(container="proxy")
    node.tick("success", container="proxy")
    node.tick("failure", container="proxy")
    tick = node.tick("failure", container="proxy")
    change = node.change(tick, "success", "failure", 2, container="proxy")
    words = "Init container proxy failed liveness probe"
    seq = node.kill("liveness_probe", words, change, container="proxy")
    node.again(2, "liveness_probe", container="proxy")
    return node, Lie(seq, {"message": words + ", will be restarted"})


@golden("prober-deletion", *ALL)
def deletion(version: str) -> Made:
    """A pod that is deleted is killed because of that, whatever its probes say."""
    node = ProbeWorld(version)
    node.pod("web", container(livenessProbe=probe()))
    node.begin()
    node.tick("success")
    node.tick("failure")
    deleted = node.add(
        PodConfigChanged(**node.of("web"), operation="DELETE", source="api"), after=5
    )
    seq = node.kill("pod_deleted", "Stopping container app", deleted)
    node.died("web", node.container_id, 137)
    node.ended("web")
    return node, Lie(seq, {"reason": "liveness_probe"})


@golden("prober-kubelet-restart", "1.20.2", "1.36.2")
def kubelet_restart(version: str) -> Made:
    """A new kubelet knows no results: what failed before does not count."""
    node = ProbeWorld(version)
    node.pod("web", container(livenessProbe=probe()))
    node.begin()
    node.tick("success")
    for _ in range(2):
        node.tick("failure")
    node.restart()
    node.pod("web", container(livenessProbe=probe()))
    node.started("web", 1)
    for _ in range(2):
        node.tick("failure")
    seq = node.change(node.tick("failure"), "success", "failure", 3)
    node.kill("liveness_probe", WORDS.format("liveness"), seq)
    node.again(2, "liveness_probe")
    node.tick("success")
    return node, Lie(seq, {"run": 5})


@golden("prober-grace-of-probe", "1.20.2", "1.28.0")
def grace_of_probe(version: str) -> Made:
    """Since 1.22 a probe may have a grace period of its own."""
    node = ProbeWorld(version)
    own = {**probe(failure=1), "terminationGracePeriodSeconds": 5}
    node.pod("web", container(livenessProbe=own))
    node.begin()
    node.tick("success")
    change = node.change(node.tick("failure"), "success", "failure", 1)
    grace_s, other_s = (30, 5) if version == "1.20.2" else (5, 30)
    seq = node.kill("liveness_probe", WORDS.format("liveness"), change, grace_s)
    node.again(2, "liveness_probe")
    node.tick("success")
    return node, Lie(seq, {"grace_period_s": other_s})
