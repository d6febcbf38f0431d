"""Fleets that were never recorded: facts of many nodes, for the page and its statistics."""

from random import Random

from kubeledger.fleet.report.collect import (
    FailureFacts,
    FleetFacts,
    NodeFacts,
    compare,
    worst_first,
)
from kubeledger.fleet.report.columns import COLUMNS

_HOUR_NS = 3_600_000_000_000
_FIRST_H = 498_670
_RATES = {
    "evictions": 0.02,
    "oom_kills": 0.15,
    "probe_kills": 0.6,
    "preempted": 0.02,
    "refused": 0.05,
    "restarts": 1.5,
    "deletions": 0.4,
}
"""Events an hour on a node at peace."""
_POOLS = ("general", "gpu", "ingress", "spot", None)
_VERSIONS = ("1.28.15", "1.30.14", "1.31.9", "1.29.11")


def node_facts(node: str, pool: str | None, hours: float = 24.0, **counts: int) -> NodeFacts:
    """A node with records over so many hours, and only these counts."""
    return NodeFacts(
        node=node,
        name=node,
        pool=pool,
        first_ns=_FIRST_H * _HOUR_NS,
        last_ns=_FIRST_H * _HOUR_NS + round(hours * _HOUR_NS),
        decisions=1000,
        lines=100_000,
        counts=dict.fromkeys((column.id for column in COLUMNS), 0) | counts,
        hours={},
        outstanding={},
    )


def made_up_fleet(nodes: int, seed: int = 1) -> FleetFacts:
    """So many nodes of five pools, one in twenty in trouble; the same for the same seed."""
    random = Random(seed)
    facts = [_node(random, number) for number in range(nodes)]
    compare(facts)
    failures = [
        FailureFacts("input", "the archive ends in the middle", "copy it again", ("s3://b/1",), 3),
        FailureFacts("lost", "its worker died", "", ("s3://b/2",), 1),
    ]
    return FleetFacts(sorted(facts, key=worst_first), failures)


def _node(random: Random, number: int) -> NodeFacts:
    pool = random.choices(_POOLS, (12, 3, 2, 6, 1))[0]
    hours = random.choice((24.0, 24.0, 23.5, 12.0, 6.2))
    trouble = random.choice(tuple(_RATES)) if random.random() < 0.05 else None
    counts = {}
    by_hour: dict[int, tuple[int, int]] = {}
    problems = {column.id for column in COLUMNS if column.is_problem}
    for what, rate in _RATES.items():
        mean = rate * hours * (25 if what == trouble else 1)
        counts[what] = max(0, round(random.gauss(mean, mean**0.5)))
        for _ in range(counts[what] if what in problems else 0):
            hour = _FIRST_H + int(random.random() * hours)
            before, impossible = by_hour.get(hour, (0, 0))
            by_hour[hour] = (before + 1, impossible)
    if random.random() < 0.01:
        counts["impossible"] = random.randint(1, 3)
        hour = _FIRST_H + int(random.random() * hours)
        by_hour[hour] = (by_hour.get(hour, (0, 0))[0], counts["impossible"])
    facts = node_facts(f"ip-10-{number // 250}-{number % 250}.example", pool, hours, **counts)
    facts.versions = tuple(sorted(random.sample(_VERSIONS, 1 if random.random() < 0.9 else 2)))
    facts.admissible = random.randint(0, 40)
    facts.match = facts.decisions - facts.admissible - counts.get("impossible", 0)
    facts.hours = by_hour
    return facts
