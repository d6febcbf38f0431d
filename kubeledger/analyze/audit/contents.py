"""What an audit says about the things recorded: checkpoints, and values in cgroup files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from kubeledger.model.bodies.cpumanager import CpuManagerStateRead
from kubeledger.model.bodies.devicemanager import CheckpointRead
from kubeledger.model.bodies.memorymanager import MemoryManagerStateRead

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.verify.rules.cgroups.drift import Drift

__all__ = ["BadCheckpoint", "Contents", "contents_of"]

_CHECKPOINTS = (CheckpointRead, CpuManagerStateRead, MemoryManagerStateRead)


class BadCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of the kubelet whose checksum does not fit its content.

    Attributes:
        seq: the record that holds it.
        place: its file.
        problem: one sentence.
    """

    node: str
    seq: int
    place: str
    problem: str


class Contents(msgspec.Struct, kw_only=True):
    """What was looked at, and what does not fit.

    Attributes:
        checkpoints: how many were read.
        unchecked: those of them whose form has no checksum that can be computed.
        cgroups: values of cgroups that were judged.
        unverifiable: those of them that could not be, because an input is missing.
        bad_checkpoints, drifts: what does not fit; a drift with its node.
    """

    checkpoints: int = 0
    unchecked: int = 0
    cgroups: int = 0
    unverifiable: int = 0
    bad_checkpoints: list[BadCheckpoint] = []
    drifts: list[tuple[str, Drift]] = []

    @property
    def sound(self) -> bool:
        """Whether all fits."""
        return not self.bad_checkpoints and not self.drifts


def contents_of(histories: Iterable[History]) -> Contents:
    """Check the checkpoints and cgroups of these nodes.

    Raises:
        KubeledgerError: records cannot be read, or are not as they were written.
    """
    from kubeledger.model.bodies.cgroups import CgroupUpdated
    from kubeledger.verify.finding import Finding
    from kubeledger.verify.rules.cgroups.drift import drift_of
    from kubeledger.verify.rules.cgroups.rule import CgroupVerifier

    contents = Contents()
    for history in histories:
        contents.bad_checkpoints += _checkpoints(history, contents)
        for outcome in history.verify(verifiers=(CgroupVerifier,)):
            if isinstance(outcome, Finding) and outcome.kind == CgroupUpdated.kind:
                contents.cgroups += 1
                contents.unverifiable += outcome.verdict == "unverifiable"
                contents.drifts += [(history.node, drift) for drift in drift_of(outcome)]
    return contents


def _checkpoints(history: History, contents: Contents) -> Iterator[BadCheckpoint]:
    for record in history.read(tuple(body.kind for body in _CHECKPOINTS)):
        body = record.body
        assert isinstance(body, _CHECKPOINTS)
        contents.checkpoints += 1
        contents.unchecked += body.checksum_ok is None
        if body.checksum_ok is False:
            yield BadCheckpoint(
                node=history.node,
                seq=record.seq,
                place=record.evidence[0].file if record.evidence else f"record {record.seq}",
                problem=f"the checkpoint's checksum {body.checksum} does not fit its content",
            )
