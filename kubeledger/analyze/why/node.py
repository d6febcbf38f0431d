"""How a node fared: what it went through, its kubelet's processes and their ends, its clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.histories.logs import LoggedProcess, LogReading
from kubeledger.analyze.summaries import cut_chain
from kubeledger.analyze.why.conditions import BRIEF, NodeClause, clauses_of
from kubeledger.analyze.why.explanation import Answer, StoryStep, Target
from kubeledger.analyze.why.headline import counted_steps
from kubeledger.analyze.why.pieces import (
    HEADLINE_MAX,
    HEADLINE_ROOM,
    cited,
    evidence_of,
    in_time,
    seconds,
    step_of,
    time,
    times,
    words_of,
)
from kubeledger.analyze.wording import cause_in, ended
from kubeledger.kubelet.cgroups.paths import is_of_pods
from kubeledger.model.bodies.eviction import PodSpared, ProcessKilled, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodEvicted, PodTerminating
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletExited,
    KubeletStarted,
    LogThinned,
    ShutdownProgressed,
)
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from kubeledger.replay.episodes.node_conditions import NodeConditions
from kubeledger.replay.episodes.subjects import uid_of

_STEPS_MAX = 200
_PROCESSES_MAX = 5
_SHUT_DOWN = 80
_UNTOLD = "no record is about its kubelet or the node itself"
_WORDLESS_WEIGHT = 3
"""As a start's: less than an end that is recorded."""
_WORDLESS = "it was killed or told to stop, or the log is cut"
_DIED, _PROCESS, _OTHERS = 90, 50, 40
"""Weights of clauses; those of what the node went through lie around them."""
_EVENTS = frozenset({"KubeletSetupFailed", "NodeNotReady", "NodeReady", "Rebooted", "SystemOOM"})
_CONDITIONS = frozenset({"NodeNotReady", "NodeReady"})
_DONE = (KubeletStarted, PodEvicted, PodSpared, ReclaimAttempted, ShutdownProgressed)
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
        return "ran before the log begins, is first seen at"


def explain_node(history: History, target: Target, *, upto_ts_ns: int | None) -> Answer | None:
    """How the node fared: the newest process first, then what else happened to the node.

    Args:
        upto_ts_ns: as of this time; None: as of the last record.

    Returns:
        None for another node's records, and where there are none.
    """
    if target.parts and target.parts[0] != history.node:
        return None
    processes: list[_Process] = []
    about: list[Record] = []
    done: list[Record] = []
    conditions = NodeConditions()
    log = LogReading()
    first_ns = last_ns = None
    for record in history.read(None):
        if upto_ts_ns is not None and record.ts_ns > upto_ts_ns:
            continue
        first_ns = record.ts_ns if first_ns is None else min(first_ns, record.ts_ns)
        last_ns = record.ts_ns if last_ns is None else max(last_ns, record.ts_ns)
        if log.entry(record).begins:
            processes.append(_Process(log.processes[-1]))
        if _is_of_node(record):
            about.append(record)
            _note_end(processes, record)
        if isinstance(record.body, _DONE):
            done.append(record)
        conditions.take(record)
    if first_ns is None or last_ns is None:
        return None
    causes = {r.cause for r in about if isinstance(r.body, KubeletStarted | KubeletExited)}
    causes = causes - {None} - {r.seq for r in about}
    because = {record.seq: record for record in history.pick([c for c in causes if c])}
    found = [
        *clauses_of(conditions, done, last_ns),
        *(NodeClause(_OTHERS, text) for text in _of_others(about)),
    ]
    if conditions.conditions():
        about = [record for record in about if _event_of(record) not in _CONDITIONS]
    told = [*_of_processes(processes, because), *(each.text for each in found if each.weight)]
    sentence = f"node {history.node}: {'; '.join(told) or _UNTOLD}"
    # Another process followed, and no record tells how these ended.
    wordless = [each for each in processes[:-1] if each.start is not None and each.end is None]
    steps = [r for r in (*about, *because.values()) if not _is_first_seen(r)]
    last = (process.logged.last for process in wordless)
    own_steps = [step for each in found if each.weight for step in each.steps]
    episodes = history.pick(sorted({step.seq for step in own_steps}))
    by_seq = {record.seq: record for record in (*about, *because.values(), *last, *episodes)}
    records = sorted(by_seq.values(), key=in_time)
    evidence = evidence_of(records[-_STEPS_MAX:], target)
    all_steps = [*counted_steps(target, steps), *map(_last_heard, wordless), *own_steps]
    return Answer(
        target=str(target),
        node=history.node,
        headline=_headline(history.node, processes, because, found),
        steps=cited(sorted(all_steps, key=lambda step: (step.ts_ns, step.seq)), evidence),
        sentence=f"{sentence}.",
        evidence=evidence,
        history=tuple(map(step_of, records[-_STEPS_MAX:])),
        span_ns=(first_ns, last_ns),
        is_quiet=_is_quiet(processes, found),
        was_stopped=len(processes) > 1 or any(process.end for process in processes),
    )


