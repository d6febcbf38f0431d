"""How assemblers are written and what they may know.

An assembler covers one subsystem. It is fed the log entries and items it asks for in the order
of their time, keeps what it needs between them, and puts facts into a queue, from which they
leave when they are settled. What a method reads stands above it:

* ``@reads``: messages, in the words of the newest kubelets (``ingest/messages`` says which
  other lines show the same); ``@about_pod``: the same, of lines that name a pod;
  ``@reads_events``: events, by their reasons; ``@ends``: messages that only end what was said;
* ``@takes``: a type of item.

The parts of a large subsystem declare methods of their own. What several assemblers know is in the
registers, which all are given; ``ingest/assemblers.py`` makes each when the first line or item
comes that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ClassVar, NamedTuple, TypeVar

from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.klog.router import LineHandler
from kubeledger.ingest.sources.items import Facts, Item, LogLine

ItemHandler = Callable[[Item], Facts]
Handler = Callable[[Any], Facts | None]
"""A ``LineHandler`` or an ``ItemHandler``."""
M = TypeVar("M", bound=Callable[..., Any])


def reads(*messages: str) -> Callable[[M], M]:
    """Declare the messages that a method reads: it gets an :class:`Entry`.

    Facts that it returns leave at once, after those of the queue.
    """
    return _declares("reads", messages)


def reads_events(*reasons: str) -> Callable[[M], M]:
    """Declare the events that a method reads, sent or not, by their reasons."""
    asked = frozenset(reasons)
    return reads_if(lambda values: values.get("reason") in asked, "Event occurred")


def reads_if(is_asked: Callable[[dict[str, Any]], bool], *messages: str) -> Callable[[M], M]:
    """As ``reads``, of lines with such values only."""

    def declare(method: M) -> M:
        vars(method)["is_asked"] = is_asked
        return reads(*messages)(method)

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


class Declared(NamedTuple):
    """A method of an assembler, or of one of its parts, and one thing that it reads.

    Attributes:
        what: the message or the type of item.
        part: 0: the assembler itself; n: its n-th part.
        name: of the method; empty: nothing is read of it, time has passed.
        is_asked: of an entry's values; None: all are.
        only_ends: as ``ends``.
    """

    what: Any
    part: int
    name: str
    is_asked: Callable[[dict[str, Any]], bool] | None = None
    only_ends: bool = False

    def is_read(self, line: LogLine) -> bool:
        """Whether a line has anything for an assembler that knows of nothing yet."""
        asked = self.is_asked is None or self.is_asked(line.values or {})
        return bool(self.name) and asked and not self.only_ends


class Assembler:
    """Base of all assemblers; one instance a bundle.

    Attributes:
        parts: objects whose methods declare what they read, besides the assembler's own.
    """

    part_kinds: ClassVar[tuple[type, ...]] = ()
    """Their classes, in their order."""
    time_passes: ClassVar[tuple[str, ...]] = ()
    """Messages of which nothing is read: they move the time on."""
    shares_queue: ClassVar[bool] = False
    """Its facts leave in one order with those of others."""

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        self.context = registers.context
        self.queue = registers.queue if self.shares_queue else Holdback()
        self.parts: tuple[object, ...] = ()
        if not self.shares_queue:
            registers.waiting_since.append(self._own("waiting_since") or self.queue.waiting_since)

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

    @classmethod
    @cache
    def declared(cls, word: str) -> tuple[Declared, ...]:
        """All that it ``reads``, each message once, or ``takes``."""
        found = {what: Declared(what, 0, "") for what in cls.time_passes if word == "reads"}
        for part, kind in enumerate((cls, *cls.part_kinds)):
            for name in dir(kind):
                method = getattr(kind, name)
                for what in getattr(method, word, ()) if not name.startswith("__") else ():
                    asked, only_ends = getattr(method, "is_asked", None), hasattr(method, "ends")
                    found[what] = Declared(what, part, name, asked, only_ends)
        return tuple(found.values())

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        return self.queue.waiting_since()

    def pass_time(self, now_ns: int) -> Facts:
        """What is due at ``now_ns`` though nothing came."""
        self.before(now_ns)
        return self.queue.release(now_ns)

    def finish(self, ts_ns: int) -> Facts:
        """All facts that still wait; ``ts_ns`` is the bundle's last time."""
        self.end(ts_ns)
        return self.queue.drain()

    def of_line(self, declared: Declared) -> LineHandler:
        """What is to be called with lines of the message."""
        # A line comes to many handlers, and few find anything in it: what most assemblers do not
        # do before and after would take longer than all that they do.
        before, after = (self._own(name) for name in ("before", "after"))
        queue, is_quiet = self.queue, self.is_quiet
        message, part, name, is_asked, only_ends = declared
        method = getattr((self, *self.parts)[part], name) if name else None

        def handle(line: LogLine) -> Facts:
            if only_ends and is_quiet():
                return ()
            ts_ns = line.ts_ns
            is_passed = method is None or (is_asked is not None and not is_asked(line.values or {}))
            if is_passed and before is after is None and queue.is_empty:
                return ()
            if before is not None:
                before(ts_ns, line.pid)
            facts: Facts | None = ()
            if method is not None and not is_passed:
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

    def of_item(self, declared: Declared) -> ItemHandler:
        """What is to be called with items of the type."""
        method = getattr((self, *self.parts)[declared.part], declared.name)

        def handle(item: Item) -> Facts:
            self.before(item.ts_ns)
            method(item)
            return self.queue.release(item.ts_ns)

        return handle


class PodAssembler(Assembler):
    """An assembler about pods, containers or probes: their facts leave in one order."""

    shares_queue = True

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._pods = registers.pods
        self._sync_loop = registers.sync_loop
        self._containers = registers.containers
        self._admissions = registers.admissions


A = TypeVar("A", bound=PodAssembler)
OfPod = Callable[[A, Entry, Pod], Facts | None]


def about_pod(*messages: str) -> Callable[[OfPod[A]], Callable[[A, Entry], Facts | None]]:
    """As ``reads``; the method gets the pod, too, and no entry that names none."""

    def declare(method: OfPod[A]) -> Callable[[A, Entry], Facts | None]:
        @reads(*messages)
        @wraps(method)
        def of_pod(self: A, entry: Entry) -> Facts | None:
            pod = self._pods.of(entry)
            return None if pod is None else method(self, entry, pod)

        return of_pod

    return declare
