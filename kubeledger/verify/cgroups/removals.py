"""Cgroups that went: the kubelet and the runtime remove them only behind what ran in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kubeledger.cgroups.paths import CgroupPath
from kubeledger.node.state import NodeState
from kubeledger.units import format_ts
from kubeledger.verify.cgroups.lives import Life, Lives
from kubeledger.verify.finding import Verdict

__all__ = ["Deaths", "Removal", "judge_removal"]

_RUNNING_MAX: Final = 4096
"""So many are remembered where the log tells of no deaths."""

Told = Callable[[int], bool]
"""Whether the log tells of all that happened from a time on, until behind the snapshot."""


class Deaths:
    """Which containers run and which have died, of those that matter here.

    Attributes:
        running: container ID -> (seq, time, key of its pod), as the log told in this process.
        died: container ID -> (seq, time), as long as a snapshot shows its cgroup.
        shown: IDs whose cgroups the last snapshot showed.
        logged: the log of this process tells of deaths.
        over: the containers that died last: none of them ever runs again.
    """

    def __init__(self) -> None:
        self.running: dict[str, tuple[int, int, str]] = {}
        self.died: dict[str, tuple[int, int]] = {}
        self.shown: set[str] = set()
        self.logged = False
        self.over: dict[str, None] = {}

    def unwatched(self) -> None:
        """What ran may have died while no kubelet, or no log, told of it."""
        self.running.clear()
        self.logged = False

    def started(self, container_id: str, seq: int, ts_ns: int, key: str) -> None:
        """A container runs, if it is not told late of one that died already."""
        if container_id in self.over:
            return
        self.running[container_id] = (seq, ts_ns, key)
        if len(self.running) > _RUNNING_MAX:
            del self.running[next(iter(self.running))]
        self.died.pop(container_id, None)

    def ended(self, container_id: str, seq: int, ts_ns: int) -> None:
        """A container died."""
        self.logged = True
        self.running.pop(container_id, None)
        self.over[container_id] = None
        if len(self.over) > _RUNNING_MAX:
            del self.over[next(iter(self.over))]
        if container_id in self.shown:
            self.died[container_id] = (seq, ts_ns)

    def forget_pod(self, key: str) -> None:
        """The pod is over; nothing more will be told of what ran in it."""
        over = [i for i, (_, _, of) in self.running.items() if of == key]
        for container_id in over:
            del self.running[container_id]

    def hidden(self, container_id: str) -> None:
        """Its cgroup is gone, and that was judged."""
        self.shown.discard(container_id)
        self.died.pop(container_id, None)


class Removal(msgspec.Struct, frozen=True):
    """What is found about one."""

    verdict: Verdict
    why: str = ""
    missing: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()


def judge_removal(
    where: CgroupPath, lives: Lives, deaths: Deaths, state: NodeState, *, at_ns: int, told: Told
) -> Removal:
    """Whether what ran in a cgroup had ended when a snapshot no longer showed it.

    Args:
        where: what its path says.
        lives: of the pods.
        deaths: of the containers.
        state: of the node shortly behind the snapshot.
        at_ns: when the snapshot was begun.
        told: whether a death since then would have been told.
    """
    goes_on = told(at_ns)
    if where.level in ("node", "qos"):
        return Removal(
            "impossible" if goes_on else "unverifiable",
            "the kubelet never removes the cgroups of the node and of the QoS classes",
            () if goes_on else ("the records behind the end of the ledger",),
        )
    life = lives.current.get(where.pod_uid or "")
    over = _pod_over(where, life, state)
    if where.container_id is not None:
        return _container(where.container_id, over, deaths, at_ns=at_ns, told=told)
    if over is not None:
        return over
    if life is None:
        return Removal("unverifiable", missing=("the life of the pod",))
    ran = [
        container_id
        for container_id in life.running
        if (run := deaths.running.get(container_id)) is not None and run[1] <= at_ns
    ]
    if ran and deaths.logged and life.ending is None and told(_since(deaths, ran)):
        some = min(ran)
        return Removal(
            "impossible",
            f"pod {life.namespace}/{life.name} was active and its container {some[:12]} ran: "
            "the kubelet removes the cgroup of a pod only when nothing of it runs any more",
            inputs=(life.seq,),
        )
    return Removal("unverifiable", missing=(f"the end of pod {life.namespace}/{life.name}",))


def _since(deaths: Deaths, ran: list[str]) -> int:
    """Since when all of these containers ran."""
    return max(deaths.running[container_id][1] for container_id in ran)


def _pod_over(where: CgroupPath, life: Life | None, state: NodeState) -> Removal | None:
    """The pod's end, if it has come; then all of its cgroups go."""
    key = where.pod_uid or ""
    pod = state.lifecycle.pods.get(key)
    if life is not None and life.ended is not None:
        return Removal(
            "match",
            f"pod {life.namespace}/{life.name} was over by {format_ts(life.ended)}, and its "
            "cgroups go with it",
            inputs=(life.seq,),
        )
    if pod is not None and pod.ended:
        return Removal("match", f"pod {pod.namespace}/{pod.name} was over, and its cgroups go")
    if pod is None and (key in state.lifecycle.gone):
        return Removal("match", f"pod {key} is no longer on the node, and its cgroups go with it")
    if life is not None and life.ending is not None and not life.running:
        return Removal(
            "match",
            f"the end of pod {life.namespace}/{life.name} had begun and nothing of it ran",
            inputs=(life.seq,),
        )
    return None


def _container(
    container_id: str, over: Removal | None, deaths: Deaths, *, at_ns: int, told: Told
) -> Removal:
    short = container_id[:12]
    if (death := deaths.died.get(container_id)) is not None:
        seq, ts_ns = death
        return Removal(
            "match",
            f"container {short} died at {format_ts(ts_ns)}, and the runtime removes the cgroup "
            "of what no longer runs",
            inputs=(seq,),
        )
    if over is not None:
        return over
    run = deaths.running.get(container_id)
    # A start behind the snapshot is told late: it tells nothing of what was before.
    if run is not None and run[1] <= at_ns and deaths.logged and told(run[1]):
        seq, ts_ns, _ = run
        return Removal(
            "impossible",
            f"container {short} runs since {format_ts(ts_ns)} and nothing tells that it died, so "
            "its cgroup has to be there",
            inputs=(seq,),
        )
    return Removal("unverifiable", missing=(f"the end of container {short}",))
