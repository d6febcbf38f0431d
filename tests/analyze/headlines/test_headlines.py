"""Headlines: amounts, lists and messages in few words; the worst first, the rest together."""

from pathlib import Path
from typing import Literal

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
from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.logged_errors import HARMLESS, Harmless, harmless, own_words
from kubeledger.analyze.problems.table import PROBLEMS
from kubeledger.analyze.problems.told import Told, told_by
from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.wording import (
    TEXT_MAX,
    bytes_text,
    missing_text,
    names_text,
    shortened,
    span_text,
)
from kubeledger.ingest.klog.account import error_shape
from kubeledger.kubelet.lifecycle.state import how_it_ended
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.eviction import PodSpared, ProcessKilled, RankedPod, ReclaimAttempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodEvicted,
    PodListed,
    PodRejected,
    PodResized,
    PodTerminated,
    PodTerminating,
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

Step = Body | tuple[float, Body]


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
    assert missing_text(insufficient).strip() == text


def test_names() -> None:
    assert names_text(["a", "b", "a", "c"]) == "a, b, c"
    assert names_text(["a", "b", "c", "d"]) == "a, b and 2 more"


def test_a_long_chain_of_errors_is_shown_by_its_end() -> None:
    assert shortened("no disk: full") == "no disk: full"
    chain = "Failed to start ContainerManager: start memory manager error: " + "state differs " * 6
    assert shortened(chain) == chain.strip().rpartition(": ")[2]
    assert len(shortened("much " * 40)) == TEXT_MAX
    assert shortened(" ") == "no message"
    prose = "failed to run Kubelet: swap is on, disable it or set the flag. /proc/swaps contained: "
    assert shortened(prose + "[Filename /swapfile file 2097148 0 -2]").startswith("swap is on")


def test_a_chain_that_was_quoted_ends_without_its_quotes() -> None:
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
    found = [_incident("killed", 3, seq, count=2) for seq in range(1, 5)]
    found += [_incident("deleted", 0, 9, count=5), _incident("preempted", 4, 10)]
    found.sort(key=lambda each: -each.severity)
    assert [each.text for each in headlines(found)] == [
        "preempted 10",
        "killed 1",
        "6 more kills by probes or hooks: default/p2, default/p3 and 1 more",
    ]
    assert happened(found) == "1 preempted pod, 8 kills by probes or hooks, 5 deleted images"
    many = [_incident(each.kind, each.severity, seq) for seq, each in enumerate(PROBLEMS)]
    assert [each.kind for each in headlines(many)] == [each.kind for each in PROBLEMS[:8]]
    assert len(headlines(many)) == HEADLINES_MAX
    twice = [*many, *(_incident(each.kind, each.severity, 99) for each in PROBLEMS)]
    shown = headlines(sorted(twice, key=lambda each: -each.severity))
    assert [each.kind for each in shown] == [each.kind for each in PROBLEMS[:8]]
    assert shown[0].text == "not_ready 0; 1 more time not ready: default/p99"


def _found(directory: Path, *steps: Step) -> list[Incident]:
    """Of a body a second, or at the seconds given; who is spared was ranked just before."""
    story, last = Story("node-a"), 0
    for step in steps:
        at_s, body = step if isinstance(step, tuple) else (None, step)
        last = story.add(body, cause=last if isinstance(body, PodSpared) else None)
        if at_s is not None:
            ts_ns = START_NS + at_s * NS_PER_S
            story.records[-1] = msgspec.structs.replace(story.records[-1], ts_ns=ts_ns)
    with connect(write_ledger(directory, story.records)) as queryable:
        rows = queryable.sql("SELECT kind FROM problems").fetchall()
    found = incidents(_told(directory, story))
    # What is told, the page steps through and a fleet counts: the same, one by one.
    assert sum(each.count for each in found) == len(rows)
    return found


def _told(directory: Path, story: Story) -> Told:
    (history,) = histories_of_ledger(Ledger.open(write_ledger(directory, story.records)))
    return told_by(history)


