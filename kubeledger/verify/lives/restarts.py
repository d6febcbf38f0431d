"""Restarts and held-back restarts of containers, by policy and back-off."""

from __future__ import annotations

from typing import Any

from kubeledger.kuberuntime.backoff import BackOffPolicy, series
from kubeledger.lifecycle.records import (
    ContainerKilled,
    ContainerRestarted,
    PodListed,
    ReasonReported,
    RestartBackedOff,
)
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives.back_offs import BackOffs
from kubeledger.verify.lives.backed_off import RULE as BACK_OFF_RULE
from kubeledger.verify.lives.backed_off import judge_backed_off
from kubeledger.verify.lives.common import About, Causes, compared, corrected, key_for, subject_of
from kubeledger.verify.lives.life import Entry, Instance, Life, Lives
from kubeledger.verify.lives.policy import ends_for_good
from kubeledger.verify.lives.specs import PodAsk, SpecBook
from kubeledger.verify.lives.waits import why_restarted

__all__ = ["RestartJudge"]

RULE = "pkg/kubelet/container/helpers.go ShouldContainerBeRestarted"
_QUIET = frozenset({"Unhealthy", "ProbeWarning", "FailedPreStopHook"})
"""Warnings about a container that are no failed start."""
_OF_CREATED = frozenset({"Failed", "FailedPostStartHook"})
"""Warnings that may be about an instance that was created and did not start, or not well."""
_RETRY_NS = 5 * NS_PER_S
"""A kill that is tried again later is of another instance."""


