"""Pulls of images: whether one was tried, how it ended, and the kubelet's records of them.

A pull that fails, or is not tried, stands in an event and in the error of the pod's sync, of
which a log may have either; one that succeeds in events alone. Each of these tells a decision
once: what a source that has not told the last one says soon after it is about the same. The
statuses of a pod's containers show the last of them, of which they are told where nothing else is.
Source: pkg/kubelet/images/image_manager.go of 1.19 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import msgspec

from kubeledger.ingest.correlate.assembler import PodAssembler, reads, reads_events, takes
from kubeledger.ingest.correlate.context import Subject, may_be_same
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Seen, Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.survey import kubelet_uid
from kubeledger.ingest.sources.items import ApiEvent, Fact, ImageManagerRecord, PodList
from kubeledger.ingest.sources.pod_lists import News
from kubeledger.ingest.sources.times import api_time
from kubeledger.kubelet.imagepull.puller import QPS_EXCEEDED
from kubeledger.kubelet.lifecycle.stages import failures_of_sync
from kubeledger.model.bodies.images import PullDecided, PullEnded, PullRecordRead
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_MS, NS_PER_S, parse_go_duration

Outcome = Literal["pull", "back_off", "present", "never", "pulled", "failed"]
_Teller = Literal["event", "sync", "api"]

_JOIN_NS = 60 * NS_PER_S
"""On an overloaded node the lines about one pull are so far apart; the next one is later."""
_JOIN_API_NS = 2 * NS_PER_S
_WAIT_NS = 2 * NS_PER_S

_WAITING: dict[str, Outcome] = {
    "ErrImageNeverPull": "never",
    "ErrImagePull": "failed",
    "ImagePullBackOff": "back_off",
    "RegistryUnavailable": "failed",
    "SignatureValidationFailed": "failed",
}
"""Reason of a container that waits -> what became of its pull."""

_CAUSE = regex(r'Back-off pulling image "[^"]*": (?P<reason>\w+): (?P<error>.*)', re.DOTALL)
"""Why the last pull failed, as a status tells it since 1.33."""
_IMAGE = r' image "(?P<image>[^"]*)"'
_EVENTS: dict[str, tuple[Outcome, re.Pattern[str]]] = {
    "Pulling": ("pull", regex(rf"[Pp]ulling{_IMAGE}")),
    "BackOff": ("back_off", regex(rf"Back-off pulling{_IMAGE}")),
    "ErrImageNeverPull": ("never", regex(rf"Container{_IMAGE} is not present with pull")),
    "Failed": ("failed", regex(rf"Failed to pull{_IMAGE}: (?P<error>.*)", re.DOTALL)),
}
_PRESENT = regex(rf"Container{_IMAGE} already present on machine and can be accessed")
_PULLED = regex(
    rf"Successfully pulled{_IMAGE}(?: in (?P<pull>\S+)(?: \((?P<whole>\S+) including waiting\))?"
    r"(?:\. Image size: (?P<size>\d+) bytes)?)?"
)


class _Said(NamedTuple):
    """What a source says of a pull; values that the source does not have are None."""

    outcome: Outcome
    image: str | None = None
    error: str | None = None
    reason: str | None = None
    whole_ms: int | None = None
    pull_ms: int | None = None
    size_bytes: int | None = None


class _Told(msgspec.Struct):
    """A decision that another source may tell, too, and who told it."""

    waiting: Waiting[Any]
    ts_ns: int
    by: set[_Teller]

    def join(self, seen: Seen, ts_ns: int, by: _Teller) -> None:
        """Another source tells it, too."""
        if self.by == {"api"} and self.waiting.is_open:
            # The API server keeps whole seconds: the line shows when it was.
            self.ts_ns = self.waiting.fact.ts_ns = ts_ns
            self.waiting.lead(seen.evidence)
        self.by.add(by)
        self.waiting.join(seen.evidence)


class PullsAssembler(PodAssembler):
    """Pulls, as events and sync errors tell them, and the files of ``image_manager/``."""

    shares_queue = False
    """What waits for another source keeps nothing else waiting."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._told: dict[tuple[str, Outcome], list[_Told]] = {}
        self._begun: dict[str, dict[tuple[str | None, str | None], Fact]] = {}
        self._counted: set[tuple[str, int]] = set()
        self._files: dict[tuple[str | None, str | None], PullRecordRead] = {}
        self._process = 0
        self._news = News()
        self._lists_ns: dict[str, int] = {}
        self._waiting: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._told_ns: dict[tuple[str, Outcome], dict[tuple[str | None, str], int]] = {}

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What another process of the kubelet decides is new."""
        if self._sync_loop.process != self._process:
            self._process = self._sync_loop.process
            self._told.clear()
            self._begun.clear()

    @reads_events("Pulled", *_EVENTS)
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is None:
            return
        said = _said(event.reason, event.message)
        if said is not None:
            subject = Subject(*event.pod, event.container)
            self._tell(entry, entry.ts_ns, "event", subject, said)

    @takes(ApiEvent)
    def _api_event(self, item: ApiEvent) -> None:
        """Of several that are counted in one, only when the last was is known."""
        api = item.event
        kind, namespace, name, reason, message = api.key
        said = _said(reason, message) if kind == "Pod" and name else None
        counted = api.object_id, api.count
        if said is not None and counted not in self._counted and api.may_be_of(self.context.node):
            self._counted.add(counted)
            ts_ns = item.ts_ns
            if api.count == 1 and api.named_ns is not None:
                ts_ns = api.named_ns if 0 <= api.named_ns - ts_ns < NS_PER_S else ts_ns
            subject = Subject(namespace, name, api.pod_uid, api.container)
            self._tell(item, ts_ns, "api", subject, said)

    @reads("Error syncing pod, skipping")
    def _synced(self, entry: Entry) -> None:
        error_text = entry.text("err")
        if not any(reason in error_text for reason in _WAITING):
            return
        for failure in failures_of_sync(error_text):
            outcome = _WAITING.get(failure.reason) if failure.stage == "image" else None
            if outcome is not None and failure.container is not None:
                error = failure.message if outcome == "failed" else None
                named = None if outcome == "failed" else failure.about
                said = _Said(outcome, named, error, failure.reason)
                subject = msgspec.structs.replace(entry.subject, container=failure.container)
                self._tell(entry, entry.ts_ns, "sync", subject, said)

    def _tell(self, seen: Seen, ts_ns: int, by: _Teller, subject: Subject, said: _Said) -> None:
        known = self._pods.known(subject)
        if known is not None:
            uid = subject.uid or known.uid
            subject = Subject(known.namespace, known.name, uid, subject.container)
        subject = self.context.completed(subject, ts_ns)
        if subject.namespace is None or subject.pod is None:
            return
        pod = f"{subject.namespace}/{subject.pod}"
        image = said.image or self._image_of(subject)
        self._told_ns.setdefault((pod, said.outcome), {})[subject.container, by] = ts_ns
        told = self._told_before(pod, subject, image, said.outcome, by, ts_ns)
        if told is not None:
            told.join(seen, ts_ns, by)
            told.waiting.learn(**_learned(told.waiting.body, subject, said, by))
            return
        body = _body(subject, said._replace(image=image))
        cause = self._begun_as(pod, body) if isinstance(body, PullEnded) else None
        fact = Fact(ts_ns, body, (seen.evidence,), cause)
        told = _Told(self.queue.hold(fact, _WAIT_NS), ts_ns, {by})
        self._told.setdefault((pod, said.outcome), []).append(told)
        if said.outcome == "pull":
            self._begun.setdefault(pod, {})[body.container, image] = fact

    def _begun_as(self, pod: str, body: PullEnded) -> Fact | None:
        """The pull that ends; where its line does not name all, the only one that it can be."""
        begun, names = self._begun.get(pod, {}), (body.container, body.image)
        alike = [key for key in begun if may_be_same(key, names)]
        return begun.pop(alike[0]) if len(alike) == 1 else None

    def _told_before(
        self,
        pod: str,
        subject: Subject,
        image: str | None,
        outcome: Outcome,
        by: _Teller,
        ts_ns: int,
    ) -> _Told | None:
        """What another source told of this before, and this one has not told yet."""
        recent = self._told.get((pod, outcome), [])
        recent[:] = [each for each in recent if ts_ns - each.ts_ns <= _JOIN_NS]
        within_ns = _JOIN_API_NS if by == "api" else _JOIN_NS
        said = subject.uid, subject.container, image
        for told in recent:
            body = told.waiting.body
            alike = may_be_same((body.pod_uid, body.container, body.image), said)
            if alike and by not in told.by and ts_ns - told.ts_ns <= within_ns:
                return told
        return None

    @takes(PodList)
    def _listed(self, item: PodList) -> None:
        """Statuses of pods that changed; those that wait as in the list before tell nothing new."""
        if item.listed_by == "manifest":
            return
        # What a list shows is some time late.
        since_ns = self._lists_ns.get(item.listed_by, 0) - _JOIN_NS
        self._lists_ns[item.listed_by] = item.ts_ns
        for listed in self._news.of(item.pods):
            pod, status = self._pods.with_uid(kubelet_uid(listed)), listed.get("status") or {}
            begin_ns = _begun_ns(status)
            if pod is None or begin_ns is None:
                continue
            for name, waiting in _waiting_in(status):
                key = item.listed_by, pod.uid or "", name
                last, self._waiting[key] = self._waiting.get(key), waiting
                if waiting != last:
                    subject = Subject(pod.namespace, pod.name, pod.uid, name)
                    after_ns = begin_ns if last is None else max(begin_ns, since_ns)
                    self._shown(item, subject, waiting, after_ns)

    def _shown(
        self, item: PodList, subject: Subject, waiting: dict[str, Any], after_ns: int
    ) -> None:
        """A status proves what became of the last try, and why the one before it failed."""
        reason, message = str(waiting.get("reason")), str(waiting.get("message") or "")
        outcome, image = _WAITING.get(reason), self._image_of(subject)
        if outcome is None:
            return
        error = message if outcome == "failed" else None
        # A cause may be the failure that the list before showed; a status that changed is new.
        found = [(_Said(outcome, image, error, reason), f"list of {item.listed_by}")]
        if outcome == "back_off" and (cause := _CAUSE.match(message)) is not None:
            found.insert(0, (_Said("failed", image, cause["error"], cause["reason"]), ""))
        pod = f"{subject.namespace}/{subject.pod}"
        for said, own in found:
            told_ns = self._told_ns.setdefault((pod, said.outcome), {})
            is_told = any(
                ts_ns >= after_ns and by != own and name in (subject.container, None)
                for (name, by), ts_ns in told_ns.items()
            )
            told_ns[subject.container, f"list of {item.listed_by}"] = item.ts_ns
            if not is_told:
                body = msgspec.structs.replace(_body(subject, said), after_ts_ns=after_ns)
                begun = self._begun_as(pod, body) if isinstance(body, PullEnded) else None
                self.queue.add(Fact(item.ts_ns, body, (item.evidence,), begun))

    def _image_of(self, subject: Subject) -> str | None:
        """The image of a container, where its pod mounts none, which would be pulled, too."""
        spec = self.context.spec_of(subject.uid)
        if any(volume.get("image") is not None for volume in spec.get("volumes") or ()):
            return None
        containers = self.context.containers_of(subject.uid)
        images = (c.get("image") for c in containers if c.get("name") == subject.container)
        return next(images, None)

    @takes(ImageManagerRecord)
    def _file(self, item: ImageManagerRecord) -> None:
        about = item.body.image, item.body.image_ref
        if self._files.get(about) != item.body:
            self._files[about] = item.body
            self.queue.add(shown(item, item.body))


def _begun_ns(status: dict[str, Any]) -> int | None:
    """When the kubelet first saw the pod of a status."""
    with suppress(ValueError):
        return api_time(status.get("startTime"))
    return None


def _waiting_in(status: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The containers of a status, and what each waits for, if it does."""
    for sort in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(sort) or ():
            state = container.get("state") or {}
            yield str(container.get("name") or ""), state.get("waiting") or {}


