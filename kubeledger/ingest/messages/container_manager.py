"""Messages of the container manager (pkg/kubelet/cm): cgroups, CPU, memory and topology manager."""

from __future__ import annotations

import re
from typing import Any

from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.model.bodies.resourcemanagers import CpuManagerStarted, CpuPlace, Hint
from kubeledger.model.patterns import regex
from kubeledger.model.record import Body
from kubeledger.model.units import integer

# The lines in which a CPU manager logs the machine and its options, before it starts.

_CPU_INFO = regex(
    r"(?P<cpu>\d+):\{(?:NUMANodeID:)?(?P<numa>\d+) (?:SocketID:)?(?P<socket>\d+) "
    r"(?:CoreID:)?(?P<core>\d+)(?: (?:UncoreCacheID:)?(?P<uncore>\d+))?[^}]*\}"
)
_PLACE = ("NUMANodeID", "SocketID", "CoreID")
_OPTION = regex(r"(\w+):true")
_STRICT = "StrictCPUReservation"


class CpuMachine:
    """What has been logged since the last line about the machine.

    Attributes:
        reported: field of ``CpuManagerStarted`` -> value.
    """

    def __init__(self) -> None:
        self.reported: dict[str, Any] = {}

    def topology(self, topology: Any) -> None:  # noqa: ANN401 - any decoded value
        """CPUs, each with its place; this line is the first of a new manager."""
        cpus: dict[str, CpuPlace] = {}
        if isinstance(topology, dict):
            for cpu, info in (topology.get("CPUDetails") or {}).items():
                place = [integer(info.get(key)) for key in _PLACE]
                if None not in place:
                    cpus[str(cpu)] = _place(*place, integer(info.get("UncoreCacheID")))
        else:
            for match in _CPU_INFO.finditer(str(topology)):
                cpus[match["cpu"]] = _place(*match.group("numa", "socket", "core", "uncore"))
        ordered = sorted(cpus.items(), key=lambda entry: int(entry[0]))
        self.reported = {"cpus": dict(ordered) or None}

    def options(self, options: Any) -> None:  # noqa: ANN401 - any decoded value
        """The static policy's options."""
        if isinstance(options, dict):
            named = [name for name, value in options.items() if value is True]
        else:
            named = _OPTION.findall(str(options))
        self.reported["options"] = tuple(sorted(named))

    def reserve(self, cpus: str | None) -> None:
        """CPUs that no container gets."""
        self.reported["reserved_cpu_set"] = sound_set(cpus)


def _place(*numbers: Any) -> CpuPlace:  # noqa: ANN401 - whole numbers, or texts of them
    """Of NUMA node, socket, core and, where it is logged, uncore cache."""
    numa_node, socket, core = map(int, numbers[:3])
    uncore = None if numbers[3] is None else int(numbers[3])
    return CpuPlace(numa_node=numa_node, socket=socket, core=core, uncore_cache=uncore)


def from_file(started: Body, cpus: str) -> bool | None:
    """False where the first shared pool is what a process without a state file begins with."""
    if not isinstance(started, CpuManagerStarted) or started.cpus is None:
        return None
    if started.restored:
        return True
    every, reserved = {int(cpu) for cpu in started.cpus}, cpus_of(started.reserved_cpu_set or "")
    wanted = every - reserved if _STRICT in (started.options or ()) else every
    return False if cpus_of(cpus) == wanted else None


def sound_set(text: str | None) -> str | None:
    """The set in its one notation; None when it is none."""
    if text is None:
        return None
    try:
        return cpu_set_text(cpus_of(text))
    except ValueError:
        return None


# Topology hints as log lines write them: Go's ``{01 true}``, or JSON since 1.31 or so.

Hints = dict[str, tuple[Hint, ...] | None]
"""Resource -> hints; None means no preference, empty no possible affinity."""

_HINT = regex(
    r"\{(?:NUMANodeAffinity:)?(?P<mask><nil>|[01]+) (?:Preferred:)?(?P<preferred>true|false)\}"
)
_RESOURCE = regex(r"(?P<resource>[^\s\[\]{}:]+):\[(?P<hints>[^\]]*)\]")


def nodes_of_mask(mask: int) -> tuple[int, ...]:
    """The bits that are set, in ascending order."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def hint_of(value: Any) -> Hint | None:  # noqa: ANN401 - any decoded value
    """One hint in either form; None when it is none."""
    if isinstance(value, dict):
        if not {"NUMANodeAffinity", "Preferred"} <= value.keys():
            return None  # a key is damaged
        mask = integer(value.get("NUMANodeAffinity"))
        nodes = None if mask is None or mask < 0 else nodes_of_mask(mask)
        return Hint(numa_nodes=nodes, preferred=value.get("Preferred") is True)
    match = _HINT.search(str(value))
    return None if match is None else _text_hint(match)


def hints_of(value: Any) -> tuple[Hints, frozenset[str]]:  # noqa: ANN401 - any decoded value
    """All hints of one provider, and the resources whose list is empty or nil: Go writes both so.

    JSON tells them apart, so nothing is uncertain there.
    """
    if value is None or isinstance(value, dict):
        return {
            key: _json_hints(hints) for key, hints in sorted((value or {}).items())
        }, frozenset()
    hints: Hints = {
        match["resource"]: tuple(_text_hint(hint) for hint in _HINT.finditer(match["hints"]))
        for match in _RESOURCE.finditer(str(value))
    }
    return hints, frozenset(resource for resource, found in hints.items() if not found)


def _json_hints(value: Any) -> tuple[Hint, ...] | None:  # noqa: ANN401 - any decoded value
    if not isinstance(value, list):
        return None
    return tuple(hint for item in value if (hint := hint_of(item)) is not None)


def _text_hint(match: re.Match[str]) -> Hint:
    mask = match["mask"]
    nodes = None if mask == "<nil>" else nodes_of_mask(int(mask, 2))
    return Hint(numa_nodes=nodes, preferred=match["preferred"] == "true")
