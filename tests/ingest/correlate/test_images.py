"""Image GC of both kubelets, and what the recordings do not show."""

import pytest

from kubeledger.ingest.correlate.context import BundleContext, IndexedEvent
from kubeledger.ingest.correlate.images import ImageAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import Fact, Item, StatsSummary
from kubeledger.ingest.sources.shapes import ApiReason
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
)
from kubeledger.model.record import Evidence
from tests.ingest.feeding import at, bodies, feed, lines, recorded
from tests.ingest.scenes import played_by, played_out

FILE = Evidence(file="stats-summary.json")
CAPACITY = "invalid capacity 0 on image filesystem"
WANTED = "failed to garbage collect required amount of images. Wanted to free"
USED = (
    "Insufficient free disk space on the node's image filesystem (91% of 26.4 GiB used). Failed to "
    "free sufficient space by deleting unused images (freed 7 bytes). Investigate disk usage."
)
_MANAGER = "image_gc_manager.go [imageGCManager]:"
_OVER = "Disk usage on image filesystem"
_EVALUATING = 'image_gc_manager.go "Evaluating image ID for possible garbage collection based on'
_SIGNAL = 'helpers.go "Eviction manager:" log="observations'
WORDS = {
    "start": f"{_MANAGER} {_OVER} is at 90% which is over the high threshold (85%). Trying to free"
    " 100 bytes down to the low threshold (80%).",
    "Start": f'image_gc_manager.go "{_OVER} is over the high threshold, trying to free bytes down '
    'to the low threshold" usage=90 highThreshold=85 amountToFree=100 lowThreshold=80',
    "remove": f'{_MANAGER} Removing image "{{1}}" to free {{2}} bytes',
    "Remove": 'image_gc_manager.go "Removing image to free bytes" imageID="{1}" size={2} '
    'runtimeHandler=""',
    "ok": "kubelet.go Image garbage collection succeeded",
    "Ok": 'kubelet.go "Image garbage collection succeeded"',
    "fails": "kubelet.go Image garbage collection failed once. Stats initialization may not have "
    "completed yet: {*}",
    "failsagain": "kubelet.go Image garbage collection failed multiple times in a row: {*}",
    "Fails": 'kubelet.go "Image garbage collection failed once. Stats initialization may not have '
    'completed yet" err="{*}"',
    "sent": 'event.go "Event occurred" object="n" kind="Node" apiVersion="" type="Warning" '
    'reason="{1}" message="{*}"',
    "mangled": 'event.go Event(v1.ObjectReference{Kind:"Node", Namespace:"", Name:"n", UID:"n"}): '
    "type: 'Warning' reason: 'ImageGCFailed' {*}",
    "turn": "eviction_manager.go eviction manager: synchronize housekeeping",
    "unremoved": 'remote_image.go RemoveImage "{1}" from image service failed: rpc error',
    "Unremoved": 'kuberuntime_image.go "Failed to remove image" err="rpc error" image="{1}"',
    "byage": f'{_EVALUATING} image age" imageID="a"',
    "byuse": f'{_EVALUATING} disk usage" imageID="a" runtimeHandler=""',
    "unused": "image_gc_manager.go attempting to delete unused images",
    "Unused": 'image_gc_manager.go "Attempting to delete unused images"',
    "enough": "eviction_manager.go eviction manager: able to reduce ephemeral-storage pressure "
    "without evicting pods.",
    "after": f'{_SIGNAL} after resource reclaim" signal="imagefs.available" '
    'resourceName="ephemeral-storage" available="1Ki" capacity="2Ki"',
    "lists": 'image_gc_manager.go "Adding image ID to currentImages" imageID="{1}"',
    "has": 'image_gc_manager.go "Image ID has size" imageID="a" size=7',
    "pins": 'image_gc_manager.go "Image ID is pinned" imageID="a" pinned={1}',
    "PASS": "0 lists a | .1 new | .2 used | .3 has | .4 pins true | .5 uses | .6 lists b | .7 gone",
    "new": 'image_gc_manager.go "Image ID is new" imageID="a" runtimeHandler=""',
    "uses": 'image_gc_manager.go "Container uses image" pod="ns/p" imageID="a"',
    "used": 'image_gc_manager.go "Setting Image ID lastUsed" imageID="a" '
    'lastUsed="2026-11-21 02:00:00.5 +0000 UTC m=+0.4"',
    "gone": 'image_gc_manager.go "Image ID is no longer present; removing from imageRecords" '
    'imageID="c"',
    "byno": f'{_EVALUATING} disk usage" imageID="" runtimeHandler=""',
    "listsno": 'image_gc_manager.go "Adding image ID to currentImages" imageID=""',
    "hasno": 'image_gc_manager.go "Image ID has size" imageID="" size=7',
    "removeno": 'image_gc_manager.go "Removing image to free bytes" imageID="" size=5',
    "listskata": 'image_gc_manager.go "Adding image ID with runtime class to currentImages" '
    'imageKey="a,kata" runtimeHandler="kata"',
    "removekata": 'image_gc_manager.go "Removing image to free bytes" imageID="a" size=5 '
    'runtimeHandler="kata"',
}
_MET = (
    'helpers.go "Eviction manager: threshold observed resource" log="thresholds - %s" signal="{1}"'
)
WORDS |= {
    "sees": f'{_SIGNAL}" signal="memory.available" available="1" capacity="2"',
    "met": f'{_MET % "updated stats"} resourceName="x" quantity="9" available="1"',
    "ignored": f'{_MET % "ignoring grace period"} resourceName="x" quantity="9" available="1"',
    "oldmet": "helpers.go eviction manager: thresholds - updated stats: threshold "
    "[signal=nodefs.inodesFree, quantity=9] observed 1",
    "oldreclaim": "eviction_manager.go eviction manager: attempting to reclaim inodes",
    "reclaim": 'eviction_manager.go "Eviction manager: attempting to reclaim" '
    'resourceName="ephemeral-storage"',
}
_A = "ListedImage(image_id='a', size_bytes=7, pinned="
_USED = f"in_use=True, new=True, last_used_ts_ns={at('02:00:00') + 500_000_000}"
_SEEN = "in_use=False, new=False, last_used_ts_ns=None"
_B = f"ListedImage(image_id='b', size_bytes=None, pinned=None, {_SEEN})"

