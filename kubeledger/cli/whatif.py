"""``kubeledger whatif``: the same observations, decided under other settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubeledger.cli.options import ledger_option, node_option, output_option, reports_errors
from kubeledger.cli.output import write_document, write_objects
from kubeledger.cli.screen import paged
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.whatif.configs import ConfigFile
    from kubeledger.cli.whatif_output import Found


_F = TypeVar("_F", bound=Callable[..., Any])


def variant_options(function: _F) -> _F:
    """``--set --kubelet-version --config``: tuples ``settings``, ``versions`` and ``configs``."""
    for option in reversed(
        (
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="KEY=VALUE",
                help="A KubeletConfiguration field, or what a pod asks for (pod/POD/CONTAINER."
                "livenessProbe.failureThreshold=5); KEY=A|B makes two variants. May be repeated.",
            ),
            click.option(
                "--kubelet-version",
                "versions",
                multiple=True,
                metavar="VERSION",
                help="Decide by the rules of this kubelet; several make several variants.",
            ),
            click.option(
                "--config",
                "configs",
                multiple=True,
                metavar="FILE",
                help="A KubeletConfiguration in place of the node's, or - for standard input; "
                "several make several variants.",
            ),
        )
    ):
        function = option(function)
    return function


def read_configs(names: Sequence[str]) -> list[ConfigFile]:
    """The configurations in files, or on standard input (``-``).

    Raises:
        BadInputError: one cannot be read, or is none.
        BadQuestionError: standard input is named twice.
    """
    from kubeledger.analyze.whatif.configs import config_of
    from kubeledger.cli.files import STANDARD_INPUT, is_standard, read_input
    from kubeledger.ingest.sources.streams import DOCUMENT_MAX

    if sum(map(is_standard, names)) > 1:
        raise BadQuestionError(f"{STANDARD_INPUT} can be read once, and is named twice")
    return [
        config_of(STANDARD_INPUT if is_standard(name) else name, read_input(name, DOCUMENT_MAX))
        for name in names
    ]


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

    The answer fits a screen: what it comes to, then each reason with the decisions that have it;
    what all variants have in common stands once. --full shows all of it.

    `-o jsonl` and `-o csv` have a line for each change; the other forms have counts.
    """
    from kubeledger.analyze.whatif.configs import variants_for
    from kubeledger.cli.verify import histories_for
    from kubeledger.cli.whatif_output import found_by, text_of

    documents = read_configs(configs)
    with histories_for(sources, ledger, node) as histories:
        found = []
        for history in histories:
            for variant in variants_for(history, settings, versions, documents):
                found.append(found_by(history, variant))
    if output == "json":
        _print_json(found)
    elif output != "table":
        _print_lines(found, output)
    else:
        with paged(wanted=full):
            for line in text_of(found, full=full):
                click.echo(line)


def _print_json(found: list[Found]) -> None:
    import msgspec

    variants = [
        {
            "node": each.node,
            **msgspec.to_builtins(each.result),
            "summary": each.summary,
            "changes": each.changes,
        }
        for each in found
    ]
    write_document({"variants": variants}, order="deterministic")


def _print_lines(found: list[Found], output: str) -> None:
    import msgspec

    from kubeledger.analyze.whatif import Change

    lines = (
        {"node": each.node, "variant": each.result.variant, **msgspec.to_builtins(change)}
        for each in found
        for change in each.changes
    )
    columns = ("node", "variant", *Change.__struct_fields__)
    write_objects(lines, columns, output)
