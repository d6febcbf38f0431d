"""Times in pods and statuses that nothing may depend on, but that must be times."""

from __future__ import annotations

from kubeledger.kubelet.kube.instants import instant_ns
from kubeledger.kubelet.prober.objects import Pod, PodStatus


def check_pod_times(pod: Pod) -> None:
    """Times of a pod, also of the status that came with it.

    Raises:
        BadInputError: one is not a valid time.
    """
    _check(pod.metadata.creation_timestamp)
    _check(pod.metadata.deletion_timestamp)
    check_status_times(pod.status)


def check_status_times(status: PodStatus | None) -> None:
    """Times of all containers in a status.

    Raises:
        BadInputError: one is not a valid time.
    """
    if status is None:
        return
    for listed in (status.container_statuses, status.init_container_statuses):
        for container in listed or ():
            state = container.state
            if state.running is not None:
                _check(state.running.started_at)
            if state.terminated is not None:
                _check(state.terminated.started_at)
                _check(state.terminated.finished_at)


def _check(text: str | None) -> None:
    if text is not None:
        instant_ns(text)
