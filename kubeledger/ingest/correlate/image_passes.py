"""The lines of one detect pass, gathered.

A pass first asks the runtime (``Container uses image``, several passes at once if need be)
and then, under a lock, goes through the images: only lines of this second part make up
the pass. It ends when an image comes up again, when the manager goes on to something
else, or when nothing more is said for a second.
"""

from __future__ import annotations

import msgspec

from kubeledger.ingest.correlate.assembler import reads
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Holdback, Waiting
from kubeledger.ingest.sources.items import Fact
from kubeledger.ingest.sources.times import go_time
from kubeledger.model.bodies.images import ImagesDetected, ListedImage
from kubeledger.model.units import NS_PER_S

_PAUSE_NS = NS_PER_S
_LONGEST_NS = 60 * NS_PER_S
_BY_HANDLER = "Adding image ID with runtime class to currentImages"


class _Image(msgspec.Struct):
    """A listed image while its lines come in; fields as in ``ListedImage``."""

    image_id: str
    size_bytes: int | None = None
    pinned: bool | None = None
    in_use: bool = False
    new: bool = False
    last_used_ts_ns: int | None = None

    def listed(self) -> ListedImage:
        return ListedImage(**msgspec.structs.asdict(self))


class DetectPasses:
    """Handlers of the lines of detect passes.

    Attributes:
        keyed_by_handler: images of different runtime handlers have records of their own.
    """

    def __init__(self, queue: Holdback) -> None:
        self._queue = queue
        self.keyed_by_handler = False
        self._images: dict[str, _Image] = {}
        self._waiting: Waiting[ImagesDetected] | None = None
        self._last_ns = 0

    @reads("Adding image ID to currentImages", _BY_HANDLER)
    def _listed(self, entry: Entry) -> None:
        """The next image of the runtime's list; where handlers matter, under a key with its own."""
        self.keyed_by_handler |= entry.message == _BY_HANDLER
        self._list(entry, entry.text("imageKey", "imageID"))

    def _list(self, entry: Entry, image_id: str) -> None:
        if not image_id:  # taken out of the log: images cannot be told apart
            return
        if image_id in self._images:
            self.end()
        self.expire(entry.ts_ns)
        if self._waiting is None:
            fact = Fact(entry.ts_ns, ImagesDetected(images=()), ())
            self._waiting = self._queue.hold(fact, _LONGEST_NS)
        self._images[image_id] = _Image(image_id)
        self._note(entry)

    @reads("Image ID is new")
    def _is_new(self, entry: Entry) -> None:
        self._image(entry).new = True

    @reads("Setting Image ID lastUsed")
    def _used(self, entry: Entry) -> None:
        """A container uses it; the time is in Go's notation."""
        image = self._image(entry)
        image.in_use = True
        try:
            image.last_used_ts_ns = go_time(entry.text("lastUsed"))
        except ValueError:
            image.last_used_ts_ns = None

    @reads("Image ID has size")
    def _has_size(self, entry: Entry) -> None:
        self._image(entry).size_bytes = entry.number("size")

    @reads("Image ID is pinned")
    def _is_pinned(self, entry: Entry) -> None:
        self._image(entry).pinned = entry.text("pinned") == "true"

    @reads("Image ID is no longer present, removing from imageRecords")
    def _dropped(self, entry: Entry) -> None:
        if self._waiting is not None:
            self._note(entry)

    def expire(self, now_ns: int) -> None:
        """End a pass about which nothing more is said."""
        if now_ns - self._last_ns > _PAUSE_NS or now_ns < self._last_ns - _PAUSE_NS:
            self.end()

    def end(self) -> None:
        """The pass is complete."""
        if self._waiting is None:
            return
        self._waiting.learn(images=tuple(image.listed() for image in self._images.values()))
        self._waiting.settle()
        self._waiting = None
        self._images = {}

    def _image(self, entry: Entry) -> _Image:
        """The image that a line is about: it was listed, even if that line was lost."""
        image_id = entry.text("imageID")
        if image_id not in self._images:
            self._list(entry, image_id)
        self._note(entry)
        return self._images.get(image_id) or _Image(image_id)

    def _note(self, entry: Entry) -> None:
        self._last_ns = entry.ts_ns
        if self._waiting is not None:
            self._waiting.join(entry.evidence)
