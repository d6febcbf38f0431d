"""Redaction: records that can be shown to others, and still be verified.

Every string is replaced unless a rule keeps it: a field that is not named here is a name. What
is kept are kinds, resources, numbers, times, and the kubelet's own words; docs/redaction.md
says it for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import msgspec

from kubeledger.analyze.sql.pseudonyms import Pseudonyms
from kubeledger.model.bodies.ledger import RecordsRedacted
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.model.wire.codec import GENESIS, encode_line

__all__ = ["redacted"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEPT = _words(
    # bodies
    "resource signal policy level qos_class told_by source operation probe_type result"
    " from_result to_result handler pass outcome listed_by kubelet_version version_text format"
    " finding year_source type object_kind kubeledger_version default_cpu_set device_ids numa"
    " effect changed cpu_set reserved_cpu_set options reclaimed signals"
    # the API's objects
    " restartPolicy operator protocol status phase qosClass imagePullPolicy dnsPolicy"
    " terminationMessagePolicy scheme preemptionPolicy health resourceID resourceName"
    " supplementalGroupsPolicy"
)
"""Fields whose strings are words of the kubelet or the API, resources or devices."""

_TEXTS = _words(
    "message error reason cgroup task_cgroup conflicts containerID image_id imageID default"
)
"""Fields in which the kubelet's words stand around names."""

_NAMES = _words(
    "namespace pod container victim_namespace victim_pod preemptor_namespace preemptor_pod"
    " nodeName hostname subdomain serviceAccountName serviceAccount image about"
)
"""Fields whose values are names that may also stand in texts."""

_CHOICES: dict[str, set[str]] = {}
"""Field -> the words it is declared to choose from, in any body."""


def _note_choices(body: type[msgspec.Struct]) -> None:
    for field, declared in get_type_hints(body).items():
        for part in _parts(declared):
            if get_origin(part) is Literal:
                _CHOICES.setdefault(field, set()).update(map(str, get_args(part)))
            elif isinstance(part, type) and issubclass(part, msgspec.Struct):
                _note_choices(part)


def _parts(declared: Any) -> Iterator[Any]:  # noqa: ANN401 # any annotation
    yield declared
    if get_origin(declared) not in {None, Literal, ClassVar}:
        for argument in get_args(declared):
            yield from _parts(argument)


for _body in BODY_TYPES.values():
    _note_choices(_body)

_FREE = _words(
    "labels annotations nodeSelector matchLabels volumeAttributes options parameters"
    " seLinuxOptions data stringData"
)
"""Maps in which users write what they like, under any key."""

_MAPS_BY_NAME = frozenset({"assignments"})
_MAPS_TO_DEVICES = frozenset({"numa", "registered", "unified", "other"})
_MAPS_BY_RESOURCE = _words(
    "requests limits allocatedResources capacity allocatable overhead registered hints"
)
_IMAGE_IDS = frozenset({"image_id", "imageID"})
_IMAGE_ID = re.compile(r"sha256:([0-9a-f]{64})$")
_KEPT_LABELS = _words(
    "kubernetes.io/config.source kubernetes.io/os kubernetes.io/arch beta.kubernetes.io/os"
    " beta.kubernetes.io/arch"
)
_SEEN = "kubernetes.io/config.seen"
_TIMED = _words(
    "creationTimestamp deletionTimestamp startTime startedAt finishedAt lastTransitionTime"
    " lastProbeTime lastHeartbeatTime firstTimestamp lastTimestamp eventTime"
) | {_SEEN}
"""Fields that hold a time, which the kubelet or the API server has filled in."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|")
_MEASURED = _words("sizeLimit divisor port targetPort")
"""Fields that hold an amount; elsewhere a number is what a user chose to write."""

_AMOUNT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:[numkKMGTPE]i?)?")
_CPUS = re.compile(r"(?:[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?")
_SAFE = re.compile(
    rf"{_AMOUNT.pattern}%?|(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+|{_CPUS.pattern}|max|"
    + _TIME.pattern
)
"""Values of settings, which are the kubelet's."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-,][A-Za-z0-9]+)*|")
_RESOURCE = re.compile(r"cpu|memory|pods|pid|ephemeral-storage|storage|hugepages-\w+|attachable-.*")
_SECRET_SETTING = re.compile(
    r"label|name|host|provider|taint|path|file|dir|url|address|cidr|dns|domain|user|cert|key"
    r"|endpoint|config|server|root|ip\b|docker|cni|volume|socket|image|cloud",
    re.IGNORECASE,
)
_PROBE_SAID = re.compile(r"(?s)(.*? probe (?:failed|errored|warning)[^:]*: ?)(.+)")


