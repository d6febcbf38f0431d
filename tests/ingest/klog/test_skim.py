"""Lines that are passed over by look-ups count as if each had been read alone."""

import random

import pytest

from kubeledger.ingest.klog import reader as klog
from kubeledger.ingest.messages.noise import NOISE as KNOWN_NOISE
from tests.ingest.klog.test_reader import HEAD, NOISE, OLD_PROBE, PROBE, UNKNOWN, Log

SECOND = "1121 02:52:{:02d}.{:06d}    8337 "
CALLS = (
    'labels.go:5] "Label not found" label="x"',
    'labels.go:5] "Label not found" label="y" and="more"',
    "labels.go:5]",
    'labels.go:5] "Label not fou',
    'labels.go:5] "Label not found\\" it says" label="x"',
    'prober.go:107] "Probe failed" probeType="Liveness" pod="ns/a" output="no"',
    'prober.go:107] "Probe failed twice" pod="ns/a"',
    'prober.go:117] Liveness probe for "a_ns(u):c" failed (failure): no',
    "prober.go:117] ",
    "prober.go:117] Never heard of it, whatever it is",
    'kubelet.go:9] "Never heard of" pod="ns/a"',
    "no header at all",
)


def log_of(seed: int, lines: int) -> str:
    """Lines of all kinds; most in order, some late, equal or twice."""
    chance = random.Random(seed)
    text: list[str] = []
    at = 0
    for _ in range(lines):
        at += chance.choice((0, 1, 1, 1, 900, -700))
        line = SECOND.format(10 + max(0, at) // 1_000_000, max(1, at) % 1_000_000)
        text.append(chance.choice("IIIIWE") + line + chance.choice(CALLS))
        if chance.random() < 0.02:
            text.append(text[-1])
    return "\n".join(text) + "\n"


@pytest.mark.parametrize("seed", range(20))
def test_steps_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line nothing was learned that helps; in long steps nearly all is."""
    text = log_of(seed, 400)

    def whole(raw: bytes) -> list[bytes]:
        return [raw, raw[:0], raw[len(raw) :]]

    read = Log(text, whole)
    with monkeypatch.context() as patch:
        patch.setattr(klog, "_STEP", 1)
        patch.setattr("kubeledger.ingest.klog.router.Skim.learn", lambda *_: None)
        alone = Log(text, whole)
    assert read.counts == alone.counts
    assert read.lines == alone.lines
    assert read.shapes == alone.shapes


FILE = min(KNOWN_NOISE.files)


@pytest.mark.parametrize(
    "cut",
    [
        f"I{HEAD} {FILE}:5]",
        f'I{HEAD} labels.go:5] "Label not foundX',
        f'I{HEAD} labels.go:5] "Label not fou',
        f"I{HEAD} labels.go:5]",
        "x" * 60,
    ],
)
def test_a_cut_line_teaches_nothing(cut: str) -> None:
    """What follows lines without an end of caller or message is still looked at."""
    later = [UNKNOWN, PROBE, OLD_PROBE, NOISE]
    lines = [NOISE, f"I{HEAD} {FILE}:5] Any", cut, cut, *later, *later]
    text = "\n".join(
        line.replace("02:52:41.296376", f"02:52:41.{300_000 + place:06d}")
        for place, line in enumerate(lines)
    )
    log = Log(text + "\n", lambda raw: raw.splitlines(keepends=True))
    assert len(log.lines) == 4
    assert len(log.shapes["kubelet.go Never heard of"]) == 2
    assert log.counts[0] == len(lines)
