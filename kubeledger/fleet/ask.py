"""Questions to the ledgers of a lake's nodes: one task each, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from kubeledger.fleet.engines.engine import Again, Engine
from kubeledger.fleet.failing import failure_of, refuse_other_rules
from kubeledger.fleet.generation import fetch_ledger
from kubeledger.fleet.lake import Lake, in_turns
from kubeledger.fleet.run import failure_of_loss, whether_again
from kubeledger.fleet.scratch import scratch_directory
from kubeledger.fleet.types import Failure, NodeSpec

S = TypeVar("S")
R = TypeVar("R")


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
            return in_turns(partial(_asked, task, answer), scratch)
    except Exception as error:  # the fleet continues with the other nodes
        return failure_of(task, error)


def _asked(task: NodeSpec, answer: Callable[[Path, str], R], scratch: Path) -> R:
    assert task.node is not None
    lake = Lake.open(task.lake)
    head = lake.node(task.node)
    fetch_ledger(lake, head, scratch / "ledger")
    return answer(scratch / "ledger", head.summary.name)


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
        question: what a worker does, by ``on_ledger``.
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
