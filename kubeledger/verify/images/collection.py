"""One collection of the GC loop, as the records tell of it, and all that is found about it."""

from __future__ import annotations

import re
from itertools import takewhile

import msgspec

from kubeledger.images.manager import ImageFsStats
from kubeledger.images.records import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.images.usage import bytes_to_free
from kubeledger.machine import Record
from kubeledger.profile.images import ImageFacts
from kubeledger.verify.bench import Bench
from kubeledger.verify.images.deletions import Judged, claims_of, compare, short
from kubeledger.verify.images.disk import Disk, Reading, Told
from kubeledger.verify.images.image_use import ImageUse, denial
from kubeledger.verify.images.knowledge import DetectPass
from kubeledger.verify.images.policy import POLICY_SETTINGS, Policy, read_policy
from kubeledger.verify.images.question import Answer, Question, ask
from kubeledger.verify.images.texts import Ending, read_ending

__all__ = [
    "NO_PASS",
    "RULE_REMOVAL",
    "Case",
    "Collection",
    "amount_of",
    "give",
    "judge_removals",
    "open_case",
]

NO_PASS = "the detect pass before the removal (logged from verbosity 5)"
RULE_REMOVAL = "pkg/kubelet/images realImageGCManager.freeSpace"

_EMPTY_DISK = ImageFsStats(100, 100)


class Collection(msgspec.Struct, kw_only=True):
    """Records of one collection.

    Attributes:
        facts: of the kubelet that ran; None when its version is not known.
        start: None when it had no space pass, or none is recorded.
        passes_at_start: detect passes of the process before the start.
        removals: in their order.
        options: passes of which one is its own; None until its first removal or its end.
        end: None while it runs, and when no end is recorded.
        previous: end of the one before it in the same process.
        process_ns: start of the kubelet process; None when the log begins within it.
        began_ns: start of the kubelet process; None when the records may begin later.
        last_ns: time of its newest record.
        passes_seen: this process logs its detect passes.
        listed_before: images that a pass of the process listed, and that were not removed.
    """

    facts: ImageFacts | None = None
    start: Record | None = None
    passes_at_start: int = 0
    removals: list[Record] = []
    options: tuple[DetectPass, ...] | None = None
    end: Record | None = None
    previous: Record | None = None
    process_ns: int | None = None
    began_ns: int | None = None
    last_ns: int = 0
    passes_seen: bool = False
    listed_before: frozenset[str] = frozenset()


class Case(msgspec.Struct, kw_only=True):
    """A collection with what is needed to judge it.

    Attributes:
        facts, policy: of the kubelet that ran.
        strict: under other settings or another version than the recorded ones: then the
            records of the collection do not vouch for each other.
        ending: of the end's error.
        reading: of the disk.
        runs: whether there is a space pass by the reading; None when that cannot be told.
        answer: of the decider; None without a detect pass or without the policy.
        judged: the removals.
        left: images that had to go and did not.
        capacities: of the disk, as far as they are open.
        start_missing: its end tells of a space pass, but no start is recorded.
        settings: (0 or 1,) record of the settings.
    """

    of: Collection
    facts: ImageFacts
    policy: Policy
    strict: bool
    ending: Ending
    reading: Reading | None = None
    runs: bool | None = None
    answer: Answer | None = None
    judged: list[Judged] = []
    left: list[str] = []
    capacities: tuple[int, ...] = ()
    start_missing: bool = False
    settings: tuple[int, ...] = ()

    @property
    def start_body(self) -> GarbageCollectionStarted | None:
        """What its start says."""
        body = self.of.start.body if self.of.start is not None else None
        return body if isinstance(body, GarbageCollectionStarted) else None

    @property
    def end_body(self) -> GarbageCollected | None:
        """What its end says."""
        body = self.of.end.body if self.of.end is not None else None
        return body if isinstance(body, GarbageCollected) else None

    @property
    def inputs(self) -> list[int]:
        """Records that its decisions rest on."""
        passes = [option.record.seq for option in self.of.options or ()]
        return [*self.settings, *(self.reading.seqs if self.reading else ()), *passes]


