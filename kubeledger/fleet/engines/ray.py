"""Tasks on a Ray cluster, or on a small one that is started for the while.

Ray is configured to retry nothing: what is lost comes back here and is started again as on any
engine, so that it is counted, and so that a task that takes more memory than there is ends at last.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kubeledger.fleet.engines.engine import (
    Engine,
    EngineError,
    Lost,
    Outcome,
    Session,
    message_of,
    outcome_of,
    overdue,
)
from kubeledger.fleet.engines.local import processors
from kubeledger.model.errors import BadQuestionError

_STORE_BYTES = 100_000_000
"""For results on their way; larger ones go by the disk."""

_QUEUED = 16
"""Tasks that wait beside those that run: none has to wait for us."""

_KNOCK_S = 10.0

_LOOK_S = 5.0
"""A cluster may grow and shrink meanwhile."""

_GRACE_S = 30.0
"""So long a task that is overdue may clean up before its worker is ended."""


class RayEngine(Engine):
    """Joins the cluster at an address, or at ``$RAY_ADDRESS``, or starts one on this machine."""

    name = "ray"
    one_machine = False

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        """Nothing is started yet.

        Raises:
            BadQuestionError: Ray is not installed.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of it
        try:
            import ray  # noqa: F401 # whether it is there
        except ImportError:
            raise BadQuestionError(
                "Ray is not installed", advice="pip install 'kubeledger[fleet]'"
            ) from None
        self._workers = workers
        self._found: int | None = None
        self._address = address or os.environ.get("RAY_ADDRESS") or None

    @property
    def workers(self) -> int:
        """As configured, else the processors: of the cluster, once it was joined."""
        return self._workers or self._found or processors()

    @contextmanager
    def session(self, function: Callable[[Any], Any], timeout_s: float | None) -> Iterator[Session]:
        """The connection, and what was started for it, end with the context."""
        import ray

        ours = not ray.is_initialized()
        joined = not ours or self._address not in (None, "local")
        if ours:
            self._connect()
        self._found = _processors_of_cluster()
        try:
            # One that was started here has as many processors as there may be workers.
            yield _Cluster(function, self._workers if joined else None, timeout_s)
        finally:
            if ours:
                ray.shutdown()

    def _connect(self) -> None:
        import ray
        from ray._private import worker

        # Ray prints on standard output, between our rows, that a worker died. There is no setting.
        worker._worker_logs_enabled = False
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self._address not in (None, "local"):
                _knock(self._address)
                ray.init(address=self._address, **quiet)
            else:
                ray.init(
                    address="local",
                    num_cpus=self._workers or processors(),
                    include_dashboard=False,
                    object_store_memory=_STORE_BYTES,
                    **quiet,
                )
        except (ImportError, OSError, OverflowError, RuntimeError, ValueError) as error:
            raise EngineError(
                f"Ray cannot be used: {_first_line(error)}",
                advice="look at its address, and that its version and Python's are these",
                file=self._address,
            ) from error


def _knock(address: str) -> None:
    """See whether somebody listens: Ray itself tries for minutes, and reports each attempt."""
    host, _, port = address.rpartition("://")[2].strip("/").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_S).close()


class _Cluster:
    def __init__(
        self, function: Callable[[Any], Any], workers: int | None, timeout_s: float | None
    ) -> None:
        import ray

        attempt: Any = ray.remote(num_cpus=1, max_retries=0)(_attempt)
        shared = ray.put(function)
        self._start: Callable[[Any], Any] = lambda spec: attempt.remote(shared, timeout_s, spec)
        self._workers = workers
        self._room = workers or 0
        self._looked_s = float("-inf")
        self._running: dict[Any, int] = {}

    @property
    def room(self) -> int:
        """As many as configured; else some more than there are processors in the cluster now."""
        if self._workers is None and time.monotonic() - self._looked_s > _LOOK_S:
            self._room = 2 * _processors_of_cluster() + _QUEUED
            self._looked_s = time.monotonic()
        return self._room

    def start(self, number: int, spec: Any) -> None:  # noqa: ANN401 # any spec
        """Let Ray find a worker."""
        self._running[self._start(spec)] = number

    def ended(self) -> Sequence[Outcome]:
        """Wait for one, and take all that are there."""
        import ray

        running = list(self._running)
        ray.wait(running, num_returns=1)
        ended, _ = ray.wait(running, num_returns=len(running), timeout=0)
        return [_outcome(self._running.pop(each), each) for each in ended]


def _outcome(number: int, reference: Any) -> Outcome:  # noqa: ANN401 # Ray's ObjectRef
    """The end of one attempt."""
    import ray
    from ray import exceptions

    try:
        message = ray.get(reference)
    except (
        exceptions.RaySystemError,
        exceptions.RuntimeEnvSetupError,
        exceptions.TaskUnschedulableError,
        exceptions.RayTaskError,
    ) as error:
        raise EngineError(
            f"the workers of the Ray cluster cannot run tasks: {_first_line(error)}",
            advice="they need this version of kubeledger, installed as here",
        ) from error
    except exceptions.RayError as error:
        return Outcome(number, lost=Lost(kind="lost", reason=_why_lost(error)))
    return outcome_of(number, message)


def _attempt(
    function: Callable[[Any], Any],
    timeout_s: float | None,
    spec: Any,  # noqa: ANN401 # any
) -> object:
    """What a worker runs; what it returns is a message, as ``message_of`` has it."""
    try:
        with _at_most(timeout_s):
            return message_of(function, spec)
    except _OverdueError:
        assert timeout_s is not None
        return overdue(timeout_s)


class _OverdueError(BaseException):
    """The time of a task is over; no handler of errors in it may catch that."""


@contextmanager
def _at_most(timeout_s: float | None) -> Iterator[None]:
    """Interrupt the block after some time, and end the process where that does not help."""
    if timeout_s is None:
        yield
        return

    def interrupt(*_: object) -> None:
        raise _OverdueError

    last = threading.Timer(timeout_s + _GRACE_S, os._exit, [1])
    last.daemon = True
    last.start()
    before = signal.signal(signal.SIGALRM, interrupt)  # Ray runs tasks in the main thread
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        last.cancel()


def _processors_of_cluster() -> int:
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _why_lost(error: Exception) -> str:
    from ray import exceptions

    match error:
        case exceptions.OutOfMemoryError():
            return "its machine ran out of memory, and Ray ended the worker"
        case exceptions.NodeDiedError() | exceptions.LocalRayletDiedError():
            return "the worker's machine was lost"
        case exceptions.WorkerCrashedError():
            return "the worker process died, or its machine"
        case exceptions.OutOfDiskError():
            return "the disk of the worker's machine is full"
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    error = (
        getattr(error, "cause", None) or error
    )  # of a RayTaskError, whose own begins with places
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
