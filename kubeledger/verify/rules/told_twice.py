"""Facts that several sources tell: where two of them cannot both be right, both are shown.

=========================  ==============================  ======================================
fact                       one source                      the others
=========================  ==============================  ======================================
refusal of a pod           the decision                    its lines, and its status in lists
victim of a preemption     the decision                    its lines: event, status, end; lists
probe that led to a kill   the decision                    the event of the kill
output of a failed probe   the prober's line               the event beside it
name of a pod, by UID      lists                           lines that hand it over
pods that came             lines that hand them over       all that is told of pods
memory of the node         an eviction signal              those before and behind it
memory of the machine      the line about it               the first eviction signal behind it
exit code of a container   the line of its end             its status in lists
=========================  ==============================  ======================================

No verdict rests on this. A line that is cut tells nothing here, nor does one that is lost; of an
output the end may be missing. Where lines are known to be lost, accounts that belong together
only by their times are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kubeledger.kubelet.kube.keys import name_key, pod_key
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    PodConfigChanged,
    PodListed,
    PodRejected,
    ReasonReported,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.podlife import PodLife
from kubeledger.verify.rules.containers import subject_of
from kubeledger.verify.verifier import See, Verifier
from kubeledger.verify.witnesses import Row, Witnesses

__all__ = ["ToldTwice"]

Told = tuple[str | None, ...]
"""Parts of a fact; None for one that a source does not tell."""

_WHY: Final = {
    "refusal": "different things are told about one refusal",
    "victim": "the log tells different names of one victim of a preemption",
    "end of a victim": "what is told of a victim of a preemption is not what each of them is told",
    "kill": "a kill and its event tell of different probes that failed",
    "output": "the prober's line and the kubelet's event tell different outputs of one probe",
    "name": "a line hands the kubelet a pod under another name than that which lists show",
    "machine": "the line about the machine and the eviction signals tell different "
    "capacities of memory",
    "memory": "one eviction signal tells another capacity than those before and behind it",
    "exit code": "a list shows another exit code than the line about the container's end",
}
_WHY_UNHEARD_OF: Final = (
    "the kubelet is handed a pod of which nothing else is told, and takes up one that it was "
    "not handed"
)
_VICTIM: Final = ("Preempting", "Preempted in order to admit critical pod")
"""Reason and message that the kubelet gives every victim (pkg/kubelet/preemption)."""

_SAYS: Final = r' reason="(?P<reason>[^"]*)" message="(?P<message>(?:[^"\\]|\\.)*)"'
_STATUS: Final = r"\{Failed \[\] (?P<message>.*) (?P<reason>\w+)    \["
_ENDS: Final = (
    ("Event occurred", re.compile(_SAYS)),
    ("Pod admission denied", re.compile(_SAYS)),
    ("Status Manager: adding pod", re.compile(_STATUS)),
    ("Predicate failed on Pod", re.compile(r' err="(?P<message>(?:[^"\\]|\\.)*)"$')),
)
"""Words of a line, and how it tells of a pod's end."""
_STATUS_PREFIX: Final = re.compile(r"^Pod (was rejected: )?")
_KILLS: Final = (
    ("Event occurred", re.compile(r' message="Container \S+ failed (?P<probe>\w+) probe')),
)
_NAMES: Final = (
    ("Event occurred", re.compile(r' object="(?P<namespace>[^/" ]+)/(?P<name>[^/" ]+)"')),
    ("evicted successfully", re.compile(r' pod="(?P<namespace>[^/" ]+)/(?P<name>[^/" ]+)"')),
    ("evicted successfully", re.compile(r" pod (?P<name>[^ _]+)_(?P<namespace>[^ _(]+)\(")),
)
"""Words of a line about a victim, and how it names it."""
_ESCAPED: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t"}
_CUT_FROM: Final = 512
"""A text that is no shorter may have been cut where it was sent or written."""
_PLAIN: Final = re.compile(r"[\n\t -~]*")
"""What every form of a log line gives back unchanged."""
_BLOCK: Final = "=<"
"""How klog ends a line whose value follows in lines of its own."""
_AT_ONCE_NS: Final = NS_PER_S // 2
"""A probe's event stands this near behind the line; ticks of a worker are farther apart."""
_TAKEN_UP_NS: Final = 3 * NS_PER_S
_HEARD_OF_NS: Final = 10 * NS_PER_S
"""So long after it was handed over a pod is taken up, and heard of."""
_MEMORY: Final = frozenset({"memory.available", "allocatableMemory.available"})
"""Signals whose capacity does not change while a process runs."""


