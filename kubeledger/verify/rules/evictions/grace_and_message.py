"""What is said of one eviction, held against the pod's spec: grace period, message and limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubeledger.kubelet.eviction.decisions import eviction_override_s, grace_period_s
from kubeledger.kubelet.eviction.local_storage import LocalStorageExcess, excesses
from kubeledger.kubelet.eviction.messages import pressure_message
from kubeledger.kubelet.eviction.signals import (
    RESOURCE_OF,
    ContainerStats,
    FsStats,
    MemoryStats,
    PodReference,
    PodStats,
    SignalObservation,
    VolumeStats,
    format_of,
)
from kubeledger.kubelet.eviction.thresholds import Threshold
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, value_of
from kubeledger.kubelet.lifecycle.termination import overridden_grace_s
from kubeledger.kubelet.preemption.preemption import kill_wait_s
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.errors import KubeledgerError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, Ruling, all_of, judge, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.finding import same_words
from kubeledger.verify.rules.evictions.thresholds import Reading

_CONTAINER: Final = re.compile(r"Container\s*(\S+?)\s*was\s*using\s*(\S+?),?\s*(?:request|which)")
_POD: Final = re.compile(r"Pod\s*(\S+?)\s*was\s*using\s*(\S+?),\s*request")
"""Where a line is wrapped, blanks come or go."""
_WHOSE: Final = {"emptydirfs.limit": "volume", "ephemeralcontainerfs.limit": "container"}
_LATE_NS: Final = 2 * NS_PER_S
_STOPS_NS: Final = 4 * NS_PER_S
"""The rest of a pod's end may take so long after those of its containers."""
_WORKER_NS: Final = 120 * NS_PER_S
"""A pod's worker that is busy comes to the end of its pod no later than this."""
_FULL: Final = 2**60
"""Bytes that exceed any limit."""


