"""Answers as they are printed: whole ones pinned in golden files, all within one screen.

``python -m tests.analyze.why.test_answers`` writes the golden files anew.
"""

import re
from functools import cache
from pathlib import Path

import click
import pytest

from kubeledger.analyze.histories.history import History, history_of_reader
from kubeledger.analyze.why import Answer, explain, explain_node, find_target
from kubeledger.analyze.why.names import known_names
from kubeledger.analyze.why.pieces import HEADLINE_MAX
from kubeledger.cli.why import short_text
from kubeledger.verify import Outcome, Reader
from tests.marks import nightly, slow
from tests.verify.histories import outcomes, reader, recorded

GOLDEN = Path(__file__).parents[2] / "data" / "why"
RECORDINGS = ("node-a", "node-b", "node-e-evictions", "node-e-oom")
_CITES = re.compile(r"^  .* \[\d+\]$|^ +\[\d+\]$")
QUESTIONS = (
    ("node-a", "gpu-a"),
    ("node-a", "gpu-c"),
    ("node-a", "too-big"),
    ("node-a", "live-fail/app"),
    ("node-a", "ready-flap/app"),
    ("node-a", "startup-slow"),
    ("node-a", "gpu-0"),
    ("node-a", "unused-3"),
    ("node-a", "kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b"),
    ("node-a", "node"),
    ("node-b", "ready-flap"),
    ("node-b", "startup-never/app"),
    ("node-e-evictions", "crashy"),
    ("node-e-evictions", "disk-limit"),
    ("node-e-evictions", "probe-grpc"),
    ("node-e-oom", "oom-loop-2/app"),
)


@cache
def history(name: str) -> History:
    records = recorded(name)
    return history_of_reader(records[0].node, name, reader(records))


@cache
def verified(name: str) -> list[Outcome]:
    return outcomes(recorded(name))


@pytest.fixture(autouse=True)
def verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is decided again once, not once for each question."""
    monkeypatch.setattr(History, "verify", lambda self, **_: verified(_name_of(self.read)))


def _name_of(read: Reader) -> str:
    return next(name for name in RECORDINGS if history(name).read is read)


def answer(name: str, typed: str) -> Answer:
    target = find_target(typed, [history(name)])
    ask = explain_node if target.kind == "node" else explain
    found = ask(history(name), target, upto_ts_ns=None)
    assert found is not None
    return found


def printed(name: str, typed: str) -> str:
    """As on a screen of 80 columns and 24 lines."""
    lines = [click.unstyle(line) for line in short_text(answer(name, typed), 80, 23)]
    return "\n".join([f"$ kubeledger why {typed}", *lines, ""])


def golden(name: str, typed: str) -> Path:
    return GOLDEN / f"{name}-{typed.replace('/', '-')}.txt"


@pytest.mark.parametrize(("name", "typed"), QUESTIONS)
def test_golden(name: str, typed: str) -> None:
    assert printed(name, typed) == golden(name, typed).read_text()


@pytest.mark.parametrize(
    "name", [*slow("node-a", "node-b", "node-e-oom"), *nightly("node-e-evictions")]
)
def test_every_answer_fits_a_screen(name: str) -> None:
    """Of all pods and containers that a recording knows, on narrow and wide screens."""
    known = known_names(history(name))
    targets = [f"pod/{'/'.join(pod)}" for pod in known.pods]
    targets += [
        f"container/{'/'.join(pod)}/{container}"
        for pod, containers in known.containers.items()
        for container in containers
    ]
    answered = 0
    for target in targets:
        found = explain(history(name), find_target(target, [history(name)]))
        if found is None:
            continue
        answered += 1
        assert 0 < len(found.headline) <= HEADLINE_MAX, target
        assert found.headline.endswith((".", "…")), target
        assert [s.ts_ns for s in found.steps] == sorted(s.ts_ns for s in found.steps), target
        for width, height in ((80, 23), (40, 23), (200, 50)):
            lines = [click.unstyle(line) for line in short_text(found, width, height)]
            assert len(lines) <= height, (target, width)
            assert max(map(len, lines)) <= width, (target, max(lines, key=len))
            assert lines[-1].startswith("Verdict") or type(found) is Answer, target
            cited = {int(line.rpartition("[")[2][:-1]) for line in lines if _CITES.search(line)}
            assert cited <= {piece.number for piece in found.evidence}
            shown = {int(line[1:].partition("]")[0]) for line in lines if line[:1] == "["}
            assert cited <= shown or any("more with --full):" in line for line in lines)
    assert answered > len(known.pods) // 2


def _rewrite() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "verify", lambda self, **_: verified(_name_of(self.read)))
        GOLDEN.mkdir(exist_ok=True)
        for name, typed in QUESTIONS:
            golden(name, typed).write_text(printed(name, typed))


if __name__ == "__main__":
    _rewrite()
