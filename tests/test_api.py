"""The Python door, as the contract has it."""

import html
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

import kubeledger
import kubeledger.api
from kubeledger.api import Imported
from kubeledger.ingest.api import ImportReport, NodeReport
from kubeledger.ingest.sources.items import Finding as LogFinding
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify import Finding
from tests.ledger.making import NODE, batch, deleted, draft


def test_records_of_one_ledger_go_into_another(tmp_path: Path) -> None:
    """Of several nodes, with their numbers, causes and evidence; the same bytes in the end."""
    with kubeledger.open(tmp_path / "a") as ledger:
        assert ledger.append(batch(0, 1500), node=NODE) == list(range(1, 1501))
        assert ledger.append([draft(7, cause=1500)], node=NODE) == [1501]
        assert ledger.append(batch(0, 2), node="node-b") == [1, 2]
        records = list(ledger.records())
        with kubeledger.open(tmp_path / "b") as other:
            assert other.append(iter(records[:10])) == list(range(1, 11))
            assert other.append(records[10:]) == [record.seq for record in records[10:]]
            assert list(other.records()) == records
            assert other.nodes == [NODE, "node-b"]
            for node in other.nodes:
                last = other.ledger.info(node).last_seq
                assert other.ledger.digest_at(node, last) == ledger.ledger.digest_at(node, last)


def test_a_record_with_another_number_than_the_next(tmp_path: Path) -> None:
    """Its causes would mean others; what stands before its batch stays."""
    ledger = kubeledger.open(tmp_path / "a")
    ledger.append(batch(0, 3), node=NODE)
    records = list(ledger.records())
    other = kubeledger.open(tmp_path / "b")
    with pytest.raises(BadInputError, match="record 2 of node-a: the next one is 1"):
        other.append(records[1:])
    assert other.append(records) == [1, 2, 3]
    with pytest.raises(BadInputError, match="record 3 of node-a: the next one is 4"):
        other.append(records[2:])


def test_drafts_need_a_node(tmp_path: Path) -> None:
    """It is said how to name it, and no ledger is made."""
    ledger = kubeledger.open(tmp_path / "a")
    with pytest.raises(BadQuestionError) as caught:
        ledger.append(batch(0, 1))
    assert "node=NAME" in caught.value.advice


