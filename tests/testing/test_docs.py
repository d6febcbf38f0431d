"""The example of ``docs/testing.md`` runs as it stands there."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"


def test_the_example_of_a_scene(pytester: pytest.Pytester) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    pytester.makepyfile(example)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
