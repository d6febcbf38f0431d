"""What a rule reads of a log is what it names as the classes of lines that it rests on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pytest

from kubeledger.model.bodies.eviction import NodeConditionsChanged
from kubeledger.model.bodies.ledger import ImportCompleted
from kubeledger.model.bodies.lifecycle import ContainerDied
from kubeledger.model.record import Body, Record
from kubeledger.verify import Finding
from kubeledger.verify.context import Verifier, VerifyContext
from kubeledger.verify.evidence import coverage, line_classes
from kubeledger.verify.evidence.line_classes import (
    CALM,
    CONDITIONS,
    CPUS,
    DEVICES,
    KILLS,
    OWED,
    PODS,
    REFUSALS,
    REMOVALS,
    RESIZES,
    RESTS_ON,
    RUNS,
    SIGNALS,
    LineClass,
)
from kubeledger.verify.registry import verifiers_for, verifiers_of
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
from kubeledger.verify.rules.claims import ClaimVerifier
from kubeledger.verify.rules.cpus import CpuVerifier
from kubeledger.verify.rules.evictions.rule import EvictionVerifier
from kubeledger.verify.rules.images.rule import ImageVerifier
from kubeledger.verify.rules.memory import MemoryVerifier
from kubeledger.verify.rules.probes import ProbeVerifier
from kubeledger.verify.rules.pulls import PullVerifier
from kubeledger.verify.rules.shutdowns import ShutdownVerifier
from kubeledger.verify.rules.syncs import SyncVerifier
from tests.verify.histories import outcomes, scene
from tests.verify.properties.measure import is_wrong
from tests.verify.properties.truths import named

CLASSES = tuple(
    dict.fromkeys(c for names in (RESTS_ON, OWED) for each in names.values() for c in each)
)
OBSERVED: Mapping[str, type[Verifier]] = {
    "dra.DraManagerStateRead": ClaimVerifier,
    "lifecycle.ContainerStarted": SyncVerifier,
    "lifecycle.PodTerminating": ShutdownVerifier,
    "topologymanager.HintsGenerated": MemoryVerifier,
}
"""Kind of an observation that is named -> the rule that contradicts it."""
BY_TIMELINE = (PODS, RUNS)
"""What every rule may read in the shared timeline."""
WIDENS: Mapping[tuple[type[Verifier], LineClass], str] = {
    (CgroupVerifier, RESIZES): "a resize is one more version of what a pod asks for",
    (CpuVerifier, REFUSALS): "a refusal ends what was never given",
    (MemoryVerifier, REFUSALS): "a refusal ends what was never given",
    (EvictionVerifier, RESIZES): "a resize is one more version of what a pod asks for",
    (ImageVerifier, SIGNALS): "the disk is taken from a collection's own amounts, too",
    (ProbeVerifier, KILLS): "a kill says that a failure is cached",
    (PullVerifier, REMOVALS): "where a log was read, any image may be gone",
}
"""What a rule reads and does not name -> why nothing is impossible for want of it."""


def read_by(verifier: type[Verifier]) -> set[type[Body]]:
    """Kinds of records that a rule reads, or the one whose belief it asks."""
    context = VerifyContext()
    with_asked = verifiers_of({body.kind for body in verifier.decides}) or (verifier,)
    made = [each(context) for each in with_asked]
    return {kind for each in made for kind in (*each.sees(), *each.prescans())}


def unread(names: Mapping[str, Sequence[LineClass]]) -> Iterator[tuple[str, str]]:
    """What a kind of decision is said to rest on, and its rule does not look at."""
    deciding = {body.kind: each for each in verifiers_for(None) for body in each.decides}
    for kind, classes in names.items():
        read = read_by(deciding.get(kind) or OBSERVED[kind])
        for each in classes:
            if each not in BY_TIMELINE and not read.intersection(each.kinds):
                yield kind, each.phrase


def unnamed(names: Mapping[str, Sequence[LineClass]]) -> Iterator[tuple[type[Verifier], LineClass]]:
    """What a rule looks at, and none of its decisions is said to rest on."""
    for verifier in (each for each in verifiers_for(None) if each.decides):
        own = {body.kind for body in verifier.decides}
        kinds = (*own, *(kind for kind, of in OBSERVED.items() if of is verifier))
        rests_on = {each for kind in kinds for each in (*names.get(kind, ()), *OWED.get(kind, ()))}
        context = VerifyContext()
        read = {*verifier(context).sees(), *verifier(context).prescans()}
        for each in CLASSES:
            is_own = own.intersection(kind.kind for kind in each.kinds)
            if read.intersection(each.kinds) and not is_own and each not in rests_on:
                yield verifier, each


def test_a_rule_sees_what_it_decides() -> None:
    """Else it never gives a finding."""
    rules = [rule(VerifyContext()) for rule in verifiers_for(None)]
    unseen = [(rule, kind) for rule in rules for kind in {*rule.decides} - {*rule.sees()}]
    assert unseen == [], f"add to `sees` what to do with a record of that kind: {unseen}"


def test_what_may_be_cut() -> None:
    assert [line_classes.may_be_cut("x" * length) for length in (511, 512)] == [False, True]


def test_of_a_line_what_is_read_stays_with_its_names_hidden() -> None:
    line = (
        'I1121 event.go:389] "Event occurred" object="shop/web" kind="Pod" reason="Killing"'
        ' message="Container app failed liveness probe, will be restarted"'
    )
    hidden = line_classes.reduced(line, lambda parts: dict.fromkeys(parts, "x"), lambda _: False)
    assert all(part in hidden for part in (' object="x/x"', ' message="Container x failed x probe'))
    assert not any(part in hidden for part in ("shop", "web", "app", "will be"))


def test_a_rule_reads_what_it_names() -> None:
    assert list(unread(RESTS_ON)) == []
    assert list(unread(OWED)) == []
    assert list(unread({"images.GarbageCollected": (CPUS,)})) != []


def test_a_rule_names_what_it_reads() -> None:
    assert set(unnamed(RESTS_ON)) == set(WIDENS)
    less = {kind: tuple(c for c in each if c is not SIGNALS) for kind, each in RESTS_ON.items()}
    assert (EvictionVerifier, SIGNALS) in set(unnamed(less))


class Needed(NamedTuple):
    """A history in which, without a class of lines, a decision of a kind would be wrong."""

    truth: str
    without: LineClass
    kind: str


NEEDED = (
    Needed("node-a", KILLS, "lifecycle.ContainerRestarted"),
    Needed("node-e-oom", DEVICES, "devicemanager.DevicesReleased"),
    Needed("node-e-evictions", CONDITIONS, "eviction.NodeConditionsChanged"),
)


def as_read(name: str) -> list[Record]:
    records = list(named(name).records)
    last = records[-1]
    body = ImportCompleted(digest="", accounts=())
    return [*records, msgspec.structs.replace(
        last, seq=last.seq + 1, kind=body.kind, v=body.v, role=body.role, body=body, evidence=()
    )]  # fmt: skip


def wrong_kinds(records: Sequence[Record], without: LineClass) -> set[str]:
    """Kinds of what is said to be wrong where no line of a class was logged."""
    found = outcomes([r for r in records if not isinstance(r.body, without.kinds)])
    return {each.kind if isinstance(each, Finding) else each.why for each in found
            if is_wrong(each)}  # fmt: skip


@pytest.mark.parametrize("needed", NEEDED, ids=lambda needed: needed.kind)
def test_without_a_class_nothing_is_impossible(
    needed: Needed, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = as_read(needed.truth)
    assert wrong_kinds(records, needed.without) == set()
    for name in ("RESTS_ON", "OWED"):
        names = getattr(line_classes, name)
        less = {kind: tuple(c for c in each if c is not needed.without)
                for kind, each in names.items()}  # fmt: skip
        monkeypatch.setattr(coverage, name, less)
    assert needed.kind in wrong_kinds(records, needed.without)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["node-a", "node-e-evictions", "node-e-oom", "random/8", "random/14"]
    + [f"scenario/{each}/1" for each in ("cpus", "memory", "numa-devices", "resizes", "updates")]
    + [f"scenario/{each}/1" for each in ("ends", "image-gc", "node-a", "pulls", "shutdown")],
)
def test_without_any_class_nothing_is_impossible(name: str) -> None:
    records = as_read(name)
    assert wrong_kinds(records, LineClass("", ())) == set()
    for each in CLASSES:
        assert wrong_kinds(records, each) == set(), each.phrase


def _line(text: str, body: Body) -> Record:
    (record,) = scene((0, body))
    (piece,) = record.evidence
    return msgspec.structs.replace(
        record, evidence=(msgspec.structs.replace(piece, text=f"x.go:1] {text}"),)
    )


_DIED = ContainerDied(namespace="n", pod="p", pod_uid="u", container="c", container_id="1")


@pytest.mark.parametrize(
    ("of", "own", "other"),
    [
        (
            RUNS,
            _line("SyncLoop (PLEG): event for pod", _DIED),
            _line("SyncLoop (PLEG): pod does not exist, ignore irrelevant event", _DIED),
        ),
        (
            CALM,
            _line("no resources are starved", NodeConditionsChanged(conditions=(), observed=())),
            _line("observed", NodeConditionsChanged(conditions=("PIDPressure",), observed=())),
        ),
    ],
)
def test_lines_of_another_call_are_of_no_class_or_another(
    of: LineClass, own: Record, other: Record
) -> None:
    for record, is_logged in ((own, True), (other, False)):
        logged = line_classes.LoggedClasses()
        for each in (record, *scene((1, ImportCompleted(digest="", accounts=())))):
            logged.note(each)
        logged.settle(())
        assert (logged.unlogged(0, (of,)) is None) is is_logged
