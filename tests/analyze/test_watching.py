"""A ledger that grows: what is wrong in it is said once, when it is settled."""

from pathlib import Path

import pytest

from kubeledger.analyze.histories.history import histories_of_recording
from kubeledger.analyze.histories.watching import News, Watch
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.ledger.tail import Draft
from kubeledger.model.record import Record
from kubeledger.verify import Finding
from tests.recordings import RECORDINGS

WRONG = RECORDINGS / "golden" / "mutated" / "prober-liveness-kill-1.36.2.ledger.jsonl"
"""A recording with a decision that the kubelet could not have taken."""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger")


def append(ledger: Ledger, records: list[Record]) -> None:
    with ledger.writer() as writer:
        for record in records:
            draft = Draft(record.ts_ns, record.body, record.evidence, record.cause)
            writer.append(record.node, [draft])


def wrong_of(path: Path) -> list[tuple[int, str]]:
    (history,) = histories_of_recording(path)
    found = [each for each in history.verify() if isinstance(each, Finding)]
    return [(each.seq, each.kind) for each in found if each.verdict == "impossible"]


def findings(news: list[News]) -> list[tuple[int, str]]:
    return [(n.outcome.seq, n.outcome.kind) for n in news if isinstance(n.outcome, Finding)]


def test_what_is_wrong_is_said_once(ledger: Ledger) -> None:
    """After the seconds that it takes to be settled, whether or not anything comes meanwhile."""
    append(ledger, list(read_recording(WRONG)))
    watch = Watch(ledger, None, settle_s=3600)
    assert not list(watch.look(0))
    assert not list(watch.look(3599))
    assert findings(list(watch.look(3600))) == wrong_of(WRONG)
    assert not list(watch.look(9000))
    assert sum(watch.stands.values()) == len(wrong_of(WRONG))


def test_the_ledgers_own_time_settles_it(ledger: Ledger) -> None:
    records = list(read_recording(WRONG))
    append(ledger, records)
    (wrong, *_) = wrong_of(WRONG)
    last_ns = max(record.ts_ns for record in records)
    settle_s = (last_ns - records[wrong[0] - 1].ts_ns) / 1e9
    assert wrong in findings(list(Watch(ledger, None, settle_s).look(0)))
    assert wrong not in findings(list(Watch(ledger, None, settle_s + 1).look(0)))


def test_as_records_come(ledger: Ledger) -> None:
    """Record by record, in the end that is said and stands which one verification says."""
    watch = Watch(ledger, None, settle_s=0)
    standing: set[tuple[int, str]] = set()
    for number, record in enumerate(read_recording(WRONG)):
        append(ledger, [record])
        for news in watch.look(number):
            found = set(findings([news]))
            standing = standing - found if news.withdrawn else standing | found
    assert sorted(standing) == wrong_of(WRONG)
    assert watch.stands["impossible"] + watch.stands["missed"] == len(standing)
