"""Lines of a kubelet's log that never tell a decision: known, counted, and passed over.

Four tables, from the cheapest to look up to the dearest. A file stands in ``NOISE_FILES``
only when nothing that it logs can matter in any version: cadvisor's housekeeping, volumes,
mounts, certificates, client-go, gRPC. Of files that do take decisions single messages are
listed. What an assembler handles goes before these tables.
"""

from __future__ import annotations

import re

__all__ = ["NOISE_FILES", "NOISE_MESSAGES", "NOISE_PLAIN", "NOISE_PREFIXES", "NOISE_TEXTS"]

NOISE_FILES = frozenset(
    """
    accelerator.go actual_state_of_world.go atomic_writer.go aws_credentials.go aws.go
    azure_acr_helper.go azure_credentials.go balancer_conn.go balancer_conn_wrappers.go
    balancer_wrapper.go base_balancer.go block_volume.go bootstrap.go cache_based_manager.go
    certificate_manager.go certificate_store.go clientconn.go client_ca.go cni.go
    component.go configmap.go configmap_cafile_content.go conntrack.go container.go
    container_log_manager.go controlbuf.go
    credentials.go csi_attacher.go csi_block.go csi_client.go csi_drivers_store.go
    csi_mounter.go csi_plugin.go csi_util.go cri_stats_provider.go
    desired_state_of_world.go desired_state_of_world_populator.go dns.go docker.go
    downwardapi.go dynamic_cafile_content.go dynamic_serving_content.go emptydir.go
    empty_dir.go exec_mount.go expander.go factory.go fs.go fs_resource_analyzer.go fsquota.go
    gce.go goroutinemap.go grpclog.go gzip.go healthz.go host_path.go hostport_manager.go
    hostutil.go hostutil_linux.go http2_client.go http2_server.go httplog.go
    informer.go interface.go iptables.go iscsi.go keyring.go kubelet_network.go
    kubelet_network_linux.go kubelet_volumes.go labels.go libcontainer_handler.go local.go
    logging.go manager_no_libpfm.go metadata.go metaserver.go
    mount.go mount_helper_common.go mount_helper_unix.go mount_linux.go
    nestedpendingoperations.go nfs.go node_authorizer.go nodeinfomanager.go nodelease.go
    noop.go nsenter_mount.go nvidia.go oomparser.go oom_linux.go operation_executor.go
    operation_generator.go passthrough.go perf.go pickfirst.go plugin.go plugin_manager.go
    plugin_watcher.go plugins.go probe.go projected.go provider.go pull_manager.go
    quota_linux.go quota_common_linux_impl.go ratelimit.go reconciler.go reconciler_common.go
    reconciler_new.go reconstruct.go reconstruct_common.go reflector.go reflector_data.go
    reporter.go request.go resctrl.go resolver_conn_wrapper.go resolver_wrapper.go
    round_trippers.go secret.go server_apis_podresources.go server_bootstrap.go server_v1.go
    server_v1alpha1.go shared_informer.go streamwatcher.go subpath_linux.go summary.go
    summary_sys_containers.go tlsconfig.go token_manager.go trace.go transport.go
    userns_manager.go util_linux.go util_unix.go volume.go volume_host.go volume_linux.go
    volume_manager.go volume_stat_calculator.go volumemanager.go warnings.go
    watch_based_manager.go watchdog_linux.go with_retry.go
    """.split()
)
"""Callers all of whose lines are noise."""

NOISE_PREFIXES: dict[str, tuple[str, ...]] = {
    "handler.go": ("error while read", "Added event &{", "Unable to get Pr"),
    "kubelet_node_status.go": ("Setting node sta", "Updating node st", "Failed to set so"),
    "generic.go": ("GenericPLEG: Rel",),
    "config.go": ("Looking for [",),
    "manager.go": (
        "Added container:",
        "Destroyed contai",
        "Error getting pe",
        "ignoring contain",
        "Could not retrie",
    ),
    "setters.go": ("Error getting vo",),
    "kubelet_pods.go": ("Cannot get host ", "pod waiting > 0,"),
}
"""File -> beginnings (16 letters at most) of free text that is noise."""

