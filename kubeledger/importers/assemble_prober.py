"""Probes: every tick the log holds, and every change of a cached result they led to.

A change is logged (``SyncLoop (probe)``, without the container's name; in 1.20 only a failed
liveness probe, as ``container unhealthy``) or follows from ticks and thresholds by replaying
the worker (``probe_worker``). Both together are one fact: a change told by a tick waits for
its line. A line that no tick explains is the initial value of a new container, which is no
change, or the failure of a container that was found not running.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from kubeledger.importers.assembler import Assembler, FreeTextHandler, StructuredHandler
from kubeledger.importers.context import BundleContext
from kubeledger.importers.facts import Fact, Facts
from kubeledger.importers.harmless import harmless, harmless_free
from kubeledger.importers.holdback import Waiting
from kubeledger.importers.items import LogLine
from kubeledger.importers.links import PodLink
from kubeledger.importers.podref import (
    FORMATTED_POD,
    PodRef,
    formatted_pod,
    structured_pod,
    text_value,
)
from kubeledger.importers.probe_lines import TICK_MESSAGES, Tick, handler_of, tick_of_text
from kubeledger.importers.probe_worker import (
    INITIAL,
    Change,
    ProbeWorker,
    probe_spec,
    worker_result,
)
from kubeledger.prober.records import (
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
)
from kubeledger.units import NS_PER_S

__all__ = ["ProberAssembler"]

_TICK = re.compile(
    rf'(?P<type>Liveness|Readiness|Startup) probe for "(?P<pod>{FORMATTED_POD}):'
    r'(?P<container>[^"]+)" (?P<outcome>succeeded|failed|errored)(?P<rest>.*)',
    re.DOTALL,
)
_EXEC = re.compile(r"Exec-Probe Pod: (\S+), Container: (\S+), Command: ")
_UNHEALTHY = re.compile(rf'SyncLoop \(container unhealthy\): "({FORMATTED_POD})"')
_NOT_RUNNING = re.compile(rf"Non-running container probed: ({FORMATTED_POD}) - (\S+)")

_HARMLESS = (
    "Failed to trigger a manual run",
    "GRPC-Probe",
    "HTTP-Probe",
    "HTTP-Probe failed to create request",
    "Liveness probe already exists for container",
    "No status for pod",
    "Pod deletion requested before container has fully started",
    "Pod deletion requested, setting probe result to success",
    "Pod is terminated, exiting probe worker",
    "Probe is nil",
    "Probe target container not found",
    "Readiness probe already exists for container",
    "Startup probe already exists for container",
    "TCP-Probe",
    "TCP-Probe failed to resolve port",
    "Triggerd Probe by manual run",
    "Triggered Probe by manual run",
)
_HARMLESS_TEXT = {
    "prober.go": (
        r"HTTP-Probe (?:Host|Headers): ",
        r"TCP-Probe Host: ",
        r"\S+ probe for .* is nil$",
        r"Failed to find probe builder for container: ",
    ),
    "prober_manager.go": (r"(?:Startup|Readiness|Liveness) probe already exists! ",),
    "worker.go": (
        r"Probe target container not found: ",
        r"No status for pod: ",
        r"Pod .*, exiting probe worker$",
    ),
    "kubelet.go": (r"SyncLoop \(container unhealthy\): ignore irrelevant update",),
}

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
_NOT_RUNNING_NS = 5 * NS_PER_S
_RESTART_GRACE_NS = 10 * NS_PER_S
_NO_INITIAL_SINCE = (1, 35)
"""From here on no initial value is set for what ran before the kubelet started."""


class _Pod:
    """The workers of one pod.

    Attributes:
        awaited: changes told by ticks whose line has not come.
        ticks: last tick of each worker, as a cause.
        not_running: container -> when a worker found it not running.
    """

    def __init__(self) -> None:
        self.workers: dict[tuple[str, ProbeType], ProbeWorker] = {}
        self.awaited: list[tuple[ProbeType, ProbeResult, Waiting]] = []
        self.ticks: dict[tuple[str, ProbeType], Fact] = {}
        self.not_running: dict[str, int] = {}
        self.added: Fact | None = None


class ProberAssembler(Assembler):
    """Ticks and transitions."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._links = context.links
        self._epoch = 0
        self._pods: dict[PodLink, _Pod] = {}
        self._execs: set[tuple[str, str]] = set()

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Messages since 1.21."""
        handlers = harmless(_HARMLESS)
        handlers.update(dict.fromkeys(TICK_MESSAGES, self._tick_structured))
        handlers["Exec-Probe runProbe"] = self._exec
        handlers["SyncLoop (probe)"] = self._told
        handlers["SyncLoop (probe): ignore irrelevant update"] = self._told_gone
        handlers["Non-running container probed"] = self._not_running
        return handlers

    def free_text(self) -> Mapping[str, Sequence[tuple[re.Pattern[str], FreeTextHandler]]]:
        """Messages of 1.20 and before."""
        tables = harmless_free(_HARMLESS_TEXT)
        tables["prober.go"] = [(_TICK, self._tick_text), (_EXEC, self._exec_text)] + tables[
            "prober.go"
        ]
        tables["worker.go"].append((_NOT_RUNNING, self._not_running_text))
        tables["kubelet.go"].append((_UNHEALTHY, self._unhealthy_text))
        return tables

    def finish(self, ts_ns: int) -> Facts:
        """What still waited."""
        return self._links.queue.drain()

    def _release(self, line: LogLine) -> list[Fact]:
        return self._links.queue.release(line.ts_ns)

    # -- ticks ----------------------------------------------------------------------------

    def _tick_text(self, line: LogLine, match: re.Match[str]) -> Facts:
        tick = tick_of_text(match)
        ref = formatted_pod(match["pod"])
        if ref is not None:
            self._ticked(line, ref, tick, structured=False)
        return self._release(line)

    def _tick_structured(self, line: LogLine) -> Facts:
        values = line.values or {}
        ref = structured_pod(values.get("pod"), values.get("podUID"))
        probe_type = text_value(line, "probeType").lower()
        result, output_key = TICK_MESSAGES[line.message]
        if ref is not None and probe_type in INITIAL:
            output = None if output_key is None else text_value(line, output_key)
            container = text_value(line, "containerName")
            tick = Tick(probe_type, container, result, output)
            self._ticked(line, ref, tick, structured=True)
        return self._release(line)

    def _exec(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        if ref is not None:
            self._execs.add((ref.name, text_value(line, "containerName")))
        return ()

    def _exec_text(self, line: LogLine, match: re.Match[str]) -> Facts:
        self._execs.add((match[1], match[2]))
        return ()

    def _ticked(self, line: LogLine, ref: PodRef, tick: Tick, *, structured: bool) -> None:
        pod = self._links.pod(self.context, ref, line)
        workers = self._workers(pod)
        worker = self._worker(pod, workers, tick.container, tick.probe_type)
        self._probed_container(pod, worker, line.ts_ns)
        ran_command = (pod.name, tick.container) in self._execs
        self._execs.discard((pod.name, tick.container))
        body = ProbeExecuted(
            namespace=pod.namespace,
            pod=pod.name,
            pod_uid=pod.uid,
            container=tick.container,
            container_id=worker.container_id,
            probe_type=tick.probe_type,
            result=tick.result,
            output=tick.output,
            handler=handler_of(self._spec(pod, tick.container, tick.probe_type), ran_command),
        )
        fact = self._links.queue.add(Fact(line.ts_ns, body, (line.evidence,)))
        workers.ticks[tick.container, tick.probe_type] = fact
        result = worker_result(tick.result)
        change = None if result is None else worker.tick(result)
        if change is not None:
            self._change(pod, worker, change, fact, logged_later=structured)

    def _workers(self, pod: PodLink) -> _Pod:
        """A kubelet restart, and a pod added again, make all its workers new."""
        if self._epoch != self._links.epoch:
            self._epoch = self._links.epoch
            self._pods.clear()
        workers = self._pods.get(pod)
        if workers is None or workers.added is not pod.added:
            workers = self._pods[pod] = _Pod()
            workers.added = pod.added
        return workers

    def _worker(
        self, pod: PodLink, workers: _Pod, container: str, probe_type: ProbeType
    ) -> ProbeWorker:
        worker = workers.workers.get((container, probe_type))
        if worker is None:
            spec = self._spec(pod, container, probe_type)
            worker = ProbeWorker(container, probe_type, spec)
            workers.workers[container, probe_type] = worker
            container_id = self._running_id(pod, container, None)
            if container_id is not None:
                worker.probes(container_id, cached=self._initial(container_id, probe_type))
        return worker

    def _spec(self, pod: PodLink, container: str, probe_type: ProbeType) -> dict[str, Any] | None:
        known = self.context.pods.get(pod.uid or "")
        return None if known is None else probe_spec(known.spec, container, probe_type)

    def _probed_container(self, pod: PodLink, worker: ProbeWorker, ts_ns: int) -> None:
        """Notice a new container: by its ID, or because a worker on hold probes again."""
        container_id = self._running_id(pod, worker.container, ts_ns)
        if container_id is not None and container_id != worker.container_id:
            cached = self._initial(container_id, worker.probe_type)
            if worker.container_id is None and not worker.on_hold and worker.run:
                cached = worker.cached  # the same container, only now known by its ID
            worker.probes(container_id, cached=cached)
        elif worker.on_hold:
            worker.probes(None, cached=INITIAL[worker.probe_type])

    def _running_id(self, pod: PodLink, container: str, ts_ns: int | None) -> str | None:
        """ID of the running container: the PLEG's last, else the only one a status tells."""
        current = pod.current.get(container)
        if current is not None or ts_ns is None:
            return current
        running = [
            container_id
            for container_id, instance in self._links.instances(self.context).items()
            if (instance.pod_uid, instance.container) == (pod.uid, container)
            and (instance.started_ts_ns or ts_ns + 1) <= ts_ns
            and (instance.finished_ts_ns is None or ts_ns <= instance.finished_ts_ns + NS_PER_S)
        ]
        return running[0] if len(running) == 1 else None

    def _initial(self, container_id: str, probe_type: ProbeType) -> ProbeResult | None:
        """The result a worker starts with; None where the kubelet sets none."""
        instance = self._links.instance(self.context, container_id)
        started = None if instance is None else instance.started_ts_ns
        epoch = self._links.epoch_ts_ns
        if started is None or epoch is None or started >= epoch - _RESTART_GRACE_NS:
            return INITIAL[probe_type]
        return None if _version(self.context) >= _NO_INITIAL_SINCE else INITIAL[probe_type]

    # -- changes told by ticks ------------------------------------------------------------

    def _change(
        self,
        pod: PodLink,
        worker: ProbeWorker,
        change: Change,
        tick: Fact | None,
        *,
        logged_later: bool,
        line: LogLine | None = None,
    ) -> None:
        ts_ns = tick.ts_ns if tick is not None else line.ts_ns if line is not None else 0
        evidence = () if tick is None else tick.evidence
        if line is not None and line.evidence not in evidence:
            evidence = (*evidence, line.evidence)
        fact = Fact(ts_ns, _body(pod, worker, change), evidence, cause=tick)
        if change.after == "failure":
            pod.failures[worker.container, worker.probe_type] = fact
        # Since 1.21 all changes are logged but a liveness probe's recovery; before, only
        # the liveness probe's failure.
        told = worker.probe_type != "liveness" if logged_later else False
        told = told or (worker.probe_type == "liveness" and change.after == "failure")
        if not told or (line is not None and not _is_inferred(fact)):
            self._links.queue.add(fact)
            return
        waiting = self._links.queue.hold(fact, _LINE_WAIT_NS)
        self._workers(pod).awaited.append((worker.probe_type, change.after, waiting))

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

    def _unhealthy_text(self, line: LogLine, match: re.Match[str]) -> Facts:
        self._links.sync_loop_turned()
        ref = formatted_pod(match[1])
        if ref is not None:
            self._tell(line, ref, "liveness", "failure")
        return self._release(line)

    def _tell(self, line: LogLine, ref: PodRef, probe_type: ProbeType, result: ProbeResult) -> None:
        pod = self._links.pod(self.context, ref, line)
        workers = self._workers(pod)
        for index, (awaited_type, awaited_result, waiting) in enumerate(workers.awaited):
            if (awaited_type, awaited_result) == (probe_type, result):
                del workers.awaited[index]
                if waiting.fact is not None:
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
        workers: _Pod,
        probe_type: ProbeType,
        result: ProbeResult,
    ) -> None:
        """A line without a change told by ticks: not running, no pod spec, or initial."""
        for worker in workers.workers.values():
            if worker.probe_type != probe_type:
                continue
            tick = workers.ticks.get((worker.container, probe_type))
            recent = tick is not None and line.ts_ns - tick.ts_ns <= _LINE_WAIT_NS
            by_tick = not worker.knows_thresholds and recent and worker.result == result
            found_ns = workers.not_running.get(worker.container)
            stopped = found_ns is not None and line.ts_ns - found_ns <= _NOT_RUNNING_NS
            if not by_tick and not (stopped and result == "failure"):
                continue
            change = worker.settle(result, worker.run if by_tick else None, None)
            if change is not None:
                cause = tick if by_tick else None
                self._change(pod, worker, change, cause, logged_later=True, line=line)
                return

    def _not_running(self, line: LogLine) -> Facts:
        ref = structured_pod((line.values or {}).get("pod"))
        return self._stopped(line, ref, text_value(line, "containerName"), told_later=True)

    def _not_running_text(self, line: LogLine, match: re.Match[str]) -> Facts:
        return self._stopped(line, formatted_pod(match[1]), match[2], told_later=False)

    def _stopped(
        self, line: LogLine, ref: PodRef | None, container: str, *, told_later: bool
    ) -> Facts:
        """The line names no probe type, and every worker of the container writes its own."""
        if ref is None:
            return self._release(line)
        pod = self._links.pod(self.context, ref, line)
        workers = self._workers(pod)
        workers.not_running[container] = line.ts_ns
        candidates = [
            worker
            for worker in workers.workers.values()
            if worker.container == container and not worker.on_hold and worker.cached == "success"
        ]
        if not told_later and len(candidates) == 1:
            change = candidates[0].settle("failure", None, None)
            if change is not None:
                self._change(pod, candidates[0], change, None, logged_later=False, line=line)
        return self._release(line)


def _body(pod: PodLink, worker: ProbeWorker, change: Change) -> ProbeTransitioned:
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
        inferred=True,
    )


def _is_inferred(fact: Fact) -> bool:
    return isinstance(fact.body, ProbeTransitioned) and fact.body.inferred


def _version(context: BundleContext) -> tuple[int, int]:
    match = re.match(r"v?(\d+)\.(\d+)", context.kubelet_version or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)
