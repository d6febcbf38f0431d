"""Redaction: records that can be shown to others, and still be verified.

Every string is replaced unless its place is known, and its value is one of those that are known
to be harmless there (:mod:`forms`). Words of the kubelet stay in messages, numbers only in its
own sentences (:mod:`settings`). docs/redaction.md says it for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from kubeledger.analyze.redaction.forms import (
    API_FIELDS,
    API_NAMES,
    API_NUMBERS,
    BODY_FIELDS,
    BODY_KEYS,
    OUT_OF,
    TIMES,
    VALUES_OF_KEYS,
    WELL_KNOWN_KEYS,
    is_amount,
    is_cgroup_file,
    is_qualified,
    is_resource,
    words,
)
from kubeledger.analyze.redaction.pseudonyms import (
    IMAGE_ID,
    IMAGE_IDS,
    KEYED_BY_USERS,
    MAPS_BY_RESOURCE,
    Pseudonyms,
    collect,
)
from kubeledger.analyze.redaction.settings import in_own_words, is_setting, shown_setting
from kubeledger.model.bodies.ledger import RecordsRedacted
from kubeledger.model.bodies.node import Setting
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import format_ts
from kubeledger.replay.node.state import time_in_name
from kubeledger.verify.evidence.line_classes import reduced

_TEXTS = words("message error")
"""Fields in which the kubelet's words stand around names."""

_CGROUPS = words("cgroup task_cgroup")
_CONTAINER_ID = re.compile(r"(?P<runtime>[a-z][a-z0-9-]*)://(?P<id>.*)")
_VERSION = re.compile(
    r"(?a)(?:Kubernetes )?v?(?:0\.0\.0|1\.\d{1,2}\.\d{1,3})(?:-(?:alpha|beta|rc)\.\d{1,3})?"
    r"(?![.\w])"
)
_PROBE_SAID = re.compile(r"(?s)(.*? probe (?:failed|errored|warning)[^:]*: ?)(.+)")
_FREE = words("volumeAttributes options parameters data stringData seLinuxOptions windowsOptions")
"""Maps in which users write what they like, under any key."""

_AMOUNTS = words("capacity allocatable requests limits")
"""Maps of a record's own from resources to amounts."""

_VERSIONS = words("kubelet_version version_text")
_INT32_MAX = 2**31 - 1
_LAST_PORT = 65535
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_RUNTIMES = words("containerd cri-o docker remote")
_PROBES = words("liveness readiness startup")
_COMMON = words("container Container pod Pod node Node probe image cpu memory")
"""Words of the kubelet's messages; a pod of such a name is not identified by it."""


