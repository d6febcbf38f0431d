"""Headlines: amounts, lists and messages in few words; the worst first, the rest together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import kubeledger
from kubeledger.analyze.headlines import (
    HEADLINES_MAX,
    Incident,
    besides_on,
    happened,
    headlines,
    in_a_sentence,
    incidents,
)
from kubeledger.analyze.logged_errors import HARMLESS, Harmless, harmless
from kubeledger.analyze.problems.table import PROBLEMS, occurrences
from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.wording import bytes_text, missing_text, names_text, shortened, span_text
from kubeledger.ingest.klog.account import error_shape
from kubeledger.kubelet.lifecycle.state import how_it_ended
from kubeledger.model.bodies.eviction import PodSpared, ProcessKilled, RankedPod, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodEvicted,
    PodRejected,
    PodResized,
    PodTerminated,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import (
    ClockStepped,
    ErrorsLogged,
    KubeletExited,
    KubeletStarted,
    NodeConditionChanged,
    NodeTrouble,
    NodeTroubled,
    PodStageFailed,
    ShutdownProgressed,
    Stage,
)
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from tests.analyze.sql.fixture_ledger import START_NS, Story, of, write_ledger
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
    assert len(shortened("much " * 40)) == 80
    assert shortened(" ") == "no message"
    prose = "failed to run Kubelet: swap is on, disable it or set the flag. /proc/swaps contained: "
    assert shortened(prose + "[Filename /swapfile file 2097148 0 -2]").startswith("swap is on")


def test_a_chain_that_was_quoted_ends_without_its_quotes() -> None:
    """What closes a quotation says nothing of the cause."""
    chain = 'rpc error: desc = "dial unix /run/c.sock: connect: no such file or directory\\""])'
    assert shortened(chain).endswith("no such file or directory")
    assert shortened('secret "a" not found: "b"') == 'secret "a" not found: "b"'


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (151, "2m31s"),
        (3600, "1h"),
        (9000, "2h30m"),
        (90000, "1d1h"),
    ],
)
def test_spans(seconds: int, text: str) -> None:
    """Two units at most."""
    assert span_text(seconds * NS_PER_S) == text


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
    many = [_incident(each.kind, each.severity, seq) for seq, each in enumerate(PROBLEMS)]
    assert [each.kind for each in headlines(many)] == [each.kind for each in PROBLEMS[:8]]
    assert len(headlines(many)) == HEADLINES_MAX
    twice = [*many, *(_incident(each.kind, each.severity, 99) for each in PROBLEMS)]
    shown = headlines(sorted(twice, key=lambda each: -each.severity))
    assert [each.kind for each in shown] == [each.kind for each in PROBLEMS[:8]]
    assert shown[0].text == "not_ready 0; 1 more time not ready: default/p99"


def _found(directory: Path, story: Story) -> list[Incident]:
    with connect(write_ledger(directory, story.records)) as queryable:
        answer = queryable.sql
        found = incidents(
            lambda query, params: answer(query, params).dicts(), "node-a", verdicts=False
        )
        rows = answer(
            f"SELECT kind FROM ({occurrences(each.kind for each in PROBLEMS)})"
        ).fetchall()
    # What is told, the page steps through and a fleet counts: the same, one by one.
    assert sum(each.count for each in found) == len(rows)
    return found


def _told(found: list[Incident]) -> list[tuple[int, str, str | None]]:
    return [(each.severity, each.text, each.target) for each in found]


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
    found = _found(tmp_path, story)
    assert [(each.severity, each.text, each.target) for each in found] == [
        (5, "kubelet (pid 7) died: cannot go on: no disk", "node"),
        (4, "3 pods (a, b, c) rejected: OutOfpods", "pod/default/a"),
        (4, "default/d rejected: X", "pod/default/d"),
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
        "no decision that went wrong was recorded, but 103 warnings and errors of 4 "
        "shapes: 1 × F a.go the end, 3 × E a.go of a pod (db, web), 9 × E a.go It failed"
    )
    assert shown == [
        "1 × F a.go the end",
        "3 × E a.go of a pod (db, web)",
        "9 × E a.go It failed",
        "90 more warnings and errors of 1 shape",
    ]


def _warned(reason: str, message: str, object_kind: str = "Pod") -> KubernetesEvent:
    is_pod = object_kind == "Pod"
    return KubernetesEvent(
        object_kind=object_kind,
        namespace="default" if is_pod else "",
        pod="web" if is_pod else "node-a",
        pod_uid=None,
        type="Warning",
        reason=reason,
        message=message,
    )


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        (  # of which nothing came: it is all that is told
            [_warned("Unhealthy", "Liveness probe failed: HTTP 500")] * 2,
            "no decision that went wrong was recorded, but 2 warnings and errors of 1 shape:"
            " 2 × W event Unhealthy: Liveness probe failed: HTTP * (default/web)",
        ),
        (  # of no stage, decision or trouble that is known
            [_warned("Odd", "x is 5\nat y", "Node"), _warned("Odd", "x is 6\nat z", "Node")],
            "no decision that went wrong was recorded, but 2 warnings and errors of 1 shape:"
            " 2 × W event Odd: x is *",
        ),
        (
            [_warned("CgroupV1", "cgroup v1 detected", "Node")],
            "nothing that went wrong was recorded; 1 warning or error is harmless: 1 × W event"
            " CgroupV1: cgroup v1 detected: it works; a future release will not take cgroup v1",
        ),
        (  # the refusal tells it
            [
                PodRejected(
                    namespace="default", pod="web", pod_uid=None, reason="NodePorts", message="no"
                ),
                _warned("NodePorts", "Predicate NodePorts failed"),
            ],
            "1 refused",
        ),
    ],
    ids=["told by nothing else", "unknown", "harmless", "a refusal's"],
)
def test_warnings_in_events_are_told_as_lines_are(
    tmp_path: Path, events: list[Body], sentence: str
) -> None:
    assert _sentence(tmp_path, *events)[0] == sentence


def test_nothing_went_wrong_where_all_lines_are_harmless(tmp_path: Path) -> None:
    """One that is not is enough, where no incident tells it; beside one the others are counted."""
    recorded, harmless = (
        _errors(recorded=True),
        _errors(source="dns.go", shape="Nameserver limits exceeded"),
    )
    nothing = "nothing that went wrong was recorded"
    why = "a resolver takes three nameservers: those after the first three are left out"
    assert _sentence(tmp_path / "a", harmless) == (
        f"{nothing}; 1 warning or error is harmless: "
        f"1 × E dns.go Nameserver limits exceeded: {why}",
        [],
    )
    said, shown = _sentence(tmp_path / "c", recorded, harmless)
    assert said == (
        "no decision that went wrong was recorded, but 1 warning or error of 1 shape: "
        "1 × E a.go It failed"
    )
    assert shown == ["1 × E a.go It failed"]
    refused = PodRejected(namespace="a", pod="b", pod_uid=None, reason="X", message="no")
    said, shown = _sentence(tmp_path / "b", recorded, harmless, _errors(), refused)
    assert said == "1 refused; besides, 1 warning or error of 1 shape"
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
        'cpu_manager.go:1] "RemoveStaleState: removing container" podUID="u" containerName="web"',
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
    found = _found(tmp_path, story)
    assert [each.text for each in found] == [
        "a/p evicted, signal not recorded",
        "a/q evicted for memory.available",
    ]
    assert happened(found) == "2 evicted (1 took longer than the kubelet waited)"


def _failed(
    pod: str,
    stage: Stage,
    *,
    reason: str,
    about: str | None = None,
    message: str = "",
    **more: Any,  # noqa: ANN401 - seconds and counts
) -> PodStageFailed:
    """A failure, from ``first`` to ``last``, seconds."""
    container = "app" if stage in ("image", "create", "run", "ready") else ""
    return PodStageFailed(
        **of(pod, container),
        stage=stage,
        reason=reason,
        message=message,
        about=about,
        count=more.get("count", 1),
        first_ts_ns=START_NS + more["first"] * NS_PER_S,
        last_ts_ns=START_NS + more["last"] * NS_PER_S,
    )


def test_what_a_refused_pod_lacks_is_no_problem(tmp_path: Path) -> None:
    """The kubelet has given it up."""
    story = Story("node-a")
    story.add(PodRejected(**of("web"), reason="TaintToleration", message="Predicate failed"))
    story.add(_failed("web", "volumes", reason="FailedMount", first=9, last=60, count=8))
    assert [each.text for each in _found(tmp_path, story)] == [
        "default/web rejected: TaintToleration"
    ]


def test_pods_that_one_cause_keeps_from_starting_are_one_headline(tmp_path: Path) -> None:
    """Open, ended before, passed after a while; what passes at once harms nobody."""
    story = Story("node-a")
    secret = 'secret "db" not found'
    config: dict[str, Any] = {
        "reason": "CreateContainerConfigError",
        "about": "db",
        "message": secret,
    }
    for pod in ("a", "b"):
        story.add(_failed(pod, "create", **config, first=1, last=50, count=7))
    pull: dict[str, Any] = {
        "reason": "ImagePullBackOff",
        "about": "reg/web:1.4",
        "message": "not found",
    }
    story.add(_failed("web", "image", **pull, first=2, last=40, count=14))
    story.add(_failed("gone", "sandbox", reason="CreatePodSandboxError", first=0, last=45))
    story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=START_NS + 46 * NS_PER_S)
    story.add(PodTerminated(**of("gone")))
    story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=START_NS + 90 * NS_PER_S)
    for pod, first in (("slow", 5), ("quick", 88)):
        mount: dict[str, Any] = {"reason": "FailedMount", "about": "v", "message": "timed out"}
        story.add(_failed(pod, "volumes", **mount, first=first, last=first + 1))
        started = ContainerStarted(**of(pod, "app"), container_id=f"c-{pod}", sandbox=False)
        story.add(started)
        later = START_NS + 89 * NS_PER_S
        story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=later)
    assert sorted(_told(_found(tmp_path, story)), key=lambda each: (-each[0], each[1])) == [
        (
            4,
            "a, b have not started: their configuration is not complete"
            ' (CreateContainerConfigError: secret "db" not found), 14 tries',
            "pod/default/a",
        ),
        (
            4,
            "default/gone had not started when it was ended after 1m30s: its sandbox could not be "
            "made (CreatePodSandboxError)",
            "pod/default/gone",
        ),
        (
            4,
            "default/web has not started: its image reg/web:1.4 cannot be pulled"
            " (ImagePullBackOff: not found), 14 tries",
            "pod/default/web",
        ),
        (
            2,
            "default/slow waited 1m24s for its volume v (FailedMount: timed out)",
            "pod/default/slow",
        ),
    ]


def test_a_container_that_a_probe_or_the_kernel_kills_does_not_crash_besides(
    tmp_path: Path,
) -> None:
    """Its back-off is told by what killed it; one that fails by itself is told by its exit code."""
    story = Story("node-a")
    for pod in ("probed", "eater", "crashy", "unseen"):
        container = of(pod, "app")
        if pod == "probed":
            story.add(
                ContainerKilled(
                    **container,
                    container_id="c",
                    reason="liveness_probe",
                    message=None,
                    grace_period_s=None,
                )
            )
        if pod == "eater":
            story.add(ProcessKilled(**container, container_id="d", reason="container_limit"))
            story.add(ContainerDied(**container, container_id="d", sandbox=False, exit_code=137))
        if pod == "crashy":
            story.add(ContainerDied(**container, container_id="e", sandbox=False, exit_code=3))
        story.add(RestartBackedOff(**container, back_off_s=40))
    found = _found(tmp_path, story)
    # One container may crash, run well, and crash again: containers are not what is counted.
    assert in_a_sentence(found).endswith("2 series of crashes")
    assert [each.text for each in found] == [
        "default/eater/app OOM-killed",
        "default/probed/app killed by its liveness probe, back-off 40 s",
        "default/crashy/app ended by itself with exit code 3, back-off 40 s",
        "default/unseen/app kept failing: back-off 40 s before its next start",
    ]


def test_a_container_whose_start_nobody_saw_may_have_been_ready_before(tmp_path: Path) -> None:
    """A probe that fails says no more than that."""
    story = Story("node-a")
    story.add(ContainerStarted(**of("seen", "app"), container_id="c", sandbox=False))
    for pod in ("seen", "unseen"):
        story.add(_failed(pod, "ready", reason="readiness probe failed", first=9, last=60))
    assert [each.text for each in _found(tmp_path, story)] == [
        "default/seen/app has not become ready",
        "the readiness probe of default/unseen/app failed, and it is not known to be ready",
    ]


def _ready(story: Story, status: str, message: str | None, at_s: int) -> None:
    reason = "KubeletNotReady" if message else None
    story.add(
        NodeConditionChanged(condition="Ready", status=status, reason=reason, message=message)  # type: ignore[arg-type] # a word
    )
    ts_ns = START_NS + at_s * NS_PER_S
    story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=ts_ns)


def _trouble(
    story: Story,
    trouble: NodeTrouble,
    first: int,
    last: int,
    message: str,
    *,
    is_over: bool = False,
) -> None:
    first_ns, last_ns = (START_NS + at_s * NS_PER_S for at_s in (first, last))
    told = NodeTroubled(
        trouble=trouble,
        message=message,
        count=3,
        first_ts_ns=first_ns,
        last_ts_ns=last_ns,
        passed_ts_ns=last_ns if is_over else None,
    )
    story.add(told)
    story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=first_ns)


@pytest.mark.parametrize(
    ("stage", "reason", "says"),
    [
        ("config", "FailedSync", "default/a is not synchronized: its synchronization fails ("),
        ("config", "Pod cannot start yet", "default/a has not started: its turn has not come ("),
        ("image", "ErrImageNeverPull", "default/a has not started: its image r:1 is not on the "),
        ("volumes", "FailedAttachVolume", "has not started: its volume r:1 cannot be attached ("),
        ("create", "CreateContainerError", "has not started: its creation fails (CreateContainer"),
    ],
)
def test_the_words_are_those_of_the_reason(
    tmp_path: Path, stage: Stage, reason: str, says: str
) -> None:
    """Of a stage that stands for several things."""
    story = Story("node-a")
    story.add(_failed("a", stage, reason=reason, about="r:1", message="no", first=1, last=50))
    ((severity, text, _),) = _told(_found(tmp_path, story))
    assert says in text
    assert severity == 4


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("cannot create: Post: no route", "the node's certificate cannot be had (50s so far)"),
        ("Get: x509: certificate has expired", "a certificate is not valid (50s so far), said 3×:"),
    ],
)
def test_a_certificate_that_is_not_there_or_not_valid(
    tmp_path: Path, message: str, says: str
) -> None:
    """What the message says of it; without a server to ask nothing is said of certificates."""
    story = Story("node-a")
    _trouble(story, "certificate", 100, 150, message)
    assert [each.text[: len(says)] for each in _found(tmp_path, story)] == [says]
    _trouble(story, "api_unreachable", 110, 160, "connection refused")
    told = [each.text for each in _found(tmp_path / "b", story)]
    assert len(told) == 1 + ("x509" in message)


def test_a_trouble_that_came_again_did_not_last_all_the_time(tmp_path: Path) -> None:
    """Between the two all was well: what they lasted is said to be of both."""
    story = Story("node-a")
    _trouble(story, "api_unreachable", 100, 160, "no route", is_over=True)
    _trouble(story, "api_unreachable", 400, 450, "no route")
    (told,) = [each.text for each in _found(tmp_path, story)]
    assert told.startswith("the API server cannot be reached 2× (1m50s in all), said 6×:")


def test_a_trouble_of_a_kubelet_that_ended_does_not_go_on(tmp_path: Path) -> None:
    """What lasted is told as past; what did not, not at all."""
    story = Story("node-a")
    _trouble(story, "api_unreachable", 100, 160, "no route")
    _trouble(story, "lease_update_failed", 170, 175, "refused")
    story.add(KubeletStarted(pid=8, kubelet_version="1.30.14", version_source="log"))
    story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=START_NS + 200 * NS_PER_S)
    (told,) = [each.text for each in _found(tmp_path, story) if "restarted" not in each.text]
    assert told.startswith("the API server could not be reached for 1m")


@pytest.mark.parametrize("trouble", ["lease_update_failed", "storage_not_ready"])
def test_what_a_node_lacks_that_is_not_registered_is_no_trouble_of_its_own(
    tmp_path: Path, trouble: NodeTrouble
) -> None:
    """Its lease and its storage hang on the node's object."""
    story = Story("node-a")
    _trouble(story, trouble, 100, 150, "forbidden")
    assert len(_found(tmp_path, story)) == 1
    _trouble(story, "registration_failed", 110, 160, "nodes is forbidden")
    (told,) = _found(tmp_path / "b", story)
    assert told.text.startswith("the node cannot be registered (50s so far), said 3×: nodes is")


