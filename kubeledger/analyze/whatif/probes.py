"""Probes under a variant: transitions, kills and restarts, from the ticks that were recorded.

Of each container whose probe would differ, the worker that ran and the one that would
have run count the same ticks (:mod:`kubeledger.analyze.whatif.twin`). A container that would not
have been killed, or earlier, diverges from there on: what the records say of it later
is not what would have been observed. Readiness leaves the container alone, so its ticks continue.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.analyze.whatif.probed import Ahead, ProbedTwin, no_restart
from kubeledger.kubelet.prober.objects import ProbeSpec
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodTerminated,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import ClockStepped, KubeletStarted, SettingsObserved
from kubeledger.model.bodies.prober import (
    PROBE_OF_KILL,
    ProbeExecuted,
    ProbeTicksFolded,
    ProbeTransitioned,
    ProbeType,
)
from kubeledger.model.record import Record
from kubeledger.verify import Finding, ProbeChange, Reader, Variant
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import specs_of

_FIELDS = {
    "failureThreshold": "failure_threshold",
    "initialDelaySeconds": "initial_delay_seconds",
    "periodSeconds": "period_seconds",
    "successThreshold": "success_threshold",
    "timeoutSeconds": "timeout_seconds",
}
"""As the API names them -> of :class:`ProbeSpec`. A grace period is left to verification."""
_SEEN = frozenset(
    {
        ClockStepped, ContainerDied, ContainerKilled, ContainerRestarted, ContainerStarted,
        KubeletStarted, PodConfigChanged, PodTerminated, ProbeExecuted, ProbeTicksFolded,
        ProbeTransitioned, RestartBackedOff, SettingsObserved,
    }
)  # fmt: skip


class _ProbedContainer(msgspec.Struct):
    """A container whose probes would differ.

    Attributes:
        twins: by type of probe.
        container_id: the instance that runs; None when not known.
        since: seq of the first change after which the container diverges from its recorded history.
        in_chain: the present instance would have ended at another time, or perhaps: that is one
            change with the kill and the restart that follow; ``chain_since`` was ``since`` before.
        spared: seq of the kill that would not have come, until the restart that followed.
    """

    pod_uid: str | None
    twins: dict[ProbeType, ProbedTwin]
    container_id: str | None = None
    since: int | None = None
    in_chain: bool = False
    chain_since: int | None = None
    spared: int | None = None

    def diverge(self, seq: int) -> None:
        """From that record on the container would have diverged."""
        if not self.in_chain:
            self.in_chain, self.chain_since = True, self.since
        self.since = seq if self.since is None else self.since

    @property
    def doubt(self) -> int | None:
        """Seq of the change that the present instance's own end follows."""
        return self.chain_since if self.in_chain else self.since


