"""What may stop a pod as a whole: deletions, evictions, preemptions, and its worker's own word."""

from __future__ import annotations

from typing import Final, Literal

from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.podlife import PodHistory
from kubeledger.verify.evidence.signs import Sign

__all__ = ["Stops"]

_STATIC: Final = ("file", "http")
"""Sources of static pods' manifests."""
_TAKING_OVER_NS: Final = 20 * NS_PER_S
"""So long after its start a process is given the pods that were there before, and acts on them."""


class Stops:
    """What may stop the containers of a pod, as told before a record.

    Attributes:
        added: a config source gave the pod to this process.
        victim, evicted, deleted, updated: seq of the first record of that since the pod came;
            None for none.
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
        told = [sign for sign in calls if sign.is_before(record)]
        came = next((n for n in reversed(range(len(told))) if told[n].what == "add"), None)
        stay = told[came or 0 :]
        self.added = came is not None and stay[0].ts_ns >= began_ns
        self.victim = _first(stay, "preempted")
        self.evicted = _first(stay, "evicted")
        self.deleted = _first(stay, "delete", "remove")
        self.updated = _first(stay, "update")
        evicted = [sign for sign in calls if sign.what == "evicted"]
        before = [sign for sign in evicted if sign.is_before(record)]
        self.evictions = [sign.seq for sign in before or evicted]
        self.preempting = next((sign.seq for sign in calls if sign.word == "Preempting"), None)
        endings = [s for s in told if s.what == "terminating" and s.ts_ns >= began_ns]
        self.ending = endings[-1] if endings else None
        self.found = False
        if self.added and pod is not None:
            was_there = stay[0].ts_ns - began_ns < _TAKING_OVER_NS or any(
                run.started_ns is not None and run.started_ns < stay[0].ts_ns for run in pod.runs
            )
            self.found = was_there and record.ts_ns < stay[0].ts_ns + _TAKING_OVER_NS
        self.manifest = _manifest(context, pod, told)

    def other(self) -> str | None:
        """What does lead to kills of the pod's containers."""
        reasons = {"preempted": self.victim, "evicted": self.evicted, "pod_deleted": self.deleted}
        return next((reason for reason, seq in reasons.items() if seq is not None), None)


def _first(signs: list[Sign], *what: str) -> int | None:
    return next((sign.seq for sign in signs if sign.what in what), None)


def _manifest(
    context: VerifyContext, pod: PodHistory | None, told: list[Sign]
) -> Literal["", "removed", "changed"]:
    removed = [sign for sign in told if sign.what == "remove" and sign.word in _STATIC]
    if pod is None or not removed:
        return ""
    alike = context.timeline.named(pod.namespace, pod.name)
    adds = (sign for each in alike for sign in each.calls if sign.what == "add")
    replaced = any(removed[-1].is_before(sign) and sign.word in _STATIC for sign in adds)
    return "changed" if replaced else "removed"
