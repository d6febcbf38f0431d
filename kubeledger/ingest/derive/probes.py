"""Probes: every tick the log holds, and every change of a cached result they led to.

A change is logged (``SyncLoop (probe)``, without the container's name; in 1.20 only a failed
liveness probe, as ``container unhealthy``) or follows from ticks and thresholds by replaying
the worker (``probe_worker``). Both together are one fact: a change shown by a tick waits for
its line. A line that no tick explains is the initial value of a new container, which is no
change, or the failure of a container that was found not running.

A log that leaves out successful ticks (``-v=2`` and less) has the lines only. Then what is
cached for each container of the pod with such a probe shows which of them a line means
(``probe_worker``). Where it may mean several no transition is recorded: the lines of that pod
and probe type are counted, and a finding at the end says how many.
"""

from __future__ import annotations

from typing import cast

from kubeledger.ingest.correlate.assembler import PodAssembler, about_pod, reads
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.derive.probe_worker import (
    Change,
    ProbeWorker,
    ResultAttribution,
    worker_result,
)
from kubeledger.ingest.derive.probe_workers import PodWorkers, ProbeWorkers
from kubeledger.ingest.messages.containers import TICK_MESSAGES, handler_of, tick_of
from kubeledger.ingest.sources.items import Fact
from kubeledger.kubelet.lifecycle.disputes import Dispute
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeResult, ProbeTransitioned, ProbeType
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

_NOT_RUNNING = "Non-running container probed"
_RESULTS: dict[tuple[str, str], ProbeResult] = {
    ("liveness", "unhealthy"): "failure",
    ("readiness", "ready"): "success",
    ("readiness", "not ready"): "failure",
    ("readiness", ""): "failure",
    ("startup", "started"): "success",
    ("startup", "unhealthy"): "failure",
}
_OF_OTHERS = {(probe, said) for probe, _ in _RESULTS for _, said in _RESULTS if said} - {*_RESULTS}
"""What the sync loop never says of a probe, in any version."""
_SUCCESS_FAILED = regex(r"HTTP probe failed with statuscode: [23]\d\d")
_LINE_WAIT_NS = 15 * NS_PER_S
"""The sync loop may be busy (a kill, a preemption) before it logs a change."""
_EVIDENCE_MAX = 10


