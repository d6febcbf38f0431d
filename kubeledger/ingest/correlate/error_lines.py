"""Lines of severity W, E and F, which their shape tells: each counts once, whoever wraps it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import Subject
from kubeledger.ingest.correlate.holdback import WAIT_NS, Repeated
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.messages.podref import formatted_pod, structured_pod, structured_pods
from kubeledger.ingest.sources.items import Facts, LogLine
from kubeledger.kubelet.kube.resources import UID
from kubeledger.kubelet.lifecycle.stages import status_message
from kubeledger.model.bodies.node import ErrorsLogged
from kubeledger.model.patterns import cached_if_short, regex
from kubeledger.model.units import NS_PER_S

_EVERY_NS = 3600 * NS_PER_S
_SHAPES_MAX = 1000
"""Lines of more shapes than this are counted together: memory must stay flat."""
_OTHER_SHAPES = "(more shapes)"

_POD_AND_UID = regex(r'\bpod \\*"([^"\\]+)\\*" \(UID: \\*"([^"\\]+)\\*"\)')
_POD_DIRECTORY = regex(f"/pods/({UID})/")
_NODE = Subject()

_WRAPPED_MAX = 32
"""Of so many lines before it is asked whether a line wraps them."""
_MET_NS = 10 * NS_PER_S
"""A runtime that is down is asked by many; a sync or a check says so every few seconds."""
_TOLD_MAX = 8
_ERROR_MIN = 16
_ANYBODYS = frozenset({"context deadline exceeded", "timed out waiting for the condition"})
_QUOTES = ("\\", '"', "'", "`")


class _Heard(NamedTuple):
    """A line, and what it says.

    Attributes:
        error: what went wrong, without quotes; empty where many lines say the same.
    """

    line: LogLine
    shape: str
    pod: Subject
    error: str


class ErrorsAssembler(Assembler):
    """Counts them by shape, the pod that they name, and the kubelet process.

    An error is logged where it came up, and again by each who wraps it, or meets it: what a line
    says that is told, with the same error in it, is told, too. So each is counted a second later.
    """

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._said = Repeated[Hashable](self.queue, _EVERY_NS, wait_ns=0)
        self._shapes: set[tuple[str, str]] = set()
        self._hears: deque[_Heard] = deque()
        self._told: deque[tuple[_Heard, str]] = deque(maxlen=_TOLD_MAX)

    def tell(self, line: LogLine, shape: str) -> Facts:
        """Take in a line that all others have read."""
        facts = self.due(line.ts_ns)
        heard = _Heard(line, shape, self._pod(line), _error_of(line))
        if not line.is_told and heard.error:
            since_ns = line.ts_ns - _MET_NS
            line.is_told = any(
                told.line.ts_ns >= since_ns and heard.error in whole and _may_tell(told, heard)
                for told, whole in self._told
            )
        if line.is_told:
            self._wraps(heard)
        self._hears.append(heard)
        return facts

    def due(self, now_ns: int) -> Facts:
        """What was heard a second before; all when the clock was set back."""
        heard = self._hears
        if not heard or abs(now_ns - heard[0].line.ts_ns) <= WAIT_NS:
            return ()
        while heard and abs(now_ns - heard[0].line.ts_ns) > WAIT_NS:
            self._count(heard.popleft())
        return self.queue.release(now_ns)

    def waiting_since(self) -> int | None:
        """As of all; what was heard waits, too."""
        since_ns = self.queue.waiting_since()
        if not self._hears:
            return since_ns
        heard_ns = self._hears[0].line.ts_ns
        return heard_ns if since_ns is None else min(since_ns, heard_ns)

    def _wraps(self, told: _Heard) -> None:
        """A line is told: so is what came up before, up to it."""
        whole = [_whole(told.line)]
        self._told.append((told, whole[0]))
        for each in islice(reversed(self._hears), _WRAPPED_MAX):
            if not _may_tell(told, each):
                continue
            if each.line.is_told or (each.error and any(each.error in text for text in whole)):
                each.line.is_told = True
                whole.append(_whole(each.line))

    def _count(self, heard: _Heard) -> None:
        line, shape, pod = heard[:3]
        self.before(line.ts_ns)
        if (line.file, shape) not in self._shapes:
            if len(self._shapes) < _SHAPES_MAX:
                self._shapes.add((line.file, shape))
            else:
                shape = _OTHER_SHAPES
        key = (
            line.severity,
            line.file,
            shape,
            pod.namespace,
            pod.pod,
            pod.uid,
            line.pid,
            line.is_told,
        )
        if self._said.say_again(key, None, "log", line):
            return
        body = ErrorsLogged(
            severity=cast(Literal["W", "E", "F"], line.severity),
            source=line.file,
            shape=shape,
            namespace=pod.namespace,
            pod=pod.pod,
            pod_uid=pod.uid,
            pid=line.pid,
            recorded=line.is_told,
            first_ts_ns=line.ts_ns,
            last_ts_ns=line.ts_ns,
        )
        self._said.say(key, None, body, "log", line)

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What goes on for long is recorded again."""
        self._said.pass_time(ts_ns)

    def end(self, ts_ns: int) -> None:
        """What was counted since."""
        while self._hears:
            self._count(self._hears.popleft())
        self._said.end(ts_ns)

    def _pod(self, line: LogLine) -> Subject:
        """The pod that the line names, with what the bundle knows of it."""
        values = line.values or {}
        subject = _in_values(values) or _in_text(line.message) or _in_paths(line.message, values)
        return _NODE if subject is None else self.context.completed(subject, line.ts_ns)


