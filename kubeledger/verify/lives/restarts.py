"""Restarts and held-back restarts of containers, by policy and back-off."""

from __future__ import annotations

from typing import Any

from kubeledger.lifecycle.backoff import BackOffPolicy, back_off_policy, series
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    ReasonReported,
    RestartBackedOff,
)
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives.backed_off import judge_backed_off
from kubeledger.verify.lives.common import compared, key_for, misnamed, subject_of
from kubeledger.verify.lives.life import Instance, Life
from kubeledger.verify.lives.policy import ends_for_good
from kubeledger.verify.lives.specs import PodAsk, SpecBook
from kubeledger.verify.lives.waits import too_early, why_restarted

__all__ = ["RestartJudge"]

RULE = "pkg/kubelet/container/helpers.go ShouldContainerBeRestarted"
BACK_OFF_RULE = "pkg/kubelet/kuberuntime/kuberuntime_manager.go doBackOff"
_SYNC_KILLS = frozenset({"liveness_probe", "startup_probe", "spec_changed"})
"""A sync that kills for these starts the container again itself."""
_QUIET = frozenset({"Unhealthy", "ProbeWarning", "FailedPreStopHook"})
"""Warnings about a container that are no failed start."""
_MARGIN_NS = NS_PER_S // 2
_RECENT_MAX = 128


