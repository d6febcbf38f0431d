"""Other programs than the kubelet that write klog lines, by what names them."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "KUBELET_CALLER",
    "OTHER_CALLER",
    "OTHER_COMPONENT",
    "begins_kubelet",
    "begins_other_program",
    "holds_kubelets_lines",
    "is_neighbour",
    "is_other_program",
]

KUBELET_CALLER = re.compile(
    rb"(?:kubelet\w*|kuberuntime_\w+|prober\w*|pod_workers|status_manager|eviction_manager"
    rb"|image_gc_manager|cri_stats_provider|pod_container_\w+|topology_manager|scope|generic"
    rb"|pod_startup_latency_tracker)\.go:\d"
    rb"|FLAG: --(?:pod-manifest-path|kubelet-cgroups|eviction-hard|max-pods)"
)
"""Callers, and flags, that no other component has."""

OTHER_COMPONENT = re.compile(
    r"kube-?(?:apiserver|proxy|scheduler|controller|router)|etcd|coredns|containerd|calico|cilium"
    r"|flannel|controller-manager|apiserver|microshift",
    re.IGNORECASE,
)
"""In the name of a file or program: it is none of the kubelet's."""

OTHER_CALLER = re.compile(
    rb"(?:proxier|apf_controller|apiservice\w*|available_controller|garbagecollector|replica_set"
    rb"|leaderelection|controllermanager|deployment_controller|schedule_one|scheduler|daemon)\.go:\d"
)
"""Callers of the API server, the controllers, the scheduler, the proxy, and of programs that run
all of them in one process, the kubelet included."""

_OF_KUBELET = re.compile(
    KUBELET_CALLER.pattern + rb'|"Kubelet version"'
    rb"|(?:kubel(?:et|ite)[\w.]*|kubenswrapper|hyperkube|k3s|rke2)\[\d+\]: "
)
_BEGINS_KUBELET = re.compile(KUBELET_CALLER.pattern + rb'|"Kubelet version"|FLAG: --')
_BEGINS_OTHER = re.compile(OTHER_CALLER.pattern + rb"|\] Version: v1\.(?:2[1-9]|[3-9]\d)\.")
"""The kubelet shows its version in another form since 1.21."""
_ENTRY_HEAD = 200
_MAY_TELL = re.compile(rb"kube|hyper|k[38]s|rke|kernel", re.IGNORECASE)


def holds_kubelets_lines(log: bytes) -> bool:
    """The (beginning of a) log has lines that only a kubelet writes, or that name it."""
    return _OF_KUBELET.search(log) is not None


def begins_kubelet(entry: bytes) -> bool:
    """The entry can be none of another component's that runs in the kubelet's process."""
    return _BEGINS_KUBELET.search(entry, 0, _ENTRY_HEAD) is not None


def begins_other_program(entry: bytes) -> bool:
    """The entry can be none of the kubelet's."""
    return _BEGINS_OTHER.search(entry, 0, _ENTRY_HEAD) is not None


@lru_cache(1024)
def is_other_program(tag: bytes | None) -> bool:
    """The program that syslog or journald names is a component of its own."""
    name = "" if tag is None else tag.decode("utf-8", "replace")
    return "kubel" not in name and OTHER_COMPONENT.search(name) is not None


@lru_cache(1024)
def is_neighbour(tag: bytes | None) -> bool:
    """The program that syslog or journald names neither is the kubelet nor the kernel."""
    return tag is not None and _MAY_TELL.search(tag) is None
