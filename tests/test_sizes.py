"""Amounts in sentences."""

import pytest

from kubeledger.model.units import sizes_text

KI, MI, GI = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("counts", "texts"),
    [
        ((0,), ("0",)),
        ((900 * MI, GI), ("900Mi", "1Gi")),
        ((13918844 * KI, 14 * GI), ("13.3Gi", "14Gi")),
        ((14600000 * KI, 14 * GI), ("13.9Gi", "14Gi")),
        ((9001 * MI, 9217588 * KI), ("8.790Gi", "8.791Gi")),
        ((64 * MI, 23207370529), ("64Mi", "21.6Gi")),
        ((5000 * KI + 1, 5 * MI), ("4.9Mi", "5Mi")),
        ((14 * GI - 1, 14 * GI), ("15032385535", "15032385536")),
        ((14 * GI - 1, 14 * GI - 1), ("14.0Gi", "14.0Gi")),
        ((14 * GI - 9 * MI, 14 * GI), ("13.99Gi", "14Gi")),
        ((90001,), ("87.9Ki",)),
    ],
)
def test_both_sides_can_be_compared(counts: tuple[int, ...], texts: tuple[str, ...]) -> None:
    """In one unit where they are near each other; what differs looks different."""
    assert sizes_text(*counts) == texts
