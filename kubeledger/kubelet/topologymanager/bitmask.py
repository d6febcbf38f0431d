"""NUMA node masks as plain integers: bit n stands for NUMA node n, 0 to 63."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

BITS_MAX = 64


class NUMANodeError(ValueError):
    """A NUMA node that no mask can hold; the text is the kubelet's."""


def mask_of(nodes: Iterable[int]) -> int:
    """The mask with these nodes.

    Raises:
        NUMANodeError: a node below 0 or above 63.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/bitmask/bitmask.go NewBitMask
    """
    mask = 0
    for node in nodes:
        if not 0 <= node < BITS_MAX:
            raise NUMANodeError("bit number must be in range 0-63")
        mask |= 1 << node
    return mask


def bits_of(mask: int) -> list[int]:
    """(n,) the nodes of a mask, ascending."""
    bits = []
    while mask:
        lowest = mask & -mask
        bits.append(lowest.bit_length() - 1)
        mask ^= lowest
    return bits


def iterate_bit_masks(nodes: Sequence[int]) -> Iterator[int]:
    """Every mask over ``nodes`` but the empty one: by size, then by position in ``nodes``.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/bitmask/bitmask.go IterateBitMasks
    """
    singles = [1 << node for node in nodes]
    for size in range(1, len(singles) + 1):
        for chosen in combinations(singles, size):
            mask = 0
            for bit in chosen:
                mask |= bit
            yield mask


def mask_text(mask: int) -> str:
    """The mask as the kubelet logs it: binary, zero-padded to an even width.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/bitmask/bitmask.go String
    Differs: no. A mask of a power of 4 gets an odd width (``100``), as there.
    """
    for shift in range(BITS_MAX - 2, 0, -2):
        if mask > 1 << shift:
            return f"{mask:0{shift + 2}b}"
    return f"{mask:02b}"
