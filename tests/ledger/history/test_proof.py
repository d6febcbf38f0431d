"""What an audit says about the history: each change of its files, fitted or not, is named."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from threading import Timer
from zlib import crc32

import duckdb
import msgspec
import pytest

from kubeledger.ledger.audit_walk import Finding
from kubeledger.ledger.history.history import LOCK, History
from kubeledger.ledger.history.parts import (
    HISTORY,
    INDEX,
    Index,
    Part,
    load_index,
    quoted,
    save_index,
)
from kubeledger.ledger.history.proof import check_history, prove_history
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import file_crc, locked_file
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import WriterOptions
from tests.analyze.sql.fixture_ledger import whole_story
from tests.ledger.making import copy

DAY_NS = 86_400_000_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    directory = tmp_path_factory.mktemp("made")
    opened = Ledger.create(directory / "ledger", WriterOptions(segment_bytes=8_000, level=1))
    drafts = [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()]
    drafts += [Draft(d.ts_ns + DAY_NS, d.body, d.evidence) for d in drafts]
    with opened.writer() as writer:
        for node in ("node-a", "node-b"):
            for start in range(0, len(drafts), 30):  # the second segment holds both days
                writer.append(node, drafts[start : start + 30])
    (directory / "cover").mkdir()
    History(opened, directory / "cover").cover(1)
    return opened


@pytest.fixture
def ledger(made: Ledger, tmp_path: Path) -> Ledger:
    """Small segments over two days, all of it in Parquet."""
    return copy(made, tmp_path / "led [a]*ger")


def files_of(ledger: Ledger) -> list[Path]:
    return sorted((ledger.path / HISTORY).glob("node=*/date=*/*.parquet"))


def prove(ledger: Ledger, tmp_path: Path) -> list[Finding]:
    """As with a scratch directory of its own."""
    scratch = tmp_path / "proof"
    scratch.mkdir()
    try:
        return list(prove_history(ledger, scratch))
    finally:
        shutil.rmtree(scratch)


def fit(ledger: Ledger) -> None:
    """Write sizes and CRCs of all files into the index, as one who knows the format."""
    root = ledger.path / HISTORY

    def fitted(part: Part) -> Part:
        files = tuple(
            msgspec.structs.replace(
                file,
                size_bytes=(root / file.name).stat().st_size,
                crc=file_crc(root / file.name),
            )
            for file in part.files
        )
        return msgspec.structs.replace(part, files=files)

    index = load_index(root)
    nodes = {node: [fitted(part) for part in parts] for node, parts in index.nodes.items()}
    save_index(root, Index(nodes=nodes))


def rewrite(path: Path, change: str, options: str = "") -> None:
    """Change the rows of a Parquet file by an SQL statement on the table ``rows``."""
    changed = path.with_suffix(".changed")
    name = str(path).replace("[", "[[]").replace("*", "[*]")
    with duckdb.connect(":memory:") as connection:
        connection.read_parquet(name, hive_partitioning=False).create("rows")
        if change:
            connection.execute(change)
        connection.execute(f"COPY (FROM rows {options}) TO {quoted(str(changed))} (FORMAT parquet)")
    changed.replace(path)


def test_a_true_history_has_no_findings(ledger: Ledger, tmp_path: Path) -> None:
    """Neither one with a tail behind it, nor a ledger without any."""
    assert len(files_of(ledger)) > 4
    assert check_history(ledger) == []
    assert prove(ledger, tmp_path) == []
    drafts = [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()]
    (scratch := tmp_path / "cover").mkdir()
    for count in (1, len(drafts)):  # the first becomes a part of its own
        with ledger.writer() as writer:
            writer.append("node-a", drafts[:count])
        assert check_history(ledger) == []
        assert prove(ledger, tmp_path) == []
        History(ledger, scratch).cover(1)
    shutil.rmtree(ledger.path / HISTORY)
    assert check_history(ledger) == []
    assert prove(ledger, tmp_path) == []
    assert not (ledger.path / HISTORY).exists()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("flip", "bytes of this file were changed"),
        ("cut", "bytes of this file were changed"),
        ("remove", "it is missing"),
        ("link", "a link"),
    ],
)
def test_a_harmed_file_is_named(ledger: Ledger, tmp_path: Path, harm: str, words: str) -> None:
    """With what to do; the proof of the rows passes it over."""
    path = files_of(ledger)[2]
    data = path.read_bytes()
    path.unlink()
    if harm == "flip":
        path.write_bytes(bytes([*data[:99], data[99] ^ 1, *data[100:]]))
    elif harm == "cut":
        path.write_bytes(data[:-7])
    elif harm == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    (finding,) = check_history(ledger)
    assert (finding.file, finding.node) == (str(path), path.parts[-3].removeprefix("node="))
    assert words in finding.problem
    assert "kubeledger index --rebuild" in finding.problem
    assert harm == "link" or prove(ledger, tmp_path) == []


def test_a_file_that_was_put_there_is_named(ledger: Ledger) -> None:
    """No reader of ours takes it; other engines read the directory by its names."""
    extra = files_of(ledger)[0].with_name("99999999999999999998-99999999999999999999.parquet")
    shutil.copy(files_of(ledger)[0], extra)
    foreign = ledger.path / HISTORY / os.fsdecode(b"\xff.parquet")
    foreign.write_bytes(b"")
    found = {finding.file for finding in check_history(ledger)}
    assert str(extra) in found
    assert len(found) == 2
    assert msgspec.json.encode(check_history(ledger))


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_what_an_interrupted_writer_left_is_no_finding(ledger: Ledger, parts: int) -> None:
    """Files of the part that was to follow, before the index named them."""
    root = ledger.path / HISTORY
    index = load_index(root)
    nodes = {node: of_node[:parts] for node, of_node in index.nodes.items()}
    named = {file.name for of_node in nodes.values() for part in of_node for file in part.files}
    following = {
        file.name
        for node, of_node in index.nodes.items()
        for part in of_node[parts : parts + 1]
        for file in part.files
    }
    for path in files_of(ledger):
        if path.relative_to(root).as_posix() not in named | following:
            path.unlink()
    save_index(root, Index(nodes=nodes))
    assert check_history(ledger) == []
    if parts == 0:
        (root / INDEX).unlink()
        assert check_history(ledger) == []


@pytest.mark.parametrize("content", [b"", b"{}\n00000000\n", b"\xff\x00", None, "no json", "link"])
def test_a_bad_index_is_named(ledger: Ledger, tmp_path: Path, content: bytes | str | None) -> None:
    """Cut, false, no text, lost, fitted but senseless, or elsewhere: one finding, of the index."""
    index = ledger.path / HISTORY / INDEX
    whole = index.read_bytes()
    index.unlink()
    if content == "link":
        (tmp_path / "elsewhere").write_bytes(whole)
        index.symlink_to(tmp_path / "elsewhere")
    elif isinstance(content, str):
        index.write_bytes(b"[]\n%08x\n" % crc32(b"[]\n"))
    elif content is not None:
        index.write_bytes(content)
    (finding,) = check_history(ledger)
    assert finding.file == str(index)
    assert "kubeledger index --rebuild" in finding.problem


def test_a_history_of_another_form_is_not_read(ledger: Ledger, tmp_path: Path) -> None:
    """It is made anew at need, so it is no finding."""
    index = load_index(ledger.path / HISTORY)
    index.form = "0.old"
    save_index(ledger.path / HISTORY, index)
    assert check_history(ledger) == []
    assert prove(ledger, tmp_path) == []


def test_a_history_of_other_records_is_named(ledger: Ledger, tmp_path: Path) -> None:
    """One with the same numbers, of another ledger; of nodes that this one does not have."""
    other = Ledger.create(tmp_path / "other")
    with other.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns + 1, r.body, r.evidence) for r in whole_story()])
    shutil.copytree(ledger.path / HISTORY, other.path / HISTORY)
    assert {f.node for f in check_history(other)} == {"node-a", "node-b"}
    assert prove(other, tmp_path)[0].file == str(other.path / HISTORY / INDEX)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rows SET body = replace(body::VARCHAR, 'sha256', 'sha257')",
        "UPDATE rows SET ts_ns = ts_ns + 1 WHERE seq % 2 = 0",
        "UPDATE rows SET pod = 'another'",
        "UPDATE rows SET evidence = NULL",
        "DELETE FROM rows WHERE seq = (SELECT min(seq) FROM rows)",
        "INSERT INTO rows SELECT * FROM rows LIMIT 1",
        "ALTER TABLE rows ADD COLUMN extra INTEGER",
        "ALTER TABLE rows ALTER seq TYPE VARCHAR",
        "ALTER TABLE rows DROP body",
    ],
)
def test_rows_that_the_records_do_not_give_are_named(
    ledger: Ledger, tmp_path: Path, change: str
) -> None:
    """Though CRCs, sizes and digests fit."""
    path = files_of(ledger)[1]
    rewrite(path, change)
    fit(ledger)
    assert check_history(ledger) == []
    (finding,) = prove(ledger, tmp_path)
    assert finding.file == str(path)
    assert "kubeledger index --rebuild" in finding.problem


def test_no_parquet_at_all_is_named(ledger: Ledger, tmp_path: Path) -> None:
    path = files_of(ledger)[1]
    path.write_bytes(b"PAR1 and no more")
    fit(ledger)
    (finding,) = prove(ledger, tmp_path)
    assert finding.file == str(path)
    assert finding.problem.startswith("it cannot be read as Parquet; ")


def test_other_bytes_of_the_same_rows_are_sound(ledger: Ledger, tmp_path: Path) -> None:
    """Another DuckDB may pack them otherwise."""
    for path in files_of(ledger):
        rewrite(path, "", "ORDER BY seq DESC")
    fit(ledger)
    assert prove(ledger, tmp_path) == []


def test_parts_that_are_not_those_of_the_records_are_named(ledger: Ledger, tmp_path: Path) -> None:
    """A file left out, one that the records do not give, and a digest in the midst."""
    root = ledger.path / HISTORY
    whole = load_index(root)
    parts = whole.nodes["node-a"]
    at, mixed = next((n, part) for n, part in enumerate(parts) if len(part.files) > 1)
    replace = msgspec.structs.replace
    far = mixed.files[0].name.replace("date=2026", "date=2027")
    (root / far).parent.mkdir()
    shutil.copy(root / mixed.files[0].name, root / far)
    moved = replace(mixed.files[0], name=far)
    for changed, files in [
        (replace(mixed, files=mixed.files[1:]), {mixed.files[0].name}),
        (replace(mixed, files=(moved, *mixed.files[1:])), {mixed.files[0].name, far}),
        (replace(mixed, chain="0" * 64), {INDEX}),
        (replace(mixed, last_seq=mixed.last_seq - 1), {INDEX}),
    ]:
        nodes = {**whole.nodes, "node-a": [*parts[:at], changed, *parts[at + 1 :]]}
        save_index(root, Index(nodes=nodes))
        assert {f.file for f in prove(ledger, tmp_path)} == {str(root / name) for name in files}


def test_files_that_are_being_written_are_waited_for(ledger: Ledger) -> None:
    """Files stand there a moment before the index names them."""
    root = ledger.path / HISTORY
    whole = load_index(root)
    held = ExitStack()
    held.enter_context(locked_file(root / LOCK))
    save_index(root, Index(nodes={**whole.nodes, "node-b": []}))

    def done() -> None:
        save_index(root, whole)
        held.close()

    timer = Timer(0.5, done)
    timer.start()
    assert check_history(ledger) == []
    timer.join()
