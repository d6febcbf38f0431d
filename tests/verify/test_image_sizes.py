"""Sizes of images from pass to pass: what only one of them tells was told wrongly."""

from __future__ import annotations

import msgspec
import pytest

from kubeledger.images.records import ImagesDetected
from kubeledger.machine import Body
from kubeledger.verify import Contradiction
from tests.verify.histories import outcomes
from tests.verify.image_scenes import alone, deleted, detected, history, kubelet, settings

__all__ = ["alone"]

BEGIN: list[tuple[float, Body]] = [(0, kubelet()), (0.1, settings())]


def listed(size: int | None) -> ImagesDetected:
    """A pass over a and b, in which b has that size."""
    whole = detected("ab")
    return ImagesDetected(
        images=(whole.images[0], msgspec.structs.replace(whole.images[1], size_bytes=size))
    )


def disputes(*steps: tuple[float, Body]) -> list[tuple[str, list[str]]]:
    """Subject and sizes of each contradiction."""
    return [
        (each.subject, [side.says.split()[-4] for side in each.sides])
        for each in outcomes(history(*BEGIN, *steps))
        if isinstance(each, Contradiction)
    ]


@pytest.mark.parametrize(
    ("passes", "sizes"),
    [
        ([(1, 7), (1.1, 8)], ["7", "8"]),
        ([(1, 7), (1.1, 8), (301, 7), (601, 7), (901, 7)], ["7", "8"]),
        ([(1, 7), (1.1, 8), (301, 8), (601, 8), (901, 8)], ["7", "8"]),
        ([(1, 7), (301, 7), (301.1, 8), (601, 7), (601.1, 7)], ["7", "8"]),
        ([(1, 7), (301, 8), (601, 7), (901, 7)], ["8", "7"]),
        ([(1, 8), (301, 7), (601, 7), (901, 7)], ["8", "7"]),
        ([(1, 7), (301, 7), (601, 7), (901, 8)], ["7", "8"]),
        ([(1, 7), (301, None), (601, 8), (901, 7)], ["8", "7"]),
    ],
)
def test_a_size_that_stands_alone(passes: list[tuple[float, int | None]], sizes: list[str]) -> None:
    """Beside another pass, between two, at the begin or the end; it is said once."""
    assert disputes(*((at, listed(size)) for at, size in passes)) == [("image/b", sizes)]


@pytest.mark.parametrize(
    "passes",
    [
        [(1, 7), (301, 7), (601, 7)],
        [(1, 7), (301, 7), (601, 8), (901, 8), (1201, 8)],
        [(1, 7), (301, 8)],
        [(1, 7), (301, None), (601, 7)],
    ],
)
def test_an_image_that_was_pulled_again(passes: list[tuple[float, int | None]]) -> None:
    """Its size may be another one from then on."""
    assert disputes(*((at, listed(size)) for at, size in passes)) == []


def test_a_removal_tells_the_size_too() -> None:
    """What the first pass alone told was never the size."""
    steps = [(1, listed(8)), (301, listed(7)), (302, deleted("b", None, size=7))]
    assert disputes(*steps) == [("image/b", ["8", "7"])]
