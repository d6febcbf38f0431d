"""What the commands of a fleet share: options, the run on an engine, and how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kubeledger.cli.options import Seconds, options_as
from kubeledger.cli.output import counted

if TYPE_CHECKING:
    from kubeledger.cli.fleet_summary import Tally
    from kubeledger.fleet.engines.engine import Engine
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.run import Plan
    from kubeledger.fleet.types import Failure, NodeResult, NodeSpec

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")

_LINE_S = 30.0
"""Where no terminal shows a bar, a line each half minute shows progress; the first is sooner."""

_FIRST_LINE_S = 5.0


def lake_option(function: _F) -> _F:
    """``--lake URL``, passed as ``lake: str``."""
    return _lake(required=True)(function)


def known_lake_option(function: _F) -> _F:
    """``--lake URL``, passed as ``lake: str | None``, for commands that can do without."""
    return _lake(required=False)(function)


def _lake(*, required: bool) -> Callable[[_F], _F]:
    return click.option(
        "--lake",
        envvar="KUBELEDGER_LAKE",
        required=required,
        metavar="URL",
        help="The lake: a directory, s3://BUCKET/PREFIX, gs:// or az://."
        "  [default: $KUBELEDGER_LAKE]",
    )


class Running(NamedTuple):
    """Where and how the work on the nodes is done, as the options of engines say."""

    engine: str
    address: str | None
    workers: int | None
    attempts: int
    timeout_s: float

    def chosen(self) -> Engine:
        """The engine.

        Raises:
            BadQuestionError: there is none of that name.
        """
        from kubeledger.fleet.engines.choose import engine_of

        return engine_of(self.engine, workers=self.workers, address=self.address)


_ENGINE_OPTIONS = (
    click.option(
        "--engine",
        default="local",
        show_default=True,
        metavar="local|ray|ray=ADDRESS",
        help="Where the work is done: by processes of this machine, or on Ray.",
    ),
    click.option("--address", metavar="ADDRESS", help="Of a Ray cluster to join."),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Nodes at once.  [default: one a processor]",
    ),
    click.option(
        "--attempts",
        type=click.IntRange(min=1),
        default=3,
        show_default=True,
        metavar="N",
        help="For a node whose worker dies, whose storage fails, or that lacks memory.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=Seconds(min=0, min_open=True),
        default=3600.0,
        show_default="3600",
        metavar="SECONDS",
        help="Longest time for a node.",
    ),
)


def engine_options(function: Callable[..., None]) -> Callable[..., None]:
    """``--engine --address --workers --attempts --timeout``, passed as ``running: Running``."""
    return options_as("running", Running, _ENGINE_OPTIONS)(function)


@contextmanager
def node_settings(chosen: Engine, lake: str, **known: Any) -> Iterator[NodeSpec]:  # noqa: ANN401 # fields of NodeSpec
    """What the tasks of one run have in common; the scratch place is removed at the end."""
    from kubeledger.fleet.rules import rules_version
    from kubeledger.fleet.types import NodeSpec

    with chosen.scratch() as scratch:
        yield NodeSpec(
            lake=lake,
            rules=rules_version(),
            started_ns=time.time_ns(),
            scratch=scratch,
            **known,
        )


@contextmanager
def watched_run(
    place: Lake, plan: Plan, chosen: Engine, running: Running, words: str
) -> Iterator[tuple[Tally, Iterator[NodeResult]]]:
    """Run a plan: what came of it so far, and its results as they come.

    Args:
        plan: the tasks.
        running: as the options have it.
        words: what is done to the nodes.
    """
    from kubeledger.cli.fleet_summary import Tally
    from kubeledger.fleet.run import run_plan
    from kubeledger.fleet.task import node_task

    tally = Tally(plan)
    attempts, timeout_s = running.attempts, running.timeout_s
    with closing(
        run_plan(place, plan, chosen, node_task, attempts=attempts, timeout_s=timeout_s)
    ) as results:
        watched = watched_results(results, words, len(plan.specs), attrgetter("failure"))
        yield tally, tally.counting(watched)


def watched_results(
    results: Iterable[_R],
    words: str,
    total: int,
    failure_of: Callable[[_R], Failure | None],
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[_R]:
    """The same results; how far they are is shown on standard error meanwhile.

    On a terminal a bar shows it, elsewhere a line now and then.

    Args:
        results: as they come.
        words: what is done to the nodes.
        total: how many results there will be.
        failure_of: why a result is none.
        now_s: a clock.
    """
    from kubeledger.cli.get_rows import human_duration
    from kubeledger.cli.progress import progress

    began_s = now_s()
    written_s = began_s + _FIRST_LINE_S - _LINE_S
    done = failed = 0
    with progress(words) as bar:
        bar.unit, bar.done, bar.total = "node", 0, total
        for result in results:
            done += 1
            failed += failure_of(result) is not None
            left = human_duration(round((now_s() - began_s) / done * (total - done)))
            left = f", about {left} left" if done < total else ""
            bar.done, bar.remark = done, f", {failed:,} failed{left}"
            if not sys.stderr.isatty() and now_s() - written_s >= _LINE_S:
                written_s = now_s()
                click.echo(f"{done:,} of {counted(total, 'node')}{bar.remark}", err=True)
            yield result


S = TypeVar("S")
R = TypeVar("R")


def ask_lake(
    lake: Lake,
    keys: Collection[str],
    question: Callable[[S], R | Failure],
    spec_of: Callable[[NodeSpec], S],
    task_of: Callable[[S], NodeSpec],
    words: str,
    running: Running,
) -> Iterator[tuple[str, R | Failure]]:
    """Key of each node and its answer, or why there is none; as they come.

    Args:
        question: what a worker does.
        task_of: and back.
        words: what is done to the nodes.
        running: as the options have it.

    Raises:
        KubeledgerError: no task can run.
    """
    import msgspec

    from kubeledger.fleet.ask import ask_nodes
    from kubeledger.fleet.types import Failure

    chosen = running.chosen()
    attempts, timeout_s = running.attempts, running.timeout_s
    with node_settings(chosen, lake.store.url) as task:
        specs = (spec_of(msgspec.structs.replace(task, node=key)) for key in keys)
        with closing(
            ask_nodes(chosen, question, specs, task_of, attempts=attempts, timeout_s=timeout_s)
        ) as answers:
            for spec, answer in watched_results(
                answers,
                words,
                len(keys),
                lambda each: each[1] if isinstance(each[1], Failure) else None,
            ):
                key = task_of(spec).node
                assert key is not None
                yield key, answer
