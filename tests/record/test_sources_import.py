"""What live sources give of a node is imported to the same records as that node's files."""

from collections import Counter
from pathlib import Path

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.sources.libsystemd import Journal
from kubeledger.ledger.ledger import Ledger
from kubeledger.record.observations import Document, Lines, Mark, Observation, Source
from kubeledger.record.sources.endpoints import KubeletClient, KubeletEndpoints
from kubeledger.record.sources.journal import JournalSource, kubelet_stream
from kubeledger.record.sources.state_files import CgroupSnapshots, StateFiles
from kubeledger.replay.node.state import time_in_name
from tests.certificates import make_certificate
from tests.ingest.node_files import snapshot_time, write_node
from tests.record.journals import entry, write_journal
from tests.record.standin import Standin, answers_of, serve_kubelet
from tests.waiting import PATIENCE_S


def show(snapshot: Path, standin: Standin, kubelet: Path, cgroups: Path) -> None:
    """Make the node look as it did then."""
    standin.answers = answers_of(snapshot)
    (kubelet / "cpu_manager_state").write_bytes((snapshot / "cpu_manager_state").read_bytes())
    for line in (snapshot / "cgroupfs.txt").read_text().splitlines():
        path, _, value = line.partition(" ")
        (cgroups / path).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / path).write_text(value)


def keep(capture: Path, observations: list[Observation | Mark]) -> None:
    for each in observations:
        if isinstance(each, Document):
            file = capture / each.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(each.data)
        elif isinstance(each, Lines):
            with (capture / each.stream).open("ab") as stream:
                stream.write(each.data)


def bodies(directory: Path, ledger: Path) -> Counter[str]:
    """Of all records that an import makes of a directory, but of those about the import.

    Times are left out: a live document is dated when it was asked for.
    """
    into = Ledger.create(ledger)
    import_sources([str(directory)], into)
    return Counter(
        f"{each.kind} {each.body}"
        for each in into.records()
        if not each.kind.startswith("ledger.Import")
    )


def test_the_records_are_the_same(tmp_path: Path) -> None:
    """Journal, endpoints, state files and cgroups of a node, as against its log and snapshots."""
    node = write_node(tmp_path / "node-x")
    snapshots = node / "snapshots"
    (snapshots / snapshot_time(15)).rename(snapshots / snapshot_time(20))  # a round later
    kubelet, cgroups, capture = (tmp_path / name for name in ("kubelet", "cgroups", "capture"))
    for each in (kubelet, cgroups, capture):
        each.mkdir()
    (capture / "node.json").write_bytes((node / "node.json").read_bytes())
    log = (node / "kubelet.log").read_text().splitlines()
    write_journal(tmp_path / "journal" / "system.journal", [entry(600, each) for each in log])
    certificate = make_certificate(tmp_path)
    with serve_kubelet(Standin({}), certificate) as standin:
        endpoints = KubeletEndpoints(KubeletClient(standin.url, ca_file=certificate.file))
        sources: list[Source] = [
            JournalSource(
                lambda found: Journal(tmp_path / "journal", found), kubelet_stream(), None, 0
            ),
            StateFiles(kubelet),
            CgroupSnapshots(cgroups),
            endpoints,
        ]
        for snapshot in sorted(snapshots.iterdir()):
            show(snapshot, standin, kubelet, cgroups)
            now_ns = time_in_name(snapshot.name) or 0
            for source in sources:
                keep(capture, list(source.poll(now_ns)))
            endpoints.wait(PATIENCE_S)
            keep(capture, list(endpoints.poll(now_ns)))
        for source in sources:
            source.close()
    assert bodies(capture, tmp_path / "live") == bodies(node, tmp_path / "files")