def redacted(read: Callable[[], Iterable[Record]], key: bytes) -> Iterator[bytes]:
    """Lines of a recording in which names are pseudonyms.

    Each node's records keep their numbers; after its last one stands a
    ``ledger.RecordsRedacted``, which is part of the new chain.

    Args:
        read: opens the records; called twice, because a name in an early text may be known
            for one only later.
        key: secret, up to 64 bytes; the same key gives the same pseudonyms.

    Raises:
        KubeledgerError: the records cannot be read.
    """
    pseudonyms = Pseudonyms(key)
    nodes: dict[str, int] = {}
    for record in read():
        if record.node not in nodes:
            pseudonyms.add_node(record.node)
        nodes[record.node] = record.seq
        _collect(msgspec.to_builtins(record.body), pseudonyms)
    pseudonyms.kept.update(_COMMON)
    pseudonyms.settle()
    redaction = _Redaction(pseudonyms)
    heads: dict[str, bytes] = {}
    for record in read():
        clean = redaction.record(record)
        line, heads[record.node] = encode_line(clean, heads.get(record.node, GENESIS))
        yield line
        if record.seq == nodes[record.node]:
            stated = redaction.statement(clean, record.seq)
            line, _ = encode_line(stated, heads[record.node])
            yield line


_COMMON = _words("container Container pod Pod node Node probe image cpu memory")
"""Words of the kubelet's messages; a pod of such a name is not identified by it."""


def _collect(value: Any, pseudonyms: Pseudonyms, key: str = "") -> None:  # noqa: ANN401 # any JSON
    """Note the names in a body, and the resources, which are no names."""
    if isinstance(value, dict):
        if key in _MAPS_BY_RESOURCE:
            pseudonyms.kept.update(value)
        for name, inner in value.items():
            if key in _MAPS_BY_NAME:
                pseudonyms.add(name)
            _collect(inner, pseudonyms, name)
    elif isinstance(value, list | tuple):
        for inner in value:
            _collect(inner, pseudonyms, key)
    elif isinstance(value, str):
        if key in _IMAGE_IDS and (digest := _IMAGE_ID.search(value)):
            pseudonyms.add_ordered(digest[1])
        elif key in {"resource", "resourceName"}:
            pseudonyms.kept.add(value)
        elif key in _NAMES or (key == "name" and not _RESOURCE.fullmatch(value)):
            pseudonyms.add(value)


