"""What all engines do: keep some tasks running, try lost ones again, hand over what comes.

    specs ─► taken when there is room ─► a worker ─► Ended(result)
                     ▲                       │
                     └── at the end, again ◄─┴─ lost; after some attempts Ended(lost)

An engine says how tasks start and end (``Session``); which of them run when is decided here, so
that it is the same on all. A task may run twice, even at once, where a machine that is thought
to be lost continues: it must be one that may.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from kubeledger.fleet.sealed import scratch_directory
from kubeledger.model.errors import KubeledgerError

S = TypeVar("S")
R = TypeVar("R")

ENGINES = ("local", "ray")
ATTEMPTS = 3
"""How often a task is tried whose worker is lost, unless set otherwise."""


Again = Literal["no", "later", "alone"]
"""Whether a task is tried again: when all others were started; ``alone``: its last attempt while
no other runs on the machine."""


class EngineError(KubeledgerError):
    """No task can run, whatever it is: no workers, or none that could."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Why a task has no result.

    Attributes:
        kind: ``lost`` (its worker died, each time), ``timeout``, ``bug`` (it raised).
        reason: one sentence.
    """

    kind: Literal["lost", "timeout", "bug"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[S, R]):
    """What became of a task: a result, or why there is none; and how often it was started."""

    spec: S
    result: R | None = None
    lost: Lost | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of one attempt at a task: ``value`` counts where nothing was lost."""

    number: int
    value: Any = None
    lost: Lost | None = None


class Session(Protocol):
    """Workers that are ready for one function's tasks."""

    @property
    def room(self) -> int:
        """How many tasks may be started and not ended, now; at least one."""

    def start(self, number: int, spec: Any) -> None:  # noqa: ANN401 # any spec
        """Begin a task, known by its number from now on."""

    def ended(self) -> Sequence[Outcome]:
        """Wait until a task has ended at least; tasks that run no more are not named again."""


@dataclass(slots=True)
class _Task:
    spec: Any
    attempts: int = 0
    alone: bool = False


@dataclass(slots=True)
class _Tasks:
    """Tasks in the order of their start: those that are new, then those that are tried again."""

    new: Iterator[Any]
    again: deque[_Task] = field(default_factory=deque)

    def next(self) -> _Task | None:
        task = next((_Task(spec) for spec in self.new), None)
        if task is None and self.again:
            task = self.again.popleft()
        if task is not None:
            task.attempts += 1
        return task


class Engine(ABC):
    """Runs a function over many specs.

    Attributes:
        one_machine: the workers share a machine's memory and disk. A task whose workers died then
            gets its last attempt while nothing else runs, for memory is the likely reason.
    """

    name: str
    one_machine: bool

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks run at once."""

    @abstractmethod
    def session(
        self, function: Callable[[Any], Any], timeout_s: float | None
    ) -> AbstractContextManager[Session]:
        """Workers for a function; they are gone when the context ends, whatever they do.

        Raises:
            EngineError: there can be none.
        """

    @contextmanager
    def scratch(self) -> Iterator[str | None]:
        """A directory for the tasks' work, gone in the end, whatever killed workers left in it.

        What a run left that was killed itself, the next one removes. None where the workers are
        not on this machine: each has its own default.
        """
        if not self.one_machine:
            yield None
            return
        with scratch_directory(None) as path:
            yield str(path)

    def run(
        self,
        function: Callable[[S], R],
        specs: Iterable[S],
        *,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
        again: Callable[[R], Again] = lambda _: "no",
    ) -> Generator[Ended[S, R]]:
        """Run ``function(spec)`` for each; what comes is handed over as it comes.

        Closing the generator, or an exception in it, ends all workers at once.

        Args:
            function: of a module that workers can import; may run twice for one spec.
            specs: taken one by one, when there is room.
            attempts: how often a task is started at most, at least 1: it is started again when
                its worker dies, and when its result says so.
            timeout_s: longest time of an attempt, which is not tried again; None: none.
            again: whether another attempt may give a better result.

        Raises:
            KubeledgerError: what a task raised of this kind, for it concerns all of them.
            EngineError: no task can run.
        """
        with self.session(function, timeout_s) as session:
            yield from self._run(session, _Tasks(iter(specs)), attempts, again)

    def _run(
        self, session: Session, tasks: _Tasks, attempts: int, again: Callable[[Any], Again]
    ) -> Iterator[Ended[Any, Any]]:
        running: dict[int, _Task] = {}
        numbers = count()
        ended: list[Ended[Any, Any]] = []
        task = tasks.next()
        while True:
            while task is not None and self._fits(task, running.values(), session.room, attempts):
                number = next(numbers)
                running[number] = task
                session.start(number, task.spec)
                task = tasks.next()
            yield from ended  # only now: the workers have something to do meanwhile
            ended.clear()
            if not running:
                return
            for outcome in session.ended():
                one = running.pop(outcome.number)
                lost = outcome.lost
                if lost is None:
                    whether = again(outcome.value) if one.attempts < attempts else "no"
                else:
                    whether = "alone" if lost.kind == "lost" else "no"
                if whether != "no" and one.attempts < attempts:
                    one.alone = whether == "alone"
                    tasks.again.append(one)
                    continue
                ended.append(
                    Ended(spec=one.spec, result=outcome.value, lost=lost, attempts=one.attempts)
                )
            task = task or tasks.next()

    def _fits(self, task: _Task, running: Collection[_Task], room: int, attempts: int) -> bool:
        """Whether a task may start beside those that run."""

        def needs_all(one: _Task) -> bool:
            return one.alone and one.attempts == attempts

        if self.one_machine and any(map(needs_all, running)):
            return False
        if self.one_machine and needs_all(task):
            return not running
        return len(running) < room


def message_of(function: Callable[[Any], Any], spec: Any) -> object:  # noqa: ANN401 # any spec
    """Do a task in its worker: a tuple of the result, a ``Lost``, or an error that concerns all."""
    try:
        return (function(spec),)
    except KubeledgerError as error:
        return error.with_traceback(None)
    except Exception as error:
        return bug_of(error)


def outcome_of(number: int, message: Any) -> Outcome:  # noqa: ANN401 # as it was sent
    """What the message of a worker says of a task.

    Raises:
        KubeledgerError: what it is concerns all tasks.
    """
    if isinstance(message, KubeledgerError):
        raise message
    if isinstance(message, Lost):
        return Outcome(number, lost=message)
    return Outcome(number, value=message[0])


def bug_of(error: BaseException) -> Lost:
    """The loss of a task that raised, with the place where it did."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "?")
        place = f" ({name}:{trace.tb_lineno})"
        trace = trace.tb_next
    words = " ".join(str(error).split())[:300]
    named = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return Lost(kind="bug", reason=f"{named}{place}")


def overdue(timeout_s: float) -> Lost:
    """The loss of a task that took too long."""
    return Lost(kind="timeout", reason=f"it took longer than {timeout_s:,g} s")
