"""Ends that no line shows: pods that end by themselves, and those that a process leaves out.

Whether the containers of a pod are started again, as far as its lists show.

Since 1.34 (gate ContainerRestartRules) a container may have a restart policy of its own. Whether
the gate is on is not asked: where policies differ, each may count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubeledger.kubelet.kube.restartpolicy import ALWAYS, NEVER, ON_FAILURE, policy_restarts
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.history_entries import HistoryEntry
from kubeledger.verify.evidence.pod_intervals import PodActiveInterval
from kubeledger.verify.evidence.pods import ListedPod
from kubeledger.verify.evidence.processes import Processes
from kubeledger.verify.evidence.times import ROUND_NS


class Restarting:
    """What is known of the restarts of one pod's containers.

    Attributes:
        names: of its containers; None when no list shows them.
    """

    def __init__(self, listed: ListedPod | None, policy: str | None = None) -> None:
        """``policy``: of the pod, where no list shows it and something else says."""
        spec = next(iter(versions_of(() if listed is None else (listed,))), None)
        self._policy = policy if spec is None else spec.restart_policy
        inits, own = ((), ()) if spec is None else (spec.spec.init_containers, spec.spec.containers)
        self._inits = {each.name: each for each in inits or ()}
        self._own = {each.name: each for each in own or ()}
        self.names = None if spec is None else tuple(self._own)

    @property
    def always(self) -> bool:
        """Whether all are started again always, so that the pod does not end by itself."""
        each = (*self._inits.values(), *self._own.values())
        return self._policy == ALWAYS and all(c.restart_policy in (None, ALWAYS) for c in each)

    def is_init(self, name: str) -> bool:
        """Whether it is one of the initialization, a sidecar among them."""
        return name in self._inits

    @property
    def has_sidecars(self) -> bool:
        """Whether containers of it end after all others."""
        return any(each.restart_policy == ALWAYS for each in self._inits.values())

    def again(self, name: str, exit_code: int | None) -> bool | None:
        """Whether a container that ended is started again; None when it is not known."""
        policies, has_rules = self._policies(name)
        answers = {_restarts(policy, exit_code) for policy in policies}
        if has_rules and answers != {True}:
            return None
        return answers.pop() if len(answers) == 1 else None

    def fails(self, name: str) -> bool | None:
        """Whether the pod is over when this container of the initialization failed."""
        policies, has_rules = self._policies(name)
        if NEVER not in policies:
            return False
        return True if len(policies) == 1 and not has_rules else None

    def _policies(self, name: str) -> tuple[set[str | None], bool]:
        own = self._own.get(name) or self._inits.get(name)
        if own is None or own.restart_policy is None:
            return {self._policy}, False
        return {self._policy, own.restart_policy}, bool(own.restart_policy_rules)


def _restarts(policy: str | None, exit_code: int | None) -> bool | None:
    if policy is None or (policy == ON_FAILURE and exit_code is None):
        return None
    return policy_restarts(policy, exit_code or 0)


def ran_out(ends: Mapping[str, HistoryEntry], policy: Restarting) -> bool:
    """Whether a pod has ended, as none of its containers is started again.

    Args:
        ends: container -> its last death; all that started are among them.
        policy: of the pod.
    """
    if policy.always or policy.has_sidecars:
        return False
    failed = [n for n, entry in ends.items() if policy.is_init(n) and entry.number not in (0, None)]
    if any(policy.fails(name) is True for name in failed):
        return True
    own = {name: entry for name, entry in ends.items() if not policy.is_init(name)}
    all_ended = policy.names is not None and own.keys() == set(policy.names)
    return all_ended and all(policy.again(n, entry.number) is False for n, entry in own.items())


def inherited(
    intervals: Sequence[PodActiveInterval], entries: Sequence[HistoryEntry], processes: Processes
) -> Iterator[PodActiveInterval]:
    """A pod's intervals in processes that show nothing of it, though nothing showed its end before.

    Each process is handed all pods again: that line may be lost, or the pod went meanwhile.

    Args:
        intervals: (n,) its other intervals, in order.
        entries: all that is shown of it, in order.
    """
    lasts = {interval.process: interval for interval in intervals}
    last: PodActiveInterval | None = None
    for process in processes.all[min(lasts, default=len(processes.all)) :]:
        if process.number in lasts:
            last = lasts[process.number]
        elif last is not None and last.ending_ns is None and last.admitted is not False:
            gone = next(
                (
                    entry.ts_ns + ROUND_NS
                    for entry in entries
                    if entry.listing is not None and not entry.listing.alive
                    if entry.ts_ns >= process.started_ns
                ),
                None,
            )
            last = msgspec.structs.replace(
                last,
                process=process.number,
                since_ns=process.started_ns,
                add_seq=None,
                sure_ns=None,
                ending_ns=None if gone is None else process.started_ns,
                ended_ns=gone,
                decided_ns=None,
                admitted=None,
                start_time_unknown=True,
            )
            yield last
