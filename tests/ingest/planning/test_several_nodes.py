"""Several nodes in one file or directory: each gets its own lines, events and pods."""

import json
from collections.abc import Callable
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.api import ImportReport, import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ingest.sources.node_lines import Writers, lines_of_nodes
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodListed
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.errors import BadInputError
from tests.ingest.node_files import log_text, pod, write_node
from tests.ingest.planning.test_bundle import EVENT, write

A, B = "node-a", "node-b"
PIDS = {A: 8337, B: 1200}


def run(tmp_path: Path, *paths: Path, node: str | None = None) -> tuple[ImportReport, Ledger]:
    ledger = Ledger.open_or_create(tmp_path / "ledger")
    return import_sources([str(path) for path in paths], ledger, ImportOptions(node=node)), ledger


def reported(ledger: Ledger, node: str, kind: type) -> list[Any]:
    """Bodies of a node's records of a kind."""
    return [record.body for record in ledger.records(node) if isinstance(record.body, kind)]


def journal(node: str) -> list[str]:
    """Entries of a node's log, without those that name the node; blocks are one entry."""
    text = log_text(node, pid=PIDS[node]).replace("\n\tfail", f"\0\t{node} fail")
    return text.replace("\n >", "\0 >").splitlines()[1:]


def interleaved(wrap: Callable[[str, str], str]) -> str:
    """Two nodes' entries, turn by turn."""
    turns = zip_longest(journal(A), journal(B))
    lines = []
    for entry, node in zip(chain.from_iterable(turns), (A, B) * 1000, strict=False):
        lines += [wrap(node, line) for line in entry.split("\0")]
    return "".join(f"{line}\n" for line in lines)


WRAPPINGS: dict[str, Callable[[str, str], str]] = {
    "short-precise": lambda node, line: (
        f"Nov 21 03:01:01.{line[15:21]:0>6.6} {node} kubenswrapper[{PIDS[node]}]: {line}"
    ),
    "syslog": lambda node, line: f"Nov 21 03:01:01 {node} kubelet[{PIDS[node]}]: {line}",
    "iso": lambda node, line: f"2026-11-21T03:01:01+0000 {node} kubelet[{PIDS[node]}]: {line}",
    "address": lambda node, line: f"{node}: {line}",
    "node-logs": lambda node, line: (
        f"{node} Nov 21 03:01:01.000000 {node} kubenswrapper[{PIDS[node]}]: {line}"
    ),
}


@pytest.mark.parametrize("name", WRAPPINGS)
def test_lines_are_split_by_what_carried_them(tmp_path: Path, name: str) -> None:
    """Each node has its own probes, its one start, and the numbers of its lines in the file."""
    text = interleaved(WRAPPINGS[name])
    log = write(tmp_path / "masters/kubelet_service.log", text)
    report, ledger = run(tmp_path, tmp_path / "masters")
    assert ledger.nodes() == [A, B]
    lines = text.splitlines()
    for bundle in report.bundles:
        ticks = [record for record in ledger.records(bundle.node) if _is_tick(record.body)]
        assert len(ticks) == 19
        assert all(
            each.output.startswith(bundle.node)
            for each in reported(ledger, bundle.node, ProbeExecuted)
        )
        for record in ticks:
            (place,) = record.evidence
            assert place.line is not None
            assert place.text == lines[place.line - 1]
            assert f"{bundle.node} " in lines[place.line]
        assert len(reported(ledger, bundle.node, KubeletStarted)) == 1
        assert [found.finding for found in bundle.findings] == ["several_nodes", *_year(name)]
        (account,) = bundle.accounts
        assert account.lines == account.understood + account.noise + account.not_understood
    assert sum(bundle.accounts[0].lines for bundle in report.bundles) == len(lines)
    again = import_sources([str(log.parent)], ledger)
    assert all(bundle.already for bundle in again.bundles)


def test_each_node_is_given_its_own_lines_alone(tmp_path: Path) -> None:
    """Each in its place; what is kept has other nodes' lines filled."""
    lines = interleaved(WRAPPINGS["syslog"]).splitlines(keepends=True)
    path = write(tmp_path / "kubelet.log", "".join(lines))
    parts = lines_of_nodes(SourceFile("kubelet.log", path), [Writers((A,)), Writers((B,))])
    for node, part in zip((A, B), parts, strict=True):
        own = [(at, line) for at, line in enumerate(lines) if f"{node} kubelet" in line]
        assert b"".join(part.chunks()).decode() == "".join(line for _, line in own)
        offset = 0
        for number, (at, line) in enumerate(own):
            assert part.place(number, offset) == (at, sum(map(len, lines[:at])))
            offset += len(line)
        kept = b"".join(part.stored_chunks()).decode().splitlines(keepends=True)
        assert [line.strip("\x1a") or "\n" for line in kept] == [
            line if f"{node} kubelet" in line else "\n" for line in lines
        ]