class RestartJudge:
    """Judges restarts; follows the containers of all pods on the node."""

    def __init__(self, bench: Bench, book: SpecBook, lives: Lives, causes: Causes) -> None:
        self._bench = bench
        self._book = book
        self._lives = lives
        self._causes = causes
        self._back_offs = BackOffs(bench)

    # -- what happens to containers ----------------------------------------------------------

    def killed(
        self, record: Record, body: ContainerKilled, key: str, reasons: tuple[str, ...]
    ) -> None:
        """The kubelet decided to kill an instance, for one of these reasons."""
        if body.container is None:
            return
        life = self._lives.of(key, body.container)
        if life.newest is None or self._is_unseen(life, body):
            if life.attempt_ns is None:
                life.entry.values = None
            life.start(Instance(body.container_id, counted=True))
        killed = life.newest
        assert killed is not None
        if killed.started_ns is not None and body.container_id not in (None, killed.container_id):
            return  # an earlier instance
        if killed.killed_ns is None:
            killed.killed_ns, killed.killed_seq = record.ts_ns, record.seq
            life.held_back = life.in_other_process = False
        elif killed.killed_ns + _RETRY_NS < record.ts_ns:
            life.entry.values = None  # its successor was not seen to start
        if "spec_changed" in reasons:
            # Another definition has no entry yet.
            life.entry, life.failed_start = Entry(values=(0,)), False
        killed.reasons = tuple(dict.fromkeys((*killed.reasons, *reasons)))

    def _is_unseen(self, life: Life, body: ContainerKilled) -> bool:
        """Whether the instance that is killed was not seen to start, though others were."""
        if life.attempt_ns is not None and body.container_id not in life.ids:
            return True
        return body.container_id is not None and not life.ids & {body.container_id, None}

    def reported(self, record: Record, body: ReasonReported, key: str) -> None:
        """A warning may tell of a start that failed, which counts for the back-off, too."""
        if body.reason == "Created" and body.container is not None:
            # Lists tell only the last of several; words of another event are no creation.
            told = any(piece.line is not None for piece in record.evidence)
            if told and "created" in body.message.lower():
                self._back_offs.created(record, self._lives.of(key, body.container))
            return
        if body.type != "Warning" or body.reason in _QUIET:
            return
        if body.reason == "BackOff" and "restarting failed container" in body.message:
            return
        for name, life in self._lives.all_of(key).items():
            if body.container in (None, name) and not _is_of_attempt(body, life):
                life.failed_start = True

    def listed(self, record: Record, body: PodListed, key: str) -> None:
        """A pod list tells restart counts."""
        for group in ("initContainerStatuses", "containerStatuses"):
            for status in (body.status or {}).get(group) or ():
                if isinstance(status, dict):
                    self._listed_status(record, body, key, status)

    def _listed_status(
        self, record: Record, body: PodListed, key: str, status: dict[str, Any]
    ) -> None:
        life = self._lives.find(key, str(status.get("name")))
        count, container_id = status.get("restartCount"), status.get("containerID")
        if life is None or life.newest is None or not isinstance(count, int):
            return
        same = isinstance(container_id, str) and life.newest.container_id is not None
        if not same or str(container_id).rpartition("//")[2] != life.newest.container_id:
            return
        if life.count is None:
            life.tell_count(count)
        elif life.count != count and not self._book.is_miscounted(key, life.newest.container_id):
            self._bench.contradict(
                record.ts_ns,
                f"container/{body.namespace}/{body.pod}/{status.get('name')}",
                f"the pod list counts {count} restarts of container {status.get('name')}, "
                f"and its records {life.count}",
                (record.seq, f"restartCount {count}"),
                (life.newest.started_seq or record.seq, f"{life.count} restarts"),
            )

    # -- restarts ----------------------------------------------------------------------------

    def restarted(self, record: Record, body: ContainerRestarted, state: NodeState) -> None:
        """Judge a restart, and go on from it."""
        wrong = self._causes.wrong(record, body)
        if wrong is None:
            wrong = self._other_id(record, body, key_for(state, body))
        believed = body if wrong is None else corrected(body, wrong)
        key = key_for(state, believed)
        life = self._lives.of(key, believed.container)
        if life.newest is None or (
            believed.container_id is not None and life.newest.container_id != believed.container_id
        ):
            life.start(Instance(believed.container_id, record.ts_ns, record.seq))
        ask = self._book.find(believed.pod_uid, believed.namespace, believed.pod)
        expected = self._expected(believed, life, ask)
        if wrong is not None:
            self._misnamed(record, body, wrong, RULE)
        else:
            self._judge_restart(record, body, key, life, ask, expected)
        self._back_offs.started(life, record)

    def _misnamed(self, record: Record, body: About, wrong: Fields, rule: str) -> None:
        """The record names another container than what led to it."""
        told = " and ".join(f"{name} {value}" for name, value in wrong.items())
        recorded, _ = compared(body, wrong)
        self._bench.find(
            record,
            "impossible",
            subject=subject_of(body),
            why=f"what ended, and led to this, was {told}",
            expected=wrong,
            recorded=recorded,
            rule=rule,
            inputs=() if record.cause is None else (record.cause,),
        )

    def _other_id(self, record: Record, body: ContainerRestarted, key: str) -> Fields | None:
        """The ID that has just started, if the record has another."""
        now = self._lives.running(key, body.container)
        if now is None or body.container_id is None or now.container_id == body.container_id:
            return None
        return {"container_id": now.container_id} if now.started_ns == record.ts_ns else None

    def _lacks(self, ask: PodAsk | None) -> str | None:
        """What is missing to say anything."""
        if self._bench.profile is None:
            return self._bench.missing_profile
        if ask is None:
            return "the pod's spec"
        return "a readable spec of the pod" if ask.spec is None else None

    def _judge_restart(
        self,
        record: Record,
        body: ContainerRestarted,
        key: str,
        life: Life,
        ask: PodAsk | None,
        expected: Fields,
    ) -> None:
        missing, before, subject = self._lacks(ask), life.before, subject_of(body)
        if missing is not None or ask is None:
            life.entry.values = None
            self._bench.unverifiable(record, subject=subject, missing=[missing or ""], rule=RULE)
            return
        recorded, differ = compared(body, expected)
        fields: Fields = {
            "expected": expected, "recorded": recorded, "rule": RULE,
            "inputs": _inputs(ask, life),
        }  # fmt: skip
        if ask.container(body.container) is None:
            why = f"the pod's spec has no container {body.container}"
            fields["expected"] = None
            self._bench.find(record, "impossible", subject=subject, why=why, **fields)
        elif differ:
            told = ", ".join(f"{n} {recorded[n]} instead of {expected[n]}" for n in differ)
            why = f"recorded is {told}"
            self._bench.find(record, "impossible", subject=subject, why=why, **fields)
        elif before is None or not before.has_ended:
            missing = "the end of the container before"
            life.entry.values = None
            self._bench.unverifiable(record, subject=subject, missing=[missing], rule=RULE)
        else:
            verdict, why = self._may_restart(record, body, key, life, ask, fields)
            self._bench.find(record, verdict, subject=subject, why=why, **fields)

    def _may_restart(
        self,
        record: Record,
        body: ContainerRestarted,
        key: str,
        life: Life,
        ask: PodAsk,
        fields: Fields,
    ) -> tuple[Verdict, str]:
        """By the restart policy and by the back-off."""
        profile, before = self._bench.profile, life.before
        assert profile is not None
        assert before is not None
        if not self._lives.remade_since(key, before.started_ns or 0):
            final = ends_for_good(profile, ask, body.container, before)
            if final is not None:
                fields["expected"] = None
                return "impossible", final
        early = self._too_early(record, life)
        if early is not None:
            fields["expected"], fields["rule"] = None, BACK_OFF_RULE
            return "impossible", early
        return "match", why_restarted(body, before, ask)

    def _is_between(self, body: ContainerRestarted, before: Instance, ask: PodAsk | None) -> bool:
        """Whether the instance that is recorded ran behind the one that was seen last.

        The lists' counts tell; what was logged of its start is missing then.
        """
        previous_id = body.previous_container_id
        if ask is None or previous_id in (None, before.container_id):
            return False
        count, previous = (self._book.count(ask, each) for each in (body.container_id, previous_id))
        return count is not None and previous is not None and previous == count - 1

    def _expected(self, body: ContainerRestarted, life: Life, ask: PodAsk | None) -> Fields:
        """What the record must say; takes down the restart count."""
        expected: Fields = {}
        before = life.before
        told = body.previous_container_id is not None and life.is_sure
        seen = before is not None and (before.started_seq, before.died_seq) != (None, None)
        if before is not None and before.container_id is not None and told and seen:
            if self._is_between(body, before, ask):
                life.entry.values = None
            else:
                expected["previous_container_id"] = before.container_id
        if before is not None and before.reasons and body.reason is not None:
            reasons = before.reasons
            expected["reason"] = body.reason if body.reason in reasons else reasons[0]
        listed = None if ask is None else self._book.count(ask, body.container_id)
        before_count = life.count_before
        count = listed if before_count is None else before_count + 1
        if listed is not None and body.restart_count == listed:
            # Restarts may be missing in the log, and then its back-off is not known.
            if before_count is not None and listed != before_count + 1:
                life.entry.values = None
            count = listed
        life.tell_count(count if count is not None else body.restart_count)
        if count is not None and body.restart_count is not None:
            expected["restart_count"] = count
        return expected

    # -- back-off ----------------------------------------------------------------------------

    def _too_early(self, record: Record, life: Life) -> str | None:
        if life.newest is not None and life.newest.created_ns is not None:
            return life.too_early
        if life.newest is not None and life.newest.counted:
            return None
        return self._back_offs.too_early(record, life, life.before, life.earlier)

    def backed_off(self, record: Record, body: RestartBackedOff, state: NodeState) -> None:
        """Judge a restart that was held back, and go on from it."""
        wrong = self._causes.wrong(record, body)
        believed = body if wrong is None else corrected(body, wrong)
        life = self._lives.of(key_for(state, believed), believed.container)
        policy, subject = self._back_offs.policy(), subject_of(body)
        ask = self._book.find(body.pod_uid, body.namespace, body.pod)
        missing = self._lacks(ask)
        if isinstance(policy, BackOffPolicy) and life.failed_start:
            life.entry.may_have_risen(policy)
            life.failed_start = False
        if wrong is not None:
            self._misnamed(record, body, wrong, BACK_OFF_RULE)
        elif missing is None and ask is not None and ask.container(body.container) is None:
            why = f"the pod's spec has no container {body.container}"
            self._bench.find(
                record, "impossible", subject=subject, why=why, rule=BACK_OFF_RULE,
                inputs=(ask.seq,),
            )  # fmt: skip
        elif missing is not None or isinstance(policy, str):
            named = missing or str(policy)
            self._bench.unverifiable(record, subject=subject, missing=[named], rule=BACK_OFF_RULE)
        else:
            judge_backed_off(self._bench, record, body, life, series(policy))
        life.held_back = True


def _is_of_attempt(body: ReasonReported, life: Life) -> bool:
    """Whether a warning is about an instance that was created, and counted then."""
    if body.reason not in _OF_CREATED or body.container is None:
        return False
    created = life.newest is not None and life.newest.created_ns is not None
    return life.attempt_ns is not None or created


def _inputs(ask: PodAsk, life: Life) -> tuple[int, ...]:
    before, now = life.before, life.newest
    seqs = (
        ask.seq,
        None if before is None else before.killed_seq,
        None if before is None else before.died_seq,
        None if now is None else now.started_seq,
    )
    return tuple(seq for seq in seqs if seq is not None)
