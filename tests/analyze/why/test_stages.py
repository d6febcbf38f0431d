"""What holds a pod up on its way: each stage in words, the headline, and its cause uncut."""

from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import Answer, explain, parse_target
from kubeledger.analyze.why.pieces import HEADLINE_MAX
from kubeledger.analyze.wording import cause_in
from kubeledger.cli.why import short_text
from kubeledger.kubelet.lifecycle.stages import STAGES
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodRejected,
    PodResized,
    PodStarted,
    PodTerminating,
)
from kubeledger.model.bodies.node import ErrorsLogged, PodStageFailed
from kubeledger.model.record import Body
from tests.verify.histories import reader, scene

POD: dict[str, Any] = {"namespace": "default", "pod": "web", "pod_uid": "u-web"}
APP = POD | {"container": "app"}
START_S = 1_000


def failed(stage: Any, reason: str, message: str, at_s: float = 1, **fields: Any) -> PodStageFailed:  # noqa: ANN401
    own = ("image", "create", "start", "hook", "run", "ready")
    who = POD | ({"container": "app"} if stage in own else {})
    ts_ns = round((START_S + at_s) * 1e9)
    times = {"first_ts_ns": ts_ns, "last_ts_ns": ts_ns}
    return PodStageFailed(**who | times | fields, stage=stage, reason=reason, message=message)


def started(container_id: str = "c1") -> ContainerStarted:
    return ContainerStarted(**APP, container_id=container_id)


def answer(*bodies: Body | tuple[float, Body], target: str = "pod/default/web") -> Answer:
    """The answer, of records a second apart, or at the times that they are given with."""
    steps = [each if isinstance(each, tuple) else (float(n), each) for n, each in enumerate(bodies)]
    history = history_of_reader("node-t", "", reader(scene(*steps, start_s=START_S)))
    found = explain(history, parse_target(target))
    assert found is not None
    assert len(found.headline) <= HEADLINE_MAX
    assert all(step.seq in {piece.seq for piece in found.evidence} for step in found.steps)
    return found


IMAGE = "registry.example/team/web:1.4"
OPEN = (
    ("admission", "CannotRun", "", "web has not started since {t}: its admission is refused."),
    ("config", "Waits", "an earlier pod has not ended", "its turn has not come (an earlier pod"),
    ("config", "FailedSync", "rpc error", "has not been synchronized since {t}: its state in the"),
    ("config", "FailedSync", "no such thing", "has not been synchronized since {t}: its synchron"),
    ("network", "NetworkNotReady", "cni plugin not initialized", "the node's network is not ready"),
    ("cgroup", "FailedCreatePodContainer", "no such file", "its cgroup cannot be made (no such"),
    ("volumes", "FailedMount", "exit status 32", "its volume data cannot be mounted (exit"),
    ("volumes", "FailedAttachVolume", "in use", "its volume data cannot be attached (in use"),
    ("resources", "FailedPrepareDynamicResources", "gone", "its resource claim data cannot be pre"),
    ("sandbox", "CreatePodSandboxError", "no network", "its sandbox cannot be made (no network"),
    ("image", "ErrImagePull", "not found", "its image data cannot be pulled (not found"),
    ("image", "InvalidImageName", "bad", "its image data has no valid name (bad"),
    ("create", "CreateContainerConfigError", 'secret "s" not found', "its configuration is not "),
    ("create", "CreateContainerError", "exists", "its creation fails (exists"),
    ("start", "RunContainerError", "no such executable", "its start fails (no such executable"),
    ("hook", "PostStartHookError", "exit 1", "app has not stayed up since {t}: its post-start ho"),
    ("run", "CrashLoopBackOff", "back-off 5m0s", "waiting for its next start since {t}: back-off"),
    ("ready", "readiness probe failed", "HTTP 503", "app has not been ready since {t}: HTTP 503"),
    ("stop", "FailedKillPod", "deadline", "web has not ended since {t}: deadline"),
    ("teardown", "OrphanedPod", "volumes", "web has not been cleaned up since {t}: volumes"),
)  # fmt: skip


