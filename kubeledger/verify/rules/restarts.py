"""Restarts of containers, and restarts that wait for their back-off.

A container that ended is started again if its restart policy says so, and not before the
back-off since the exit of the instance that the sync looked at is over. The back-off is raised
by each start that follows an exited instance (:mod:`.back_off`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.kube.restartpolicy import (
    ALWAYS,
    NEVER,
    ON_FAILURE,
    container_should_restart,
    matching_restart_rule,
    policy_restarts,
)
from kubeledger.kuberuntime.backoff import BackOffPolicy, series
from kubeledger.lifecycle.exits import how_it_ended
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    PodTerminated,
    ReasonReported,
    RestartBackedOff,
)
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeTransitioned
from kubeledger.profile.kuberuntime import KuberuntimeFacts
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, RuleVerifier, Ruling, all_of, judge, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.back_off import BackOff, policy_of
from kubeledger.verify.rules.container_specs import PodSpec, specs_of
from kubeledger.verify.rules.containers import (
    Causes,
    Container,
    Containers,
    Instance,
    ListedInstances,
    corrected,
    key_for,
    subject_of,
)
from kubeledger.verify.verifier import Foresee, See

__all__ = ["RestartVerifier"]

_SILENCE_NS: Final = 300 * NS_PER_S
"""No log with containers that are restarted is silent for so long."""
_RETRY_NS: Final = 5 * NS_PER_S
"""A kill that is tried again later is of another instance."""
_SYNC_KILLS: Final = frozenset({"liveness_probe", "startup_probe", "spec_changed"})
"""A sync that kills for these starts the container again itself."""
_PROBE_KILLS: Final = frozenset({"liveness_probe", "startup_probe"})
_HOOK: Final = "post_start_hook"
"""The start has failed with it: the next sync tries again."""
_QUIET: Final = frozenset({"Unhealthy", "ProbeWarning", "FailedPreStopHook"})
"""Warnings about a container that are no failed start."""
_OF_CREATED: Final = frozenset({"Failed", "FailedPostStartHook"})
"""Warnings that may be about an instance that was created, and counted then."""
_BECAUSE: Final = {
    "liveness_probe": "its liveness probe failed",
    "startup_probe": "its startup probe failed",
    "spec_changed": "its definition changed",
    "preempted": "its pod was preempted",
    "evicted": "its pod was evicted",
    "pod_deleted": "its pod was deleted",
    "post_start_hook": "its postStart hook failed",
    "sandbox_changed": "its pod got another sandbox",
}
_SPEC: Final = "which of the pod's specs is the right one, for its lists differ"


class RestartVerifier(RuleVerifier):
    """Judges restarts, and restarts that are held back."""

    rule = "pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff"
    decides = (ContainerRestarted, RestartBackedOff)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._containers = Containers()
        self._containers.on_start = self._start
        self._containers.on_name = self._named
        self._back_offs: dict[tuple[str, str], BackOff] = {}
        self._listed = ListedInstances()
        self._causes = Causes(bench)
        self._seen_ns = 0

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Restart counts of all lists."""
        return {PodListed: self._listed.note}

    def sees(self) -> Mapping[type[Body], See]:
        """All that starts a container, ends it, or changes what it is."""
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: self._clock_stepped,
            PodConfigChanged: self._config_changed,
            PodListed: self._pod_listed,
            PodTerminated: self._terminated,
            ContainerStarted: self._container_started,
            ContainerDied: self._container_died,
            ContainerKilled: self._killed,
            ReasonReported: self._reported,
            ContainerRestarted: self._restarted,
            RestartBackedOff: self._backed_off,
            ProbeTransitioned: self._led,
        }

    def _back_off(self, container: Container) -> BackOff:
        name = container.key, container.name
        found = self._back_offs.get(name)
        if found is None:
            found = self._back_offs[name] = BackOff(container.name)
            if container.is_first:
                found.reset()
        return found

    def _pass_time(self, record: Record) -> None:
        now_ns, seen_ns = record.ts_ns, self._seen_ns
        if seen_ns and now_ns > seen_ns:
            hole = self.bench.coverage.hole(seen_ns, now_ns)
            if hole is not None or now_ns - seen_ns > _SILENCE_NS:
                self._lose()
        self._seen_ns = now_ns

    def _lose(self) -> None:
        """Lines are missing: starts may have been among them."""
        self._containers.lose()
        for back_off in self._back_offs.values():
            back_off.lose()

    # -- the kubelet and its pods ------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        known = state.kubelet
        if body.restart or known.started_ts_ns is None or body.pid not in {None, known.pid}:
            self._containers.kubelet_started()
            self._back_offs.clear()  # they were in the memory of the process before
        self._seen_ns = record.ts_ns

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._lose()

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        if body.operation == "ADD":
            self._containers.pod_added(key)
        for container in self._containers.of_pod(key).values():
            back_off = self._back_off(container)
            if body.operation == "ADD":
                back_off.reset()
            elif body.operation == "UPDATE":
                back_off.failed_start = True
                back_off.may_be_new()

    def _pod_listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        self._pass_time(record)
        if body.gone and body.listed_by == "kubelet":
            self._gone(key_for(state, body))

    def _terminated(self, record: Record, body: PodTerminated, state: NodeState) -> None:
        self._pass_time(record)
        self._gone(key_for(state, body))

    def _gone(self, key: str) -> None:
        for name in self._containers.of_pod(key):
            self._back_offs.pop((key, name), None)
        self._containers.pod_gone(key)

    def _led(self, record: Record, body: ProbeTransitioned, state: NodeState) -> None:
        """A kill may follow."""
        self._causes.note(record, body)

    # -- containers --------------------------------------------------------------------------

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        self._pass_time(record)
        self._containers.started(record, body, key_for(state, body))

    def _container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        self._pass_time(record)
        self._containers.died(record, body, key_for(state, body))
        self._causes.note(record, body, but="container_id")

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        self._pass_time(record)
        known = self._containers.find(key_for(state, body), body.container)
        if known is None or known.find(body.container_id) is None:
            body = corrected(body, self._causes.judge(record, body))
        self._causes.note(record, body, but="container_id")
        if body.container is None:
            return
        container = self._containers.get(key_for(state, body), body.container)
        back_off, newest = self._back_off(container), container.at(0)
        runs = newest is not None and newest.container_id is not None and not newest.has_ended
        if runs and container.find(body.container_id) is None and (
            not self._listed.knows(body.container_id)
        ):  # fmt: skip
            return  # an ID that nothing else tells, while another one runs
        killed = self._containers.show(record, container, body.container_id)
        if killed.first_killed_ns is None:
            killed.first_killed_ns = record.ts_ns
            back_off.held_back = container.was_inherited = False
        elif killed.first_killed_ns + _RETRY_NS < record.ts_ns:
            back_off.lose()  # its successor was not seen to start
        killed.killed_ns, killed.killed_seq = record.ts_ns, record.seq
        reasons = (body.reason, _meant(body.message))
        killed.reasons = tuple(
            dict.fromkeys((*killed.reasons, *(reason for reason in reasons if reason)))
        )
        if "spec_changed" in killed.reasons:
            back_off.reset()  # another definition has no entry yet
            back_off.failed_start = False

    def _reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        key, name = key_for(state, body), body.container
        if body.object_kind != "Pod":
            return
        if body.reason == "Created" and name is not None:
            # Lists tell only the last of several; words of another event are no creation.
            is_line = any(piece.line is not None for piece in record.evidence)
            if is_line and "created" in body.message.lower():
                self._containers.created(record, key, name)
            return
        is_back_off = "restarting failed container" in body.message
        if body.type != "Warning" or body.reason in _QUIET or is_back_off:
            return
        for container in self._containers.of_pod(key).values():
            newest = container.at(0)
            created = newest is not None and newest.created_ns is not None
            if name is None or (name == container.name
                                and not (created and body.reason in _OF_CREATED)):  # fmt: skip
                self._back_off(container).failed_start = True

    def _named(self, container: Container, instance: Instance) -> None:
        """The ID of the newest instance: lists may tell of instances before it."""
        listed = self._listed.count(instance.container_id)
        if container.is_first and listed is not None and listed >= container.shown:
            container.is_first = False
            self._back_off(container).lose()
        instance.count = listed

    # -- starts ------------------------------------------------------------------------------

    def _start(self, container: Container, record: Record, is_event: bool) -> None:
        """Another instance starts: was it too early, and does it raise the entry?"""
        back_off, before = self._back_off(container), container.at(0)
        if before is not None and not before.is_told and container.at(1) is not None:
            back_off.lose()  # the line about its start is missing
        if before is None and not back_off.is_none() and not is_event:
            # Told before any instance was seen: this start may have raised it.
            back_off.lose()
        back_off.pass_time(record.ts_ns)
        policy = policy_of(self.bench)
        in_sync = self._in_sync(container, back_off)
        looked_at = container.at(1) if in_sync else before
        back_off.early = ()
        if looked_at is not None and (in_sync is False or (in_sync and self._keeps_dead())):
            back_off.early = back_off.too_early(record.ts_ns, looked_at.ended_from_ns)
        raises: bool | None = True if in_sync is False or self._keeps_dead() else None
        if in_sync is None:
            raises = None
        if before is None:
            raises = False
            if not container.is_first:
                back_off.lose()
        elif in_sync and container.at(1) is None:
            raises = False if container.is_first else None
        if back_off.failed_start and isinstance(policy, BackOffPolicy):
            back_off.may_have_risen(policy, back_off.failures)
        back_off.start(policy, record.ts_ns, raises=raises)

    def _in_sync(self, container: Container, back_off: BackOff) -> bool | None:
        """Whether the sync that killed the newest instance starts the next; None: not known."""
        before = container.at(0)
        killed = before is not None and before.killed_ns is not None
        if before is None or not killed or back_off.held_back or container.was_inherited:
            return False
        if set(before.reasons) == {_HOOK}:
            return False
        if back_off.failed_start or not _SYNC_KILLS.intersection(before.reasons):
            return None
        return True

    def _keeps_dead(self) -> bool:
        """Whether the newest dead instance of each container is kept."""
        each = self.bench.settings.get("--maximum-dead-containers-per-container")
        all_ = self.bench.settings.get("--maximum-dead-containers")
        return each != "0" and isinstance(each, str) and all_ == "-1"

    # -- restarts ----------------------------------------------------------------------------

    def _restarted(self, record: Record, body: ContainerRestarted, state: NodeState) -> None:
        self._pass_time(record)
        key, subject = key_for(state, body), subject_of(body)
        specs = specs_of(self.bench, record.ts_ns, body.pod_uid, body.namespace, body.pod)
        wrong = self._causes.judge(record, body) or self._other_id(record, body, key)
        if wrong is not None:
            self._conclude(record, body, wrong)
            return
        container = self._containers.get(key, body.container)
        now = container.at(0)
        if now is None or body.container_id not in (None, now.container_id):
            now = self._containers.show(record, container, body.container_id)
        now.is_told = True
        fields = self._expected(body, container, now)
        before = container.at(1)
        if self.bench.profile is None:
            self.lacking(record, subject, [self.bench.missing_profile])
        elif isinstance(specs, str):
            self.lacking(record, subject, [specs])
        elif before is None or not (before.has_ended or before.container_id is None):
            self._back_off(container).lose()
            if (said := _compared(body, fields)) is not None:
                self._conclude(record, body, said)
            else:
                self.lacking(record, subject, ["the end of the container before"])
        else:
            judgements = [self._by_policy(body, container, before, specs)]
            if (said := _compared(body, fields)) is not None:
                judgements.insert(0, said)
            if self._back_off(container).early:
                judgements.append(_quiet(judge(self._back_off(container).early)))
            seqs = (specs[0].seq, before.killed_seq, before.died_seq, now.started_seq)
            self._conclude(record, body, all_of(judgements), inputs=seqs, fields=fields)

    def _conclude(
        self,
        record: Record,
        body: ContainerRestarted | RestartBackedOff,
        judgement: Judgement,
        *,
        inputs: Sequence[int | None] = (),
        fields: Fields | None = None,
    ) -> None:
        expected = judgement.expected or (fields if judgement.verdict == "match" else None)
        recorded = None if expected is None else {name: getattr(body, name) for name in expected}
        seqs = tuple(seq for seq in (*judgement.inputs, *inputs) if seq is not None)
        whole = Judgement(
            verdict=judgement.verdict, why=judgement.why, expected=expected,
            missing=judgement.missing, inputs=seqs, certain=judgement.certain,
        )  # fmt: skip
        self.conclude(record, subject_of(body), whole, recorded=recorded)

    def _other_id(self, record: Record, body: ContainerRestarted, key: str) -> Judgement | None:
        """The instance that was shown at that instant has another ID."""
        container = self._containers.find(key, body.container)
        now = None if container is None else container.at(0)
        if now is None or now.started_ns != record.ts_ns or None in (
            now.container_id, body.container_id,
        ) or now.container_id == body.container_id:  # fmt: skip
            return None
        why = f"the container that was started is {now.container_id}"
        return same(False, why, expected={"container_id": now.container_id}, inputs=[now.seq])

    def _expected(self, body: ContainerRestarted, container: Container, now: Instance) -> Fields:
        """What the record must say; takes down the restart count."""
        expected: Fields = {}
        before, previous_id = container.at(1), body.previous_container_id
        listed = self._listed.count(body.container_id)
        previous = self._listed.count(previous_id)
        shown = before is not None and before.container_id is not None
        if before is not None and shown and previous_id is not None and not container.was_inherited:
            if previous_id == before.container_id or None in (listed, previous) or (
                previous != (listed or 0) - 1
            ):  # fmt: skip
                expected["previous_container_id"] = before.container_id
            else:
                self._back_off(container).lose()  # one that only lists tell of ran in between
        if before is not None and before.reasons and body.reason is not None:
            reasons = before.reasons
            expected["reason"] = body.reason if body.reason in reasons else reasons[0]
        count = None if before is None or before.count is None else before.count + 1
        if listed is not None and (count is None or body.restart_count == listed):
            if count not in (None, listed):
                self._back_off(container).lose()  # restarts in between were not logged
            count = listed
        now.count = count if count is not None else body.restart_count
        if container.is_first and (now.count or 0) >= container.shown:
            container.is_first = False
            self._back_off(container).lose()
        if count is not None and body.restart_count is not None:
            expected["restart_count"] = count
        return expected

    def _by_policy(
        self,
        body: ContainerRestarted,
        container: Container,
        before: Instance,
        specs: tuple[PodSpec, ...],
    ) -> Judgement:
        assert self.bench.profile is not None
        facts = self.bench.profile.kuberuntime
        remade = self._containers.sandboxed_since(container.key, before.started_ns or 0)
        rulings = []
        for spec in specs:
            final = None if remade else _ends_for_good(facts, spec, body.container, before)
            if spec.container(body.container) is None:
                final = f"the pod's spec has no container {body.container}"
            why = final or _why_restarted(body, before, spec)
            assumes = () if len(specs) == 1 else (f"{_SPEC} (record {spec.seq})",)
            rulings.append(Ruling(allowed=final is None, why=why, assumes=assumes))
        return judge(rulings)

    # -- back-off ----------------------------------------------------------------------------

    def _backed_off(self, record: Record, body: RestartBackedOff, state: NodeState) -> None:
        self._pass_time(record)
        wrong = self._causes.judge(record, body)
        specs = specs_of(self.bench, record.ts_ns, body.pod_uid, body.namespace, body.pod)
        named = isinstance(specs, str) or any(spec.container(body.container) for spec in specs)
        if wrong is None and not named:
            wrong = same(False, f"the pod's spec has no container {body.container}")
        if wrong is not None:
            self._conclude(record, body, wrong)
            return
        container = self._containers.get(key_for(state, body), body.container)
        back_off, policy = self._back_off(container), policy_of(self.bench)
        if isinstance(policy, str):
            self.lacking(record, subject_of(body), [policy])
        else:
            self._held_back(record, body, container, policy)
        back_off.held_back = True

    def _held_back(
        self, record: Record, body: RestartBackedOff, container: Container, policy: BackOffPolicy
    ) -> None:
        back_off, value_ns = self._back_off(container), body.back_off_s * NS_PER_S
        newest = container.at(0)
        ended = container.at(1) if newest is not None and not newest.has_ended else newest
        is_attempt = newest is not None and newest.container_id is None
        died_ns = None if is_attempt or ended is None else ended.died_ns
        back_off.pass_time(record.ts_ns)
        if back_off.failed_start:
            back_off.may_have_risen(policy, back_off.failures)
            back_off.failed_start = False
        if newest is None or not (newest.has_ended or is_attempt) or container.was_inherited:
            back_off.lose()
        if value_ns not in series(policy) and back_off.is_unknown:
            values = ", ".join(f"{value // NS_PER_S} s" for value in series(policy))
            why = f"a back-off is one of {values}, not {body.back_off_s} s"
            self._conclude(record, body, same(False, why))
            return
        if back_off.is_unknown or (back_off.is_none() and value_ns in series(policy)):
            # Without an entry nothing is held back: a start is missing.
            raised_ns = None if newest is None else newest.started_ns or newest.created_ns
            back_off.tell(value_ns, raised_ns)
            self.lacking(record, subject_of(body), [back_off.unknown])
            return
        since_ns = 0 if died_ns is None else record.ts_ns - died_ns
        if died_ns is not None and since_ns >= value_ns:
            why = f"container {body.container} had ended by {format_ts(died_ns)}, "
            why += f"{since_ns / NS_PER_S:.1f} s before, so a back-off of {body.back_off_s} s"
            over = same(False, f"{why} was over")
            self._conclude(record, body, over)
            return
        if not _is_verbose(record) and value_ns in series(policy):
            back_off.may_have_risen(policy, back_off.failures)
        said = judge(back_off.holds_back(value_ns, record.seq, series(policy)))
        if said.verdict == "match" and died_ns is not None and since_ns >= NS_PER_S // 10:
            why = f"{said.why}, of which {since_ns / NS_PER_S:.1f} s had passed since it was seen "
            why += f"to have ended at {format_ts(died_ns)}"
            said = msgspec.structs.replace(said, why=why)
        ends = () if ended is None else (ended.killed_seq, ended.died_seq)
        self._conclude(record, body, said, inputs=(self.bench.settings.seq, *ends))


