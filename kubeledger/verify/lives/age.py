"""Whether a container is older than its kubelet, which decides what is cached for it first."""

from __future__ import annotations

from kubeledger.units import NS_PER_S
from kubeledger.verify.lives.life import Life

__all__ = ["SEEN_LATE_NS", "Age"]

SEEN_LATE_NS = 3 * NS_PER_S
"""A container has begun so long before the PLEG tells of it, at most."""
_RESTART_GRACE_NS = 10 * NS_PER_S
_AT_ONCE_NS = NS_PER_S // 2
"""What is listed for the first time is told within this time."""
_MAKES_PROBER_NS = 3 * NS_PER_S
"""So long after its first line, at most, a kubelet has its prober, whose start counts."""


class Age:
    """Containers' ages, as one kubelet process sees them."""

    def __init__(self, started_ns: int = 0) -> None:
        self._started_ns = started_ns
        self._first_told_ns: int | None = None

    def told(self, ts_ns: int) -> None:
        """A container was seen to run."""
        if self._first_told_ns is None:
            self._first_told_ns = ts_ns

    def is_older(
        self, life: Life | None, container_id: str | None, listed_ns: int | None
    ) -> bool | None:
        """Whether a container counts as older than the kubelet; None where that is open.

        Args:
            life: of the container; None when nothing of it was seen.
            container_id: its instance.
            listed_ns: since when it runs by the lists, which tell whole seconds.

        Source: v1.36.2 pkg/kubelet/prober/prober_manager.go kubeletRestartGracePeriod
        Differs: the kubelet knows the instants of both starts.
        """
        running = None if life is None else life.newest
        if listed_ns is not None:
            earliest_ns, latest_ns = listed_ns, listed_ns + NS_PER_S
        elif running is None or container_id != running.container_id or running.started_ns is None:
            return False
        else:
            earliest_ns, latest_ns = running.started_ns - SEEN_LATE_NS, running.started_ns
            if self._ran_unseen(life, latest_ns):
                earliest_ns = 0
        border_ns = self._started_ns - _RESTART_GRACE_NS
        if latest_ns < border_ns:
            return True
        return None if earliest_ns < border_ns + _MAKES_PROBER_NS else False

    def _ran_unseen(self, life: Life | None, told_ns: int) -> bool:
        """Whether the process before may have started it and not told: this one lists it first."""
        before = None if life is None else life.before
        was_there = before is not None and (before.started_ns or 0) < self._started_ns
        return was_there and told_ns <= (self._first_told_ns or 0) + _AT_ONCE_NS
