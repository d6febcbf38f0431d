"""Stages that pods do not get past, from lines of several subsystems, and what ends them."""

from tests.ingest.scenes import A, played_out

_SYNC = 'pod_workers.go "Error syncing pod, skipping" err="{*}" pod="shop/a" podUID="{a}"'
_START = r"failed to \"StartContainer\" for \"c\" with"
_BOX = r"failed to \"CreatePodSandbox\" for \"{A}\" with CreatePodSandboxError: \"Failed to create"
_SUBPATH = 'failed to prepare subPath for volumeMount "work" of container "c"'
_MOUNT = 'pod \\"a\\" (UID: \\"{a}\\") : secret not found"'
WORDS = {
    "sync": _SYNC,
    "start": _SYNC.replace("{*}", rf"{_START} {{1}}: \"{{*}}\""),
    "run": "kuberuntime_manager.go container &Container{Name:c,Image:x,} start failed in pod "
    f"a_shop({A}): {{1}}: {{*}}",
    "handled": 'kuberuntime_manager.go "Unhandled Error" err="container c start failed in pod '
    f'a_shop({A}): {{1}}: {{*}}"',
    "box": 'kuberuntime_sandbox.go "Failed to create sandbox for pod" err="{*}" pod="shop/a"',
    "made": 'kuberuntime_manager.go "CreatePodSandbox for pod failed" err="{*}" pod="shop/a"',
    "boxed": _SYNC.replace("{*}", rf"{_BOX} sandbox for pod \\\"{{A}}\\\": {{*}}\""),
    "mount": 'nestedpendingoperations.go Operation for "x" failed. No retries permitted until '
    '2026-11-21 10:00:01 +0000 UTC m=+1 (durationBeforeRetry {1}). Error: "MountVolume.SetUp '
    r"failed for volume \"{2}\" (UniqueName: \"u\") " + _MOUNT,
    "hook": 'kuberuntime_container.go "Failed to execute PostStartHook" err="exited with {*}" '
    'pod="shop/a" podUID="{a}" containerName="c"',
    "uncreated": 'remote_runtime.go "CreateContainer in sandbox from runtime service failed" '
    'err="{*}" podSandboxID="{1}"',
    "orphan": 'kubelet_volumes.go orphaned pod "{a}" found, but volume paths are still present on '
    "disk : There were a total of {1} errors similar to this. Turn up verbosity to see them.",
    "cgroup": 'pod_container_manager_linux.go "Failed to delete cgroup paths" '
    'cgroupName=["kubepods","pod{a}"] err="{*}"',
    "boxid": 'kuberuntime_manager.go "Created PodSandbox for pod" podSandboxID="{id}" pod="shop/a"',
    "subpath": 'kubelet_pods.go "Failed to prepare subPath for volumeMount of the container" '
    'err="{*}" containerName="c" volumeMountName="{1}"',
    "unmade": _SYNC.replace(
        "{*}",
        rf"{_START} CreateContainerConfigError: \"failed to prepare subPath for volumeMount "
        r"\\\"{1}\\\" of container \\\"c\\\"\"",
    ),
    "SECRET": r"secret \\\"key\\\" not found",
}

