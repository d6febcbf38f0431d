"""From files to records and again: order, accounts, nothing twice, nothing lost."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kubeledger.ingest import ingest
from kubeledger.ingest.api import ImportReport, import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    ImportStarted,
    LinesNotUnderstood,
)
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    SettingsObserved,
)
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from tests.ingest.feeding import DATA
from tests.ingest.node_files import log_text, pod, write_node


class Killed(Exception):
    """The process ends here."""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger")


def run(ledger: Ledger, *paths: Path) -> ImportReport:
    return import_sources([str(path) for path in paths], ledger)


def records(ledger: Ledger, node: str = "node-x") -> list[Record]:
    return list(ledger.records(node))


def facts(ledger: Ledger, node: str = "node-x") -> Counter[bytes]:
    """What is recorded of the node, without what the ledger says of itself."""
    return Counter(
        msgspec.json.encode([record.ts_ns, record.kind, record.body], order="sorted")
        for record in ledger.records(node)
        if not record.kind.startswith("ledger.")
    )


def write(path: Path, text: str) -> Path:
    """Make a file and its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_bundle(tmp_path: Path, ledger: Ledger) -> None:
    """Records in order, each line accounted for, all evidence inside the bundle."""
    report = run(ledger, write_node(tmp_path / "n"))
    stored = records(ledger)
    assert isinstance(stored[0].body, ImportStarted)
    assert isinstance(stored[-1].body, ImportCompleted)
    assert report.added == len(stored)
    assert [record.ts_ns for record in stored] == sorted(record.ts_ns for record in stored)
    kinds = Counter(record.kind for record in stored)
    assert kinds["prober.ProbeExecuted"] == 19
    assert kinds["images.ImageDeleted"] == 19
    assert kinds["node.KubeletStarted"] == 1
    assert kinds["lifecycle.PodListed"] == 1
    for account in report.bundles[0].accounts:
        parts = account.understood + account.noise + account.not_understood
        assert parts == account.lines, account.file
    text = b"".join(raw.line for raw in ledger.raw_lines("node-x"))
    assert str(tmp_path).encode() not in text


def test_again_adds_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """The same directory, an archive of its log, the log alone."""
    root = write_node(tmp_path / "n")
    run(ledger, root)
    count = len(records(ledger))
    packed = tmp_path / "again.log.gz"
    packed.write_bytes(gzip.compress((root / "kubelet.log").read_bytes()))
    for path in (root, packed, root / "kubelet.log"):
        report = run(ledger, path)
        assert report.added == 0
        assert report.bundles[0].already
    assert len(records(ledger)) == count


