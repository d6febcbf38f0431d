"""Probes: every tick the log holds, and every change of a cached result they led to.

A change is logged (``SyncLoop (probe)``, without the container's name; in 1.20 only a failed
liveness probe, as ``container unhealthy``) or follows from ticks and thresholds by replaying
the worker (``probe_worker``). Both together are one fact: a change told by a tick waits for
its line. A line that no tick explains is the initial value of a new container, which is no
change, or the failure of a container that was found not running.

A log that leaves out successful ticks (``-v=2`` and less) has the lines only. Then what is
cached for each container of the pod with such a probe tells which of them a line means
(``probe_told``). Where it may mean several no transition is recorded: the lines of that pod
and probe type are counted, and a finding at the end says how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, StructuredHandler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.links import PodLink
from kubeledger.ingest.derive.probe_told import ToldResults
from kubeledger.ingest.derive.probe_worker import (
    INITIAL,
    Change,
    ProbeWorker,
    worker_result,
)
from kubeledger.ingest.derive.probe_workers import PodWorkers, ProbeWorkers
from kubeledger.ingest.messages.podref import (
    PodRef,
    structured_pod,
    text_value,
)
from kubeledger.ingest.messages.probe_lines import (
    TICK_MESSAGES,
    Tick,
    handler_of,
    result_of,
)
from kubeledger.ingest.sources.facts import Fact, Facts
from kubeledger.ingest.sources.items import LogLine
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.prober import (
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)
from kubeledger.model.units import NS_PER_S

__all__ = ["ProberAssembler"]

_NOT_RUNNING = "Non-running container probed"
_RESULTS: dict[tuple[str, str], ProbeResult] = {
    ("liveness", "unhealthy"): "failure",
    ("readiness", "ready"): "success",
    ("readiness", "not ready"): "failure",
    ("readiness", ""): "failure",
    ("startup", "started"): "success",
    ("startup", "unhealthy"): "failure",
}
_LINE_WAIT_NS = 15 * NS_PER_S
"""The sync loop may be busy (a kill, a preemption) before it logs a change."""
_EVIDENCE_MAX = 10


class ProberAssembler(Assembler):
    """Ticks and transitions."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._workers = ProbeWorkers(context)
        self._execs: set[tuple[str, str]] = set()
        self._open: dict[tuple[PodLink, ProbeType], list[LogLine]] = {}

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21."""
        handlers: dict[str, StructuredHandler] = {}
        for message, (result, output_key) in TICK_MESSAGES.items():
            handlers[message] = partial(self._tick, result=result, output_key=output_key)
        handlers["Exec-Probe runProbe"] = self._exec
        handlers["SyncLoop (probe)"] = self._told
        handlers["SyncLoop (probe): ignore irrelevant update"] = self._told_gone
        handlers[_NOT_RUNNING] = self._not_running
        return handlers

    def finish(self, ts_ns: int) -> Facts:
        """What still waited, and what could not be told."""
        facts = self._links.queue.drain()
        for (pod, probe_type), lines in self._open.items():
            facts.append(_finding(pod, probe_type, lines, ts_ns))
        self._open.clear()
        return facts

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    # -- ticks ----------------------------------------------------------------------------

    def _tick(self, line: LogLine, result: TickResult, output_key: str | None) -> Facts:
        values = line.values or {}
        ref = structured_pod(values.get("pod"), values.get("podUID"))
        probe_type = text_value(line, "probeType").lower()
        result = result_of(result, text_value(line, "probeResult"))
        if ref is not None and probe_type in INITIAL:
            held = output_key is not None and values.get(output_key) is not None
            output = text_value(line, output_key) if output_key and held else None
            container = text_value(line, "containerName")
            tick = Tick(probe_type, container, result, output)
            self._ticked(line, ref, tick)
        return self._release(line)

    def _exec(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        if ref is not None:
            self._execs.add((ref.name, text_value(line, "containerName")))
        return ()

    def _ticked(self, line: LogLine, ref: PodRef, tick: Tick) -> None:
        pod = self._links.pod(self.context, ref, line)
        workers = self._workers.of_pod(pod)
        worker = self._workers.worker(pod, workers, tick.container, tick.probe_type)
        before = workers.ticks.get((tick.container, tick.probe_type))
        if before is not None and before.ts_ns == line.ts_ns:
            return  # the same line again: no worker probes twice in a microsecond
        self._workers.notice_container(pod, worker, line.ts_ns)
        ran_command = (pod.name, tick.container) in self._execs
        self._execs.discard((pod.name, tick.container))
        spec = self._workers.spec(pod, tick.container, tick.probe_type)
        # The names are the line's, though its UID may be another pod's: both are evidence.
        body = ProbeExecuted(
            namespace=ref.namespace or pod.namespace,
            pod=ref.name,
            pod_uid=pod.uid,
            container=tick.container,
            container_id=worker.container_id,
            probe_type=tick.probe_type,
            result=tick.result,
            output=tick.output,
            handler=handler_of(spec, ran_command),
        )
        fact = self._links.queue.add(Fact(line.ts_ns, body, (line.evidence,)))
        workers.ticks[tick.container, tick.probe_type] = fact
        result = worker_result(tick.result)
        if result == "success":
            self._workers.successes_logged = True
        worker.passes(line.ts_ns, all_logged=self._workers.successes_logged)
        if self._workers.successes_logged:
            worker.pushes = False
        change = None if result is None else worker.tick(result)
        if change is not None:
            told = _is_told(tick.probe_type, change.after, line)
            self._change(pod, worker, change, fact, line=line, inferred=True, told_later=told)

    # -- changes told by ticks ------------------------------------------------------------

    def _change(
        self,
        pod: PodLink,
        worker: ProbeWorker,
        change: Change,
        tick: Fact | None,
        *,
        line: LogLine,
        inferred: bool,
        told_later: bool = False,
    ) -> None:
        ts_ns = line.ts_ns if tick is None else tick.ts_ns
        evidence = (line.evidence,) if tick is None else tick.evidence
        body = _body(pod, worker, change, inferred=inferred)
        fact = Fact(ts_ns, body, evidence, cause=tick)
        if line.evidence not in evidence:
            fact.evidence = (*evidence, line.evidence)
        if change.after == "failure":
            pod.failures[worker.container, worker.probe_type] = fact
        if told_later:
            waiting = self._links.queue.hold(fact, _LINE_WAIT_NS)
            self._workers.of_pod(pod).awaited.append((worker.probe_type, change.after, waiting))
        else:
            self._links.queue.add(fact)

    # -- changes told by lines ------------------------------------------------------------

    def _told(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        return self._updated(line, ref)

    def _told_gone(self, line: LogLine) -> Facts:
        update = (line.values or {}).get("update")
        uid = update.get("PodUID") if isinstance(update, dict) else None
        pod = self._links.pod_by_uid(self.context, str(uid)) if uid else None
        ref = None if pod is None else PodRef(pod.namespace, pod.name, pod.uid)
        return self._updated(line, ref)

    def _updated(self, line: LogLine, ref: PodRef | None) -> Facts:
        self._links.sync_loop_turned()
        probe = text_value(line, "probe")
        result = _RESULTS.get((probe, text_value(line, "status")))
        if ref is not None and result is not None:
            self._tell(line, ref, cast(ProbeType, probe), result)
        return self._release(line)

    def _tell(self, line: LogLine, ref: PodRef, probe_type: ProbeType, result: ProbeResult) -> None:
        pod = self._links.pod(self.context, ref, line)
        workers = self._workers.of_pod(pod)
        waiting = workers.take_awaited(probe_type, result, line.ts_ns)
        if waiting is not None and waiting.fact is not None:
            assert isinstance(waiting.fact.body, ProbeTransitioned)
            waiting.fact.body = msgspec.structs.replace(waiting.fact.body, inferred=False)
            waiting.join(line.evidence)
            waiting.settle()
            return
        self._explain(line, pod, workers, probe_type, result)

    def _explain(
        self,
        line: LogLine,
        pod: PodLink,
        workers: PodWorkers,
        probe_type: ProbeType,
        result: ProbeResult,
    ) -> None:
        """A line without a change told by ticks: not running, no pod spec, lost, or initial."""
        for worker, tick, run, ticked in workers.meant(probe_type, result, line.ts_ns):
            change = worker.settle(result, worker.run if ticked else None, None, told=True)
            if change is not None:
                change = change._replace(run=run)
                self._change(pod, worker, change, tick, line=line, inferred=False)
                return
        if result == "success" and not workers.has_success(probe_type, line.ts_ns - _LINE_WAIT_NS):
            self._workers.successes_logged = False
        # Liveness has no initial value that is told: a failure is a change, its tick lost.
        if (probe_type, result) == ("liveness", "failure") or not self._workers.successes_logged:
            self._find(line, pod, probe_type, result)

    def _find(
        self, line: LogLine, pod: PodLink, probe_type: ProbeType, result: ProbeResult
    ) -> None:
        """Find out which container a line means in a log without successful ticks."""
        workers = self._workers.all_of(pod, probe_type, line.ts_ns)
        told = self._workers.of_pod(pod).told.setdefault(probe_type, ToldResults(probe_type))
        found = told.tell(workers, result)
        if found.ambiguous:
            self._open.setdefault((pod, probe_type), []).append(line)
        elif found.worker is not None and found.change is not None:
            self._change(pod, found.worker, found.change, None, line=line, inferred=False)

    def _not_running(self, line: LogLine) -> Facts:
        """The line names no probe type, and every worker of the container writes its own."""
        ref = structured_pod((line.values or {}).get("pod"))
        container = text_value(line, "containerName")
        if ref is None:
            return self._release(line)
        pod = self._links.pod(self.context, ref, line)
        workers = self._workers.of_pod(pod)
        workers.not_running[container] = line.ts_ns
        candidates = [
            worker
            for worker in workers.workers.values()
            if worker.container == container and not worker.on_hold and worker.cached == "success"
        ]
        if not _is_structured(line) and len(candidates) == 1:
            change = candidates[0].settle("failure", None, None)
            if change is not None:
                told = _is_told(candidates[0].probe_type, "failure", line)
                self._change(
                    pod, candidates[0], change, None, line=line, inferred=True, told_later=told
                )
        return self._release(line)


def _finding(pod: PodLink, probe_type: ProbeType, lines: list[LogLine], ts_ns: int) -> Fact:
    message = (
        f"{probe_type} results of pod {pod.namespace}/{pod.name} changed without a container's"
        f" name in {len(lines)} line(s); it cannot be told which, so no transition is recorded"
    )
    first = lines[0]
    body = FindingReported(finding="probe_not_attributed", file=first.source, message=message)
    return Fact(ts_ns, body, tuple(line.evidence for line in lines[:_EVIDENCE_MAX]))


def _is_told(probe_type: ProbeType, after: ProbeResult, line: LogLine) -> bool:
    """Whether the sync loop logs such a change: before 1.21 only a failed liveness probe."""
    if probe_type == "liveness":
        return after == "failure"
    return _is_structured(line)


def _is_structured(line: LogLine) -> bool:
    """The line has the words of 1.21 or later."""
    return line.message in (*TICK_MESSAGES, _NOT_RUNNING)


def _body(
    pod: PodLink, worker: ProbeWorker, change: Change, *, inferred: bool
) -> ProbeTransitioned:
    return ProbeTransitioned(
        namespace=pod.namespace,
        pod=pod.name,
        pod_uid=pod.uid,
        container=worker.container,
        container_id=worker.container_id,
        probe_type=worker.probe_type,
        from_result=change.before,
        to_result=change.after,
        run=change.run,
        threshold=change.threshold,
        inferred=inferred,
    )
