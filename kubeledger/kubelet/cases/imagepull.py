"""Cases of image pulls: a kubelet's settings and records, and a series of requests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import (
    Strict,
    shortened,
    time_of,
    walked,
)
from kubeledger.kubelet.imagepull.image_manager import Answer, Attempt, ImageManager, Request
from kubeledger.kubelet.imagepull.image_pull_manager import (
    Listed,
    PolicyError,
    PullManager,
    PullRecords,
    Requires,
    new_policy,
)
from kubeledger.kubelet.imagepull.keyring import Coordinates, Credential, PullSecret, key_of
from kubeledger.kubelet.imagepull.puller import new_puller
from kubeledger.kubelet.imagepull.pullrecords import (
    CachedPullRecords,
    FSPullRecords,
    cache_filename,
    encode_intent,
    encode_pulled_record,
)
from kubeledger.kubelet.imagepull.pullrecords import PulledRecord as Record
from kubeledger.kubelet.kube.flowcontrol import Backoff, BackOffPolicy
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Int32, Int64
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_go_duration, format_ts, parse_go_duration

_DURATION_MAX_NS = 2**62 - 1
"""A longer back-off cannot be doubled in 64 bits."""
_time_text = lru_cache(maxsize=1 << 8)(format_ts)
_Size = Annotated[int, msgspec.Meta(ge=0)]


class ListedImage(Strict, frozen=True, kw_only=True):
    """An image in the runtime's list at a start."""

    id: str
    repo_tags: tuple[str, ...] | None = None
    repo_digests: tuple[str, ...] | None = None


class PullIntent(Strict, frozen=True, kw_only=True):
    """A file in image_manager/pulling; ``content`` is all of it, where it is given."""

    image: str
    api_version: str | None = None
    content: str | None = None


class PulledRecord(Strict, frozen=True, kw_only=True):
    """A file in image_manager/pulled; ``content`` is all of it, where it is given."""

    image_ref: str
    api_version: str | None = None
    last_updated_time: str | None = None
    credential_mapping: dict[str, Any] | None = None
    content: str | None = None


class SecretMeta(msgspec.Struct, frozen=True, gc=False):
    """Metadata of a pull secret."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class Secret(msgspec.Struct, frozen=True, gc=False):
    """A pull secret; values of ``data`` are Base64."""

    metadata: SecretMeta
    data: dict[str, str] | None = None
    type: str = ""


class RuntimeAnswer(Strict, frozen=True, kw_only=True):
    """What the runtime answers to a PullImage."""

    duration: str = "0s"
    error: str | None = None
    image_ref: str | None = None
    size: _Size | None = None


class Call(Strict, frozen=True, kw_only=True):
    """One request."""

    pod_uid: str = msgspec.field(name="podUID")
    image: str
    image_pull_policy: str | None = None
    image_ref: str | None = None
    inspect_error: str | None = None
    pull_secrets: tuple[Secret, ...] | None = None
    credentials: tuple[Credential, ...] | None = None
    answers: tuple[RuntimeAnswer, ...] | None = None


class Step(Strict, frozen=True, kw_only=True):
    """Requests at one instant, a start of the kubelet, or image GC's drop of records."""

    at: str
    op: Literal["ensure", "restart", "prune"]
    calls: tuple[Call, ...] | None = None
    images: tuple[ListedImage, ...] | None = None
    image_list: tuple[str, ...] | None = None
    until: str | None = None


class ImagePullInput(Strict, frozen=True, kw_only=True):
    """A case's input."""

    ensure_secret_pulled_images: bool | None = None
    policy: str | None = msgspec.field(name="imagePullCredentialsVerificationPolicy", default=None)
    allowlist: tuple[str, ...] | None = msgspec.field(
        name="preloadedImagesVerificationAllowlist", default=None
    )
    max_pods: Int32 | None = None
    serialize: bool | None = msgspec.field(name="serializeImagePulls", default=None)
    max_parallel: Int32 | None = msgspec.field(name="maxParallelImagePulls", default=None)
    qps: float | None = msgspec.field(name="registryPullQPS", default=None)
    registry_burst: Int64 | None = None
    back_off_initial: str
    back_off_max: str
    kubelet_started_at: str
    images: tuple[ListedImage, ...] | None = None
    pull_intents: tuple[PullIntent, ...] | None = None
    pulled_records: tuple[PulledRecord, ...] | None = None
    steps: tuple[Step, ...]


