"""A kubelet's log as the log stores give it: each form made of plain lines, always the same way."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

_STAMP = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ")
_LABELS = {"unit": "kubelet.service", "job": "systemd-journal"}


class Line(NamedTuple):
    """One line of a log on its way into a store.

    Attributes:
        ts_ns: when it arrived; each a microsecond at least after the one above.
        host: whose it is; ``unit`` which program's.
    """

    ts_ns: int
    host: str
    unit: str
    text: str


def lines_of(log: str, host: str, unit: str = "kubelet", year: int = 2026) -> list[Line]:
    found: list[Line] = []
    ts_ns = 0
    for text in log.removesuffix("\n").split("\n"):
        match = _STAMP.match(text)
        stamp_ns = 0
        if match is not None:
            month, day, hour, minute, second, micro = map(int, match.groups())
            at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            stamp_ns = (int(at.timestamp()) * 10**6 + micro) * 1000
        ts_ns = max(ts_ns + 1000, stamp_ns)
        found.append(Line(ts_ns, host, unit, text))
    return found


def in_time_order(*logs: Iterable[Line], newest_first: bool = False) -> list[Line]:
    """The lines of several logs as a store gives them."""
    every = [line for log in logs for line in log]
    return sorted(every, key=lambda line: line.ts_ns, reverse=newest_first)


def _rfc3339(ts_ns: int, digits: int = 9) -> str:
    second = datetime.fromtimestamp(ts_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{ts_ns % 10**9:09d}"[: 20 + digits] + "Z"


def _rows(rows: Iterable[Any], end: str = "\n", begin: str = "") -> bytes:
    return "".join(f"{begin}{json.dumps(row)}{end}" for row in rows).encode()


# -- the journal ---------------------------------------------------------------------------


def _since_boot_us(line: Line) -> int:
    return line.ts_ns // 1000 % 10**12


def _journal_fields(number: int, line: Line) -> dict[str, str]:
    return {
        "__CURSOR": f"s=1;i={number:x}",
        "__REALTIME_TIMESTAMP": str(line.ts_ns // 1000),
        "__MONOTONIC_TIMESTAMP": str(_since_boot_us(line)),
        "_BOOT_ID": f"{2:032x}",
        "_HOSTNAME": line.host,
        "_SYSTEMD_UNIT": f"{line.unit}.service",
        "SYSLOG_IDENTIFIER": line.unit,
        "_PID": "4052",
        "MESSAGE": line.text,
    }


def _journal(lines: Sequence[Line]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [_journal_fields(*each) for each in enumerate(lines)]
    for row in rows[::7]:
        row["MESSAGE"] = list(row["MESSAGE"].encode())
    return rows


def journal_json(lines: Sequence[Line]) -> bytes:
    """``journalctl -o json``; some messages are lists of bytes."""
    return _rows(_journal(lines))


def journal_pretty(lines: Sequence[Line]) -> bytes:
    """``journalctl -o json-pretty``."""
    return "".join(json.dumps(row, indent="\t") + "\n" for row in _journal(lines)).encode()


def journal_seq(lines: Sequence[Line]) -> bytes:
    """``journalctl -o json-seq``."""
    return _rows(_journal(lines), begin="\x1e")


def journal_export(lines: Sequence[Line]) -> bytes:
    """``journalctl -o export``; every fifth message stands behind its length."""
    out = bytearray()
    for number, line in enumerate(lines):
        for key, value in _journal_fields(number, line).items():
            data = value.encode()
            if key == "MESSAGE" and number % 5 == 0:
                out += key.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"
            else:
                out += key.encode() + b"=" + data + b"\n"
        out += b"\n"
    return bytes(out)


def journal_verbose(lines: Sequence[Line]) -> bytes:
    """``journalctl -o verbose``, of a machine in UTC: its time goes down to the microsecond."""
    out = []
    for number, line in enumerate(lines):
        stamp = _rfc3339(line.ts_ns, 6)[:-1].replace("T", " ")
        out.append(f"Sat {stamp} UTC [s=1;i={number:x};b=2;m={_since_boot_us(line):x};t=4;x=5]\n")
        for key, value in _journal_fields(number, line).items():
            if not key.startswith("__"):
                value = value.replace("\n", "\n            ")
                out.append(f"    {key}={value}\n")
    return "".join(out).encode()


# -- tables --------------------------------------------------------------------------------


def _table(lines: Sequence[Line], *header: str) -> bytes:
    out = io.StringIO()
    table = csv.writer(out, quoting=csv.QUOTE_ALL)
    table.writerows([header] if header else [])
    for line in lines:
        table.writerow((_rfc3339(line.ts_ns), line.host, f"{line.unit}.service", line.text))
    return out.getvalue().encode()


def grafana_csv(lines: Sequence[Line]) -> bytes:
    return _table(lines, "Time", "node", "unit", "Line")


def bare_csv(lines: Sequence[Line]) -> bytes:
    """A table without a header."""
    return _table(lines)


# -- Cloud Logging -------------------------------------------------------------------------


def _entry(number: int, line: Line) -> dict[str, Any]:
    entry = {
        "insertId": f"{number:08x}",
        "logName": f"projects/p/logs/{line.unit}",
        "resource": {"labels": {"node_name": line.host}, "type": "k8s_node"},
        "timestamp": _rfc3339(line.ts_ns),
    }
    if number % 3 == 0:
        return {**entry, "textPayload": line.text}
    if number % 3 == 1:
        return {**entry, "jsonPayload": {"message": line.text}}
    payload = {"MESSAGE": line.text, "SYSLOG_IDENTIFIER": f"({line.unit})"}
    return {**entry, "jsonPayload": payload}


def cloud_logging(lines: Sequence[Line]) -> bytes:
    """``gcloud logging read --format=json``: an array."""
    return json.dumps([_entry(*each) for each in enumerate(lines)], indent=2).encode()


def cloud_logging_lines(lines: Sequence[Line]) -> bytes:
    return _rows(_entry(*each) for each in enumerate(lines))


# -- CloudWatch ----------------------------------------------------------------------------


def _cloudwatch_message(line: Line) -> str:
    row = {"hostname": line.host, "systemd_unit": f"{line.unit}.service", "message": line.text}
    return json.dumps(row)


def cloudwatch_filter(lines: Sequence[Line]) -> bytes:
    """``aws logs filter-log-events``."""
    events = [
        {
            "logStreamName": f"{line.host}-dataplane.systemd.{line.unit}.service",
            "timestamp": line.ts_ns // 10**6,
            "message": _cloudwatch_message(line) if number % 2 else line.text,
            "ingestionTime": line.ts_ns // 10**6 + 900,
            "eventId": f"{number:056d}",
        }
        for number, line in enumerate(lines)
    ]
    return json.dumps({"events": events, "searchedLogStreams": []}, indent=4).encode()


def cloudwatch_get(lines: Sequence[Line]) -> bytes:
    """``aws logs get-log-events``: what the stream is called is not told."""
    events = [
        {
            "timestamp": line.ts_ns // 10**6,
            "message": _cloudwatch_message(line),
            "ingestionTime": line.ts_ns // 10**6 + number,
        }
        for number, line in enumerate(lines)
    ]
    return json.dumps({"nextForwardToken": "f/1", "events": events}).encode()


def cloudwatch_insights(lines: Sequence[Line]) -> bytes:
    """``aws logs get-query-results``."""
    results = [
        [
            {"field": "@timestamp", "value": _rfc3339(line.ts_ns, 3)[:-1].replace("T", " ")},
            {"field": "@message", "value": _cloudwatch_message(line)},
            {"field": "@ptr", "value": f"{number}"},
        ]
        for number, line in enumerate(lines)
    ]
    return json.dumps({"results": results, "status": "Complete"}).encode()


def cloudwatch_tail(lines: Sequence[Line]) -> bytes:
    """``aws logs tail``: times to the microsecond, the name of the stream, the message."""
    rows = [
        f"{_rfc3339(line.ts_ns, 6)[:-1]}+00:00 {line.host}-dataplane.systemd.{line.unit}.service "
        f"{_cloudwatch_message(line)}\n"
        for line in lines
    ]
    return "".join(rows).encode()


def cloudwatch_export(lines: Sequence[Line]) -> bytes:
    """What ``aws logs create-export-task`` writes to S3."""
    rows = (f"{_rfc3339(line.ts_ns, 3)} {_cloudwatch_message(line)}\n" for line in lines)
    return "".join(rows).encode()


# -- Loki ----------------------------------------------------------------------------------


def _labels(line: Line) -> dict[str, str]:
    return {**_LABELS, "unit": f"{line.unit}.service", "node_name": line.host}


def loki_text(lines: Sequence[Line]) -> bytes:
    """``logcli query``."""
    rows = []
    for line in lines:
        labels = ", ".join(f'{key}="{value}"' for key, value in _labels(line).items())
        rows.append(f"{_rfc3339(line.ts_ns)} {{{labels}}} {line.text}\n")
    return "".join(rows).encode()


def loki_json(lines: Sequence[Line]) -> bytes:
    """``logcli query -o jsonl``."""
    return _rows(
        {"labels": _labels(line), "line": line.text, "timestamp": _rfc3339(line.ts_ns)}
        for line in lines
    )


def loki_api(lines: Sequence[Line]) -> bytes:
    """An answer of ``/loki/api/v1/query_range``."""
    streams: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        streams.setdefault((line.host, line.unit), []).append(line)
    result = [
        {"stream": _labels(group[0]), "values": [[str(line.ts_ns), line.text] for line in group]}
        for group in streams.values()
    ]
    return json.dumps({"status": "success", "data": {"result": result}}).encode()


# -- Elastic, OpenTelemetry ----------------------------------------------------------------


def _document(line: Line) -> dict[str, Any]:
    return {
        "@timestamp": _rfc3339(line.ts_ns, 3),
        "host": {"hostname": line.host},
        "systemd": {"unit": f"{line.unit}.service"},
        "log": {"offset": line.ts_ns // 1000},
        "message": line.text,
    }


def elastic_hits(lines: Sequence[Line]) -> bytes:
    """An answer of Elasticsearch's ``_search``; times are told to the millisecond."""
    hits = [
        {"_index": "journal", "_id": f"{number}", "_source": _document(line)}
        for number, line in enumerate(lines)
    ]
    return json.dumps({"took": 1, "hits": {"total": {"value": 9}, "hits": hits}}).encode()


