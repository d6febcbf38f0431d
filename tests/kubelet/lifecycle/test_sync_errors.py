"""What errors of pods say of stages: the kubelet's words, 1.7 to 1.36."""

import pytest

from kubeledger.kubelet.lifecycle.stages import (
    PodFailure,
    StageFailure,
    failure_of_event,
    failure_of_start,
    failure_of_volume,
    failure_of_waiting,
    failures_of_sync,
    shape_of,
)

UID = "4be6a1a0-3f7c-4a53-9b35-2f0d8c1e7a60"
WEB = f"web_shop({UID})"


def started(reason: str, message: str, container: str = "c") -> str:
    """A sync result of a container's start."""
    return f'failed to "StartContainer" for "{container}" with {reason}: "{message}"'


SINGLE = {
    started("CreateContainerConfigError", r"secret \"db-key\" not found"): (
        "create CreateContainerConfigError db-key c",
        'secret "db-key" not found',
    ),
    started("CreateContainerConfigError", "couldn't find key url in ConfigMap shop/conf"): (
        "create CreateContainerConfigError shop/conf c",
        "couldn't find key url in ConfigMap shop/conf",
    ),
    started("ErrImagePull", r"failed to pull image \"r.example/web:2\": not found"): (
        "image ErrImagePull r.example/web:2 c",
        'failed to pull image "r.example/web:2": not found',
    ),
    'error processing PVC shop/data: persistentvolumeclaim "data" not found, unmounted volumes=': (
        "volumes FailedMount data None",
        'error processing PVC shop/data: persistentvolumeclaim "data" not found, unmounted '
        "volumes=",
    ),
    started("ErrImagePull", "pull QPS exceeded"): ("image ErrImagePull None c",
                                                   "pull QPS exceeded"),
    started("SignatureValidationFailed", r"image pull failed for x:1\nbecause of \\ it"): (
        "image SignatureValidationFailed None c",
        "image pull failed for x:1\nbecause of \\ it",
    ),
    started("RunContainerError", "no such file"): ("start RunContainerError None c",
                                                   "no such file"),
    started("SomeNewError", "odd"): ("start SomeNewError None c", "odd"),
    started("RunContainerError", "network failed", "POD"): ("sandbox RunContainerError None None",
                                                            "network failed"),
    started(
        "PostStartHookError: command 'false' exited with 1: ",
        rf"Exec lifecycle hook ([false]) for Container \"c\" in Pod \"{WEB}\" failed - error: "
        r"command 'false' exited with 1: , message: \"\"",
    ): ("hook PostStartHookError None c", "command 'false' exited with 1:"),
    f'failed to "CreatePodSandbox" for "{WEB}" with CreatePodSandboxError: "Failed to create '
    rf'sandbox for pod \"{WEB}\": rpc error: no \"cni0\""': (
        "sandbox CreatePodSandboxError None None",
        'rpc error: no "cni0"',
    ),
    f'failed to "CreatePodSandbox" for "{WEB}" with CreatePodSandboxError: "CreatePodSandbox for '
    rf'pod \"{WEB}\" failed: rpc error"': ("sandbox CreatePodSandboxError None None", "rpc error"),
    'failed to "KillContainer" for "c" with KillContainerError: "gone"': ("stop KillContainerError "
                                                                          "c None", "gone"),
    "network is not ready: container runtime network not ready: NetworkReady=false": (
        "network NetworkNotReady None None",
        "container runtime network not ready: NetworkReady=false",
    ),
    f"failed to ensure that the pod: {UID} cgroups exist and are correctly applied: no space": (
        "cgroup FailedCreatePodContainer None None",
        "no space",
    ),
    "unmounted volumes=[tmp data], unattached volumes=[data], failed to process volumes=[]: timed "
    "out": (
        "volumes FailedMount data tmp None",
        "unmounted volumes=[tmp data], unattached volumes=[data], failed to process volumes=[]: "
        "timed out",
    ),
    "timeout expired waiting for volumes to attach or mount for pod. list of unmounted "
    "volumes=[data]. list of unattached volumes=[data]": (
        "volumes FailedMount data None",
        "timeout expired waiting for volumes to attach or mount for pod. list of unmounted "
        "volumes=[data]. list of unattached volumes=[data]",
    ),
    "mounted volumes=[kubernetes.io/csi/x]: timed out": ("teardown FailedUnmount None None",
                                                         "mounted volumes=[kubernetes.io/csi/x]: "
                                                         "timed out"),
    "prepare dynamic resources: NodePrepareResources failed for ResourceClaim gpu-1: no driver": (
        "resources FailedPrepareDynamicResources gpu-1 None",
        "NodePrepareResources failed for ResourceClaim gpu-1: no driver",
    ),
    "error killing pod: the runtime is gone": ("stop FailedKillPod None None",
                                               "the runtime is gone"),
    f"failed to delete cgroup paths for [kubepods pod{UID}] : busy": (
        "teardown FailedRemoveCgroup None None",
        f"failed to delete cgroup paths for [kubepods pod{UID}] : busy",
    ),
    "rpc error: code = 4 desc = context deadline exceeded": ("config FailedSync None None",
                                                             "rpc error: code = 4 desc = context "
                                                             "deadline exceeded"),
}  # fmt: skip


