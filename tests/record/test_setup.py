"""Which sources a recorder has, and the command with all of them at once."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import FindingReported, GapObserved
from kubeledger.record.recorder import Wanted, found_on, sources_of
from tests.certificates import make_certificate
from tests.ingest.node_files import pod, write_node
from tests.record.journals import entry, write_journal
from tests.record.standin import Standin, serve_kubelet, serve_pod_resources

URL = "https://127.0.0.1:10250"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Wanted(), []),
        (Wanted(log=Path("k")), ["kubelet.log"]),
        (Wanted(journal=Path("j")), ["journal kubelet.log", "journal kernel.log"]),
        (Wanted(log=Path("k"), journal=Path("j")), ["kubelet.log", "journal kernel.log"]),
        (Wanted(log=Path("k"), kernel=Path("m")), ["kubelet.log", "kernel ring"]),
        (Wanted(kubelet=URL), ["kubelet endpoints"]),
        (Wanted(state=Path("none"), cgroups=Path("c")), ["state files", "cgroups"]),
        (Wanted(pod_resources=Path("s")), ["pod-resources"]),
    ],
)
def test_what_is_asked_for(wanted: Wanted, names: list[str]) -> None:
    assert list(sources_of(wanted)) == names


def test_what_is_found(tmp_path: Path) -> None:
    """By the usual paths; an empty journal's directory is none."""
    for each in ("var/log/journal", "var/lib/kubelet/pod-resources", "sys/fs/cgroup"):
        (tmp_path / each).mkdir(parents=True)
    found = found_on(tmp_path, Wanted())
    assert list(sources_of(found)) == ["pod-resources", "state files", "cgroups"]
    (tmp_path / "run/log/journal/0123").mkdir(parents=True)
    assert found_on(tmp_path, Wanted()).journal == tmp_path
    assert found_on(tmp_path / "none", Wanted()) == Wanted()


def test_the_command_with_all_sources(tmp_path: Path, short_path: Path) -> None:
    """Journal, kubelet, pod-resources, state files and cgroups of one node, once."""
    node = write_node(tmp_path / "node-x")
    log = (node / "kubelet.log").read_text().splitlines()
    kernel = {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "_SYSTEMD_UNIT": ""}
    write_journal(
        tmp_path / "journal" / "system.journal",
        [*(entry(600, each) for each in log), entry(601, "eth0: link up", **kernel)],
    )
    state, cgroup = short_path, tmp_path / "fs/cpu/kubepods/cpu.shares"
    for each in (state / "pod-resources", cgroup.parent):
        each.mkdir(parents=True)
    (state / "cpu_manager_state").write_text(
        '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    )
    (state / "allocated_pods_state").write_text('{"data":"{}","checksum":694314937}')
    cgroup.write_text("1024\n")
    pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod()]}
    standin = Standin({"/pods": json.dumps(pods).encode()})
    certificate = make_certificate(tmp_path)
    container = {"name": "app", "cpuIds": ["1"]}
    listed = {"podResources": [{"name": "web", "namespace": "default", "containers": [container]}]}
    with (
        serve_kubelet(standin, certificate),
        serve_pod_resources(state / "pod-resources" / "kubelet.sock", {"List": listed}),
    ):
        command = [sys.executable, "-m", "kubeledger", "record", "--once", "--node", "node-x"]
        options = {
            "--ledger": tmp_path / "ledger",
            "--journal": tmp_path / "journal",
            "--since": "2026-11-21T00:00:00Z",
            "--kubelet": standin.url,
            "--ca": certificate.file,
            "--state": state,
            "--cgroups": tmp_path / "fs",
        }
        done = subprocess.run(
            [*command, *(str(each) for pair in options.items() for each in pair)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert "journal kubelet.log, journal kernel.log, kubelet endpoints" in done.stderr
    records = list(Ledger.open(tmp_path / "ledger").records())
    kinds = Counter(each.kind for each in records)
    assert kinds["prober.ProbeExecuted"] >= 19
    assert kinds["lifecycle.PodListed"] == 1
    assert kinds["cgroups.CgroupUpdated"] == 1
    assert kinds["devicemanager.CpuManagerStateRead"] == 1
    assert kinds["allocation.PodsStateRead"] == 1
    assert kinds["devicemanager.PodResourcesListed"] == 1
    found = {each.body.finding for each in records if isinstance(each.body, FindingReported)}
    assert found == {"time_doubtful"}  # the log is of another day
    gaps = {each.body.stream for each in records if isinstance(each.body, GapObserved)}
    assert gaps == {
        *("kubelet /metrics", "kubelet /metrics/probes", "kubelet /stats/summary"),
        *("kubelet /configz", "pod-resources GetAllocatableResources"),
    }