class ToldTwice(Verifier):
    """Compares what is told of one fact; memory grows with pods and their containers."""

    def __init__(self, bench: Bench) -> None:
        """Nothing is told yet."""
        super().__init__(bench)
        self._facts: Witnesses[Told] = Witnesses(0, _may_be_one)
        self._failed: dict[tuple[str | None, str], dict[str, Record]] = {}
        self._victims: dict[str, Row[Told]] = {}
        self._sizes: dict[str, tuple[Row[Told], Row[Told] | None]] = {}
        self._machine: Row[Told] | None = None
        self._died: dict[str, str] = {}

    def sees(self) -> Mapping[type[Body], See]:
        """Every record that tells of one of the facts."""
        return {
            ContainerDied: self._container_died,
            ContainerKilled: self._container_killed,
            EvictionSignalObserved: self._signal_observed,
            KubeletStarted: self._kubelet_started,
            NodeObserved: self._node_observed,
            PodConfigChanged: self._config_changed,
            PodListed: self._pod_listed,
            PodPreempted: self._pod_preempted,
            PodRejected: self._pod_rejected,
            ProbeExecuted: self._probe_executed,
            ReasonReported: self._reason_reported,
        }

    def settle(self, state: NodeState) -> None:
        """Pods that lines handed over, and pods that were taken up."""
        lives = [life for pod in self.bench.timeline.pods.values() for life in pod.lives]
        taken_up = [life for life in lives if life.add_seq is None and life.sure_ns is not None]
        for handed in filter(self._is_unheard_of, lives):
            for taken in taken_up:
                late_ns = (taken.sure_ns or 0) - handed.since_ns
                if 0 <= late_ns <= _TAKEN_UP_NS and self._must_have_come(taken, handed):
                    self.bench.contradict(
                        handed.since_ns,
                        f"pod/{taken.full_name}",
                        _WHY_UNHEARD_OF,
                        (handed.add_seq or handed.seq, f"ADD of {handed.full_name}"),
                        (taken.seq, f"{taken.full_name} is there"),
                    )

    def _compare(self, told: Row[Told], *shown: Row[Told]) -> None:
        """Accounts of one fact, of one time."""
        self._facts.tell(told)
        for row in shown:
            self._show(row)

    def _show(self, row: Row[Told]) -> None:
        self._facts.show(row)
        for told, shown in self._facts.passed(None):
            sides = (told.seq, told.says), (shown.seq, shown.says)
            self.bench.contradict(shown.ts_ns, str(shown.subject), _WHY[shown.kind], *sides)

    # Pods that the kubelet refuses or kills -----------------------------------------------

    def _pod_rejected(self, record: Record, body: PodRejected, _: NodeState) -> None:
        subject = f"pod/{body.namespace}/{body.pod}"
        told = _row("refusal", subject, _end_of(body.reason, body.message), record,
                    f"{body.reason}: {body.message}")  # fmt: skip
        rows = [*_lines("refusal", subject, record, _ENDS, _parts_of_end)]
        who = body.pod_uid, body.namespace, body.pod
        life = self.bench.timeline.life(record.ts_ns, *who)
        pod = self.bench.timeline.pod(record.ts_ns, *who)
        shown = pod.failure(life, record.ts_ns) if pod is not None and life is not None else None
        if shown is not None:
            seq, reason, message = shown
            value, says = _end_of(reason, message), f"{reason}: {message}"
            rows.append(Row("refusal", subject, value, seq, record.ts_ns, says))
        self._compare(told, *rows)

    def _pod_preempted(self, record: Record, body: PodPreempted, _: NodeState) -> None:
        victim = (body.victim_namespace, body.victim_pod)
        subject = f"pod/{name_key(*victim)}"
        says = f"{name_key(*victim)} ({body.victim_uid})"
        self._compare(
            _row("victim", subject, victim, record, says),
            *_lines("victim", subject, record, _NAMES, _name_of),
        )
        end = _row("end of a victim", subject, _VICTIM, record, ": ".join(_VICTIM))
        self._compare(end, *_lines("end of a victim", subject, record, _ENDS, _parts_of_end))
        if body.victim_uid is not None:
            self._victims[body.victim_uid] = end

    def _pod_listed(self, record: Record, body: PodListed, _: NodeState) -> None:
        status = body.status or {}
        told = (status.get("reason"), status.get("message"))
        end = self._victims.get(body.pod_uid or "")
        # Where both differ somebody else may have set them.
        if end is not None and status.get("phase") == "Failed" and set(told) & set(_VICTIM):
            says = f"{told[0]}: {told[1]}"
            self._show(_row(end.kind, str(end.subject), told, record, says))
        for group in ("initContainerStatuses", "containerStatuses"):
            for entry in status.get(group) or ():
                if isinstance(entry, dict):
                    self._compare_exit(record, body, entry)

    # Containers ---------------------------------------------------------------------------

    def _container_died(self, record: Record, body: ContainerDied, _: NodeState) -> None:
        if body.exit_code is not None and body.container is not None:
            subject = subject_of(body)
            self._died[subject] = body.container_id
            value = (body.container_id, str(body.exit_code))
            says = f"container {body.container_id} ended with {body.exit_code}"
            self._facts.tell(_row("exit code", subject, value, record, says))

    def _container_killed(self, record: Record, body: ContainerKilled, _: NodeState) -> None:
        probe, _sep, of_probe = (body.reason or "").partition("_")
        if of_probe == "probe":
            subject = subject_of(body)
            told = _row("kill", subject, (probe,), record, f"the {probe} probe failed")
            self._compare(told, *_lines("kill", subject, record, _KILLS, _probe_of))

    def _compare_exit(self, record: Record, body: PodListed, entry: dict[str, Any]) -> None:
        subject = f"container/{body.namespace}/{body.pod}/{entry.get('name')}"
        for state in (entry.get("state"), entry.get("lastState")):
            ended = state.get("terminated") if isinstance(state, dict) else None
            if not isinstance(ended, dict) or ended.get("reason") == "ContainerStatusUnknown":
                continue
            container_id = str(ended.get("containerID") or "").rpartition("//")[2]
            if container_id == self._died.get(subject):
                value = (container_id, str(ended.get("exitCode")))
                says = f"container {container_id} ended with {ended.get('exitCode')}"
                self._show(_row("exit code", subject, value, record, says))

    def _probe_executed(self, record: Record, body: ProbeExecuted, _: NodeState) -> None:
        if body.result == "failure" and body.output is not None:
            whose = (pod_key(body.pod_uid, body.namespace, body.pod), body.probe_type)
            self._failed.setdefault(whose, {})[body.container] = record

    def _reason_reported(self, record: Record, body: ReasonReported, _: NodeState) -> None:
        """An event of a failed probe; old ones do not name the container."""
        probe, failed, told = body.message.partition(" probe failed: ")
        whose = (pod_key(body.pod_uid, body.namespace, body.pod), probe.lower())
        ticks = self._failed.get(whose, {})
        if not failed or body.count != 1 or len(ticks) != 1:
            return
        ((container, tick),) = ticks.items()
        line = tick.body
        assert isinstance(line, ProbeExecuted)
        if (
            body.container not in (None, container)
            or not 0 <= record.ts_ns - tick.ts_ns <= _AT_ONCE_NS
            or self.bench.coverage.at(tick.ts_ns) is not None
        ):
            return
        pieces = (*tick.evidence, *record.evidence)
        if any(_BLOCK in (piece.text or "") for piece in pieces):
            return  # lines of its value may be lost
        subject, output = subject_of(line), line.output or ""
        says = _placed(next(iter(tick.evidence), None), repr(output))
        event_says = _placed(next(iter(record.evidence), None), repr(told))
        self._compare(
            _row("output", subject, (output.rstrip(),), tick, says),
            _row("output", subject, (told.rstrip(),), record, event_says),
        )

    # Names --------------------------------------------------------------------------------

    def _config_changed(self, record: Record, body: PodConfigChanged, _: NodeState) -> None:
        listed = self.bench.pods.at(record.ts_ns, body.pod_uid) if body.pod_uid else None
        if listed is None or listed.is_manifest:
            return
        subject = f"pod/{name_key(listed.namespace, listed.name)}"
        says = f"{body.operation} of {name_key(body.namespace, body.pod)} ({body.pod_uid})"
        listed_says = f"{name_key(listed.namespace, listed.name)} ({listed.uid})"
        value = (listed.namespace, listed.name)
        self._compare(
            Row("name", subject, value, listed.seq, record.ts_ns, listed_says),
            _row("name", subject, (body.namespace, body.pod), record, says),
        )

    def _is_unheard_of(self, life: PodLife) -> bool:
        """Whether nothing is told of a pod but that it was handed over."""
        pod = self.bench.timeline.pods[life.key]
        if life.add_seq is None or life.uid is not None or pod.runs or len(pod.lives) > 1:
            return False
        told = (life.decided_ns, life.removed_ns, life.deleted_ns, pod.shown_ns, life.aligned_seq)
        return set(told) == {None} and life.seen_ns <= life.since_ns

    def _must_have_come(self, taken: PodLife, handed: PodLife) -> bool:
        """Whether no line is lost but the one that would have brought the pod."""
        process = self.bench.timeline.process(handed.since_ns)
        if process is None or not process.from_start or taken.process != handed.process:
            return False
        span = process.started_ns, handed.since_ns + _HEARD_OF_NS
        loss = self.bench.coverage.missing(*span)
        alone = loss is None or taken.full_name in loss.phrase
        return alone and self.bench.coverage.silent(*span) is None

    # The machine --------------------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, _: NodeState) -> None:
        """Another process may find another machine, and probes begin anew."""
        self._sizes.clear()
        self._machine = None
        self._failed.clear()

    def _node_observed(self, record: Record, body: NodeObserved, _: NodeState) -> None:
        """The line about the machine tells the same memory as the signals behind it."""
        if body.memory_capacity_bytes is not None and not self._sizes:
            size = str(body.memory_capacity_bytes)
            piece = next(iter(record.evidence), None)
            says = _placed(piece, f"the machine has {size} bytes")
            self._machine = _row("machine", "node", (size,), record, says)

    def _signal_observed(self, record: Record, body: EvictionSignalObserved, _: NodeState) -> None:
        """A capacity that is told once, and then again as before."""
        if body.signal not in _MEMORY:
            return
        piece = next(iter(record.evidence), None)
        says = _placed(piece, f"{body.signal} has a capacity of {body.capacity} bytes")
        row = _row("memory", "node", (str(body.capacity),), record, says)
        if self._machine is not None:
            self._compare(self._machine, row._replace(kind="machine"))
            self._machine = None
        first, odd = self._sizes.get(body.signal, (row, None))
        if row.value != first.value:
            self._sizes[body.signal] = (first, row) if odd is None else (row, None)
            return
        self._sizes[body.signal] = first, None
        if odd is not None:
            self._compare(first, odd)


