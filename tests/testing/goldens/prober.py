"""Probes: thresholds, holds, gates, and the kills that follow."""

from itertools import pairwise
from typing import Any

from kubeledger.model.bodies.lifecycle import ContainerKilled, ContainerRestarted, PodConfigChanged
from kubeledger.model.bodies.prober import (
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)
from tests.testing.goldens.registry import Lie, maker_of
from tests.testing.goldens.world import World, container

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
    """A node with a pod ``web``, one container of which is probed every ten seconds."""

    container = "app"
    container_id = ""

    @property
    def about(self) -> dict[str, Any]:
        """The instance that runs, as bodies name it."""
        return {
            **self.of("web"), "container": self.container, "container_id": self.container_id
        }  # fmt: skip

    def begin(self, number: int = 1) -> None:
        """An instance of the container runs."""
        self.container_id = self.started("web", number, self.container)

    def web(self, probes: dict[str, Any] | None = None, **spec: Any) -> None:  # noqa: ANN401 # any field
        """The pod comes, and its container runs."""
        self.pod("web", container(**(probes or {})), **spec)
        self.begin()

    def tick(self, *results: TickResult, type_: ProbeType = "liveness") -> list[int]:
        """The probe is run, once for each result."""
        return [
            self.add(
                ProbeExecuted(**self.about, probe_type=type_, result=result, output=None), after=10
            )
            for result in results
        ]

    def change(
        self, before: ProbeResult, after: ProbeResult, run: int, type_: ProbeType = "liveness"
    ) -> int:
        """The cached result changes, because the run reached its threshold with the next tick."""
        (tick,) = self.tick(after, type_=type_)
        body = ProbeTransitioned(
            **self.about, probe_type=type_, from_result=before, to_result=after, run=run,
            threshold=run,
        )  # fmt: skip
        return self.add(body, cause=tick, after=0)

    def kill(self, reason: str, message: str, cause: int, grace_s: int = 30) -> int:
        """The container is killed."""
        body = ContainerKilled(**self.about, reason=reason, message=message, grace_period_s=grace_s)
        return self.add(body, cause=cause, after=0.001)

    def fails(self, run: int, number: int = 2, grace_s: int = 30) -> tuple[int, int]:
        """A failure too many, a kill, and another instance; change and kill."""
        change = self.change("success", "failure", run)
        kill = self.kill("liveness_probe", WORDS.format("liveness"), change, grace_s)
        self.again(number, "liveness_probe")
        return change, kill

    def again(self, number: int, reason: str, after: float = 1) -> int:
        """It ends, and is started again."""
        old = self.container_id
        self.wait(after)
        died = self.died("web", old, 137 if reason.endswith("probe") else 1, self.container)
        self.begin(number)
        body = ContainerRestarted(**self.about, previous_container_id=old, reason=reason)
        return self.add(body, cause=died, after=0)


golden = maker_of(ProbeWorld)
WORDS = "Container app failed {} probe, will be restarted"


def killed(node: ProbeWorld) -> tuple[int, int]:
    """A liveness probe fails three times, and the container is killed; change and kill."""
    node.web({"livenessProbe": probe()})
    node.tick("success", "failure", "failure")
    found = node.fails(3)
    node.tick("success")
    return found


@golden("prober-liveness-threshold", *ALL)
def liveness_threshold(node: ProbeWorld) -> Lie:
    """Three failures in a row make the cached result a failure."""
    return Lie(killed(node)[0], {"run": 2})


@golden("prober-liveness-kill", *ALL)
def liveness_kill(node: ProbeWorld) -> Lie:
    """The sync that follows kills the container, with the pod's grace period."""
    return Lie(killed(node)[1], {"grace_period_s": 60})


@golden("prober-startup-gate", *ALL)
def startup_gate(node: ProbeWorld) -> Lie:
    """Until the startup probe has succeeded nobody else probes."""
    node.web({"livenessProbe": probe(), "startupProbe": probe(failure=30)})
    node.tick("failure", "failure", "failure", type_="startup")
    seq = node.change("unknown", "success", 1, "startup")
    node.tick("success", "success", "success")
    return Lie(seq, {"to_result": "failure"})