class ProbesAssembler(PodAssembler):
    """Ticks and transitions."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._workers = ProbeWorkers(registers)
        self._execs: set[tuple[str, str]] = set()
        self._unattributed: dict[tuple[Pod, ProbeType], list[Entry]] = {}
        self._unbegun: dict[Pod, Entry] = {}

    def end(self, ts_ns: int) -> None:
        """What could not be determined."""
        for pod, entry in self._unbegun.items():
            self.queue.add(_not_begun(pod, entry, ts_ns))
        for (pod, probe_type), entries in self._unattributed.items():
            self.queue.add(_finding(pod, probe_type, entries, ts_ns))

    # -- ticks ----------------------------------------------------------------------------

    @reads("Exec-Probe runProbe")
    def _exec(self, entry: Entry) -> None:
        if entry.pod is not None:
            self._execs.add((entry.pod.name, entry.text("containerName")))

    @reads(*TICK_MESSAGES)
    def _tick(self, entry: Entry) -> None:
        tick, ref = tick_of(entry.message, entry.values), entry.pod
        if tick is None or ref is None:
            return
        pod = self._pods.named(ref, entry)
        workers = self._workers.of_pod(pod)
        worker = self._workers.worker(pod, workers, tick.container, tick.probe_type)
        before = workers.ticks.get((tick.container, tick.probe_type))
        if before is not None and before.ts_ns == entry.ts_ns:
            return  # the same line again: no worker probes twice in a microsecond
        denied = self._workers.notice_container(pod, worker, entry.ts_ns)
        if denied is not None:
            self._containers.of(pod).unhealthy.pop((tick.container, tick.probe_type), None)
            denied.drop()
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
        fact = self.queue.add(shown(entry, body))
        if body.handler == "http" and _SUCCESS_FAILED.fullmatch(tick.output or ""):
            about, why = f"pod/{body.namespace}/{body.pod}", "a probe fails with a code of success"
            dispute = Dispute(about, why, tick.output or "", "that any code from 200 to 399 is one")
            self.queue.add(shown(entry, dispute.in_file(entry.evidence.file)))
        workers.ticks[tick.container, tick.probe_type] = fact
        result = worker_result(tick.result)
        if result == "success":
            self._workers.successes_logged = True
        worker.passes(entry.ts_ns, all_logged=self._workers.successes_logged)
        if self._workers.successes_logged:
            worker.pushes = False
        change = None if result is None else worker.tick(result)
        if change is not None:
            reported = _is_reported(tick.probe_type, change.after, entry)
            self._change(
                pod, worker, change, fact, entry=entry, inferred=True, logged_later=reported
            )

    # -- changes shown by ticks -----------------------------------------------------------

    def _change(
        self,
        pod: Pod,
        worker: ProbeWorker,
        change: Change,
        tick: Fact | None,
        *,
        entry: Entry,
        inferred: bool,
        logged_later: bool = False,
    ) -> None:
        ts_ns = entry.ts_ns if tick is None else tick.ts_ns
        evidence = (entry.evidence,) if tick is None else tick.evidence
        if entry.evidence not in evidence:
            evidence = (*evidence, entry.evidence)
        body = ProbeTransitioned(
            **pod.names,
            container=worker.container,
            container_id=worker.container_id,
            probe_type=worker.probe_type,
            from_result=change.before,
            to_result=change.after,
            run=change.run,
            threshold=change.threshold,
            inferred=inferred,
        )
        fact = Fact(ts_ns, body, evidence, cause=tick)
        if change.after == "failure":
            unhealthy = self._containers.of(pod).unhealthy
            unhealthy[worker.container, worker.probe_type] = fact
        if logged_later:
            waiting = self.queue.hold(fact, _LINE_WAIT_NS)
            self._workers.of_pod(pod).awaited.append((worker.probe_type, change.after, waiting))
        else:
            self.queue.add(fact)

    # -- changes shown by lines -----------------------------------------------------------

    @reads("SyncLoop (probe)", "SyncLoop (probe): ignore irrelevant update")
    def _updated(self, entry: Entry) -> None:
        self._sync_loop.iterated()
        update = entry.values.get("update")
        uid = update.get("PodUID") if isinstance(update, dict) else None
        pod = self._pods.of(entry) or (self._pods.with_uid(str(uid)) if uid else None)
        probe = entry.text("probe")
        result = _RESULTS.get((probe, entry.text("status")))
        if pod is not None and result is not None:
            self._attribute(entry, pod, cast(ProbeType, probe), result)
        elif pod is not None and (probe, entry.text("status")) in _OF_OTHERS:
            said = f"{probe} {entry.text('status')}", f"results that a {probe} probe does not have"
            about = f"pod/{pod.namespace}/{pod.name}"
            dispute = Dispute(about, "a line tells the result of another probe", *said)
            self.queue.add(shown(entry, dispute.in_file(entry.evidence.file)))

    def _attribute(
        self, entry: Entry, pod: Pod, probe_type: ProbeType, result: ProbeResult
    ) -> None:
        workers = self._workers.of_pod(pod)
        waiting = workers.take_awaited(probe_type, result, entry.ts_ns)
        if waiting is not None:
            waiting.learn(inferred=False)
            waiting.join(entry.evidence)
            waiting.settle()
        else:
            self._explain(entry, pod, workers, probe_type, result)

    def _explain(
        self,
        entry: Entry,
        pod: Pod,
        workers: PodWorkers,
        probe_type: ProbeType,
        result: ProbeResult,
    ) -> None:
        """A line without a change shown by ticks: not running, no pod spec, lost, or initial."""
        for worker, tick, run, ticked in workers.meant(probe_type, result, entry.ts_ns):
            change = worker.settle(result, worker.run if ticked else None, None, is_change=True)
            if change is not None:
                change = change._replace(run=run)
                self._change(pod, worker, change, tick, entry=entry, inferred=False)
                return
        denied = workers.denied(probe_type, result, entry.ts_ns)
        if denied is not None:  # what the log says is held against the ticks, not left out
            denied.learn(to_result=result, inferred=False)
            denied.join(entry.evidence)
            denied.settle()
            return
        since_ns = entry.ts_ns - _LINE_WAIT_NS
        if result == "success" and not workers.has_success(probe_type, since_ns):
            self._workers.successes_logged = False
        # Liveness has no initial value that is logged: a failure is a change, its tick lost.
        if (probe_type, result) == ("liveness", "failure") or not self._workers.successes_logged:
            self._find(entry, pod, probe_type, result)

    def _find(self, entry: Entry, pod: Pod, probe_type: ProbeType, result: ProbeResult) -> None:
        """Find out which container a line means in a log without successful ticks."""
        workers = self._workers.all_of(pod, probe_type, entry.ts_ns)
        attribution = self._workers.of_pod(pod).attributions.setdefault(
            probe_type, ResultAttribution(probe_type)
        )
        found = attribution.attribute(workers, result)
        if probe_type == "startup":
            self._unbegun.pop(pod, None)
            if result == "failure" and not workers:
                self._unbegun[pod] = entry
        if found.ambiguous:
            self._unattributed.setdefault((pod, probe_type), []).append(entry)
        elif found.worker is not None and found.change is not None:
            self._change(pod, found.worker, found.change, None, entry=entry, inferred=False)

    @about_pod(_NOT_RUNNING)
    def _stopped(self, entry: Entry, pod: Pod) -> None:
        """The line names no probe type, and every worker of the container writes its own."""
        container = entry.text("containerName")
        workers = self._workers.of_pod(pod)
        workers.not_running[container] = entry.ts_ns
        candidates = [
            worker
            for worker in workers.workers.values()
            if worker.container == container and not worker.on_hold and worker.cached == "success"
        ]
        if _is_structured(entry) or len(candidates) != 1:
            return
        (worker,) = candidates
        change = worker.settle("failure", None, None)
        if change is not None:
            reported = _is_reported(worker.probe_type, "failure", entry)
            self._change(
                pod, worker, change, None, entry=entry, inferred=True, logged_later=reported
            )


def _finding(pod: Pod, probe_type: ProbeType, entries: list[Entry], ts_ns: int) -> Fact:
    message = (
        f"{probe_type} results of pod {pod.namespace}/{pod.name} changed without a container's"
        f" name in {len(entries)} line(s); which one is not known, so no transition is recorded"
    )
    file = entries[0].line.source
    body = FindingReported(finding="probe_not_attributed", file=file, message=message, **pod.names)
    return Fact(ts_ns, body, tuple(entry.evidence for entry in entries[:_EVIDENCE_MAX]))


def _not_begun(pod: Pod, entry: Entry, ts_ns: int) -> Fact:
    """Of a pod without a spec at hand, the newest startup result may be the initial value."""
    message = (
        f"the last startup result of pod {pod.namespace}/{pod.name} is unhealthy; whether a probe"
        " failed or none was made yet is not known"
    )
    body = FindingReported(
        finding="startup_not_passed", file=entry.line.source, message=message, **pod.names
    )
    return Fact(ts_ns, body, (entry.evidence,))


def _is_reported(probe_type: ProbeType, after: ProbeResult, entry: Entry) -> bool:
    """Whether the sync loop logs such a change: before 1.21 only a failed liveness probe."""
    if probe_type == "liveness":
        return after == "failure"
    return _is_structured(entry)


def _is_structured(entry: Entry) -> bool:
    """The line has the words of 1.21 or later."""
    return entry.line.message in (*TICK_MESSAGES, _NOT_RUNNING)
