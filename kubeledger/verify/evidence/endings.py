"""Ends that no line shows: pods that end by themselves, and those that a process leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.podlife import PodLife
from kubeledger.verify.evidence.processes import Processes
from kubeledger.verify.evidence.restarting import Restarting
from kubeledger.verify.evidence.signs import Sign

__all__ = ["READ_NS", "inherited", "ran_out"]

READ_NS: Final = 5 * NS_PER_S
"""A list is named after the second in which its reading began; it is over by this time."""


def ran_out(ends: Mapping[str, Sign], policy: Restarting) -> bool:
    """Whether a pod has ended, as none of its containers is started again.

    Args:
        ends: container -> its last death; all that started are among them.
        policy: of the pod.
    """
    if policy.always or policy.has_sidecars:
        return False
    failed = [n for n, sign in ends.items() if policy.is_init(n) and sign.number not in (0, None)]
    if any(policy.fails(name) is True for name in failed):
        return True
    own = {name: sign for name, sign in ends.items() if not policy.is_init(name)}
    whole = policy.names is not None and own.keys() == set(policy.names)
    return whole and all(policy.again(n, sign.number) is False for n, sign in own.items())


def inherited(
    lives: Sequence[PodLife], signs: Sequence[Sign], processes: Processes
) -> Iterator[PodLife]:
    """A pod's stays in processes that show nothing of it, though nothing told its end before.

    Each process is handed all pods anew: that line may be lost, or the pod went meanwhile.

    Args:
        lives: (n,) its other stays, in order.
        signs: all that is shown of it, in order.
        processes: of the node.
    """
    lasts = {life.process: life for life in lives}
    last: PodLife | None = None
    for process in processes.all[min(lasts, default=len(processes.all)) :]:
        if process.number in lasts:
            last = lasts[process.number]
        elif last is not None and last.ending_ns is None and last.admitted is not False:
            gone = (
                sign.ts_ns + READ_NS
                for sign in signs
                if sign.shown is not None and not sign.shown.alive
                if sign.ts_ns >= process.started_ns
            )
            last = msgspec.structs.replace(
                last,
                process=process.number,
                since_ns=process.started_ns,
                add_seq=None,
                sure_ns=None,
                ended_ns=next(gone, None),
                decided_ns=None,
                admitted=None,
                start_time_unknown=True,
            )
            yield last
