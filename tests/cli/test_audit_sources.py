"""``kubeledger audit SOURCE...``: checkpoints and cgroups besides the chain."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.nodes import run
from tests.recordings import extract


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
    return Path(shutil.copytree(files, tmp_path / files.name))


def test_sound_files(node: Path) -> None:
    """What was looked at is counted, so that nothing looked at is no silent success."""
    result = run("audit", node, exits=0)
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
    result = run("audit", node, exits=1)
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


def test_a_chain_only_where_there_is_one(node: Path, tmp_path: Path) -> None:
    """What is neither a ledger nor a recording is refused, not sound; so beside one that is."""
    ledger, garbage = tmp_path / "l", tmp_path / "garbage"
    run("import", node, "--ledger", ledger)
    garbage.write_bytes(b"\x00garbage\n")
    for source in (tmp_path / "none", tmp_path, node, node / "kubelet.log", garbage, "-"):
        result = run("audit", "--chain-only", ledger, source)
        assert (result.exit_code, result.stdout) == (3, ""), source
        name = "standard input" if source == "-" else source
        why = (
            "no such file" if source == tmp_path / "none" else "is neither a ledger nor a recording"
        )
        assert f"error: {name}: {why}" in result.stderr
    assert run("audit", "--chain-only", ledger).exit_code == 0


def test_a_checkpoint_whose_checksum_does_not_fit(node: Path) -> None:
    checkpoint = sorted(node.glob("snapshots/*/kubelet_internal_checkpoint"))[-1]
    checkpoint.write_text(checkpoint.read_text().replace('"gpu-0"', '"gpu-9"', 1))
    result = run("audit", node, exits=1)
    assert re.search(r"kubelet_internal_checkpoint.*does not fit its content", result.stdout)
    (bad,) = json.loads(run("audit", node, "-o", "json").stdout)["bad_checkpoints"]
    assert "kubelet_internal_checkpoint" in bad["place"]


def test_a_recording(node: Path, tmp_path: Path) -> None:
    """As a ledger: the same digest, which a later audit accepts; plain and compressed."""
    ledger = tmp_path / "l"
    run("import", node, "--ledger", ledger)
    (digest,) = re.findall(r"digest (\S+)", run("audit", ledger, "--chain-only").stdout)
    for name in ("r.ledger.jsonl", "r.ledger.jsonl.zst"):
        recording = tmp_path / name
        run("export", "--ledger", ledger, "--out", recording)
        result = run("audit", recording, "--expect", digest, exits=0)
        assert f"digest {digest}\n" in result.stdout
        assert run("audit", recording, "--expect", "0" * 64).exit_code == 1
        (reported,) = json.loads(run("audit", recording, "-o", "json").stdout)["nodes"]
        assert (reported["source"], reported["head"]) == (str(recording), digest.partition("=")[2])
    assert run("audit", ledger, recording).stdout.count(f"digest {digest}") == 2


def test_a_cut_recording_is_not_what_was_noted(node: Path, tmp_path: Path) -> None:
    ledger, recording = tmp_path / "l", tmp_path / "r.ledger.jsonl"
    run("import", node, "--ledger", ledger)
    run("export", "--ledger", ledger, "--out", recording)
    (digest,) = re.findall(r"digest (\S+)", run("audit", recording, "--chain-only").stdout)
    lines = recording.read_bytes().splitlines(keepends=True)
    recording.write_bytes(b"".join(lines[:50]))
    assert run("audit", recording, "--chain-only").exit_code == 0
    assert run("audit", recording, "--chain-only", "--expect", digest).exit_code == 1


def test_a_damaged_recording(node: Path, tmp_path: Path) -> None:
    """All faults, each with file, offset, record and line; exit code 1, as a ledger's."""
    ledger, recording = tmp_path / "l", tmp_path / "r.ledger.jsonl"
    run("import", node, "--ledger", ledger)
    run("export", "--ledger", ledger, "--out", recording)
    lines = recording.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b'"seq":7,', b'"seq":8,')
    del lines[20]
    recording.write_bytes(b"".join(lines) + b"half")
    result = run("audit", recording, exits=1)
    at = [sum(map(len, lines[:count])) for count in (6, 20, len(lines))]
    assert f"{recording}@{at[0]} (record 7, line 7): its CRC" in result.stdout
    assert f"{recording}@{at[1]} (record 22, line 21): it is record 22, and 21" in result.stdout
    assert f"{recording}@{at[2]} (record {len(lines) + 2}, line" in result.stdout
    assert result.stdout.endswith("3 findings\n")


@pytest.mark.parametrize("data", [b"", b"hello\n", b"\x28\xb5\x2f\xfd junk"])
def test_a_recording_without_a_record(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "r.ledger.jsonl").write_bytes(data)
    result = run("audit", tmp_path / "r.ledger.jsonl", exits=3)
    assert "it has no record" in result.stderr
    assert run("audit", tmp_path / "none.ledger.jsonl").exit_code == 3


def test_a_torn_tail_is_named(node: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "l"
    run("import", node, "--ledger", ledger)
    (segment,) = ledger.glob("nodes/*/segments/*.jsonl")
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(b"garbage")
    result = run("audit", "--ledger", ledger, "--chain-only", exits=0)
    assert f"7 bytes of an unfinished write ({segment}@{size}): not damage" in result.stdout
    (reported,) = json.loads(run("audit", ledger, "--chain-only", "-o", "json").stdout)["nodes"]
    assert reported["tail"] == {"file": str(segment), "offset": size, "size_bytes": 7}


def test_a_segment_that_is_a_link(node: Path, tmp_path: Path) -> None:
    ledger, elsewhere = tmp_path / "l", tmp_path / "elsewhere"
    run("import", node, "--ledger", ledger)
    (segment,) = ledger.glob("nodes/*/segments/*.jsonl")
    segment.rename(elsewhere)
    segment.symlink_to(elsewhere)
    for command in (("ls", "--ledger", ledger), ("import", node, "--ledger", ledger)):
        refused = run(*command, exits=4)
        assert f"error: {segment}: cannot " in refused.stderr
        assert "put a copy in its place" in refused.stderr
    result = run("audit", "--ledger", ledger, exits=1)
    assert f"{segment} (record 1): it is not read: a link" in result.stdout


def test_expecting_a_digest_of_one_of_several(node: Path, tmp_path: Path) -> None:
    """Any of the ledgers named may hold it; a node that is not there is a finding, no error."""
    ledger = tmp_path / "l"
    run("import", node, "--ledger", ledger)
    (digest,) = re.findall(r"digest (\S+)", run("audit", ledger, "--chain-only").stdout)
    assert run("audit", ledger, node, "--expect", digest).exit_code == 0
    assert run("audit", ledger, "--expect", "abcdef" + digest[6:]).exit_code == 1
