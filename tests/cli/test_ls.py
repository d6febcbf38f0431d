"""``kubeledger ls``."""

import json

import pytest

from tests.analyze.sql.fixture_ledger import RECORDS
from tests.cli.conftest import Run


def seqs(ask: Run, *args: str) -> list[int]:
    result = ask("ls", *args, "-o", "jsonl", exits=0)
    return [json.loads(line)["seq"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--limit", "3"), [1, 2, 3]),
        (("--limit", "0"), []),
        (("--kind", "preemption.*"), [39, 41]),
        (("--kind", "PodAdmitted", "--kind", "PodRejected"), [5, 12, 37]),
        (("--pod", "default/train"), [5, 6, 9, 10]),
        (("--container", "main", "--pod", "serve"), [7, 8]),
        (("--since", "2026-11-21T03:00:45Z"), list(range(45, RECORDS + 1))),
        (("--until", "2026-11-21T04:00:02+01:00"), [1]),
        (("--since", "now"), list(range(46, RECORDS + 1))),
    ],
)
def test_filters(
    ask: Run, args: tuple[str, ...], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_795_230_046_000_000_000)
    assert seqs(ask, *args) == expected


def test_line(ask: Run) -> None:
    result = ask("ls", "--kind", "PodPreempted", "-o", "json")
    assert json.loads(result.stdout) == [
        {
            "node": "node-a",
            "seq": 39,
            "ts": "2026-11-21T03:00:39.123456789Z",
            "role": "decision",
            "kind": "preemption.PodPreempted",
            "subject": "default/serve",
            "summary": "preempted for kube-system/critical",
        }
    ]


def test_table_is_safe_to_show(ask: Run) -> None:
    result = ask("ls", "--kind", "ProbeExecuted", "-o", "wide")
    assert "\x1b" not in result.stdout
    assert r"liveness failure: \x1b[31mcat: no such file" in result.stdout


def test_the_narrow_form_fits_a_screen(ask: Run) -> None:
    """Without what all records share: the node, and the day, which is the head of the times."""
    lines = ask("ls").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["2026-11-21"]
    assert lines[1].split() == ["seq", "UTC", "kind", "subject", "summary"]
    assert lines[3].split()[:3] == ["1", "03:00:01.123", "KubeletStarted"]
    assert ask("ls", "-o", "wide").stdout.splitlines()[2].startswith("node-a    1  2026-11-21T03")


def test_a_pod_that_is_not_there(ask: Run) -> None:
    """Exit code 0, and pods that may have been meant."""
    result = ask("ls", "--pod", "trai")
    assert (result.exit_code, result.stderr) == (
        0, "no matching records; is it pod default/train?\n"
    )  # fmt: skip
    result = ask("ls", "--pod", "zebra-crossing")
    assert result.stderr == "no matching records; `kubeledger ls` lists all\n"


# ``kubeledger show``.


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
