"""Events about containers against the pod's spec, their own words, and later lists."""

from __future__ import annotations

from typing import Any

from kubeledger.lifecycle.records import ContainerStarted, PodListed, ReasonReported
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, parse_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.common import at, subject_of
from kubeledger.verify.lives.specs import SpecBook

__all__ = ["ToldEvents"]

_WORDS = (
    ("Created", "Created container"),
    ("Created", "Container created"),
    ("Started", "Started container"),
    ("Started", "Container started"),
    ("Killing", "Stopping container"),
)
"""Reason of an event, and how its message begins; a failed probe's is another one."""
_REASONS = frozenset({"Created", "Started", "Killing"})
_LISTED_AFTER_NS = 5 * NS_PER_S
"""A list so much later knows of a start."""
_EARLY_NS = 3 * NS_PER_S
_PENDING_MAX = 1024


class ToldEvents:
    """Judges events that tell of a container's life; at most one waits for each container."""

    def __init__(self, bench: Bench, book: SpecBook) -> None:
        self._bench = bench
        self._book = book
        self._pending: dict[tuple[str, str], Record] = {}

    def reported(self, record: Record, body: ReasonReported, key: str) -> None:
        """An event that the log holds."""
        if body.count != 1 or body.reason not in _REASONS:
            return
        if _reason_of(body) not in (None, body.reason):
            self._bench.contradict(
                record.ts_ns,
                subject_of(body),
                f"the event {body.reason} has the message of another one",
                (record.seq, f"reason {body.reason}"),
                (record.seq, f"message {body.message!r}"),
            )
        if body.container is None:
            return
        ask = self._book.find(body.pod_uid, body.namespace, body.pod)
        if ask is not None and ask.spec is not None and ask.container(body.container) is None:
            self._bench.contradict(
                record.ts_ns,
                subject_of(body),
                f"the event {body.reason} names container {body.container}, and the pod's spec "
                "has no such container",
                (record.seq, body.message),
                (ask.seq, f"no container {body.container}"),
            )
        elif body.reason == "Started" and len(self._pending) < _PENDING_MAX:
            self._pending[key, body.container] = record

    def started(self, record: Record, body: ContainerStarted, key: str) -> None:
        """The PLEG tells of the same start."""
        event = self._pending.get((key, body.container or ""))
        if event is not None and abs(record.ts_ns - event.ts_ns) <= _LISTED_AFTER_NS:
            del self._pending[key, body.container or ""]

    def gone(self, key: str) -> None:
        """The pod left the node."""
        for pending in [each for each in self._pending if each[0] == key]:
            del self._pending[pending]

    def listed(self, record: Record, body: PodListed, key: str) -> None:
        """A list tells since when each container runs."""
        if not self._pending:
            return
        for group in ("initContainerStatuses", "containerStatuses"):
            for status in (body.status or {}).get(group) or ():
                if isinstance(status, dict):
                    self._listed(record, key, status)

    def _listed(self, record: Record, key: str, status: dict[str, Any]) -> None:
        event = self._pending.get((key, str(status.get("name"))))
        if event is None or record.ts_ns - event.ts_ns < _LISTED_AFTER_NS:
            return
        del self._pending[key, str(status.get("name"))]
        told = event.body
        assert isinstance(told, ReasonReported)
        try:
            running_ns = parse_ts(status["state"]["running"]["startedAt"])
        except (KeyError, TypeError, ValueError):
            return
        if running_ns > event.ts_ns - _EARLY_NS:
            return
        self._bench.contradict(
            record.ts_ns,
            subject_of(told),
            f"an event says that container {told.container} started at {at(event.ts_ns)}, and a "
            f"later list says that it runs since {at(running_ns)}",
            (event.seq, told.message),
            (record.seq, f"runs since {at(running_ns)}"),
        )


def _reason_of(body: ReasonReported) -> str | None:
    """Of which event the message is; None when it is none of these."""
    if body.message.startswith(f"Container {body.container} failed"):
        return None  # of a container called "started"
    return next((reason for reason, words in _WORDS if body.message.startswith(words)), None)
