from __future__ import annotations

from kubeledger.analyze.diff import Names
from kubeledger.model.bodies.cgroups import CgroupRemoved
from kubeledger.model.bodies.lifecycle import PodConfigChanged
from kubeledger.model.record import Body, Record

UID = "6faae567b5171c79dda9a3e8e04d3a56"


def _record(body: Body) -> Record:
    return Record(
        node="n",
        seq=1,
        ts_ns=1,
        role="decision",
        kind=body.kind,
        v=1,
        cause=None,
        evidence=(),
        body=body,
    )


def test_a_uid_in_the_name_of_a_cgroup() -> None:
    """The ``d`` of ``pod`` is a hexadecimal digit, but none of the UID's."""
    reported = PodConfigChanged(
        namespace="default", pod="web", pod_uid=UID, operation="ADD", source="file"
    )
    names = Names([_record(reported)])
    removed = CgroupRemoved(cgroup=f"kubepods/besteffort/pod{UID}", pod_uid=UID)
    _, body = names.comparable(_record(removed))
    assert body["cgroup"] == "kubepods/besteffort/pod<default/web>"
    assert body["pod_uid"] == "<default/web>"
