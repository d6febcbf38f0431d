"""What drivers answer, and where the kubelet gives up over an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from kubeledger.kubelet.dra.claiminfo import ClaimInfoState, Device
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.profile.dra import DraFacts

Verb = Literal["prepare", "unprepare"]


class DraError(Exception):
    """An error as the kubelet returns it."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """What a driver says of one claim: an error, or its devices."""

    error: str = ""
    devices: tuple[Device, ...] = ()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A driver's answer to a call.

    Attributes:
        error: the call failed, with this text.
        results: claim UID -> what is said of it if it is asked for.
        unasked: UIDs of claims of which it speaks, too.
    """

    error: str = ""
    results: dict[str, Result] = {}
    unasked: tuple[str, ...] = ()

    def said(self, asked: Sequence[ClaimInfoState]) -> dict[str, Result]:
        """What it says to a call: claim UID -> result."""
        uids = [claim.claim_uid for claim in asked if claim.claim_uid in self.results]
        return {uid: self.results[uid] for uid in uids} | dict.fromkeys(self.unasked, Result())


NOTHING = Answer()
"""A driver that answers, and says nothing of any claim."""


def fails(asked: Sequence[ClaimInfoState], answer: Answer) -> bool:
    """Whether the kubelet gives up over this answer."""
    said = answer.said(asked)
    return bool(answer.error or _failing(asked, said) or len(asked) != len(said))


def read(
    verb: Verb,
    asked: Sequence[ClaimInfoState],
    answer: Answer,
    order: MapOrder,
    facts: DraFacts,
) -> Iterator[tuple[ClaimInfoState, Result]]:
    """Claims with what a driver says of them, one after the other.

    Raises:
        DraError: where the kubelet gives up.

    Source: v1.36.2 pkg/kubelet/cm/dra/manager.go prepareResources, unprepareResources
    """
    call = "NodePrepareResources" if verb == "prepare" else "NodeUnprepareResources"
    if answer.error:
        failed = "" if facts.errors_for_users else " failed"
        raise DraError(f"{call}{failed}: {answer.error}")
    results = answer.said(asked)
    written = [*results][::-1] if facts.answers_written_backwards else results
    by_uid = {claim.claim_uid: claim for claim in asked}
    for uid in order.until_failure(written, _failing(asked, results)):
        claim, result = by_uid.get(uid), results[uid]
        if claim is None:
            raise DraError(f"{call} returned result for unknown claim UID {uid}")
        if result.error:
            of = (
                f"ResourceClaim {claim.claim_name}"
                if facts.errors_for_users
                else f"claim {claim.namespace}/{claim.claim_name}"
            )
            raise DraError(f"{call} failed for {of}: {result.error}")
        yield claim, result
    unfinished = len(asked) - len(results)
    if unfinished:
        skipped = (
            f"skipped {unfinished} ResourceClaims"
            if facts.errors_for_users
            else f"left out {unfinished} claims"
        )
        raise DraError(f"{call} {skipped}")


def _failing(asked: Sequence[ClaimInfoState], results: Mapping[str, Result]) -> Collection[str]:
    uids = {claim.claim_uid for claim in asked}
    return [uid for uid, result in results.items() if uid not in uids or result.error]
