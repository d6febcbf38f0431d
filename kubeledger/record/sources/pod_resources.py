"""Devices, CPUs and memory of containers, from the kubelet's pod-resources API (v1).

It is asked over its socket every 15 seconds; needs the extra ``record``. The kubelet gives back
the devices of pods that are gone when it is asked, as it does before each allocation.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kubeledger.model.errors import BadQuestionError, reason_of
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.grpc_call import GRPCStatusError, UnaryCall, decode, messages_of
from kubeledger.record.sources.state_files import BackgroundSource, Outage, Unchanged, snapshot

_SERVICE = "v1.PodResourcesLister"
_SILENCE_S = 5
_READ_BYTES = 64 << 10
_SHOWN = 200

_MESSAGES = messages_of("""
ListPodResourcesResponse      1 podResources PodResources*
AllocatableResourcesResponse  1 devices ContainerDevices*, 2 cpuIds int*, 3 memory ContainerMemory*
PodResources                  1 name string, 2 namespace string, 3 containers ContainerResources*
ContainerResources            1 name string, 2 devices ContainerDevices*, 3 cpuIds int*,\
                              4 memory ContainerMemory*, 5 dynamicResources DynamicResource*
ContainerMemory               1 memoryType string, 2 size int, 3 topology TopologyInfo
ContainerDevices              1 resourceName string, 2 deviceIds string*, 3 topology TopologyInfo
TopologyInfo                  1 nodes NUMANode*
NUMANode                      1 ID int
DynamicResource               2 claimName string, 3 claimNamespace string,\
                              4 claimResources ClaimResource*
ClaimResource                 1 cdiDevices CDIDevice*, 2 driverName string, 3 poolName string,\
                              4 deviceName string
CDIDevice                     1 name string
""")
"""As of 1.36; fields of later versions are left out."""


class _Method(NamedTuple):
    """A method of the API, the message that it answers, and what the document is called."""

    name: str
    response: str
    document: str


_METHODS = (
    _Method("List", "ListPodResourcesResponse", "pod-resources.json"),
    _Method(
        "GetAllocatableResources", "AllocatableResourcesResponse", "pod-resources-allocatable.json"
    ),
)


class _NoAnswerError(Exception):
    """The text says why."""


class PodResourcesSource(BackgroundSource):
    """The API behind one socket.

    Args:
        path: ``pod-resources/kubelet.sock`` below the kubelet's directory.
        silence_s: how long an answer may take.

    Raises:
        BadQuestionError: the extra is not installed.
    """

    name = "pod-resources"

    def __init__(self, path: Path, *, silence_s: float = _SILENCE_S) -> None:
        try:
            import h2  # noqa: F401
        except ImportError:
            raise BadQuestionError(
                "the pod-resources API is spoken over HTTP/2, for which h2 is not installed",
                advice="pip install 'kubeledger[record]'",
            ) from None
        super().__init__()
        self._socket = path
        self._silence_s = silence_s
        self._unchanged = Unchanged()
        self._outages = {each: Outage(f"{self.name} {each.name}") for each in _METHODS}

    def _round(self, clock: Callable[[], int]) -> Iterator[Document | Gap]:
        for method in _METHODS:
            ts_ns, outage = clock(), self._outages[method]
            try:
                data = self._answered(method)
            except _NoAnswerError as error:
                yield from outage.failed(str(error))
                continue
            yield from outage.worked(ts_ns)
            if self._unchanged.is_new(method.name, data):
                yield snapshot(method.document, "pod-resources", data, ts_ns)

    def _answered(self, method: _Method) -> bytes:
        """A method's answer as JSON."""
        try:
            return _json(decode(_MESSAGES, method.response, self._called(method.name)))
        except GRPCStatusError as error:
            is_old = error.code == "Unimplemented"
            shown = " ".join(str(error).split())[:_SHOWN]
            why = "this kubelet does not answer it" if is_old else shown
        except TimeoutError:
            why = "no answer in time"
        except OSError as error:
            why = f"no connection to {self._socket}: {reason_of(error)}"
        except ValueError as error:
            why = f"the answer is no {method.response}: {error}"
        raise _NoAnswerError(why)

    def _called(self, method: str) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            stream = _TimedStream(connected, self._silence_s)
            connected.connect(str(self._socket))
            return UnaryCall(stream).made("localhost", f"/{_SERVICE}/{method}", b"")


class _TimedStream:
    """A socket with one timeout for all that is done with it."""

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        self._socket = connected
        self._end_s = time.monotonic() + timeout_s
        connected.settimeout(timeout_s)

    def send(self, data: bytes) -> None:
        self._limit()
        self._socket.sendall(data)

    def receive(self) -> bytes:
        self._limit()
        return self._socket.recv(_READ_BYTES)

    def _limit(self) -> None:
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)


def _json(answer: dict[str, Any]) -> bytes:
    """What the kubelet gives in any order is sorted."""
    return json.dumps(_sorted(answer), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _sorted(value: Any) -> Any:  # noqa: ANN401 # any JSON
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
