"""How a node fared: its kubelet's processes and their ends, pressure, shutdowns, its clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.histories.logs import LoggedProcess, LogReading
from kubeledger.analyze.sql.shorten import cut_clause
from kubeledger.analyze.why.explanation import Answer, StoryStep
from kubeledger.analyze.why.headline import counted_steps
from kubeledger.analyze.why.pieces import (
    HEADLINE_MAX,
    cited,
    ended,
    evidence_of,
    in_time,
    seconds,
    step_of,
    time,
    times,
    words_of,
)
from kubeledger.analyze.why.target import Target
from kubeledger.kubelet.cgroups.paths import is_of_pods
from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodTerminating
from kubeledger.model.bodies.node import ClockStepped, KubeletExited, KubeletStarted, LogThinned
from kubeledger.model.bodies.oom import ProcessKilled
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts

__all__ = ["explain_node"]

_STEPS_MAX = 200
_PROCESSES_MAX = 5
_WORDLESS_WEIGHT = 3
"""As a start's: less than an end that is recorded."""
_WORDLESS = "it was killed or told to stop, or the log is cut"
_EVENTS = frozenset({"KubeletSetupFailed", "NodeNotReady", "NodeReady", "Rebooted", "SystemOOM"})
_ENDS = {
    "error": "gave up",
    "fatal": "gave up",
    "panic": "crashed",
    "signal": "was killed",
    "stopped": "was told to stop",
}


class _Process(msgspec.Struct):
    """A kubelet process.

    Attributes:
        logged: as its log shows it; its end alone where the log does not hold the start.
        end: the record of its end.
        shut_down: pods that it stopped because the node shut down.
    """

    logged: LoggedProcess
    end: Record | None = None
    shut_down: list[Record] = []

    @property
    def first(self) -> Record:
        return self.logged.first

    @property
    def start(self) -> KubeletStarted | None:
        return self.logged.start

    @property
    def pid(self) -> int | None:
        body = self.first.body
        return body.pid if isinstance(body, KubeletStarted | KubeletExited) else None

    @property
    def died(self) -> bool:
        """Whether it ended though nobody had asked for it."""
        return self.end is not None and getattr(self.end.body, "reason", None) != "stopped"

    @property
    def begun(self) -> str:
        """How its beginning is described, before the time of its first record."""
        if self.start is None or self.start.from_start:
            return "started at"
        if self.start.restart:
            return "is first seen at"
        return "was running before the log begins, first seen at"


def explain_node(history: History, target: Target, *, upto_ts_ns: int | None) -> Answer | None:
    """How the node fared: the newest process first, then what else happened to the node.

    Args:
        history: the records of a node.
        target: any node, or one by its name.
        upto_ts_ns: as of this time; None: as of the last record.

    Returns:
        None for another node's records, and where none is about a kubelet or the node.
    """
    if target.parts and target.parts[0] != history.node:
        return None
    processes: list[_Process] = []
    about: list[Record] = []
    log = LogReading()
    for record in history.read(None):
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        if log.entry(record).begins:
            processes.append(_Process(log.processes[-1]))
        if _is_of_node(record):
            about.append(record)
            _note_end(processes, record)
    if not about:
        return None
    causes = {r.cause for r in about if isinstance(r.body, KubeletStarted | KubeletExited)}
    causes = causes - {None} - {r.seq for r in about}
    because = {record.seq: record for record in history.pick([c for c in causes if c])}
    rest = [*_of_pressure(about), *_of_others(about)]
    sentence = f"node {history.node}: {'; '.join([*_of_processes(processes, because), *rest])}"
    wordless = _wordless(processes)
    steps = [r for r in (*about, *because.values()) if not _is_first_seen(r)]
    last = (process.logged.last for process in wordless)
    by_seq = {record.seq: record for record in (*about, *because.values(), *last)}
    records = sorted(by_seq.values(), key=in_time)
    evidence = evidence_of(records[-_STEPS_MAX:], target)
    all_steps = [*counted_steps(target, steps), *map(_last_heard, wordless)]
    return Answer(
        target=str(target),
        node=history.node,
        headline=_headline(history.node, processes, because, rest),
        steps=cited(sorted(all_steps, key=lambda step: (step.ts_ns, step.seq)), evidence),
        sentence=f"{sentence}.",
        evidence=evidence,
        history=tuple(map(step_of, records[-_STEPS_MAX:])),
    )


