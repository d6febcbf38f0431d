"""When a device is free again: which release counts for which allocation."""

from pathlib import Path

import pytest

from kubeledger.analyze.sql.api import connect
from kubeledger.model.bodies.devicemanager import DevicesAllocated, DevicesReleased
from kubeledger.model.bodies.lifecycle import PodTerminated
from kubeledger.model.record import Body
from tests.analyze.sql.fixture_ledger import Story, write_ledger


def allocated(
    pod: str = "p", uid: str | None = "u", container: str = "c", resource: str = "r"
) -> DevicesAllocated:
    return DevicesAllocated(
        namespace="default",
        pod=pod,
        pod_uid=uid,
        container=container,
        resource=resource,
        device_ids=("d",),
    )


def terminated(pod: str = "p", uid: str | None = "u") -> PodTerminated:
    return PodTerminated(namespace="default", pod=pod, pod_uid=uid)


CASES: dict[str, tuple[list[Body], list[int | None]]] = {
    "held": ([allocated()], [None]),
    "released": ([allocated(), DevicesReleased(pod_uid="u")], [2]),
    "the end of the pod alone is no release": ([allocated(), terminated()], [None]),
    "the device manager's word counts": ([allocated(), terminated(), DevicesReleased(pod_uid="u")],
                                         [3]),
    "the first release counts": ([allocated(), DevicesReleased(pod_uid="u"),
                                  DevicesReleased(pod_uid="u")], [2]),
    "a release before the allocation does not": ([DevicesReleased(pod_uid="u"), allocated()],
                                                 [None]),
    "the same pod again": ([allocated(), DevicesReleased(pod_uid="u"), allocated(),
                            DevicesReleased(pod_uid="u")], [2, 4]),
    "another pod's": ([allocated(), DevicesReleased(pod_uid="v")], [None]),
    "one container's": ([allocated(container="a"), allocated(container="b"),
                         DevicesReleased(pod_uid="u", container="a")], [3, None]),
    "one resource's": ([allocated(resource="x"), allocated(resource="y"),
                        DevicesReleased(pod_uid="u", container="c", resource="y")], [None, 3]),
}  # fmt: skip


ENDS: dict[str, tuple[list[Body], list[int | None]]] = {
    "not ended": ([allocated()], [None]),
    "ended": ([allocated(), DevicesReleased(pod_uid="u"), terminated()], [3]),
    "ended before": ([terminated(), allocated()], [None]),
    "another pod of the name": ([allocated(), terminated(uid="v")], [None]),
    "by name where the allocation has no UID": ([allocated(uid=None), terminated()], [2]),
    "by name where the end has no UID": ([allocated(), terminated(uid=None)], [2]),
    "another name": ([allocated(uid=None), terminated(pod="q")], [None]),
}


@pytest.mark.parametrize("name", CASES)
def test_release(tmp_path: Path, name: str) -> None:
    """The record, by number, whose time is ``released_ts`` of each allocation."""
    bodies, expected = CASES[name]
    assert seqs_at(tmp_path, bodies, "released_ts") == expected


@pytest.mark.parametrize("name", ENDS)
def test_end_of_the_pod(tmp_path: Path, name: str) -> None:
    """The record, by number, whose time is ``pod_terminated_ts`` of each allocation."""
    bodies, expected = ENDS[name]
    assert seqs_at(tmp_path, bodies, "pod_terminated_ts") == expected


def seqs_at(directory: Path, bodies: list[Body], column: str) -> list[int | None]:
    story = Story("n")
    for body in bodies:
        story.add(body)
    with connect(write_ledger(directory, story.records)) as database:
        rows = database.sql(
            "SELECT e.seq FROM device_allocations AS a"
            f" LEFT JOIN events AS e ON e.ts = a.{column} ORDER BY a.seq"
        ).fetchall()
    return [row[0] for row in rows]
