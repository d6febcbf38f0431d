"""Admission: every ADD of a pod is decided once, yes or no.

A refusal stands in the log: the predicate's line, ``Pod admission denied``, the event. That
a pod was admitted no line says; it follows from the first sign that its worker synced it
or runs its containers, in the log or in a later pod list. Without any sign nothing is
decided. Pods that had ended before a kubelet restart, and mirror pods, are not put through
admission (HandlePodAdditions). Where the log holds no line of a refusal, the pod's own
status does: failed with a reason, and no container ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeledger.ingest.correlate.assembler import (
    Assembler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.links import PodLink
from kubeledger.ingest.correlate.preemption_failure import note_failure
from kubeledger.ingest.correlate.rejections import (
    FAILED_STATUS,
    is_refusal,
    reason_of_message,
    rejection_in_status,
    was_synced,
    without_prefix,
)
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.messages.podref import (
    PodRef,
    event_line,
    structured_pod,
    structured_pods,
    text_value,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import Item, LogLine, PodList
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["AdmissionAssembler"]

_CONDITIONS = "node has conditions: "
_SYNC_MESSAGES = (
    "SyncPod enter",
    "computePodActions got for pod",
    "No sandbox for pod can be found. Need to start a new one",
    "Created PodSandbox for pod",
    "Error syncing pod, skipping",
    "Message for Container of pod",
    "Probe errored",
    "Probe failed",
    "Probe succeeded",
    "SyncLoop (probe)",
)
_WORKER_REASONS = frozenset(
    {"BackOff", "Created", "FailedCreatePodSandBox", "FailedMount", "Pulled", "Pulling"}
    | {"SandboxChanged", "Started", "Unhealthy"}
)
"""Events that the pod's worker sends, or what it started."""
_PREDICATE_MESSAGES = (
    "Failed to admit pod",
    "Failed to admit pod to node",
    "Failed to admit pod, unexpected error while attempting to recover from admission failure",
    "Failed to admit pod: GeneralPredicates failed due to unknown reason, which is unexpected",
    "Predicate failed on Pod",
)
_RECOVERY = "Unexpected error while attempting to recover from admission failure: "
_TERMINAL = "Failed", "Succeeded"
_EVENT_WAIT_NS = NS_PER_S
_STATUS_WAIT_NS = 2 * NS_PER_S
_PLEG_PROVES_AFTER_NS = NS_PER_S // 5
"""1.20 refuses for devices by an event only, which another goroutine logs a little later."""


