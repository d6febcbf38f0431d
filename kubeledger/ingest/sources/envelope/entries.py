"""One row as lines of a journal: time, host, program, and the message behind them."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from kubeledger.ingest.sources.envelope.forms import INNER, Form
from kubeledger.ingest.sources.envelope.rows import (
    BROKEN_MAX,
    RawRow,
    at_path,
    first_bytes,
    first_text,
    first_time,
)
from kubeledger.ingest.sources.journal_entries import JournalEntry, journal_lines
from kubeledger.ingest.sources.prefix import JSON_START, Unwrapper, begins_kubelet, is_entry
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

_KUBELET = regex(r"kubel|kubenswrapper|hyperkube|k3s|k0s|rke2|microk8s|microshift", re.IGNORECASE)
_NAME = regex(r"[\w.@:-]+")
_SERVICE = regex(r"([A-Za-z][\w@]*)\.service$")
_BEFORE_SERVICE = regex(r"(?:[-./](?:dataplane|host|application|systemd|journal|log))*[-./]$")
_OF_KERNEL = regex(rb"oom|[Kk]illed process|emory: usage|^\[ *(?:pid|\d+) *\]|pages RAM", re.I)
_MICROSHIFTS = b"kubelet "
_LOCAL = "localhost"
"""Where a row names no host."""

_JSON = msgspec.json.Decoder(dict[str, Any])


class Entry(NamedTuple):
    """What a row says.

    Attributes:
        ts_ns: its time; None where it tells none.
        host: of the program; ``localhost`` where it names none.
        tag: the program; empty: it is none that matters here.
        message: without the end of its last line; None: the row has none, or cannot be read.
        pid: of the process, as text; empty where it is not known.
        goes_on: the message goes on in the next row of the program.
        order: among rows of one time.
        identity: what no other row has; 0 where rows have nothing of the kind.
        boot, since_boot_us: the machine's boot, and the time since then; empty where either is
            not told.
    """

    ts_ns: int | None
    host: str
    tag: str
    message: bytes | None
    pid: bytes = b""
    goes_on: bool = False
    order: int = 0
    identity: int = 0
    boot: str = ""
    since_boot_us: int = 0


class Entries:
    """Reads the rows of one file, which are all of one form."""

    def __init__(self, form: Form) -> None:
        """No row was read yet."""
        self._form = form
        self._unwrapper = Unwrapper()

    def of(self, row: RawRow) -> Entry:
        form = self._form
        if row.value is None:
            return Entry(None, "", "", row.text.strip() or b"(an empty row)")
        fields = form.fields(row.value)
        message = first_bytes(fields, form.message)
        ts_ns = first_time(fields, form.time)
        host, program = first_text(fields, form.node), first_text(fields, form.program)
        unit = first_text(fields, form.unit)
        if stream := first_text(fields, form.stream):
            host, unit = _of_stream(stream)
        goes_on = form.goes_on is not None and (
            first_text(fields, (form.goes_on[0],)) == form.goes_on[1]
        )
        if form.ends_line and message is not None:
            goes_on = not message.endswith(b"\n")
        if form.is_klog and "caller" in fields and ts_ns is not None:
            message = _klog_json(fields, ts_ns)
        elif message is not None and message.startswith(b"{") and (inner := _inner(message)):
            message = first_bytes(inner, INNER.message)
            host = first_text(inner, INNER.node) or host
            program = first_text(inner, INNER.program) or program
            unit = first_text(inner, INNER.unit) or unit
            ts_ns = first_time(inner, INNER.time) if ts_ns is None else ts_ns
        elif message is None and isinstance(body := fields.get("body"), dict):  # OTLP's map
            message = first_bytes(body, INNER.message)
            host = first_text(body, INNER.node) or host
            program = first_text(body, INNER.program) or program
            unit = first_text(body, INNER.unit) or unit
        identity = first_text(row.value, form.identity)
        order = at_path(fields, form.order[0]) if form.order else 0
        since_boot = first_text(fields, form.since_boot)
        is_timed = since_boot.isdecimal() and len(since_boot) < 16
        return self._named(
            Entry(
                ts_ns,
                host,
                tag_of(program, unit),
                message,
                first_text(fields, form.process).encode("utf-8", "replace"),
                goes_on,
                order if type(order) is int else 0,
                hash(identity) if identity else 0,
                first_text(fields, form.boot) if is_timed else "",
                int(since_boot) if is_timed else 0,
            )
        )

    def _named(self, entry: Entry) -> Entry:
        """The entry, with what stands before its message in the message itself taken off."""
        message, tag, host = entry.message, entry.tag, entry.host
        if message is None:
            return entry._replace(host=_word(host))
        message = message.rstrip(b"\r\n")
        if not is_entry(message):
            inner = self._unwrapper.unwrap(message)
            if inner.wrapped:
                message = inner.body
                tag = tag_of(inner.tag.decode("utf-8", "replace"), "") if inner.tag else tag
                host = inner.host.decode("utf-8", "replace") if inner.host else host
        if tag == "microshift":
            tag = "kubelet" if message.startswith(_MICROSHIFTS) else "other"
            message = message.removeprefix(_MICROSHIFTS)
        if not _matters(tag, message):
            tag = ""
        return entry._replace(message=message, tag=tag, host=_word(host))


def lines_of(entry: Entry, ts_ns: int | None) -> bytes:
    """The entry as ``journalctl -o short-iso-precise`` shows it; without a time, bare.

    Args:
        ts_ns: its time, or that of the row above.
    """
    message = entry.message or b""
    if not entry.host:
        return message[:BROKEN_MAX].replace(b"\n", b" ") + b"\n"
    if ts_ns is None:
        return message + b"\n"
    host, tag = (text.encode("utf-8", "replace") for text in (entry.host, entry.tag))
    return journal_lines(JournalEntry(ts_ns // 1000, host, tag, entry.pid, message))


@lru_cache(1024)
def tag_of(program: str, unit: str) -> str:
    """What a journal would name the program; ``kubelet`` where nothing is named."""
    name = _NAME.search(program.replace("%2F", "/").rpartition("/")[2])
    known = name[0].removesuffix(".service") if name else ""
    if known in ("systemd", "kernel"):
        return known
    if unit and _KUBELET.search(unit):
        return known if _KUBELET.search(known) else "kubelet"
    other = _NAME.search(unit.removesuffix(".service"))
    return known or (other[0] if other else "kubelet")


@lru_cache(1024)
def _word(host: str) -> str:
    """A host as one word."""
    return "_".join(host.split()) or _LOCAL


def _matters(tag: str, message: bytes) -> bool:
    """Whether the message may be the kubelet's, or tell of its end, or of a kill by the kernel."""
    if tag == "systemd":
        return _KUBELET.search(message.decode("utf-8", "replace")) is not None
    if tag == "kernel":
        return _OF_KERNEL.search(message) is not None
    return _is_kubelet(tag) or begins_kubelet(message)


