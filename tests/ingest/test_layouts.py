"""Each collection of the field imports to what the plain files import to."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from kubeledger.ingest.api import ImportReport, NodeReport, import_sources
from kubeledger.ingest.sources.several import kubelets_sections
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import ContainerDied, ContainerStarted
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import format_ts
from tests.ingest.layouts import LAYOUTS, Slice, Written, aks, journal, plain, short, slices, write


def imported(path: Path, directory: Path) -> tuple[Ledger, ImportReport]:
    ledger = Ledger.open_or_create(directory)
    return ledger, import_sources([str(path)], ledger)


def told(ledger: Ledger, node: str) -> list[tuple[int, str, str]]:
    """What happened on a node, whatever files tell it."""
    return sorted(
        (record.ts_ns, record.body.kind, repr(record.body))
        for record in ledger.records(node)
        if not record.body.kind.startswith("ledger.")
    )


def plainly(written: Written, node: str, root: Path) -> list[tuple[int, str, str]]:
    """The same of a node's plain files."""
    if node in written.logs:
        write(root / node / "kubelet.log", written.logs[node])
    for name, content in written.documents.get(node, {}).items():
        write(root / node / name, content)
    return told(imported(root / node, root / f"{node}.ledger")[0], node)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_tells_what_the_plain_files_tell(tmp_path: Path, name: str) -> None:
    """The same records, each node's its own."""
    layout = LAYOUTS[name]
    written = layout.write(tmp_path / "bundle", [slices()[node] for node in layout.nodes])
    ledger, report = imported(tmp_path / "bundle", tmp_path / "ledger")
    assert ledger.nodes() == sorted(layout.nodes)
    for node in layout.nodes:
        assert told(ledger, node) == plainly(written, node, tmp_path / "plain")
    for bundle in report.bundles:
        for account in bundle.accounts:
            whole = account.understood + account.noise + account.not_understood
            assert account.lines == whole


# -- what only paths tell -----------------------------------------------------------------------


def middle(node: str) -> Slice:
    """A slice without the lines that tell a version, a node or a year."""
    whole = slices()[node]
    telling = ("ersion", node, "2026-")
    kept = [line for line in whole.lines[400:] if not any(word in line for word in telling)]
    return whole._replace(lines=kept)


def only(report: ImportReport) -> NodeReport:
    (bundle,) = report.bundles
    return bundle


