"""Image GC of both kubelets, and what the recordings do not show."""

from __future__ import annotations

import pytest

from kubeledger.ingest.correlate.context import BundleContext, IndexedEvent
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import Item, StatsSummary
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.record import Evidence
from tests.ingest.feeding import at, bodies, feed, lines, log_line, of_kind, recorded

FILE = Evidence(file="stats-summary.json")
START_20 = (
    "image_gc_manager.go [imageGCManager]: Disk usage on image filesystem is at 90% which is over "
    "the high threshold (85%). Trying to free 100 bytes down to the low threshold (80%)."
)
START_36 = (
    'image_gc_manager.go "Disk usage on image filesystem is over the high threshold, trying to '
    'free bytes down to the low threshold" usage=90 highThreshold=85 amountToFree=100 '
    "lowThreshold=80"
)
OK_20 = "kubelet.go Image garbage collection succeeded"
OK_36 = 'kubelet.go "Image garbage collection succeeded"'


def remove_20(image: str, size: int) -> str:
    """1.20's line of a removal."""
    return f'image_gc_manager.go [imageGCManager]: Removing image "{image}" to free {size} bytes'


def remove_36(image: str, size: int) -> str:
    """1.36's line of a removal."""
    return (
        f'image_gc_manager.go "Removing image to free bytes" imageID="{image}" size={size} '
        'runtimeHandler=""'
    )


def failed_20(error: str, *, again: bool = False) -> str:
    """1.20's line of a run that failed."""
    how = (
        "multiple times in a row"
        if again
        else "once. Stats initialization may not have completed yet"
    )
    return f"kubelet.go Image garbage collection failed {how}: {error}"


def run(*texts: str, version: str = "1.20.2") -> list[Fact]:
    """Facts of these lines."""
    return feed(ImageAssembler(BundleContext(node="n", kubelet_version=version)), lines(*texts))


def deleted(facts: list[Fact]) -> list[tuple[str, int | None, str | None, bool]]:
    """ID, size, pass and whether a start is the cause, of every deletion."""
    return [
        (fact.body.image_id, fact.body.size_bytes, fact.body.pass_, fact.cause is not None)
        for fact in facts
        if isinstance(fact.body, ImageDeleted)
    ]


class TestRecordings:
    """Thresholds of 5 and 4 percent on a disk that is far above."""

    def test_run_of_1_20(self) -> None:
        """The freed bytes of the error are the sum of the deletions."""
        facts = feed(ImageAssembler(BundleContext(node="node-a")), recorded("images/v1.20.2.log"))
        first, run_ = of_kind(facts, GarbageCollected)
        assert first.body == GarbageCollected(
            outcome="failed", error="invalid capacity 0 on image filesystem"
        )
        assert (len(first.evidence), first.cause) == (2, None)
        assert isinstance(run_.body, GarbageCollected)
        assert (run_.body.usage_percent, run_.body.bytes_to_free) == (72, 183647269519)
        assert (run_.body.images_removed, run_.body.outcome) == (2, "failed")
        assert run_.body.bytes_freed == sum(size or 0 for _, size, *_ in deleted(facts)) == 47003005
        assert {(of_pass, caused) for *_, of_pass, caused in deleted(facts)} == {("space", True)}
        assert len(run_.evidence) == 4
        assert run_.cause is of_kind(facts, GarbageCollectionStarted)[0]

    def test_run_of_1_36(self) -> None:
        """The same, in structured lines."""
        facts = feed(ImageAssembler(BundleContext(node="node-b")), recorded("images/v1.36.2.log"))
        (run_,) = bodies(facts, GarbageCollected)
        assert (run_.usage_percent, run_.high_threshold_percent, run_.low_threshold_percent) == (
            72,
            5,
            4,
        )
        assert run_.bytes_freed == sum(size or 0 for _, size, *_ in deleted(facts)) == 42999878
        assert run_.images_removed == 3
        assert [len(fact.evidence) for fact in of_kind(facts, GarbageCollected)] == [4]

    @pytest.mark.parametrize(
        ("version", "passes", "pinned"), [("v1.20.2", [7, 7], None), ("v1.36.2", [7, 7], False)]
    )
    def test_detect_passes(self, version: str, passes: list[int], pinned: bool | None) -> None:
        """Two passes at once, one of the loop, one of the run, are two."""
        stream = recorded(f"images/{version}.log")
        facts = feed(ImageAssembler(BundleContext(node="n")), stream)
        found = bodies(facts, ImagesDetected)
        assert [len(body.images) for body in found] == passes
        assert {image.pinned for body in found for image in body.images} == {pinned}
        listed = [line for line in stream if "to currentImages" in line.message]
        assert sum(passes) == len(listed)
        used = {image.image_id for body in found for image in body.images if image.in_use}
        assert len(used) in (2, 3)
        assert all(
            (image.last_used_ts_ns is not None) is image.in_use
            for body in found
            for image in body.images
        )

    def test_signals_are_exact(self) -> None:
        """Quantities with a suffix and without."""
        facts = feed(ImageAssembler(BundleContext(node="n")), recorded("images/v1.20.2.log"))
        signals = {body.signal: body for body in bodies(facts, EvictionSignalObserved)}
        assert signals["nodefs.available"].available == 73114800 * 1024
        assert signals["nodefs.available"].capacity == 264212084 * 1024
        assert signals["pid.available"].capacity == 32768
        assert len(signals) == 7


