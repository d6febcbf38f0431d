"""Degraded truth is never impossible, and no two of its sources contradict each other.

A case that fails is shown with ``python -m tests.verify.properties --case CASE [--shrink]``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.marks import nightly, slow
from tests.recordings import RECORDINGS
from tests.verify.properties.bundles import BUNDLES, NODES, imported
from tests.verify.properties.losses import LOSSES
from tests.verify.properties.measure import Case, judged, kind_of
from tests.verify.properties.pastes import pastes
from tests.verify.properties.probes_reimported import probes_reimported
from tests.verify.properties.truths import SCENARIOS, named, truths

DAILY = 5
"""Simulated histories for each way to lose evidence."""


def wrong(case: Case) -> list[str]:
    """What is impossible or contradicts, and is not where nothing is lost: kubelets have bugs."""
    found, of_kubelet = judged(case.records()).wrong, set[tuple[str, str]]()
    if found and case.how != "whole" and not case.truth.startswith("files/"):
        whole = judged(named(case.truth).records).wrong
        of_kubelet = {(kind_of(outcome), outcome.subject) for outcome in whole}
    return [
        f"{case}: {kind_of(outcome)} {outcome.subject}: {outcome.why}"
        for outcome in found
        if (kind_of(outcome), outcome.subject) not in of_kubelet
    ]


@pytest.mark.parametrize("how", LOSSES)
def test_lost_records(how: str) -> None:
    """Simulated nodes, of which evidence is lost."""
    cases = [Case(truth.name, how, 1) for truth in truths(1, DAILY)]
    assert [text for case in cases for text in wrong(case)] == []


names = st.one_of(
    st.integers(0, 400).map(lambda number: f"random/{number}"),
    st.builds(lambda name, seed: f"scenario/{name}/{seed}", st.sampled_from(SCENARIOS),
              st.integers(0, 20)),
)  # fmt: skip
cases = st.builds(Case, names, st.sampled_from(sorted(LOSSES)), st.integers(0, 1000))
drawn = settings(suppress_health_check=list(HealthCheck))


@settings(drawn, max_examples=20)
@given(case=cases)
@example(case=Case("random/13", "container", 0))
@example(case=Case("scenario/oom/14", "container", 0))
@example(case=Case("random/4119", "whole", 0))
@example(case=Case("random/29946", "start", 3799))
@example(case=Case("random/10649", "whole", 0))
@example(case=Case("random/72395", "whole", 0))
@example(case=Case("random/16267", "line", 8628))
@example(case=Case("random/51575", "drop1", 9263))
@example(case=Case("random/55989", "pod", 6811))
@example(case=Case("random/942498", "pod", 37977))
@example(case=Case("random/9218", "head", 9837))
@example(case=Case("random/20067", "head", 9107))
@example(case=Case("random/25689", "not-kinds", 9837))
@example(case=Case("random/84464", "line", 4287))
@example(case=Case("random/427491", "line", 96060))
@example(case=Case("random/459745", "line", 72538))
@example(case=Case("random/861918", "line", 78425))
@example(case=Case("scenario/node-b/2684", "line", 36175))
@example(case=Case("random/4964", "whole", 0))
@example(case=Case("random/24551", "whole", 0))
@example(case=Case("random/339358", "whole", 0))
@example(case=Case("random/567598", "whole", 0))
@example(case=Case("random/804887", "whole", 0))
@example(case=Case("random/526883", "drop1", 11258))
@example(case=Case("random/601736", "head", 65991))
@example(case=Case("random/246604", "line", 2827))
@example(case=Case("random/832563", "whole", 0))
@example(case=Case("random/696381", "container", 80227))
@example(case=Case("scenario/node-a/2060", "line", 93126))
@example(case=Case("random/451160", "line", 79202))
@example(case=Case("random/434438", "pod", 559))
@example(case=Case("random/821168", "whole", 0))
@example(case=Case("random/281575", "head", 21784))
@example(case=Case("random/524460", "drop30", 50595))
@example(case=Case("random/666663", "no-statuses", 0))
def test_any_loss_of_records(case: Case) -> None:
    """Drawn, so that a case that fails is one of the simplest."""
    assert wrong(case) == []


@pytest.mark.nightly
@settings(drawn, max_examples=2500)
@given(case=cases.filter(lambda case: case.how != "whole"))
def test_many_losses_of_records(case: Case) -> None:
    """Many more."""
    assert wrong(case) == []


def _files(nodes: tuple[str, ...], ways: tuple[str, ...], seed: int) -> list[Case]:
    return [Case(f"files/{node}", way, seed) for node in nodes for way in ways]


_DECIDED = {
    ("node-a", "drop1"): 93,
    ("node-a", "drop10"): 82,
    ("node-a", "torn"): 85,
    ("node-b", "drop1"): 86,
    ("node-b", "drop10"): 75,
    ("node-b", "torn"): 72,
    ("node-e-oom", "whole"): 42,
    ("node-e-oom", "cut200"): 38,
    ("node-e-oom", "torn"): 32,
}
"""(recording, way) -> percentage of its decisions that is decided, at least."""

_ALL = tuple(sorted(BUNDLES))
_PASTED = {name for name, _ in pastes(BUNDLES["v2"])}
_DAILY = ("whole", "cut200", "torn", "drop10", "grep", "masked-uids", "short-ids", "json")
_SOME = ("drop1", "drop10", "head", "torn", "v2", "other-settings", "sorted", "not-files", "grep")


@pytest.mark.parametrize(
    "case",
    [
        *_files(("node-e-oom",), _DAILY, 0),
        *slow(
            *_files(("node-e-oom",), tuple(sorted({*_ALL} - {*_DAILY} - _PASTED)), 0),
            *_files(("node-e-oom",), ("renamed-containers", "statuses-alone"), 70),
            *_files(("node-e-evictions",), ("specs-alone",), 70),
            *_files(("node-b",), ("wrapped", "export"), 70),
            *_files(("node-a", "node-e-evictions"), ("indented", "blanks-within"), 1),
            Case("files/node-a", "words-within", 1200),
            Case("files/node-e-evictions", "half-copies", 1200),
            Case("files/node-e-evictions", "dealt", 1),
            *_files(("node-e-evictions",), ("remote", "by-caller", "half-copies"), 70),
            *_files(("node-a",), _SOME, 1),
            *_files(("node-b",), ("drop1", "drop10", "torn", "v2"), 1),
            *_files(("node-a", "node-b"), ("one-of-equal", "one-of-equal-each-minute"), 0),
            *_files(("node-a",), ("few-of-a-call",), 0),
            *_files(("node-e-evictions",), ("turned-milliseconds", "one-of-equal-each-second"), 0),
            *_files(("node-e-evictions",), ("lists-of-the-round-before",), 0),
            *_files(("node-a",), ("a-file-a-pod",), 0),
            *_files(("node-b",), ("turned-milliseconds", "another-clock", "wrapped-messages"), 0),
            Case("files/node-e-evictions", "drop1", 40),
            Case("files/node-e-evictions", "not-files", 31),
            Case("files/node-e-evictions", "winter", 0),
            Case("files/node-b", "shipped", 5),
            Case("files/node-b", "shipped", 6),
            Case("files/node-b", "hole", 7),
            Case("files/node-b", "next-day", 0),
            Case("files/node-e-oom", "hole", 31),
            Case("files/node-e-oom", "files-few-lists", 6),
            Case("files/node-e-oom", "other-settings", 1),
            Case("files/node-e-oom", "relists", 5),
            Case("files/node-e-oom", "rotated", 31),
            Case("files/node-e-oom", "summer", 920),
            Case("files/node-f", "boots", 4),
            Case("files/node-f", "clock-90", 40),
            Case("files/node-f", "relists", 6),
        ),
        *nightly(
            *_files(("node-f",), ("drop10", "start", "clock+90", "snapshots", "summer"), 0),
            *_files(("node-f",), ("tail", "severity", "clock+90"), 31),
        ),
    ],
    ids=lambda case: f"{case.truth.partition('/')[2]} {case.how} {case.seed}",
)
def test_lost_files_and_lines(case: Case) -> None:
    """Recorded nodes whose files were degraded before the import; much is decided yet."""
    found = judged(case.records())
    assert [f"{case}: {kind_of(outcome)}: {outcome.why}" for outcome in found.wrong] == []
    least = _DECIDED.get((case.truth.partition("/")[2], case.how), 0)
    assert found.decided.total() * 100 >= least * found.decisions.total()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.parametrize("how", _ALL)
@pytest.mark.parametrize("node", [node for node in NODES if node != "node-e-evictions"])
def test_many_lost_files_and_lines(node: str, how: str, seed: int) -> None:
    """All ways, on all nodes."""
    assert wrong(Case(f"files/{node}", how, seed)) == []


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("node-e-evictions",), id="one"),
        pytest.param(("node-e-evictions", "node-e-oom"), id="two", marks=pytest.mark.nightly),
    ],
)
def test_recordings_together(names: tuple[str, ...], tmp_path: Path) -> None:
    """Two excerpts of one node's log, imported at once; and one alone."""
    found = judged(imported([RECORDINGS / f"{name}.tar.zst" for name in names]))
    assert found.decisions.total() > 400
    assert [outcome.why for outcome in found.wrong] == []


def test_where_nothing_is_lost_probes_are_told_as_they_are() -> None:
    """The worker that tells them anew, where lines are lost, gives what the simulator gave."""
    for number in range(1, 40, 2):
        records = list(named(f"random/{number}").records)
        seqs = {record.seq for record in records}
        assert probes_reimported(records, seqs) == records
