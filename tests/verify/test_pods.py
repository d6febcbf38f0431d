"""The pod register: a spec as it was at a time."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.history_entries import HistoryEntry, Listing
from kubeledger.verify.evidence.pod_intervals import (
    ContainerRun,
    PodActiveInterval,
    PodHistory,
    Restarting,
    ran_out,
)
from kubeledger.verify.evidence.pods import PodRegister
from tests.replay.strategies import record


def listed(uid: str | None, image: str = "a:1", **fields: Any) -> PodListed:  # noqa: ANN401 # any field
    spec = {"containers": [{"name": "app", "image": image}]}
    known: dict[str, Any] = {
        "namespace": "default", "pod": "web", "pod_uid": uid, "spec": spec, "status": {},
        "listed_by": "kubelet",
    }  # fmt: skip
    return PodListed(**(known | fields))


def register(*noted: tuple[int, PodListed]) -> PodRegister:
    """A settled register of lists at times; seq is 10 times the place."""
    pods = PodRegister()
    for place, (ts_ns, body) in enumerate(noted, start=1):
        pods.note(record(place * 10, body, ts_ns))
    pods.settle()
    return pods


def seq_at(pods: PodRegister, ts_ns: int, uid: str | None) -> int | None:
    found = pods.at(ts_ns, uid, "default", "web")
    return found.seq if found is not None else None


def test_the_version_that_held_then() -> None:
    """Or the earliest later one; the same object again adds nothing."""
    pods = register(
        (100, listed("u1")), (200, listed("u1")), (300, listed("u1", "a:2")),
    )  # fmt: skip
    assert [seq_at(pods, ts, "u1") for ts in (50, 100, 250, 300, 900)] == [10, 10, 10, 30, 30]
    found = pods.at(100, "u1")
    assert found is not None
    assert [version.seq for version in pods.versions(found)] == [10, 30]


def test_lists_out_of_order() -> None:
    pods = register((300, listed("u1", "a:2")), (100, listed("u1")))
    assert [seq_at(pods, ts, "u1") for ts in (100, 299, 300)] == [20, 20, 10]


def test_by_name() -> None:
    """The newest pod of the name that was listed by then, else the first."""
    pods = register((100, listed("u1")), (500, listed("u2")))
    assert [seq_at(pods, ts, None) for ts in (50, 100, 499, 500)] == [10, 10, 10, 20]
    assert pods.at(100, None, "default", "other") is None
    assert pods.at(100, "u3", "default", "web") is None


def test_of_pods_that_are_forgotten_no_name_is_left() -> None:
    pods = register((100, listed("u1")), (500, listed("u2")))
    pods.forget({"u1"})
    assert seq_at(pods, 500, None) == 20
    pods.forget({"u2"})
    assert not pods._names


def test_config_lines_that_tell_of_changes() -> None:
    pods = register((100, listed("u1")), (100, listed("u2")))
    changed = PodConfigChanged(
        namespace="default", pod="web", pod_uid="u1", operation="UPDATE", source="api"
    )
    for second in (150, 250):
        pods.note_update(record(second, changed))
    one, other = pods.at(100, "u1"), pods.at(100, "u2")
    assert one is not None
    assert other is not None
    for begin, end, count in ((140, 260, 2), (150, 200, 1), (0, 149, 0)):
        span = begin * NS_PER_S, end * NS_PER_S
        assert pods.updates(one, *span) == count
        assert pods.is_unchanged(one, *span) is (count == 0)
        assert pods.is_unchanged(other, *span)


def test_a_container_of_a_spec_by_its_name() -> None:
    """Of several specs each is assumed to be the right one."""
    spec = {"containers": [{"name": "app", "image": "a:1"}, {"name": "side", "image": "b:2"}]}
    found = register((100, listed("u1", spec=spec))).at(100, "u1")
    assert found is not None
    (read,) = versions_of((found,))
    named = [read.container(name) for name in ("app", "side", "other")]
    assert [None if each is None else each.image for each in named] == ["a:1", "b:2", None]
    assert [len(read.assumes(specs)) for specs in ((read,), (read, read))] == [0, 1]
    manifest = msgspec.structs.replace(read, is_manifest=True)
    assert manifest.pulls("app", None) == {"a:1": {None}}  # whose defaults are not known


@pytest.mark.parametrize(
    ("at_ns", "up"), [(9, []), (10, ["1"]), (19, ["1"]), (20, []), (39, ["2"]), (40, ["3"])]
)
def test_what_ran_at_a_time(at_ns: int, up: list[str]) -> None:
    """A container until it died, or until another took its place."""
    runs = [
        ContainerRun("app", "1", started_ns=10, died_ns=20),
        ContainerRun("app", "2", started_ns=30),
        ContainerRun("app", "3", started_ns=40),
    ]
    pod = PodHistory(key="u1", uid="u1", namespace="default", name="web", runs=runs)
    assert [run.container_id for run in pod.ran(at_ns)] == up


def test_whether_a_container_is_started_again() -> None:
    """Whether its own policy counts is not known."""
    for policy, own, exit_code, again in (
        ("OnFailure", None, 1, True), ("OnFailure", None, None, None),
        ("OnFailure", "Always", 1, True), ("Never", "Always", 1, None),
    ):  # fmt: skip
        spec = {"restartPolicy": policy, "containers": [{"name": "app", "restartPolicy": own}]}
        found = Restarting(register((1, listed("u1", spec=spec))).at(1, "u1"))
        assert found.again("app", exit_code) is again


def test_a_pod_is_over_with_the_last_of_its_containers_but_for_sidecars() -> None:
    for sidecar, over in ((None, True), ("Always", False)):
        inits = [{"name": "side", "restartPolicy": sidecar}]
        spec = {"containers": [{"name": "app"}], "initContainers": inits, "restartPolicy": "Never"}
        policy = Restarting(register((1, listed("u1", spec=spec))).at(1, "u1"))
        assert ran_out({"app": HistoryEntry(9, 9, "died", number=0)}, policy) is over


def test_the_list_that_first_shows_a_failure() -> None:
    """To the second, but not from before a later interval."""
    who: dict[str, Any] = {"key": "u1", "uid": "u1", "namespace": "default", "name": "web"}
    listing = Listing(by="kubelet", alive=False, is_told=True, final=True, failed=("r", "m"))
    lists = [HistoryEntry(s * NS_PER_S, s, "listed", listing=listing) for s in (9, 29, 31)]
    pod = PodHistory(**who, failures=lists)
    for since_ns, seq in ((10 * NS_PER_S, 9), (30 * NS_PER_S, 31)):
        interval = PodActiveInterval(**who, source=None, process=0, seq=1, since_ns=since_ns)
        pod.intervals.append(interval)
        assert pod.failure(interval, since_ns) == (seq, "r", "m")


def test_what_shows_no_spec_adds_nothing() -> None:
    pods = register((100, listed("u1", gone=True)), (200, listed("u2", spec=None)))
    assert seq_at(pods, 300, "u1") is None
    assert seq_at(pods, 300, None) is None


def test_a_manifest_counts_only_where_no_list_shows_the_pod() -> None:
    manifest = listed(None, "m:1", listed_by="manifest")
    assert seq_at(register((100, manifest)), 50, "u1") == 10
    assert seq_at(register((100, manifest), (200, listed("u1"))), 50, "u1") == 20


def test_status_that_changes_with_every_restart_is_no_new_version() -> None:
    status = {"qosClass": "Burstable", "containerStatuses": [{"name": "app", "restartCount": 1}]}
    again = {"qosClass": "Burstable", "containerStatuses": [{"name": "app", "restartCount": 2}]}
    grown: dict[str, Any] = {
        "qosClass": "Burstable",
        "containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}],
    }
    pods = register(
        (1, listed("u1", status=status)), (2, listed("u1", status=again)),
        (3, listed("u1", status=grown)),
    )  # fmt: skip
    found = pods.at(1, "u1")
    assert found is not None
    assert [version.seq for version in pods.versions(found)] == [10, 30]


def test_equal_objects_are_held_once() -> None:
    iterations = [listed("u1", labels={"from": source}) for source in ("api", "kubelet")] * 3
    pods = register(*enumerate(iterations))
    found = pods.at(0, "u1")
    assert found is not None
    versions = pods.versions(found)
    assert len(versions) == 6
    assert len({id(version.raw) for version in versions}) == 2
    assert versions[0].as_(Pod) is versions[2].as_(Pod)


@pytest.mark.parametrize("statuses", ["x", [5, None], {"name": "app"}, [[]], [{"name": "app"}]])
def test_odd_statuses_are_left_out(statuses: object) -> None:
    found = register((1, listed("u1", status={"containerStatuses": statuses}))).at(1, "u1")
    assert found is not None
    assert b"containerStatuses" not in found.raw


def test_typed_once() -> None:
    """The object is read once a type; a spec of wrong types says so."""
    pods = register((1, listed("u1")), (2, listed("u2", spec={"containers": 5})))
    good, bad = pods.at(9, "u1"), pods.at(9, "u2")
    assert good is not None
    assert bad is not None
    assert good.as_(Pod) is good.as_(Pod)
    assert [c.name for c in good.as_(Pod).spec.containers or ()] == ["app"]
    with pytest.raises(msgspec.ValidationError):
        bad.as_(Pod)
