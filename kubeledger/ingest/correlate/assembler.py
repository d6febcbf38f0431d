"""How assemblers are written and what they may know.

An assembler covers one subsystem. It is fed the log entries and items it asks for in the order
of their time, keeps what it needs between them, and puts facts into a queue, from which they
leave when they are settled. What a method reads stands above it:

* ``@reads``: messages, in the words of the newest kubelets (``ingest/messages`` says which
  other lines show the same); ``@reads_events``: events, by their reasons; ``@ends``: messages
  that only end what was said before;
* ``@takes``: a type of item.

The parts of a large subsystem declare methods of their own. Assemblers of pods, containers and
probes share one queue, so their facts leave in one order. What an assembler needs of another
one it takes as an argument: ``ingest/assemblers.py`` makes them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kubeledger.ingest.correlate.context import BundleContext, Subject
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.klog.forms import go_text, integer, split_pod, split_pod_text
from kubeledger.ingest.klog.router import LineHandler
from kubeledger.ingest.messages.podref import (
    EventLine,
    PodRef,
    bare_container_id,
    event_line,
    structured_pod,
    structured_pods,
)
from kubeledger.ingest.sources.items import Facts, Item, LogLine
from kubeledger.kubelet.kube.resources import UID
from kubeledger.model.record import Evidence

ItemHandler = Callable[[Item], Facts]
_UID = re.compile(UID)
M = TypeVar("M", bound=Callable[..., Any])


def reads(*messages: str) -> Callable[[M], M]:
    """Declare the messages that a method reads: it gets an :class:`Entry`.

    Facts that it returns leave at once, after those of the queue.
    """
    return _declares("reads", messages)


def reads_events(*reasons: str) -> Callable[[M], M]:
    """Declare the events that a method reads, sent or not, by their reasons."""

    def declare(method: M) -> M:
        vars(method)["reasons"] = frozenset(reasons)
        return reads("Event occurred")(method)

    return declare


def ends(*messages: str) -> Callable[[M], M]:
    """As ``reads``, of lines that only end what was said: not read while that is nothing."""

    def declare(method: M) -> M:
        vars(method)["ends"] = True
        return reads(*messages)(method)

    return declare


def takes(*kinds: type) -> Callable[[M], M]:
    """Declare the types of items (not LogLine) that a method takes."""
    return _declares("takes", kinds)


def _declares(word: str, what: tuple[object, ...]) -> Callable[[M], M]:
    def declare(method: M) -> M:
        vars(method)[word] = what
        return method

    return declare


class Entry:
    """One log line as an assembler reads it.

    Attributes:
        message: in the words in which it was asked for; ``line.message`` as it stands.
        values: of its keys; of free text those of the structured line that came in its place.
    """

    __slots__ = ("line", "message", "values")

    def __init__(self, line: LogLine, message: str) -> None:
        self.line = line
        self.message = message
        self.values: dict[str, Any] = line.values or {}

    @property
    def ts_ns(self) -> int:
        return self.line.ts_ns

    @property
    def evidence(self) -> Evidence:
        return self.line.evidence

    def get(self, *keys: str) -> str | None:
        """The first of these values that is there, as Go prints it; None when none is."""
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return go_text(value)
        return None

    def text(self, *keys: str) -> str:
        """The same; empty when none is there."""
        return self.get(*keys) or ""

    def told(self, key: str) -> str:
        """The same, for what only tells it: of a text in which the line was cut, what is left."""
        begun = getattr(self.values, "begun", None)
        if begun is not None and begun[0] == key:
            return f"{begun[1].removesuffix('>').rstrip()}…"  # a pager's mark of a chopped line
        return self.text(key)

    def number(self, key: str) -> int | None:
        """A value as a whole number; None when it is none."""
        return integer(self.values.get(key))

    @property
    def pod(self) -> PodRef | None:
        """The pod that ``pod`` and ``podUID`` name."""
        return structured_pod(self.values.get("pod"), self.values.get("podUID"))

    @property
    def pods(self) -> list[PodRef]:
        """The pods that ``pods`` names."""
        return structured_pods(self.values.get("pods"))

    @property
    def subject(self) -> Subject:
        """Whom the line names, as far as it does.

        1.20 writes ``name_namespace(uid)``; 1.19 the name in one line and the UID in another.
        """
        text, uid = self.get("pod"), self.get("podUID")
        namespace, name = split_pod(text)
        if name is None and text:
            namespace, name, logged_uid = split_pod_text(text)
            uid = uid or logged_uid
            if name is None and _UID.fullmatch(text):
                uid = text
            elif name is None:
                name = text
        return Subject(namespace, name, uid, self.get("containerName"))

    @property
    def event_subject(self) -> Subject:
        """The object of an event."""
        return Subject(*split_pod(self.get("object")), self.get("podUID"))

    @property
    def container_id(self) -> str | None:
        """The bare ID under ``containerID``."""
        return bare_container_id(self.values.get("containerID"))

    def event(self, *reasons: str) -> EventLine | None:
        """The event about a pod that an ``Event occurred`` line shows, with one of the reasons."""
        return event_line(self.line, reasons)


class Assembler:
    """Base of all assemblers; one instance a bundle.

    Attributes:
        parts: objects whose methods declare what they read, besides the assembler's own.
    """

    time_passes: tuple[str, ...] = ()
    """Messages of which nothing is read: they move the time on."""

    def __init__(self, context: BundleContext, queue: Holdback | None = None) -> None:
        self.context = context
        self.queue = Holdback() if queue is None else queue
        self.parts: tuple[object, ...] = ()

    # -- what an assembler may do besides --------------------------------------------------

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """Called before each method; for what runs out with time, or ends with a process.

        ``pid``: of the process that writes the line; None when that is not known.
        """

    def after(self, ts_ns: int) -> None:
        """Called after each method of an entry, before what is due leaves."""

    def is_quiet(self) -> bool:
        """Whether nothing was said that a line could end."""
        return False

    def end(self, ts_ns: int) -> None:
        """Settles what only the end of the bundle settles; ``ts_ns`` is its last time."""

    # -- what the pipeline calls -----------------------------------------------------------

    def structured(self) -> dict[str, LineHandler]:
        nothing = dict.fromkeys(self.time_passes, _nothing)
        declared = {**nothing, **dict(self._declared("reads"))}
        return {message: self._of_line(message, method) for message, method in declared.items()}

    def items(self) -> dict[type, ItemHandler]:
        return {kind: self._of_item(method) for kind, method in self._declared("takes")}

    def goes_on(self, line: LogLine) -> Facts:
        """Another kubelet process, whose begin no log holds, is running by this line."""
        return ()

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return self.queue.waiting_since()

    @property
    def asks_since(self) -> Callable[[], int | None]:
        """What says that: most assemblers hold back nothing but what is in their queue."""
        return self._own("waiting_since") or self.queue.waiting_since

    def pass_time(self, now_ns: int) -> Facts:
        """What is due at ``now_ns`` though nothing came."""
        self.before(now_ns)
        return self.queue.release(now_ns)

    def finish(self, ts_ns: int) -> Facts:
        """All facts that still wait; ``ts_ns`` is the bundle's last time."""
        self.end(ts_ns)
        return self.queue.drain()

    def _declared(self, word: str) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
        for part in (self, *self.parts):
            for name in dir(type(part)):
                if name.startswith("__"):
                    continue
                for each in getattr(getattr(type(part), name), word, ()):
                    yield each, getattr(part, name)

    def _of_line(self, message: str, method: Callable[[Entry], Facts | None]) -> LineHandler:
        # A line comes to many handlers, and few find anything in it: what most assemblers do not
        # do before and after would take longer than all that they do.
        before, after = (self._own(name) for name in ("before", "after"))
        reasons: frozenset[str] | None = getattr(method, "reasons", None)
        queue, is_quiet = self.queue, self.is_quiet
        reads_nothing, only_ends = method is _nothing, getattr(method, "ends", False)

        def handle(line: LogLine) -> Facts:
            if only_ends and is_quiet():
                return ()
            ts_ns = line.ts_ns
            is_passed = reads_nothing or (
                reasons is not None and (line.values or {}).get("reason") not in reasons
            )
            if is_passed and before is after is None and queue.is_empty:
                return ()
            if before is not None:
                before(ts_ns, line.pid)
            facts: Facts | None = ()
            if not is_passed:
                said = queue.said
                facts = method(Entry(line, message))
                if line.severity != "I" and (facts or queue.tells(line, said)):
                    line.is_told = True
            if after is not None:
                after(ts_ns)
            due = queue.release(ts_ns)
            return [*due, *facts] if facts else due

        return handle

    def _own(self, name: str) -> Callable[..., Any] | None:
        """A method that an assembler has of its own; None where it is this class's."""
        is_own = getattr(type(self), name) is not getattr(Assembler, name)
        return getattr(self, name) if is_own else None

    def _of_item(self, method: Callable[[Any], None]) -> ItemHandler:
        def handle(item: Item) -> Facts:
            self.before(item.ts_ns)
            method(item)
            return self.queue.release(item.ts_ns)

        return handle


def _nothing(entry: Entry) -> None:
    pass
