"""Tell lies about assignments and count what is said; ``python -m ...assignment_telling [LEDGER]``.

Truths are the scenarios of the managers by the rules of every version that has them, and nodes on
which CPUs are given by each option; or the one node of a ledger.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.record import Record
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario import load_scenario, to_plan
from kubeledger.verify import Contradiction, Finding, Outcome, verify
from kubeledger.verify.registry import verifiers_of
from kubeledger.verify.rules.disputes import SafetyVerifier
from tests.recordings import RECORDINGS
from tests.verify.histories import reader
from tests.verify.properties.assignment_lies import KINDS, LIARS

VERSIONS: Final = ("1.28.0", "1.30.14", "1.33.13", "1.34.9", "1.36.2")
SINCE: Final = {
    "cpus": "1.28", "memory": "1.28", "numa-devices": "1.28", "resizes": "1.33", "claims": "1.33",
}  # fmt: skip
"""Scenario of a manager -> the first version that it is run by."""
_ALPHA: Final = {"CPUManagerPolicyAlphaOptions": True}
_OTHERWISE: Final[dict[str, dict[str, Any]]] = {
    "spread": {
        "cpuManagerPolicyOptions": {"distribute-cpus-across-numa": "true"},
        "featureGates": _ALPHA,
    },
    "uncore": {
        "cpuManagerPolicyOptions": {"prefer-align-cpus-by-uncorecache": "true"},
        "featureGates": _ALPHA,
    },
    "plain": {"cpuManagerPolicyOptions": {}},
    "alone": {"cpuManagerPolicy": "none"},
}
"""Name -> settings in place of the scenario's."""
NOT_KEPT: Final = {
    "devices of another claim": "the API server allocates devices to claims: no record tells of it"
}
"""Lie -> why no record can deny it."""
_VERIFIERS: Final = (*verifiers_of({kind.kind for kind in KINDS}), SafetyVerifier)


class Heard(msgspec.Struct, frozen=True):
    """What was said of a lie: ``caught``, ``open`` for want of an input, or ``believed``."""

    kind: str
    truth: str
    seq: int
    verdict: str


def planned(scenario: str, version: str, otherwise: str = "") -> Plan:
    """The scenario of a manager by the rules of a version, perhaps with other settings."""
    plan = to_plan(load_scenario(RECORDINGS / "scenarios" / f"{scenario}.yaml"))
    changes = _OTHERWISE.get(otherwise, {})
    if scenario == "claims" and version < "1.34":
        changes = {"featureGates": {"DynamicResourceAllocation": True}}
    settings = {**plan.settings, **changes}
    return msgspec.structs.replace(plan, kubelet_version=version, settings=settings)


@lru_cache(maxsize=4)
def told(name: str) -> tuple[Record, ...]:
    """The records of ``SCENARIO/VERSION``, or ``SCENARIO/VERSION/SETTINGS``."""
    return tuple(Sim(planned(*name.split("/"))).run())


def names() -> Iterator[str]:
    """All scenarios by all versions that have their manager."""
    for scenario, since in SINCE.items():
        yield from (f"{scenario}/{version}" for version in VERSIONS if version >= since)
    for version in VERSIONS:
        yield f"cpus/{version}/{'uncore' if version >= '1.33' else 'spread'}"
        yield f"cpus/{version}/plain"
        yield f"memory/{version}/alone"


def hear(name: str, records: Sequence[Record], most: int) -> Iterator[Heard]:
    """Up to ``most`` lies of each kind, and what verification says of them."""
    before: list[Outcome] | None = None
    for kind, liar in LIARS.items():
        for number, (record, lied) in enumerate(liar(records)):
            if number >= most:
                break
            if lied == list(records):
                continue  # there was nothing to change
            before = _outcomes(records) if before is None else before
            yield Heard(kind, name, record.seq, _verdict(before, _outcomes(lied), record))


def _outcomes(records: Sequence[Record]) -> list[Outcome]:
    return list(verify(reader(records), verifiers=_VERIFIERS))


def _verdict(before: Sequence[Outcome], after: Sequence[Outcome], about: Record) -> str:
    """A lie about what could not be judged as it was is open, too."""
    wrong, lacking = (
        [Counter(told_by(found)) for found in (before, after)] for told_by in (_wrong, _lacking)
    )
    if wrong[1] - wrong[0]:
        return "caught"
    known = (each for each in before if isinstance(each, Finding) and each.seq == about.seq)
    was_open = any(each.verdict == "unverifiable" for each in known)
    return "open" if was_open or lacking[1] - lacking[0] else "believed"


def _wrong(found: Iterable[Outcome]) -> Iterator[tuple[str, str]]:
    for each in found:
        if isinstance(each, Contradiction) or each.verdict == "impossible":
            yield each.subject, each.why


def _lacking(found: Iterable[Outcome]) -> Iterator[str]:
    for each in found:
        if isinstance(each, Finding) and each.verdict == "unverifiable":
            yield from each.missing


def table(heard: Iterable[Heard]) -> list[str]:
    """Rows by kind, of those whose inputs are all there the share that is caught."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in heard:
        counts[each.kind][each.verdict] += 1
        counts["all"][each.verdict] += 1
    rows = ["| lie | told | caught | open | believed |", "|---|---|---|---|---|"]
    for kind in (*LIARS, "all"):
        if found := counts[kind]:
            cells = (found.total(), *(found[each] for each in ("caught", "open", "believed")))
            rows.append(f"| {kind} | " + " | ".join(map(str, cells)) + " |")
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table, and each lie that is not caught."""
    if arguments:
        records = tuple(histories_of_ledger(Ledger.open(arguments[0]))[0].read(None))
        heard = list(hear(arguments[0], records, 12))
    else:
        heard = [each for name in names() for each in hear(name, told(name), 12)]
    print(*table(heard), sep="\n")
    for each in heard:
        if each.verdict != "caught":
            print(f"{each.verdict} {each.kind}: {each.truth} {each.seq}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
