"""What a relist found of a pod, as records."""

from __future__ import annotations

from typing import Any

from kubeledger.model.bodies.lifecycle import ContainerDied, ContainerRestarted, ContainerStarted
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.pleg import Changes
from kubeledger.simulate.engine.worker import PodWorker
from kubeledger.simulate.engine.world import KILLED, Instance, SimPod


def write_changes(kubelet: Kubelet, pod: SimPod, worker: PodWorker, changes: Changes) -> None:
    """Write down deaths and starts; a start by this process after another is a restart."""
    runtime = kubelet.sim.runtime
    for instance in changes.died:
        if instance.container_id in runtime.died:
            continue  # the process before logged it
        if instance.container_id in worker.started and instance in changes.unseen:
            # It ran for less than a second: only the event of its start shows it.
            _started(kubelet, pod, worker, instance)
        _died(kubelet, pod, instance)
    for instance in changes.started:
        _started(kubelet, pod, worker, instance)


def _which(pod: SimPod, instance: Instance) -> dict[str, Any]:
    return {**pod.identity, "container": instance.container, "container_id": instance.container_id}


def _died(kubelet: Kubelet, pod: SimPod, instance: Instance) -> None:
    runtime, sandbox = kubelet.sim.runtime, instance.container is None
    killed = runtime.killed.get(instance.container_id)
    cause = None if killed is None else killed.seq
    if cause is None and instance.oom_killed and instance.exit_code == KILLED:
        cause = kubelet.sim.memory.kills[instance.container_id]
    exit_code = None if sandbox else instance.exit_code
    runtime.died[instance.container_id] = kubelet.sim.journal.write(
        ContainerDied(**_which(pod, instance), sandbox=sandbox, exit_code=exit_code),
        cause=cause,
        source=None if cause is not None else kubelet.sim.plan.pods[pod.index].place,
    )


def _started(kubelet: Kubelet, pod: SimPod, worker: PodWorker, instance: Instance) -> None:
    journal, runtime = kubelet.sim.journal, kubelet.sim.runtime
    which, previous = _which(pod, instance), instance.previous_id
    journal.write(ContainerStarted(**which, sandbox=instance.container is None))
    if instance.container is not None and previous and instance.container_id in worker.started:
        killed = runtime.killed.get(previous)
        restarted = ContainerRestarted(
            **which,
            previous_container_id=previous,
            reason="exited" if killed is None else killed.reason,
            restart_count=instance.restarts,
        )
        cause = runtime.died.get(previous) if killed is None else killed.seq
        journal.write(restarted, cause=cause)