def _quiet(judgement: Judgement) -> Judgement:
    """Without a sentence where it holds."""
    return same(True, "") if judgement.verdict == "match" else judgement


def _compared(body: ContainerRestarted, expected: Fields) -> Judgement | None:
    """The judgement of a record with other values than it must have; None where it has them."""
    differ = [name for name, value in expected.items() if getattr(body, name) != value]
    if not differ:
        return None
    told = ", ".join(f"{n} {getattr(body, n)} instead of {expected[n]}" for n in differ)
    return same(False, f"recorded is {told}", expected=expected)


def _meant(message: str | None) -> str | None:
    """The reason that the kubelet's message of a kill gives."""
    words = {
        "failed liveness probe": "liveness_probe",
        "failed startup probe": "startup_probe",
        "definition changed": "spec_changed",
    }
    return next((reason for said, reason in words.items() if said in (message or "")), None)


def _is_verbose(record: Record) -> bool:
    """Whether the runtime manager's own line is there, so that events are logged, too."""
    texts = [evidence.text or "" for evidence in record.evidence]
    return not texts or any("Error syncing pod" not in text for text in texts)


def _ends_for_good(
    facts: KuberuntimeFacts, spec: PodSpec, name: str, before: Instance
) -> str | None:
    """Why a container is not started again; None when it is, or may be.

    Init containers also run again with a pod that is made anew, so only containers proper are
    judged.
    """
    entry = spec.container(name)
    if entry is None or not spec.is_app(name):
        return None
    has_own = entry.restart_policy is not None and facts.container_restart_rules
    policy = (entry.restart_policy if has_own else None) or spec.restart_policy
    if before.killed_ns is not None or before.exit_code is None:
        by_probe = not before.killed_ns or bool(_PROBE_KILLS.intersection(before.reasons[:1]))
        ends = policy == NEVER and by_probe and not (
            before.killed_ns is None and entry.restart_policy_rules
        )  # fmt: skip
        return f"restart policy Never does not start container {name} again" if ends else None
    code = before.exit_code
    if facts.container_restart_rules:
        again = container_should_restart(
            entry, spec.restart_policy, code, restart_all=facts.restart_all_containers
        ) or (matching_restart_rule(entry, code) is not None)
    else:
        again = policy not in (ALWAYS, ON_FAILURE, NEVER) or policy_restarts(policy, code)
    if again:
        return None
    ended = f"container {name} ended with exit code {code}"
    return f"{ended}, after which restart policy {policy} does not start it again"


def _why_restarted(body: ContainerRestarted, before: Instance, spec: PodSpec) -> str:
    """One sentence for a restart that is in order."""
    name = f"container {body.container}"
    if before.first_killed_ns is not None:
        because = _BECAUSE.get(before.reasons[0] if before.reasons else "", "of the kubelet")
        ended = f"{name} was killed at {format_ts(before.first_killed_ns)} because {because}"
    else:
        how = how_it_ended(before.exit_code)
        how = "was killed by the kernel, out of memory" if before.out_of_memory else how
        ended = f"{name} {how}"
    entry = spec.container(body.container)
    own = None if entry is None else entry.restart_policy
    count = "" if body.restart_count is None else f" for the {_nth(body.restart_count)} time"
    return f"{ended}, and restart policy {own or spec.restart_policy} starts it again{count}"


def _nth(number: int) -> str:
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
