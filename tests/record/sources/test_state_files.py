"""State files are given when they have changed, and read every 15 seconds at most."""

import shutil
from pathlib import Path

from kubeledger.ingest.sources.detect import detect
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.state_files import StateFiles
from kubeledger.replay.node.state import time_in_name

BEGIN_NS = parse_ts("2026-11-21T03:01:00.25Z")
CPUS = b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


def replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".tmp").write_bytes(data)
    path.with_suffix(".tmp").rename(path)


def test_a_file_is_given_when_it_has_changed(tmp_path: Path) -> None:
    state = tmp_path / "cpu_manager_state"
    replace(state, CPUS)
    source = StateFiles(tmp_path)
    (first,) = source.poll(BEGIN_NS)
    assert first == Document(
        "snapshots/20261121T030100.250Z/cpu_manager_state", "cpu-manager-state", CPUS, BEGIN_NS
    )
    assert not list(source.poll(BEGIN_NS + 20 * NS_PER_S))
    replace(state, CPUS)
    assert not list(source.poll(BEGIN_NS + 40 * NS_PER_S))
    replace(state, CPUS.replace(b"none", b"static"))
    (second,) = source.poll(BEGIN_NS + 60 * NS_PER_S)
    assert isinstance(second, Document)
    assert b"static" in second.data


def test_it_is_read_every_15_seconds_at_most(tmp_path: Path) -> None:
    """What changes meanwhile is not lost: its last state is given when the time has come."""
    state = tmp_path / "cpu_manager_state"
    replace(state, CPUS)
    source = StateFiles(tmp_path)
    list(source.poll(BEGIN_NS))
    replace(state, CPUS.replace(b"none", b"static"))
    seconds = [s for s in range(1, 40) if list(source.poll(BEGIN_NS + s * NS_PER_S))]
    assert seconds == [15]


def test_a_clock_that_was_set_back_stops_nothing(tmp_path: Path) -> None:
    """The next look is due at once."""
    source = StateFiles(tmp_path)
    list(source.poll(BEGIN_NS))
    replace(tmp_path / "cpu_manager_state", CPUS)
    (given,) = source.poll(BEGIN_NS - 3600 * NS_PER_S)
    assert isinstance(given, Document)
    assert given.name == "snapshots/20261121T020100.250Z/cpu_manager_state"


def test_the_times_and_formats_are_those_of_an_import(tmp_path: Path) -> None:
    """Each file that an import reads is detected as what the source calls it."""
    entries = b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'
    replace(tmp_path / "device-plugins" / "kubelet_internal_checkpoint", entries)
    memory = b'{"policyName":"None","machineState":{},"entries":{},"checksum":1}'
    replace(tmp_path / "memory_manager_state", memory)
    replace(tmp_path / "cpu_manager_state", CPUS)
    config = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    replace(tmp_path / "config.yaml", config)
    given = list(StateFiles(tmp_path).poll(BEGIN_NS))
    assert len(given) == 4
    for document in given:
        assert isinstance(document, Document)
        path = tmp_path / document.name
        replace(path, document.data)
        assert detect(SourceFile(document.name, path)).format == document.format
        assert time_in_name(document.name) == BEGIN_NS


def test_a_directory_that_is_not_there_is_one_gap(tmp_path: Path) -> None:
    source = StateFiles(tmp_path / "kubelet")
    (gap,) = source.poll(BEGIN_NS)
    assert gap == Gap("state files", f"{tmp_path}/kubelet is not a directory", None, None)
    assert not list(source.poll(BEGIN_NS + NS_PER_S))
    replace(tmp_path / "kubelet" / "cpu_manager_state", CPUS)
    over, given = source.poll(BEGIN_NS + 2 * NS_PER_S)
    assert over == Gap(gap.stream, gap.reason, None, BEGIN_NS + 2 * NS_PER_S)
    assert isinstance(given, Document)


def test_a_file_that_cannot_be_read_is_a_gap(tmp_path: Path) -> None:
    replace(tmp_path / "cpu_manager_state" / "x", b"")
    source = StateFiles(tmp_path)
    (gap,) = source.poll(BEGIN_NS)
    assert isinstance(gap, Gap)
    assert gap.stream == "cpu_manager_state"
    assert gap.reason.endswith("is not read: Is a directory")
    shutil.rmtree(tmp_path / "cpu_manager_state")
    replace(tmp_path / "cpu_manager_state", CPUS)
    over, given = source.poll(BEGIN_NS + 15 * NS_PER_S)
    assert isinstance(over, Gap)
    assert over.until_ns == BEGIN_NS + 15 * NS_PER_S
    assert isinstance(given, Document)


def test_a_file_that_is_too_large_is_a_gap(tmp_path: Path) -> None:
    with (tmp_path / "cpu_manager_state").open("wb") as stream:
        stream.truncate(17 << 20)
    (gap,) = StateFiles(tmp_path).poll(BEGIN_NS)
    assert isinstance(gap, Gap)
    assert "larger than" in gap.reason