def test_a_node_that_is_not_ready_is_told_once(tmp_path: Path) -> None:
    """With its cause; other troubles stand alone, without what follows from them."""
    story = Story("node-a")
    _ready(story, "True", None, 0)
    _trouble(story, "pleg_unhealthy", 100, 190, "pleg was last seen active 3m1s ago")
    _ready(story, "False", "PLEG is not healthy: pleg was last seen active 3m1s ago", 100)
    _ready(story, "True", None, 251)
    _trouble(story, "api_unreachable", 500, 560, "connection refused")
    _trouble(story, "lease_update_failed", 505, 555, "connection refused")
    _trouble(story, "sync_skipped", 700, 705, "soon over")
    _ready(story, "True", None, 1400)
    assert _told(_found(tmp_path, story)) == [
        (
            5,
            "the node was not ready for 2m31s:"
            " PLEG is not healthy: pleg was last seen active 3m1s ago",
            "node",
        ),
        (3, "the API server could not be reached for 1m, said 3×: connection refused", "node"),
    ]
    again = Story("node-a")
    _ready(again, "False", "PLEG is not healthy", 100)
    assert [each.text for each in _found(tmp_path / "b", again)] == [
        "the node is not ready: PLEG is not healthy"
    ]


def test_what_besides_the_node_itself(tmp_path: Path) -> None:
    """``why node`` tells of the node; of the pods, and of lines that nobody tells, the worst."""
    story = Story("node-a")
    _ready(story, "False", "PLEG is not healthy", 100)
    story.add(
        _failed("a", "image", reason="ErrImagePull", about="r:1", message="no", first=1, last=9)
    )
    lines = ErrorsLogged(
        severity="E", source="x.go", shape="It failed", count=2, first_ts_ns=1, last_ts_ns=2
    )
    story.add(lines)
    with connect(write_ledger(tmp_path, story.records)) as queryable:
        found = besides_on(lambda query, given: queryable.sql(query, given).dicts(), "node-a")
    assert found.counts == ("1 time not ready, 1 stuck; besides, 2 warnings and errors of 1 shape")
    assert found.worst == (
        "default/a has not started: its image r:1 cannot be pulled (ErrImagePull: no)",
        "2 × E x.go It failed",
    )
    assert found.had_trouble


