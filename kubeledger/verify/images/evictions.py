"""Verification of evictions, as far as the records allow.

The eviction manager ranks pods by what they use at that moment, and no record holds that.
What can be told is that a threshold was not passed, or that the pod was one that is never
evicted.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeledger.kube.critical import is_critical_pod
from kubeledger.kube.pod import Pod
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Body, Record
from kubeledger.node.state import NodeState
from kubeledger.verify.images.pressure import read_pressure, readings_of
from kubeledger.verify.verifier import See, Verifier

__all__ = ["EvictionVerifier"]

_RULE = "pkg/kubelet/eviction managerImpl.synchronize"
_RULE_POD = "pkg/kubelet/eviction managerImpl.evictPod"
_SIGNALS: Mapping[str, frozenset[str]] = {
    "memory": frozenset({"memory.available", "allocatableMemory.available"}),
    "ephemeral-storage": frozenset(
        {"nodefs.available", "imagefs.available", "containerfs.available"}
    ),
    "inodes": frozenset({"nodefs.inodesFree", "imagefs.inodesFree", "containerfs.inodesFree"}),
    "pids": frozenset({"pid.available"}),
}
"""Resource -> signals that a shortage of it shows in."""


class EvictionVerifier(Verifier):
    """Verifies that a pod could be evicted at all."""

    decides = (PodEvicted,)

    def sees(self) -> Mapping[type[Body], See]:
        """Evictions; the signals are in the state."""
        return {PodEvicted: self._evicted}

    def _evicted(self, record: Record, body: PodEvicted, state: NodeState) -> None:
        bench, subject = self.bench, f"pod/{body.namespace}/{body.pod}"
        if bench.profile is None:
            missing = [bench.missing_profile]
            bench.unverifiable(record, subject=subject, missing=missing, rule=_RULE)
            return
        missing, listed = [], bench.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
        if listed is None:
            missing.append("the pod's spec")
        else:
            try:
                critical = is_critical_pod(listed.as_(Pod))
            except msgspec.ValidationError:
                critical = False
                missing.append("a readable spec of the pod")
            if critical and body.evicted is not False:
                bench.find(
                    record,
                    "impossible",
                    subject=subject,
                    why=f"pod {body.namespace}/{body.pod} is critical, and no such pod is evicted",
                    rule=_RULE_POD,
                    inputs=[listed.seq],
                    certain=True,
                )
                return
        signals = _SIGNALS.get(body.resource or "")
        if signals is None:
            missing.append("the pod's use of local storage")
        else:
            readings = readings_of(state.images.signals)
            found = read_pressure(
                bench.settings, readings, record.ts_ns, lambda signal: signal in signals
            )
            if found.clear and not found.short and not found.missing:
                why = f"no pod was to be evicted for {body.resource}: {'; '.join(found.clear)}"
                settings = [] if bench.settings.seq is None else [bench.settings.seq]
                bench.find(
                    record, "impossible", subject=subject, why=why, rule=_RULE, inputs=settings
                )
                return
            if not found.short:
                missing.extend(found.missing)
            missing.append(f"what each pod used of {body.resource} at this time")
        bench.unverifiable(record, subject=subject, missing=missing, rule=_RULE)