class Probes:
    """What probes would have decided.

    Attributes:
        rulings: seq of a recorded decision -> the finding that takes the place of
            verification's.
        added: decisions that are not recorded, or cannot be decided, in the order of replay.
        since: seq of a decision about such a container -> seq of the change after which it
            lies.
    """

    def __init__(self, read: Reader, variant: Variant) -> None:
        """Reads all records, twice, if any probe would differ."""
        self.rulings: dict[int, Finding] = {}
        self.added: list[Finding] = []
        self.since: dict[int, int] = {}
        self._changes = [change for change in variant.probes if change.field in _FIELDS]
        self._containers: dict[tuple[str, str, str], _ProbedContainer | None] = {}
        self._fresh: set[tuple[str, str]] = set()
        self._context = VerifyContext(variant)
        self._successes_logged = False
        if self._changes:
            for record in read({kind.kind for kind in VerifyContext.KINDS}):
                self._context.prescan(record)
            self._context.settle()
            self._read_all(read)

    def _read_all(self, read: Reader) -> None:
        for record in read(None):
            if type(record.body) in _SEEN:
                self._see(record)
        for probed, twin in self._twins():
            self._settle(probed, twin)
        self.added.sort(key=lambda finding: (finding.ts_ns, finding.seq))

    def _twins(self) -> Iterator[tuple[_ProbedContainer, ProbedTwin]]:
        for probed in filter(None, self._containers.values()):
            for twin in probed.twins.values():
                yield probed, twin

    def _see(self, record: Record) -> None:
        body = record.body
        if isinstance(body, KubeletStarted | SettingsObserved):
            self._context.observe(record)
            if isinstance(body, KubeletStarted):
                self._kubelet_started()
        elif isinstance(body, ClockStepped):
            for _, twin in self._twins():
                twin.lose(same=False)
        elif isinstance(body, PodConfigChanged | PodTerminated):
            if isinstance(body, PodTerminated) or body.operation == "ADD":
                self._pod_came_or_went(body)
        elif isinstance(body, ProbeTicksFolded):
            tick = body.tick()
            probed = self._container(tick, record.ts_ns)
            self._successes_logged |= body.result == "success"
            if probed is not None and body.probe_type in probed.twins:
                for number in range(body.count):
                    ts_ns = body.first_ts_ns + number * body.period_ns
                    self._ticked(msgspec.structs.replace(record, ts_ns=ts_ns), tick, probed)
        else:
            self._of_container(record)

    def _of_container(self, record: Record) -> None:
        body = record.body
        probed = self._container(body, record.ts_ns)
        if isinstance(body, ProbeExecuted):
            self._successes_logged |= body.result == "success"
        if probed is None:
            return
        if isinstance(body, ProbeExecuted):
            self._ticked(record, body, probed)
        elif isinstance(body, ContainerStarted):
            self._started(probed, body.container_id, record.ts_ns)
        elif isinstance(body, ContainerDied):
            for twin in probed.twins.values():
                twin.has_ended = True
        elif record.role == "decision":
            if probed.since is not None:
                self.since[record.seq] = probed.since
            if isinstance(body, ProbeTransitioned):
                self._transitioned(record, body, probed)
            elif isinstance(body, ContainerKilled):
                self._killed(record, body, probed)
            elif isinstance(body, ContainerRestarted | RestartBackedOff):
                self._follows(record, probed)

    @property
    def own(self) -> frozenset[int]:
        """Seqs of the decisions that are ruled or added here."""
        return frozenset(self.rulings) | {finding.seq for finding in self.added}

    # -- who it is about -------------------------------------------------------------------

    def _container(self, body: object, ts_ns: int) -> _ProbedContainer | None:
        container = getattr(body, "container", None)
        if not isinstance(container, str):
            return None
        namespace, pod = str(getattr(body, "namespace", "")), str(getattr(body, "pod", ""))
        uid = getattr(body, "pod_uid", None)
        key = namespace, pod, container
        if key not in self._containers or (
            (known := self._containers[key]) is not None
            and uid is not None
            and known.pod_uid not in (None, uid)
        ):
            self._containers[key] = self._new_container(namespace, pod, container, uid, ts_ns)
        probed = self._containers[key]
        if probed is not None and probed.pod_uid is None:
            probed.pod_uid = uid
        return probed

    def _new_container(
        self, namespace: str, pod: str, container: str, uid: str | None, ts_ns: int
    ) -> _ProbedContainer | None:
        about = [c for c in self._changes if c.is_of(namespace, pod, container)]
        pods = self._context.pods
        specs = specs_of(pods, pods.at(ts_ns, uid, namespace, pod)) if about else ""
        entry = None if isinstance(specs, str) else specs[0].container(container)
        profile = self._context.profile
        if entry is None or profile is None:
            return None
        twins: dict[ProbeType, ProbedTwin] = {}
        for probe_type in dict.fromkeys(change.probe_type for change in about):
            probe = entry.probe(probe_type)
            would = None if probe is None else _changed(probe, about, probe_type)
            if probe is not None and would is not None and would != probe:
                subject = f"container/{namespace}/{pod}/{container}"
                twin = ProbedTwin(subject, probe_type, profile.prober, probe, would)
                if (namespace, pod) in self._fresh:
                    twin.begin()
                twins[probe_type] = twin
        return _ProbedContainer(uid, twins) if twins else None

    def _kubelet_started(self) -> None:
        self._successes_logged = False
        self._fresh.clear()
        for probed, twin in self._twins():
            self._settle(probed, twin)
            twin.kubelet_started()

    def _pod_came_or_went(self, body: PodConfigChanged | PodTerminated) -> None:
        """Its workers are new ones: those of a pod that goes have ended."""
        name = body.namespace, body.pod
        if isinstance(body, PodConfigChanged):
            self._fresh.add(name)
        for key in [key for key in self._containers if key[:2] == name]:
            probed = self._containers[key]
            if isinstance(body, PodTerminated) and probed is not None:
                for twin in probed.twins.values():
                    self._settle(probed, twin)
            if isinstance(body, PodTerminated) or probed is None or probed.pod_uid != body.pod_uid:
                del self._containers[key]

    # -- what happened ---------------------------------------------------------------------

    def _started(self, probed: _ProbedContainer, container_id: str | None, ts_ns: int) -> None:
        if container_id is None or container_id == probed.container_id:
            return
        for twin in probed.twins.values():
            self._settle(probed, twin)
            if probed.container_id is not None:
                twin.follow(ts_ns)
            else:
                twin.started_ns = ts_ns
        probed.container_id = container_id
        probed.in_chain = probed.spared is not None

    def _ticked(self, record: Record, body: ProbeExecuted, probed: _ProbedContainer) -> None:
        if body.container_id is not None and probed.container_id is None:
            probed.container_id = body.container_id
        elif body.container_id not in (None, probed.container_id):
            self._started(probed, body.container_id, record.ts_ns)
        twin = probed.twins.get(body.probe_type)
        if twin is None:
            return
        self._no_record(probed, twin)
        twin.tick(record, body, successes_logged=self._successes_logged)
        if twin.is_undecidable and not twin.is_reported:
            twin.is_reported = True
            self._open(probed, twin, record)

    def _no_record(self, probed: _ProbedContainer, twin: ProbedTwin) -> None:
        """No record shows a change at the tick before."""
        tick = twin.awaited
        if tick is None:
            return
        would = twin.resolve(None)
        if len(would) > 1 and not twin.is_reported:
            twin.is_reported = True
            self._open(probed, twin, tick)
        (result, *others) = would
        if others or result is None:
            return
        self._add_ahead(twin)
        if twin.ends_container(result):
            probed.diverge(tick.seq)
        twin.ahead = Ahead(tick, result, probed.doubt)

    def _open(self, probed: _ProbedContainer, twin: ProbedTwin, tick: Record) -> None:
        """Whether the probe would have changed its result then is undecided."""
        if twin.probe_type != "readiness":
            probed.diverge(tick.seq)
        self._add(twin.undecided(tick), probed.doubt)

    def _settle(self, probed: _ProbedContainer, twin: ProbedTwin) -> None:
        """Its container has ended, or the records have."""
        self._no_record(probed, twin)
        self._add_ahead(twin)

    def _add_ahead(self, twin: ProbedTwin) -> None:
        """What would have been decided, and was not at any time."""
        ahead, twin.ahead = twin.ahead, None
        for finding in twin.additions(ahead) if ahead is not None else ():
            self._add(finding, ahead.since if ahead is not None else None)

    def _add(self, finding: Finding, since: int | None) -> None:
        self.added.append(finding)
        if since is not None:
            self.since[finding.seq] = since

    # -- what was decided ------------------------------------------------------------------

    def _transitioned(
        self, record: Record, body: ProbeTransitioned, probed: _ProbedContainer
    ) -> None:
        twin = probed.twins.get(body.probe_type)
        if twin is None:
            return
        if twin.is_undecidable:
            self._rule(record, twin.unruled(record), probed)
            return
        if not twin.is_meant(record, body):
            self._no_record(probed, twin)
            if twin.has_ended and body.to_result == "failure":
                twin.put(body.to_result)  # nothing was probed: the container had ended
                return
            twin.unlogged(record, body)
        would, ahead = twin.resolve(body.to_result), twin.ahead
        if len(would) == 1 and would != {None}:
            self._add_ahead(twin)
            return
        ends = twin.ends_container(body.to_result) or body.probe_type == "startup"
        if ends:
            probed.diverge(record.seq)
        if len(would) > 1:
            self._rule(record, twin.unruled(record), probed)
        elif ahead is not None and ahead.to_result == body.to_result:
            twin.ahead, twin.early = None, ahead
            self._rule(record, twin.earlier(record, ahead), probed)
        else:
            self._add_ahead(twin)
            self._rule(record, twin.not_reached(record, body), probed)

    def _rule(self, record: Record, finding: Finding, probed: _ProbedContainer) -> None:
        self.rulings[record.seq] = finding
        self.since.pop(record.seq, None)
        if probed.doubt is not None:
            self.since[record.seq] = probed.doubt

    def _killed(self, record: Record, body: ContainerKilled, probed: _ProbedContainer) -> None:
        probe_type = PROBE_OF_KILL.get(body.reason)
        twin = None if probe_type is None else probed.twins.get(probe_type)
        if twin is None:
            return
        self._no_record(probed, twin)
        finding = twin.judge_kill(record)
        if finding is None:
            return
        probed.diverge(record.seq)
        if finding.verdict == "impossible" and finding.expected is None:
            probed.spared = record.seq
        self._rule(record, finding, probed)

    def _follows(self, record: Record, probed: _ProbedContainer) -> None:
        """A restart, or one that was held back, after a kill that would not have come."""
        if probed.spared is None:
            return
        self._rule(record, no_restart(record, probed.spared), probed)
        if isinstance(record.body, ContainerRestarted):
            probed.spared, probed.in_chain = None, False


def _changed(probe: ProbeSpec, changes: list[ProbeChange], probe_type: ProbeType) -> ProbeSpec:
    values = {_FIELDS[c.field]: c.value for c in changes if c.probe_type == probe_type}
    return msgspec.structs.replace(probe, **values)
