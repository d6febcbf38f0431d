"""What is remembered of a pod: what says nothing of later times goes."""

from __future__ import annotations

import random

from kubeledger.verify.evidence.gather import still_asked
from kubeledger.verify.evidence.history_entries import HistoryEntry

_RUNS = 40
_BEFORE = _RUNS * 10 - 5
"""In the last run of the container."""


def _crash_loop() -> list[HistoryEntry]:
    """Added, then a container that starts and dies again and again, with an update each time."""
    entries = [HistoryEntry(0, 1, "add")]
    for run in range(_RUNS):
        at, name = run * 10 + 1, f"c{run}"
        entries += [
            HistoryEntry(at, at, "started", container="app", container_id=name),
            HistoryEntry(at + 1, at + 1, "update"),
            HistoryEntry(at + 2, at + 2, "died", container_id=name),
        ]
    return entries


def test_runs_between_the_first_and_the_last_go() -> None:
    entries = _crash_loop()
    random.Random(7).shuffle(entries)
    kept = sorted(entry.ts_ns for entry in still_asked(entries, _BEFORE))
    last = (_RUNS - 1) * 10 + 1
    assert kept == [0, 1, 2, 3, last, last + 1, last + 2]


def test_what_is_asked_for_stays() -> None:
    """All of a later time, however much, and whatever ends the pod."""
    entries = [*_crash_loop(), HistoryEntry(200, 500, "killed", "evicted", "app", "c5")]
    assert still_asked(entries, 0) == entries
    kept = still_asked(entries, _BEFORE)
    assert [entry.word for entry in kept if entry.what == "killed"] == ["evicted"]


def test_to_forget_again_changes_nothing() -> None:
    once = still_asked(_crash_loop(), _BEFORE)
    assert set(still_asked(once, _BEFORE)) == set(once)
