"""CPUs under other settings, held against a simulation of the same node under these."""

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.whatif import Change, Outlook, outlook, variants_of
from kubeledger.kubelet.kube.containermanager import parse
from kubeledger.model.bodies.resourcemanagers import CpuAllocationFailed, CpusAllocated
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.verify import Reader, Variant
from tests.simulate.engine.scenes import of_kind
from tests.simulate.engine.test_cpus import ACROSS_NUMA, FULL, STRICT, UNCORE, machine

OPTIONS = "cpuManagerPolicyOptions"


def reader(found: list[Record]) -> Reader:
    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    return read


def changed(found: list[Record], **settings: Any) -> list[Change]:  # noqa: ANN401 # JSON values
    changes = outlook(reader(found), Variant(name="v", settings=settings), Outlook(variant="v"))
    of_cpus = (each for each in changes if each.kind.startswith("cpumanager."))
    return [each for each in of_cpus if each.untrusted_since is None]


def decisions(found: list[Record]) -> list[tuple[str | None, str | None]]:
    bodies = (record.body for record in found)
    return [
        (body.pod, body.cpu_set if isinstance(body, CpusAllocated) else None)
        for body in bodies
        if isinstance(body, CpusAllocated | CpuAllocationFailed)
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), (FULL,)),
        ((), (ACROSS_NUMA,)),
        ((), (UNCORE,)),
        ((FULL,), ()),
        ((ACROSS_NUMA,), (FULL, UNCORE)),
    ],
)
def test_the_first_change_is_what_the_other_node_decides(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """Options of the policy; nothing is predicted after the first change."""
    was, other = machine(*before), machine(*after)
    first, *more = changed(was, **{OPTIONS: dict.fromkeys(after, "true")})
    assert not more
    pairs = zip(decisions(was), decisions(other), strict=False)
    at, (_, cpus) = next((a, b) for a, b in pairs if a != b)
    record = next(r for r in was if r.seq == first.seq)
    assert isinstance(record.body, CpusAllocated | CpuAllocationFailed)
    assert record.body.pod == at[0]
    if isinstance(record.body, CpusAllocated):
        assert first.instead == {"cpu_set": cpus}
    else:
        assert first.instead == {"error": None}


def test_other_reserved_cpus() -> None:
    first, *_ = changed(machine(), reservedSystemCPUs="0-2")
    assert first.recorded is not None
    assert first.kind == CpusAllocated.kind
    assert "reserved" in first.why or parse(str((first.instead or {})["cpu_set"])) & 0b111 == 0


@pytest.mark.parametrize(
    ("cpus", "has"), [("0-99", "has .* CPUs|has no CPU"), ("1,99", "has no CPU 99")]
)
def test_no_kubelet_reserves_cpus_that_are_not_there(cpus: str, has: str) -> None:
    history = history_of_reader("n", "n", reader(machine()))
    assert len(variants_of(history, ["reservedSystemCPUs=0-2"])) == 1
    with pytest.raises(BadQuestionError, match=has):
        variants_of(history, [f"reservedSystemCPUs={cpus}"])


def test_options_as_they_were_change_nothing() -> None:
    assert changed(machine(FULL), **{OPTIONS: {FULL: "true"}}) == []


def test_a_file_that_would_be_refused() -> None:
    """With strict reservation the file of a kubelet without it is; it is in no record."""
    found = machine()
    (_, second) = of_kind(found, "cpumanager.CpuManagerStarted")
    start = next(r.seq for r in found if r.body is second)
    later = [r for r in found if r.seq >= start - 20]
    (added,) = changed(later, **{OPTIONS: {STRICT: "true"}})
    assert (added.kind, added.recorded) == ("cpumanager.CpuStateRefused", None)
    assert added.instead is not None
    assert "some of strictly reserved cpus" in added.instead["error"]
