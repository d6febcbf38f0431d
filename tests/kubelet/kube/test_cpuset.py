"""Sets of CPUs as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of


@pytest.mark.parametrize(
    ("text", "cpus", "canonical"),
    [("", [], ""), ("0-3,7", [0, 1, 2, 3, 7], "0-3,7"), ("7,0,1", [0, 1, 7], "0-1,7")],
)
def test_notation(text: str, cpus: list[int], canonical: str) -> None:
    """Ranges, single CPUs, and their one form."""
    assert cpus_of(text) == frozenset(cpus)
    assert cpu_set_text(cpus) == canonical


@pytest.mark.parametrize("text", ["x", "3-1", "1,,2", "-1", "1-", "9999999"])
def test_no_sets(text: str) -> None:
    with pytest.raises(ValueError, match="is not a set of CPUs"):
        cpus_of(text)


@given(st.frozensets(st.integers(0, 300)))
def test_back_and_forth(cpus: frozenset[int]) -> None:
    assert cpus_of(cpu_set_text(cpus)) == cpus
