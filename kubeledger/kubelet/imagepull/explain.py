"""Why a pull was tried, or not, and what came of it, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.kubelet.imagepull.image_manager import Attempt, Fate
from kubeledger.kubelet.imagepull.image_pull_manager import Check
from kubeledger.model.units import format_go_duration

CHECKS: Final[Mapping[Check, str]] = {
    Check.RECORD_UNREADABLE: "the kubelet cannot read its record of the image",
    Check.POLICY_EXEMPTS: "the policy asks for no verification of it",
    Check.NO_RECORD: "the kubelet has no record of who may use it",
    Check.NAME_NOT_RECORDED: "its record does not have it under this name",
    Check.NODE_ACCESSIBLE: "its record says that every pod of the node may use it",
    Check.NOBODY_RECORDED: "its record names nobody who may use it",
    Check.SAME_CREDENTIALS: "it was pulled with the same credentials before",
    Check.SAME_SECRET: "it was pulled with the same secret before",
    Check.SAME_ACCOUNT: "it was pulled for the same service account before",
    Check.OTHER_CREDENTIALS: "it was pulled with other credentials only",
}
_FATES: Final[Mapping[Fate, str]] = {
    Fate.INVALID_NAME: "its name cannot be read",
    Fate.NOT_INSPECTED: "the runtime cannot say whether it is there",
    Fate.NEVER_PULLED: "it is not there, and its policy does not pull",
    Fate.PRESENT: "it is there",
    Fate.SECRET_UNREADABLE: "a pull secret cannot be read",
    Fate.BACKED_OFF: "it is not pulled: its last pull failed less than {held} ago",
    Fate.REFUSED: "its pull is refused: there were too many just before (registryPullQPS)",
    Fate.FAILED: "its pull fails",
    Fate.PULLED: "it is pulled",
}


def explain(attempt: Attempt) -> str:
    """What came of a request, to be read after the image's name and a colon."""
    fate = _FATES[attempt.fate].format(held=format_go_duration(attempt.held_ns))
    if attempt.fate is Fate.NEVER_PULLED and attempt.check is not None:
        fate = "its policy does not pull"
    if attempt.check is None:
        return fate
    joint = "but" if attempt.check.pulls else "and"
    there = f"it is there, {joint} {CHECKS[attempt.check]}"
    return there if attempt.fate is Fate.PRESENT else f"{there}; {fate}"
