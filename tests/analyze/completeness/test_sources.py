"""Sources, verbosity, and what to collect."""

import msgspec
import pytest

from kubeledger.analyze.completeness import Span
from kubeledger.analyze.completeness.report import advice_on, missing_report
from kubeledger.analyze.completeness.sources import ALWAYS, TELLS
from kubeledger.analyze.completeness.verbosity import KINDS
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
)
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    LinesNotUnderstood,
    RecordsLost,
    SourceAccount,
)
from kubeledger.model.bodies.lifecycle import ContainerDied, ContainerKilled
from kubeledger.model.bodies.node import ErrorsLogged, PodStageFailed
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.verify import Finding
from tests.analyze.completeness.worlds import (
    FLAG_LINE,
    POD,
    event,
    imported,
    report,
    settings,
    started,
    with_text,
)
from tests.verify.histories import scene

SIGNAL = EvictionSignalObserved(signal="memory.available", available=1, capacity=2)
GC_BEGUN = GarbageCollectionStarted(
    usage_percent=90, high_threshold_percent=85, low_threshold_percent=80, bytes_to_free=1
)
KILL = ContainerKilled(
    **POD, container="app", container_id="c1", reason=None, message=None, grace_period_s=None
)


def logged(*records: Record) -> list[Record]:
    """The first record rests on a line that only a kubelet's start logs."""
    return [with_text(records[0], FLAG_LINE), *records[1:]]


def test_files_and_their_lines() -> None:
    accounts = tuple(
        SourceAccount(file=file, lines=10, understood=6, noise=3, not_understood=1)
        for file in ("kubelet.log", "a/pods.json", "b/pods.json")
    )
    files = imported(("b/pods.json", "pod-list"), ("a/pods.json", "pod-list"),
                     ("kubelet.log", "klog-text"))  # fmt: skip
    end = ImportCompleted(digest="d", accounts=accounts)
    steps = scene((0, files), (1, SIGNAL), (5, SIGNAL), (6, end))
    sources = report(steps).sources
    rows = [(g.format, g.name, g.files, g.lines, g.not_understood) for g in sources.groups]
    assert rows == [("klog-text", "kubelet.log", 1, 10, 1), ("pod-list", "a/pods.json", 2, 20, 2)]
    log = sources.groups[0]
    assert (log.records, log.first_ts_ns, log.last_ts_ns) == (
        2, 1_001 * NS_PER_S, 1_005 * NS_PER_S,
    )  # fmt: skip
    assert sources.unfinished_imports == 0


def test_what_tells_of_stages_and_conditions() -> None:
    log = imported(("kubelet.log", "klog-text"))
    failed = PodStageFailed(
        **POD, container="app", stage="image", reason="ErrImagePull", message="",
        first_ts_ns=1_000 * NS_PER_S, last_ts_ns=1_000 * NS_PER_S,
    )  # fmt: skip
    told = report(scene((0, log), (1, failed), (2, failed))).sources.told
    assert dict.fromkeys(what for what, _, _ in told).keys() == TELLS.keys()
    assert [each for each in told if each[2]] == [("stages of pods", "klog-text", 2)]
    assert ("conditions of the node", "", 0) in told


def test_lost_records() -> None:
    """Named until the import is complete again; how many lines it had is not known till then."""
    lost = RecordsLost(
        first_seq=3, last_seq=9, chain="00" * 32, first_ts_ns=5, last_ts_ns=6, imports=("d",),
        others=False, found_ts_ns=7,
    )  # fmt: skip
    account = SourceAccount(file="kubelet.log", lines=9, understood=6, noise=3, not_understood=0)
    steps = ((0, imported(("kubelet.log", "klog-text"))), (1, SIGNAL), (1, lost))
    sources = report(scene(*steps)).sources
    (reported,) = sources.lost
    assert (reported.seq, reported.first_seq, reported.last_seq) == (3, 3, 9)
    assert (reported.first_ts_ns, reported.last_ts_ns) == (5, 6)
    assert [(group.lines, group.not_understood) for group in sources.groups] == [(None, None)]
    end = ImportCompleted(digest="d", accounts=(account,))
    sources = report(scene(*steps, (2, SIGNAL), (3, end))).sources
    assert sources.lost == []
    assert [group.lines for group in sources.groups] == [9]


def test_an_import_that_was_cut_off() -> None:
    """It has a begin and no end; a recording that goes on names no sources yet."""
    begun = imported(("kubelet.log", "klog-text"))
    assert report(scene((0, begun))).sources.unfinished_imports == 1
    assert report(scene((0, imported()))).sources.unfinished_imports == 0


def test_a_log_without_any_start() -> None:
    (process,) = report(scene((0, SIGNAL))).sources.processes
    assert (process.seq, process.begins) == (None, "middle")


def test_a_process_ends_where_the_next_begins() -> None:
    records = logged(*scene((0, started()), (1, SIGNAL), (60, started(restart=True))))
    assert [p.ends for p in report(records).sources.processes] == ["restart", "open"]
    assert len(report(records, Span(1_050 * NS_PER_S, None)).sources.processes) == 1


def test_decisions_without_an_end() -> None:
    died = ContainerDied(**POD, container="app", container_id="c1")
    whole = scene((0, GC_BEGUN), (1, GarbageCollected(outcome="failed")), (2, KILL), (3, died))
    assert report(whole).sources.open_decisions == []
    cut = report(scene((0, GC_BEGUN), (2, KILL))).sources.open_decisions
    assert [(one.seq, one.kind) for one in cut] == [(1, GC_BEGUN.kind), (2, KILL.kind)]


