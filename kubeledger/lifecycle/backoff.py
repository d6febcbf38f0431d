"""The back-off of containers that are started again and again.

A container has an *entry* from its first start that follows an exited instance on. Each such
start raises it: initial value, doubled, up to a maximum. A start is held back while less
time than the entry's value has passed since the exit of the instance the kubelet looks at.

That instance is the newest *exited* one in the status that the sync began with. A sync that
kills a container and starts it again still has the status from before the kill, so it
looks at the instance before. This is why a container whose probe fails every 30 s is held
back only once its entry is over 30 s, and why its very first restart raises nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubeledger.profile.lifecycle import LifecycleFacts
from kubeledger.units import NS_PER_S, parse_go_duration

__all__ = ["FORGOTTEN_AFTER_NS", "BackOffPolicy", "back_off_policy", "next_back_off", "series"]

FORGOTTEN_AFTER_NS = 600 * NS_PER_S
"""An entry that was not raised for longer is dropped."""

_INITIAL_S, _MAX_S = 10, 300
_REDUCED_INITIAL_S, _REDUCED_MAX_S = 1, 60


class BackOffPolicy(msgspec.Struct, frozen=True):
    """First value of an entry and the greatest one, in nanoseconds."""

    initial_ns: int
    max_ns: int


def back_off_policy(
    facts: LifecycleFacts, gates: dict[str, Any], configured: str | None
) -> BackOffPolicy | None:
    """What this kubelet's entries begin and end with.

    Args:
        facts: of the kubelet version.
        gates: feature gates that were set.
        configured: ``crashLoopBackOff.maxContainerRestartPeriod`` as a Go duration; None when
            it is not known.

    Returns:
        None when the configured maximum counts and is not known.

    Raises:
        ValueError: the configured maximum is no duration.

    Source: v1.36.2 pkg/kubelet/kubelet.go newCrashLoopBackOff
    Differs: the gates that a version does not know are passed over.
    """
    initial_s, max_s = _INITIAL_S, _MAX_S
    if facts.restart_decay_gate and gates.get("ReduceDefaultCrashLoopBackOffDecay") is True:
        initial_s, max_s = _REDUCED_INITIAL_S, _REDUCED_MAX_S
    initial_ns, max_ns = initial_s * NS_PER_S, max_s * NS_PER_S
    default = facts.restart_max_configurable
    if facts.restart_max_gate and gates.get("KubeletCrashLoopBackOffMax", default) is True:
        if configured is None:
            return None
        max_ns = parse_go_duration(configured)
        initial_ns = min(initial_ns, max_ns)
    return BackOffPolicy(initial_ns, max_ns)


def next_back_off(policy: BackOffPolicy, value_ns: int) -> int:
    """Value of an entry after one more start; ``value_ns`` 0 when there is none.

    Source: v1.20.2 vendor/k8s.io/client-go/util/flowcontrol/backoff.go Next
    Differs: when an entry is forgotten is for the caller to say.
    """
    return policy.initial_ns if value_ns == 0 else min(2 * value_ns, policy.max_ns)


def series(policy: BackOffPolicy) -> tuple[int, ...]:
    """All values that an entry can have, in order; an entry that is not there left out."""
    values = [policy.initial_ns]
    while (value := next_back_off(policy, values[-1])) != values[-1] and value > 0:
        values.append(value)
    return tuple(values)
