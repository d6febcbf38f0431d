"""Messages of containers: the PLEG, the runtime manager, kills."""

from __future__ import annotations

from kubeledger.ingest.klog.rows import ignore, ignore_text, klog, text, texts

MESSAGES = (
    klog("Adding new entry to the queue for processing", since="1.30"),
    klog("Back-off restarting failed container", since="1.21"),
    klog("Container termination failed with gracePeriod", since="1.21"),
    klog("Created PodSandbox for pod", since="1.21"),
    klog("Error syncing pod, skipping", since="1.21"),
    klog("Generic (PLEG): container finished", since="1.22"),
    klog("Killing unwanted container for pod", since="1.21"),
    klog("Message for Container of pod", since="1.21"),
    klog("No sandbox for pod can be found. Need to start a new one", since="1.21"),
    klog("Running preStop hook", since="1.21"),
    klog(
        "Stopping PodSandbox for pod, because all other containers are dead",
        since="1.21",
        to="Pod is stopped",
        constants={"because": "ended"},
    ),
    klog("Stopping PodSandbox for pod, will start new one", since="1.21"),
    klog("SyncLoop (PLEG): event for pod", since="1.21"),
    klog("SyncLoop (PLEG): pod does not exist, ignore irrelevant event", since="1.21"),
    klog("computePodActions got for pod", since="1.21"),
    text(
        "kubelet.go",
        'SyncLoop (PLEG): "{pod:pod}", event: {event}',
        to="SyncLoop (PLEG): event for pod",
        refusals_follow=True,
    ),
    text(
        "kubelet.go",
        "SyncLoop (PLEG): ignore irrelevant event: {event}",
        to="SyncLoop (PLEG): pod does not exist, ignore irrelevant event",
    ),
    *texts(
        "kuberuntime_manager.go",
        {
            'computePodActions got {:some} for pod "{pod:pod}"': "computePodActions got for pod",
            'No sandbox for pod "{pod:pod}"': (
                "No sandbox for pod can be found. Need to start a new one"
            ),
            'Created PodSandbox "{podSandboxID}" for pod "{pod:pod}"': "Created PodSandbox for pod",
        },
    ),
    text(
        "kuberuntime_manager.go",
        'Stopping PodSandbox for "{pod:pod}" because all other containers are dead',
        to="Pod is stopped",
        because="ended",
    ),
    *texts(
        "kuberuntime_manager.go",
        {
            'Container "{containerName}" ({containerStatusID:struct}) of pod {pod:pod}: '
            "{containerMessage}": ("Message for Container of pod"),
            'Killing unwanted container "{containerName}"(id={containerID:struct}) for pod '
            '"{pod:pod}"': ("Killing unwanted container for pod"),
        },
    ),
    *(
        text(
            "kuberuntime_manager.go",
            f"{word} {{period:word}} restarting failed container={{name:word}} pod={{pod:pod}}",
            to="Back-off restarting failed container",
            err="back-off {period} restarting failed container={name} pod={pod}",
        )
        for word in ("back-off", "Back-off")  # 1.18 and before: with a capital
    ),
    text(
        "pod_workers.go",
        'Error syncing pod {podUID} ("{pod:pod}"), skipping: {err}',
        to="Error syncing pod, skipping",
    ),
    *texts(
        "kuberuntime_container.go",
        {
            "Killing container {containerID:struct}, but using a {gracePeriod:int} second grace "
            "period override": ("Killing container with a grace period override"),
            'Killing container "{containerID}", but using a {gracePeriod:int} second grace period '
            "override": ("Killing container with a grace period override"),
            'Killing container "{containerID}", but using a {gracePeriod:int} second grace ': (
                "Killing container with a grace period"
            ),
            'Killing container "{containerID}" with a {gracePeriod:int} second grace period': (
                "Killing container with a grace period"
            ),
            'Running preStop hook for container "{containerID}"': "Running preStop hook",
            'Container "{containerID}" termination failed': (
                "Container termination failed with gracePeriod"
            ),
        },
    ),
    *ignore(
        "Backing Off restarting container in pod",
        "Checking backoff for container in pod",
        "Completed init container for pod",
        "Computing init container action",
        "Container exited normally",
        "Container of pod is not in the desired state and shall be started",
        "Container start failed in pod",
        "GenericPLEG",
        "Init container has been initialized",
        "Pod sandbox and network ready, invoking callback",
        "PreStop hook completed",
    ),
    *ignore_text(
        "generic.go",
        r"GenericPLEG: \S+/\S+: ",
        "PLEG: (?:Delete|Ignoring|Write|pod) ",
    ),
    *ignore_text(
        "kuberuntime_manager.go",
        "checking backoff for container ",
        "(?:init )?container &Container",
        "Backing Off restarting ",
        "Completed init container ",
        r"Container \S+ of pod \S+ is not in the desired state and shall be started",
    ),
    *ignore_text(
        "pod_workers.go",
        "Error syncing pod ",
    ),
    *ignore_text(
        "kuberuntime_container.go",
        'Container "[^"]*" exited normally',
        'preStop hook for container "[^"]*" completed',
    ),
)
