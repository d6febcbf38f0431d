"""From what the user named to a flat list of regular files, and what lies where.

Symbolic links are followed only to regular files inside the tree that was named. Members
of archives with absolute paths, ``..`` or device types are refused. What comes from
standard input or an archive is spooled into a temporary directory, since a log is read
twice: once to know what it is, once to import it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.several import holds_several, take_apart
from kubeledger.ingest.sources.spooling import (
    FILES_MAX,
    SPOOL_MAX,
    copy_stream,
    is_archive,
    spool_errors,
)
from kubeledger.ingest.sources.streams import SourceFile, permission_advice
from kubeledger.ledger.storage import MANIFEST, NODES
from kubeledger.model.errors import BadInputError, BadQuestionError, reason_of
from kubeledger.model.patterns import regex
from kubeledger.replay.node.state import SNAPSHOT_NAME

# What lies where in the collections of the field, and what that says about a file.
#
# The content of a file shows what it is. A path is asked only where the content leaves it open:
# a line with nothing but a version or a host's name, the log of a container that writes klog
# as the kubelet does, a table that a tool made for people. This table is the one place where paths
# of collections are known.

Role = Literal["collected-at", "container-log", "kubelet-version", "manifest", "node-name", "table"]

COLLECTIONS = (
    "OpenShift must-gather",
    "kind export logs",
    "sosreport",
    "minikube logs",
    "EKS log collector",
    "AKS log collector",
    "Rancher logs collector",
    "talosctl support",
    "kubectl cluster-info dump",
    "kubeledger collect",
)
"""Whose layouts are known and tried."""


class Place(NamedTuple):
    """A kind of file by its path.

    Attributes:
        role: what it is; ``kubelet-version``, ``node-name`` and ``collected-at`` are formats.
        whose: the collection that has it there.
    """

    role: Role
    whose: str


_TABLE: tuple[tuple[str, Role, str], ...] = (
    # A line with the version, among others or alone.
    (r"(?:^|/)kubernetes-version\.txt$", "kubelet-version", "kind export logs"),
    (r"(?:^|/)kubelet[_-]{1,3}version(?:\.txt)?$", "kubelet-version", "kubeledger collect"),
    (r"(?:^|/)(?:rke2|k3s)/version$", "kubelet-version", "Rancher logs collector"),
    # The machine's name, alone.
    (r"(?:^|/)sos_commands/host/hostname$", "node-name", "sosreport"),
    (r"(?:^|/)systeminfo/hostname$", "node-name", "Rancher logs collector"),
    (r"(?:^|/)node-name\.txt$", "node-name", "kubeledger collect"),
    # When the collection was made.
    (r"(?:^|/)must-gather[^/]*/(?:[^/]+/)?timestamp$", "collected-at", "OpenShift must-gather"),
    (r"^timestamp$", "collected-at", "OpenShift must-gather"),
    (r"(?:^|/)sos_commands/date/date(?:_--utc)?$", "collected-at", "sosreport"),
    (r"(?:^|/)systeminfo/date$", "collected-at", "Rancher logs collector"),
    (r"(?:^|/)collected-at\.txt$", "collected-at", "kubeledger collect"),
    # What was taken and what was absent.
    (r"(?:^|/)manifest\.txt$", "manifest", "kubeledger collect"),
    # Logs of containers: what they hold is nothing that the kubelet said.
    (r"(?:^|/)(?:pods|containers)/[^/]*[_/-]", "container-log", "the kubelet's /var/log/pods"),
    (r"(?:^|/)(?:[^/_]+_){2}[0-9a-f-]{32,36}/[^/]+/\d+\.log", "container-log", "/var/log/pods"),
    (r"(?:^|/)(?:[^/_]+_){2}[^/_]+-[0-9a-f]{64}\.log$", "container-log", "/var/log/containers"),
    (r"(?:^|/)kubernetes-logs/", "container-log", "talosctl support"),
    (r"(?:^|/)(?:containers-varlogs|podlogs)/", "container-log", "Rancher logs collector"),
    (r"(?:^|/)[^/]+/[^/]+/logs\.txt$", "container-log", "kubectl cluster-info dump"),
    # Tables for people: IDs are cut and sizes rounded in them.
    (r"(?:^|/)crictl/(?:images|imagefsinfo|pods|psa|statsa)$", "table", "Rancher logs collector"),
    (r"(?:^|/)crictl_(?:images|pods|ps|stats)(?:_-\w+)?$", "table", "sosreport"),
    (r"(?:^|/)images\.log$", "table", "kind export logs"),
)
_PLACES = tuple((regex(pattern), Place(role, whose)) for pattern, role, whose in _TABLE)

_NODES = tuple(
    regex(pattern)
    for pattern in (
        r"(?:^|/)([^/]+)/\1_logs_kubelet(?:\.gz)?$",  # must-gather of performance profiles
        r"(?:^|/)([^/]+)/service-logs/kubelet\.log$",  # talosctl support
        r"(?:^|/)sosreport-(.+?)(?:-\d{6,8})?-20\d\d-\d\d-\d\d-\w+/",
    )
)
"""Paths that name the node whose log lies there."""


@lru_cache(4096)
def place_of(path: str) -> Place | None:
    """What the path says of a file; None where it says nothing."""
    return next((place for pattern, place in _PLACES if pattern.search(path)), None)


def node_of_place(path: str) -> str | None:
    """The node that the path of a kubelet's log names; None where it names none."""
    found = (pattern.search(path) for pattern in _NODES)
    return next((match[1] for match in found if match is not None), None)


