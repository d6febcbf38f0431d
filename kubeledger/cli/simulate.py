"""``kubeledger simulate``: a node that is not there, on a virtual clock, into a ledger."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kubeledger.cli.options import ledger_option, option, output_file, output_option, reports_errors
from kubeledger.cli.output import counted, printable, write_document, write_rows
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_go_duration, parse_go_duration
from kubeledger.model.wire.codec import GENESIS, encode_line
from kubeledger.replay import refresh_snapshots

if TYPE_CHECKING:
    from kubeledger.simulate.engine.plan import Plan
    from kubeledger.simulate.scenario.load import Loaded


_BATCH = 5_000
_ADVICE = "give another --node or --ledger, or the scenario and seed that made it"


def into_ledger(
    records: Iterator[Record], directory: Path, node: str, added: list[int]
) -> Iterator[Record]:
    """Write records as they are taken; all are on disk when the last was taken.

    Args:
        records: of one node, numbered from 1.
        directory: of the ledger, made if need be; removed again if nothing came into it.
        added: one number: how many were written.

    Yields:
        every record, those that were there already too.

    Raises:
        BadQuestionError: the ledger holds other records of that node; nothing is written.
        KubeledgerError: the ledger cannot be written.
    """
    was_there = directory.exists()
    ledger = Ledger.open_or_create(directory)
    try:
        with ledger.writer() as writer:
            yield from _compare(ledger, records, node)
            while batch := list(islice(records, _BATCH)):
                _append(writer, node, batch)
                added[0] += len(batch)
                yield from batch
    except BaseException:
        if not was_there and not ledger.nodes():
            shutil.rmtree(directory, ignore_errors=True)
        raise
    if added[0]:
        refresh_snapshots(ledger, node)


def _append(writer: LedgerWriter, node: str, batch: list[Record]) -> None:
    writer.append(node, [Draft(each.ts_ns, each.body, each.evidence, each.cause) for each in batch])


def _compare(ledger: Ledger, records: Iterator[Record], node: str) -> Iterator[Record]:
    """Take as many records as the ledger holds of the node, and see that they are the same."""
    if node not in ledger.nodes():
        return
    digest = GENESIS
    for raw in ledger.raw_lines(node):
        record = next(records, None)
        line, digest = encode_line(record, digest) if record is not None else (b"", digest)
        if record is None or line != raw.line:
            text = f"{ledger.path} holds another history of {node}: record {raw.seq} differs"
            raise BadQuestionError(text, advice=_ADVICE)
        yield record


_BAD_INPUT = 3


@click.command(epilog="Example: kubeledger simulate node.yaml --ledger ./simulated")
@click.argument("scenario", metavar="SCENARIO", type=click.Path(path_type=Path, readable=False))
@ledger_option
@option(
    "--out FILE",
    "Write this *.ledger.jsonl[.zst] (in place of a ledger, unless --ledger is given too); "
    "- is standard output.",
    type=output_file,
)
@option("--seed N", "Another seed.", type=click.IntRange(0, 2**63 - 1))
@option("--duration D", "Another duration, e.g. 30m or 24h.")
@option("--node NAME", "Another name.")
@option("--every-tick", "Write each probe tick; else equal ones fold.")
@option("--check", "Only check the scenario.")
@option("-q --quiet", "Print only the totals.")
@output_option("table", "json")
@click.pass_context
@reports_errors
def simulate(
    context: click.Context,
    scenario: Path,
    ledger: Path,
    out: Path | None,
    seed: int | None,
    duration: str | None,
    node: str | None,
    every_tick: bool,
    check: bool,
    quiet: bool,
    output: str,
) -> None:
    """Run a scenario, and write what its node does as records like a real node's.

    SCENARIO is a file, or `-` for standard input; what it refers to is looked for beside it.
    The same scenario and seed give the same records on any machine. A run that was killed is
    continued: what the ledger holds already is compared and not written again.
    """
    from kubeledger.cli.files import STANDARD_OUTPUT, is_standard
    from kubeledger.simulate.scenario.plan import to_plan

    if is_standard(out) and output != "table":
        raise BadQuestionError(f"records and totals cannot both go to {STANDARD_OUTPUT}")
    duration_ns = _duration(duration)
    plan = to_plan(
        _loaded(scenario),
        seed=seed,
        duration_ns=duration_ns,
        node=node,
        every_tick=every_tick or None,
    )
    if check:
        _print_contents(plan, output)
        return
    given = context.get_parameter_source("ledger") is ParameterSource.COMMANDLINE
    directory = ledger if given or out is None else None
    counts, added = _run(plan, directory, out)
    if not is_standard(out):
        _print(plan, counts, added, quiet=quiet, output=output)
    if output != "table":
        return
    if directory is not None:
        click.echo(f"{counted(added, 'record')} added to {directory}", err=is_standard(out))
    if out is not None:
        where = STANDARD_OUTPUT if is_standard(out) else out
        click.echo(f"{counted(counts.total(), 'record')} in {where}", err=is_standard(out))


def _duration(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        ns = parse_go_duration(text)
    except ValueError:
        ns = 0
    if not 0 < ns < 2**63:
        raise BadQuestionError(f"{text!r} is not a duration", advice="write e.g. 90s, 30m or 24h")
    return ns


def _loaded(scenario: Path) -> Loaded:
    from kubeledger.cli.files import STANDARD_INPUT, is_standard, read_input
    from kubeledger.simulate.scenario.load import load_scenario
    from kubeledger.simulate.scenario.problems import ScenarioError
    from kubeledger.simulate.scenario.validate import BYTES_MAX

    try:
        if is_standard(scenario):
            return load_scenario(STANDARD_INPUT, read_input("-", BYTES_MAX))
        return load_scenario(scenario)
    except ScenarioError as error:
        _show(error)
        sys.exit(_BAD_INPUT)


def _show(error: Exception) -> None:
    from kubeledger.simulate.scenario.problems import ScenarioError

    assert isinstance(error, ScenarioError)
    for problem in error.problems:
        where = f"{problem.path}: " if problem.path else ""
        click.echo(printable(f"error: {problem.place}: {where}{problem.message}"), err=True)
        if problem.advice:
            click.echo(printable(f"  hint: {problem.advice}"), err=True)
    click.echo(f"{counted(len(error.problems), 'problem')}: nothing was run", err=True)


def _print_contents(plan: Plan, output: str) -> None:
    if output == "json":
        data = {
            "node": plan.node.name,
            "kubelet": plan.kubelet_version,
            "seed": plan.seed,
            "duration_ns": plan.duration_ns,
            "pods": len(plan.pods),
            "images": len(plan.images),
            "device_plugins": len(plan.plugins),
        }
        write_document(data)
        return
    parts = [
        f"kubelet {plan.kubelet_version}",
        counted(len(plan.pods), "pod"),
        counted(len(plan.images), "image"),
        counted(len(plan.plugins), "device plugin"),
    ]
    end = format_go_duration(plan.duration_ns)
    click.echo(f"{plan.node.name}: {', '.join(parts)}, {end}: the scenario is sound")


def _run(plan: Plan, directory: Path | None, out: Path | None) -> tuple[Counter[str], int]:
    """Records by kind, and how many were new to the ledger."""
    from kubeledger.cli.files import write_lines_to
    from kubeledger.cli.progress import progress
    from kubeledger.ledger.standalone import encode_recording
    from kubeledger.simulate.engine.sim import Sim

    counts: Counter[str] = Counter()
    added = [0]
    with progress("simulating") as bar:
        bar.unit, bar.total = "second", plan.duration_ns // NS_PER_S

        def counted_records() -> Iterator[Record]:
            for record in Sim(plan).run():
                counts[record.kind] += 1
                bar.done = (record.ts_ns - plan.start_ns) // NS_PER_S
                yield record

        records = counted_records()
        if directory is not None:
            records = into_ledger(records, directory, plan.node.name, added)
        if out is not None:
            write_lines_to(out, encode_recording(records))
        else:
            for _ in records:
                pass
    return counts, added[0]


_HAPPENED = {
    "lifecycle.PodAdmitted": "pods admitted", "lifecycle.PodRejected": "pods refused",
    "preemption.PodPreempted": "pods preempted", "lifecycle.PodEvicted": "pods evicted",
    "lifecycle.PodTerminated": "pods ended", "lifecycle.ContainerKilled": "containers killed",
    "lifecycle.ContainerRestarted": "containers restarted", "images.ImageDeleted": "images removed",
    "devicemanager.DevicesAllocated": "device allocations",
}  # fmt: skip


def _print(plan: Plan, counts: Counter[str], added: int, *, quiet: bool, output: str) -> None:
    happened = {name: counts[kind] for kind, name in _HAPPENED.items()}
    if output == "json":
        data = {
            "node": plan.node.name,
            "seed": plan.seed,
            "records": counts.total(),
            "added": added,
            "kinds": dict(sorted(counts.items())),
            "happened": happened,
        }
        write_document(data)
        return
    if not quiet:
        write_rows(("kind", "records"), sorted(counts.items()), "table")
        click.echo()
        rows = [(name, count) for name, count in happened.items() if count]
        write_rows(("what happened", "times"), rows, "table")
        click.echo()
