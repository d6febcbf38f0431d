"""What commands share: TIME, the ledger option, how errors reach the user."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from freezegun import freeze_time

from kubeledger.analyze.clock import parse_time
from kubeledger.cli.main import cli
from kubeledger.cli.options import (
    BUG_EXIT_CODE,
    ledger_option,
    output_option,
    reports_errors,
)
from kubeledger.model.errors import BadInputError, BadQuestionError, DamagedLedgerError

NOW_NS = 1_763_694_000 * 10**9
MINUTE_NS = 60 * 10**9


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("now", 0), (" now ", 0), ("-2h", -120), ("-1h30m", -90), ("-90m", -90), ("-1d", -1440),
     ("-1d30m", -1470), ("-0", 0)],
)  # fmt: skip
@freeze_time("2025-11-21T03:00:00Z")
def test_spans_before_now(text: str, minutes: int) -> None:
    assert parse_time(text) == NOW_NS + minutes * MINUTE_NS


FIRST_NS, LAST_NS = NOW_NS - 10 * MINUTE_NS, NOW_NS + 5 * MINUTE_NS
"""Records from 02:50 to 03:05."""


@pytest.mark.parametrize(
    ("text", "offset_ns"),
    [
        ("2025-11-21T03:00:00Z", 0),
        ("2025-11-21T04:00:00+01:00", 0),
        ("2025-11-21 03:00:00", 0),
        ("2025-11-21T03:00:00.000000001Z", 1),
        ("2025-11-21T03:00", 0),
        ("2025-11-21 03:01", MINUTE_NS),
        ("2025-11-21 04:01+01:00", MINUTE_NS),
        ("2025-11-21T03:00Z", 0),
        ("+10m", 0),
        ("+0", -10 * MINUTE_NS),
        ("+1d", (1440 - 10) * MINUTE_NS),
        ("03:00", 0),
        ("3:00Z", 0),
        ("02:59:59.5", -(10**9) // 2),
        ("03:04:00.000000001", 4 * MINUTE_NS + 1),
        ("03:30", 30 * MINUTE_NS),
        ("00:00", -180 * MINUTE_NS),
    ],
)
def test_times(text: str, offset_ns: int) -> None:
    """RFC 3339, shorter forms of it, and what counts from the records."""
    assert parse_time(text, lambda: (FIRST_NS, LAST_NS)) == NOW_NS + offset_ns


@pytest.mark.parametrize(
    ("first", "last", "text", "expected"),
    [
        ("2025-11-20T23:50Z", "2025-11-21T00:20Z", "23:55", "2025-11-20T23:55Z"),
        ("2025-11-20T23:50Z", "2025-11-21T00:20Z", "00:10", "2025-11-21T00:10Z"),
        ("2025-11-20T23:50Z", "2025-11-21T00:20Z", "12:00", "2025-11-21T12:00Z"),
        ("2025-11-18T12:00Z", "2025-11-21T12:00Z", "11:00", "2025-11-21T11:00Z"),
        ("2025-11-18T12:00Z", "2025-11-21T12:00Z", "13:00", "2025-11-20T13:00Z"),
    ],
)
def test_times_of_day_over_midnight(first: str, last: str, text: str, expected: str) -> None:
    """The latest one that was recorded; else it is that of the last day."""
    span = parse_time(first), parse_time(last)
    assert parse_time(text, lambda: span) == parse_time(expected)


@pytest.mark.parametrize(
    "text",
    ["", "-", "+", "yesterday", "2h", "-2x", "-d", "2025-11-21", "-1d2x", "--2h", "+-5m", "24:00",
     "03:60", "03", "03:1", "03:00:61", "2025-11-21T24:01", "2025-13-21 03:00", "1d+5m",
     "+99999999999h", "-99999999999h"],
)  # fmt: skip
def test_no_times(text: str) -> None:
    with pytest.raises(BadQuestionError, match="is not a valid time") as caught:
        parse_time(text, lambda: (FIRST_NS, LAST_NS))
    assert "2026-11-21T03:07:53Z" in caught.value.advice
    assert "+5m" in caught.value.advice


ERRORS: dict[str, Exception] = {
    "input": BadInputError("half a line", file="kubelet.log", line=7, advice="copy it again"),
    "ledger": DamagedLedgerError("its CRC does not fit", file="1.jsonl", offset=99),
    "question": BadQuestionError("no such node"),
    "bug": RuntimeError("first\nsecond"),
    "silent": ZeroDivisionError(),
    "usage": click.UsageError("not like this"),
}


@click.command
@reports_errors
@click.argument("name")
def fail(name: str) -> None:
    raise ERRORS[name]


@pytest.mark.parametrize(
    ("name", "exit_code", "lines"),
    [
        ("input", 3, ["error: kubelet.log:7: half a line", "hint: copy it again"]),
        ("ledger", 4, ["error: 1.jsonl@99: its CRC does not fit"]),
        ("question", 2, ["error: no such node"]),
        ("bug", BUG_EXIT_CODE, ["bug in kubeledger: RuntimeError: first second "
                                "(run with --debug for the traceback)"]),
        ("silent", BUG_EXIT_CODE, ["bug in kubeledger: ZeroDivisionError "
                                   "(run with --debug for the traceback)"]),
    ],
)  # fmt: skip
def test_errors(name: str, exit_code: int, lines: list[str]) -> None:
    """On stderr, without a traceback, with the exit code of their fault."""
    result = CliRunner().invoke(fail, [name])
    assert result.exit_code == exit_code
    assert result.stderr.splitlines() == lines
    assert result.stdout == ""


@pytest.mark.parametrize(("name", "exit_code"), [("input", 3), ("bug", BUG_EXIT_CODE)])
def test_debug_shows_the_traceback(name: str, exit_code: int) -> None:
    result = CliRunner().invoke(fail, [name, "--debug"])
    assert result.exit_code == exit_code
    assert "Traceback (most recent call last)" in result.stderr


def test_clicks_own_errors_stay_clicks() -> None:
    result = CliRunner().invoke(fail, ["usage"])
    assert result.exit_code == 2
    assert "Usage: fail" in result.stderr


@click.command
@ledger_option
@output_option("table", "json")
@reports_errors
def show(ledger: Path, output: str) -> None:
    click.echo(f"{ledger} {output}")


@pytest.mark.parametrize(
    ("arguments", "environment", "shown"),
    [
        ([], {}, ".kubeledger table"),
        ([], {"KUBELEDGER": "/env"}, "/env table"),
        (["--ledger", "/arg", "-o", "json"], {"KUBELEDGER": "/env"}, "/arg json"),
    ],
)
def test_where_the_ledger_is(arguments: list[str], environment: dict[str, str], shown: str) -> None:
    env: dict[str, str | None] = {"KUBELEDGER": None, **environment}
    result = CliRunner().invoke(show, arguments, env=env)
    assert result.stdout == shown + "\n"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "command",
    [
        ["verify", "-f", "--settle"],
        ["ship", "--to", "x", "--every"],
        ["sql", "SELECT 1", "--timeout"],
    ],
)
def test_seconds_are_finite(command: list[str], text: str) -> None:
    """What never comes to pass is refused, and nothing else done."""
    refused = CliRunner().invoke(cli, [*command, text])
    assert (refused.exit_code, f"Invalid value for '{command[-1]}'" in refused.stderr) == (2, True)
