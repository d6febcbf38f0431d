"""Views that count by the hour: where hours end, what is counted once, what is not counted."""

from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.sql.api import connect
from kubeledger.analyze.sql.views import find_query
from kubeledger.model.bodies.images import EvictionSignalObserved, ImageDeleted, ImagesDetected
from kubeledger.model.bodies.images import ListedImage as Image
from kubeledger.model.bodies.lifecycle import ContainerRestarted, KubernetesEvent, PodEvicted
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from tests.analyze.sql.fixture_ledger import START_NS, Story, write_ledger

HOUR_NS = 3600 * NS_PER_S
STARTED = KubeletStarted(pid=1, kubelet_version=None, version_source=None)


def at(*times: tuple[float, Body]) -> list[Record]:
    story = Story("n")
    for _, body in times:
        story.add(body)
    assert START_NS % HOUR_NS < NS_PER_S
    begin_ns = START_NS // HOUR_NS * HOUR_NS
    return [
        msgspec.structs.replace(record, ts_ns=begin_ns + int(minutes * 60 * NS_PER_S))
        for record, (minutes, _) in zip(story.records, times, strict=True)
    ]


def asked(directory: Path, records: list[Record], query: str) -> list[tuple[object, ...]]:
    with connect(write_ledger(directory, records)) as opened:
        return opened.sql(query).fetchall()


def restarted(reason: str | None, container: str = "app") -> Body:
    """A restart of a container of the pod ``web``."""
    return ContainerRestarted(
        namespace="default", pod="web", pod_uid="u", container=container, container_id="c",
        reason=reason,
    )  # fmt: skip


def test_an_hour_ends_before_the_next_begins(tmp_path: Path) -> None:
    """An hour without a restart has no row; reasons that are not known are none."""
    records = at(
        (0, restarted("exited")),
        (59.9999, restarted(None, "b")),
        (60, restarted(None)),
        (180, restarted("liveness_probe")),
        (181, restarted("exited")),
    )
    query = "SELECT hour(ts), seq, restarts, containers, reasons FROM restarts_per_hour ORDER BY ts"
    begin = START_NS // HOUR_NS % 24
    assert asked(tmp_path, records, query) == [
        (begin, 1, 2, ["app", "b"], ["exited"]),
        (begin + 1, 3, 1, ["app"], []),
        (begin + 3, 4, 2, ["app"], ["exited", "liveness_probe"]),
    ]


def test_a_pod_is_evicted_once(tmp_path: Path) -> None:
    """However often it was chosen, and though the manager did not wait for its end."""
    evicted = PodEvicted(
        namespace="a", pod="p", pod_uid="u", resource="memory", message=None, evicted=None
    )
    records = at(
        *((1, msgspec.structs.replace(evicted, evicted=known)) for known in (True, False, None)),
        (61, msgspec.structs.replace(evicted, pod_uid=None, evicted=False)),
    )
    query = "SELECT evictions, container_kills FROM kills_per_hour ORDER BY ts"
    assert asked(tmp_path, records, query) == [(1, 0), (1, 0)]


def test_images_that_came_and_went(tmp_path: Path) -> None:
    """A kubelet that starts knows no image: its first pass names none that is new."""
    old, new = Image(image_id="a", size_bytes=1), Image(image_id="b", size_bytes=1, new=True)
    event = KubernetesEvent(
        object_kind="Pod", namespace="a", pod="p", pod_uid="u", type="Normal", reason="Pulled",
        message='Successfully pulled image "x" in 2s', count=3,
    )  # fmt: skip
    change = msgspec.structs.replace
    gone = ImageDeleted(image_id="a", size_bytes=7, pass_="space")
    records = at(
        (0, ImagesDetected(images=(new, new))),
        (1, ImagesDetected(images=(old, old, new))),
        (2, STARTED),
        (3, ImagesDetected(images=(new, new, new))),
        (4, ImagesDetected(images=(old, old, old))),
        (5, ImagesDetected(images=(old, new, new))),
        (6, event),
        (7, change(event, message='Container image "x" already present on machine', count=9)),
        (8, change(event, reason="Failed", message='Failed to pull image "x": no', count=2)),
        (9, change(event, reason="Failed", message="Error: ErrImagePull", count=9)),
        (10, gone),
        (11, change(gone, size_bytes=None)),
    )
    query = (
        "SELECT seq, pulled, pull_failures, appeared, deleted, deleted_bytes, gc_failures"
        " FROM image_churn_per_hour"
    )
    assert asked(tmp_path, records, query) == [(2, 3, 2, 3, 2, 7, 0)]


def test_disks(tmp_path: Path) -> None:
    signal = EvictionSignalObserved(signal="nodefs.available", available=1, capacity=3)
    change = msgspec.structs.replace
    records = at(
        (0, signal),
        (1, change(signal, signal="nodefs.inodesFree")),
        (2, change(signal, signal="memory.available")),
        (3, change(signal, signal="containerfs.available", available=0, capacity=0)),
    )
    query = "SELECT filesystem, used_percent, source FROM disk_usage ORDER BY seq"
    assert asked(tmp_path, records, query) == [
        ("nodefs", 66.7, "eviction"),
        ("containerfs", None, "eviction"),
    ]


@pytest.mark.parametrize(("per", "counts"), [("1 hour", [3, 1]), ("10 minutes", [2, 1, 1])])
def test_spans_of_any_length(tmp_path: Path, per: str, counts: list[int]) -> None:
    records = at(*((minutes, restarted("exited")) for minutes in (0, 9, 10, 60)))
    query = find_query("restart_rate")
    with connect(write_ledger(tmp_path, records)) as opened:
        rows = opened.sql(query.sql, query.bind({"per": per})).dicts()
        assert [row["restarts"] for row in rows] == counts