def redacted(read: Callable[[], Iterable[Record]], key: bytes) -> Iterator[Record]:
    """The records with pseudonyms for all that is not known to be harmless.

    Each node's records keep their numbers; after its last one stands a
    ``ledger.RecordsRedacted``.

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
        collect(msgspec.to_builtins(record.body), pseudonyms)
    pseudonyms.kept.update(_COMMON)
    pseudonyms.settle()
    redaction = _Redaction(pseudonyms)
    for record in read():
        clean = redaction.record(record)
        yield clean
        if record.seq == nodes[record.node]:
            yield redaction.statement(clean, record.seq)


class _Field(msgspec.Struct, frozen=True):
    """What a body declares of a field: the words that it chooses from, its own types within."""

    words: frozenset[str]
    within: type[msgspec.Struct] | None
    is_api: bool


@cache
def _fields(body: type[msgspec.Struct]) -> dict[str, _Field]:
    found = {}
    for name, declared in get_type_hints(body).items():
        parts = list(_parts(declared))
        words = (get_args(part) for part in parts if get_origin(part) is Literal)
        structs = (p for p in parts if isinstance(p, type) and issubclass(p, msgspec.Struct))
        found[name] = _Field(
            frozenset(str(word) for choice in words for word in choice),
            next(structs, None),
            Any in parts,
        )
    return found


def _parts(declared: Any) -> Iterator[Any]:  # noqa: ANN401 # any annotation
    yield declared
    if get_origin(declared) not in {None, Literal, ClassVar}:
        for argument in get_args(declared):
            yield from _parts(argument)


class _Redaction:
    """One export."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self.pseudonyms = pseudonyms

    def record(self, record: Record) -> Record:
        """The record with pseudonyms for names; its evidence keeps line and offset."""
        return msgspec.structs.replace(
            record,
            node=self.pseudonyms.name(record.node),
            evidence=tuple(self._evidence(evidence) for evidence in record.evidence),
            body=self._struct(record.body),
        )

    def statement(self, last: Record, records: int) -> Record:
        """The record that says what was done, after the node's last one."""
        body: Body = RecordsRedacted(records=records, key_check=self.pseudonyms.key_check)
        return msgspec.structs.replace(
            last,
            seq=last.seq + 1,
            role=body.role,
            kind=body.kind,
            v=body.v,
            cause=None,
            evidence=(),
            body=body,
        )

    def _evidence(self, evidence: Evidence) -> Evidence:
        """Where it stands; when a snapshot was taken; what verification reads of its text."""
        file, taken_ns = self._file(evidence.file), time_in_name(evidence.file)
        if taken_ns is not None:
            file = f"{format_ts(taken_ns).replace(':', '-')}/{file}"
        text = reduced(evidence.text or "", self._parts, is_cgroup_file)
        return msgspec.structs.replace(evidence, file=file, text=text or None)

    def _file(self, file: str) -> str:
        suffix = re.search(r"\.(?:log|json|yaml|yml|txt|jsonl)$", file)
        return self.pseudonyms.name(file) + (suffix[0] if suffix else "")

    def _parts(self, parts: dict[str, str]) -> dict[str, str]:
        """Parts of a line, as they are hidden in the record that stands on it."""
        reason = parts.get("reason")
        is_own = reason is None or _is_own_reason(reason)
        hidden = {
            name: part if name == "probe" and part in _PROBES else self.name(part)
            for name, part in parts.items()
        }
        if is_own and "message" in parts:
            hidden["message"] = self._message(parts["message"])
        if reason is not None:
            hidden["reason"] = self._reason(reason)
        return hidden

    # A record's own fields, by what its type declares.

    def _struct(self, struct: _Struct) -> _Struct:
        fields = _fields(type(struct))
        reason = getattr(struct, "reason", None)
        said = isinstance(reason, str) and not (
            _is_own_reason(reason) or reason in fields["reason"].words
        )
        changed = {
            name: self._own(getattr(struct, name), name, field, is_said=said)
            for name, field in fields.items()
            if name in struct.__struct_fields__
        }
        return msgspec.structs.replace(struct, **changed)

    def _own(self, value: Any, name: str, field: _Field, *, is_said: bool) -> Any:  # noqa: ANN401 # any field
        """A field's value; ``is_said``: another program's reason says what the message tells."""
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, tuple):
            return tuple(self._own(inner, name, field, is_said=is_said) for inner in value)
        if isinstance(value, dict):
            return self._own_map(value, name, field)
        if not isinstance(value, str) or value in field.words:
            return value
        if name in ("conflicts", "outdated"):
            return self._conflict(value)
        if name in _TEXTS and not is_said:
            return self._message(value)
        return self._own_string(value, name)

    def _own_map(self, value: dict[str, Any], name: str, field: _Field) -> dict[str, Any]:
        if name == "resources":  # by container
            return {
                self.name(key): self._inner(inner, "", value, "", is_status=False)
                for key, inner in value.items()
            }
        if field.is_api or name == "taints":
            return self._object(value, name, is_status=name == "status")
        if name in KEYED_BY_USERS:
            return self._keyed(value)
        if name == "settings":
            return {
                key if is_setting(key) else self.name(key): self._setting(key, setting)
                for key, setting in value.items()
            }
        if name == "assignments":
            return {self.name(key): self._assigned(inner) for key, inner in value.items()}
        if name in _AMOUNTS:
            return self._amounts(value)
        keeps = BODY_KEYS.get(name)
        return {
            key if keeps and keeps(key) else self.name(key): self._own(
                inner, name, field, is_said=False
            )
            for key, inner in value.items()
        }

    def _assigned(self, value: Any) -> Any:  # noqa: ANN401 # CPUs, or blocks of memory, by container
        if isinstance(value, dict):
            return {self.name(key): self._assigned(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return tuple(map(self._struct, value))
        return value if BODY_FIELDS["cpu_set"](value) else self.name(value)

    def _own_string(self, text: str, name: str) -> str:
        if name in BODY_FIELDS and BODY_FIELDS[name](text):
            return text
        if name in _CGROUPS:
            return self.pseudonyms.cgroup(text)
        if name in _VERSIONS:
            found = _VERSION.match(text)
            return found[0] if found else self.name(text)
        if name == "alloc_response_b64":  # paths and variables of the device plugin
            return ""
        if name == "file":
            return self._file(text)
        if name == "reason":
            return self._reason(text)
        return self._id(text, name)

    def _conflict(self, text: str) -> str:
        """Which setting is in doubt, and what others say of it."""
        setting, colon, rest = text.partition(": ")
        if not is_setting(setting):
            return self.pseudonyms.text(text)
        return setting + colon + self.pseudonyms.text(rest)

    def _reason(self, text: str) -> str:
        if " " in text:  # a sentence of our own
            return self.pseudonyms.text(text)
        if BODY_FIELDS["reason"](text):
            return text
        return (
            OUT_OF + self.name(text.removeprefix(OUT_OF))
            if _is_own_reason(text)
            else self.name(text)
        )

    def _id(self, text: str, name: str) -> str:
        if name in IMAGE_IDS and (image := IMAGE_ID.fullmatch(text)):
            digest = image["form"] + self.name(image["digest"])
            return digest if image["name"] is None else f"{self.name(image['name'])}@{digest}"
        if container := _CONTAINER_ID.fullmatch(text):
            runtime = container["runtime"]
            shown = runtime if runtime in _RUNTIMES else self.name(runtime)
            return f"{shown}://{self.name(container['id'])}"
        return self.name(text)

    def _message(self, text: str) -> str:
        if message := _PROBE_SAID.fullmatch(text):
            return self.pseudonyms.text(message[1]) + self.name(message[2])
        own = in_own_words(text, self.pseudonyms.text)
        return self.pseudonyms.text(text) if own is None else own

    def _setting(self, name: str, setting: Setting) -> Setting:
        """A setting's value is JSON in a string."""
        value = setting.decoded()
        clean = shown_setting(name, value, self.name)
        if clean == value:
            return setting
        return msgspec.structs.replace(setting, value=msgspec.json.encode(clean).decode())

    # Objects of the API, by the names of their fields.

    def _object(self, value: dict[str, Any], name: str, *, is_status: bool) -> dict[str, Any]:
        """Fields that decisions rest on; a number in any other is a name that somebody chose."""
        if name in KEYED_BY_USERS:
            return self._keyed(value)
        if name in MAPS_BY_RESOURCE and not any(isinstance(v, dict | list) for v in value.values()):
            return self._amounts(value)
        if name in _FREE:
            return {self._key(key): self.name(str(inner)) for key, inner in value.items()}
        found = {}
        for key, inner in value.items():
            found[self._key(key)] = self._inner(inner, key, value, name, is_status=is_status)
        return found

    def _key(self, key: str) -> str:
        return key if key in API_NAMES else self.name(key)

    def _inner(
        self,
        value: Any,  # noqa: ANN401 # any JSON
        name: str,
        around: dict[str, Any],
        within: str,
        *,
        is_status: bool,
    ) -> Any:  # noqa: ANN401 # any JSON
        if isinstance(value, dict):
            return self._object(value, name, is_status=is_status)
        if isinstance(value, list):
            return [self._inner(v, name, around, within, is_status=is_status) for v in value]
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._api_string(value, name, around, within, is_status=is_status)
        largest = _LAST_PORT if name.lower().endswith("port") else _INT32_MAX
        is_known = name in API_NUMBERS and isinstance(value, int) and abs(value) <= largest
        is_known |= name == "sizeLimit" and is_amount("memory", str(value))
        return value if is_known or value is None else self.name(str(value))

    def _api_string(
        self, text: str, name: str, around: dict[str, Any], within: str, *, is_status: bool
    ) -> str:
        if name in TIMES:
            whose = API_FIELDS["type"](str(around.get("type", "")))  # a condition's, if it has one
            return text if is_status and whose and API_FIELDS[name](text) else self.name(text)
        if name in API_FIELDS and API_FIELDS[name](text):
            return text
        if name == "reason":
            return self._reason(text)
        if name == "key" and text in WELL_KNOWN_KEYS:
            return text
        if name == "values":
            return self._labelled(str(around.get("key")), text)
        if (
            name == "message"
            and within != "terminated"
            and _is_own_reason(str(around.get("reason")))
        ):
            return self._message(text)
        return self._id(text, name)

    def _keyed(self, value: dict[str, Any]) -> dict[str, str]:
        """Labels, annotations: what a user wrote, under any key."""
        return {
            key if key in WELL_KNOWN_KEYS else self.name(key): self._labelled(key, str(inner))
            for key, inner in value.items()
        }

    def _labelled(self, key: str, text: str) -> str:
        """The value of a label, or what one is compared with."""
        keeps = VALUES_OF_KEYS.get(key)
        return text if keeps and keeps(text) else self.pseudonyms.compared(key, text)

    def _amounts(self, value: dict[str, Any]) -> dict[str, Any]:
        """By resource; one that no machine has can be read no more."""
        return {
            self.name(key): amount
            if (is_resource(key) or is_qualified(key)) and is_amount(key, str(amount))
            else self.name(str(amount))
            for key, amount in value.items()
        }

    def name(self, text: str) -> str:
        """A name's pseudonym; several names in one (a path of IDs) are not looked for."""
        if text.startswith("sha256:"):
            return "sha256:" + self.pseudonyms.name(text.removeprefix("sha256:"))
        return self.pseudonyms.name(text)


def _is_own_reason(text: str) -> bool:
    """A reason of the kubelet's, whose message is in its words; not always one that is shown."""
    return BODY_FIELDS["reason"](text) or (
        text.startswith(OUT_OF) and is_qualified(text.removeprefix(OUT_OF))
    )
