"""The tutorial in docs/simulation.md: its scenario and its commands, as a newcomer types them."""

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from tests.generated.scenario_schema import FILE, main, reference, schema

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
TUTORIAL = PAGE[PAGE.index("## Your first scenario") : PAGE.index("## What to know")]

BAD = """kubeletVersion: 1.36.2
duration: 10m
node: {cpus: -2}
images: [{name: example/web:1}]
pods:
  - pod:
      metadata: {name: web}
      spec: {containers: [{name: server, image: example/web:2}]}
    containers:
      sever: {stopsAfter: 1s}
  - pod:
      metadata: {name: web}
      spec: {containers: [{name: server, image: example/web:1}]}
kubeletRestarts:
  - {at: 20m}
"""


def block(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL, re.DOTALL)


def test_the_tutorials_scenario_is_shipped() -> None:
    shipped = ROOT / "recordings" / "scenarios" / "first.yaml"
    assert block("yaml") == [shipped.read_text(encoding="utf-8")]


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.yaml").write_text(block("yaml")[0], encoding="utf-8")
    ran = []
    for text in block("console"):
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, shown = step.partition("\n")
            name, *words = shlex.split(line.replace("/tmp/", f"{tmp_path}/"))
            if name == "sed":
                old, new = words[0].split("/")[1:3]
                changed = block("yaml")[0].replace(old, new)
                (tmp_path / words[-1]).write_text(changed, encoding="utf-8")
                continue
            assert name == "kubeledger"
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == (1 if words[0] == "diff" else 0), (line, done.output)
            assert shown.strip() in done.output
            ran.append((words[0], done.output))
    reported = dict(ran)
    assert [name for name, _ in ran] == [
        *("simulate", "simulate", "ls", "why", "verify", "simulate", "diff")
    ]
    assert "was killed by its liveness probe" in reported["why"]
    assert "ContainerKilled default/web/server: only in A" in reported["diff"]


def test_all_contradictions_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD, encoding="utf-8")
    done = CliRunner().invoke(cli, ["simulate", str(file), "--ledger", str(tmp_path / "l")])
    assert done.exit_code == 3
    lines = re.findall(rf"{re.escape(str(file))}:(\d+):\d+: ", done.output)
    assert lines == ["3", "8", "10", "12", "15"]
    assert not (tmp_path / "l").exists()


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
