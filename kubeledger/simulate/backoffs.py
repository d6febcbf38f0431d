"""The restart back-off of each container, as the kubelet's process remembers it."""

from __future__ import annotations

from kubeledger.lifecycle.backoff import BackOffPolicy, next_back_off
from kubeledger.simulate.runtime import Instance
from kubeledger.simulate.world import SimContainer

__all__ = ["held_back", "raise_entry"]


def held_back(policy: BackOffPolicy, container: SimContainer, exited: Instance, now_ns: int) -> int:
    """Nanoseconds after ``now_ns`` until it may start; 0 when it may.

    Source: v1.20.2 vendor/k8s.io/client-go/util/flowcontrol/backoff.go IsInBackOffSince
    Differs: says how long.
    """
    ended_ns = exited.finished_ns or 0
    if not container.back_off_ns or _forgotten(policy, container, ended_ns):
        return 0
    return max(ended_ns + container.back_off_ns - now_ns, 0)


def raise_entry(
    policy: BackOffPolicy, container: SimContainer, exited: Instance, now_ns: int
) -> None:
    """A start that follows an exited instance raises the entry.

    Source: v1.20.2 vendor/k8s.io/client-go/util/flowcontrol/backoff.go Next
    Differs: no.
    """
    value_ns = container.back_off_ns
    if value_ns and _forgotten(policy, container, exited.finished_ns or 0):
        value_ns = 0
    container.back_off_ns = next_back_off(policy, value_ns)
    container.back_off_since_ns = now_ns


def _forgotten(policy: BackOffPolicy, container: SimContainer, event_ns: int) -> bool:
    return event_ns - container.back_off_since_ns > 2 * policy.max_ns
