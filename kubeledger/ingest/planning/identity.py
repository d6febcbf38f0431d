"""Which node a bundle is from, and which version its kubelet is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

from kubeledger.ingest.planning.bundle import Bundle, FoundFile
from kubeledger.ingest.planning.options import ImportOptions
from kubeledger.ingest.sources.api_events import ApiReason
from kubeledger.ingest.sources.documents import DocumentContents, read_document
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Item,
    KernelReports,
    NodeObject,
    PodList,
    StatsSummary,
)
from kubeledger.ingest.sources.node_lines import same_machine
from kubeledger.model.errors import BadInputError

VersionSource = Literal["option", "log", "metrics", "node", "caller", "name"]

_BUILD_INFO = re.compile(rb'kubernetes_build_info\{[^}]*git_version="(v[^"]+)"')
_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)(?:$|[-+])")
_NOTED = re.compile(r"v?1\.\d{1,2}\.\d{1,3}(?:[-+][\w.+-]*)?(?![\d.])")
_IN_NAME = re.compile(r"(?<![\d.])v?(1\.\d{1,2}\.\d{1,2})(?![\d.])")


class KubeletVersion(msgspec.Struct, frozen=True):
    """A kubelet's version and how it is known.

    Attributes:
        version: ``1.36.2``; None when nothing shows it.
        text: what the kubelet calls itself.
    """

    version: str | None
    source: VersionSource | None
    text: str | None = None


def release_of(text: str | None) -> str | None:
    """``1.36.2`` of ``v1.36.2+k3s1``; None for a build without a version."""
    match = _RELEASE.match(text) if text else None
    return match[1] if match and not match[1].startswith("0.") else None


def has_version(name: str) -> bool:
    """Whether a directory's name holds a kubelet's version."""
    return _IN_NAME.search(name) is not None


class NamesInside(msgspec.Struct):
    """The nodes that a document names.

    Attributes:
        own: it is of this node: statistics, or the kubelet's own list of pods.
        objects: it holds the objects of these.
        listed: node -> names of pods on it, from lists and events of the API server.
        host: of the machine, as a collection notes it, or a kernel's log names it; a node may be
            called otherwise.
    """

    own: set[str] = set()
    objects: set[str] = set()
    listed: dict[str, set[str]] = {}
    host: str = ""


def name_of_bundle(bundle: Bundle) -> str:
    """The node's name by the directory's, if nothing else has it."""
    return _IN_NAME.sub("", bundle.name).strip("-_. ") or "node"


def names_inside(file: FoundFile, contents: DocumentContents) -> NamesInside:
    """The nodes that a document names; what is malformed is reported later, and names none."""
    names = NamesInside()
    if file.format == "node-name":
        with suppress(BadInputError):
            names.host = _note_of(file).partition("\n")[0].strip()
    if file.format in ("node", "stats-summary", "pod-list", "events", "kernel-log"):
        with suppress(BadInputError, AttributeError, TypeError):
            for item in read_document(file.at(0), contents)[0]:
                _take_names(names, item)
    return names


def _take_names(names: NamesInside, item: Item) -> None:
    match item:
        case NodeObject():
            name = (item.node.get("metadata") or {}).get("name")
            names.objects |= {str(name)} if name else set()
        case StatsSummary():
            name = (item.data.get("node") or {}).get("nodeName")
            names.own |= {str(name)} if name else set()
        case PodList():
            for pod in item.pods:
                name = (pod.get("spec") or {}).get("nodeName")
                if name and item.listed_by == "kubelet":
                    names.own.add(str(name))
                elif name:
                    pods = names.listed.setdefault(str(name), set())
                    pods.add(str((pod.get("metadata") or {}).get("name") or ""))
        case ApiEvent():
            api = ApiReason.read(item.event)
            if api.component == "kubelet" and api.host:
                names.listed.setdefault(api.host, set()).add(api.key[2])
        case KernelReports():
            hosts = {report.host: set[str]() for report in item.reports if report.host}
            if len(hosts) == 1:
                names.host = next(iter(hosts))
            names.listed |= hosts if len(hosts) > 1 else {}
        case _:
            return


def _note_of(file: FoundFile) -> str:
    return file.source.content().decode("utf-8", "replace").strip()


def kubelet_version(bundle: Bundle, options: ImportOptions) -> KubeletVersion:
    """The version of the bundle's (first) kubelet, from the surest source that has it."""
    if options.kubelet_version is not None:
        return KubeletVersion(options.kubelet_version.removeprefix("v"), "option")
    text = None
    for survey in bundle.logs:
        for mark in survey.versions:
            text = text or mark.text
            if mark.release:
                return KubeletVersion(mark.release, "log", mark.text)
    for source, version in _versions_elsewhere(bundle):
        release = release_of(version)
        if release:
            return KubeletVersion(release, source, version)
        text = text or version
    for noted in _notes(bundle):
        return KubeletVersion(release_of(noted), "name", noted)
    for survey in bundle.logs:
        if survey.caller_version:
            return KubeletVersion(survey.caller_version, "caller", text)
    match = _IN_NAME.search(bundle.name)
    if match:
        return KubeletVersion(match[1], "name", text)
    return KubeletVersion(None, None, text)


def _notes(bundle: Bundle) -> Iterator[str]:
    """Versions that a collection notes in files of their own."""
    for file in bundle.files:
        if file.format == "kubelet-version" and (found := _NOTED.search(_note_of(file))):
            yield found[0]


def _versions_elsewhere(bundle: Bundle) -> Iterator[tuple[VersionSource, str | None]]:
    for file in bundle.files:
        if file.format == "metrics":
            match = _BUILD_INFO.search(file.source.content())
            if match:
                yield "metrics", match[1].decode("utf-8", "replace")
    for file in bundle.files:
        if file.format == "node":
            for item in read_document(file.at(0), bundle.contents)[0]:
                if isinstance(item, NodeObject) and _may_be_of(item, bundle.node):
                    info: dict[str, Any] = (item.node.get("status") or {}).get("nodeInfo") or {}
                    yield "node", info.get("kubeletVersion")


def _may_be_of(item: NodeObject, node: str) -> bool:
    """A cluster's list holds the objects of all nodes."""
    name = (item.node.get("metadata") or {}).get("name")
    return not name or not node or same_machine(str(name), node)