def open_case(bench: Bench, facts: ImageFacts, disk: Disk, of: Collection) -> Case:
    """Decide a collection again, as far as the records allow."""
    variant = bench.variant
    end = of.end.body if of.end is not None else None
    case = Case(
        of=of,
        facts=facts,
        policy=read_policy(bench.settings, facts),
        strict=bool(POLICY_SETTINGS & variant.settings.keys() or variant.kubelet_version),
        ending=read_ending(end.error if isinstance(end, GarbageCollected) else ""),
        settings=() if bench.settings.seq is None else (bench.settings.seq,),
    )
    of_space = case.ending.kind in {"shortfall", "removals"}
    case.start_missing = of.start is None and of_space and bool(of.options)
    case.reading = _read_disk(case, disk)
    if case.reading is not None:
        case.capacities = (case.reading.usage.capacity_bytes,)
        if not case.reading.exact and not case.strict:
            case.capacities += disk.capacities
    high = case.policy.high
    if case.reading is not None and high is not None:
        case.runs = not case.policy.disabled and case.reading.usage.percent >= high
    # Under other settings a space pass can begin where none did.
    begins = case.strict and case.runs is True and end is not None and not case.ending.failed
    case.start_missing = case.start_missing or (of.start is None and begins)
    _decide(case)
    return case


def _read_disk(case: Case, disk: Disk) -> Reading | None:
    start, end = case.of.start, case.of.end
    body = case.start_body
    if start is None or body is None:
        if case.start_missing and case.ending.wanted is not None and case.policy.low is not None:
            told = Told((case.ending.wanted,), tuple(range(101)), (case.policy.low,))
            assert end is not None
            return disk.read(end.ts_ns, told)
        first = case.of.removals[0] if case.of.removals else end
        sample = None if first is None else disk.near(first.ts_ns)
        return None if sample is None else Reading(sample.usage, exact=False, seqs=(sample.seq,))
    told_at_end = case.end_body.bytes_to_free if case.end_body is not None else None
    amounts: tuple[int | None, ...] = (body.bytes_to_free, case.ending.wanted, told_at_end)
    if _often_told(end, case.ending.wanted):
        amounts = (case.ending.wanted, *amounts)
    percents = (body.usage_percent, case.ending.percent)
    lows = (body.low_threshold_percent, case.policy.low)
    told = Told(
        amounts=tuple(dict.fromkeys(a for a in amounts if a is not None)),
        percents=tuple(p for p in percents if p is not None),
        lows=tuple(dict.fromkeys(low for low in lows if low is not None)),
    )
    return disk.read(start.ts_ns, told)


def _often_told(end: Record | None, amount: int | None) -> bool:
    """Whether several lines of an end tell one amount: its error, and the events about it."""
    if end is None or amount is None:
        return False
    words = re.compile(rf"(?i)to free {amount}\b")
    return sum(words.search(piece.text or "") is not None for piece in end.evidence) > 1


def _decide(case: Case) -> None:
    policy, options, of = case.policy.whole, case.of.options, case.of
    if policy is None or not options or case.policy.disabled:
        return
    question = Question(
        options=options,
        now_ns=_clock(case, options),
        policy=policy,
        facts=case.facts,
        began_ns=of.began_ns,
        claimed=claims_of(options[-1].known, of.removals),
        claimed_by_age=not case.start_missing
        and any(getattr(r.body, "pass_", None) == "age" for r in of.removals),
        open_as_claimed=not case.strict,
        listed_before=of.listed_before,
    )
    image_fs = _image_fs(case)
    case.answer = ask(question, "garbageCollect", image_fs)
    case.judged, case.left = compare(
        question, case.answer, of.removals, passes_told=not case.start_missing
    )
    if case.left and case.ending.kind == "removals":
        case.answer = ask(question, "garbageCollect", image_fs, failed=case.left)
        case.judged, case.left = compare(
            question, case.answer, of.removals, passes_told=not case.start_missing
        )


def _clock(case: Case, options: tuple[DetectPass, ...]) -> int:
    if not case.facts.detects_before_disk_check and case.of.start is not None:
        return case.of.start.ts_ns
    return options[-1].record.ts_ns


