"""What the readers of the kubelet's state files share: a file is recorded when it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Seen, shown
from kubeledger.kubelet.kube.checkpoints import MalformedCheckpointError
from kubeledger.model.bodies.allocation import PodsStateRead
from kubeledger.model.bodies.cpumanager import CpuManagerStateRead
from kubeledger.model.bodies.dra import DraManagerStateRead
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.bodies.memorymanager import MemoryManagerStateRead

StateRead = TypeVar(
    "StateRead", CpuManagerStateRead, DraManagerStateRead, MemoryManagerStateRead, PodsStateRead
)


class StateFile(Seen, Protocol):
    """An item that holds the decoded JSON of a file."""

    @property
    def data(self) -> dict[str, Any]:
        """The decoded JSON."""


class StateFileAssembler(Assembler):
    """Base of assemblers that read state files."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._bodies: dict[str, object] = {}
        self._contents: dict[str, dict[str, Any]] = {}
        self._reported: set[str] = set()

    def read_file(
        self, item: StateFile, read: Callable[[dict[str, Any]], StateRead], which: str = ""
    ) -> StateRead | None:
        """The record of a state file that changed; None where it says nothing new.

        One that is malformed, or whose checksum does not fit, is a finding and not relied on.

        Args:
            read: makes its record.
            which: of several files that an assembler reads.
        """
        if item.data == self._contents.get(which):
            return None
        try:
            body = read(item.data)
        except MalformedCheckpointError as error:
            self._find(item, "malformed_checkpoint", f"not read: {error}")
            return None
        self._contents[which] = item.data
        if body == self._bodies.get(which):
            return None
        self._bodies[which] = body
        self.queue.add(shown(item, body))
        if body.checksum_ok is False:
            message = f"checksum {body.checksum} does not fit the content"
            self._find(item, "checksum_mismatch", message)
            return None
        return body

    def _find(self, item: StateFile, finding: str, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            body = FindingReported(finding=finding, file=item.evidence.file, message=message)
            self.queue.add(shown(item, body))
