"""One node's part of a bundle of several."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from os.path import commonpath

import msgspec

from kubeledger.ingest.planning.bundle import Bundle, FoundFile
from kubeledger.ingest.sources.streams import SourceFile

__all__ = ["is_below", "own_directories", "part_of"]


def is_below(path: str, other: str) -> bool:
    """Whether a path lies inside a directory; the empty one holds all."""
    return path != other and (not other or path.startswith(f"{other}/"))


def own_directories(parents: Sequence[set[str]]) -> dict[int, str]:
    """Node -> the directory that holds all its logs, and no other node's; of several nodes.

    Args:
        parents: (n,) the directories that hold logs of each node.
    """
    every = set().union(*parents)
    if len(parents) < 2 or not every:
        return {}
    common = commonpath(every)
    prefix = f"{common}/" if common else ""
    tops = [
        {path[len(prefix) :].partition("/")[0] for path in own if path != common} for own in parents
    ]
    found = {}
    for index, own in enumerate(tops):
        alone = not any(own & other for other in (*tops[:index], *tops[index + 1 :]))
        if len(own) == 1 and alone and common not in parents[index]:
            found[index] = prefix + next(iter(own))
    return found


def part_of(
    bundle: Bundle, own: Sequence[FoundFile], top: str | None, others: Sequence[str]
) -> Bundle:
    """The bundle of one node; names are relative to its directory, if it has one.

    Args:
        bundle: of several nodes.
        own: files of the node.
        top: its directory.
        others: the other nodes' directories.
    """

    def concerns(name: str) -> bool:
        return not any(is_below(name, other) for other in others)

    def name_in(name: str) -> str:
        if top is None:
            return name
        return name[len(top) + 1 :] if is_below(name, top) else f"../{name}"

    files = []
    for file in sorted(own, key=lambda file: file.source.name):
        source = _renamed(file.source, name_in(file.source.name))
        survey = file.survey
        if survey is not None:
            survey = msgspec.structs.replace(survey, source=source)
        files.append(FoundFile(source, file.format, file.digests, survey))
    return Bundle(
        bundle.label if top is None else f"{bundle.label.rstrip('/')}/{top}",
        bundle.name if top is None else top.rpartition("/")[2],
        files,
        {name_in(name): why for name, why in bundle.skipped.items() if concerns(name)},
        [
            msgspec.structs.replace(found, file=None if found.file is None else name_in(found.file))
            for found in bundle.findings
            if found.file is None or concerns(found.file)
        ],
        is_tree=bundle.is_tree,
        contents=bundle.contents,
    )


def _renamed(source: SourceFile, name: str) -> SourceFile:
    if source.name == name:
        return source
    renamed = copy(source)
    renamed.name = name
    return renamed
