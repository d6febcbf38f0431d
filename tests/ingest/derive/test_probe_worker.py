"""One worker, replayed."""

from __future__ import annotations

from typing import Any

import pytest

from kubeledger.ingest.derive.probe_worker import (
    Change,
    ProbeWorker,
    probe_spec,
    probed_containers,
    worker_result,
)
from kubeledger.model.bodies.prober import ProbeResult, TickResult
from kubeledger.model.units import NS_PER_S


@pytest.mark.parametrize(
    ("tick", "result"),
    [
        ("success", "success"),
        ("warning", "success"),
        ("failure", "failure"),
        ("unknown", "failure"),
        ("error", None),
    ],
)
def test_what_a_worker_makes_of_a_tick(tick: TickResult, result: ProbeResult | None) -> None:
    """What a worker makes of a tick."""
    assert worker_result(tick) == result


def test_startup_begins_unknown_and_holds_on_failure() -> None:
    """Startup begins unknown and holds on failure."""
    worker = ProbeWorker("c", "startup", {"failureThreshold": 2})
    assert worker.tick("failure") is None
    assert worker.tick("failure") == Change("unknown", "failure", 2, 2)
    assert worker.on_hold
    worker.probes("next", cached="unknown")
    assert worker.tick("success") == Change("unknown", "success", 1, 1)


def test_below_the_threshold_nothing_changes() -> None:
    """Below the threshold nothing changes."""
    worker = ProbeWorker("c", "readiness", {"successThreshold": 3, "failureThreshold": 2})
    results: list[ProbeResult] = ["success", "success", "failure", "success", "success", "success"]
    assert [worker.tick(result) for result in results][:-1] == [None] * 5
    assert worker.cached == "success"


def test_without_thresholds_a_tick_decides_nothing() -> None:
    """Without thresholds a tick decides nothing."""
    worker = ProbeWorker("c", "readiness", None)
    assert worker.tick("success") is None
    assert worker.run == 1


def test_an_uncertain_result_is_settled_silently_unless_it_is_told() -> None:
    """An uncertain result is settled silently unless it is told."""
    worker = ProbeWorker("c", "readiness", {})
    worker.uncertain = True
    assert worker.tick("success") is None
    assert worker.settle("success", 1, 1, is_change=True) == Change("failure", "success", 1, 1)


def test_probe_spec_looks_at_init_containers_too() -> None:
    """Probe spec looks at init containers too."""
    spec = {"initContainers": [{"name": "side", "startupProbe": {"exec": {}}}]}
    assert probe_spec(spec, "side", "startup") == {"exec": {}}
    assert probe_spec(spec, "other", "startup") is None


def test_of_init_containers_only_sidecars_are_probed() -> None:
    """Of init containers only sidecars are probed."""
    probe: dict[str, Any] = {"startupProbe": {"exec": {}}}
    spec = {
        "initContainers": [{"name": "first", **probe}, side := {"name": "side", **probe}],
        "containers": [{"name": "app"}, {"name": "web", **probe}],
    }
    side["restartPolicy"] = "Always"
    assert probed_containers(spec, "startup") == ["side", "web"]
    assert probed_containers(spec, "liveness") == []


@pytest.mark.parametrize(("all_logged", "run"), [(True, 3), (False, 1)])
def test_a_gap_hides_a_success_that_was_not_logged(all_logged: bool, run: int) -> None:
    """A gap hides a success that was not logged."""
    worker = ProbeWorker("c", "liveness", {"periodSeconds": 10, "failureThreshold": 5})
    for second in (0, 10, 30):
        worker.passes(second * NS_PER_S, all_logged=all_logged)
        assert worker.tick("failure") is None
    assert worker.run == run


def test_a_slow_probe_leaves_no_gap() -> None:
    """A slow probe leaves no gap."""
    worker = ProbeWorker("c", "liveness", {"periodSeconds": 5, "timeoutSeconds": 30})
    for second in (0, 30):
        worker.passes(second * NS_PER_S, all_logged=False)
        assert worker.tick("failure") is None
    assert worker.run == 2