class TestPasses:
    """One detect pass, whatever comes between its lines."""

    def test_a_pass(self) -> None:
        """All that is said of an image; lines of another pass's first part are no end."""
        facts = run(
            'image_gc_manager.go "Adding image ID to currentImages" imageID="a"',
            'image_gc_manager.go "Image ID is new" imageID="a" runtimeHandler=""',
            'image_gc_manager.go "Setting Image ID lastUsed" imageID="a" '
            'lastUsed="2026-11-21 02:00:00.5 +0000 UTC m=+0.4"',
            'image_gc_manager.go "Image ID has size" imageID="a" size=10',
            'image_gc_manager.go "Image ID is pinned" imageID="a" pinned=true',
            'image_gc_manager.go "Container uses image" pod="ns/p" imageID="a"',
            'image_gc_manager.go "Adding image ID to currentImages" imageID="b"',
            'image_gc_manager.go "Image ID is no longer present; removing from imageRecords" '
            'imageID="c"',
        )
        (fact,) = facts
        assert fact.body == ImagesDetected(
            images=(
                ListedImage(
                    image_id="a",
                    size_bytes=10,
                    pinned=True,
                    in_use=True,
                    new=True,
                    last_used_ts_ns=at("02:00:00") + 500_000_000,
                ),
                ListedImage(image_id="b"),
            )
        )
        assert len(fact.evidence) == 7

    def test_a_pause_ends_a_pass(self) -> None:
        """The next pass may begin with another image."""
        facts = run(
            "image_gc_manager.go Adding image ID a to currentImages",
            "+300s image_gc_manager.go Adding image ID b to currentImages",
            "image_gc_manager.go Adding image ID a to currentImages",
        )
        assert [
            [image.image_id for image in body.images] for body in bodies(facts, ImagesDetected)
        ] == [["a"], ["b", "a"]]

    def test_images_by_runtime_handler(self) -> None:
        """The gate makes the handler part of the key, in deletions as well."""
        facts = run(
            'image_gc_manager.go "Adding image ID with runtime class to currentImages" '
            'imageKey="a,kata" runtimeHandler="kata"',
            'image_gc_manager.go "Removing image to free bytes" imageID="a" size=5 '
            'runtimeHandler="kata"',
        )
        assert bodies(facts, ImagesDetected)[0].images[0].image_id == "a,kata"
        assert bodies(facts, ImageDeleted)[0].image_id == "a,kata"


