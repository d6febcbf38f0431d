"""What is found in files, directories and archives, and what is refused."""

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.planning.plan import Plan
from kubeledger.ingest.sources.detect import detect
from kubeledger.ingest.sources.streams import SourceFile, digest_chunks
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.units import NS_PER_S, format_ts, parse_ts
from tests.ingest.node_files import log_text, pod, snapshot_time, write_node
from tests.ingest.plans import plan_sources


def plans(tmp_path: Path, *paths: Path, options: ImportOptions | None = None) -> list[Plan]:
    spool = tmp_path / "spool"
    spool.mkdir(exist_ok=True)
    return plan_sources([str(path) for path in paths], spool, options or ImportOptions())


def one(tmp_path: Path, *paths: Path, options: ImportOptions | None = None) -> Plan:
    (plan,) = plans(tmp_path, *paths, options=options)
    return plan


def write(path: Path, text: str | bytes) -> Path:
    """Make a file and its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


EVENT = {
    "kind": "Event",
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
    "reason": "Unhealthy",
    "message": "Liveness probe failed: x\n",
    "source": {"component": "kubelet", "host": "node-x"},
    "firstTimestamp": "2026-11-21T03:01:01Z",
    "lastTimestamp": "2026-11-21T03:01:09Z",
    "count": 4,
}
POD_LIST = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod()]}

SHARED = 'I1121 03:01:01.000000       1 operation_generator.go:7] "MountVolume.SetUp succeeded"\n'
OWN = 'I1121 03:01:01.000000       1 pod_workers.go:7] "Error syncing pod, skipping"\n'
FOUND = f"I1121 03:01:02.000000       1 logs.go:138] Found kubelet problem: {OWN}"

FORMAT_ROWS = [
    ("kubelet.log", log_text(), "klog-text"),
    ("x.log", '{"ts":1.5,"caller":"kubelet/kubelet.go:1","msg":"m","v":0}\n', "klog-json"),
    ("y", f"Nov 21 03:01:00 n kubelet[1]: {log_text().splitlines()[0]}\n", "klog-text"),
    ("noise.log", "+ set -x\n" * 9000 + log_text(), "klog-text"),
    ("kubelet_internal_checkpoint", '{"Data":{},"Checksum":1}', "device-checkpoint"),
    ("s", '{"policyName":"none","defaultCpuSet":"","checksum":1}', "cpu-manager-state"),
    ("s", '{"policyName":"None","machineState":{},"checksum":1}', "memory-manager-state"),
    ("s", '{"policyName":"None","checksum":1}', None),
    ("pods.json", json.dumps(POD_LIST), "pod-list"),
    ("pods.json", '{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}', "pod-list"),
    ("p.json", json.dumps({"items": [{"kind": "Pod"}], "kind": "List"}), "pod-list"),
    ("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n", "pod-manifest"),
    ("w.json", '{"kind":"Pod","metadata":{"name":"w","creationTimestamp":null}}', "pod-manifest"),
    ("w.json", '{"kind":"Pod","metadata":{"name":"w","creationTimestamp":"2026-11-21T03:00:00Z"}}',
     "pod-list"),
    ("e.json", json.dumps({"items": [EVENT], "kind": "List"}, indent=1), "events"),
    ("w.json", json.dumps(EVENT, indent=1) + "\n" + json.dumps(EVENT), "events"),
    ("w.json", json.dumps({"type": "ADDED", "object": EVENT}), "events"),
    ("w.json", json.dumps([{"type": "ADDED", "object": EVENT}]), "events"),
    ("a.json", json.dumps([EVENT, EVENT], indent=1), "events"),
    ("a.json", json.dumps([pod(), pod()]), "pod-list"),
    ("a.json", "[7, null]", None),
    ("a.json", '{"spec": 7, "status": "x"}', None),
    ("a.json", '[{"spec": true, "status": 7}]', None),
    ("n.json", '{"kind":"Node","metadata":{"name":"n"}}', "node"),
    ("stats", '{"node":{"nodeName":"n"},"pods":[]}', "stats-summary"),
    ("c.yaml", "kind: KubeletConfiguration\nmaxPods: 40\n", "kubelet-config"),
    ("configz", '{"kubeletconfig":{"maxPods":40}}', "kubelet-configz"),
    ("m", "# HELP a b\n# TYPE a counter\na 1\n", "metrics"),
    ("v1", "cpu/kubepods/cpu.shares 2\n", "cgroup-files"),
    ("v2", "kubepods.slice/kubepods-burstable.slice/cpu.weight 10\n", "cgroup-files"),
    ("secret.json", '{"kind":"Secret"}', None),
    ("half", '{"Data":{"PodDeviceEntries":[', None),
    ("notes.txt", "what I did\n", None),
    ("empty", "", None),
    ("kube-proxy.log", "I1121 03:01:00.000000       1 proxier.go:1] x\n", None),
    ("csi.log", "I1121 03:01:00.000000       1 nodeserver.go:7] Mount\n" + SHARED, None),
    ("csi.log", "I1121 03:01:00.000000       1 nodeserver.go:7] Mount\n" + OWN, "klog-text"),
    ("paste", SHARED, "klog-text"),
    ("logs", f"==> Last Start <==\nI1121 03:01:00.000000 1 ssh_runner.go:7] R\n{FOUND}", None),
    ("logs", f"I1121 03:01:00.000000 1 logs.go:7] R\nNov 21 03:01:00 n kubelet[1]: {SHARED}",
     "klog-text"),
    ("dump", "==== START logs for container kube-apiserver of pod kube-system/a ====\n"
     "I1121 03:01:00.000000       1 options.go:7] external host\n"
     "I1121 03:01:00.000000       1 server.go:7] Version: v1.31.0\n", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "form"), FORMAT_ROWS)
def test_detection(tmp_path: Path, name: str, text: str, form: str | None) -> None:
    """Content tells the format; compression and a byte order mark change nothing."""
    found = detect(SourceFile(name, write(tmp_path / name, text)))
    assert found.format == form
    assert bool(found.reason) == (form is None)
    for suffix, packed in (
        (".marked", b"\xef\xbb\xbf" + text.encode()),
        (".gz", gzip.compress(text.encode())),
        (".zst", zstandard.ZstdCompressor().compress(text.encode())),
    ):
        path = write(tmp_path / f"{name}{suffix}", packed)
        assert detect(SourceFile(path.name, path)).format == form


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("kubelet.log", b"\x7fELF\0\0\1" * 500),
        ("kubelet.log.gz", gzip.compress(log_text().encode(), mtime=0)[:5]),
    ],
)
def test_the_only_log_cannot_be_read(tmp_path: Path, name: str, content: bytes) -> None:
    """It is named and nothing is read; beside a log that can be it is a finding."""
    root = tmp_path / "n"
    write(root / "pods.json", json.dumps(POD_LIST))
    write(root / name, content)
    with pytest.raises(BadInputError, match=f"{name} is not read: .*nothing is imported") as caught:
        plans(tmp_path, root)
    assert caught.value.exit_code == 3
    write(root / "kubelet.log.1", log_text())
    assert [found.file for found in one(tmp_path, root).findings] == [name]


def test_binary_file_is_told(tmp_path: Path) -> None:
    """A core dump called a log is skipped, and worth a finding."""
    found = detect(SourceFile("kubelet.log", write(tmp_path / "x", b"\x7fELF\0\0\1" * 500)))
    assert (found.format, found.finding) == (None, "not_text")


def test_directory(tmp_path: Path) -> None:
    """Node, version, year and times of a whole bundle."""
    plan = one(tmp_path, write_node(tmp_path / "node-x-v1.20.2"))
    assert (plan.context.node, plan.version.version, plan.version.source) == (
        "node-x",
        "1.36.2",
        "log",
    )
    assert (plan.timing.year, plan.timing.year_source) == (2026, "bundle")
    times = {doc.source.name: format_ts(doc.ts_ns) for doc in plan.timing.documents}
    assert times[f"snapshots/{snapshot_time(5)}/pods.json"] == "2026-11-21T03:01:05Z"
    assert list(plan.context.pods) == [pod()["metadata"]["uid"]]
    assert plan.context.containers["abc"].container == "app"
    assert not plan.findings


@pytest.mark.parametrize(
    ("lags_s", "ahead_s"),
    [
        ([0, -1, -3], 0),
        ([-7, -7, -9], 0),  # an overloaded node answers so late
        ([21, 20, 18], 21),
        ([-18, -20, -25], -18),
        ([20, 20], 0),  # too few
        ([20, 20, -60], 0),  # no clock that the others went by
        ([3600], 3600),  # a zone
        ([3594, 3595, 3598], 3600),
        ([3620, 3619, 3618], 3620),
    ],
)
def test_snapshots_named_by_another_clock(tmp_path: Path, lags_s: list[int], ahead_s: int) -> None:
    """Statistics show it: a part of them is read when they are asked for."""
    root = write_node(tmp_path / "node-x-v1.36.2")
    for second, lag_s in enumerate(lags_s, 20):
        shown = format_ts(parse_ts(f"2026-11-21T03:01:{second}Z") - lag_s * NS_PER_S)
        stats = {"node": {"nodeName": "node-x", "rlimit": {"time": shown}}, "pods": []}
        write(root / "snapshots" / snapshot_time(second) / "stats-summary.json", json.dumps(stats))
    plan = one(tmp_path, root)
    times = {doc.source.name: doc.ts_ns for doc in plan.timing.documents}
    named_ns = parse_ts("2026-11-21T03:01:05Z")
    shown_ns = times[f"snapshots/{snapshot_time(5)}/pods.json"]
    assert named_ns - shown_ns == ahead_s * NS_PER_S
    assert ("time_zone" in {each.finding for each in plan.findings}) == (ahead_s != 0)


@pytest.mark.parametrize(
    ("lags_s", "ahead_s", "unknown"),
    [
        ([2, 40, 90], 0, False),
        ([-1, 40, 90], 0, False),
        ([6, 7, 40], 0, True),  # read long before its name, or nothing was new
        ([-20, -15, 10], -20, True),  # they tell what was still to come
        ([-20, 10], 0, False),  # too few
    ],
)
def test_lists_named_by_another_clock(
    tmp_path: Path, lags_s: list[int], ahead_s: int, *, unknown: bool
) -> None:
    """Where there are no statistics, what lists show bounds when they were read."""
    root = write_node(tmp_path / "node-x-v1.36.2")
    for listed_before in root.rglob("pods.json"):
        listed_before.unlink()
    for second, lag_s in enumerate(lags_s, 20):
        made = format_ts(parse_ts(f"2026-11-21T03:01:{second}Z") - lag_s * NS_PER_S)
        listed = pod()
        listed["metadata"]["creationTimestamp"] = made
        listed["status"] = {}
        text = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [listed]})
        write(root / "snapshots" / snapshot_time(second) / "pods.json", text)
    plan = one(tmp_path, root)
    times = {doc.source.name: doc.ts_ns for doc in plan.timing.documents}
    shown_ns = times[f"snapshots/{snapshot_time(20)}/pods.json"]
    assert parse_ts("2026-11-21T03:01:20Z") - shown_ns == ahead_s * NS_PER_S
    assert ("clock_unknown" in {each.finding for each in plan.findings}) == unknown


def test_several_nodes_below_one_directory(tmp_path: Path) -> None:
    """A bundle for each; what is outside of them is none's."""
    for node in ("node-a", "node-b"):
        write_node(tmp_path / "all" / node / "logs", node)
    write(tmp_path / "all/README.md", "notes")
    found = plans(tmp_path, tmp_path / "all")
    assert [plan.context.node for plan in found] == ["node-a", "node-b"]
    assert {source.file for source in found[0].sources} >= {"logs/kubelet.log", "logs/node.json"}


