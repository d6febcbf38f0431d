"""The golden recordings: what must hold holds, and each lie is found where it is."""

import json
from pathlib import Path

import pytest

from kubeledger.analyze.histories.history import histories_of_recording
from kubeledger.testing.golden import differences, rewrite, verify_file
from kubeledger.verify import Finding
from tests.recordings import RECORDINGS
from tests.testing.goldens.files import EXPECTED, files

pytest_plugins = ["pytester"]

GOLDEN = RECORDINGS / "golden"
NAMES = sorted(path.name for path in GOLDEN.glob("*.ledger.jsonl"))
TABLE = json.loads((GOLDEN / EXPECTED).read_text())


def findings(path: Path) -> list[Finding]:
    return [finding for found in verify_file(path).values() for finding in found]


def test_they_are_what_makes_them() -> None:
    """``just golden`` gives the same bytes, and no file is left over."""
    made = files()
    there = {
        str(path.relative_to(GOLDEN)): path.read_bytes()
        for path in GOLDEN.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert sorted(there) == sorted(made)
    assert [name for name, data in made.items() if there[name] != data] == []


def test_every_subsystem_is_there() -> None:
    """One behaviour each at least, by old rules and by new ones."""
    subsystems = {name.partition("-")[0] for name in NAMES}
    assert subsystems == {
        "admission", "cgroups", "devices", "images", "node", "preemption", "prober", "restarts",
        "topology",
    }  # fmt: skip
    assert sorted(TABLE) == NAMES
    assert sorted(path.name for path in (GOLDEN / "mutated").glob("*.ledger.jsonl")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_holds(name: str) -> None:
    """Nothing is impossible or contradicted; of what the lie is about a verdict is given."""
    (history,) = histories_of_recording(GOLDEN / name)
    outcomes = list(history.verify())
    found = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    assert found == outcomes
    assert differences(found) == []
    about = next(finding for finding in found if finding.seq == TABLE[name]["seq"])
    assert about.verdict in ("match", "admissible")
    unverified = [finding for finding in found if finding.verdict == "unverifiable"]
    assert len(unverified) <= len(found) // 10


@pytest.mark.parametrize("name", NAMES)
def test_its_lie_is_found(name: str) -> None:
    """Exactly the decision that the table names is impossible."""
    (history,) = histories_of_recording(GOLDEN / "mutated" / name)
    wrong = differences(f for f in history.verify() if isinstance(f, Finding))
    assert [{"node": history.node, "seq": f.seq, "kind": f.kind} for f in wrong] == [TABLE[name]]
    assert wrong[0].why


def test_an_update_takes_the_lie_back(tmp_path: Path) -> None:
    """A decision that was changed is decided again, and the file holds."""
    for name in ("topology-restricted-container-aligned", "restarts-back-off-1.36.2"):
        path = tmp_path / f"{name}.ledger.jsonl"
        path.write_bytes((GOLDEN / "mutated" / path.name).read_bytes())
        assert rewrite(path) == 1
        assert path.read_bytes() == (GOLDEN / path.name).read_bytes()


@pytest.mark.slow
def test_with_the_plugin(pytester: pytest.Pytester) -> None:
    """As its README says; in several processes, too."""
    result = pytester.runpytest_subprocess(f"--kubeledger={GOLDEN}", "-n", "2", "-q")
    assert result.ret == 0
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] > len(NAMES)
    wrong = GOLDEN / "mutated" / "images-pinned-1.36.2.ledger.jsonl"
    result = pytester.runpytest_subprocess(f"--kubeledger={wrong}")
    result.assert_outcomes(failed=1, passed=result.parseoutcomes()["passed"])
    seq = TABLE[wrong.name]["seq"]
    result.stdout.fnmatch_lines([f"record {seq} at *: images.ImageDeleted image/b"])
