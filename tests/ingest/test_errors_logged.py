"""Every line of severity W, E and F is told by its shape, whoever else asks for it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.correlate import error_lines
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import SourceAccount
from kubeledger.model.bodies.node import ErrorsLogged
from kubeledger.model.record import Record
from tests.recordings import extract

UID = "0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe"
EVENT = (
    'v1.Event{TypeMeta:v1.TypeMeta{Kind:"", APIVersion:""}, ObjectMeta:v1.ObjectMeta{Name:"n.1", '
    'Namespace:"default", UID:""}, InvolvedObject:v1.ObjectReference{Kind:"Node", Namespace:"", '
    'Name:"node-x", UID:"node-x", APIVersion:"", ResourceVersion:"", FieldPath:""}, '
    'Reason:"Starting", Message:"Starting kubelet.", '
    'Source:v1.EventSource{Component:"kubelet", Host:"node-x"}, '
    'LastTimestamp:v1.Time{Time:time.Time{wall:0x0}}, Count:1, Type:"Normal"}'
)
START = 'I1121 03:00:00.000001    8337 flags.go:64] FLAG: --hostname-override="node-x"'


def line(second: int, text: str, severity: str = "E", pid: int = 8337) -> str:
    minute, second = divmod(int(second), 60)
    clock = f"{3 + minute // 60:02d}:{minute % 60:02d}:{second:02d}.123456"
    return f"{severity}1121 {clock} {pid:7d} {text}"


def _logged(ledger: Ledger) -> list[ErrorsLogged]:
    (node,) = ledger.nodes()
    bodies = (record.body for record in ledger.records(node))
    return [body for body in bodies if isinstance(body, ErrorsLogged)]


class Imported:
    """A log, read."""

    def __init__(self, directory: Path, *lines: str) -> None:
        (directory / "kubelet.log").write_text("\n".join((START, *lines)) + "\n")
        ledger = Ledger.create(directory / "ledger")
        report = import_sources([str(directory / "kubelet.log")], ledger)
        (bundle,) = report.bundles
        self.account: SourceAccount = bundle.accounts[0]
        self.records: list[Record] = list(ledger.records(bundle.node))
        self.logged = _logged(ledger)

    @property
    def counts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for body in self.logged:
            counts[body.shape] += body.count
        return dict(counts)


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ('reconciler.go:9] "Noise by its file" err="no"', True),
        ('kubelet.go:9] "Housekeeping took longer than expected" err="no"', True),
        ("watcher.go:9] Error while processing event: no", True),
        ('kubelet.go:9] "Nobody has heard of it" err="no"', False),
        ("kubelet.go:9] Nobody has heard of it", False),
    ],
)
@pytest.mark.parametrize("severity", "IWEF")
def test_each_is_told_whether_known_or_not(
    tmp_path: Path, text: str, understood: bool, severity: str
) -> None:
    """Noise of these severities is understood; lines of severity I count as ever."""
    said = [line(second, text, severity if second % 2 else "I") for second in range(1, 9)]
    found = Imported(tmp_path, *said)
    is_error = severity != "I"
    assert sum(body.count for body in found.logged) == (4 if is_error else 0)
    assert len({(body.severity, body.shape) for body in found.logged}) == is_error
    if understood:
        assert found.account.not_understood == 0
        assert found.account.noise == (4 if is_error else 8)
    else:
        assert found.account.not_understood >= 4


def test_what_they_name(tmp_path: Path) -> None:
    """The pod by key, by UID, in text, by its directory; the process; the first and last time."""
    found = Imported(
        tmp_path,
        line(1, f'a.go:1] "Failed for it to go on well" pod="default/web" podUID="{UID}"'),
        line(2, f'a.go:1] "Failed for it to go on well" pod="default/web" podUID="{UID}"'),
        line(3, f'b.go:1] "Failed for it to go on at all" podUID="{UID}"'),
        line(4, f'c.go:1] Failed: pod "web_default({UID})"'),
        line(5, f'd.go:1] Failed for volume "v" pod "web" (UID: "{UID}") : no'),
        line(6, 'e.go:1] "Failed for many pods at once" pods=["default/a","default/b"]'),
        line(7, f'a.go:1] "Failed for it to go on well" pod="default/web" podUID="{UID}"', pid=9),
        line(8, f'f.go:1] "Failed to prepare" err="lstat /k/pods/{UID}/volumes/e/w: too long"'),
        line(8, f'g.go:1] "Failed" old="/k/pods/{UID}/x" new="/k/pods/{"0" * 32}/x"'),
        line(8, f"event.go:273] Unable to write event: '&{EVENT}': 'refused' (may retry)"),
    )
    counted: Counter[tuple[object, ...]] = Counter()
    for body in found.logged:
        counted[body.source, body.namespace, body.pod, body.pod_uid, body.pid] += body.count
    assert counted == {
        ("a.go", "default", "web", UID, 8337): 2,
        ("b.go", None, None, UID, 8337): 1,
        ("c.go", "default", "web", UID, 8337): 1,
        ("d.go", None, "web", UID, 8337): 1,
        ("e.go", None, None, None, 8337): 1,
        ("a.go", "default", "web", UID, 9): 1,
        ("f.go", None, None, UID, 8337): 1,
        ("g.go", None, None, None, 8337): 1,
        ("event.go", None, None, None, 8337): 1,
    }
    first, last = (body for body in found.logged if (body.source, body.pid) == ("a.go", 8337))
    assert (first.first_ts_ns, first.last_ts_ns) == (first.first_ts_ns, first.first_ts_ns)
    assert last.last_ts_ns - first.first_ts_ns == 1_000_000_000


def test_what_other_records_tell(tmp_path: Path) -> None:
    """Only where one does: none was made of a line that names no pod, or lacks a key."""
    gc = "Image garbage collection failed multiple times in a row"
    sync = '"Error syncing pod, skipping" err="x"'
    found = Imported(
        tmp_path,
        line(1, f'kubelet.go:1] "{gc}" err="no"'),
        line(2, f'pod_workers.go:1] {sync} pod="a/b" podUID="{UID}"'),
        line(3, f"pod_workers.go:1] {sync}"),
        line(4, 'kubelet.go:1] "Probe errored" err="it has neither type nor pod"'),
        line(5, 'kubelet.go:1] "Failed to run kubelet" err="no disk"'),
        line(6, "run.go:1] command failed", "F"),
    )
    assert [(body.shape[:13], body.recorded) for body in found.logged] == [
        (gc[:13], True),
        ("Error syncing", True),
        ("Error syncing", False),
        ("Probe errored", False),
        ("Failed to run", True),
        ("command faile", True),
    ]


def test_an_entry_is_told_once(tmp_path: Path) -> None:
    """With its further lines, and however often a shipper sent it."""
    found = Imported(
        tmp_path,
        line(1, 'a.go:1] "Nobody has heard of this" err=<'),
        "\tE1121 03:00:01.123456    8337 a.go:1] one",
        "\ttwo",
        " >",
        line(2, "b.go:1] Nobody has heard: one"),
        "two",
        line(2, "b.go:1] Nobody has heard: one"),
        line(3, "c.go:1] An event", "I"),
    )
    assert found.counts == {"Nobody has heard of this": 1, "Nobody has heard: one": 1}


def test_what_systemd_says_continues_no_entry(tmp_path: Path) -> None:
    """Its lines stand between the kubelet's where nothing names the programs."""
    scope = "cri-containerd-c6da.scope: Consumed 15.899s CPU time."
    found = Imported(tmp_path, line(1, "b.go:1] It failed: no"), "two", scope, "a@b\\x2d1.mount: x")
    assert found.account.noise == 2
    assert found.account.not_understood == 2
    assert found.counts == {"It failed: no": 1}


