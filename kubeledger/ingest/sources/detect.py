"""What kind of file a source is, by its content; its name only breaks ties."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import msgspec

from kubeledger.ingest.sources.answers import NOT_USED, is_crictl, is_pod_resources, is_usage
from kubeledger.ingest.sources.collect import place_of
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS, ROW_FORMATS
from kubeledger.ingest.sources.envelope.lines import HEAD, EnvelopeLines, layout_in
from kubeledger.ingest.sources.kernel_log import is_kernel_log
from kubeledger.ingest.sources.pasted import as_written
from kubeledger.ingest.sources.plain import is_of_api
from kubeledger.ingest.sources.prefix import (
    ANY_ENTRY,
    HEADER,
    JSON_START,
    OTHER_COMPONENT,
    Callers,
    Unwrapper,
)
from kubeledger.ingest.sources.several import kind_of
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.patterns import regex

_OF_LINES = ("klog-text", "klog-json", "kernel-log")
DOCUMENT_FORMATS = (
    "collected-at",
    "cpu-manager-state",
    "crictl",
    "device-checkpoint",
    "dra-manager-state",
    "events",
    "gaps",
    "image-manager-record",
    "kernel-log",
    "kubelet-config",
    "kubelet-configz",
    "kubelet-version",
    "memory-manager-state",
    "node",
    "node-name",
    "pod-list",
    "pod-manifest",
    "pod-resources",
    "pods-state",
    "stats-summary",
)
NOTES = ("collected-at", "kubelet-version", "node-name")
"""Formats that say something of other files, and are nothing without them."""
FORMATS = (*LOG_FORMATS, *DOCUMENT_FORMATS, "cgroup-files", "metrics")

_OF_CLAIMS = frozenset({"version", "entries", "checksum"})
"""Keys of ``dra_manager_state`` up to 1.30."""
_OF_PODS = frozenset({"data", "allocationEntries", "resizeStatusEntries", "checksum"})
"""Keys of what is allocated to pods, and what is actuated."""
_JSON: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_LONG_HEAD = 4 << 20
_NOTE = 4 << 10
"""A file with a single value is shorter."""
_LEFT_OUT = {
    "manifest": "what was collected and what was absent",
    "table": "a table for people, with rounded numbers; what `crictl -o json` writes is read",
}
"""Roles of files that hold no evidence -> why."""

_CONTROLS_SHARE = 64
_CONTROLS = bytes((*range(9), *range(14, 27), *range(28, 32)))
_CGROUP_LINE = regex(
    r"^/?(?:[^\s/]+/)+(?:cpu|cpuset|cpuacct|memory|pids|hugetlb|blkio|io|cgroup|misc)\.[\w.]+ \S",
    re.MULTILINE,
)
_YAML_KIND = regex(rb"^kind:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)
_KINDS = ("", "Event", "KubeletConfiguration", "Node", "Pod")
"""Of API objects that are read; of lists without their last word."""
_JSON_LIST = regex(rb"\s*\[\s*(?:[\[\]{\"\d-]|true|false|null|\Z)")
"""What else begins so is a line as ``kubeadm`` prints it: ``[init] …``."""
_OF_TALOS = regex(rb'"talos-service"\s*:\s*"kubelet"')
_LOG_NAME = regex(r"kubelet|\.log|messages|syslog|journal", re.IGNORECASE)
_STATE_NAME = regex(r"kubelet_internal_checkpoint|(?:cpu|memory|dra)_manager_state|_pods_state")
_DOCUMENT_NAME = regex(r"checkpoint|config|\.json|\.ya?ml", re.IGNORECASE)


class Detected(msgspec.Struct):
    """The format of a source, or why there is none.

    Attributes:
        format: one of ``FORMATS``; None: the file is not read.
        reason: why it is not read; for a user.
        finding: kind of finding that this is worth; None for a file of no interest.
        detail: more of the reason, for who named this file alone: which line, and what of it.
    """

    format: str | None
    reason: str = ""
    finding: str | None = None
    detail: str = ""


def is_log_name(name: str) -> bool:
    """Whether a file is called as those are that hold a kubelet's log."""
    last = name.rpartition("/")[2]
    return bool(_LOG_NAME.search(last)) and not _DOCUMENT_NAME.search(last)


