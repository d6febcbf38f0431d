"""Image GC in small scenes: one for each branch of the rule, and each input that can miss."""

import pytest

from kubeledger.model.bodies.cgroups import CgroupObserved
from kubeledger.model.bodies.images import GarbageCollected, ImagesDetected
from kubeledger.model.record import Body, Record
from kubeledger.verify import Finding, Variant, Verdict
from tests.verify.histories import findings, kubelet_of
from tests.verify.image_scenes import (
    CAPACITY,
    collected,
    deleted,
    detected,
    disk,
    history,
    settings,
    signal,
    started,
)

Step = tuple[float, Body]

BEGIN: list[Step] = [(0, kubelet_of()), (0.1, settings())]
SEEN: list[Step] = [
    *BEGIN,
    (1, detected("abcd", used="a", new="abcd")),
    (301, detected("abcd", used="b")),
]
"""Images that one after the other fell out of use: c and d never used, then a, then b."""


def verdicts(records: list[Record]) -> list[tuple[str, Verdict]]:
    return [(f.kind.split(".")[1], f.verdict) for f in findings(records)]


def of_image(records: list[Record], name: str) -> Finding:
    return next(f for f in findings(records) if f.subject == f"image/{name}")


def run_of(*removals: str, end: GarbageCollected | None, at: float = 601) -> list[Step]:
    """A collection that begins at 85 % and removes images."""
    steps: list[Step] = [(at, disk(15)), (at, detected("abcd")), (at + 0.1, started())]
    steps += [(at + 0.2 + i / 10, deleted(name)) for i, name in enumerate(removals)]
    return steps if end is None else [*steps, (at + 2, end)]


def test_an_age_near_the_least_age_is_open() -> None:
    """The clock was read before the pass was logged: both courses are possible."""
    early: list[Step] = [(0, kubelet_of()), (0.1, settings(imageMinimumGCAge="5m0s"))]
    early += [(301, detected("abcd", new="abcd"))]
    for removals in ("abcd", ""):
        records = history(*early, *run_of(*removals, end=collected(len(removals))))
        assert "impossible" not in {v for _, v in verdicts(records)}


BELOW = GarbageCollected(outcome="below_threshold")


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        ([(600, disk(50))], "match"),
        ([(600, disk(20))], "unverifiable"),
        ([(600, disk(15)), (700, disk(30))], "unverifiable"),
        ([(600, disk(15)), (700, disk(14))], "unverifiable"),
        ([(500, disk(50))], "unverifiable"),
        ([], "unverifiable"),
    ],
)
def test_below_the_threshold(steps: list[Step], verdict: Verdict) -> None:
    """Nothing to do: so the disk was under the high threshold, if it was read near enough."""
    records = history(*BEGIN, *sorted([*steps, (601.0, BELOW)], key=lambda step: step[0]))
    assert verdicts(records) == [("GarbageCollected", verdict)]


def test_no_capacity() -> None:
    """The first collection comes before the first reading of the disk."""
    error = "invalid capacity 0 on image filesystem"
    end = GarbageCollected(outcome="failed", error=error)
    assert verdicts(history(*BEGIN, (1, end))) == [("GarbageCollected", "match")]
    late = history(*BEGIN, (1, disk(50)), (2, end))
    assert verdicts(late) == [("GarbageCollected", "unverifiable")]


@pytest.mark.parametrize(
    ("begin", "kinds", "missing"),
    [
        ([(0.0, kubelet_of(None)), (0.1, settings())], None, "the kubelet's version"),
        ([(0.0, kubelet_of("1.99.0")), (0.1, settings())], None, "the rules of kubelet 1.99.0"),
        ([(0.0, kubelet_of()), (0.1, settings(imageGCHighThresholdPercent=None))],
         {"GarbageCollectionStarted"}, "the setting imageGCHighThresholdPercent"),
        ([(0.0, kubelet_of()), (0.1, settings(imageMinimumGCAge="soon"))], {"ImageDeleted"},
         "the setting imageMinimumGCAge"),
        ([(0.0, kubelet_of()), (0.1, settings(imageMaximumGCAge=None))], {"ImageDeleted"},
         "the setting imageMaximumGCAge"),
    ],
)  # fmt: skip
def test_missing_rules_and_settings(
    begin: list[Step], kinds: set[str] | None, missing: str
) -> None:
    records = history(*begin, *SEEN[2:], *run_of("c", "d", "a", "b", end=collected(4)))
    found = findings(records)
    assert "impossible" not in {f.verdict for f in found}
    lacking = {f.kind.split(".")[1] for f in found if missing in f.missing}
    assert lacking == (kinds or {"GarbageCollectionStarted", "ImageDeleted", "GarbageCollected"})


def test_a_log_that_begins_late() -> None:
    """When images were used before is not known: their order cannot be told."""
    steps = [*BEGIN, (301.0, detected("abcd")), *run_of("c", "d", "a", "b", end=collected(4))]
    found = findings(history(*steps))
    removals = [f for f in found if f.kind == "images.ImageDeleted"]
    assert {f.verdict for f in removals} == {"unverifiable"}
    assert {f.missing for f in removals} == {("the use of the image before the first record",)}
    assert "impossible" not in {f.verdict for f in found}


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        ([(600, signal(20)), (601, detected("abcd"))], "impossible"),
        ([(601, detected("abcd"))], "unverifiable"),
        ([(500, signal(20)), (601, detected("abcd"))], "unverifiable"),
        ([(600, signal(4, "memory.available")), (601, detected("abcd"))], "unverifiable"),
        ([(600, signal(4))], "unverifiable"),
    ],
)
def test_the_trigger_of_the_eviction_manager(steps: list[Step], verdict: Verdict) -> None:
    """A disk must be short; signals of other things, or long past, tell nothing."""
    seen = SEEN[:3] if len(steps) == 1 and steps[0][0] == 600 else SEEN
    records = history(*seen, *steps, (602, deleted("c", "all")))
    assert of_image(records, "c").verdict == verdict


