"""``kubeledger audit SOURCE...``: checkpoints and cgroups besides the chain."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubeledger.cli.main import cli
from tests.recordings import extract


def run(*arguments: str | Path) -> Result:
    """One command."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node-b's files without its long log: its settings, pods and one snapshot."""
    directory = extract("node-b", tmp_path_factory.mktemp("audit"))
    log = directory / "kubelet.log"
    with log.open() as file:
        head = [line for _, line in zip(range(400), file, strict=False)]
    log.write_text("".join(head))
    for snapshot in sorted(directory.glob("snapshots/*"))[2:]:
        shutil.rmtree(snapshot)
    return directory


@pytest.fixture
def node(files: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(files, tmp_path / files.name))


def test_sound_files(node: Path) -> None:
    """What was looked at is counted, so that nothing looked at is no silent success."""
    result = run("audit", node)
    assert result.exit_code == 0, result.output
    assert re.search(r"^[1-9]\d* checkpoints", result.stdout, re.M)
    assert re.search(r"^[1-9]\d* cgroups", result.stdout, re.M)
    assert result.stdout.endswith("sound\n")


def test_a_cgroup_that_is_not_what_the_pod_asks_for(node: Path) -> None:
    """Named with file, value found and value expected; exit code 1."""
    cgroups = sorted(node.glob("snapshots/*/cgroupfs.txt"))[-1]
    text = cgroups.read_text()
    changed = re.sub(
        r"(?m)^(cpu/kubepods/besteffort/pod\w+/cpu.shares) 2$", r"\1 77", text, count=1
    )
    assert changed != text
    cgroups.write_text(changed)
    result = run("audit", node)
    assert result.exit_code == 1, result.output
    assert "is 77, not " in result.stdout
    document = json.loads(run("audit", node, "-o", "json").stdout)
    (drift,) = document["drifts"]
    assert drift["found"] == 77
    assert "cgroupfs.txt:" in drift["place"]
    ledger = node.parent / "l"
    run("import", node, "--ledger", ledger)
    assert run("audit", "--ledger", ledger).exit_code == 1
    assert run("audit", "--ledger", ledger, "--chain-only").exit_code == 0
    assert run("audit", ledger).exit_code == 1


def test_a_checkpoint_whose_checksum_does_not_fit(node: Path) -> None:
    """One digit of a device's name is enough."""
    checkpoint = sorted(node.glob("snapshots/*/kubelet_internal_checkpoint"))[-1]
    checkpoint.write_text(checkpoint.read_text().replace('"gpu-0"', '"gpu-9"', 1))
    result = run("audit", node)
    assert result.exit_code == 1, result.output
    assert re.search(r"kubelet_internal_checkpoint.*does not fit its content", result.stdout)
    (bad,) = json.loads(run("audit", node, "-o", "json").stdout)["bad_checkpoints"]
    assert "kubelet_internal_checkpoint" in bad["place"]


def test_a_recording(node: Path, tmp_path: Path) -> None:
    """Its chain is proved by reading it; a damaged one is bad input."""
    ledger, recording = tmp_path / "l", tmp_path / "r.ledger.jsonl"
    run("import", node, "--ledger", ledger)
    run("export", "--ledger", ledger, "--out", recording)
    assert run("audit", recording).exit_code == 0
    assert run("audit", ledger, recording).stdout.count("digest") == 1
    recording.write_bytes(recording.read_bytes().replace(b'"seq":7,', b'"seq":8,', 1))
    assert run("audit", recording).exit_code == 3


def test_expecting_a_digest_of_one_of_several(node: Path, tmp_path: Path) -> None:
    """Any of the ledgers named may hold it; a node that is not there is a finding, no error."""
    ledger = tmp_path / "l"
    run("import", node, "--ledger", ledger)
    (digest,) = re.findall(r"digest (\S+)", run("audit", ledger, "--chain-only").stdout)
    assert run("audit", ledger, node, "--expect", digest).exit_code == 0
    assert run("audit", ledger, "--expect", "abcdef" + digest[6:]).exit_code == 1
