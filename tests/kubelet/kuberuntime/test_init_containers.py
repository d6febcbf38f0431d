"""Which pods' init containers are walked, and when they are done."""

import pytest

from kubeledger.kubelet.kuberuntime.kuberuntime_container import (
    find_next_init_container_to_run,
    walks,
)
from kubeledger.kubelet.kuberuntime.objects import (
    Container,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    Sync,
)
from kubeledger.kubelet.profile.resolve import resolve

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
