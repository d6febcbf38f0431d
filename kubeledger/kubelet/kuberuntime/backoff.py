"""The back-off of containers that are started again and again.

A container has an *entry* from its first start that follows an exited instance on. Each such
start raises it: initial value, doubled, up to a maximum. A start is held back while less
time than the entry's value has passed since the exit of the instance the kubelet looks at.

That instance is the newest *exited* one in the status that the sync began with. A sync that
kills a container and starts it again still has the status from before the kill, so it
looks at the instance before. This is why a container whose probe fails every 30 s is held
back only once its entry is over 30 s, and why its very first restart raises nothing.

An entry expires some time after it was last raised. Housekeeping drops such entries every two
seconds, also while they hold a container back: a container that ran for 590 s is held back
for 10 s at most.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.flowcontrol import Backoff, BackOffPolicy, next_back_off
from kubeledger.kubelet.kuberuntime.objects import EXITED, ContainerStatus
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts
from kubeledger.model.units import NS_PER_S, format_go_duration, parse_go_duration

EXPIRES_AFTER_NS: Final = 600 * NS_PER_S
"""An entry that was not raised for longer is forgotten, in every kubelet that runs: before
1.32, when this was twice the maximum, the maximum was always 300 s."""

_INITIAL_S, _MAX_S = 10, 300
_REDUCED_INITIAL_S, _REDUCED_MAX_S = 1, 60


def back_off_policy(
    facts: KuberuntimeFacts, gates: dict[str, Any], configured: str | None
) -> BackOffPolicy | None:
    """What this kubelet's entries begin and end with.

    Args:
        gates: feature gates that were set.
        configured: ``crashLoopBackOff.maxContainerRestartPeriod`` as a Go duration; None when
            it is not known.

    Returns:
        None when the configured maximum counts and is not known.

    Raises:
        ValueError: the configured maximum is not a duration.

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


def series(policy: BackOffPolicy) -> tuple[int, ...]:
    """All values that an entry can have, in order; an entry that is not there left out."""
    values = [policy.initial_ns]
    while (value := next_back_off(policy, values[-1])) != values[-1] and value > 0:
        values.append(value)
    return tuple(values)


def restart_backoff(policy: BackOffPolicy, facts: KuberuntimeFacts) -> Backoff:
    """Without an entry; what a kubelet process remembers of its containers' starts.

    Keys identify containers. The kubelet's also holds the definition, so that a changed
    container begins without an entry: all of it up to 1.30, name and image from 1.31, image
    and resources from 1.34.

    Args:
        policy: of the process.
    """
    return Backoff(policy, EXPIRES_AFTER_NS if facts.back_off_expires_after_600_s else None)


class BackedOff(msgspec.Struct, frozen=True, gc=False):
    """A start that is held back.

    Attributes:
        value_ns: the back-off.
        until_ns: when it ends.
        message: in the kubelet's words.
    """

    value_ns: int
    until_ns: int
    message: str


def do_back_off(
    backoff: Backoff, key: Hashable, container: str, pod: str, ended_ns: int | None, now_ns: int
) -> BackedOff | None:
    """Hold the start of a container back, or (None) count it.

    Args:
        backoff: the process's entries; a start that may continue raises its entry.
        key: of the container's entry.
        pod: as the kubelet writes it: ``name_namespace(uid)``.
        ended_ns: when the newest exited instance ended; None without one: nothing is counted.
        now_ns: the time.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff; v1.20.2
    Differs: the event is left to the caller.
    """
    if ended_ns is None:
        return None
    if not backoff.is_in_back_off_since(key, ended_ns, now_ns):
        backoff.next(key, ended_ns, now_ns)
        return None
    value_ns = backoff.get(key)
    back_off = format_go_duration(value_ns)
    message = f"back-off {back_off} restarting failed container={container} pod={pod}"
    return BackedOff(value_ns, ended_ns + value_ns, message)


def newest_exited(containers: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    """The instance whose end a back-off counts from.

    Args:
        containers: as the runtime lists them, newest first.
    """
    return next((c for c in containers if c.name == name and c.state == EXITED), None)
