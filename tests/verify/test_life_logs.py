"""Logs of both nodes that were changed in one line, cut short, or have a hole.

What was changed is pointed at and nothing else; what is missing is no disagreement.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeledger.importers.histories import open_histories
from kubeledger.units import format_ts
from kubeledger.verify import Contradiction, Finding, Outcome
from tests.recordings import extract
from tests.verify.life_scenes import alone

__all__ = ["alone"]

Change = Callable[[list[str]], list[str]]
A, B = "node-a", "node-b"
NEVER = "container/default/startup-never-node-b/app"
FLAP_A, FLAP_B = "container/default/ready-flap/app", "container/default/ready-flap-node-b/app"
FAIL_A, FAIL_B = "container/default/live-fail/app", "container/default/live-fail-node-b/app"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Node -> its files."""
    return {node: extract(node, tmp_path_factory.mktemp(node)) for node in (A, B)}


def judged(original: Path, directory: Path, change: Change) -> list[Outcome]:
    """Verify a copy of a node's files with another log."""
    copy = directory / original.name
    shutil.copytree(original, copy, copy_function=os.link)
    log = copy / "kubelet.log"
    lines = change(log.read_text().split("\n"))
    log.unlink()  # it is a link to the original
    log.write_text("\n".join(lines))
    with open_histories([str(copy)]) as histories:
        return [outcome for history in histories for outcome in history.verify()]


def impossible(outcomes: list[Outcome]) -> list[tuple[str, str]]:
    """Subject and time of what cannot have been."""
    found = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    return [
        (each.subject, format_ts(each.ts_ns)[11:19])
        for each in found
        if each.verdict == "impossible"
    ]


def disputed(outcomes: list[Outcome]) -> list[tuple[str, str]]:
    """Subject of each contradiction, and the time that its sentence names."""
    found = [outcome for outcome in outcomes if isinstance(outcome, Contradiction)]
    return [(each.subject, each.why.partition("2026-11-21T")[2][:8]) for each in found]


def says(clock: str, old: str, new: str) -> Change:
    """Other words in the line of that time."""

    def change(lines: list[str]) -> list[str]:
        (at,) = (n for n, line in enumerate(lines) if f" {clock} " in line and old in line)
        lines[at] = lines[at].replace(old, new, 1)
        return lines

    return change


def loses(clock: str, words: str) -> Change:
    """One line less."""

    def change(lines: list[str]) -> list[str]:
        (at,) = (n for n, line in enumerate(lines) if f" {clock} " in line and words in line)
        return lines[:at] + lines[at + 1 :]

    return change


def silent(*spans: tuple[str, str]) -> Change:
    """No line of between these times of day."""

    def change(lines: list[str]) -> list[str]:
        kept: list[str] = []
        clock = ""
        for line in lines:
            if line[1:5].isdigit() and line[:1] in "IWEF":
                clock = line[6:21]
            if not any(from_ <= clock < to for from_, to in spans):
                kept.append(line)
        return kept

    return change


NIGHTLY = pytest.mark.nightly
WRONG_TICK = ("Probe failed", "Probe succeeded")
TO_HTTP = ("default/live-fail-node-b", "default/http-probe-node-b")


@pytest.mark.parametrize(
    ("node", "change", "wrong", "disputes"),
    [
        pytest.param(
            B,
            says("03:07:12.282730", *WRONG_TICK),
            [],
            [(NEVER, "03:07:12")],
            id="startup tick",
        ),
        pytest.param(
            B, loses("03:07:37.765686", "ready"), [], [(FLAP_B, "03:07:37")], id="line of readiness"
        ),
        pytest.param(
            B,
            says("03:07:35.235415", "liveness", "startup"),
            [],
            [(FAIL_B, "03:07:35")],
            id="type in a line",
        ),
        pytest.param(
            B,
            says("03:07:35.235415", *TO_HTTP),
            [("container/default/http-probe-node-b/web", "03:07:35")],
            [(FAIL_B, "03:07:35")],
            id="pod in a line",
        ),
        pytest.param(
            A,
            loses("02:59:48.440398", "unhealthy"),
            [],
            [(FAIL_A, "02:59:48")],
            id="line of liveness",
        ),
        pytest.param(
            A,
            says("02:59:38.116413", "failed (failure)", "succeeded"),
            [],
            [(FLAP_A, "02:59:38")],
            id="readiness tick",
        ),
        pytest.param(
            B,
            says("03:07:22.275049", *WRONG_TICK),
            [],
            [(NEVER, "03:07:22")],
            id="another startup tick",
            marks=NIGHTLY,
        ),
        pytest.param(
            B,
            says("03:07:37.765686", '"ready"', '"not ready"'),
            [],
            [(FLAP_B, "03:07:37")],
            id="result in a line",
            marks=NIGHTLY,
        ),
    ],
)
def test_one_line(
    node: str,
    change: Change,
    wrong: list[tuple[str, str]],
    disputes: list[tuple[str, str]],
    unpacked: dict[str, Path],
    tmp_path: Path,
) -> None:
    """What follows a wrong line is judged as if it had been right."""
    outcomes = judged(unpacked[node], tmp_path, change)
    assert impossible(outcomes) == wrong
    assert disputed(outcomes) == disputes


@pytest.mark.parametrize(
    ("node", "change"),
    [
        pytest.param(A, silent(("02:57:42.08", "24")), id="short"),
        pytest.param(B, silent(("03:08:30", "03:11:04")), id="restarts in a hole"),
        pytest.param(B, silent(("", "03:07:43")), id="begins before a kill"),
        pytest.param(A, silent(("02:59:22.6", "03:03:27.7")), id="starts in a hole"),
        pytest.param(A, silent(("02:58:22.4", "03:01:44.1")), id="ticks", marks=NIGHTLY),
        pytest.param(A, silent(("", "03:00:32.1")), id="late", marks=NIGHTLY),
        pytest.param(A, silent(("03:00:32.1", "24")), id="cut", marks=NIGHTLY),
        pytest.param(A, silent(("", "02:57:42"), ("03:00:17.8", "24")), id="part", marks=NIGHTLY),
        pytest.param(B, silent(("03:07:30", "03:09:00")), id="kills", marks=NIGHTLY),
    ],
)
def test_missing_lines(
    node: str, change: Change, unpacked: dict[str, Path], tmp_path: Path
) -> None:
    """They contradict nobody."""
    outcomes = judged(unpacked[node], tmp_path, change)
    assert impossible(outcomes) == []
    assert disputed(outcomes) == []


def test_a_victim_under_another_name(unpacked: dict[str, Path], tmp_path: Path) -> None:
    """Its kill is judged by its own event."""
    right = 'pod="default/filler-a-node-b" podUID="e828783ceca46ef609cec4b9efa1e34e"'
    wrong = 'pod="default/filler-c-node-b" podUID="ae91782d3330967b545b64940a2d190f"'
    outcomes = judged(unpacked[B], tmp_path, says("03:07:53.253685", right, wrong))
    (kill,) = (
        outcome
        for outcome in outcomes
        if isinstance(outcome, Finding) and outcome.subject == "container/default/filler-a-node-b/c"
    )
    assert (kill.verdict, kill.recorded) == ("match", kill.expected)
    assert kill.why.startswith("the pod was preempted for a critical pod, as its event says")
    assert impossible(outcomes) == []
