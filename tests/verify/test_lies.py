"""Lies in the files of real nodes: each is found, and nothing else is called impossible."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.verify import Contradiction, Finding
from tests.verify.lie_corpus import DAILY, NIGHTLY
from tests.verify.lies import CONTRADICTED, Lie, judged
from tests.verify.witness_lies import DAILY_WITNESSES, NIGHTLY_WITNESSES


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where recordings are unpacked once."""
    return tmp_path_factory.mktemp("lies")


def check(lie: Lie, scratch: Path, directory: Path) -> None:
    """The decision that was changed, or rests on what was changed, is pointed at."""
    outcomes = judged(lie, scratch, directory)
    wrong = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    disputes = [outcome for outcome in outcomes if isinstance(outcome, Contradiction)]
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


@pytest.mark.parametrize(
    "lie", [*DAILY, *DAILY_WITNESSES], ids=lambda lie: f"{lie.node}: {lie.name}"
)
def test_a_lie(lie: Lie, scratch: Path, tmp_path: Path) -> None:
    """One of each subject."""
    check(lie, scratch, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "lie",
    [*NIGHTLY, *NIGHTLY_WITNESSES],
    ids=lambda lie: f"{lie.node}: {lie.name}",
)
def test_another_lie(lie: Lie, scratch: Path, tmp_path: Path) -> None:
    """All others."""
    check(lie, scratch, tmp_path)


@pytest.mark.parametrize("node", ["node-a", "node-b"])
def test_no_lie(node: str, scratch: Path, tmp_path: Path) -> None:
    """The recordings as they are."""
    nothing = Lie(name="", node=node, edits=(), kind="", subject="", says="")
    assert judged(nothing, scratch, tmp_path) == []