NOISE_MESSAGES = frozenset(
    message
    for line in """
    "Allowing devices for cgroup" "Adding entry to the queue" "Adding new entry to the queue for processing"
    "Attempting to register node" "Attempting to sync node with API server" "Caches populated"
    "Cannot get host IPs" "Checking backoff for container in pod" "Clean up containers for orphaned pod we had not seen before"
    "Clean up orphaned mirror pods" "Clean up orphaned pod cgroups" "Clean up orphaned pod directories"
    "Clean up orphaned pod statuses" "Clean up orphaned pod user namespace allocations" "Clean up pod workers for terminated pods"
    "Clean up probes for terminated pods" "Cleaned up orphaned pod volumes dir" "Cleaned up orphaned volume subpath from pod"
    "Client rotation is on, will bootstrap in background" "Cloud provider determined current node"
    "Connected to new client" "Connecting to image service" "Connecting to runtime service"
    "Container readiness changed for unknown container" "Container readiness unchanged" "Container runtime initialized"
    "Container runtime status" "Container runtime status is nil" "Container startup unchanged" "Controller attach/detach is disabled for this node; Kubelet will attach and detach volumes"
    "Controller attach-detach setting changed to false; updating existing Node"
    "Controller attach/detach setting changed to true; updating existing Node"
    "Cpuset checkpoint" "Creating a mirror pod for static pod" "Creating device plugin registration server"
    "Creating hosts mount for container" "Creating topology manager with policy per scope" "Default route transits interface"
    "Deregistered client" "Detected change in pod's files" "DeleteContainer returned error" "Determined CDI devices for pod"
    "Enforcing CFS quota" "Event bookmark" "Evaluating pods" "Failed to apply OOM score" "Failed to ApplyOOMScoreAdj"
    "Failed to check if disk space is available for the runtime" "Failed to delete cgroup paths"
    "Failed to ensure process in container with oom score" "Failed to get device plugin socket" "Failed to get status for pod"
    "Failed to get the container runtime's cgroup. Runtime system container metrics may be missing."
    "Failed to get the kubelet's cgroup. Kubelet system container metrics may be missing"
    "Failed to get the kubelet's cgroup. Kubelet system container metrics may be missing." "Failed to make sure system containers"
    "Failed to read pod IP from plugin/docker" "Failed to remove cgroup (will retry)" "Failed to set some node status fields"
    "Failed to update stats for container" "Failed to update status for pod" "Failed to watch" "Fast updating node status as it just became ready"
    "FileSystem detection" "Found active IP" "Found addresses for interface" "Found valid address" "GenericPLEG: Relisting"
    "GenericPLEG: Relisting Pod" "Golang settings" "HTTP" "IP found" "Initialized iptables rules." "Interface is up"
    "Initializing Topology Manager" "Initializing container log rotate workers" "Initializing node status"
    "Kubernetes client is nil, not starting status manager" "Label not found" "Looking for default routes with IP addresses"
    "Looking for sources, have seen" "NUMA nodes not available for allocation" "No api server defined - no events will be sent to API server"
    "No api server defined - no node status update will be sent" "No status for pod" "NoSwap is set due to memorySwapBehavior not specified"
    "Node became not ready" "Node no longer present" "Node was previously registered" "Observed pod startup duration"
    "OnPodSandboxReady callback invoked" "PLEG: Ignoring events for pod" "PLEG: Write status" "PLEG: Delete status for pod" "PSI not available" "PSI support not available"
    "Pod contains no container with pinned cpus" "Pod startup latency" "Pod still has one or more containers in the non-exited state"
    "Pod waiting > 0, pending" "Processing pod event" "Processing pod event done" "Pulling image" "Reading config file"
    "Reconciling" "RemoveStaleState removing state" "Resyncing" "Retrieved pods from runtime" "Rotating container log"
    "Running" "Set namespace for pod" "Setting Node allocatable" "Setting node annotation to enable volume controller attach/detach"
    "Setting node status at position" "Setting node status condition code" "Setting pods for source" "Setting rate limiting for endpoint"
    "Skipping pod synchronization" "Standalone mode, no API client" "Start recovering" "Starting" "Starting ContainerManager"
    "Starting Kubelet Plugin Manager" "Starting Kubelet Volume Manager" "Starting container log rotation sequence" "Starting container log rotation worker"
    "Starting controller" "Starting memorymanager" "memorymanager started" "CPU manager started" "Starting to listen" "Starting to listen read-only" "Starting to sync pod status with apiserver"
    "Status for pod is up-to-date" "Status for pod is up-to-date; skipping" "Status for pod updated successfully" "Status manager: syncing batch" "Successfully registered node"
    "Successfully updated PodReadyToStartContainers condition after sandbox creation"
    "Sync pod status" "Syncing batch" "Syncing updated statuses" "Syncing all statuses" "Patch status for pod" "The watcher"
    "Trying to delete pod" "Unable to find cadvisor stats for container" "Unable to find network stats for sandbox" "Unable to find pod" "Unable to get disk stats"
    "Unable to read config path" "Unable to process watch event" "Updated" "Updated Node allocatable limit across pods" "Updated machine memory" "updateStatusInternal"
    "Updating node status" "Updating Pod CIDR" "Using cri" "Using self-signed cert" "Validated CRI v1 image API" "Validated CRI v1 runtime API"
    "Validating the CRI v1 API image version" "Validating the CRI v1 API runtime version" "Volume manager" "Watching apiserver" "Watching path"
    "containerMap: container still active" "containerMap: removing container" "failed to check if node is newer; using informer node"
    "user namespaces: user not found, using default mappings" "Systemd watchdog is not enabled" "Registered client" "RemoveContainer"
    "Getting CRI runtime configuration information" "RuntimeConfig from runtime service failed" "Adding debug handlers to kubelet server"
    "Adding static pod path" "Adding pod URL" "Adding apiserver pod source" "Kubelet is running in standalone mode, will skip API server sync"
    "CRI implementation should be updated to support RuntimeConfig. Falling back to using cgroupDriver from kubelet config."
    "CRI implementation should be updated to support RuntimeConfig when KubeletCgroupDriverFromCRI feature gate has been enabled. Falling back to using cgroupDriver from kubelet config."
    "Client doesn't support WatchList" "Creating Container Manager object based on Node Config" "Failed to set rlimit on max file handles"
    "Container not found in pod's containers" "Container status to pod status" "Generating pod status" "Got phase for pod"
    "Kubelet client is not nil" "--cgroups-per-qos enabled, but --cgroup-root was not specified.  Defaulting to /"
    "Creating Dynamic Resource Allocation (DRA) manager" "Creating device plugin manager" "Container manager verified user specified cgroup-root exists"
    "Attempting to enforce Node Allocatable" "Using root directory" "Write status for pod" "Set pod cgroup" "Notifying pod of pending update"
    "Pending update already queued" "Updating kernel flag" "Deleting container" "Removing pod logs" "Removing sandbox" "Failed to remove container"
    "Failed to remove pod sandbox" "Failed to remove pod log directory" "Sandbox status" "Connecting to docker on the dockerEndpoint"
    "SyncLoop (housekeeping)" "SyncLoop (housekeeping) end" "SyncLoop (housekeeping, skipped): sources aren't ready yet"
    "SyncLoop (SYNC) pods" "SyncLoop UPDATE" "Starting kubelet main sync loop" "Got status for pod" "Adding pod to status manager"
    "Housekeeping took longer than expected" "Housekeeping took longer than 1s" "Syncing Pod" "No need to kill pod"
    "Dynamically watching" "Killing pod sandbox" "Desired state populator starts to run" "Finished populating initial desired state of world"
    "Reconciler: start to sync state" "Waiting for volumes to attach and mount for pod" "All volumes are attached and mounted for pod"
    "Waiting for volumes to unmount for pod" "All volumes are unmounted for pod" "MountVolume.SetUp succeeded for volume"
    "Failed to find the transport cipher" "Warning: --pod-infra-container-image will not be pruned by the image garbage collector"
    "--pod-infra-container-image will not be pruned by the image garbage collector in kubelet and should also be set in the remote runtime"
    "Failed to delete cgroup" "Unable to fetch pod log stats" "Unable to fetch pod etc hosts stats" "Failed creating a mirror pod for"
    "Deleting a mirror pod" "Trying to delete mirror pod" "Failed deleting a mirror pod" "Path does not exist" "Nameserver limits exceeded"
    "Unable to retrieve pull secret, the image pull may not succeed." "Failed to retrieve pull secret" "Volume subpath"
    "Getting logs for container" "Failed to fetch logs" "Kubelet Node Authorizer" "Failed to ensure lease exists, will retry"
    "Update plugin resources" "podresources" "Failed to list" "Reflector ListAndWatch" "Unhandled Error" "Observed a panic"
    """.splitlines()
    for message in re.findall(r'"([^"]+)"', line)
)
"""Structured messages that are noise wherever they come from."""

