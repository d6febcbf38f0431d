"""``kubeledger compact`` with a policy, and what the other commands say afterwards."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.audit import audit
from kubeledger.ledger.dropping import Policy
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import WriterOptions
from kubeledger.model.units import format_ts
from kubeledger.replay.dropping import drop_by_policy
from kubeledger.verify import Finding
from tests.cli.nodes import run
from tests.ledger.making import NODE, append, batch, ledger_of

RECORDINGS = Path(__file__).parents[2] / "recordings"


def small(path: Path) -> Ledger:
    """Six segments of four records, at the times 0, 1 ... of 1970."""
    return ledger_of(path, *(batch(s, 4) for s in range(0, 24, 4)), segment_bytes=1000)


def test_what_goes_is_said_before_and_after(tmp_path: Path) -> None:
    """A dry run changes no byte; the same command without it does what was said."""
    ledger = small(tmp_path / "l")
    before = {path: path.read_bytes() for path in ledger.path.rglob("*") if path.is_file()}
    at = ("--before", "1970-01-01T00:00:00.000000010Z")
    dry = run("compact", "--ledger", ledger.path, *at, "--dry-run", exits=0)
    assert dry.stdout.startswith("node-a: records 1 to 8 would be dropped, 2 segments, ")
    assert before == {p: p.read_bytes() for p in ledger.path.rglob("*") if p.is_file()}
    done = run("compact", "--ledger", ledger.path, *at, exits=0)
    assert "node-a: records 1 to 8 dropped, 2 segments" in done.stdout
    assert "(record 25)" in done.stdout
    assert "node-a: 17 records" in done.stdout
    again = run("compact", "--ledger", ledger.path, *at)
    assert "node-a: nothing dropped: its first segment has records up to 1970-" in again.stdout


def test_durations_and_sizes(tmp_path: Path) -> None:
    ledger = small(tmp_path / "l")
    for option, text, last in (
        ("--keep", "90d", 20),
        ("--keep", "1d12h", 20),
        ("--keep-bytes", "20GiB", None),
        ("--keep-bytes", "1.5MB", None),
        ("--keep-bytes", "0", 20),
    ):
        result = run("compact", "--ledger", ledger.path, option, text, "--dry-run", exits=0)
        why = "be dropped: it takes no more than"
        said = f"nothing would {why}" if last is None else f"records 1 to {last} would"
        assert said in result.stdout
    for wrong in (("--keep", "soon"), ("--keep", "-2h"), ("--keep-bytes", "x"), ("--before", "x")):
        assert run("compact", "--ledger", ledger.path, *wrong, "--dry-run").exit_code == 2
    assert run("compact", "--ledger", ledger.path, "--dry-run").exit_code == 2


def test_why_nothing_goes(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 1))
    for way in (("--dry-run",), ()):
        result = run("compact", "--ledger", ledger.path, "--keep-bytes", "1", *way)
        assert ("1 segment sealed" in result.stdout) == (not way)
        assert "all its records are in one segment, and the last segment stays" in result.stdout
    both = ("--keep-bytes", "1GB", "--before", "1970-01-01T00:00:00Z")
    said = run("compact", "--ledger", small(tmp_path / "m").path, *both, "--dry-run").stdout
    assert (
        said == "node-a: nothing would be dropped: its first segment has records up to "
        "1970-01-01T00:00:00.000000003Z, and it takes no more than 1,000,000,000 bytes on disk\n"
    )


def test_a_list_that_reaches_into_a_drop(tmp_path: Path) -> None:
    """What is not listed is named, and only where it was asked for."""
    ledger = small(tmp_path / "l")
    drop_by_policy(ledger, Policy(before_ns=8, words="before 8"), 10**18)
    in_drop, after = "1970-01-01T00:00:00.000000003Z", "1970-01-01T00:00:00.000000008Z"
    for args, reported in (
        (("--until", in_drop), True),
        (("--since", in_drop), True),
        (("--since", in_drop, "--until", after), True),
        (("--since", after), False),
        (("--since", after, "--node", NODE), False),
        ((), False),
    ):
        result = run("ls", "--ledger", ledger.path, *args, "-o", "jsonl", exits=0)
        words = "not listed: records 1 to 8 of node-a (up to 1970-01-01T00:00:00.000000007Z)"
        assert (words in result.stderr) == reported, args
        assert bool(result.stdout) == (args != ("--until", in_drop))
        assert ("no matching records" in result.stderr) == (not result.stdout)


def test_every_command_knows_the_base(tmp_path: Path) -> None:
    ledger = small(tmp_path / "l")
    digests = {seq: (ledger.digest_at(NODE, seq) or b"").hex() for seq in (4, 8, 9)}
    here = ("--ledger", ledger.path)
    assert run("index", *here).exit_code == 0
    drop_by_policy(ledger, Policy(before_ns=8, words="before 8"), 10**18)
    for command in (
        ("show", "8"),
        ("state", "--seq", "7"),
        ("state", "--at", "1970-01-01T00:00:00Z"),
    ):
        result = run(*command, *here, exits=2)
        assert "record 25: before 8" in result.stderr
    assert run("show", "9", *here).exit_code == 0
    assert run("state", "--seq", "8", *here).exit_code == 0
    listed = run("ls", *here, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in listed] == list(range(9, 26))
    reported = run("audit", *here, exits=0)
    assert "17 records, seq 9 to 25" in reported.stdout
    assert "records 1 to 8 (8) were dropped at 2001-09-09T01:46:40Z by record 25" in reported.stdout
    for seq, code in ((8, 0), (9, 0), (4, 1)):
        result = run(
            "audit", *here, "--chain-only", "--expect", f"{NODE}={digests[seq]}", exits=code
        )
        assert ("can no longer be proved" in result.stdout) == (code == 1)
    assert run("index", "--rebuild", *here).stdout.startswith("node-a: records 9 to 25")
    assert run("verify", *here).exit_code == 0
    out = tmp_path / "out.ledger.jsonl"
    reported = run("export", *here, "--out", out, exits=0)
    assert "records 1 to 8 of node" in reported.stderr
    assert len(out.read_bytes().splitlines()) == 17
    assert run("diff", ledger.path, out).exit_code == 0
    assert run("diff", f"{ledger.path}@9", f"{ledger.path}@9").exit_code == 0
    assert run("diff", f"{ledger.path}@7", f"{ledger.path}@9").exit_code == 2


def test_the_history_forgets_what_was_dropped(tmp_path: Path) -> None:
    """No Parquet file holds it; answers about the rest are the same."""
    ledger = small(tmp_path / "l")
    assert run("index", "--ledger", ledger.path).exit_code == 0
    query = "SELECT seq, ts_ns, kind, body FROM events WHERE seq <= 24 ORDER BY seq"
    with connect(ledger.path) as queryable:
        rows = queryable.sql(query).fetchall()
        assert run("compact", "--ledger", ledger.path, "--keep-bytes", "2000").exit_code == 0
        (path,) = (ledger.path / "nodes" / NODE / "base").iterdir()
        first = int(path.name.removesuffix(".zst")) + 1
        kept = [row for row in rows if row[0] >= first]
        assert queryable.sql(query).fetchall() == kept
        assert kept
        assert queryable.sql("SELECT min(seq) FROM events").fetchall() == [(first,)]
    parts = (ledger.path / "history").glob("node=*/date=*/*.parquet")
    assert all(int(part.name.partition("-")[0]) >= first for part in parts)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    ledger = Ledger.create(
        tmp_path_factory.mktemp("recorded") / "l", WriterOptions(segment_bytes=100_000, level=1)
    )
    import_sources([str(RECORDINGS / "node-a.tar.zst")], ledger)
    return ledger


def verdicts(ledger: Ledger) -> dict[int, str]:
    (history,) = histories_of_ledger(ledger)
    return {
        outcome.seq: outcome.verdict
        for outcome in history.verify()
        if isinstance(outcome, Finding) and outcome.recorded is not None
    }


def test_a_recorded_node(tmp_path: Path, recorded: Ledger) -> None:
    """Verdicts are the same or name what was dropped; the same import adds nothing."""
    shutil.copytree(recorded.path, tmp_path / "l")
    ledger = Ledger.open(tmp_path / "l")
    (node,) = ledger.nodes()
    segments = ledger.info(node).segments
    before = verdicts(ledger)
    latest_ns = segments[0].max_ts_ns
    assert latest_ns is not None
    drop_by_policy(ledger, Policy(before_ns=latest_ns + 1, words="test"), 10**18)
    assert ledger.begin(node).seq == segments[0].last_seq
    after = verdicts(ledger)
    assert after.keys() == {seq for seq in before if seq > segments[0].last_seq}
    changed = {(before[seq], after[seq]) for seq in after if after[seq] != before[seq]}
    assert changed <= {("match", "unverifiable"), ("admissible", "unverifiable")}
    assert sum(verdict == "match" for verdict in after.values()) > len(after) / 2
    report = import_sources([str(RECORDINGS / "node-a.tar.zst")], ledger)
    assert report.added == 0
    base = ledger.begin(node).base
    assert base is not None
    at = format_ts(base.dropped.latest_ts_ns)
    assert run("state", "--ledger", ledger.path, "--at", at).exit_code == 0


READER = """
import sys, time
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.replay import state_at
from tests.ledger.making import NODE
ledger, way, last = Ledger.open(sys.argv[1]), sys.argv[2], 0
begins = set()
print("ready", flush=True)
while len(begins) < 20:
    if way == "records":
        read = []
        for record in ledger.records(NODE):
            read.append(record.seq)
            time.sleep(0.0005)
        assert read == list(range(read[0], read[0] + len(read))), read[:3]
        begins.add(read[0])
    elif way == "state":
        state = state_at(ledger, NODE)
        assert state.seq >= last
        last = state.seq
        begins.add(ledger.begin(NODE).seq)
    else:
        report = audit(ledger)
        assert report.findings == (), report.findings
        begins.add(report.nodes[0].first_seq)
