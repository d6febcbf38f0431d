"""CPU amounts and the kernel's knobs, row by row and there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.cgroups.pod_config import (
    MAX_SHARES,
    weight_of_shares,
    weight_of_shares_curved,
)
from kubeledger.kubelet.kube.int64amount import quotient
from kubeledger.kubelet.kube.quantity import int64_of_float


@pytest.mark.parametrize(
    ("shares", "linear", "curved"),
    [
        (0, 1, 1),
        (2, 1, 1),
        (3, 1, 2),
        (102, 4, 17),
        (1024, 39, 100),
        (262143, 9999, 10000),
        (262144, 10000, 10000),
        (10**6, 10000, 10000),
    ],
)
def test_weights(shares: int, linear: int, curved: int) -> None:
    """Both formulas end at 1 and 10000."""
    assert (weight_of_shares(shares), weight_of_shares_curved(shares)) == (linear, curved)


@given(st.integers(2, MAX_SHARES - 1))
def test_weights_grow_with_shares(shares: int) -> None:
    """More shares never weigh less, by either formula."""
    for weight in (weight_of_shares, weight_of_shares_curved):
        assert 1 <= weight(shares) <= weight(shares + 1) <= 10_000


@pytest.mark.parametrize(
    ("dividend", "divisor", "result"),
    [(7, 2, 3), (-7, 2, -3), (0, 5, 0), (2**63, 2, -(2**62)), (2**64 + 6, 3, 2)],
)
def test_quotient(dividend: int, divisor: int, result: int) -> None:
    """Towards zero, after 64 bits."""
    assert quotient(dividend, divisor) == result


@pytest.mark.parametrize(
    ("number", "result"),
    [(1.9, 1), (-1.9, -1), (1e30, -(2**63)), (float("nan"), -(2**63)), (2.0**62, 2**62)],
)
def test_int64_of_float(number: float, result: int) -> None:
    """Towards zero; what does not fit is the least integer."""
    assert int64_of_float(number) == result