@pytest.mark.parametrize(("stage", "reason", "message", "says"), OPEN)
def test_a_stage_that_goes_on(stage: str, reason: str, message: str, says: str) -> None:
    """Who, since when, what is waited for, and why."""
    found = answer(PodAdmitted(**POD), failed(stage, reason, message, about="data"))
    assert says.format(t="1970-01-01T00:16:41Z") in found.headline


def test_every_stage_has_a_row() -> None:
    assert {stage for stage, *_ in OPEN} == set(STAGES)


def test_a_pull_that_is_tried_again() -> None:
    """How often, and when next; of a long image name what tells images apart."""
    pull = failed("image", "ErrImagePull", "not found", about=IMAGE, count=14)
    waits = failed("image", "ImagePullBackOff", "", 2, about=IMAGE, is_waiting=True)
    found = answer(PodAdmitted(**POD), pull, waits)
    assert found.headline == (
        "container default/web/app has not started since 1970-01-01T00:16:41Z: its image "
        f"{IMAGE} cannot be pulled (not found), tried 14 times, next try within 5m0s."
    )


def test_a_pod_of_which_only_errors_are_known() -> None:
    found = answer(failed("sandbox", "CreatePodSandboxError", "no network"))
    assert found.headline.startswith("pod default/web has not started since ")


def test_a_pod_that_is_not_heard_of_any_more() -> None:
    """A kubelet that logs little says what fails, and no start: the pod may have started since."""
    pull = failed("image", "ErrImagePull", "not found", 2, about=IMAGE, count=3)
    others = POD | {"pod": "other", "pod_uid": "u-other"}
    last = (303.0, PodAdmitted(**others))
    found = answer((0, PodAdmitted(**POD)), (2, pull), last)
    assert found.headline == (
        "container default/web/app had not started at 1970-01-01T00:16:42Z, when last heard of: "
        f"its image {IMAGE} could not be pulled (not found), tried 3 times."
    )
    at_once = answer((0, PodAdmitted(**POD)), (2, pull), (302.0, PodAdmitted(**others)))
    assert "app has not started since" in at_once.headline


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        ([started(), failed("volumes", "FailedMount", "x", about="d")], "not been synchronized"),
        ([failed("image", "ErrImagePull", "x"), started()], "waited 1s for its image"),
        ([failed("image", "ErrImagePull", "x"),
          PodTerminating(**POD, reason="deleted", grace_period_s=30)],
         "app did not start before it was stopped"),
        ([PodResized(**POD, outcome="allocated"),
          PodResized(**POD, outcome="deferred", reason="OutOfcpu")],
         "had its resize in place deferred (OutOfcpu)"),
    ],
)  # fmt: skip
def test_how_a_stage_or_a_resize_ends(bodies: list[Body], says: str) -> None:
    """Nobody who runs has not started, and nobody who was resized was refused."""
    found = answer(PodAdmitted(**POD), *bodies)
    assert says in " ".join([found.headline, *(step.text for step in found.steps)])
    assert "refused" not in found.headline


def test_what_ended_the_pod_stays_the_headline() -> None:
    evicted = PodEvicted(**POD, resource="memory", message="low on memory", evicted=True)
    found = answer(PodAdmitted(**POD), failed("image", "ErrImagePull", "not found"), evicted)
    assert found.headline.startswith("pod default/web was evicted")


@pytest.mark.parametrize(("reason", "is_told"), [("DNSConfigForming", False), ("Odd", True)])
def test_an_event_that_is_harmless_is_no_headline(reason: str, is_told: bool) -> None:
    warned = KubernetesEvent(
        **APP, object_kind="Pod", type="Warning", reason=reason,
        message="Nameserver limits were exceeded, some nameservers have been omitted",
    )  # fmt: skip
    found = answer(PodAdmitted(**POD), started(), warned)
    assert ("Nameserver" in found.headline) == is_told


