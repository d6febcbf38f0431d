"""What the daily run leaves out of a parametrized test."""

import pytest


def nightly(*values: object) -> list[object]:
    """Parameters of the nightly run only; a tuple is several."""
    return _marked(values, pytest.mark.nightly)


def slow(*values: object) -> list[object]:
    """Parameters that run after the daily run; a tuple is several."""
    return _marked(values, pytest.mark.slow)


def _marked(values: tuple[object, ...], mark: pytest.MarkDecorator) -> list[object]:
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*value, marks=mark) for value in each]