@pytest.mark.parametrize("error", SINGLE)
def test_a_failure(error: str) -> None:
    """Its stage, reason, what it is about, and its container; names are not said again."""
    (found,) = failures_of_sync(error)
    shown = f"{found.stage} {found.reason} {found.about} {found.container}"
    assert (shown, found.message) == SINGLE[error]
    assert not found.is_waiting


def test_each_container_has_its_own() -> None:
    """An aggregated error, with a resize in place, which is no stage."""
    pulled = started("ImagePullBackOff", r"Back-off pulling image \"web:1\"", "a")
    crashed = started("CrashLoopBackOff", f"back-off 5m0s restarting failed container=b pod={WEB}")
    resized = f'failed to "ResizePodInPlace" for "{WEB}" with ResizePodInPlaceError: "too much"'
    found = failures_of_sync(f"[{pulled}, {crashed}, {resized}]")
    assert [(each.stage, each.about, each.container, each.is_waiting) for each in found] == [
        ("image", "web:1", "a", True),
        ("run", None, "c", True),
    ]
    assert failures_of_sync("") == ()


def test_what_changes_from_try_to_try_is_no_new_failure() -> None:
    """IDs, addresses, durations, the order of volumes; a new cause is one."""

    def shape(message: str, reason: str = "CreatePodSandboxError") -> object:
        return shape_of(StageFailure("sandbox", reason, message))

    assert shape('sandbox "0ab12f" of 10.0.0.1:53 after 1.5s') == shape(
        'sandbox "77f0c1" of 10.2.0.9:53 after 12s'
    )
    assert shape("no network") != shape("no image")
    assert shape("no network") != shape("no network", "ConfigPodSandboxError")
    lists = "unattached volumes=[a b]", "unattached volumes=[b a]"
    (one,), (other,) = (failures_of_sync(f"unmounted volumes=[a], {x}: late") for x in lists)
    assert shape_of(one) == shape_of(other)


MOUNT = (
    rf"MountVolume.SetUp failed for volume {{0}}key{{0}} (UniqueName: {{0}}kubernetes.io/secret/"
    rf"{UID}-key{{0}}) pod {{0}}web{{0}} (UID: {{0}}{UID}{{0}}) : secret {{0}}key{{0}} not found"
)
RETRY = (
    f'Operation for "{{volumeName:kubernetes.io/secret/{UID} podName:{UID} nodeName:}}" failed. '
    "No retries permitted until 2026-03-03 10:00:00.5 +0000 UTC m=+16.2 (durationBeforeRetry 4s). "
)


@pytest.mark.parametrize(
    "error",
    [
        RETRY + "Error: " + MOUNT.format('"'),
        RETRY + 'Error: "' + MOUNT.format(r"\"") + '"',
        MOUNT.format('"'),
    ],
)
def test_a_volume_that_is_not_mounted(error: str) -> None:
    """As it is, quoted (1.19 to 1.21), or alone; its message is that of the event."""
    message = 'MountVolume.SetUp failed for volume "key" : secret "key" not found'
    expected = StageFailure("volumes", "FailedMount", message, "key")
    assert failure_of_volume(error) == PodFailure("web", UID, expected)
    event = failure_of_event("FailedMount", message)
    assert event is not None
    assert shape_of(event) == shape_of(expected)


