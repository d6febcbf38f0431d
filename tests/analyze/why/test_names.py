"""What people type, and which target that is."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import History, history_of_reader
from kubeledger.analyze.why import Explanation, Target, answers_to, explain, find_target
from kubeledger.model.bodies.devicemanager import DevicesAllocated, DevicesReleased
from kubeledger.model.bodies.eviction import (
    PodPreempted,
    ProcessKilled,
    RankedPod,
    ReclaimAttempted,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodListed,
    PodRejected,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import ErrorsLogged, PodStageFailed
from kubeledger.model.errors import BadQuestionError
from tests.verify.histories import reader, recorded, scene

GPU_A = "36aa1f99-e71c-4fcf-b3f7-3254b6127099"
LIVE_FAIL = "e87c67ca-371e-4b1a-ba0a-2940731faba2"
CONTAINER = "bba7be9afe61fceea437c22a6bd1bf870f2ece8e18b768f76c81af38a4ea6d8c"
SANDBOX = "42d08fd01dba8df47e9e333be41127089a1d8e129da77786acd18e70b4e3afe8"
IMAGE = "sha256:68d8e9110ca497ee3eb8e1264b28f47fa97dec63cbd657b2e38fe65b5e404236"
CGROUP = "kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b"
POD = Target("pod", ("default", "gpu-a"))
APP = Target("container", ("default", "live-fail", "app"))
GPU_0 = Target("device", ("example.com/gpu", "gpu-0"))


def history(name: str) -> History:
    return history_of_reader(name, name, reader(recorded(name)))


@pytest.mark.parametrize(
    ("typed", "target"),
    [
        ("gpu-a", POD),
        ("pod/gpu-a", POD),
        ("default/gpu-a", POD),
        ("pod/default/gpu-a", POD),
        (" gpu-a ", POD),
        (GPU_A, Target("pod", POD.parts, GPU_A)),
        (GPU_A[:8], Target("pod", POD.parts, GPU_A)),
        ("live-fail/app", APP),
        ("default/live-fail/app", APP),
        ("container/live-fail/app", APP),
        ("container/default/live-fail/app", APP),
        (f"{LIVE_FAIL}/app", Target("container", APP.parts, LIVE_FAIL)),
        (CONTAINER, Target("container", APP.parts, LIVE_FAIL)),
        (f"containerd://{CONTAINER}", Target("container", APP.parts, LIVE_FAIL)),
        (CONTAINER[:12], Target("container", APP.parts, LIVE_FAIL)),
        (SANDBOX[:12], Target("pod", ("default", "live-fail"), LIVE_FAIL)),
        ("warmup", Target("container", ("default", "gpu-a", "warmup"))),
        ("train", None),
        ("app", None),
        ("gpu", None),
        ("gpu-0", GPU_0),
        ("example.com/gpu/gpu-0", GPU_0),
        ("device/gpu-0", GPU_0),
        ("device/example.com/gpu/gpu-0", GPU_0),
        ("example.com/gpu", None),
        (IMAGE, Target("image", (IMAGE,))),
        (IMAGE[7:], Target("image", (IMAGE,))),
        (IMAGE[:14], Target("image", (IMAGE,))),
        (IMAGE[7:13], Target("image", (IMAGE,))),
        (f"image/{IMAGE[7:13]}", Target("image", (IMAGE[7:13],))),
        ("registry.local/unused-3:1", Target("image", (IMAGE,))),
        ("unused-3:1", Target("image", (IMAGE,))),
        ("unused-3", Target("image", (IMAGE,))),
        ("image/unused-3", Target("image", (IMAGE,))),
        (CGROUP, Target("cgroup", (CGROUP,))),
        (f"/{CGROUP}/", Target("cgroup", (CGROUP,))),
        (f"/sys/fs/cgroup/cpu,cpuacct/{CGROUP}", Target("cgroup", (CGROUP,))),
        (f"/sys/fs/cgroup/{CGROUP}", Target("cgroup", (CGROUP,))),
        (f"cgroup/{CGROUP}", Target("cgroup", (CGROUP,))),
        ("node", Target("node", ())),
        ("node-a", Target("node", ("node-a",))),
        ("node/node-a", Target("node", ("node-a",))),
    ],
)
def test_what_people_type(typed: str, target: Target | None) -> None:
    if target is None:
        with pytest.raises(BadQuestionError, match="may mean"):
            find_target(typed, [history("node-a")])
    else:
        assert find_target(typed, [history("node-a")]) == target


@pytest.mark.parametrize("typed", ["gpu-a", "pod/default/gpu-a", "default/gpu-a", "gpu-a-node-b"])
def test_static_pods_by_the_name_in_their_manifest(typed: str) -> None:
    assert find_target(typed, [history("node-b")]) == Target("pod", ("default", "gpu-a-node-b"))


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("app", "container/default/live-fail/app"),
        ("example.com/gpu", "device/example.com/gpu/gpu-3"),
        ("gpu-aa", "pod/default/gpu-a"),
        ("live-fial/app", "container/default/live-fail/app"),
        ("unused-4:1", "image/sha256:68d8"),
        ("pod/gpu-aa", "pod/default/gpu-a"),
        ("no-such-thing", "container/NS/POD/C"),
        ("", "pod/NS/NAME"),
    ],
)
def test_targets_to_copy(typed: str, advice: str) -> None:
    """Of several matches, of the nearest names, or the forms that there are."""
    with pytest.raises(BadQuestionError) as caught:
        find_target(typed, [history("node-a")])
    assert advice in f"{caught.value} {caught.value.advice}"


def _put_off(pod: str, container: str = "app") -> RestartBackedOff:
    return RestartBackedOff(
        namespace="prod", pod=pod, pod_uid=f"u-{pod}", container=container, back_off_s=10
    )


ONLY_TOLD = (
    _put_off("web-6d5f-x1"),
    _put_off("web-6d5f-x2"),
    _put_off("solo-0", "solver"),
    KubernetesEvent(namespace="prod", pod="told-0", pod_uid="u", container=None, object_kind="Pod",
                    type="Warning", reason="FailedMount", message="no volume", count=1),
    KubernetesEvent(namespace="", pod="node-t", pod_uid="node-t", container=None,
                    object_kind="Node", type="Normal", reason="NodeReady", message="", count=1),
    PodPreempted(victim_namespace="prod", victim_pod="victim-0", victim_uid="v",
                 preemptor_namespace="prod", preemptor_pod="big-0", preemptor_uid="b",
                 preemptor_inferred=False, insufficient=(), evicted=True),
    DevicesAllocated(namespace=None, pod=None, pod_uid="u-solo-0", container="warmup", resource="r",
                     device_ids=("d-1",), numa=None),
)  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("solo", "container/prod/solo-0/solver pod/prod/solo-0"),
        ("solver", "container/prod/solo-0/solver"),
        ("warmup", "container/prod/solo-0/warmup"),
        ("prod/solo-0", "pod/prod/solo-0"),
        ("solo/solver", "container/prod/solo-0/solver"),
        ("prod/solo/solver", "container/prod/solo-0/solver"),
        ("told-0", "pod/prod/told-0"),
        ("victim", "pod/prod/victim-0"),
        ("big-0", "pod/prod/big-0"),
    ],
)
def test_names_that_any_record_holds(typed: str, means: str) -> None:
    """Back-offs, events, preemptions, and records that name nothing but a UID."""
    known = history_of_reader("node-t", "", reader(scene(*enumerate(ONLY_TOLD))))
    assert str(find_target(typed, [known])) in means


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("web", "ask for one of: pod/prod/web-6d5f-x2 pod/prod/web-6d5f-x1"),
        ("app", "of: container/prod/web-6d5f-x2/app container/prod/web-6d5f-x1/app"),
        ("web/app", "of: container/prod/web-6d5f-x2/app container/prod/web-6d5f-x1/app"),
        ("wep", "is it pod/web?"),
        ("slover", "is it container/prod/solo-0/solver or pod/prod/solo-0?"),
        ("pod/node-t", "is not of the form pod/NS/NAME"),
    ],
)
def test_likely_names_come_first(typed: str, advice: str) -> None:
    """What was last decided; and where a name is near to several, that name."""
    known = history_of_reader("node-t", "", reader(scene(*enumerate(ONLY_TOLD))))
    with pytest.raises(BadQuestionError) as caught:
        find_target(typed, [known])
    assert advice in f"{caught.value} {caught.value.advice}"


def test_a_pod_about_which_nothing_was_decided() -> None:
    """The answer is what the records show; none for what no record names."""
    known = history_of_reader("node-t", "", reader(scene(*enumerate(ONLY_TOLD))))
    answer = explain(known, find_target("told", [known]))
    assert answer is not None
    assert answer.headline == (
        "pod prod/told-0 has not started since 1970-01-01T00:16:43Z: its volume cannot be mounted "
        "(no volume)."
    )
    assert [piece.seq for piece in answer.evidence] == [step.seq for step in answer.steps]
    assert explain(known, Target("container", ("prod", "told-0", "app"))) is None
    assert explain(known, Target("pod", ("prod", "none"))) is None


UID = "0a1b2c3d-0000-4000-8000-00000000000a"
ID = "4f" * 32
SLICE = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
KILLED: dict[str, Any] = {"namespace": None, "pod": None, "container": None}
SAID: dict[str, Any] = {"first_ts_ns": 10**12, "last_ts_ns": 10**12}
BELONGINGS = (
    ProcessKilled(**KILLED, pod_uid=UID, container_id=ID, reason="container_limit", process="java",
                  pid=4711),
    ProcessKilled(**KILLED, pod_uid=None, container_id=None, process="perl", pid=4712,
                  cgroup=f"{SLICE}/cri-containerd-{'5e' * 32}.scope"),
    ProcessKilled(**KILLED, pod_uid=None, container_id=None, process="rsyslogd", pid=4713),
    DevicesReleased(pod_uid="u-gone", container="train", resource="r"),
    PodStageFailed(namespace="prod", pod="db-0", pod_uid="u-db", stage="volumes",
                   reason="FailedMount", message="timed out", about="data logs", **SAID),
    PodListed(namespace="prod", pod="db-0", pod_uid="u-db", status=None, listed_by="kubelet",
              spec={"volumes": [{"name": "data",
                                 "persistentVolumeClaim": {"claimName": "db-claim"}}],
                    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-claim"}],
                    "containers": [{"name": "sql", "image": "registry.example/sql:9"}]}),
    PodStageFailed(namespace=None, pod="alone", pod_uid="u-alone", stage="volumes",
                   reason="FailedMount", message="exit status 32", about="nfs", **SAID),
    PodStageFailed(namespace=None, pod="bare", pod_uid=None, stage="admission", reason="refused",
                   message="", **SAID),
    ErrorsLogged(severity="E", source="a.go", shape="It failed", namespace="prod", pod="db-0",
                 pid=8337, **SAID),
    ReclaimAttempted(resource="memory",
                     ranked=(RankedPod(namespace="prod", pod="ranked-0", pod_uid="u-r"),)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "target", "says"),
    [
        (UID, f"pod/{UID}", f"pod {UID} was OOM-killed"),
        (f"pod/{UID}", f"pod/{UID}", "OOM-killed"),
        (ID[:12], f"pod/{UID}", "OOM-killed"),
        ("java", f"pod/{UID}", "OOM-killed"),
        ("4711", f"pod/{UID}", "OOM-killed"),
        ("container/java", f"pod/{UID}", "OOM-killed"),
        ("perl", f"pod/{UID}", "process perl"),
        ("5e" * 32, f"pod/{UID}", "process perl"),
        ("rsyslogd", "node/node-t", "the kernel killed a process (rsyslogd, process 4713)"),
        ("8337", "node/node-t", "node node-t"),
        ("train", "pod/u-gone", "devices given back"),
        ("db-claim", "pod/prod/db-0", "its volume data logs cannot be mounted"),
        ("gpu-claim", "pod/prod/db-0", "db-0 has not started"),
        ("logs", "pod/prod/db-0", "db-0 has not started"),
        ("registry.example/sql:9", "pod/prod/db-0", "db-0 has not started"),
        # A pod whose namespace nobody says is the one of its name, and is called by it.
        ("alone", "pod/u-alone", "pod alone has not started"),
        ("prod/alone", "pod/u-alone", "pod alone has not started"),
        ("pod/prod/alone", "pod/u-alone", "its volume nfs cannot be mounted (exit status 32)"),
        ("bare", "pod/bare", "pod bare has not started since"),
        ("ranked-0", "pod/prod/ranked-0", "memory is to be reclaimed"),
        ("u-r", "pod/prod/ranked-0", "memory is to be reclaimed"),
    ],
)
def test_what_belongs_to_pods_is_known(typed: str, target: str, says: str) -> None:
    """Processes, containers of pods without a name, claims, volumes, images, places in rankings."""
    known = history_of_reader("node-t", "", reader(scene(*enumerate(BELONGINGS))))
    assert str(find_target(typed, [known])) == target
    (found,) = answers_to(typed, [known])
    assert says in found.headline


_NAMES = frozenset(
    (
        "pod", "pod_uid", "container", "container_id", "previous_container_id", "victim_pod",
        "preemptor_pod", "pid", "process", "invoked_by", "cgroup", "about", "claimName",
    )
)  # fmt: skip


def _names_in(value: Any, key: str = "") -> Iterator[str]:  # noqa: ANN401 # decoded JSON
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _names_in(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _names_in(each, key)
    elif key in _NAMES and value not in (None, ""):
        yield str(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["node-a", "node-b", "node-e-oom"])
def test_every_name_that_a_record_holds_is_known(name: str) -> None:
    """It has a target, or several to choose from; every fifth is asked about, and answers."""
    known = history_of_reader(recorded(name)[0].node, name, reader(recorded(name)))
    bodies = (msgspec.to_builtins(record.body) for record in recorded(name))
    names = sorted({each for body in bodies for each in _names_in(body)})
    found, unknown = 0, list[str]()
    for number, each in enumerate(names):
        try:
            targets = [find_target(each, [known])]
        except BadQuestionError as error:
            unknown += [] if "may mean" in str(error) else [each]
            continue
        found += 1
        if number % 5 == 0 and targets[0].kind != "node":
            assert explain(known, targets[0]) is not None, each
    assert unknown == []
    assert found > len(names) // 2


def test_a_name_that_was_used_again() -> None:
    """The last pod answers; an earlier one by its UID; none answers for another."""
    who: dict[str, Any] = {"namespace": "default", "pod": "web"}
    first, second, third = (who | {"pod_uid": f"00000000-{n}"} for n in (1, 2, 3))
    refused = {"reason": "OutOfmemory", "message": "no room"}
    started = ContainerStarted(**third, container="app", container_id="c3", sandbox=False)
    records = scene(
        (0, PodAdmitted(**first)),
        (1, PodRejected(**second, **refused)),
        (2, PodAdmitted(**third)),
        (3, started),
    )
    known = history_of_reader("node-t", "", reader(records))
    last = explain(known, find_target("web", [known]))
    assert isinstance(last, Explanation)
    assert last.finding.seq == 3
    assert last.pod_uid == "00000000-3"
    assert [each.pod_uid for each in last.namesakes] == ["00000000-1", "00000000-2"]
    assert {step.seq for step in last.history} == {3}
    assert {step.seq for step in last.steps} == {3, 4}
    earlier = explain(known, find_target("00000000-2", [known]))
    assert isinstance(earlier, Explanation)
    assert earlier.finding.seq == 2
    assert "was refused (OutOfmemory)" in earlier.headline
    then = explain(known, find_target("web", [known]), upto_ts_ns=records[1].ts_ns)
    assert then is not None
    assert then.pod_uid == "00000000-2"
