"""``kubeledger whatif``: the same observations, decided under other settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import ledger_option, node_option, output_option, reports_errors

if TYPE_CHECKING:
    from kubeledger.whatif import Change, Outlook

__all__ = ["whatif"]


@click.command(
    epilog="Example: kubeledger whatif --set 'imageGCHighThresholdPercent=80|90' --node node-a"
)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A KubeletConfiguration field, or what a pod asks for (pod/POD/CONTAINER."
    "livenessProbe.failureThreshold=5); KEY=A|B makes two variants. May be repeated.",
)
@click.option(
    "--kubelet-version",
    "versions",
    multiple=True,
    metavar="VERSION",
    help="Decide by the rules of this kubelet; several make several variants.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="A KubeletConfiguration in place of the node's, or - for standard input; several make "
    "several variants.",
)
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def whatif(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    settings: tuple[str, ...],
    versions: tuple[str, ...],
    configs: tuple[str, ...],
    output: str,
) -> None:
    """Replay a node's observations under other settings, and list the decisions that change.

    What stands behind a changed decision was observed in a world in which the recorded
    decision had been taken: it is marked as untrusted, not passed off as a prediction.

    `-o jsonl` and `-o csv` have a line for each change; counts stand in the other forms.
    """
    from kubeledger.cli.verify import histories_for
    from kubeledger.cli.whatif_variants import read_configs, variants_for
    from kubeledger.whatif import Outlook, outlook

    documents = read_configs(configs)
    with histories_for(sources, ledger, node) as histories:
        found = []
        for history in histories:
            for variant in variants_for(history, settings, versions, documents):
                result = Outlook(variant=variant.name)
                changes = list(outlook(history.read, variant, result))
                found.append((history.node, result, changes))
    if output == "json":
        _print_json(found)
    elif output != "table":
        _print_lines(found, output)
    else:
        _print_table(found)


def _print_json(found: list[tuple[str, Outlook, list[Change]]]) -> None:
    import msgspec

    variants = [
        {"node": node, **msgspec.to_builtins(result), "changes": changes}
        for node, result, changes in found
    ]
    data = msgspec.json.encode({"variants": variants}, order="deterministic")
    sys.stdout.buffer.write(msgspec.json.format(data, indent=2) + b"\n")


def _print_lines(found: list[tuple[str, Outlook, list[Change]]], output: str) -> None:
    import msgspec

    from kubeledger.cli.output import write_objects
    from kubeledger.whatif import Change

    lines = (
        {"node": node, "variant": result.variant, **msgspec.to_builtins(change)}
        for node, result, changes in found
        for change in changes
    )
    columns = ("node", "variant", *Change.__struct_fields__)
    write_objects(lines, columns, output, sys.stdout)


def _print_table(found: list[tuple[str, Outlook, list[Change]]]) -> None:
    from kubeledger.cli.output import counted, printable, write_rows

    if len(found) > 1:
        # What is longest stands last, so that the counts stand below each other.
        columns = ("node", "same", "changed", "untrusted", "unknown", "variant")
        rows = [
            (node, r.same, r.changed, r.untrusted, r.unknown, r.variant) for node, r, _ in found
        ]
        write_rows(columns, rows, "table", sys.stdout)
        click.echo()
    for number, (node, result, changes) in enumerate(found):
        if number:
            click.echo()
        click.secho(f"{printable(node)}, {printable(result.variant)}", bold=True)
        _say(_headline(result), "")
        for line in _by_subject(changes):
            _say(line, "  ")
        for what, count in sorted(result.missing.items()):
            need = f"{counted(count, 'decision')} {'needs' if count == 1 else 'need'}"
            _say(f"{need} what is not known: {printable(what)}", "  ")


def _headline(result: Outlook) -> str:
    would = "would have been another" if result.changed == 1 else "would have been others"
    said = f"{result.changed or 'none'} of {result.decisions} decisions {would}"
    if not result.changed:
        said = f"none of {result.decisions} decisions would surely have been another"
    if result.untrusted:
        said += f"; {result.untrusted} lie behind such a change, in a world that nobody observed"
    if result.unknown:
        said += f"; {result.unknown} cannot be told"
    return said


def _by_subject(changes: list[Change]) -> Iterator[str]:
    """What surely changes, by what it is about; of the rest, how much there is."""
    from kubeledger.cli.output import counted, printable
    from kubeledger.units import format_ts

    subjects: dict[str, list[Change]] = {}
    behind: dict[int, int] = {}
    for change in changes:
        if change.untrusted_since is None:
            subjects.setdefault(change.subject, []).append(change)
        else:
            behind[change.untrusted_since] = behind.get(change.untrusted_since, 0) + 1
    for subject, group in subjects.items():
        yield printable(subject)
        for change in group:
            kind = change.kind.partition(".")[2]
            yield f"  {format_ts(change.ts_ns)} {kind}, record {change.seq}: " + printable(
                change.why
            )
    for seq, count in behind.items():
        yield (
            f"untrusted: behind the change at record {seq} the node would have observed something "
            f"else; {counted(count, 'change')} there (-o json lists them)"
        )


def _say(line: str, indent: str) -> None:
    """A paragraph within the width of a terminal."""
    import shutil
    import textwrap

    width = max(shutil.get_terminal_size().columns, 40)
    deeper = indent + "  " * (1 + line.startswith("  "))
    click.echo(textwrap.fill(
        line.strip(), width, initial_indent=indent + "  " * line.startswith("  "),
        subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False,
    ))  # fmt: skip
