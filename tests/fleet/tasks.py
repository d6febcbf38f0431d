"""Functions that workers of all engines can import: those that misbehave, each in its way."""

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.fleet.task import node_task
from kubeledger.fleet.types import NodeResult, NodeSpec
from kubeledger.model.errors import BadQuestionError

_LARGE = 3_000_000


class Order(msgspec.Struct, frozen=True):
    """What a task is to do.

    Attributes:
        number: of the task.
        deed: one of the words of ``obey``.
        mark: a file that is made at the first attempt; None: none.
    """

    number: int
    deed: str = "square"
    mark: str | None = None


def obey(order: Order) -> Any:  # noqa: ANN401 # of many kinds
    """Do what the order says; squares for those that end well."""
    is_first = order.mark is None or not Path(order.mark).exists()
    if order.mark is not None:
        Path(order.mark).touch()
    match order.deed:
        case "exit":
            os._exit(3)
        case "killed once" if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        case "killed while it sends" if is_first:
            Connection._send = _half_sent  # type: ignore[attr-defined] # what all it sends goes through
            return bytes(_LARGE)
        case "hang":
            _hang_whatever_comes()
        case "raise":
            raise LookupError(f"no {order.number}\nand more")
        case "refuse":
            raise BadQuestionError("other rules", advice="install the same")
        case "print":
            os.write(1, b"noise")
            os.write(2, b"noise")
        case "large":
            return bytes(20_000_000)
        case "wait":
            time.sleep(0.3)
        case "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
    return order.number**2


def _half_sent(pipe: Connection, data: memoryview) -> None:
    """More than a pipe holds of what is large, so that somebody has read of it, and death."""
    rest = data[: len(data) // 2] if len(data) > _LARGE else data
    while rest:
        rest = rest[os.write(pipe.fileno(), rest) :]
    if len(data) > _LARGE:
        os.kill(os.getpid(), signal.SIGKILL)


def _hang_whatever_comes() -> None:
    while True:
        try:
            time.sleep(600)
        except Exception:
            continue


def node_task_or_death(spec: NodeSpec) -> NodeResult:
    """The task, but for poisoned sources, of which the worker dies."""
    if "poison" in str(spec.source):
        os._exit(9)
    return node_task(spec)
