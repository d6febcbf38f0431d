"""Which pods the kubelet is admitting, and which it rejected."""

from __future__ import annotations

from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import LogLine

__all__ = ["Admissions"]


class Admissions:
    """Kept by the admission's assembler, asked by others.

    Attributes:
        adding: (n,) pods of the last ADD whose admission is not decided, in its order.
        undecided: the same of all ADDs.
        rejected: the refusal of a pod; gone when it is added again.
    """

    def __init__(self) -> None:
        self.adding: list[Pod] = []
        self.undecided: dict[Pod, None] = {}
        self.rejected: dict[Pod, Fact] = {}
        self._add_line: LogLine | None = None

    def begin_add(self, line: LogLine) -> None:
        """An ADD: admission of its pods begins. Again for the same line: nothing."""
        if line is not self._add_line:
            self._add_line = line
            self.adding = []

    def begin(self, pod: Pod) -> None:
        """A pod of the ADD is put through admission."""
        self.rejected.pop(pod, None)
        self.adding.append(pod)
        self.undecided[pod] = None

    def decided(self, pod: Pod) -> None:
        """Its admission is over."""
        self.undecided.pop(pod, None)
        if pod in self.adding:
            self.adding.remove(pod)

    def abandon(self) -> None:
        """The kubelet that was to decide about the last ADD has ended."""
        for pod in self.adding:
            self.undecided.pop(pod, None)
        self.adding = []
