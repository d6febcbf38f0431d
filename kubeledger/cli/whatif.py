"""``kubeledger whatif``: the same observations, decided under other settings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kubeledger.analyze.whatif import WORDS, Answer, Becomes, Change, Outlook, answer, becomes
from kubeledger.cli.options import ledger_option, node_option, option, output_option, reports_errors
from kubeledger.cli.output import counted, printable, write_document, write_objects
from kubeledger.cli.screen import cut, paged
from kubeledger.cli.why import screen_size
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts

if TYPE_CHECKING:
    from kubeledger.analyze.whatif.variants import ConfigFile


_PROMPT = 2
"""Lines of a screen that the command itself and the next prompt take."""


class _Part(NamedTuple):
    """Changes that some variants have, under a head."""

    head: str
    changes: Sequence[Change]
    notes: Sequence[str]


def text_of(found: Sequence[Answer], *, full: bool) -> list[str]:
    """Lines: of each node what its variants share, then what each has alone.

    Args:
        full: all changes with whole reasons; else as many as the screen shows.
    """
    width, height = screen_size()
    nodes = list(dict.fromkeys(each.node for each in found))
    rows = max((height - _PROMPT) // max(len(nodes), 1), 1)
    lines: list[str] = []
    for node in nodes:
        if lines:
            lines.append("")
        lines += _of_node(node, [each for each in found if each.node == node], width, rows, full)
    return lines


def _of_node(node: str, found: Sequence[Answer], width: int, height: int, full: bool) -> list[str]:
    shared, names = _names([each.result.variant for each in found])
    head = ", ".join(filter(None, (printable(node), shared)))
    top = _folded(head, width)
    if len(found) == 1:
        for sentence in found[0].summary:
            top += _folded(printable(sentence), width, "  ")
        end = _folded(_headline(found[0].result), width, "  ")
    else:
        end = []
        top += [f"{'same':>7} {'changed':>7} {'untrusted':>9} {'unknown':>7}  variant"]
        for each, name in zip(found, names, strict=True):
            result = each.result
            counts = f"{result.same:>7} {result.changed:>7} {result.untrusted:>9}"
            top += _folded(f"{counts} {result.unknown:>7}  {name}", width, " " * 35)
    parts = _parts(found, names)
    for wide in (True, False):
        below = [_part_lines(part, width, wide=wide) for part in parts]
        if full or len(top) + sum(map(len, below)) + len(end) <= height:
            return [*top, *(line for lines in below for line in lines), *end]
    lines = [*top, *_shortened(parts, width, height - len(top) - len(end)), *end]
    return lines if len(lines) <= height else [*lines[: height - 1], "... (--full shows all)"]


def _names(variants: Sequence[str]) -> tuple[str, list[str]]:
    """What the names of all variants have in common, and what is left of each."""
    words = [re.split(r"(?<!^kubelet)(?<! kubelet) ", printable(name)) for name in variants]
    common = [word for word in words[0] if all(word in other for other in words)]
    if len(words) == 1:
        return " ".join(common), [""]
    rest = [" ".join(word for word in each if word not in common) for each in words]
    return " ".join(common), rest


def _headline(result: Outlook) -> str:
    text = f"{result.changed or 'none'} of {result.decisions} decisions would have differed"
    if not result.changed:
        text = f"none of {result.decisions} decisions would surely have differed"
    if result.untrusted:
        follow = "follows" if result.untrusted == 1 else "follow"
        text += f"; {result.untrusted} {follow} such a change and cannot be predicted"
    if result.unknown:
        text += f"; {result.unknown} cannot be decided"
    return text


def _parts(found: Sequence[Answer], names: Sequence[str]) -> list[_Part]:
    """What all variants change alike, and then of each the rest."""
    sure = [{_key(c): c for c in each.changes if c.untrusted_since is None} for each in found]
    notes = [_notes(each.result, each.changes, summed_up=len(found) == 1) for each in found]
    if len(found) == 1:
        return [_Part("", list(sure[0].values()), notes[0])]
    shared = [key for key in sure[0] if all(key in other for other in sure)]
    text = [note for note in notes[0] if all(note in other for other in notes)]
    parts = [_Part("in all variants", [sure[0][key] for key in shared], text)]
    for name, changes, own in zip(names, sure, notes, strict=True):
        alone = [change for key, change in changes.items() if key not in shared]
        parts.append(_Part(f"only {name}", alone, [note for note in own if note not in text]))
    return [part for part in parts if part.changes or part.notes]


def _key(change: Change) -> tuple[int, str, str, bool]:
    """What is one change under several variants, whatever the limit in its reason."""
    return change.seq, change.kind, change.subject, change.instead is None


def _notes(result: Outlook, changes: Collection[Change], *, summed_up: bool) -> list[str]:
    """What else is to say; ``summed_up``: the summary has said what is not known."""
    after: dict[int, int] = {}
    for change in changes:
        if change.untrusted_since is not None:
            after[change.untrusted_since] = after.get(change.untrusted_since, 0) + 1
    found = [
        f"untrusted: {counted(count, 'change')} after that of record {seq}, where later inputs "
        "would have differed (-o json lists them)"
        for seq, count in after.items()
    ]
    for what, count in () if summed_up else sorted(result.missing.items()):
        need = f"{counted(count, 'decision')} {'needs' if count == 1 else 'need'}"
        found.append(f"{need} what is not known: {printable(what)}")
    return found


def _part_lines(part: _Part, width: int, *, wide: bool) -> list[str]:
    """A part: each reason, whole, and then whom it concerns, each on a line or all on one."""
    lines = _folded(part.head, width) if part.head else []
    for (kind, outcome, why), changes in _by_reason(part.changes).items():
        words = f"  {kind.partition('.')[2]} {WORDS[outcome]}: {printable(why)}"
        lines += _folded(words, width, "    ")
        if wide:
            for each in changes:
                place = f"{format_ts(each.ts_ns)} record {each.seq}"
                lines += _folded(f"    {place}, {printable(each.subject)}", width, "      ")
            continue
        named = (f"{format_ts(each.ts_ns)[11:19]} {_name(each.subject)}" for each in changes)
        count = f"{len(changes)}: " if len(changes) > 1 else ""
        lines.append(cut(f"    {count}{', '.join(named)}", width))
    for note in part.notes:
        lines += _folded(f"  {note}", width, "    ") if wide else [cut(f"  {note}", width)]
    return lines


def _by_reason(changes: Sequence[Change]) -> dict[tuple[str, Becomes, str], list[Change]]:
    found: dict[tuple[str, Becomes, str], list[Change]] = {}
    for change in changes:
        found.setdefault((change.kind, becomes(change), change.why), []).append(change)
    return found


def _name(subject: str) -> str:
    """Short: of an image's ID its beginning."""
    name = printable(subject.partition("/")[2] or subject).removeprefix("sha256:")
    return name[:12] if subject.startswith("image/") else name


