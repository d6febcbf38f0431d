"""The node's conditions and troubles as intervals."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.node import (
    KubeletStarted,
    NodeConditionChanged,
    NodeTrouble,
    NodeTroubled,
)
from kubeledger.model.patterns import regex
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")

NOT_REGISTERED = regex(r'nodes? "[^"]*" not found')
"""That the node's object is not there says that it is not registered, and not why."""
APART_NS = 120 * NS_PER_S
"""What is not said for so long was over: kubelets say it at least once a minute while it lasts."""
APART_OF_NS: dict[NodeTrouble, int] = {"certificate": 1800 * NS_PER_S}
"""Trouble -> the same, where they say it more rarely."""


class ConditionEpisode(msgspec.Struct, kw_only=True):
    """A condition of the node as long as it was so.

    Attributes:
        seq: of the record that tells it first.
        reason, message: None where no source has them.
        until_ts_ns: when it changed; None: not as far as is known.
    """

    seq: int
    ts_ns: int
    condition: str
    status: str
    reason: str | None = None
    message: str | None = None
    until_ts_ns: int | None = None


class TroubleEpisode(msgspec.Struct, kw_only=True):
    """Something of the node that did not work for a while.

    Attributes:
        seq: of the record that tells it first.
        attempts: how often the kubelet said so.
        last_ts_ns: when it said so last.
        passed_ts_ns: when a line showed that it works again; None: none does.
    """

    seq: int
    ts_ns: int
    trouble: NodeTrouble
    message: str
    attempts: int
    last_ts_ns: int
    passed_ts_ns: int | None = None

    def goes_on_at(self, ts_ns: int) -> bool:
        """Whether the kubelet had said so just before, and nothing that it had passed."""
        silent_ns = APART_OF_NS.get(self.trouble, APART_NS)
        return self.passed_ts_ns is None and ts_ns - self.last_ts_ns <= silent_ns


class NodeConditions:
    """The fold over the records of one node."""

    def __init__(self) -> None:
        self._conditions: list[ConditionEpisode] = []
        self._now: dict[str, ConditionEpisode] = {}
        self._troubles: list[TroubleEpisode] = []
        self._last: dict[str, TroubleEpisode] = {}

    def take(self, record: Record) -> None:
        """One more record, in the order of the ledger."""
        body = record.body
        if isinstance(body, NodeConditionChanged):
            ts_ns = record.ts_ns
            self._change(record, ts_ns, body.condition, body.status, body.reason, body.message)
        elif isinstance(body, NodeConditionsChanged):
            for name in PRESSURES:
                if name in body.conditions or name in self._now:
                    status = "True" if name in body.conditions else "False"
                    self._change(record, record.ts_ns, name, status, None, None)
        elif isinstance(body, NodeTroubled):
            self._troubled(record, body)
        elif isinstance(body, KubeletStarted) and (body.from_start or body.restart):
            # The eviction manager of a new process reports none until it finds a threshold met.
            for name in self._now.keys() & set(PRESSURES):
                self._change(record, record.ts_ns, name, "False", None, None)

    def conditions(self) -> list[ConditionEpisode]:
        """All changes so far, in the order of time."""
        return sorted(self._conditions, key=lambda each: (each.ts_ns, each.seq, each.condition))

    def troubles(self) -> list[TroubleEpisode]:
        """All troubles so far, in the order of their begin."""
        return sorted(self._troubles, key=lambda each: (each.ts_ns, each.seq))

    def _change(
        self,
        record: Record,
        ts_ns: int,
        condition: str,
        status: str,
        reason: str | None,
        message: str | None,
    ) -> None:
        known = self._now.get(condition)
        if known is not None and known.status == status:
            known.reason = known.reason or reason
            known.message = known.message or message
            return
        if known is not None:
            known.until_ts_ns = ts_ns
        self._now[condition] = ConditionEpisode(
            seq=record.seq,
            ts_ns=ts_ns,
            condition=condition,
            status=status,
            reason=reason,
            message=message,
        )
        self._conditions.append(self._now[condition])

    def _troubled(self, record: Record, body: NodeTroubled) -> None:
        known = self._last.get(body.trouble)
        apart_ns = APART_OF_NS.get(body.trouble, APART_NS)
        goes_on = (
            known is not None
            and known.passed_ts_ns is None
            and body.first_ts_ns - known.last_ts_ns <= apart_ns
        )
        if known is None or not goes_on:
            if not body.count:
                return
            known = self._last[body.trouble] = TroubleEpisode(
                seq=record.seq,
                ts_ns=body.first_ts_ns,
                trouble=body.trouble,
                message=body.message,
                attempts=0,
                last_ts_ns=body.last_ts_ns,
            )
            self._troubles.append(known)
        if NOT_REGISTERED.fullmatch(known.message):
            known.message = body.message
        known.attempts += body.count
        known.last_ts_ns = max(known.last_ts_ns, body.last_ts_ns)
        known.passed_ts_ns = body.passed_ts_ns


KINDS: frozenset[str] = frozenset(
    body.kind
    for body in (KubeletStarted, NodeConditionChanged, NodeConditionsChanged, NodeTroubled)
)
"""Kinds of records that tell of conditions and troubles."""


def node_conditions(records: Iterable[Record]) -> NodeConditions:
    """What the records of one node add up to."""
    found = NodeConditions()
    for record in records:
        found.take(record)
    return found