def _errors(**changes: object) -> ErrorsLogged:
    body = ErrorsLogged(severity="E", source="a.go", shape="It failed", first_ts_ns=1, last_ts_ns=2)
    return msgspec.structs.replace(body, **changes)


_WEB = {"namespace": "default", "pod": "web"}
_HARMLESS = _errors(source="dns.go", shape="Nameserver limits exceeded")


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
    ("logged", "said", "shown"),
    [
        ([_errors(severity="W", shape="a warning", count=90), _errors(count=7),
          _errors(count=2, pid=9), _errors(shape="of a pod", count=2, **_WEB),
          _errors(shape="of a pod", **{**_WEB, "pod": "db"}),
          _errors(severity="F", shape="the end")],
         "no decision that went wrong was recorded, but 103 warnings and errors of 4 "
         "kinds: F a.go the end, 3 × E a.go of a pod (db, web), 9 × E a.go It failed",
         ["F a.go the end", "3 × E a.go of a pod (db, web)", "9 × E a.go It failed",
          "90 more warnings"]),
        ([_HARMLESS],
         "nothing that went wrong was recorded; 1 error is harmless: "
         "E dns.go Nameserver limits exceeded: a resolver takes three nameservers: those "
         "after the first three are left out", []),
        ([_errors(recorded=True), _HARMLESS],
         "no decision that went wrong was recorded, but the kubelet reported: "
         "E a.go It failed", ["E a.go It failed"]),
        ([_errors(recorded=True), _HARMLESS, _errors(),
          PodRejected(namespace="a", pod="b", pod_uid=None, reason="X", message="no")],
         "1 refused pod; besides, 1 error",
         ["a/b rejected: X", "E a.go It failed"]),
        ([_warned("Unhealthy", "Liveness probe failed: HTTP 500")] * 2,
         "no decision that went wrong was recorded, but the kubelet reported: "
         "2 × Warning Unhealthy: Liveness probe failed: HTTP * (default/web)",
         ["2 × Warning Unhealthy: Liveness probe failed: HTTP * (default/web)"]),
        ([_warned("Odd", "x is 5\nat y", "Node"), _warned("Odd", "x is 6\nat z", "Node")],
         "no decision that went wrong was recorded, but the kubelet reported: "
         "2 × Warning Odd: x is *", ["2 × Warning Odd: x is *"]),
        ([_warned("Unhealthy", "")],
         "no decision that went wrong was recorded, but the kubelet reported: "
         "Warning Unhealthy (default/web)", ["Warning Unhealthy (default/web)"]),
        ([_warned("CgroupV1", "cgroup v1 detected", "Node")],
         "nothing that went wrong was recorded; 1 warning is harmless: Warning "
         "CgroupV1: cgroup v1 detected: it works; a future release will not take cgroup v1", []),
        ([_warned("DNSConfigForming", "Nameserver limits were exceeded"), _HARMLESS],
         "nothing that went wrong was recorded; 2 warnings and errors are harmless: E dns.go "
         "Nameserver limits exceeded: a resolver takes three nameservers: those after the first "
         "three are left out, Warning DNSConfigForming: Nameserver limits were exceeded "
         "(default/web): a resolver takes three nameservers: those after the first three are left "
         "out", []),
        ([PodRejected(namespace="default", pod="web", pod_uid=None, reason="Y", message="no"),
          _warned("Y", "Predicate Y failed")], "1 refused pod", ["default/web rejected: Y"]),
        ([PodRejected(
            namespace="a", pod="b", pod_uid=None, reason="UnexpectedAdmissionError",
            message="Allocate failed due to no healthy devices present; cannot allocate unhealthy "
            "devices e.io/d, which is unexpected")],
         "1 refused pod",
         ["a/b rejected: UnexpectedAdmissionError (no healthy devices present; cannot allocate "
          "unhealthy devices e.io/d)"]),
    ],
    ids=["fatal, pods, most frequent, warnings", "harmless", "one is not", "beside an incident",
         "event told by nothing else", "unknown event", "torn event", "harmless event",
         "an event besides its line", "event of a refusal", "refusal by an error"],
)  # fmt: skip
def test_errors_that_no_record_tells_are_told_by_their_shape(
    tmp_path: Path, logged: list[Body], said: str, shown: list[str]
) -> None:
    story = Story("node-a")
    for body in logged:
        story.add(body)
    found = incidents(_told(tmp_path, story))
    assert (in_a_sentence(found), [each.text for each in headlines(found)]) == (said, shown)