def test_a_pod_without_trouble_is_said_to_be_one() -> None:
    """Since when it runs, how long that took, and that nothing else is recorded."""
    begun = START_S * 10**9
    measured = PodStarted(**POD, created_ts_ns=begun - 5 * 10**9, pulling_ns=3 * 10**9)
    for found in (answer(measured), answer(PodAdmitted(**POD), measured)):
        assert found.headline.startswith(
            "all containers of pod default/web have been running since 1970-01-01"
        )
        assert "after it was created, 3s of it for images" in found.headline
        assert "nothing that went wrong with it is recorded: no kill, evic" in found.headline
    ran = answer(PodAdmitted(**POD), started()).headline
    assert "pod default/web has been running since" in ran
    added = PodConfigChanged(**POD, operation="ADD", source="file")
    static = answer(added, PodAdmitted(**POD), measured).headline
    assert static.startswith("all containers of pod default/web run, first seen at 1970-01-01")
    assert "after it was created" not in static  # that was its mirror in the API
    assert "nothing that went wrong with it is recorded" in ran
    logged = ErrorsLogged(
        **POD, severity="E", source="x.go", shape="it broke", recorded=False,
        pid=None, first_ts_ns=begun, last_ts_ns=begun,
    )  # fmt: skip
    named = answer(PodAdmitted(**POD), started(), logged).headline
    assert "it is named in an error: it broke" in named
    assert "nothing that went wrong" not in named


def test_containers_that_no_record_names_have_started_too() -> None:
    unnamed = [ContainerStarted(**POD, container=None, container_id=each) for each in ("1", "2")]
    both = answer(PodAdmitted(**POD), *unnamed).headline
    assert "2 containers, its sandbox among them, started by 00:16:42Z" in both
    one = answer(PodAdmitted(**POD), unnamed[0]).headline
    assert "no start of a container is recorded" in one
    alone = answer(unnamed[0]).headline
    assert alone == (
        "pod default/web: its sandbox or a container of it started at 1970-01-01T00:16:40Z; "
        "no record says which."
    )


def test_the_deletion_leads_and_not_its_after_effect() -> None:
    """A pod that was deleted is stopped once more when no source knows it."""
    stops = [
        PodTerminating(**POD, reason=reason, grace_period_s=1) for reason in ("deleted", "orphaned")
    ]
    kills = [
        ContainerKilled(**APP, container_id="c1", reason=reason, message=None, grace_period_s=None)
        for reason in ("pod_deleted", "orphaned")
    ]
    found = answer(PodAdmitted(**POD), started(), stops[0], kills[0], stops[1], kills[1])
    assert (
        "it was deleted, with a 1 s grace period; nothing that went wrong with it is recorded."
        in found.headline
    )
    assert "was killed as its pod was deleted" in found.sentence
    assert "no source knows it" in answer(PodAdmitted(**POD), started(), stops[1]).headline


@pytest.mark.parametrize(
    ("message", "about", "cause"),
    [
        ("rpc error: code = NotFound desc = failed to pull and unpack image "
         '"reg/web:1": failed to resolve reference "reg/web:1": reg/web:1: not found', "reg/web:1",
         "not found"),
        ('MountVolume.SetUp failed for volume "data" : secret "tls" not found', "data",
         'secret "tls" not found'),
        ("failed to create containerd task: failed to create shim task: exec: "
         '"run": executable file not found in $PATH: unknown', None,
         'exec: "run": executable file not found in $PATH'),
        ('MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32\nMounting '
         "command: mount\nMounting arguments: -t nfs 10.0.0.5:/x /var/lib/x\nOutput: mount.nfs: "
         "access denied by server while mounting 10.0.0.5:/x\n", "nfs",
         "mount.nfs: access denied by server while mounting 10.0.0.5:/x"),
        ("rpc error: code = Internal desc = volume(a#b) mount //x.example/y on /lib/z failed with "
         "mount failed: exit status 32", None, "mount failed: exit status 32"),
        ("back-off 5m0s restarting failed container=app pod=web_prod(u-1)", None,
         "back-off 5m0s after it failed"),
        ("Back-off restarting failed container app in pod web_prod(u-1)", None,
         "back-off after it failed"),
        ("pull access denied for web, repository does not exist or may require 'docker login': "
         "denied: requested access to the resource is denied", "web",
         "pull access denied, repository does not exist or may require 'docker login'"),
        ('failed to pull and unpack image "x/web:1": failed to resolve reference "x/web:1": '
         "pull access denied, repository does not exist or may require authorization: server "
         "message: insufficient_scope: authorization failed", "x/web:1",
         "pull access denied, repository does not exist or may require authorization"),
        ("failed to create it", None, "failed to create it"),
        ("", None, ""),
    ],
)  # fmt: skip
def test_the_cause_stands_at_the_end(message: str, about: str | None, cause: str) -> None:
    """Without the layers that only wrap it, or name what is named already."""
    assert cause_in(message, about) == cause


