"""Verification goes on from a seam: what it says at each look is what it says of all records."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from kubeledger.analyze.audit import prove_caches
from kubeledger.analyze.histories import seams, verdicts
from kubeledger.analyze.histories.derived import rules_version
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.histories.watching import Watch
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.base import Begin
from kubeledger.ledger.frozen import NotFreezableError, freeze
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import NodeInfo, Run
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.storage import VERDICTS
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.ledger import RecordsSuperseded, SeqSpan
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.verify import Finding, Outcome, context, registry
from kubeledger.verify.rules.cgroups.rule import Removals
from kubeledger.verify.rules.images.runs import ImageUse
from kubeledger.verify.rules.probe_witnesses import ProbeWitnesses
from kubeledger.verify.rules.syncs import SyncVerifier
from kubeledger.verify.run import Seam, ask_nothing, keep_nothing
from tests.marks import nightly, slow
from tests.recordings import RECORDINGS, extract, import_recording
from tests.simulate.engine.scenes import records as simulated

pytestmark = pytest.mark.slow

RECORDED = ("node-b", *slow("node-a", "node-e-oom", "node-e-evictions", "node-f"))
_DICE = 28
_encode = msgspec.json.Encoder(order="sorted").encode


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "KEPT_FROM", 50)
        patch.setattr(seams, "STRETCH", 200)
        patch.setattr(registry, "_SHORT", 200)  # no seam in so few, as in life
        yield


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First records of the stretches from which was gone on, look by look."""
    found: list[int] = []
    fits = seams.KeptSeam.verification

    def noted(kept: seams.KeptSeam, cut: seams.Cut) -> object:
        at = fits(kept, cut)
        found.extend([] if at is None else [kept.seq])
        return at

    monkeypatch.setattr(seams.KeptSeam, "verification", noted)
    return found


def live(recording: str, directory: Path) -> list[Record]:
    """Its records as a recorder writes them, of no import, so that they can be cut anywhere."""
    ledger, _ = import_recording(recording, directory)
    return [record for record in ledger.records() if not record.kind.startswith("ledger.")]


def appended(ledger: Ledger, records: Iterable[Record]) -> None:
    drafts = [Draft(r.ts_ns, r.body, r.evidence) for r in records]
    with ledger.writer() as writer:
        writer.append("node", drafts)


def agrees(ledger: Ledger) -> list[bytes]:
    """What a look says, which is what a verification of all says, twice."""
    (history,) = histories_of_ledger(ledger)
    wrong = [*history.wrong()]
    outcomes = [*history.verify()]
    assert wrong == [outcome for outcome in outcomes if verdicts.is_wrong(outcome)]
    said = [_encode(outcome) for outcome in outcomes]
    assert said == [_encode(outcome) for outcome in history.decided(keep_nothing)]
    assert said == [_encode(outcome) for outcome in histories_of_ledger(ledger)[0].verify()]
    return said


def seam_of(ledger: Ledger) -> verdicts.Verdicts:
    store = ledger.snapshots("node", VERDICTS)
    snapshot = store.load(store.seqs()[-1], rules_version())
    assert snapshot is not None
    return msgspec.msgpack.decode(snapshot.state, type=verdicts.Verdicts)


@pytest.mark.parametrize("looks", [3, *nightly(12, 40)])
@pytest.mark.parametrize("recording", RECORDED)
def test_every_cut_of_a_recording(
    recording: str, looks: int, tmp_path: Path, carried: list[int]
) -> None:
    records = live(recording, tmp_path / "whole")
    cuts = sorted(random.Random(_DICE + looks).sample(range(300, len(records)), looks))
    ledger = Ledger.create(tmp_path / "ledger")
    for begin, end in pairwise([0, *cuts, len(records)]):
        appended(ledger, records[begin:end])
        agrees(ledger)
    assert carried
    assert carried == sorted(carried)
    assert not list(prove_caches([ledger]))


def _in_order(count: int) -> list[int]:
    return list(range(count))


