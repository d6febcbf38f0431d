"""Several logs in one file: ``minikube logs``, ``tail FILE...``, ``cluster-info dump``.

A line ``==> NAME <==`` stands before each. Where one of them names the kubelet, only what stands
below it is the kubelet's: others write klog lines, too, with a process ID of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kubeledger.ingest.sources.node_lines import OTHER_NODE, whole_lines
from kubeledger.ingest.sources.streams import SourceFile, SourceView
from kubeledger.ingest.sources.unpack import Unpacked, spool_errors
from kubeledger.model.patterns import regex

OTHER_SECTION = OTHER_NODE + b"\x19"
"""What a line of another program begins with; the rest of it is filled: lines keep their places."""

_SECTION = regex(rb"^(?:\* )?==> ([^\r\n]{1,200}) <==\r?$", re.MULTILINE)
_HEAD = 64 << 10
_HEADER_MAX = 256


def kubelets_sections(source: SourceFile) -> SourceFile:
    """The lines of the kubelet, where the log has sections and one of them is the kubelet's.

    Raises:
        BadInputError: it cannot be read.
    """
    if _SECTION.search(source.head(_HEAD)) is None:
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


# Files that hold what belongs into several: a file for each list of one kind.
#
# What ``kubectl cluster-info dump`` prints is taken apart as its ``--output-directory`` would be:
# lists of the API's objects, one below the other, then the logs of all containers between lines
# ``==== START`` and ``==== END``. A ``List`` of several kinds is what ``kubectl get pods,events``
# prints with ``-o json`` or ``-o yaml``.

_DUMP_HEAD = 4 << 10
_LIST = regex(
    rb'\s*\{\s*"apiVersion": ?"v1",\s*"(?:items"|kind": ?"List")|(?:---\n)?apiVersion: v1\nitems:\n'
)
_KIND_IN_YAML = regex(rb"^(?:- |  )kind: (\w+)", re.MULTILINE)
_BEGIN = regex(rb'\s*\{\s*(?:"apiVersion": ?"v1",\s*)?"kind": ?"NodeList"')
_END = regex(rb"\n\}\r?\n(?=\{|====)")
_CONTAINER = regex(rb"^==== START logs for container (\S+) of pod (\S+) ====", re.MULTILINE)
_KIND = regex(rb'"kind": ?"(\w+)List"')
_NAMESPACE = regex(rb'"namespace": ?"([\w.-]+)"')


class _Object(msgspec.Struct):
    kind: str = ""


class _Kinds(msgspec.Struct):
    kind: str = ""
    items: list[_Object] = []


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


def is_dump(source: SourceFile) -> bool:
    """Several lists stand in the file, that of the nodes first; or one has several kinds."""
    head = source.head(_DUMP_HEAD)
    if _BEGIN.match(head) is not None:
        return _END.search(source.content()) is not None
    return _LIST.match(head) is not None and len(_kinds(source.content())) > 1


def _kinds(content: bytes) -> set[str]:
    """Kinds of the objects of a ``List``; none where it is none, or broken."""
    if not content.lstrip().startswith(b"{"):
        found = _KIND_IN_YAML.findall(content) if b"\nkind: List\n" in content else []
        return {kind.decode() for kind in found}
    try:
        of = msgspec.json.decode(content, type=_Kinds)
    except (msgspec.DecodeError, RecursionError):
        return set()
    return {item.kind for item in of.items} if of.kind == "List" else set()


def take_apart(source: SourceFile, spool: Path) -> Unpacked:
    """A file for each list, in ``spool``, which is made; logs of containers are left out.

    Raises:
        BadInputError: there is no room for them, or the file is no valid YAML.
    """
    content, skipped = source.content(), dict[str, str]()
    if _BEGIN.match(content) is not None:
        logs = list(_CONTAINER.finditer(content))
        skipped = {
            f"{pod.decode()}/{container.decode()}.log": "log of a container"
            for container, pod in (log.groups() for log in logs)
        }
        parts: Iterable[tuple[str, bytes]] = _lists(content[: logs[0].start()] if logs else content)
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


def _lists(text: bytes) -> Iterator[tuple[str, bytes]]:
    begin = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        part, begin = text[begin:end], end
        if not part.strip():
            continue
        kind, namespace = _KIND.search(part), _NAMESPACE.search(part)
        name = f"{kind[1].decode().lower()}s.json" if kind else "rest.json"
        if namespace and kind and kind[1] != b"Node":
            name = f"{namespace[1].decode()}/{name}"
        yield name, part


def _by_kind(content: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        if not content.lstrip().startswith(b"{"):
            from kubeledger.ingest.sources.yaml_text import load_yaml  # few files need it

            content = msgspec.json.encode(load_yaml(content)[0])
        kinds = msgspec.json.decode(content, type=_Kinds).items
    except (ValueError, TypeError, msgspec.MsgspecError):
        yield "list.yaml", content  # whoever reads it says what is wrong with it
        return
    lists: dict[str, list[msgspec.Raw]] = {}
    items = msgspec.json.decode(content, type=_List).items
    for of, item in zip(kinds, items, strict=True):
        lists.setdefault(of.kind, []).append(item)
    for kind, of_kind in lists.items():
        whole = {"kind": f"{kind}List", "apiVersion": "v1", "items": of_kind}
        yield f"{kind.lower()}s.json", msgspec.json.encode(whole)