def kill_after(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """Small batches, and the end of the process after some of them."""
    original = ingest.Ingestion.batches

    def dying(self: ingest.Ingestion) -> Iterator[list[Draft]]:
        for number, batch in enumerate(original(self)):
            if number == batches:
                raise Killed
            yield batch

    monkeypatch.setattr(ingest, "BATCH", 5)
    monkeypatch.setattr(ingest.Ingestion, "batches", dying)


def killed_run(monkeypatch: pytest.MonkeyPatch, ledger: Ledger, root: Path, batches: int) -> None:
    """An import of which only so many batches are stored."""
    with monkeypatch.context() as patch:
        kill_after(patch, batches)
        with pytest.raises(Killed):
            run(ledger, root)


@pytest.mark.parametrize("batches", [0, 1, 4, 9])
def test_a_killed_import_is_completed(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """The second run adds what is missing; the ledger is as if nothing had happened."""
    root = write_node(tmp_path / "n")
    killed_run(monkeypatch, ledger, root, batches)
    before = len(records(ledger)) if ledger.nodes() else 0
    report = run(ledger, root).bundles[0]
    assert report.resumed == (before > 0)
    whole = Ledger.create(tmp_path / "whole")
    run(whole, root)
    lines = [raw.line for raw in ledger.raw_lines("node-x")]
    assert lines == [raw.line for raw in whole.raw_lines("node-x")]
    assert report.added == len(lines) - before


def test_a_killed_import_with_another_behind_it(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest cannot go right behind it, and is not lost for that."""
    root = write_node(tmp_path / "n")
    other = write(
        tmp_path / "o/node.json", '{"kind":"Node","metadata":{"name":"node-x","labels":{"a":"b"}}}'
    )
    killed_run(monkeypatch, ledger, root, 4)
    run(ledger, other)
    run(ledger, root)
    whole = Ledger.create(tmp_path / "whole")
    run(whole, other)
    run(whole, root)
    assert facts(ledger) == facts(whole)
    assert run(ledger, root).added == 0


@pytest.mark.parametrize("batches", [1, 4, 9])
def test_a_killed_import_and_a_part_of_its_sources(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """What the killed one stored is not stored again; with all sources the rest comes."""
    root = write_node(tmp_path / "n")
    killed_run(monkeypatch, ledger, root, batches)
    run(ledger, root / "kubelet.log")
    reported = [fact for fact in facts(ledger).items() if fact[1] > 1]
    whole = Ledger.create(tmp_path / "whole")
    run(whole, root / "kubelet.log")
    run(whole, root)
    assert reported == [fact for fact in facts(whole).items() if fact[1] > 1]
    run(ledger, root)
    assert facts(ledger) == facts(whole)
    assert run(ledger, root).added == 0


def test_new_snapshots_add_only_themselves(tmp_path: Path, ledger: Ledger) -> None:
    """A directory that grew: the log and the old snapshots are known."""
    root = write_node(tmp_path / "n")
    run(ledger, root)
    snapshot = root / "snapshots/20261121T030119Z"
    write(snapshot / "cgroupfs.txt", "cpu/kubepods/cpu.shares 99\n")
    report = run(ledger, root).bundles[0]
    assert set(report.by_kind) == {
        "cgroups.CgroupUpdated",
        "ledger.ImportStarted",
        "ledger.ImportCompleted",
    }


def test_a_value_that_comes_back(tmp_path: Path, ledger: Ledger) -> None:
    """A new snapshot with the bytes of an old one is news all the same."""
    root = write_node(tmp_path / "n")
    run(ledger, root)
    old = (root / "snapshots/20261121T030105Z/cgroupfs.txt").read_text()
    write(root / "snapshots/20261121T030119Z/cgroupfs.txt", old)
    assert run(ledger, root).bundles[0].by_kind["cgroups.CgroupUpdated"] == 1


def test_restart_and_versions(tmp_path: Path, ledger: Ledger) -> None:
    second = log_text(pid=9999, first=60).replace("v1.36.2", "v1.36.3")
    run(ledger, write(tmp_path / "kubelet.log", log_text() + second))
    starts = [body for record in records(ledger) if isinstance(body := record.body, KubeletStarted)]
    assert [(body.pid, body.kubelet_version, body.restart) for body in starts] == [
        (8337, "1.36.2", False),
        (9999, "1.36.3", True),
    ]


def test_settings_of_a_process_whose_start_is_lost(tmp_path: Path, ledger: Ledger) -> None:
    """What it answers later holds from its first line on."""
    lost = log_text(pid=9999, first=60).partition("Label not found")[2].partition("\n")[2]
    write(tmp_path / "b" / "kubelet.log", log_text() + lost)
    for time, limit in (("030110", 30), ("030215", 26)):
        file = tmp_path / "b" / "snapshots" / f"20261121T{time}Z" / "configz.json"
        write(file, f'{{"kubeletconfig": {{"maxPods": {limit}}}}}')
    run(ledger, tmp_path / "b")
    reported = [r for r in records(ledger) if isinstance(r.body, KubeletStarted | SettingsObserved)]
    starts = [r.body.from_start for r in reported if isinstance(r.body, KubeletStarted)]
    settings = [r.body.settings for r in reported if isinstance(r.body, SettingsObserved)]
    assert starts == [True, False]
    assert [fields["maxPods"].value for fields in settings] == ["30", "26"]
    assert reported[2].ts_ns == reported[3].ts_ns


def test_clock_that_steps_back(tmp_path: Path, ledger: Ledger) -> None:
    """Recorded as a fact and as a finding; records stay in the log's order."""
    run(ledger, write(tmp_path / "kubelet.log", log_text(first=30) + log_text()))
    bodies = [record.body for record in records(ledger)]
    assert [type(body) for body in bodies].count(ClockStepped) == 1
    found = [body.finding for body in bodies if isinstance(body, FindingReported)]
    assert "clock_stepped_back" in found


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (
            '"Need devices to allocate for pod" podUID="u" containerName="c" resourceName="r"',
            "deviceNumber",
        ),
        ('"Device plugin connected" resuorce="vendor.io/nic"', "resourceName"),
        ('"Adding image ID to currentImages" image="sha256:aa"', "imageKey"),
    ],
)
def test_a_known_message_without_a_key_that_it_needs(
    tmp_path: Path, ledger: Ledger, words: str, key: str
) -> None:
    """What it says is lost: it counts as not understood, and its shape says what is missing."""
    text = log_text() + f"I1121 03:01:59.000000    8337 manager.go:1] {words}\n"
    accounts = run(ledger, write(tmp_path / "kubelet.log", text)).bundles[0].accounts
    assert [account.not_understood for account in accounts] == [1]
    assert sum(account.understood + account.noise for account in accounts) == text.count("\n") - 1
    (body,) = [
        body for record in records(ledger) if isinstance(body := record.body, LinesNotUnderstood)
    ]
    message = words.split('"')[1]
    assert body.shape == f"manager.go {message} (without {key})"


def test_bad_input_writes_nothing(tmp_path: Path, ledger: Ledger) -> None:
    """It cannot be told whose a log is: what is clear is not imported either."""
    write_node(tmp_path / "all/node-a", "node-a")
    write_node(tmp_path / "all/node-b", "node-b")
    nameless = log_text(first=100).partition("\n")[2]
    write(tmp_path / "all/kubelet.log", nameless)
    with pytest.raises(BadInputError, match="more than one node"):
        run(ledger, tmp_path / "all")
    assert ledger.nodes() == []


def test_a_byte_order_mark(tmp_path: Path, ledger: Ledger) -> None:
    """The first line is read as without it, also where the mark comes in two chunks."""
    text = log_text().encode()
    for packed in (
        b"\xef\xbb\xbf" + text,
        gzip.compress(b"\xef") + gzip.compress(b"\xbb\xbf" + text),
    ):
        (path := tmp_path / "kubelet.log").write_bytes(packed)
        assert b"".join(SourceFile(path.name, path).chunks()) == text
    report = run(ledger, path).bundles[0]
    assert report.accounts[0].not_understood == 0
    assert report.kubelet_version == "1.36.2"


def test_half_written_last_line(tmp_path: Path, ledger: Ledger) -> None:
    """A log copied while it was written: its last line has no end, and that is said."""
    text = log_text()
    report = run(ledger, write(tmp_path / "kubelet.log", text[:-9])).bundles[0]
    assert "half_written" in {finding.finding for finding in report.findings}
    assert report.accounts[0].lines == text[:-9].count("\n") + 1


def test_progress_reaches_the_end(tmp_path: Path, ledger: Ledger) -> None:
    """Bytes read go up to all there are."""
    seen: list[tuple[int, int]] = []
    log = write(tmp_path / "kubelet.log", log_text())
    import_sources([str(log)], ledger, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (log.stat().st_size, log.stat().st_size)


def test_damaged_values_keep_nothing_else_out(tmp_path: Path, ledger: Ledger) -> None:
    """A malformed snapshot and a malformed line are findings; the rest is imported."""
    root = write_node(tmp_path / "n")
    bad = {**pod(), "metadata": {**pod()["metadata"], "creationTimestamp": "yesterday"}}
    write(
        root / "snapshots/20261121T030110Z/pods.json",
        json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [bad]}),
    )
    checkpoint = {"Data": {"PodDeviceEntries": 5, "RegisteredDevices": {}}, "Checksum": 1}
    write(root / "snapshots/20261121T030110Z/kubelet_internal_checkpoint", json.dumps(checkpoint))
    report = run(ledger, root).bundles[0]
    malformed = {item.file for item in report.findings if item.finding == "malformed"}
    assert malformed == {
        "snapshots/20261121T030110Z/pods.json",
        "snapshots/20261121T030110Z/kubelet_internal_checkpoint",
    }
    assert report.by_kind["prober.ProbeExecuted"] == 19