@pytest.mark.parametrize("each", HARMLESS, ids=lambda each: each.source)
def test_what_is_harmless_is_so_in_its_file_only(each: Harmless) -> None:
    assert each.reason
    assert harmless("other.go", "Nameserver limits exceeded") is None


_SKIPPING = 'kubelet.go:1] "Skipping pod synchronization" err='


@pytest.mark.parametrize(
    ("line", "is_harmless"),
    [
        ('dns.go:1] "Nameserver limits exceeded" err="Nameserver limits were exceeded, some"',
         True),
        ("dns.go:1] Nameserver limits were exceeded, some nameservers have been omitted", True),
        ('file_linux.go:1] "Unable to read config path" err="path does not exist, ignoring"', True),
        ('file.go:1] Unable to read config path "/m": path does not exist, ignoring', True),
        ('file_unsupported.go:1] "Watching source file is unsupported in this build"', True),
        ("feature_gate.go:1] Setting GA feature gate SomeGate=true. It will be removed in a future",
         True),
        ("csi_plugin.go:1] kubernetes.io/csi: kubeclient not set, assuming standalone kubelet",
         True),
        ("probe.go:1] Flexvolume plugin directory at /x/y/ does not exist. Recreating.", True),
        ('cpu_manager.go:1] "RemoveStaleState: removing container" podUID="u" containerName="web"',
         True),
        (_SKIPPING + '"[container runtime status check may not have completed yet, PLEG is not '
         'healthy: pleg has yet to be successful]"', True),
        ("kubelet.go:1] skipping pod synchronization - container runtime status check may not have "
         "completed yet", True),
        (_SKIPPING + '"PLEG is not healthy: pleg was last seen active 3m1.5s ago; threshold is '
         '3m0s"', False),
    ],
)  # fmt: skip
def test_harmless_lines_as_they_are_logged(line: str, is_harmless: bool) -> None:
    """By the shape that the importer gives them; what keeps a node from being ready is not."""
    read = log_line(f"E1121 02:00:00.000001 1 {line}")
    assert bool(harmless(read.file, error_shape(read))) == is_harmless


def test_a_pod_is_evicted_once_whoever_waited_for_its_end(tmp_path: Path) -> None:
    """Three attempts at two pods; of one the manager never saw the end."""
    evicted = PodEvicted(
        namespace="a", pod="p", pod_uid="u", resource=None, message=None, evicted=False
    )
    q = msgspec.structs.replace(evicted, pod="q", pod_uid="v", signal="memory.available")
    found = _found(tmp_path, evicted, q, msgspec.structs.replace(q, evicted=True))
    assert [each.text for each in found] == [
        "a/p evicted, signal not recorded",
        "a/q evicted for memory.available",
    ]
    assert happened(found) == "2 evicted pods (1 took longer than the kubelet waited)"


def _failed(
    pod: str, stage: Stage, reason: str, first: int, last: int, *, about: str | None = None,
    message: str = "", count: int = 1,
) -> PodStageFailed:  # fmt: skip
    """A failure, from ``first`` to ``last``, seconds."""
    container = "app" if stage in ("image", "create", "run", "ready") else ""
    return PodStageFailed(
        **of(pod, container),
        stage=stage,
        reason=reason,
        message=message,
        about=about,
        count=count,
        first_ts_ns=START_NS + first * NS_PER_S,
        last_ts_ns=START_NS + last * NS_PER_S,
    )