def _is_tick(body: object) -> bool:
    return isinstance(body, ProbeExecuted)


def _year(name: str) -> list[str]:
    return [] if name == "iso" else ["year_guessed"]


def test_a_log_that_grew(tmp_path: Path) -> None:
    text = interleaved(WRAPPINGS["syslog"])
    lines = text.splitlines(keepends=True)
    log = write(tmp_path / "kubelet.log", "".join(lines[: len(lines) // 2]))
    _, ledger = run(tmp_path, log)
    write(log, text)
    import_sources([str(log)], ledger)
    assert [len(reported(ledger, node, ProbeExecuted)) for node in (A, B)] == [19, 19]


def test_processes_that_take_turns(tmp_path: Path) -> None:
    """Where nothing names the nodes, each kubelet is one; a restart is none."""
    log = write(tmp_path / "n/kubelet.log", interleaved(lambda _, line: line))
    _, ledger = run(tmp_path, log.parent)
    assert ledger.nodes() == ["n-process-1200", "n-process-8337"]
    restarted = log_text(pid=1, seconds=5) + log_text(pid=2, first=10, seconds=5)
    late = restarted.splitlines()[4]
    write(tmp_path / "m/kubelet.log", f"{restarted}{late}\n")
    import_sources([str(tmp_path / "m")], ledger)
    starts = reported(ledger, "node-x", KubeletStarted)
    assert [start.restart for start in starts] == [False, True]


def test_a_log_that_stands_twice_in_its_file_is_one_node(tmp_path: Path) -> None:
    """Its processes come back, but never write at the same time; nothing is told twice."""
    log = "".join(log_text(pid=pid, first=20 * pid, seconds=15) for pid in range(1, 5))
    log = log.replace("00000 ", "00007 ")  # stamps that tell lines apart
    _, ledger = run(tmp_path / "a", write(tmp_path / "once/kubelet.log", log).parent)
    report, twice = run(tmp_path / "b", write(tmp_path / "twice/kubelet.log", log * 2).parent)
    assert ledger.nodes() == twice.nodes() == ["node-x"]
    for kind in (KubeletStarted, ProbeExecuted):
        assert reported(twice, "node-x", kind) == reported(ledger, "node-x", kind)
    (account,) = report.bundles[0].accounts
    assert account.lines == account.understood + account.noise == 2 * log.count("\n")


@pytest.mark.parametrize("last", [f"{A}.example.com", "api.example.com"])
def test_the_machine_got_its_name_late(tmp_path: Path, last: str) -> None:
    """``localhost`` until the network is up, then the name, then another one."""
    names = ("localhost", A, last)
    entries = journal(A)
    parts = [
        f"Nov 21 03:01:01 {names[min(index // 9, 2)]} kubelet[8337]: {line}\n"
        for index, entry in enumerate(entries)
        for line in entry.split("\0")
    ]
    report, ledger = run(tmp_path, write(tmp_path / "kubelet.log", "".join(parts)))
    assert ledger.nodes() == [A]
    assert [found.finding for found in report.bundles[0].findings] == ["year_guessed"]
    assert len(reported(ledger, A, ProbeExecuted)) == 19


def _event(node: str, reason: str = "Unhealthy") -> dict[str, Any]:
    source = {"component": "kubelet", "host": node}
    return {**EVENT, "metadata": {"uid": f"{node}-{reason}"}, "source": source, "reason": reason}


def _cluster(root: Path) -> None:
    """Lists of the API server: of both nodes, and of a third one."""
    nodes = (A, B, "node-c")
    events = [_event(node) for node in nodes]
    pods = [pod(f"web-{node}", node) for node in nodes]
    for each in pods:
        each["metadata"] |= {"annotations": {}, "uid": f"uid-{each['metadata']['name']}"}
    write(root / "events.json", json.dumps({"kind": "List", "items": events}))
    write(root / "pods.json", json.dumps({"kind": "PodList", "items": pods}))


def test_a_refusal_of_another_node(tmp_path: Path) -> None:
    """An event of the cluster's list is a decision of the node that sent it, and of no other."""
    root = tmp_path / "all"
    for node in (A, B):
        write(root / node / "kubelet.log", log_text(node))
    words = "Allocate failed due to requested number of devices unavailable for example.com/gpu. "
    refusal = {
        **_event(A, "UnexpectedAdmissionError"),
        "message": f"{words}Requested: 3, Available: 1, which is unexpected",
    }
    events = [refusal, _event(B)]
    write(root / "events.json", json.dumps({"kind": "List", "items": events}))
    _, ledger = run(tmp_path, root)
    assert [len(reported(ledger, node, AllocationFailed)) for node in (A, B)] == [1, 0]


def test_lists_of_one_namespace_each(tmp_path: Path) -> None:
    """The pods of a namespace are not gone because another one's list does not hold them."""
    root = tmp_path / "dump"
    for space in ("default", "kube-system"):
        each = pod(f"web-{space}", A)
        each["metadata"] |= {"annotations": {}, "namespace": space, "uid": f"uid-{space}"}
        listed = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": [each]}
        write(root / space / "pods.json", json.dumps(listed))
    _, ledger = run(tmp_path, root)
    assert sorted((body.pod, body.gone) for body in reported(ledger, A, PodListed)) == [
        ("web-default", False),
        ("web-kube-system", False),
    ]


def test_the_version_of_a_cluster_list(tmp_path: Path) -> None:
    """Each node's own, whichever stands first in the list."""
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": node},
            "status": {"nodeInfo": {"kubeletVersion": text}},
        }
        for node, text in ((A, "v1.28.1"), (B, "v1.31.2"))
    ]
    root = tmp_path / "all"
    write(root / "nodes.json", json.dumps({"kind": "NodeList", "items": nodes}))
    for node in (A, B):
        log = "".join(
            f"{line}\n" for line in log_text(node).splitlines() if "Kubelet v" not in line
        )
        write(root / node / "kubelet.log", log)
    report, _ = run(tmp_path, root)
    assert [bundle.kubelet_version for bundle in report.bundles] == ["1.28.1", "1.31.2"]


def test_must_gather(tmp_path: Path) -> None:
    """Interleaved journals of masters and workers; the cluster's objects lie beside them."""
    root = tmp_path / "must-gather.local.1"
    logs = root / "quay-io-x/host_service_logs"
    write(logs / "masters/kubelet_service.log", interleaved(WRAPPINGS["short-precise"]))
    worker = [f"Nov 21 03:01:01.000000 w1 kubenswrapper[9]: {line}\n" for line in journal(A)[:3]]
    write(logs / "workers/kubelet_service.log", "".join(worker))
    scoped = root / "quay-io-x/cluster-scoped-resources/core/nodes"
    spaces = root / "quay-io-x/namespaces/default"
    pods = []
    for node in (A, B, "w1", "w2"):
        name = {"metadata": {"name": node}, "status": {"capacity": {"cpu": "4"}}}
        write(scoped / f"{node}.yaml", json.dumps({"kind": "Node", "apiVersion": "v1", **name}))
        each = pod(f"web-{node}", node)
        each["metadata"] |= {"annotations": {}, "uid": f"uid-{node}"}
        pods.append(each)
        single = json.dumps({"kind": "Pod", "apiVersion": "v1", **each})
        write(spaces / f"pods/web-{node}/web-{node}.yaml", f"{single}\n")
        write(
            spaces / f"pods/web-{node}/app/app/logs/current.log",
            "I1121 03:01:01.000000 1 a.go:1] x\n",
        )
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    write(spaces / "core/pods.yaml", json.dumps({**listed, "items": pods}))
    events = {"kind": "EventList", "apiVersion": "v1", "items": [_event(B), _event("w2")]}
    write(spaces / "core/events.yaml", json.dumps(events))
    _, ledger = run(tmp_path, root)
    assert ledger.nodes() == [A, B, "w1"]
    for node in ledger.nodes():
        assert {body.pod for body in reported(ledger, node, PodListed)} == {f"web-{node}"}
        assert len(reported(ledger, node, NodeObserved)) == 1
    ticks = [len(reported(ledger, node, ProbeExecuted)) for node in ledger.nodes()]
    assert ticks == [19, 19, 0]
    assert [len(reported(ledger, node, KubernetesEvent)) for node in ledger.nodes()] == [0, 1, 0]


def test_lists_come_first(tmp_path: Path) -> None:
    """Each node that they name is one; the logs come later, in whichever order."""
    root = tmp_path / "all"
    _cluster(root)
    _, ledger = run(tmp_path, root)
    assert ledger.nodes() == [A, B, "node-c"]
    write(root / "logs/kubelet.log", interleaved(WRAPPINGS["syslog"]))
    import_sources([str(root)], ledger)
    assert ledger.nodes() == [A, B, "node-c"]
    for node in (A, B):
        assert [body.pod for body in reported(ledger, node, PodListed)] == [f"web-{node}"]
        assert len(reported(ledger, node, KubernetesEvent)) == 1
        assert len(reported(ledger, node, ProbeExecuted)) == 19


def test_what_one_node_left(tmp_path: Path) -> None:
    """Statistics of another node are that node's; its events and pods are left out, and told."""
    root = write_node(tmp_path / "n", A)
    write(root / "stats.json", json.dumps({"node": {"nodeName": B}, "pods": []}))
    write(root / "events.json", json.dumps({"kind": "List", "items": [_event(B)]}))
    report, ledger = run(tmp_path, root)
    assert ledger.nodes() == [A, B]
    assert not reported(ledger, A, KubernetesEvent)
    assert not reported(ledger, B, ProbeExecuted)
    assert len(reported(ledger, B, KubernetesEvent)) == 0
    assert [bundle.node for bundle in report.bundles] == [A, B]


def test_events_of_another_node(tmp_path: Path) -> None:
    """One node's log and another's events: no decision of the wrong node, whatever names it."""
    log = write(tmp_path / "kubelet.log", "\n".join(journal(A)).replace("\0", "\n") + "\n")
    event = {**_event(B), "involvedObject": {"kind": "Pod", "namespace": "x", "name": "elsewhere"}}
    events = write(tmp_path / "events.json", json.dumps({"kind": "List", "items": [event]}))
    report, ledger = run(tmp_path, log, events)
    (node,) = ledger.nodes()
    assert node not in (A, B)
    assert not reported(ledger, node, KubernetesEvent)
    assert "other_node" in {found.finding for found in report.bundles[0].findings}


def test_the_option(tmp_path: Path) -> None:
    """``--node`` takes one of several nodes, renames the only one, and says so."""
    log = write(tmp_path / "kubelet.log", interleaved(WRAPPINGS["syslog"]))
    _, ledger = run(tmp_path, log, node=B)
    assert ledger.nodes() == [B]
    assert len(reported(ledger, B, ProbeExecuted)) == 19
    with pytest.raises(BadInputError, match="2 nodes, and other is none of them: node-a, node-b"):
        import_sources([str(log)], ledger, ImportOptions(node="other"))
    report = import_sources([str(write_node(tmp_path / "n", A))], ledger, ImportOptions(node="z"))
    assert "node_renamed" in {found.finding for found in report.bundles[0].findings}


def test_whose_a_log_is_cannot_be_told(tmp_path: Path) -> None:
    """Statistics of two nodes beside a log that names none."""
    entries = "\n".join(journal(A)).replace("\0", "\n")
    write(tmp_path / "n/kubelet.log", entries + "\n")
    for node in (A, B):
        write(tmp_path / f"n/{node}.json", json.dumps({"node": {"nodeName": node}, "pods": []}))
    with pytest.raises(BadInputError, match="more than one node"):
        run(tmp_path, tmp_path / "n")


def test_a_kubelet_inside_another_program(tmp_path: Path) -> None:
    """MicroK8s and k3s run the API server in the same process: it starts before the kubelet."""

    def process(pid: int, minute: int, *, reaches_kubelet: bool) -> list[str]:
        texts = [
            "daemon.go:65] Starting API Server",
            "options.go:220] external host was not specified",
            "server.go:153] Version: v1.28.14",
        ]
        if reaches_kubelet:
            texts += ['server.go:470] "Kubelet version" kubeletVersion="v1.28.14"']
        return [
            f"Nov 21 03:{minute:02d}:0{second} n microk8s.daemon-kubelite[{pid}]: "
            f"I1121 03:{minute:02d}:0{second}.000000 {pid:7d} {text}\n"
            for second, text in enumerate(texts)
        ]

    lines = [
        *process(100, 1, reaches_kubelet=True),
        *process(200, 2, reaches_kubelet=False),
        *process(300, 3, reaches_kubelet=True),
    ]
    _, ledger = run(tmp_path, write(tmp_path / "n/journal.log", "".join(lines)))
    starts = reported(ledger, "n", KubeletStarted)
    assert [start.pid for start in starts] == [100, 300]
    assert all(start.from_start for start in starts)
