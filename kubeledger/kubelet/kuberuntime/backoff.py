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

from kubeledger.kubelet.kuberuntime.objects import EXITED, ContainerStatus
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts
from kubeledger.model.units import NS_PER_S, format_go_duration, parse_go_duration

EXPIRES_AFTER_NS: Final = 600 * NS_PER_S
"""An entry that was not raised for longer is forgotten, in every kubelet that runs: before
1.32, when this was twice the maximum, the maximum was always 300 s."""

_INITIAL_S, _MAX_S = 10, 300
_REDUCED_INITIAL_S, _REDUCED_MAX_S = 1, 60


class BackOffPolicy(msgspec.Struct, frozen=True):
    """First value of an entry and the greatest one, in nanoseconds."""

    initial_ns: int
    max_ns: int


def back_off_policy(
    facts: KuberuntimeFacts, gates: dict[str, Any], configured: str | None
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


def next_back_off(policy: BackOffPolicy, value_ns: int) -> int:
    """Value of an entry after one more start; ``value_ns`` 0 when there is none.

    Source: v1.20.2 vendor/k8s.io/client-go/util/flowcontrol/backoff.go Next
    Differs: whether the entry has expired is for the caller to say.
    """
    return policy.initial_ns if value_ns == 0 else min(2 * value_ns, policy.max_ns)


def series(policy: BackOffPolicy) -> tuple[int, ...]:
    """All values that an entry can have, in order; an entry that is not there left out."""
    values = [policy.initial_ns]
    while (value := next_back_off(policy, values[-1])) != values[-1] and value > 0:
        values.append(value)
    return tuple(values)


class _Entry(msgspec.Struct, gc=False):
    value_ns: int
    raised_ns: int


class Backoff:
    """The entries of one kubelet process.

    Keys identify containers. The kubelet's also holds the definition, so that a changed
    container begins without an entry: all of it up to 1.30, name and image from 1.31, image
    and resources from 1.34.

    Source: v1.36.2 staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Backoff; v1.20.2
    Differs: the clock is an argument. No jitter: the kubelet asks for none here.
    """

    def __init__(self, policy: BackOffPolicy, facts: KuberuntimeFacts) -> None:
        self._policy = policy
        expires_fixed = facts.back_off_expires_after_600_s
        self._expires_ns = EXPIRES_AFTER_NS if expires_fixed else 2 * policy.max_ns
        self._entries: dict[Hashable, _Entry] = {}

    def get(self, key: Hashable) -> int:
        """Value of an entry in nanoseconds; 0 without one."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.value_ns

    def next(self, key: Hashable, event_ns: int, now_ns: int) -> None:
        """Raise an entry; one that had expired when the event was begins again."""
        entry = self._entries.get(key)
        value_ns = 0 if entry is None or self._has_expired(entry, event_ns) else entry.value_ns
        self._entries[key] = _Entry(next_back_off(self._policy, value_ns), now_ns)

    def is_in_back_off_since(self, key: Hashable, event_ns: int, now_ns: int) -> bool:
        """Whether less time has passed since the event than the entry's value."""
        entry = self._entries.get(key)
        if entry is None or self._has_expired(entry, event_ns):
            return False
        return now_ns - event_ns < entry.value_ns

    def has_expired(self, key: Hashable, event_ns: int) -> bool:
        """Whether there is an entry, and it had expired when the event was."""
        entry = self._entries.get(key)
        return entry is not None and self._has_expired(entry, event_ns)

    def gc(self, now_ns: int) -> None:
        """Drop the entries that have expired."""
        self._entries = {
            key: entry
            for key, entry in self._entries.items()
            if not self._has_expired(entry, now_ns)
        }

    def _has_expired(self, entry: _Entry, event_ns: int) -> bool:
        return event_ns - entry.raised_ns > self._expires_ns


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
        container: its name.
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
        name: of the container.
    """
    return next((c for c in containers if c.name == name and c.state == EXITED), None)
