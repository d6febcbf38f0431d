"""The pod-resources API over a real socket, and its answers as an import reads them."""

import json
import socket
import sys
import threading
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
from tests.waiting import PATIENCE_S

BEGIN_NS = parse_ts("2026-11-21T03:01:00Z")
ROUND_NS = 15 * NS_PER_S
NODE_1 = {"nodes": [{"ID": "1"}]}
TRAIN = {
    "name": "train",
    "namespace": "default",
    "containers": [{"name": "main",
                    "devices": [{"resourceName": "example.com/gpu", "deviceIds": ["gpu-2"],
                                 "topology": NODE_1},
                                {"resourceName": "example.com/gpu", "deviceIds": ["gpu-0"],
                                 "topology": NODE_1}], "cpuIds": ["3", "2"],
                    "memory": [{"memoryType": "memory", "size": "4294967296",
                                "topology": NODE_1}]}],
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "List": {"podResources": [TRAIN, {"name": "web", "namespace": "default"}]},
    "GetAllocatableResources": {"cpuIds": ["1", "2", "3"]},
}


def round_of(source: PodResourcesSource, now_ns: int) -> list[Observation]:
    first = list(source.poll(now_ns))
    source.wait(PATIENCE_S)
    return [*first, *source.poll(now_ns)]


def test_answers_are_documents_that_an_import_reads(tmp_path: Path, short_path: Path) -> None:
    """In protobuf's JSON, with the lists of each method even where they are empty."""
    path = short_path / "kubelet.sock"
    with serve_pod_resources(path, ANSWERS):
        given = round_of(PodResourcesSource(path), BEGIN_NS)
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


def test_only_what_changed_is_given(short_path: Path) -> None:
    path = short_path / "kubelet.sock"
    answers = dict(ANSWERS)
    with serve_pod_resources(path, answers):
        source = PodResourcesSource(path)
        assert len(round_of(source, BEGIN_NS)) == 2
        answers["List"] = {"podResources": list(reversed(ANSWERS["List"]["podResources"]))}
        assert not round_of(source, BEGIN_NS + ROUND_NS)
        answers["List"] = {"podResources": [TRAIN]}
        assert not round_of(source, BEGIN_NS + ROUND_NS + 1)
        assert len(round_of(source, BEGIN_NS + 2 * ROUND_NS)) == 1


def test_what_fails_is_a_gap(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each method for itself: silence, an error, a kubelet that is too old for it."""
    path = short_path / "kubelet.sock"
    answers: dict[str, Any] = {"List": SILENCE}

    def impatient(method: str) -> bytes:
        is_silent = answers.get(method) is SILENCE
        return PodResourcesSource(path, silence_s=0.1 if is_silent else PATIENCE_S)._called(method)

    with serve_pod_resources(path, answers):
        source = PodResourcesSource(path)
        monkeypatch.setattr(source, "_called", impatient)
        given = round_of(source, BEGIN_NS)
        assert [(each.stream, each.reason) for each in given if isinstance(each, Gap)] == [
            ("pod-resources List", "no answer in time"),
            ("pod-resources GetAllocatableResources", "this kubelet does not answer it"),
        ]
        assert not round_of(source, BEGIN_NS + ROUND_NS)
    answers = {**ANSWERS, "List": grpc.StatusCode.INTERNAL}
    with serve_pod_resources(path, answers):
        over, _ = round_of(source, BEGIN_NS + 2 * ROUND_NS)
        assert isinstance(over, Gap)
        assert over.until_ns is not None
        (gap, *_) = round_of(PodResourcesSource(path), BEGIN_NS)
        assert isinstance(gap, Gap)
        assert gap.reason == "Internal: no such thing"


def test_no_socket(short_path: Path) -> None:
    """A kubelet that is not running: a gap, which does not hold up anything."""
    given = round_of(PodResourcesSource(short_path / "kubelet.sock"), BEGIN_NS)
    reasons = [each.reason for each in given if isinstance(each, Gap)]
    assert len(reasons) == 2
    assert all(reason.endswith("kubelet.sock: No such file or directory") for reason in reasons)


def test_without_the_extra(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    with pytest.raises(BadQuestionError) as raised:
        PodResourcesSource(short_path / "kubelet.sock")
    assert raised.value.advice == "pip install 'kubeledger[record]'"


def test_an_answer_of_many_frames(short_path: Path) -> None:
    """More than a window of HTTP/2 holds: room is given back as it comes."""
    path = short_path / "kubelet.sock"
    pods = [{**TRAIN, "name": f"{index:04}" + "x" * 200} for index in range(1000)]
    with serve_pod_resources(path, {"List": {"podResources": pods}}):
        (document, _) = round_of(PodResourcesSource(path), BEGIN_NS)
    assert isinstance(document, Document)
    assert len(json.loads(document.data)["podResources"]) == 1000


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "Unavailable: error reading server preface: EOF"),
        (bytes(9), "Unavailable: error reading server preface: "),
    ],
)
def test_another_program_at_the_socket(short_path: Path, said: bytes, reason: str) -> None:
    path = short_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(said)

        server = threading.Thread(target=answer)
        server.start()
        given = round_of(PodResourcesSource(path), BEGIN_NS)
        server.join()
    assert all(isinstance(each, Gap) and each.reason.startswith(reason) for each in given)
    assert len(given) == 2
