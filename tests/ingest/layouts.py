"""Slices of the recordings, laid out as the collections that people gather in the field.

A layout is a function from a directory and some nodes' slices to what a plain import of each
node's files would be given: its log as the kubelet wrote it, and the documents as they are.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

from tests.recordings import extract

_HEADER = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{6}) +(\d+) ")
_CUTS = {
    "node-a": ("node-a", "1.20.2", 1200, "20261121T025416Z"),
    "node-b": ("node-b", "1.36.2", 1200, "20261121T030715Z"),
    "node-e": ("node-e-oom", "1.30.14", 1500, "20261122T081122Z"),
}
"""Node -> recording, version, lines, and the snapshot whose documents are taken."""
_API_FILES = ("node.json", "events.json")

Documents = dict[str, bytes]


class Slice(NamedTuple):
    """The beginning of a node's log, and some of its documents.

    Attributes:
        documents: name -> content; ``pods.json`` as its kubelet lists them.
    """

    node: str
    version: str
    lines: list[str]
    documents: Documents


class Written(NamedTuple):
    """What a plain import is given, by node."""

    logs: dict[str, str]
    documents: dict[str, Documents]


@cache
def slices() -> dict[str, Slice]:
    with TemporaryDirectory() as directory:
        return {node: _cut(node, Path(directory)) for node in _CUTS}


def _cut(node: str, directory: Path) -> Slice:
    recording, version, count, snapshot = _CUTS[node]
    root = extract(recording, directory)
    with (root / "kubelet.log").open(encoding="utf-8") as log:
        lines = [line.rstrip("\n") for line, _ in zip(log, range(count), strict=False)]
    while not _HEADER.match(lines[0]):
        lines.pop(0)
    paths = [*(root / name for name in (*_API_FILES, "kubelet-config.yaml", "kernel.log"))]
    paths += sorted((root / "snapshots" / snapshot).glob("*"))
    documents = {path.name: path.read_bytes() for path in paths if path.exists()}
    return Slice(node, version, lines, documents)


# -- carriers -----------------------------------------------------------------------------------

_MONTHS = (
    *("", "Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
Wrap = Callable[[str, str, re.Match[str], str], str]


def short(node: str, program: str, at: re.Match[str], line: str) -> str:
    """``journalctl`` and syslog."""
    return f"{_MONTHS[int(at[1])]} {at[2]} {at[3][:8]} {node} {program}[{at[4]}]: {line}"


def short_precise(node: str, program: str, at: re.Match[str], line: str) -> str:
    """``oc adm node-logs``."""
    return f"{_MONTHS[int(at[1])]} {at[2]} {at[3]} {node} {program}[{at[4]}]: {line}"


def iso_precise(node: str, program: str, at: re.Match[str], line: str) -> str:
    """``journalctl -o short-iso-precise``."""
    return f"2026-{at[1]}-{at[2]}T{at[3]}+00:00 {node} {program}[{at[4]}]: {line}"


def snap(node: str, program: str, at: re.Match[str], line: str) -> str:
    return f"2026-{at[1]}-{at[2]}T{at[3][:8]}Z {program}[{at[4]}]: {line}"


def address(node: str, program: str, at: re.Match[str], line: str) -> str:
    """``talosctl -n A,B logs kubelet``."""
    return f"{node}: {line}"


def node_first(node: str, program: str, at: re.Match[str], line: str) -> str:
    """``oc adm node-logs --path``, and the node log query of several nodes."""
    return f"{node} {line}"


def journal(slice_: Slice, wrap: Wrap, program: str = "kubelet") -> Iterator[tuple[str, ...]]:
    """Each entry of a log with its continuation lines, as a carrier shows them."""
    entry: list[str] = []
    at: re.Match[str] | None = None
    for line in slice_.lines:
        header = _HEADER.match(line)
        if header and entry:
            yield tuple(entry)
            entry = []
        at = header or at
        assert at is not None, "the first line has a header"
        entry.append(wrap(slice_.node, program, at, line))
    yield tuple(entry)


def plain(entries: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"{line}\n" for entry in entries for line in entry)


def interleaved(logs: Sequence[Iterable[tuple[str, ...]]]) -> str:
    """Logs turn by turn, a few entries each."""
    turns = ([each for each in turn if each] for turn in zip_longest(*logs))
    return plain(chain.from_iterable(turns))


# -- documents ----------------------------------------------------------------------------------


def write(path: Path, content: str | bytes) -> None:
    """A file, its directory made; packed where its name ends in .gz; of no time that tells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def objects(nodes: Iterable[Slice], name: str) -> list[dict[str, Any]]:
    """API objects out of the slices' documents."""
    found: list[dict[str, Any]] = []
    for each in nodes:
        if name in each.documents:
            value = json.loads(each.documents[name])
            found += value.get("items", [value])
    for item in found:  # the kubelet's own list says where it has a pod from
        (item["metadata"].get("annotations") or {}).pop("kubernetes.io/config.source", None)
    return found


