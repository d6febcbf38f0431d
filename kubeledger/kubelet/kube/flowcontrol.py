"""Back-offs and a rate limit: ``client-go/util/flowcontrol``, with the clock as an argument."""

from __future__ import annotations

import struct
from collections.abc import Hashable, ItemsView
from typing import Final

import msgspec

from kubeledger.model.units import NS_PER_S


class BackOffPolicy(msgspec.Struct, frozen=True):
    """First value of an entry and the greatest one, in nanoseconds."""

    initial_ns: int
    max_ns: int


def next_back_off(policy: BackOffPolicy, value_ns: int) -> int:
    """Value of an entry that is raised; ``value_ns`` 0 when there is none.

    Source: v1.20.2 vendor/k8s.io/client-go/util/flowcontrol/backoff.go Next
    Differs: whether the entry has expired is for the caller to say.
    """
    return policy.initial_ns if value_ns == 0 else min(2 * value_ns, policy.max_ns)


class Entry(msgspec.Struct, gc=False):
    """How long something is held back, and when that was last raised."""

    value_ns: int
    raised_ns: int


class Backoff:
    """The entries of one kubelet process.

    Source: v1.36.2 staging/src/k8s.io/client-go/util/flowcontrol/backoff.go Backoff; v1.20.2
    Differs: the clock is an argument. No jitter: the kubelet asks for none.
    """

    def __init__(self, policy: BackOffPolicy, expires_ns: int | None = None) -> None:
        """Without an entry.

        Args:
            expires_ns: an entry that was not raised for longer begins again; None: twice the
                greatest value.
        """
        self.policy = policy
        self._expires_ns = 2 * policy.max_ns if expires_ns is None else expires_ns
        self._entries: dict[Hashable, Entry] = {}

    def get(self, key: Hashable) -> int:
        """Value of an entry in nanoseconds; 0 without one."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.value_ns

    def entries(self) -> ItemsView[Hashable, Entry]:
        """All entries, also those that have expired and were not dropped yet."""
        return self._entries.items()

    def next(self, key: Hashable, event_ns: int, now_ns: int) -> None:
        """Raise an entry; one that had expired when the event was begins again."""
        entry = self._entries.get(key)
        value_ns = 0 if entry is None or self._has_expired(entry, event_ns) else entry.value_ns
        self._entries[key] = Entry(next_back_off(self.policy, value_ns), now_ns)

    def is_in_back_off_since(self, key: Hashable, event_ns: int, now_ns: int) -> bool:
        """Whether less time has passed since the event than the entry's value."""
        entry = self._entries.get(key)
        if entry is None or self._has_expired(entry, event_ns):
            return False
        return now_ns - event_ns < entry.value_ns

    def is_in_back_off_since_update(self, key: Hashable, now_ns: int) -> bool:
        """Whether less time has passed since the entry was raised than its value."""
        entry = self._entries.get(key)
        if entry is None or self._has_expired(entry, now_ns):
            return False
        return now_ns - entry.raised_ns < entry.value_ns

    def gc(self, now_ns: int) -> None:
        """Drop the entries that have expired."""
        for key in [key for key, each in self._entries.items() if self._has_expired(each, now_ns)]:
            del self._entries[key]

    def _has_expired(self, entry: Entry, event_ns: int) -> bool:
        return event_ns - entry.raised_ns > self._expires_ns


_DURATION_MAX_NS: Final = 2**63 - 1


class TokenBucket:
    """A rate limiter that is asked, and never waits.

    Source: v1.36.2 staging/src/k8s.io/client-go/util/flowcontrol/throttle.go TryAccept,
        golang.org/x/time/rate Limiter.AllowN; v1.20.2
    Differs: the clock is an argument, and does not go back.
    """

    def __init__(self, qps: float, burst: int) -> None:
        """Full, with ``burst`` tokens that come back at ``qps`` a second (as Go's float32)."""
        self._limit: float = struct.unpack("f", struct.pack("f", qps))[0]
        self._burst = burst
        self._tokens = float(burst)
        self._last_ns: int | None = None

    def try_accept(self, now_ns: int) -> bool:
        """Take a token if there is one; a refusal changes nothing."""
        tokens = self._tokens
        if self._last_ns is not None:
            seconds, rest_ns = divmod(now_ns - self._last_ns, NS_PER_S)
            tokens = min(tokens + (seconds + rest_ns / 1e9) * self._limit, float(self._burst))
        tokens -= 1.0
        # Go has a wait in whole nanoseconds: what is short of a token by less is none.
        wait_ns = 0 if tokens >= 0 else self._wait_ns(-tokens)
        if self._burst < 1 or wait_ns > 0:
            return False
        self._tokens, self._last_ns = tokens, now_ns
        return True

    def _wait_ns(self, tokens: float) -> int:
        if self._limit <= 0:
            return _DURATION_MAX_NS
        return int(tokens / self._limit * 1e9)