def test_the_json_form(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.log"
    entries = [
        f'{{"ts":179522952{n}000.5,"caller":"reconciler/x.go:9","msg":"It went wrong in some way",'
        f'{kind},"pod":{{"name":"web","namespace":"default"}}}}'
        for n, kind in enumerate(('"v":0', '"err":"no"', '"err":"\\"v\\":0"', '"v":2'))
    ]
    path.write_text("\n".join(entries) + "\n")
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(path)], ledger)
    bodies = _logged(ledger)
    assert sum(body.count for body in bodies) == 2
    assert {body.pod for body in bodies} == {"web"}


def test_what_goes_on_is_recorded_once_an_hour(tmp_path: Path) -> None:
    """At its begin, each hour, and at the end; the counts are those of the lines."""
    said = [line(60 * minute, "a.go:1] It does not work") for minute in range(150)]
    found = Imported(tmp_path, *said)
    assert [body.count for body in found.logged] == [1, 59, 60, 30]
    times = [record.ts_ns for record in found.records]
    assert times == sorted(times)


def test_more_shapes_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_lines, "_SHAPES_MAX", 2)
    words = ("one", "two", "three", "four", "one")
    found = Imported(tmp_path, *(line(n, f"a.go:1] {word}") for n, word in enumerate(words)))
    assert found.counts == {"one": 2, "two": 1, "(more shapes)": 2}


