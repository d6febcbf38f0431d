"""Names of cgroups in both drivers, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.cgroups.paths import (
    CgroupNameError,
    node_cgroup,
    parse_cgroup_path,
    pod_cgroup,
    qos_cgroup,
    to_cgroupfs,
    to_systemd,
)
from kubeledger.model.bodies.cgroups import QOSClass

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