def test_a_start_or_a_shutdown_tells_why_the_node_was_not_ready(tmp_path: Path) -> None:
    """The first seconds of a kubelet, and the way down."""
    story = Story("node-a")
    story.add(KubeletStarted(pid=7, kubelet_version="1.36.2", version_source="log"))
    _ready(story, "False", "container runtime status check may not have completed yet", 2)
    _ready(story, "True", None, 12)
    story.add(ShutdownProgressed(step="detected"))
    _ready(story, "False", "node is shutting down", 5)
    story.add(ShutdownProgressed(step="completed"))
    story.add(_warned("Rebooted", "Node node-a has been rebooted", "Node"))
    assert [each.text for each in _found(tmp_path, story)] == [
        "the node was shut down",
        "the node was rebooted",
    ]


def test_what_was_short_and_nobody_had_to_go(tmp_path: Path) -> None:
    """Resizes that do not fit, unless they did later; reclaims without a pod; who was spared."""
    story = Story("node-a")
    for pod, outcome in (
        ("a", "deferred"),
        ("b", "infeasible"),
        ("c", "deferred"),
        ("c", "actuated"),
    ):
        story.add(PodResized(**of(pod), outcome=outcome, message="cpu does not fit"))  # type: ignore[arg-type] # a word
    for _ in range(2):
        story.add(ReclaimAttempted(resource="memory", outcome="nothing"))
    story.add(ReclaimAttempted(resource="memory", outcome="node_level"))
    ranked = tuple(RankedPod(**of(name)) for name in ("crit", "next"))
    cut = story.add(ReclaimAttempted(resource="pids", ranked=ranked))
    story.add(PodSpared(**of("crit")), cause=cut)
    story.add(ReclaimAttempted(resource="inodes", ranked=ranked))
    story.add(ReclaimAttempted(resource=None))
    all_spared = story.add(ReclaimAttempted(resource="ephemeral-storage", ranked=ranked[:1]))
    story.add(PodSpared(**of("crit")), cause=all_spared)
    assert sorted(_told(_found(tmp_path, story))) == [
        (1, "default/crit was to be evicted 2× and was spared: it is critical", "pod/default/crit"),
        (2, "default/a: a resize waits until it fits (cpu does not fit)", "pod/default/a"),
        (2, "default/b: a resize can never fit (cpu does not fit)", "pod/default/b"),
        (
            2,
            "ephemeral-storage was short: all in rank were spared as critical (default/crit)",
            "node",
        ),
        (
            2,
            "inodes was short, and a pod had to go: first in rank default/crit; "
            "no more is recorded",
            "node",
        ),
        (2, "memory was short 2×, and no pod could go", "node"),
        (2, "memory was short; deleting unused images and containers was enough", "node"),
        (
            2,
            "pids was short, and a pod had to go: next in rank default/next; no more is recorded",
            "node",
        ),
        (2, "something was short, and which pod had to go is not recorded", "node"),
    ]


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


def test_lines_that_nobody_understood_may_say_what_went_wrong(tmp_path: Path) -> None:
    """So that nothing went wrong is not said without them."""
    path = tmp_path / "kubelet.log"
    line = 'I1122 08:14:3{}.000000    1000 kubelet.go:1] "Something new" pod="default/web"\n'
    started = (
        'I1122 08:14:30.000000    1000 server.go:407] "Kubelet version" kubeletVersion="v1.36.2"'
    )
    path.write_text("\n".join((started, *(line.format(at) for at in range(1, 4)))))
    (told,) = kubeledger.open(tmp_path / "ledger").import_(path).happened
    assert told.endswith(
        "nothing that went wrong was recorded, but lines were not understood:"
        " 3 × not understood: kubelet.go Something new"
    )
