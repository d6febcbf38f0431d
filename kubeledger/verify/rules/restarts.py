"""Restarts of containers, and restarts that wait for their back-off.

A container that ended is started again if its restart policy says so, and not before the
back-off since the exit of the instance that the sync looked at is over. The back-off is raised
by each start that follows an exited instance (:mod:`.back_off`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import series
from kubeledger.model.bodies.lifecycle import ContainerRestarted, RestartBackedOff
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, all_of, judge, lacks, open_to, same
from kubeledger.verify.context import See
from kubeledger.verify.evidence.container_specs import specs_of
from kubeledger.verify.evidence.gather import LAG_NS
from kubeledger.verify.evidence.line_classes import SYNC_FAILED
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.back_off import policy_of
from kubeledger.verify.rules.containers import (
    Container,
    Instance,
    judge_policy,
    lived_until,
    subject_of,
)
from kubeledger.verify.rules.disputes import report_disputes
from kubeledger.verify.rules.starts import Starts

_LONGEST_KILL_NS: Final = 60 * NS_PER_S
"""So long before its end a container was killed at most, with the usual grace period."""
_UNTOLD: Final = "whether it was killed for its failed probe"


class RestartVerifier(Starts):
    """Judges restarts, and restarts that are held back."""

    rule = "pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff"
    decides = (ContainerRestarted, RestartBackedOff)

    def sees(self) -> Mapping[type[Body], See]:
        return {
            **super().sees(),
            ContainerRestarted: self._in_time(self._restarted),
            RestartBackedOff: self._in_time(self._backed_off),
        }

    def settle(self, state: NodeState) -> None:
        report_disputes(self.context)

    # -- restarts ----------------------------------------------------------------------------

    def _restarted(self, record: Record, body: ContainerRestarted, key: str) -> None:
        specs = specs_of(self.context.pods, record)
        wrong = self._causes.judge(record, body) or self._other_id(record, body, key)
        if wrong is not None:
            self._conclude(record, body, wrong)
            return
        container = self._get(key, body.container)
        now = container.at(0)
        if now is None or body.container_id not in (None, now.container_id):
            now = self._show(record, container, body.container_id)
        now.is_reported = True
        before = self._before(key, container, body.previous_container_id)
        fields = self._expected(body, container, now, before)
        said = _compared(body, fields)
        # What is missing does not matter where the record is wrong in what is known.
        if self.context.profile is None or isinstance(specs, str):
            missing = specs if isinstance(specs, str) else self.context.missing_profile
            self._conclude(record, body, said or lacks([missing]))
        elif before is None or not (before.has_ended or before.container_id is None):
            container.back_off.lose()
            self._conclude(record, body, said or lacks(["the end of the container before"]))
        else:
            facts = self.context.profile.kuberuntime
            ended_ns = record.ts_ns if before.died_ns is None else before.died_ns
            # One whose start no line shows had ended, as its sandbox had, before there was another.
            ran_ns = before.started_ns or self.context.times.told(ended_ns).from_ns
            remade = self._remade_since(record, ran_ns)
            killed_from_ns = max(before.started_ns or 0, ended_ns - _LONGEST_KILL_NS)
            code = self._code(container, before)
            until_ns = ended_ns if before.killed_ns is None else record.ts_ns
            lost = self.context.coverage.missing(killed_from_ns, until_ns)
            judgements = [judge_policy(facts, specs, body, before, code, remade=remade, lost=lost)]
            if said is not None:
                judgements.insert(0, said)
            if body.reason == "exited" and before.is_to_be_killed and not before.out_of_memory:
                denied = f"a probe of container {body.container} had failed, and that kills it"
                judgements.append(open_to(_UNTOLD, denied=denied))
            # The instance that it names is the one whose end is known, however late lines were.
            if said is None or before.container_id != body.previous_container_id:
                judgements = [self.by_order(record, each) for each in judgements]
            if container.back_off.early:  # between bounds of both times
                judgements.append(judge(container.back_off.early))
            seqs = (specs[0].seq, before.killed_seq, before.died_seq, now.started_seq)
            judged = all_of(judgements)
            self._conclude(record, body, judged, inputs=seqs, fields=fields, in_order=True)

    def _conclude(
        self,
        record: Record,
        body: ContainerRestarted | RestartBackedOff,
        judgement: Judgement,
        *,
        inputs: Sequence[int | None] = (),
        fields: Fields | None = None,
        in_order: bool = False,
    ) -> None:
        judgement = judgement if in_order else self.by_order(record, judgement)
        expected = judgement.expected or (fields if judgement.verdict == "match" else None)
        recorded = None if expected is None else {name: getattr(body, name) for name in expected}
        seqs = tuple(seq for seq in (*judgement.inputs, *inputs) if seq is not None)
        whole = replace(judgement, expected=expected, inputs=seqs)
        self.conclude(record, subject_of(body), whole, recorded=recorded)

    def _code(self, container: Container, before: Instance) -> int | None:
        """What one exited with; None: not known, or the sync that killed it did not ask."""
        if before.killed_ns and not (container.by_policy and before is container.at(1)):
            return None
        shown, code = self.context.instances.instance(before.container_id), before.exit_code
        return shown.exit_code if code is None and shown is not None else code

    def _remade_since(self, record: Record, ts_ns: int) -> bool:
        """Whether the pod got another sandbox after that."""
        runs = self.context.timeline.of(record).runs
        later = (run for run in runs if run.sandbox and ts_ns < (run.started_ns or 0))
        return any(run.is_started(record) for run in later)

    def _other_id(self, record: Record, body: ContainerRestarted, key: str) -> Judgement | None:
        """The instance that was shown at that instant has another ID."""
        container = self._find(key, body.container)
        now = None if container is None else container.at(0)
        ids = set() if now is None else {now.container_id, body.container_id}
        if now is None or now.started_ns != record.ts_ns or None in ids or len(ids) < 2:
            return None
        why = f"the container that was started is {now.container_id}"
        return same(False, why, expected={"container_id": now.container_id}, inputs=[now.seq])

    def _expected(
        self, body: ContainerRestarted, container: Container, now: Instance, before: Instance | None
    ) -> Fields:
        """What the record must say; notes the restart count."""
        expected: Fields = {}
        previous_id = body.previous_container_id
        listed = self.context.instances.count(body.container_id)
        previous = self.context.instances.count(previous_id)
        shown = before is not None and before.container_id not in (None, body.container_id)
        if before is not None and shown and previous_id is not None and not container.was_inherited:
            if container.may_follow(previous_id):
                expected["previous_container_id"] = previous_id
            elif previous is None or (listed is not None and previous != listed - 1):
                expected["previous_container_id"] = before.container_id
            else:
                container.back_off.lose()  # one that only lists show ran in between
        reasons, died_ns = (before.reasons, before.died_ns) if before is not None else ((), None)
        in_order = died_ns is None or now.started_ns is None or died_ns <= now.started_ns
        if reasons and body.reason is not None and in_order:
            expected["reason"] = body.reason if body.reason in reasons else reasons[0]
        count = None if before is None or before.count is None else before.count + 1
        if listed is not None and (count is None or body.restart_count == listed):
            if count not in (None, listed):
                container.back_off.lose()  # restarts in between were not logged
            count = listed
        now.count = count if count is not None else body.restart_count
        self._came_before(container, now.count)
        if count is not None and body.restart_count is not None:
            expected["restart_count"] = count
        return expected

    # -- back-off ----------------------------------------------------------------------------

    def _backed_off(self, record: Record, body: RestartBackedOff, key: str) -> None:
        wrong, specs = self._causes.judge(record, body), specs_of(self.context.pods, record)
        named = isinstance(specs, str) or any(spec.container(body.container) for spec in specs)
        if wrong is None and not named:
            wrong = same(False, f"the pod's spec has no container {body.container}")
        wrong = wrong or self._while_it_ran(record, body, key)
        if wrong is not None:
            self._conclude(record, body, wrong)
            return
        container = self._get(key, body.container)
        back_off, policy = container.back_off, policy_of(self.context)
        if isinstance(policy, str):
            self.lacking(record, subject_of(body), [policy])
        else:
            self._held_back(record, body, container, policy)
        back_off.held_back, container.held_ns = True, record.ts_ns

    def _while_it_ran(self, record: Record, body: RestartBackedOff, key: str) -> Judgement | None:
        """The judgement where lists show that it ran before and after: nothing is held back.

        A list shows what the last sync told: after a kill it may still be from before.
        """
        late_ns = self.context.times.late(record.ts_ns)
        known_ns = record.ts_ns - _LONGEST_KILL_NS - late_ns
        told_ns = record.ts_ns + LAG_NS + late_ns
        for shown in self.context.instances.of_pod(key).values():
            ran_ns, began_ns = lived_until(self.context, shown), shown.began_ns
            if shown.name != body.container or began_ns is None:
                continue
            if began_ns < known_ns and ran_ns > told_ns:
                ran = f"from {format_ts(began_ns)} to {format_ts(ran_ns)}"
                why = f"container {body.container} ran {ran}, and only what has ended waits"
                return same(False, why, inputs=[shown.lived[1]])
        return None

    def _held_back(
        self, record: Record, body: RestartBackedOff, container: Container, policy: BackOffPolicy
    ) -> None:
        back_off, value_ns = container.back_off, body.back_off_s * NS_PER_S
        newest = container.at(0)
        ended = container.at(1) if newest is not None and not newest.has_ended else newest
        is_attempt = newest is not None and newest.may_have_ended_unseen(record.ts_ns)
        died_ns = None if is_attempt or ended is None else ended.died_ns
        back_off.pass_time(record.ts_ns)
        if self._may_have_failed(record, container):
            back_off.may_have_risen(policy, back_off.failures)
            back_off.failed_start = False
        if newest is not None and self._ran_unseen(record, body, newest.after_ns or 0):
            back_off.may_have_risen(policy, back_off.unlogged)
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
            back_off.reported(value_ns, raised_ns, record.ts_ns)
            self.lacking(record, subject_of(body), [back_off.unknown])
            return
        since_ns = 0 if died_ns is None else record.ts_ns - died_ns
        # Events are logged, too, where the runtime manager's own line is there.
        is_brief = record.evidence and all(SYNC_FAILED in (e.text or "") for e in record.evidence)
        if is_brief and value_ns in series(policy):
            back_off.may_have_risen(policy, back_off.failures)
        times = self.context.times
        ended_ns = None if ended is None else ended.ended_from_ns(times)
        if ended_ns is None:
            ended_ns = record.ts_ns if died_ns is None else times.told(died_ns).from_ns
        passed_ns = record.ts_ns - ended_ns
        if passed_ns > 0 and ended is not None:
            passed_ns = self._passed_unseen(record, container, ended, passed_ns)
        said = judge(back_off.holds_back(value_ns, record.seq, policy, passed_ns))
        if said.verdict == "match" and died_ns is not None and since_ns >= NS_PER_S // 10:
            passed, at = f"{since_ns / NS_PER_S:.1f} s", format_ts(died_ns)
            if since_ns >= value_ns:
                why = f"container {body.container} had ended by {at}, {passed} before, so a "
                why += f"back-off of {body.back_off_s} s was over"
                said = open_to(back_off.unlogged, denied=why)
            else:
                since = f"{passed} had passed since it was seen to have ended at {at}"
                said = replace(said, why=f"{said.why}, of which {since}")
        ends = () if ended is None else (ended.killed_seq, ended.died_seq)
        shown = None if newest is None else newest.seq
        self._conclude(record, body, said, inputs=(self.context.settings.seq, shown, *ends))

    def _ran_unseen(self, record: Record, body: RestartBackedOff, since_ns: int) -> bool:
        """Whether lists show an instance of this process, ended since, of which no line tells."""
        pod = self.context.timeline.of(record)
        since_ns = max(since_ns, self._process.started_ns if self._process else 0)
        return any(
            shown.name == body.container
            and since_ns < (shown.ended_ns or 0) < record.ts_ns
            and pod.run(container_id) is None
            for container_id, shown in self.context.instances.of_pod(pod.key).items()
        )

    def _passed_unseen(
        self, record: Record, container: Container, ended: Instance, passed_ns: int
    ) -> int:
        """For how long an instance that no record shows can have been held back since an end.

        The sync that kills one looks at the end of the one before it. Lists count what there was.
        """
        timeline = self.context.timeline
        for run, later in pairwise(timeline.of(record).runs_of(container.name)):
            count, since_ns = self.context.instances.count(later.container_id), later.started_ns
            is_next = run.container_id == ended.container_id and ended.count is not None
            is_late = since_ns and timeline.iterations.earliest(since_ns) <= record.ts_ns
            if is_next and count == (ended.count or 0) + 1 and not is_late:
                return 0  # else it is that one, of which the sync loop tells later
        earlier = next((i for i in reversed(container.instances) if i.seq < ended.seq), None)
        before_ns = None if earlier is None else earlier.ended_from_ns(self.context.times)
        if ended.killed_ns is None or before_ns is None:
            return passed_ns
        return max(passed_ns, record.ts_ns - before_ns)


def _compared(body: ContainerRestarted, expected: Fields) -> Judgement | None:
    """The judgement of a record with other values than it must have; None where it has them."""
    differ = [name for name, value in expected.items() if getattr(body, name) != value]
    if not differ:
        return None
    text = ", ".join(f"{n} {getattr(body, n)} instead of {expected[n]}" for n in differ)
    return same(False, f"recorded is {text}", expected=expected)