def test_rotated_logs_of_one_node(tmp_path: Path) -> None:
    """Logs in two directories that name one node are one bundle, in the order of time."""
    write(tmp_path / "n/old/kubelet.log.1.gz", gzip.compress(log_text(first=0).encode()))
    write(tmp_path / "n/kubelet.log", log_text(first=40))
    plan = one(tmp_path, tmp_path / "n")
    names = [survey.source.name for survey in plan.timing.logs]
    assert names == ["old/kubelet.log.1.gz", "kubelet.log"]


def test_logs_over_new_year(tmp_path: Path) -> None:
    """December's log comes before January's, and has the year before."""
    write(tmp_path / "n/kubelet.log", log_text().replace("I1121", "I0101"))
    write(tmp_path / "n/kubelet.log.1", log_text().replace("I1121", "I1231"))
    write(tmp_path / "n/20260101T120000Z/pods.json", json.dumps(POD_LIST))
    plan = one(tmp_path, tmp_path / "n")
    assert [survey.source.name for survey in plan.timing.logs] == ["kubelet.log.1", "kubelet.log"]
    assert plan.timing.year == 2025


def test_a_clock_that_begins_in_january(tmp_path: Path) -> None:
    """A node without a battery has the year's first day until its clock is set."""
    write(tmp_path / "n/kubelet.log", log_text().replace("I1121", "I0101") + log_text())
    write(tmp_path / "n/20261121T030200Z/pods.json", json.dumps(POD_LIST))
    assert one(tmp_path, tmp_path / "n").timing.year == 2026


