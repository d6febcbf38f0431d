"""Restarts of containers that end by themselves, and how long they wait."""

from kubeledger.model.bodies.lifecycle import RestartBackedOff
from tests.testing.goldens.prober import ProbeWorld
from tests.testing.goldens.registry import Lie, maker_of

__all__: list[str] = []

golden = maker_of(ProbeWorld)


def crashing(node: ProbeWorld, *waits: int) -> list[int]:
    """A container that ends as soon as it runs; the seqs of what held it back."""
    node.web()
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
    return held


@golden("restarts-back-off", "1.20.2", "1.36.2")
def back_off(node: ProbeWorld) -> Lie:
    """Each start that follows an exit doubles the wait for the next one."""
    held = crashing(node, 10, 20, 40, 80)
    return Lie(held[2], {"back_off_s": 20})


@golden("restarts-back-off-maximum")
def maximum(node: ProbeWorld) -> Lie:
    """The wait is never longer than five minutes."""
    held = crashing(node, 10, 20, 40, 80, 160, 300, 300)
    return Lie(held[-1] + 1, {"back_off_s": 320})


@golden("restarts-reason")
def reason(node: ProbeWorld) -> Lie:
    """A container that nobody killed has ended by itself."""
    node.web()
    seq = node.again(2, "exited", after=30)
    return Lie(seq, {"reason": "liveness_probe"})


@golden("restarts-on-failure")
def on_failure(node: ProbeWorld) -> Lie:
    """Under restart policy OnFailure a container that failed runs again, no other does."""
    node.web(restartPolicy="OnFailure")
    seq = node.again(2, "exited", after=30)
    return Lie(seq - 2, {"exit_code": 0}, blames=seq)


@golden("restarts-configured-maximum", crashLoopBackOff={"maxContainerRestartPeriod": "30s"})
def configured(node: ProbeWorld) -> Lie:
    """crashLoopBackOff.maxContainerRestartPeriod bounds the wait."""
    held = crashing(node, 10, 20, 30, 30)
    return Lie(held[-1] + 1, {"back_off_s": 60})
