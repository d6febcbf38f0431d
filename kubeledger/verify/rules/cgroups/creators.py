"""Which kubelet process made a cgroup.

A pod's cgroup is made at the pod's first sync, a container's when it is created, and both
keep what was written then. A later process, with other settings or of another version, finds
them there and leaves them as they are (but for resizes in place).

Source: v1.36.2 pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.processes import Process

__all__ = ["Creators"]

_RELIST_NS: Final = 10 * NS_PER_S
"""So long after its start a process may show containers that ran before it."""
_STATIC_NS: Final = 60 * NS_PER_S
"""A static pod's start time may be that of a process that found it running."""
_TELLS_NS: Final = 60 * NS_PER_S
"""So long after its start a process shows itself, at any verbosity."""


class Creators:
    """Who made the cgroups that snapshots show."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._made_ns: dict[str, int] = {}

    def prescan(self, record: Record, body: CgroupUpdated) -> None:
        """Take in a snapshot of the first reading."""
        if body.level == "pod" and body.pod_uid:
            first_ns = self._made_ns.get(body.pod_uid, record.ts_ns)
            self._made_ns[body.pod_uid] = min(first_ns, record.ts_ns)

    def of_pod(self, key: str, ts_ns: int) -> list[Process | None]:
        """The processes that may have made the cgroup of a pod that a snapshot shows at a time.

        The likeliest comes first; None stands for a process of which nothing is known.
        """
        pod = self._context.timeline.pods.get(key)
        ran = [run.started_ns for run in pod.runs if run.started_ns] if pod is not None else []
        made_ns = min((*ran, self._made_ns.get(key, ts_ns), ts_ns))
        return self._between(self._synced_ns(key), made_ns)

    def of_container(self, of: str, key: str, ts_ns: int) -> list[Process | None]:
        """The same of a container's."""
        timeline = self._context.timeline
        pod = timeline.pods.get(key)
        run = None if pod is None else pod.run(of)
        if run is not None and run.started_ns is not None:
            process = timeline.process(run.started_ns)
            if process is not None and run.started_ns - process.started_ns > _RELIST_NS:
                return [process]
        began = self._context.times.listed_start(of)
        if began is None:
            return self._between(self._synced_ns(key), ts_ns)
        return self._between(*began)

    def _synced_ns(self, key: str) -> int | None:
        """When the first sync of a pod was at the latest; None when no list says."""
        synced_ns = self._context.instances.known_ns(key)
        pod = self._context.timeline.pods.get(key)
        if synced_ns is None or (pod is not None and pod.created_ns is not None):
            return synced_ns
        return synced_ns - _STATIC_NS if self._number(synced_ns) > 0 else synced_ns

    def _between(self, start_ns: int | None, end_ns: int) -> list[Process | None]:
        """The processes that may have run in a span; its start may be in no record."""
        processes, coverage = self._context.timeline.processes.all, self._context.coverage
        first = -1 if start_ns is None else self._number(start_ns)
        last = max(first, self._number(end_ns))
        following = processes[last + 1 : last + 2]
        if following and not following[0].from_start and coverage.silent(end_ns, end_ns):
            last += 1  # nobody knows since when it ran
        found = [processes[n] if n >= 0 else None for n in range(last, first - 1, -1)]
        known_ns = end_ns if start_ns is None else min(start_ns, end_ns)
        logged_ns = processes[-1].started_ns + _TELLS_NS if processes else known_ns
        dark = known_ns > logged_ns and coverage.is_past(known_ns)
        # Behind the end of the log another one may have begun.
        return [*found, None] if dark and None not in found else found

    def _number(self, ts_ns: int) -> int:
        """The process that ran last by a time; -1 for one before those known."""
        return bisect_right(self._context.timeline.processes.all, ts_ns, key=_started_ns) - 1


def _started_ns(process: Process) -> int:
    return process.started_ns
