"""Sums of requests against the quantities' own arithmetic, and the rule of init containers."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.podtotals import staged_total
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError, parse
from kubeledger.kubelet.kube.resources import (
    NANOS,
    Amount,
    milli_of,
    nanos_of,
    units_of,
)

NUMBERS = st.integers(0, 10**9).map(str) | st.decimals(0, 10**6, places=3, allow_nan=False).map(str)
SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"])
TEXTS = st.builds(str.__add__, NUMBERS, SUFFIXES)

MILLI_MAX = (2**63 - 1) * 10**6
"""Nanos of as many thousandths as 64 bits hold."""


@given(TEXTS)
def test_one_amount(text: str) -> None:
    """Rounded as the quantity itself rounds, within 64 bits."""
    assume(nanos_of(text) <= MILLI_MAX)
    assert units_of(nanos_of(text)) == parse(text).value()
    assert milli_of(nanos_of(text)) == parse(text).milli_value()


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_sums(texts: list[str]) -> None:
    """Added first and rounded once."""
    total = Quantity.of(0)
    for text in texts:
        total = total.add(parse(text))
    nanos = staged_total(([{"r": text} for text in texts], []), "r", NANOS, sidecars=True)
    assume(nanos <= MILLI_MAX)
    assert (units_of(nanos), milli_of(nanos)) == (total.value(), total.milli_value())


@pytest.mark.parametrize(
    ("amount", "nanos"),
    [("1", 10**9), (1, 10**9), (0.5, 5 * 10**8), (None, 0), ("100u", 10**5), ("1n", 1)],
)
def test_what_stands_in_json(amount: Amount, nanos: int) -> None:
    assert nanos_of(amount) == nanos


@pytest.mark.parametrize("text", ["one", "0x1", ""])
def test_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        nanos_of(text)


@pytest.mark.parametrize("text", ["1e999", "1e2000000000", "12345678901234567890e999999999"])
def test_amounts_that_would_take_all_memory(text: str) -> None:
    """More than any other, and of 64 bits none is left, as in the kubelet."""
    assert nanos_of(text) > nanos_of("1e900")
    assert units_of(nanos_of(text)) == parse(text).value() == 0
    assert milli_of(nanos_of(text)) == 0


def test_beyond_64_bits() -> None:
    """The low 64 bits, as of a sum that grew too large."""
    nanos = 2 * nanos_of(str(2**63 - 1))
    assert units_of(nanos) == -2
    assert milli_of(2**64 * 10**6 + 3 * 10**6) == 3