"""


@pytest.mark.slow
def test_readers_beside_drops(tmp_path: Path) -> None:
    """As processes of their own: a reader never sees a hole, or anything that is not there."""
    ledger = ledger_of(tmp_path / "l", *(batch(s, 4) for s in range(0, 120, 4)), segment_bytes=1000)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(ledger.path), way],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for way in ("records", "state", "audit")
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    ts_ns = 8
    while any(reader.poll() is None for reader in readers):
        drop_by_policy(ledger, Policy(before_ns=ts_ns, words="test"), 10**18)
        append(ledger, batch(ts_ns + 112, 4))
        ts_ns += 4
        time.sleep(0.02)
    for reader in readers:
        _, said = reader.communicate()
        assert reader.returncode == 0, said


def klog(seconds: int) -> str:
    lines = [
        f"I1121 03:{second // 60:02d}:{second % 60:02d}.000000    1234 kubelet.go:2098] "
        f'"SyncLoop (PLEG): event for pod" pod="default/web-{second}" '
        f"event=&{{ID:0b0e6f3c-6f1e-4d0c-8c1d-{second:012d} "
        f"Type:ContainerStarted Data:{second:064x}}}\n"
        for second in range(seconds)
    ]
    return "Log file created at: 2026/11/21 03:00:00\n" + "".join(lines)


def facts(ledger: Ledger) -> list[str]:
    """What the records say, but for what the ledger says of itself."""
    return [repr(r.body) for r in ledger.records() if not r.kind.startswith("ledger.")]


def test_a_log_that_grows_brings_nothing_back(tmp_path: Path) -> None:
    """Of a log whose first records were dropped, only what is new is taken in."""
    log = tmp_path / "kubelet.log"
    ledger = Ledger.create(tmp_path / "l", WriterOptions(segment_bytes=1000, level=1))
    for seconds in (20, 30, 40):
        log.write_text(klog(seconds))
        import_sources([str(log)], ledger)
    whole = facts(ledger)
    (found,) = drop_by_policy(ledger, Policy(keep_bytes=0, words="test"), 10**18)
    assert found.record_seq is not None
    kept = facts(ledger)
    assert kept == whole[-len(kept) :]
    assert len(kept) < len(whole)
    log.write_text(klog(50))
    (report,) = import_sources([str(log)], ledger).bundles
    assert facts(ledger)[: len(kept)] == kept
    alone = Ledger.create(tmp_path / "alone")
    import_sources([str(log)], alone)
    assert facts(ledger) == facts(alone)[-len(facts(ledger)) :]
    assert report.left_out > 0
    assert import_sources([str(log)], ledger).added == 0
    assert audit(ledger).findings == ()