class TestRuns:
    """How runs end."""

    @pytest.mark.parametrize(
        ("start", "remove", "success"),
        [(START_20, remove_20, OK_20), (START_36, remove_36, OK_36)],
        ids=["1.20", "1.36"],
    )
    def test_freed(self, start: str, remove: object, success: str) -> None:
        """The sum of the deletions is what was freed."""
        assert callable(remove)
        facts = run(start, remove("a", 70), remove("b", 40), success)
        (run_,) = bodies(facts, GarbageCollected)
        assert (run_.outcome, run_.bytes_freed, run_.images_removed) == ("freed", 110, 2)
        assert run_.bytes_to_free == 100
        assert deleted(facts) == [("a", 70, "space", True), ("b", 40, "space", True)]

    def test_below_threshold(self) -> None:
        """Nothing but the success is logged."""
        assert bodies(run(OK_20), GarbageCollected) == [GarbageCollected(outcome="below_threshold")]

    def test_freed_at_low_verbosity(self) -> None:
        """The success is not logged: enough was freed, and no error followed."""
        later = "+70s eviction_manager.go eviction manager: synchronize housekeeping"
        facts = run(START_20, remove_20("a", 70), remove_20("b", 40), later)
        (run_,) = of_kind(facts, GarbageCollected)
        assert isinstance(run_.body, GarbageCollected)
        assert (run_.body.outcome, run_.body.bytes_freed) == ("freed", 110)
        assert run_.ts_ns == of_kind(facts, ImageDeleted)[-1].ts_ns

    def test_an_error_after_enough_was_freed(self) -> None:
        """A removal failed on the way."""
        error = (
            "wanted to free 100 bytes, but freed 110 bytes space with errors in image deletion: x"
        )
        facts = run(
            START_20,
            remove_20("bad", 900),
            'remote_image.go RemoveImage "bad" from image service failed: rpc error',
            remove_20("a", 110),
            failed_20(error),
        )
        (run_,) = bodies(facts, GarbageCollected)
        assert (run_.outcome, run_.bytes_freed, run_.images_removed) == ("failed", 110, 1)
        assert [image for image, *_ in deleted(facts)] == ["a"]

    def test_a_removal_that_failed_in_1_36(self) -> None:
        """It is no deletion."""
        facts = run(
            START_36,
            remove_36("bad", 900),
            'log.go "RemoveImage from image service failed" err="rpc error" image="bad"',
            'kuberuntime_image.go "Failed to remove image" err="rpc error" image="bad"',
            'image_gc_manager.go "Evaluating image ID for possible garbage collection based on '
            'disk usage" imageID="a" runtimeHandler=""',
        )
        assert deleted(facts) == []
        assert bodies(facts, GarbageCollected) == []

    @pytest.mark.parametrize(
        ("error", "freed", "usage"),
        [
            ("failed to garbage collect required amount of images. Wanted to free 100 bytes, but "
             "freed 7 bytes", 7, None),
            ("Failed to garbage collect required amount of images. Attempted to free 100 bytes, "
             "but only found 7 bytes eligible to free.", 7, None),
            ("Insufficient free disk space on the node's image filesystem (91% of 26.4 GiB used). "
             "Failed to free sufficient space by deleting unused images (freed 7 bytes). "
             "Investigate disk usage.", 7, 91),
            ("wanted to free images older than 1h0m0s, encountered errors in image deletion: x",
             None, None),
            ("failed to get imageFs info: unable to find data in memory cache", None, None),
        ],
    )  # fmt: skip
    def test_errors_by_version(self, error: str, freed: int | None, usage: int | None) -> None:
        """The number stands at different places."""
        texts = (failed_20(error, again=True), 'kubelet.go "Image garbage collection failed once. '
                 f'Stats initialization may not have completed yet" err="{error}"')  # fmt: skip
        for text in texts:
            (run_,) = bodies(run(text), GarbageCollected)
            assert (run_.bytes_freed, run_.usage_percent, run_.error) == (freed, usage, error)

    def test_a_run_cut_short_has_no_end(self) -> None:
        """The kubelet was restarted in the middle of it."""
        first = lines(START_20, remove_20("a", 10))
        second = [
            log_line(f"I1121 02:01:0{second}.000000 2 kubelet.go:1] {text.split(' ', 1)[1]}")
            for second, text in enumerate([OK_20])
        ]
        facts = feed(ImageAssembler(BundleContext(node="n")), [*first, *second])
        assert bodies(facts, GarbageCollected) == [GarbageCollected(outcome="below_threshold")]
        assert len(deleted(facts)) == 1

    def test_two_starts_in_a_row(self) -> None:
        """The first one's deletions are not counted for the second."""
        facts = run(START_20, remove_20("a", 10), f"+300s {START_20}", remove_20("b", 100), OK_20)
        (run_,) = bodies(facts, GarbageCollected)
        assert (run_.images_removed, run_.bytes_freed) == (1, 100)

    def test_events_before_and_after(self) -> None:
        """The event goes its own way to the log; one run all the same."""
        error = "invalid capacity 0 on image filesystem"
        event = (
            'event.go "Event occurred" object="n" kind="Node" apiVersion="" type="Warning" '
            'reason="{}" message="{}"'
        )
        facts = run(
            event.format("InvalidDiskCapacity", error),
            failed_20(error),
            event.format("ImageGCFailed", error),
            event.format("ImageGCFailed", "another error"),
        )
        (run_,) = of_kind(facts, GarbageCollected)
        assert [piece.line for piece in run_.evidence] == [2, 1, 3]

    def test_mangled_events(self) -> None:
        """Some versions used the error as a format: what follows a percent sign is lost."""
        facts = run(
            failed_20("filesystem (91% of 26.4 GiB used) (freed 7 bytes)"),
            'event.go Event(v1.ObjectReference{Kind:"Node", Namespace:"", Name:"n", UID:"n"}): '
            "type: 'Warning' reason: 'ImageGCFailed' filesystem (91%!o(MISSING)f 26.4 GiB",
        )
        (run_,) = of_kind(facts, GarbageCollected)
        assert len(run_.evidence) == 2

    def test_api_events(self) -> None:
        """The event list of the bundle is evidence, in its time."""
        error = "invalid capacity 0 on image filesystem"
        known = BundleContext(node="n")
        when = at("02:00:00")
        known.events["Node", "default", "n", "InvalidDiskCapacity", error] = IndexedEvent(
            event={}, count=1, first_ts_ns=when, last_ts_ns=when, evidence=(FILE,)
        )
        texts = (failed_20(error), f"+60s {failed_20(error, again=True)}")
        first, second = of_kind(feed(ImageAssembler(known), lines(*texts)), GarbageCollected)
        assert FILE in first.evidence
        assert FILE not in second.evidence


