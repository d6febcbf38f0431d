"""The two conditions of a pod that tell of its resize, as the status manager keeps them.

Source: v1.36.2 pkg/kubelet/status/status_manager.go podResizeConditions
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from kubeledger.kubelet.kube.pod import Pod

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
ERROR: Final = "Error"

ConditionType = Literal["PodResizePending", "PodResizeInProgress"]


class ResizeCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition; both times are nanoseconds since the epoch."""

    type: ConditionType
    reason: str
    message: str
    observed_generation: int
    last_probe_ns: int
    last_transition_ns: int


class ResizeConditions:
    """Conditions by pod UID.

    Attributes:
        now_ns: the clock.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self._pending: dict[str, ResizeCondition] = {}
        self._in_progress: dict[str, ResizeCondition] = {}

    def of(self, uid: str) -> list[ResizeCondition]:
        """A pod's conditions, the pending one first."""
        both = (self._pending.get(uid), self._in_progress.get(uid))
        return [condition for condition in both if condition is not None]

    def pods(self) -> Iterable[str]:
        """UIDs of pods that have any."""
        return dict.fromkeys((*self._pending, *self._in_progress))

    def pending(self, uid: str) -> ResizeCondition | None:
        """The condition of a resize that is deferred or infeasible."""
        return self._pending.get(uid)

    def is_pending(self, uid: str, reason: str) -> bool:
        """Whether it is there with this reason."""
        condition = self._pending.get(uid)
        return condition is not None and condition.reason == reason

    def set_pending(self, uid: str, reason: str, message: str, generation: int) -> bool:
        """Set it; whether that is news: its reason or generation is another."""
        old = self._pending.get(uid)
        self._pending[uid] = self._updated(PENDING, old, reason, message, generation)
        return old is None or (old.reason, old.observed_generation) != (reason, generation)

    def set_in_progress(self, uid: str, generation: int) -> None:
        """Set that a resize is under way; what stands there of an earlier one is kept."""
        old = self._in_progress.get(uid)
        kept = ("", "", generation) if old is None else _told(old)
        self._in_progress[uid] = self._updated(IN_PROGRESS, old, *kept)

    def fail(self, uid: str, message: str, generation: int) -> bool:
        """Set that the runtime does not take it; whether that is news."""
        old = self._in_progress.get(uid)
        kept = generation if old is None else old.observed_generation
        self._in_progress[uid] = self._updated(IN_PROGRESS, old, ERROR, message, kept)
        return old is None or old.reason != ERROR

    def clear_pending(self, uid: str) -> None:
        """Nothing is pending any more."""
        self._pending.pop(uid, None)

    def clear_in_progress(self, uid: str) -> None:
        """Nothing is under way any more."""
        self._in_progress.pop(uid, None)

    def backfill(self, pods: Iterable[Pod]) -> None:
        """Take over what the API server knows, as after a restart; both times are now."""
        for pod in pods:
            for told in (pod.status.conditions if pod.status is not None else None) or ():
                kind = {PENDING: self._pending, IN_PROGRESS: self._in_progress}.get(told.type or "")
                if kind is not None:
                    kind[pod.metadata.uid or ""] = self._updated(
                        PENDING if kind is self._pending else IN_PROGRESS,
                        None,
                        told.reason or "",
                        told.message or "",
                        told.observed_generation or 0,
                    )

    def _updated(
        self,
        kind: ConditionType,
        old: ResizeCondition | None,
        reason: str,
        message: str,
        generation: int,
    ) -> ResizeCondition:
        same = old is not None and old.reason == reason
        since_ns = old.last_transition_ns if same and old is not None else self.now_ns
        return ResizeCondition(kind, reason, message, generation, self.now_ns, since_ns)


def _told(condition: ResizeCondition) -> tuple[str, str, int]:
    return condition.reason, condition.message, condition.observed_generation
