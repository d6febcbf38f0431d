"""Several things in one file: logs of several programs, API objects of several kinds.

``minikube logs`` and ``tail FILE...`` write a line ``==> NAME <==`` before each log. Where one of
them names the kubelet, only what stands below it is the kubelet's: others write klog lines, too,
with a process ID of their own. Objects of several kinds come as a file for those of each kind:

==================================================  ================================================
``kubectl cluster-info dump``                       lists one below the other, then containers' logs
``kubectl get pods,events -o json`` or ``yaml``     a ``List`` of several kinds
``kubectl get ... >> FILE``, run several times      lists or objects one below the other
``jq .items``, ``jq -s .``                          an array of objects or lists
==================================================  ================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ingest.sources.node_lines import OTHER_NODE, whole_lines
from kubeledger.ingest.sources.spooling import Unpacked, spool_errors
from kubeledger.ingest.sources.streams import SourceFile, SourceView
from kubeledger.model.patterns import regex

OTHER_SECTION = OTHER_NODE + b"\x19"
"""What a line of another program begins with; the rest of it is filled: lines keep their places."""

_SECTION = regex(rb"^(?:\* )?==> ([^\r\n]{1,200}) <==\r?$", re.MULTILINE)
_SECTIONS_HEAD = 64 << 10
_HEADER_MAX = 256
_READ = frozenset({"Event", "Node", "Pod"})
"""Kinds that a file of several is taken apart for."""
_HEAD = 4 << 10
_OF_API = rb'"(?:apiVersion|items|kind|metadata|involvedObject|(?:type": ?"[A-Z]+",\s*")?object)"'
_OBJECT = regex(rb"\s*\[?\s*\{\s*" + _OF_API)
_OBJECT_IN_YAML = regex(rb"(?:---\n)?apiVersion: ")
_KIND_IN_YAML = regex(rb"^(?:- |  |)kind: (\w+?)(?:List)?$", re.MULTILINE)
_BETWEEN = regex(rb"(?<=\})\s*\n(?=\{)")
_DUMP = regex(rb'\s*\{\s*(?:"apiVersion": ?"v1",\s*)?"kind": ?"NodeList"')
_LAST = b"Cluster info dumped to "
_END = regex(rb"\n\}\r?\n(?=\{|====|%b)" % _LAST)
_CONTAINER = regex(rb"^==== START logs for container (\S+) of pod (\S+) ====", re.MULTILINE)
_OF_KUBECTL = {"resourceVersion": ""}
_KIND = regex(rb'"kind": ?"(\w+)List"')
_NAMESPACE = regex(rb'"namespace": ?"([\w.-]+)"')


def kubelets_sections(source: SourceFile) -> SourceFile:
    """The lines of the kubelet, where the log has sections and one of them is the kubelet's.

    Raises:
        BadInputError: it cannot be read.
    """
    if _SECTION.search(source.head(_SECTIONS_HEAD)) is None:
        return source
    tail = b""
    for chunk in source.chunks():
        window = tail + chunk
        if any(_is_kubelets(match) for match in _SECTION.finditer(window)):
            return SectionLines(source)
        tail = window[-_HEADER_MAX:]
    return source


def _is_kubelets(match: re.Match[bytes]) -> bool:
    return b"kubelet" in match[1]


class SectionLines(SourceView):
    """A log of which the lines in sections of other programs are filled."""

    def chunks(self) -> Iterator[bytes]:
        """The content, with lines of the same lengths.

        Raises:
            BadInputError: as ``SourceFile.chunks``.
        """
        is_ours = True
        for piece in whole_lines(super().chunks()):
            if is_ours and _SECTION.search(piece) is None:
                yield piece
                continue
            lines = piece.split(b"\n")
            for index, line in enumerate(lines):
                header = _SECTION.match(line)
                if header is not None:
                    is_ours = _is_kubelets(header)
                if not is_ours or header is not None:
                    lines[index] = _filled(line)
            yield b"\n".join(lines)

    def stored_chunks(self) -> Iterator[bytes]:
        """The content as it is read."""
        return self.chunks()


def _filled(line: bytes) -> bytes:
    """As long as the line; what is shorter than the mark is blank."""
    length = len(line)
    return OTHER_SECTION.ljust(length, b"\x19") if length >= len(OTHER_SECTION) else b" " * length


class _Value(msgspec.Struct):
    """As much of an object, a list or an entry of a watch as shows what it is."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None
    object: msgspec.Raw = msgspec.Raw()


def kind_of(document: Mapping[str, Any]) -> str:
    """The kind of an API object; of one in an API server's list, which has none, by its fields."""
    if document.get("kind"):
        return str(document["kind"])
    if "involvedObject" in document or "regarding" in document:
        return "Event"
    spec, status = document.get("spec"), document.get("status")
    if isinstance(spec, dict) and "containers" in spec:
        return "Pod"
    return "Node" if isinstance(status, dict) and "nodeInfo" in status else ""