def _is_quiet(processes: list[_Process], found: list[NodeClause]) -> bool:
    """Whether no record tells of anything that befell the node or its kubelet, or of little."""
    in_order = not any(process.died or process.shut_down for process in processes)
    return in_order and all(each.weight <= BRIEF for each in found)


def with_besides(
    answer: Answer, counts: str, worst: tuple[str, ...], had_trouble: bool = False, own: str = ""
) -> Answer:
    """The answer about a node with what befell its pods; that leads where it is worse.

    Args:
        counts: of all that happened on it.
        worst: what befell its pods, worst first.
        had_trouble: of the node, that is counted, even if it was short.
        own: the worst of that, if it was as bad.
    """
    headline, first = answer.headline, next(iter(worst), "")
    begin = f"node {answer.node}: "
    if answer.is_quiet and own:
        headline = ended(begin + cut_chain(own, HEADLINE_MAX - 1 - len(begin)))
    elif answer.is_quiet and first:
        rest = "" if had_trouble else "; the node itself had no lasting trouble"
        headline = begin + _fitting(first, HEADLINE_MAX - 1 - len(begin))
        headline = ended(headline.rstrip(".") + rest * (len(headline) + len(rest) < HEADLINE_MAX))
        worst = worst[1:]
    elif answer.is_quiet and not answer.was_stopped:
        spans = " to ".join(dict.fromkeys(seconds(time(each)) for each in answer.span_ns))
        headline = ended(f"{begin}nothing that went wrong is recorded, {spans}")
    return msgspec.structs.replace(answer, headline=headline, counts=counts, worst=worst)


def _fitting(text: str, length: int) -> str:
    """What befell a pod: rather its cause than how often it was tried, or its namespace."""
    whole = text[: text.rfind(")") + 1] or text
    bare = whole.partition("/")[2] if "/" in whole.partition(" ")[0] else whole
    fits = (each for each in (text, whole, bare) if len(each) <= length)
    return next(fits, None) or cut_chain(text, length)


def _headline(
    node: str, processes: list[_Process], because: dict[int, Record], found: list[NodeClause]
) -> str:
    """What weighs most first, then what else there is room for."""
    begin = len(f"node {node}: .")
    room = HEADLINE_ROOM - begin
    died = [process for process in processes if process.died]
    clauses = list(found)
    if not died or died == processes[-1:]:
        first, *rest = [*_of_processes(processes, because), ""]
        if died:
            first = f"{_name(died[-1])} {_end(died[-1], because)}"
        clauses.append(NodeClause(_DIED if died else _PROCESS, first))
        clauses += [NodeClause(_OTHERS - 1, clause) for clause in rest]
    else:
        clauses.append(NodeClause(_DIED, _of_deaths(died, HEADLINE_MAX - begin)))
        clauses.append(NodeClause(_PROCESS, _newest(processes[-1])))
        clauses += [NodeClause(_SHUT_DOWN, clause) for clause in _of_shutdowns(processes)]
    clauses = [each for each in clauses if each.weight and each.text]
    chosen: list[str] = []
    for each in sorted(clauses, key=lambda each: (-each.weight, -each.lasted_ns)):
        left = room - sum(len(text) + 2 for text in chosen) if chosen else HEADLINE_MAX - begin
        texts = [seconds(text) for text in (each.text, each.short) if text]
        fitting = next((text for text in texts if len(text) <= left), None)
        if fitting or not chosen:
            chosen.append(fitting or cut_chain(texts[0], left))
    return ended(f"node {node}: {'; '.join(chosen) or _UNTOLD}")