def test_same_content_twice(tmp_path: Path) -> None:
    """A log and its compressed copy are one source."""
    write(tmp_path / "n/kubelet.log", log_text())
    write(tmp_path / "n/kubelet.log.gz", gzip.compress(log_text().encode()))
    plan = one(tmp_path, tmp_path / "n")
    assert [source.file for source in plan.sources] == ["kubelet.log"]
    assert plan.bundle.skipped == {"kubelet.log.gz": "same content as kubelet.log"}


def test_journal_beside_the_log(tmp_path: Path) -> None:
    """The same entries in two wrappings are one source."""
    write(tmp_path / "n/kubelet.log", log_text())
    wrapped = [f"Nov 21 03:01:00 n kubelet[8337]: {line}" for line in log_text().splitlines()]
    write(tmp_path / "n/journal.txt", "\n".join(wrapped) + "\n")
    plan = one(tmp_path, tmp_path / "n")
    assert plan.bundle.skipped == {"journal.txt": "same entries as kubelet.log"}
    write(tmp_path / "n/journal.txt", "\n".join(wrapped[:-12]) + "\n")
    assert one(tmp_path, tmp_path / "n").bundle.skipped == plan.bundle.skipped


def test_a_journal_that_lacks_a_part_is_read_beside_the_log(tmp_path: Path) -> None:
    """And so is the log, which lacks another."""
    lines = [
        f'I1121 03:{n // 60:02}:{n % 60:02}.000000    8337 a.go:1] "Line" number={n} {"x" * 200}'
        for n in range(600)
    ]
    wrapped = [f"Nov 21 03:01:00 n kubelet[8337]: {line}" for line in lines]
    write(tmp_path / "n/kubelet.log", "\n".join(lines[:300] + lines[400:]) + "\n")
    write(tmp_path / "n/journal.txt", "\n".join(wrapped[:100] + wrapped[200:]) + "\n")
    assert one(tmp_path, tmp_path / "n").bundle.skipped == {}


