"""What the life of a pod depends on besides what is told of the pod itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadQuestionError
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.pods import PodRegister
from kubeledger.verify.evidence.processes import Process, Processes
from kubeledger.verify.evidence.turns import Turns

__all__ = ["Surroundings"]


class Surroundings(msgspec.Struct, frozen=True):
    """What a life depends on besides the pod's own signs; all of it is settled.

    Attributes:
        configured: process -> its first config line.
    """

    processes: Processes
    turns: Turns
    coverage: Coverage
    specs: PodRegister
    configured: Mapping[int, int]

    def counts_while_terminating(self, process: Process) -> bool | None:
        """Whether a pod counts until its containers are down; None where no version is known."""
        with suppress(BadQuestionError):
            if process.version is not None:
                return resolve(process.version).admission.terminating_pods_count
        return None