def test_damaged_stamps(tmp_path: Path, ledger: Ledger) -> None:
    """A stamp with a bad byte in a line that is noise otherwise stops nothing."""
    noise = 'I1121 03:01:10.000000    8337 labels.go:5] "Label not found" label="x"\n'
    text = log_text() + noise + noise.replace("03:01:10.0", "03:01:1x.0") + noise
    report = run(ledger, write(tmp_path / "kubelet.log", text)).bundles[0]
    assert report.accounts[0].lines == text.count("\n")


@pytest.mark.parametrize(
    "line",
    [
        'image_gc_manager.go:305] "Disk usage on image filesystem is over the high threshold, '
        'trying to free bytes down to the low threshold" usage=86 highThreshold=85 '
        "amountToFree=AMOUNT lowThreshold=80",
        "image_gc_manager.go:305] [imageGCManager]: Disk usage on image filesystem is at 86% which "
        "is over the high threshold (85%). Trying to free AMOUNT bytes down to the low threshold "
        "(80%).",
    ],
)
def test_an_amount_that_no_record_holds(tmp_path: Path, ledger: Ledger, line: str) -> None:
    """The line is among those not understood, not among those that told something."""
    text = log_text().splitlines()[0]
    stamp = text[: text.index("]")].rsplit(" ", 1)[0]
    for amount, lost in ((10**25, 1), (10**9, 0)):
        log = tmp_path / str(amount) / "kubelet.log"
        write(log, f"{text}\n{stamp} {line.replace('AMOUNT', str(amount))}\n")
        (account,) = run(ledger, log).bundles[0].accounts
        assert (account.lines, account.not_understood) == (2, lost)
    found = [record.body for record in ledger.records()]
    (shape,) = [body.shape for body in found if isinstance(body, LinesNotUnderstood)]
    assert shape.startswith("(unreadable record) image_gc_manager.go")