def rejected(time: str, observed: int | None = None) -> str:
    """An event that was not sent, and, before it, what a better source tells of the year."""
    better = (
        "I1121 03:01:00.500000    8337 helpers.go:814] time: "
        f"{observed}-11-21 03:01:00.4 +0000 UTC m=+1.5\n"
    )
    return (better if observed is not None else "") + (
        "E1121 03:01:00.600000    8337 event.go:267] Server rejected event '&v1.Event{"
        "CreationTimestamp:time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC), "
        f"FirstTimestamp:{time}, LastTimestamp:{time}, Count:1}}': 'forbidden' (will not retry!)\n"
    )


YEAR_ROWS = [
    ("option", ImportOptions(year=2031), "", 2031),
    ("log", None, "Log file created at: 2019/11/21 03:01:00\n", 2019),
    ("log", None,
     "I1121 03:01:00.500000    8337 helpers.go:814] eviction manager: observations: "
     "signal=pid.available, available: 1, capacity: 2, time: 2022-11-21 03:01:00.4 +0000 UTC "
     "m=+1.5\n", 2022),
    ("log", None,
     "I1121 03:01:00.500000    8337 status_manager.go:572] Patch status for pod: "
     '"creationTimestamp":"2018-02-01T10:00:00Z","startTime":"2021-11-20T19:01:00Z"\n', 2021),
    ("log", None, "-- Logs begin at Sun 2020-11-01 00:00:00 UTC, end at Sat 2020-11-21 03:01:30\n",
     2020),
    ("log", None, rejected("time.Date(2017, time.November, 20, 23, 4, 0, 7, time.Local)"), 2017),
    ("log", None, rejected("2016-11-21 03:00:58 +0100 CET"), 2016),
    ("log", None, rejected("time.Date(2017, time.May, 1, 1, 4, 0, 7, time.Local)", 2015), 2015),
    ("bundle", None, rejected("time.Date(2017, time.November, 1, 1, 4, 0, 7, time.Local)"), 2026),
    ("bundle", None,
     "I1121 03:01:00.500000    8337 certificate_manager.go:356] Certificate expiration is "
     "2027-11-21 03:00:00 +0000 UTC, rotation deadline is 2027-11-20 12:00:00 +0000 UTC\n", 2026),
]  # fmt: skip


