"""Whose turn it was, what it was given and what was said: an eviction judged in its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kubeledger.errors import KubeledgerError
from kubeledger.eviction.decisions import eviction_override_s, grace_period_s
from kubeledger.eviction.observations import SignalObservation
from kubeledger.eviction.records import RankedPod, ReclaimAttempted
from kubeledger.eviction.thresholds import Threshold, limit_nanos
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.kube.pod import Pod
from kubeledger.kube.quantity import QuantityError
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.evictions.claims import grace_periods, limit_messages, said_again
from kubeledger.verify.evictions.judging import first_rulings, order_rulings, ranking_of
from kubeledger.verify.evictions.manager import Manager
from kubeledger.verify.evictions.pods import PodUsages
from kubeledger.verify.evictions.rounds import Reading

__all__ = ["Turns", "unsure"]

_NANOS: Final = 10**9
_STEADY_NS: Final = 30 * NS_PER_S
"""A container that runs for so long has statistics."""


class Turns:
    """Judges parts of a reclaim and of an eviction; each gives judgements that must all hold."""

    def __init__(self, manager: Manager, usages: PodUsages) -> None:
        self._manager = manager
        self._bench = manager.bench
        self._usages = usages
        self.spared: dict[int, list[RankedPod]] = {}
        """Seq of a reclaim -> critical pods that it passed over."""

    def outcome(
        self,
        body: ReclaimAttempted,
        threshold: Threshold,
        after: Mapping[str, EvictionSignalObserved],
    ) -> Iterator[Judgement]:
        """Whether what was unused had to suffice."""
        assert self._manager.rounds is not None
        assert self._bench.profile is not None
        if not self._manager.reclaims(threshold):
            if body.outcome == "node_level":
                why = f"nothing is deleted for {threshold.signal} before a pod is evicted"
                yield judge([Ruling(allowed=False, why=why)])
            return
        if not after or body.outcome in (None, "nothing"):
            return
        minimum = self._bench.profile.eviction.reclaim_must_reach_minimum
        short = [
            each
            for each in self._manager.rounds.thresholds
            if (seen := after.get(each.signal)) is not None
            and seen.available * _NANOS < limit_nanos(each, seen.capacity, minimum=minimum)
        ]
        enough = not short
        if enough == (body.outcome == "node_level"):
            why = "deleting what was unused " + (
                "sufficed" if enough else f"left {_signals(short)} short"
            )
            yield judge([Ruling(allowed=True, why=why)])
        else:
            why = "deleting what was unused " + (
                "had to suffice, and no pod was to be evicted"
                if enough
                else f"cannot have sufficed: {_signals(short)} stayed short"
            )
            yield judge([Ruling(allowed=False, why=why)])

    def order(
        self,
        record: Record,
        ranked: Sequence[RankedPod],
        threshold: Threshold,
        unsure: frozenset[RankedPod],
    ) -> Judgement:
        """Whether pods can have been ranked in this order."""
        layout = self._manager.layout
        places = self._usages.places(record.ts_ns, ranked, threshold.signal, layout, unsure)
        return judge(order_rulings(places, threshold.signal, record.ts_ns))

    def turn(
        self,
        record: Record,
        body: PodEvicted,
        who: RankedPod,
        cause: Record | None,
        threshold: Threshold,
        unsure: frozenset[RankedPod],
    ) -> Iterator[Judgement]:
        """Whether it was the pod's turn."""
        ranked = cause.body.ranked if cause is not None else None  # type: ignore[attr-defined]
        if ranked is None or cause is None:
            phrase = "the ranking of the pods"
            why = "the pod stands first"
            yield judge(
                [
                    Ruling(allowed=False, why="another pod may stand first"),
                    Ruling(allowed=True, why=why, assumes=(phrase,)),
                ]
            )
            return
        inputs = (cause.seq,)
        spared = self.spared.get(cause.seq, [])
        for place, pod in enumerate(ranked, start=1):
            if pod == who:
                if body.rank not in (None, place):
                    why = f"the pod stood at place {place} of the ranking, not {body.rank}"
                    yield judge([Ruling(allowed=False, why=why, inputs=inputs)])
                break
            if pod not in spared:
                name = f"{pod.namespace}/{pod.pod}"
                why = f"pod {name} stood before it in the ranking, and was not passed over"
                yield judge([Ruling(allowed=False, why=why, inputs=inputs)])
                return
        else:
            why = "the pod does not stand in the ranking"
            yield judge([Ruling(allowed=False, why=why, inputs=inputs)])
            return
        if self._manager.loose:
            return
        layout = self._manager.layout
        rest = [pod for pod in ranked if pod not in spared and pod != who]
        places = self._usages.places(record.ts_ns, [who, *rest], threshold.signal, layout, unsure)
        yield judge(first_rulings(places, threshold.signal, record.ts_ns))

    def ranking(
        self,
        record: Record,
        cause: Record | None,
        threshold: Threshold,
        doubtful: frozenset[RankedPod],
    ) -> dict[str, str]:
        """Pod -> what it was ranked by, in the order recorded."""
        ranked = cause.body.ranked if cause is not None else None  # type: ignore[attr-defined]
        if ranked is None or cause is None:
            return {}
        signal, layout = threshold.signal, self._manager.layout
        places = self._usages.places(record.ts_ns, ranked, signal, layout, doubtful)
        passed = self.spared.get(cause.seq, [])
        spared = [place for place, who in zip(places, ranked, strict=True) if who in passed]
        return ranking_of(places, spared, signal)

    def grace(
        self, body: PodEvicted, pod: Pod, threshold: Threshold | None, *, was_ending: bool
    ) -> Iterator[Judgement]:
        """Whether its containers were given the right time."""
        profile = self._bench.profile
        assert profile is not None
        if body.grace_period_s is None:
            return
        override = eviction_override_s(profile.eviction, hard=True)
        said = "a hard eviction" if threshold is not None else "an eviction for local storage"
        if threshold is not None and not threshold.is_hard:
            most = self._bench.settings.get("evictionMaxPodGracePeriod")
            if not isinstance(most, int):
                assumes = ("the setting evictionMaxPodGracePeriod",)
                yield judge(
                    [
                        Ruling(allowed=False, why="another grace period may be set"),
                        Ruling(allowed=True, why="", assumes=assumes),
                    ]
                )
                return
            override = grace_period_s(threshold, pod, most, profile.eviction)
            said = f"a soft eviction with evictionMaxPodGracePeriod {most}"
        allowed = grace_periods(profile, override, pod)
        own = pod.spec.termination_grace_period_seconds
        if body.grace_period_s in allowed:
            why = f"{said} of a pod with terminationGracePeriodSeconds {own} gives it "
            yield judge([Ruling(allowed=True, why=f"{why}{body.grace_period_s} s")])
            return
        why = (
            f"{said} of a pod with terminationGracePeriodSeconds {own} gives it {allowed[0]} s, "
            f"not {body.grace_period_s} s"
        )
        rulings = [Ruling(allowed=False, why=why, expected={"grace_period_s": allowed[0]})]
        if was_ending and body.grace_period_s < max(allowed):
            assumes = ("the grace period with which the pod was being stopped before",)
            rulings.append(Ruling(allowed=True, why="", assumes=assumes))
        yield judge(rulings)

    def message(
        self, body: PodEvicted, pod: Pod, threshold: Threshold, reading: Reading | None
    ) -> Iterator[Judgement]:
        """Whether the kubelet says so."""
        profile = self._bench.profile
        assert profile is not None
        if body.message is None or self._manager.loose:
            return
        observed = body.observed
        unsaid = observed is None or isinstance(threshold.value, float)
        if reading is None and unsaid and profile.eviction.eviction_message_names_threshold:
            return
        capacity = reading.capacity if reading is not None else 0
        available = observed if observed is not None else (reading.available if reading else 0)
        seen = SignalObservation(available, capacity)
        try:
            expected = said_again(body.message, pod, threshold, seen, profile)
        except (QuantityError, KubeledgerError):
            expected = ""
        if expected == body.message:
            yield judge([Ruling(allowed=True, why="")])
            return
        why = f"the kubelet's message is {expected!r}, not {body.message!r}"
        yield judge([Ruling(allowed=False, why=why, expected={"message": expected})])

    def local(self, record: Record, body: PodEvicted, pod: Pod, seq: int | None) -> Judgement:
        """Whether the pod has the limit, and can have exceeded it."""
        assert self._bench.profile is not None
        inputs = () if seq is None else (seq,)
        limits = list(limit_messages(pod, self._bench.profile))
        fits = [
            said
            for signal, said, amount in limits
            if body.signal in (None, signal)
            and body.message in (None, said)
            and body.threshold in (None, amount)
            and body.threshold_kind in (None, "local_storage")
            and body.resource is None
        ]
        name = f"pod {body.namespace}/{body.pod}"
        if not fits:
            has = "; ".join(said.strip() for _, said, _ in limits) or "it has none"
            why = f"{name} has no such limit of local storage: {has}"
            return judge([Ruling(allowed=False, why=why, inputs=inputs, certain=True)])
        if self._usages.exceeded(record.ts_ns, body, pod, self._manager.layout):
            why = f"{name} used more local storage than it may, as samples show"
            return judge([Ruling(allowed=True, why=why, inputs=inputs)])
        phrase = f"what {name} used of local storage at {format_ts(record.ts_ns)}"
        return judge(
            [
                Ruling(allowed=False, why=f"no sample shows that {name} exceeds its limit"),
                Ruling(allowed=True, why="", assumes=(phrase,), inputs=inputs),
            ]
        )


def unsure(state: NodeState, ts_ns: int, ranked: Sequence[RankedPod]) -> frozenset[RankedPod]:
    """Pods of which there may be no statistics: no container ran for a while.

    One that nothing names may be the sandbox, whose statistics do not count.

    Source: v1.30.1 pkg/kubelet/stats/cri_stats_provider.go removeTerminatedContainers
    """
    found = set()
    for who in ranked:
        pod = state.lifecycle.pods.get(who.pod_uid or f"{who.namespace}/{who.pod}")
        steady = pod is not None and any(
            each.running
            and each.started_ts_ns is not None
            and ts_ns - each.started_ts_ns > _STEADY_NS
            for each in pod.containers.values()
        )
        if not steady:
            found.add(who)
    return frozenset(found)


def _signals(thresholds: Sequence[Threshold]) -> str:
    return ", ".join(dict.fromkeys(threshold.signal for threshold in thresholds))
