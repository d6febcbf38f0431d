"""From lines and checkpoints of the device manager to its observations and decisions.

Four parts share a model (queue, holdings, open requests): plugins, grants, refusals and
checkpoints. Texts of free text are those of 1.19 and 1.20, structured ones those of 1.21
to 1.36; where a message lost or gained keys on the way, it is read by the keys it has.
"""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.device_checkpoints import CheckpointItems
from kubeledger.ingest.correlate.device_grants import GrantLines
from kubeledger.ingest.correlate.device_model import DeviceManagerModel
from kubeledger.ingest.correlate.device_plugins import PluginLines
from kubeledger.ingest.correlate.device_refusals import RefusalLines
from kubeledger.ingest.correlate.registers import Pods, SyncLoop
from kubeledger.ingest.messages.heartbeat import HEARTBEAT


class DeviceAssembler(Assembler):
    """Device plugins, allocations, refusals, releases and the checkpoints after them."""

    time_passes = HEARTBEAT

    def __init__(self, context: BundleContext, pods: Pods, sync_loop: SyncLoop) -> None:
        super().__init__(context)
        model = DeviceManagerModel(context, self.queue, pods, sync_loop)
        grants = GrantLines(model)
        refusals = RefusalLines(model, grants)
        self.parts = (PluginLines(model), grants, refusals, CheckpointItems(model))