def test_opening_makes_nothing(tmp_path: Path) -> None:
    """A mistyped path leaves no ledger behind; an empty directory is as good as none."""
    ledger = kubeledger.open(tmp_path / "typo")
    for ask in (ledger.records, ledger.state, ledger.verify, lambda: ledger.sql("SELECT 1")):
        with pytest.raises(BadQuestionError):
            ask()
    assert not (tmp_path / "typo").exists()
    (tmp_path / "empty").mkdir()
    assert kubeledger.open(tmp_path / "empty").append(batch(0, 1), node=NODE) == [1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(BadQuestionError):
        kubeledger.open(tmp_path / "other")


def test_state_and_sql(tmp_path: Path) -> None:
    """Times as on the command line, or nanoseconds."""
    now_ns = time.time_ns()
    with kubeledger.open(tmp_path / "a") as ledger:
        times = [now_ns - span * NS_PER_S for span in (7200, 3600, 60)]
        ledger.append([Draft(ts_ns, deleted(1)) for ts_ns in times], node=NODE)
        assert [ledger.state(at).seq for at in ("-90m", "-30m", "now", None)] == [1, 2, 3, 3]
        assert ledger.state(format_ts(now_ns - 3600 * NS_PER_S)).seq == 2
        assert ledger.state(now_ns - 7200 * NS_PER_S, node=NODE).seq == 1
        assert ledger.state(seq=2).seq == 2
        with pytest.raises(BadQuestionError, match="is not a valid time"):
            ledger.state("yesterday")
        assert ledger.sql("SELECT count(*) FROM events").fetchall() == [(3,)]
        assert ledger.sql("SELECT seq FROM events WHERE seq = $n", {"n": 2}).dicts() == [{"seq": 2}]
    assert Ledger.open(tmp_path / "a").nodes() == [NODE]


def test_the_examples_of_the_docs(tmp_path: Path) -> None:
    """They run as they stand, one after the other, and answer."""
    root = Path(__file__).parent.parent
    (tmp_path / "recordings").symlink_to(root / "recordings")
    page = (root / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    code = "print('----')\n".join(blocks)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    answers, rows, records = (part.splitlines() for part in ran.stdout.split("----\n"))
    assert answers[0].endswith("records added")
    assert any(", 0 impossible" in line for line in answers)
    assert "live-fail" in rows[0]
    assert "[(8,)]" in rows
    assert int(rows[-1]) > 0
    assert "victim_pod" in records[-1]
    assert (tmp_path / "node-a.html").stat().st_size > 10_000


def _opened(path: Path, *recordings: str) -> kubeledger.api.OpenLedger:
    golden = Path(__file__).parent.parent / "recordings" / "golden"
    ledger = kubeledger.open(path)
    for name in recordings:
        ledger.append(read_recording(golden / f"{name}.ledger.jsonl"))
    return ledger


def test_verification_shows_itself(tmp_path: Path) -> None:
    """As often as one likes; the text and the table have the counts that iteration gives."""
    with _opened(tmp_path / "a", "node-a-preemption") as ledger:
        found = ledger.verify()
        findings = [each for each in found if isinstance(each, Finding)]
        assert [each for each in found if isinstance(each, Finding)] == findings
        decided = sum(not each.inferred for each in findings)
        assert 0 < found.tally.decisions == decided < len(findings)
        assert str(found).startswith(f"{decided} decisions: ")
        assert "0 impossible" in str(found)
        assert "iterate" in repr(found)
        assert f'<td style="text-align:left">{findings[0].kind}</td>' in found._repr_html_()


def test_a_wrong_decision_is_shown(tmp_path: Path) -> None:
    mutated = sorted((Path(__file__).parent.parent / "recordings/golden/mutated").glob("*.jsonl"))
    ledger = kubeledger.open(tmp_path / "a")
    ledger.append(read_recording(mutated[0]))
    found = ledger.verify()
    (wrong, *_) = found.wrong
    assert wrong.why in str(found)
    assert html.escape(wrong.why)[:150] in found._repr_html_()


def test_why_and_what_if(tmp_path: Path) -> None:
    """The answers of the commands, as data with aware times, text and tables."""
    with _opened(tmp_path / "a", "node-a-images") as ledger:
        deleted = ledger.sql("SELECT image_id, ts FROM image_gc_deletions ORDER BY seq").dicts()[0]
        why = ledger.why(f"image/{deleted['image_id']}")
        assert why.sentence == why.answers[0].sentence
        assert why.headline in str(why)
        assert f" {why.answers[0].steps[-1].text}" in str(why)
        assert html.escape(why.headline) in why._repr_html_()
        evidence = why.dicts()
        assert [row["number"] for row in evidence] == list(range(1, len(evidence) + 1))
        assert deleted["ts"] in [row["ts"] for row in evidence]
        with pytest.raises(BadQuestionError, match="no decision is about"):
            ledger.why(f"image/{deleted['image_id']}", at=deleted["ts"] - timedelta(days=1))

        what = ledger.whatif("imageGCHighThresholdPercent=99|98")
        assert [each.outlook.variant[-2:] for each in what.variants] == ["99", "98"]
        changes = what.dicts()
        assert len(changes) == sum(len(each.changes) for each in what.variants) > 0
        assert deleted["ts"] in [row["ts"] for row in changes]
        assert f"{changes[0]['subject']} {changes[0]['why']}"[:100] in str(what)
        assert what._repr_html_().count("<table>") == 4
        assert repr(what) == f"<Outlooks: 2 variants, {len(changes)} changes>"
        with pytest.raises(BadQuestionError, match="nothing is changed"):
            ledger.whatif()


def test_lines_of_a_log_do_nothing_to_a_terminal() -> None:
    """What it would act upon is written as an escape, also in a name."""
    hostile = "\x1b[2J\u202e<b>"
    report = ImportReport(
        [
            NodeReport(
                "n",
                "l",
                None,
                {},
                {},
                findings=[LogFinding(file=None, message=hostile, finding="x")],
            )
        ]
    )
    shown = Imported(report, ("n: nothing",))
    assert str(shown).splitlines() == [
        "0 records added",
        r"warning: \x1b[2J\u202e<b>",
        "n: nothing",
    ]
    assert "&lt;b&gt;" in shown._repr_html_()


def test_the_page(tmp_path: Path) -> None:
    """Of all nodes or one; a question that cannot be answered leaves the old file alone."""
    page = tmp_path / "page.html"
    with _opened(tmp_path / "a", "node-a-preemption", "node-b-preemption") as ledger:
        assert ledger.timeline(page) == page
        whole = page.read_text("utf-8")
        assert whole.count('data-node="1"') > 0
        with pytest.raises(BadQuestionError, match="no node 'node-z'"):
            ledger.timeline(page, node="node-z")
        assert page.read_text("utf-8") == whole
        assert 'data-node="1"' not in ledger.timeline(page, node="node-b").read_text("utf-8")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "page.html"]


def test_a_shipped_query(tmp_path: Path) -> None:
    """By name, with parameters as Python values."""
    with _opened(tmp_path / "a", "node-a-preemption") as ledger:
        (row, *_) = ledger.run("preemptions").dicts()
        around = ledger.run("around", at=row["ts"], seconds=1).dicts()
        assert row["seq"] in [each["seq"] for each in around]
        assert ledger.run("around", at=row["ts"].isoformat(), seconds=1).dicts() == around
        with pytest.raises(BadQuestionError, match="has no parameter"):
            ledger.run("preemptions", node="x")
        with pytest.raises(BadQuestionError, match="has no zone"):
            ledger.state(row["ts"].replace(tzinfo=None))
        assert ledger.state(row["ts"]).seq >= row["seq"]