NOTES = {
    "kind": ("kubernetes-version.txt", "v1.29.4\n", "1.29.4"),
    "rke2": ("rke2/version", "rke2 version v1.24.6+rke2r1 (a1b2c3)\ngo version go1.18.6\n",
             "1.24.6"),
    "kubelet --version": ("kubelet--version.txt", "Kubernetes v1.30.14\n", "1.30.14"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_the_version_from_a_file_that_says_nothing_else(tmp_path: Path, name: str) -> None:
    """Where the log tells none, and each node's own where there are several."""
    path, text, version = NOTES[name]
    for node in ("node-b", "node-e"):
        log = plain(journal(middle(node), short))
        write(tmp_path / "logs" / node / "kubelet.log", log)
        write(tmp_path / "logs" / node / path, text if node == "node-b" else "v1.35.1\n")
    _, report = imported(tmp_path / "logs", tmp_path / "ledger")
    versions = {bundle.node: bundle.kubelet_version for bundle in report.bundles}
    assert versions == {"node-b": version, "node-e": "1.35.1"}


def test_a_version_is_kept_for_later_pieces(tmp_path: Path) -> None:
    root = tmp_path / "node-e"
    lines = middle("node-e").lines
    write(root / "kubelet.log", "".join(f"{line}\n" for line in lines[:500]))
    write(root / "kubernetes-version.txt", "v1.30.14\n")
    ledger, _ = imported(root, tmp_path / "ledger")
    later = tmp_path / "later" / "node-e"
    write(later / "kubelet.log", "".join(f"{line}\n" for line in lines[500:]))
    assert only(import_sources([str(later)], ledger)).kubelet_version == "1.30.14"


PLACES = {
    "talos": ("172.20.0.2/service-logs/kubelet.log", "172.20.0.2"),
    "performance": ("nodes/worker-1/worker-1_logs_kubelet.gz", "worker-1"),
    "sosreport": (
        "sosreport-worker-2-2026-11-22-abcdefg/sos_commands/kubernetes/kubelet",
        "worker-2",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_node_from_the_path(tmp_path: Path, name: str) -> None:
    path, node = PLACES[name]
    write(tmp_path / "bundle" / path, "".join(f"{line}\n" for line in middle("node-e").lines))
    write(tmp_path / "bundle" / path.partition("/")[0] / "summary", "nothing\n")
    ledger, _ = imported(tmp_path / "bundle", tmp_path / "ledger")
    assert ledger.nodes() == [node]
    packed = shutil.make_archive(str(tmp_path / "packed"), "tar", tmp_path / "bundle")
    assert imported(Path(packed), tmp_path / "another")[0].nodes() == [node]


def test_the_node_from_a_note(tmp_path: Path) -> None:
    """A collection that notes the machine's name; a name that the kubelet tells is believed."""
    log = "".join(f"{line}\n" for line in middle("node-e").lines)
    write(tmp_path / "bundle" / "kubelet.log", log)
    write(tmp_path / "bundle" / "systeminfo" / "hostname", "worker-3\n")
    assert imported(tmp_path / "bundle", tmp_path / "ledger")[0].nodes() == ["worker-3"]
    write(tmp_path / "bundle" / "kubelet.log", "".join(f"{x}\n" for x in slices()["node-e"].lines))
    assert imported(tmp_path / "bundle", tmp_path / "another")[0].nodes() == ["node-e"]


DAYS = {
    "eks": ("eks_i-0a1b2c3d4e5f60718_2023-11-25_0915-UTC_0.7.8/kubelet/kubelet.log", None),
    "rancher": ("worker-3-2023-11-25_09_15_00/journald/kubelet", None),
    "must-gather": ("kubelet.log", ("timestamp", "2023-11-25 09:00:01.5 +0000 UTC m=+0.1\n")),
    "journalctl": ("kubelet.log", ("header", "")),
    "sosreport": ("kubelet.log", ("sos_commands/date/date", "Sat Nov 25 09:15:00 UTC 2023\n")),
}


@pytest.mark.parametrize("name", DAYS)
def test_the_year_from_the_day_of_the_collection(tmp_path: Path, name: str) -> None:
    """A copy has the time of the copying: the collection's own day is nearer."""
    path, note = DAYS[name]
    write(tmp_path / "bundle" / path, "".join(f"{line}\n" for line in middle("node-e").lines))
    if note is not None:
        write(tmp_path / "bundle" / note[0], note[1])
    if name == "journalctl":
        header = (
            "-- Logs begin at Thu 2022-09-01 09:15:00 CET, end at Sat 2023-11-25 09:15:00 CET. --"
        )
        log = plain(journal(middle("node-e"), short))
        write(tmp_path / "bundle" / path, f"{header}\n{log}")
    ledger, report = imported(tmp_path / "bundle", tmp_path / "ledger")
    (node,) = ledger.nodes()
    assert {format_ts(record.ts_ns)[:4] for record in ledger.records(node)} == {"2023"}
    assert "year_guessed" not in {found.finding for found in only(report).findings}


def test_archives_as_collectors_make_them(tmp_path: Path) -> None:
    """Without a top directory: the archive's own name tells the year; and AKS's zip."""
    log = "".join(f"{line}\n" for line in middle("node-e").lines)
    write(tmp_path / "files" / "journald" / "kubelet", log)
    write(tmp_path / "files" / "systeminfo" / "hostname", "worker-3\n")
    made = tmp_path / "worker-3-2023-11-25_09_15_00.tar.gz"
    with tarfile.open(made, "w:gz") as archive:
        archive.add(tmp_path / "files", ".")
    ledger, _ = imported(made, tmp_path / "ledger")
    assert ledger.nodes() == ["worker-3"]
    assert {format_ts(record.ts_ns)[:4] for record in ledger.records("worker-3")} == {"2023"}
    node = slices()["node-e"]
    aks(tmp_path / "aks", [node])
    zipped = shutil.make_archive(str(tmp_path / "logs"), "zip", tmp_path / "aks" / "aks_logs")
    inside, beside = (
        imported(path, tmp_path / f"{name}.ledger")[0]
        for name, path in (("zip", Path(zipped)), ("tree", tmp_path / "aks"))
    )
    assert told(inside, "node-e") == told(beside, "node-e") != []


def test_logs_of_containers_are_no_kubelets(tmp_path: Path) -> None:
    """Whatever a collection calls them: they are left out, and said to be."""
    write(tmp_path / "bundle" / "kubelet.log", plain(journal(slices()["node-e"], short)))
    line = "I1122 08:11:30.000000       1 driver.go:81] volume mounted\n"
    names = (
        "kubernetes-logs/kube-system/csi-driver.log",
        "podlogs/kube-system-csi-driver",
        "default/csi-driver-x2/logs.txt",
        "var_log/kube-system_csi-x2_1f9a7c1e-5c1f-4b0e-8f57-6c0f4b1f3a55/driver/0.log",
        f"var_log/csi-x2_kube-system_driver-{'0a' * 32}.log",
        "namespaces/default/pods/csi-x2/driver/driver/logs/current.log",
    )
    for name in names:
        write(tmp_path / "bundle" / name, line * 20)
    _, report = imported(tmp_path / "bundle", tmp_path / "ledger")
    assert set(only(report).skipped) == set(names)
    assert set(only(report).formats) == {"kubelet.log"}


# -- crictl -------------------------------------------------------------------------------------


def runtime_answers(slice_: Slice) -> dict[str, object]:
    """What crictl would have answered on the node: from the statuses of its pods."""
    containers, sandboxes = [], []
    for pod in json.loads(slice_.documents["pods.json"])["items"]:
        names = {
            f"io.kubernetes.pod.{key}": pod["metadata"][key] for key in ("name", "namespace", "uid")
        }
        sandboxes.append({"id": f"sandbox-{pod['metadata']['uid']}", "labels": names})
        for status in pod["status"].get("containerStatuses", ()):
            if "containerID" in status:
                labels = {**names, "io.kubernetes.container.name": status["name"]}
                found = status["containerID"].rpartition("://")[2]
                row = {"id": found, "metadata": {"name": status["name"], "attempt": 0}}
                containers.append(
                    {
                        **row,
                        "state": "CONTAINER_RUNNING",
                        "createdAt": "1795335076000000000",
                        "labels": labels,
                    }
                )
    for row in sandboxes:
        row |= {
            "metadata": {"attempt": 0},
            "state": "SANDBOX_READY",
            "createdAt": "1795335075000000000",
        }
    image = {
        "id": "sha256:c9",
        "repoTags": ["registry.lab/app:1"],
        "repoDigests": [],
        "size": "4261574",
    }
    return {
        "ps": {"containers": containers},
        "pods": {"items": sandboxes},
        "images": {"images": [image]},
        "imagefsinfo": {"status": {"imageFilesystems": [{"usedBytes": {"value": "1"}}]}},
        "inspect_4f": {"status": containers[0], "info": {}},
    }


def test_crictl_names_containers(tmp_path: Path) -> None:
    """Lines that hold nothing but an ID get their container's name, as from the pods' statuses."""
    node = slices()["node-e"]
    aks(tmp_path / "bare", [node])
    aks(tmp_path / "crictl", [node])
    for name, answer in runtime_answers(node).items():
        path = tmp_path / "crictl" / "aks_logs" / "collect" / f"crictl_{name}.json"
        write(path, json.dumps(answer))
    ledgers = {}
    for name in ("bare", "crictl"):
        ledgers[name], report = imported(tmp_path / name, tmp_path / f"{name}.ledger")
    skipped = {name.rpartition("/")[2] for name in only(report).skipped}
    assert skipped == {"crictl_imagefsinfo.json", "lscpu.json"}
    named = {
        name: sum(
            record.body.container is not None
            for record in ledger.records("node-e")
            if isinstance(record.body, ContainerStarted | ContainerDied)
        )
        for name, ledger in ledgers.items()
    }
    assert named["bare"] < named["crictl"]


def test_yaml_of_other_kinds_is_not_parsed(tmp_path: Path) -> None:
    """A must-gather is full of it: only its kind is looked for, in whatever cannot be parsed."""
    write(tmp_path / "bundle" / "kubelet.log", plain(journal(slices()["node-a"], short)))
    listed = (
        "apiVersion: v1\nitems:\n- data: {x: [\n  kind: Pod\nkind: ConfigMapList\nmetadata: {}\n"
    )
    write(tmp_path / "bundle" / "core" / "configmaps.yaml", listed)
    write(tmp_path / "bundle" / "core" / "pods.yaml", listed.replace("ConfigMap", "Pod"))
    _, report = imported(tmp_path / "bundle", tmp_path / "ledger")
    skipped = only(report).skipped
    assert skipped["core/configmaps.yaml"] == "an object of kind ConfigMap: not read"
    assert [found.file for found in only(report).findings if found.finding == "malformed"] == [
        "core/pods.yaml"
    ]


def test_notes_alone_are_nothing(tmp_path: Path) -> None:
    """A version and a name without anything that they are of."""
    write(tmp_path / "bundle" / "kubernetes-version.txt", "v1.30.14\n")
    write(tmp_path / "bundle" / "systeminfo" / "hostname", "worker-3\n")
    with pytest.raises(BadInputError, match="nothing that can be imported") as caught:
        imported(tmp_path / "bundle", tmp_path / "ledger")
    assert "OpenShift must-gather" in caught.value.advice


@pytest.mark.parametrize("file", ["options.go", "policy_source.go", "reflector.go"])
def test_a_log_of_another_component(tmp_path: Path, file: str) -> None:
    write(tmp_path / "log.txt", f"I1121 03:06:20.000000       1 {file}:224] refreshing\n" * 9)
    with pytest.raises(BadInputError, match=f"another component: its lines are of {file}"):
        imported(tmp_path / "log.txt", tmp_path / "ledger")


def test_sections_of_other_programs(tmp_path: Path) -> None:
    """Their lines are noise; places stay those in the file; else all is the kubelet's."""
    node = slices()["node-b"]
    kubelets = plain(journal(node, short))
    other = "I1121 03:06:20.000000       1 main.go:1] x\n\n"
    text = f"==> etcd <==\n{other}==> kubelet <==\n{kubelets}\n==> coredns [4f] <==\n{other}"
    write(tmp_path / "bundle" / "logs.txt", text)
    ledger, report = imported(tmp_path / "bundle", tmp_path / "ledger")
    (account,) = only(report).accounts
    assert account.lines == text.count("\n")
    lines = text.split("\n")
    records = [record for record in ledger.records("node-b") if record.evidence]
    places = [place for record in records for place in record.evidence if place.line is not None]
    assert places
    for place in places:
        assert place.text == lines[(place.line or 0) - 1]
    whole = SourceFile("logs.txt", tmp_path / "bundle" / "logs.txt")
    assert b"".join(kubelets_sections(whole).chunks()).count(b"main.go") == 0
    write(tmp_path / "tail.txt", text.replace("kubelet <==", "syslog <=="))
    tail = SourceFile("tail.txt", tmp_path / "tail.txt")
    assert kubelets_sections(tail) is tail
