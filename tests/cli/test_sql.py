"""``kubeledger sql``: forms of asking, forms of answers, exit codes."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeledger.analyze.sql.views import load_library, load_views
from kubeledger.cli.sql import Shell
from kubeledger.model.errors import BadQuestionError
from tests.cli.conftest import Run
from tests.cli.nodes import run

QUERY = "SELECT seq, admitted, reason FROM admissions ORDER BY seq"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("table",
         "seq  admitted  reason\n---  --------  --------\n  5  true\n 12  true\n 37  false     "
         "OutOfcpu\n"),
        ("csv", "seq,admitted,reason\n5,true,\n12,true,\n37,false,OutOfcpu\n"),
        ("jsonl",
         '{"seq": 5, "admitted": true, "reason": null}\n{"seq": 12, "admitted": true, "reason": '
         'null}\n{"seq": 37, "admitted": false, "reason": "OutOfcpu"}\n'),
    ],
)  # fmt: skip
def test_formats(ask: Run, output: str, text: str) -> None:
    result = ask("sql", QUERY, "-o", output, exits=0)
    assert result.stdout == text


def test_json(ask: Run) -> None:
    """NULL is null, JSON columns are JSON, times are RFC 3339."""
    result = ask("sql", "SELECT ts, body, cause_seq FROM events WHERE seq = 9", "-o", "json")
    assert json.loads(result.stdout) == [
        {
            "ts": "2026-11-21T03:00:09.123456Z",
            "body": {"namespace": "default", "pod": "train", "pod_uid": "u-train"},
            "cause_seq": None,
        }
    ]


@pytest.mark.parametrize("args", [("-",), ()])
def test_query_from_standard_input(ask: Run, args: tuple[str, ...]) -> None:
    result = ask("sql", *args, "-o", "csv", input=QUERY + "\n", exits=0)
    assert result.stdout.startswith("seq,admitted,reason\n5,true,\n")


def test_time_limit(ask: Run) -> None:
    """A query that takes too long is stopped, and the message says so."""
    endless = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x"
    result = ask("sql", endless, "--timeout", "0.2", exits=2)
    assert "longer than 0.2 s" in result.stderr


def test_the_time_limit_holds_for_printing(ask: Run) -> None:
    """Rows that DuckDB gives at once take their time to be written."""
    result = ask(
        "sql", "SELECT * FROM range(1000000000)", "--timeout", "0.2", "-o", "jsonl", exits=2
    )
    assert "longer than 0.2 s" in result.stderr


def test_json_nested_too_deep_is_a_text(ask: Run) -> None:
    depth = 100_000
    result = ask(
        "sql",
        f"SELECT (repeat('[', {depth}) || repeat(']', {depth}))::JSON x",
        "-o",
        "json",
        exits=0,
    )
    assert json.loads(result.stdout) == [{"x": "[" * depth + "]" * depth}]


def test_list(ask: Run) -> None:
    listed = [json.loads(line) for line in ask("sql", "--list", "-o", "jsonl").stdout.splitlines()]
    assert [row["name"] for row in listed] == list(load_library())
    (timeline,) = (row for row in listed if row["name"] == "pod_timeline")
    assert timeline["parameters"] == "pod"
    assert timeline["question"] == "What happened to a pod?"


def test_list_needs_no_ledger(tmp_path: Path) -> None:
    result = run("sql", "--list", "--ledger", tmp_path / "none", exits=0)
    assert "preemptions" in result.stdout


def test_run_with_parameters(ask: Run) -> None:
    result = ask(
        "sql", "--run", "around", "--param", "at=2026-11-21T04:00:20+01:00",
        "--param", "seconds=1.5", "-o", "jsonl",
    )  # fmt: skip
    assert [json.loads(line)["seq"] for line in result.stdout.splitlines()] == [19, 20, 21]


def test_parameters_of_a_query(ask: Run) -> None:
    result = ask("sql", "SELECT pod FROM events WHERE seq = $n", "--param", "n=9", "-o", "csv")
    assert result.stdout == "pod\ntrain\n"


def test_tables_are_safe_to_show(ask: Run) -> None:
    result = ask("sql", "SELECT output FROM probe_ticks WHERE seq = 17")
    assert "\x1b" not in result.stdout
    assert r"\x1b[31mcat: no such file\n" in result.stdout


class TestShell:
    def run(self, lines: list[str]) -> list[tuple[str, dict[str, str] | dict[str, str | None]]]:
        reported: Iterator[str] = iter(lines)
        ran: list[tuple[str, dict[str, str] | dict[str, str | None]]] = []

        def ask(_: str) -> str:
            line = next(reported, None)
            if line is None:
                raise EOFError
            return line

        def show(query: str, params: dict[str, str] | dict[str, str | None]) -> None:
            ran.append((query, params))
            if "bad" in query:
                raise BadQuestionError("no such thing")

        Shell(show, lambda: (0, 0), load_views(), load_library(), ask).run()
        return ran

    def test_statements_end_with_a_semicolon(self) -> None:
        ran = self.run(["SELECT 1;", "", "SELECT", "", "  2 ;", "unfinished"])
        assert [query for query, _ in ran] == ["SELECT 1;", "SELECT\n\n  2 ;"]

    def test_quit(self) -> None:
        assert self.run([".quit", "SELECT 1;"]) == []

    def test_an_error_does_not_end_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert len(self.run(["bad;", ".nonsense", ".schema nope", ".run", "SELECT 1;"])) == 2
        errors = capsys.readouterr().err
        for message in ("no such thing", "unknown command", "no view nope", "which query?"):
            assert message in errors

    def test_commands(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run([".tables", ".schema admissions", ".queries", ".help"]) == []
        shown = capsys.readouterr().out
        for text in ("device_allocations", "admitted", "BOOLEAN", "probe_kills", ".schema VIEW"):
            assert text in shown

    def test_run(self) -> None:
        ((query, params),) = self.run([".run pod_timeline pod=default/web"])
        assert "FROM events" in query
        assert params == {"pod": "default/web"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def test_memory_bounds_the_process_too(ask: Run) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    result = ask("sql", "SELECT length(repeat('x', 4000000000))", "--memory", "200MB", exits=2)
    assert "Out of Memory" in result.stderr
    assert "hint: give it more with --memory" in result.stderr
    assert "SET memory_limit" not in result.stderr
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert ask("sql", "SELECT 1", "--memory", "1.5 gib").exit_code == 0
