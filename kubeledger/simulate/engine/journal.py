"""What a simulated node writes down: records like a real node's, in the order of virtual time."""

from __future__ import annotations

from collections.abc import Callable

from kubeledger.model.record import Body, Evidence, Record

_EVIDENCE_FILE = "scenario"


class Journal:
    """Numbers records from 1 and hands them on in order.

    Attributes:
        node: name of the node.
        last_seq: number of the last record; 0 before the first.
    """

    def __init__(self, node: str, now: Callable[[], int]) -> None:
        """Begin.

        Args:
            now: the virtual clock, nanoseconds since the epoch.
        """
        self.node = node
        self.last_seq = 0
        self._now = now
        self._pending: list[Record] = []

    def write(self, body: Body, *, cause: int | None = None, source: str | None = None) -> int:
        """Write one record at the present instant.

        Args:
            body: observation or decision.
            cause: seq of the record that led to it.
            source: place in the scenario that made it happen, e.g. ``pods[3]``; None for what
                the kubelet does by itself.

        Returns:
            its seq.
        """
        self.last_seq += 1
        evidence = () if source is None else (Evidence(file=_EVIDENCE_FILE, text=source),)
        self._pending.append(
            Record(
                node=self.node,
                seq=self.last_seq,
                ts_ns=self._now(),
                role=body.role,
                kind=body.kind,
                v=body.v,
                cause=cause,
                evidence=evidence,
                body=body,
            )
        )
        return self.last_seq

    def take(self) -> list[Record]:
        """Records since the last call, in order."""
        taken, self._pending = self._pending, []
        return taken
