"""Which node a bundle is from, and which version its kubelet is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

from kubeledger.errors import BadInputError
from kubeledger.importers.bundle import Bundle
from kubeledger.importers.documents import Document, read_document
from kubeledger.importers.items import ApiEvent, Item, NodeObject, PodList, StatsSummary
from kubeledger.importers.options import ImportOptions
from kubeledger.importers.sources import SourceFile

__all__ = ["KubeletVersion", "kubelet_version", "node_name"]

VersionSource = Literal["option", "log", "metrics", "node", "caller", "name"]

_BUILD_INFO = re.compile(rb'kubernetes_build_info\{[^}]*git_version="(v[^"]+)"')
_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)(?:$|[-+])")
_IN_NAME = re.compile(r"(?<![\d.])v?(1\.\d{1,2}\.\d{1,2})(?![\d.])")


class KubeletVersion(msgspec.Struct, frozen=True):
    """A kubelet's version and how it is known.

    Attributes:
        version: ``1.36.2``; None when nothing tells.
        text: what the kubelet calls itself.
    """

    version: str | None
    source: VersionSource | None
    text: str | None = None


def release_of(text: str | None) -> str | None:
    """``1.36.2`` of ``v1.36.2+k3s1``; None for a build without a version."""
    match = _RELEASE.match(text) if text else None
    return match[1] if match and not match[1].startswith("0.") else None


def node_name(bundle: Bundle, options: ImportOptions) -> str:
    """The node that the bundle is from.

    Raises:
        BadInputError: its files are from several nodes.
    """
    if options.node is not None:
        return options.node
    told: dict[str, str] = {}
    hosts: dict[str, str] = {}
    for file, name, certain in _names(bundle):
        (told if certain else hosts).setdefault(name, file)
    if len(told) > 1:
        (first, first_file), (second, second_file) = list(told.items())[:2]
        raise BadInputError(
            f"holds files of more than one node: {first} ({first_file}) and "
            f"{second} ({second_file})",
            file=bundle.label,
            advice="import each node's files on their own, or say whose they are with --node",
        )
    if told:
        return next(iter(told))
    if len(hosts) == 1:
        return next(iter(hosts))
    return _IN_NAME.sub("", bundle.name).strip("-_. ") or "node"


def _names(bundle: Bundle) -> Iterator[tuple[str, str, bool]]:
    """File, node name in it, and whether that is the node the file is from."""
    for survey in bundle.logs:
        for name in survey.nodes:
            yield survey.source.name, name, True
    for file in bundle.files:
        if file.format in ("node", "stats-summary", "pod-list", "events"):
            # What is malformed is told later; it names no node.
            with suppress(BadInputError, AttributeError, TypeError):
                for item in _items(file.source, file.format):
                    for name, certain in _names_in(item):
                        yield file.source.name, str(name), certain


def _items(source: SourceFile, form: str) -> list[Item]:
    return read_document(Document(source, form, 0))[0]


def _names_in(item: Item) -> Iterator[tuple[str, bool]]:
    match item:
        case NodeObject():
            name = (item.node.get("metadata") or {}).get("name")
            if name:
                yield name, True
        case StatsSummary():
            name = (item.data.get("node") or {}).get("nodeName")
            if name:
                yield name, True
        case PodList():
            for pod in item.pods:
                name = (pod.get("spec") or {}).get("nodeName")
                if name:
                    yield name, item.listed_by == "kubelet"
        case ApiEvent():
            source = item.event.get("source") or item.event.get("deprecatedSource") or {}
            if source.get("component") == "kubelet" and source.get("host"):
                yield source["host"], False
        case _:
            return


def kubelet_version(bundle: Bundle, options: ImportOptions) -> KubeletVersion:
    """The version of the bundle's (first) kubelet, from the surest source that tells it."""
    if options.kubelet_version is not None:
        return KubeletVersion(options.kubelet_version.removeprefix("v"), "option")
    text = None
    for survey in bundle.logs:
        for mark in survey.versions:
            text = text or mark.text
            if mark.release:
                return KubeletVersion(mark.release, "log", mark.text)
    for source, told in _told_elsewhere(bundle):
        release = release_of(told)
        if release:
            return KubeletVersion(release, source, told)
        text = text or told
    for survey in bundle.logs:
        if survey.caller_version:
            return KubeletVersion(survey.caller_version, "caller", text)
    match = _IN_NAME.search(bundle.name)
    if match:
        return KubeletVersion(match[1], "name", text)
    return KubeletVersion(None, None, text)


def _told_elsewhere(bundle: Bundle) -> Iterator[tuple[VersionSource, str | None]]:
    for file in bundle.files:
        if file.format == "metrics":
            match = _BUILD_INFO.search(file.source.content())
            if match:
                yield "metrics", match[1].decode("utf-8", "replace")
    for file in bundle.files:
        if file.format == "node":
            for item in _items(file.source, file.format):
                if isinstance(item, NodeObject):
                    info: dict[str, Any] = (item.node.get("status") or {}).get("nodeInfo") or {}
                    yield "node", info.get("kubeletVersion")