def _newest(process: _Process) -> str:
    """The newest process, shortly; a death comes with the others."""
    name = "the last one" if process.pid is None else f"process {process.pid}"
    if process.end is not None:
        word = "died" if process.died else "was told to stop"
        return f"{name} {word} at {time(process.end.ts_ns)}"
    return f"{name} {process.begun.rpartition(', ')[2]} {time(process.first.ts_ns)}"


def _of_deaths(died: list[_Process], length: int) -> str:
    """How often the kubelet died, when, and what it said at last, cut to the length."""
    ends = [process.end for process in died if process.end is not None]
    pid = None if len(ends) > 1 else died[0].pid
    who = "the kubelet" if pid is None else f"kubelet process {pid}"
    why = getattr(ends[-1].body, "message", None) or "killed by the kernel's OOM killer"
    already = f"{who} died {times(ends[0].ts_ns, ends[-1].ts_ns, len(ends))}: "
    return already + cut_chain(cause_in(why), length - len(already))


def _is_of_node(record: Record) -> bool:
    body = record.body
    if isinstance(body, PodTerminating):
        return body.reason == "shutdown"
    if isinstance(body, ProcessKilled):
        return body.process == "kubelet" or _is_of_all(body) or not (body.pod or uid_of(body))
    if isinstance(body, KubernetesEvent):
        return body.object_kind == "Node" and body.reason in _EVENTS
    return isinstance(body, ClockStepped | KubeletExited | KubeletStarted | LogThinned)


def _is_of_all(kill: ProcessKilled) -> bool:
    """Whether the node's memory had run out, or that of all its pods."""
    return kill.reason == "node" or is_of_pods(kill.cgroup)


def _event_of(record: Record) -> str | None:
    return record.body.reason if isinstance(record.body, KubernetesEvent) else None


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


def _of_others(about: list[Record]) -> Iterator[str]:
    for record in about:
        body: Any = record.body
        if isinstance(body, ClockStepped):
            before, after = format_ts(body.from_ts_ns), format_ts(body.to_ts_ns)
            yield f"the clock went back from {before} to {after}"
        elif isinstance(body, LogThinned):
            what = "lost lines" if body.beats_missing else "has cut lines"
            yield (
                f"the log {what} between {format_ts(body.from_ts_ns)} and "
                f"{format_ts(body.to_ts_ns)}"
            )
        elif isinstance(body, KubernetesEvent) and body.reason == "Rebooted":
            yield f"the node had been rebooted, as it said at {format_ts(record.ts_ns)}"
    bodies = [r.body for r in about if isinstance(r.body, ProcessKilled)]
    kills = [r for r in about if isinstance(r.body, ProcessKilled) and r.body.process != "kubelet"]
    if kills:
        is_of_node = any(map(_is_of_all, bodies))
        many = f"{len(kills)} processes, the last" if len(kills) > 1 else "a process"
        why = "the node's memory ran out, and " if is_of_node else ""
        yield (
            f"{why}the kernel killed {many} "
            f"({words_of(kills[-1])[1].partition(': ')[2]}) at {format_ts(kills[-1].ts_ns)}"
        )


def _is_first_seen(record: Record) -> bool:
    """Whether it is the first record, of a process that was running before the log begins."""
    body = record.body
    return isinstance(body, KubeletStarted) and not (body.from_start or body.restart)


def _last_heard(process: _Process) -> StoryStep:
    """That it left no word of its end, as of its last record."""
    text = f"{_name(process).partition(' (')[0]} left no record of its end"
    return StoryStep.of(process.logged.last, text, _WORDLESS_WEIGHT)
