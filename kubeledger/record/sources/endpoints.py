"""What the kubelet answers over HTTPS (port 10250), every 15 seconds.

A round asks for all of them over one connection. ``/configz`` is asked for as the recorder starts,
and whenever the kubelet's process is another or it was away. An endpoint that fails is asked again
in the next round, not before.
"""

from __future__ import annotations

import http.client
import re
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from kubeledger.model.errors import BadQuestionError, reason_of
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.state_files import (
    CONTENT_BYTES_MAX,
    BackgroundSource,
    Outage,
    Unchanged,
    snapshot,
)

_SILENCE_S = 5
_WHOLE_S = 10
_PIECE_BYTES = 64 << 10
_SHOWN_BYTES = 200


class UnreachableError(Exception):
    """The kubelet does not answer at all; the text says why."""


class RefusedError(Exception):
    """The kubelet answered, but not with what was asked for; the text says why."""


class KubeletClient:
    """One kubelet, over one connection that is made when it is needed.

    The token is read for each request, the certificates of the authority for each connection: both
    are replaced while a recorder runs.

    Args:
        url: ``https://HOST[:10250]``.
        token_file: of a service account; None for a kubelet that asks for none.
        ca_file: certificates by which the kubelet's own is checked; None: the machine's.
        insecure: the kubelet's certificate is not checked.
        silence_s: how long it may be silent.

    Raises:
        BadQuestionError: no URL of HTTPS.
    """

    def __init__(
        self,
        url: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        insecure: bool = False,
        silence_s: float = _SILENCE_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
            raise BadQuestionError(
                f"not a URL of a kubelet: {url}", advice="https://HOST:10250, without a path"
            )
        self._host, self._port = parts.hostname, parts.port or 10250
        self._token_file = token_file
        self._ca_file = ca_file
        self._insecure = insecure
        self._silence_s = silence_s
        self._connection: http.client.HTTPSConnection | None = None

    def get(self, path: str) -> bytes:
        """The content at a path.

        Raises:
            UnreachableError: nobody answers, or it is not the kubelet.
            RefusedError: the answer is an error, not whole, too large or too slow.
        """
        try:
            return self._get(path)
        except BaseException:
            self.close()  # what is left of this answer is no answer to the next question
            raise

    def _get(self, path: str) -> bytes:
        headers = {"Accept": "*/*", **self._authorization()}
        connection = self._connected()
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            data = _content(response, self._silence_s * _WHOLE_S / _SILENCE_S)
        except TimeoutError:
            raise RefusedError("no answer in time") from None
        except http.client.IncompleteRead:
            raise RefusedError("the answer ends in the middle") from None
        except (http.client.HTTPException, OSError) as error:
            raise RefusedError(f"the answer breaks off: {error or type(error).__name__}") from None
        if response.status != http.client.OK:
            shown = " ".join(data[:_SHOWN_BYTES].decode("utf-8", "replace").split())
            why = f": {shown}" if shown else ""
            raise RefusedError(f"answered {response.status} {response.reason}{why}")
        return data

    def _authorization(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise UnreachableError(
                f"{self._token_file} cannot be read: {reason_of(error)}"
            ) from None
        if not token.isprintable() or not token or " " in token:
            raise UnreachableError(f"{self._token_file} holds no token")
        return {"Authorization": f"Bearer {token}"}

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is not None:
            return self._connection
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=self._silence_s, context=self._trust()
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"its certificate is not accepted: {error.verify_message}"
            ) from None
        except TimeoutError:
            raise UnreachableError("no connection in time") from None
        except OSError as error:
            raise UnreachableError(f"no connection: {reason_of(error)}") from None
        self._connection = connection
        return connection

    def _trust(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            if self._ca_file is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self._ca_file)
        except OSError as error:
            raise UnreachableError(f"{self._ca_file} cannot be read: {reason_of(error)}") from None
        return context

    def close(self) -> None:
        """Close the connection; the next question makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _content(response: http.client.HTTPResponse, whole_s: float) -> bytes:
    """The body, read in pieces: an answer of which a byte comes now and then is too slow."""
    end = time.monotonic() + whole_s
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > CONTENT_BYTES_MAX:
            raise RefusedError(f"the answer is larger than {CONTENT_BYTES_MAX} bytes")
        if time.monotonic() > end:
            raise TimeoutError
    if response.length:  # ``read1`` says nothing of it
        raise http.client.IncompleteRead(b"")
    response.close()  # the connection is ready for the next question
    return b"".join(pieces)


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
        """The answer, dated when the question was asked: what it shows may be younger."""
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
