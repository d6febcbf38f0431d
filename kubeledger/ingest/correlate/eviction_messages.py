"""What an evicted pod's message shows, and the pressure conditions of a round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from kubeledger.ingest.correlate.assembler import Entry, reads
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.messages.eviction_rounds import amount_of
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.eviction import NodeCondition, NodeConditionsChanged

_CONDITION = re.compile(r"DiskPressure|MemoryPressure|PIDPressure")
_LOW = re.compile(r"The node was low on resource: ([^. ]+)\. ")
_LOCAL = (
    ("emptydirfs.limit", re.compile(r'Usage of EmptyDir volume ".*" exceeds the limit "(.*)"\. ')),
    (
        "ephemeralpodfs.limit",
        re.compile(r"Pod ephemeral local storage usage exceeds the total limit of \S+ (\S+)\. "),
    ),
    (
        "ephemeralcontainerfs.limit",
        re.compile(r'Container \S+ exceeded its local ephemeral storage limit "(.*)"\. '),
    ),
)
"""Signal of local storage -> the message, with the limit."""


def short_resource(message: str) -> str | None:
    """The resource that was short; None where the message does not say so."""
    match = _LOW.match(message)
    return match[1] if match else None


def exceeded_limit(message: str) -> tuple[str, int | None] | None:
    """Signal and limit of a pod that used too much local storage."""
    for signal, pattern in _LOCAL:
        if match := pattern.match(message):
            return signal, amount_of(match[1])
    return None


def message_in_statuses(statuses: Sequence[dict[str, Any]]) -> str | None:
    """The message that pod lists show for an eviction, where the log holds none."""
    for status in statuses:
        reported = [status] if status.get("reason") == "Evicted" else []
        reported += [each for each in status.get("conditions") or () if _is_disruption(each)]
        for each in reported:
            message = each.get("message")
            if isinstance(message, str) and is_eviction(message):
                return message
    return None


def is_eviction(message: str) -> bool:
    """Whether these are the words of an eviction, not of a refusal for the same reason."""
    return bool(short_resource(message) or exceeded_limit(message))


def message_ended_by(status: dict[str, Any]) -> str | None:
    """The message of the eviction that ended a pod with this status.

    The kubelet reports a pod as evicted once its containers have stopped.
    """
    message = status.get("message")
    reported = (
        status.get("reason") == "Evicted" and isinstance(message, str) and is_eviction(message)
    )
    return message if reported else None


def ended_by(statuses: Sequence[dict[str, Any]], message: str | None) -> bool:
    """Whether a pod list shows that the eviction with this message ended the pod."""
    return message is not None and any(message_ended_by(each) == message for each in statuses)


def _is_disruption(condition: Any) -> bool:  # noqa: ANN401 # decoded JSON
    return isinstance(condition, dict) and condition.get("type") == "DisruptionTarget"


class PressureConditions:
    """The conditions that each round shows, from verbosity 3; without a line there are none."""

    def __init__(self, queue: Holdback) -> None:
        self._queue = queue
        self.restart()

    def restart(self) -> None:
        """Another process: it has reported none yet."""
        self._observed: Entry | None = None
        self._reported: Entry | None = None
        self._conditions: tuple[NodeCondition, ...] = ()
        self._concluded = True

    def begin(self, entry: Entry) -> None:
        """A round begins; what the one before reported counts, if it ended early."""
        if self._reported is not None:
            self.conclude(entry)
        self._concluded = False

    @reads("Eviction manager: node conditions - observed")
    def _see_observed(self, entry: Entry) -> None:
        self._observed = entry

    @reads("Eviction manager: node conditions - transition period not met")
    def _see_reported(self, entry: Entry) -> None:
        self._reported = entry

    @reads("Eviction manager: no resources are starved")
    def conclude(self, entry: Entry) -> None:
        """All of the round's conditions were reported: a fact, if they are others than before."""
        observed, self._observed = self._observed, None
        reported, self._reported = self._reported, None
        conditions = _conditions_in(reported)
        concluded, self._concluded = self._concluded, True
        if concluded or conditions == self._conditions:
            return
        self._conditions = conditions
        body = NodeConditionsChanged(conditions=conditions, observed=_conditions_in(observed))
        lines = [each for each in (reported, observed) if each is not None] or [entry]
        self._queue.add(Fact(entry.ts_ns, body, tuple(each.evidence for each in lines)))


def _conditions_in(entry: Entry | None) -> tuple[NodeCondition, ...]:
    if entry is None:
        return ()
    found = _CONDITION.findall(entry.get("nodeCondition") or entry.line.message)
    return tuple(cast(NodeCondition, name) for name in sorted(set(found)))