@lru_cache(1024)
def _is_kubelet(tag: str) -> bool:
    return _KUBELET.search(tag) is not None


@lru_cache(1024)
def _of_stream(name: str) -> tuple[str, str]:
    """Host and unit in the name of a stream; empty where it names none."""
    unit = _SERVICE.search(name)
    if unit is None:
        return "", ""
    return _BEFORE_SERVICE.sub("", name[: unit.start()]), unit[0]


def _inner(message: bytes) -> dict[str, Any] | None:
    """The row that a message is; None where it is none."""
    if message.startswith(JSON_START):
        return None
    try:
        inner = _JSON.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return inner if INNER.fits(inner) else None


def _klog_json(fields: dict[str, Any], ts_ns: int) -> bytes:
    """The line that klog wrote, from the row that Talos's sender makes of it.

    It renames the time, and puts an error behind the message (``parseLogLine``).
    """
    micros = (ts_ns + NS_PER_S // 2_000_000) // 1000
    message, err = str(fields.get("msg", "")), ""
    if "v" not in fields and "err" not in fields:
        message, _, err = message.partition(": ")
    parts: dict[str, Any] = {"caller": fields["caller"], "msg": message}
    if "v" in fields:
        parts["v"] = fields["v"]
    parts |= {
        key: value
        for key, value in fields.items()
        if key not in parts and not key.startswith("talos-")
    }
    if err:
        parts["err"] = err
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False)[1:]
    stamp = b'{"ts":%d.%03d,' % divmod(micros, 1000)
    return stamp + text.encode("utf-8", "replace")
