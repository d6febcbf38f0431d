"""Pods whose containers are not started again: when the last of them has ended, so has the pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeledger.lifecycle.state import ContainerState, PodState
from kubeledger.units import NS_PER_S
from kubeledger.verify.pods import ListedPod

__all__ = ["SETTLING_NS", "ends_by_itself", "ran_out", "running"]

SETTLING_NS: Final = 2 * NS_PER_S
"""What the kubelet takes at most to notice that the containers of a pod are down."""


class _Container(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    restart_policy: str | None = None


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    restart_policy: str | None = None
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


def ran_out(
    pod: PodState, listed: ListedPod | None, *, workers: bool
) -> Iterable[tuple[int, int | None]]:
    """When it stopped to count, at the earliest and at the latest (None: perhaps not at all).

    Args:
        pod: its state.
        listed: as lists show it, whenever they do; None when none does.
        workers: it counts until all its containers are down (since 1.22).
    """
    if not ends_by_itself(pod, listed):
        return
    spec = _spec_of(listed)
    policy = pod.restart_policy if spec is None else spec.restart_policy
    own, failed_init = _parts(pod, _inits(spec))
    if policy == "Never" and failed_init:
        last = _last_ns(failed_init)
        yield last, None if workers and pod.runs() else last + SETTLING_NS
    if not own or any(c.running or c.finished_ts_ns is None for c in own):
        return
    if policy == "OnFailure" and any(_failed(c) for c in own):
        return
    known = policy == "Never" or (policy == "OnFailure" and all(c.exit_code == 0 for c in own))
    unseen = spec is not None and any(c.name not in pod.containers for c in spec.containers or ())
    last = _last_ns(own)
    # One that nobody saw start may still be to start, or its lines are lost.
    yield last, last + SETTLING_NS if known and not unseen else None


def _parts(
    pod: PodState, inits: dict[str, _Container]
) -> tuple[list[ContainerState], list[ContainerState]]:
    """Its own containers, and those of the initialization that failed; sidecars are neither.

    A sidecar starts again, and ends with the pod.
    """
    own, failed_init = [], []
    for name, container in pod.containers.items():
        if name not in inits and not container.init:
            own.append(container)
        elif (name not in inits or inits[name].restart_policy != "Always") and _failed(container):
            failed_init.append(container)
    return own, failed_init


def _last_ns(ended: list[ContainerState]) -> int:
    return max(container.finished_ts_ns or 0 for container in ended)


def ends_by_itself(pod: PodState, listed: ListedPod | None) -> bool:
    """Whether its containers are not started again always; true when no source tells."""
    spec = _spec_of(listed)
    policy = pod.restart_policy if spec is None else spec.restart_policy or "Always"
    return policy != "Always"


def running(pod: PodState, listed: ListedPod | None) -> list[str]:
    """Its containers, without those of the initialization, that are not known to have ended."""
    inits = _inits(_spec_of(listed))
    return [
        name for name, c in pod.containers.items() if c.running and name not in inits and not c.init
    ]


def _inits(spec: _Spec | None) -> dict[str, _Container]:
    return {} if spec is None else {c.name: c for c in spec.init_containers or ()}


def _spec_of(listed: ListedPod | None) -> _Spec | None:
    if listed is None:
        return None
    try:
        return listed.as_(_Pod).spec
    except msgspec.ValidationError:
        return None


def _failed(container: ContainerState) -> bool:
    return not container.running and container.exit_code not in (0, None)
