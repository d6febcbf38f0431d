"""How findings about the values of a cgroup are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.cgroups.records import CgroupUpdated
from kubeledger.machine import Record
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.judging import Judged
from kubeledger.verify.cgroups.lines import Lines, keys_of, line_of, uncompared

__all__ = ["Speaker"]

_NODE_RULE: Final = "pkg/kubelet/cm/node_container_manager_linux.go enforceNodeAllocatableCgroups"
_QOS_RULE: Final = "pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups"
_POD_RULE: Final = "pkg/kubelet/cm/helpers_linux.go ResourceConfigForPod"
_CONTAINER_RULE: Final = (
    "pkg/kubelet/kuberuntime/kuberuntime_container_linux.go generateLinuxContainerResources"
)
_NAMED_MAX: Final = 6
_RULES: Final = {
    "node": _NODE_RULE,
    "qos": _QOS_RULE,
    "pod": _POD_RULE,
    "container": _CONTAINER_RULE,
}


class Speaker:
    """Gives decisions about values their findings, with the rule of their level.

    Attributes:
        lines: of the snapshots.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.lines = Lines()

    def not_per_qos(self, record: Record, body: CgroupUpdated) -> None:
        """The kubelet makes no cgroups for pods at all."""
        self._bench.find(
            record,
            "impossible",
            subject=f"cgroup/{body.cgroup}",
            why="cgroupsPerQOS is off, so the kubelet makes no cgroups for pods",
            rule=_RULES[body.level],
            recorded={"cgroup": body.cgroup},
        )

    def say(self, record: Record, body: CgroupUpdated, judged: Judged | list[str]) -> None:
        """What a comparison gave, or what is missing for one."""
        if isinstance(judged, list):
            self.unverifiable(record, body, judged)
            return
        if judged.verdict is None:
            self.unverifiable(record, body, ["values in the cgroup's files"])
            return
        keys = keys_of(body)
        if judged.verdict != "impossible" and (missing := self.lines.missing(body, keys)):
            self.unverifiable(record, body, missing)
            return
        self._bench.find(
            record,
            judged.verdict,
            subject=f"cgroup/{body.cgroup}",
            place=line_of(record, body, judged.differing),
            why=f"{judged.why}{_left_out(body, keys, judged)}",
            expected=judged.expected,
            recorded=judged.recorded,
            rule=_RULES[body.level],
            inputs=judged.inputs,
            certain=body.level != "qos",
        )

    def unverifiable(self, record: Record, body: CgroupUpdated, missing: Sequence[str]) -> None:
        """Nothing can be said without some inputs."""
        self._bench.unverifiable(
            record, subject=f"cgroup/{body.cgroup}", missing=missing, rule=_RULES[body.level]
        )


def _left_out(body: CgroupUpdated, keys: Sequence[str], judged: Judged) -> str:
    """Words for the files that were not judged, so that nobody takes them for right."""
    names = uncompared(body, keys, judged.recorded)
    if not names:
        return ""
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"; not compared: {', '.join(names[:_NAMED_MAX])}{more}"
