"""What the kubelet answers over HTTPS, every 15 seconds.

A round asks for all of them over one connection, in a thread of its own. ``/configz`` is asked for
as the recorder starts, and whenever the kubelet's process is another or it was away. An endpoint
that fails is asked again in the next round, not before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.background import Background
from kubeledger.record.sources.kubelet_client import KubeletClient, RefusedError, UnreachableError
from kubeledger.record.sources.snapshots import READ_NS, Every, Outage, Unchanged, snapshot

__all__ = ["KubeletEndpoints"]

_STARTED = re.compile(rb"^process_start_time_seconds (\S+)", re.MULTILINE)
_KEPT = (
    *("kubelet_active_pods", "kubelet_admission_rejections_total", "kubelet_container_aligned_"),
    *("kubelet_cpu_manager_", "kubelet_desired_pods", "kubelet_device_plugin_registration_total"),
    *("kubelet_evictions", "kubelet_image_garbage_collected_total", "kubelet_image_manager_"),
    *("kubelet_memory_manager_", "kubelet_mirror_pods", "kubelet_node_name"),
    *("kubelet_orphan", "kubelet_pleg_discard_events", "kubelet_preemptions"),
    *("kubelet_restarted_pods_total", "kubelet_running_containers", "kubelet_running_pods"),
    *("kubelet_started_", "kubelet_terminated_pods", "kubelet_topology_manager_"),
    *("kubelet_working_pods", "kubernetes_build_info", "kubernetes_feature_enabled"),
    "process_start_time_seconds",
)
"""What of ``/metrics`` shows a decision; the rest, mostly histograms of durations, is 500 KB."""
_HISTOGRAM = re.compile(rb"_(?:bucket|sum|count)[{ ]")


class _Endpoint(NamedTuple):
    """Where, and as what it is kept.

    Attributes:
        content: of an answer, what is kept, and what must change for it to be given again.

    Raises (``content``):
        ValueError: the answer is not whole.
    """

    path: str
    name: str
    format: str
    content: Callable[[bytes], tuple[bytes, bytes | tuple[bytes, ...]]]


class _Answer(NamedTuple):
    """What came of one question; ``error`` instead of ``data`` when nothing did."""

    endpoint: _Endpoint
    ts_ns: int
    data: bytes = b""
    error: RefusedError | UnreachableError | None = None


class KubeletEndpoints:
    """Pods, statistics, probe counters, metrics and configuration that one kubelet serves."""

    name = "kubelet endpoints"

    def __init__(self, client: KubeletClient) -> None:
        self._client = client
        self._rounds = Every(READ_NS)
        self._work: Background[_Answer] = Background(self.name)
        self._unchanged = Unchanged()
        self._kubelet = Outage(self.name)
        self._outages = {each: Outage(f"kubelet {each.path}") for each in (*_ENDPOINTS, _CONFIGZ)}
        self._started: bytes | None = None
        self._config_is_known = False

    def poll(self, now_ns: int) -> Iterable[Document | Gap]:
        """What has been answered; a round begins when one is due and the last one has ended."""
        if not self._work.is_busy and self._rounds.due(now_ns):
            self._work.start(self._round(now_ns))
        for answer in self._work.results():
            yield from self._take(answer)

    def close(self) -> None:
        """End the connection, and with it the round."""
        self._client.close()

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of the round, but not longer; then all its answers can be polled."""
        self._work.wait(timeout_s)

    def _round(self, now_ns: int) -> Iterator[_Answer]:
        """Ask one endpoint after the other; in the thread."""
        begin = time.monotonic_ns()
        try:
            for endpoint in _ENDPOINTS:
                answer = self._ask(endpoint, now_ns + time.monotonic_ns() - begin)
                yield answer
                if isinstance(answer.error, UnreachableError):
                    self._config_is_known = False
                    return
                self._notice_restart(answer.data)
            if not self._config_is_known:
                answer = self._ask(_CONFIGZ, now_ns + time.monotonic_ns() - begin)
                yield answer
                self._config_is_known = answer.error is None
        finally:
            self._client.close()

    def _ask(self, endpoint: _Endpoint, ts_ns: int) -> _Answer:
        """The answer, dated when the question was asked: what it shows may be younger."""
        try:
            return _Answer(endpoint, ts_ns, self._client.get(endpoint.path))
        except (RefusedError, UnreachableError) as error:
            return _Answer(endpoint, ts_ns, error=error)

    def _notice_restart(self, data: bytes) -> None:
        match = _STARTED.search(data)
        if match is not None and match[1] != self._started:
            self._started, self._config_is_known = match[1], False

    def _take(self, answer: _Answer) -> Iterator[Document | Gap]:
        if isinstance(answer.error, UnreachableError):
            yield from self._kubelet.failed(str(answer.error))
            return
        yield from self._kubelet.worked(answer.ts_ns)
        endpoint, outage = answer.endpoint, self._outages[answer.endpoint]
        if answer.error is not None:
            yield from outage.failed(str(answer.error))
            return
        try:
            data, essence = endpoint.content(answer.data)
        except ValueError as error:
            yield from outage.failed(f"the answer is not whole: {error}")
            return
        yield from outage.worked(answer.ts_ns)
        # A configuration is what a process runs with: another process, another observation.
        is_new = endpoint is _CONFIGZ or self._unchanged.is_new(endpoint.name, essence)
        if data and is_new:  # a kubelet without probes has no counters
            yield snapshot(endpoint.name, endpoint.format, data, answer.ts_ns)


class _PodList(msgspec.Struct):
    items: list[msgspec.Raw] | None


def _pods(data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """A list of pods, which the kubelet gives in another order each time."""
    items = msgspec.json.decode(data, type=_PodList).items or ()
    return data, tuple(sorted(bytes(item) for item in items))


def _object(data: bytes) -> tuple[bytes, bytes]:
    msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    return data, data


def _whole_lines(data: bytes) -> tuple[bytes, bytes]:
    if data and not data.endswith(b"\n"):
        raise ValueError("its last line has no end")
    return data, data


def _telling_metrics(data: bytes) -> tuple[bytes, bytes]:
    """The metrics that report decisions, with their types."""
    data, _ = _whole_lines(data)
    heads = tuple(
        f"{comment}{name}".encode() for name in _KEPT for comment in ("", "# HELP ", "# TYPE ")
    )
    lines = [
        line
        for line in data.splitlines(keepends=True)
        if line.startswith(heads) and _HISTOGRAM.search(line) is None
    ]
    kept = b"".join(lines)
    return kept, kept


_ENDPOINTS = (
    _Endpoint("/metrics/probes", "metrics-probes.txt", "metrics", _whole_lines),
    _Endpoint("/pods", "pods.json", "pod-list", _pods),
    _Endpoint("/stats/summary", "stats-summary.json", "stats-summary", _object),
    _Endpoint("/metrics", "metrics.txt", "metrics", _telling_metrics),
)
_CONFIGZ = _Endpoint("/configz", "configz.json", "kubelet-configz", _object)