def _image_fs(case: Case) -> ImageFsStats:
    """The disk that the collection read, or one that gives the amount which its start tells."""
    body, policy, reading = case.start_body, case.policy.whole, case.reading
    if body is None and not case.start_missing:
        return _EMPTY_DISK
    if reading is not None and (reading.exact or case.start_missing or case.strict or case.runs):
        return ImageFsStats(reading.usage.capacity_bytes, reading.usage.available_bytes)
    if body is None or policy is None or policy.low_threshold_percent >= 100:
        return _EMPTY_DISK
    # Nothing is available, so all of what may be used is to be freed.
    share = 100 - policy.low_threshold_percent
    return ImageFsStats(-(-body.bytes_to_free * 100 // share), 0)


def judge_removals(bench: Bench, case: Case, use: ImageUse) -> None:
    """Give the removals of a collection their findings, and what had to go besides."""
    start = () if case.of.start is None else (case.of.start.seq,)
    if case.answer is None:
        missing = list(case.policy.missing)
        if not case.of.options:
            missing.append(NO_PASS)
        for record in case.of.removals:
            _undecided(bench, case, use, record, missing)
        return
    for judged in case.judged:
        body = judged.record.body
        assert isinstance(body, ImageDeleted)
        known = case.answer.known.get(body.image_id)
        seen = () if known is None else (known.first_seq, known.used_seq)
        passes = sorted({seq for seq in seen if seq is not None})
        give(bench, judged, [*passes, *case.inputs, *start])
    _absent(bench, case)


def give(bench: Bench, judged: Judged, inputs: list[int], rule: str = RULE_REMOVAL) -> None:
    """Give a judged removal its finding."""
    body = judged.record.body
    assert isinstance(body, ImageDeleted)
    fields = msgspec.to_builtins(body)
    names = ("image_id", "size_bytes", "pass") if judged.expected is None else judged.expected
    bench.find(
        judged.record,
        judged.verdict,
        subject=f"image/{body.image_id}",
        expected=judged.expected,
        recorded={name: fields[name] for name in names},
        missing=judged.missing,
        why=judged.why,
        rule=rule,
        inputs=inputs,
        certain=judged.certain,
    )


def _undecided(bench: Bench, case: Case, use: ImageUse, record: Record, missing: list[str]) -> None:
    body = record.body
    assert isinstance(body, ImageDeleted)
    subject = f"image/{body.image_id}"
    before = tuple(takewhile(lambda r: r is not record, case.of.removals))
    earlier = any(r.body == body for r in before)
    denied = denial(
        use,
        record,
        start=case.of.start,
        earlier=before,
        max_age_ns=case.policy.max_age_ns,
        process_ns=case.of.process_ns,
    )
    inputs = list(case.inputs)
    if case.policy.disabled and not case.policy.missing:
        why = f"image GC does not run: {case.policy.disabled!r}"
    elif earlier:
        why = f"image {short(body.image_id)} cannot have been removed twice in one collection"
    elif denied is not None:
        why = f"image {short(body.image_id)} cannot have been removed: {denied[0]}"
        inputs += denied[1]
    else:
        bench.unverifiable(record, subject=subject, missing=missing, rule=RULE_REMOVAL)
        return
    bench.find(record, "impossible", subject=subject, why=why, rule=RULE_REMOVAL, inputs=inputs)


def _absent(bench: Bench, case: Case) -> None:
    """Images that would have to go under other settings.

    Under the recorded ones this is not said: of an image that went the line may be lost, and
    of one that stayed the line that it was used.
    """
    answer, body = case.answer, case.end_body
    sure = body is not None and case.ending.kind in {"none", "shortfall"}
    if answer is None or not sure or not case.of.options or not case.strict:
        return
    if case.of.start is None and not case.start_missing:
        return
    start = () if case.of.start is None else (case.of.start.seq,)
    for image_id in case.left:
        known = answer.known[image_id]
        bench.absent(
            case.of.options[-1].record,
            ImageDeleted.kind,
            subject=f"image/{image_id}",
            expected={"image_id": image_id, "size_bytes": known.size_bytes, "pass": "space"},
            why=(
                f"image {short(image_id)} was not in use and old enough, and "
                f"{answer.done.bytes_to_free} bytes were to be freed, but its removal is not "
                "recorded"
            ),
            rule=RULE_REMOVAL,
            inputs=[*case.inputs, *start],
        )


def amount_of(case: Case) -> int | None:
    """Bytes to free by the reading and the settings; None when either is not known."""
    policy = case.policy
    if case.reading is None or policy.low is None or policy.high is None:
        return None
    from_settings = msgspec.structs.replace(policy, min_age_ns=0, max_age_ns=0).whole
    assert from_settings is not None
    return bytes_to_free(case.reading.usage, from_settings)