def _started(pod: str, container_id: str) -> ContainerStarted:
    return ContainerStarted(**of(pod, "app"), container_id=container_id, sandbox=False)


def _ready(status: Literal["True", "False"], message: str | None = None) -> NodeConditionChanged:
    reason = "KubeletNotReady" if message else None
    return NodeConditionChanged(condition="Ready", status=status, reason=reason, message=message)


def _trouble(
    trouble: NodeTrouble, first: int, last: int, message: str, *, is_over: bool = False
) -> Step:
    first_ns, last_ns = (START_NS + at_s * NS_PER_S for at_s in (first, last))
    return first, NodeTroubled(
        trouble=trouble,
        message=message,
        count=3,
        first_ts_ns=first_ns,
        last_ts_ns=last_ns,
        passed_ts_ns=last_ns if is_over else None,
    )


def _exited(pod: str, exit_code: int) -> ContainerDied:
    return ContainerDied(**of(pod, "app"), container_id=pod, sandbox=False, exit_code=exit_code)


def _held(pod: str) -> RestartBackedOff:
    return RestartBackedOff(**of(pod, "app"), back_off_s=40)


def _refused(pod: str, reason: str) -> PodRejected:
    return PodRejected(namespace="default", pod=pod, pod_uid=pod, reason=reason, message="no")


