"""Headlines: amounts, lists and messages in few words; the worst first, the rest together."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.headlines import (
    HEADLINES_MAX,
    Incident,
    bytes_text,
    happened,
    headlines,
    in_a_sentence,
    incidents,
    missing_text,
    names_text,
    shortened,
)
from kubeledger.analyze.logged_errors import HARMLESS, Harmless, harmless
from kubeledger.analyze.sql.api import connect
from kubeledger.ingest.klog.error_shapes import error_shape
from kubeledger.kubelet.lifecycle.exits import how_it_ended
from kubeledger.model.bodies.lifecycle import PodEvicted, PodRejected
from kubeledger.model.bodies.node import ClockStepped, KubeletExited, KubeletStarted
from kubeledger.model.bodies.stages import ErrorsLogged
from kubeledger.model.record import Body
from tests.analyze.sql.fixture_ledger import Story, write_ledger
from tests.ingest.feeding import log_line


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999 B"),
        (1000, "1.0 kB"),
        (42_005_183, "42.0 MB"),
        (99_949_999, "99.9 MB"),
        (99_950_000, "100 MB"),
        (183_647_000_000, "184 GB"),
        (2_500_000_000_000, "2.5 TB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    """As many digits as matter."""
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("insufficient", "text"),
    [
        ("cpu=450", "450m cpu"),
        ("cpu=450, memory=1000000", "450m cpu, 1.0 MB memory"),
        ("pods=1", "1 pods"),
        ("example.com/gpu=2", "2 example.com/gpu"),
        ("hugepages-2Mi=4000000", "4.0 MB hugepages-2Mi"),
        ("of another form", "of another form"),
    ],
)
def test_missing(insufficient: str, text: str) -> None:
    """Amounts in the resource's own unit."""
    assert missing_text(insufficient).strip() == text


def test_names() -> None:
    """Three fit; of more two are named; each once."""
    assert names_text(["a", "b", "a", "c"]) == "a, b, c"
    assert names_text(["a", "b", "c", "d"]) == "a, b and 2 more"


def test_a_long_chain_of_errors_is_shown_by_its_end() -> None:
    """A short one whole; one without an end is cut."""
    assert shortened("no disk: full") == "no disk: full"
    chain = "Failed to start ContainerManager: start memory manager error: " + "state differs " * 4
    assert shortened(chain) == chain.strip().rpartition(": ")[2]
    assert len(shortened("x" * 200)) == 80
    assert shortened(" ") == "no message"


def _incident(kind: str, severity: int, seq: int, count: int = 1) -> Incident:
    return Incident(
        kind=kind,
        severity=severity,
        subject=f"default/p{seq}",
        target=None,
        text=f"{kind} {seq}",
        count=count,
        ts_ns=seq,
        seq=seq,
    )


def test_at_most_eight_the_worst_first_the_rest_of_a_kind_together() -> None:
    """What somebody asked for is counted and is no headline."""
    found = [_incident("killed", 3, seq, count=2) for seq in range(1, 5)]
    found += [_incident("deleted", 0, 9, count=5), _incident("preempted", 4, 10)]
    found.sort(key=lambda each: -each.severity)
    assert [each.text for each in headlines(found)] == [
        "preempted 10",
        "killed 1",
        "6 more killed by probes or hooks: default/p2, default/p3 and 1 more",
    ]
    assert happened(found) == "1 preempted, 8 killed by probes or hooks, 5 images deleted"
    kinds = ("preempted", "evicted", "oom", "killed", "refused", "gc_failed", "crashed", "unready")
    many = [_incident(kind, 3, seq) for seq, kind in enumerate([*kinds, "log_lost", "finding"])]
    assert len(headlines(many)) == HEADLINES_MAX


def test_incidents_of_records(tmp_path: Path) -> None:
    """Refusals by their reason, a kubelet's death by its cause, and what the sources lack last."""
    story = Story("node-a")
    story.add(KubeletStarted(pid=7, kubelet_version="1.36.2", version_source="log"))
    for name, reason in (("a", "OutOfpods"), ("b", "OutOfpods"), ("c", "OutOfpods"), ("d", "X")):
        story.add(
            PodRejected(namespace="default", pod=name, pod_uid=name, reason=reason, message="no")
        )
    story.add(KubeletExited(pid=7, reason="error", message="cannot go on: no disk"))
    story.add(ClockStepped(from_ts_ns=2, to_ts_ns=1))
    with connect(write_ledger(tmp_path, story.records)) as queryable:
        found = incidents(
            lambda query, params: queryable.sql(query, params).dicts(), "node-a", verdicts=False
        )
    assert [(each.severity, each.text, each.target) for each in found] == [
        (5, "kubelet (pid 7) died: cannot go on: no disk", "node"),
        (3, "3 pods (a, b, c) rejected: OutOfpods", "pod/default/a"),
        (3, "default/d rejected: X", "pod/default/d"),
        (1, "the clock was set back", None),
    ]


def _errors(**changes: object) -> ErrorsLogged:
    body = ErrorsLogged(severity="E", source="a.go", shape="It failed", first_ts_ns=1, last_ts_ns=2)
    return msgspec.structs.replace(body, **changes)