INCOMPLETE = "archive_incomplete"
"""The finding about a file of which an archive holds a part."""
_DUMP_DEPTH = 2
"""A dump of a cluster does not lie deeper than this: what lies there was taken of one node."""


class Collected(msgspec.Struct):
    """What one argument of the user's holds.

    Attributes:
        label: how the user named it.
        is_tree: a directory or an archive, so that names of its directories mean something.
        files: sorted by name.
        skipped: name -> why it is not a file that can be read.
        findings: what a reader of the ledger must know about it.
        damage: why an archive is not whole; empty where it is.
    """

    label: str
    is_tree: bool
    files: list[SourceFile]
    skipped: dict[str, str]
    name: str = ""
    findings: list[Finding] = []
    damage: str = ""


def collect(arguments: Sequence[str], spool: Path) -> list[Collected]:
    """The files that the arguments name, in their order; ``-`` is standard input.

    Args:
        arguments: paths as the user gave them.
        spool: an empty directory for what has to be unpacked; the caller removes it.

    Raises:
        BadInputError: a path does not exist or an archive is hostile or damaged.
        BadQuestionError: no argument.
    """
    if not arguments:
        raise BadQuestionError("nothing to import", advice="name a file or directory")
    return [_collect_one(text, spool / str(index)) for index, text in enumerate(arguments)]


def _collect_one(text: str, spool: Path) -> Collected:
    if text == "-":
        return _from_stdin(spool)
    path = Path(text)
    try:
        if path.is_dir():
            return _from_directory(text, path, spool)
        if not path.exists():
            raise BadInputError("no such file or directory", file=text)
        is_file = path.is_file()
    except (OSError, ValueError) as error:  # no permission, a name that is too long or has NUL
        raise BadInputError(
            f"cannot be looked at: {reason_of(error)}", file=text, advice=permission_advice(error)
        ) from None
    if not is_file:
        raise BadInputError("is neither a regular file nor a directory", file=text)
    source = SourceFile(_printable(path.name), path)
    return _opened(text, source, spool) or Collected(
        text, False, [source], {}, path.resolve().parent.name
    )


def _opened(text: str, source: SourceFile, spool: Path) -> Collected | None:
    """What a file holds that is a directory put into one; None for others."""
    if is_archive(source):
        return _from_tar(text, source, spool)
    if not holds_several(source):
        return None
    parts = take_apart(source, spool)
    return Collected(text, True, parts.files, parts.skipped, source.plain_name.partition(".")[0])


