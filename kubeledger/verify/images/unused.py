"""Deletion of unused images for the eviction manager: no amount, no end in the log."""

from __future__ import annotations

from typing import get_args

import msgspec

from kubeledger.eviction.reclaim import ReclaimFunction, reclaim_functions
from kubeledger.eviction.signals import DiskLayout
from kubeledger.images.records import ImageDeleted
from kubeledger.machine import Record
from kubeledger.profile.images import ImageFacts
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.bench import Bench
from kubeledger.verify.images.collection import NO_PASS, RULE_REMOVAL, give
from kubeledger.verify.images.deletions import Judged, claims_of, compare, short
from kubeledger.verify.images.image_use import ImageUse, denial
from kubeledger.verify.images.knowledge import DetectPass
from kubeledger.verify.images.policy import Policy, read_policy
from kubeledger.verify.images.pressure import Pressure, SignalReading, read_pressure
from kubeledger.verify.images.question import Question, ask

__all__ = ["Sweep", "judge_sweep"]

_RULE_TRIGGER = "pkg/kubelet/eviction managerImpl.reclaimNodeLevelResources"
_LAYOUTS: tuple[DiskLayout, ...] = get_args(DiskLayout)


class Sweep(msgspec.Struct, kw_only=True):
    """One deletion of unused images.

    Attributes:
        profile: of the kubelet that ran; None when its version is not known.
        options: detect passes of which one is its own.
        signals: as last read before it.
        removals: in their order.
        listed_before: images that a pass of the process listed, and that were not removed.
    """

    profile: KubeletProfile | None
    options: tuple[DetectPass, ...]
    signals: tuple[SignalReading, ...]
    removals: list[Record] = []
    listed_before: frozenset[str] = frozenset()


def judge_sweep(bench: Bench, profile: KubeletProfile, sweep: Sweep, use: ImageUse) -> None:
    """Give the removals their findings."""

    def reclaims(signal: str) -> bool:
        return any(
            ReclaimFunction.IMAGES in reclaim_functions(signal, layout, profile.eviction)
            for layout in _LAYOUTS
        )

    first = sweep.removals[0]
    pressure = read_pressure(bench.settings, sweep.signals, first.ts_ns, reclaims)
    settings = [] if bench.settings.seq is None else [bench.settings.seq]
    if not pressure.short and pressure.clear and not pressure.missing:
        why = f"no disk was short, so no unused images are deleted: {'; '.join(pressure.clear)}"
        for record in sweep.removals:
            judged = Judged(record=record, verdict="impossible", why=why)
            give(bench, judged, settings, rule=_RULE_TRIGGER)
        return
    policy = read_policy(bench.settings, profile.images)
    missing = [m for m in policy.missing if "Minimum" in m]
    if not sweep.options:
        missing.append(NO_PASS)
    if not pressure.short:
        missing.extend(pressure.missing)
    if missing:
        for record in sweep.removals:
            body = record.body
            assert isinstance(body, ImageDeleted)
            subject = f"image/{body.image_id}"
            if denied := denial(use, record):
                why = f"image {short(body.image_id)} cannot have been removed: {denied[0]}"
                bench.find(record, "impossible", subject=subject, why=why, rule=RULE_REMOVAL,
                           inputs=denied[1])  # fmt: skip
                continue
            bench.unverifiable(record, subject=subject, missing=missing, rule=RULE_REMOVAL)
        return
    for judged in _judge(profile.images, policy, sweep, pressure):
        give(bench, judged, [*settings, *(p.record.seq for p in sweep.options)])


def _judge(facts: ImageFacts, policy: Policy, sweep: Sweep, pressure: Pressure) -> list[Judged]:
    # The deletion of unused images reads nothing of the policy but the minimum age.
    whole = msgspec.structs.replace(policy, high=100, low=100, max_age_ns=0).whole
    assert whole is not None
    question = Question(
        options=sweep.options,
        now_ns=sweep.options[-1].record.ts_ns,
        policy=whole,
        facts=facts,
        began_ns=None,
        claimed=claims_of(sweep.options[-1].known, sweep.removals),
        claimed_by_age=False,
        listed_before=sweep.listed_before,
    )
    answer = ask(question, "deleteUnusedImages", None)
    judged, left = compare(question, answer, sweep.removals)
    if left:
        # A removal that the runtime refused leaves no record.
        answer = ask(question, "deleteUnusedImages", None, failed=left)
        judged, _ = compare(question, answer, sweep.removals)
    for one in judged:
        one.why += f"; all unused images were to go, as {pressure.short[0]}"
    return judged
