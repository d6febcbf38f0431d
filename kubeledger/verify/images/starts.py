"""The start of a space pass: the trigger and the amount to free."""

from __future__ import annotations

import msgspec

from kubeledger.images.loop import GC_PERIOD_S
from kubeledger.images.records import GarbageCollectionStarted
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields
from kubeledger.verify.images.collection import Case, amount_of
from kubeledger.verify.images.disk import Disk
from kubeledger.verify.images.policy import HIGH, LOW, Policy

__all__ = ["RULE_COLLECTION", "judge_start", "why_under"]

RULE_COLLECTION = "pkg/kubelet/images realImageGCManager.GarbageCollect"

_SLACK_NS = 2 * NS_PER_S
"""A clock that is being set right loses no more of a period."""


_GAP_NS = 20 * NS_PER_S
"""Nothing is heard of the disk for longer: the log may have a gap."""


def judge_start(bench: Bench, disk: Disk, case: Case) -> None:
    """Give a start its finding."""
    start, body = case.of.start, case.start_body
    if start is None or body is None:
        _absent(bench, disk, case)
        return
    _contradictions(bench, case, start, body)
    expected = _expected(case)
    recorded = msgspec.to_builtins(body)
    wrong = _wrong(case, disk, body, expected)
    inputs = [*case.settings, *(case.reading.seqs if case.reading else ())]
    if wrong:
        bench.find(
            start,
            "impossible",
            subject="node",
            expected=expected,
            recorded={name: recorded[name] for name in expected} if expected else recorded,
            why=wrong,
            rule=RULE_COLLECTION,
            inputs=inputs,
            certain=_against_settings(case.policy, body),
        )
        return
    missing = [m for m in case.policy.missing if HIGH in m or LOW in m]
    if case.reading is None:
        missing.append("the size of the image filesystem")
    if missing:
        bench.unverifiable(start, subject="node", missing=missing, rule=RULE_COLLECTION)
        return
    assert case.reading is not None
    usage = case.reading.usage
    why = (
        f"the image filesystem was {usage.percent} % used ({usage.available_bytes} of "
        f"{usage.capacity_bytes} bytes available), which is not under the high threshold of "
        f"{case.policy.high} %, so {body.bytes_to_free} bytes are to be freed to come down to "
        f"{case.policy.low} %"
    )
    bench.find(
        start,
        "match",
        subject="node",
        expected=expected,
        recorded={name: recorded[name] for name in expected} if expected else recorded,
        why=why,
        rule=RULE_COLLECTION,
        inputs=inputs,
    )


def _absent(bench: Bench, disk: Disk, case: Case) -> None:
    """Under other settings a space pass begins. Else its line may be lost, so none is missing."""
    if not case.strict:
        return
    end, options, expected = case.of.end, case.of.options, _expected(case)
    if not case.start_missing or not options or expected is None or end is None:
        return
    if case.runs is not True or case.policy.missing:
        return
    asked_ns, last = options[-1].record.ts_ns, disk.last
    if last is None or asked_ns - last.ts_ns > _GAP_NS:
        return
    bench.absent(
        options[-1].record,
        GarbageCollectionStarted.kind,
        subject="node",
        expected=expected,
        why=_why_absent(case),
        rule=RULE_COLLECTION,
        inputs=[*case.inputs, end.seq],
    )


def _why_absent(case: Case) -> str:
    assert case.reading is not None
    if not case.ending.failed:
        return (
            f"the image filesystem was {case.reading.usage.percent} % used, which is not under the "
            f"high threshold of {case.policy.high} %, so a space pass had to begin"
        )
    return (
        "a collection ended with too little space freed, but the beginning of its space pass is "
        "not recorded"
    )


def _expected(case: Case) -> Fields | None:
    """What is known of the start that had to be; None when there had to be none."""
    if case.policy.disabled or case.runs is False:
        return None
    fields: Fields = {}
    if case.reading is not None:
        fields["usage_percent"] = case.reading.usage.percent
    if case.policy.high is not None:
        fields["high_threshold_percent"] = case.policy.high
    if case.policy.low is not None:
        fields["low_threshold_percent"] = case.policy.low
    amount = amount_of(case)
    if amount is not None:
        fields["bytes_to_free"] = amount
    return fields