def _row(kind: str, subject: str, value: Told, record: Record, says: str) -> Row[Told]:
    return Row(kind, subject, value, record.seq, record.ts_ns, says)


def _lines(
    kind: str,
    subject: str,
    record: Record,
    forms: Sequence[tuple[str, re.Pattern[str]]],
    value_of: Callable[[Mapping[str, str]], Told],
) -> Iterator[Row[Told]]:
    """What the lines of a record tell of a fact, each in its own form."""
    for piece in record.evidence:
        for words, form in forms:
            found = form.search(piece.text) if piece.text and words in piece.text else None
            if found is not None:
                says = _placed(piece, piece.text or "")
                yield _row(kind, subject, value_of(found.groupdict()), record, says)


def _parts_of_end(parts: Mapping[str, str]) -> Told:
    """Reason and message of a pod's end, as a line quotes them."""
    message = _ESCAPED.sub(lambda one: _ESCAPES.get(one[1], one[1]), parts["message"])
    return _end_of(parts.get("reason"), message)


def _end_of(reason: str | None, message: str) -> Told:
    """Reason and message of a pod's end; some versions put words before it in the status."""
    return reason, _STATUS_PREFIX.sub("", message).rstrip()


def _probe_of(parts: Mapping[str, str]) -> Told:
    return (parts["probe"],)


def _name_of(parts: Mapping[str, str]) -> Told:
    return parts["namespace"], parts["name"]


def _placed(piece: Evidence | None, words: str) -> str:
    """Words with the line of the log that holds them."""
    if piece is None or piece.line is None:
        return words
    return f"{piece.file}:{piece.line}: {words}"


def _may_be_one(told: Told, shown: Told) -> bool:
    """Whether two accounts can be of one value, as far as both tell it."""
    return all(
        one is None or other is None or _may_be_one_text(one, other)
        for one, other in zip(told, shown, strict=True)
    )


def _may_be_one_text(one: str, other: str) -> bool:
    if not (_PLAIN.fullmatch(one) and _PLAIN.fullmatch(other)):
        return True
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _CUT_FROM and long.startswith(short))