def detect(source: SourceFile) -> Detected:
    """The format of a source, from its content, or from what it was before it was pasted."""
    found = _detect(source)
    if found.format is None and (written := as_written(source)) is not source:
        again = _detect(written)
        found = found if again.format is None else again
    if found.format is None and found.finding is None and _STATE_NAME.search(source.plain_name):
        return Detected(None, f"no state file of a kubelet ({found.reason})", "malformed")
    return found


def _detect(source: SourceFile) -> Detected:
    head = source.head(HEAD)
    if not head:
        reason = "damaged: nothing of it can be unpacked" if source.truncated else "empty"
        return Detected(None, reason, "truncated" if source.truncated else None)
    place = place_of(source.name)
    if place is not None and place.role in _LEFT_OUT:
        return Detected(None, _LEFT_OUT[place.role])
    if place is not None and place.role in FORMATS and len(head) < _NOTE:
        return Detected(place.role)
    found = _detect_log(source, head)
    if found is not None and found.format is not None:
        return found
    if _is_binary(head):
        named = bool(_LOG_NAME.search(source.plain_name))
        return Detected(None, "not text", "not_text" if named else None)
    start = head.lstrip()[:1]
    text = head.translate(None, b"\0").decode("utf-8", "replace")
    # The kernel's own stamps begin as a JSON list does.
    if start != b"{" and is_kernel_log(text, source.plain_name):
        return Detected("kernel-log")
    if found is not None:
        return found
    if text.startswith(("# HELP", "# TYPE")):
        return Detected("metrics")
    if start == b"{" or (start == b"[" and _JSON_LIST.match(head)):
        return _detect_json(source)
    if "\n# TYPE " in text:
        return Detected("metrics")
    if _CGROUP_LINE.search(text):
        return Detected("cgroup-files")
    if re.search(r"^(?:apiVersion|kind):", text, re.MULTILINE):
        return _detect_yaml(source)
    return Detected(None, "no known format", detail=_first_line(text))


_SHOWN_ENTRY = regex(ANY_ENTRY.pattern.decode())
_CALLER = regex(r"(?:\b[IWEF] ?[\d :.]{0,40}|^(?:[\d :.>\u2026]{0,60} )?)[\w.-]+\.go:\d+\] ")
_FOR_PEOPLE = regex(
    r"^(?:Type +Reason +Age +From +Message$|CONTAINER +IMAGE +CREATED"
    r"|(?:NAMESPACE +)?(?:LAST SEEN +TYPE|NAME +READY) |Type +Status +LastHeartbeatTime "
    r"|(?:Normal|Warning) +[A-Z][A-Za-z]+ +(?:\d+[smhd])+ "
    r"|(?:\d+[smhd])+ +(?:\d+[smhd])+ +\d+ +\S+ +[A-Z][a-z]+ )"
)
"""Heads and rows of tables of ``kubectl`` and ``crictl``, whose times are ages."""

_LINE_SHOWN = 60


def _first_line(text: str) -> str:
    """The first line that is like something known, or the first of all, and what it lacks."""
    lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    for pattern, lack in (
        (_SHOWN_ENTRY, "holds an entry of klog, and what stands before it is no known carrier's"),
        (_CALLER, "names its caller as klog does, but has no time like I1121 03:04:05.678901"),
        (
            _FOR_PEOPLE,
            "is of a table for people; what `-o json` prints of the same has times",
        ),
    ):
        for number, line in lines:
            if pattern.search(line):
                return f": line {number} {lack}: {_shown(line)}"
    number, line = lines[0] if lines else (1, "")
    return f": line {number} is no line of klog: {_shown(line)}"


def _shown(line: str) -> str:
    return line if len(line) <= _LINE_SHOWN else f"{line[:_LINE_SHOWN]}…"


