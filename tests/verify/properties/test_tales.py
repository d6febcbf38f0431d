"""What the kubelet did not do, did in another order or at another time, is caught."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.node import Setting
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding, verify
from kubeledger.verify.registry import verifiers_for, verifiers_of
from tests.marks import nightly, slow
from tests.verify.histories import outcomes, reader
from tests.verify.properties.raw_lies import bundle
from tests.verify.properties.reimported import numbered
from tests.verify.properties.tales import TALES
from tests.verify.properties.telling import RAW, Heard, ears, tell, tell_raw
from tests.verify.properties.truths import RECORDED, named

_LEAST = 85
"""Percentage of the tales of each kind that are caught where nothing that they need is missing."""
_LEAST_OF_ALL = 92
_SOME = ("node-e-evictions", "scenario/shutdown/1", "scenario/updates/1", "scenario/ends/1")
_SOME_MORE = ("scenario/node-a/1", "long/1003", "random/8", "random/10", "random/14")
_SOUND = (
    *("node-a", "node-e-evictions", "node-e-oom", "random/4", "scenario/ends/1"),
    *("scenario/claims/1", "scenario/resizes/1", "scenario/cpus/1", "scenario/memory/1"),
    *("scenario/numa-devices/1", "scenario/pulls/1", "refused/cpus", "refused/memory"),
)
_LONG = ("node-a", "node-e-evictions", "scenario/claims/1", "scenario/cpus/1", "scenario/memory/1")
RESTS_ON_ITSELF = {
    "images.GarbageCollected": "a run that failed before it had a size read nothing but that",
    "cgroups.QOSCgroupsUpdated": "other writes at whole minutes from it show the timer's beat",
}
"""Kind of decision -> why it may be a match without any input."""


def believed(heard: list[Heard], least: int) -> list[str]:
    """Kinds of tales that are believed too often."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in heard:
        found[each.kind][each.verdict] += each.verdict != "open"
    return [
        f"{kind}: {counts['caught']} of {counts.total()} caught"
        for kind, counts in found.items()
        if counts.total() > 2 and counts["caught"] * 100 < least * counts.total()
    ]


@pytest.mark.slow
def test_some_tales() -> None:
    """One of each kind over some histories, the same every day."""
    heard = [each for name in (*_SOME, *_SOME_MORE) for each in tell(named(name), 1)]
    assert {each.kind for each in heard} >= {
        "shutdown out of turn",
        "no eviction",
        "pod not ranked",
    }
    caught = sum(each.verdict == "caught" for each in heard)
    assert caught * 100 >= _LEAST * sum(each.verdict != "open" for each in heard)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_many_tales(seed: int) -> None:
    """Of every kind, over all recordings and many simulated nodes."""
    heard = [each for truth in ears(seed, 60) for each in tell(truth, 4)]
    assert {each.kind for each in heard} >= set(TALES)
    assert believed(heard, _LEAST - 10) == []
    caught = sum(each.verdict == "caught" for each in heard)
    assert caught * 100 >= _LEAST_OF_ALL * sum(each.verdict != "open" for each in heard)


_QUICK = {
    "node-a": (
        "another victim",
        "back-off",
        "grace period of a kill",
        "restarted too early",
        "killed before the threshold",
        "another container killed",
    ),
    "node-b": ("startup never came", "GC stops early"),
    "node-e-oom": ("main after failed init",),
}
"""Recording -> raw lies in its files that are told before each change lands."""


@pytest.mark.slow
@pytest.mark.parametrize("node", _QUICK)
def test_some_raw_lies(node: str) -> None:
    """In the files of a recorded node."""
    heard = list(tell_raw(bundle(node), 1, _QUICK[node]))
    told = {each.kind for each in heard}
    assert told >= ({"back-off", "grace period of a kill"} if node == "node-a" else {*_QUICK[node]})
    assert [each for each in heard if each.verdict == "believed"] == []
    # At most one is what a lost line may explain.
    assert sum(each.verdict == "caught" for each in heard) >= max(len(heard) - 1, 1)


@pytest.mark.nightly
def test_many_raw_lies() -> None:
    """Of every kind, in the files of every recorded node."""
    heard = [each for node in RECORDED for each in tell_raw(bundle(node), 4)]
    assert len({each.kind for each in heard}) * 10 >= 8 * len(RAW)
    assert believed(heard, _LEAST - 10) == []
    caught = sum(each.verdict == "caught" for each in heard)
    assert caught * 100 >= _LEAST_OF_ALL * sum(each.verdict != "open" for each in heard)


Without = Callable[[Sequence[Record], frozenset[str]], Sequence[tuple[int, Record]]]
"""What is left of a history without what some kinds of records say; with the seqs of before."""


@cache
def matches_of(name: str) -> list[Finding]:
    found = outcomes(named(name).records)
    return [o for o in found if isinstance(o, Finding) and o.verdict == "match"]


