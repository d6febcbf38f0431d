"""The instances that each container of a node ran, and whether one that ended is started again.

An instance is shown by its start, its end, its kill, or a restart that names it; the event
``Created`` shows one before its ID is known. Starts and ends come out of the PLEG's relists,
about a second apart, so an instance that ends at once is shown by its end only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.statuses import (
    ALWAYS,
    LOST_EXIT_CODE,
    NEVER,
    ON_FAILURE,
    container_should_restart,
    matching_restart_rule,
    policy_restarts,
)
from kubeledger.kubelet.lifecycle.state import how_it_ended, key_of
from kubeledger.kubelet.profile.lifecycle import KuberuntimeFacts
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
)
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import PodSpec
from kubeledger.verify.evidence.coverage import Loss
from kubeledger.verify.evidence.pod_intervals import ContainerRun
from kubeledger.verify.evidence.pods import ListedInstance, OfPod
from kubeledger.verify.evidence.times import FOUND_NS, Times
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.back_off import BackOff

_RELIST_NS: Final = NS_PER_S
"""Two relists are so far apart, and what both saw is logged as far apart."""
_KEPT: Final = 4


Told = ContainerStarted | ContainerDied
"""What a relist tells of a container."""


def differing(body: Body, cause: Body, names: Iterable[str]) -> Fields:
    """What a record shows otherwise than the one that led to it, as that has it."""
    each = ((name, getattr(body, name), getattr(cause, name)) for name in names)
    return {name: led for name, own, led in each if None not in (own, led) and own != led}


def key_for(state: NodeState, body: OfPod) -> str:
    """The key under which the node's state keeps the pod that a body is about."""
    return key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod) or ""


def subject_of(body: OfPod) -> str:
    """The subject of a finding about a container, or else a pod, as ``why`` takes it."""
    pod, container = f"{body.namespace}/{body.pod}", getattr(body, "container", None)
    return f"pod/{pod}" if container is None else f"container/{pod}/{container}"


_SHOWN_NS: Final = 60 * NS_PER_S
"""A sync loop that waits for a kill learns so late of what its lists show."""


def lived_until(context: VerifyContext, shown: ListedInstance) -> int:
    """Until when lists surely show that an instance ran; 0: not known.

    What a process finds at its start may be what the one before did not come to tell.
    """
    ran_ns = 0 if shown.is_lost else shown.lived[0]
    process = context.timeline.process(ran_ns)
    return 0 if process is None or ran_ns < process.started_ns + FOUND_NS else ran_ns


def ran_until(context: VerifyContext, run: ContainerRun, by_ns: int) -> tuple[int, int]:
    """Until when a container ran that surely still did so by a time, and the record; else (0, 0).

    Where lines are late a kill may be of what had ended long before, and what a process tells at
    its start may be, too: its first relist was some time since then. Of what the runtime had lost
    nothing says when it ended.
    """
    times, timeline = context.times, context.timeline
    shown = context.instances.instance(run.container_id)
    if run.exit_code == LOST_EXIT_CODE or (shown is not None and shown.is_lost):
        return 0, 0
    if (listed := times.listed_end(run.container_id, run.died_ns)) is not None:
        return (listed.from_ns, run.died_seq) if listed.from_ns > by_ns else (0, 0)
    at_ns, seq = max((run.killed_ns or 0, run.killed_seq), (run.died_ns or 0, run.died_seq))
    told_by = timeline.process(at_ns)
    if told_by is None or at_ns < told_by.started_ns + FOUND_NS:
        at_ns, seq = run.shown  # a process tells at its start what had ended before
        told_by = timeline.process(at_ns)
    late_ns = max(times.late(by_ns), times.late(at_ns))  # at least, so that twice is not sure
    earliest_ns = timeline.iterations.earliest(at_ns)
    if told_by is not None:  # whose relists saw it
        began_ns = told_by.started_ns
        is_found = at_ns < began_ns + FOUND_NS
        at_ns = earliest_ns = began_ns if is_found else max(earliest_ns, began_ns)
    is_later = at_ns and earliest_ns - late_ns > by_ns
    ran = (0, 0) if shown is None else shown.ran  # a list from after a line of its end is late
    if not is_later and by_ns + _SHOWN_NS + late_ns <= ran[0] <= (run.died_ns or ran[0]):
        return ran
    return (at_ns, seq) if is_later else (0, 0)


