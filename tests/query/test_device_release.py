"""When a device is free again: which release counts for which allocation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.devicemanager.records import DevicesAllocated, DevicesReleased
from kubeledger.lifecycle.records import PodTerminated
from kubeledger.machine import Body
from kubeledger.query.api import connect
from tests.query.fixture_ledger import Story, write_ledger


def allocated(
    pod: str = "p", uid: str | None = "u", container: str = "c", resource: str = "r"
) -> DevicesAllocated:
    """An allocation of one device."""
    return DevicesAllocated(
        namespace="default",
        pod=pod,
        pod_uid=uid,
        container=container,
        resource=resource,
        device_ids=("d",),
    )


def terminated(pod: str = "p", uid: str | None = "u") -> PodTerminated:
    """The end of a pod."""
    return PodTerminated(namespace="default", pod=pod, pod_uid=uid)


CASES: dict[str, tuple[list[Body], list[int | None]]] = {
    "held": ([allocated()], [None]),
    "released": ([allocated(), DevicesReleased(pod_uid="u")], [2]),
    "terminated only": ([allocated(), terminated()], [2]),
    "the device manager's word counts": (
        [allocated(), terminated(), DevicesReleased(pod_uid="u")],
        [3],
    ),
    "the first release counts": (
        [allocated(), DevicesReleased(pod_uid="u"), DevicesReleased(pod_uid="u")],
        [2],
    ),
    "a release before the allocation does not": (
        [DevicesReleased(pod_uid="u"), allocated()],
        [None],
    ),
    "the same pod again": (
        [allocated(), DevicesReleased(pod_uid="u"), allocated(), DevicesReleased(pod_uid="u")],
        [2, 4],
    ),
    "another pod's": ([allocated(), DevicesReleased(pod_uid="v"), terminated(uid="v")], [None]),
    "another pod of the name": ([allocated(), terminated(pod="p", uid="v")], [None]),
    "by name where there is no UID": ([allocated(uid=None), terminated()], [2]),
    "one container's": (
        [
            allocated(container="a"),
            allocated(container="b"),
            DevicesReleased(pod_uid="u", container="a"),
        ],
        [3, None],
    ),
    "one resource's": (
        [
            allocated(resource="x"),
            allocated(resource="y"),
            DevicesReleased(pod_uid="u", container="c", resource="y"),
        ],
        [None, 3],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_release(tmp_path: Path, name: str) -> None:
    """The record, by number, whose time is ``released_ts`` of each allocation."""
    bodies, expected = CASES[name]
    story = Story("n")
    for body in bodies:
        story.add(body)
    with connect(write_ledger(tmp_path, story.records)) as database:
        rows = database.sql(
            "SELECT e.seq FROM device_allocations AS a"
            " LEFT JOIN events AS e ON e.ts = a.released_ts ORDER BY a.seq"
        ).fetchall()
    assert [row[0] for row in rows] == expected