@pytest.mark.parametrize(("source", "options", "line", "year"), YEAR_ROWS)
def test_year(
    tmp_path: Path, source: str, options: ImportOptions | None, line: str, year: int
) -> None:
    """An option beats the log, the log beats the rest."""
    root = write_node(tmp_path / "n")
    write(root / "kubelet.log", line + log_text())
    plan = one(tmp_path, root, options=options)
    assert (plan.timing.year, plan.timing.year_source) == (year, source)


def test_the_year_of_an_event_far_below(tmp_path: Path) -> None:
    """The whole log is looked through, and most events decide."""
    wrong = rejected("time.Date(2011, time.November, 21, 3, 0, 7, 0, time.Local)")
    right = rejected("time.Date(2023, time.November, 21, 3, 0, 8, 0, time.Local)")
    beats = log_text() + "I1121 03:01:00.100000    8337 kubelet.go:1] beat\n" * 6_000
    path = write(tmp_path / "kubelet.log", beats + wrong + right + right)
    plan = one(tmp_path, path)
    assert (plan.timing.year, plan.timing.year_source) == (2023, "log")
    assert "year_guessed" not in {finding.finding for finding in plan.findings}


def test_guessed_year_is_reported(tmp_path: Path) -> None:
    """Only the file's own time is left: not after it, and a finding."""
    path = write(tmp_path / "kubelet.log", log_text())
    written = 1_735_700_000  # 2025-01-01T02:53:20Z
    os.utime(path, (written, written))
    plan = one(tmp_path, path)
    assert (plan.timing.year, plan.timing.year_source) == (2024, "guessed")
    assert [finding.finding for finding in plan.findings] == ["year_guessed"]
    assert plan.findings[0].message == (
        "no source shows the year or the zone of the log's lines; 2024 is assumed, from the"
        " file's own time, and UTC"
    )


