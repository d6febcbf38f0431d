"""Lines of a kubelet's log that never show a decision: known, counted, and passed over.

The tables go from the cheapest to look up to the dearest. A file stands in ``noise_files.txt``
only when nothing that it logs can matter in any version: cadvisor's housekeeping, volumes,
mounts, certificates, client-go, gRPC. Of files that do take decisions single messages are
listed. What an assembler handles goes before these tables.
"""

from __future__ import annotations

import re
from pathlib import Path

from kubeledger.ingest.klog.router import Noise
from kubeledger.model.patterns import regex

HEARTBEAT = ("SyncLoop (housekeeping)", "SyncLoop (housekeeping) end")
"""Structured messages every two seconds, listed so that no fact waits much longer."""


def _listed(name: str) -> frozenset[str]:
    text = Path(__file__).with_name(name).read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


_ANYWHERE = regex(
    "|".join(
        (
            r"\[(?:cpumanager|memorymanager|core|transport|balancer|pick-first|resolver)",
            r"parsed scheme:|scheme \"|ccResolverWrapper|ClientConn switching|blockingPicker",
            r"Caches are synced|Waiting for caches to sync|caches populated",
            r"Observed a panic|Throttling request took|Waited for .* due to client-side throttling",
            r"Trace\[|\"?Flag --\S+ has been deprecated",
            r"Node didn't have enough capacity: ",
            r"write /proc/\S+/oom_score_adj|attempting to set \"/proc/|failed to set \"/proc/",
        )
    )
)
"""Free text that is noise from any file."""

_CALLERLESS = regex(
    r"Using factory|Factory \"|\S+ not handled by|Regist(?:ering|ration of)|Start housekeeping"
    r"|No-op Destroy|running iptables|Running iptables|pickfirstBalancer|Unable to find (?:net|cad)"
    r"|Failed to (?:create summary|get the info|publish CSI|update stats)|Loaded volume plugin"
    r"|Starting reflector|Listing and watching|\S+ Watch close|Installing health|No default health"
    r"|Error while (?:processing event|reading product)|grpc: |transport: |Initialized IPv"
    r"|(?:The d|D)esired[ _]state|Starting Kubelet|Reconciler|Get volumes from|Orphaned pod"
    r"|CRI-O not connected|NVIDIA setup|cAdvisor is build|Azure config|while getting AWS"
    r"|Directory \S+ is already on|Starting FS|Initializing migrated|Flexvolume|Filesystem "
    r"|Cannot run systemd-run|systemd-run output|Detected umount|Ensuring Plugin|Plugin Watcher"
    r"|Registering credential|failed to get node|kubernetes\.io/csi|Skipping CSINode"
)
"""Free text of ``noise_files.txt``, for logs that do not name the caller (old klog JSON)."""

_QUIET_FILES = frozenset(
    (
        *("kubelet_getters.go", "kuberuntime_image.go", "kuberuntime_logs.go", "log_handler.go"),
        *("machine.go", "memory_manager.go", "oom_watcher_linux.go", "remote_image.go"),
        *("runonce.go", "runtime.go", "server_linux.go", "state_checkpoint.go", "state_file.go"),
        *("state_mem.go", "watcher.go", "worker.go"),
    )
)
"""Files whose lines are noise unless an assembler knows their message."""

