"""The table of forms: where a row of each log store holds message, time, node and program.

A path is written as its keys with spaces between; of several the first that is there counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from kubeledger.ingest.sources.envelope.json_rows import TOP, Holder, json_rows
from kubeledger.ingest.sources.envelope.rows import (
    CSV_BEGIN,
    VERBOSE_BEGIN,
    Path,
    RawRow,
    at_path,
    csv_rows,
    export_rows,
    path,
    printed_rows,
    verbose_rows,
)
from kubeledger.ingest.sources.plain import object_of
from kubeledger.ingest.sources.prefix import ANY_ENTRY
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.model.patterns import regex


def _paths(*texts: str) -> tuple[Path, ...]:
    return tuple(map(path, texts))


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One form of rows.

    Attributes:
        name: as a format; several forms may share one.
        keys: groups of paths; a row of this form has one of each group.
        inside: key of the map that holds the row's fields; empty: the row does.
        message, time, node: where these stand.
        program: where the name of the program stands, ``unit`` that of its unit, ``process`` the ID
            of its process.
        stream: where a name of host and unit in one stands, ``HOST-dataplane.kubelet.service``.
        identity: where what no two rows share stands, beside the map that holds the fields.
        order: where a number stands that grows from row to row, for rows of one time.
        boot, since_boot: where the machine's boot stands, and the time since then, in microseconds:
            no step of the clock moves it.
        goes_on: path and value of a mark that the message goes on in the next row.
        ends_line: a message that goes on has no end of line.
        is_klog: a row with a caller is klog's own JSON, its time under another name.
    """

    name: str
    keys: tuple[tuple[Path, ...], ...]
    inside: str = ""
    message: tuple[Path, ...] = ()
    time: tuple[Path, ...] = ()
    node: tuple[Path, ...] = ()
    program: tuple[Path, ...] = ()
    unit: tuple[Path, ...] = ()
    process: tuple[Path, ...] = ()
    stream: tuple[Path, ...] = ()
    identity: tuple[Path, ...] = ()
    order: tuple[Path, ...] = ()
    boot: tuple[Path, ...] = ()
    since_boot: tuple[Path, ...] = ()
    goes_on: tuple[Path, str] | None = None
    ends_line: bool = False
    is_klog: bool = False

    def fits(self, row: dict[str, Any]) -> bool:
        """Whether a row is of this form."""
        fields = self.fields(row)
        return all(any(_has(fields, keys) for keys in group) for group in self.keys)

    def fields(self, row: dict[str, Any]) -> dict[str, Any]:
        inside = row.get(self.inside) if self.inside else None
        return inside if isinstance(inside, dict) else row


def _has(fields: dict[str, Any], keys: Path) -> bool:
    return keys[0] in fields if len(keys) == 1 else at_path(fields, keys) is not None


_HOSTS = ("_HOSTNAME", "hostname", "host hostname", "host name", "host", "node_name", "nodename")
_PROGRAMS = ("SYSLOG_IDENTIFIER", "syslog_identifier", "_COMM")
_UNITS = ("_SYSTEMD_UNIT", "systemd_unit", "systemd unit", "unit")

