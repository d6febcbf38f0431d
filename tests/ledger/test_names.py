from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.ledger.storage import (
    MANIFEST,
    node_directory,
    node_name,
    segment_file,
    segment_first_seq,
)
from kubeledger.model.errors import BadInputError
from tests.ledger.making import append, batch, ledger_of, seqs

HOSTILE = ["..", ".", "../../etc", "/etc/passwd", "a/b", "a\\b", "C:", "a\0b", "A", "%2e", "ü" * 99,
           "nul ", "node\n", "x" * 300, "-rf", "~", "a%~b"]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "directory"),
    [
        ("ip-10-0-3-7.eu-west-1.compute.internal", "ip-10-0-3-7.eu-west-1.compute.internal"),
        ("..", "%2E."),
        ("a/b", "a%2Fb"),
        ("Node", "%4Eode"),
        ("ä", "%C3%A4"),
    ],
)
def test_directories_of_nodes(node: str, directory: str) -> None:
    """Usual names stay readable."""
    assert node_directory(node) == directory
    assert node_name(directory) == node


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_name_leaves_its_place(node: str, other: str) -> None:
    """One safe path element, and never the same one for two names, upper case or not."""
    try:
        directory = node_directory(node)
        other_directory = node_directory(other)
    except BadInputError:
        return  # not Unicode text
    assert Path(directory).name == directory
    assert directory not in (".", "..")
    assert len(directory) <= 200
    assert directory.isascii()
    assert directory.isprintable()
    assert (node == other) == (directory.lower() == other_directory.lower())
    assert node_name(directory) in (node, None)


@pytest.mark.parametrize("node", HOSTILE)
def test_hostile_names_work_and_stay_inside(tmp_path: Path, node: str) -> None:
    """Written, read, found again without a manifest; nothing is made outside."""
    ledger = ledger_of(tmp_path / "l")
    append(ledger, batch(0, 2), node=node)
    (ledger.path / MANIFEST).unlink()
    assert ledger.nodes() == [node]
    assert seqs(ledger, node) == [1, 2]
    append(ledger, batch(2, 1), node=node)
    assert seqs(ledger, node) == [1, 2, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["l"]
    assert len(list((tmp_path / "l" / "nodes").iterdir())) == 1


def test_what_is_no_name() -> None:
    """Empty, or half a surrogate pair."""
    for node in ("", "\ud800"):
        with pytest.raises(BadInputError):
            node_directory(node)


def test_names_of_segments() -> None:
    """Sorted as text, they are sorted by record."""
    assert segment_file(1) == "00000000000000000001.jsonl"
    assert segment_file(12, sealed=True) == "00000000000000000012.jsonl.zst"
    assert segment_first_seq("00000000000000000012.jsonl.zst") == 12
    for name in ("12.jsonl", "00000000000000000012.jsonl.zst.tmp", "notes.txt", ""):
        assert segment_first_seq(name) is None


def test_foreign_directories_are_not_nodes(tmp_path: Path) -> None:
    """What else lies below ``nodes`` is left alone."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    (ledger.path / "nodes" / "Copy of node-a").mkdir()
    (ledger.path / "nodes" / "README").write_text("x")
    assert ledger.nodes() == ["node-a"]
    append(ledger, batch(1, 1))
    assert seqs(ledger) == [1, 2]
