"""What may stop a pod as a whole: deletions, evictions, preemptions, and its worker's own word."""

from __future__ import annotations

from typing import Final, Literal

from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.pod_intervals import PodHistory

_STATIC: Final = ("file", "http")
"""Sources of static pods' manifests."""
TAKING_OVER_NS: Final = 20 * NS_PER_S
"""So long after its start a process is given the pods that were there before, and acts on them."""


class Stops:
    """What may stop the containers of a pod, as known before a record.

    Attributes:
        added: a config source gave the pod to this process.
        victim, evicted, deleted, updated: seq of the first record of that since the pod came;
            None for none; ``updated_ns``: when the last update came.
        evictions: (n,) records of all evictions of the pod, those before first.
        preempting: the event of a preemption, wherever it stands.
        ending: why its worker stops it.
        found: it may have been there before this process, which acts on what it finds.
        manifest: what became of a static pod's manifest: ``removed``, ``changed`` (a pod of the
            name came in its place), or nothing.
    """

    def __init__(self, context: VerifyContext, pod: PodHistory | None, record: Record) -> None:
        """``pod``: whose containers; None where nothing is shown of it."""
        process = context.timeline.process(record.ts_ns)
        began_ns = 0 if process is None else process.started_ns
        calls = [] if pod is None else pod.calls
        earlier = [entry for entry in calls if entry.is_before(record)]
        came = next((n for n in reversed(range(len(earlier))) if earlier[n].what == "add"), None)
        if came and earlier[came - 1].what == "remove" and earlier[came - 1].word in _STATIC:
            # A manifest that changed goes and comes at once, and what ran of it is killed then.
            came -= earlier[came].ts_ns - earlier[came - 1].ts_ns < NS_PER_S
        stay = earlier[came or 0 :]
        self.added = came is not None and stay[0].ts_ns >= began_ns
        self.victim = _first(stay, "preempted")
        self.evicted = _first(stay, "evicted")
        self.deleted = _first(stay, "delete", "remove")
        self.updated = _first(stay, "update")
        self.updated_ns = max((each.ts_ns for each in stay if each.what == "update"), default=0)
        evicted = [entry for entry in calls if entry.what == "evicted"]
        before = [entry for entry in evicted if entry.is_before(record)]
        self.evictions = [entry.seq for entry in before or evicted]
        self.preempting = next((entry.seq for entry in calls if entry.word == "Preempting"), None)
        endings = [s for s in earlier if s.what == "terminating" and s.ts_ns >= began_ns]
        self.ending = endings[-1] if endings else None
        self.found = False
        if self.added and pod is not None:
            was_there = stay[0].ts_ns - began_ns < TAKING_OVER_NS or any(
                run.started_ns is not None and run.started_ns < stay[0].ts_ns for run in pod.runs
            )
            self.found = was_there and record.ts_ns < stay[0].ts_ns + TAKING_OVER_NS
        self.manifest = _manifest(context, pod, earlier)

    def other(self) -> str | None:
        """What does lead to kills of the pod's containers."""
        reasons = {"preempted": self.victim, "evicted": self.evicted, "pod_deleted": self.deleted}
        return next((reason for reason, seq in reasons.items() if seq is not None), None)


def _first(entries: list[HistoryEntry], *what: str) -> int | None:
    return next((entry.seq for entry in entries if entry.what in what), None)


def _manifest(
    context: VerifyContext, pod: PodHistory | None, earlier: list[HistoryEntry]
) -> Literal["", "removed", "changed"]:
    removed = [entry for entry in earlier if entry.what == "remove" and entry.word in _STATIC]
    if pod is None or not removed:
        return ""
    alike = context.timeline.named(pod.namespace, pod.name)
    adds = (entry for each in alike for entry in each.calls if entry.what == "add")
    replaced = any(removed[-1].is_before(entry) and entry.word in _STATIC for entry in adds)
    return "changed" if replaced else "removed"
