"""``kubeledger show``."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run


def test_json(ask: Run) -> None:
    """The record whole, with its evidence and its chain in both directions."""
    result = ask("show", "20", "-o", "json", exits=0)
    shown = json.loads(result.stdout)
    assert shown["seq"] == 20
    assert shown["ts_ns"] == 1_795_230_020_123_456_789
    assert shown["kind"] == "lifecycle.ContainerKilled"
    assert shown["body"]["reason"] == "liveness_probe"
    assert shown["evidence"] == [
        {"source_file": "kubelet.log", "source_line": 20, "byte_offset": 2000, "text": "line 20"}
    ]
    assert [cause["seq"] for cause in shown["causes"]] == [19, 18]
    assert [effect["seq"] for effect in shown["effects"]] == [21, 23]


def test_jsonl_is_one_line(ask: Run) -> None:
    line = ask("show", "20", "-o", "jsonl").stdout
    assert line.count("\n") == 1
    assert json.loads(line) == json.loads(ask("show", "20", "-o", "json").stdout)


def test_text(ask: Run) -> None:
    """For people: what, when, where it stands, what led to it and what came of it."""
    text = ask("show", "19").stdout
    for part in (
        "record 19 of node-a: decision prober.ProbeTransitioned v1",
        "2026-11-21T03:00:19.123456789Z (1795230019123456789)",
        "default/web/app: liveness success -> failure",
        "evidence 1: kubelet.log, line 19, byte 1900",
        "caused by\n          18",
        "led to\n          20",
    ):
        assert part in text


def test_text_is_safe_to_show(ask: Run) -> None:
    assert "\x1b" not in ask("show", "18").stdout


@pytest.mark.parametrize("args", [("99",), ("0",), ("x",), ("1", "--node", "nope")])
def test_bad_questions(ask: Run, args: tuple[str, ...]) -> None:
    result = ask("show", *args, exits=2)
    assert result.stdout == ""