class Eviction:
    """One eviction in question, of a pod whose spec is known.

    Attributes:
        is_for_own_use: the pod exceeded a limit of its own.
    """

    def __init__(
        self, context: VerifyContext, record: Record, body: PodEvicted, pod: Pod, seq: int
    ) -> None:
        """``seq``: of the record that shows the spec; the kubelet's version is known."""
        self.record, self.body, self.pod, self.seq = record, body, pod, seq
        self._context, self._profile = context, context.known_profile
        self._stay = context.timeline.interval_of(record)
        self._history = context.timeline.of(record)
        self.subject = f"pod/{body.namespace}/{body.pod}"
        self.is_for_own_use = body.resource is None and "exceed" in (body.message or "")
        if body.signal is not None or body.threshold_kind is not None:
            of_limit = (body.signal or "").endswith(".limit")
            self.is_for_own_use = of_limit or body.threshold_kind == "local_storage"

    def judge_end(self, threshold: Threshold | None) -> Judgement:
        """Whether its containers were given the right time, and the manager saw their end.

        No ``threshold`` for local storage.
        """
        return all_of([self._judge_grace(threshold), self._judge_outcome(threshold)])

    def _judge_grace(self, threshold: Threshold | None) -> Judgement:
        """The pod worker logs its own number; the runtime gets at least two seconds."""
        given, facts = self.body.grace_period_s, self._profile.lifecycle
        own = self.pod.spec.termination_grace_period_seconds
        if given is None:
            return same(True, "")
        override = self._asked_s(threshold)
        if override is None:
            unset = "the setting evictionMaxPodGracePeriod"
            return open_to(unset, denied="another grace period may be set")
        text = "a hard eviction" if threshold is not None else "an eviction for local storage"
        if threshold is not None and not threshold.is_hard:
            most = self._context.settings.get("evictionMaxPodGracePeriod")
            text = f"a soft eviction with evictionMaxPodGracePeriod {most}"
        by_worker = max(override or own or 0, 1) if facts.pod_worker_gives_grace else override
        allowed = by_worker, overridden_grace_s(facts, override, own)
        why = f"{text} of a pod with terminationGracePeriodSeconds {own} gives it "
        if given in allowed:
            return same(True, f"{why}{given} s")
        why += f"{by_worker} s, not {given} s"
        unknown = []
        ending_ns = None if self._stay is None else self._stay.ending_ns
        if ending_ns is not None and ending_ns < self.record.ts_ns and given < max(allowed):
            unknown = ["the grace period with which the pod was being stopped before"]
        denied = Ruling(allowed=False, why=why, expected={"grace_period_s": by_worker})
        return judge([denied], unknown=unknown)

    def _asked_s(self, threshold: Threshold | None) -> int | None:
        """What the pod worker is asked for, which replaces 0; None where a setting is missing."""
        if threshold is None or threshold.is_hard:
            return eviction_override_s(self._profile.eviction, hard=True)
        most = self._context.settings.get("evictionMaxPodGracePeriod")
        facts = self._profile.eviction
        return grace_period_s(threshold, self.pod, most, facts) if isinstance(most, int) else None

    def _judge_outcome(self, threshold: Threshold | None) -> Judgement:
        """Whether the manager saw the pod end: it waits for that, but not for long.

        Source: v1.36.2 pkg/kubelet/pod_workers.go killPodNow
        """
        ts_ns, pod, was_seen = self.record.ts_ns, self._history, self.body.evicted
        if was_seen is None or not pod.key:
            return same(True, "")
        asked_s = self._asked_s(threshold)
        if asked_s is None:
            asked_s = (self.body.grace_period_s or 0) if was_seen else 0
        wait_ns = kill_wait_s(asked_s) * NS_PER_S
        for each in pod.calls if was_seen else ():
            waited_ns = each.ts_ns - ts_ns - wait_ns
            if each.word == "ExceededGracePeriod" and abs(waited_ns) < _LATE_NS:
                at = format_ts(each.ts_ns)
                why = f"the kubelet said at {at} that it waits for its end no longer"
                return same(False, why, expected={"evicted": False}, inputs=[each.seq])
        for interval in pod.intervals if not was_seen else ():
            over_ns = interval.terminated_ns or 0
            if ts_ns < over_ns < ts_ns + wait_ns - _LATE_NS:
                why = f"the pod was over by {format_ts(over_ns)}, and that ends the wait"
                return same(False, why, expected={"evicted": True})
        ran = pod.ran(ts_ns)
        ends = [run.died_ns for run in ran if run.name and run.died_ns is not None]
        if not was_seen and not any(run.name for run in ran):
            stops = [each for each in pod.calls if each.what == "terminating" and each.number]
            if any(0 < stop.ts_ns - wait_ns - ts_ns < _WORKER_NS for stop in stops):
                return same(True, "")  # its worker came to it only then
            return open_to("how long the pod took to end", denied="none of its containers ran")
        if not ends:
            return same(True, "")
        last_ns = max(ends)
        took = f"its containers had ended {(last_ns - ts_ns) / NS_PER_S:.1f} s after it was chosen"
        # Whose start no line shows may have begun only then, and how late lines were is not known.
        sure = all(run.started_ns is not None for run in ran if run.name and run.died_ns == last_ns)
        late = self._context.times.told(last_ns).from_ns > ts_ns + wait_ns + _LATE_NS
        if was_seen and sure and late:
            why = f"{took}, and the eviction manager waits for {wait_ns // NS_PER_S} s"
            return same(False, why, expected={"evicted": False})
        all_ended = all(run.died_ns is not None for run in ran) and len(ends) < len(ran)
        if not was_seen and last_ns - ts_ns < wait_ns - _STOPS_NS and all_ended:
            return same(False, f"{took}, so it was seen to end", expected={"evicted": True})
        return same(True, "")

    def judge_message(self, threshold: Threshold, reading: Reading | None) -> Judgement:
        """Whether the kubelet says so, of the usage that the message says."""
        body, facts = self.body, self._profile.eviction
        available, capacity = (0, 0) if reading is None else (reading.available, reading.capacity)
        seen = SignalObservation(available if body.observed is None else body.observed, capacity)
        unread = body.observed is None or isinstance(threshold.value, float)
        is_unread = facts.eviction_message_names_threshold and unread and reading is None
        if body.message is None or is_unread:
            return same(True, "")
        try:
            stats = _stats_of(body.message, self.pod, threshold)
            expected = pressure_message(self.pod, stats, threshold, seen, facts).text
        except (QuantityError, KubeledgerError):
            expected = ""
        if same_words(expected, body.message) or _is_begun(expected, body.message):
            return same(True, "")
        why = f"the kubelet's message is {expected!r}, not {body.message!r}"
        return same(False, why, expected={"message": expected})

    def judge_limit(self, found: tuple[LocalStorageExcess, int] | None) -> Judgement:
        """Whether the pod has the limit, and can have exceeded it; ``found`` by a sample around."""
        body = self.body
        try:
            limits = list(_limits(self.pod, self._profile))
        except (QuantityError, KubeledgerError):
            limits = []
        name = f"pod {body.namespace}/{body.pod}"
        excess, inputs = (None, [self.seq]) if found is None else (found[0], [self.seq, found[1]])
        if body.resource is not None or not any(
            body.signal in (None, limit.limit)
            and (body.message is None or same_words(body.message, limit.message))
            and body.threshold in (None, limit.allowed.value())
            and body.threshold_kind in (None, "local_storage")
            for limit in limits
        ):
            has = "; ".join(limit.message.strip() for limit in limits) or "it has none"
            why = f"{name} has no such limit of local storage: {has}"
            return same(False, why, inputs=inputs, certain=True)
        if excess is not None:
            whose = f"{_WHOSE[excess.limit]} {excess.name} of {name}" if excess.name else name
            used = str(Quantity.of(excess.used_bytes, format_of("ephemeral-storage")))
            why = f"{whose} used {used} of local storage, more than its limit of {excess.allowed}"
            return same(True, why, inputs=inputs)
        unknown = f"what {name} used of local storage at {format_ts(self.record.ts_ns)}"
        denied = f"no sample shows that {name} exceeds its limit"
        return open_to(unknown, denied=denied, inputs=inputs)


