"""``kubeledger fleet whatif``: every node's observations, decided under other settings."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from kubeledger.cli.fleet_options import (
    Running,
    ask_lake,
    engine_options,
    lake_option,
    print_failures,
)
from kubeledger.cli.options import option, output_option, reports_errors
from kubeledger.cli.output import counted, printable, write_rows
from kubeledger.cli.screen import cut, paged
from kubeledger.cli.whatif import read_configs, variant_options
from kubeledger.cli.why import screen_size
from kubeledger.fleet.types import Failure, NodeSpec, NodeSummary
from kubeledger.fleet.whatif import (
    HARMS,
    HarmCount,
    NodeVariant,
    WhatifSpec,
    added_up,
    variant_names,
    whatif_node,
)

_TOTALS = ("decisions", "same", "changed", "untrusted", "unknown")
_SHOWN = ("changed", "untrusted", "unknown")
_COUNTS = HarmCount.__struct_fields__
_MISSING_SHOWN = 2
_ROWS_MIN = 3
_NAME_MIN = 16
_GAP = 2
"""Columns between two cells."""


class Answer(NamedTuple):
    """A node, and what each variant makes of it, or why that is not known."""

    node: NodeSummary
    answer: list[NodeVariant] | Failure


def write_answers(
    variants: Sequence[str], answers: Sequence[Answer], output: str, *, full: bool
) -> None:
    """Write all of it.

    Args:
        answers: (n,) of the nodes, in any order; those with an answer have v variants.
        output: ``table`` or one that ``write_rows`` takes.
        full: a table of all nodes.
    """
    ordered = sorted(answers, key=_most_changed_first)
    if output == "table":
        with paged(wanted=full):
            _write_table(variants, ordered, full=full)
        return
    harms = [f"{harm}_{name}" for harm in HARMS for name in _COUNTS]
    columns = ("node", "pool", "kubelet_version", "variant", *_TOTALS, *harms, "missing", "failure")
    types = ["JSON" if name == "missing" else "" for name in columns]
    write_rows(columns, _rows(variants, ordered), output, types=types)


def _most_changed_first(answer: Answer) -> tuple[Any, ...]:
    """Those without an answer stand at the end."""
    if isinstance(answer.answer, Failure):
        return (True, 0, 0, 0, answer.node.node)
    most = (max((getattr(v, name) for v in answer.answer), default=0) for name in _ORDER)
    return (False, *(-count for count in most), answer.node.node)


_ORDER = ("harm_changes", "changed", "untrusted")


def _rows(variants: Sequence[str], answers: Sequence[Answer]) -> Iterator[tuple[Any, ...]]:
    for node, answer in answers:
        about = (node.node, node.pool, next(reversed(node.kubelet_versions), None))
        if isinstance(answer, Failure):
            empty = (None,) * (len(_TOTALS) + len(HARMS) * len(_COUNTS) + 2)
            yield (*about, *empty, answer.reason)
            continue
        for name, variant in zip(variants, answer, strict=True):
            totals = (getattr(variant, total) for total in _TOTALS)
            harms = (getattr(variant.harms[harm], count) for harm in HARMS for count in _COUNTS)
            yield (*about, name, *totals, *harms, variant.missing, None)


def _write_table(variants: Sequence[str], answers: Sequence[Answer], *, full: bool) -> None:
    width, height = screen_size()
    known = [(node, each) for node, each in answers if isinstance(each, list)]
    failures = [each for _, each in answers if isinstance(each, Failure)]
    sums = [added_up([answer[at] for _, answer in known]) for at in range(len(variants))]
    changed = [(node, each) for node, each in known if full or any(v.changed for v in each)]
    heads = _heads(variants, sums, len(known), width)
    notes = _notes(sums, width)
    # Head and rule of the table, blank lines, what is left out, and a failure.
    lines_left = height - len(heads) - len(notes) - 6 - 4 * bool(failures)
    shown = changed if full else changed[: max(lines_left, _ROWS_MIN)]
    for line in heads:
        click.echo(line)
    click.echo()
    _write_nodes(sums, shown, width)
    left, same = len(changed) - len(shown), len(known) - len(changed)
    if left:
        click.echo(f"and {counted(left, 'node')} more where something changes; --full shows all")
    if same:
        click.echo(f"nothing would surely have differed on {counted(same, 'node')}")
    for note in notes:
        click.echo(note)
    print_failures(failures)


def _heads(
    variants: Sequence[str], sums: Sequence[NodeVariant], nodes: int, width: int
) -> list[str]:
    """The variants, numbered as they stand side by side, and what was recorded."""
    numbers = [f"{number}: " for number in range(1, len(variants) + 1)]
    lines = [
        f"{number if len(variants) > 1 else ''}{printable(name)}"
        for number, name in zip(numbers, variants, strict=True)
    ]
    recorded = ", ".join(f"{sums[0].harms[harm].recorded:,} {_words(harm)}" for harm in HARMS)
    words = f"recorded on {counted(nodes, 'node')}: {recorded}"
    return [*lines, *textwrap.wrap(words, width, subsequent_indent="  ")]


def _write_nodes(
    sums: list[NodeVariant], nodes: Sequence[tuple[NodeSummary, list[NodeVariant]]], width: int
) -> None:
    """A row for all nodes and one for each; the variants stand side by side in each cell."""
    harms = [harm for harm in HARMS if any(v.harms[harm].gone + v.harms[harm].added for v in sums)]
    counts = [
        (
            *(_cell([variant.harms[harm] for variant in each]) for harm in harms),
            *(_joined([getattr(variant, total) for variant in each]) for total in _SHOWN),
        )
        for each in (sums, *(each for _, each in nodes))
    ]
    heads = (*map(_words, harms), *_SHOWN)
    # Counts are never cut; pools are left out before a name is.
    taken = sum(
        max(len(str(cell)) for cell in column) + _GAP for column in zip(heads, *counts, strict=True)
    )
    named = [("all", ""), *((node.node, node.pool or "") for node, _ in nodes)]
    pool = max(len(pool) for _, pool in named)
    lines_left = max(width - taken, _NAME_MIN)
    pools = bool(pool) and max(len(name) for name, _ in named) + pool + _GAP <= lines_left
    names = [cut(printable(name), lines_left - (pool + _GAP) * pools) for name, _ in named]
    rows = (
        (name, *([node_pool] if pools else []), *cells)
        for name, (_, node_pool), cells in zip(names, named, counts, strict=True)
    )
    write_rows(("node", *(["pool"] if pools else []), *heads), rows, "table")


def _words(harm: str) -> str:
    return harm.replace("_", " ").replace("oom", "OOM")


def _cell(counts: Sequence[HarmCount]) -> str | int:
    """``34``, or ``34→33|20``: as recorded, and under each variant."""
    recorded = counts[0].recorded
    under = [count.under_variant for count in counts]
    return recorded if set(under) == {recorded} else f"{recorded}→{_joined(under)}"


def _joined(counts: Sequence[int]) -> str | int:
    return counts[0] if len(set(counts)) == 1 else "|".join(map(str, counts))


def _notes(sums: Sequence[NodeVariant], width: int) -> list[str]:
    """What is not known, and what counts as untrusted."""
    notes = []
    if any(each.untrusted for each in sums):
        words = "untrusted: after a change, where later inputs would have differed"
        notes.append(words)
    missing = added_up(sums).missing
    ranked = sorted(missing.items(), key=lambda item: (-item[1], item[0]))
    for what, _ in ranked[:_MISSING_SHOWN]:
        most = max(each.missing.get(what, 0) for each in sums)
        lack = f"{counted(most, 'decision')} {'lacks' if most == 1 else 'lack'}"
        notes.append(cut(f"unknown: {lack} {printable(what)}", width))
    return notes


_FAILED = 1


@click.command(epilog="Example: kubeledger fleet whatif --lake /data/lake --set 'maxPods=110|250'")
@lake_option
@variant_options
@engine_options
@option("--full", "All nodes, also those where nothing changes.")
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def whatif(
    lake: str,
    settings: tuple[str, ...],
    versions: tuple[str, ...],
    configs: tuple[str, ...],
    full: bool,
    output: str,
    running: Running,
) -> None:
    """Replay the observations of all nodes under other settings, and count what changes.

    Counted are pods evicted, processes killed for memory, containers killed by liveness and
    startup probes, pods preempted, pods refused and images deleted: as recorded, and as they
    surely would have been under each variant. What follows a change was observed in a world
    in which the recorded decision had been taken: it is counted as untrusted, and what lacks an
    input as unknown. `kubeledger whatif` of one node shows each decision and why.

    The table has the nodes that change most; --full and the other forms have all, with a row a
    node and variant. A node that cannot be asked is a row with the reason; then the exit code
    is 1.
    """
    from kubeledger.fleet.lake import Lake

    documents = tuple(read_configs(configs))
    names = variant_names(settings, versions, documents)
    place = Lake.open(lake)
    nodes = {key: head.summary for key, head in place.heads().items()}

    def spec_of(task: NodeSpec) -> WhatifSpec:
        return WhatifSpec(task=task, settings=settings, versions=versions, configs=documents)

    asked = ask_lake(
        place, nodes, whatif_node, spec_of, lambda spec: spec.task, "replaying", running
    )
    answers = [Answer(nodes[key], answer) for key, answer in asked]
    write_answers(names, answers, output, full=full)
    if any(isinstance(each.answer, Failure) for each in answers):
        sys.exit(_FAILED)