def test_a_year_is_not_taken_from_a_time_that_is_none(tmp_path: Path) -> None:
    """Members of archives that are made to be the same anywhere are of 1970."""
    path = write(tmp_path / "kubelet.log", log_text())
    os.utime(path, (0, 0))
    with pytest.raises(BadInputError, match="shows the year") as caught:
        one(tmp_path, path)
    assert (caught.value.file, caught.value.advice) == ("kubelet.log", "say it with --year")
    assert one(tmp_path, path, options=ImportOptions(year=2026)).timing.year == 2026


@pytest.mark.parametrize(
    ("zone", "offset_minutes"),
    [("+0430", 270), ("-0330", -210), ("+03", 180), ("JST", 540), ("UTC", 0), ("CST", 0)],
)
def test_the_zone_of_a_journal(tmp_path: Path, zone: str, offset_minutes: int) -> None:
    """Syslog's stamps are in the zone of the journal's header; CST may be any of three zones."""
    asked = f"Sat 2026-11-21 03:20:00 {zone}"
    lines = "".join(
        f"Nov 21 {line[6:14]} node-a kubelet[8337]: {line}\n" for line in log_text().splitlines()
    )
    header = f"-- Logs begin at {asked}, end at {asked}. --\n"
    plan = one(tmp_path, write(tmp_path / "kubelet.log", header + lines))
    assert plan.timing.offset_ns == offset_minutes * 60 * 10**9
    assert plan.timing.year == 2026


@pytest.mark.parametrize(
    ("stamp", "year", "start", "found"),
    [
        ("[Thu Dec  7 00:05:15 2017]", None, "2017-12-07T00:05:15Z", "zone_assumed"),
        ("Dec  7 00:05:15 node-a kernel:", None, "2024-12-07T00:05:15Z", "year_guessed"),
        ("Dec  7 00:05:15 node-a kernel:", 2019, "2019-12-07T00:05:15Z", "zone_assumed"),
        ("[   12.500000]", None, "2025-01-01T02:53:20Z", "time_guessed"),
    ],
)
def test_the_times_of_a_kernel_log_alone(
    tmp_path: Path, stamp: str, year: int | None, start: str, found: str
) -> None:
    """Its lines' own clock dates it, whatever of the date and the zone has to be assumed."""
    killed = "Killed process 77 (app) total-vm:9kB, anon-rss:8kB, file-rss:0kB"
    lines = f"{stamp} app invoked oom-killer: gfp_mask=0xd0\n{stamp} {killed}\n"
    path = write(tmp_path / "dmesg.txt", lines)
    os.utime(path, (1_735_700_000, 1_735_700_000))  # 2025-01-01T02:53:20Z
    plan = one(tmp_path, path, options=ImportOptions(node="node-a", year=year))
    assert format_ts(plan.timing.first_ts_ns) == start
    (report,) = plan.context.kernel_reports["dmesg.txt"]
    assert format_ts(report.ts_ns) == start
    assert plan.findings[0].finding == found
    assert ("UTC" in plan.findings[0].message) == (found != "time_guessed")


@pytest.mark.parametrize(
    ("line", "directory", "version", "source"),
    [
        ("Version: v1.20.2", "n", "1.20.2", "log"),
        ("Version: v1.30.4+k3s1", "n", "1.30.4", "log"),
        ("Version: v0.0.0-master+faecb196815e2", "n-v1.20.2", "1.20.2", "name"),
        ("nothing", "n", None, None),
    ],
)
def test_version(
    tmp_path: Path, line: str, directory: str, version: str | None, source: str | None
) -> None:
    """From the log if it is a release's; a build without a version tells none."""
    text = f"I1121 03:01:00.000000    8337 server.go:1] {line}\n"
    plan = one(tmp_path, write(tmp_path / directory / "kubelet.log", text).parent)
    assert (plan.version.version, plan.version.source) == (version, source)
    unknown = [f.message for f in plan.findings if f.finding == "version_unknown"]
    assert ["--kubelet-version" in message for message in unknown] == [True] * (version is None)


