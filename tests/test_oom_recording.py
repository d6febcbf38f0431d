"""Kills by the kernel on a real node: against its raw logs, and with lies."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.eviction import OutOfMemory, ProcessKilled
from kubeledger.model.record import Record
from tests.recordings import extract
from tests.verify.histories import changed, findings, recorded

RECORDING = "node-e-oom"


@cache
def _kills() -> tuple[tuple[Record, ProcessKilled], ...]:
    return tuple((r, r.body) for r in recorded(RECORDING) if isinstance(r.body, ProcessKilled))


def test_every_kill_of_the_kernel_is_there_once(tmp_path: Path) -> None:
    """Row by row against what a few regular expressions find in the kernel's log."""
    text = (extract(RECORDING, tmp_path) / "kernel.log").read_text()
    paths = re.findall(r"oom_memcg=/([^,]+),task_memcg=/([^,]+),task=(\w+),pid=(\d+)", text)
    lasts = re.findall(
        r"Killed process (\d+) .*anon-rss:(\d+)kB, file-rss:(\d+)kB.*adj:(-?\d+)", text
    )
    limits = re.findall(r"memory: usage \d+kB, limit (\d+)kB", text)
    # The ring buffer begins behind the first report's limit.
    reported = [None, *(int(limit) << 10 for limit in limits)]
    truth = [
        (limit_group, task_group, name, int(pid), (int(anon) + int(file)) << 10, int(adj), limit)
        for (limit_group, task_group, name, pid), (_, anon, file, adj), limit in zip(
            paths, lasts, reported, strict=True
        )
    ]
    rows = [
        (b.cgroup, b.task_cgroup, b.process, b.pid, b.rss_bytes, b.oom_score_adj, b.limit_bytes)
        for _, b in _kills()
        if b.pid is not None
    ]
    assert rows == truth
    assert len(rows) == 18


def test_every_line_of_the_kubelet_is_one_of_the_kills(tmp_path: Path) -> None:
    """A new kubelet process tells again of old kills; none is there twice, and none is lost."""
    text = (extract(RECORDING, tmp_path) / "kubelet.log").read_text()
    lines = re.findall(r"Created an OOM event in container \"/([^\"]+)\" at \S+ ([\d:]+)", text)
    distinct = set(lines)
    assert len(lines) == len(distinct) == 35
    reported = [str(body.task_cgroup) for _, body in _kills() if body.task_cgroup is not None]
    assert sorted(reported) == sorted(path for path, _ in distinct)
    (rest,) = [b for _, b in _kills() if b.task_cgroup is None]
    assert (rest.pod, rest.container) == ("oom-never", "app")


def test_verdicts() -> None:
    """Each whole report leads to the process that was killed."""
    found = findings(recorded(RECORDING), kind=ProcessKilled.kind)
    assert [f.verdict for f in found].count("match") == 18
    assert {f.verdict for f in found} == {"match", "unverifiable"}
    why = next(f.why for f in reversed(found) if f.verdict == "match")
    assert why.endswith("oom_score_adj was 1, though the kubelet gives a Guaranteed container -997")


def _last() -> tuple[Record, ProcessKilled, OutOfMemory]:
    record, body = _kills()[-1]
    cause = next(r.body for r in recorded(RECORDING) if r.seq == record.cause)
    assert isinstance(cause, OutOfMemory)
    return record, body, cause


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        ({"pid": 16114}, "process 16114 is busybox"),
        ({"pid": 4}, "process 4 is not among"),
        ({"process": "busybox"}, "not busybox"),
        ({"rss_bytes": 80 << 20}, "pages in memory, not"),
        ({"rss_bytes": 30 << 20}, "pages in memory, not"),
        ({"limit_bytes": 128 << 20}, "what had been used up were the 67108864 bytes"),
        ({"oom_score_adj": -997}, "oom_score_adj of process"),
        ({"container": "calm"}, "is app, not calm"),
        ({"container_id": "a" * 64}, "the cgroup is that of"),
        ({"pod_uid": "other"}, "the cgroup is that of"),
        ({"reason": "container_limit"}, "is a pod's cgroup"),
        ({"reason": "node"}, "is a pod's cgroup"),
        ({"cgroup": "kubepods/burstable"}, "the process ran in"),
    ],
)
def test_a_lie_about_a_kill(lie: dict[str, Any], says: str) -> None:
    record, *_ = _last()
    lied = changed(recorded(RECORDING), record.seq, **lie)
    (found,) = [f for f in findings(lied, kind=ProcessKilled.kind) if f.seq == record.seq]
    assert found.verdict == "impossible"
    assert says in found.why