_BEGAN = KubeletStarted(pid=7, kubelet_version="1.36.2", version_source="log")
_NO_DB = {"message": 'secret "db" not found', "about": "db"}
_PLEG = "PLEG is not healthy: pleg was last seen active 3m1s ago"
_RESIZED: tuple[tuple[str, Literal["deferred", "infeasible", "actuated"]], ...] = (
    ("a", "deferred"), ("b", "infeasible"), ("c", "deferred"), ("c", "actuated"),
)  # fmt: skip
_RANKED = tuple(RankedPod(**of(name)) for name in ("crit", "next"))
TOLD: dict[str, tuple[list[Step], list[tuple[int, str, str | None]]]] = {
    "refusals by their reason, a death by its cause, what the sources lack last": (
        [_BEGAN, *(_refused(pod, "OutOfpods") for pod in "abc"), _refused("d", "X"),
         KubeletExited(pid=7, reason="error", message="cannot go on: no disk"),
         ClockStepped(from_ts_ns=2, to_ts_ns=1)],
        [(5, "kubelet (pid 7) died: cannot go on: no disk", "node"),
         (4, "3 pods (a, b, c) rejected: OutOfpods", "pod/default/a"),
         (4, "default/d rejected: X", "pod/default/d"), (1, "the clock was set back", None)],
    ),
    "the kubelet has given up what a refused pod lacks": (
        [_refused("web", "TaintToleration"), _failed("web", "volumes", "FailedMount", 9, 60)],
        [(4, "default/web rejected: TaintToleration", "pod/default/web")],
    ),
    # Open, ended before, passed after a while; what passes at once harms nobody.
    "pods that one cause keeps from starting are one headline": (
        [_failed("a", "create", "CreateContainerConfigError", 1, 50, count=7, **_NO_DB),
         _failed("b", "create", "CreateContainerConfigError", 1, 50, count=7, **_NO_DB),
         _failed("web", "image", "ImagePullBackOff", 2, 40, count=14, about="reg/web:1.4",
                 message="not found"),
         (46, _failed("gone", "sandbox", "CreatePodSandboxError", 0, 45)),
         (90, PodTerminated(**of("gone"))),
         _failed("slow", "volumes", "FailedMount", 5, 6, about="v", message="timed out"),
         (89, _started("slow", "c-slow")),
         _failed("quick", "volumes", "FailedMount", 88, 89, about="v", message="timed out"),
         (89, _started("quick", "c-quick"))],
        [(4, "a, b have not started: their configuration is not complete "
          '(CreateContainerConfigError: secret "db" not found), 14 tries', "pod/default/a"),
         (4, "default/gone had not started when it was ended after 1m30s: its sandbox could not be "
          "made (CreatePodSandboxError)", "pod/default/gone"),
         (4, "default/web has not started: its image reg/web:1.4 cannot be pulled "
          "(ImagePullBackOff: not found), 14 tries", "pod/default/web"),
         (2, "default/slow waited 1m24s for its volume v (FailedMount: timed out)",
          "pod/default/slow")],
    ),
    "one that a probe or the kernel kills does not crash besides": (
        [ContainerKilled(**of("probed", "app"), container_id="c", reason="liveness_probe",
                         message=None, grace_period_s=None), _held("probed"),
         ProcessKilled(**of("eater", "app"), container_id="eater", reason="container_limit"),
         _exited("eater", 137), _held("eater"), _exited("crashy", 3), _held("crashy"),
         _held("unseen")],
        [(4, "default/eater/app OOM-killed", "container/default/eater/app"),
         (3, "default/probed/app killed by its liveness probe, back-off 40 s",
          "container/default/probed/app"),
         (3, "default/crashy/app ended by itself with exit code 3, back-off 40 s",
          "container/default/crashy/app"),
         (3, "default/unseen/app kept failing: back-off 40 s before its next start",
          "container/default/unseen/app")],
    ),
    "one whose start nobody saw may have been ready before": (
        [_started("seen", "c"), _failed("seen", "ready", "readiness probe failed", 9, 60),
         _failed("unseen", "ready", "readiness probe failed", 9, 60)],
        [(2, "default/seen/app has not become ready", "container/default/seen/app"),
         (2, "the readiness probe of default/unseen/app failed, and it is not known to be ready",
          "container/default/unseen/app")],
    ),
    "a trouble that came again did not last all the time between": (
        [_trouble("api_unreachable", 100, 160, "no route", is_over=True),
         _trouble("api_unreachable", 400, 450, "no route")],
        [(3, "the API server cannot be reached 2× (1m50s in all), reported 6×: no route", "node")]),
    "a trouble of a kubelet that ended does not go on": (
        [_trouble("api_unreachable", 100, 160, "no route"),
         _trouble("lease_update_failed", 170, 175, "refused"),
         (200, KubeletStarted(pid=8, kubelet_version="1.30.14", version_source="log"))],
        [(3, "the API server could not be reached for 1m, reported 3×: no route", "node")]),
    # Its lease and its storage hang on the node's object.
    "a lease that is not renewed": ([_trouble("lease_update_failed", 100, 150, "forbidden")],
        [(3, "the node's lease cannot be renewed (50s so far), reported 3×: forbidden", "node")]),
    "what a node lacks that is not registered is no trouble of its own": (
        [_trouble("lease_update_failed", 100, 150, "forbidden"),
         _trouble("storage_not_ready", 100, 150, "forbidden"),
         _trouble("registration_failed", 110, 160, "nodes is forbidden")],
        [(3, "the node cannot be registered (50s so far), reported 3×: nodes is forbidden",
          "node")]),
    "a node that is not ready is told once, with its cause; other troubles stand alone": (
        [(0, _ready("True")), _trouble("pleg_unhealthy", 100, 190, _PLEG[22:]),
         (100, _ready("False", _PLEG)), (251, _ready("True")),
         _trouble("api_unreachable", 500, 560, "connection refused"),
         _trouble("lease_update_failed", 505, 555, "connection refused"),
         _trouble("sync_skipped", 700, 705, "soon over"), (1400, _ready("True"))],
        [(5, f"the node was not ready for 2m31s: {_PLEG}", "node"),
         (3, "the API server could not be reached for 1m, reported 3×: connection refused",
           "node")]),
    "a node that is not ready to the end": ([(100, _ready("False", "PLEG is not healthy"))],
        [(5, "the node is not ready: PLEG is not healthy", "node")]),
    "a start or a shutdown tells why the node was not ready": (
        [_BEGAN, (2, _ready("False", "container runtime status check may not have completed yet")),
         (12, _ready("True")), ShutdownProgressed(step="detected"),
         (5, _ready("False", "node is shutting down")),
         ShutdownProgressed(step="completed"),
         _warned("Rebooted", "Node node-a has been rebooted", "Node")],
        [(1, "the node was shut down", "node"), (1, "the node was rebooted", "node")]),
    "a resize that does not fit, unless it did later": (
        [PodResized(**of(pod), outcome=outcome, message="cpu does not fit")
         for pod, outcome in _RESIZED],
        [(2, "default/a: a resize waits until it fits (cpu does not fit)", "pod/default/a"),
         (2, "default/b: a resize can never fit (cpu does not fit)", "pod/default/b")]),
    "reclaims without a pod": (
        [*[ReclaimAttempted(resource="memory", outcome="nothing")] * 2,
         ReclaimAttempted(resource="memory", outcome="node_level"),
         ReclaimAttempted(resource="inodes", ranked=_RANKED), ReclaimAttempted(resource=None)],
        [(2, "the node was low on memory 2×, and no pod could be evicted", "node"),
         (2, "the node was low on inodes, and a pod was to be evicted: first in rank default/crit; "
          "no more is recorded", "node"),
         (2, "the node was low on something, and which pod was to be evicted is not recorded",
          "node"),
         (2, "the node was low on memory; deleting unused images and containers was enough",
          "node")]),
    "who was spared": (
        [ReclaimAttempted(resource="pids", ranked=_RANKED), PodSpared(**of("crit")),
         ReclaimAttempted(resource="ephemeral-storage", ranked=_RANKED[:1]),
         PodSpared(**of("crit"))],
        [(2, "the node was low on pids, and a pod was to be evicted: next in rank default/next; "
          "no more is recorded", "node"),
         (2, "the node was low on ephemeral-storage: all in rank were spared as critical "
          "(default/crit)", "node"),
         (1, "default/crit was to be evicted 2× and was spared: it is critical",
          "pod/default/crit")]),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_what_is_told(tmp_path: Path, case: str) -> None:
    steps, told = TOLD[case]
    found = [(each.severity, each.text, each.target) for each in _found(tmp_path, *steps)]
    assert sorted(found, key=str) == sorted(told, key=str)
    assert [each[0] for each in found] == sorted((each[0] for each in found), reverse=True)


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
    failed = _failed("a", stage, reason, 1, 50, about="r:1", message="no")
    (told,) = _found(tmp_path, failed)
    assert (told.severity, says in told.text) == (4, True), told.text


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("cannot create: Post: no route", "the node's certificate cannot be had (50s so far)"),
        (
            "Get: x509: certificate has expired",
            "a certificate is not valid (50s so far), reported 3×:",
        ),
    ],
)
def test_a_certificate_that_is_not_there_or_not_valid(
    tmp_path: Path, message: str, says: str
) -> None:
    """What the message says of it; without a server to ask nothing is said of certificates."""
    certificate = _trouble("certificate", 100, 150, message)
    assert [each.text[: len(says)] for each in _found(tmp_path, certificate)] == [says]
    unreachable = _trouble("api_unreachable", 110, 160, "connection refused")
    assert len(_found(tmp_path / "b", certificate, unreachable)) == 1 + ("x509" in message)