def _one_late(count: int) -> list[int]:
    return [*(day for day in range(count) if day != count // 3), count // 3]


def _shuffled(count: int) -> list[int]:
    return random.Random(_DICE).sample(range(count), count)


@pytest.mark.parametrize("order", slow(_in_order, _one_late, _shuffled))
@pytest.mark.parametrize("recording", ["node-b", *nightly("node-f")])
def test_days_of_a_log(
    recording: str, order: Callable[[int], list[int]], tmp_path: Path, carried: list[int]
) -> None:
    """Each import takes back what it tells otherwise, and what comes late changes the order."""
    log = extract(recording, tmp_path) / "kubelet.log"
    lines, count = log.read_bytes().splitlines(keepends=True)[:60_000], 6
    ledger = Ledger.create(tmp_path / "ledger")
    for day in order(count):
        piece = tmp_path / f"day-{day}" / "kubelet.log"
        piece.parent.mkdir()
        begin, end = (len(lines) * at // count for at in (day, day + 1))
        piece.write_bytes(b"".join(lines[begin:end]))
        import_sources([str(piece.parent)], ledger)
        agrees(ledger)
    assert carried
    assert not list(prove_caches([ledger]))


@pytest.mark.parametrize("scenario", slow("stuck", "liveness", "updates", "resizes", "memory"))
def test_days_of_a_simulated_week(scenario: str, tmp_path: Path, carried: list[int]) -> None:
    plan = to_plan(load_scenario(RECORDINGS / "scenarios" / f"{scenario}.yaml"))
    records, days = simulated(plan), 7
    span_ns = records[-1].ts_ns - records[0].ts_ns + 1
    ledger = Ledger.create(tmp_path / "ledger")
    for day in range(days):
        later = [msgspec.structs.replace(r, ts_ns=r.ts_ns + day * span_ns) for r in records]
        for part in (later[: len(later) // 2], later[len(later) // 2 :]):
            appended(ledger, part)
            agrees(ledger)
    assert carried


@pytest.mark.parametrize("recording", ["node-b", *slow("node-a", "node-e-evictions")])
def test_what_rules_forget_changes_nothing(
    recording: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an hour of half a minute, so that a recording of some minutes has much to forget."""
    monkeypatch.setattr(context, "_ASKED_NS", 30 * NS_PER_S)
    ledger = Ledger.create(tmp_path / "ledger")
    appended(ledger, live(recording, tmp_path / "whole"))
    (history,) = histories_of_ledger(ledger)
    held: list[int] = []

    def note(seam: Seam) -> None:
        with suppress(NotFreezableError):
            held.append(len(freeze(seam.at, {"on_question": ask_nothing}).objects))

    said = [_encode(outcome) for outcome in history.decided(note)]
    monkeypatch.setattr(ImageUse, "forget", lambda *_: None)
    for rule in (ProbeWitnesses, Removals, SyncVerifier):
        monkeypatch.setattr(rule, "derive", lambda *_: None)
    less, held = held, []
    assert [_encode(outcome) for outcome in history.decided(note)] == said
    assert sum(less) < sum(held)
    assert len(less) == len(held)


def _verdicts(outcomes: Iterator[Outcome]) -> dict[tuple[int, str, str], str]:
    found = (outcome for outcome in outcomes if isinstance(outcome, Finding))
    return {(each.seq, each.kind, each.subject): each.verdict for each in found}


@pytest.mark.parametrize("recording", ["node-b", *slow("node-a", "node-e-evictions", "node-f")])
def test_stretches_make_verdicts_less_certain_at_most(
    recording: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is recorded beyond a thousand records is hardly missed, though lists come at the end."""
    monkeypatch.setattr(seams, "STRETCH", 1000)
    ledger = Ledger.create(tmp_path / "ledger")
    appended(ledger, live(recording, tmp_path / "whole"))
    (history,) = histories_of_ledger(ledger)
    assert history.starts()
    cut = _verdicts(history.verified())
    whole = _verdicts(msgspec.structs.replace(history, starts=list).verified())
    other = {key: verdict for key, verdict in cut.items() if whole.get(key) != verdict}
    assert set(other.values()) <= {"unverifiable"}
    assert len(other) * 50 < len(whole)
    assert cut.keys() == whole.keys()


def test_an_import_with_lists_is_one_stretch(tmp_path: Path) -> None:
    ledger, _ = import_recording("node-a", tmp_path / "ledger")
    (history,) = histories_of_ledger(ledger)
    assert not history.starts()


@pytest.mark.parametrize(
    ("records", "hours", "starts"),
    [(2000, 24, [2001, 4001, 6001]), (500, 24, [1501]), (2000, 0, [])],
)
def test_an_import_an_hour_later_begins_a_stretch(
    records: int, hours: int, starts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where few records came before, nor where it follows at once."""
    monkeypatch.setattr(seams, "STRETCH", 1 << 14)
    runs = [
        Run(
            first_seq=day * records + 1,
            last_seq=(day + 1) * records,
            first_ts_ns=day * hours * 3600 * NS_PER_S,
            max_ts_ns=day * hours * 3600 * NS_PER_S,
            digest=str(day),
        )
        for day in range(4)
    ]
    look = SimpleNamespace(
        info=lambda: NodeInfo(runs=runs), begin=Begin(), record=lambda _: None, superseded=[]
    )
    found = seams.stretches(cast(Reading, look), 4 * records).starts
    assert [start.seq for start in found] == starts


@pytest.fixture(scope="module")
def grown_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, list[Record]]:
    directory = tmp_path_factory.mktemp("grown")
    records = live("node-b", directory / "whole")
    ledger = Ledger.create(directory / "ledger")
    appended(ledger, records[:1500])
    agrees(ledger)
    assert seam_of(ledger).seam != verdicts.NO_SEAM
    return ledger, records[1500:]


@pytest.fixture
def grown(grown_once: tuple[Ledger, list[Record]], tmp_path: Path) -> tuple[Ledger, list[Record]]:
    """A ledger of which a seam is kept, and the records that come next."""
    ledger, more = grown_once
    return Ledger.open(shutil.copytree(ledger.path, tmp_path / "ledger")), more


@pytest.mark.parametrize("at", [3, *slow(*range(3), *range(4, 8))])
def test_a_flipped_byte(at: int, grown: tuple[Ledger, list[Record]], carried: list[int]) -> None:
    """What is damaged is not gone on from; nothing of the records is lost."""
    ledger, more = grown
    store = ledger.snapshots("node", VERDICTS)
    path = store.path(store.seqs()[-1])
    data = bytearray(path.read_bytes())
    data[len(data) * (2 * at + 1) // 16] ^= 1 << at
    path.write_bytes(data)
    appended(ledger, more)
    carried.clear()
    (history,) = histories_of_ledger(ledger)
    assert list(history.verify()) == list(history.decided(keep_nothing))
    assert not carried


def test_the_same_records_are_proved_from_the_seam_on(grown: tuple[Ledger, list[Record]]) -> None:
    """A flipped byte of what was decided for good is for ``audit``; one behind it is found."""
    ledger, _ = grown
    (history,) = histories_of_ledger(ledger)
    outcomes, (segment,) = [*history.verify()], (ledger.path / "nodes/node/segments").iterdir()
    lines = segment.read_bytes()
    seam = msgspec.msgpack.decode(seam_of(ledger).seam, type=seams.KeptSeam)
    places = [lines.index(b'"seq":%d,' % seq) for seq in (seam.seq // 2, seam.seq + 1)]
    for place, is_found in zip(places, (False, True), strict=True):
        flipped = bytearray(lines)
        flipped[place + 20] ^= 1
        segment.write_bytes(flipped)
        with pytest.raises(DamagedLedgerError) if is_found else nullcontext():
            assert [*history.verify()] == outcomes


def test_a_question_goes_on_from_a_seam(
    grown: tuple[Ledger, list[Record]], carried: list[int]
) -> None:
    ledger, more = grown
    carried.clear()
    appended(ledger, more[:1])
    (history,) = histories_of_ledger(ledger)
    kept = history.findings()
    assert kept is not None
    assert carried
    said = [_encode(outcome) for outcome in kept.outcomes()]
    assert said == [_encode(outcome) for outcome in history.decided(keep_nothing)]


def test_what_was_superseded_is_not_gone_on_from(
    grown: tuple[Ledger, list[Record]], carried: list[int]
) -> None:
    ledger, _ = grown
    gone = SeqSpan(first_seq=100, last_seq=103)
    with ledger.writer() as writer:
        body = RecordsSuperseded(digest="0" * 64, spans=(gone,))
        writer.append("node", [Draft(ledger.span()[1], body)])
    carried.clear()
    agrees(ledger)
    assert not carried


def test_an_audit_finds_a_false_seam(grown: tuple[Ledger, list[Record]]) -> None:
    """One of a sound chain and CRC, by another hand: it goes on with a record left out."""
    ledger, _ = grown
    store = ledger.snapshots("node", VERDICTS)
    snapshot = store.load(store.seqs()[-1], rules_version())
    assert snapshot is not None
    kept = msgspec.msgpack.decode(snapshot.state, type=verdicts.Verdicts)
    seam = msgspec.msgpack.decode(kept.seam, type=seams.KeptSeam)
    kept.seam = msgspec.Raw(msgspec.msgpack.encode(msgspec.structs.replace(seam, blocks=0)))
    store.save(msgspec.structs.replace(snapshot, state=msgspec.msgpack.encode(kept)))
    (found,) = prove_caches([ledger])
    assert Path(found.file).parent.name == VERDICTS


_FITS = """
from kubeledger.analyze.histories import seams, verdicts
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ledger.ledger import Ledger
import sys
seams.STRETCH = 200
fits = seams.KeptSeam.verification
seams.KeptSeam.verification = lambda *each: fits(*each) or sys.exit("it does not fit")
for history in histories_of_ledger(Ledger.open(sys.argv[1])):
    print(len(list(history.verify())))
"""


def test_another_process_goes_on(grown: tuple[Ledger, list[Record]]) -> None:
    ledger, more = grown
    appended(ledger, more)
    command = [sys.executable, "-c", _FITS, str(ledger.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(agrees(ledger))


def test_other_rules_begin_anew(
    grown: tuple[Ledger, list[Record]], carried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, more = grown
    monkeypatch.setattr(verdicts, "rules_version", lambda: "another")
    monkeypatch.setattr("kubeledger.analyze.histories.derived.rules_version", lambda: "another")
    carried.clear()
    appended(ledger, more)
    agrees(ledger)
    assert not carried


def test_a_watch_goes_on(grown: tuple[Ledger, list[Record]], carried: list[int]) -> None:
    """``verify -f`` decides what is new, and what is not settled."""
    ledger, more = grown
    carried.clear()
    watch = Watch(ledger, None, settle_s=0)
    for record in more[:3]:
        appended(ledger, [record])
        assert not list(watch.look(0))
    assert len(carried) == 3
