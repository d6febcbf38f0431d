"""Lies about the recorded nodes: one thing changed in one file, and what has to be said of it."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import msgspec

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.verify import Finding, Outcome
from tests.recordings import extract

__all__ = ["CONTRADICTED", "Edit", "Lie", "judged"]

CONTRADICTED = ""
"""Nothing is impossible: two sources disagree, and nobody can tell which one lies."""


class Edit(msgspec.Struct, frozen=True):
    """One replacement in one line.

    Attributes:
        file: below the node's directory.
        line: words of the line, which is the first one that holds them; or its number.
        old: what stands there, once or more; its first place is replaced.
    """

    file: str
    line: str | int
    old: str
    new: str


class Lie(msgspec.Struct, frozen=True):
    """What is changed, and what verification has to say.

    Attributes:
        name: for people.
        node: whose recording.
        edits: one; two where a checkpoint's checksum has to fit, or a line tells one thing twice.
        kind: of the one decision that is impossible; ``CONTRADICTED``.
        subject: of it, or of the contradiction.
        says: words of the sentence, or of one side.
        disputed: beside it stand contradictions about the same subject.
    """

    name: str
    node: str
    edits: tuple[Edit, ...]
    kind: str
    subject: str
    says: str
    disputed: bool = False


@cache
def _unpacked(node: str, scratch: Path) -> Path:
    return extract(node, scratch / f"original-{node}")


def judged(lie: Lie, scratch: Path, directory: Path) -> list[Outcome]:
    """Import and verify a copy of the recording that holds the lie.

    Args:
        lie: what is changed.
        scratch: one directory for all tests, where recordings are unpacked once.
        directory: an empty one.

    Returns:
        what is impossible, and contradictions.
    """
    original = _unpacked(lie.node, scratch)
    copy = directory / original.name
    shutil.copytree(original, copy, copy_function=os.link)
    for edit in lie.edits:
        _change(copy / edit.file, edit)
    with open_histories([str(copy)]) as histories:
        (history,) = histories
        return [
            outcome
            for outcome in history.verify()
            if not isinstance(outcome, Finding) or outcome.verdict == "impossible"
        ]


def _change(path: Path, edit: Edit) -> None:
    lines = path.read_bytes().decode().split("\n")
    if isinstance(edit.line, int):
        at = edit.line - 1
    else:
        at = next(n for n, line in enumerate(lines) if edit.line in line)
    assert edit.old in lines[at], f"line {at + 1} of {path.name} does not hold {edit.old}"
    lines[at] = lines[at].replace(edit.old, edit.new, 1)
    path.unlink()  # it is a link to the original
    path.write_bytes("\n".join(lines).encode())
