"""Tasks in processes of this machine, each of which can die without harm to the others.

A pool whose workers share a pipe or a lock is lost as a whole when one of them is killed while it
holds it: so the standard library's, and so pebble's where a worker dies while it sends a large
result. Here each worker has a pipe of its own, and its end is seen by the end of its process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from kubeledger.fleet.engines.engine import (
    Engine,
    EngineError,
    Lost,
    Outcome,
    Session,
    bug_of,
    message_of,
    outcome_of,
    overdue,
)

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

_STARTS = 6
"""So many workers in a row that die before they are ready are no accident."""


class LocalEngine(Engine):
    """A pool of processes on this machine."""

    name = "local"
    one_machine = True

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or processors()

    @property
    def workers(self) -> int:
        """As configured, else one a processor."""
        return self._workers

    @contextmanager
    def session(self, function: Callable[[Any], Any], timeout_s: float | None) -> Iterator[Session]:
        """Workers start with the first tasks, and are killed in the end."""
        pool = _Pool(function, self._workers, timeout_s)
        try:
            yield pool
        finally:
            pool.kill()


def processors() -> int:
    """How many of the machine's processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    is_ready: bool = False
    task: tuple[int, Any] | None = None
    deadline_s: float | None = None


class _Pool:
    def __init__(
        self, function: Callable[[Any], Any], workers: int, timeout_s: float | None
    ) -> None:
        self._function = function
        self._timeout_s = timeout_s
        self._workers: list[_Worker] = []
        self._failed_starts = 0
        self.room = workers

    def start(self, number: int, spec: Any) -> None:  # noqa: ANN401 # any spec
        """Give the task to a worker that has none, or to a new one."""
        worker = next((each for each in self._workers if each.task is None), None)
        if worker is None:
            worker = self._hired()
        worker.task = (number, spec)
        if worker.is_ready:
            self._send(worker)

    def ended(self) -> Sequence[Outcome]:
        """Wait for messages, ends of processes and deadlines."""
        while True:
            busy = [worker for worker in self._workers if worker.task is not None]
            pipes: list[Any] = [worker.pipe for worker in busy]
            wait([*pipes, *(worker.process.sentinel for worker in busy)], self._patience_s(busy))
            outcomes = [outcome for worker in busy if (outcome := self._outcome(worker))]
            if outcomes:
                return outcomes

    def kill(self) -> None:
        """End all workers, whatever they do; what they write counts only when it is committed."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            self._bury(worker)
        self._workers.clear()

    def _hired(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(
            target=_serve, args=(self._function, there), name="kubeledger-worker", daemon=True
        )
        try:
            with _interrupts_held():
                process.start()
        except OSError as error:
            here.close()
            raise EngineError(
                f"no worker can be started: {error.strerror or error}",
                advice="give fewer --workers",
            ) from error
        finally:
            there.close()
        worker = _Worker(process=process, pipe=here)
        self._workers.append(worker)
        return worker

    def _send(self, worker: _Worker) -> None:
        assert worker.task is not None
        try:
            worker.pipe.send(worker.task[1])
        except OSError:
            return  # it died while it had nothing to do; that is seen by the end of its process
        if self._timeout_s is not None:
            worker.deadline_s = time.monotonic() + self._timeout_s

    def _patience_s(self, busy: list[_Worker]) -> float | None:
        deadlines = [each.deadline_s for each in busy if each.deadline_s is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _outcome(self, worker: _Worker) -> Outcome | None:
        """How a worker's task ended; None where it continues."""
        assert worker.task is not None
        number, _ = worker.task
        if worker.pipe.poll():
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                return self._died(worker)
            except Exception as error:  # what a result is unpickled by
                worker.task = worker.deadline_s = None
                return Outcome(number, lost=bug_of(error))
            if not worker.is_ready:
                worker.is_ready = True
                self._failed_starts = 0
                self._send(worker)
                return None
            worker.task = worker.deadline_s = None
            return outcome_of(number, message)
        if not worker.process.is_alive():
            return self._died(worker)
        if worker.deadline_s is not None and time.monotonic() >= worker.deadline_s:
            self._dismiss(worker)
            assert self._timeout_s is not None
            return Outcome(number, lost=overdue(self._timeout_s))
        return None

    def _died(self, worker: _Worker) -> Outcome | None:
        """The task is lost, unless it had not begun: then another worker gets it."""
        assert worker.task is not None
        code = self._dismiss(worker)
        how = f"signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"
        if worker.is_ready:
            lost = Lost(kind="lost", reason=f"the worker process died ({how})")
            return Outcome(worker.task[0], lost=lost)
        self._failed_starts += 1
        if self._failed_starts >= _STARTS:
            raise EngineError(
                f"workers die before their first task ({how})",
                advice="look at free memory; `--workers 1` needs least",
            )
        self._hired().task = worker.task
        return None

    def _dismiss(self, worker: _Worker) -> int:
        """Remove a worker; returns the exit code of its process."""
        self._workers.remove(worker)
        worker.process.kill()
        return self._bury(worker)

    def _bury(self, worker: _Worker) -> int:
        worker.process.join()
        code = worker.process.exitcode
        worker.pipe.close()
        worker.process.close()
        return code or 0


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that is started here never hears Ctrl-C, not even before it runs our code.

    It is for the process that started it, and would end in a traceback on the screen.
    """
    resource_tracker.ensure_running()  # its start, else within the block, would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Life of a worker: it ends with its pipe, and with the process that started it."""
    _silence()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe.send(None)
    while True:
        try:
            spec = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(message_of(function, spec))
        except OSError:
            return
        except Exception as error:  # the result cannot be pickled
            pipe.send(bug_of(error))


def _silence() -> None:
    """Discard what libraries write: the screen belongs to the process that started this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
