"""What the commands of a fleet share: options, the run on an engine, and what it did."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from operator import attrgetter
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kubeledger.cli.options import Seconds, option, options_as
from kubeledger.cli.output import counted, printable
from kubeledger.cli.screen import cut, screen_width

if TYPE_CHECKING:
    from kubeledger.fleet.engines.engine import Engine
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.run import Plan
    from kubeledger.fleet.types import Failure, Head, NodeResult, NodeSpec, NodeSummary


_GROUPS_MAX = 3
_NAMED_MAX = 2
_GROUP_LINES = 3
"""Of reason and advice."""

_CHANGES = ("new", "grown", "read by other options", "labelled", "verified again")
"""What may have become of a node; the first one is shown."""

_VERDICTS = ("match", "admissible", "impossible", "unverifiable")


class Tally:
    """What came of a run so far.

    Attributes:
        outcomes: ``imported``, ``unchanged``, ``failed`` -> sources.
        changes: of ``_CHANGES`` -> nodes.
        nodes: key -> summary of each node of the lake, as far as this run has seen it.
    """

    def __init__(self, plan: Plan) -> None:
        self.elsewhere = plan.elsewhere
        self.outcomes = Counter({"unchanged": len(plan.unchanged)})
        self.changes: Counter[str] = Counter()
        self.done = 0
        self.nodes: dict[str, NodeSummary] = {k: head.summary for k, head in plan.heads.items()}
        self.failures: list[Failure] = []
        self._sources = {key: len(head.sources) for key, head in plan.heads.items()}
        self._changed: dict[str, str] = {}

    def counting(self, results: Iterable[NodeResult]) -> Iterator[NodeResult]:
        """The same results, counted as they come."""
        for result in results:
            self.done += 1
            if result.failure is not None:
                self.outcomes["failed"] += 1
                self.failures.append(result.failure)
            elif result.spec.source is not None:
                self.outcomes["imported" if result.changed else "unchanged"] += 1
            for head in result.heads:
                if head.node in result.changed:
                    self._note(head, is_source=result.spec.source is not None)
            yield result

    def _note(self, head: Head, *, is_source: bool) -> None:
        before = self.nodes.get(head.node)
        self.nodes[head.node] = head.summary
        if head.node not in self._sources:
            change = "new"
        elif len(head.sources) > self._sources[head.node]:
            change = "grown"
        elif is_source:
            change = "read by other options"
        else:
            assert before is not None
            labels = {(row.cluster, row.pool) for row in (before, head.summary)}
            change = "labelled" if len(labels) > 1 else "verified again"
        known = self._changed.get(head.node, _CHANGES[-1])
        self._changed[head.node] = min(change, known, key=_CHANGES.index)
        self.changes = Counter(self._changed.values())


def print_summary(tally: Tally, engine: Engine, lake: str, seconds: int) -> None:
    """Sources, nodes, decisions, what failed and why, and what to do next."""
    from kubeledger.cli.get_rows import human_duration

    total = tally.outcomes.total()
    outcomes = _listed(tally.outcomes, ("imported", "unchanged", "failed"))
    words = f"{counted(total, 'source')}: {outcomes}" if total else "no sources"
    took = f", in {human_duration(seconds)}" if tally.done else ""
    _write(f"{words}{took} ({engine.name}, {counted(engine.workers, 'worker')})")
    if tally.elsewhere:
        _write(f"  and {counted(tally.elsewhere, 'source')} of other shards")
    changes = _listed(tally.changes, _CHANGES)
    _write(f"nodes      {changes or 'none changed'}; the lake has {len(tally.nodes):,}")
    _write(f"decisions  {decisions(tally.nodes.values())}")
    print_failures(tally.failures)
    print_next(tally, lake)


def decisions(summaries: Iterable[NodeSummary]) -> str:
    """Verdicts of nodes, in words."""
    counts = Counter({"decisions": 0})
    nodes_impossible = 0
    for each in summaries:
        counts["decisions"] += each.decisions
        counts.update({verdict: getattr(each, verdict) for verdict in (*_VERDICTS, "inferred")})
        nodes_impossible += each.impossible > 0
    parts = [f"{counts[verdict]:,} {verdict}" for verdict in _VERDICTS if counts[verdict]]
    where = f" (on {counted(nodes_impossible, 'node')})" if nodes_impossible else ""
    apart = f"; {counts['inferred']:,} inferred, counted apart" if counts["inferred"] else ""
    return f"{counts['decisions']:,}" + (f": {', '.join(parts)}{where}" if parts else "") + apart


def print_failures(failures: Iterable[Failure]) -> None:
    """Reasons, the most frequent first, each with the first sources that it holds for."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for failure in failures:
        groups[failure.kind, _reason(failure), failure.advice].append(failure.source)
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    for (kind, reason, advice), sources in ranked[:_GROUPS_MAX]:
        width = screen_width()
        # Of a long path something is left out, and never what is wrong with it.
        words = " ".join(cut(word, width // 2) for word in printable(reason).split())
        why = wrap(f"failed ({kind}): {words}", width, max_lines=2, placeholder=" …")
        advised = wrap(
            printable(advice), width - 2, max_lines=_GROUP_LINES - len(why), placeholder=" …"
        )
        begin = f"  {counted(len(sources), 'source')}: "
        named = sorted(sources)[:_NAMED_MAX]
        more = f", {len(sources) - len(named):,} more" if len(sources) > len(named) else ""
        lines_left = (width - len(begin) - len(more)) // len(named) - 2
        names = ", ".join(cut(printable(name), lines_left) for name in named)
        lines = [*why, f"{begin}{names}{more}", *(f"  {line}" for line in advised)]
        click.echo("\n".join(["", *lines]))
    if len(ranked) > _GROUPS_MAX:
        _write(f"and {counted(len(ranked) - _GROUPS_MAX, 'other reason')}; -o csv has all")


def print_next(tally: Tally, lake: str) -> None:
    """Commands that show more."""
    if not tally.nodes:
        return
    where = f"--lake {quote(lake)}"
    asked = "'SELECT * FROM failures'" if tally.failures else "--list"
    commands = (
        f"kubeledger fleet verify {where}",
        f"kubeledger fleet sql {where} {asked}",
        f"kubeledger fleet report {where} --out fleet.html",
    )
    click.echo("\nNext:  " + "\n       ".join(map(printable, commands)))


def _reason(failure: Failure) -> str:
    """Without the source's own name, so that one reason of many sources is one."""
    return failure.reason.removeprefix(failure.source).lstrip("/:! ") or failure.reason


def _listed(counts: Mapping[str, int], names: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]:,} {name}" for name in names if counts.get(name))


def _write(text: str) -> None:
    click.echo(printable(text))


_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")

_LINE_S = 30.0
"""Where no terminal shows a bar, a line each half minute shows progress; the first is sooner."""

_FIRST_LINE_S = 5.0


def _lake(*, required: bool) -> Callable[[_F], _F]:
    return option(
        "--lake URL",
        "The lake: a directory, s3://BUCKET/PREFIX, gs:// or az://.  [default: $KUBELEDGER_LAKE]",
        envvar="KUBELEDGER_LAKE",
        required=required,
    )


lake_option = _lake(required=True)
"""``--lake URL``, passed as ``lake: str``."""
known_lake_option = _lake(required=False)
"""``--lake URL``, passed as ``lake: str | None``, for commands that can do without."""


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
    option(
        "--engine local|ray|ray=ADDRESS",
        "Where the work is done: by processes of this machine, or on Ray.",
        default="local",
    ),
    option("--address ADDRESS", "Of a Ray cluster to join."),
    option("--workers N", "Nodes at once.  [default: one a processor]", type=click.IntRange(min=1)),
    option(
        "--attempts N",
        "For a node whose worker dies, whose storage fails, or that lacks memory.",
        type=click.IntRange(min=1),
        default=3,
    ),
    option(
        "--timeout timeout_s SECONDS",
        "Longest time for a node.",
        type=Seconds(min=0, min_open=True),
        default=3600.0,
        show_default="3600",
    ),
)


engine_options = options_as("running", Running, _ENGINE_OPTIONS)
"""``--engine --address --workers --attempts --timeout``, passed as ``running: Running``."""


@contextmanager
def node_settings(chosen: Engine, lake: str, **known: Any) -> Iterator[NodeSpec]:  # noqa: ANN401 # fields of NodeSpec
    """What the tasks of one run have in common; the scratch place is removed at the end."""
    from kubeledger.fleet.identity import rules_version
    from kubeledger.fleet.types import NodeSpec

    with chosen.scratch() as scratch:
        yield NodeSpec(
            lake=lake, rules=rules_version(), started_ns=time.time_ns(), scratch=scratch, **known
        )


@contextmanager
def watched_run(
    place: Lake, plan: Plan, chosen: Engine, running: Running, words: str
) -> Iterator[tuple[Tally, Iterator[NodeResult]]]:
    """Run a plan: what came of it so far, and its results as they come."""
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
        total: how many results there will be.
        failure_of: why a result is none.
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

    Raises:
        KubeledgerError: no task can run.
    """
    import msgspec

    from kubeledger.fleet.types import Failure
    from kubeledger.fleet.whatif import ask_nodes

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
