"""Which requests of which pods give the values of the QoS cgroups."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.cgroups.qos_config import QOSConfig, QOSRequests, qos_config, qos_requests
from kubeledger.kubelet.cgroups.reasons import Path, shares_reason
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podqos import pod_qos
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.model.bodies.cgroups import QOSClass

__all__ = ["QOSExplainer"]


class QOSExplainer(msgspec.Struct, frozen=True, kw_only=True):
    """Explains the values of one decision; the amounts as for ``qos_config``."""

    pods: Sequence[Pod]
    facts: CgroupFacts
    allocatable_memory: int | None
    memory_reserve_percent: int | None

    def explain(self, path: Path) -> str:
        """The rule behind the value at a path of the outcome, as users see it."""
        match path:
            case ("kubepods", *_):
                if self.facts.qos_update_names_root:
                    return "the update names the root of all pods, and writes nothing to it"
                return "the update of this version leaves the root of all pods out"
            case ("besteffort", "cpuShares"):
                return "BestEffort pods share the least, 2"
            case ("burstable", "cpuShares"):
                milli = qos_requests(self.pods, self.facts).burstable_milli_cpu
                reason = shares_reason(milli, self._config().burstable_shares)
                return f"the class requests {milli} m over {self._count('Burstable')}, {reason}"
            case ("burstable" | "besteffort", "memoryLimit"):
                return self._memory(path[0])
        return ""

    def _memory(self, level: str) -> str:
        if self.memory_reserve_percent is None:
            return "qosReserved reserves no memory"
        if not self.allocatable_memory:
            return "there is no allocatable memory to reserve of"
        requests, config = qos_requests(self.pods, self.facts), self._config()
        of = f"less {self.memory_reserve_percent} % of"
        if level == "burstable":
            return (
                f"{self.allocatable_memory} bytes allocatable {of} the "
                f"{requests.guaranteed_memory} that {self._count('Guaranteed')} request "
                f"are {config.burstable_memory_limit}"
            )
        return self._best_effort(requests, config, of)

    def _best_effort(self, requests: QOSRequests, config: QOSConfig, of: str) -> str:
        return (
            f"the {config.burstable_memory_limit} bytes for Burstable pods {of} the "
            f"{requests.burstable_memory} that {self._count('Burstable')} request "
            f"are {config.best_effort_memory_limit}"
        )

    def _config(self) -> QOSConfig:
        return qos_config(
            qos_requests(self.pods, self.facts),
            allocatable_memory=self.allocatable_memory,
            memory_reserve_percent=self.memory_reserve_percent,
        )

    def _count(self, qos_class: QOSClass) -> str:
        facts = self.facts
        found = sum(
            pod_qos(
                pod, status_wins=facts.qos_class_from_status, pod_level=facts.pod_level_resources
            )
            == qos_class
            for pod in self.pods
        )
        return f"{found} {qos_class} pod{'' if found == 1 else 's'}"