SCENES = f"""
one detect pass: all that is said of an image
    PASS
    = ImagesDetected lines=1,2,3,4,5,7,8 images=({_A}True, {_USED}), {_B})
a pause ends a pass: the next one may begin with another image
    0 lists a | 300 lists b | 300.1 lists a
    = ImagesDetected @0
    = ImagesDetected @300
the gate makes the handler part of the key, in deletions as well
    0 listskata | .1 removekata
    = ImageDeleted image_id=a,kata
a line of a pass that is lost: each about an image says that it was listed
    0 has | .1 pins true | .2 Start
    = ImagesDetected images=({_A}True, {_SEEN}),)
so does one without a size
    0 pins false | .2 Start
    = ImagesDetected images=({_A.replace("7", "None")}False, {_SEEN}),)
the sum of the deletions is what was freed, 1.20
    0 start | .1 remove a 70 | .2 remove b 40 | .3 ok
    = GarbageCollected outcome=freed bytes_freed=110 images_removed=2 bytes_to_free=100
    = ImageDeleted image_id=a size_bytes=70 pass_=space <GarbageCollectionStarted
    = ImageDeleted image_id=b size_bytes=40 pass_=space <GarbageCollectionStarted
the sum of the deletions is what was freed, 1.36
    0 Start | .1 Remove a 70 | .2 Remove b 40 | .3 Ok
    = GarbageCollected outcome=freed bytes_freed=110 images_removed=2 bytes_to_free=100
    = ImageDeleted image_id=a size_bytes=70 pass_=space <GarbageCollectionStarted
    = ImageDeleted image_id=b size_bytes=40 pass_=space <GarbageCollectionStarted
below the threshold nothing but the success is logged
    0 ok
    = GarbageCollected outcome=below_threshold usage_percent=None images_removed=0
somebody took all IDs out of the log: nothing tells which images were listed, and went
    0 listsno | .1 hasno | .2 Start | .3 byno | .4 removeno | .5 Ok
    = !ImagesDetected
    = ImageDeleted image_id= size_bytes=5
    = GarbageCollected images_removed=1 bytes_freed=5
at low verbosity the success is not logged: enough was freed, and no error followed
    0 start | .1 remove a 70 | .2 remove b 40 | 70 turn
    = GarbageCollected @0.2 outcome=freed bytes_freed=110
an error after enough was freed: a removal failed on the way
    0 start | .1 remove bad 900 | .2 unremoved bad | .3 remove a 110
    .4 fails wanted to free 100 bytes, but freed 110 bytes space with errors in image deletion: x
    = GarbageCollected outcome=failed bytes_freed=110 images_removed=1
    = ImageDeleted image_id=a
a removal that failed is no deletion, 1.36
    0 Start | .1 Remove bad 900 | .2 Unremoved bad | .3 byuse
    = !ImageDeleted
    = !GarbageCollected
two starts in a row: the first one's deletions are not counted for the second
    0 start | .1 remove a 10 | 300 start | 300.1 remove b 100 | 300.2 ok
    = GarbageCollected images_removed=1 bytes_freed=100
the event goes its own way to the log, before and after; one run all the same
    0 sent InvalidDiskCapacity {CAPACITY} | .1 fails {CAPACITY} | .2 sent ImageGCFailed {CAPACITY}
    .3 sent ImageGCFailed another error
    = GarbageCollected lines=2,1,3
    = !FindingReported
an event has the amounts of the error that the run returns
    0 sent FreeDiskSpaceFailed wanted to free 9 bytes, but freed 7 bytes
    .1 fails wanted to free 9 bytes, but freed 5 bytes
    = GarbageCollected lines=2,1 bytes_freed=5
    = FindingReported finding=lines_disagree
some versions used the error as a format: what follows a percent sign is lost
    0 fails filesystem (91% of 26.4 GiB used) (freed 7 bytes)
    .1 mangled filesystem (91%!o(MISSING)f 26.4 GiB
    = GarbageCollected lines=1,2
    = !FindingReported
an event that the API server kept is evidence, in its time
    ~ event {CAPACITY}
    0 fails {CAPACITY} | 60 failsagain {CAPACITY}
    = GarbageCollected lines=1,stats-summary.json
    = GarbageCollected lines=2
by age: deleted before the disk is looked at, no start is the cause
    0 byage | .1 Remove a 70 | .2 Ok
    = ImageDeleted image_id=a pass_=age <None
    = GarbageCollected outcome=freed bytes_freed=70 images_removed=1
at low verbosity there is only the age pass after a run's end and before a start
    0 Ok | 300 Remove a 70 | 300.1 Start | 300.2 Remove b 100 | 300.3 Ok
    = ImageDeleted image_id=a pass_=age <None
    = ImageDeleted image_id=b pass_=space <GarbageCollectionStarted
    = GarbageCollected images_removed=0
    = GarbageCollected images_removed=2
1.20 has no age pass
    ~ version 1.20.2
    0 Ok | 300 Remove a 70 | 300.1 Ok
    = ImageDeleted image_id=a pass_=None
where considered images are logged, a lost start makes no age pass
    0 Ok | 300 byuse | 300.1 Remove a 70 | 300.2 Ok
    = ImageDeleted image_id=a pass_=None
a removal that stands twice in the log
    0 Start | .1 Remove b 40 | .1 Remove b 40 | .2 Ok
    = ImageDeleted image_id=b
a second removal of an image
    0 Start | .1 Remove b 40 | .2 Remove b 40 | .3 Ok
    = ImageDeleted @0.1
    = ImageDeleted @0.2
unused images: the eviction manager's pass is no run, and ends when that one continues, 1.20
    0 unused | .1 remove a 70 | .2 enough | .3 start | .4 remove b 100 | .5 ok
    = ImageDeleted image_id=a pass_=all <None
    = ImageDeleted image_id=b pass_=space
    = GarbageCollected images_removed=1
unused images, 1.36
    0 Unused | .1 Remove a 70 | .2 after | .3 start | .4 remove b 100 | .5 ok
    = ImageDeleted image_id=a pass_=all <None
    = ImageDeleted image_id=b pass_=space
    = GarbageCollected images_removed=1
unused images are no part of a run before, which ended when it had freed enough
    0 start | .1 remove a 110 | 290 unused | 290.1 remove b 70 | 360 turn
    = GarbageCollected @0.1
what is reclaimed, and the signals that a round acted on
    0 sees | .1 ignored nodefs.available | .2 met imagefs.available | .3 met memory.available
    .4 reclaim | .5 Unused | .6 Remove a 10
    = ImageDeleted pass_=all reclaimed=ephemeral-storage signals=('imagefs.available',)
what is reclaimed, in free text
    0 oldmet | .1 oldreclaim | .2 unused | .3 Remove a 10
    = ImageDeleted pass_=all reclaimed=inodes signals=('nodefs.inodesFree',)
what is reclaimed is not known without these lines
    0 Unused | .1 Remove a 10
    = ImageDeleted pass_=all reclaimed=None signals=()
a log that begins in a run: of which pass the removal is, is not known
    0 remove a 70 | .1 ok
    = ImageDeleted image_id=a pass_=None
    = GarbageCollected outcome=freed
more is available than there is: the log has the numbers in this one case
    0 image_gc_manager.go available 120 is larger than capacity 100
    = ImageFsObserved capacity_bytes=100 available_bytes=120 source=log
nonsense is not recorded
    0 helpers.go eviction manager: observations: signal=x, available: <nil>, capacity: 1
    .1 helpers.go eviction manager: no observation found for eviction signal x
    = !EvictionSignalObserved
a run taken for over is not ended again: the failure five minutes later is another
    0 start | .1 remove a 100 | 300 fails {CAPACITY}
    = GarbageCollected outcome=freed
    = GarbageCollected outcome=failed
its own failure still ends a run: the error names the bytes that it wanted
    0 start | .1 remove a 80 | 200 fails {WANTED} 100 bytes, but freed 80 bytes
    = GarbageCollected <GarbageCollectionStarted outcome=failed
"""
_OTHERS = "\n".join(
    f"""another run's failure after {wait} s takes nothing of one without an end: {error}
    0 start | .1 remove a 80 | {wait} fails {error}
    = GarbageCollected <None outcome=failed usage_percent=None bytes_to_free=None"""
    for wait in (30, 300)
    for error in (
        CAPACITY,
        "failed to get imageFs info: unable to find data in memory cache",
        f"{WANTED} 7 bytes, but freed 0 bytes",
    )
)
_ERRORS = "\n".join(
    f"""the numbers in {how} {error}
    0 {how} {error}
    = GarbageCollected bytes_freed={freed} usage_percent={usage} error={error}"""
    for how in ("failsagain", "Fails")
    for error, freed, usage in (
        (f"{WANTED} 100 bytes, but freed 7 bytes", 7, None),
        ("Attempted to free 100 bytes, but only found 7 bytes eligible to free.", 7, None),
        (USED, 7, 91),
        ("wanted to free images older than 1h0m0s, encountered errors", None, None),
        ("failed to get imageFs info: unable to find data in memory cache", None, None),
    )
)