def _is_binary(head: bytes) -> bool:
    """Few bytes that no text holds are damage, many are another kind of file."""
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > max(1, len(head) // _CONTROLS_SHARE)


def _detect_log(source: SourceFile, head: bytes) -> Detected | None:
    layout = layout_in(source)
    rows = None if layout is None else layout.format
    form = rows or _log_form(head)
    if (form is None and _LOG_NAME.search(source.plain_name)) or (rows and not _holds_entry(head)):
        long_head = source.head(_LONG_HEAD) if len(head) == HEAD else b""
        form = rows or _log_form(long_head)
        if rows and not _holds_entry(long_head):
            return Detected(None, f"rows ({rows}), and none near the beginning is a kubelet's")
    if form is None:
        return None
    if "kubelet" in source.plain_name:
        return Detected(form)
    callers = Callers()
    callers.look(head)
    if not callers.is_kubelets:
        callers.look(source.head(_LONG_HEAD))
    place = place_of(source.name)
    other = OTHER_COMPONENT.search(source.plain_name)
    named = other is not None or (place is not None and place.role == "container-log")
    if callers.is_kubelets or not (callers.others or named):
        return Detected(form)
    files = ", ".join(list(callers.others)[:5])
    name = f" ({other[0]})" if other else ""
    seen = f": its lines are of {files}, and none is of a file that only a kubelet has"
    return Detected(None, f"log of another component{name}{seen if files else ''}")


def opened(source: SourceFile, form: str) -> SourceFile:
    """The log in a file, whatever its rows look like, and whatever was done to its letters.

    Raises:
        BadInputError: it has no rows of that format.
    """
    if form in ROW_FORMATS:
        return EnvelopeLines(source, form)
    return as_written(source) if form in _OF_LINES else source


def _holds_entry(head: bytes) -> bool:
    return ANY_ENTRY.search(head) is not None or _OF_TALOS.search(head) is not None


def _log_form(head: bytes) -> str | None:
    if not ANY_ENTRY.search(head):
        return None
    unwrapper = Unwrapper()
    for raw in head.split(b"\n"):
        line = raw.lstrip(b"\0")
        if HEADER.match(line):
            return "klog-text"
        if line.startswith(JSON_START) and b'"msg":' in line:
            return "klog-json"
        if len(line) > 30:
            body = unwrapper.unwrap(line)
            if body.wrapped and HEADER.match(body.body):
                return "klog-text"
            if body.wrapped and body.body.startswith(JSON_START):
                return "klog-json"
    return None


def _detect_json(source: SourceFile) -> Detected:
    try:
        documents = load_documents(source.content())
    except ValueError as error:
        return _half_written(source, str(error))
    return _of_document(documents, source)


def _unknown(document: dict[str, Any]) -> str:
    keys = ", ".join(str(key)[:40] for key in list(document)[:6]) or "none"
    return f"JSON (keys: {keys}) that is neither a document that is read nor rows of a log store"


def _half_written(source: SourceFile, error: str) -> Detected:
    known = re.search(
        rf"checkpoint|{_STATE_NAME.pattern}|^sha256-|pods|events|node|stats|config",
        source.plain_name,
    )
    finding = "half_written" if known else None
    return Detected(None, f"not whole: {error}" if known else f"no valid JSON: {error}", finding)


def load_documents(data: bytes) -> list[Any]:
    """The JSON values of a file: one, or several one after the other.

    Raises:
        ValueError: the bytes are no such sequence, with line and column.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    with suppress(msgspec.DecodeError, RecursionError):
        return [_JSON.decode(text)]
    with suppress(msgspec.DecodeError, RecursionError):
        return _JSON.decode_lines(text)
    decoder, position, documents = json.JSONDecoder(), 0, []
    end = len(text.rstrip(" \t\r\n,\x1e"))
    while position < end:
        while text[position] in " \t\r\n,\x1e":
            position += 1
        try:
            value, position = decoder.raw_decode(text, position)
        except RecursionError:
            raise ValueError("nested too deep") from None
        except json.JSONDecodeError as error:
            if not text[error.pos :].strip() or error.msg.startswith("Unterminated"):
                raise ValueError(f"it ends in the middle, in line {error.lineno}") from None
            place = f"line {error.lineno}, column {error.colno}"
            raise ValueError(f"it breaks in {place}") from None
        documents.append(value)
    return documents


def _detect_yaml(source: SourceFile) -> Detected:
    content = source.content()
    kinds = [match[1].decode("utf-8", "replace") for match in _YAML_KIND.finditer(content)]
    known = [kind for kind in kinds if kind.removesuffix("List") in _KINDS]
    if kinds and not known:  # a must-gather is full of them, and to parse YAML takes long
        return Detected(None, _not_read(kinds[0].removesuffix("List")))
    from kubeledger.ingest.sources.yaml_text import load_yaml  # few files need a parser of YAML

    try:
        documents = [item for item in load_yaml(content) if item is not None]
    except ValueError as error:
        return Detected(None, str(error), "malformed")
    return _of_document(documents, source)


def _of_document(documents: list[Any], source: SourceFile) -> Detected:
    first = next((item for item in documents if isinstance(item, dict)), None)
    if first is None:
        listed = [item for value in documents if isinstance(value, list) for item in value]
        of_api = next((item for item in listed if isinstance(item, dict)), None)
        if not of_api:
            return Detected(None, "no object of the Kubernetes API")
        return _of_kind(of_api)
    if len(documents) > 1 and {"Checksum", "checksum", "pods"} & first.keys():
        return _half_written(source, "something follows its end")
    if "Data" in first and "Checksum" in first:
        of_claims = isinstance(first["Data"], str)
        return Detected("dra-manager-state" if of_claims else "device-checkpoint")
    if first.keys() >= {"version", "checksum"} and first.keys() <= _OF_CLAIMS:
        return Detected("dra-manager-state")
    if "checksum" in first and first.keys() <= _OF_PODS:
        return Detected("pods-state")
    if "policyName" in first and "checksum" in first:
        if "defaultCpuSet" in first:
            return Detected("cpu-manager-state")
        if "machineState" in first:
            return Detected("memory-manager-state")
    if first.keys() >= {"gap", "at", "reason"}:
        return Detected("gaps")
    if isinstance(first.get("node"), dict) and isinstance(first.get("pods"), list):
        return Detected("stats-summary")
    if isinstance(first.get("kubeletconfig"), dict):
        return Detected("kubelet-configz")
    if is_crictl(first):
        return Detected("crictl")
    if is_usage(first):
        return Detected(None, NOT_USED)
    if is_pod_resources(first):
        return Detected("pod-resources")
    return _of_kind(first)


_RECORD_KEYS = frozenset({"node", "seq", "ts_ns", "role", "kind", "body", "chain"})
"""Of a line of a ledger."""

A_RECORDING = "a recording: it holds the records of an import, so it is not imported again"
"""Why a recording is not read."""


def _of_kind(document: dict[str, Any]) -> Detected:
    if isinstance(document.get("object"), dict):  # one of a watch
        document = document["object"]
    kind = kind_of(document)
    items = document.get("items")
    if isinstance(items, list) or (items is None and str(kind).endswith("List")):
        first = next((item for item in items or () if isinstance(item, dict)), {})
        kind = kind.removesuffix("List") or kind_of(first)
        if kind == "Pod":
            return Detected("pod-list")
    match kind:
        case "Event":
            return Detected("events")
        case "Pod":
            return Detected("pod-list" if is_of_api(document) else "pod-manifest")
        case "ImagePulledRecord" | "ImagePullIntent":
            return Detected("image-manager-record")
        case "Node":
            return Detected("node")
        case "KubeletConfiguration":
            return Detected("kubelet-config")
        case _ if document.keys() >= _RECORD_KEYS:
            return Detected(None, A_RECORDING)
        case _:
            return Detected(None, _not_read(kind) if kind else _unknown(document))


def _not_read(kind: object) -> str:
    return f"an object of kind {kind}: not read"
