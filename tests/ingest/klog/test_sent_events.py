"""Events that the API server refused, or that never got there: the log is their only trace."""

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts
from tests.ingest.planning.test_bundle import write

UID = "02ee1131-34e3-4ed2-a2bb-b6583b667475"
MESSAGE = 'Liveness probe failed: Get "http://10.0.0.1:8080/": dial tcp, {refused}, Source:x'


def plain(
    name: str = "web.17f1", count: int = 1, component: str = "kubelet", host: str = "n"
) -> str:
    """Gogo's ``String()``, quoted as a value of a structured line."""
    event = (
        f"&Event{{ObjectMeta:{{{name}  shop    0 0001-01-01 00:00:00 +0000 UTC <nil> <nil> map[] "
        "map[] [] [] []},InvolvedObject:ObjectReference{Kind:Pod,Namespace:shop,Name:web,"
        f"UID:{UID},APIVersion:v1,ResourceVersion:,FieldPath:spec.containers{{app}},}},"
        f"Reason:Unhealthy,Message:{MESSAGE},Source:EventSource{{Component:{component},Host:n,}},"
        "FirstTimestamp:2026-11-21 02:59:58.000000000 +0000 UTC m=+1.5,"
        "LastTimestamp:2026-11-21 03:00:01.500000000 +0000 UTC m=+9.5,"
        f"Count:{count},Type:Warning,EventTime:0001-01-01 00:00:00 +0000 UTC,Series:nil,Action:,"
        f"Related:nil,ReportingController:kubelet,ReportingInstance:n,}}"
    )
    return event.replace("\\", "\\\\").replace('"', '\\"')


def literal(component: str = "kubelet") -> str:
    """Go's ``%#v``."""
    message = MESSAGE.replace('"', '\\"')
    return (
        '&v1.Event{TypeMeta:v1.TypeMeta{Kind:"", APIVersion:""}, ObjectMeta:v1.ObjectMeta{'
        'Name:"web.17f1", GenerateName:"", Namespace:"shop", SelfLink:""}, '
        'InvolvedObject:v1.ObjectReference{Kind:"Pod", Namespace:"shop", Name:"web", '
        f'UID:"{UID}", APIVersion:"v1", ResourceVersion:"7", FieldPath:"spec.containers{{app}}"}}, '
        f'Reason:"Unhealthy", Message:"{message}", '
        f'Source:v1.EventSource{{Component:"{component}", Host:"n"}}, '
        "FirstTimestamp:time.Date(2026, time.November, 21, 2, 59, 58, 0, time.Local), "
        "LastTimestamp:time.Date(2026, time.November, 21, 3, 0, 1, 500000000, time.Local), "
        'Count:1, Type:"Warning", EventTime:time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)}'
    )


def refused(event: str, stamp: str = "03:00:02.000000") -> str:
    message = '"Server rejected event (will not retry!)" err="events is forbidden"'
    return f'E1121 {stamp}    2689 event.go:359] {message} event="{event}"\n'


def unsent(event: str, begin: str, stamp: str = "03:00:02.000000") -> str:
    """A line of free text."""
    return f"E1121 {stamp}    2689 event.go:280] {begin} '{event}': 'rpc error' (may retry)\n"


def occurred(values: str) -> str:
    """The line of a more verbose log."""
    return f'I1121 03:00:01.500000    2689 event.go:376] "Event occurred" {values}\n'


def events(tmp_path: Path, *lines: str) -> list[Record]:
    beat = 'I1121 03:00:0{}.000000    2689 kubelet.go:1888] "Started kubelet"\n'
    text = beat.format(0) + "".join(lines) + beat.format(9)
    log = write(tmp_path / "n/kubelet.log", text)
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log.parent)], ledger)
    return [record for record in ledger.records("n") if isinstance(record.body, KubernetesEvent)]


@pytest.mark.parametrize(
    "line",
    [
        refused(plain()),
        unsent(literal(), "Server rejected event"),
        unsent(literal(), "Unable to write event:"),
    ],
)
def test_all_that_the_event_says(tmp_path: Path, line: str) -> None:
    """In either form; it happened when it says, a moment before the line."""
    (record,) = events(tmp_path, line)
    body = record.body
    assert isinstance(body, KubernetesEvent)
    assert (body.namespace, body.pod, body.pod_uid, body.container) == ("shop", "web", UID, "app")
    assert (body.type, body.reason, body.message) == ("Warning", "Unhealthy", MESSAGE)
    assert format_ts(record.ts_ns) == "2026-11-21T03:00:01.5Z"


def test_a_line_that_comes_late(tmp_path: Path) -> None:
    """It keeps its own time: what lies between has been told by then."""
    (record,) = events(tmp_path, refused(plain(), "03:00:05.000000"))
    assert format_ts(record.ts_ns) == "2026-11-21T03:00:05Z"


def test_each_occurrence_once(tmp_path: Path) -> None:
    """Tries to send one event again say nothing new; a higher count does."""
    lines = [plain(), plain(), plain(count=2), plain("web.17f2")]
    found = events(
        tmp_path, *(refused(event, f"03:00:0{2 + n}.0000{n:02d}") for n, event in enumerate(lines))
    )
    assert len(found) == 3


@pytest.mark.parametrize("event", [plain(component="replicaset-controller"), "&Event{cut"])
def test_what_is_no_event_of_this_kubelet(tmp_path: Path, event: str) -> None:
    assert events(tmp_path, refused(event)) == []


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("Pod", "shop/web", "Scheduled"),
        ("ReplicaSet", "shop/web", "SuccessfulCreate"),
        ("Node", "n", "RegisteredNode"),
    ],
)
def test_events_of_controllers(tmp_path: Path, kind: str, name: str, reason: str) -> None:
    """Of programs in the kubelet's process, which lines do not name."""
    line = occurred(f'object="{name}" kind="{kind}" type="Normal" reason="{reason}" message="x"')
    assert events(tmp_path, line) == []
