"""Other programs than the kubelet that write klog lines, by what names them."""

from __future__ import annotations

import re
from functools import lru_cache

from kubeledger.ingest.sources.prefix import Unwrapper, is_entry

_OWN = frozenset(
    b"""
allocation_manager cgroup_manager_linux cgroup_v1_manager_linux cgroup_v2_manager_linux cni_windows
container_gc container_log_manager container_manager_linux container_manager_windows cpu_assignment
cpu_manager eviction_manager evented fs_resource_analyzer generic image_gc_manager image_manager
image_pull_manager kube_docker_client memory_manager memory_threshold_notifier mirror_client
network_stats node_container_manager_linux nodelease oom_watcher_linux plugin_watcher pod_devices
pod_startup_latency_tracker pod_workers predicate prober qos_container_manager_linux
reconciler_common resource_metrics safe_sysctls scope scope_container scope_pod setters
state_checkpoint state_mem status_manager summary_sys_containers swap_util threshold_notifier_linux
token_manager topology_hints topology_manager userns_manager volume_manager
volume_stat_calculator watchdog_linux
""".split()
)
_OWN_BEGIN = re.compile(
    rb"kubelet|kuberuntime_|docker_s|cri_stats_|cadvisor_|nodeshutdown_|pod_container_"
    rb"|policy_(?:static|none|best_effort|restricted|single_numa)"
    rb"|prober_|patch_prober|hostport|reconstruct|dra_plugin"
)
"""Source files that log in a kubelet and in no other program, without ``.go``: by their whole
names, or by how they begin."""

_SHARED = frozenset(
    b"""
actual_state_of_world apiserver cache client cni common config controller csi_attacher csi_mounter
csi_plugin desired_state_of_world_populator dns endpoint event exec feature_gate file flags handler
helpers http log logs manager nestedpendingoperations operation_executor operation_generator plugin
reconciler remote_image remote_runtime run runtime server state_file tcp worker
""".split()
)
"""Those that log what concerns pods in a kubelet, and log elsewhere, too."""

_CALLER = re.compile(
    rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d{1,19} (?:[^\s:\]]*/)?([^\s:\]/]+)\.go:\d{1,9}\]"
    rb'|\{"ts":[^,]{1,40},"caller":"(?:[^"]*/)?([^"/]+)\.go:'
)
_KUBELETS_WORDS = re.compile(
    rb'"Kubelet version"|FLAG: --(?:pod-manifest-path|kubelet-cgroups|eviction-hard|max-pods)'
)

OTHER_COMPONENT = re.compile(
    r"kube-?(?:apiserver|proxy|scheduler|controller|router)|etcd|coredns|containerd|calico|cilium"
    r"|flannel|controller-manager|apiserver|microshift",
    re.IGNORECASE,
)
"""In the name of a file or program: it is none of the kubelet's."""

_OTHER_CALLER = re.compile(
    rb"(?:proxier|apf_controller|apiservice\w*|available_controller|garbagecollector|replica_set"
    rb"|leaderelection|controllermanager|deployment_controller|schedule_one|scheduler|daemon)\.go:\d"
)
"""Callers of the API server, the controllers, the scheduler, the proxy, and of programs that run
all of them in one process, the kubelet included."""

_KUBELETS_TAG = re.compile(rb"kubel(?:et|ite)|kubenswrapper|hyperkube|k3s|rke2")
_BEGINS_KUBELET = re.compile(rb'"Kubelet version"|FLAG: --')
_BEGINS_OTHER = re.compile(_OTHER_CALLER.pattern + rb"|\] Version: v1\.(?:2[1-9]|[3-9]\d)\.")
"""The kubelet shows its version in another form since 1.21."""
_ENTRY_HEAD = 200
_MAY_TELL = re.compile(rb"kube|hyper|k[38]s|rke|kernel", re.IGNORECASE)


class Callers:
    """The source files that a log's entries name, and whether a kubelet is among the writers.

    Attributes:
        others: files that are none of a kubelet's, in the order in which they were first seen.
        is_kubelets: an entry is of a file that only a kubelet has, or its carrier names one.
    """

    def __init__(self) -> None:
        """Nothing was seen."""
        self.others: dict[str, None] = {}
        self.is_kubelets = False

    def look(self, log: bytes) -> None:
        """Look at lines, up to the first that is a kubelet's."""
        unwrapper = Unwrapper()
        for line in log.split(b"\n"):
            unwrapped = unwrapper.unwrap(line)
            body = line if is_entry(line) else unwrapped.body
            tag = unwrapped.tag if body is not line else None
            if is_kubelets(body) or (
                tag is not None and _KUBELETS_TAG.search(tag) and is_entry(body)
            ):
                self.is_kubelets = True
                return
            file = _file_of(body)
            if file is not None and not may_be_kubelets(body):
                self.others[f"{file.decode('utf-8', 'replace')}.go"] = None


@lru_cache(4096)
def _is_own(file: bytes) -> bool:
    return file in _OWN or _OWN_BEGIN.match(file) is not None


def _file_of(entry: bytes) -> bytes | None:
    caller = _CALLER.match(entry)
    return None if caller is None else caller[1] or caller[2]


def is_kubelets(entry: bytes) -> bool:
    """No other program writes such an entry."""
    file = _file_of(entry)
    if file is None:
        return False
    return _is_own(file) or _KUBELETS_WORDS.search(entry, 0, _ENTRY_HEAD) is not None


def may_be_kubelets(entry: bytes) -> bool:
    """A kubelet logs from the source file that the entry names."""
    file = _file_of(entry)
    return file is not None and (file in _SHARED or _is_own(file))


def begins_kubelet(entry: bytes) -> bool:
    """The entry can be none of another component's that runs in the kubelet's process."""
    return is_kubelets(entry) or _BEGINS_KUBELET.search(entry, 0, _ENTRY_HEAD) is not None


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
