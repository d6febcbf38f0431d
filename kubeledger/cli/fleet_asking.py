"""Ask the ledgers of a lake's nodes, on whatever engine, and show how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TypeVar

from kubeledger.cli.fleet_options import watched_results

if TYPE_CHECKING:
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.types import Failure, NodeSpec

__all__ = ["ask_lake"]

S = TypeVar("S")
R = TypeVar("R")


def ask_lake(
    lake: Lake,
    keys: Collection[str],
    question: Callable[[S], R | Failure],
    spec_of: Callable[[NodeSpec], S],
    task_of: Callable[[S], NodeSpec],
    words: str,
    *,
    engine: str,
    address: str | None,
    workers: int | None,
    attempts: int,
    timeout_s: float,
) -> Iterator[tuple[str, R | Failure]]:
    """Key of each node and its answer, or why there is none; as they come.

    Args:
        lake: where the nodes are.
        keys: of the nodes.
        question: what a worker does.
        spec_of: from a node's task to the spec of the question.
        task_of: and back.
        words: what is done to the nodes.
        engine: as the option has it.
        address: as the option has it.
        workers: as the option has it.
        attempts: as the option has it.
        timeout_s: as the option has it.

    Raises:
        KubeledgerError: no task can run.
    """
    import msgspec

    from kubeledger.fleet.ask import ask_nodes
    from kubeledger.fleet.engines.choose import engine_of
    from kubeledger.fleet.rules import rules_version
    from kubeledger.fleet.types import Failure, NodeSpec

    chosen = engine_of(engine, workers=workers, address=address)
    with ExitStack() as stack:
        task = NodeSpec(
            lake=lake.store.url,
            rules=rules_version(),
            started_ns=time.time_ns(),
            scratch=stack.enter_context(chosen.scratch()),
        )
        specs = (spec_of(msgspec.structs.replace(task, node=key)) for key in keys)
        answers = ask_nodes(
            chosen, question, specs, task_of, attempts=attempts, timeout_s=timeout_s
        )
        stack.enter_context(closing(answers))
        for spec, answer in watched_results(
            answers,
            words,
            len(keys),
            lambda each: each[1] if isinstance(each[1], Failure) else None,
        ):
            key = task_of(spec).node
            assert key is not None
            yield key, answer