def _said(reason: str, message: str) -> _Said | None:
    """What an event says of a pull; None for one that is about none."""
    if reason in _EVENTS:
        outcome, pattern = _EVENTS[reason]
        found = pattern.match(message)
        if found is None:
            return None
        return _Said(outcome, found["image"], found.groupdict().get("error"))
    if reason != "Pulled":
        return None
    if (found := _PRESENT.match(message)) is not None:
        return _Said("present", found["image"])
    found = _PULLED.match(message)
    if found is None:
        return None
    took_ms, whole_ms = _ms(found["pull"]), _ms(found["whole"])
    size = found["size"]
    return _Said(
        "pulled",
        found["image"],
        # Before there were two times it was the whole.
        whole_ms=took_ms if whole_ms is None else whole_ms,
        pull_ms=None if whole_ms is None else took_ms,
        size_bytes=None if size is None else int(size),
    )


def _ms(text: str | None) -> int | None:
    try:
        return None if text is None else parse_go_duration(text) // NS_PER_MS
    except ValueError:
        return None


def _body(subject: Subject, said: _Said) -> PullDecided | PullEnded:
    names: dict[str, Any] = {**subject.names, "image": said.image}
    if said.outcome == "pulled" or said.outcome == "failed":
        error = said.error or ""
        return PullEnded(
            **names,
            outcome="refused" if error == QPS_EXCEEDED else said.outcome,
            error=error,
            reason=said.reason,
            whole_ms=said.whole_ms,
            pull_ms=said.pull_ms,
            size_bytes=said.size_bytes,
        )
    return PullDecided(**names, decision=said.outcome)


def _learned(
    body: PullDecided | PullEnded, subject: Subject, said: _Said, by: _Teller
) -> dict[str, Any]:
    """What another source adds; the error as the runtime gave it is the event's."""
    learned: dict[str, Any] = {}
    if body.container is None:  # as events name none before 1.21
        learned["container"] = subject.container
    if by == "sync" and isinstance(body, PullEnded):
        learned["reason"] = said.reason
    elif by != "sync":
        learned["image"] = said.image
        if said.outcome == "failed":
            learned["error"] = said.error
    return {name: value for name, value in learned.items() if value is not None}