def elastic_lines(lines: Sequence[Line]) -> bytes:
    """What Filebeat writes to a file, keys with dots in them."""
    rows = []
    for row in map(_document, lines):
        rows.append(row | {"systemd.unit": row.pop("systemd")["unit"]})
    return _rows(rows)


def _attributes(**values: str) -> list[dict[str, Any]]:
    return [
        {"key": key.replace("__", "."), "value": {"stringValue": value}}
        for key, value in values.items()
    ]


def otlp(lines: Sequence[Line]) -> bytes:
    """OTLP as its file exporter writes it: batches, a line each."""
    batches = []
    for at in range(0, len(lines), 100):
        hosts: dict[str, list[dict[str, Any]]] = {}
        for line in lines[at : at + 100]:
            record = {
                "timeUnixNano": str(line.ts_ns),
                "body": {"stringValue": line.text},
                "attributes": _attributes(systemd__unit=f"{line.unit}.service"),
            }
            hosts.setdefault(line.host, []).append(record)
        groups = [
            {
                "resource": {"attributes": _attributes(host__name=host)},
                "scopeLogs": [{"scope": {}, "logRecords": records}],
            }
            for host, records in hosts.items()
        ]
        batches.append({"resourceLogs": groups})
    return _rows(batches)


# -- agents --------------------------------------------------------------------------------