_JOURNAL = Form(
    name="journal-json",
    keys=(_paths("MESSAGE"), _paths("__REALTIME_TIMESTAMP")),
    message=_paths("MESSAGE"),
    time=_paths("__REALTIME_TIMESTAMP"),
    node=_paths("_HOSTNAME"),
    program=_paths("SYSLOG_IDENTIFIER", "_COMM"),
    unit=_paths("_SYSTEMD_UNIT"),
    process=_paths("_PID"),
    identity=_paths("__CURSOR"),
    boot=_paths("_BOOT_ID"),
    since_boot=_paths("__MONOTONIC_TIMESTAMP"),
    goes_on=(path("_LINE_BREAK"), "line-max"),
)
_LOKI = Form(
    name="loki",
    keys=(_paths("line"), _paths("timestamp"), _paths("labels", "fields")),
    message=_paths("line"),
    time=_paths("timestamp"),
    node=_paths(
        *("labels node_name", "labels nodename", "labels node", "labels hostname", "labels host"),
        *("labels _HOSTNAME", "labels k8s_node_name", "labels instance"),
        *("fields node_name", "fields nodename", "fields node", "fields hostname", "fields host"),
    ),
    program=_paths(
        *("labels syslog_identifier", "labels SYSLOG_IDENTIFIER", "labels identifier"),
        *("labels comm", "fields syslog_identifier"),
    ),
    unit=_paths(
        *("labels unit", "labels systemd_unit", "labels _SYSTEMD_UNIT", "labels service_name"),
        *("fields unit", "fields systemd_unit"),
    ),
)
_CLOUDWATCH = Form(
    name="cloudwatch",
    keys=(
        _paths("message"),
        _paths("timestamp"),
        _paths("ingestionTime", "eventId", "logStreamName"),
    ),
    message=_paths("message"),
    time=_paths("timestamp"),
    stream=_paths("logStreamName"),
    identity=_paths("eventId"),
)
_ANY = Form(
    name="json-rows",
    keys=(
        _paths("MESSAGE", "message", "log", "msg"),
        _paths("date", "@timestamp", "timestamp", "time", "_SOURCE_REALTIME_TIMESTAMP"),
    ),
    message=_paths("MESSAGE", "message", "log", "msg"),
    time=_paths(
        *("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "time", "timestamp"),
        *("@timestamp", "date"),
    ),
    node=_paths(*_HOSTS, "kubernetes host", "node"),
    program=_paths(*_PROGRAMS, "ident", "appname", "program"),
    unit=_paths(*_UNITS),
    goes_on=(path("logtag"), "P"),
)

INNER = msgspec.structs.replace(_ANY, keys=(_paths("MESSAGE", "message", "log"),))
"""A message that is a row itself: an agent sent all of the journal's fields as one text."""

_ROWS = (
    _JOURNAL,
    Form(
        name="talos",
        keys=(_paths("talos-service"), _paths("msg")),
        message=_paths("msg"),
        time=_paths("talos-time"),
        node=_paths("hostname", "node", "nodename", "host", "ip"),
        program=_paths("talos-service"),
        is_klog=True,
    ),
    Form(
        name="cloud-logging",
        keys=(
            _paths("jsonPayload", "textPayload"),
            _paths("logName", "insertId", "resource"),
            _paths("timestamp", "receiveTimestamp"),
        ),
        message=_paths(
            *("jsonPayload MESSAGE", "jsonPayload message", "jsonPayload log", "textPayload")
        ),
        time=_paths("timestamp", "receiveTimestamp"),
        node=_paths(
            *("resource labels node_name", "jsonPayload _HOSTNAME", "jsonPayload hostname"),
            *("labels compute.googleapis.com/resource_name", "resource labels instance_id"),
        ),
        program=_paths("jsonPayload SYSLOG_IDENTIFIER", "jsonPayload _COMM", "logName"),
        unit=_paths("jsonPayload _SYSTEMD_UNIT"),
        identity=_paths("insertId"),
    ),
    Form(
        name="elastic",
        keys=(
            _paths("message", "MESSAGE", "log", "event original"),
            _paths("@timestamp"),
            _paths("host", "agent", "beat", "systemd", "journald", "syslog", "kubernetes", "ecs"),
        ),
        inside="_source",
        message=_paths("message", "MESSAGE", "event original", "log"),
        time=_paths("@timestamp"),
        node=_paths(
            *("host hostname", "host name", "kubernetes node name", "agent hostname"),
            *("beat hostname", "beat name", "hostname", "_HOSTNAME", "host"),
        ),
        program=_paths(
            *("syslog identifier", "log syslog appname", "journald process name", "process name"),
            *("SYSLOG_IDENTIFIER", "syslog_identifier"),
        ),
        unit=_paths("systemd unit", "journald systemd unit", "_SYSTEMD_UNIT", "systemd_unit"),
        identity=_paths("_id"),
        order=_paths("log offset", "journald sequence"),
    ),
    Form(
        name="otlp",
        keys=(_paths("body"), _paths("timeUnixNano", "observedTimeUnixNano")),
        message=_paths("body stringValue", "body"),
        time=_paths("timeUnixNano", "observedTimeUnixNano"),
        node=_paths(
            *("resource host.name", "resource k8s.node.name", "attributes host.name"),
            *("attributes k8s.node.name", "attributes _HOSTNAME", "attributes hostname"),
        ),
        program=_paths(
            *("attributes SYSLOG_IDENTIFIER", "attributes syslog.identifier"),
            *("attributes appname", "resource service.name"),
        ),
        unit=_paths(
            *("attributes systemd.unit", "attributes _SYSTEMD_UNIT", "resource systemd.unit")
        ),
    ),
    _LOKI,
    _CLOUDWATCH,
    Form(
        name="cloudwatch",
        keys=(_paths("@message"), _paths("@timestamp")),
        message=_paths("@message"),
        time=_paths("@timestamp"),
        stream=_paths("@logStream"),
        identity=_paths("@ptr"),
    ),
    Form(
        name="azure",
        keys=(
            _paths("TimeGenerated"),
            _paths("SyslogMessage", "LogMessage", "LogEntry", "Message", "RawData"),
        ),
        message=_paths("SyslogMessage", "LogMessage", "LogEntry", "Message", "RawData"),
        time=_paths("TimeGenerated"),
        node=_paths("Computer", "HostName"),
        program=_paths("ProcessName", "ContainerName"),
    ),
    Form(
        name="docker",
        keys=(_paths("log"), _paths("stream")),
        message=_paths("log"),
        time=_paths("time"),
        ends_line=True,
    ),
    _ANY,
)
"""In the order in which they are tried; the last one fits what agents send on as it is."""


def _of_stream(labels: Any, row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any JSON value
    if not isinstance(row, list) or len(row) < 2:
        return None
    return {"timestamp": row[0], "line": row[1], "labels": labels or {}}


def _of_table(columns: Any, row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any JSON value
    if not isinstance(columns, list) or not isinstance(row, list):
        return None
    names = [str(at_path(column, ("name",))) for column in columns]
    return dict(zip(names, row, strict=False))


def _of_resource(resource: Any, row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any JSON value
    if not isinstance(row, dict):
        return None
    known = _map(object_of(resource).get("attributes"))
    body = _scalar(row.get("body"))
    body = {"stringValue": body} if isinstance(body, str) else body
    return {**row, "body": body, "attributes": _map(row.get("attributes")), "resource": known}


def _of_fields(shared: Any, row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any JSON value
    if not isinstance(row, list):
        return None
    return {str(at_path(each, ("field",))): at_path(each, ("value",)) for each in row}


def _map(pairs: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """OTLP's list of keys and values as a map."""
    return {str(pair.get("key")): _scalar(pair.get("value")) for pair in objects_of(pairs)}


def _scalar(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """OTLP's value without its type."""
    if not isinstance(value, dict):
        return value
    if "kvlistValue" in value:
        return _map(object_of(value["kvlistValue"]).get("values"))
    return next(iter(value.values()), None)


class Cutter(msgspec.Struct, frozen=True):
    """What cuts a file into rows, and the forms that those may have.

    Attributes:
        name: of the format; empty: the form's.
    """

    rows: Callable[[Iterator[bytes]], Iterator[RawRow]]
    forms: tuple[Form, ...] = _ROWS
    name: str = ""


_HOLDERS = (
    TOP,
    Holder(("events",)),
    Holder(("entries",)),
    Holder(("hits", "hits")),
    Holder(("results",), made=_of_fields),
    Holder(("data", "result", "values"), "stream", 2, _of_stream),
    Holder(("streams", "values"), "stream", 1, _of_stream),
    Holder(("resourceLogs", "scopeLogs", "logRecords"), "resource", 1, _of_resource),
    Holder(("tables", "rows"), "columns", 1, _of_table),
)
_JSON = tuple(Cutter(partial(json_rows, holder=holder)) for holder in _HOLDERS)
_EXPORT = Cutter(export_rows, (_JOURNAL,), "journal-export")
_PRINTED = Cutter(printed_rows, (_LOKI, _CLOUDWATCH))
_VERBOSE = Cutter(verbose_rows, (_JOURNAL,), "journal-verbose")
_CSV = Cutter(
    csv_rows, (msgspec.structs.replace(INNER, name="csv", keys=(_paths("message"),)),), "csv"
)

ROW_FORMATS = tuple(
    sorted({form.name for form in _ROWS} | {each.name for each in (_EXPORT, _VERBOSE, _CSV)})
)
"""Names of the formats."""
LOG_FORMATS = ("klog-text", "klog-json", *ROW_FORMATS)
"""Those of a kubelet's log."""

_TRIED = 50
"""Rows at the beginning of a file by which its form is known."""


class Layout(NamedTuple):
    """How a file is read: what cuts it, and the form of its rows."""

    format: str
    cutter: Cutter
    form: Form


def cutters_of(head: bytes) -> tuple[Cutter, ...]:
    """What may cut the file that begins so into rows; nothing for files of other kinds."""
    text = head.lstrip(b" \t\r\n\0\x1e")
    if text[:1] in (b"{", b"["):
        return () if _OTHERS.match(text) or _KEYS.search(head) is None else _JSON
    if text.startswith(b"__") or _REALTIME in head:
        return (_EXPORT,)
    if VERBOSE_BEGIN.search(head, 0, _FIRST_LINES):
        return (_VERBOSE,)
    if CSV_BEGIN.match(text) and ANY_ENTRY.search(head):
        return (_CSV,)
    return (_PRINTED,) if _TIMED.search(head, 0, _FIRST_LINES) else ()


_KEYS = regex(
    rb'"(?:MESSAGE|message|log|line|msg|body|values|@message|value|textPayload|jsonPayload'
    rb'|SyslogMessage|LogMessage|LogEntry|Message|RawData|columns)"'
)
_OTHERS = regex(
    rb'\{\s*"(?:ts|kind|apiVersion|items|metadata|pods|kubeletconfig|Data|policyName)"'
    rb'|\{\s*"node"\s*:\s*\{'
    rb'|(?:\[\s*)?\{\s*"type"\s*:\s*"(?:ADDED|MODIFIED|DELETED|BOOKMARK)"'
)
"""How klog's own JSON begins, and documents of the API and the kubelet, and what was watched."""
_REALTIME = b"\n__REALTIME_TIMESTAMP="
_TIMED = regex(rb"^\d{4}-\d\d-\d\d[T ]\S+ +(?:\S+ +)?\{", re.MULTILINE)
_FIRST_LINES = 4096


def layout_of(head: bytes, cutters: tuple[Cutter, ...], wanted: str | None = None) -> Layout | None:
    """The layout of the file that begins so; None for none.

    Args:
        wanted: a format, where others do not count.
    """
    found: list[tuple[int, int, Layout]] = []
    for number, cutter in enumerate(cutters):
        for unread, layout in _fitting(head, cutter, wanted):
            if not unread:
                return layout
            found.append((unread, number, layout))
    return min(found, key=lambda each: each[:2])[2] if found else None


def _fitting(head: bytes, cutter: Cutter, wanted: str | None) -> Iterator[tuple[int, Layout]]:
    """The form of the first row that has one, and how many rows before it cannot be read."""
    unread = 0
    for raw in islice(cutter.rows(iter((head,))), _TRIED):
        if raw.value is None:
            unread += 1
            continue
        for form in cutter.forms:
            name = cutter.name or form.name
            if wanted in (None, name) and form.fits(raw.value):
                yield unread, Layout(name, cutter, form)
                return
