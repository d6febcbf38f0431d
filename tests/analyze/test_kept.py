"""What is kept beside a ledger's records: the answers stay those of the records alone."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.audit import contents_of, prove_caches
from kubeledger.analyze.histories import derived, verdicts
from kubeledger.analyze.histories.derived import prove, rules_version
from kubeledger.analyze.histories.history import History, histories_of_ledger, history_of_reader
from kubeledger.analyze.histories.noting import folded
from kubeledger.analyze.sql.listing import Filter, list_records
from kubeledger.analyze.why import answers_to
from kubeledger.analyze.why.names import NAMES_KNOWN, kept_folds, known_names
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import NAMES, SUBJECTS, VERDICTS
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.ledger import RecordsSuperseded, SeqSpan
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from tests.recordings import extract, import_recording

pytestmark = pytest.mark.slow

ANSWERS = {NAMES, SUBJECTS, VERDICTS}
PODS = ("gpu-a", "too-big", "live-fail/app", "default/gpu-c", "node", "nobody")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "KEPT_FROM", 50)
    monkeypatch.setattr(verdicts, "KEPT_FROM", 50)
    monkeypatch.setattr(derived, "STRETCH", 512)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return import_recording("node-a", tmp_path / "ledger")[0]


def read_only(ledger: Ledger) -> History:
    (history,) = histories_of_ledger(ledger)
    return history_of_reader(history.node, history.label, history.read)


def reasons(history: History, asked: str) -> bytes:
    try:
        return msgspec.json.encode(answers_to(asked, [history]))
    except BadQuestionError as error:
        return str(error).encode()


def seqs(records: Iterator[Record]) -> list[int]:
    return [record.seq for record in records]


@pytest.mark.usefixtures("small")
def test_kept_answers_are_those_of_the_records(ledger: Ledger) -> None:
    plain = read_only(ledger)
    expected = {asked: reasons(plain, asked) for asked in PODS}
    found = list(map(msgspec.json.encode, plain.verify()))
    for _ in range(2):
        (history,) = histories_of_ledger(ledger)
        assert known_names(history) == known_names(plain)
        assert list(known_names(history).pods) == list(known_names(plain).pods)
        assert {asked: reasons(history, asked) for asked in PODS} == expected
        assert list(map(msgspec.json.encode, history.verify())) == found
    places = {path.parent.name for path in ledger.path.rglob("*.snapshot")}
    assert places >= ANSWERS


@pytest.mark.usefixtures("small")
def test_who_reads_all_records_keeps_what_a_question_would_read_them_for(ledger: Ledger) -> None:
    (history,) = histories_of_ledger(ledger)
    last_seq = ledger.info(history.node).last_seq
    records = history.keeping(kept_folds).read(None)
    assert next(records).seq == 1
    assert len(list(records)) == last_seq - 1
    with ledger.reading(history.node) as look:
        for fold in kept_folds():
            assert ledger.snapshots(history.node, fold.place).seqs() == [
                *range(512, last_seq, 512),
                last_seq,
            ]
        assert not list(prove(ledger, look, kept_folds()))
    each = NAMES_KNOWN.type()
    for record in history.read(None):
        assert NAMES_KNOWN.note is not None
        NAMES_KNOWN.note(each, record)
    assert folded(NAMES_KNOWN, history.read(None)).value == each


def test_short_ledgers_keep_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "KEPT_FROM", 5_000)
    monkeypatch.setattr(verdicts, "KEPT_FROM", 5_000)
    (history,) = histories_of_ledger(ledger)
    answers_to("gpu-a", [history])
    assert len(list(history.verify())) > 100
    assert not {path.parent.name for path in ledger.path.rglob("*.snapshot")} & ANSWERS


@pytest.mark.usefixtures("small")
def test_listing_by_subject(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that lines show, found by their subjects; by UID, too."""
    monkeypatch.setattr("kubeledger.analyze.sql.listing._MISSING_MAX", -1)
    lines = {pod: seqs(list_records(ledger, Filter(pod=pod))) for pod in ("gpu-a", "default/gpu-c")}
    uid = next(iter(known_names(read_only(ledger)).pods["default", "gpu-a"]))
    lines[uid] = seqs(list_records(ledger, Filter(pod=uid)))
    monkeypatch.setattr("kubeledger.analyze.sql.listing._MISSING_MAX", 10**9)
    for pod, found in lines.items():
        assert found
        assert seqs(list_records(ledger, Filter(pod=pod))) == found


@pytest.mark.usefixtures("small")
def test_what_does_not_fit_is_thrown_away(ledger: Ledger) -> None:
    """Other rules, other bytes, another place: made again, and an audit says what is false."""
    (history,) = histories_of_ledger(ledger)
    expected = [reasons(history, asked) for asked in PODS]
    assert list(history.verify())
    assert not list(prove_caches([ledger]))
    for place in sorted(ANSWERS):
        store = ledger.snapshots(history.node, place)
        for seq in store.seqs():
            path = store.path(seq)
            path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
    (history,) = histories_of_ledger(ledger)
    assert [reasons(history, asked) for asked in PODS] == expected


