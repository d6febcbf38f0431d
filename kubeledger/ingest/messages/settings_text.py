"""Settings as the kubelet prints them, read into KubeletConfiguration's JSON.

Four notations: the text of a flag, Go's ``%#v`` dump of the whole configuration (1.20),
its JSON dump (newer), and the container manager's ``NodeConfig`` (Go's ``%+v``, or JSON).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeledger.ingest.klog.values import parse_go_literal
from kubeledger.ingest.messages.settings_flags import FLAGS, FlagKind
from kubeledger.model.patterns import regex
from kubeledger.model.units import format_go_duration, whole_number

_IRREGULAR = {
    "CPUCFSQuota": "cpuCFSQuota",
    "CPUCFSQuotaPeriod": "cpuCFSQuotaPeriod",
    "IPTablesDropBit": "iptablesDropBit",
    "IPTablesMasqueradeBit": "iptablesMasqueradeBit",
    "IDsPerPod": "idsPerPod",
    "ResolverConfig": "resolvConf",
}
_ACRONYM = regex(r"[A-Z]+[0-9]*(?=[A-Z][a-z]|$)|[A-Z][0-9]*")
STRUCT_FIELDS = frozenset(
    {"authentication", "authorization", "crashLoopBackOff", "logging", "memorySwap"}
    | {"reservedMemory", "shutdownGracePeriodByPodPriority", "userNamespaces"}
)
"""Fields whose value is a struct, not a map with keys of the user's choice."""


def api_name(field: str) -> str:
    """Name of a Go field in the API: ``ImageGCHighThresholdPercent`` with a small ``i``."""
    if field in _IRREGULAR:
        return _IRREGULAR[field]
    match = _ACRONYM.match(field)
    return field if match is None else match[0].lower() + field[match.end() :]


def parse_configuration_literal(text: str) -> dict[str, Any]:
    """Fields of a ``config.KubeletConfiguration{...}`` literal.

    Raises:
        ValueError: the text is no such literal.
    """
    fields = parse_go_literal(text, rename=api_name)
    if not isinstance(fields, dict):
        raise ValueError("not a KubeletConfiguration")
    return _without_type(fields)


_TEXT_MAPS = frozenset(row.field for row in FLAGS if row.kind in ("map", "thresholds"))
"""Fields that map names to texts."""


