"""All verifiers, in the order in which they see a record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from kubeledger.verify.context import Verifier, VerifyContext
from kubeledger.verify.rules.admission.rule import AdmissionVerifier
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
from kubeledger.verify.rules.claims import ClaimVerifier
from kubeledger.verify.rules.cpus import CpuVerifier
from kubeledger.verify.rules.devices.rule import DeviceVerifier
from kubeledger.verify.rules.disputes import SafetyVerifier, SourceDisputes
from kubeledger.verify.rules.evictions.rule import EvictionVerifier
from kubeledger.verify.rules.images.rule import ImageVerifier
from kubeledger.verify.rules.kills import KillVerifier
from kubeledger.verify.rules.memory import MemoryVerifier
from kubeledger.verify.rules.oom import OomVerifier
from kubeledger.verify.rules.probes import ProbeVerifier
from kubeledger.verify.rules.pulls import PullVerifier
from kubeledger.verify.rules.restarts import RestartVerifier
from kubeledger.verify.rules.shutdowns import ShutdownVerifier
from kubeledger.verify.rules.syncs import SyncVerifier

VERIFIERS: tuple[type[Verifier], ...] = (
    AdmissionVerifier,
    CgroupVerifier,
    ClaimVerifier,
    CpuVerifier,
    DeviceVerifier,
    ImageVerifier,
    EvictionVerifier,
    KillVerifier,
    ProbeVerifier,
    MemoryVerifier,
    OomVerifier,
    PullVerifier,
    RestartVerifier,
    SafetyVerifier,
    ShutdownVerifier,
    SourceDisputes,
    SyncVerifier,
)


ASKED: Mapping[type[Verifier], type[Verifier]] = {
    AdmissionVerifier: EvictionVerifier,
    KillVerifier: ProbeVerifier,
    MemoryVerifier: DeviceVerifier,
    RestartVerifier: ProbeVerifier,
}
"""Verifier -> the one whose belief it asks; see :mod:`kubeledger.verify.context`."""


def verifiers_of(kinds: Collection[str]) -> tuple[type[Verifier], ...]:
    """Those that judge some kinds of decisions, and those whose beliefs they ask."""
    judging = {each for each in VERIFIERS if any(body.kind in kinds for body in each.decides)}
    asked = {ASKED[each] for each in judging if each in ASKED}
    return tuple(each for each in VERIFIERS if each in judging | asked)


@cache
def kinds_seen_for(decision: str) -> frozenset[str]:
    """Kinds of records that the verifier of a kind of decision looks at; none for another kind.

    What it reads in the node's state besides is not among them.
    """
    for each in VERIFIERS:
        if decision in {kind.kind for kind in each.decides}:
            verifier = each(VerifyContext())
            looked_at = (*verifier.sees(), *verifier.prescans(), *each.decides)
            return frozenset(kind.kind for kind in looked_at)
    return frozenset()