def test_a_long_chain_is_cut_in_the_middle() -> None:
    """In the headline and in the default form; both end with the cause."""
    layers = [f"step {n} of the plugin could not go on" for n in range(9)]
    message = ": ".join([*layers, "no space left on device"])
    found = answer(PodAdmitted(**POD), failed("sandbox", "CreatePodSandboxError", message))
    assert "no space left on device" in found.headline
    body = " ".join(line.strip() for line in short_text(found, 80, 23))
    assert body.count("no space left on device") == 2


def test_errors_that_name_the_pod() -> None:
    """What no other record tells is a step; what another tells is not, nor what is harmless."""
    times: dict[str, Any] = {
        "first_ts_ns": 10**12,
        "last_ts_ns": 10**12,
        "severity": "E",
        "source": "a.go",
    }
    errors = [ErrorsLogged(**POD, **times, shape=s, recorded=s == "b") for s in ("a", "b")]
    stale = msgspec.structs.replace(
        errors[0], source="cpu_manager.go", shape="RemoveStaleState: removing container"
    )
    found = answer(PodAdmitted(**POD), *errors, stale)
    assert [step.text for step in found.steps if "named" in step.text] == [
        "pod is named in an error: a"
    ]


@pytest.mark.parametrize("decided", [(), (PodAdmitted(**POD),)], ids=["undecided", "admitted"])
def test_errors_are_as_late_and_as_often_as_their_lines(decided: tuple[Body, ...]) -> None:
    """A record that counts the later ones stands where the log ends, long after the last."""
    who: dict[str, Any] = {**POD, "severity": "E", "source": "a.go", "shape": "no luck"}
    first_ns, second_ns, last_ns = (round((START_S + at_s) * 1e9) for at_s in (1, 2, 3))
    first = ErrorsLogged(**who, first_ts_ns=first_ns, last_ts_ns=first_ns)
    later = ErrorsLogged(**who, count=2, first_ts_ns=second_ns, last_ts_ns=last_ns)
    found = answer(*((0, each) for each in decided), (1, first), (60, later))
    step = found.steps[-1]
    assert (step.ts_ns, step.last_ts_ns, step.count) == (first_ns, last_ns, 3)
    assert "×" not in step.text
    assert "00:17:40Z" not in found.headline


def test_what_a_refused_pod_lacks_is_no_reason() -> None:
    """The kubelet has given it up; what held it up before that was so."""
    refused = PodRejected(**POD, reason="TaintToleration", message="Predicate failed")
    removed = PodTerminating(**POD, reason="removed", grace_period_s=None)
    mount = failed("volumes", "FailedMount", "object not registered", at_s=9, count=8)
    found = answer((5, refused), (9, mount), (20, removed))
    assert found.headline == (
        "pod default/web was refused (TaintToleration) at 1970-01-01T00:16:45Z: Predicate failed."
    )
    assert not any("did not start" in step.text for step in found.steps)
    image = failed("image", "ErrImagePull", "not found", at_s=1, count=8)
    before = answer((1, image), (5, refused), (20, removed))
    assert any("its image" in step.text for step in before.steps)
