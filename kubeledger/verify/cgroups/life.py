"""When the kubelet counts a pod as active, as far as the records tell.

A pod is active from the moment its config source brings it, before it is admitted, until it
has a final phase or all of it is down and it is being deleted. No line tells either moment
exactly, so each life has two spans in which the pod may or may not have counted::

    since .. sure        brought, but perhaps the kubelet had not come to it yet
    sure  .. ending      active
    ending .. ended      its end has begun, and may have been taken down already
"""

from __future__ import annotations

from typing import Final

from kubeledger.lifecycle.reducer import AboutPod
from kubeledger.units import NS_PER_S

__all__ = ["KEPT_NS", "KILLED_NS", "SETTLING_NS", "Life"]

SETTLING_NS: Final = 30 * NS_PER_S
"""After this long the kubelet has come to every pod that a config source brought."""
_LATE_NS: Final = NS_PER_S
"""The kubelet acts on an end within this time of the line that tells of it."""
_RUNNING_MAX: Final = 256
"""So many containers of one pod are remembered where the log tells of no deaths."""
KILLED_NS: Final = 10 * NS_PER_S
"""So long after the last sign of an end the QoS level is written for it."""
_SLOW_NS: Final = 60 * NS_PER_S
"""The same where nothing tells yet that its containers have ended."""
_STRAY_NS: Final = 3600 * NS_PER_S
KEPT_NS: Final = 150 * NS_PER_S
"""How long an ended life is remembered."""


class Life:
    """One stay of a pod in one kubelet process; times in nanoseconds, None while unknown.

    Attributes:
        seq: record that showed it first.
        since, sure, ending, ended: see the module.
        written: writes of the QoS level that its first sync accounts for.
        running: ID of each container that runs, the sandbox's included -> name, if known.
        signed: the last sign of its end.
        rejected: the kubelet refused it, so there is nothing to take down.
        killed: its end was the kubelet's own doing, or asked for from outside.
        returned: it had ended in a former process, and it is not known whether it counts again.
        told: when it was first told of; it may have come before where no line told of that.
        vague: only lines tell of it that do not say when it came, and may come late.
        synced: its first sync was over by then, for a container of it had started.
        until: so long its containers may take to end, by the grace they were given.
    """

    __slots__ = (
        "ended", "ending", "key", "killed", "name", "namespace", "rejected", "returned", "running",
        "seq", "signed", "since", "sure", "synced", "told", "uid", "until", "vague", "written",
    )  # fmt: skip

    def __init__(self, key: str, seq: int, since: int, body: AboutPod) -> None:
        self.key = key
        self.seq = seq
        self.since = since
        self.sure: int | None = None
        self.ending: int | None = None
        self.ended: int | None = None
        self.uid = body.pod_uid
        self.namespace = body.namespace
        self.name = body.pod
        self.written = 0
        self.running: dict[str, str | None] = {}
        self.killed = False
        self.returned = False
        self.rejected = False
        self.signed = 0
        self.told = since
        self.vague = False
        self.until = 0
        self.synced: int | None = None

    def may_count(self, start: int, end: int) -> bool:
        """Whether it can have been active at some instant of a span."""
        return self.since <= end and (self.ended is None or self.ended >= start)

    def must_count(self, start: int, end: int) -> bool:
        """Whether it was active through the whole of a span."""
        sure = self.since + SETTLING_NS if self.sure is None else self.sure
        return not self.vague and sure <= start and (self.ending is None or self.ending > end)

    def run(self, container_id: str, name: str | None) -> None:
        """A container runs; an earlier one of the same name does not any more."""
        if name is not None:
            for other in [i for i, of in self.running.items() if of == name]:
                del self.running[other]
        self.running[container_id] = name
        if len(self.running) > _RUNNING_MAX:
            del self.running[next(iter(self.running))]

    def goes_down(self, ts_ns: int) -> bool:
        """Whether it may be being taken down at a time, or has just been."""
        if self.ending is None or self.ending > ts_ns:
            return False
        signed = self.signed + (_SLOW_NS if self.running else KILLED_NS)
        return self.ended is None or max(signed, self.until) >= ts_ns

    def over_since(self, ts_ns: int) -> bool:
        """Whether it is over so long that nothing asks for it, or nobody ever listed it."""
        if self.ended is None:
            return self.vague and max(self.signed, self.told) < ts_ns - _STRAY_NS
        return max(self.ended, self.until) < ts_ns - KEPT_NS

    def begin_end(self, ts_ns: int, began: int | None = None) -> None:
        """A sign that its end has begun, perhaps before."""
        self.signed = max(self.signed, ts_ns)
        if self.ending is None:
            self.ending = ts_ns if began is None else began

    def finish(self, ts_ns: int, began: int | None = None) -> None:
        """It is over by then."""
        self.begin_end(ts_ns, began)
        if self.ended is None:
            self.ended = ts_ns + _LATE_NS