def _headline(
    node: str, processes: list[_Process], because: dict[int, Record], rest: list[str]
) -> str:
    """The newest process and all that died first, then what else there is room for."""
    died = [process for process in processes if process.died]
    first, *others = map(seconds, [*_of_processes(processes, because), *rest])
    room = HEADLINE_MAX - len(f"node {node}: .")
    if not died or died == processes[-1:]:
        chosen = [cut_clause(first, room)]
    else:
        newest = _newest(processes[-1])
        chosen = [newest, _of_deaths(died, room - len(newest) - 2)]
        others = list(map(seconds, [*_of_shutdowns(processes), *rest]))
    # A process that is known to have failed says more than one that left no word.
    for more in sorted(others, key=lambda clause: "left no word" in clause):
        if sum(len(each) + 2 for each in chosen) + len(more) <= room:
            chosen.append(more)
    return ended(f"node {node}: {'; '.join(chosen)}")


def _newest(process: _Process) -> str:
    """The newest process, shortly; a death comes with the others."""
    name, at = _name(process), time(process.first.ts_ns)
    if process.end is not None:
        word = "died" if process.died else "was told to stop"
        return f"{name}, the last one, {word} at {time(process.end.ts_ns)}"
    return f"{name}, the last one, {process.begun.rpartition(', ')[2]} {at}"


def _of_deaths(died: list[_Process], length: int) -> str:
    """How often the kubelet died, when, and what it said at last, cut to the length."""
    ends = [process.end for process in died if process.end is not None]
    who = "the kubelet" if len(ends) > 1 or died[0].pid is None else f"process {died[0].pid}"
    why = getattr(ends[-1].body, "message", None) or "killed by the kernel's OOM killer"
    already = f"{who} died {times(ends[0].ts_ns, ends[-1].ts_ns, len(ends))}: "
    return already + cut_clause(why, length - len(already))


def _is_of_node(record: Record) -> bool:
    body = record.body
    if isinstance(body, PodTerminating):
        return body.reason == "shutdown"
    if isinstance(body, ProcessKilled):
        return body.process == "kubelet" or body.reason == "node" or is_of_pods(body.cgroup)
    if isinstance(body, KubernetesEvent):
        return body.object_kind == "Node" and body.reason in _EVENTS
    kinds = (ClockStepped, KubeletExited, KubeletStarted, LogThinned, NodeConditionsChanged)
    return isinstance(body, kinds)


def _note_end(processes: list[_Process], record: Record) -> None:
    """Note the newest process's end, or one of which only its end is recorded."""
    body = record.body
    if isinstance(body, KubeletExited):
        if not any(each.start and each.pid == body.pid for each in processes):
            processes.append(_Process(LoggedProcess(record, record), record))
        elif processes[-1].pid == body.pid:
            processes[-1].end = processes[-1].end or record
    elif isinstance(body, ProcessKilled) and body.process == "kubelet" and processes:
        processes[-1].end = processes[-1].end or record
    elif isinstance(body, PodTerminating) and processes:
        processes[-1].shut_down.append(record)


def _of_processes(processes: list[_Process], because: dict[int, Record]) -> Iterator[str]:
    for process in processes[: -_PROCESSES_MAX - 1 : -1]:
        if process.start is None:
            unseen = "" if process.pid is None else ", whose start is not in the log,"
            yield f"{_name(process)}{unseen} {_end(process, because)}"
            continue
        yield f"{_name(process)} {process.begun} {format_ts(process.first.ts_ns)} " + (
            "and is the last one recorded"
            if process is processes[-1] and process.end is None
            else "and " + _end(process, because)
        )
        yield from _of_shutdowns([process])
    if len(processes) > _PROCESSES_MAX:
        before = len(processes) - _PROCESSES_MAX
        yield f"{before} more process{'es' if before > 1 else ''} came before"