def _assembler(files: list[str]) -> ImageAssembler:
    """Of a node with a version, and perhaps an event that the API server kept."""
    known = BundleContext(node="n", kubelet_version="1.36.2")
    for row in files:
        word, rest = row.split(" ", 1)
        if word == "version":
            known.kubelet_version = rest
        else:
            when = at("10:00:00")
            key = ("Node", "default", "n", "InvalidDiskCapacity", rest)
            known.events[key] = IndexedEvent(ApiReason.read({}), 1, when, when, (FILE,))
    return ImageAssembler(Registers(known))


test_scene = played_out(f"{SCENES}{_OTHERS}\n{_ERRORS}", WORDS, played_by(_assembler))


def run(*texts: str) -> list[Fact]:
    return feed(
        ImageAssembler(Registers(BundleContext(node="n", kubelet_version="1.20.2"))), lines(*texts)
    )


def deleted(facts: list[Fact]) -> list[tuple[str, int | None, str | None, bool]]:
    """ID, size, pass and whether a start is the cause, of every deletion."""
    return [
        (fact.body.image_id, fact.body.size_bytes, fact.body.pass_, fact.cause is not None)
        for fact in facts
        if isinstance(fact.body, ImageDeleted)
    ]


def test_a_run_cut_short_has_no_end() -> None:
    start, removal = WORDS["start"], WORDS["remove"].replace("{1}", "a").replace("{2}", "10")
    *first, last = lines(start, removal, f"+60s {WORDS['ok']}")
    last.pid = 2
    facts = feed(ImageAssembler(Registers(BundleContext(node="n"))), [*first, last])
    assert bodies(facts, GarbageCollected) == [GarbageCollected(outcome="below_threshold")]
    assert len(deleted(facts)) == 1


