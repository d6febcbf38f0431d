"""How the kubelet writes pods and containers in its log, read back.

Free text (1.20) writes ``name_namespace(uid)``; structured lines write ``"namespace/name"``
with the UID in a key of its own, and klog's JSON format writes an object instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeledger.ingest.klog.values import is_mask
from kubeledger.model.patterns import regex

FORMATTED_POD = r'[^_\s",()]+_[^_\s",()]+\([^\s")]*\)'
"""Regular expression of ``name_namespace(uid)``, without groups."""

_FORMATTED = regex(r'([^_\s",()\[]+)_([^_\s",()]+)\(([^\s")]*)\)')
_NAMESPACE_AND_UID = regex(r'_([^_\s",()]+)\(([^\s")]*)\)')
_NO_NAME = regex(r'[_\s",()\[]')
_NAME_MAX = 253
_OBJECT_LIST = regex(r"[^\s\[\],\"]+/[^\s\[\],\"]+")
_CONTAINER_ID = regex(
    r'(?:[a-z][\w.+-]*://|\{"?[a-z][\w.+-]*"?\s+"?|\{Type:\S*\s+ID:)([^\s"}]+)"?\}?'
)
_ID = regex(r"[\w.:-]+")
_FIELD_PATH = regex(r"spec\.\w+\{([\w.-]+)\}")
_NAMED_IN_MESSAGE = regex(
    r"(?:Stopping|Created|Started) container ([\w.-]+)$"
    r"|Container ([\w.-]+) (?:failed (?:liveness|startup) probe|definition changed|resize requires)"
    r"|Back-off restarting failed container ([\w.-]+) in pod "
)


class PodRef(NamedTuple):
    """A pod as a log line names it; ``uid`` None when the line does not hold it."""

    namespace: str
    name: str
    uid: str | None = None


def formatted_pod(text: str) -> PodRef | None:
    """The first ``name_namespace(uid)`` in the text."""
    # To search for the whole form would try every letter as the first of a name.
    for match in _NAMESPACE_AND_UID.finditer(text) if "(" in text else ():
        name = _NO_NAME.split(text[max(0, match.start() - _NAME_MAX) : match.start()])[-1]
        if name:
            return PodRef(match[1], name, shown_uid(match[2]))
    return None


def formatted_pods(text: str) -> list[PodRef]:
    """All ``name_namespace(uid)`` in the text, in order."""
    return [PodRef(m[2], m[1], shown_uid(m[3])) for m in _FORMATTED.finditer(text)]


def shown_uid(uid: str | None) -> str | None:
    """A UID as a line shows it; None for one that somebody has hidden."""
    return uid if uid and not is_mask(uid) else None


def structured_pod(value: Any, uid: Any = None) -> PodRef | None:  # noqa: ANN401 - decoded JSON
    """A pod from the value of a structured key, with the UID of another key if there is one.

    Takes ``"namespace/name"``, the object of the JSON format and ``name_namespace(uid)``.
    """
    pod_uid = uid if isinstance(uid, str) and uid else None
    if isinstance(value, dict):
        name, namespace = value.get("name"), value.get("namespace")
        if isinstance(name, str) and name:
            return PodRef(namespace if isinstance(namespace, str) else "", name, pod_uid)
        return None
    if not isinstance(value, str) or not value:
        return None
    if (formatted := formatted_pod(value)) is not None:
        return formatted if pod_uid is None else formatted._replace(uid=pod_uid)
    namespace, slash, name = value.partition("/")
    return PodRef(namespace, name, pod_uid) if slash and name else None


def structured_pods(value: Any) -> list[PodRef]:  # noqa: ANN401 - decoded JSON
    """The pods of a list: JSON, or Go's ``[ns/a ns/b]`` or ``a_ns(uid), b_ns(uid)``."""
    if isinstance(value, str):
        if named := formatted_pods(value):
            return named
        value = _OBJECT_LIST.findall(value)
    if not isinstance(value, list):
        return []
    return [pod for entry in value if (pod := structured_pod(entry)) is not None]


def bare_container_id(value: Any) -> str | None:  # noqa: ANN401 - decoded JSON
    """An ID without its runtime.

    Of ``containerd://ID``, ``{"containerd" "ID"}``, ``{Type:containerd ID:ID}``, an object.
    """
    if isinstance(value, dict):
        value = value.get("ID")
    if not isinstance(value, str) or not value:
        return None
    match = _CONTAINER_ID.fullmatch(value)
    bare = match[1] if match else value
    # A page, or a terminal, put something into it, or a tool in its place.
    return bare if _ID.fullmatch(bare) else None


class EventLine(NamedTuple):
    """An ``Event occurred`` line about a pod.

    Attributes:
        container: from the field path, else from the message; None when neither names one.
        type: ``Normal`` or ``Warning``.
    """

    pod: PodRef
    container: str | None
    type: str
    reason: str
    message: str


def container_of_event(field_path: str, message: str) -> str | None:
    """Name of the container that an event is about; None when neither text names one."""
    path = _FIELD_PATH.match(field_path)
    if path is not None:
        return path[1]
    match = _NAMED_IN_MESSAGE.match(message)
    return None if match is None else next(name for name in match.groups() if name)
