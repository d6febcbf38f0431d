"""Pods whose containers are not started again: when the last of them has ended, so has the pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeledger.lifecycle.state import ContainerState, PodState
from kubeledger.units import NS_PER_S
from kubeledger.verify.evidence.restarting import Restarting
from kubeledger.verify.pods import ListedPod

__all__ = ["SETTLING_NS", "ends_by_itself", "ran_out", "running"]

SETTLING_NS: Final = 2 * NS_PER_S
"""What the kubelet takes at most to notice that the containers of a pod are down."""


def ran_out(
    pod: PodState, listed: ListedPod | None, *, workers: bool
) -> Iterable[tuple[int, int | None]]:
    """When it stopped to count, at the earliest and at the latest (None: perhaps not at all).

    Args:
        pod: its state.
        listed: as lists show it, whenever they do; None when none does.
        workers: it counts until all its containers are down (since 1.22).
    """
    restarting = Restarting(listed, pod.restart_policy)
    if restarting.always:
        return
    own, failed_init = _parts(pod, restarting)
    over = {restarting.fails(name) for name in failed_init} - {False}
    if over:
        last = _last_ns(failed_init.values())
        surely = True in over and not (workers and pod.runs())
        yield last, last + SETTLING_NS if surely else None
    if not own or any(c.running or c.finished_ts_ns is None for c in own.values()):
        return
    again = {restarting.again(name, container.exit_code) for name, container in own.items()}
    if True in again:
        return
    unseen = any(name not in pod.containers for name in restarting.names or ())
    last = _last_ns(own.values())
    # One that nobody saw start may still be to start, or its lines are lost.
    yield last, last + SETTLING_NS if again == {False} and not unseen else None


def _parts(
    pod: PodState, restarting: Restarting
) -> tuple[dict[str, ContainerState], dict[str, ContainerState]]:
    """Its own containers, and those of the initialization that failed; sidecars are neither."""
    own, failed_init = {}, {}
    for name, container in pod.containers.items():
        if not restarting.is_init(name) and not container.init:
            own[name] = container
        elif not restarting.is_sidecar(name) and _failed(container):
            failed_init[name] = container
    return own, failed_init


def _last_ns(ended: Iterable[ContainerState]) -> int:
    return max(container.finished_ts_ns or 0 for container in ended)


def ends_by_itself(pod: PodState, listed: ListedPod | None) -> bool:
    """Whether its containers are not started again always; true when no source tells."""
    return not Restarting(listed, pod.restart_policy).always


def running(pod: PodState, listed: ListedPod | None) -> list[str]:
    """Its containers, without those of the initialization, that are not known to have ended."""
    restarting = Restarting(listed, pod.restart_policy)
    return [
        name
        for name, c in pod.containers.items()
        if c.running and not restarting.is_init(name) and not c.init
    ]


def _failed(container: ContainerState) -> bool:
    return not container.running and container.exit_code not in (0, None)