class TestRecordings:
    """Thresholds of 5 and 4 percent on a disk that is far above."""

    @pytest.mark.parametrize(
        ("version", "passes", "pinned"), [("v1.20.2", [7, 7], None), ("v1.36.2", [7, 7], False)]
    )
    def test_detect_passes(self, version: str, passes: list[int], pinned: bool | None) -> None:
        stream = recorded(f"images/{version}.log")
        facts = feed(ImageAssembler(Registers(BundleContext(node="n"))), stream)
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


def stats(minute: int, available: int | None) -> StatsSummary:
    disk = {"capacityBytes": 100, "availableBytes": available, "usedBytes": 5}
    data = {"node": {"runtime": {"imageFs": disk}}}
    return StatsSummary(at(f"02:0{minute}:00"), data, FILE)


def test_stats_when_they_change() -> None:
    empty = StatsSummary(at("02:05:00"), {"node": {"runtime": None}}, FILE)
    items: list[Item] = [stats(0, 7), stats(1, 7), stats(2, None), empty]
    facts = feed(ImageAssembler(Registers(BundleContext(node="n"))), items)
    assert bodies(facts, ImageFsObserved) == [
        ImageFsObserved(capacity_bytes=100, available_bytes=7, used_bytes=5),
        ImageFsObserved(capacity_bytes=100, available_bytes=None, used_bytes=5),
    ]


@pytest.mark.parametrize(
    ("text", "amount"),
    [("7206Mi", 7206 << 20), ("1Gi", 1 << 30), ("12k", 12_000), ("3M", 3_000_000),
     ("1500m", 2), ("1e3", 1000), ("9", 9)],
)  # fmt: skip
def test_quantities(text: str, amount: int) -> None:
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