def test_what_besides_the_node_itself(tmp_path: Path) -> None:
    """``why node`` tells of the node; of the pods, and of lines that nobody tells, the worst."""
    story = Story("node-a")
    story.add(_ready("False", "PLEG is not healthy"))
    story.add(_failed("a", "image", "ErrImagePull", 1, 9, about="r:1", message="no"))
    story.add(_errors(source="x.go", count=2))
    found = besides_on(_told(tmp_path, story))
    assert found.counts == "1 time not ready, 1 stuck start; besides, 2 errors"
    assert found.worst == (
        "default/a has not started: its image r:1 cannot be pulled (ErrImagePull: no)",
        "2 × E x.go It failed",
    )
    assert found.had_trouble


def test_series_of_crashes_are_counted(tmp_path: Path) -> None:
    """One container may crash, run well, and crash again: containers are not what is counted."""
    found = _found(tmp_path, _exited("crashy", 3), _held("crashy"), _held("unseen"))
    assert in_a_sentence(found).endswith("2 series of crashes")


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        (None, "ended by itself 2×"),
        (3, "ended by itself 2× with exit code 3"),
        (137, "was found ended 2× (exit code 137, SIGKILL)"),
        (139, "ended by itself 2× with exit code 139"),
        (255, "was found ended 2× (exit code 255: its own, or of what was lost)"),
    ],
)
def test_who_is_killed_does_not_end_by_itself(exit_code: int | None, text: str) -> None:
    assert how_it_ended(exit_code, " 2×") == text