def _error_of(line: LogLine) -> str:
    """What went wrong, as those say it, too, who wrap it: ``err``, a path, or the end of a text."""
    values = line.values or {}
    text = dict.get(values, "err") or dict.get(values, "path")
    if not isinstance(text, str):
        _, code, text = line.message.partition(" desc = ")
        _, _, text = ("", "", text) if code else line.message.partition(": ")
    error = _plain(text)
    return "" if len(error) < _ERROR_MIN or error in _ANYBODYS else error


def _whole(line: LogLine) -> str:
    """Message and values, without quotes."""
    texts = (text for text in dict.values(line.values or {}) if isinstance(text, str))
    return _plain(" ".join((line.message, *texts)))


@cached_if_short(64)
def _plain(text: str) -> str:
    """A text as it is in whatever quotes, and without a runtime's codes."""
    for quote in _QUOTES:
        text = text.replace(quote, "")
    return status_message(text, everywhere=True).strip()


def _may_tell(told: _Heard, other: _Heard) -> bool:
    """Whether both are of one process, and may be of one pod: a line that names none is of any."""
    pod, its = told.pod, other.pod
    if told.line.pid != other.line.pid or _NODE in (pod, its):
        return told.line.pid == other.line.pid
    if pod.uid is not None and its.uid is not None:
        return pod.uid == its.uid
    return pod.pod == its.pod


def _in_values(values: dict[str, Any]) -> Subject | None:
    # A cut line refuses to say what is missing; here nothing has to be there.
    if dict.get(values, "kind", "Pod") != "Pod":  # an event about the node
        return None
    pod, uid, pods = (dict.get(values, key) for key in ("pod", "podUID", "pods"))
    named = [ref] if (ref := structured_pod(pod, uid)) is not None else structured_pods(pods)
    if len(named) == 1:
        return Subject(*named[0])
    return Subject(uid=uid) if isinstance(uid, str) and uid and not named else None


@cached_if_short(1024)
def _in_text(message: str) -> Subject | None:
    if (ref := formatted_pod(message)) is not None:
        return Subject(*ref)
    named = _POD_AND_UID.search(message)
    return None if named is None else Subject(pod=named[1], uid=named[2])


def _in_paths(message: str, values: dict[str, Any]) -> Subject | None:
    """The pod whose directory, ``pods/UID`` under the kubelet's root, the line names alone."""
    texts = (message, *(text for text in dict.values(values) if isinstance(text, str)))
    uids = {uid for text in texts if "/pods/" in text for uid in _POD_DIRECTORY.findall(text)}
    return Subject(uid=uids.pop()) if len(uids) == 1 else None