class Instance(msgspec.Struct):
    """One run of a container.

    Attributes:
        container_id: None until a record shows it.
        created_ns: when the event showed its creation; None without one, 0 when it came late.
        started_ns, died_ns: up to a relist late; None when not shown.
        killed_ns: when the kubelet decided to kill it, last; ``first_killed_ns``: first.
        reasons: what a restart after it may name as the reason of its end; empty: not known.
        is_reported: its start was logged, not only its end.
        is_to_be_killed: a probe of it failed for which it is to be killed.
        count: how often the container had been restarted; None when not known.
        after_ns: a sync had held its start back then; None where none did.
        told: what told its start first in the last process that did.
    """

    container_id: str | None
    seq: int
    created_ns: int | None = None
    started_ns: int | None = None
    started_seq: int | None = None
    died_ns: int | None = None
    died_seq: int | None = None
    killed_ns: int | None = None
    first_killed_ns: int | None = None
    killed_seq: int | None = None
    reasons: tuple[str, ...] = ()
    exit_code: int | None = None
    out_of_memory: bool = False
    is_reported: bool = False
    is_to_be_killed: bool = False
    count: int | None = None
    after_ns: int | None = None
    told: Record | None = None

    @property
    def has_ended(self) -> bool:
        return self.killed_ns is not None or self.died_ns is not None

    def ended_from_ns(self, times: Times) -> int | None:
        """It ended no earlier than this; None: not known.

        A start and an end that are logged within a relist waited for the sync loop, and how long
        ago they were is not known. What a relist saw to run may have ended while it was told.
        """
        killed_ns, died_ns, started_ns = self.first_killed_ns, self.died_ns, self.started_ns
        if (listed := times.listed_end(self.container_id, died_ns)) is not None:
            return listed.from_ns
        is_killed = killed_ns is not None and (died_ns is None or died_ns >= killed_ns)
        if killed_ns is not None and is_killed and not times.late(killed_ns):
            return killed_ns
        if started_ns is None or (died_ns is not None and died_ns - started_ns < _RELIST_NS):
            known = [ts_ns for ts_ns in (self.created_ns, self.after_ns) if ts_ns]
            return max(known, default=self.created_ns)
        return started_ns - times.late(started_ns)

    def may_have_ended_unseen(self, now_ns: int) -> bool:
        """No relist need have shown its end yet, which a decision may rest on already."""
        is_young = self.started_ns is not None and now_ns - self.started_ns <= _RELIST_NS
        return self.container_id is None or (is_young and not self.has_ended)

    def die(self, record: Record, body: ContainerDied) -> None:
        """It was shown to have ended; shown again, nothing changes."""
        if self.died_ns is None:
            self.died_ns, self.died_seq, self.exit_code = record.ts_ns, record.seq, body.exit_code
            # An end follows from a kill: by the kubelet, or else by the kernel.
            self.out_of_memory = record.cause is not None and self.killed_ns is None
            if self.killed_ns is None and (self.started_ns is not None or not self.is_reported):
                self.reasons = self.reasons or ("exited",)


class Container(msgspec.Struct):
    """A container over its newest instances.

    Attributes:
        back_off: its entry in the back-off map of the present kubelet process.
        instances: (<= 4,) newest last.
        shown: how many there have been.
        is_first: no instance came before the first of ``instances``, as far as is known.
        was_inherited: the newest was there before this kubelet process.
        held_ns: when a sync last held a start back.
        turns: (<= 4,) the last events that told of a creation or a start.
        by_policy: a sync that found the one before ended started the newest, by restart policy.
    """

    key: str
    name: str
    is_first: bool
    back_off: BackOff
    instances: list[Instance] = []
    shown: int = 0
    was_inherited: bool = False
    held_ns: int | None = None
    turns: list[Record] = []
    by_policy: bool = False

    def at(self, back: int) -> Instance | None:
        """The newest instance (0), the one before (1), and so on; None where none was shown."""
        return self.instances[-1 - back] if back < len(self.instances) else None

    def find(self, container_id: str | None) -> Instance | None:
        if container_id is None:
            return None
        return next((i for i in self.instances if i.container_id == container_id), None)

    def may_follow(self, container_id: str) -> bool:
        """Whether that instance may be the last before the newest.

        Where only ends are recorded, it is not known which container ran last.
        """
        for instance in self.instances[-2::-1]:
            if instance.container_id == container_id or instance.is_reported:
                return instance.container_id == container_id
        return False

    def push(self, instance: Instance) -> None:
        self.was_inherited = False
        instance.after_ns, self.held_ns = self.held_ns, None
        self.shown += 1
        self.instances.append(instance)
        del self.instances[:-_KEPT]


# What a decision about a container must be about: the same as what led to it.

B = TypeVar("B", bound=msgspec.Struct)

_CAUSES_MAX: Final = 256
_NAMES: Final = ("namespace", "pod", "pod_uid", "container", "container_id")
_VICTIM: Final = {"namespace": "victim_namespace", "pod": "victim_pod", "pod_uid": "victim_uid"}


