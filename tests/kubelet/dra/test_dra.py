"""Claims in the state files of all versions, and broken files."""

import json
from typing import Any
from zlib import crc32

import pytest

from kubeledger.kubelet.dra.claiminfo import read_dra_manager_state
from kubeledger.kubelet.dra.reducer import HANDLERS, DraManagerState
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.model.bodies.devicemanager import ClaimDevice, ClaimPrepared, ClaimReleased
from kubeledger.model.record import Body
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

DEVICE = {
    "PoolName": "n",
    "DeviceName": "d",
    "ShareID": None,
    "RequestNames": ["r"],
    "CDIDeviceIDs": None,
}
CLAIM = {
    "ClaimUID": "cu",
    "ClaimName": "c",
    "Namespace": "ns",
    "PodUIDs": {"b": {}, "a": {}},
    "DriverState": {"gpu.example.com": {"Devices": [DEVICE]}, "net": {"Devices": None}},
}
OLD = {
    "DriverName": "gpu.example.com",
    "ClassName": "gpu",
    "ClaimUID": "cu",
    "ClaimName": "c",
    "Namespace": "ns",
    "PodUIDs": {"a": {}},
    "CDIDevices": {"plugin": ["gpu.example.com/gpu=0"]},
}


def packed(*claims: object, **more: object) -> dict[str, Any]:
    """A file since 1.31."""
    content = {"kind": "DRACheckpoint", "ClaimInfoStateList": list(claims)}
    text = json.dumps(content)
    return {"Data": text, "Checksum": crc32(text.encode())} | more


def test_a_file_since_1_31() -> None:
    """Pods are sorted, devices stand under their drivers."""
    body = read_dra_manager_state(packed(CLAIM, CLAIM | {"ClaimName": "b"}))
    assert body.checksum_ok is True
    assert [claim.name for claim in body.claims] == ["b", "c"]
    assert body.claims[1].pod_uids == ("a", "b")
    device = ClaimDevice(pool="n", device="d", requests=("r",))
    assert body.claims[1].drivers == {"gpu.example.com": (device,), "net": ()}


def test_a_file_up_to_1_30() -> None:
    """Only what the runtime is told; the checksum is not computed."""
    data = {"version": "v1", "entries": [OLD, OLD | {"CDIDevices": None}], "checksum": 5}
    body = read_dra_manager_state(data)
    assert body.checksum_ok is None
    told = ClaimDevice(cdi_device_ids=("gpu.example.com/gpu=0",))
    assert [claim.drivers for claim in body.claims] == [
        {"plugin": (told,)},
        {"gpu.example.com": ()},
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (3, "the state is not a JSON object"),
        ({"Data": "[", "Checksum": 1}, "Data is not JSON"),
        (packed(Checksum="1"), "the checksum is not"),
        (packed(CLAIM | {"ClaimUID": None}), "ClaimUID is not a string"),
        (packed(CLAIM | {"DriverState": {"d": {"Devices": {}}}}), "Devices is not a list"),
        (packed(CLAIM | {"PodUIDs": ["a"]}), "PodUIDs is not a JSON object"),
        ({"entries": {}, "checksum": 1}, "entries is not a list"),
    ],
)
def test_a_broken_file_is_named(data: object, problem: str) -> None:
    with pytest.raises(MalformedCheckpointError, match=problem):
        read_dra_manager_state(data)


# -- Claims of pods: prepared, and let go ----------------------------------------------------------

evolve = evolver(HANDLERS)


def prepared(uid: str) -> ClaimPrepared:
    return ClaimPrepared(
        namespace="ns", pod="p", pod_uid="u", claim=uid, claim_uid=uid, drivers={"d": ()}
    )


def released(uid: str) -> ClaimReleased:
    return ClaimReleased(
        namespace="ns", pod="p", pod_uid="u", claim=uid, claim_uid=uid, unprepared=True
    )


def after(*bodies: Body) -> DraManagerState:
    state = DraManagerState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def test_a_pod_is_known_while_it_holds_a_claim() -> None:
    """The last one takes it along; one that nobody holds takes none."""
    assert set(after(prepared("a"), prepared("b"), released("a")).pods["u"]) == {"b"}
    assert after(prepared("a"), released("a")).pods == {}
    assert set(after(prepared("a"), released("b")).pods["u"]) == {"a"}
    assert after(released("a")).pods == {}