def test_volumes_that_are_not_unmounted() -> None:
    """Of a pod that the kubelet knows by its UID only; of a device, which is the node's."""
    old = (
        rf'Operation for "\"kubernetes.io/secret/x\" (\"{UID}\")" failed. No retries permitted '
        "until 2017-09-26 19:59:41.9 +0800 CST (durationBeforeRetry 2s). Error: "
        "UnmountVolume.TearDown "
        f'failed for volume "x" (UniqueName: "k/secret/x") pod "{UID}" (UID: "{UID}") : '
        "device or resource busy"
    )
    found = failure_of_volume(old)
    assert found is not None
    assert (found.pod, found.uid) == (None, UID)
    assert found.failure[:4] == (
        "teardown",
        "UnmountVolume.TearDown",
        'UnmountVolume.TearDown failed for volume "x" : device or resource busy',
        "x",
    )
    device = 'UnmountDevice failed for volume "pv-1" (UniqueName: "x") on node "n" : busy'
    assert failure_of_volume(RETRY + "Error: " + device) is None


@pytest.mark.parametrize("kind", ["container", "init container", "ephemeral container"])
@pytest.mark.parametrize("what", ["&Container{Name:c,Image:web:1,Args:[start failed in pod]}", "c"])
def test_a_start_that_failed(kind: str, what: str) -> None:
    """The error with the container's whole spec (to 1.33), and with its name alone."""
    found = failure_of_start(f"{kind} {what} start failed in pod {WEB}: ErrImagePull: not found")
    assert found == PodFailure(
        WEB, None, StageFailure("image", "ErrImagePull", "not found", container="c")
    )
    assert failure_of_start("failed to remove pod init container") is None


EVENTS = {
    ("BackOff", 'Back-off pulling image "web:1"'): "image ImagePullBackOff web:1",
    ("BackOff", "Back-off restarting failed container c"): "run CrashLoopBackOff None",
    (
        "ErrImageNeverPull",
        'Container image "web:1" is not present',
    ): "image ErrImageNeverPull web:1",
    ("Failed", 'Failed to pull image "web:1": not found'): "image ErrImagePull web:1",
    ("Failed", "Error: ErrImagePull"): "image ErrImagePull None",
    ("FailedMount", 'MountVolume.SetUp failed for volume "data" : secret "key" not found'): (
        "volumes FailedMount data"
    ),
    ("Failed", "Error: ImagePullBackOff"): "image ImagePullBackOff None",
    ("Failed", 'Error: configmap "conf" not found'): "create CreateContainerConfigError conf",
    ("Failed", "Error: container has runAsNonRoot and image will run as root"): (
        "create CreateContainerConfigError None"
    ),
    ("Failed", "Error: failed to reserve container name"): "create CreateContainerError None",
    ("Failed", "Error: failed to create containerd task: no such file"): (
        "start RunContainerError None"
    ),
    ("Failed", "error making pod data directories: no space left"): (
        "volumes FailedToMakePodDataDirectories None"
    ),
    ("Failed", "something else"): None,
    ("FailedSync", "error determining status: rpc error"): "config FailedSync None",
    ("FailedSync", "Error syncing pod"): None,
    ("InspectFailed", 'Failed to apply default image tag "Web": bad'): "image InvalidImageName Web",
    ("InspectFailed", 'Failed to inspect image "web:1": gone'): "image ImageInspectError web:1",
    ("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pv" : x'): (
        "volumes FailedAttachVolume pv"
    ),
    ("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: ResourceClaim g: x"): (
        "resources FailedPrepareDynamicResources g"
    ),
    ("Pulled", "Container image already present"): None,
}


@pytest.mark.parametrize("event", EVENTS)
def test_events(event: tuple[str, str]) -> None:
    """Reasons of ``events/event.go``: their stage, what a status calls them, and about what."""
    found = failure_of_event(*event, "c")
    shown = None if found is None else f"{found.stage} {found.reason} {found.about}"
    assert shown == EVENTS[event]


def test_containers_that_only_have_not_begun() -> None:
    """``ContainerCreating`` is no failure; a back-off waits."""
    assert failure_of_waiting("ContainerCreating", "", "c") is None
    found = failure_of_waiting("ImagePullBackOff", 'Back-off pulling image "web:1"', "c")
    assert found is not None
    assert (found.is_waiting, found.about) == (True, "web:1")
