"""What an importer tells of probes when lines are lost: its own worker is fed with those left.

A tick is told with the container that the log shows to run. A change of a probe's result is told
by the ticks before it, or by a line of its own: before 1.21 only a failed liveness probe has one,
later every change but the success of a liveness probe. Where a tick that led to a change is lost
and its line is not, the change is told without the run; where both are lost it is told when the
ticks that are left reach the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubeledger.ingest.derive.probe_worker import (
    INITIAL,
    Change,
    ProbeWorker,
    probe_spec,
    worker_result,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodListed,
)
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.record import Record

_Key = tuple[str | None, str, str]
_NO_INITIAL = ("1.35", "1.36")
"""Versions that cache nothing for a container that ran before the kubelet."""
_PROBE_KILLS = {"liveness_probe": "liveness", "startup_probe": "startup"}


def probes_reimported(whole: Sequence[Record], kept: set[int]) -> list[Record]:
    """All records of a history but those that are lost, and changes of probes told anew.

    Args:
        whole: the history, in the order of replay.
        kept: seqs of the records that are left.
    """
    return _Teller(whole, kept).tell()


_TOUCHING = (ContainerDied, ContainerKilled, ContainerStarted, ProbeExecuted, ProbeTransitioned)


class _Teller:
    def __init__(self, whole: Sequence[Record], kept: set[int]) -> None:
        self._whole = whole
        self._kept = kept
        self._workers: dict[_Key, ProbeWorker] = {}
        self._running: dict[tuple[str | None, str | None], str] = {}
        self._reported: list[Record] = []
        self._seqs: set[int] = set()
        self._old = self._new = False
        self._epoch_whole = True
        self._since_before: set[str] = set()
        self._touched: set[tuple[str | None, str | None]] = set()
        self._pods_without_add = {
            record.cause
            for record in whole
            if isinstance(record.body, ProbeTransitioned) and record.seq not in kept
        }
        self._specs = {
            record.body.pod_uid: record.body.spec
            for record in whole
            if isinstance(record.body, PodListed) and record.body.spec and record.seq in kept
        }

    def tell(self) -> list[Record]:
        for record in self._whole:
            body = record.body
            is_lost = record.seq not in self._kept or record.seq in self._pods_without_add
            if isinstance(body, _TOUCHING) and is_lost:
                self._touched.add((body.pod_uid, body.container))
            if isinstance(body, KubeletStarted):
                self._begin(record, body)
            if isinstance(body, ProbeTransitioned):
                self._change(record, body)
            elif record.seq in self._kept:
                self._take(record)
        return self._reported

    def _begin(self, record: Record, body: KubeletStarted) -> None:
        """Another process, whose version is known though its first lines are lost."""
        self._workers.clear()
        self._old = (body.kubelet_version or "").startswith(("1.20", "1.21"))
        self._epoch_whole = body.from_start and record.seq in self._kept
        self._since_before = {
            other.body.container_id
            for other in self._whole
            if isinstance(other.body, ContainerStarted) and other.ts_ns < record.ts_ns
        }
        self._new = (body.kubelet_version or "").startswith(_NO_INITIAL)

    def _take(self, record: Record) -> None:
        body = record.body
        if isinstance(body, ContainerKilled) and body.reason in _PROBE_KILLS:
            key = body.pod_uid, body.container or "", _PROBE_KILLS[body.reason]
            if key in self._workers:
                self._workers[key].ends()
        elif isinstance(body, ContainerStarted):
            self._running[body.pod_uid, body.container] = body.container_id
        elif isinstance(body, ContainerDied):
            if self._running.get((body.pod_uid, body.container)) == body.container_id:
                del self._running[body.pod_uid, body.container]
        elif isinstance(body, ProbeExecuted):
            self._tick(record, body)
            return
        self._reported.append(record)

    def _worker(self, body: ProbeExecuted | ProbeTransitioned) -> ProbeWorker:
        key = body.pod_uid, body.container, body.probe_type
        worker = self._workers.get(key)
        if worker is None:
            spec = probe_spec(self._specs.get(body.pod_uid, {}), body.container, body.probe_type)
            worker = self._workers[key] = ProbeWorker(body.container, body.probe_type, spec)
            worker.uncertain = body.probe_type == "readiness" and not self._epoch_whole
        return worker

    def _tick(self, record: Record, body: ProbeExecuted) -> None:
        worker = self._worker(body)
        container_id = self._running.get((body.pod_uid, body.container))
        if not self._notice(worker, container_id) and worker.on_hold:
            worker.probes(None, cached=INITIAL[body.probe_type])
        is_touched = not self._is_untouched(body)
        if is_touched:
            reported = msgspec.structs.replace(body, container_id=worker.container_id)
            record = msgspec.structs.replace(record, body=reported)
        self._reported.append(record)
        result = worker_result(body.result)
        change = worker.tick(result) if result is not None else None
        if change is not None and is_touched:
            self._tell_change(record, body, worker, change)

    def _notice(self, worker: ProbeWorker, container_id: str | None) -> bool:
        """Whether it is another container than the one that was probed last."""
        if container_id is None or container_id == worker.container_id:
            return False
        uncertain = worker.container_id is None and worker.uncertain
        before = self._new and container_id in self._since_before
        cached = None if before else INITIAL[worker.probe_type]
        worker.probes(container_id, cached=cached, uncertain=uncertain)
        return True

    def _change(self, record: Record, body: ProbeTransitioned) -> None:
        """The line of a change, if it has one: it says what no tick told."""
        has_line = body.to_result == "failure" if body.probe_type == "liveness" else not self._old
        is_reported = record.seq in self._kept and record.seq not in self._seqs
        if not is_reported or not (has_line or self._is_untouched(body)):
            return
        worker = self._worker(body)
        self._notice(worker, body.container_id)
        if self._is_untouched(body):
            if worker.cached != body.to_result:
                worker.settle(body.to_result, body.run, body.threshold)
            self._reported.append(record)
            return
        if worker.cached == body.to_result and not worker.uncertain:
            return
        if worker.settle(body.to_result, None, None, is_change=True) is not None:
            reported = msgspec.structs.replace(body, run=None, threshold=None)
            self._reported.append(msgspec.structs.replace(record, cause=None, body=reported))

    def _is_untouched(self, body: ProbeExecuted | ProbeTransitioned) -> bool:
        return (body.pod_uid, body.container) not in self._touched

    def _tell_change(
        self, record: Record, body: ProbeExecuted, worker: ProbeWorker, change: Change
    ) -> None:
        """A tick that is left led to it; its line, if there is one, joins it."""
        before: Any = next((r for r in self._whole if r.cause == record.seq), None)
        is_same = before is not None and isinstance(before.body, ProbeTransitioned)
        is_same = is_same and before.body.to_result == change.after
        seq = before.seq if is_same else 0
        runs = (change.run, before.body.run if is_same else None)
        run = min((each for each in runs if each is not None), default=None)
        self._seqs.add(seq)
        reported = ProbeTransitioned(
            namespace=body.namespace,
            pod=body.pod,
            pod_uid=body.pod_uid,
            container=body.container,
            container_id=worker.container_id,
            probe_type=body.probe_type,
            from_result=change.before,
            to_result=change.after,
            run=run,
            threshold=change.threshold,
            inferred=not is_same or before.seq not in self._kept or before.body.inferred,
        )
        self._reported.append(
            msgspec.structs.replace(
                record,
                seq=seq,
                role=reported.role,
                kind=reported.kind,
                v=reported.v,
                cause=record.seq,
                body=reported,
            )
        )
