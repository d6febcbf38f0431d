"""The frame of verification: each decision gets one finding, in the order of replay."""

import gc
import re
import tracemalloc
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from kubeledger.model.record import Decision
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.verify import Finding, rules, verify
from kubeledger.verify.context import Verifier
from kubeledger.verify.registry import RULES, Rule, verifiers_for, verifiers_of
from tests.benchmarks.bench_verify import Repeated
from tests.marks import nightly, slow
from tests.verify.histories import findings, kubelet_of, reader, recorded, scene, settled

PAGE = Path(__file__).parents[2] / "docs/internals/verification.md"


def test_every_kind_of_decision_has_its_verifier() -> None:
    decided = [kind for verifier in verifiers_for(None) for kind in verifier.decides]
    assert len(decided) == len(set(decided))
    kinds = {body for body in BODY_TYPES.values() if issubclass(body, Decision)}
    assert set(decided) == kinds


def test_every_verifier_has_its_row() -> None:
    """Without one it is never asked, and finds nothing."""
    for module in walk_packages(rules.__path__, f"{rules.__name__}."):
        import_module(module.name)
    classes = [Verifier]
    for each in classes:
        classes += (
            kind for kind in each.__subclasses__() if kind.__module__.startswith("kubeledger")
        )
    bases = {base for each in classes for base in each.__bases__}
    known = {rule.load() for rule in RULES}
    without = {each.__name__ for each in classes if each not in bases | known}
    assert without == set(), f"add a row to RULES in verify/registry.py for {without}"


def test_every_rule_is_explained() -> None:
    page = PAGE.read_text(encoding="utf-8")
    modules = {rule.module.removesuffix(".rule") for rule in RULES}
    unnamed = {name for name in modules if not re.search(rf"rules/({{[\w,]*\b)?{name}\b", page)}
    assert unnamed == set(), f"docs/internals/verification.md does not name rules/{unnamed}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_what_concerns_it_a_rule_is_silent(rule: Rule) -> None:
    assert all(rule.is_concerned({body.kind}) for body in rule.load().decides)
    rest = [record for record in recorded("node-a") if not rule.is_concerned({record.kind})]
    assert list(verify(reader(rest), verifiers=(rule.load(),))) == []


def test_a_short_history_is_read_by_the_rules_that_it_concerns() -> None:
    """A probe's ticks are nothing to the rules of images or devices."""
    names = {verifier.__name__ for verifier in verifiers_for({"prober.ProbeExecuted"})}
    assert names == {"ProbeVerifier"}


@pytest.mark.parametrize(
    ("node", "known_from"),
    [("node-a", None), ("node-e-evictions", "node-a"), *slow(("node-b", None))],
)
def test_only_the_verifiers_of_a_kind_find_the_same(node: str, known_from: str | None) -> None:
    """With those that they ask, and in the same order; nothing is said of other kinds.

    Of a second recording, for kinds that the first has none of.
    """
    records = recorded(node)
    all_of_them = findings(records)
    known = {record.kind for record in recorded(known_from)} if known_from else set[str]()
    for kind in sorted({f.kind for f in all_of_them} - known):
        at_work = verifiers_of({kind})
        judged = {body.kind for verifier in at_work for body in verifier.decides}
        found = [f for f in verify(reader(records), verifiers=at_work) if isinstance(f, Finding)]
        assert found == [f for f in all_of_them if f.kind in judged]


def test_an_unknown_version_gives_no_profile() -> None:
    (record,) = scene((0, kubelet_of("1.99.0")))
    context = settled([record])
    context.observe(record)
    assert context.profile is None
    assert context.missing_profile == "the rules of kubelet 1.99.0"


# Verification of a long history takes no more memory than that of a short one.


def peak_of(history: Repeated) -> tuple[int, int]:
    gc.collect()
    gc.freeze()  # Python looks for circles the later the more there was before
    gc.collect()
    tracemalloc.start()
    try:
        decisions = sum(isinstance(outcome, Finding) for outcome in verify(history))
        return tracemalloc.get_traced_memory()[1], decisions
    finally:
        tracemalloc.stop()
        gc.unfreeze()


BYTES_PER_RECORD_MAX = 80
"""What an index of admissions and kubelet starts takes, spread over all records (some 50); of few
records also what fills up to a limit: the newest ticks, writes and failures of a stage."""


@pytest.mark.parametrize("node", [*slow("node-b"), *nightly("node-a")])
def test_memory_is_flat(node: str) -> None:
    """Three times the records, the same pods, four more starts of the kubelet."""
    peak_of(Repeated(node, 1))  # what is made once a process
    short, decisions = peak_of(Repeated(node, 2))
    long, more = peak_of(Repeated(node, 6))
    assert more == 3 * decisions
    assert long - short < BYTES_PER_RECORD_MAX * 4 * len(recorded(node))