class _Redaction:
    """One export."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self.pseudonyms = pseudonyms

    def record(self, record: Record) -> Record:
        """The record with pseudonyms for names; its evidence keeps line and offset."""
        body = self._json(msgspec.to_builtins(record.body), "")
        return msgspec.structs.replace(
            record,
            node=self.pseudonyms.name(record.node),
            evidence=tuple(self._evidence(evidence) for evidence in record.evidence),
            body=msgspec.convert(body, type(record.body)),
        )

    def statement(self, last: Record, records: int) -> Record:
        """The record that says what was done, after the node's last one."""
        body: Body = RecordsRedacted(records=records, key_check=self.pseudonyms.key_check)
        return msgspec.structs.replace(
            last, seq=last.seq + 1, role=body.role, kind=body.kind, v=body.v, cause=None,
            evidence=(), body=body,
        )  # fmt: skip

    def _evidence(self, evidence: Evidence) -> Evidence:
        return msgspec.structs.replace(evidence, file=self._file(evidence.file), text=None)

    def _file(self, file: str) -> str:
        suffix = re.search(r"\.(?:log|json|yaml|yml|txt|jsonl)$", file)
        return self.pseudonyms.name(file) + (suffix[0] if suffix else "")

    def _json(self, value: Any, key: str, within: str = "") -> Any:  # noqa: ANN401 # any JSON
        if isinstance(value, dict):
            if key == "settings":
                return {name: self._setting(name, setting) for name, setting in value.items()}
            if key in _MAPS_BY_NAME:
                return self._by_name(value)
            value = self._without_unknown_names(value)
            return {name: self._json(inner, name, key) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._json(inner, key, within) for inner in value]
        return self._string(value, key, within) if isinstance(value, str) else value

    def _by_name(self, value: Any) -> Any:  # noqa: ANN401 # any JSON
        """CPUs, or blocks of memory, by pod and container."""
        if isinstance(value, dict):
            return {self.pseudonyms.name(k): self._by_name(inner) for k, inner in value.items()}
        is_cpus = isinstance(value, str) and _CPUS.fullmatch(value)
        return value if is_cpus else self._json(value, "")

    def _without_unknown_names(self, value: dict[str, Any]) -> dict[str, Any]:
        """Where nobody knows the reason, nobody knows what the message says."""
        reason, message = value.get("reason"), value.get("message")
        if not isinstance(reason, str) or not isinstance(message, str):
            return value
        if not reason or self.pseudonyms.text(reason) == reason:
            return value
        return {**value, "message": self.name(message)}

    def _string(self, text: str, key: str, within: str) -> str:
        if within in _FREE and key not in {*_KEPT_LABELS, _SEEN}:
            return self.name(text)
        if key in _KEPT_LABELS or (key in _TIMED and _TIME.fullmatch(text)):
            return text
        if key == "alloc_response_b64":  # paths and variables of the device plugin
            return ""
        if key == "file":
            return self._file(text)
        if (
            key in _KEPT
            or within in _MAPS_TO_DEVICES
            or text in _CHOICES.get(key, ())
            or text in self.pseudonyms.kept
            or ((key in _MEASURED or within in _MAPS_BY_RESOURCE) and _AMOUNT.fullmatch(text))
            or (key == "schedulerName" and text == "default-scheduler")
        ):
            return text
        if key == "priorityClassName" and text.startswith("system-"):
            return text
        if key == "message" and within == "terminated":  # the application's own words
            return self.name(text)
        return self._prose(text) if key in _TEXTS else self.name(text)

    def _prose(self, text: str) -> str:
        if message := _PROBE_SAID.fullmatch(text):
            return self.pseudonyms.text(message[1]) + self.name(message[2])
        return self.pseudonyms.text(text)

    def _setting(self, name: str, setting: dict[str, Any]) -> dict[str, Any]:
        """A setting's value is JSON in a string; where it may name a place, strings go."""
        try:
            value = msgspec.json.decode(setting["value"])
        except msgspec.DecodeError:
            return {**setting, "value": msgspec.json.encode(self.name(setting["value"])).decode()}
        clean = self._setting_value(value, bool(_SECRET_SETTING.search(name)))
        if clean == value:
            return setting
        return {**setting, "value": msgspec.json.encode(clean).decode()}

    def _setting_value(self, value: Any, secret: bool) -> Any:  # noqa: ANN401 # any JSON
        if isinstance(value, dict):
            return {name: self._setting_value(inner, secret) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._setting_value(inner, secret) for inner in value]
        if not isinstance(value, str) or value == "/" or _SAFE.fullmatch(value):
            return value
        return value if not secret and _WORD.fullmatch(value) else self.name(value)

    def name(self, text: str) -> str:
        """A name's pseudonym; several names in one (a path of IDs) are not looked for."""
        if text.startswith("sha256:"):
            return "sha256:" + self.pseudonyms.name(text.removeprefix("sha256:"))
        return self.pseudonyms.name(text)
