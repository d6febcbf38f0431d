"""What is said of one decision, before it becomes a finding."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.verify.finding import Fields, Verdict

__all__ = [
    "ENDS",
    "OTHER_PODS",
    "OTHER_VICTIMS",
    "RULE_DEVICES",
    "RULE_EVICTION",
    "RULE_PREDICATES",
    "RULE_PREEMPTION",
    "VICTIMS",
    "Judgement",
    "unverifiable",
    "with_note",
]

RULE_EVICTION: Final = "pkg/kubelet/eviction managerImpl.Admit"
RULE_DEVICES: Final = "pkg/kubelet/cm/topologymanager scope.Admit"
RULE_PREDICATES: Final = "pkg/kubelet/lifecycle predicateAdmitHandler.Admit"
RULE_PREEMPTION: Final = "pkg/kubelet/preemption getPodsToPreempt"
_NOTE: Final = "the machine's size is inferred from its cgroups and eviction signals"
OTHER_PODS: Final = "the pods that ran before the log begins"

OTHER_VICTIMS: Final = "the lines that tell of the other victims"

VICTIMS: Final = "the lines that tell whom room was made by"

ENDS: Final = "until when the other pods ran"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict and reasons; the fields are those of a finding.

    Attributes:
        certain: it rests on the record's own values, settings and the pod's spec alone.
    """

    verdict: Verdict
    why: str = ""
    expected: Fields | None = None
    recorded: Fields | None = None
    missing: tuple[str, ...] = ()
    rule: str = RULE_PREDICATES
    inputs: tuple[int, ...] = ()
    certain: bool = False


def with_note(judged: Judgement, *, inferred: bool) -> Judgement:
    """Say that the numbers rest on a machine whose size is nowhere told."""
    if not inferred or judged.verdict == "unverifiable" or judged.rule == RULE_DEVICES:
        return judged
    return msgspec.structs.replace(judged, why=f"{judged.why} ({_NOTE})")


def unverifiable(*missing: str, rule: str = RULE_PREDICATES) -> Judgement:
    """Inputs are missing."""
    return Judgement(
        verdict="unverifiable",
        missing=missing,
        rule=rule,
        why=f"cannot be decided again without {' and '.join(missing)}",
    )
