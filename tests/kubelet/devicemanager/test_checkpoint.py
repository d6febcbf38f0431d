"""Checkpoints of both kubelets, of old forms, and broken ones."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.kubelet.devicemanager.checkpoint import read_checkpoint
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.kubelet.kube.gotypes import fnv1a32

DATA = Path(__file__).parents[2] / "data" / "devices"
RECORDED = sorted(DATA.glob("*.checkpoint.json"))


def recorded() -> dict[str, Any]:
    """A checkpoint of 1.36.2 with four entries."""
    loaded = json.loads((DATA / "v1.36.2.20261121T030720Z.checkpoint.json").read_text())
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_checkpoints_verify(path: Path) -> None:
    assert read_checkpoint(json.loads(path.read_text())).checksum_ok is True


def test_there_are_recorded_checkpoints_of_both_versions() -> None:
    assert {path.name[:7] for path in RECORDED} == {"v1.20.2", "v1.36.2"}


def _reorder(data: dict[str, Any]) -> None:
    data["RegisteredDevices"]["example.com/gpu"].reverse()


def _rename(data: dict[str, Any]) -> None:
    data["PodDeviceEntries"][0]["ContainerName"] = "other"


def _move(data: dict[str, Any]) -> None:
    ids = data["PodDeviceEntries"][0]["DeviceIDs"]
    ids["1"] = ids.pop("0")


def _cut(data: dict[str, Any]) -> None:
    data["PodDeviceEntries"].pop()


def _reply(data: dict[str, Any]) -> None:
    data["PodDeviceEntries"][0]["AllocResp"] = base64.b64encode(b"other").decode()


@pytest.mark.parametrize("change", [_reorder, _rename, _move, _cut, _reply])
def test_any_change_breaks_the_checksum(change: Any) -> None:  # noqa: ANN401 - a function
    """Every part of the content counts, the order of lists included."""
    data = recorded()
    change(data["Data"])
    assert read_checkpoint(data).checksum_ok is False


def _checkpoint(text: str, entries: Any, registered: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    data = {"PodDeviceEntries": entries, "RegisteredDevices": registered}
    return {"Data": data, "Checksum": fnv1a32(f"(checkpoint.checkpointData){text}")}


def test_null_and_empty_are_told_apart() -> None:
    """A nil list is hashed as ``<nil>``, an empty one as ``[]``."""
    nothing = _checkpoint(
        "{PodDeviceEntries:([]checkpoint.PodDevicesEntry)<nil> "
        "RegisteredDevices:(map[string][]string)map[a:[] b:<nil>]}",
        None,
        {"b": None, "a": []},
    )
    body = read_checkpoint(nothing)
    assert (body.checksum_ok, body.entries, body.registered) == (True, (), {"a": (), "b": ()})
    nothing["Data"]["PodDeviceEntries"] = []
    assert read_checkpoint(nothing).checksum_ok is False


def test_numa_nodes_are_hashed_as_numbers() -> None:
    """-1 comes before 2 before 10."""
    entry = {
        "PodUID": "u",
        "ContainerName": "c",
        "ResourceName": "r",
        "DeviceIDs": {"10": ["c"], "2": ["b"], "-1": ["a"]},
        "AllocResp": "CgE=",
    }
    text = (
        "{PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)u "
        "ContainerName:(string)c ResourceName:(string)r "
        "DeviceIDs:(checkpoint.DevicesPerNUMA)map[-1:[a] 2:[b] 10:[c]] "
        "AllocResp:([]uint8)[10 1]}] RegisteredDevices:(map[string][]string)map[]}"
    )
    body = read_checkpoint(_checkpoint(text, [entry], {}))
    assert body.checksum_ok is True
    assert list(body.entries[0].numa) == ["-1", "2", "10"]


def test_the_flat_form_of_old_kubelets() -> None:
    """Up to 1.19 an entry is a plain list; its record has no node."""
    entry = {
        "PodUID": "u",
        "ContainerName": "c",
        "ResourceName": "r",
        "DeviceIDs": ["b", "a"],
        "AllocResp": None,
    }
    text = (
        "{PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)u "
        "ContainerName:(string)c ResourceName:(string)r DeviceIDs:([]string)[b a] "
        "AllocResp:([]uint8)<nil>}] RegisteredDevices:(map[string][]string)map[r:[b a]]}"
    )
    body = read_checkpoint(_checkpoint(text, [entry], {"r": ["b", "a"]}))
    assert body.checksum_ok is True
    assert body.entries[0].numa == {"": ("a", "b")}
    assert body.registered == {"r": ("a", "b")}


def _without(path: str) -> dict[str, Any]:
    data = recorded()
    *parents, last = path.split(".")
    place: Any = data
    for part in parents:
        place = place[int(part) if part.isdigit() else part]
    place[last] = 7
    return data


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"Data": {}, "Checksum": "1"},
        {"Data": {}, "Checksum": -1},
        {"Data": {}, "Checksum": True},
        _without("Data"),
        _without("Data.PodDeviceEntries"),
        _without("Data.RegisteredDevices"),
        _without("Data.PodDeviceEntries.0.PodUID"),
        _without("Data.PodDeviceEntries.0.DeviceIDs"),
        _without("Data.PodDeviceEntries.0.AllocResp"),
        _without("Data.RegisteredDevices.x"),
    ],
)
def test_what_no_kubelet_wrote_is_malformed(data: object) -> None:
    """Missing parts and wrong types have one error, whatever the place."""
    with pytest.raises(MalformedCheckpointError):
        read_checkpoint(data)


@pytest.mark.parametrize(("field", "value"), [("DeviceIDs", {"x": []}), ("AllocResp", "%%%")])
def test_parts_that_cannot_be_decoded_are_malformed(field: str, value: object) -> None:
    """A NUMA node that is not a number, bytes that are no base64."""
    data = recorded()
    data["Data"]["PodDeviceEntries"][0][field] = value
    with pytest.raises(MalformedCheckpointError):
        read_checkpoint(data)
