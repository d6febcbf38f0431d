"""Snapshots of the cgroup files of both versions, in the form that an import reads."""

from pathlib import Path

import pytest

from kubeledger.ingest.sources.detect import detect
from kubeledger.ingest.sources.documents import Document as ImportedDocument
from kubeledger.ingest.sources.documents import read_document
from kubeledger.ingest.sources.items import CgroupFiles
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.record.observations import Document, Gap
from kubeledger.record.sources.state_files import CgroupSnapshots
from tests.recordings import extract

BEGIN_NS = parse_ts("2026-11-21T03:01:00Z")
V2 = {
    "kubepods.slice": {"cpu.weight": "79", "memory.max": "24471207936", "pids.max": "max"},
    "kubepods.slice/kubepods-burstable.slice": {"cpu.weight": "20", "cpu.max": "max 100000"},
    "kubepods.slice/kubepods-podabc_1.slice": {
        "hugetlb.2MB.max": "max",
        "hugetlb.2MB.rsvd.max": "max",
    },
    "kubepods.slice/kubepods-podabc_1.slice/cri-containerd-c1.scope": {"memory.max": "1024"},
    "kubepods.slice/kubepods-podabc_1.slice/cri-containerd-c1.scope/init": {"memory.max": "1"},
    "system.slice/sshd.service": {"cpu.weight": "100"},
}


def write_v2(root: Path, cgroups: dict[str, dict[str, str]]) -> None:
    """As the kernel shows them."""
    root.mkdir(exist_ok=True)
    (root / "cgroup.controllers").write_text("cpu memory pids\n")
    for path, files in cgroups.items():
        (root / path).mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (root / path / name).write_text(f"{value}\n")


def items_of(document: object, directory: Path) -> CgroupFiles:
    assert isinstance(document, Document)
    path = directory / "cgroupfs.txt"
    path.write_bytes(document.data)
    source = SourceFile(document.name, path)
    assert detect(source).format == document.format == "cgroup-files"
    items, counts = read_document(ImportedDocument(source, document.format, document.ts_ns))
    assert counts.understood == counts.lines
    (item,) = items
    assert isinstance(item, CgroupFiles)
    return item


def test_the_second_version(tmp_path: Path) -> None:
    """What is not the kubelet's, or below a container, is left out."""
    write_v2(tmp_path / "fs", V2)
    (given,) = CgroupSnapshots(tmp_path / "fs").poll(BEGIN_NS)
    wanted = {path: dict(files) for path, files in list(V2.items())[:4]}
    del wanted["kubepods.slice/kubepods-podabc_1.slice"]["hugetlb.2MB.rsvd.max"]
    assert items_of(given, tmp_path).values == wanted


def test_limits_of_huge_pages(tmp_path: Path) -> None:
    huge = {"hugetlb.2MB.max": "max", "hugetlb.2MB.rsvd.max": "max", "hugetlb.1GB.max": "0"}
    write_v2(tmp_path / "fs", {"kubepods.slice": huge})
    (given,) = CgroupSnapshots(tmp_path / "fs").poll(BEGIN_NS)
    shown = items_of(given, tmp_path).values
    assert shown == {"kubepods.slice": {"hugetlb.1GB.max": "0", "hugetlb.2MB.max": "max"}}


@pytest.mark.parametrize("above", ["", "site/", "kubelet.slice/"])
def test_below_a_root_of_the_nodes_owner(tmp_path: Path, above: str) -> None:
    """Where ``--cgroup-root`` puts them."""
    write_v2(tmp_path, {f"{above}kubepods/besteffort/podabc": {"cpu.weight": "1"}})
    (given,) = CgroupSnapshots(tmp_path).poll(BEGIN_NS)
    assert items_of(given, tmp_path).values == {
        f"{above}kubepods/besteffort/podabc": {"cpu.weight": "1"}
    }


def test_the_first_version_as_a_recording_has_it(tmp_path: Path) -> None:
    """A real snapshot, written as the kernel shows it, is read as the same snapshot."""
    recording = extract("node-a", tmp_path)
    recorded = (recording / "snapshots" / "20261121T025416Z" / "cgroupfs.txt").read_text()
    root = tmp_path / "fs"
    for line in recorded.splitlines():
        path, _, value = line.partition(" ")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(value + "\n")
    (given,) = CgroupSnapshots(root).poll(BEGIN_NS)
    assert isinstance(given, Document)
    assert sorted(given.data.decode().splitlines()) == sorted(recorded.splitlines())


def test_only_what_changed_is_given(tmp_path: Path) -> None:
    """Every 15 seconds at most."""
    write_v2(tmp_path, V2)
    source = CgroupSnapshots(tmp_path)
    assert list(source.poll(BEGIN_NS))
    write_v2(tmp_path, {"kubepods.slice": {"cpu.weight": "80"}})
    assert not list(source.poll(BEGIN_NS + 14 * NS_PER_S))
    assert list(source.poll(BEGIN_NS + 15 * NS_PER_S))
    assert not list(source.poll(BEGIN_NS + 30 * NS_PER_S))


def test_a_node_without_a_kubelet_is_a_gap(tmp_path: Path) -> None:
    """An empty snapshot would say that all cgroups are gone."""
    (gap,) = CgroupSnapshots(tmp_path).poll(BEGIN_NS)
    assert gap == Gap("cgroups", f"no cgroup of a kubelet below {tmp_path}", None, None)