def holds_several(source: SourceFile) -> bool:
    """Objects or lists of several kinds stand in the file.

    Raises:
        BadInputError: it cannot be read.
    """
    head = source.head(_HEAD)
    if _DUMP.match(head) is not None:
        return _END.search(source.content()) is not None
    if _OBJECT.match(head) is None and _OBJECT_IN_YAML.match(head) is None:
        return False
    return len(_kinds(source.content())) > 1


def take_apart(source: SourceFile, spool: Path) -> Unpacked:
    """A file for each list, or for the objects of a kind, in ``spool``, which is made.

    Logs of containers are left out.

    Raises:
        BadInputError: there is no room for them.
    """
    content, skipped = source.content(), dict[str, str]()
    if _DUMP.match(content) is not None:
        logs = list(_CONTAINER.finditer(content))
        skipped = {
            f"{pod.decode()}/{container.decode()}.log": "log of a container"
            for container, pod in (log.groups() for log in logs)
        }
        parts: Iterable[tuple[str, bytes]] = _lists(_without(logs, content))
    else:
        parts = _by_kind(content)
    files: dict[str, SourceFile] = {}
    with spool_errors(source.name):
        spool.mkdir(parents=True)
        for name, text in parts:
            path = spool / str(len(files))
            path.write_bytes(text)
            while name in files:  # lists that are empty do not say of which namespace
                name = f"other/{name}"
            files[name] = SourceFile(name, path, source.mtime_ns)
    return Unpacked([files[name] for name in sorted(files)], skipped)


def _without(logs: Sequence[re.Match[bytes]], content: bytes) -> bytes:
    """The lists alone: those of a namespace stand before its logs, the next one's after them."""
    kept, end = [], 0
    for log in logs:
        if log.start() < end:
            continue  # what a container wrote
        kept.append(content[end : log.start()])
        # It may stand in the last line of what the container wrote.
        ended = content.find(b"==== END logs for container %b " % log[1], log.end())
        end = len(content) if ended < 0 else content.find(b"\n", ended) + 1 or len(content)
    return b"".join((*kept, content[end:]))


def _lists(text: bytes) -> Iterator[tuple[str, bytes]]:
    begin = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        part, begin = text[begin:end], end
        if not part.strip() or part.startswith(_LAST):
            continue
        kind, namespace = _KIND.search(part), _NAMESPACE.search(part)
        name = f"{kind[1].decode().lower()}s.json" if kind else "rest.json"
        if namespace and kind and kind[1] != b"Node":
            name = f"{namespace[1].decode()}/{name}"
        yield name, part


def _kinds(content: bytes) -> set[str]:
    """The kinds that stand in the file; none where nothing is gained by taking it apart."""
    if _is_yaml(content):
        found = {kind.decode() for kind in _KIND_IN_YAML.findall(content)} - {""}
        if len(found & _READ) < 2 and b"\nkind: List\n" not in content:
            return set()
    try:
        kinds = {kind for kind, _ in _values(content)}
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return set()  # whoever reads it says what is wrong with it
    return kinds if kinds & _READ else set()


def _is_yaml(content: bytes) -> bool:
    return content.lstrip()[:1] not in (b"{", b"[")


def _values(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Kind and text of the values; a list of several kinds comes as one of each."""
    if _is_yaml(content):
        from kubeledger.ingest.sources.yaml_text import load_yaml  # few files need it

        texts = [msgspec.json.encode(value) for value in load_yaml(content) if value]
    else:
        texts = _BETWEEN.split(content.strip())
    for text in texts:
        if text.startswith(b"["):
            for value in msgspec.json.decode(text, type=list[msgspec.Raw]):
                yield from _of_value(bytes(value))
        else:
            yield from _of_value(text)


def _of_value(text: bytes) -> Iterator[tuple[str, bytes]]:
    value = msgspec.json.decode(text, type=_Value)
    if bytes(value.object).startswith(b"{"):
        yield _object_kind(bytes(value.object)), text
        return
    if value.items is None:
        yield value.kind.removesuffix("List") or _object_kind(text), text
        return
    of_list = value.kind.removesuffix("List")
    lists: dict[str, list[msgspec.Raw]] = {}
    for item in value.items:
        lists.setdefault(of_list or _object_kind(bytes(item)), []).append(item)
    for kind, items in lists.items():
        whole = {"kind": f"{kind}List", "metadata": _OF_KUBECTL, "items": items}
        yield kind, msgspec.json.encode(whole) if len(lists) > 1 else text


def _object_kind(text: bytes) -> str:
    kind = msgspec.json.decode(text, type=_Value).kind
    return kind or kind_of(msgspec.json.decode(text))


def _by_kind(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The values of each kind, one in a line."""
    texts: dict[str, list[bytes]] = {}
    for kind, text in _values(content):
        texts.setdefault(kind, []).append(text)
    for kind, of_kind in texts.items():
        yield f"{kind.lower() or 'other'}s.json", b"\n".join(of_kind)
