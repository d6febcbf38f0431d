import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.cgroups.paths import (
    CgroupNameError,
    CgroupPath,
    is_of_pods,
    node_cgroup,
    parse_cgroup_path,
    pod_cgroup,
    qos_cgroup,
    to_cgroupfs,
    to_systemd,
)
from kubeledger.model.bodies.cgroups import QOSClass

UID = "9c33f1d1-63ea-4975-bb32-0d0e6ceed50d"
UNDERSCORED = UID.replace("-", "_")
HASH = "47c6fba2e82b7402f7219b7089c7f992"
ID = "911d01e48a077a5927cf5b3fd63574e635dadc95612ca7a10a24e2ecd66aeeac"

NODE = CgroupPath(level="node")
BURSTABLE = CgroupPath(level="qos", qos_class="Burstable")
GUARANTEED_POD = CgroupPath(level="pod", qos_class="Guaranteed", pod_uid=UID)
BURSTABLE_POD = CgroupPath(level="pod", qos_class="Burstable", pod_uid=UID)
BURSTABLE_CONTAINER = CgroupPath(
    level="container", qos_class="Burstable", pod_uid=UID, container_id=ID
)
GUARANTEED_CONTAINER = CgroupPath(
    level="container", qos_class="Guaranteed", pod_uid=UID, container_id=ID
)
SLICE = "kubepods.slice/kubepods-burstable.slice"
POD_SLICE = f"{SLICE}/kubepods-burstable-pod{UNDERSCORED}.slice"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("kubepods", NODE),
        ("/kubepods", NODE),
        ("kubepods/burstable", BURSTABLE),
        ("kubepods/besteffort", CgroupPath(level="qos", qos_class="BestEffort")),
        (f"kubepods/pod{UID}", GUARANTEED_POD),
        (f"kubepods/burstable/pod{UID}", BURSTABLE_POD),
        (f"kubepods/burstable/pod{UID}/{ID}", BURSTABLE_CONTAINER),
        (f"kubepods/pod{UID}/{ID}", GUARANTEED_CONTAINER),
        (f"kubepods/pod{UID}/crio-{ID}", GUARANTEED_CONTAINER),
        (f"site/pods/kubepods/burstable/pod{UID}/{ID}", BURSTABLE_CONTAINER),
        (f"kubepods/besteffort/pod{HASH}",
         CgroupPath(level="pod", qos_class="BestEffort", pod_uid=HASH)),
        ("kubepods.slice", NODE),
        (SLICE, BURSTABLE),
        (POD_SLICE, BURSTABLE_POD),
        (f"{POD_SLICE}/cri-containerd-{ID}.scope", BURSTABLE_CONTAINER),
        (f"{POD_SLICE}/crio-{ID}.scope", BURSTABLE_CONTAINER),
        (f"{POD_SLICE}/docker-{ID}.scope", BURSTABLE_CONTAINER),
        (f"kubepods.slice/kubepods-pod{UNDERSCORED}.slice", GUARANTEED_POD),
        (f"kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope",
         GUARANTEED_CONTAINER),
        ("site.slice/site-kubepods.slice/site-kubepods-burstable.slice/"
         f"site-kubepods-burstable-pod{UNDERSCORED}.slice", BURSTABLE_POD),
        ("system.slice/containerd.service/"
         f"kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}", BURSTABLE_CONTAINER),
        (f"kubepods-pod{UNDERSCORED}.slice:cri-containerd:{ID}", GUARANTEED_CONTAINER),
        (f"site-kubepods-burstable-pod{UNDERSCORED}.slice:docker:{ID}", BURSTABLE_CONTAINER),
        (f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{HASH}.slice",
         CgroupPath(level="pod", qos_class="BestEffort", pod_uid=HASH)),
    ],
)  # fmt: skip
def test_kubelet_paths(path: str, expected: CgroupPath) -> None:
    """Both drivers, both kinds of UID, with and without a cgroup root above."""
    assert parse_cgroup_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "system.slice",
        "user.slice/kubepods-like",
        "kubepods/burstable/other",
        "kubepods/pod",
        f"kubepods/burstable/pod{UID}/{ID}/init.scope",
        f"{POD_SLICE}/cri-containerd-{ID}.scope/child",
        f"{POD_SLICE}/crio-conmon-{ID}.scope",
        "kubepods.slice/other.slice",
        f"system.slice/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}/child",
        f"system.slice/system.slice:cri-containerd:{ID}",
        f"kubepods-burstable.slice:cri-containerd:{ID}",
        f"kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:",
        "kubepods.slice/kubepods-burstable.slice/other.service",
    ],
)
def test_other_paths(path: str) -> None:
    """What the kubelet did not make is no cgroup of its levels."""
    assert parse_cgroup_path(path) is None


# -- Names of cgroups in both drivers, and the way back --------------------------------------------

CLASSES: tuple[QOSClass, ...] = ("Guaranteed", "Burstable", "BestEffort")


@pytest.mark.parametrize(
    ("cgroup", "cgroupfs", "systemd"),
    [
        ((), "/", "/"),
        (node_cgroup(), "/kubepods", "/kubepods.slice"),
        (qos_cgroup("Guaranteed"), "/kubepods", "/kubepods.slice"),
        (qos_cgroup("BestEffort"), "/kubepods/besteffort",
         "/kubepods.slice/kubepods-besteffort.slice"),
        (pod_cgroup("Guaranteed", "1-2"), "/kubepods/pod1-2",
         "/kubepods.slice/kubepods-pod1_2.slice"),
        (pod_cgroup("Burstable", "1-2"), "/kubepods/burstable/pod1-2",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"),
    ],
)  # fmt: skip
def test_spelling(cgroup: tuple[str, ...], cgroupfs: str, systemd: str) -> None:
    """A path, or slices that each repeat what is above them."""
    assert to_cgroupfs(cgroup) == cgroupfs
    assert to_systemd(cgroup) == systemd


@given(st.sampled_from(CLASSES), st.uuids().map(str))
def test_both_spellings_are_read_back(qos_class: QOSClass, uid: str) -> None:
    """As the importer reads the files of a node."""
    name = pod_cgroup(qos_class, uid)
    for path in (to_cgroupfs(name), to_systemd(name)):
        found = parse_cgroup_path(path)
        assert found is not None
        assert (found.level, found.qos_class, found.pod_uid) == ("pod", qos_class, uid)


@pytest.mark.parametrize("uid", ["a/b", "a_b"])
def test_refused(uid: str) -> None:
    """Both characters have a meaning in one of the spellings."""
    with pytest.raises(CgroupNameError, match="invalid character"):
        pod_cgroup("Burstable", uid)


@pytest.mark.parametrize(
    ("path", "is_so"),
    [
        (None, False),
        ("/", False),
        ("system.slice/docker.service", False),
        ("kubepods", True),
        (SLICE, True),
        (f"{SLICE}/crio", True),
        (POD_SLICE, False),
    ],
)
def test_the_cgroups_of_all_pods(path: str | None, is_so: bool) -> None:
    assert is_of_pods(path) is is_so