@pytest.mark.parametrize("node", ["node-a", "node-b"])
def test_as_many_as_the_log_has(node: str, tmp_path: Path) -> None:
    """Counted by their first letter; a line that stands there twice counts once."""
    log = (extract(node, tmp_path / "unpacked") / "kubelet.log").read_bytes()
    entries = re.findall(rb"(?m)^[WEF]\d{4} [\d:.]+ +\d+ [\w.-]+:\d+\] .*$", log)
    (tmp_path / "kubelet.log").write_bytes(log)
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(tmp_path / "kubelet.log")], ledger)
    assert sum(body.count for body in _logged(ledger)) == len(set(entries))


def _sync(error: str, pod: str = "a") -> str:
    quoted = error.replace("\\", "\\\\").replace('"', '\\"')
    return f'pod_workers.go:9] "Error syncing pod, skipping" err="{quoted}" pod="default/{pod}"'


@pytest.mark.parametrize(
    "first",
    [
        'log.go:9] "PullImage from image service failed" err="rpc error: code = NotFound desc = '
        'failed to pull and unpack image \\"x:1\\": x:1: not found" image="x:1"',
        'remote_image.go:9] PullImage "x:1" from image service failed: rpc error: code = NotFound '
        'desc = failed to pull and unpack image "x:1": x:1: not found',
        'kuberuntime_image.go:9] Pull image "x:1" failed: failed to pull and unpack image "x:1": '
        "x:1: not found",
    ],
)
def test_an_error_is_told_with_the_line_that_wraps_it(tmp_path: Path, first: str) -> None:
    """Each try logs both: the layer that failed, and the pod's worker."""
    wraps = 'failed to "StartContainer" for "c" with ErrImagePull: "rpc error: code = NotFound '
    wraps += 'desc = failed to pull and unpack image \\"x:1\\": x:1: not found"'
    said = [line(each, text) for each in (1, 9) for text in (first, _sync(wraps))]
    logged = Imported(tmp_path, *said).logged
    assert len({each.shape for each in logged}) == 2
    assert all(each.recorded for each in logged)
    assert sum(each.count for each in logged) == len(said)


@pytest.mark.parametrize(
    ("first", "wraps", "after_s"),
    [
        ('x.go:9] "It broke" err="the disk is on fire"', "the disk is on fire", 2),
        ('x.go:9] "It broke" err="the disk is on fire"', "the disk is full of sand", 0),
        ('x.go:9] "It broke" err="context deadline exceeded"', "context deadline exceeded", 0),
        ('x.go:9] "It broke" err="no"', "no", 0),
        ('x.go:9] "It broke" err="the disk is on fire" pod="default/b"', "the disk is on fire", 0),
    ],
)
def test_what_is_not_surely_the_same_is_not_told(
    tmp_path: Path, first: str, wraps: str, after_s: int
) -> None:
    """Too late, of another, what many say, and another pod's."""
    wrapped = f"network is not ready: {wraps}"
    logged = Imported(tmp_path, line(1, first), line(1 + after_s, _sync(wrapped))).logged
    assert [each.recorded for each in logged] == [False, True]