class RestartJudge:
    """Judges restarts; follows the containers of all pods on the node."""

    def __init__(self, bench: Bench, book: SpecBook) -> None:
        self._bench = bench
        self._book = book
        self._lives: dict[str, dict[str, Life]] = {}
        self._added: set[str] = set()
        self._sandboxes: dict[str, int] = {}
        self._ends: dict[int, Record] = {}

    # -- what happens to containers ----------------------------------------------------------

    def _life(self, key: str, container: str) -> Life:
        lives = self._lives.setdefault(key, {})
        life = lives.get(container)
        if life is None:
            life = lives[container] = Life(is_first=key in self._added)
            if key in self._added:
                life.entry.values = (0,)
        return life

    def kubelet_started(self, ts_ns: int) -> None:
        """Back-offs were in the memory of the process before."""
        self._added.clear()
        for lives in self._lives.values():
            for life in lives.values():
                life.entry.values = life.entry.raised_ns = None
                life.in_other_process = True
                life.held_back = life.failed_start = False

    def config_changed(self, record: Record, body: PodConfigChanged, key: str) -> None:
        """An ADD is the first that a kubelet process knows of a pod."""
        if body.operation == "ADD":
            self._added.add(key)
            for life in self._lives.get(key, {}).values():
                life.entry.values = (0,)
        elif body.operation == "UPDATE":
            # Another definition may have another entry.
            for life in self._lives.get(key, {}).values():
                life.failed_start = True

    def pod_gone(self, key: str) -> None:
        """The pod left the node."""
        self._lives.pop(key, None)
        self._sandboxes.pop(key, None)
        self._added.discard(key)

    def started(self, record: Record, body: ContainerStarted, key: str) -> None:
        """An instance runs; the same one again is nothing new."""
        if body.sandbox:
            self._sandboxes[key] = record.ts_ns
        if body.sandbox or body.container is None:
            return
        life = self._life(key, body.container)
        if life.now is not None and life.now.container_id == body.container_id:
            return
        life.start(Instance(body.container_id, record.ts_ns, record.seq))

    def died(self, record: Record, body: ContainerDied, key: str) -> None:
        """An instance ended."""
        self._remember(record)
        if body.container is None or body.sandbox:
            return
        life = self._life(key, body.container)
        for instance in (life.now, life.before):
            if instance is not None and instance.container_id == body.container_id:
                if instance.died_ns is None:
                    instance.died_ns, instance.died_seq = record.ts_ns, record.seq
                    instance.exit_code = body.exit_code
                    if not instance.reasons:
                        instance.reasons = ("exited",)
                return
        if life.now is None:
            life.now = Instance(
                body.container_id, died_ns=record.ts_ns, died_seq=record.seq,
                exit_code=body.exit_code, reasons=("exited",),
            )  # fmt: skip

    def killed(
        self, record: Record, body: ContainerKilled, key: str, reasons: tuple[str, ...]
    ) -> None:
        """The kubelet decided to kill an instance, for one of these reasons."""
        self._remember(record)
        if body.container is None:
            return
        life = self._life(key, body.container)
        if life.now is None:
            life.now = Instance(body.container_id)
        if body.container_id in (None, life.now.container_id) or life.now.started_ns is None:
            life.now.killed_ns, life.now.killed_seq = record.ts_ns, record.seq
            life.now.reasons = reasons
            life.held_back = life.in_other_process = False

    def _remember(self, record: Record) -> None:
        self._ends[record.seq] = record
        if len(self._ends) > _RECENT_MAX:
            del self._ends[next(iter(self._ends))]

    def reported(self, body: ReasonReported, key: str) -> None:
        """A warning may tell of a start that failed, which counts for the back-off, too."""
        if body.type != "Warning" or body.reason in _QUIET:
            return
        if body.reason == "BackOff" and "restarting failed container" in body.message:
            return
        for name, life in self._lives.get(key, {}).items():
            if body.container in (None, name):
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
        life = self._lives.get(key, {}).get(str(status.get("name")))
        count, container_id = status.get("restartCount"), status.get("containerID")
        if life is None or life.now is None or not isinstance(count, int):
            return
        same = isinstance(container_id, str) and life.now.container_id is not None
        if not same or str(container_id).rpartition("//")[2] != life.now.container_id:
            return
        if life.count is None:
            life.count = count
        elif life.count != count:
            self._bench.contradict(
                record.ts_ns,
                f"container/{body.namespace}/{body.pod}/{status.get('name')}",
                f"the pod list counts {count} restarts of container {status.get('name')}, "
                f"and its records {life.count}",
                (record.seq, f"restartCount {count}"),
                (life.now.started_seq or record.seq, f"{life.count} restarts"),
            )

    # -- restarts ----------------------------------------------------------------------------

    def restarted(self, record: Record, body: ContainerRestarted, state: NodeState) -> None:
        """Judge a restart."""
        key = key_for(state, body)
        subject = subject_of(body)
        life = self._lives.get(key, {}).get(body.container)
        missing = self._lacks(body)
        if missing is not None:
            self._bench.unverifiable(record, subject=subject, missing=[missing], rule=RULE)
            self._go_on(life, body, record)
            return
        wrong = self._identity(record, body, key)
        if wrong is not None:
            expected, why = wrong
            recorded, _ = compared(body, expected)
            self._bench.find(
                record, "impossible", subject=subject, why=why, expected=expected,
                recorded=recorded, rule=RULE, inputs=self._cause(record),
            )  # fmt: skip
            return
        life = self._life(key, body.container)
        if life.now is None or (
            body.container_id is not None and life.now.container_id != body.container_id
        ):
            life.start(Instance(body.container_id, record.ts_ns, record.seq))
        ask = self._book.find(body.pod_uid, body.namespace, body.pod)
        assert ask is not None
        self._judge_restart(record, body, key, life, ask)
        self._raise(life, record, ask)

    def _lacks(self, body: ContainerRestarted | RestartBackedOff) -> str | None:
        """What is missing to say anything."""
        if self._bench.profile is None:
            return self._bench.missing_profile
        if misnamed(self._book, body) is not None:
            return None
        ask = self._book.find(body.pod_uid, body.namespace, body.pod)
        if ask is None:
            return "the pod's spec"
        return "a readable spec of the pod" if ask.spec is None else None

    def _go_on(self, life: Life | None, body: ContainerRestarted, record: Record) -> None:
        if life is not None:
            life.entry.values = None
            life.count = body.restart_count

    def _cause(self, record: Record) -> tuple[int, ...]:
        return () if record.cause is None else (record.cause,)

    def _identity(
        self, record: Record, body: ContainerRestarted | RestartBackedOff, key: str
    ) -> tuple[Fields, str] | None:
        """Whether the record names another container than the end that led to it."""
        ask = misnamed(self._book, body)
        end = self._ends.get(record.cause or 0)
        expected: Fields = {}
        if ask is not None:
            expected = {"namespace": ask.namespace, "pod": ask.name}
        elif end is not None:
            names = ("namespace", "pod", "pod_uid", "container")
            expected = {name: getattr(end.body, name) for name in names}
            if expected["container"] is None:
                del expected["container"]
        _, differ = compared(body, expected)
        if differ:
            told = " and ".join(f"{name} {expected[name]}" for name in differ)
            return expected, f"what ended, and led to this, was {told}"
        spec = self._book.find(body.pod_uid, body.namespace, body.pod)
        if spec is not None and spec.container(body.container) is None:
            return {}, f"the pod's spec has no container {body.container}"
        if isinstance(body, ContainerRestarted):
            return self._other_id(record, body, key)
        return None

    def _other_id(
        self, record: Record, body: ContainerRestarted, key: str
    ) -> tuple[Fields, str] | None:
        """Whether another container ID than the record's has just started."""
        life = self._lives.get(key, {}).get(body.container)
        now = None if life is None else life.now
        if now is None or body.container_id is None or now.container_id == body.container_id:
            return None
        if now.started_ns is None or now.started_ns != record.ts_ns:
            return None
        return {"container_id": now.container_id}, f"what started was {now.container_id}"

    def _judge_restart(
        self, record: Record, body: ContainerRestarted, key: str, life: Life, ask: PodAsk
    ) -> None:
        profile = self._bench.profile
        assert profile is not None and life.now is not None
        before = life.before
        expected = self._expected(body, life, ask)
        recorded, differ = compared(body, expected)
        inputs = tuple(
            seq
            for seq in (
                ask.seq,
                None if before is None else before.killed_seq,
                None if before is None else before.died_seq,
                life.now.started_seq,
            )
            if seq is not None
        )
        fields: Fields = {
            "expected": expected, "recorded": recorded, "rule": RULE, "inputs": inputs,
        }  # fmt: skip
        subject = subject_of(body)
        if differ:
            told = ", ".join(f"{n} {recorded[n]} instead of {expected[n]}" for n in differ)
            self._bench.find(
                record, "impossible", subject=subject, why=f"recorded is {told}", **fields
            )
            return
        if before is None or not before.has_ended:
            self._bench.unverifiable(
                record, subject=subject, missing=["the end of the container before"], rule=RULE
            )
            return
        verdict: Verdict = "match"
        why = why_restarted(body, before, ask)
        if not self._was_remade(key, before):
            final = ends_for_good(profile, ask, body.container, before)
            if final is not None:
                verdict, why = "impossible", final
                fields["expected"] = None
        early = self._too_early(record, life)
        if verdict == "match" and early is not None:
            verdict, why = "impossible", early
            fields["expected"], fields["rule"] = None, BACK_OFF_RULE
        self._bench.find(record, verdict, subject=subject, why=why, **fields)

    def _expected(self, body: ContainerRestarted, life: Life, ask: PodAsk) -> Fields:
        expected: Fields = {}
        before = life.before
        if before is not None and before.container_id is not None:
            expected["previous_container_id"] = before.container_id
        if before is not None and before.reasons and body.reason is not None:
            reasons = before.reasons
            expected["reason"] = body.reason if body.reason in reasons else reasons[0]
        listed = self._book.count(ask, body.container_id)
        count = listed if listed is not None else (None if life.count is None else life.count + 1)
        life.count = count if count is not None else body.restart_count
        if count is not None and body.restart_count is not None:
            expected["restart_count"] = count
        return expected

    def _was_remade(self, key: str, before: Instance) -> bool:
        """A new sandbox starts the pod's containers whatever ended them."""
        made_ns = self._sandboxes.get(key)
        return made_ns is not None and made_ns > (before.started_ns or 0)

    # -- back-off ----------------------------------------------------------------------------

    def policy(self) -> BackOffPolicy | str:
        """The kubelet's first and greatest back-off, or what is missing to know them."""
        profile = self._bench.profile
        if profile is None:
            return self._bench.missing_profile
        facts = profile.lifecycle
        gates = self._bench.settings.get("featureGates")
        if not isinstance(gates, dict):
            if facts.restart_max_gate:
                return "the feature gates"
            gates = {}
        setting = self._bench.settings.get("crashLoopBackOff")
        configured = setting.get("maxContainerRestartPeriod") if isinstance(setting, dict) else None
        try:
            found = back_off_policy(
                facts, gates, configured if isinstance(configured, str) else None
            )
        except ValueError:
            found = None
        return found or "crashLoopBackOff.maxContainerRestartPeriod"

    def _in_sync(self, life: Life, before: Instance) -> bool | None:
        """Whether the sync that killed the instance started the next; None: not known."""
        if before.killed_ns is None or life.held_back or life.in_other_process:
            return False
        if life.failed_start:
            return None
        return any(reason in _SYNC_KILLS for reason in before.reasons)

    def _keeps_dead(self) -> bool:
        """Whether the newest dead instance of each container is kept."""
        each = self._bench.settings.get("--maximum-dead-containers-per-container")
        all_ = self._bench.settings.get("--maximum-dead-containers")
        return each != "0" and isinstance(each, str) and all_ == "-1"

    def _too_early(self, record: Record, life: Life) -> str | None:
        values, before = life.entry.at(record.ts_ns), life.before
        if values is None or before is None:
            return None
        in_sync = self._in_sync(life, before)
        if in_sync is None:
            return None
        looked_at = life.earlier if in_sync else before
        if looked_at is None or (in_sync and not self._keeps_dead()):
            return None
        return too_early(record.ts_ns + _MARGIN_NS, looked_at, values)

    def _raise(self, life: Life, record: Record, ask: PodAsk) -> None:
        """The start that was judged raised the entry, if there was an exited instance."""
        policy, before = self.policy(), life.before
        if isinstance(policy, str) or before is None:
            life.entry.values = None
        else:
            in_sync = self._in_sync(life, before)
            if life.failed_start:
                life.entry.may_have_risen(policy)
            if in_sync and life.earlier is None:
                if not life.is_first:
                    life.entry.raise_(policy, record.ts_ns, surely=False)
            else:
                surely = in_sync is False or (in_sync is True and self._keeps_dead())
                life.entry.raise_(policy, record.ts_ns, surely=surely)
        life.held_back = life.in_other_process = life.failed_start = False

    def backed_off(self, record: Record, body: RestartBackedOff, state: NodeState) -> None:
        """Judge a restart that was held back."""
        key = key_for(state, body)
        subject = subject_of(body)
        missing = self._lacks(body)
        policy = self.policy()
        wrong = None if missing is not None else self._identity(record, body, key)
        if wrong is not None:
            expected, why = wrong
            recorded, _ = compared(body, expected)
            self._bench.find(
                record, "impossible", subject=subject, why=why, expected=expected,
                recorded=recorded, rule=BACK_OFF_RULE, inputs=self._cause(record),
            )  # fmt: skip
            return
        if missing is None and isinstance(policy, str):
            missing = policy
        if missing is not None or isinstance(policy, str):
            self._bench.unverifiable(
                record, subject=subject, missing=[missing or ""], rule=BACK_OFF_RULE
            )
            return
        life = self._life(key, body.container)
        if life.failed_start:
            life.entry.may_have_risen(policy)
            life.failed_start = False
        judge_backed_off(self._bench, record, body, life, series(policy), BACK_OFF_RULE)
        life.held_back = True
