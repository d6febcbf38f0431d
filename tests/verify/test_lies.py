"""Lies in the files of real nodes: each is found, and nothing else is called impossible."""

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding, Outcome, verify
from kubeledger.verify.registry import verifiers_for, verifiers_of
from tests.marks import nightly
from tests.recordings import extract
from tests.verify.histories import reader
from tests.verify.lie_corpus import CONTRADICTED, DAILY, NIGHTLY, Edit, Lie
from tests.verify.properties.truths import golden_names, named

HISTORIES = (
    *golden_names(),
    *(f"scenario/{name}/1" for name in ("claims", "cpus", "memory", "oom", "pulls", "resizes")),
)
REFUSED_ELSEWHERE = {
    "cgroups.CgroupRemoved": "test_cgroups_scenes.py",
    "cgroups.QOSCgroupsUpdated": "test_cgroups_scenes.py",
    "cpumanager.CpuStateRefused": "test_assignments.py",
    "eviction.NodeConditionsChanged": "test_evictions.py",
    "eviction.PodSpared": "test_evictions.py",
    "eviction.ReclaimAttempted": "test_evictions.py",
    "lifecycle.PodEvicted": "test_evictions.py",
    "memorymanager.MemoryStateRefused": "test_assignments.py",
}
"""Kind of decision -> where one is impossible that no change of a field below makes so."""


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lies")


@cache
def _unpacked(node: str, scratch: Path) -> Path:
    return extract(node, scratch / f"original-{node}")


def judged(
    node: str, edits: tuple[Edit, ...], scratch: Path, directory: Path
) -> tuple[list[Finding], list[Contradiction]]:
    """What is impossible, and contradictions, of a copy of a recording with these edits."""
    original = _unpacked(node, scratch)
    copy = directory / original.name
    shutil.copytree(original, copy, copy_function=os.link)
    for edit in edits:
        _change(copy / edit.file, edit)
    with open_histories([str(copy)]) as histories:
        (history,) = histories
        outcomes: list[Outcome] = list(history.verify())
    return (
        [o for o in outcomes if isinstance(o, Finding) and o.verdict == "impossible"],
        [o for o in outcomes if isinstance(o, Contradiction)],
    )


def _change(path: Path, edit: Edit) -> None:
    lines = path.read_bytes().decode().split("\n")
    if isinstance(edit.line, int):
        at = edit.line - 1
    else:
        at = next(n for n, line in enumerate(lines) if edit.line in line)
    assert edit.old in lines[at], f"line {at + 1} of {path.name} does not hold {edit.old}"
    lines[at] = lines[at].replace(edit.old, edit.new, 1)
    path.unlink()  # it is a link to the original
    path.write_bytes("\n".join(lines).encode())


ALONE = [
    lie
    for lie in DAILY
    if lie.kind == CONTRADICTED or lie.disputed or lie.name == "pull under policy Never"
]
TOGETHER = [lie for lie in DAILY if lie not in ALONE]
"""Lies in other lines, each of which makes one decision impossible: one copy may hold them all."""


@pytest.mark.parametrize("node", sorted({lie.node for lie in TOGETHER}))
def test_lies_in_one_copy(node: str, scratch: Path, tmp_path: Path) -> None:
    """Each changed decision is pointed at, and nothing else."""
    lies = [lie for lie in TOGETHER if lie.node == node]
    edits = tuple(edit for lie in lies for edit in lie.edits)
    wrong, disputes = judged(node, edits, scratch, tmp_path)
    assert disputes == []
    found = [(each.kind, each.subject) for each in wrong]
    assert sorted(found) == sorted((lie.kind, lie.subject) for lie in lies)
    for lie in lies:
        assert lie.says in wrong[found.index((lie.kind, lie.subject))].why


@pytest.mark.parametrize(
    "lie", [*ALONE, *nightly(*TOGETHER, *NIGHTLY)], ids=lambda lie: f"{lie.node}: {lie.name}"
)
def test_a_lie(lie: Lie, scratch: Path, tmp_path: Path) -> None:
    """The decision that was changed, or rests on what was changed, is pointed at."""
    wrong, disputes = judged(lie.node, lie.edits, scratch, tmp_path)
    pod = "/".join(["pod", *lie.subject.split("/")[1:3]])
    assert {dispute.subject for dispute in disputes} <= {lie.subject, pod}
    assert all(len(dispute.sides) >= 2 for dispute in disputes)
    if lie.kind == CONTRADICTED:
        assert wrong == []
        assert any(lie.says in side.says for dispute in disputes for side in dispute.sides)
        return
    assert [(finding.kind, finding.subject) for finding in wrong] == [(lie.kind, lie.subject)]
    assert lie.says in wrong[0].why
    assert bool(disputes) == lie.disputed
    assert wrong[0].file is not None


def _lies(record: Record) -> Iterator[Record]:
    """The record with one value in its body changed, or one list emptied."""
    plain = msgspec.to_builtins(record.body)
    for node, key in list(_places(plain)):
        true = node[key]
        for value in _others(true):
            node[key] = value
            try:
                body = msgspec.convert(plain, type(record.body))
            except msgspec.ValidationError:
                continue
            finally:
                node[key] = true
            yield msgspec.structs.replace(record, body=body)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - any JSON value
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])


def _others(value: object) -> tuple[object, ...]:
    match value:
        case bool():
            return (not value,)
        case int():
            return value + 1, value + 10**12
        case str():
            return ("other", "succeeded", "0", "deferred", "infeasible")
        case list() if value:
            return ([], value[:-1])
    return ()


def _is_refused(records: Sequence[Record], lie: Record) -> bool:
    """Whether verification says that the kubelet cannot have decided so."""
    changed = [lie if record.seq == lie.seq else record for record in records]
    try:
        found = list(verify(reader(changed), verifiers=verifiers_of({lie.kind})))
    except (LookupError, ValueError):
        return False  # no import makes such a record
    return any(
        isinstance(o, Finding) and (o.verdict, o.kind, o.seq) == ("impossible", lie.kind, lie.seq)
        for o in found
    )


def test_each_rule_refuses_something() -> None:
    """A rule that takes whatever is recorded judges nothing: of each kind one lie is impossible."""
    left = {kind.kind for verifier in verifiers_for(None) for kind in verifier.decides}
    for name in HISTORIES:
        records = named(name).records
        for kind in sorted(left):
            some = [record for record in records if record.kind == kind][:2]
            if any(_is_refused(records, lie) for record in some for lie in _lies(record)):
                left.discard(kind)
    assert sorted(left) == sorted(REFUSED_ELSEWHERE), "write a scene in which it is impossible"
