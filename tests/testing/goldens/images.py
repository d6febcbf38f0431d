"""Image GC: when it runs, what goes in which order, and when it stops."""

from typing import Any, Literal

from kubeledger.kubelet.images.policy import space_removal_error
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
from tests.testing.goldens.registry import Lie, maker_of
from tests.testing.goldens.world import World

__all__: list[str] = []

CAPACITY = 1_024_000_000
"""Of the image filesystem; 1 % is 2,500 blocks of 4096 bytes."""
SMALL = 1_000_000
LARGE = CAPACITY * 8 // 100
ALL = ("1.20.2", "1.28.0", "1.36.2")
_Pass = Literal["space", "age", "all"]


class ImageWorld(World):
    """A node with images of one letter each, all of one size.

    A detect pass lies before a collection since 1.29, and after its start until then.
    """

    def __init__(self, version: str, *, size: int = SMALL, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(version, **settings)
        self.size = size

    def pass_over(self, names: str, *, used: str = "", new: str = "", pinned: str = "") -> int:
        """A detect pass."""
        images = tuple(
            ListedImage(
                image_id=name,
                size_bytes=self.size,
                pinned=None if self.version == "1.20.2" else name in pinned,
                in_use=name in used,
                new=name in new,
            )
            for name in names
        )
        return self.add(ImagesDetected(images=images))

    def history(self, names: str = "abcd", pinned: str = "", *, waits: float = 300) -> None:
        """Images that fall out of use one after the other: c and d never used, then a, then b."""
        self.pass_over(names, used="a", new=names, pinned=pinned)
        self.wait(waits)
        self.pass_over(names, used="b", pinned=pinned)
        self.wait(300)

    def disk(self, available_percent: int) -> int:
        """The image filesystem is read."""
        available = CAPACITY * available_percent // 100
        return self.add(ImageFsObserved(capacity_bytes=CAPACITY, available_bytes=available))

    def signal(self, available_percent: int) -> int:
        """The eviction manager reads its signal."""
        available = CAPACITY * available_percent // 100
        return self.add(
            EvictionSignalObserved(
                signal="imagefs.available", available=available, capacity=CAPACITY
            )
        )

    def begin(self, usage: int = 85, *, names: str = "abcd", **seen: str) -> int:
        """A space pass begins, with its detect pass before or after."""
        before = self.version == "1.36.2"
        self.disk(100 - usage)
        if before:
            self.pass_over(names, **seen)
        seq = self.add(
            GarbageCollectionStarted(
                usage_percent=usage,
                high_threshold_percent=80,
                low_threshold_percent=70,
                bytes_to_free=CAPACITY * (usage - 70) // 100,
            )
        )
        if not before:
            self.pass_over(names, **seen)
        return seq

    def remove(self, name: str, cause: int | None = None, pass_: _Pass = "space") -> int:
        """An image is removed."""
        body = ImageDeleted(image_id=name, size_bytes=self.size, pass_=pass_)
        return self.add(body, cause=cause)

    def end(self, start: int, removed: int, error: str = "") -> int:
        """The collection ends."""
        return self.add(
            GarbageCollected(
                usage_percent=85,
                high_threshold_percent=80,
                low_threshold_percent=70,
                bytes_to_free=CAPACITY * 15 // 100,
                bytes_freed=removed * self.size,
                images_removed=removed,
                outcome="failed" if error else "freed",
                error=error,
            ),
            cause=start,
        )

    def freed(self) -> tuple[int, int]:
        """A collection for which two images are enough: its start and the last removal."""
        self.history("abc")
        start = self.begin(names="abc")
        self.remove("c", start)
        last = self.remove("a", start)
        self.end(start, 2)
        return start, last


golden = maker_of(ImageWorld)


def shortfall(version: str, freed: int) -> str:
    """The words of a collection that freed too little."""
    wanted = CAPACITY * 15 // 100
    if version == "1.36.2":
        return (
            "Insufficient free disk space on the node's image filesystem (85% of 976.6 MiB used)."
            f" Failed to free sufficient space by deleting unused images (freed {freed} bytes). "
            "Investigate disk usage, as it could be used by active images, logs, volumes, or "
            "other data."
        )
    if version == "1.28.0":
        return (
            "Failed to garbage collect required amount of images. Attempted to free "
            f"{wanted} bytes, but only found {freed} bytes eligible to free."
        )
    return (
        "failed to garbage collect required amount of images. Wanted to free "
        f"{wanted} bytes, but freed {freed} bytes"
    )


@golden("images-space-pass", *ALL, size=LARGE)
def space_pass(node: ImageWorld) -> Lie:
    """The least recently used images go until enough is freed, and no more."""
    _, seq = node.freed()
    return Lie(seq, {"image_id": "z"})


@golden("images-amount", size=LARGE)
def amount(node: ImageWorld) -> Lie:
    """What is to be freed follows from the disk and the low threshold."""
    start, _ = node.freed()
    return Lie(start, {"low_threshold_percent": 60})


@golden("images-shortfall", *ALL)
def too_little(node: ImageWorld) -> Lie:
    """All that may go is not enough: the collection fails, in the words of the version."""
    node.history()
    start = node.begin()
    for name in "cdab":
        node.remove(name, start)
    seq = node.end(start, 4, shortfall(node.version, 4 * SMALL))
    return Lie(seq, {"error": shortfall(node.version, 5 * SMALL)})


@golden("images-removal-failed")
def removal_failed(node: ImageWorld) -> Lie:
    """The runtime refuses one image; the pass goes on, and the error tells of it."""
    node.history("abc")
    start = node.begin(names="abc")
    node.remove("a", start)
    node.remove("b", start)
    wanted, refused = CAPACITY * 15 // 100, ["image is in use by a snapshot"]
    seq = node.end(start, 2, space_removal_error(wanted, 2 * SMALL, refused))
    return Lie(seq, {"error": space_removal_error(wanted + 1, 2 * SMALL, refused)})


@golden("images-below-threshold")
def below_threshold(node: ImageWorld) -> Lie:
    """The disk is under the high threshold: nothing is to be done."""
    node.history()
    node.disk(50)
    node.pass_over("abcd")
    seq = node.add(GarbageCollected(outcome="below_threshold"))
    node.wait(30)
    node.disk(49)
    return Lie(seq, {"outcome": "freed"})


def _kept(node: ImageWorld, name: str, **kept: Any) -> Lie:  # noqa: ANN401 # of `begin`
    """A collection that leaves one image."""
    node.history(pinned=kept.get("pinned", ""))
    start = node.begin(**kept)
    seqs = [node.remove(each, start) for each in "dcab" if each != name]
    removed = len(seqs)
    node.end(start, removed, shortfall(node.version, removed * SMALL))
    return Lie(seqs[-1], {"image_id": name})


@golden("images-in-use", *ALL)
def in_use(node: ImageWorld) -> Lie:
    """An image that a container refers to stays, even if the space does not suffice."""
    return _kept(node, "b", used="b")


@golden("images-pinned", "1.28.0", "1.36.2")
def pinned(node: ImageWorld) -> Lie:
    """A pinned image stays."""
    return _kept(node, "b", pinned="b")


@golden("images-minimum-age")
def minimum_age(node: ImageWorld) -> Lie:
    """An image that was pulled a moment before stays."""
    node.history("abc")
    start = node.begin(names="abcn", new="n")
    node.remove("c", start)
    node.remove("a", start)
    seq = node.remove("b", start)
    node.end(start, 3, shortfall(node.version, 3 * SMALL))
    return Lie(seq, {"image_id": "n"})


@golden("images-age-pass", imageMaximumGCAge="10m0s")
def age_pass(node: ImageWorld) -> Lie:
    """What was unused for longer than the maximum age goes, whatever the disk holds."""
    node.history()
    node.wait(200)
    node.disk(50)
    node.pass_over("abcd")
    node.remove("c", pass_="age")
    node.remove("d", pass_="age")
    seq = node.remove("a", pass_="age")
    node.add(GarbageCollected(outcome="freed", images_removed=3, bytes_freed=3 * SMALL))
    return Lie(seq, {"image_id": "b"})


def _reclaimed(node: ImageWorld) -> int:
    """The image filesystem is short, and unused images are removed; the last removal."""
    node.history()
    node.signal(4)
    node.pass_over("abcd", used="b")
    for name in "cd":
        node.remove(name, pass_="all")
    last = node.remove("a", pass_="all")
    node.signal(20)
    return last


@golden("images-threshold-100", *ALL, imageGCHighThresholdPercent=100)
def threshold_100(node: ImageWorld) -> Lie:
    """A high threshold of 100 disables image GC; the eviction manager still removes images."""
    return Lie(_reclaimed(node), {"pass_": "space"})


@golden("images-eviction-reclaim", *ALL)
def eviction_reclaim(node: ImageWorld) -> Lie:
    """The image filesystem is short: the eviction manager has all unused images removed."""
    return Lie(_reclaimed(node), {"image_id": "b"})