def _printable(name: str) -> str:
    """The name as text; bytes that are none are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _from_stdin(spool: Path) -> Collected:
    if sys.stdin is None:
        raise BadInputError("standard input is closed", file="-")
    target = spool / "stdin"
    with spool_errors("-"):
        spool.mkdir(parents=True)
        with target.open("wb") as out:
            copy_stream(sys.stdin.buffer, out, SPOOL_MAX, "-")
    source = SourceFile("stdin", target)
    return _opened("-", source, spool / "tree") or Collected("-", False, [source], {})


def _from_directory(text: str, root: Path, spool: Path) -> Collected:
    inside = root.resolve()
    collected = Collected(text, True, [], {}, _printable(inside.name))

    def unreadable(error: OSError) -> None:
        if Path(error.filename) == root:
            raise error
        name = _printable(Path(error.filename).relative_to(root).as_posix())
        collected.skipped[name] = f"a directory that cannot be read: {reason_of(error)}"
        message = f"directory is not read: {reason_of(error)}"
        collected.findings.append(Finding("unreadable", name, message))

    for path in _walk(root, unreadable, collected.skipped):
        name = _printable(path.relative_to(root).as_posix())
        reason = _refusal(path, inside)
        if reason:
            collected.skipped[name] = reason
        else:
            _take(collected, SourceFile(name, path), spool)
        if len(collected.files) > FILES_MAX:
            raise BadInputError(
                f"holds more than {FILES_MAX} files",
                file=text,
                advice="name the node's own directory",
            )
    collected.files.sort(key=lambda source: source.name)
    return collected


def _take(collected: Collected, source: SourceFile, spool: Path) -> None:
    """Take in a file, objects of several kinds as a file for each.

    No archive is opened: a bundle in a bundle would be another node's.
    """
    is_inner = of_several_kinds = False
    with suppress(BadInputError), source.held():  # reported when the file is looked at
        is_inner = is_archive(source)
        of_several_kinds = source.name.count("/") < _DUMP_DEPTH and holds_several(source)
    if is_inner:
        why = "an archive inside is not opened; import it by itself"
        collected.skipped[source.name] = why
        message = f"is not read: {why}"
        collected.findings.append(Finding("archive_inside", source.name, message))
    elif of_several_kinds:
        where = source.name.rpartition(".")[0] or source.name
        parts = take_apart(source, spool / f"parts-{len(collected.files)}")
        collected.skipped |= {f"{where}/{name}": why for name, why in parts.skipped.items()}
        for part in parts.files:
            part.name = f"{where}/{part.name}"
            collected.files.append(part)
    else:
        collected.files.append(source)


def _walk(
    root: Path, unreadable: Callable[[OSError], None], skipped: dict[str, str]
) -> Iterator[Path]:
    """Files below a directory; directories behind links are not entered, nor ledgers."""
    for directory, names, files in os.walk(root, onerror=unreadable, followlinks=False):
        names.sort()
        if MANIFEST in files and NODES in names and Path(directory) != root:
            names.clear()
            skipped[_printable(Path(directory).relative_to(root).as_posix())] = "a ledger"
            continue
        for name in sorted(files):
            yield Path(directory) / name
        for name in names:
            path = Path(directory) / name
            if path.is_symlink():
                yield path


def _refusal(path: Path, inside: Path) -> str | None:
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return "a broken link"
        if not target.is_relative_to(inside):
            return "a link that leads out of the directory"
        if target.is_dir():
            return "a link to a directory"
    try:
        return None if path.is_file() else "no regular file"
    except OSError as error:
        return f"cannot be looked at: {reason_of(error)}"


def _from_tar(text: str, source: SourceFile, spool: Path) -> Collected:
    from kubeledger.ingest.sources.unpack import unpack

    unpacked = unpack(source, spool, text)
    findings = [
        Finding(INCOMPLETE, name, f"is not read: {unpacked.skipped[name]}")
        for name in sorted(unpacked.cut)
    ]
    if unpacked.damage:
        message = f"archive {source.name} is damaged: {unpacked.damage}; what is whole is read"
        findings.append(Finding("truncated", None, message))
    plain = source.plain_name.partition(".tar")[0].removesuffix(".zip")
    name = _strip_top(unpacked.files) or plain
    collected = Collected(text, True, [], unpacked.skipped, name, findings, unpacked.damage)
    for file in unpacked.files:
        _take(collected, file, spool)
    return collected


def _strip_top(files: list[SourceFile]) -> str:
    """Take off directories that all files share, and return the last one's name.

    An archive of a bundle's directory is that bundle.
    """
    name = ""
    while files and all("/" in source.name for source in files):
        tops = {source.name.partition("/")[0] for source in files}
        if len(tops) > 1 or SNAPSHOT_NAME.fullmatch(min(tops)):
            break
        name = tops.pop()
        for source in files:
            source.name = source.name.partition("/")[2]
    return name