class TestOtherDeletions:
    """By age, and all unused ones."""

    def test_by_age(self) -> None:
        """Deleted before the disk is looked at: no start is their cause."""
        facts = run(
            'image_gc_manager.go "Evaluating image ID for possible garbage collection based on '
            'image age" imageID="a"',
            remove_36("a", 70),
            OK_36,
            version="1.36.2",
        )
        assert deleted(facts) == [("a", 70, "age", False)]
        (run_,) = bodies(facts, GarbageCollected)
        assert (run_.outcome, run_.bytes_freed, run_.images_removed) == ("freed", 70, 1)

    def test_by_age_at_low_verbosity(self) -> None:
        """After a run's end and before a start there is only the age pass; 1.20 has none."""
        texts = (OK_36, f"+300s {remove_36('a', 70)}", START_36, remove_36("b", 100), OK_36)
        facts = run(*texts, version="1.36.2")
        assert deleted(facts) == [("a", 70, "age", False), ("b", 100, "space", True)]
        assert bodies(facts, GarbageCollected)[-1].images_removed == 2
        assert deleted(run(*texts, version="1.20.2"))[0] == ("a", 70, None, False)

    def test_a_lost_start_makes_no_age_pass(self) -> None:
        """Where considered images are logged, the line that tells of the pass was lost."""
        look = (
            'image_gc_manager.go "Evaluating image ID for possible garbage collection based on '
            'disk usage" imageID="a" runtimeHandler=""'
        )
        facts = run(OK_36, f"+300s {look}", remove_36("a", 70), OK_36, version="1.36.2")
        assert deleted(facts) == [("a", 70, None, False)]

    def test_a_removal_that_stands_twice_in_the_log(self) -> None:
        """One line, repeated."""
        start, removal, again, end = lines(START_36, remove_36("b", 40), remove_36("b", 40), OK_36)
        for second, count in ((removal, 1), (again, 2)):
            assembler = ImageAssembler(BundleContext(node="n", kubelet_version="1.36.2"))
            assert len(deleted(feed(assembler, [start, removal, second, end]))) == count

    @pytest.mark.parametrize("lost", [0, 1, 2])
    def test_a_lost_line_of_a_pass(self, lost: int) -> None:
        """Each line about an image tells that it was listed."""
        every = [
            'image_gc_manager.go "Adding image ID to currentImages" imageID="a"',
            'image_gc_manager.go "Image ID has size" imageID="a" size=7',
            'image_gc_manager.go "Image ID is pinned" imageID="a" pinned=false',
        ]
        del every[lost]
        facts = run(*every, START_36, version="1.36.2")
        (seen,) = bodies(facts, ImagesDetected)
        assert [image.image_id for image in seen.images] == ["a"]

    @pytest.mark.parametrize(
        ("attempt", "remove", "end"),
        [
            (
                "image_gc_manager.go attempting to delete unused images",
                remove_20("a", 70),
                "eviction_manager.go eviction manager: able to reduce ephemeral-storage pressure "
                "without evicting pods.",
            ),
            (
                'image_gc_manager.go "Attempting to delete unused images"',
                remove_36("a", 70),
                'helpers.go "Eviction manager:" log="observations after resource reclaim" '
                'signal="imagefs.available" resourceName="ephemeral-storage" available="1Ki" '
                'capacity="2Ki"',
            ),
        ],
        ids=["1.20", "1.36"],
    )
    def test_unused_images(self, attempt: str, remove: str, end: str) -> None:
        """The eviction manager's pass is no run, and ends when that one goes on."""
        facts = run(attempt, remove, end, START_20, remove_20("b", 100), OK_20)
        assert deleted(facts) == [("a", 70, "all", False), ("b", 100, "space", True)]
        (run_,) = bodies(facts, GarbageCollected)
        assert run_.images_removed == 1

    def test_unused_images_are_no_part_of_a_run_before(self) -> None:
        """Its success is not logged, and it ended when it had freed enough."""
        unused = "+290s image_gc_manager.go attempting to delete unused images"
        later = "+70s eviction_manager.go eviction manager: synchronize housekeeping"
        facts = run(START_20, remove_20("a", 110), unused, remove_20("b", 70), later)
        (run_,) = of_kind(facts, GarbageCollected)
        assert run_.ts_ns == of_kind(facts, ImageDeleted)[0].ts_ns

    def test_a_log_that_begins_in_a_run(self) -> None:
        """Of which pass the removal is, is not known."""
        facts = run(remove_20("a", 70), OK_20)
        assert deleted(facts) == [("a", 70, None, False)]
        assert bodies(facts, GarbageCollected)[0].outcome == "freed"


