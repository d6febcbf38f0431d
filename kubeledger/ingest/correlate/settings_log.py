"""What the log and the files of a bundle say about a kubelet's settings; one process at a time.

Settings belong to a process: each reads its files again when it starts. What it answered at
``/configz`` holds for it and no other. A file of the bundle may be any process's, so it
holds for those that themselves say nothing else; with only one process in the bundle, or
with none that it fits, what it says otherwise is a conflict, and nothing else of it counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from kubeledger.ingest.correlate.assembler import reads, takes
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.settings import (
    SettingsSources,
    Statement,
    effective_settings,
    evidence_of,
)
from kubeledger.ingest.klog.values import unquote_go
from kubeledger.ingest.messages.settings_flags import minor_version
from kubeledger.ingest.messages.settings_text import (
    parse_configuration_json,
    parse_configuration_literal,
    parse_node_config,
    parse_node_config_text,
)
from kubeledger.ingest.sources.items import Fact, KubeletConfigFile, LogLine
from kubeledger.ingest.sources.plain import plain
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.patterns import regex
from kubeledger.replay.node.state import time_in_name

_ROOT_DEFAULTED = "--cgroups-per-qos enabled, but --cgroup-root was not specified.  Defaulting to /"
_REPLACES = {
    _ROOT_DEFAULTED: (),
    "Using cgroup driver setting received from the CRI runtime": ("cgroupDriver",),
    "After cpu setting is overwritten": ("kubeReserved", "systemReserved"),
}
"""Message -> fields that are replaced by the values of these keys."""
_STATE = {
    "Creating topology manager with policy per scope": "the topology manager's start",
    "Initializing Topology Manager with policy": "the container manager's start",
}
_STATED = {
    "topologyManagerPolicy": "topologyPolicyName",
    "topologyManagerScope": "topologyScopeName",
}
_GO_MAP = regex(r"([\w./-]+):(\S+?)(?=[\s\]])")


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

    @takes(KubeletConfigFile)
    def _config_file(self, item: KubeletConfigFile) -> None:
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

    @reads("Kubelet version")
    def _stated_version(self, entry: Entry) -> None:
        """The log's own word, for a bundle that shows no version otherwise."""
        if minor_version(self._version) is None:
            self._version = entry.text("kubeletVersion").removeprefix("v")

    @reads("FLAG")
    def _flag(self, entry: Entry) -> None:
        name, quoted = entry.get("name"), entry.text("value")
        if name is None:
            return
        self._follow(entry.line, name in self._log.flags)
        try:
            text = unquote_go(quoted)
        except ValueError:
            text = quoted
        self._log.flags[name] = Statement(text, entry.evidence)

    @reads("KubeletConfiguration")
    def _dump(self, entry: Entry) -> None:
        fields = entry.values.get("configuration")
        configuration = _configuration(entry.get("literal"), fields)
        if configuration is not None:
            self._follow(entry.line, self._log.dump is not None)
            self._log.dump = Statement(configuration, entry.evidence)

    @reads("Creating Container Manager object based on Node Config")
    def _node_config(self, entry: Entry) -> None:
        """The container manager's ``NodeConfig``; what was collected is emitted."""
        self._follow(entry.line)
        fields = entry.values.get("nodeConfig")
        if isinstance(decoded := _decoded(fields), dict):
            found = parse_node_config(decoded)
        else:
            found = parse_node_config_text(str(fields))
        self._log.node_config = Statement(found, entry.evidence)
        self.close(entry.ts_ns)

    @reads(*_REPLACES)
    def _replaced(self, entry: Entry) -> None:
        self._follow(entry.line)
        fields = {field: entry.values.get(field) for field in _REPLACES[entry.message]}
        if entry.message == _ROOT_DEFAULTED:
            fields = {"cgroupRoot": "/"}
        for field, value in fields.items():
            if value is not None:
                self._log.replaced[field] = Statement(_resource_list(value), entry.evidence)

    @reads(*_STATE)
    def _stated(self, entry: Entry) -> None:
        """A line in which a part of the kubelet says what settings it runs with.

        One that comes after the account was closed corrects it, if it shows anything new.
        """
        goes_on = self._closed and not self._is_other(entry.line)
        if not goes_on:
            self._follow(entry.line)
        for field, key in _STATED.items():
            if value := entry.values.get(key):
                stated = Statement(value, entry.evidence)
                self._log.stated[field, _STATE[entry.message]] = stated
        if goes_on:
            self._closed = False
            self.close(entry.ts_ns)

    @reads("Recording event message for node", "Started kubelet", "Updating node status")
    def _running(self, entry: Entry) -> None:
        self.runs(entry.line)

    def runs(self, line: LogLine) -> None:
        """A kubelet is past its start by this line."""
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
        body = alone = effective_settings(logged)
        of_files: tuple[str, ...] = ()
        if sources.files:
            body = effective_settings(sources)
            of_files = effective_settings(SettingsSources(files=sources.files)).conflicts
        outdated = tuple(
            text for text in body.conflicts if text not in {*alone.conflicts, *of_files}
        )
        if logged.has_any and logged.full is None and not _fits(sources.files, logged):
            body = alone  # A file that is wrong in this may be in anything.
        conflicts = *of_files, *(text for text in alone.conflicts if text not in of_files)
        body = msgspec.structs.replace(body, conflicts=conflicts, outdated=outdated)
        if not body.settings or body == self._emitted:
            return
        self._emitted = body
        disputed = {conflict.partition(":")[0] for conflict in (*body.conflicts, *outdated)}
        stated = [s.evidence for (field, _), s in sources.stated.items() if field in disputed]
        self._queue.add(Fact(ts_ns, body, (*evidence_of(sources), *stated)))

    def _may_answer(self, item: KubeletConfigFile) -> bool:
        """Whether what the log reported so far allows that this process answered so."""
        logged = msgspec.structs.replace(self._log, minor=minor_version(self._version))
        return not logged.has_any or _agrees(logged, Statement(item.config, item.evidence))

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
        fitting = _fitting_files(self._files, logged, begun_ns, is_only=is_only)
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


