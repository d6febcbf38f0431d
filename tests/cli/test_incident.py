"""The walk-through of an incident prints what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli

ROOT = Path(__file__).parents[2]
SKIPS = "…"


def test_each_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its order; lines that the page leaves out may be any."""
    page = (ROOT / "docs" / "incident.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n\$ kubeledger (.+)\n((?:.*\n)*?)```$", page, re.MULTILINE)
    assert len(blocks) == page.count("```console")
    (tmp_path / "recordings").symlink_to(ROOT / "recordings")
    monkeypatch.chdir(tmp_path)
    for command, shown in blocks:
        done = CliRunner().invoke(cli, shlex.split(command), env={"COLUMNS": "96"})
        printed = iter(done.output.splitlines())
        for line in shown.splitlines():
            if line != SKIPS:
                assert line in printed, f"{command}: {line}"


def test_a_link_of_the_page_leads_somewhere() -> None:
    """The README and the pages name files that are there."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([\w/.-]+\.(?:md|png|ipynb))", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
