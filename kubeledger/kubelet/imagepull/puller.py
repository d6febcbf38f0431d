"""When a pull has its turn: ``images/puller.go``, ``images/helpers.go``."""

from __future__ import annotations

import heapq
from typing import Final

from kubeledger.kubelet.kube.flowcontrol import TokenBucket

QPS_EXCEEDED: Final = "pull QPS exceeded"


class Puller:
    """The turns of one kubelet process: one after the other, several at once, or all.

    Requests come in the order of time, and how long a pull takes is known when it is asked for:
    so each turn is known at once. That the serial puller's queue holds ten, and an eleventh
    request waits to get into it, changes no order.

    Source: v1.36.2 puller.go serialImagePuller, parallelImagePuller, helpers.go
        throttledImageService; v1.20.2
    """

    def __init__(self, at_once: int | None, limiter: TokenBucket | None) -> None:
        """Nothing is being pulled.

        Args:
            at_once: how many pulls run at the same time; None: all.
            limiter: is asked when a pull has its turn.
        """
        self._free_ns = None if at_once is None else [0] * at_once
        self._limiter = limiter

    def begin(self, now_ns: int) -> tuple[int, bool]:
        """When a request has its turn, and whether the rate limit lets it pass then."""
        start_ns = now_ns if self._free_ns is None else max(now_ns, self._free_ns[0])
        return start_ns, self._limiter is None or self._limiter.try_accept(start_ns)

    def end(self, end_ns: int) -> None:
        """The pull that began last will have ended then."""
        if self._free_ns is not None:
            heapq.heapreplace(self._free_ns, end_ns)


def new_puller(
    *, serialize: bool, max_parallel: int | None, qps: float, burst: int, limits: bool
) -> Puller:
    """The puller of a configuration.

    Args:
        qps: ``registryPullQPS``; 0: no limit.
        limits: this version knows ``maxParallelImagePulls``.

    Source: v1.36.2 image_manager.go NewImageManager, helpers.go throttleImagePulling; v1.20.2
    """
    at_once: int | None = 1
    if not serialize:
        at_once = max_parallel if limits and max_parallel is not None and max_parallel > 0 else None
    return Puller(at_once, TokenBucket(qps, burst) if qps else None)