class AdmissionAssembler(Assembler):
    """Admitted and refused pods."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._undecided: dict[PodLink, None] = {}
        self._refusals: dict[PodLink, Waiting] = {}
        self._doubtful: dict[PodLink, int] = {}
        self._shown: dict[PodLink, Evidence] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21, and the event of 1.20."""
        handlers: dict[str, StructuredHandler] = dict.fromkeys(_SYNC_MESSAGES, self._synced)
        handlers.update(dict.fromkeys(_PREDICATE_MESSAGES, self._predicate))
        handlers["SyncLoop ADD"] = self._added_structured
        handlers["SyncLoop (PLEG): event for pod"] = self._pleg
        handlers["Pod admission denied"] = self._denied
        handlers["Pod has completed, ignoring remaining sync work"] = self._completed
        handlers["Status Manager: adding pod"] = self._status_added
        handlers["Event occurred"] = self._event
        return handlers

    def items(self) -> Mapping[type, ItemHandler]:
        """Pod lists, whose statuses may show what the log does not."""
        return {PodList: self._listed}

    def finish(self, ts_ns: int) -> Facts:
        """What still waited; a pod of which nothing was heard stays undecided."""
        self._settle_doubtful(ts_ns + _STATUS_WAIT_NS)
        for pod, evidence in list(self._shown.items()):
            if pod.admitting:
                self._admit(pod, ts_ns, evidence)
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        self._settle_doubtful(line.ts_ns)
        return self._links.queue.release(line.ts_ns)

    # -- the question: a pod is added ----------------------------------------------------

    def _added_structured(self, line: LogLine) -> Facts:
        pods = structured_pods((line.values or {}).get("pods"))
        return self._added(line, text_value(line, "source"), pods)

    def _added(self, line: LogLine, source: str, refs: list[PodRef]) -> Facts:
        self._links.begin_add(line)
        for ref in refs:
            pod = self._links.added_pod(self.context, ref, line)
            if self._is_mirror(pod, source) or self._has_ended(pod, source):
                continue
            self._refusals.pop(pod, None)
            pod.rejected, pod.admitting = None, True
            pod.preemptions, pod.preemption_failure = [], None
            pod.victim, pod.evicting, pod.eviction = None, False, None
            pod.preempted = False
            self._links.admitting.append(pod)
            self._undecided[pod] = None
            self._shown.pop(pod, None)
            if rejection_in_status(self.context, pod.uid) is not None:
                self._doubtful[pod] = line.ts_ns
        return self._release(line)

    def _is_mirror(self, pod: PodLink, source: str) -> bool:
        """Of a static pod and a pod of the API with the same name, the latter is the mirror."""
        return source == "api" and any(
            other.is_static and not other.removed
            for other in (pod, *self._links.pods_named(pod.namespace, pod.name))
        )

    def _has_ended(self, pod: PodLink, source: str) -> bool:
        """A pod from a file comes without a status, so the kubelet does not know its end."""
        if source != "api":
            return False
        if pod.rejected is not None or pod.victim is not None or pod.phase in _TERMINAL:
            return True
        known = self.context.pods.get(pod.uid or "")
        started = self._links.epoch_ts_ns
        if known is None or not known.statuses or started is None or pod.phase is not None:
            return False
        return known.first_seen_ts_ns < started and known.statuses[0].get("phase") in _TERMINAL

    # -- the answer yes: most lines are of pods let in long ago, and nothing is parsed then --

    def _synced(self, line: LogLine) -> Facts:
        if not self._undecided:
            return self._release(line)
        ref = structured_pod((line.values or {}).get("pod"), (line.values or {}).get("podUID"))
        return self._proved(line, ref, 0)

    def _pleg(self, line: LogLine) -> Facts:
        values = line.values or {}
        after_ns = _PLEG_PROVES_AFTER_NS if values.get("refusals_follow") else 0
        return self._ran(line, structured_pod(values.get("pod")), after_ns)

    def _ran(self, line: LogLine, ref: PodRef | None, after_ns: int) -> Facts:
        """Of a pod from before this process the runtime may tell what was, though it is refused."""
        if ref is not None and self._undecided:
            known = self.context.pods.get(self._links.pod(self.context, ref, line).uid or "")
            epoch_ns = self._links.epoch_ts_ns
            if known is not None and epoch_ns is not None and known.first_seen_ts_ns < epoch_ns:
                return self._release(line)
        return self._proved(line, ref, after_ns)

    def _listed(self, item: Item) -> Facts:
        """Take down statuses that the worker wrote; a line of the log, if one follows, decides.

        Soon after the ADD a status may still be of the time before.
        """
        assert isinstance(item, PodList)
        if item.listed_by == "manifest" or not self._undecided:
            return ()
        shown = {kubelet_uid(pod) for pod in item.pods if was_synced(pod.get("status") or {})} - {
            None
        }
        for pod in self._undecided:
            asked_ns = pod.added.ts_ns if pod.added else item.ts_ns
            late = item.ts_ns >= asked_ns + _STATUS_WAIT_NS
            if late and pod.uid in shown and pod not in self._doubtful:
                self._shown.setdefault(pod, item.evidence)
        return ()

    def _proved(self, line: LogLine, ref: PodRef | None, after_ns: int) -> Facts:
        if ref is not None and self._undecided:
            pod = self._links.pod(self.context, ref, line)
            added_ns = pod.added.ts_ns if pod.added else line.ts_ns
            if pod.admitting and pod not in self._doubtful and line.ts_ns >= added_ns + after_ns:
                self._admit(pod, line.ts_ns, line.evidence)
        return self._release(line)

    def _admit(self, pod: PodLink, ts_ns: int, evidence: Evidence) -> None:
        self._decided(pod)
        body = PodAdmitted(namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid)
        cause = pod.preemptions[-1] if pod.preemptions else pod.added
        added = () if pod.added is None else pod.added.evidence
        self._links.queue.add(Fact(ts_ns, body, (*added, evidence), cause=cause))

    def _decided(self, pod: PodLink) -> None:
        pod.admitting = False
        self._undecided.pop(pod, None)
        self._doubtful.pop(pod, None)
        self._shown.pop(pod, None)
        if pod in self._links.admitting:
            self._links.admitting.remove(pod)

    def _completed(self, line: LogLine) -> Facts:
        """The worker has nothing to do for an added pod: it had ended, admission was skipped."""
        ref = structured_pod((line.values or {}).get("pod"))
        if ref is not None and text_value(line, "syncType").startswith("create"):
            self._decided(self._links.pod(self.context, ref, line))
        return self._release(line)

    # -- the answer no ------------------------------------------------------------------

    def _status_added(self, line: LogLine) -> Facts:
        """Of a refusal by the topology or device manager, 1.20 has no other line of its own."""
        match = FAILED_STATUS.match(text_value(line, "status"))
        if match is None:
            return self._release(line)
        pod = self._links.pod_by_uid(self.context, text_value(line, "podUID"))
        if pod is not None and pod in self._refusals:
            self._refusals[pod].join(line.evidence)
        elif pod is not None and pod.admitting and is_refusal(match["reason"], match["message"]):
            self._reject(pod, line, match["reason"], without_prefix(match["message"]))
        return self._release(line)

    def _predicate(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        message = text_value(line, "message") or text_value(line, "err")
        if "recover from admission failure" in line.message:
            message = _RECOVERY + message
        elif "unknown reason" in line.message:
            message = "GeneralPredicates failed due to unknown reason, which is unexpected."
        elif line.message.endswith("to node"):
            message = _CONDITIONS + text_value(line, "nodeCondition")
        return self._refused(line, ref, message)

    def _refused(self, line: LogLine, ref: PodRef | None, message: str) -> Facts:
        reason = reason_of_message(message)
        if ref is None or reason is None:
            return self._release(line)
        if message.startswith(_CONDITIONS):
            message = f"The node had condition: {message.removeprefix(_CONDITIONS)}. "
        pod = self._links.pod(self.context, ref, line)
        if message.startswith(_RECOVERY):
            note_failure(self._links, pod, line, message.removeprefix(_RECOVERY))
        self._reject(pod, line, reason, message)
        return self._release(line)

    def _denied(self, line: LogLine) -> Facts:
        # A refused resize leaves the pod as it is: that is no refusal of the pod.
        if text_value(line, "operation") in ("", "add"):
            values: dict[str, Any] = line.values or {}
            ref = structured_pod(values.get("pod"), values.get("podUID"))
            if ref is not None:
                pod = self._links.pod(self.context, ref, line)
                self._reject(pod, line, text_value(line, "reason"), text_value(line, "message"))
        return self._release(line)

    def _event(self, line: LogLine) -> Facts:
        if not self._undecided and (line.values or {}).get("type") != "Warning":
            return self._release(line)
        event = event_line(line)
        if event is not None and event.reason in _WORKER_REASONS:
            return self._proved(line, event.pod, 0)
        if event is None or event.type != "Warning" or event.container is not None:
            return self._release(line)
        pod = self._links.pod(self.context, event.pod, line)
        known = rejection_in_status(self.context, pod.uid)
        expected = known is not None and known[0] == event.reason
        if pod in self._refusals:
            self._supported(pod, event.reason, event.message, line)
        elif pod.admitting and (expected or is_refusal(event.reason, event.message)):
            self._reject(pod, line, event.reason, event.message)
            self._refusals[pod].settle()
        return self._release(line)

    def _supported(self, pod: PodLink, reason: str, message: str, line: LogLine) -> None:
        """The event of a refusal; the kubelet's own line comes first, also where they differ."""
        waiting = self._refusals[pod]
        fact = waiting.fact
        if fact is None or not isinstance(fact.body, PodRejected):
            return
        same = fact.body.reason == reason
        if not same and not is_refusal(reason, message):
            return
        if same and not fact.body.message:
            fact.body = _body(pod, reason, message)
        waiting.join(line.evidence)
        if same:
            waiting.settle()

    def _reject(self, pod: PodLink, line: LogLine, reason: str, message: str) -> None:
        self._decided(pod)
        waiting = self._refusals.get(pod)
        if waiting is not None:
            # The same refusal, told again by whom it was handed to.
            if waiting.fact is not None:
                waiting.fact.body = _body(pod, reason, message)
                waiting.lead(line.evidence)
            return
        added = () if pod.added is None else pod.added.evidence
        cause = pod.preemption_failure or pod.added
        evidence = (line.evidence, *added)
        # Of the same line, the manager's refusal leads to that of the pod.
        fact = Fact(line.ts_ns, _body(pod, reason, message), evidence, cause=cause, late=True)
        self._refusals[pod] = self._links.queue.hold(fact, _EVENT_WAIT_NS)
        pod.rejected = fact

    def _settle_doubtful(self, now_ns: int) -> None:
        """No line told of the refusal that the status shows: the status is the source."""
        for pod, added_ns in list(self._doubtful.items()):
            if now_ns < added_ns + _STATUS_WAIT_NS:
                continue
            self._decided(pod)
            rejection = rejection_in_status(self.context, pod.uid)
            known = self.context.pods.get(pod.uid or "")
            if rejection is None or known is None or pod.added is None:
                continue
            evidence = (known.evidence, *pod.added.evidence)
            fact = Fact(added_ns, _body(pod, *rejection), evidence, cause=pod.added)
            pod.rejected = self._links.queue.add(fact)


def _body(pod: PodLink, reason: str, message: str) -> PodRejected:
    return PodRejected(
        namespace=pod.namespace,
        pod=pod.name,
        pod_uid=pod.uid,
        reason=reason,
        message=message,
    )
