import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ledger import writer
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, save_manifest
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.tail import Draft
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.bodies.ledger import ImportStarted
from kubeledger.model.errors import (
    BadInputError,
    BadQuestionError,
    DamagedLedgerError,
    LedgerUnavailableError,
)
from kubeledger.model.record import Record
from tests.ledger.making import NODE, append, batch, deleted, draft, ledger_of, segment_paths, seqs


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    """Envelope and body, field by field."""
    ledger = ledger_of(tmp_path / "l", [draft(5), draft(9, cause=1)])
    assert list(ledger.records(NODE)) == [
        Record(
            node=NODE, seq=seq, ts_ns=ts_ns, role="decision", kind="images.ImageDeleted", v=1,
            cause=cause, evidence=draft(ts_ns).evidence, body=deleted(ts_ns),
        )
        for seq, ts_ns, cause in ((1, 5, None), (2, 9, 1))
    ]  # fmt: skip


def test_numbers_go_on_over_batches_sessions_and_segments(tmp_path: Path) -> None:
    """Gapless from 1, per node."""
    ledger = ledger_of(tmp_path / "l", segment_bytes=2000)
    assert append(ledger, batch(0, 3), [], batch(3, 4)) == [[1, 2, 3], [], [4, 5, 6, 7]]
    assert append(ledger, batch(7, 2)) == [[8, 9]]
    assert append(ledger, batch(0, 2), node="other") == [[1, 2]]
    assert seqs(ledger) == list(range(1, 10))
    assert [(record.node, record.seq) for record in ledger.records()][-2:] == [
        ("other", 1),
        ("other", 2),
    ]
    assert ledger.nodes() == [NODE, "other"]
    assert len(segment_paths(ledger)) > 1
    assert audit(ledger).findings == ()


def test_the_same_facts_give_the_same_bytes(tmp_path: Path) -> None:
    """However they are cut into batches and sessions."""
    first = ledger_of(tmp_path / "first", batch(0, 6))
    second = ledger_of(tmp_path / "second", batch(0, 1), batch(1, 3))
    append(second, batch(4, 2))
    assert segment_paths(first)[0].read_bytes() == segment_paths(second)[0].read_bytes()


def reported(calls: list[str], name: str) -> Callable[..., Any]:
    """A function of ``os`` that takes down that it was called."""
    real: Callable[..., Any] = getattr(os, name)

    def call(*arguments: Any) -> Any:  # noqa: ANN401 - as the real one
        calls.append(name)
        return real(*arguments)

    return call


