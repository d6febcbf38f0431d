"""The walk-through of an incident prints what it says."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.nodes import run

ROOT = Path(__file__).parents[2]
SKIPS = "…"


def test_each_command_prints_what_the_pages_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recordings").symlink_to(ROOT / "recordings")
    monkeypatch.chdir(tmp_path)
    for name in ("incident", "whatif"):
        page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        blocks = re.findall(
            r"^```console\n\$ kubeledger (.+)\n((?:.*\n)*?)```$", page, re.MULTILINE
        )
        assert len(blocks) == page.count("```console")
        for command, shown in blocks:
            done = run(*shlex.split(command), env={"COLUMNS": "96"})
            printed = iter(done.output.splitlines())
            for line in shown.splitlines():
                if line != SKIPS:
                    assert line in printed, f"{name}: {command}: {line}"