SCENES = r"""
why a subPath is missing stands in a line before
    0 subpath work lstat /x: too long | .1 unmade work
    = PodStageFailed stage=create about=work message=<SUBPATH>: lstat /x: too long
that line is of this try and of this volume alone
    0 subpath other lstat /x: no | 1 subpath work lstat /x: no
    5 unmade work
    = PodStageFailed stage=create about=work message=<SUBPATH>
a secret that is missing
    0 start CreateContainerConfigError secret \\\"key\\\" not found
    = PodStageFailed pod=a container=c stage=create reason=CreateContainerConfigError about=key @0
three lines of one failure are one record with three lines of evidence
    0 box no network 4711 | .1 made no network 4711 | .2 boxed no network 4711
    5 box no network 4712 | 5.1 made no network 4712 | 5.2 boxed no network 4712
    = PodStageFailed pod_uid=None stage=sandbox message=no network 4711 count=1 @0 lines=1,2,3
    = PodStageFailed stage=sandbox count=1 @5.2 lines=6
the runtime manager's line and the worker's, as old kubelets write them
    0 run ErrImageNeverPull no image "x:1"
    .1 start ErrImageNeverPull no image \\\"x:1\\\"
    = PodStageFailed pod_uid=a container=c stage=image about=x:1 count=1 lines=1,2
and as newer ones do
    0 handled ErrImageNeverPull none | .1 start ErrImageNeverPull none
    = PodStageFailed pod_uid=a container=c stage=image count=1 lines=1,2
another cause is another record, and what was said before is told
    0 boxed no network | 3 boxed no network | 6 boxed no disk
    = PodStageFailed message=no network count=1 @0
    = PodStageFailed message=no network count=1 @6
    = PodStageFailed message=no disk count=1 @6
a back-off is said by itself, and a restart's back-off not at all
    0 start ErrImagePull no | 9 start ImagePullBackOff Back-off pulling image \\\"x\\\"
    20 start CrashLoopBackOff back-off 10s restarting failed container=c pod={A}
    = PodStageFailed reason=ErrImagePull is_waiting=False
    = PodStageFailed reason=ImagePullBackOff is_waiting=True
    = RestartBackedOff back_off_s=10
the runtime's own error, of a container whose name dockerd says, or of a sandbox that is known
    0 uncreated {id} The container name \"/k8s_d_b_shop_0a1b_1\" is in use
    = PodStageFailed namespace=shop pod=b container=d stage=create reason=CreateContainerError
what goes on is told every ten minutes
    0 start ErrImageNeverPull no | 300 start ErrImageNeverPull no | 590 start ErrImageNeverPull no
    601 start ErrImageNeverPull no
    = PodStageFailed count=1 @0
    = PodStageFailed count=2 @601
    = PodStageFailed count=1 @601
what is not said for ten minutes begins anew
    0 start ErrImageNeverPull no | 700 start ErrImageNeverPull no
    = PodStageFailed count=1 @0
    = PodStageFailed count=1 @700
a success ends what was said
    0 boxed no | 5 boxed no | 6 boxid 0 | 9 boxed no
    = PodStageFailed count=1 @0
    = PodStageFailed count=1 @6
    = PodStageFailed count=1 @9
so does a start of the container, and no other's
    0 start RunContainerError no | 1 event a Started Started container d
    2 start RunContainerError no | 3 event a Started Started container c
    4 start RunContainerError no
    = PodStageFailed count=1 @0
    = PodStageFailed count=1 @3
    = PodStageFailed count=1 @4
so does a later stage, but not an end that fails
    0 boxed no | 1 sync failed to \"KillPodSandbox\" for \"{a}\" with KillPodSandboxError: \"no\"
    2 boxed no | 3 start RunContainerError no
    = PodStageFailed stage=sandbox count=1 @0
    = PodStageFailed stage=stop count=1 @1
    = PodStageFailed stage=sandbox count=1 @3
    = PodStageFailed stage=start count=1 @3
so does another process of the kubelet
    0 boxed no | 1 boxed no | 2 loop | 3 boxed no
    = PodStageFailed count=1 @0
    = PodStageFailed count=1 @3
    = PodStageFailed count=1 @3
each volume is tried for itself
    0 mount 500ms one | .1 mount 500ms two | 1 mount 1s one | 1.1 mount 1s two
    = PodStageFailed namespace=None pod=a pod_uid=a about=one count=1 @0
    = PodStageFailed namespace=None pod=a pod_uid=a about=two count=1 @0.1
    = PodStageFailed about=one count=1 @1.1
    = PodStageFailed about=two count=1 @1.1
a pod that lists show has its name, and its UID
    ~ spec c
    0 mount 500ms one | 1 box no
    = PodStageFailed namespace=shop pod=a pod_uid=a stage=volumes
    = PodStageFailed namespace=shop pod=a pod_uid=a stage=sandbox
a hook
    0 hook 3 | .1 start PostStartHookError Exec lifecycle hook ([x]) for Container \\\"c\\\"
    = PodStageFailed container=c stage=hook reason=PostStartHookError count=1 lines=1,2
what is left of pods that are gone
    0 orphan 3 | 2 orphan 4 | 3 cgroup busy
    = PodStageFailed pod=None pod_uid=a stage=teardown reason=OrphanedPod @0
    = PodStageFailed pod=None pod_uid=a stage=teardown reason=FailedRemoveCgroup message=busy @3
    = PodStageFailed pod=None pod_uid=a stage=teardown reason=OrphanedPod count=1 @3
the runtime does not tell the state of the pod
    0 sync rpc error: code = Unavailable
    = PodStageFailed pod=a container=None stage=config reason=FailedSync
a resize in place is no stage
    0 sync failed to \"ResizePodInPlace\" for \"{A}\" with ResizePodInPlaceError: \"too much\"
    = !PodStageFailed
""".replace("<SUBPATH>", _SUBPATH)

test_scenes = played_out(SCENES, WORDS)
