"""``decide`` and ``judge`` on the command line: order, errors, going on."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from kubeledger.kubelet.cases.registry import SUBSYSTEMS
from tests.cli import nodes

CASE = {
    "id": "a",
    "kubelet": "1.36.2",
    "subsystem": "topologymerge",
    "input": {"policy": "best-effort", "numaNodes": [0, 1], "providersHints": []},
}
GOOD = json.dumps(CASE)


def run(
    verb: str, subsystem: str, *lines: str | bytes, keep_going: bool = False, exits: int = 0
) -> Result:
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    arguments = [verb, subsystem, "-", *(["--keep-going"] if keep_going else [])]
    return nodes.run(*arguments, input=data, exits=exits)


def outcomes(result: Result) -> list[str]:
    return [json.loads(line)["id"] for line in result.stdout.splitlines()]


def test_answers_keep_the_order() -> None:
    """One line for each, blank lines passed over, extra keys of the line too."""
    lines = [json.dumps(CASE | {"id": str(n), "outcomes": []}) for n in range(500)]
    result = run("decide", "topologymerge", *lines, "", exits=0)
    assert outcomes(result) == [str(n) for n in range(500)]


def test_what_decide_gives_is_a_match() -> None:
    """And a changed outcome is impossible, with a sentence, and exit code 1."""
    outcome = json.loads(run("decide", "topologymerge", GOOD).stdout)["outcome"]
    result = run("judge", "topologymerge", json.dumps(CASE | {"outcome": outcome}), exits=0)
    assert json.loads(result.stdout)["verdict"] == "match"
    wrong = outcome | {"admit": not outcome["admit"]}
    result = run("judge", "topologymerge", json.dumps(CASE | {"outcome": wrong}), exits=1)
    assert json.loads(result.stdout)["verdict"] == "impossible"
    assert json.loads(result.stdout)["why"]


BAD: tuple[tuple[str | bytes, str], ...] = (
    ("{", "line 2"),
    ('{"id":"b","kubelet":"1.36.2"}', "input"),
    (json.dumps(CASE | {"kubelet": "1.12.0"}), "1.19 to 1.37"),
    (json.dumps(CASE | {"input": CASE["input"] | {"novel": 1}}), "novel"),  # type: ignore[operator]  # input is a dict
    (json.dumps(CASE | {"input": CASE["input"] | {"numaNodes": "x"}}), "numaNodes"),  # type: ignore[operator]  # as above
    (b'{"id":"\xff\xfe","kubelet":"1.36.2","input":{}}', "UTF-8"),
    ('{"id":"b","kubelet":"1.36.2","input":' + "[" * 100_000 + "}", "line 2"),
)


@pytest.mark.parametrize(("line", "says"), BAD, ids=lambda value: str(value)[:30])
def test_a_bad_line_is_named(line: str | bytes, says: str) -> None:
    """File, line and field; what stood before it is answered; exit code 3."""
    result = run("decide", "topologymerge", GOOD, line, GOOD, exits=3)
    assert outcomes(result) == ["a"]
    assert "standard input:2" in result.stderr
    assert says.removeprefix("line 2") in result.stderr


@pytest.mark.parametrize(("line", "says"), BAD, ids=lambda value: str(value)[:30])
def test_keep_going_answers_the_others(line: str | bytes, says: str) -> None:
    """And still ends with exit code 3."""
    result = run("decide", "topologymerge", GOOD, line, GOOD, keep_going=True, exits=3)
    assert outcomes(result) == ["a", "a"]


def test_an_unknown_subsystem_is_a_usage_error() -> None:
    result = run("decide", "scheduler", GOOD, exits=2)
    assert all(name in result.stderr for name in SUBSYSTEMS)


def test_a_file_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(GOOD + "\n" + GOOD)
    assert outcomes(nodes.run("decide", "topologymerge", path)) == ["a", "a"]
    path.write_text(GOOD + "\n{")
    result = nodes.run("decide", "topologymerge", path)
    assert "cases.jsonl:2" in result.stderr
