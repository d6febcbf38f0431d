"""The command group: help is there, quick to import, and true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeledger.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]


def test_help_lists_every_command() -> None:
    """In the order of a first day's use."""
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert [name for name in COMMANDS if f"  {name} " in result.output] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    """The help of a command shows how it is used."""
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output


def test_help_imports_nothing_heavy() -> None:
    """Start-up stays as fast as click's."""
    code = (
        "import sys; from kubeledger.cli.main import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'duckdb', 'msgspec', 'rich', 'yaml', 'pydantic', 'zstandard'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_command_is_a_usage_error() -> None:
    """Exit code 2, and no traceback."""
    result = CliRunner().invoke(cli, ["frobnicate"])
    assert result.exit_code == 2
    assert "No such command" in result.output


def test_ci_runs_the_readme_test_command() -> None:
    """A newcomer's command and the one that guards every change are the same."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = next(line for line in readme.splitlines() if "pytest" in line and "venv" in line)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