def _sentence(directory: Path, *logged: Body) -> tuple[str, list[str]]:
    story = Story("node-a")
    for body in logged:
        story.add(body)
    with connect(write_ledger(directory, story.records)) as queryable:
        found = incidents(
            lambda query, params: queryable.sql(query, params).dicts(), "node-a", verdicts=False
        )
    return in_a_sentence(found), [each.text for each in headlines(found)]


def test_errors_that_no_record_tells_are_told_by_their_shape(tmp_path: Path) -> None:
    """Fatal ones first, then those about pods, then the most frequent; warnings at last."""
    web = {"namespace": "default", "pod": "web"}
    said, shown = _sentence(
        tmp_path,
        _errors(severity="W", shape="a warning", count=90),
        _errors(count=7),
        _errors(count=2, pid=9),
        _errors(shape="of a pod", count=2, **web),
        _errors(shape="of a pod", **{**web, "pod": "db"}),
        _errors(severity="F", shape="the end"),
    )
    assert said == (
        "no decision that went wrong was recorded, but 103 lines of warnings and errors of 4 "
        "shapes: 1 × F a.go the end, 3 × E a.go of a pod (db, web), 9 × E a.go It failed"
    )
    assert shown == [
        "1 × F a.go the end",
        "3 × E a.go of a pod (db, web)",
        "9 × E a.go It failed",
        "90 more lines of warnings and errors of 1 shape",
    ]


def test_nothing_went_wrong_where_all_lines_are_told_or_harmless(tmp_path: Path) -> None:
    """One that is neither is enough; beside an incident it is only counted."""
    recorded, harmless = (
        _errors(recorded=True),
        _errors(source="dns.go", shape="Nameserver limits exceeded"),
    )
    nothing = "nothing that went wrong was recorded"
    assert _sentence(tmp_path / "a", recorded, harmless) == (nothing, [])
    refused = PodRejected(namespace="a", pod="b", pod_uid=None, reason="X", message="no")
    said, shown = _sentence(tmp_path / "b", recorded, harmless, _errors(), refused)
    assert said == "1 refused; besides, 1 line of warnings and errors of 1 shape"
    assert shown == ["a/b rejected: X", "1 × E a.go It failed"]


@pytest.mark.parametrize("each", HARMLESS, ids=lambda each: each.source)
def test_what_is_harmless_is_so_in_its_file_only(each: Harmless) -> None:
    """And says why."""
    assert each.reason
    assert harmless("other.go", "Nameserver limits exceeded") is None


@pytest.mark.parametrize(
    "line",
    [
        'dns.go:1] "Nameserver limits exceeded" err="Nameserver limits were exceeded, some"',
        "dns.go:1] Nameserver limits were exceeded, some nameservers have been omitted",
        'file_linux.go:1] "Unable to read config path" err="path does not exist, ignoring"',
        'file.go:1] Unable to read config path "/m": path does not exist, ignoring',
        "feature_gate.go:1] Setting GA feature gate SomeGate=true. It will be removed in a future",
        "csi_plugin.go:1] kubernetes.io/csi: kubeclient not set, assuming standalone kubelet",
        "probe.go:1] Flexvolume plugin directory at /x/y/ does not exist. Recreating.",
        'kubelet.go:1] "Skipping pod synchronization" err="[container runtime status check may not '
        'have completed yet, PLEG is not healthy: pleg has yet to be successful]"',
        "kubelet.go:1] skipping pod synchronization - container runtime status check may not have "
        "completed yet",
    ],
)
def test_harmless_lines_as_they_are_logged(line: str) -> None:
    """By the shape that the importer gives them."""
    read = log_line(f"E1121 02:00:00.000001 1 {line}")
    assert harmless(read.file, error_shape(read))


def test_what_keeps_a_node_from_being_ready_is_not_harmless() -> None:
    """The same message, another error."""
    read = log_line(
        'E1121 02:00:00.000001 1 kubelet.go:1] "Skipping pod synchronization" err="PLEG is not '
        'healthy: pleg was last seen active 3m1.5s ago; threshold is 3m0s"'
    )
    assert harmless(read.file, error_shape(read)) is None


def test_a_pod_is_evicted_once_whoever_waited_for_its_end(tmp_path: Path) -> None:
    """Three attempts at two pods; of one the manager never saw the end."""
    evicted = PodEvicted(
        namespace="a", pod="p", pod_uid="u", resource=None, message=None, evicted=False
    )
    q = msgspec.structs.replace(evicted, pod="q", pod_uid="v", signal="memory.available")
    story = Story("node-a")
    for body in (evicted, q, msgspec.structs.replace(q, evicted=True)):
        story.add(body)
    with connect(write_ledger(tmp_path, story.records)) as queryable:
        found = incidents(
            lambda query, params: queryable.sql(query, params).dicts(), "node-a", verdicts=False
        )
    assert [each.text for each in found] == [
        "a/p evicted, signal not recorded",
        "a/q evicted for memory.available",
    ]
    assert happened(found) == "2 evicted (1 took longer than the kubelet waited)"


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        (None, "ended by itself 2×"),
        (3, "ended by itself 2× with exit code 3"),
        (137, "was found ended 2× (exit code 137, SIGKILL)"),
        (139, "ended by itself 2× with exit code 139"),
    ],
)
def test_who_is_killed_does_not_end_by_itself(exit_code: int | None, text: str) -> None:
    """A SIGKILL is sent by another, whoever that was."""
    assert how_it_ended(exit_code, " 2×") == text
