"""Image records follow the detect passes, as in the kubelet's image GC manager."""

from kubeledger.kubelet.images.reducer import (
    HANDLERS,
    GCRunState,
    ImageFsState,
    ImagesState,
    SignalState,
    forget_all,
)
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.record import Body
from tests.kubelet.reducing import Histories, evolver, told_by
from tests.replay.strategies import record

evolve = evolver(HANDLERS)

S = 10**9


def after(*bodies: Body) -> ImagesState:
    state = ImagesState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def detected(*images: ListedImage) -> ImagesDetected:
    return ImagesDetected(images=images)


def image(image_id: str, **fields: bool | int) -> ListedImage:
    return ListedImage(image_id=image_id, **fields)  # type: ignore[arg-type] # fields of any type


STARTED = GarbageCollectionStarted(
    usage_percent=90, high_threshold_percent=85, low_threshold_percent=80, bytes_to_free=100
)
NEW = detected(image("a", new=True, in_use=True))
HISTORIES: Histories = {
    # Only a pass that sees an image in use sets its last-used time.
    "first detected stays and last used moves": [
        detected(image("a", new=True, in_use=True, size_bytes=5)),
        detected(image("a"), image("b", new=True, last_used_ts_ns=7, in_use=True)),
        {"images.a.first_detected_ts_ns": S, "images.a.last_used_ts_ns": S,
         "images.a.in_use": False, "images.a.size_bytes": 5,
         "images.b.first_detected_ts_ns": 2 * S, "images.b.last_used_ts_ns": 7,
         "images.b.in_use": True, "detected_ts_ns": 2 * S}],
    "an image that is not listed loses its record, and begins anew": [
        NEW, detected(), detected(image("a", new=True)),
        {"images.a.first_detected_ts_ns": 3 * S, "images.a.last_used_ts_ns": None}],
    "what the kubelet knew before the recording has no time": [
        detected(image("a")), {"images.a.first_detected_ts_ns": None}],
    # Its own memory counts, not ours.
    "the kubelet calls an image new that we knew": [
        NEW, detected(image("a", new=True)),
        {"images.a.first_detected_ts_ns": 2 * S, "images.a.last_used_ts_ns": None}],
    "size and pin stay when a pass does not tell": [
        detected(image("a", new=True, size_bytes=9, pinned=True)), detected(image("a")),
        {"images.a.size_bytes": 9, "images.a.pinned": True}],
    # Deletions count for the run and in total; sizes not told are taken from the record.
    "a run from start to end": [
        detected(image("a", new=True, size_bytes=30), image("b", new=True, size_bytes=50)),
        STARTED, ImageDeleted(image_id="a", size_bytes=None),
        ImageDeleted(image_id="b", size_bytes=51),
        {"last_run.images_removed": 2, "last_run.bytes_freed": 81, "last_run.outcome": None,
         "images": {}},
        GarbageCollected(outcome="failed", images_removed=2, error="E"),
        {"images_removed": 2, "bytes_freed": 81, "runs": {"failed": 1}, "last_run": GCRunState(
            started_ts_ns=2 * S, finished_ts_ns=6 * S, outcome="failed", error="E",
            usage_percent=90, high_threshold_percent=85, low_threshold_percent=80,
            bytes_to_free=100, bytes_freed=81, images_removed=2)}],
    # Below the threshold there is no space pass; an earlier run is not touched.
    "a run without start stands alone": [
        STARTED, GarbageCollected(outcome="freed", bytes_freed=100),
        ImageDeleted(image_id="z", size_bytes=1),
        GarbageCollected(outcome="below_threshold", usage_percent=10),
        {"last_run.started_ts_ns": None, "last_run.outcome": "below_threshold",
         "last_run.usage_percent": 10, "last_run.images_removed": 0, "last_run.bytes_freed": 0,
         "runs": {"freed": 1, "below_threshold": 1}, "images_removed": 1}],
    "disk and signals are the last ones read": [
        ImageFsObserved(capacity_bytes=10, available_bytes=4),
        ImageFsObserved(capacity_bytes=10, available_bytes=3, used_bytes=7),
        EvictionSignalObserved(signal="nodefs.available", available=1, capacity=2),
        EvictionSignalObserved(signal="nodefs.available", available=0, capacity=2),
        {"image_fs": ImageFsState(read_ts_ns=2 * S, capacity_bytes=10, available_bytes=3,
                                  used_bytes=7),
         "signals": {"nodefs.available": SignalState(read_ts_ns=4 * S, available=0, capacity=2)}}],
}  # fmt: skip

test_history = told_by(HISTORIES, ImagesState, evolve)


def test_a_new_process_forgets_records_and_a_run_that_was_cut_off() -> None:
    state = after(detected(image("a", new=True)), STARTED)
    forget_all(state)
    assert (state.images, state.last_run, state.detected_ts_ns) == ({}, None, None)
    state = after(STARTED, GarbageCollected(outcome="freed"))
    forget_all(state)
    assert state.last_run is not None
