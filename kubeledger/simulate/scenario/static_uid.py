"""The UID of a static pod: a hash of where it comes from and what it says, never drawn.

Source: v1.20.2 and v1.36.2 pkg/kubelet/config/common.go applyDefaults
Differs: the kubelet hashes the pod as its version's Go structs print it; here its canonical
    JSON stands for that. So a UID changes with the node, the file and anything in the pod,
    as the kubelet's does, but has other digits.
"""

from __future__ import annotations

from hashlib import md5
from typing import Any

import msgspec

_FNV_SINCE = 35
_FNV_OFFSET = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1


def static_uid(pod: dict[str, Any], node: str, file: str, minor: int) -> str:
    """32 hexadecimal digits.

    Args:
        pod: with the API's defaults, and without what the kubelet adds.
        file: path of its manifest on the node.
        minor: of the kubelet's version: MD5 before 1.35, FNV-1a of 128 bits from then on.
    """
    text = msgspec.json.encode(pod, order="deterministic") + f"host:{node}file:{file}".encode()
    if minor < _FNV_SINCE:
        return md5(text, usedforsecurity=False).hexdigest()
    digest = _FNV_OFFSET
    for byte in text:
        digest = (digest ^ byte) * _FNV_PRIME & _MASK
    return f"{digest:032x}"