class CallOutcome(Strict, frozen=True, kw_only=True):
    """What came of a request."""

    image_ref: str
    error: str
    message: str
    pulls: list[str]
    finished_at: str
    pulling_time_recorder: list[str]


class StepOutcome(Strict, frozen=True, kw_only=True):
    """What came of a step; the back-off of all entries after it: value, last update."""

    calls: list[CallOutcome]
    events: list[str]
    back_off: dict[str, tuple[str, str]]


class Records(Strict, frozen=True, kw_only=True):
    """The files at the end; of one that is none, all of its content."""

    pulling: list[str]
    pulled: dict[str, Any]


class Outcome(Strict, frozen=True, kw_only=True):
    """A case's outcome; no records with an error, and in versions that have none."""

    policy_error: str
    steps: list[StepOutcome]
    records: Records | UnsetType = UNSET


class PullWalk:
    """A case in one order of the kubelet's maps."""

    def __init__(self, given: ImagePullInput, profile: KubeletProfile, order: MapOrder) -> None:
        self._given, self._order = given, order
        self._facts = facts = profile.imagepull
        self._verifies = facts.pull_records and given.ensure_secret_pulled_images is True
        self._pulling: dict[str, bytes | str] = {
            cache_filename(intent.image): _intent_file(intent)
            for intent in given.pull_intents or ()
        }
        self._pulled: dict[str, bytes | Record] = {
            cache_filename(record.image_ref): _record_file(record)
            for record in given.pulled_records or ()
        }
        self._requires: Requires | None = None
        self._error = ""
        self._started_ns = time_of(given.kubelet_started_at, "input.kubeletStartedAt")
        if self._verifies:
            try:
                self._requires = new_policy(given.policy or "", given.allowlist or (), facts)
            except PolicyError as error:
                self._error = str(error)

    def steps(self) -> Iterator[StepOutcome]:
        """What comes of each step; of none under a policy that is refused."""
        if self._error:
            return
        manager = self._start(self._given.images, self._started_ns)
        for index, step in enumerate(self._given.steps):
            now_ns = time_of(step.at, f"input.steps[{index}].at")
            attempts: list[Attempt] = []
            if step.op == "restart":
                manager = self._start(step.images, now_ns)
            elif step.op == "ensure":
                requests = [_request(call, index) for call in step.calls or ()]
                attempts = manager.ensure_images_exist(requests, now_ns)
            elif manager.pull_manager is not None:
                until_ns = time_of(step.until or "", f"input.steps[{index}].until")
                manager.pull_manager.prune_unknown_records(step.image_list or (), until_ns)
            yield _step_outcome(attempts, manager.back_off)

    def outcome(self, steps: list[StepOutcome]) -> Outcome:
        """With the files as they are now."""
        has_records = self._facts.pull_records and not self._error
        records = self._records() if has_records else UNSET
        return Outcome(policy_error=self._error, steps=steps, records=records)

    def _start(self, images: tuple[ListedImage, ...] | None, now_ns: int) -> ImageManager:
        """A kubelet process begins."""
        given, facts = self._given, self._facts
        manager: PullManager | None = None
        if self._requires is not None:
            listed = [
                Listed(each.id, (*(each.repo_digests or ()), *(each.repo_tags or ())))
                for each in images or ()
            ]
            manager = PullManager(self._open_records(), self._requires, listed, facts, now_ns)
        policy = BackOffPolicy(
            _duration(given.back_off_initial, "input.backOffInitial"),
            _duration(given.back_off_max, "input.backOffMax"),
        )
        puller = new_puller(
            serialize=given.serialize is True,
            max_parallel=given.max_parallel,
            qps=given.qps or 0,
            burst=given.registry_burst or 0,
            limits=facts.parallel_pulls_limited,
        )
        return ImageManager(facts, Backoff(policy), puller, manager, self._order)

    def _open_records(self) -> PullRecords:
        files = FSPullRecords(self._pulling, self._pulled, self._facts)
        if not self._facts.pull_records_cached:
            return files
        pods = self._given.max_pods or 0
        return CachedPullRecords(
            files, intents=2 * max(pods, self._given.max_parallel or 0), records=5 * pods
        )

    def _records(self) -> Records:
        pulled: dict[str, Any] = {}
        for name, file in self._pulled.items():
            content = file if isinstance(file, bytes) else encode_pulled_record(file, self._facts)
            read = _object(content)
            if read is None or not isinstance(read.get("imageRef"), str):
                pulled[f"file {name}"] = content.decode()
            else:
                read.pop("kind", None)
                pulled[read.pop("imageRef")] = read
        pulling = sorted(self._intent_line(name) for name in self._pulling)
        return Records(pulling=pulling, pulled=pulled)

    def _intent_line(self, name: str) -> str:
        file = self._pulling[name]
        content = file if isinstance(file, bytes) else encode_intent(file, self._facts)
        read = _object(content)
        if read is None or "image" not in read:
            return f"file {name}: {content.decode()}"
        return f"{read.get('apiVersion', '')} {read['image']}"


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        read = msgspec.json.decode(content)
    except msgspec.MsgspecError:
        return None
    return read if isinstance(read, dict) else None