def test_a_batch_is_one_write_and_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the sync comes before the append returns."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    calls: list[str] = []
    with ledger.writer() as writer:
        writer.append(NODE, batch(1, 1))
        for name in ("write", "fsync"):
            monkeypatch.setattr(os, name, reported(calls, name))
        writer.append(NODE, batch(2, 1000))
        assert calls == ["write", "fsync"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may write less than it was given."""
    ledger = ledger_of(tmp_path / "l")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
    append(ledger, batch(0, 10))
    assert audit(ledger).findings == ()
    assert seqs(ledger) == list(range(1, 11))


def test_batches_are_acknowledged_in_order(tmp_path: Path) -> None:
    """One is prepared ahead; causes may reach into it."""
    ledger = ledger_of(tmp_path / "l", segment_bytes=3000)
    batches = (batch(start, 5) if start % 2 else [] for start in range(0, 60, 5))
    with ledger.writer() as writer:
        acknowledged = list(writer.append_batches(NODE, batches))
        assert writer.append_batches(NODE, [[draft(99, cause=30)]]).__next__() == [31]
    assert [seq for one in acknowledged for seq in one] == list(range(1, 31))
    assert seqs(ledger) == list(range(1, 32))
    assert audit(ledger).findings == ()


def test_a_bad_batch_in_a_row_leaves_those_before(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l")
    batches = [batch(0, 2), batch(2, 2), [draft(4, cause=77)], batch(5, 2)]
    with ledger.writer() as writer, pytest.raises(BadInputError, match="record 77"):
        for _ in writer.append_batches(NODE, batches):
            pass
    assert seqs(ledger) == [1, 2, 3, 4]
    assert append(ledger, batch(4, 1)) == [[5]]


def test_what_follows_an_abandoned_row_of_batches(tmp_path: Path) -> None:
    """Who stops taking acknowledgements stops the appending."""
    ledger = ledger_of(tmp_path / "l")
    with ledger.writer() as writer:
        row = writer.append_batches(NODE, (batch(start, 1) for start in range(9)))
        assert isinstance(row, Iterator)
        assert next(row) == [1]
        row.close()  # type: ignore[attr-defined]  # a generator, as every caller knows
        following = writer.append(NODE, batch(50, 1))
    assert seqs(ledger) == list(range(1, following[0] + 1))
    assert audit(ledger).findings == ()


@pytest.mark.parametrize("cause", [0, -1, 2, 3, 99])
def test_a_cause_must_come_before(tmp_path: Path, cause: int) -> None:
    """The whole batch is refused, and the writer goes on."""
    ledger = ledger_of(tmp_path / "l", [draft(0)])
    with ledger.writer() as writer:
        with pytest.raises(BadInputError, match="its cause"):
            writer.append(NODE, [draft(1, cause=cause)])
        assert writer.append(NODE, [draft(1, cause=1)]) == [2]
    assert seqs(ledger) == [1, 2]


def test_text_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    before = segment_paths(ledger)[0].read_bytes()
    bad = Draft(3, deleted(3), (draft(3).evidence[0].__class__(file="\udcff"),))
    with ledger.writer() as writer, pytest.raises(BadInputError, match="record 4 of node-a"):
        writer.append(NODE, [draft(2), bad])
    assert segment_paths(ledger)[0].read_bytes() == before


def test_a_giant_record_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that no reader would take is not written."""
    monkeypatch.setattr("kubeledger.ledger.tail.LINE_BYTES_MAX", 300)
    ledger = ledger_of(tmp_path / "l")
    with ledger.writer() as writer, pytest.raises(BadInputError, match="too many"):
        writer.append(NODE, batch(0, 1))


def test_another_hand_in_the_segment_is_noticed(tmp_path: Path) -> None:
    """Nothing is written behind bytes that are not ours."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    with ledger.writer() as writer:
        writer.append(NODE, batch(2, 1))
        path = segment_paths(ledger)[0]
        path.write_bytes(path.read_bytes() + b"x")
        with pytest.raises(DamagedLedgerError, match="changed") as caught:
            writer.append(NODE, batch(3, 1))
        assert (caught.value.file, caught.value.offset) == (str(path), path.stat().st_size - 1)
        with pytest.raises(LedgerUnavailableError, match="opened again"):
            writer.append(NODE, batch(3, 1))


def test_a_removed_segment_is_noticed(tmp_path: Path) -> None:
    """Appending to a file without a name would acknowledge what is lost."""
    ledger = ledger_of(tmp_path / "l", batch(0, 2))
    with ledger.writer() as writer:
        writer.append(NODE, batch(2, 1))
        segment_paths(ledger)[0].unlink()
        with pytest.raises(DamagedLedgerError, match="removed"):
            writer.append(NODE, batch(3, 1))


def test_creating_where_something_is(tmp_path: Path) -> None:
    """An empty directory is fine; a file, or other files, are not touched."""
    (tmp_path / "empty").mkdir()
    Ledger.create(tmp_path / "empty")
    with pytest.raises(BadQuestionError, match="not empty"):
        Ledger.create(tmp_path / "empty")
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadQuestionError, match="not a directory"):
        Ledger.create(tmp_path / "file")
    with pytest.raises(BadQuestionError, match="not empty"):
        Ledger.open_or_create(tmp_path)


def test_opening_what_is_no_ledger(tmp_path: Path) -> None:
    """Missing, a file, a directory with other things."""
    (tmp_path / "file").write_text("x")
    for path, reason in ((tmp_path / "no", "there is no"), (tmp_path, "is not a ledger")):
        with pytest.raises(BadQuestionError, match=reason):
            Ledger.open(path)
    with pytest.raises(BadQuestionError, match="is not a ledger") as caught:
        Ledger.open(tmp_path / "file")
    assert f"is an argument: `kubeledger why node {tmp_path / 'file'}`" in caught.value.advice


def test_open_or_create(tmp_path: Path) -> None:
    """Made once, opened then; parents are made too."""
    path = tmp_path / "a" / "b"
    append(Ledger.open_or_create(path), batch(0, 1))
    append(Ledger.open_or_create(path, WriterOptions(level=1)), batch(1, 1))
    assert seqs(Ledger.open(path)) == [1, 2]


def test_an_unknown_node_is_a_bad_question(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    with pytest.raises(BadQuestionError, match="node-a") as caught:
        list(ledger.records("node-b"))
    assert caught.value.exit_code == 2


def test_a_node_needs_a_name(tmp_path: Path) -> None:
    """An empty name is refused before anything is made."""
    ledger = ledger_of(tmp_path / "l")
    with ledger.writer() as writer, pytest.raises(BadInputError, match="needs a name"):
        writer.append("", batch(0, 1))
    assert ledger.nodes() == []


def test_a_seal_is_heard_of(tmp_path: Path) -> None:
    """Once for each segment, after it is done."""
    heard: list[int] = []
    ledger = Ledger.create(tmp_path / "l", WriterOptions(segment_bytes=1000))
    with ledger.writer() as writer:
        writer.on_sealed = lambda: heard.append(len(list(tmp_path.rglob("*.zst"))))
        for first in range(0, 12, 4):
            writer.append(NODE, batch(first, 4))
        lines_bytes = sum(segment.size_bytes for segment in writer.info(NODE).segments)
        assert writer.appended_bytes == lines_bytes
    assert len(heard) == 3
    assert min(heard) >= 1


# -- The end of a writer: what it need not write again, and the lock that it never keeps -----------

BEGIN = Draft(0, ImportStarted(digest="d", kubeledger_version="1", sources=(), year=None))


@pytest.mark.parametrize(("then", "saves"), [([], 1), (batch(0, 1), 2)])
def test_a_manifest_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: list[Draft], saves: int
) -> None:
    """Closing writes it only where it says something that was not written."""
    saved: list[Path] = []

    def save(directory: Path, manifest: Manifest) -> None:
        saved.append(directory)
        save_manifest(directory, manifest)

    ledger = Ledger.create(tmp_path / "l")
    monkeypatch.setattr(writer, "save_manifest", save)
    with ledger.writer() as into:
        into.append(NODE, [BEGIN])
        into.append(NODE, then)
    assert len(saved) == saves
    with ledger.writer():  # notes where the import stands that is not complete
        pass
    before = (ledger.path / MANIFEST).read_bytes()
    with ledger.writer():
        pass
    assert (ledger.path / MANIFEST).read_bytes() == before
    assert ledger.manifest().nodes[NODE].last_seq == 1 + len(then)


def test_an_interrupt_at_the_very_end_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that goes on after it can write again."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))

    def interrupt(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught, ledger.writer():
            pass
    assert append(ledger, batch(1, 1)) == [[2]]
    assert caught.tb is not None  # whoever holds the traceback holds what it saw, a lock too
