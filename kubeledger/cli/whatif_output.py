"""The answer of ``kubeledger whatif`` for people: on a screen, or in full."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from kubeledger.analyze.whatif import Change, Outlook
from kubeledger.cli.output import counted, printable
from kubeledger.cli.table import cut
from kubeledger.cli.why_output import screen_size
from kubeledger.model.units import format_ts

__all__ = ["text_of"]

Found = tuple[str, Outlook, list[Change]]
"""A node, and what a variant makes of it."""

_PROMPT = 2
"""Lines of a screen that the command itself and the next prompt take."""


class _Part(NamedTuple):
    """Changes that some variants have, under a head."""

    head: str
    changes: Sequence[Change]
    notes: Sequence[str]


def text_of(found: Sequence[Found], *, full: bool) -> list[str]:
    """Lines: of each node what its variants share, then what each has alone.

    Args:
        found: nodes, each with its variants one after the other.
        full: all changes with whole reasons; else as many as the screen shows.
    """
    width, height = screen_size()
    nodes = list(dict.fromkeys(node for node, _, _ in found))
    rows = max((height - _PROMPT) // max(len(nodes), 1), 1)
    lines: list[str] = []
    for node in nodes:
        if lines:
            lines.append("")
        lines += _of_node(node, [each for each in found if each[0] == node], width, rows, full)
    return lines


def _of_node(node: str, found: Sequence[Found], width: int, height: int, full: bool) -> list[str]:
    shared, names = _names([result.variant for _, result, _ in found])
    head = ", ".join(filter(None, (printable(node), shared)))
    top = _folded(head, width)
    if len(found) == 1:
        top += _folded(_headline(found[0][1]), width, "  ")
    else:
        top += [f"{'same':>7} {'changed':>7} {'untrusted':>9} {'unknown':>7}  variant"]
        for (_, result, _), name in zip(found, names, strict=True):
            counts = f"{result.same:>7} {result.changed:>7} {result.untrusted:>9}"
            top += _folded(f"{counts} {result.unknown:>7}  {name}", width, " " * 35)
    parts = _parts(found, names)
    for wide in (True, False):
        below = [_part_lines(part, width, wide=wide) for part in parts]
        if full or len(top) + sum(map(len, below)) <= height:
            return [*top, *(line for lines in below for line in lines)]
    lines = [*top, *_shortened(parts, width, height - len(top))]
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


def _parts(found: Sequence[Found], names: Sequence[str]) -> list[_Part]:
    """What all variants change alike, and then of each the rest."""
    sure = [{_key(c): c for c in changes if c.untrusted_since is None} for _, _, changes in found]
    notes = [_notes(result, changes) for _, result, changes in found]
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


def _notes(result: Outlook, changes: Collection[Change]) -> list[str]:
    after: dict[int, int] = {}
    for change in changes:
        if change.untrusted_since is not None:
            after[change.untrusted_since] = after.get(change.untrusted_since, 0) + 1
    found = [
        f"untrusted: {counted(count, 'change')} after that of record {seq}, where later inputs "
        "would have differed (-o json lists them)"
        for seq, count in after.items()
    ]
    for what, count in sorted(result.missing.items()):
        need = f"{counted(count, 'decision')} {'needs' if count == 1 else 'need'}"
        found.append(f"{need} what is not known: {printable(what)}")
    return found


def _part_lines(part: _Part, width: int, *, wide: bool) -> list[str]:
    """A part, each change in a paragraph or cut to a line."""
    lines = _folded(part.head, width) if part.head else []
    subject = None
    for change in part.changes:
        kind, time = change.kind.partition(".")[2], format_ts(change.ts_ns)
        why = printable(change.why)
        if wide:
            if change.subject != subject:
                lines += _folded(f"  {printable(change.subject)}", width)
            subject = change.subject
            lines += _folded(f"    {time} {kind}, record {change.seq}: {why}", width, "      ")
        else:
            name = printable(change.subject.partition("/")[2] or change.subject)
            lines.append(cut(f"  {time[11:19]} {kind} {name}: {why}", width))
    for note in part.notes:
        lines += _folded(f"  {note}", width, "    ") if wide else [cut(f"  {note}", width)]
    return lines


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