def test_the_disk_is_told_only_later() -> None:
    """The first collection comes before the first signal: later ones tell the size of the disk."""
    begin = [*BEGIN, (1.0, detected("abcd", new="abcd"))]
    later = [(2.0 + i, signal(15)) for i in range(10)]
    amount = CAPACITY * 15 // 100
    for reported, verdict in (
        (amount, "match"),
        (amount + 1, "impossible"),
        (amount * 2, "impossible"),
    ):
        records = history(*begin, (1.1, started(amount=reported)), *later)
        assert verdicts(records) == [("GarbageCollectionStarted", verdict)]


def test_a_record_that_is_there_twice() -> None:
    steps = run_of("d", "c", "a", "b", end=collected(4))
    for at in range(len(steps)):
        doubled = [*steps[: at + 1], *steps[at:]]
        assert "impossible" not in {v for _, v in verdicts(history(*SEEN, *doubled))}


def test_an_empty_id_is_that_of_no_image() -> None:
    """Somebody took the IDs out of the lines of removals, or of the detect passes as well."""
    removals = run_of("", "", "", "", end=collected(4))
    passes = [step for step in removals if not isinstance(step[1], ImagesDetected)]
    for steps in ([*SEEN, *removals], [*BEGIN, *passes]):
        found = verdicts(history(*steps))
        assert [v for name, v in found if name == "ImageDeleted"] == ["unverifiable"] * 4
        assert "impossible" not in {verdict for _, verdict in found}


def test_what_another_threshold_would_have_removed() -> None:
    """A start and removals that no record shows are reported under a variant, and only there."""
    steps = [*SEEN, (600.9, disk(30)), (601.0, detected("abcd", used="b")), (601.1, BELOW)]
    policy = {"imageGCHighThresholdPercent": 60, "imageGCLowThresholdPercent": 50}
    records = history(*steps)
    assert verdicts(records) == [("GarbageCollected", "match")]
    found = [f for f in findings(records, Variant(settings=policy)) if f.recorded is None]
    assert [f.subject for f in found] == ["node", "image/c", "image/d", "image/a"]
    size = {"size_bytes": 1_000_000, "pass": "space"}
    assert [f.expected for f in found] == [
        {"usage_percent": 70, "high_threshold_percent": 60, "low_threshold_percent": 50,
         "bytes_to_free": CAPACITY // 5},
        *({"image_id": name, **size} for name in "cda"),
    ]  # fmt: skip


SMALL, LARGE = 1_000_000, CAPACITY // 20
"""Images of which all together are too little for a space pass, and of which three are enough."""
ORDERS = {
    "cdab": "mmmm", "dcab": "aamm",  # c and d are of one age
    "cdba": "mmum", "cadb": "mumm", "cbda": "mumm", "dcba": "aaum", "dacb": "auam", "dbac": "auma",
    "abcd": "ummm", "abdc": "umaa", "adbc": "uama", "adcb": "uaam", "bcda": "ummm", "bdca": "uaam",
    # Twice, in use, and never seen.
    "cdcab": "mmimm", "cdeab": "mmimm", "xcdab": "immmm", "cdaba": "mmmmi",
}  # fmt: skip
"""Order of removals -> their verdicts: of an image that is overtaken the line may be lost."""


def removed(order: str, pass_: str = "space", size: int = SMALL) -> list[Finding]:
    """What is found about removals of images that should go in the order c, d, a, b."""
    steps: list[Step] = [*BEGIN, (1, detected("abcde", used="a", new="abcde", size=size))]
    steps += [(301, detected("abcde", used="b", size=size))]
    steps += [(600.9, disk(15) if pass_ == "space" else signal(4))]
    steps += [(601, detected("abcde", used="e", size=size))]
    steps += [(601.1, started())] if pass_ == "space" else []
    steps += [(601.2 + i / 10, deleted(name, pass_, size)) for i, name in enumerate(order)]
    return findings(history(*steps), kind="images.ImageDeleted")


@pytest.mark.parametrize(("order", "expected"), ORDERS.items())
def test_orders_of_removals(order: str, expected: str) -> None:
    """In a space pass that never frees enough, and in a sweep; one that needs three stops there."""
    for pass_ in ("space", "all"):
        assert "".join(f.verdict[0] for f in removed(order, pass_)) == expected, pass_
    if len(order) == 4:
        verdicts = "".join(f.verdict[0] for f in removed(order, size=LARGE))
        assert verdicts == expected[:3] + "i"


@pytest.mark.parametrize(("until_s", "missed"), [(1000, []), (1500, ["node"])])
def test_only_the_log_shows_that_no_collection_came(until_s: int, missed: list[str]) -> None:
    """Files go on behind its end, and their values stand on lines, too."""
    steps: list[Step] = [*BEGIN, (300, disk(50)), (301, BELOW)]
    steps += [(at, signal(10)) for at in range(610, until_s, 10)]
    steps += [(1600, CgroupObserved(cgroup="kubepods", pod_uid=None))]
    found = findings(history(*steps))
    assert [f.subject for f in found if f.recorded is None] == missed