class Causes:
    """What the newest records that decisions follow from were about: decisions are, too."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._bodies: dict[int, Body] = {}

    def see(self, record: Record, body: Body, _state: object = None) -> None:
        """Note a record with a body as it is believed."""
        self._bodies[record.seq] = body
        if len(self._bodies) > _CAUSES_MAX:
            del self._bodies[next(iter(self._bodies))]

    def judge(self, record: Record, body: OfPod) -> Judgement | None:
        """The judgement of a decision about another one than its cause; None for the same."""
        cause = self._bodies.get(record.cause or 0)
        names = {} if cause is None else _names(cause)
        uid = names.get("pod_uid", body.pod_uid)
        listed = None if uid is None else self._context.pods.at(record.ts_ns, uid)
        if listed is not None:
            names |= {"namespace": listed.namespace, "pod": listed.name}
        given = {name: getattr(body, name, None) for name in names}
        wrong = {name: value for name, value in names.items() if given[name] not in (None, value)}
        if not wrong:
            return None
        about = " and ".join(f"{name} {value}" for name, value in wrong.items())
        why = f"what led to this was about {about}"
        return same(False, why, expected=wrong, inputs=[record.cause or 0])


def corrected(body: B, wrong: Judgement | None) -> B:
    """The body as it must have been, so that one wrong name is found only once."""
    expected = None if wrong is None else wrong.expected
    return body if expected is None else replace(body, **expected)


def _names(cause: Body) -> Fields:
    """What what follows is about; after the end of a container that is another one."""
    but = "container_id" if isinstance(cause, ContainerDied | ContainerKilled) else ""
    fields = _VICTIM if isinstance(cause, PodPreempted) else dict.fromkeys(_NAMES)
    given = {name: getattr(cause, field or name, None) for name, field in fields.items()}
    found = {n: v for n, v in given.items() if v is not None and n != but}
    if "pod_uid" in found:
        del found["namespace"], found["pod"]
    return found


# Whether a container that ended is started again, by the pod's spec; and why, in words.

_ENDS_IT: Final = frozenset({"liveness_probe", "startup_probe", "post_start_hook"})
"""Reasons of kills after which the restart policy counts."""
_MEANT: Final = {
    "failed liveness probe": "liveness_probe",
    "failed startup probe": "startup_probe",
    "definition changed": "spec_changed",
    "resize requires restart": "resized",
}
_BECAUSE: Final = {
    "liveness_probe": "its liveness probe failed",
    "startup_probe": "its startup probe failed",
    "spec_changed": "its definition changed",
    "resized": "its resize asks for a restart",
    "preempted": "its pod was preempted",
    "evicted": "its pod was evicted",
    "pod_deleted": "its pod was deleted",
    "post_start_hook": "its postStart hook failed",
    "sandbox_changed": "its pod got another sandbox",
}


def judge_policy(
    facts: KuberuntimeFacts,
    specs: tuple[PodSpec, ...],
    body: ContainerRestarted,
    before: Instance,
    code: int | None,
    *,
    remade: bool,
    lost: Loss | None,
) -> Judgement:
    """Judge a restart by its container's restart policy, in every version of the spec.

    Args:
        specs: (n,) n >= 1.
        code: what it exited with, where that counts; else None.
        remade: the pod got another sandbox since, so that all of it runs again.
        lost: why a line about a kill may be missing: one whose definition changed is killed and
            started again whatever the policy; None where a record would show that.
    """
    rulings = []
    for spec in specs:
        final = None if remade else _ends_for_good(facts, spec, body.container, before, code)
        if spec.container(body.container) is None:
            final = f"the pod's spec has no container {body.container}"
        why = final or _why_restarted(body, before, spec)
        rulings.append(Ruling(allowed=final is None, why=why, assumes=spec.assumes(specs)))
        if final and lost is not None and (before.killed_ns is None or code is not None):
            changed = f"whether its definition had changed ({lost.phrase})"
            rulings.append(Ruling(allowed=True, why="", assumes=(*spec.assumes(specs), changed)))
    return judge(rulings)


def reason_meant(message: str | None) -> str | None:
    """The reason that the kubelet's message of a kill gives."""
    return next((reason for text, reason in _MEANT.items() if text in (message or "")), None)


def _ends_for_good(
    facts: KuberuntimeFacts, spec: PodSpec, name: str, before: Instance, code: int | None
) -> str | None:
    """Why a container is not started again; None when it is, or may be.

    Init containers also run again with a pod that is made again, so only containers proper are
    judged.
    """
    entry = spec.container(name)
    if entry is None or not spec.is_app(name):
        return None
    own = entry.restart_policy if facts.container_restart_rules else None
    policy = own or spec.restart_policy
    if code is None:
        counts = not before.killed_ns or bool(_ENDS_IT.intersection(before.reasons[:1]))
        known = before.exit_code
        rule = entry.restart_policy_rules if known is None else matching_restart_rule(entry, known)
        ends = policy == NEVER and counts and not rule
        return f"restart policy Never does not start container {name} again" if ends else None
    if facts.container_restart_rules:
        of_pod, restart_all = spec.restart_policy, facts.restart_all_containers
        again = container_should_restart(entry, of_pod, code, restart_all=restart_all)
        again = again or matching_restart_rule(entry, code) is not None
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