def parse_configuration_json(dump: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the JSON dump, whose names are Go's.

    Raises:
        ValueError: a line of it was lost, so that fields stand within another.
    """
    fields: dict[str, Any] = {}
    for name, value in dump.items():
        field = api_name(name)
        if field in _TEXT_MAPS and not all(isinstance(v, str) for v in (value or {}).values()):
            msg = f"{name} holds other than texts"
            raise ValueError(msg)
        fields[field] = _renamed(value) if field in STRUCT_FIELDS else value
    return _without_type(fields)


def _without_type(fields: dict[str, Any]) -> dict[str, Any]:
    inline = {"typeMeta", "kind", "apiVersion", "TypeMeta"}
    return {name: value for name, value in fields.items() if name not in inline}


def _renamed(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    if isinstance(value, dict):
        return {api_name(str(name)): _renamed(member) for name, member in value.items()}
    return [_renamed(member) for member in value] if isinstance(value, list) else value


def parse_flag(kind: FlagKind, text: str) -> Any:  # noqa: ANN401  (any JSON value)
    """Value of a flag's text as the JSON of its field.

    Raises:
        ValueError: the text is not of that kind.
    """
    match kind:
        case "bool":
            return {"true": True, "false": False}.get(text, text)
        case "int":
            return int(text)
        case "list":
            return _split(text.removeprefix("[").removesuffix("]"))
        case "map":
            return dict(sorted(_pairs(text, "=")))
        case "thresholds":
            return dict(sorted(_pairs(text, "<")))
        case "gates":
            return {name: value == "true" for name, value in sorted(_pairs(text, "="))}
        case "headers":
            headers: dict[str, list[str]] = {}
            for name, value in _pairs(text, ":"):
                headers.setdefault(name, []).append(value)
            return headers
        case "taints":
            return [_taint(taint) for taint in _split(text)]
        case "memory":
            return _reserved_memory(text)
        case "str":
            return text


def _split(text: str) -> list[str]:
    return [part.strip().strip('"') for part in text.split(",") if part.strip()]


def _pairs(text: str, separator: str) -> list[tuple[str, str]]:
    pairs = [part.partition(separator) for part in _split(text)]
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _taint(text: str) -> dict[str, str]:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _reserved_memory(text: str) -> list[dict[str, Any]]:
    """``0:hugepages-1Gi=2Gi,memory=1Gi,1:memory=1Gi``: a part with a colon starts a node."""
    nodes: list[dict[str, Any]] = []
    for part in _split(text.replace(";", ",")):
        node, colon, limit = part.rpartition(":")
        if colon:
            nodes.append({"numaNode": int(node), "limits": {}})
        if not nodes:
            raise ValueError(f"no NUMA node in {text!r}")
        name, _, quantity = limit.partition("=")
        nodes[-1]["limits"][name] = quantity
    return nodes


_NODE_CONFIG_FIELDS = {
    "CPUCFSQuotaPeriod": "cpuCFSQuotaPeriod",
    "CPUManagerPolicy": "cpuManagerPolicy",
    "CPUManagerPolicyOptions": "cpuManagerPolicyOptions",
    "CPUManagerReconcilePeriod": "cpuManagerReconcilePeriod",
    "CgroupDriver": "cgroupDriver",
    "CgroupRoot": "cgroupRoot",
    "CgroupsPerQOS": "cgroupsPerQOS",
    "EnforceCPULimits": "cpuCFSQuota",
    "KubeReserved": "kubeReserved",
    "KubeReservedCgroupName": "kubeReservedCgroup",
    "MemoryManagerPolicy": "memoryManagerPolicy",
    "PodPidsLimit": "podPidsLimit",
    "ProtectKernelDefaults": "protectKernelDefaults",
    "SystemCgroupsName": "systemCgroups",
    "SystemReserved": "systemReserved",
    "SystemReservedCgroupName": "systemReservedCgroup",
    "TopologyManagerPolicy": "topologyManagerPolicy",
    "TopologyManagerPolicyOptions": "topologyManagerPolicyOptions",
    "TopologyManagerScope": "topologyManagerScope",
}
"""NodeConfig field -> KubeletConfiguration field; the rest is derived or no setting."""


def parse_node_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in the JSON form of ``NodeConfig``."""
    nested = config.get("NodeAllocatableConfig")
    members = {**config, **nested} if isinstance(nested, dict) else dict(config)
    fields: dict[str, Any] = {}
    for name, value in members.items():
        field = _NODE_CONFIG_FIELDS.get(name.removeprefix("Experimental"))
        if field is None or value is None or _is_torn(value):
            continue
        if isinstance(value, int) and field.endswith("Period"):
            value = format_go_duration(value)
        fields[field] = value
    if isinstance(enforced := members.get("EnforceNodeAllocatable"), dict):
        fields["enforceNodeAllocatable"] = sorted(enforced)
    if isinstance(reserved := members.get("QOSReserved"), dict):
        fields["qosReserved"] = {name: f"{percent}%" for name, percent in reserved.items()}
    if isinstance(thresholds := members.get("HardEvictionThresholds"), list):
        fields["evictionHard"] = dict(sorted(_threshold(each) for each in thresholds))
    return fields


def _is_torn(value: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """A blank stands in a name, or a text: the line was wrapped there."""
    if isinstance(value, str):
        return " " in value
    return isinstance(value, dict) and any(map(_is_torn, (*value, *value.values())))


def _threshold(threshold: Mapping[str, Any]) -> tuple[str, str]:
    value = threshold["Value"]
    if value["Quantity"] is not None:
        return threshold["Signal"], str(value["Quantity"])
    # A 32 bit float: 0.01 comes back as 0.009999999776.
    return threshold["Signal"], f"{float(value['Percentage']) * 100:.4g}%"


_BLOCK = regex(r"(\w+):map\[((?:[^\[\]]|\[[^\]]*\])*)\]")
_THRESHOLD = regex(r"\{Signal:(\S+) Operator:\S+ Value:\{Quantity:(\S+) Percentage:([0-9.e+-]+)\}")
_PLAIN = regex(r"(\w+):([^\s{}\[\]]+)(?=[\s}])")
_QUANTITY = regex(
    r"([\w./-]+):\{i:\{value:(-?\d+) scale:(-?\d+)\} d:\{Dec:\S+\} s:(\S*) Format:(\w+)\}"
)


def parse_node_config_text(text: str) -> dict[str, Any]:
    """Settings in the ``%+v`` form of ``NodeConfig``, whose texts are not quoted.

    Only what can be told apart without quotes is taken: an empty text, and a text with a
    space in it, are left out.
    """
    members: dict[str, Any] = {}
    for name, block in _BLOCK.findall(text):
        if name in {"KubeReserved", "SystemReserved"}:
            members[name] = {key: _quantity(*rest) for key, *rest in _QUANTITY.findall(block)}
        elif name in {"EnforceNodeAllocatable", "QOSReserved"}:
            members[name] = dict(part.split(":", 1) for part in block.split(" ") if ":" in part)
    if "HardEvictionThresholds:[" in text:
        members["HardEvictionThresholds"] = [
            {"Signal": signal, "Value": {"Quantity": _given(quantity), "Percentage": percentage}}
            for signal, quantity, percentage in _THRESHOLD.findall(text)
        ]
    for name, value in _PLAIN.findall(_BLOCK.sub("", text)):
        if value != "<nil>":
            members.setdefault(name, _plain(value))
    return parse_node_config(members)


def _given(text: str) -> str | None:
    return None if text == "<nil>" else text


def _plain(text: str) -> Any:  # noqa: ANN401  (any JSON value)
    if text in {"true", "false"}:
        return text == "true"
    number = whole_number(text)
    return text if number is None else number


_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


def _quantity(value: str, scale: str, text: str, form: str) -> str:
    """Canonical text of a ``resource.Quantity``; it caches its text, but not always."""
    if text:
        return text
    number, exponent = int(value), int(scale)
    if form == "BinarySI" and exponent == 0:
        for suffix, bits in _BINARY:
            if number and number % (1 << bits) == 0:
                return f"{number >> bits}{suffix}"
        return str(number)
    while number and number % 1000 == 0 and exponent + 3 in _DECIMAL:
        number, exponent = number // 1000, exponent + 3
    return f"{number}{_DECIMAL.get(exponent, f'e{exponent}')}"
