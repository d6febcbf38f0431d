"""``kubeledger whatif``: the same observations, decided under other settings."""

from __future__ import annotations

import sys
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
    help="A KubeletConfiguration field; KEY=A|B makes two variants. May be repeated.",
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
    from kubeledger.cli.screen import screen_width

    columns = ("node", "variant", "decisions", "same", "changed", "untrusted", "unknown")
    rows = [
        (
            node,
            result.variant,
            result.decisions,
            result.same,
            result.changed,
            result.untrusted,
            result.unknown,
        )
        for node, result, _ in found
    ]
    write_rows(columns, rows, "table", sys.stdout, width_max=screen_width())
    for node, result, changes in found:
        if changes:
            click.secho(f"\n{printable(node)}, {printable(result.variant)}", bold=True)
        for change in changes:
            click.echo("\n".join(_words(change)))
        for what, count in sorted(result.missing.items()):
            need = f"{counted(count, 'decision')} {'needs' if count == 1 else 'need'}"
            click.echo(f"  {need} what is not known: {printable(what)}")


def _words(change: Change) -> list[str]:
    from kubeledger.cli.output import printable
    from kubeledger.units import format_ts

    lines = [
        f"  record {change.seq} at {format_ts(change.ts_ns)}: {change.kind} "
        f"{printable(change.subject)}",
        f"    {printable(change.why)}",
        f"    recorded {_shown(change.recorded)}",
        f"    instead  {_shown(change.instead)}",
    ]
    if change.untrusted_since is not None:
        lines.append(
            f"    untrusted: behind the change at record {change.untrusted_since} the node would"
            " have observed something else"
        )
    return lines


def _shown(fields: object) -> str:
    import msgspec

    from kubeledger.cli.output import printable

    if fields is None:
        return "no such decision"
    return printable(msgspec.json.encode(fields, order="deterministic").decode())
