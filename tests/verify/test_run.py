"""The frame of verification: each decision gets one finding, in the order of replay."""

from __future__ import annotations

import pytest

from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Decision
from kubeledger.model.wire.catalogue import BODY_TYPES
from kubeledger.verify import Finding, verify
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.registry import RULES, Rule, verifiers_for, verifiers_of
from tests.verify.histories import findings, reader, recorded, scene


def test_every_kind_of_decision_has_its_verifier() -> None:
    decided = [kind for verifier in verifiers_for(None) for kind in verifier.decides]
    assert len(decided) == len(set(decided))
    kinds = {body for body in BODY_TYPES.values() if issubclass(body, Decision)}
    assert set(decided) == kinds


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_what_concerns_it_a_rule_is_silent(rule: Rule) -> None:
    assert all(rule.is_concerned({body.kind}) for body in rule.load().decides)
    rest = [record for record in recorded("node-a") if not rule.is_concerned({record.kind})]
    assert list(verify(reader(rest), verifiers=(rule.load(),))) == []


def test_a_short_history_is_read_by_the_rules_that_it_concerns() -> None:
    """A probe's ticks are nothing to the rules of images or devices."""
    names = {verifier.__name__ for verifier in verifiers_for({"prober.ProbeExecuted"})}
    assert names == {"ProbeVerifier"}


@pytest.mark.parametrize("node", ["node-a", "node-b", "node-e-evictions"])
def test_only_the_verifiers_of_a_kind_find_the_same(node: str) -> None:
    """With those that they ask, and in the same order; nothing is said of other kinds."""
    records = recorded(node)
    all_of_them = findings(records)
    for kind in sorted({f.kind for f in all_of_them}):
        at_work = verifiers_of({kind})
        judged = {body.kind for verifier in at_work for body in verifier.decides}
        found = [f for f in verify(reader(records), verifiers=at_work) if isinstance(f, Finding)]
        assert found == [f for f in all_of_them if f.kind in judged]


def test_an_unknown_version_gives_no_profile() -> None:
    context = VerifyContext()
    body = KubeletStarted(pid=1, kubelet_version="1.99.0", version_source="log")
    record = scene((0, body))[0]
    context.prescan(record)
    context.settle()
    context.observe(record)
    assert context.profile is None
    assert context.missing_profile == "the rules of kubelet 1.99.0"
