"""In-place resizes: what the kubelet decided about each, and when it was done.

It decides again and again about one that is deferred. Lines about the decision (``-v=4``) name the
pod alone, events what was asked for; up to 1.32 the status is all that shows what became of it.
Source: pkg/kubelet/allocation/allocation_manager.go, before 1.33 kubelet.go, of 1.27 to 1.36.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from kubeledger.ingest.correlate.assembler import (
    PodAssembler,
    about_pod,
    reads,
    reads_events,
    takes,
)
from kubeledger.ingest.correlate.context import may_be_same
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Seen, Waiting, shown
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.items import PodList, PodsState
from kubeledger.ingest.sources.pod_lists import News
from kubeledger.ingest.sources.times import api_time
from kubeledger.kubelet.kube.statuses import statuses_in
from kubeledger.kubelet.lifecycle.stages import failure_of_resize
from kubeledger.model.bodies.cgroups import PodResources
from kubeledger.model.bodies.lifecycle import PodResized
from kubeledger.model.units import NS_PER_S

Outcome = Literal["allocated", "deferred", "infeasible", "actuated"]

_EVENTS: dict[str, tuple[Outcome, str | None]] = {
    "ResizeStarted": ("allocated", None),
    "ResizeDeferred": ("deferred", None),
    "ResizeInfeasible": ("infeasible", None),
    "ResizeError": ("allocated", "Error"),
    "ResizeCompleted": ("actuated", None),
}
_STATUSES: dict[str, Outcome] = {
    "Deferred": "deferred",
    "Infeasible": "infeasible",
    "InProgress": "allocated",
}
"""Value of ``status.resize``, up to 1.32, or the reason of ``PodResizePending``."""
_SAID_NS = 2 * NS_PER_S
"""Within so long of its event a line is about the same allocation."""


class _Known(msgspec.Struct):
    """What a pod's newest resize came to; ``by_line``: a line about the allocation said so."""

    waiting: Waiting[PodResized]
    body: PodResized
    ts_ns: int
    by_line: bool = False


