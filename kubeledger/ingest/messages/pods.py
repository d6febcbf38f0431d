"""Messages of pods: their sources, workers and status, resizes, and the API events about them."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import Regex, ignore, ignore_text, klog, text, texts

_OF_KIND = r'Event\(v1\.ObjectReference\{Kind:"(?P<kind>\w*)", '
_SAYING = (
    r'UID:"(?P<podUID>[^"]*)"(?:.*?FieldPath:"(?P<fieldPath>[^"]*)")?.*?\}\): '
    r"type: '(?P<type>[^']*)' reason: '(?P<reason>[^']*)' (?P<message>.*)"
)

EVENTS = (
    klog("Event occurred", since="1.20"),
    klog("Server rejected event (will not retry!)"),
    klog("Unable to write event (broadcaster is shut down)"),
    klog("Unable to write event (may retry after sleeping)"),
    klog("Unable to write event (retry limit exceeded!)"),
    text(
        "event.go",
        Regex(rf'{_OF_KIND}Namespace:"", Name:"(?P<object>[^"]*)", {_SAYING}'),
        to="Event occurred",
        until="1.19",
    ),
    text(
        "event.go",
        Regex(rf'{_OF_KIND}Namespace:"(?P<namespace>[^"]*)", Name:"(?P<name>[^"]*)", {_SAYING}'),
        to="Event occurred",
        until="1.19",
        object="{namespace}/{name}",
    ),
    text(
        "event.go",
        Regex(r"(?:Server rejected event|Unable to write event:?) '&v1\.Event\{"),
        to="Server rejected event (will not retry!)",
        until="1.28",
    ),
    *ignore(
        "Could not construct reference, will not report event",
        "Unable start event watcher (will not retry!)",
        "Unable to construct event (will not retry!)",
        "Unable to record event (will not retry!)",
        "Unable to record event: too many queued events, dropped event",
        "Unsupported event type",
    ),
    *ignore_text(
        "event.go",
        "Unable to (?:write|construct) event",
        "Server rejected event",
        "Could not construct reference",
        "Unsupported event type",
    ),
)


# Messages about resizes of running pods.

_INFEASIBLE = "Pod resize is infeasible"
_GUARANTEED = "Resize is infeasible for Guaranteed Pods alongside"

RESIZES = (
    klog("Allocated pod resize is not currently feasible", since="1.34"),
    klog("Pod resize is deferred; will reevaluate later", since="1.34"),
    klog(_INFEASIBLE, since="1.34"),
    klog("Pod resize successfully allocated", since="1.34"),
    klog("Resize cannot be accommodated", since="1.27", until="1.35"),
    klog(
        "Resize is not feasible as request exceeds allocatable node resources",
        to=_INFEASIBLE,
        since="1.27",
        until="1.31",
    ),
    *(
        klog(f"{_GUARANTEED} {manager} Manager {policy}", to=_INFEASIBLE, since=since)
        for manager in ("CPU", "Memory")
        for since, policy in (("1.32", "static policy"), ("1.34", 'policy "static"'))
    ),
    *ignore(
        "Failed to handle pod resources resize",
        "Pod not found; removing from pending resizes",
        "Skipping evaluation of pending resizes; sources are not ready",
        "Successfully retried resize after timeout",
        "updatePodSandboxResources failed: unimplemented; this call is best-effort: proceeding "
        "with resize",
    ),
)


PODS = (
    klog("Attempting to evict pods in order to free up resources", since="1.21", until="1.21"),
    klog("Failed to admit pod", since="1.21"),
    klog("Failed to admit pod to node", since="1.21", until="1.30"),
    klog(
        "Failed to admit pod, unexpected error while attempting to recover from admission failure",
        since="1.21",
    ),
    klog(
        "Failed to admit pod: GeneralPredicates failed due to unknown reason, which is unexpected",
        since="1.21",
    ),
    klog(
        "Failed to bootstrap a configuration controller",
        to="The kubelet gives up",
        since="1.21",
        until="1.23",
    ),
    klog(
        "Failed to construct kubelet dependencies",
        to="The kubelet gives up",
        since="1.21",
        until="1.23",
    ),
    klog("Failed to create a new kubelet configuration", to="The kubelet gives up", since="1.21"),
    klog(
        "Failed to create listener for podResources endpoint",
        to="The kubelet gives up",
        since="1.21",
    ),
    klog("Failed to evict pod", since="1.21"),
    klog("Failed to initialize internal modules", to="The kubelet gives up", since="1.22"),
    klog("Failed to initialize logging", to="The kubelet gives up", since="1.23", until="1.24"),
    klog("Failed to listen and serve", to="The kubelet gives up", since="1.21"),
    klog(
        "Failed to load kubelet config file", to="The kubelet gives up", since="1.21", until="1.23"
    ),
    klog("Failed to parse kubelet flag", to="The kubelet gives up", since="1.21", until="1.23"),
    klog(
        "Failed to precedence kubeletConfigFlag",
        to="The kubelet gives up",
        since="1.21",
        until="1.23",
    ),
    klog("Failed to run kubelet", to="The kubelet gives up", since="1.21", until="1.23"),
    klog("Failed to serve", to="The kubelet gives up", since="1.21"),
    klog(
        "Failed to set feature gates from initial flags-based config",
        to="The kubelet gives up",
        since="1.21",
        until="1.23",
    ),
    klog("Failed to start ContainerManager", to="The kubelet gives up", since="1.21"),
    klog("Failed to start cAdvisor", to="The kubelet gives up", since="1.21"),
    klog(
        "Failed to validate kubelet configuration",
        to="The kubelet gives up",
        since="1.21",
        until="1.23",
    ),
    klog("Failed to validate kubelet flags", to="The kubelet gives up", since="1.21", until="1.23"),
    klog("Generated pod name", since="1.21"),
    klog("Kubelet failed to get node info", to="The kubelet gives up", since="1.21"),
    klog(
        "No valid client certificate is found and the server is responsive, exiting.",
        to="The kubelet gives up",
        since="1.21",
    ),
    klog("Observed pod startup duration", since="1.26"),
    klog("Patch status for pod", since="1.21"),
    klog("Pod evicted successfully", since="1.21"),
    klog("Pod fully terminated and removed from etcd", since="1.21"),
    klog(
        "Pod has been deleted and must be killed",
        since="1.22",
        to="Pod is stopped",
        constants={"because": "removed"},
    ),
    klog(
        "Pod indicated lifecycle completed naturally and should now terminate",
        since="1.24",
        to="Pod is stopped",
        constants={"because": "ended"},
    ),
    klog(
        "Pod is being evicted by the kubelet, begin teardown",
        since="1.22",
        to="Pod is stopped",
        constants={"because": "killed"},
    ),
    klog(
        "Pod is being removed by the kubelet, begin teardown",
        since="1.22",
        to="Pod is stopped",
        constants={"because": "removed"},
    ),
    klog("Pod is being synced for the first time", since="1.22"),
    klog(
        "Pod is in a terminal phase (success/failed), begin teardown",
        since="1.22",
        to="Pod is stopped",
        constants={"because": "ended"},
    ),
    klog(
        "Pod is marked for graceful deletion, begin teardown",
        since="1.22",
        to="Pod is stopped",
        constants={"because": "deleted"},
    ),
    klog(
        "Pod is orphaned and must be torn down",
        since="1.22",
        to="Pod is stopped",
        constants={"because": "orphaned"},
    ),
    klog("Pod is terminated and will need no more status updates", since="1.22"),
    klog("Pod terminating with grace period", since="1.22"),
    klog("Predicate failed on Pod", since="1.21"),
    klog("Preempting pod to free up resources", since="1.22"),
    klog(
        "Shutdown manager killing pod with gracePeriod",
        since="1.21",
        to="Pod is stopped",
        constants={"because": "shutdown"},
    ),
    klog("Starting kubelet main sync loop", since="1.21"),
    klog("Status for pod updated successfully", since="1.21"),
    klog("SyncLoop (SYNC) pods", since="1.21"),
    klog("SyncLoop (housekeeping)", since="1.21"),
    klog("SyncLoop (housekeeping) end", since="1.22"),
    klog("SyncLoop (housekeeping, skipped): sources aren't ready yet", since="1.21"),
    klog("SyncLoop ADD", since="1.21"),
    klog("SyncLoop DELETE", since="1.21"),
    klog("SyncLoop RECONCILE", since="1.21"),
    klog("SyncLoop REMOVE", since="1.21"),
    klog("SyncLoop UPDATE", since="1.21"),
    klog("SyncPod enter", since="1.27"),
    klog(
        "The currently active client certificate has expired and the server is "
        "responsive, exiting.",
        to="The kubelet gives up",
        since="1.21",
    ),
    klog("Topology Admit Handler", since="1.21"),
    klog("Unknown command", to="The kubelet gives up", since="1.21", until="1.23"),
    klog("command failed", to="The kubelet gives up"),
    klog(
        "failed to intialize internal modules",
        to="The kubelet gives up",
        since="1.21",
        until="1.21",
    ),
    *(
        text(
            "kubelet.go",
            f'SyncLoop ({operation}, "{{source}}"): "{{pods:rest}}"',
            to=f"SyncLoop {operation}",
        )
        for operation in ("ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE")
    ),
    *texts(
        "kubelet.go",
        {
            "SyncLoop (SYNC": "SyncLoop (SYNC) pods",
            "SyncLoop (housekeeping)": "SyncLoop (housekeeping)",
            "SyncLoop (housekeeping, sk": (
                "SyncLoop (housekeeping, skipped): sources aren't ready yet"
            ),
            "Starting kubelet main sync loop": "Starting kubelet main sync loop",
            'Pod "{pod:pod}" has completed, ignoring remaining sync work: {syncType}': (
                "Pod has completed, ignoring remaining sync work"
            ),
            'Pod "{pod:pod}" has completed execution and should be deleted from the API server: '
            "{syncType}": ("Pod has completed, ignoring remaining sync work"),
        },
    ),
    *texts(
        "status_manager.go",
        {
            'Pod "{pod:pod}" fully terminated and removed from': (
                "Pod fully terminated and removed from etcd"
            ),
            'Status Manager: adding pod: "{podUID}", with status: {status}': (
                "Status Manager: adding pod"
            ),
            'Status Manager: syncing pod: "{podUID}", with status: {status}': (
                "Status Manager: syncing pod"
            ),
        },
    ),
    text(
        "predicate.go",
        "Predicate failed on Pod: {pod:pod}, for reason: {message}",
        to="Predicate failed on Pod",
    ),
    *texts(
        ("predicate.go", "eviction_manager.go"),
        {
            "Failed to admit pod {pod:pod} - Unexpected error while attempting to recover from "
            "admission failure: {err}": (
                "Failed to admit pod, unexpected error while attempting to recover from admission "
                "failure"
            ),
            "Failed to admit pod {pod:pod} - {message}": "Failed to admit pod",
        },
    ),
    *texts(
        "preemption.go",
        {
            "preemption: attempting to evict pods [{pods:rest}in order to free up resources: "
            "{insufficientResources}": ("Attempting to evict pods in order to free up resources"),
            "preemption: attempting to evict pods [{pods}": (
                "Attempting to evict pods in order to free up resources"
            ),
            "preemption: pod {pod:pod} evicted successfully": "Pod evicted successfully",
            "preemption: pod {pod:pod} failed to evict ": "Failed to evict pod",
        },
    ),
    *ignore(
        "Cancelling current pod sync",
        "Pod has been terminated and is no longer known to the kubelet, remove all history",
        "Pod is complete and the worker can now stop",
        "Pod is finished processing, no further updates",
        "Pod is terminated and all resources are reclaimed",
        "Pod is terminated, but pod cgroup sandbox has not been cleaned up",
        "Pod is terminated, but some container status has not yet been reported",
        "Pod is terminated, but some containers are still running",
        "Pod is terminated, but some volumes have not been cleaned up",
        "Pod terminated all containers successfully",
        "Pod terminated all orphaned containers successfully and worker can now stop",
        "Pod termination cleaned up volume paths",
        "Pod termination removed cgroups",
        "Pod termination stopped all running containers",
        "Pod termination stopped all running orphan containers",
        "Pod termination unmounted volumes",
        "Pod worker has stopped",
        "Post-termination container state",
        "Status manager phase was terminal, updating phase to match",
        "SyncPod exit",
        "SyncTerminatedPod enter",
        "SyncTerminatedPod exit",
        "SyncTerminatingPod enter",
        "SyncTerminatingPod exit",
        "TerminatePod calling updateStatusInternal",
        "syncPod enter",
        "syncPod exit",
        "syncTerminatedPod enter",
        "syncTerminatedPod exit",
        "syncTerminatingPod enter",
        "syncTerminatingPod exit",
    ),
    *ignore_text(
        "kubelet_pods.go",
        'Pod "[^"]*" is terminated, but ',
        "marking pod (?:pending )?termination ",
        r"pod \S+ is pending termination",
    ),
    *ignore_text(
        "status_manager.go",
        "Pod status is inconsistent with cached status for pod ",
        "Removing ",
        "Status Manager: ",
    ),
    *ignore_text("config.go", "Receiving a new pod "),
)
