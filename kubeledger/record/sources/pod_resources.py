"""Devices, CPUs and memory of containers, from the kubelet's pod-resources API (v1).

It is asked over its socket every 15 seconds; needs the extra ``record``. The kubelet gives back
the devices of pods that are gone when it is asked, as it does before each allocation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kubeledger.model.errors import BadQuestionError
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.background import Background
from kubeledger.record.sources.snapshots import (
    CONTENT_BYTES_MAX,
    READ_NS,
    Every,
    Outage,
    Unchanged,
    snapshot,
)

__all__ = ["PodResourcesSource"]

_SILENCE_S = 5


class _Method(NamedTuple):
    """A method of the API, and what its answer is called."""

    name: str
    request: str
    response: str
    document: str


_METHODS = (
    _Method("List", "ListPodResourcesRequest", "ListPodResourcesResponse", "pod-resources.json"),
    _Method(
        "GetAllocatableResources",
        "AllocatableResourcesRequest",
        "AllocatableResourcesResponse",
        "pod-resources-allocatable.json",
    ),
)


class _Answer(NamedTuple):
    """What came of one call: its JSON, or why there is none."""

    method: _Method
    ts_ns: int
    data: bytes = b""
    error: str = ""


class PodResourcesSource:
    """The API behind one socket.

    Args:
        socket: ``pod-resources/kubelet.sock`` below the kubelet's directory.
        silence_s: how long an answer may take.

    Raises:
        BadQuestionError: the extra is not installed.
    """

    name = "pod-resources"

    def __init__(self, socket: Path, *, silence_s: float = _SILENCE_S) -> None:
        try:
            import google.protobuf  # noqa: F401
            import grpc  # noqa: F401
        except ImportError:
            raise BadQuestionError(
                "the pod-resources API is spoken by gRPC, which is not installed",
                advice="pip install 'kubeledger[record]'",
            ) from None
        self._socket = socket
        self._silence_s = silence_s
        self._rounds = Every(READ_NS)
        self._work: Background[_Answer] = Background(self.name)
        self._unchanged = Unchanged()
        self._outages = {each: Outage(f"{self.name} {each.name}") for each in _METHODS}

    def poll(self, now_ns: int) -> Iterable[Document | Gap]:
        """What has been answered; a round begins when one is due and the last one has ended."""
        if not self._work.is_busy and self._rounds.due(now_ns):
            self._work.start(self._round(now_ns))
        for answer in self._work.results():
            outage = self._outages[answer.method]
            if answer.error:
                yield from outage.failed(answer.error)
                continue
            yield from outage.worked(answer.ts_ns)
            if self._unchanged.is_new(answer.method.name, answer.data):
                yield snapshot(answer.method.document, "pod-resources", answer.data, answer.ts_ns)

    def fileno(self) -> None:
        """Polled each tick."""

    def close(self) -> None:
        """A round that is under way ends by itself."""

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of the round, but not longer; then all its answers can be polled."""
        self._work.wait(timeout_s)

    def _round(self, now_ns: int) -> Iterator[_Answer]:
        """Both calls over one connection; in the thread."""
        import grpc

        begin = time.monotonic_ns()
        options = (("grpc.max_receive_message_length", CONTENT_BYTES_MAX),)
        with grpc.insecure_channel(f"unix:{self._socket}", options=options) as channel:
            for method in _METHODS:
                ts_ns = now_ns + time.monotonic_ns() - begin
                try:
                    data = _call(channel, method, self._silence_s)
                    yield _Answer(method, ts_ns, data)
                except grpc.RpcError as error:
                    yield _Answer(method, ts_ns, error=_why(error))


def _call(channel: Any, method: _Method, silence_s: float) -> bytes:  # noqa: ANN401 # no types
    from kubeledger.record.sources.pod_resources_proto import SERVICE, message_type

    request, response = message_type(method.request), message_type(method.response)
    call = channel.unary_unary(
        f"/{SERVICE}/{method.name}",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    return _json(call(request(), timeout=silence_s))


def _json(message: Any) -> bytes:  # noqa: ANN401 # of a class that protobuf makes
    """The answer in protobuf's JSON; what the kubelet gives in any order is sorted."""
    from google.protobuf.json_format import MessageToDict

    answer = MessageToDict(message, always_print_fields_with_no_presence=True)
    return json.dumps(_sorted(answer), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _sorted(value: Any) -> Any:  # noqa: ANN401 # any JSON
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _why(error: Any) -> str:  # noqa: ANN401 # grpc has no types of its own
    code = error.code().name
    if code == "DEADLINE_EXCEEDED":
        return "no answer in time"
    if code == "UNIMPLEMENTED":
        return "this kubelet does not answer it"
    return f"{code}: {' '.join(error.details().split())[:200]}"