_TEXTS: dict[str, tuple[str, ...]] = {
    "cgroup_manager_linux.go": (r"The Cgroup \[", r"Failed to remove cgroup", r"Removed cgroup"),
    "config.go": (r"Receiving a new pod", r"Setting pods for source", r"[Ll]ooking for "),
    "container_manager_linux.go": (
        r"failed to find pid namespace",
        r"container manager verified|Creating device plugin manager",
        r"Initializing Topology Manager|\[topologymanager\]",
        r"Updating kernel flag|Failed to (?:get|ensure)|Creating Container Manager object",
        r"failed to (?:detect|ensure) process|Error moving pids|Found \d+ PIDs? in root",
        r"Discovered runtime cgroups|Device plugin|oom_score_adj",
    ),
    "container_gc.go": (r"attempting to delete unused containers",),
    "controller.go": (r"[Ff]ailed to (?:ensure|update) (?:node )?lease",),
    "cpu_manager.go": (
        r"ReconcileState: |RemoveStaleState: |(?:containerMap: )?(?:removing container|container "
        r"still active|failed to remove container)|skipping container; |updating container",
        r"ignoring terminated container|failed to update container|RemoveContainer error",
    ),
    "feature_gate.go": (r"feature gates:|Setting (?:GA|deprecated) feature gate|unrecognized",),
    "file.go": (
        r"Reading config file|Can't process manifest file|Watching path",
        r"Generated (?:UID|Name)|Unable to (?:process watch event|read config path)|Set namespace",
    ),
    "common.go": (r"Generated (?:UID|Name)|Using namespace|Set namespace",),
    "generic.go": (r"GenericPLEG: (?:Relisting|Unable to retrieve|Ignoring)|PLEG: Write status",),
    "handler.go": (
        r"error while (?:listing|reading)|Added event &|Unable to get (?:Process|network)|readlink",
        r"failed to get cgroup stats|Unable to get (?:fs|network) usage|Could not|Error ",
    ),
    "helpers.go": (
        r"readString: Failed|Already ran container|Failed to create (?:OCI|oom)|error while",
        r"Unable to (?:get|parse)|Container .* is (?:running|waiting)",
    ),
    "http.go": (r"Probe (?:succeeded|failed|terminated redirects)",),
    "exec.go": (r"Exec probe response", r"Exec probe timed out"),
    "tcp.go": (r"Closed? ",),
    "kubelet.go": (
        r"SyncLoop \((?:housekeeping|SYNC)|Container runtime network not ready",
        r"Container runtime status|Pod CIDR|Adding (?:pod path|apiserver|pod url)",
        r"Starting kubelet main sync|skipping pod synchronization|Using (?:root|node)",
        r"Skipping pod|Housekeeping took|Failed (?:creating|deleting) a mirror pod",
        r"Trying to delete pod|Creating a mirror pod|Deleting a mirror pod|Watching apiserver",
        r"Could not (?:remove|process)|Failed to remove orphaned|Reducing syncloop",
        r"Unable to get current device|Recording .* for node|hairpinMode|Hairpin mode",
        r"attempting to sync node|Get(?:ting)? (?:pod|node)|Path .* does not exist",
        r"kubelet nodes sync|Kubelet is running in standalone|the default kubelet cgroup",
        r"Failed to (?:get|list|update|start|remove|clean|delete)|Failed cleaning pods",
        r"Container garbage collection (?:succeeded|failed)|starting plugin manager",
        r"(?:Not )?[Ss]tarting (?:\w+ )?(?:informer|manager|plugin)|No API server defined",
        r"[Ll]oaded certificate|node \S+ (?:not|is)|no observation",
    ),
    "kubelet_node_status.go": (
        r"Setting node|Updating node|Failed to (?:set|update|get|contact)|Recording ",
        r"Attempting to register|Successfully registered|Node .* was previously|Starting to",
        r"Error updating node|Unable to (?:update|register|write)|Zero out resource|Controller",
        r"Update(?:d|ing)? (?:capacity|default|existing|node)|initial",
    ),
    "kubelet_pods.go": (
        r"Cannot get host IPs?|pod waiting > 0|Generating status|container: \S+ podIPs",
        r"Pod .* is terminated, but|Orphaned pod|Error listing containers|will not mount",
        r"Clean up|Unable to retrieve pull secret|Pod attempted illegal|marking pod|podIPs",
        r"Killing unwanted|Error retrieving|Failed to get .* from|Skipping",
    ),
    "kubelet_resources.go": (r"allocatable",),
    "kuberuntime_container.go": (
        r"Generating ref|Removing container|Container .* exited (?:normally|with)|Stopping",
        r"Unable to|[Ff]ailed to (?:get|remove|delete)|getKubelet|creating container",
    ),
    "kuberuntime_gc.go": (r"Removing sandbox|Failed to (?:remove|delete|stop)|Removing .*",),
    "kuberuntime_manager.go": (
        r"Syncing Pod|getSandboxIDByPodUID|Created PodSandbox|Creating PodSandbox",
        r"No (?:sandbox|ready sandbox) for pod|No ready sandbox|Sandbox for pod",
        r"SyncPod received new pod|Stopping PodSandbox|createPodSandbox for pod|Determined the ip",
        r"Creating (?:init )?container|Init container|Container runtime|Creating container",
        r"Container .* of pod|computePodActions|checking backoff|Retrieving",
        r"killPodWithSyncResult|kubeGenericRuntimeManager|CRI|Loaded|Non-root",
        r"getPodContainerStatuses|setup network|PodSandboxStatus of|getOrCreate|Failed to",
    ),
    "kuberuntime_sandbox.go": (
        r"CreatePodSandbox for pod|ListPodSandbox failed|Removing sandbox|Running pod",
        r"Create sandbox|GeneratePodSandboxConfig|PodSandboxStatus|determinePodSandboxIP|Pod Sand",
    ),
    "manager.go": (
        r"cAdvisor running in|Machine: |Version: |Added container|Destroyed container",
        r"Start housekeeping|Could not (?:configure|retrieve)|Failed to (?:process|create|get|add)",
        r"ignoring container|Starting recovery|Recovery completed|Error getting perf_event",
        r"Global Housekeeping|Started watching|Stopped|Exiting|Update machine info|Path to",
        r"unable to get (?:summary|fs)|Unable to get|Unsupported|Cannot gather|Registering",
        r"cadvisor|NVIDIA|failed getting container info",
    ),
    "node_container_manager_linux.go": (r"Attempting to enforce|Enforcing|failed to|Failed to",),
    "pod_container_deletor.go": (
        r"Container .* not found in pod's containers|\[pod_container_deletor\]",
    ),
    "pod_container_manager_linux.go": (
        r"Attempt to kill process|failed to kill|error occurred|Failed to delete cgroup",
        r"PodSandbox|Cgroup|successfully killed|parent",
    ),
    "pod_workers.go": (r"Pod worker|skipping",),
    "prober.go": (
        r"(?:Exec|HTTP|TCP)-Probe |GRPC-Probe|Error closing|Failed to find probe builder",
    ),
    "qos_container_manager_linux.go": (
        r"\[Container ?Manager\] (?:Failed|Unable)|\[ContainerManager\]: Failed",
    ),
    "remote_runtime.go": (
        r"Connecting to|parsed scheme|scheme |ListPodSandbox|ContainerStatus|ListContainers",
        r"RunPodSandbox|StopPodSandbox|RemovePodSandbox|PodSandboxStatus|CreateContainer",
        r"StartContainer|StopContainer|RemoveContainer|ExecSync|Status from|Version from",
        r"\[RemoteRuntimeService\]|UpdateRuntimeConfig|UpdateContainerResources|ContainerStats",
        r"ListContainerStats|Connection to|Using CRI|Validat|ReopenContainerLog",
    ),
    "policy_static.go": (
        r"Exclusive (?:CPU|[Mm]emory) allocation skipped|(?:CPU|Memory) Manager|Static policy init",
        r"Topology hints generation skipped|Allocat(?:ion skipped|ePod called|ed pod-level)",
        r"Calculated total pod|Partitioned pod-level|Released (?:container|pod)-level",
    ),
    "scope.go": (r"\[topologymanager\] RemoveContainer|Adding hint provider",),
    "server.go": (
        r"Warning: For remote|failed to get the (?:kubelet's|container)|Sending events",
        r"--cgroups-per-qos|write /proc|Using root directory|Failed to set rlimit|Started kubelet",
        r"Starting to listen|Adding debug handlers|Using self-signed|Client rotation|Usage",
        r"Dynamic config|standalone mode|Standalone mode|FLAG|cloud provider|No cloud|Get ",
        r"failed to (?:run|read)|bootstrap|Enabling|Setting|Initializing|watchdog|Failed|kubelet",
        r"Acquiring file lock|Watching for inotify|Golang|Loading cert|--address|HTTP",
    ),
    "setters.go": (
        r"Error getting volume limit|Using node IP|Node (?:IP|status)|Couldn't|Capacity",
        r"Error getting|Node became not ready|Unable",
    ),
    "status_manager.go": (
        r"Ignoring same status|Status Manager: (?:adding|syncing)|Status for pod|Patch status",
        r"Pod .* (?:does not exist|was deleted|status is)|Failed to (?:get|update|delete) status",
        r"Kubernetes client is nil|Container (?:readiness|startup)|removing (?:from|orphaned)",
        r"Delaying|Pod .* fully terminated|Skipping|Starting to sync|Terminated",
    ),
    "util.go": (r"No sandbox|No ready sandbox|Using|Unable|error",),
}

