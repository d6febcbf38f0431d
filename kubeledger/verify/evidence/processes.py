"""The kubelet processes of a node, and the settings of each.

Settings are reported once by each process (its flags, its configuration, what it answers at
``/configz``) and hold from its start to its end. What a snapshot shows that was taken before the
log begins is
of a process that the log may not show at all: it does not count for the one that it shows,
unless every process that shows it shows the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import time_in_name
from kubeledger.verify.evidence.coverage import SILENCE_NS, Coverage

_ALIKE_MIN: Final = 2
"""So many accounts that agree hold for a process that gives none."""
_RIGHT_BEFORE_NS: Final = NS_PER_S
"""An account that the log gives may stand right before the record of the start."""


class Process(msgspec.Struct):
    """One kubelet process.

    Attributes:
        pid: None when the form of the log has none.
        version: ``1.36.2``; None when nothing says.
        started_ns: when its log begins.
        from_start: its log begins at its start; else it ran before ``started_ns``, too.
        ended_ns: when the next process started, at the latest; None for the last one.
        settings: by KubeletConfiguration field (or ``--flag``), values as parsed from JSON.
        settings_seq: record that shows them; None when none does.
        disputed: settings on which sources differ.
        of_files: settings that only a file, or a snapshot after the log, shows: of another time.
    """

    number: int
    pid: int | None
    version: str | None
    seq: int
    started_ns: int
    from_start: bool
    ended_ns: int | None = None
    settings: Mapping[str, Any] = {}
    settings_seq: int | None = None
    disputed: frozenset[str] = frozenset()
    of_files: frozenset[str] = frozenset()

    def has_begun(self, record: Record) -> bool:
        """Whether its log begins before a record, or with it, in the order of replay."""
        return record.ts_ns >= self.started_ns and record.seq >= self.seq

    @property
    def known_from_ns(self) -> int:
        """From when on it can have run: 0 where its start is not in the log."""
        return self.started_ns if self.from_start else 0

    @property
    def counts_while_terminating(self) -> bool | None:
        """Whether a pod counts until its containers are down; None where no version is known."""
        with suppress(BadQuestionError):
            if self.version is not None:
                return resolve(self.version).admission.terminating_pods_count
        return None


class _Account(msgspec.Struct, frozen=True):
    """What was shown of settings, once.

    Attributes:
        taken_ns: when the last of the snapshots was taken that alone show it; None where a line
            of the log, or a file of no certain time, does.
    """

    ts_ns: int
    seq: int
    body: SettingsObserved
    taken_ns: int | None


class Processes:
    """All kubelet processes of one node, from the first reading.

    Attributes:
        all: in order of their starts.
        of_none: records of settings of which it is not known whose they are.
    """

    KINDS: tuple[type[Body], ...] = (KubeletStarted, SettingsObserved)

    def __init__(self) -> None:
        self.all: list[Process] = []
        self._starts: list[int] = []
        self._noted: list[tuple[int, int, KubeletStarted]] = []
        self._accounts: list[_Account] = []
        self.of_none: set[int] = set()

    def note(self, record: Record) -> None:
        match record.body:
            case KubeletStarted() as body:
                self._noted.append((record.ts_ns, record.seq, body))
            case SettingsObserved() as body:
                self._accounts.append(_Account(record.ts_ns, record.seq, body, _taken_ns(record)))

    def settle(self, coverage: Coverage) -> None:
        self.all, self.of_none = [], set()
        self._noted.sort(key=lambda start: start[:2])
        for ts_ns, seq, body in self._noted:
            last = self.all[-1] if self.all else None
            if last is not None and is_same_process(last.pid, body):
                last.version = last.version or body.kubelet_version
                continue
            if last is not None:
                last.ended_ns = ts_ns
            number, version = len(self.all), body.kubelet_version
            self.all.append(Process(number, body.pid, version, seq, ts_ns, body.from_start))
        self._accounts.sort(key=lambda account: (account.ts_ns, account.seq))
        if not self.all and self._accounts:
            # No line shows the process that these are of.
            self.all.append(Process(0, None, None, 0, self._accounts[0].ts_ns, from_start=False))
        self._starts = [process.started_ns for process in self.all]
        self._give_settings(coverage)

    def at(self, ts_ns: int) -> Process | None:
        """The process that runs at a time, or ran last; the first one before its start.

        None when no record shows a process.
        """
        if not self.all:
            return None
        return self.all[max(bisect_right(self._starts, ts_ns) - 1, 0)]

    def known(self, process: Process) -> Process:
        return next((each for each in self.all if is_one(each, process)), process)

    def next_ns(self, process: Process | None) -> int | None:
        """When the process after another one starts, the first after None; None without one."""
        number = 0 if process is None else process.number + 1
        return self._starts[number] if number < len(self._starts) else None

    # Settings ----------------------------------------------------------------------------

    def _give_settings(self, coverage: Coverage) -> None:
        own: dict[int, _Account] = {}
        for account in self._accounts:
            process = self._reported_by(account, coverage)
            if process is None:
                self.of_none.add(account.seq)
                continue
            known = own.get(process.number)
            if known and process is self.all[-1] and 0 < coverage.last_line_ns < account.ts_ns:
                if known.body.settings == account.body.settings:
                    continue
                process = self._other(process, account)
            own[process.number] = account  # a later one corrects it
        settings: dict[str, Setting] = {}
        decoded: Mapping[str, Any] = {}
        for process in self.all:
            found = own.get(process.number)
            if found is not None:
                conflicts = found.body.conflicts
                if found.body.settings != settings:
                    settings = found.body.settings
                    decoded = {name: setting.decoded() for name, setting in settings.items()}
                process.settings = decoded
                process.settings_seq = found.seq
                process.disputed = frozenset(text.partition(":")[0] for text in conflicts)
                is_later = 0 < coverage.last_line_ns < found.ts_ns - SILENCE_NS
                files = (n for n, s in settings.items() if is_later or s.source == "file")
                process.of_files = frozenset(files)
            else:
                process.settings, process.settings_seq = self._alike(process)

    def _other(self, process: Process, account: _Account) -> Process:
        """The process of settings that differ, reported after the end of the log: another one."""
        process.ended_ns = account.ts_ns
        number, version = process.number + 1, process.version
        other = Process(number, None, version, account.seq, account.ts_ns, from_start=False)
        self.all.append(other)
        self._starts.append(account.ts_ns)
        return other

    def _reported_by(self, account: _Account, coverage: Coverage) -> Process | None:
        """The process that an account is of; None when that is not certain."""
        index = bisect_right(self._starts, account.ts_ns + _RIGHT_BEFORE_NS) - 1
        process, taken_ns = self.all[max(index, 0)], account.taken_ns
        if index < 0 and taken_ns is not None:
            return None
        if taken_ns is None:
            return process
        early_ns = _RIGHT_BEFORE_NS if process.from_start else 0
        if taken_ns + early_ns < process.started_ns:
            return None  # the log does not say which process ran then
        hole = coverage.hole(taken_ns, taken_ns)
        if hole is not None and process.ended_ns is not None and process.ended_ns <= hole[1]:
            return None  # nor in a hole after which another process runs
        return process

    def _alike(self, process: Process) -> tuple[Mapping[str, Any], int | None]:
        """What all accounts show alike, for a process that gives none itself."""
        # What several records show from the same snapshot is reported once.
        apart = {a.seq if a.taken_ns is None else -a.taken_ns: a for a in self._accounts}
        if len(apart) < _ALIKE_MIN:
            return {}, None
        first, *others = self._accounts
        settings = [other.body.settings for other in others]
        alike = {
            name: setting.decoded()
            for name, setting in first.body.settings.items()
            if all(name in own and own[name].value == setting.value for own in settings)
        }
        before = [a.seq for a in self._accounts if a.ts_ns <= process.started_ns]
        return alike, before[-1] if before else first.seq


def is_one(process: Process | None, other: Process | None) -> bool:
    """Whether they are the same process, as it was known at two times."""
    return (process and process.seq) == (other and other.seq)


def is_same_process(pid: int | None, body: KubeletStarted) -> bool:
    """Whether a start is only that of another piece of the log of the process with that PID."""
    return body.pid is not None and body.pid == pid and not body.from_start


def _taken_ns(record: Record) -> int | None:
    """When the snapshots were taken on which alone a record rests; None without such."""
    if any(piece.line is not None for piece in record.evidence):
        return None
    times = [time_in_name(piece.file) for piece in record.evidence]
    return max((ts_ns for ts_ns in times if ts_ns is not None), default=None)
