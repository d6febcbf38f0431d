"""Messages of the topology manager."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import Regex, ignore, ignore_text, klog, text, texts

_FILES = ("topology_manager.go", "scope_container.go", "scope_pod.go")
_SUBJECT = r"\(pod: (?P<pod>\S+?)(?: container: (?P<containerName>\S+))?\): "

MESSAGES = (
    klog("Best TopologyHint", to="ContainerTopologyHint", since="1.21"),
    klog("ContainerTopologyHint", since="1.21"),
    klog("Creating topology manager with none policy", since="1.28"),
    klog("Hint Provider has no possible NUMA affinities for resource", since="1.21"),
    klog("Hint Provider has no preference for NUMA affinity with resource", since="1.21"),
    klog("Pod Admit Result", since="1.33", message="Message"),
    klog("Pod admission denied", since="1.31"),
    klog("PodTopologyHint", to="ContainerTopologyHint", since="1.21"),
    klog("Topology Affinity", since="1.21"),
    klog("TopologyHints", since="1.21"),
    text(
        _FILES,
        Regex(
            r"\[topologymanager\] Creating topology manager with (?P<topologyPolicyName>\S+) policy"
            r"(?: per (?P<topologyScopeName>\w+) scope)?"
        ),
        to="Creating topology manager with policy per scope",
    ),
    text(
        _FILES,
        Regex(
            r"\[topologymanager\] TopologyHints for pod '(?P<pod>[^']*)'"
            r"(?:, container '(?P<containerName>[^']*)')?: (?P<hints>map\[.*\])",
        ),
        to="TopologyHints",
    ),
    text(
        _FILES,
        Regex(r"\[topologymanager\] (?:Container|Pod)TopologyHint: (?P<bestHint>\{.*\})"),
        to="ContainerTopologyHint",
    ),
    text(
        _FILES,
        Regex(
            rf"\[topologymanager\] Best TopologyHint for {_SUBJECT}(?P<bestHint>\{{.*\}})",
        ),
        to="ContainerTopologyHint",
    ),
    text(
        _FILES,
        Regex(
            rf"\[topologymanager\] Topology Affinity for {_SUBJECT}(?P<affinity>\{{.*\}})",
        ),
        to="Topology Affinity",
    ),
    *texts(
        "policy.go",
        {
            "[topologymanager] Hint Provider has no preference for NUMA affinity with resource "
            "'{resource}'": ("Hint Provider has no preference for NUMA affinity with resource"),
            "[topologymanager] Hint Provider has no possible NUMA affinities for resource "
            "'{resource}'": ("Hint Provider has no possible NUMA affinities for resource"),
        },
    ),
    *ignore(
        "Adding hint provider",
        "Calling AllocatePod on hint providers",
        "Hint Provider has no preference for NUMA affinity with any resource",
        "Pod-level allocation failed",
        "Resource alignment at container scope guaranteed",
        "Resource alignment at pod scope guaranteed",
        "Topology manager admission check",
        "WARNING: the value of max-allowable-numa-nodes is more than the default recommended value",
    ),
    *ignore_text(
        "topology_manager.go",
        r"\[topologymanager\] RemoveContainer",
        r"\[topologymanager\] Topology Admit Handler",
    ),
    *ignore_text(
        "policy.go",
        r"\[topologymanager\] Hint Provider has no preference for NUMA affinity with any "
        r"resource",
    ),
    *ignore_text(
        "scope.go",
        r"\[topologymanager\] RemoveContainer",
    ),
)
