"""What holds of every command: the same bytes in any process, and a ledger that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.nodes import WORLDS, Nodes, output_in, run
from tests.marks import nightly, slow

NOON = "2026-11-21T03:00:00Z"


@pytest.mark.parametrize(
    "command",
    [
        ("completeness", "A", "-o", "json"),
        ("diff", "A", "B", "-o", "json"),
        ("diff", f"A@{NOON}", f"B@{NOON}"),
        ("verify", "A", "--all"),
        *slow((("whatif", "--set", "maxPods=5|10", "A", "-o", "json"),)),
        ("why", "pod/default/gpu-c", "A", "-o", "json"),
        *nightly(
            (("verify", "A", "-o", "jsonl"),),
            (("whatif", "--set", "maxPods=5|10", "A"),),
            (("why", "pod/default/gpu-c", "A"),),
        ),
    ],
    ids=" ".join,
)
def test_the_same_bytes_in_any_world(nodes: Nodes, command: tuple[str, ...]) -> None:
    ledgers = {"A": nodes.ledger("node-a"), "B": nodes.ledger("node-b")}
    words = [
        ledgers.get(word[:1], "") + word[1:] if word[:1] in ledgers else word for word in command
    ]
    assert len({output_in(world, *words) for world in WORLDS}) == 1


@pytest.mark.parametrize(
    "command",
    ["audit", "compact", "completeness", "export", "get pods", "index", "ls", "show 1", "sql x",
     "state", "timeline", "verify", "whatif --set maxPods=1", "why x"],
)  # fmt: skip
def test_without_a_ledger(tmp_path: Path, command: str) -> None:
    result = run(*command.split(), "--ledger", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(tmp_path / "none") in result.stderr
    assert "kubeledger import" in result.stderr
    assert list(tmp_path.iterdir()) == []