def docker(lines: Sequence[Line]) -> bytes:
    """Docker's json-file; long lines go on in the next row."""
    rows = []
    for line in lines:
        text, time = f"{line.text}\n", _rfc3339(line.ts_ns)
        pieces = [text[at : at + 120] for at in range(0, len(text), 120)]
        rows += [{"log": piece, "stream": "stderr", "time": time} for piece in pieces]
    return _rows(rows)


def fluent_bit(lines: Sequence[Line]) -> bytes:
    """Rows of Fluent Bit's systemd input."""
    return _rows(
        {
            "date": line.ts_ns / 10**9,
            "_SOURCE_REALTIME_TIMESTAMP": str(line.ts_ns // 1000),
            "_HOSTNAME": line.host,
            "_SYSTEMD_UNIT": f"{line.unit}.service",
            "MESSAGE": line.text,
        }
        for line in lines
    )


def azure(lines: Sequence[Line]) -> bytes:
    """An answer of Log Analytics' query API."""
    names = ("TimeGenerated", "Computer", "ProcessName", "SyslogMessage")
    rows = [[_rfc3339(line.ts_ns, 7), line.host, line.unit, line.text] for line in lines]
    table = {"name": "PrimaryResult", "columns": [{"name": name} for name in names], "rows": rows}
    return json.dumps({"tables": [table]}).encode()


# -- rows in rows --------------------------------------------------------------------------


def loki_of_journal(lines: Sequence[Line]) -> bytes:
    """Promtail with ``json: true``: a line is a journal's entry as JSON."""
    return _rows(
        {
            "labels": {"job": "systemd-journal"},
            "line": json.dumps(_journal_fields(number, line)),
            "timestamp": str(line.ts_ns),
        }
        for number, line in enumerate(lines)
    )


def loki_push(lines: Sequence[Line]) -> bytes:
    streams: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        streams.setdefault((line.host, line.unit), []).append(line)
    found = [
        {"values": [[str(line.ts_ns), line.text] for line in group], "stream": _labels(group[0])}
        for group in streams.values()
    ]
    return json.dumps({"streams": found}).encode()


def otlp_journald(lines: Sequence[Line]) -> bytes:
    """The collector's journald receiver: a body is a map of the journal's fields."""
    records = []
    for number, line in enumerate(lines):
        values = _attributes(**_journal_fields(number, line))
        body = {"kvlistValue": {"values": values}}
        records.append({"observedTimeUnixNano": str(line.ts_ns), "timeUnixNano": "0", "body": body})
    group = {"resource": {}, "scopeLogs": [{"logRecords": records}]}
    return json.dumps({"resourceLogs": [group]}).encode()


def filebeat_syslog(lines: Sequence[Line]) -> bytes:
    """Filebeat on ``/var/log/syslog``: a message is a line of syslog."""
    rows = []
    for line in lines:
        stamp = _rfc3339(line.ts_ns, 6)
        message = f"{stamp} {line.host} {line.unit}[4052]: {line.text}"
        rows.append({"@timestamp": stamp, "message": message, "ecs": {"version": "8.0"}})
    return _rows(rows)


def cloud_logging_api(lines: Sequence[Line]) -> bytes:
    """Two answers of ``entries:list``, one after the other."""
    rows = [_entry(*each) for each in enumerate(lines)]
    middle = len(rows) // 2
    pages = ({"entries": rows[:middle], "nextPageToken": "x"}, {"entries": rows[middle:]})
    return b"\n".join(json.dumps(page, indent=1).encode() for page in pages)


def talos(lines: Sequence[Line]) -> bytes:
    """``json_lines`` of Talos' ``machine.logging``, of a kubelet that writes klog's JSON."""
    rows = []
    for line in lines:
        row = json.loads(line.text)
        row["talos-time"] = _rfc3339(round(row.pop("ts") * 1000) * 1000 + 40)
        row["talos-level"] = "info"
        if "err" in row:
            row["msg"] = f"{row['msg']}: {row.pop('err')}"
            row["talos-level"] = "warn"
        rows.append({**row, "talos-service": line.unit})
    return _rows(dict(sorted(row.items())) for row in rows)


Wrapper = Callable[[Sequence[Line]], bytes]

FORMS: dict[str, tuple[str, Wrapper]] = {
    "journal.json": ("journal-json", journal_json),
    "journal-pretty.json": ("journal-json", journal_pretty),
    "journal-seq.json": ("journal-json", journal_seq),
    "journal.export": ("journal-export", journal_export),
    "journal.verbose": ("journal-verbose", journal_verbose),
    "grafana.csv": ("csv", grafana_csv),
    "bare.csv": ("csv", bare_csv),
    "cloud-logging.json": ("cloud-logging", cloud_logging),
    "cloud-logging.jsonl": ("cloud-logging", cloud_logging_lines),
    "filter-log-events.json": ("cloudwatch", cloudwatch_filter),
    "get-log-events.json": ("cloudwatch", cloudwatch_get),
    "insights.json": ("cloudwatch", cloudwatch_insights),
    "logcli.txt": ("loki", loki_text),
    "logcli.jsonl": ("loki", loki_json),
    "loki.json": ("loki", loki_api),
    "search.json": ("elastic", elastic_hits),
    "filebeat.ndjson": ("elastic", elastic_lines),
    "otlp.json": ("otlp", otlp),
    "docker.log": ("docker", docker),
    "fluent-bit.json": ("json-rows", fluent_bit),
    "log-analytics.json": ("azure", azure),
    "aws-tail.txt": ("cloudwatch", cloudwatch_tail),
    "aws-export.txt": ("cloudwatch", cloudwatch_export),
}
"""File -> the format it is read as, and what makes it."""

NESTED: dict[str, tuple[str, Wrapper]] = {
    "promtail.jsonl": ("loki", loki_of_journal),
    "push.json": ("loki", loki_push),
    "otel.json": ("otlp", otlp_journald),
    "syslog.ndjson": ("elastic", filebeat_syslog),
    "entries.json": ("cloud-logging", cloud_logging_api),
}
"""The same of rows in rows."""
