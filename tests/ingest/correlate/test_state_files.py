"""State files of claims and of what is allocated: recorded when they change, by their names."""

import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.state_files import ClaimsAssembler, PodsStateAssembler
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.items import DraManagerState, Fact, Item, PodsState
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.cgroups import PodsStateRead
from kubeledger.model.bodies.devicemanager import ClaimPrepared, ClaimReleased, DraManagerStateRead
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S
from tests.ingest.feeding import bodies, feed
from tests.ingest.node_files import snapshot_time
from tests.ingest.planning.test_bundle import write
from tests.kubelet.allocation.test_allocation import ONE_CPU
from tests.kubelet.allocation.test_allocation import packed as pods_file
from tests.kubelet.dra.test_dra import CLAIM, packed

AT = Evidence(file="bundle/dra_manager_state")


def claims(*files: dict[str, Any]) -> list[Fact]:
    """What follows from files, a minute apart, on a node that knows pod ``p`` with UID ``a``."""
    known = BundleContext(node="n")
    known.learn_uid("ns", "p", "a", 0, AT)
    stream: list[Item] = [
        DraManagerState(n * 60 * NS_PER_S, data, AT) for n, data in enumerate(files)
    ]
    return feed(ClaimsAssembler(Registers(known)), stream)


def held(*uids: str, devices: bool = True, **more: object) -> dict[str, Any]:
    """A file with one claim of some pods."""
    prepared = {"PoolName": "n", "DeviceName": "d"}
    drivers = {"gpu": {"Devices": [prepared] if devices else None}}
    return packed(CLAIM | {"PodUIDs": {u: {} for u in uids}, "DriverState": drivers}, **more)


def test_claims_are_prepared_and_given_back() -> None:
    """A shared one is unprepared with its last pod; one that is not prepared is held by nobody."""
    facts = claims(held("a", devices=False), held("a"), held("a", "b"), held("b"), packed())
    assert len(bodies(facts, DraManagerStateRead)) == 5
    given = bodies(facts, ClaimPrepared)
    assert [(body.pod, body.pod_uid) for body in given] == [("p", "a"), (None, "b")]
    assert {body.told_by for body in given} == {"state_file"}
    back = bodies(facts, ClaimReleased)
    assert [(body.pod_uid, body.unprepared) for body in back] == [("a", False), ("b", True)]


def test_devices_that_are_prepared_again_are_told_again() -> None:
    once = json.loads(held("a")["Data"])
    (claim,) = once["ClaimInfoStateList"]
    claim["DriverState"]["gpu"]["Devices"] *= 2
    facts = claims(held("a"), packed(claim))
    assert [len(b.drivers["gpu"]) for b in bodies(facts, ClaimPrepared)] == [1, 2]


def test_a_file_that_does_not_fit_its_checksum_gives_nothing() -> None:
    facts = claims(held("a", Checksum=3), {"Data": "{", "Checksum": 1})
    assert bodies(facts, ClaimPrepared) == []
    found = [body.finding for body in bodies(facts, FindingReported)]
    assert found == ["checksum_mismatch", "malformed_checkpoint"]


def test_allocated_and_actuated_are_told_apart_by_name() -> None:
    """Both are recorded when they change, each by itself."""
    one = pods_file({"entries": {"u": {"ContainerResources": {"c": ONE_CPU}}}})
    none = pods_file({})
    names = ("allocated_pods_state", "actuated_pods_state", "pod_status_manager_state")
    stream: list[Item] = [
        PodsState(n, data, Evidence(file=f"x/{name}"))
        for n, (name, data) in enumerate(
            [(names[0], one), (names[1], none), (names[0], one), (names[1], one), (names[2], none)]
        )
    ]
    read = bodies(
        feed(PodsStateAssembler(Registers(BundleContext(node="n"))), stream), PodsStateRead
    )
    assert [(body.which, len(body.pods)) for body in read] == [
        ("allocated", 1),
        ("actuated", 0),
        ("actuated", 1),
        ("allocated", 0),
    ]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("allocated_pods_state", pods_file({}), PodsStateRead),
        ("pod_status_manager_state", {"allocationEntries": {}, "checksum": 1}, PodsStateRead),
        ("dra_manager_state", held("a"), DraManagerStateRead),
        ("dra_manager_state", {"version": "v1", "checksum": 1}, DraManagerStateRead),
    ],
)
def test_they_are_known_by_their_content(
    tmp_path: Path, name: str, data: dict[str, Any], kind: type[Any]
) -> None:
    """In every form; the device manager's checkpoint has the same keys as one of them."""
    write(tmp_path / "n" / snapshot_time(15) / name, json.dumps(data))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(tmp_path / "n")], ledger, ImportOptions(node="n"))
    assert kind.kind in {record.kind for record in ledger.records("n")}
