"""Odd histories of image GC: nothing is raised, and each decision has one finding."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.model.bodies.images import (
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.record import Body
from tests.verify import image_scenes
from tests.verify.histories import findings, kubelet_of
from tests.verify.image_scenes import history

NUMBER = st.one_of(st.integers(-5, 120), st.integers(-(2**63), 2**63 - 1))
MAYBE = st.one_of(st.none(), NUMBER)
IMAGE = st.sampled_from(["a", "b", "c", "sha256:", ""])
TEXT = st.sampled_from(
    ["", "invalid capacity 0 on image filesystem", "failed to get image stats",
     "wanted to free 5 bytes, but freed 3 bytes space with errors in image deletion: x",
     "failed to garbage collect required amount of images. Wanted to free 9 bytes, but freed 1 "
     "bytes", "what is this"]
)  # fmt: skip
ODD_VALUE: st.SearchStrategy[Any] = st.sampled_from(
    [None, 5, 4, 100, -1, "10s", "0s", "1h", "", [], {}, {"imagefs.available": "5%"}, True, 2.5]
)

LISTED = st.builds(
    ListedImage, image_id=IMAGE, size_bytes=MAYBE, pinned=st.sampled_from([None, True, False]),
    in_use=st.booleans(), new=st.booleans(), last_used_ts_ns=MAYBE,
)  # fmt: skip
BODY: st.SearchStrategy[Body] = st.one_of(
    st.sampled_from(["1.20.2", "1.28.0", "1.36.2", "9.9.9", None]).map(kubelet_of),
    st.dictionaries(st.sampled_from(list(image_scenes.POLICY)), ODD_VALUE).map(
        lambda values: image_scenes.settings(**values)
    ),
    st.builds(ImagesDetected, images=st.lists(LISTED, max_size=4).map(tuple)),
    st.builds(ImageFsObserved, capacity_bytes=MAYBE, available_bytes=MAYBE),
    st.builds(GarbageCollectionStarted, usage_percent=NUMBER, high_threshold_percent=NUMBER,
              low_threshold_percent=NUMBER, bytes_to_free=NUMBER),
    st.builds(ImageDeleted, image_id=IMAGE, size_bytes=MAYBE,
              pass_=st.sampled_from(["space", "age", "all", None])),
    st.builds(GarbageCollected, usage_percent=MAYBE, bytes_to_free=MAYBE, bytes_freed=MAYBE,
              images_removed=NUMBER,
              outcome=st.sampled_from(["below_threshold", "freed", "failed"]), error=TEXT),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(bodies=st.lists(BODY, max_size=25), gap=st.sampled_from([0.01, 1.0, 70.0, 400.0]))
def test_any_history_gives_one_finding_a_decision(bodies: list[Body], gap: float) -> None:
    begin = [kubelet_of(), image_scenes.settings()]
    records = history(*((place * gap, body) for place, body in enumerate([*begin, *bodies])))
    found = findings(records)
    assert [f.seq for f in found if f.recorded is not None] == [
        r.seq for r in records if r.role == "decision"
    ]
    assert all(f.why and (f.verdict != "unverifiable" or f.missing) for f in found)