_TEXTS: dict[str, tuple[str, ...]] = {
    "": (
        r"\[(?:cpumanager|memorymanager|core|transport|balancer|pick-first|resolver)",
        r"parsed scheme:|scheme \"|ccResolverWrapper|ClientConn switching|blockingPicker",
        r"Caches are synced|Waiting for caches to sync|caches populated",
        r"Observed a panic|Throttling request took|Waited for .* due to client-side throttling",
        r"Trace\[|\"?Flag --\S+ has been deprecated",
        r"write /proc/\S+/oom_score_adj|attempting to set \"/proc/|failed to set \"/proc/",
    ),
    "cgroup_manager_linux.go": (r"The Cgroup \[", r"Failed to remove cgroup", r"Removed cgroup"),
    "config.go": (r"Receiving a new pod", r"Setting pods for source", r"Looking for \["),
    "container_manager_linux.go": (
        r"failed to find pid namespace",
        r"container manager verified|Creating device plugin manager",
        r"Initializing Topology Manager|\[topologymanager\]",
        r"Updating kernel flag|Failed to (?:get|ensure)|Creating Container Manager object",
        r"failed to (?:detect|ensure) process|Error moving pids|Found \d+ PIDs? in root",
        r"Discovered runtime cgroups|Device plugin|oom_score_adj",
    ),
    "feature_gate.go": (r"feature gates:|Setting (?:GA|deprecated) feature gate",),
    "file.go": (
        r"Reading config file|Can't process manifest file|Watching path",
        r"Generated (?:UID|Name)|Unable to (?:process watch event|read config path)|Set namespace",
    ),
    "common.go": (r"Generated (?:UID|Name)|Using namespace|Set namespace",),
    "generic.go": (r"GenericPLEG: (?:Relisting|Unable to retrieve|Ignoring)|PLEG: Write status",),
    "handler.go": (
        r"error while reading|Added event &|Unable to get (?:Process|network)|readlink",
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
        r"SyncLoop \((?:housekeeping|SYNC)",
        r"Container runtime status|Pod CIDR|Adding (?:pod path|apiserver|pod url)",
        r"Starting kubelet main sync|skipping pod synchronization|Using (?:root|node)",
        r"Skipping pod|Housekeeping took|Failed (?:creating|deleting) a mirror pod",
        r"Trying to delete pod|Creating a mirror pod|Deleting a mirror pod|Watching apiserver",
        r"Could not (?:remove|process)|Failed to remove orphaned|Reducing syncloop",
        r"Unable to get current device|Recording .* for node|hairpinMode|Hairpin mode",
        r"attempting to sync node|Get(?:ting)? (?:pod|node)|Path .* does not exist",
        r"kubelet nodes sync|Kubelet is running in standalone|the default kubelet cgroup",
        r"Failed to (?:get|list|update|start|remove|clean)",
    ),
    "kubelet_getters.go": (r"Path .* (?:does not exist|path)|",),
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
        r"Unable to|Failed to (?:get|remove|delete)|getKubelet|creating container",
    ),
    "kuberuntime_gc.go": (r"Removing sandbox|Failed to (?:remove|delete|stop)|Removing .*",),
    "kuberuntime_image.go": (r"",),
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
        r"Create sandbox|GeneratePodSandboxConfig|PodSandboxStatus|determinePodSandboxIP|Pod Sandbox",
    ),
    "kuberuntime_logs.go": (r"",),
    "log_handler.go": (r"",),
    "machine.go": (r"",),
    "manager.go": (
        r"cAdvisor running in|Machine: |Version: |Added container|Destroyed container",
        r"Start housekeeping|Could not (?:configure|retrieve)|Failed to (?:process|create|get|add)",
        r"ignoring container|Starting recovery|Recovery completed|Error getting perf_event",
        r"Global Housekeeping|Started watching|Stopped|Exiting|Update machine info|Path to",
        r"unable to get (?:summary|fs)|Unable to get|Unsupported|Registering|cadvisor|NVIDIA",
    ),
    "memory_manager.go": (r"",),
    "node_container_manager_linux.go": (r"Attempting to enforce|Enforcing|failed to|Failed to",),
    "oom_watcher_linux.go": (r"",),
    "pod_container_deletor.go": (
        r"Container .* not found in pod's containers|\[pod_container_deletor\]",
    ),
    "pod_container_manager_linux.go": (
        r"Attempt to kill process|failed to kill|error occurred|Failed to delete cgroup",
        r"PodSandbox|Cgroup|successfully killed|parent",
    ),
    "pod_workers.go": (r"Pod worker|skipping",),
    "predicate.go": (),
    "prober.go": (
        r"(?:Exec|HTTP|TCP)-Probe |GRPC-Probe|Error closing|Failed to find probe builder",
    ),
    "qos_container_manager_linux.go": (
        r"\[Container ?Manager\] (?:Failed|Unable)|\[ContainerManager\]: Failed",
    ),
    "remote_image.go": (r"",),
    "remote_runtime.go": (
        r"Connecting to|parsed scheme|scheme |ListPodSandbox|ContainerStatus|ListContainers",
        r"RunPodSandbox|StopPodSandbox|RemovePodSandbox|PodSandboxStatus|CreateContainer",
        r"StartContainer|StopContainer|RemoveContainer|ExecSync|Status from|Version from",
        r"\[RemoteRuntimeService\]|UpdateRuntimeConfig|UpdateContainerResources|ContainerStats",
        r"ListContainerStats|Connection to|Using CRI|Validat|ReopenContainerLog",
    ),
    "runtime.go": (r"",),
    "runonce.go": (r"",),
    "scope.go": (r"\[topologymanager\] RemoveContainer|Adding hint provider",),
    "server.go": (
        r"Warning: For remote|failed to get the (?:kubelet's|container)|Sending events",
        r"--cgroups-per-qos|write /proc|Using root directory|Failed to set rlimit|Started kubelet",
        r"Starting to listen|Adding debug handlers|Using self-signed|Client rotation|Usage",
        r"Dynamic config|standalone mode|Standalone mode|FLAG|cloud provider|No cloud|Get ",
        r"failed to (?:run|read)|bootstrap|Enabling|Setting|Initializing|watchdog|Failed|kubelet",
        r"Acquiring file lock|Watching for inotify|Golang|Loading cert|--address|HTTP",
    ),
    "server_linux.go": (r"",),
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
    "state_checkpoint.go": (r"",),
    "state_file.go": (r"",),
    "state_mem.go": (r"",),
    "util.go": (r"No sandbox|No ready sandbox|Using|Unable|error",),
    "watcher.go": (r"",),
    "worker.go": (r"",),
}

NOISE_TEXTS: dict[str, re.Pattern[str]] = {
    file: re.compile("|".join(texts) if texts else r"(?!)", re.DOTALL)
    for file, texts in _TEXTS.items()
}
"""File -> pattern of free text that is noise (``""``: from any file)."""

NOISE_PLAIN = re.compile(
    r"""
      \s*$
    | Flag\ --\S+\ has\ been\ deprecated
    | Log\ file\ created\ at:|Running\ on\ machine:|Binary:\ Built\ with|Log\ line\ format:
    | Failed\ to\ connect\ to\ bus:
    | ,\ failed\ with:\ exit\ status
    | --\ (?:Logs\ begin|Journal\ begins|No\ entries|Boot\ |Reboot)
    | (?:Start(?:ed|ing)|Stopp(?:ed|ing)|Reload(?:ed|ing))\ .*(?:kubelet|Kubelet|Kubernetes)
    | kubelet\.service:
    | time="[^"]*"\ level=(?:trace|debug|info|warning)
    | (?:I|W)?\d*/?\d*\s*\[DEPRECATED\]
    | \+{1,2}\ [\w/.-]
    """,
    re.VERBOSE,
)
"""Lines that klog did not write and that mean nothing: banners, journald, neighbours."""
