"""Why a sync kills a running container."""

import pytest

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.kubelet.kuberuntime.kuberuntime_container import (
    find_next_init_container_to_run,
    walks,
)
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import back_off_policy, series
from kubeledger.kubelet.kuberuntime.objects import (
    Container,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    ProbeResult,
    Sync,
    app_kill,
    sidecar_kill,
)
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.units import NS_PER_S

LIVENESS = "Container app failed liveness probe"


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


# -- Which pods' init containers are walked, and when they are done --------------------------------

ORDINARY, SIDECAR = Container("i"), Container("s", restart_policy="Always")


def sync(version: str, *inits: Container) -> Sync:
    """Of a pod of which nothing runs yet."""
    return Sync(
        pod=Pod(PodMeta(), PodSpec(containers=(Container("c"),), init_containers=inits)),
        status=PodStatus(),
        liveness={},
        startup={},
        actuated={},
        actuated_pod=None,
        facts=resolve(version).kuberuntime,
    )


@pytest.mark.parametrize(
    ("version", "of_ordinary", "of_both"),
    [
        ("1.27.16", False, False),
        ("1.28.0", True, True),
        ("1.28.2", False, False),
        ("1.29.0", True, True),
        ("1.32.0", False, True),
        ("1.33.0", True, True),
    ],
)
def test_pods_that_are_walked(version: str, of_ordinary: bool, of_both: bool) -> None:
    """One sidecar is enough where sidecars decide."""
    assert walks(sync(version, ORDINARY)) == of_ordinary
    assert walks(sync(version, ORDINARY, SIDECAR)) == of_both
    assert walks(sync(version, SIDECAR, ORDINARY)) == of_both


def test_a_pod_without_init_containers_is_done_with_them() -> None:
    assert find_next_init_container_to_run(sync("1.27.16")) == (None, None, True)
    assert find_next_init_container_to_run(sync("1.27.16", ORDINARY)) == (None, 0, False)


# -- Back-off of restarts: what a version's settings make of it ------------------------------------

REDUCED = {"ReduceDefaultCrashLoopBackOffDecay": True}
OWN_MAX = {"KubeletCrashLoopBackOffMax": True}


@pytest.mark.parametrize(
    ("version", "gates", "configured", "seconds"),
    [
        ("1.20.2", {}, None, (10, 300)),
        ("1.20.2", REDUCED | OWN_MAX, "40s", (10, 300)),
        ("1.33.0", REDUCED, None, (1, 60)),
        ("1.33.0", OWN_MAX, "40s", (10, 40)),
        ("1.33.0", OWN_MAX, "4s", (4, 4)),
        ("1.33.0", OWN_MAX, None, None),
    ],
)
def test_policy(
    version: str, gates: dict[str, bool], configured: str | None, seconds: tuple[int, int] | None
) -> None:
    """Gates that a version does not know change nothing; a maximum that counts must be known."""
    policy = back_off_policy(resolve(version).kuberuntime, gates, configured)
    expected = seconds and BackOffPolicy(*(each * NS_PER_S for each in seconds))
    assert policy == expected


def test_series() -> None:
    """Values double up to the maximum, which stands there once."""
    values = series(BackOffPolicy(10 * NS_PER_S, 300 * NS_PER_S))
    assert [value // NS_PER_S for value in values] == [10, 20, 40, 80, 160, 300]
    assert series(BackOffPolicy(0, 0)) == (0,)