@pytest.mark.usefixtures("small")
def test_an_audit_finds_what_the_records_do_not_give(ledger: Ledger) -> None:
    (history,) = histories_of_ledger(ledger)
    answers_to("gpu-a", [history])
    assert list(history.verify())
    for place in sorted(ANSWERS):
        store = ledger.snapshots(history.node, place)
        snapshot = store.load(store.seqs()[-1], rules_version())
        assert snapshot is not None
        store.save(msgspec.structs.replace(snapshot, state=forged(place, snapshot.state)))
    found = list(prove_caches([ledger]))
    assert {Path(each.file).parent.name for each in found} == ANSWERS


@pytest.mark.usefixtures("small")
def test_an_audit_judges_cgroups_by_what_is_kept(ledger: Ledger) -> None:
    (history,) = histories_of_ledger(ledger)
    assert list(history.verify())
    kept = contents_of([history], by_kept=True)
    assert kept.cgroups
    assert kept == contents_of([history])


@pytest.mark.usefixtures("small")
def test_kept_answers_grow_with_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    """Records are appended between the questions, and each answer is that of all of them."""
    records = list(ledger.records())
    growing = Ledger.create(tmp_path / "growing")
    for begin, end in pairwise((0, 300, 340, 1100, len(records))):
        drafts = [Draft(r.ts_ns, r.body, r.evidence, r.cause) for r in records[begin:end]]
        with growing.writer() as writer:
            writer.append(records[0].node, drafts)
        (history,) = histories_of_ledger(growing)
        plain = read_only(growing)
        assert known_names(history) == known_names(plain)
        assert [reasons(history, asked) for asked in PODS] == [
            reasons(plain, asked) for asked in PODS
        ]
        assert list(map(msgspec.json.encode, history.verify())) == list(
            map(msgspec.json.encode, plain.verify())
        )


@pytest.mark.usefixtures("small")
def test_pieces_of_a_log_that_overlap_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each import may take back and add records of earlier ones: the order is that of replay."""
    monkeypatch.setattr("kubeledger.analyze.sql.listing._MISSING_MAX", 10**9)
    lines = (extract("node-b", tmp_path) / "kubelet.log").read_bytes().splitlines(keepends=True)
    ledger = Ledger.create(tmp_path / "ledger")
    for number, (begin, end) in enumerate(((0, 30_000), (29_000, len(lines)))):
        piece = tmp_path / f"day-{number}" / "kubelet.log"
        piece.parent.mkdir()
        piece.write_bytes(b"".join(lines[begin:end]))
        import_sources([str(piece.parent)], ledger)
        (history,) = histories_of_ledger(ledger)
        plain = read_only(ledger)
        assert list(history.keeping(kept_folds).read(None))
        expected = {asked: reasons(plain, asked) for asked in ("ready-flap", "startup-never/app")}
        for _ in range(2):
            assert known_names(history) == known_names(plain)
            assert {asked: reasons(history, asked) for asked in expected} == expected
        assert not list(prove_caches([ledger]))
        named = seqs(list_records(ledger, Filter(pod="ready-flap")))
        monkeypatch.setattr("kubeledger.analyze.sql.listing._MISSING_MAX", -1)
        assert named == seqs(list_records(ledger, Filter(pod="ready-flap")))
        monkeypatch.setattr("kubeledger.analyze.sql.listing._MISSING_MAX", 10**9)
    with ledger.reading(plain.node) as look:
        assert not look.is_in_order


@pytest.mark.usefixtures("small")
def test_what_is_superseded_leaves_what_is_kept(ledger: Ledger) -> None:
    """A later import may take records back, those of a stretch that was kept long ago, too."""
    (history,) = histories_of_ledger(ledger)
    answers_to("gpu-a", [history])
    named = seqs(history.naming({"default/gpu-a"}))
    gone = SeqSpan(first_seq=named[1], last_seq=named[4])
    last_ns = ledger.span()[1]
    body = RecordsSuperseded(digest="0" * 64, spans=(gone,))
    with ledger.writer() as writer:
        writer.append(history.node, [Draft(last_ns, body)])
    (history,) = histories_of_ledger(ledger)
    plain = read_only(ledger)
    assert set(range(gone.first_seq, gone.last_seq + 1)).isdisjoint(
        seqs(history.naming({"default/gpu-a"}))
    )
    assert known_names(history) == known_names(plain)
    assert reasons(history, "gpu-a") == reasons(plain, "gpu-a")


def forged(place: str, state: bytes) -> bytes:
    if place == "verdicts":
        kept = msgspec.msgpack.decode(state, type=verdicts.Verdicts)
        return msgspec.msgpack.encode(msgspec.structs.replace(kept, blocks=kept.blocks[:-1]))
    value = msgspec.msgpack.decode(state, type=derived._Kept)
    return msgspec.msgpack.encode(msgspec.structs.replace(value, value=msgspec.Raw(b"\x80")))