class ResizesAssembler(PodAssembler):
    """Outcomes of resizes, as they change."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._known: dict[Pod, _Known] = {}
        self._news = News()
        self._actuated: dict[str, PodResources] = {}
        self._given: dict[Pod, list[_Known]] = {}

    @about_pod("Pod resize successfully allocated")
    def _allocated(self, entry: Entry, pod: Pod) -> None:
        """Each is another one, however alike."""
        known = self._known.get(pod)
        if known is not None and (known.by_line or entry.ts_ns - known.ts_ns > _SAID_NS):
            del self._known[pod]
        self._say(pod, entry, "allocated")
        self._known[pod].by_line = True

    @about_pod("Pod resize is deferred; will reevaluate later")
    def _deferred(self, entry: Entry, pod: Pod) -> None:
        self._say(pod, entry, "deferred")

    @reads("Pod resize is infeasible", "Resize cannot be accommodated")
    def _refused(self, entry: Entry) -> None:
        """Up to 1.31 these name the pod without its namespace."""
        pod = self._pods.of(entry) or self._with_name(entry)
        if pod is None:
            return
        if entry.message == "Pod resize is infeasible":
            words = entry.line.message
            self._say(pod, entry, "infeasible", message=None if words == entry.message else words)
        else:
            self._say(pod, entry, "deferred", entry.get("reason"), entry.get("message"))

    def _with_name(self, entry: Entry) -> Pod | None:
        subject = self.context.completed(entry.subject, entry.ts_ns)
        spaces = [space for space, name in self.context.uids_by_name if name == subject.pod]
        namespace = subject.namespace or (spaces[0] if len(spaces) == 1 else None)
        if namespace is None or subject.pod is None:
            return None
        return self._pods.named(PodRef(namespace, subject.pod, subject.uid), entry)

    @about_pod("Allocated pod resize is not currently feasible")
    def _failed(self, entry: Entry, pod: Pod) -> None:
        self._say(pod, entry, "allocated", "Error", entry.get("err"))

    @about_pod("Error syncing pod, skipping")
    def _not_actuated(self, entry: Entry, pod: Pod) -> None:
        error = failure_of_resize(entry.text("err"))
        if error is not None:
            self._say(pod, entry, "allocated", "Error", error)
            entry.line.is_told = True

    @reads_events(*_EVENTS)
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is None:
            return
        outcome, reason = _EVENTS[event.reason]
        asked: dict[str, Any] = {}
        try:
            asked = msgspec.json.decode(event.message[event.message.index("{") :])
        except (ValueError, msgspec.DecodeError):
            asked = {"error": event.message}
        if outcome == "deferred":
            # Since 1.36 the words before name what refused it.
            refused = event.message.partition(":")[0].rpartition(" ")[2]
            reason = None if refused == "Deferred" else refused
        resources = {
            each["name"]: each["resources"]
            for kind in ("containers", "initContainers")
            for each in asked.get(kind) or ()
        }
        pod = self._pods.named(event.pod, entry)
        self._say(pod, entry, outcome, reason, asked.get("error"), resources or None)

    @about_pod("Patch status for pod")
    def _patched(self, entry: Entry, pod: Pod) -> None:
        patch = entry.text("patch")
        if "esize" not in patch:
            return
        try:
            status = (msgspec.json.decode(patch) or {}).get("status") or {}
        except msgspec.DecodeError:
            return
        self._status(pod, entry, status)
        done = {"$patch": "delete", "type": "PodResizeInProgress"}
        if done in (status.get("conditions") or ()) and pod.deleted is None:
            self._done(pod, entry)

    @takes(PodList)
    def _listed(self, item: PodList) -> None:
        news = {id(listed) for listed in self._news.of(item.pods)}
        for listed in item.pods:
            if id(listed) not in news and not self._known:
                continue
            status, spec = listed.get("status") or {}, listed.get("spec") or {}
            pod = self._pods.with_uid(kubelet_uid(listed))
            if pod is None:
                continue
            shows = self._status(pod, item, status)
            if not shows and pod in self._known and _has_all(status, spec):
                self._done(pod, item)

    def _status(self, pod: Pod, seen: Seen, status: dict[str, Any]) -> bool:
        """Whether the status says that a resize waits or is under way."""
        shown = _resize_in(status)
        if shown is None:
            return False
        known = self._known.get(pod)
        # A list may be older than the line that stands before it.
        if (
            known is None
            or known.body.outcome == shown.outcome
            or (not known.by_line if shown.since_ns is None else shown.since_ns >= known.ts_ns)
        ):
            self._say(pod, seen, shown.outcome, shown.reason, shown.message)
        return True

    @takes(PodsState)
    def _state_file(self, item: PodsState) -> None:
        """The file of what is actuated shows a resize to be done that another one followed."""
        before, self._actuated = self._actuated, self.registers.actuated
        for pod, given in self._given.items():
            now, then = (each.get(pod.uid or "") for each in (self._actuated, before))
            if now is None or then in (None, now):
                continue
            done = [n for n, each in enumerate(given) if _is_of(now, each.body.resources)]
            if not done:
                continue
            newest, resources = done[-1], given[done[-1]].body.resources
            if newest == len(given) - 1:
                self._done(pod, item)
            else:
                body = PodResized(
                    **pod.names, outcome="actuated", reason=None, message=None, resources=resources
                )
                self.queue.add(shown(item, body))
            del given[: newest + 1]

    def _done(self, pod: Pod, seen: Seen) -> None:
        known = self._known.get(pod)
        if known is not None and known.body.outcome == "allocated":
            self._say(pod, seen, "actuated", resources=known.body.resources)

    def _say(
        self,
        pod: Pod,
        seen: Seen,
        outcome: Outcome,
        reason: str | None = None,
        message: str | None = None,
        resources: dict[str, Any] | None = None,
    ) -> None:
        told = PodResized(
            **pod.names, outcome=outcome, reason=reason, message=message, resources=resources
        )
        known = self._known.get(pod)
        if known is None or not _is_same(known.body, told):
            known = _Known(self.queue.hold(shown(seen, told)), told, seen.ts_ns)
            self._known[pod] = known
            if outcome == "allocated" and reason is None:
                self._given.setdefault(pod, []).append(known)
            return
        fields = ("reason", "message", "resources")
        more = {each: getattr(told, each) for each in fields if getattr(known.body, each) is None}
        known.body = msgspec.structs.replace(known.body, **more)
        known.waiting.learn(**more)
        if seen.ts_ns - known.ts_ns <= NS_PER_S:
            known.waiting.join(seen.evidence)


def _is_same(known: PodResized, told: PodResized) -> bool:
    """The amounts in the message of one that is deferred change with what else is running."""
    alike = may_be_same((known.reason, known.resources), (told.reason, told.resources))
    failed = told.reason == "Error" and known.reason is None
    return known.outcome == told.outcome and alike and not failed


def _is_of(actuated: PodResources, asked: dict[str, Any] | None) -> bool:
    """Whether the runtime was told what a resize asks for."""
    return bool(asked) and all(
        (has := actuated.containers.get(name)) is not None
        and (has.requests or {}) == (each.get("requests") or {})
        and (has.limits or {}) == (each.get("limits") or {})
        for name, each in (asked or {}).items()
    )


class _Shown(NamedTuple):
    outcome: Outcome
    reason: str | None = None
    message: str | None = None
    since_ns: int | None = None


def _resize_in(status: dict[str, Any]) -> _Shown | None:
    """A resize that a pod's status shows: one that waits before one that is under way."""
    found = None
    if status.get("resize") in _STATUSES:
        found = _Shown(_STATUSES[status["resize"]])
    for each in status.get("conditions") or ():
        reason, message = each.get("reason"), each.get("message") or None
        since_ns = api_time(each.get("lastTransitionTime"))
        if each.get("type") == "PodResizePending" and reason in _STATUSES:
            return _Shown(_STATUSES[reason], None, message, since_ns)
        if each.get("type") == "PodResizeInProgress" and each.get("status") == "True":
            found = _Shown("allocated", reason, message, since_ns)
    return found


def _has_all(status: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Whether all containers run with the resources that the spec asks for."""
    running = {each.get("name"): each for each in statuses_in(status)}
    containers = spec.get("containers") or ()
    return status.get("phase") == "Running" and all(
        (running.get(each.get("name")) or {}).get("resources") == each.get("resources")
        for each in containers
    )