def gone(records: Sequence[Record], kinds: frozenset[str]) -> Sequence[tuple[int, Record]]:
    return [(record.seq, record) for record in records if record.kind not in kinds]


def resting_on_itself(
    records: Sequence[Record],
    matches: Iterable[Finding],
    without: Without = gone,
    known: frozenset[str] = frozenset(),
) -> Iterator[Finding]:
    """Matches that are still some without all that they name, and name nothing else then."""
    kinds = {record.seq: record.kind for record in records}
    resting: defaultdict[frozenset[str], dict[int, str]] = defaultdict(dict)
    for match in matches:
        named_kinds = {kinds[seq] for seq in match.inputs if seq in kinds} - {match.kind} - known
        if named_kinds:
            resting[known | named_kinds][match.seq] = match.kind
        elif known:
            yield match
    for unknown, asked in resting.items():
        left = without(records, unknown)
        before = {record.seq: seq for seq, record in left}
        read = reader([record for _, record in left])
        still = [
            msgspec.structs.replace(
                o, seq=before[o.seq], inputs=tuple(before.get(seq, 0) for seq in o.inputs)
            )
            for o in verify(read, verifiers=verifiers_of(set(asked.values())))
            if isinstance(o, Finding) and o.verdict == "match" and before.get(o.seq) in asked
        ]
        yield from resting_on_itself(records, still, without, unknown)


@pytest.mark.parametrize(
    "name",
    [
        *(each for each in _SOUND if each not in _LONG),
        *slow(*_LONG),
        *nightly("node-b", "node-f"),
    ],
)
def test_a_match_rests_on_its_inputs(name: str) -> None:
    """Without all records of the kinds that it names, and that it names then, it is none."""
    assert matches_of(name)
    wrong = resting_on_itself(named(name).records, matches_of(name))
    assert [each for each in wrong if each.kind not in RESTS_ON_ITSELF] == []


def test_each_rule_has_matches_there() -> None:
    """So that each rule's matches are asked what they rest on."""
    kinds = {match.kind for name in _SOUND for match in matches_of(name)}
    judged = {body.kind for verifier in verifiers_for(None) for body in verifier.decides}
    assert judged <= kinds


_OTHER_WORDS = {
    **dict.fromkeys(("IfNotPresent", "OnFailure", "Always"), "Never"),
    **dict.fromkeys(("Failed", "Succeeded"), "Running"),
    **{"Never": "Always", "Running": "Pending", "none": "restricted", "static": "none"},
    "orphaned": "deleted",
    **{"success": "failure", "failure": "success", "true": "false", "REMOVE": "RECONCILE"},
}
_KEPT = re.compile(r"(^|_)(namespace|pod|uid|container|name|id|ns|seq|labels|annotations)$")
_LATER_NS = 7_200 * NS_PER_S
_LEAST_SHARES = "2 shares"
"""What a cgroup has whose pods ask for no CPU, whatever else is there."""


def _otherwise(value: Any, name: str = "") -> Any:  # noqa: ANN401 # any field's
    """Another number, another word: what names somebody, or some time, stands."""
    if _KEPT.search(name):
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 + 1
    if isinstance(value, str):
        amount = re.fullmatch(r"(\d+)([A-Za-z%]*)", value)
        more = None if amount is None else f"{int(amount[1]) * 2 + 1}{amount[2]}"
        return more or _OTHER_WORDS.get(value, value)
    if isinstance(value, dict):
        return {key: _otherwise(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_otherwise(each) for each in value)
    if isinstance(value, Setting):
        other = msgspec.json.encode(_otherwise(msgspec.json.decode(value.value)))
        return msgspec.structs.replace(value, value=other.decode())
    if isinstance(value, msgspec.Struct):
        fields = {name: _otherwise(getattr(value, name), name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def otherwise(records: Sequence[Record], kinds: frozenset[str]) -> Sequence[tuple[int, Record]]:
    """Records of some kinds say something else, two hours later."""
    others = {
        r.seq: msgspec.structs.replace(r, ts_ns=r.ts_ns + _LATER_NS, body=_otherwise(r.body))
        for r in records
        if r.kind in kinds
    }
    left = sorted((others.get(r.seq, r) for r in records), key=lambda r: r.ts_ns)
    return list(zip((r.seq for r in left), numbered(left), strict=True))


@pytest.mark.nightly
@pytest.mark.parametrize("name", _SOUND)
def test_a_match_turns_with_its_evidence(name: str) -> None:
    """Where all that it names says something else, and that it names then, it is none."""
    wrong = [
        each
        for each in resting_on_itself(named(name).records, matches_of(name), otherwise)
        if each.kind not in RESTS_ON_ITSELF and _LEAST_SHARES not in each.why
    ]
    assert wrong == []