def test_version_of_metrics(tmp_path: Path) -> None:
    text = "# TYPE kubernetes_build_info gauge\n"
    text += 'kubernetes_build_info{git_version="v1.28.0",major="1"} 1\n'
    write(tmp_path / "n/metrics.txt", text)
    write(tmp_path / "n/node.json", '{"kind":"Node","metadata":{"name":"n1"}}')
    plan = one(tmp_path, tmp_path / "n")
    assert (plan.version.version, plan.version.source) == ("1.28.0", "metrics")


def test_nothing_useful(tmp_path: Path) -> None:
    """What was looked at, why it is nothing, and what would be something."""
    write(tmp_path / "d/notes.txt", "hello")
    write(tmp_path / "d/empty.log", "")
    with pytest.raises(BadInputError, match=r"notes\.txt: no known format") as caught:
        plans(tmp_path, tmp_path / "d")
    assert "kubelet log" in caught.value.advice
    for text, why in (
        ("\n hello\nworld\n", "line 2 is no line of klog: hello"),
        (
            "Events:\n  Type     Reason  Age  From     Message\n  ----     ------  ---  ----\n",
            "line 2 is of a table for people; what `-o json` prints of the same has times: ",
        ),
        (
            "NAMESPACE   LAST SEEN   TYPE      REASON\n",
            "line 1 is of a table for people",
        ),
        (
            "Pod events:\n  Warning  FailedMount  22m (x2 over 22m)  kubelet  MountVolume.SetUp\n",
            "line 2 is of a table for people",
        ),
        (
            "Conditions:\n  Type    Status  LastHeartbeatTime   Reason  Message\n",
            "line 2 is of a table for people",
        ),
        *(
            (
                f"one\n{cut}container_gc.go:85] x",
                "line 2 names its caller as klog does, but has no t",
            )
            for cut in ("I 7082 ", "... ", "03:04:05.678901    7082 ")
        ),
    ):
        write(tmp_path / "alone/notes.txt", text)
        with pytest.raises(BadInputError, match=f"no known format: {why}"):
            plans(tmp_path, tmp_path / "alone")
    with pytest.raises(BadInputError, match="empty"):
        plans(tmp_path, tmp_path / "d/empty.log")
    with pytest.raises(BadInputError, match="no such file"):
        plans(tmp_path, tmp_path / "missing")


def test_links(tmp_path: Path) -> None:
    """Links are followed to files inside the directory, and nowhere else."""
    root = write_node(tmp_path / "n")
    outside = write(tmp_path / "secret.log", log_text("other"))
    (root / "stolen.log").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "broken.log").symlink_to(root / "missing")
    (root / "inside.json").symlink_to(root / "node.json")
    plan = one(tmp_path, root)
    assert plan.bundle.skipped == {
        "broken.log": "a broken link",
        "loop": "a link to a directory",
        "stolen.log": "a link that leads out of the directory",
    }
    assert "inside.json" in {source.file for source in plan.sources}


