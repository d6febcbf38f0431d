"""What the daily run leaves out of a parametrized test."""

from __future__ import annotations

import pytest


def nightly(*values: object) -> list[object]:
    """Parameters of the nightly run only; a tuple is several."""
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*value, marks=pytest.mark.nightly) for value in each]
