"""What a kubelet does with its images over a series of steps, and what else it could have done.

Two things are left to chance: which of several pulls that end at the same instant goes on first,
and in which order the entries of one secret for one registry are tried. ``decide`` takes the first
each time; ``outcomes`` takes all, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from kubeledger.kubelet.imagepull.image_manager import Attempt, ImageManager, Request
from kubeledger.kubelet.imagepull.keyring import Choose

OUTCOMES_MAX: Final = 10_000
"""More ways than these are not gone."""
_Outcome = TypeVar("_Outcome")


def first(_: int) -> int:
    """The choice that ``decide`` makes."""
    return 0


def ensure_images_exist(
    manager: ImageManager, requests: Sequence[Request], now_ns: int, choose: Choose
) -> list[Attempt]:
    """Make requests one after the other at one instant, and wait until all have returned.

    Args:
        manager: of a kubelet process.
        requests: in their order; each is made when those before wait for something, or are done.
        now_ns: when.
        choose: for what is left to chance.
    """
    attempts: list[Attempt] = []
    pulling: list[Attempt] = []
    for request in requests:
        attempt = manager.ensure_image_exists(request, now_ns)
        attempts.append(attempt)
        if attempt.is_pulling and attempt.finished_ns == now_ns:
            manager.finish(attempt)
        elif attempt.is_pulling:
            pulling.append(attempt)
    while pulling:
        tied = pulling
        if len(pulling) > 1:
            next_ns = min(attempt.finished_ns for attempt in pulling)
            tied = [attempt for attempt in pulling if attempt.finished_ns == next_ns]
        attempt = tied[choose(len(tied)) if len(tied) > 1 else 0]
        pulling.remove(attempt)
        manager.finish(attempt)
    return attempts


def outcomes(run: Callable[[Choose], _Outcome]) -> Iterator[_Outcome]:
    """What comes of a run, with each series of choices; those of ``decide`` come first.

    Args:
        run: from the beginning, with nothing left of the run before.
    """
    script: list[tuple[int, int]] = []
    for _ in range(OUTCOMES_MAX):
        made = 0

        def choose(count: int) -> int:
            nonlocal made
            if made == len(script):
                script.append((0, count))
            made += 1
            return script[made - 1][0]

        yield run(choose)
        while script and script[-1][0] + 1 == script[-1][1]:
            script.pop()
        if not script:
            return
        script[-1] = (script[-1][0] + 1, script[-1][1])