def _fitting_files(
    files: Sequence[Statement], logged: SettingsSources, begun_ns: int, *, is_only: bool
) -> list[Statement]:
    """The files that a process can have read, in their order.

    Args:
        files: configuration documents, drop-ins among them.
        logged: what the process itself shows.
        begun_ns: when it started, or the log of it begins.
        is_only: no other process is in the bundle, so the files are this one's, whatever
            it says itself. Else a file is another's that contradicts it, and nobody knows
            whose it is when it shows nothing.
    """
    drop_ins = [statement for statement in files if _is_drop_in(statement)]
    bases = _in_force([statement for statement in files if not _is_drop_in(statement)], begun_ns)
    named = [statement for statement in bases if _base_name(statement) == _config_flag(logged)]
    bases = named or bases
    if is_only:
        return [*bases, *drop_ins]
    if not logged.has_any:
        return []
    fitting = [base for base in bases if _fits([base, *drop_ins], logged)]
    if bases:
        return [*fitting, *drop_ins] if fitting else []
    return drop_ins if _fits(drop_ins, logged) else []


def _is_drop_in(statement: Statement) -> bool:
    return statement.evidence.file.endswith(".conf")


def _base_name(statement: Statement) -> str:
    return statement.evidence.file.rpartition("/")[2]


def _config_flag(logged: SettingsSources) -> str | None:
    flag = logged.flags.get("config")
    return None if flag is None else str(flag.value).rpartition("/")[2]


def _in_force(bases: list[Statement], begun_ns: int) -> list[Statement]:
    """Of copies of one file at several times the one that lay there when the process began."""
    chosen: dict[str, tuple[tuple[bool, int], Statement]] = {}
    kept = []
    for statement in bases:
        ts_ns = time_in_name(statement.evidence.file)
        if ts_ns is None:
            kept.append(statement)
            continue
        # The last before it, else the first after it.
        rank = (ts_ns <= begun_ns, ts_ns if ts_ns <= begun_ns else -ts_ns)
        name = _base_name(statement)
        if name not in chosen or rank > chosen[name][0]:
            chosen[name] = (rank, statement)
    return kept + [statement for _, statement in chosen.values()]


def _fits(files: list[Statement], logged: SettingsSources) -> bool:
    """Whether nothing that the process reports about itself says otherwise than the files."""
    if not files and not logged.files:
        return True
    without = effective_settings(logged).conflicts
    with_files = effective_settings(msgspec.structs.replace(logged, files=files)).conflicts
    return {*map(_field, with_files)} <= {*map(_field, without)}


def _agrees(logged: SettingsSources, answer: Statement) -> bool:
    """Whether an answer at ``/configz`` can be that of the process that shows these settings.

    A process answers the same as long as it runs.
    """
    files = [logged.full] if logged.full is not None else []
    rest = msgspec.structs.replace(logged, dump=None, served=None, files=files)
    without = effective_settings(rest).conflicts
    with_answer = effective_settings(msgspec.structs.replace(rest, served=answer)).conflicts
    return {*map(_field, with_answer)} <= {*map(_field, without)}


def _field(conflict: str) -> str:
    return conflict.partition(":")[0]


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
        return plain(json.loads(value), [])
    except ValueError:
        return value


def _resource_list(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """``map[cpu:1 memory:1Gi]``, as Go prints a map, is a JSON object."""
    value = _decoded(value)
    if isinstance(value, str) and value.startswith("map["):
        return dict(_GO_MAP.findall(value[len("map[") :]))
    return value
