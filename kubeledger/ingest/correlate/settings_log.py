"""Collects what the log says about a kubelet's settings; one process at a time.

Not an assembler of its own: ``node`` feeds it and emits what it makes.

Settings belong to a process: each reads its files again when it starts. What it answered at
``/configz`` holds for it and no other. A file of the bundle may be any process's, so it
holds for those that themselves say nothing else; with only one process in the bundle, or
with none that it fits, what it says otherwise is a conflict, and nothing else of it counts.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.settings import (
    SettingsSources,
    Statement,
    effective_settings,
    evidence_of,
)
from kubeledger.ingest.correlate.settings_files import agrees, fits, fitting_files
from kubeledger.ingest.klog.goliteral import unquote_go
from kubeledger.ingest.messages.settings_flags import minor_version
from kubeledger.ingest.messages.settings_text import (
    parse_configuration_json,
    parse_configuration_literal,
    parse_node_config,
    parse_node_config_text,
)
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import KubeletConfigFile, LogLine
from kubeledger.model.bodies.node import SettingsObserved

__all__ = ["SettingsCollector"]

_GO_MAP = re.compile(r"([\w./-]+):(\S+?)(?=[\s\]])")


class SettingsCollector:
    """What is known so far of the kubelet process that writes the log.

    The container manager's ``NodeConfig`` is the last that a starting kubelet says about
    its settings, at every verbosity; it closes a process's account. A log that begins
    later, or a bundle without one, is closed by the next sign of a running kubelet.
    """

    def __init__(self, context: BundleContext, queue: Holdback) -> None:
        self._context = context
        self._queue = queue
        self._version = context.kubelet_version
        self._files: list[Statement] = []
        self._fitted: set[str] = set()
        self._log = SettingsSources()
        self._begun_ns: int | None = None
        self._pid: int | None = None
        self._closed = False
        self._emitted: SettingsObserved | None = None

    def config_file(self, item: KubeletConfigFile) -> None:
        """A configuration document of the bundle.

        One that comes after the account was closed corrects it; another answer at
        ``/configz`` than before is that of a process whose start no log holds.
        """
        statement = Statement(item.config, item.evidence)
        if not item.served:
            self._files.append(statement)
        elif self._knows(item):
            return
        else:
            if self._log.served is not None or not self._may_answer(item):
                self._log = SettingsSources()  # another process, of which this is all
                self._begun_ns, self._pid = item.ts_ns, None
            self._log.served = statement
            self._closed = True
        if self._closed:
            self._closed = False
            self.close(item.ts_ns)

    def version(self, entry: Entry) -> None:
        """The log's own word, for a bundle that shows no version otherwise."""
        if minor_version(self._version) is None:
            self._version = entry.text("kubeletVersion").removeprefix("v")

    def flag(self, entry: Entry) -> None:
        """One ``FLAG:`` line."""
        name, quoted = entry.get("name"), entry.text("value")
        if name is None:
            return
        self._follow(entry.line, name in self._log.flags)
        try:
            text = unquote_go(quoted)
        except ValueError:
            text = quoted
        self._log.flags[name] = Statement(text, entry.evidence)

    def dump(self, entry: Entry) -> None:
        """The dump of the whole configuration: Go's literal, or JSON."""
        fields = entry.values.get("configuration")
        configuration = _configuration(entry.get("literal"), fields)
        if configuration is not None:
            self._follow(entry.line, self._log.dump is not None)
            self._log.dump = Statement(configuration, entry.evidence)

    def node_config(self, entry: Entry) -> None:
        """The container manager's ``NodeConfig``; what was collected is emitted."""
        self._follow(entry.line)
        fields = entry.values.get("nodeConfig")
        if isinstance(decoded := _decoded(fields), dict):
            found = parse_node_config(decoded)
        else:
            found = parse_node_config_text(str(fields))
        self._log.node_config = Statement(found, entry.evidence)
        self.close(entry.ts_ns)

    def replaced(self, entry: Entry, fields: dict[str, Any]) -> None:
        """A line that says that settings were replaced."""
        self._follow(entry.line)
        for field, value in fields.items():
            self._log.replaced[field] = Statement(_resource_list(value), entry.evidence)

    def stated(self, entry: Entry, who: str, fields: dict[str, Any]) -> None:
        """A line in which a part of the kubelet, ``who``, says what settings it runs with.

        One that comes after the account was closed corrects it, if it shows anything new.
        """
        goes_on = self._closed and not self._is_other(entry.line)
        if not goes_on:
            self._follow(entry.line)
        for field, value in fields.items():
            self._log.stated[field, who] = Statement(value, entry.evidence)
        if goes_on:
            self._closed = False
            self.close(entry.ts_ns)

    def running(self, line: LogLine) -> None:
        """A line of a kubelet that is past its start."""
        if self._is_other(line):
            self._follow(line)
        self._pid = line.pid
        if self._begun_ns is None:
            self._begun_ns = line.ts_ns
        self.close(line.ts_ns)

    def close(self, ts_ns: int) -> None:
        """Emit what was collected of this process, if anything, and only once."""
        if self._closed:
            return
        self._closed = True
        if self._log.served is None:
            self._log.served = self._answer(ts_ns)
        logged = msgspec.structs.replace(self._log, minor=minor_version(self._version))
        sources = msgspec.structs.replace(logged, files=self._files_of(logged, ts_ns))
        body = effective_settings(sources)
        if logged.has_any and logged.full is None and not fits(sources.files, logged):
            # A file that is wrong in this may be in anything: it only shows the conflict.
            body = msgspec.structs.replace(effective_settings(logged), conflicts=body.conflicts)
        if not body.settings or body == self._emitted:
            return
        self._emitted = body
        disputed = {conflict.partition(":")[0] for conflict in body.conflicts}
        stated = [s.evidence for (field, _), s in sources.stated.items() if field in disputed]
        self._queue.add(Fact(ts_ns, body, (*evidence_of(sources), *stated)))

    def _may_answer(self, item: KubeletConfigFile) -> bool:
        """Whether what the log reported so far allows that this process answered so."""
        logged = msgspec.structs.replace(self._log, minor=minor_version(self._version))
        return not logged.has_any or agrees(logged, Statement(item.config, item.evidence))

    def _knows(self, item: KubeletConfigFile) -> bool:
        """Whether an answer at ``/configz`` shows nothing new, or will be asked for later."""
        begun_ns = self._begun_ns
        if self._log.dump is not None:
            return True
        if begun_ns is not None and (not self._closed or item.ts_ns < begun_ns):
            return True
        return self._log.served is not None and self._log.served.value == item.config

    def _answer(self, ts_ns: int) -> Statement | None:
        """What this process answered at ``/configz``, before the next one started.

        One that differs from what it reported, beside one that does not or after the log's end, is
        that of a process whose start no log shows; else the sources contradict each other.
        """
        begun_ns = ts_ns if self._begun_ns is None else self._begun_ns
        ends_ns = next((start for start in self._context.starts_ns if start > ts_ns), None)
        until_ns = self._context.logged_until_ns
        answers = [
            item
            for item in self._context.served
            if begun_ns <= item.ts_ns and (ends_ns is None or item.ts_ns < ends_ns)
        ]
        own = next(filter(self._may_answer, answers), None)
        if own is None and answers and (until_ns is None or answers[0].ts_ns <= until_ns):
            own = answers[0]
        return None if own is None else Statement(own.config, own.evidence)

    def _files_of(self, logged: SettingsSources, ts_ns: int) -> list[Statement]:
        """The files that this process can have read."""
        begun_ns = ts_ns if self._begun_ns is None else self._begun_ns
        starts = self._context.starts_ns
        is_only = all(begun_ns <= start <= ts_ns for start in starts) and not self._is_changed
        fitting = fitting_files(self._files, logged, begun_ns, is_only=is_only)
        is_last = not any(start > ts_ns for start in starts) and not self._changes_after(ts_ns)
        if is_last and not fitting and not self._fitted:
            # It fits no process of the bundle: then that is what there is to say.
            return list(self._files) if logged.has_any else []
        self._fitted |= {statement.evidence.file for statement in fitting}
        return fitting

    @property
    def _is_changed(self) -> bool:
        """Whether kubelets answered differently, so that there were several."""
        served = self._context.served
        return any(item.config != served[0].config for item in served)

    def _changes_after(self, ts_ns: int) -> bool:
        """Whether a kubelet answered later, and otherwise than this one."""
        own = self._log.served
        later = [item for item in self._context.served if item.ts_ns > ts_ns]
        return any(own is None or item.config != own.value for item in later)

    def _is_other(self, line: LogLine) -> bool:
        return None not in (line.pid, self._pid) and line.pid != self._pid

    def _follow(self, line: LogLine, again: bool = False) -> None:
        """Begin a new account when a line of a start is another process's.

        Where the log shows no process IDs, that is a line after the end of the start, or
        one that says a thing again.
        """
        new = again or self._closed or self._is_other(line)
        self._pid = line.pid
        if not new:
            if self._begun_ns is None:
                self._begun_ns = line.ts_ns
            return
        if self._has_statements():
            self.close(line.ts_ns)
        self._log = SettingsSources()
        self._begun_ns = line.ts_ns
        self._closed = False
        self._emitted = None

    def _has_statements(self) -> bool:
        log = self._log
        return bool(log.flags or log.dump or log.node_config or log.replaced)


def _configuration(text: str | None, fields: object) -> dict[str, Any] | None:
    """Fields of the dump; None when it is in a notation that cannot be read back."""
    try:
        if text is not None:
            return parse_configuration_literal(text)
        decoded = _decoded(fields)
        return parse_configuration_json(decoded) if isinstance(decoded, dict) else None
    except ValueError:
        return None


def _decoded(value: object) -> object:
    """JSON that a reader left as text."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _resource_list(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """``map[cpu:1 memory:1Gi]``, as Go prints a map, is a JSON object."""
    value = _decoded(value)
    if isinstance(value, str) and value.startswith("map["):
        return dict(_GO_MAP.findall(value[len("map[") :]))
    return value