def _shortened(parts: Sequence[_Part], width: int, height: int) -> Iterator[str]:
    """As many lines of each part as there is room for, and how much is left out."""
    share = max(height // max(len(parts), 1), 3)
    for part in parts:
        lines = _part_lines(part, width, wide=False)
        if len(lines) <= share:
            yield from lines
            continue
        yield from lines[: share - 1]
        yield f"  and {len(lines) - share + 1} more (--full shows all)"


def _folded(text: str, width: int, indent: str = "") -> list[str]:
    """A paragraph within a width; words that are longer are broken."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True
    ) or [""]


_F = TypeVar("_F", bound=Callable[..., Any])


def variant_options(function: _F) -> _F:
    """``--set --kubelet-version --config``: tuples ``settings``, ``versions`` and ``configs``."""
    for each in reversed(
        (
            option(
                "--set settings KEY=VALUE",
                "A KubeletConfiguration field, or what a pod asks for (pod/POD/CONTAINER."
                "livenessProbe.failureThreshold=5); KEY=A|B makes two variants. May be repeated.",
                multiple=True,
            ),
            option(
                "--kubelet-version versions VERSION",
                "Decide by the rules of this kubelet; several make several variants.",
                multiple=True,
            ),
            option(
                "--config configs FILE",
                "A KubeletConfiguration in place of the node's, or - for standard input; "
                "several make several variants.",
                multiple=True,
            ),
        )
    ):
        function = each(function)
    return function


def read_configs(names: Sequence[str]) -> list[ConfigFile]:
    """The configurations in files, or on standard input (``-``).

    Raises:
        BadInputError: one cannot be read, or is none.
        BadQuestionError: standard input is named twice.
    """
    from kubeledger.analyze.whatif.variants import config_of
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
@option("--full", "All changes, each with its whole reason.")
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
    from kubeledger.analyze.whatif.variants import variants_for
    from kubeledger.cli.verify import histories_for

    documents = read_configs(configs)
    with histories_for(sources, ledger, node) as histories:
        found = []
        for history in histories:
            for variant in variants_for(history, settings, versions, documents):
                found.append(answer(history, variant))
    if output == "json":
        _print_json(found)
    elif output != "table":
        _print_lines(found, output)
    else:
        with paged(wanted=full):
            for line in text_of(found, full=full):
                click.echo(line)


def _print_json(found: list[Answer]) -> None:
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


def _print_lines(found: list[Answer], output: str) -> None:
    import msgspec

    lines = (
        {"node": each.node, "variant": each.result.variant, **msgspec.to_builtins(change)}
        for each in found
        for change in each.changes
    )
    columns = ("node", "variant", *Change.__struct_fields__)
    write_objects(lines, columns, output)
