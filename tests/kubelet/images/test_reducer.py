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
from tests.kubelet.reducing import evolver
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


def test_first_detected_stays_and_last_used_moves() -> None:
    """Only a pass that sees an image in use sets its last-used time."""
    state = after(
        detected(image("a", new=True, in_use=True, size_bytes=5)),
        detected(image("a"), image("b", new=True, last_used_ts_ns=7, in_use=True)),
    )
    a, b = state.images["a"], state.images["b"]
    assert (a.first_detected_ts_ns, a.last_used_ts_ns, a.in_use, a.size_bytes) == (S, S, False, 5)
    assert (b.first_detected_ts_ns, b.last_used_ts_ns, b.in_use) == (2 * S, 7, True)
    assert state.detected_ts_ns == 2 * S


def test_an_image_that_is_not_listed_loses_its_record() -> None:
    """And begins anew when it comes back."""
    state = after(
        detected(image("a", new=True, in_use=True)), detected(), detected(image("a", new=True))
    )
    assert state.images["a"].first_detected_ts_ns == 3 * S
    assert state.images["a"].last_used_ts_ns is None


def test_what_the_kubelet_knew_before_the_recording_has_no_time() -> None:
    """A first record that calls an image old tells no time of its detection."""
    assert after(detected(image("a"))).images["a"].first_detected_ts_ns is None


def test_the_kubelet_calls_an_image_new_that_we_knew() -> None:
    """Its own memory counts, not ours."""
    state = after(detected(image("a", new=True, in_use=True)), detected(image("a", new=True)))
    assert state.images["a"].first_detected_ts_ns == 2 * S
    assert state.images["a"].last_used_ts_ns is None


def test_size_and_pin_stay_when_a_pass_does_not_tell() -> None:
    state = after(detected(image("a", new=True, size_bytes=9, pinned=True)), detected(image("a")))
    assert (state.images["a"].size_bytes, state.images["a"].pinned) == (9, True)


STARTED = GarbageCollectionStarted(
    usage_percent=90, high_threshold_percent=85, low_threshold_percent=80, bytes_to_free=100
)


def test_a_run_from_start_to_end() -> None:
    """Deletions count for the run and in total; sizes not told are taken from the record."""
    state = after(
        detected(image("a", new=True, size_bytes=30), image("b", new=True, size_bytes=50)),
        STARTED,
        ImageDeleted(image_id="a", size_bytes=None),
        ImageDeleted(image_id="b", size_bytes=51),
    )
    run = state.last_run
    assert run is not None
    assert (run.images_removed, run.bytes_freed, run.outcome) == (2, 81, None)
    assert state.images == {}
    evolve(state, record(5, GarbageCollected(outcome="failed", images_removed=2, error="E")))
    assert run == GCRunState(
        started_ts_ns=2 * S, finished_ts_ns=5 * S, outcome="failed", error="E", usage_percent=90,
        high_threshold_percent=85, low_threshold_percent=80, bytes_to_free=100, bytes_freed=81,
        images_removed=2,
    )  # fmt: skip
    assert (state.images_removed, state.bytes_freed, state.runs) == (2, 81, {"failed": 1})


def test_a_run_without_start_stands_alone() -> None:
    """Below the threshold there is no space pass; an earlier run is not touched."""
    state = after(
        STARTED,
        GarbageCollected(outcome="freed", bytes_freed=100),
        ImageDeleted(image_id="z", size_bytes=1),
        GarbageCollected(outcome="below_threshold", usage_percent=10),
    )
    run = state.last_run
    assert run is not None
    assert (run.started_ts_ns, run.outcome, run.usage_percent) == (None, "below_threshold", 10)
    assert (run.images_removed, run.bytes_freed) == (0, 0)
    assert state.runs == {"freed": 1, "below_threshold": 1}
    assert state.images_removed == 1


def test_disk_and_signals_are_the_last_ones_read() -> None:
    state = after(
        ImageFsObserved(capacity_bytes=10, available_bytes=4),
        ImageFsObserved(capacity_bytes=10, available_bytes=3, used_bytes=7),
        EvictionSignalObserved(signal="nodefs.available", available=1, capacity=2),
        EvictionSignalObserved(signal="nodefs.available", available=0, capacity=2),
    )
    assert state.image_fs == ImageFsState(
        read_ts_ns=2 * S, capacity_bytes=10, available_bytes=3, used_bytes=7
    )
    assert state.signals == {
        "nodefs.available": SignalState(read_ts_ns=4 * S, available=0, capacity=2)
    }


def test_a_new_process_forgets_records_and_a_run_that_was_cut_off() -> None:
    state = after(detected(image("a", new=True)), STARTED)
    forget_all(state)
    assert (state.images, state.last_run, state.detected_ts_ns) == ({}, None, None)
    state = after(STARTED, GarbageCollected(outcome="freed"))
    forget_all(state)
    assert state.last_run is not None