def _is_begun(expected: str, message: str) -> bool:
    """Whether it was cut where nothing shows it, and says the same up to there.

    All its sentences end in a full stop; that of a container, or of the pod, may be the one cut.
    """
    begun = message.removesuffix("...").rstrip()
    whole, _, rest = begun.rpartition(". ")
    if not rest or rest.endswith("."):
        return False
    is_usage = "Container ".startswith(rest[:10]) or "Pod ".startswith(rest[:4])
    return (is_usage and same_words(expected, f"{whole}.")) or expected.startswith(begun)


def used_by_containers(message: str) -> int | None:
    """What the containers used together that a message names; None where it names none."""
    used = [value_of(text) for _, text in _CONTAINER.findall(message)]
    return sum(used) if used else None


def _stats_of(message: str, pod: Pod, threshold: Threshold) -> PodStats:
    """The usage that a message says; QuantityError where an amount cannot be read."""
    memory = RESOURCE_OF[threshold.signal] == "memory"

    def container(name: str, used: int) -> ContainerStats:
        if memory:
            return ContainerStats(name, memory=MemoryStats(working_set_bytes=used))
        return ContainerStats(name, rootfs=FsStats(used_bytes=used), logs=FsStats(used_bytes=0))

    of_pod = _POD.search(message)
    return PodStats(
        pod_ref=PodReference(uid=pod.metadata.uid),
        containers=tuple(container(name, value_of(u)) for name, u in _CONTAINER.findall(message)),
        memory=MemoryStats(working_set_bytes=value_of(of_pod[2])) if of_pod else None,
    )


def _limits(pod: Pod, profile: KubeletProfile) -> Iterator[LocalStorageExcess]:
    """Every limit of local storage that the pod may exceed, as if it did."""
    full, who = FsStats(used_bytes=_FULL), PodReference()
    shapes = [PodStats(who, ephemeral_storage=full)]
    for volume in pod.spec.volumes or ():
        shapes.append(PodStats(who, volumes=(VolumeStats(name=volume.name, used_bytes=_FULL),)))
    for container in pod.spec.containers or ():
        shapes.append(PodStats(who, containers=(ContainerStats(container.name, logs=full),)))
    return (excess for stats in shapes for excess in excesses(pod, stats, "shared", profile))
