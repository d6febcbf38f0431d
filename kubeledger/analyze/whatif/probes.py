"""Probes under a variant: transitions, kills and restarts, from the ticks that were recorded.

Of each container whose probe would differ, the worker that ran and the one that would
have run count the same ticks (:mod:`kubeledger.analyze.whatif.twin`). A container that would not
have been killed, or earlier, lives another life from there on: what the records say of it later
is not what would have been observed. Readiness leaves the container alone, so its ticks go on.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubeledger.analyze.whatif.probe_words import no_restart
from kubeledger.analyze.whatif.probed import ProbedTwin
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
from kubeledger.verify.rules.container_specs import ProbeSpec, specs_of

__all__ = ["Probes"]

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


class _Life(msgspec.Struct):
    """A container whose probes would differ.

    Attributes:
        pod_uid: of the pod it is of.
        twins: by type of probe.
        container_id: the instance that runs; None when not known.
        since: seq of the first change after which the container lives another life.
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

    def parts(self, seq: int) -> None:
        """From that record on the container would have lived another life."""
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
        self._lives: dict[tuple[str, str, str], _Life | None] = {}
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
        for life in self._all():
            for twin in life.twins.values():
                self._settle(life, twin)
        self.added.sort(key=lambda finding: (finding.ts_ns, finding.seq))

    def _all(self) -> Iterator[_Life]:
        return (life for life in self._lives.values() if life is not None)

    def _see(self, record: Record) -> None:
        body = record.body
        if isinstance(body, KubeletStarted | SettingsObserved):
            self._context.observe(record)
            if isinstance(body, KubeletStarted):
                self._kubelet_started()
        elif isinstance(body, ClockStepped):
            for life in self._all():
                for twin in life.twins.values():
                    twin.lose(same=False)
        elif isinstance(body, PodConfigChanged | PodTerminated):
            if isinstance(body, PodTerminated) or body.operation == "ADD":
                self._pod_came_or_went(body)
        elif isinstance(body, ProbeTicksFolded):
            tick = body.tick()
            probed = self._life(tick, record.ts_ns)
            self._successes_logged |= body.result == "success"
            if probed is not None and body.probe_type in probed.twins:
                for number in range(body.count):
                    ts_ns = body.first_ts_ns + number * body.period_ns
                    self._ticked(msgspec.structs.replace(record, ts_ns=ts_ns), tick, probed)
        else:
            self._of_container(record)

    def _of_container(self, record: Record) -> None:
        body = record.body
        life = self._life(body, record.ts_ns)
        if isinstance(body, ProbeExecuted):
            self._successes_logged |= body.result == "success"
        if life is None:
            return
        if isinstance(body, ProbeExecuted):
            self._ticked(record, body, life)
        elif isinstance(body, ContainerStarted):
            self._started(life, body.container_id, record.ts_ns)
        elif isinstance(body, ContainerDied):
            for twin in life.twins.values():
                twin.has_ended = True
        elif record.role == "decision":
            if life.since is not None:
                self.since[record.seq] = life.since
            if isinstance(body, ProbeTransitioned):
                self._transitioned(record, body, life)
            elif isinstance(body, ContainerKilled):
                self._killed(record, body, life)
            elif isinstance(body, ContainerRestarted | RestartBackedOff):
                self._follows(record, life)

    @property
    def own(self) -> frozenset[int]:
        """Seqs of the decisions that are ruled or added here."""
        return frozenset(self.rulings) | {finding.seq for finding in self.added}

    # -- who it is about -------------------------------------------------------------------

    def _life(self, body: object, ts_ns: int) -> _Life | None:
        container = getattr(body, "container", None)
        if not isinstance(container, str):
            return None
        namespace, pod = str(getattr(body, "namespace", "")), str(getattr(body, "pod", ""))
        uid = getattr(body, "pod_uid", None)
        key = namespace, pod, container
        if key not in self._lives or (
            (known := self._lives[key]) is not None
            and uid is not None
            and known.pod_uid not in (None, uid)
        ):
            self._lives[key] = self._new_life(namespace, pod, container, uid, ts_ns)
        life = self._lives[key]
        if life is not None and life.pod_uid is None:
            life.pod_uid = uid
        return life

    def _new_life(
        self, namespace: str, pod: str, container: str, uid: str | None, ts_ns: int
    ) -> _Life | None:
        about = [c for c in self._changes if c.concerns(namespace, pod, container)]
        specs = specs_of(self._context, ts_ns, uid, namespace, pod) if about else ""
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
        return _Life(uid, twins) if twins else None

    def _kubelet_started(self) -> None:
        self._successes_logged = False
        self._fresh.clear()
        for life in self._all():
            for twin in life.twins.values():
                self._settle(life, twin)
                twin.kubelet_started()

    def _pod_came_or_went(self, body: PodConfigChanged | PodTerminated) -> None:
        """Its workers are new ones: those of a pod that goes have ended."""
        name = body.namespace, body.pod
        if isinstance(body, PodConfigChanged):
            self._fresh.add(name)
        for key in [key for key in self._lives if key[:2] == name]:
            life = self._lives[key]
            if isinstance(body, PodTerminated) and life is not None:
                for twin in life.twins.values():
                    self._settle(life, twin)
            if isinstance(body, PodTerminated) or life is None or life.pod_uid != body.pod_uid:
                del self._lives[key]

    # -- what happened ---------------------------------------------------------------------

    def _started(self, life: _Life, container_id: str | None, ts_ns: int) -> None:
        if container_id is None or container_id == life.container_id:
            return
        for twin in life.twins.values():
            self._settle(life, twin)
            if life.container_id is not None:
                twin.follow(ts_ns)
            else:
                twin.started_ns = ts_ns
        life.container_id = container_id
        life.in_chain = life.spared is not None

    def _ticked(self, record: Record, body: ProbeExecuted, life: _Life) -> None:
        if body.container_id is not None and life.container_id is None:
            life.container_id = body.container_id
        elif body.container_id not in (None, life.container_id):
            self._started(life, body.container_id, record.ts_ns)
        twin = life.twins.get(body.probe_type)
        if twin is None:
            return
        self._no_record(life, twin)
        twin.tick(record, body, successes_logged=self._successes_logged)
        if twin.is_undecidable and not twin.told_open:
            twin.told_open = True
            self._open(life, twin, record)

    def _no_record(self, life: _Life, twin: ProbedTwin) -> None:
        """No record shows a change at the tick before."""
        tick = twin.awaited
        if tick is None:
            return
        would = twin.resolve(None)
        if len(would) > 1 and not twin.told_open:
            twin.told_open = True
            self._open(life, twin, tick)
        (result, *others) = would
        if others or result is None:
            return
        self._tell_ahead(twin)
        if twin.ends_container(result):
            life.parts(tick.seq)
        twin.note_ahead(tick, result, life.doubt)

    def _open(self, life: _Life, twin: ProbedTwin, tick: Record) -> None:
        """Whether the probe would have changed its result then is undecided."""
        if twin.probe_type != "readiness":
            life.parts(tick.seq)
        self._add(twin.undecided(tick), life.doubt)

    def _settle(self, life: _Life, twin: ProbedTwin) -> None:
        """Its container has ended, or the records have."""
        self._no_record(life, twin)
        self._tell_ahead(twin)

    def _tell_ahead(self, twin: ProbedTwin) -> None:
        """What would have been decided, and was not at any time."""
        ahead, twin.ahead = twin.ahead, None
        for finding in twin.additions(ahead) if ahead is not None else ():
            self._add(finding, ahead.since if ahead is not None else None)

    def _add(self, finding: Finding, since: int | None) -> None:
        self.added.append(finding)
        if since is not None:
            self.since[finding.seq] = since

    # -- what was decided ------------------------------------------------------------------

    def _transitioned(self, record: Record, body: ProbeTransitioned, life: _Life) -> None:
        twin = life.twins.get(body.probe_type)
        if twin is None:
            return
        if twin.is_undecidable:
            self._rule(record, twin.unruled(record), life)
            return
        if not twin.is_meant(record, body):
            self._no_record(life, twin)
            if twin.has_ended and body.to_result == "failure":
                twin.put(body.to_result)  # nothing was probed: the container had ended
                return
            twin.untold(record, body)
        would, ahead = twin.resolve(body.to_result), twin.ahead
        if len(would) == 1 and would != {None}:
            self._tell_ahead(twin)
            return
        ends = twin.ends_container(body.to_result) or body.probe_type == "startup"
        if ends:
            life.parts(record.seq)
        if len(would) > 1:
            self._rule(record, twin.unruled(record), life)
        elif ahead is not None and ahead.to_result == body.to_result:
            twin.ahead, twin.early = None, ahead
            self._rule(record, twin.earlier(record, ahead), life)
        else:
            self._tell_ahead(twin)
            self._rule(record, twin.not_reached(record, body), life)

    def _rule(self, record: Record, finding: Finding, life: _Life) -> None:
        self.rulings[record.seq] = finding
        self.since.pop(record.seq, None)
        if life.doubt is not None:
            self.since[record.seq] = life.doubt

    def _killed(self, record: Record, body: ContainerKilled, life: _Life) -> None:
        probe_type = PROBE_OF_KILL.get(body.reason)
        twin = None if probe_type is None else life.twins.get(probe_type)
        if twin is None:
            return
        self._no_record(life, twin)
        finding = twin.judge_kill(record)
        if finding is None:
            return
        life.parts(record.seq)
        if finding.verdict == "impossible" and finding.expected is None:
            life.spared = record.seq
        self._rule(record, finding, life)

    def _follows(self, record: Record, life: _Life) -> None:
        """A restart, or one that was held back, after a kill that would not have come."""
        if life.spared is None:
            return
        self._rule(record, no_restart(record, life.spared), life)
        if isinstance(record.body, ContainerRestarted):
            life.spared, life.in_chain = None, False


def _changed(probe: ProbeSpec, changes: list[ProbeChange], probe_type: ProbeType) -> ProbeSpec:
    values = {_FIELDS[c.field]: c.value for c in changes if c.probe_type == probe_type}
    return msgspec.structs.replace(probe, **values)
