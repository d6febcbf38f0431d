"""What a recorder says of itself is what Prometheus reads."""

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeledger.model.errors import BadQuestionError
from kubeledger.record import metrics_server
from kubeledger.record.accounting import Accounting
from kubeledger.record.metrics import (
    BYTES_SHIPPED,
    BYTES_WRITTEN,
    FAMILIES,
    FINDINGS,
    GAPS,
    NEWEST,
    OBSERVED,
    READY,
    SETTLED,
    UP,
    Metrics,
)
from kubeledger.record.metrics_server import MetricsServer
from kubeledger.record.observations import Gap, Lines

S = 1_000_000_000


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Name and label values -> value, as Prometheus' own library reads the text."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
    }


def everything() -> Metrics:
    """A value of each family, by the recorder's accounting where that gives it."""
    metrics = Metrics()
    accounting = Accounting(metrics)
    accounting.polled("pod resources", [Gap("pod resources", "gone", None, None)], S)
    lines = Lines("kubelet.log", bytes(500), "")
    gap = Gap("kubelet.log", '412 messages were "suppressed"\nand \\ more', 1, 2)
    accounting.polled("journal", [lines, gap], 1_700_000_000 * S)
    metrics.raise_to(OBSERVED, 1_700_000_010)
    metrics.raise_to(SETTLED, 1_700_000_007.5)
    metrics.raise_to(NEWEST, 1_700_000_009)
    metrics.add(BYTES_WRITTEN, 700, "capture")
    accounting.imported({"prober.ProbeExecuted": 3, "node.KubeletStarted": 1}, 900)
    metrics.set(FINDINGS, 1, "impossible")
    for family in FAMILIES:
        if not family.labels and f"\n{family.name} " not in metrics.text():
            metrics.add(family)
    return metrics


def test_every_family_is_declared_as_prometheus_reads_it() -> None:
    read = {
        (each.name + ("_total" if each.type == "counter" else ""), each.type, each.documentation)
        for each in text_string_to_metric_families(everything().text())
    }
    assert read == {(family.name, family.type, family.help) for family in FAMILIES}


def test_the_page_lists_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "record.md").read_text(encoding="utf-8")
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        assert f"| `{family.name}` | {labels} | {family.help} |\n" in page


def test_values() -> None:
    """Labels with what must be escaped; numbers in reasons are one series."""
    metrics = everything()
    gap = Gap("kubelet.log", '7 messages were "suppressed"\nand \\ more', 1, 2)
    Accounting(metrics).polled("journal", [gap], 1_700_000_000 * S)
    expected = {
        ("kubeledger_lag_seconds",): 2.5,
        ("kubeledger_gaps_total", "kubelet.log", 'N messages were "suppressed"\nand \\ more'): 2,
        ("kubeledger_read_bytes_total", "journal"): 500,
        ("kubeledger_source_up", "journal"): 1,
        ("kubeledger_source_up", "pod resources"): 0,
        ("kubeledger_source_last_success_timestamp_seconds", "journal"): 1_700_000_000,
        ("kubeledger_records_total", "prober.ProbeExecuted"): 3,
        ("kubeledger_written_bytes_total", "capture"): 700,
        ("kubeledger_written_bytes_total", "ledger"): 900,
        ("kubeledger_findings", "impossible"): 1,
    }
    read = samples(metrics)
    assert {key: read[key] for key in expected} == expected
    assert read["process_resident_memory_bytes",] > 1 << 20


def test_a_clock_that_steps_back_moves_no_time_back() -> None:
    """Nor is the lag ever below zero."""
    metrics = Metrics()
    metrics.raise_to(OBSERVED, 20)
    metrics.raise_to(OBSERVED, 10)
    metrics.raise_to(SETTLED, 30)
    read = samples(metrics)
    assert read["kubeledger_newest_observed_timestamp_seconds",] == 20
    assert read["kubeledger_lag_seconds",] == 0


def test_memory_is_bounded() -> None:
    """Words that differ each time end in one series."""
    metrics = Metrics()
    for word in range(1000):
        metrics.add(GAPS, 1, "journal", chr(ord("一") + word) + "x" * 1000)
    series = [key for key in samples(metrics) if key[0] == "kubeledger_gaps_total"]
    assert len(series) <= 201
    assert samples(metrics)["kubeledger_gaps_total", "other", "other"] > 0
    assert len(metrics.text()) < 50_000


def test_threads_lose_no_count() -> None:
    """Shipper, sources and recorder are threads of their own."""
    metrics = Metrics()

    def ship() -> None:
        for _ in range(500):
            metrics.add(BYTES_SHIPPED, 2)

    threads = [threading.Thread(target=ship) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert samples(metrics)["kubeledger_shipped_bytes_total",] == 4000


@pytest.fixture
def served() -> Iterator[tuple[Metrics, MetricsServer]]:
    metrics = Metrics()
    server = MetricsServer("127.0.0.1:0", metrics)
    yield metrics, server
    server.close()


def ask(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.address, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_what_is_served(
    served: tuple[Metrics, MetricsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three paths, and no other; readiness names what cannot be read."""
    metrics, server = served
    status, text = ask(server, "/metrics")
    assert status == 200
    assert "kubeledger_build_info{" in text
    assert ask(server, "/healthz") == (200, "ok\n")
    metrics.set(UP, 0, "journal")
    assert ask(server, "/readyz") == (
        503,
        "reading what the sources hold by now; journal cannot be read\n",
    )
    metrics.set(UP, 1, "journal")
    metrics.set(READY, 1)
    assert ask(server, "/readyz") == (200, "following\n")
    assert ask(server, "/")[0] == 404
    assert ask(server, "/metrics", "POST")[0] == 501
    monkeypatch.setattr(metrics_server, "STALLED_S", 0.0)
    status, text = ask(server, "/healthz")
    assert status == 503
    assert "hangs" in text
    metrics.loop_turned()
    assert metrics.stalled_s < 300


def test_a_client_that_says_nothing_is_left(
    served: tuple[Metrics, MetricsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the next scrape up for a moment only."""
    monkeypatch.setattr("kubeledger.record.metrics_server._Handler.timeout", 0.05)
    _, server = served
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port))):
        assert ask(server, "/healthz")[0] == 200


@pytest.mark.parametrize("address", ["9790", "localhost", "127.0.0.1:", "a:b:1", "127.0.0.1:99999"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(BadQuestionError, match=r"address|listen"):
        MetricsServer(address, Metrics())


def test_an_address_that_is_in_use(served: tuple[Metrics, MetricsServer]) -> None:
    with pytest.raises(BadQuestionError, match="in use"):
        MetricsServer(served[1].address, Metrics())