def test_lines_that_nobody_understood_may_say_what_went_wrong(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.log"
    line = 'I1122 08:14:3{}.000000    1000 kubelet.go:1] "Something new" pod="default/web"\n'
    started = (
        'I1122 08:14:30.000000    1000 server.go:407] "Kubelet version" kubeletVersion="v1.36.2"'
    )
    path.write_text("\n".join((started, *(line.format(at) for at in range(1, 4)))))
    (told,) = kubeledger.open(tmp_path / "ledger").import_(path).happened
    assert told.endswith(
        "nothing that went wrong was recorded, but 3 lines not understood: kubelet.go Something new"
    )


def test_a_pod_that_failed_is_told_once(tmp_path: Path) -> None:
    """Not again where it was stopped before, or what its containers do is told as a crash."""
    ended = {"name": "app", "state": {"terminated": {"exitCode": 7}}}
    status = {"phase": "Failed", "containerStatuses": [ended]}
    lists = (
        PodListed(**of(pod), spec=None, status=status, listed_by="api") for pod in ("a", "b", "c")
    )
    stopped = PodTerminating(**of("a"), reason="deleted", grace_period_s=1)
    found = _found(tmp_path, stopped, _started("b", "b"), _exited("b", 7), _held("b"), *lists)
    texts = [each.text for each in found]
    assert (len(texts), texts[-1]) == (2, "default/c failed (exit code 7)")
    assert "default/b/app" in texts[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('Nov 21 02:00:00 n kubelet[1]: E1121 02:00:00.000001 1 a.go:1] "No" err="x"',
         '"No" err="x"'),
        ('{"ts":1.5,"caller":"a.go:1","msg":"No","v":0,"err":"\\"x\\"","pod":{"name":"p"},"ok":true}',
         'No err="\\"x\\"" pod={"name":"p"} ok=true'),
        ('{"ts":1.5,"caller":"a.go:1","msg":"N', ""),
        ("nothing of klog", ""),
    ],
)  # fmt: skip
def test_what_a_line_says_by_itself(line: str, words: str) -> None:
    """Without header and prefix; of the JSON form message and values."""
    assert own_words(line) == words


def test_a_status_of_a_strange_shape_is_told_all_the_same(tmp_path: Path) -> None:
    """It comes from a file that anybody may have written."""
    strange = {"phase": "Failed", "reason": {"a": [1]}, "message": 7, "containerStatuses": "x"}
    pod = PodListed(**of("a"), spec=None, status=strange, listed_by="api")
    (found,) = _found(tmp_path, pod)
    assert found.text == "default/a failed ({'a': [1]}): 7"
    ended: dict[str, object] = {"state": {"terminated": {"exitCode": 3}}}
    statuses = [ended, 5, {"state": []}, {"state": {"terminated": None}}]
    pod = msgspec.structs.replace(pod, status={"phase": "Failed", "containerStatuses": statuses})
    (found,) = _found(tmp_path / "codes", pod)
    assert found.text == "default/a failed (exit code 3)"
