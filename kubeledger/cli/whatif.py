"""``kubeledger whatif``: the same observations, decided under other settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubeledger.cli.options import ledger_option, node_option, output_option, reports_errors
from kubeledger.cli.output import write_objects
from kubeledger.cli.screen import paged
from kubeledger.cli.whatif_options import read_configs, variant_options

if TYPE_CHECKING:
    from kubeledger.analyze.whatif import Change, Outlook

__all__ = ["whatif"]


@click.command(epilog="Example: kubeledger whatif --set 'imageGCHighThresholdPercent=80|90'")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@variant_options
@click.option("--full", is_flag=True, help="All changes, each with its whole reason.")
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def whatif(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    settings: tuple[str, ...],
    versions: tuple[str, ...],
    configs: tuple[str, ...],
    full: bool,
    output: str,
) -> None:
    """Replay a node's observations under other settings, and list the decisions that change.

    What follows a changed decision was observed in a world in which the recorded
    decision had been taken: it is marked as untrusted, not passed off as a prediction.

    The answer fits a screen: what all variants have in common stands once, then what each has
    alone; --full shows all of it.

    `-o jsonl` and `-o csv` have a line for each change; the other forms have counts.
    """
    from kubeledger.analyze.whatif import Outlook, outlook
    from kubeledger.analyze.whatif.configs import variants_for
    from kubeledger.cli.verify import histories_for

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
        from kubeledger.cli.whatif_output import text_of

        with paged(wanted=full):
            for line in text_of(found, full=full):
                click.echo(line)


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

    from kubeledger.analyze.whatif import Change

    lines = (
        {"node": node, "variant": result.variant, **msgspec.to_builtins(change)}
        for node, result, changes in found
        for change in changes
    )
    columns = ("node", "variant", *Change.__struct_fields__)
    write_objects(lines, columns, output, sys.stdout)
