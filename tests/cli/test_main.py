"""The command group: help is there, quick to import, and true."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kubeledger.cli.main import COMMANDS, cli, run
from kubeledger.cli.options import reports_errors
from tests.analyze.sql.fixture_ledger import whole_story, write_ledger

ROOT = Path(__file__).parents[2]


def test_help_lists_every_command() -> None:
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert [name for name in COMMANDS if f"  {name} " in result.output] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    """The help of a command shows how it is used, in 80 columns, with an example to copy."""
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    lines = result.output.rstrip().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("  Example: kubeledger ")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kubeledger.cli.main import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'duckdb', 'msgspec', 'rich', 'yaml', 'pydantic', 'zstandard'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "idle"),
    [
        (["import", "LOG", "-q"], {"_duckdb", "asyncio", "subprocess", "kubeledger.verify.run"}),
        (["sql", "SELECT victim_pod FROM preemptions"],
         {"asyncio", "duckdb", "subprocess", "kubeledger.replay.episodes",
          "kubeledger.replay.node"}),
        (["why", "node"], {"asyncio", "duckdb", "subprocess", "kubeledger.verify.registry"}),
    ],
)  # fmt: skip
def test_a_command_loads_what_it_uses(arguments: list[str], idle: set[str], tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text('I0102 03:04:05.000000     7 server.go:1] "Started kubelet"\n', "utf-8")
    ledger = ["--ledger", str(tmp_path / "ledger")]
    if arguments[0] != "import":
        taken = CliRunner().invoke(cli, ["import", str(log), "--year", "2026", *ledger])
        assert taken.exit_code == 0, taken.output
    words = [str(log) if word == "LOG" else word for word in arguments] + ledger
    code = (
        "import sys; from kubeledger.cli.main import cli\n"
        "cli.main(sys.argv[1:], standalone_mode=False)\n"
        f"sys.exit(', '.join(sorted({idle!r} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_duckdb_without_an_engine_of_that_name_does_as_a_whole() -> None:
    code = (
        "import sys, duckdb; sys.modules['_duckdb'] = None\n"
        "from kubeledger.ledger import engine\n"
        "sys.exit(engine.duckdb is not duckdb)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_ci_runs_the_readme_test_command() -> None:
    """A newcomer's command and the one that guards every change are the same."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = next(line for line in readme.splitlines() if "pytest" in line and "venv" in line)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def calls_of_the_pages() -> list[list[str]]:
    """The words of each call of kubeledger that the README and the pages for users show."""
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    blocks = [
        block.split("```")[0]
        for page in pages
        for block in page.read_text("utf-8").split("```sh")[1:]
    ]
    lines = (line for block in blocks for line in block.replace("\\\n", " ").split("\n"))
    calls = [shlex.split(line, comments=True) for line in lines if line.startswith("kubeledger ")]
    assert len(calls) > 40
    return calls


def test_the_pages_call_what_there_is(tmp_path: Path) -> None:
    """Commands, their options, and shipped queries; queries of their own run."""
    ledger = write_ledger(tmp_path / "ledger", whole_story())
    for _, name, *words in calls_of_the_pages():
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, (name, words)
        options = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options, name
        if name == "sql":
            result = CliRunner().invoke(cli, [name, *words, "--ledger", str(ledger)])
            assert result.exit_code == 0, result.output


def ends(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> object:
    def main(**_: object) -> object:
        return does()

    monkeypatch.setattr("kubeledger.cli.main.atexit.register", lambda *_: None)
    monkeypatch.setattr(cli, "main", main)
    with pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code


def test_an_interrupt_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 130, as shells have it, also where DuckDB was at work."""

    @click.command()
    @reports_errors
    def asks_duckdb() -> None:
        raise RuntimeError("Query interrupted")

    def interrupted() -> None:
        raise KeyboardInterrupt

    assert ends(monkeypatch, interrupted) == 130
    assert ends(monkeypatch, lambda: asks_duckdb.main([], standalone_mode=False)) == 130
    assert capsys.readouterr().err.split() == ["interrupted"] * 2


def test_other_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def misused() -> None:
        raise click.UsageError("no such thing")

    assert ends(monkeypatch, misused) == 2
    assert "no such thing" in capsys.readouterr().err
    assert ends(monkeypatch, lambda: 5) == 5
    assert ends(monkeypatch, lambda: None) == 0
    assert ends(monkeypatch, lambda: sys.exit(3)) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], ["error: no such command 'frobnicate'", "hint: kubeledger --help"]),
        (["imprt"],
         ["error: no such command 'imprt': did you mean import?", "hint: kubeledger --help"]),
        (["fleet", "verfy"],
         ["error: no such command 'verfy': did you mean verify?", "hint: kubeledger fleet --help"]),
        (["ls", "--limit", "x"], ["error: invalid value for '--limit': ", "hint: kubeledger ls"]),
        (["import"], ["error: missing argument 'SOURCE...'", "hint: kubeledger import --help"]),
        (["--ledger", "a b", "ls", "--pod", "x"],
         ["error: no such option '--ledger'",
          "hint: options follow the command: kubeledger ls --pod x --ledger 'a b'"]),
        (["--ledger", "ls", "why", "x"],
         ["error: no such option '--ledger'",
          "hint: options follow the command: kubeledger why x --ledger ls"]),
        (["--bogus", "ls"], ["error: no such option '--bogus'", "hint: kubeledger --help"]),
        (["--set", "a=1", "ls"], ["error: no such option '--set'", "hint: kubeledger --help"]),
        (["--ledger", "x"], ["error: no such option '--ledger'", "hint: kubeledger --help"]),
        (["verify", "-o", "\x1b"], ["error: invalid value for '-o' ", "hint: kubeledger verify"]),
    ],
)  # fmt: skip
def test_a_wrong_call_is_reported_like_other_errors(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: list[str],
) -> None:
    """Two lines: what is wrong, and where help is; exit code 2."""
    monkeypatch.setattr("kubeledger.cli.main.atexit.register", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["kubeledger", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(map(str.startswith, lines, says))
    assert "\x1b" not in "".join(lines)


def test_no_command_at_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubeledger.cli.main.atexit.register", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["kubeledger"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    assert "Take in:" in capsys.readouterr().err


def test_a_query_that_hears_nothing_is_not_waited_for() -> None:
    code = (
        "import sys, kubeledger.analyze.sql.api as api\n"
        "from kubeledger.cli import main\n"
        "api.abandoned = lambda: True\n"
        "class Loud:\n"
        "    def __del__(self): sys.__stderr__.write('leaked')\n"
        "loud = Loud()\n"
        "main.cli.main = lambda **_: print('done') or 2\n"
        "main.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (2, "done\n", "")
