"""What a fleet's run did, on one screen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from kubeledger.cli.output import counted, printable
from kubeledger.cli.screen import screen_width
from kubeledger.cli.table import cut

if TYPE_CHECKING:
    from kubeledger.fleet.engines.engine import Engine
    from kubeledger.fleet.run import Plan
    from kubeledger.fleet.types import Failure, Head, NodeResult, NodeSummary

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
        done: how many tasks have ended.
        changes: of ``_CHANGES`` -> nodes.
        nodes: key -> summary of each node of the lake, as far as this run has seen it.
        failures: of the tasks that failed.
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
            printable(advice),
            width - 2,
            max_lines=_GROUP_LINES - len(why),
            placeholder=" …",
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
    """Commands that show more, of those that there are."""
    from kubeledger.cli.fleet import SUBCOMMANDS

    where = f"--lake {quote(lake)}"
    commands = {
        "verify": f"kubeledger fleet verify {where}",
        "sql": f"kubeledger fleet sql {where} --list",
        "report": f"kubeledger fleet report {where} --out fleet.html",
    }
    if tally.failures and "sql" in SUBCOMMANDS:
        commands["sql"] = f"kubeledger fleet sql {where} 'SELECT * FROM failures'"
    if not tally.nodes:
        return
    known = [command for name, command in commands.items() if name in SUBCOMMANDS]
    click.echo("\nNext:  " + "\n       ".join(map(printable, known)))


def _reason(failure: Failure) -> str:
    """Without the source's own name, so that one reason of many sources is one."""
    return failure.reason.removeprefix(failure.source).lstrip("/:! ") or failure.reason


def _listed(counts: Mapping[str, int], names: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]:,} {name}" for name in names if counts.get(name))


def _write(text: str) -> None:
    click.echo(printable(text))