class TestDisk:
    """The image filesystem and the signals."""

    def stats(self, minute: int, available: int | None) -> StatsSummary:
        """A summary."""
        disk = {"capacityBytes": 100, "availableBytes": available, "usedBytes": 5}
        data = {"node": {"runtime": {"imageFs": disk}}}
        return StatsSummary(at(f"02:0{minute}:00"), data, FILE)

    def test_stats_when_they_change(self) -> None:
        """And only when there are any."""
        empty = StatsSummary(at("02:05:00"), {"node": {"runtime": None}}, FILE)
        items: list[Item] = [self.stats(0, 7), self.stats(1, 7), self.stats(2, None), empty]
        facts = feed(ImageAssembler(BundleContext(node="n")), items)
        assert bodies(facts, ImageFsObserved) == [
            ImageFsObserved(capacity_bytes=100, available_bytes=7, used_bytes=5),
            ImageFsObserved(capacity_bytes=100, available_bytes=None, used_bytes=5),
        ]

    def test_more_available_than_there_is(self) -> None:
        """The log tells the numbers in this one case."""
        facts = run(
            "image_gc_manager.go available 120 is larger than capacity 100",
            'image_gc_manager.go "Availability is larger than capacity" available=120 capacity=100',
        )
        body = ImageFsObserved(capacity_bytes=100, available_bytes=120, source="log")
        assert bodies(facts, ImageFsObserved) == [body, body]

    @pytest.mark.parametrize(
        ("text", "amount"),
        [("7206Mi", 7206 << 20), ("1Gi", 1 << 30), ("12k", 12_000), ("3M", 3_000_000),
         ("1500m", 2), ("1e3", 1000), ("9", 9)],
    )  # fmt: skip
    def test_quantities(self, text: str, amount: int) -> None:
        """All suffixes; a fraction is rounded up, as the kubelet's ``Value`` does."""
        facts = run(
            f"helpers.go eviction manager: observations: signal=memory.available, available: {text}"
            f", capacity: {text}, time: 2019-08-20 20:30:39.2 +0000 GMT m=+132.8",
            f'helpers.go "Eviction manager:" log="observations" signal="memory.available" '
            f'resourceName="memory" available="{text}" capacity="{text}"',
            f'helpers.go "Eviction manager:" log="observations" signal=memory.available '
            f'resourceName="{text}" capacity="{text}" time="2026-08-30 04:28:51 +0000 UTC"',
            "helpers.go eviction manager: observations: signal=pid.available, available: 1, "
            f"capacity: {text}",
        )
        observed = bodies(facts, EvictionSignalObserved)
        assert [body.capacity for body in observed] == [amount] * 4
        assert [body.available for body in observed] == [amount, amount, amount, 1]

    def test_nonsense_is_not_recorded(self) -> None:
        """No guess."""
        assert run(
            "helpers.go eviction manager: observations: signal=x, available: <nil>, capacity: 1",
            "helpers.go eviction manager: no observation found for eviction signal x",
        ) == []  # fmt: skip


