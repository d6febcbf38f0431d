"""Why a sync kills a running container."""

import pytest

from kubeledger.kubelet.kuberuntime.objects import Kill, ProbeResult, app_kill, sidecar_kill
from kubeledger.kubelet.profile.resolve import resolve

NEW = resolve("1.36.2").kuberuntime
LIVENESS = "Container app failed liveness probe"


@pytest.mark.parametrize(
    ("liveness", "startup", "policy", "message"),
    [
        ("Success", "Success", "Always", None),
        (None, "UNKNOWN", "Always", None),
        ("Failure", "Failure", "Always", f"{LIVENESS}, will be restarted"),
        ("Success", "Failure", "Never", "Container app failed startup probe"),
        ("Failure", None, "OnFailure", f"{LIVENESS}, will be restarted"),
    ],
)
def test_what_kills(
    liveness: ProbeResult | None, startup: ProbeResult | None, policy: str, message: str | None
) -> None:
    """Cached failures of liveness, then of startup."""
    kill = app_kill("app", liveness, startup, NEW, restart_policy=policy)
    assert (kill and kill.message) == message


@pytest.mark.parametrize(
    ("version", "policy", "own", "restarts"),
    [
        ("1.36.2", "Always", "Never", False),
        ("1.35.0", "Never", "OnFailure", True),
        ("1.35.0", "Never", None, False),
        ("1.34.0", "Always", "Never", True),
        ("1.34.0", "Never", "Always", False),
    ],
)
def test_a_policy_of_the_container(
    version: str, policy: str, own: str | None, restarts: bool
) -> None:
    """Asked before the pod's since 1.35."""
    facts = resolve(version).kuberuntime
    kill = app_kill("app", "Failure", None, facts, restart_policy=policy, own_policy=own)
    assert kill is not None
    assert kill.restart is restarts
    assert kill.message == (f"{LIVENESS}, will be restarted" if restarts else LIVENESS)


def test_a_changed_definition_kills_first() -> None:
    kill = app_kill("app", "Failure", None, NEW, restart_policy="Never", definition_changed=True)
    assert kill == Kill("Container app definition changed, will be restarted", "", True)


@pytest.mark.parametrize(
    ("version", "has_startup", "startup", "liveness", "changed", "message"),
    [
        ("1.36.2", True, "Failure", "Failure", True, "failed startup probe"),
        ("1.36.2", True, "UNKNOWN", "Failure", True, None),
        ("1.36.2", True, None, "Failure", False, None),
        ("1.36.2", True, "Success", "Failure", False, "failed liveness probe"),
        ("1.36.2", False, None, "Failure", True, "definition changed"),
        ("1.31.0", False, None, "Failure", True, "failed liveness probe"),
        ("1.28.0", False, None, "Failure", False, "failed liveness probe"),
        ("1.28.0", False, None, None, False, None),
        ("1.27.0", False, None, "Failure", False, None),
    ],
)
def test_what_kills_a_sidecar(
    version: str,
    has_startup: bool,
    startup: ProbeResult | None,
    liveness: ProbeResult | None,
    changed: bool,
    message: str | None,
) -> None:
    """Startup before liveness, and no word of the restart, which is sure."""
    kill = sidecar_kill(
        "proxy",
        liveness,
        startup,
        resolve(version).kuberuntime,
        has_startup_probe=has_startup,
        definition_changed=changed,
    )
    assert (kill and kill.message) == (message and f"Init container proxy {message}")
