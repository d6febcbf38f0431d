"""What two histories do not share."""

from typing import Any

from kubeledger.analyze.diff import Difference, Names, diff_decisions, diff_states
from kubeledger.analyze.histories.history import History, history_of_reader
from kubeledger.model.bodies.cgroups import CgroupRemoved
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import NodeConditionChanged, PodStageFailed
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay import fold
from tests.verify.histories import reader, recorded, scene

UIDS = ("11111111-2222-3333-4444-555555555555", "99999999-8888-7777-6666-555555555555")


def history(*steps: tuple[float, Body], start_s: int = 1_000) -> History:
    return history_of_reader("n", "n", reader(scene(*steps, start_s=start_s)))


def admitted(pod: str) -> Body:
    return PodAdmitted(namespace="default", pod=pod, pod_uid=None)


def refused(pod: str, reason: str = "OutOfcpu") -> Body:
    return PodRejected(namespace="default", pod=pod, pod_uid=None, reason=reason, message="")


def reported(found: list[Difference]) -> list[tuple[str, str, int]]:
    return [(one.what, one.subject, one.occurrence) for one in found]


def life(uid: str, container_id: str, start_s: int) -> History:
    pod: dict[str, Any] = {"namespace": "default", "pod": "web", "pod_uid": uid}
    status = {"containerStatuses": [{"name": "app", "containerID": f"containerd://{container_id}"}]}
    path = f"kubepods/burstable/pod{uid.replace('-', '_')}/{container_id}"
    return history(
        (0, PodListed(**pod, spec={}, status=status, listed_by="kubelet")),
        (1, ContainerStarted(**pod, container="app", container_id=container_id)),
        (2, PodAdmitted(**pod)),
        (3,
         ContainerKilled(**pod, container="app", container_id=container_id, reason="liveness_probe",
                         message=f"Container {container_id} of {uid} failed", grace_period_s=30)),
        (4, CgroupRemoved(cgroup=path, pod_uid=uid)),
        start_s=start_s,
    )  # fmt: skip


def test_another_run_of_the_same() -> None:
    """UIDs and container IDs are drawn anew each time, and times are others."""
    one, two = life(UIDS[0], "a" * 64, 1_000), life(UIDS[1], "b" * 64, 5_000)
    assert diff_decisions(one, two) == []
    exact = diff_decisions(one, two, exact=True)
    fields = {name for difference in exact for name in difference.fields}
    assert {"pod_uid", "ts_ns", "container_id", "message", "cgroup"} <= fields


def test_an_id_nobody_names_stays() -> None:
    one, two = (history((0, PodAdmitted(namespace="d", pod="p", pod_uid=uid))) for uid in UIDS)
    (found,) = diff_decisions(one, two)
    assert found.fields == {"pod_uid": UIDS}


def test_only_on_one_side() -> None:
    one = history((0, admitted("a")), (1, admitted("b")))
    two = history((0, admitted("a")), (1, refused("c")))
    found = diff_decisions(one, two)
    assert reported(found) == [("only_in_a", "default/b", 1), ("only_in_b", "default/c", 1)]
    assert found[0].b is None
    assert found[0].fields["pod"] == ("b", None)
    assert found[1].fields["reason"] == (None, "OutOfcpu")
    assert "pod_uid" not in found[0].fields


def test_the_nth_with_the_nth() -> None:
    one = history(*((float(n), refused("a", reason)) for n, reason in enumerate("xyz")))
    two = history(*((float(n), refused("a", reason)) for n, reason in enumerate("xvzw")))
    found = diff_decisions(one, two)
    assert reported(found) == [("differs", "default/a", 2), ("only_in_b", "default/a", 4)]
    assert found[0].fields == {"reason": ("y", "v")}


def test_order_among_subjects_does_not_matter() -> None:
    """A kubelet's workers run side by side."""
    bodies = [admitted(name) for name in "abcdef"]
    one = history(*((float(n), body) for n, body in enumerate(bodies)))
    two = history(*((float(n), body) for n, body in enumerate(reversed(bodies))))
    assert diff_decisions(one, two) == []


def test_the_first_difference_comes_first() -> None:
    one = history((5, refused("late", "x")), (6, admitted("only-a")))
    two = history((1, admitted("only-b")), (5, refused("late", "y")))
    assert [one.subject for one in diff_decisions(one, two)] == [
        "default/only-b", "default/late", "default/only-a",
    ]  # fmt: skip


def test_stages_and_conditions() -> None:
    """Pods that were stuck otherwise, or not; a node that was not ready for another reason."""

    def failed(pod: str, reason: str) -> Body:
        return PodStageFailed(
            namespace="default", pod=pod, pod_uid=None, container="app", stage="image",
            reason=reason, message="", first_ts_ns=1_000 * NS_PER_S, last_ts_ns=1_000 * NS_PER_S,
        )  # fmt: skip

    down = {"condition": "Ready", "status": "False"}
    ready = NodeConditionChanged(condition="Ready", status="True")
    one = history(
        (0, failed("a", "ErrImagePull")), (1, failed("b", "ErrImagePull")),
        (2, NodeConditionChanged(**down, message="PLEG is not healthy")), (3, ready),  # type: ignore[arg-type] # words
    )  # fmt: skip
    two = history(
        (0, failed("a", "InvalidImageName")),
        (2, NodeConditionChanged(**down, message="node is shutting down")), (3, ready),  # type: ignore[arg-type] # words
    )  # fmt: skip
    found = {(each.kind, *reported([each])[0]): each.fields for each in diff_decisions(one, two)}
    assert found == {
        ("stage image", "differs", "default/a/app", 1): {
            "reason": ("ErrImagePull", "InvalidImageName")
        },
        ("stage image", "only_in_a", "default/b/app", 1): {
            "end": ("open", None), "message": ("", None), "reason": ("ErrImagePull", None),
        },
        ("condition Ready", "differs", "", 1): {
            "message": ("PLEG is not healthy", "node is shutting down")
        },
    }  # fmt: skip
    assert diff_decisions(one, one) == []


def test_sides_swapped() -> None:
    one, two = (history_of_reader(n, n, reader(recorded(n))) for n in ("node-a", "node-b"))
    there, back = diff_decisions(one, two), diff_decisions(two, one)
    mirrored = {"only_in_a": "only_in_b", "only_in_b": "only_in_a", "differs": "differs"}
    assert sorted((mirrored[d.what], d.kind, d.subject, d.occurrence) for d in there) == sorted(
        (d.what, d.kind, d.subject, d.occurrence) for d in back
    )


def test_states() -> None:
    records = recorded("node-b")
    before, after = fold(records[:400]), fold(records[:401])
    assert diff_states(before, before) == []
    found = {d.path: (d.a, d.b) for d in diff_states(before, after)}
    assert found["seq"] == (records[399].seq, records[400].seq)
    assert list(found) == sorted(found)


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
