"""Lies in the files of real nodes: each is found, and nothing else is called impossible."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.verify import Contradiction, Finding, Outcome
from tests.recordings import extract
from tests.verify.lie_corpus import CONTRADICTED, DAILY, NIGHTLY, Edit, Lie


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where recordings are unpacked once."""
    return tmp_path_factory.mktemp("lies")


@cache
def _unpacked(node: str, scratch: Path) -> Path:
    return extract(node, scratch / f"original-{node}")


def judged(
    node: str, edits: tuple[Edit, ...], scratch: Path, directory: Path
) -> tuple[list[Finding], list[Contradiction]]:
    """What is impossible, and contradictions, of a copy of a recording with these edits."""
    original = _unpacked(node, scratch)
    copy = directory / original.name
    shutil.copytree(original, copy, copy_function=os.link)
    for edit in edits:
        _change(copy / edit.file, edit)
    with open_histories([str(copy)]) as histories:
        (history,) = histories
        outcomes: list[Outcome] = list(history.verify())
    return (
        [o for o in outcomes if isinstance(o, Finding) and o.verdict == "impossible"],
        [o for o in outcomes if isinstance(o, Contradiction)],
    )


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


@pytest.mark.parametrize(
    "lie",
    [*DAILY, *(pytest.param(lie, marks=pytest.mark.nightly) for lie in NIGHTLY)],
    ids=lambda lie: f"{lie.node}: {lie.name}",
)
def test_a_lie(lie: Lie, scratch: Path, tmp_path: Path) -> None:
    """The decision that was changed, or rests on what was changed, is pointed at."""
    wrong, disputes = judged(lie.node, lie.edits, scratch, tmp_path)
    pod = "/".join(["pod", *lie.subject.split("/")[1:3]])
    assert {dispute.subject for dispute in disputes} <= {lie.subject, pod}
    assert all(len(dispute.sides) >= 2 for dispute in disputes)
    if lie.kind == CONTRADICTED:
        assert wrong == []
        assert any(lie.says in side.says for dispute in disputes for side in dispute.sides)
        return
    assert [(finding.kind, finding.subject) for finding in wrong] == [(lie.kind, lie.subject)]
    assert lie.says in wrong[0].why
    assert bool(disputes) == lie.disputed
    assert wrong[0].file is not None


@pytest.mark.parametrize("node", ["node-a", "node-b"])
def test_no_lie(node: str, scratch: Path, tmp_path: Path) -> None:
    """The recordings as they are."""
    assert judged(node, (), scratch, tmp_path) == ([], [])