@golden("prober-startup-kill", *ALL)
def startup_kill(node: ProbeWorld) -> Lie:
    """A startup probe that never succeeds kills, and the next instance begins at unknown."""
    node.web({"startupProbe": probe(failure=2)})
    for number in (2, 3):
        node.tick("failure", type_="startup")
        seq = node.change("unknown", "failure", 2, "startup")
        node.kill("startup_probe", WORDS.format("startup"), seq)
        node.again(number, "startup_probe")
    return Lie(seq, {"from_result": "success"})


@golden("prober-readiness-flap", *ALL)
def readiness_flap(node: ProbeWorld) -> Lie:
    """Readiness follows its thresholds both ways, and never kills."""
    node.web({"readinessProbe": probe(failure=2, success=2)})
    results: tuple[ProbeResult, ...] = ("failure", "success", "failure", "success")
    for before, after in pairwise(results):
        node.tick(after, type_="readiness")
        seq = node.change(before, after, 2, "readiness")
    node.tick("success", type_="readiness")
    return Lie(seq, {"threshold": 3})


@golden("prober-streak-broken", *ALL)
def streak_broken(node: ProbeWorld) -> Lie:
    """A success between failures begins the count anew; a warning counts as a success."""
    node.web({"livenessProbe": probe()})
    ticks = node.tick("success", "failure", "failure", "warning", "failure", "failure")
    change, _ = node.fails(3)
    node.tick("success")
    return Lie(ticks[3], {"result": "failure"}, blames=change)


@golden("prober-hold", *ALL)
def hold(node: ProbeWorld) -> Lie:
    """Behind a failure the worker waits for a new container, and counts anew from nothing."""
    node.web({"livenessProbe": probe(failure=2)})
    for number in (2, 3):
        node.tick("success", "failure")
        change, _ = node.fails(2, number)
    node.tick("success")
    return Lie(change, {"run": 4})


@golden("prober-sidecar")
def sidecar(node: ProbeWorld) -> Lie:
    """A restartable init container is probed and killed like any other container."""
    node.container = "proxy"
    proxy = container("proxy", restartPolicy="Always", livenessProbe=probe(failure=2))
    node.pod("web", init=(proxy,))
    node.begin()
    node.tick("success", "failure")
    words = "Init container proxy failed liveness probe"
    seq = node.kill("liveness_probe", words, node.change("success", "failure", 2))
    node.again(2, "liveness_probe")
    return Lie(seq, {"message": words + ", will be restarted"})


@golden("prober-deletion", *ALL)
def deletion(node: ProbeWorld) -> Lie:
    """A pod that is deleted is killed because of that, whatever its probes say."""
    node.web({"livenessProbe": probe()})
    node.tick("success", "failure")
    deleted = node.add(
        PodConfigChanged(**node.of("web"), operation="DELETE", source="api"), after=5
    )
    seq = node.kill("pod_deleted", "Stopping container app", deleted)
    node.died("web", node.container_id, 137)
    node.ended("web")
    return Lie(seq, {"reason": "liveness_probe"})


@golden("prober-kubelet-restart", "1.20.2", "1.36.2")
def kubelet_restart(node: ProbeWorld) -> Lie:
    """A new kubelet knows no results: what failed before does not count."""
    node.web({"livenessProbe": probe()})
    node.tick("success", "failure", "failure")
    node.restart()
    node.web({"livenessProbe": probe()})
    node.tick("failure", "failure")
    change, _ = node.fails(3)
    node.tick("success")
    return Lie(change, {"run": 5})


@golden("prober-grace-of-probe", "1.20.2", "1.28.0")
def grace_of_probe(node: ProbeWorld) -> Lie:
    """Since 1.22 a probe may have a grace period of its own."""
    node.web({"livenessProbe": {**probe(failure=1), "terminationGracePeriodSeconds": 5}})
    node.tick("success")
    grace_s, other_s = (30, 5) if node.version == "1.20.2" else (5, 30)
    _, kill = node.fails(1, grace_s=grace_s)
    node.tick("success")
    return Lie(kill, {"grace_period_s": other_s})
