"""Questions to the ledgers of a lake's nodes: one task each, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

from kubeledger.fleet.engines.engine import Again, Engine
from kubeledger.fleet.failing import failure_of, refuse_other_rules
from kubeledger.fleet.generation import fetch_ledger
from kubeledger.fleet.lake import Lake, MovedOnError
from kubeledger.fleet.run import failure_of_loss, whether_again
from kubeledger.fleet.scratch import scratch_directory
from kubeledger.fleet.types import Failure, NodeSpec
from kubeledger.model.errors import BadQuestionError

__all__ = ["ask_nodes", "on_ledger"]

S = TypeVar("S")
R = TypeVar("R")

_TURNS = 20
"""Each time that a newer generation takes the place of the one that is fetched, it begins again."""


def on_ledger(task: NodeSpec, answer: Callable[[Path, str], R]) -> R | Failure:
    """What a worker does: fetch a node's ledger, and ask it.

    Args:
        task: of a node of the lake.
        answer: gets the ledger's directory, which is gone afterwards, and the node's name in it.

    Returns:
        its answer, or why there is none.

    Raises:
        OtherRulesError: this worker is of another version than the run, which concerns all tasks.
    """
    refuse_other_rules(task.rules)
    try:
        with scratch_directory(task.scratch) as scratch:
            return answer(*_fetched(task, Lake.open(task.lake), scratch))
    except Exception as error:  # the fleet continues with the other nodes
        return failure_of(task, error)


def _fetched(task: NodeSpec, lake: Lake, scratch: Path) -> tuple[Path, str]:
    assert task.node is not None
    for left in reversed(range(_TURNS)):
        head = lake.head(task.node)
        if head is None:
            raise BadQuestionError(f"the lake knows no node {task.node}", file=task.lake)
        directory = scratch / f"ledger-{left}"
        try:
            fetch_ledger(lake, head, directory)
        except MovedOnError:
            if not left:
                raise
            continue
        return directory, head.summary.name
    raise AssertionError("the last turn returns or raises")


def ask_nodes(
    engine: Engine,
    question: Callable[[S], R | Failure],
    specs: Iterable[S],
    task_of: Callable[[S], NodeSpec],
    *,
    attempts: int,
    timeout_s: float | None,
) -> Generator[tuple[S, R | Failure], None, None]:
    """Ask all nodes; the answers come in any order.

    Args:
        engine: on which.
        question: what a worker does, by ``on_ledger``.
        specs: one a node.
        task_of: the node's task that a spec is about.
        attempts: how often a task is started at most.
        timeout_s: longest time of an attempt; None: none.

    Raises:
        KubeledgerError: no task can run.
    """
    for ended in engine.run(
        question, specs, attempts=attempts, timeout_s=timeout_s, again=_whether_again
    ):
        if ended.lost is not None:
            task = task_of(ended.spec)
            yield ended.spec, failure_of_loss(task, ended.lost, ended.attempts, engine)
        else:
            assert ended.result is not None
            yield ended.spec, ended.result


def _whether_again(answer: object) -> Again:
    return whether_again(answer if isinstance(answer, Failure) else None)