def _step_outcome(attempts: list[Attempt], back_off: Backoff) -> StepOutcome:
    events = [event for attempt in attempts for event in attempt.events]
    return StepOutcome(
        calls=[_call_outcome(attempt) for attempt in attempts],
        events=sorted(events) if len(attempts) > 1 else events,
        back_off={
            str(key): (format_go_duration(entry.value_ns), _time_text(entry.raised_ns))
            for key, entry in back_off.entries()
        },
    )


def _call_outcome(attempt: Attempt) -> CallOutcome:
    return CallOutcome(
        image_ref=attempt.image_ref,
        error=attempt.error,
        message=attempt.message,
        pulls=attempt.pulls,
        finished_at=_time_text(attempt.finished_ns),
        pulling_time_recorder=attempt.tracked,
    )


def _intent_file(intent: PullIntent) -> bytes:
    if intent.content is not None:
        return intent.content.encode()
    return msgspec.json.encode(
        {"kind": "ImagePullIntent", "apiVersion": intent.api_version, "image": intent.image}
    )


def _record_file(record: PulledRecord) -> bytes:
    if record.content is not None:
        return record.content.encode()
    fields: dict[str, Any] = {"kind": "ImagePulledRecord", "apiVersion": record.api_version}
    if record.last_updated_time is not None:
        fields["lastUpdatedTime"] = record.last_updated_time
    fields["imageRef"] = record.image_ref
    if record.credential_mapping is not None:
        fields["credentialMapping"] = record.credential_mapping
    return msgspec.json.encode(fields)


def _request(call: Call, step: int) -> Request:
    answers = call.answers or (RuntimeAnswer(),)
    last = len(answers) - 1

    def answer(index: int, _: int) -> Answer:
        given = answers[index if index < last else last]
        took_ns = _duration_ns(given.duration)
        if took_ns < 0:
            where = f"input.steps[{step}].calls: of an answer for {shortened(call.image)}"
            raise BadInputError(f"{where}: no Go duration: {shortened(given.duration)}")
        return Answer(given.error or "", given.image_ref or "", given.size or 0, took_ns)

    secrets = [_secret(one, step) for one in call.pull_secrets] if call.pull_secrets else ()
    return Request(
        call.pod_uid,
        call.image,
        call.image_pull_policy or "",
        call.image_ref or "",
        call.inspect_error or "",
        secrets,
        call.credentials or (),
        answer,
    )


def _secret(given: Secret, step: int) -> PullSecret:
    meta = given.metadata
    text = (given.data or {}).get(key_of(given.type) or "", "")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        where = f"input.steps[{step}].calls: pull secret {shortened(meta.name)}"
        raise BadInputError(f"{where}: what it holds is not Base64") from None
    return PullSecret(Coordinates(meta.uid, meta.namespace, meta.name), given.type, content)


def _duration(text: str, field: str) -> int:
    duration_ns = _duration_ns(text)
    if duration_ns < 0:
        raise BadInputError(f"{field}: no Go duration: {shortened(text)}")
    return duration_ns


@lru_cache(maxsize=1 << 10)
def _duration_ns(text: str) -> int:
    """-1 for a text that is no duration, or for one that cannot be reckoned with."""
    try:
        duration_ns = parse_go_duration(text)
    except ValueError:
        return -1
    return duration_ns if duration_ns <= _DURATION_MAX_NS else -1


IMAGEPULL = walked(ImagePullInput, Outcome, PullWalk, runs_max=10_000)