def test_findings_and_lines_that_nobody_understood() -> None:
    finding = FindingReported(finding="truncated", file="x.gz", message="m")
    rare = LinesNotUnderstood(file="l", shape="a.go x", count=1, lines=(1,))
    often = LinesNotUnderstood(file="l", shape="b.go y", count=2, lines=(2, 3))
    sources = report(scene((0, finding), (0, finding), (0, rare), (0, often))).sources
    assert sources.findings == [("truncated", "x.gz", "m")]
    assert sources.not_understood == [("l", "b.go y", 2), ("l", "a.go x", 1)]


def statuses(records: list[Record]) -> dict[str, str]:
    return {line.name: line.status for line in report(records).verbosity.lines}


def test_what_the_verbosity_cannot_hold() -> None:
    """At 2 there are no events, in any version."""
    found = statuses(scene((0, started("1.36.2")), (0, settings(v="2"))))
    assert found["events"] == "not logged"
    assert found["failed probes"] == "none"
    assert found["readiness and startup changes"] == "none"


def test_what_the_version_does_not_log() -> None:
    """1.20 never logs a readiness change."""
    found = statuses(scene((0, started("1.20.2")), (0, settings(v="5"))))
    assert found["readiness and startup changes"] == "not in this version"


@pytest.mark.parametrize(
    ("version", "status"), [("1.21.0", "none"), ("1.22.0", "not logged"), ("1.34.0", "none")]
)
def test_levels_go_by_version(version: str, status: str) -> None:
    """Preemptions were at 0, at 3 from 1.22, and are at 2 from 1.34."""
    found = statuses(scene((0, started(version)), (0, settings(v="2"))))
    assert found["preemptions"] == status


def test_a_short_log_need_not_hold_what_comes_now_and_then() -> None:
    """In eight minutes an image list may well be missing, in eleven not."""
    for minutes, status in ((8, "none"), (11, "missing")):
        records = scene((0, started()), (0, settings(v="5")), (minutes * 60, event()))
        assert statuses(records)["image lists"] == status


def test_the_verbosity_of_the_configuration() -> None:
    """``logging.verbosity`` of newer kubelets; an unknown one is not guessed."""
    logging = {"format": "text", "verbosity": 4}
    found = report(scene((0, started()), (0, settings(logging=logging)))).verbosity
    assert found.verbosity == 4
    unknown = report(scene((0, started()), (0, settings()), (1, SIGNAL))).verbosity
    assert unknown.verbosity is None
    unverified = {line.status for line in unknown.lines if line.level and not line.records}
    assert unverified == {"not known"}


def test_an_unknown_version_has_no_levels() -> None:
    found = statuses(scene((0, started("1.99.0")), (0, settings(v="5"))))
    assert set(found.values()) == {"not known"}


def test_the_table_of_levels_speaks_of_records_that_exist() -> None:
    known = {body.kind for body in BODY_TYPES.values()}
    for kind in KINDS:
        assert set(kind.records.split()) <= known
        assert [*kind.levels] == sorted(kind.levels)


def finding(seq: int, *missing: str) -> Finding:
    return Finding(
        seq=seq, ts_ns=seq, kind=f"k.{seq % 2}", subject="node",
        verdict="unverifiable" if missing else "match", missing=missing,
    )  # fmt: skip


def test_missing_inputs_by_how_many_lack_them() -> None:
    outcomes = [finding(1, "the pod's spec"), finding(2, "the pod's spec", "the setting x"),
                finding(3)]  # fmt: skip
    found = missing_report(outcomes, ALWAYS)
    assert (found.decisions, found.unverifiable) == (3, 2)
    assert [(i.what, i.decisions, i.kinds) for i in found.inputs] == [
        ("the pod's spec", 2, ["k.0", "k.1"]), ("the setting x", 1, ["k.0"]),
    ]  # fmt: skip
    assert missing_report(outcomes, Span(2, 2)).decisions == 1


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("the kubelet's version", "--kubelet-version"),
        ("the setting maxPods", "configuration file"),
        ("the pod's spec", "/pods"),
        ("the eviction signals at this time (logged from verbosity 3)", "--v=3"),
        ("the detect pass before the removal (logged from verbosity 5)", "--v=5"),
        ("the healthy devices of example.com/gpu at that time", "checkpoint"),
        ("the next line of the minute timer", "cgroup files"),
        ("the records after the end of the ledger", "more of the log"),
        ("something that no one ever named", "whole log"),
    ],
)
def test_advice(what: str, words: str) -> None:
    assert words in advice_on(what)


def test_lines_of_errors_by_what_tells_them() -> None:
    """Other records, the kubelet's own account that nothing is wrong, or their shape alone."""
    of_dns = ErrorsLogged(
        severity="E",
        source="dns.go",
        shape="Nameserver limits exceeded",
        count=3,
        first_ts_ns=1,
        last_ts_ns=2,
    )
    other = msgspec.structs.replace(of_dns, source="a.go", count=5)
    told = msgspec.structs.replace(other, recorded=True, count=7)
    errors = report(scene((0, of_dns), (1, other), (2, told))).sources.errors
    assert (errors.recorded, errors.by_shape, errors.harmless) == (7, 5, 3)
