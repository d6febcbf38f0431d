"""What the kubelet answers over HTTPS, every 15 seconds.

A round asks for all of them over one connection. ``/configz`` is asked for as the recorder starts,
and whenever the kubelet's process is another or it was away. An endpoint that fails is asked again
in the next round, not before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.background import BackgroundSource
from kubeledger.record.sources.kubelet_client import KubeletClient, RefusedError, UnreachableError
from kubeledger.record.sources.snapshots import Outage, Unchanged, snapshot

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


class KubeletEndpoints(BackgroundSource):
    """Pods, statistics, probe counters, metrics and configuration that one kubelet serves."""

    name = "kubelet endpoints"

    def __init__(self, client: KubeletClient) -> None:
        super().__init__()
        self._client = client
        self._unchanged = Unchanged()
        self._kubelet = Outage(self.name)
        self._outages = {each: Outage(f"kubelet {each.path}") for each in _ENDPOINTS}
        self._started: bytes | None = None
        self._config_is_known = False

    def close(self) -> None:
        """End the connection, and with it the round."""
        self._client.close()

    def _round(self, clock: Callable[[], int]) -> Iterator[Document | Gap]:
        try:
            for endpoint in _ENDPOINTS:
                if endpoint is not _CONFIGZ or not self._config_is_known:
                    yield from self._asked(endpoint, clock())
        except UnreachableError as error:
            self._config_is_known = False
            yield from self._kubelet.failed(str(error))
        finally:
            self._client.close()

    def _asked(self, endpoint: _Endpoint, ts_ns: int) -> Iterator[Document | Gap]:
        """The answer, dated when the question was asked: what it shows may be younger.

        Raises:
            UnreachableError: the kubelet does not answer at all.
        """
        outage = self._outages[endpoint]
        try:
            answer = self._client.get(endpoint.path)
        except RefusedError as error:
            yield from self._kubelet.worked(ts_ns)
            yield from outage.failed(str(error))
            return
        yield from self._kubelet.worked(ts_ns)
        match = _STARTED.search(answer)
        if endpoint is _CONFIGZ:
            self._config_is_known = True
        elif match is not None and match[1] != self._started:
            self._started, self._config_is_known = match[1], False
        try:
            data, essence = endpoint.content(answer)
        except ValueError as error:
            yield from outage.failed(f"the answer is not whole: {error}")
            return
        yield from outage.worked(ts_ns)
        # A configuration is what a process runs with: another process, another observation.
        is_new = endpoint is _CONFIGZ or self._unchanged.is_new(endpoint.name, essence)
        if data and is_new:  # a kubelet without probes has no counters
            yield snapshot(endpoint.name, endpoint.format, data, ts_ns)


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


def _decision_metrics(data: bytes) -> tuple[bytes, bytes]:
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


_CONFIGZ = _Endpoint("/configz", "configz.json", "kubelet-configz", _object)
_ENDPOINTS = (
    _Endpoint("/metrics/probes", "metrics-probes.txt", "metrics", _whole_lines),
    _Endpoint("/pods", "pods.json", "pod-list", _pods),
    _Endpoint("/stats/summary", "stats-summary.json", "stats-summary", _object),
    _Endpoint("/metrics", "metrics.txt", "metrics", _decision_metrics),
    _CONFIGZ,
)
