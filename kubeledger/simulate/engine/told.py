"""What one kubelet process says again and again: a record when it begins, changes, is over.

As an import records it: what goes on is recorded again every ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.lifecycle.stages import SIDE_BY_SIDE, StageFailure
from kubeledger.kubelet.lifecycle.sync_errors import shape_of
from kubeledger.model.bodies.stages import NodeTrouble, NodeTroubled, PodStageFailed, Stage
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.journal import Journal
from kubeledger.simulate.engine.world import SimPod

_EVERY_NS = 600 * NS_PER_S
_Key = tuple[Literal["stage", "trouble"], str, str | None, str, str | None]


class _Run(msgspec.Struct):
    """What is said of one subject; ``count`` times since its last record, at ``since_ns``."""

    same: Hashable
    body: Body
    since_ns: int
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0


class Told:
    """Stages that pods do not get past, and troubles of the node."""

    def __init__(self, journal: Journal, now: Callable[[], int]) -> None:
        """Begin with nothing.

        Args:
            journal: where records are written.
            now: the virtual clock, nanoseconds since the epoch.
        """
        self._journal, self._now = journal, now
        self._runs: dict[_Key, _Run] = {}

    def stage(self, pod: SimPod, failure: StageFailure) -> None:
        """A pod, or a container of it, does not get past a stage."""
        now_ns = self._now()
        body = PodStageFailed(
            **pod.identity,
            container=failure.container,
            stage=failure.stage,
            reason=failure.reason,
            message=failure.message,
            about=failure.about,
            is_waiting=failure.is_waiting,
            first_ts_ns=now_ns,
            last_ts_ns=now_ns,
        )
        about = failure.about if failure.stage in SIDE_BY_SIDE else None
        key: _Key = ("stage", pod.uid, failure.container, failure.stage, about)
        self._say(key, shape_of(failure), body)

    def passed(self, pod: SimPod, *stages: Stage, container: str | None = None) -> None:
        """It has got past them."""
        for key in list(self._runs):
            if key[:3] == ("stage", pod.uid, container) and key[3] in stages:
                self._over(key)

    def gone(self, pod: SimPod) -> None:
        """A pod is taken down: it gets past nothing any more."""
        for key in list(self._runs):
            if key[:2] == ("stage", pod.uid):
                self._over(key)

    def trouble(self, trouble: NodeTrouble, message: str, same: str = "") -> None:
        """Something of the node does not work; ``same`` differs where the message does."""
        now_ns = self._now()
        body = NodeTroubled(trouble=trouble, message=message, first_ts_ns=now_ns, last_ts_ns=now_ns)
        self._say(("trouble", "", None, trouble, None), same, body)

    def works(self, trouble: NodeTrouble) -> None:
        self._over(("trouble", "", None, trouble, None), passed_ts_ns=self._now())

    def end(self) -> None:
        """The process, or the simulation, ends."""
        for key in list(self._runs):
            self._over(key)

    def _say(self, key: _Key, same: Hashable, body: Body) -> None:
        now_ns, run = self._now(), self._runs.get(key)
        if run is None or run.same != same:
            self._over(key)
            self._runs[key] = _Run(same, body, now_ns, last_ns=now_ns)
            self._journal.write(body)
            return
        run.first_ns = run.first_ns if run.count else now_ns
        run.count, run.last_ns = run.count + 1, now_ns
        if now_ns - run.since_ns >= _EVERY_NS:
            self._write(run)
            run.since_ns, run.count = now_ns, 0

    def _over(self, key: _Key, **how: int) -> None:
        run = self._runs.pop(key, None)
        if run is not None and (run.count or how):
            self._write(run, **how)

    def _write(self, run: _Run, **how: int) -> None:
        first_ns = run.first_ns if run.count else run.last_ns
        changes: dict[str, Any] = {"count": run.count, "first_ts_ns": first_ns}
        changes |= {"last_ts_ns": run.last_ns, **how}
        self._journal.write(msgspec.structs.replace(run.body, **changes))
