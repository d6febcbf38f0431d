"""Back-off of restarts: what a version's settings make of it."""

import pytest

from kubeledger.kubelet.kube.flowcontrol import BackOffPolicy
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import back_off_policy, series
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.units import NS_PER_S

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