def _with_report(**fields: Any) -> list[Record]:  # noqa: ANN401 # any field
    record, *_ = _last()
    assert record.cause is not None
    return changed(recorded(RECORDING), record.cause, **fields)


def test_a_lie_about_another_process() -> None:
    """With which that one would have been killed; not with so few pages that it may be a race."""
    record, body, cause = _last()
    victim = next(task for task in cause.tasks or () if task.pid == body.pid)
    for pages, verdict in ((1, "match"), (900, "admissible"), (4000, "impossible")):
        tasks = tuple(
            task
            if task.pid == victim.pid
            else msgspec.structs.replace(
                task,
                rss_pages=victim.rss_pages + pages - 1,
                page_table_bytes=victim.page_table_bytes,
            )
            for task in cause.tasks or ()
        )
        reported = findings(_with_report(tasks=tasks), kind=ProcessKilled.kind)
        (found,) = [f for f in reported if f.seq == record.seq]
        assert found.verdict == verdict
        if verdict == "impossible":
            last = next(task for task in reversed(tasks) if task.pid != victim.pid)
            assert found.expected == {"pid": last.pid, "process": last.process}


def test_a_cgroup_that_was_not_short() -> None:
    """The kernel names a cgroup where its limit was reached, and nowhere else."""
    record, *_ = _last()
    reported = findings(_with_report(constraint="none"), kind=ProcessKilled.kind)
    (found,) = [f for f in reported if f.seq == record.seq]
    assert (found.verdict, "no cgroup's limit" in found.why) == ("impossible", True)


def test_a_wrong_limit_in_both() -> None:
    record, *_ = _last()
    lied = _with_report(limit_bytes=128 << 20)
    lied = changed(lied, record.seq, limit_bytes=128 << 20)
    (found,) = [f for f in findings(lied, kind=ProcessKilled.kind) if f.seq == record.seq]
    assert (found.verdict, found.why) == (
        "impossible",
        "the pod's limit is 67108864, not 134217728 bytes",
    )


@pytest.mark.parametrize(
    ("adjustments", "swap", "verdict"),
    [
        # Whoever has the greater adjustment wins when there is enough memory in all.
        ((-400, 1000), 0, "impossible"),
        ((1000, 0), 0, "match"),
        ((0, 1), 0, "match"),
        ((0, 1), 1 << 40, "unverifiable"),
    ],
)
def test_adjustments(adjustments: tuple[int, int], swap: int, verdict: str) -> None:
    """Their weight grows with all there is, which swap makes uncertain."""
    record, body, cause = _last()
    tasks = tuple(
        msgspec.structs.replace(task, oom_score_adj=adjustments[task.pid != body.pid])
        for task in cause.tasks or ()
    )
    lied = _with_report(tasks=tasks, swap_limit_bytes=swap)
    lied = changed(lied, record.seq, oom_score_adj=adjustments[0])
    (found,) = [f for f in findings(lied, kind=ProcessKilled.kind) if f.seq == record.seq]
    assert found.verdict == verdict
    if verdict == "unverifiable":
        assert found.missing == ("how much swap the node has",)


def test_a_cgroup_that_had_not_used_up_its_limit() -> None:
    """Memory may have been freed while the report was written; nothing else explains it."""
    record, *_ = _last()
    reported = findings(_with_report(usage_bytes=30 << 20, at_limit=False), kind=ProcessKilled.kind)
    (found,) = [f for f in reported if f.seq == record.seq]
    assert found.missing == ("what was freed while the kernel wrote its report",)
    assert "used 30720 of its limit of 65536 KiB" in found.why


def test_without_the_table() -> None:
    record, *_ = _last()
    reported = findings(_with_report(tasks=None), kind=ProcessKilled.kind)
    (found,) = [f for f in reported if f.seq == record.seq]
    assert found.missing == ("the kernel's report with its table of processes",)


def test_the_same_kills_in_several_files_are_told_once(tmp_path: Path) -> None:
    """As ``dmesg`` and a system's log hold them; the recording's own file is the fuller one."""
    directory = extract(RECORDING, tmp_path)
    lines = (directory / "kernel.log").read_text().splitlines()
    other = [
        f"Nov 22 {line[11:19]} node-e kernel: {line.partition(' ')[2]}"
        for line in lines
        if "invoked" not in line
    ]
    (directory / "kern.log").write_text("\n".join(other) + "\n")
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(directory)], ledger)
    again = [
        r.body
        for r in histories_of_ledger(ledger)[0].read(None)
        if isinstance(r.body, ProcessKilled)
    ]
    assert sorted(map(str, again)) == sorted(str(body) for _, body in _kills())
