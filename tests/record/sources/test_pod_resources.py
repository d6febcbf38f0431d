"""The pod-resources API over a real socket, and its answers as an import reads them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from kubeledger.ingest.sources.detect import detect
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.record.observations import Document, Gap, Observation
from kubeledger.record.sources.pod_resources import PodResourcesSource
from tests.record.standin import SILENCE, serve_pod_resources

BEGIN_NS = parse_ts("2026-11-21T03:01:00Z")
ROUND_NS = 15 * NS_PER_S
NODE_1 = {"nodes": [{"ID": "1"}]}
TRAIN = {
    "name": "train",
    "namespace": "default",
    "containers": [
        {
            "name": "main",
            "devices": [
                {"resourceName": "example.com/gpu", "deviceIds": ["gpu-2"], "topology": NODE_1},
                {"resourceName": "example.com/gpu", "deviceIds": ["gpu-0"], "topology": NODE_1},
            ],
            "cpuIds": ["3", "2"],
            "memory": [{"memoryType": "memory", "size": "4294967296", "topology": NODE_1}],
        }
    ],
}
ANSWERS: dict[str, Any] = {
    "List": {"podResources": [TRAIN, {"name": "web", "namespace": "default"}]},
    "GetAllocatableResources": {"cpuIds": ["1", "2", "3"]},
}


def round_of(source: PodResourcesSource, now_ns: int) -> list[Observation]:
    """All that one round gives."""
    first = list(source.poll(now_ns))
    source.wait(20)
    return [*first, *source.poll(now_ns)]


def test_answers_are_documents_that_an_import_reads(tmp_path: Path) -> None:
    """In protobuf's JSON, with the lists of each method even where they are empty."""
    socket = tmp_path / "kubelet.sock"
    with serve_pod_resources(socket, ANSWERS):
        given = round_of(PodResourcesSource(socket), BEGIN_NS)
    assert len(given) == 2
    for document in given:
        assert isinstance(document, Document)
        file = tmp_path / document.name.replace("/", "-")
        file.write_bytes(document.data)
        assert detect(SourceFile(document.name, file)).format == document.format
    listed, allocatable = (json.loads(each.data) for each in given if isinstance(each, Document))
    pods = {pod["name"]: pod["containers"] for pod in listed["podResources"]}
    assert pods.keys() == {"train", "web"}
    (main,) = pods["train"]
    assert [each["deviceIds"] for each in main["devices"]] == [["gpu-0"], ["gpu-2"]]
    assert main["cpuIds"] == ["2", "3"]
    assert allocatable == {"devices": [], "cpuIds": ["1", "2", "3"], "memory": []}


def test_only_what_changed_is_given(tmp_path: Path) -> None:
    """The order in which the kubelet tells it is none."""
    socket = tmp_path / "kubelet.sock"
    answers = dict(ANSWERS)
    with serve_pod_resources(socket, answers):
        source = PodResourcesSource(socket)
        assert len(round_of(source, BEGIN_NS)) == 2
        answers["List"] = {"podResources": list(reversed(ANSWERS["List"]["podResources"]))}
        assert not round_of(source, BEGIN_NS + ROUND_NS)
        answers["List"] = {"podResources": [TRAIN]}
        assert not round_of(source, BEGIN_NS + ROUND_NS + 1)
        assert len(round_of(source, BEGIN_NS + 2 * ROUND_NS)) == 1


def test_what_fails_is_a_gap(tmp_path: Path) -> None:
    """Each method for itself: silence, an error, a kubelet that is too old for it."""
    socket = tmp_path / "kubelet.sock"
    answers = {"List": SILENCE}
    with serve_pod_resources(socket, answers):
        source = PodResourcesSource(socket, silence_s=0.3)
        given = round_of(source, BEGIN_NS)
        assert [(each.stream, each.reason) for each in given if isinstance(each, Gap)] == [
            ("pod-resources List", "no answer in time"),
            ("pod-resources GetAllocatableResources", "this kubelet does not answer it"),
        ]
        assert not round_of(source, BEGIN_NS + ROUND_NS)
    with serve_pod_resources(socket, {**ANSWERS, "List": grpc.StatusCode.INTERNAL}):
        over, _ = round_of(source, BEGIN_NS + 2 * ROUND_NS)
        assert isinstance(over, Gap)
        assert over.until_ns is not None
        (gap, *_) = round_of(PodResourcesSource(socket), BEGIN_NS)
        assert isinstance(gap, Gap)
        assert gap.reason == "INTERNAL: no such thing"


def test_no_socket(tmp_path: Path) -> None:
    """A kubelet that is not running: a gap, which does not hold up anything."""
    given = round_of(PodResourcesSource(tmp_path / "kubelet.sock"), BEGIN_NS)
    reasons = [each.reason for each in given if isinstance(each, Gap)]
    assert len(reasons) == 2
    assert all(reason.startswith("UNAVAILABLE: ") for reason in reasons)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(BadQuestionError) as raised:
        PodResourcesSource(tmp_path / "kubelet.sock")
    assert raised.value.advice == "pip install 'kubeledger[record]'"