def as_yaml(value: object) -> bytes:
    """What ``oc adm inspect`` and ``talosctl`` write."""
    return b"---\n" + yaml.dump(value, encoding="utf-8", Dumper=yaml.CSafeDumper)


def as_json(value: object) -> bytes:
    """What ``kubectl get -o json`` writes."""
    return json.dumps(value, indent=1).encode()


def as_list(
    kind: str, items: Sequence[dict[str, Any]], form: Callable[[object], bytes] = as_json
) -> bytes:
    metadata = {"resourceVersion": "4711"}
    return form({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items})


def of_namespaces(items: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    spaces: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        spaces.setdefault(item["metadata"].get("namespace", "default"), []).append(item)
    return spaces


def lists(nodes: Sequence[Slice]) -> Documents:
    """The cluster's lists of pods and events, a namespace each."""
    found: Documents = {}
    for kind, name in (("PodList", "pods"), ("EventList", "events")):
        for space, items in of_namespaces(objects(nodes, f"{name}.json")).items():
            found[f"{name}-{space}.json"] = as_list(kind, items)
    return found


def _take(nodes: Sequence[Slice], *names: str) -> dict[str, Documents]:
    return {
        each.node: {name: each.documents[name] for name in names if name in each.documents}
        for each in nodes
    }


def _logs(nodes: Sequence[Slice]) -> dict[str, str]:
    return {each.node: "".join(f"{line}\n" for line in each.lines) for each in nodes}


# -- layouts ------------------------------------------------------------------------------------

_CONTAINER_LOG = (
    "2026-11-21T02:54:02.000000000Z stderr F I1121 02:54:02.000000       1 leaderelection.go:250]"
    " attempting to acquire leader lease\n"
)
_CONTAINERD = (
    'Nov 21 02:54:02 node-a containerd[77]: time="2026-11-21T02:54:02Z" level=info msg="x"\n'
)


def must_gather(root: Path, nodes: Sequence[Slice]) -> Written:
    """``oc adm must-gather``: masters' journals interleaved, YAML of the cluster's objects."""
    top = root / "must-gather.local.847" / "quay-io-openshift-sha256-1f"
    program = ("kubenswrapper", "hyperkube", "kubenswrapper")
    logs = [journal(each, short_precise, name) for each, name in zip(nodes, program, strict=False)]
    host = top / "host_service_logs"
    write(host / "masters" / "kubelet_service.log", interleaved(logs[:2]))
    write(host / "workers" / "kubelet_service.log.gz", interleaved(logs[2:]))
    write(host / "masters" / "crio_service.log", _CONTAINERD.replace("containerd", "crio"))
    write(top / "timestamp", "2026-11-22 09:00:01.5 +0000 UTC m=+0.1\n")
    write(top / "version", "openshift/must-gather\n4.16.0\n")
    for item in objects(nodes, "node.json"):
        name = item["metadata"]["name"]
        path = top / "cluster-scoped-resources" / "core" / "nodes" / f"{name}.yaml"
        write(path, as_yaml(item))
    for space, pods in of_namespaces(objects(nodes, "pods.json")).items():
        for pod in pods:
            name = pod["metadata"]["name"]
            place = top / "namespaces" / space / "pods" / name
            single = {"kind": "Pod", "apiVersion": "v1", **pod}
            write(place / f"{name}.yaml", as_yaml(single))
            write(place / "app" / "app" / "logs" / "current.log", _CONTAINER_LOG)
        write(top / "namespaces" / space / "core" / "pods.yaml", as_list("PodList", pods, as_yaml))
    for space, events in of_namespaces(objects(nodes, "events.json")).items():
        write(
            top / "namespaces" / space / "core" / "events.yaml",
            as_list("EventList", events, as_yaml),
        )
    own = _take(nodes, "node.json")
    singles = {
        f"{pod['metadata']['name']}.json": as_json({"kind": "Pod", "apiVersion": "v1", **pod})
        for pod in objects(nodes, "pods.json")
    }
    documents = {each.node: {**lists(nodes), **singles, **own[each.node]} for each in nodes}
    return Written(_logs(nodes), documents)


def node_logs(root: Path, nodes: Sequence[Slice]) -> Written:
    """``oc adm node-logs --role=master -u kubelet``."""
    logs = [journal(each, short_precise, "kubenswrapper") for each in nodes]
    write(root / "node-logs.txt", interleaved(logs))
    return Written(_logs(nodes), {})


def node_log_query(root: Path, nodes: Sequence[Slice]) -> Written:
    """A file of the nodes' log directory: each line begins with its node."""
    write(root / "kubelet.log", interleaved([journal(each, node_first) for each in nodes]))
    return Written(_logs(nodes), {})


def kind_export(root: Path, nodes: Sequence[Slice]) -> Written:
    write(root / "kind-version.txt", "kind v0.23.0 go1.21.10 linux/amd64\n")
    write(root / "docker-info.txt", "Client:\n Version:    26.1.3\n")
    for each in nodes:
        place = root / each.node
        log = plain(journal(each, short))
        write(place / "kubelet.log", log)
        write(place / "journal.log", _CONTAINERD.replace("node-a", each.node) + log)
        write(place / "containerd.log", _CONTAINERD.replace("node-a", each.node))
        write(place / "kubernetes-version.txt", f"v{each.version}\n")
        write(place / "images.log", "IMAGE    TAG    IMAGE ID    SIZE\n")
        write(place / "inspect.json", json.dumps([{"Id": "4f", "Name": f"/{each.node}"}]))
        pod = "pods/kube-system_kube-scheduler-x_1f/kube-scheduler/0.log"
        write(place / pod, _CONTAINER_LOG)
    versions = {each.node: f"v{each.version}\n".encode() for each in nodes}
    notes = {node: {"kubernetes-version.txt": note} for node, note in versions.items()}
    return Written(_logs(nodes), notes)


def sosreport(root: Path, nodes: Sequence[Slice]) -> Written:
    """``sos report`` on one node."""
    (node,) = nodes
    top = root / f"sosreport-{node.node}-03512345-2026-11-22-abcdefg"
    name = "journalctl_--no-pager_--unit_kubelet"
    write(top / "sos_commands" / "kubernetes" / name, plain(journal(node, short, "kubelet")))
    write(top / "sos_commands" / "openshift" / name, plain(journal(node, short, "kubelet")))
    write(top / "sos_commands" / "host" / "hostname", f"{node.node}\n")
    write(top / "sos_commands" / "crio" / "crictl_ps_-a", "CONTAINER  IMAGE  CREATED  STATE\n")
    for name in ("cpu_manager_state", "kubelet_internal_checkpoint"):
        where = "device-plugins/" if "checkpoint" in name else ""
        write(top / "var" / "lib" / "kubelet" / where / name, node.documents[name])
    write(top / "var" / "lib" / "kubelet" / "config.yaml", node.documents["kubelet-config.yaml"])
    names = ("cpu_manager_state", "kubelet_internal_checkpoint", "kubelet-config.yaml")
    return Written(_logs(nodes), _take(nodes, *names))


def eks_collector(root: Path, nodes: Sequence[Slice]) -> Written:
    """EKS's log collector on one node of Amazon Linux."""
    (node,) = nodes
    top = root / "eks_i-0a1b2c3d4e5f60718_2026-11-22_0915-UTC_0.7.8"
    log = plain(journal(node, short))
    write(top / "kubelet" / "kubelet.log", log)
    write(top / "kubelet" / "kubelet_service.txt", "[Service]\nExecStart=/usr/bin/kubelet\n")
    write(top / "kubelet" / "config.json", node.documents["kubelet-config.yaml"])
    write(top / "containerd" / "containerd-log.txt", _CONTAINERD)
    write(top / "var_log" / "messages", _CONTAINERD + log)
    return Written(_logs(nodes), _take(nodes, "kubelet-config.yaml"))


def eks_ubuntu(root: Path, nodes: Sequence[Slice]) -> Written:
    """EKS's log collector where the kubelet is a snap."""
    (node,) = nodes
    top = root / "eks_i-0a1b2c3d4e5f60718_2026-11-22_0915-UTC_0.7.8"
    write(top / "kubelet" / "kubelet.log", plain(journal(node, snap, "kubelet-eks.daemon")))
    return Written(_logs(nodes), {})


def aks(root: Path, nodes: Sequence[Slice]) -> Written:
    """AKS's log collector: the whole syslog, rotated, and what crictl says."""
    (node,) = nodes
    top = root / "aks_logs"
    entries = list(journal(node, short))
    other = (_CONTAINERD.rstrip("\n"),)
    half = len(entries) // 2
    write(top / "var" / "log" / "syslog.1.gz", plain([other, *entries[:half]]))
    write(top / "var" / "log" / "syslog", plain([*entries[half:], other]))
    write(top / "collect" / "lscpu.json", '{"lscpu": []}')
    return Written(_logs(nodes), {})


def rancher_k3s(root: Path, nodes: Sequence[Slice]) -> Written:
    """Rancher's collector on a k3s node."""
    (node,) = nodes
    top = root / f"{node.node}-2026-11-22_09_15_00"
    write(top / "journald" / "k3s", plain(journal(node, short, "k3s")))
    write(top / "systeminfo" / "hostname", f"{node.node}\n")
    write(top / "k3s" / "crictl" / "images", "IMAGE    TAG    IMAGE ID    SIZE\n")
    return Written(_logs(nodes), {})


def rancher_rke2(root: Path, nodes: Sequence[Slice]) -> Written:
    """Rancher's collector on an RKE2 node: the kubelet has a log of its own."""
    (node,) = nodes
    top = root / f"{node.node}-2026-11-22_09_15_00"
    write(top / "rke2" / "agent-logs" / "kubelet.log", _logs(nodes)[node.node])
    line = (
        f'Nov 22 08:11:14 {node.node} rke2[812]: time="2026-11-22T08:11:14Z" level=info msg="x"\n'
    )
    write(top / "journald" / "rke2-agent", line)
    write(top / "systeminfo" / "hostname", f"{node.node}\n")
    write(top / "rke2" / "podlogs" / "kube-system-etcd", _CONTAINER_LOG)
    return Written(_logs(nodes), {})


def talos_support(root: Path, nodes: Sequence[Slice]) -> Written:
    """``talosctl support``: a directory for each address."""
    for number, each in enumerate(nodes, 2):
        place = root / f"172.20.0.{number}"
        write(place / "service-logs" / "kubelet.log", _logs(nodes)[each.node])
        write(place / "service-logs" / "kubelet.state", "ID: kubelet\n")
        write(place / "kubernetes-logs" / "kube-system" / "kube-scheduler.log", _CONTAINER_LOG)
        write(place / "summary", "Client:\n")
    cluster = root / "kubernetesResources"
    write(cluster / "nodes.yaml", as_list("NodeList", objects(nodes, "node.json"), as_yaml))
    documents = {"nodes.json": as_list("NodeList", objects(nodes, "node.json"))}
    return Written(_logs(nodes), {each.node: documents for each in nodes})


def talos_logs(root: Path, nodes: Sequence[Slice]) -> Written:
    """``talosctl -n A,B logs kubelet``."""
    write(root / "kubelet.log", interleaved([journal(each, address) for each in nodes]))
    return Written(_logs(nodes), {})


def minikube(root: Path, nodes: Sequence[Slice]) -> Written:
    """``minikube logs --file``: sections of other programs before and after."""
    (node,) = nodes
    asked = "-- Logs begin at Sat 2026-11-21 03:00:00 UTC, end at Sat 2026-11-21 03:20:00 UTC. --"
    text = (
        f"==> containerd <==\n{asked}\n{_CONTAINERD}\n==> dmesg <==\n[Nov21 02:00] x\n\n"
        f"==> kubelet <==\n{asked}\n{plain(journal(node, short))}\n"
        "==> storage-provisioner [4f] <==\nI1121 03:06:20.000000       1 main.go:1] x\n"
    )
    write(root / "logs.txt", text)
    return Written(_logs(nodes), {})


def cluster_info(root: Path, nodes: Sequence[Slice]) -> Written:
    """``kubectl cluster-info dump --output-directory``: no log of a kubelet."""
    write(root / "nodes.json", as_list("NodeList", objects(nodes, "node.json")))
    pods, events = objects(nodes, "pods.json"), objects(nodes, "events.json")
    for space, items in of_namespaces(pods).items():
        write(root / space / "pods.json", as_list("PodList", items))
        for pod in items:
            write(root / space / pod["metadata"]["name"] / "logs.txt", _CONTAINER_LOG)
    for space, items in of_namespaces(events).items():
        write(root / space / "events.json", as_list("EventList", items))
    documents = lists(nodes) | {"nodes.json": as_list("NodeList", objects(nodes, "node.json"))}
    return Written({}, {each.node: documents for each in nodes})


class Layout(NamedTuple):
    """A layout, and whose slices it is written with."""

    write: Callable[[Path, Sequence[Slice]], Written]
    nodes: tuple[str, ...]


_ALL = ("node-a", "node-b", "node-e")
LAYOUTS = {
    "must-gather": Layout(must_gather, _ALL),
    "node-logs": Layout(node_logs, _ALL),
    "node-log-query": Layout(node_log_query, _ALL),
    "kind": Layout(kind_export, ("node-a", "node-b")),
    "sosreport": Layout(sosreport, ("node-a",)),
    "eks": Layout(eks_collector, ("node-b",)),
    "eks-ubuntu": Layout(eks_ubuntu, ("node-b",)),
    "aks": Layout(aks, ("node-e",)),
    "rancher-k3s": Layout(rancher_k3s, ("node-e",)),
    "rancher-rke2": Layout(rancher_rke2, ("node-e",)),
    "talos-support": Layout(talos_support, ("node-b", "node-e")),
    "talos-logs": Layout(talos_logs, ("node-b", "node-e")),
    "minikube": Layout(minikube, ("node-b",)),
    "cluster-info": Layout(cluster_info, ("node-a", "node-e")),
}
