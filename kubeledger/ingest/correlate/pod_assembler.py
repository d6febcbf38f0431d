"""What the assemblers about pods share: the registers of a bundle."""

from __future__ import annotations

from typing import NamedTuple

from kubeledger.ingest.correlate.admissions import Admissions
from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.containers import Containers
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.pods import Pods
from kubeledger.ingest.correlate.sync_loop import SyncLoop

__all__ = ["PodAssembler", "Registers"]


class Registers(NamedTuple):
    """Of one bundle. Each is kept by one assembler, ``containers`` by two, and read by others.

    Attributes:
        queue: where the facts of all of them wait until they are settled.
    """

    queue: Holdback
    pods: Pods
    sync_loop: SyncLoop
    containers: Containers
    admissions: Admissions


class PodAssembler(Assembler):
    """An assembler that keeps or reads registers."""

    def __init__(self, context: BundleContext, registers: Registers) -> None:
        super().__init__(context, registers.queue)
        self._pods = registers.pods
        self._sync_loop = registers.sync_loop
        self._containers = registers.containers
        self._admissions = registers.admissions
