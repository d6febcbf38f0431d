"""The instances of containers: each from its start to its end, and what ended it.

An instance is one container ID. Its start, its end, kills of it and what lists show are records of
their own; a restart names the instance before. Sandboxes, and IDs that nothing names, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from kubeledger.kubelet.kube.statuses import ShownInstance, instances_in
from kubeledger.model.bodies.eviction import ProcessKilled
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodListed,
)
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.subjects import PodNames

_LATE_NS = 3 * NS_PER_S
"""A relist a second, and whole seconds in lists: what differs by more was seen late."""


class ContainerRun(msgspec.Struct, kw_only=True):
    """One instance of a container.

    Attributes:
        seq, ts_ns: of the record that tells it first.
        restart_count: restarts up to it, as the status counts them; None when no source says.
        previous_container_id: of a restart, the instance before; None where that is not known.
        is_restart: it was started again.
        started_ts_ns: when a line shows that it runs; None: only its end, or a list, shows it.
        listed_ts_ns: when it began by its status, in whole seconds.
        failed: its status shows that its start failed.
        ended_ts_ns: when it was shown to have ended, or ended by its status; None: not known to.
        ended_seq: the record of its end; None where only a status shows it.
        exit_code: None when no source says.
        kills: of the kubelet and the kernel in it.
        ended_by: the kill that ended it; None: nothing, as far as is known.
        ended_for: what that kill goes back to: an eviction, a failed probe, a deletion.
    """

    seq: int
    ts_ns: int
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str
    container_id: str
    restart_count: int | None = None
    previous_container_id: str | None = None
    is_restart: bool = False
    started_ts_ns: int | None = None
    listed_ts_ns: int | None = None
    failed: bool = False
    ended_ts_ns: int | None = None
    ended_seq: int | None = None
    exit_code: int | None = None
    kills: tuple[int, ...] = ()
    ended_by: int | None = None
    ended_for: int | None = None

    @property
    def began(self) -> bool:
        """A line or a status shows that it ran."""
        return self.started_ts_ns is not None or self.listed_ts_ns is not None

    @property
    def shown_ts_ns(self) -> int:
        """When it began: by the line that shows that it runs, unless that came late."""
        seen_ns, listed_ns = self.started_ts_ns, self.listed_ts_ns
        if seen_ns is None or (listed_ns is not None and listed_ns < seen_ns - _LATE_NS):
            return self.since_ts_ns
        return seen_ns

    @property
    def since_ts_ns(self) -> int:
        """When it began, as far as is known."""
        known = [ts for ts in (self.started_ts_ns, self.listed_ts_ns) if ts is not None]
        return min(known, default=self.ts_ns)


class ContainerRuns:
    """The fold over the records of one node."""

    def __init__(self) -> None:
        self._names = PodNames()
        self._runs: dict[str, ContainerRun] = {}
        self._causes: dict[int, int | None] = {}

    def take(self, record: Record) -> None:
        """One more record, in the order of the ledger; kinds that tell nothing change nothing."""
        step = _STEPS.get(type(record.body))
        if step is not None:
            body: Any = record.body
            self._names.key(body.namespace, body.pod, body.pod_uid)
            step(self, record, body)

    def episodes(self) -> list[ContainerRun]:
        """All so far, in the order of their begin."""
        for each in self._runs.values():
            self._names.complete(each)
        return sorted(self._runs.values(), key=lambda each: (each.since_ts_ns, each.seq))

    # What records do ----------------------------------------------------------------------

    def of(
        self, record: Record, container: str | None, container_id: str | None
    ) -> ContainerRun | None:
        """The instance that a record names, made when it is new."""
        if not container or not container_id:
            return None
        known, body = self._runs.get(container_id), cast(Any, record.body)
        if known is None:
            known = self._runs[container_id] = ContainerRun(
                seq=record.seq,
                ts_ns=record.ts_ns,
                namespace=body.namespace,
                pod=body.pod,
                pod_uid=body.pod_uid,
                container=container,
                container_id=container_id,
            )
        return known

    def killed(self, run: ContainerRun, record: Record) -> None:
        """The kubelet killed it, or the kernel a process in it."""
        self._causes[record.seq] = record.cause
        run.kills = (*run.kills, record.seq)
        if record.kind == ContainerKilled.kind:
            self.ended_by(run, record.seq)

    def ended_by(self, run: ContainerRun, seq: int) -> None:
        """The kill that ended it, the last where several were tried."""
        if seq in self._causes:
            run.ended_by, run.ended_for = seq, self._causes[seq]


def _started(runs: ContainerRuns, record: Record, body: ContainerStarted) -> None:
    run = None if body.sandbox else runs.of(record, body.container, body.container_id)
    if run is not None:
        run.started_ts_ns = min(run.started_ts_ns or record.ts_ns, record.ts_ns)


def _restarted(runs: ContainerRuns, record: Record, body: ContainerRestarted) -> None:
    run = runs.of(record, body.container, body.container_id)
    if run is not None:
        run.is_restart = True
        run.previous_container_id = body.previous_container_id
        run.restart_count = body.restart_count
        run.started_ts_ns = min(run.started_ts_ns or record.ts_ns, record.ts_ns)


def _died(runs: ContainerRuns, record: Record, body: ContainerDied) -> None:
    run = None if body.sandbox else runs.of(record, body.container, body.container_id)
    if run is not None and run.ended_seq is None:
        run.ended_ts_ns, run.ended_seq = record.ts_ns, record.seq
        run.exit_code = body.exit_code if body.exit_code is not None else run.exit_code
        if record.cause is not None:
            runs.ended_by(run, record.cause)


def _killed(runs: ContainerRuns, record: Record, body: ContainerKilled | ProcessKilled) -> None:
    run = runs.of(record, body.container, body.container_id)
    if run is not None:
        runs.killed(run, record)


def _listed(runs: ContainerRuns, record: Record, body: PodListed) -> None:
    for listed in instances_in(body.status):
        run = runs.of(record, listed.name, listed.container_id)
        if run is not None:
            _note(run, listed)


def _note(run: ContainerRun, listed: ShownInstance) -> None:
    ended_ns = listed.time("finishedAt")
    run.listed_ts_ns = listed.time("startedAt") or run.listed_ts_ns
    run.failed = run.failed or (ended_ns is not None and not run.began)
    if run.ended_ts_ns is None:
        run.ended_ts_ns = ended_ns
    if run.exit_code is None and isinstance(code := listed.shown.get("exitCode"), int):
        run.exit_code = code
    if run.restart_count is None:
        run.restart_count = listed.restart_count


_STEPS: dict[type[Body], Callable[[ContainerRuns, Record, Any], None]] = {
    ContainerDied: _died,
    ContainerKilled: _killed,
    ContainerRestarted: _restarted,
    ContainerStarted: _started,
    PodListed: _listed,
    ProcessKilled: _killed,
}

KINDS: frozenset[str] = frozenset(body.kind for body in _STEPS)
"""Kinds of records that tell of containers."""


def container_runs(records: Iterable[Record]) -> list[ContainerRun]:
    """What the records of one node add up to, in the order of their begin."""
    runs = ContainerRuns()
    for record in records:
        runs.take(record)
    return runs.episodes()