def test_an_amount_of_the_kernels_that_no_record_holds(tmp_path: Path, ledger: Ledger) -> None:
    """A file that is read as a whole has no account of lines; the finding names the place."""
    text = (DATA / "kernel" / "linux-3.10.log").read_text()
    path = write(tmp_path / "kernel.log", re.sub(r"limit \d+kB", f"limit {10**20}kB", text))
    found = run(ledger, path).bundles[0].findings
    assert "malformed" in {each.finding for each in found if each.file == "kernel.log"}


def test_a_log_in_no_order_tells_of_its_clock_a_few_times(tmp_path: Path) -> None:
    """Each step is a record; not each is a finding. Its parts lie over one another."""
    seconds = [part * 23 % 30 + 9 * number for part in range(24) for number in range(4)]
    log = tmp_path / "kubelet.log"
    log.write_text(
        "".join(
            f'I0822 10:00:{second:02}.{number:06} 5 kubelet.go:7] "Starting"\n'
            for number, second in enumerate(seconds)
        )
    )
    ledger = Ledger.create(tmp_path / "ledger")
    (bundle,) = import_sources([str(log)], ledger, ImportOptions(node="n", year=2026)).bundles
    steps = [r for r in ledger.records("n") if isinstance(r.body, ClockStepped)]
    assert len(steps) > 3
    assert [found.finding for found in bundle.findings].count("clock_stepped_back") == 3