def _of_shutdowns(processes: list[_Process]) -> Iterator[str]:
    for process in reversed(processes):
        if process.shut_down:
            yield (
                f"the node shut down: {len(process.shut_down)} pods were stopped from "
                f"{format_ts(process.shut_down[0].ts_ns)} on"
            )


def _name(process: _Process) -> str:
    version = process.start.kubelet_version if process.start is not None else None
    name = "the kubelet" if process.pid is None else f"kubelet process {process.pid}"
    return f"{name} ({version})" if version else name


def _end(process: _Process, because: dict[int, Record]) -> str:
    end = process.end
    if end is None:
        return (
            f"left no record of its end, after {format_ts(process.logged.last.ts_ns)}: {_WORDLESS}"
        )
    if isinstance(end.body, ProcessKilled):
        return f"was killed by the kernel's OOM killer at {format_ts(end.ts_ns)}"
    assert isinstance(end.body, KubeletExited)
    cause = because.get(end.cause or 0)
    led = f" ({words_of(cause)[1].partition(':')[0]})" if cause is not None else ""
    return f"{_ENDS[end.body.reason]} at {format_ts(end.ts_ns)}: {end.body.message}{led}"


def _of_pressure(about: Iterable[Record]) -> Iterator[str]:
    """The conditions that the node reports now, or those that it reported last; if any."""
    since: dict[str, int] = {}
    last = ""
    is_named = False
    for record in about:
        if isinstance(record.body, KubeletStarted):
            since = {}
        if isinstance(record.body, NodeConditionsChanged):
            is_named = True
            gone = since.keys() - set(record.body.conditions)
            for name in sorted(gone):
                last = f"{name} from {format_ts(since[name])} to {format_ts(record.ts_ns)}"
            since = {name: since.get(name, record.ts_ns) for name in record.body.conditions}
    if since:
        yield "it reports " + " and ".join(f"{n} since {format_ts(t)}" for n, t in since.items())
    elif is_named:
        yield "it reports no pressure" + (f", the last was {last}" if last else "")


def _of_others(about: list[Record]) -> Iterator[str]:
    for record in about:
        body: Any = record.body
        if isinstance(body, ClockStepped):
            before, after = format_ts(body.from_ts_ns), format_ts(body.to_ts_ns)
            yield f"the clock went back from {before} to {after}"
        elif isinstance(body, LogThinned):
            yield (
                f"the log lost lines between {format_ts(body.from_ts_ns)} and "
                f"{format_ts(body.to_ts_ns)}"
            )
        elif isinstance(body, KubernetesEvent) and body.reason == "Rebooted":
            yield f"the node had been rebooted, as it said at {format_ts(record.ts_ns)}"
    kills = [r for r in about if isinstance(r.body, ProcessKilled) and r.body.process != "kubelet"]
    if kills:
        yield (
            f"the node's memory ran out, and the kernel killed {len(kills)} processes, the last "
            f"at {format_ts(kills[-1].ts_ns)}"
        )


def _wordless(processes: list[_Process]) -> list[_Process]:
    """Processes with no record of how they ended, though another one followed."""
    return [each for each in processes[:-1] if each.start is not None and each.end is None]


def _is_first_seen(record: Record) -> bool:
    """Whether it is the first record, of a process that was running before the log begins."""
    body = record.body
    return isinstance(body, KubeletStarted) and not (body.from_start or body.restart)


def _last_heard(process: _Process) -> StoryStep:
    """That it left no word of its end, as of its last record."""
    last = process.logged.last
    return StoryStep(
        ts_ns=last.ts_ns,
        last_ts_ns=last.ts_ns,
        count=1,
        text=f"{_name(process).partition(' (')[0]} left no record of its end",
        weight=_WORDLESS_WEIGHT,
        kind=last.kind,
        seq=last.seq,
    )
