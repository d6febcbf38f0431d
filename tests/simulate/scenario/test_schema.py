from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.generated.scenario_schema import FILE, main, reference, schema

ROOT = Path(__file__).parents[3]


def test_the_schema_is_current() -> None:
    """``python -m tests.generated.scenario_schema`` would change nothing."""
    assert (ROOT / "schemas" / FILE).read_bytes() == schema()


def test_every_key_is_described() -> None:
    made = msgspec.json.decode(schema())
    objects = [made, *(each for each in made["$defs"].values() if "properties" in each)]
    for each in objects:
        assert each["additionalProperties"] is False
        for key, field in each["properties"].items():
            assert field.get("description"), f"{each.get('description')}: {key}"


def test_the_reference_in_the_docs_is_current() -> None:
    """``python -m tests.generated.scenario_schema --reference`` stands in the page."""
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    assert reference() in page


def test_the_tutorial_is_the_shipped_scenario() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    file = (ROOT / "recordings" / "scenarios" / "first.yaml").read_text(encoding="utf-8")
    assert file in page


def test_main(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / FILE).read_bytes() == schema()
    assert main(["--reference"]) == 0
    assert capsys.readouterr().out == reference()
    assert main(["-x"]) == 2