_PLAIN = regex(
    r"""
      \s*$
    | Flag\ --\S+\ has\ been\ deprecated
    | Log\ file\ created\ at:|Running\ on\ machine:|Binary:\ Built\ with|Log\ line\ format:
    | Failed\ to\ connect\ to\ bus:
    | ,\ failed\ with:\ exit\ status
    | (?:--|░░)(?:\ |$)                                # journald's own, and what its -x explains
    | [●○]\ \S+\.service\ -\ |\ *[├└│]─                # `systemctl status` of one that runs
    | \ *(?:Loaded:\ loaded|Active:\ active\ \(running\)|Docs:\ \w+:|CGroup:\ /|Drop-In:\ /
        |Process:\ \d+\ Exec.*=0/|Main\ PID:\ \d+\ \([^=]*$|(?:Tasks|Memory|CPU|Duration):\ \d)
    | `{3}|\.{3,}$|</?[a-z]+>$|\$\ |\[?[\w.-]+@[^\s\]]+[\s:][^\s\]]+\]?[$\#]\   # around a paste
    | (?:Start(?:ed|ing)|Stopp(?:ed|ing)|Reload(?:ed|ing))\ .*(?:kubelet|Kubelet|Kubernetes)
    | [\w@\\:.-]+\.(?:service|scope|slice|mount|socket|timer):\   # systemd, of its units
    | time="[^"]*"\ level=(?:trace|debug|info|warning)
    | (?:I|W)?\d*/?\d*\s*\[DEPRECATED\]
    | \+{1,2}\ [\w/.'"\[{-]
    """,
    re.VERBOSE,
)
"""Lines that klog did not write and that mean nothing: banners, journald, neighbours."""

NOISE = Noise(
    files=_listed("noise_files.txt"),
    quiet_files=_QUIET_FILES,
    messages=_listed("noise_messages.txt"),
    texts={file: "|".join(texts) for file, texts in _TEXTS.items()},
    anywhere=_ANYWHERE,
    callerless=_CALLERLESS,
    plain=_PLAIN,
)
