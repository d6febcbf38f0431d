"""What the files of ``image_manager/`` and the manager's answers say, as records.

Hashes of credentials are not taken over.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeledger.kubelet.imagepull.image_manager import Answer, Attempt, Fate
from kubeledger.kubelet.imagepull.pullrecords import (
    ALPHA,
    BETA,
    PullCredentials,
    PulledRecord,
    decode_intent,
    decode_pulled_record,
)
from kubeledger.kubelet.profile.facts import NEWEST
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.images import (
    PullDecided,
    PullEnded,
    PullOutcome,
    PullRecordRead,
    PullUsers,
)
from kubeledger.model.units import NS_PER_MS

_FACTS: Final = resolve(f"1.{NEWEST}").imagepull
"""Of a kubelet that reads each version of the files."""
_OUTCOMES: Final[dict[Fate, PullOutcome]] = {
    Fate.FAILED: "failed",
    Fate.PULLED: "pulled",
    Fate.REFUSED: "refused",
}


class _Kind(msgspec.Struct):
    kind: str = ""


def read_image_manager_record(data: bytes) -> PullRecordRead:
    """What an intent (``pulling/``) or a record (``pulled/``) says.

    Raises:
        ValueError: it is neither, with what is wrong.
    """
    if msgspec.json.decode(data, type=_Kind).kind == "ImagePullIntent":
        image, is_beta = decode_intent(data, _FACTS)
        return PullRecordRead(api_version=BETA if is_beta else ALPHA, image=image)
    record, is_beta = decode_pulled_record(data, _FACTS)
    return reading_of(record, is_beta=is_beta)


def reading_of(record: PulledRecord, *, is_beta: bool) -> PullRecordRead:
    """A record as it is read from a file of that version."""
    return PullRecordRead(
        api_version=BETA if is_beta else ALPHA,
        image_ref=record.image_ref,
        updated_ts_ns=record.updated_ns,
        users={name: _users(each) for name, each in record.credentials.items()},
    )


def _users(given: PullCredentials) -> PullUsers:
    secrets = given.kubernetes_secrets or ()
    accounts = given.kubernetes_service_accounts or ()
    return PullUsers(
        everyone=bool(given.node_pods_accessible),
        secrets=tuple(f"{each.namespace}/{each.name}" for each in secrets),
        service_accounts=tuple(f"{each.namespace}/{each.name}" for each in accounts),
    )


def decision_of(attempt: Attempt, names: dict[str, Any]) -> PullDecided | None:
    """What the manager decided before the runtime is asked; None where that is nothing of a pull.

    Args:
        attempt: as ``ensure_image_exists`` leaves it.
    """
    image = attempt.request.image
    if attempt.is_pulling:
        return PullDecided(**names, image=image, decision="pull")
    if attempt.fate is Fate.BACKED_OFF:
        return PullDecided(**names, image=image, decision="back_off")
    if attempt.fate is Fate.NEVER_PULLED:
        return PullDecided(**names, image=image, decision="never")
    if attempt.fate is Fate.PRESENT and attempt.check is not None:
        return PullDecided(**names, image=image, decision="present")
    return None


def end_of(attempt: Attempt, answer: Answer, names: dict[str, Any]) -> PullEnded:
    """How a pull ended.

    Args:
        attempt: as ``finish`` leaves it.
    """
    is_pulled = attempt.fate is Fate.PULLED
    whole_ns = attempt.finished_ns - attempt.began_ns
    pull_ns = attempt.finished_ns - attempt.turn_ns
    return PullEnded(
        **names,
        image=attempt.request.image,
        outcome=_OUTCOMES[attempt.fate],
        error=answer.error,
        reason=attempt.error or None,
        whole_ms=whole_ns // NS_PER_MS if is_pulled else None,
        pull_ms=pull_ns // NS_PER_MS if is_pulled else None,
        size_bytes=answer.size_bytes if is_pulled else None,
    )