class TestRunsWithoutAnEnd:
    """At low verbosity a run that succeeds is not logged; the next one may fail."""

    @pytest.mark.parametrize("wait_s", [30, 300])
    @pytest.mark.parametrize(
        "error",
        [
            "invalid capacity 0 on image filesystem",
            "failed to get imageFs info: unable to find data in memory cache",
            "failed to garbage collect required amount of images. Wanted to free 7 bytes, "
            "but freed 0 bytes",
        ],
    )
    def test_another_runs_failure_takes_nothing_of_it(self, error: str, wait_s: int) -> None:
        """Neither numbers nor cause: they are NULL, not those of five minutes ago."""
        facts = run(START_20, remove_20("a", 80), f"+{wait_s}s {failed_20(error)}")
        (failed,) = [
            fact
            for fact in of_kind(facts, GarbageCollected)
            if isinstance(fact.body, GarbageCollected) and fact.body.outcome == "failed"
        ]
        assert isinstance(failed.body, GarbageCollected)
        assert failed.cause is None
        assert failed.body.usage_percent is None
        assert failed.body.bytes_to_free is None
        assert failed.body.images_removed == 0

    def test_a_run_taken_for_over_is_not_ended_again(self) -> None:
        """It freed what it wanted: one row; the failure five minutes later is another."""
        facts = run(
            START_20,
            remove_20("a", 100),
            f"+300s {failed_20('invalid capacity 0 on image filesystem')}",
        )
        assert [body.outcome for body in bodies(facts, GarbageCollected)] == ["freed", "failed"]

    def test_its_own_failure_still_ends_it(self) -> None:
        """The error names the bytes that the run wanted, however long it took."""
        error = (
            "failed to garbage collect required amount of images. Wanted to free 100 bytes, "
            "but freed 80 bytes"
        )
        facts = run(START_20, remove_20("a", 80), f"+200s {failed_20(error)}")
        (ended,) = of_kind(facts, GarbageCollected)
        assert ended.cause is of_kind(facts, GarbageCollectionStarted)[0]
