"""The GC loop's failures, and when it does not run."""

from __future__ import annotations

import pytest

from kubeledger.kubelet.images.loop import GCLoop, LoopReport, loop_disabled
from kubeledger.kubelet.kube.gotexts import sprintf_without_arguments
from kubeledger.kubelet.profile.resolve import resolve

ONCE = LoopReport(
    "Image garbage collection failed once. Stats initialization may not have completed yet", None
)


def test_only_a_second_failure_in_a_row_sends_an_event() -> None:
    """A success in between starts anew, and is itself more visible after a failure."""
    loop, facts = GCLoop(), resolve("1.28.0").images
    passes = ["no stats", "", "", "x", "y", "z"]
    reports = [loop.after_pass(error, facts) for error in passes]
    assert reports[0] == reports[3] == ONCE
    assert [report.verbosity for report in reports[1:3]] == [1, 4]
    assert [report.event for report in reports] == [
        "", "", "", "", "Warning ImageGCFailed y", "Warning ImageGCFailed z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "event"),
    [
        ("1.34.0", "Warning ImageGCFailed disk 90%!o(MISSING)f 5 full"),
        ("1.35.0", "Warning ImageGCFailed disk 90% of 5 full"),
    ],
)
def test_a_percent_sign_in_the_event(version: str, event: str) -> None:
    """Until 1.34 the text is a format."""
    loop = GCLoop(previous_failed=True)
    report = loop.after_pass("disk 90% of 5 full", resolve(version).images)
    assert report.event == event


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("100%%", "100%"),
        ("100%", "100%!(NOVERB)"),
        ("%d and %+6.2f", "%!d(MISSING) and %!f(MISSING)"),
        ("5%)", "5%!)(MISSING)"),
    ],
)
def test_sprintf_without_arguments(text: str, written: str) -> None:
    """As Go's fmt."""
    assert sprintf_without_arguments(text) == written


OLD = "ImageGCHighThresholdPercent is set 100, Disable image GC"
NEW = "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC"


@pytest.mark.parametrize(
    ("version", "high", "max_age_ns", "message"),
    [
        ("1.20.2", 99, 0, ""),
        ("1.20.2", 100, 0, OLD),
        ("1.29.0", 100, 5, OLD),
        ("1.30.0", 100, 0, NEW),
        ("1.30.0", 100, 5, ""),
        ("1.36.2", 100, 0, NEW),
    ],
)
def test_a_threshold_of_100(version: str, high: int, max_age_ns: int, message: str) -> None:
    """It stops the loop, unless images can still go for their age."""
    assert loop_disabled(high, max_age_ns, resolve(version).images) == message
