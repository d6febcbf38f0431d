"""What one rule may ask another: cached probe results, and the node's pressure conditions."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.prober import ProbeResult, ProbeType


class CachedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is cached for the container that a worker probes, as far as the records show.

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
        """The cached result of one worker; None where no record shows it.

        Args:
            key: of the pod, as the node's state keeps it.
            probe_type: of the worker.
            ts_ns: now.
        """
        return None

    def hole(self, start_ns: int, end_ns: int) -> bool:
        """Whether a worker that had to tick did not, so that lines are missing in a span."""
        return False


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node has a pressure condition, as far as the records show.

    Attributes:
        present: None where that is not known.
        seq: the reading that it rests on; 0 for none.
        why: that reading in words, or what is missing.
    """

    present: bool | None = None
    seq: int = 0
    why: str = "the eviction signals at this time (logged from verbosity 3)"


class NodePressure:
    """Answers for the time just before the record that is being read; this one knows nothing.

    Attributes:
        reported: conditions that this kubelet process reported last; None before it did.
    """

    reported: frozenset[str] | None = None

    def pressure(self, condition: str, since_ns: int, until_ns: int) -> Pressure:
        """Whether the node has a condition through the whole of a span.

        Args:
            condition: ``MemoryPressure``, ``DiskPressure`` or ``PIDPressure``.
            since_ns: start of the span; nothing is shown of one before the last signals.
            until_ns: its end.
        """
        return Pressure()
