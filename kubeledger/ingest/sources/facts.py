"""A fact on its way from a source into the ledger: a record that has no number yet."""

from __future__ import annotations

from collections.abc import Iterable

from kubeledger.model.record import Body, Evidence


class Fact:
    """What one or several pieces of evidence say; becomes one record.

    Attributes:
        ts_ns: when, UTC.
        body: observation or decision.
        evidence: (n,) n >= 1 for everything read from a source.
        cause: the fact that led to this one; it must have been emitted before.
        seq: number of the record it became; None until it is emitted.
        late: of the same instant, it comes after what else happened.
    """

    __slots__ = ("body", "cause", "evidence", "late", "seq", "ts_ns")

    def __init__(
        self,
        ts_ns: int,
        body: Body,
        evidence: tuple[Evidence, ...],
        cause: Fact | None = None,
        *,
        late: bool = False,
    ) -> None:
        self.ts_ns = ts_ns
        self.body = body
        self.evidence = evidence
        self.cause = cause
        self.seq: int | None = None
        self.late = late


Facts = Iterable[Fact]
