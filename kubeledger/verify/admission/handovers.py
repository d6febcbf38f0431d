"""Lines that hand pods to the kubelet, against what else tells their names.

A line that names a UID is compared with the lists that show that pod. Since 1.21 the line
holds names only: one that nothing else ever names, while the pod whose admission goes on
behind it was never handed over, has the wrong name.
"""

from __future__ import annotations

from typing import Final

from kubeledger.lifecycle.records import ContainerStarted, PodConfigChanged
from kubeledger.machine import Record
from kubeledger.topologymanager.records import AffinityDecided, HintsGenerated
from kubeledger.units import NS_PER_S
from kubeledger.verify.admission.foresight import Foresight
from kubeledger.verify.admission.offers import Offer, Offers
from kubeledger.verify.bench import Bench

__all__ = ["Handovers"]

_BEGINS_NS: Final = 3 * NS_PER_S
"""So long after it was handed over a pod is heard of."""
_WHY: Final = (
    "the kubelet is handed a pod of which nothing else is told, and takes up one that it was "
    "not handed"
)

Sign = AffinityDecided | ContainerStarted | HintsGenerated


class Handovers:
    """Compares names; says so once a pod."""

    def __init__(self, bench: Bench, foresight: Foresight, offers: Offers) -> None:
        self._bench = bench
        self._foresight = foresight
        self._offers = offers
        self._said: set[str] = set()

    def config_changed(self, record: Record, body: PodConfigChanged) -> None:
        """Of one UID, line and list tell one name."""
        if body.pod_uid is None or body.pod_uid in self._said:
            return
        listed = self._bench.pods.at(record.ts_ns, body.pod_uid)
        if listed is None or (listed.namespace, listed.name) == (body.namespace, body.pod):
            return
        self._said.add(body.pod_uid)
        self._bench.contradict(
            record.ts_ns,
            f"pod/{listed.namespace}/{listed.name}",
            "a line hands the kubelet a pod under another name than that which lists show",
            (record.seq, f"{body.operation} of {body.namespace}/{body.pod} ({body.pod_uid})"),
            (listed.seq, f"{listed.namespace}/{listed.name} ({listed.uid})"),
        )

    def taken_up(self, record: Record, body: Sign, *, whole: bool) -> None:
        """A pod is heard of; ``whole``: the log shows the kubelet from its start."""
        if not whole or not body.namespace or not body.pod:
            return
        name = f"{body.namespace}/{body.pod}"
        if name in self._said or self._offers.named(body.namespace, body.pod) is not None:
            return
        self._said.add(name)
        at = (record.ts_ns, record.seq)
        if self._foresight.handed_over(at, body.namespace, body.pod, body.pod_uid):
            return
        offer = self._unheard_of(record.ts_ns)
        if offer is not None:
            self._bench.contradict(
                record.ts_ns,
                f"pod/{name}",
                _WHY,
                (offer.seq, f"ADD of {offer.full_name}"),
                (record.seq, f"{record.kind} of {name}"),
                by_absence=True,
            )

    def _unheard_of(self, ts_ns: int) -> Offer | None:
        """The pod that was handed over last, if just now, and is not heard of again."""
        last: Offer | None = None
        for offer in self._offers:
            last = offer
        if last is None or last.decided is not None or ts_ns > last.ts_ns + _BEGINS_NS:
            return None
        named = self._foresight.is_named(last.namespace, last.name)
        return None if named or last.order is not None or last.refusals else last
