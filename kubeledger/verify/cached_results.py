"""What one rule may ask another: the probe result that the kubelet holds for a container."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.prober import ProbeResult, ProbeType

__all__ = ["CachedResult", "CachedResults"]


class CachedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is cached for the container that a worker probes, as far as the records tell.

    Attributes:
        may_be: (n,) every result that it may be, n >= 1.
        seqs: the ticks that it rests on, newest last.
        missing: what would decide between several; empty for one.
    """

    may_be: frozenset[ProbeResult]
    seqs: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()


class CachedResults:
    """Answers for the time just before the record that is being read; this one knows nothing."""

    def cached(
        self, key: str, container: str, probe_type: ProbeType, ts_ns: int
    ) -> CachedResult | None:
        """The cached result of one worker; None where no record tells of it.

        Args:
            key: of the pod, as the node's state keeps it.
            container: its name.
            probe_type: of the worker.
            ts_ns: now.
        """
        return None

    def hole(self, start_ns: int, end_ns: int) -> bool:
        """Whether a worker that had to tick did not, so that lines are missing in a span."""
        return False