def _wrong(case: Case, disk: Disk, body: GarbageCollectionStarted, expected: Fields | None) -> str:
    """Why the start could not be; empty when it could, as far as is known."""
    policy, reading = case.policy, case.reading
    if policy.disabled:
        return f"no collection runs at all: {policy.disabled}"
    if policy.high is not None and body.high_threshold_percent != policy.high:
        if case.runs is False:
            return why_under(case)
        return (
            f"the high threshold is {policy.high} % by the settings, not "
            f"{body.high_threshold_percent} %"
        )
    if policy.low is not None and body.low_threshold_percent != policy.low:
        return (
            f"the low threshold is {policy.low} % by the settings, not "
            f"{body.low_threshold_percent} %"
        )
    if case.runs is False:
        return why_under(case)
    if policy.high is not None and body.usage_percent < policy.high:
        return (
            f"{body.usage_percent} % is under the high threshold of {policy.high} %, so no space "
            "pass begins"
        )
    if reading is not None and expected is not None:
        return _wrong_amount(case, disk, body, expected)
    return _too_early(case)


def _against_settings(policy: Policy, body: GarbageCollectionStarted) -> bool:
    """The start's own numbers do not go with the settings, whatever the disk held."""
    return (
        policy.high not in (None, body.high_threshold_percent)
        or policy.low not in (None, body.low_threshold_percent)
        or body.usage_percent < body.high_threshold_percent
    )


def why_under(case: Case) -> str:
    """Why no space pass begins, by the reading of the disk."""
    assert case.reading is not None
    usage = case.reading.usage
    return (
        f"the image filesystem was {usage.percent} % used, which is under the high threshold of "
        f"{case.policy.high} %, so no space pass begins"
    )


def _wrong_amount(case: Case, disk: Disk, body: GarbageCollectionStarted, expected: Fields) -> str:
    assert case.reading is not None
    usage = case.reading.usage
    if body.usage_percent != usage.percent:
        return (
            f"{usage.available_bytes} of {usage.capacity_bytes} bytes were available, which is "
            f"{usage.percent} % used, not {body.usage_percent} %"
        )
    amount = expected.get("bytes_to_free")
    if amount is not None and body.bytes_to_free != amount:
        if case.reading.exact:
            return (
                f"with {usage.available_bytes} of {usage.capacity_bytes} bytes available, {amount} "
                f"bytes are to be freed to come down to {case.policy.low} %, not "
                f"{body.bytes_to_free}"
            )
        return (
            f"no state of a filesystem of {usage.capacity_bytes} bytes in blocks of "
            f"{disk.block_bytes} that is {body.usage_percent} % used gives {body.bytes_to_free} "
            f"bytes to free; with what was available shortly before it is about {amount}"
        )
    return _too_early(case)


def _too_early(case: Case) -> str:
    """The loop waits for its period after each collection."""
    start, before = case.of.start, case.of.previous
    if start is None or before is None:
        return ""
    waited_ns = start.ts_ns - before.ts_ns
    # What was read at the beginning may be logged first; a detect pass comes with it.
    if waited_ns >= GC_PERIOD_S * NS_PER_S - _SLACK_NS:
        return ""
    return (
        f"it began {waited_ns // NS_PER_S} s after the end of the collection before, but the loop "
        f"waits {GC_PERIOD_S} s"
    )


def _contradictions(
    bench: Bench, case: Case, start: Record, body: GarbageCollectionStarted
) -> None:
    settings = bench.settings.seq
    for name, value, told in (
        (HIGH, case.policy.high, body.high_threshold_percent),
        (LOW, case.policy.low, body.low_threshold_percent),
    ):
        if settings is None or value is None or value == told or name in bench.variant.settings:
            continue
        bench.contradict(
            start.ts_ns,
            "node",
            f"{name} is {value} by the settings, and {told} when a collection began",
            (settings, f"{name} = {value}"),
            (start.seq, f"threshold {told} %"),
        )
    end, ending = case.of.end, case.ending
    if end is None:
        return
    if ending.wanted is not None and ending.wanted != body.bytes_to_free:
        bench.contradict(
            end.ts_ns,
            "node",
            "a collection began and ended with different amounts to free",
            (start.seq, f"to free {body.bytes_to_free} bytes"),
            (end.seq, f"wanted to free {ending.wanted} bytes"),
        )
    if ending.percent is not None and ending.percent != body.usage_percent:
        bench.contradict(
            end.ts_ns,
            "node",
            "a collection began and ended with different usages of the disk",
            (start.seq, f"{body.usage_percent} % used"),
            (end.seq, f"{ending.percent} % used"),
        )