def packed(members: dict[str, bytes]) -> bytes:
    """A compressed tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_archive(tmp_path: Path) -> None:
    """An archive of a bundle is that bundle: the same digest."""
    root = write_node(tmp_path / "node-x")
    members = {
        f"node-x/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    plan = one(tmp_path, write(tmp_path / "bundle.tar.gz", packed(members)))
    assert plan.digest == one(tmp_path, root).digest


@pytest.mark.parametrize("name", ["/etc/passwd", "a/../../x.log"])
def test_hostile_archive(tmp_path: Path, name: str) -> None:
    """Members that lead out of the archive are refused before anything is written."""
    path = write(tmp_path / "bundle.tar.gz", packed({name: b"x"}))
    with pytest.raises(BadInputError, match="leads out"):
        plans(tmp_path, path)


def test_truncated_compression(tmp_path: Path) -> None:
    """What can be unpacked is read; a finding says that there was more."""
    import random

    generator = random.Random(7)
    noise = "".join(
        f'I1121 03:02:00.000000    8337 labels.go:5] "Label not found" x="{generator.random()}"\n'
        for _ in range(20_000)
    )
    data = gzip.compress((log_text() + noise).encode())
    path = write(tmp_path / "kubelet.log.gz", data[: len(data) // 2])
    plan = one(tmp_path, path)
    assert [finding.finding for finding in plan.bundle.findings] == ["truncated"]
    assert plan.sources[0].size_bytes > len(log_text())


def test_half_a_checkpoint_is_a_finding(tmp_path: Path) -> None:
    """A checkpoint cut in the middle is skipped, and told."""
    root = write_node(tmp_path / "n")
    write(root / "kubelet_internal_checkpoint", '{"Data":{"PodDeviceEntries":[')
    plan = one(tmp_path, root)
    assert [(found.finding, found.file) for found in plan.findings] == [
        ("half_written", "kubelet_internal_checkpoint")
    ]


@pytest.mark.parametrize("text", ["garbage", "", "[]", '{"x":1}', "null"])
@pytest.mark.parametrize(
    "name",
    [
        "memory_manager_state",
        "dra_manager_state",
        "cpu_manager_state",
        "allocated_pods_state",
        "kubelet_internal_checkpoint",
    ],
)
def test_a_state_file_that_is_none_is_named(name: str, text: str, tmp_path: Path) -> None:
    root = write_node(tmp_path / "n")
    write(root / name, text)
    plan = one(tmp_path, root)
    assert [(found.finding, found.file) for found in plan.findings] == [("malformed", name)]
    assert "no state file" in plan.findings[0].message


def test_digests_of_beginnings() -> None:
    data = bytes(range(256)) * 4
    whole = digest_chunks(iter([data]), [0, 10, 1024, 5000])
    pieces = digest_chunks(iter([data[:7], data[7:300], data[300:]]), [10, 1024])
    assert (whole.digest, whole.size) == (pieces.digest, 1024)
    assert whole.prefixes[10] == pieces.prefixes[10] == digest_chunks(iter([data[:10]])).digest
    assert whole.prefixes[1024] == whole.digest


@pytest.mark.parametrize(
    "options",
    [{"year": 26}, {"kubelet_version": "new"}, {"format": "xml"}, {"node": " "}],
)
def test_senseless_options(options: dict[str, object]) -> None:
    """An option that means nothing is the user's error."""
    with pytest.raises(BadQuestionError):
        ImportOptions(**options)  # type: ignore[arg-type]  # rows of any option


@pytest.mark.parametrize("version", ["1.18.3", "v1.37.0-alpha.1", "1.30"])
def test_a_version_whose_rules_are_not_known_is_one(version: str) -> None:
    """It is recorded; what was decided by its rules cannot be verified."""
    assert ImportOptions(kubelet_version=version).kubelet_version == version


def test_a_ledger_in_a_directory_is_not_imported(tmp_path: Path) -> None:
    """``import .`` where the ledger stands, too."""
    root = write_node(tmp_path / "n")
    write(root / ".kubeledger/ledger.json", "{}")
    write(root / ".kubeledger/nodes/x/kept/kubelet.log", log_text())
    plan = one(tmp_path, root)
    assert plan.bundle.skipped[".kubeledger"] == "a ledger"
    assert not any("kept" in file.source.name for file in plan.bundle.files)
