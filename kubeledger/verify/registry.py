"""All verifiers, in the order in which they see a record."""

from __future__ import annotations

from functools import cache

from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.admission.rule import AdmissionVerifier
from kubeledger.verify.rules.cgroups.rule import CgroupVerifier
from kubeledger.verify.rules.cpus import CpuRule
from kubeledger.verify.rules.devices.rule import DeviceRule
from kubeledger.verify.rules.evictions.rule import EvictionVerifier
from kubeledger.verify.rules.images.verifier import ImagesVerifier
from kubeledger.verify.rules.kills import KillVerifier
from kubeledger.verify.rules.memory import MemoryRule
from kubeledger.verify.rules.oom.kills import OomVerifier
from kubeledger.verify.rules.probes import ProbeVerifier
from kubeledger.verify.rules.restarts import RestartVerifier
from kubeledger.verify.rules.told_twice import ToldTwice
from kubeledger.verify.verifier import Verifier

__all__ = ["VERIFIERS", "kinds_seen_for"]

VERIFIERS: tuple[type[Verifier], ...] = (
    AdmissionVerifier,
    CgroupVerifier,
    CpuRule,
    DeviceRule,
    ImagesVerifier,
    EvictionVerifier,
    KillVerifier,
    ProbeVerifier,
    MemoryRule,
    OomVerifier,
    RestartVerifier,
    ToldTwice,
)


@cache
def kinds_seen_for(decision: str) -> frozenset[str]:
    """Kinds of records that the verifier of a kind of decision looks at; none for another kind.

    What it reads in the node's state besides is not among them.
    """
    for each in VERIFIERS:
        if decision in {kind.kind for kind in each.decides}:
            verifier = each(Bench())
            looked_at = (*verifier.sees(), *verifier.foresees(), *each.decides)
            return frozenset(kind.kind for kind in looked_at)
    return frozenset()
