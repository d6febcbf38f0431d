"""Lines that were read before are found whatever else begins like them."""

import random
import tracemalloc

import pytest

from kubeledger.ingest.klog import reorder as module
from kubeledger.ingest.klog.reorder import Repeats

STAMP = "1121 02:52:{:02d}.{:06d}"


def _line(second: int, rest: str) -> bytes:
    return f"I{STAMP.format(second, 7)}    8337 kubelet.go:9] {rest}".encode()


@pytest.mark.parametrize("seed", range(20))
def test_a_line_is_found_by_all_of_its_bytes(seed: int) -> None:
    """Of lines with the same stamp, process and caller only the very same one counts."""
    chance = random.Random(seed)
    batches = [
        [_line(chance.randrange(20), chance.choice("abcdefghij")) for _ in range(40)]
        for _ in range(3)
    ]
    repeats = Repeats()
    above: list[bytes] = []
    for bodies in batches:
        repeats.begin(bodies)
        for index, body in enumerate(bodies):
            # Behind a block of repeats nothing is told by the lines just above.
            repeats._blocks = True
            assert repeats.far(index, body[1:21]) == (body in [*above, *bodies[:index]])
        above += bodies


def test_long_lines_are_found_and_not_held() -> None:
    """In batches of few lines, as a log that is followed gives them; not by their begin alone."""
    repeats = Repeats()
    tracemalloc.start()
    try:
        for second in range(50):
            repeats.begin([_line(second, f"{second}" * 100_000)])
            assert not repeats.near(0, _line(second, "")[1:21])
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 1 << 20
    last = _line(49, "49" * 100_000)
    repeats.begin([last, last + b"!"])
    assert repeats.is_just_above(0)
    assert repeats.near(0, last[1:21])
    assert not repeats.near(1, last[1:21])


@pytest.mark.parametrize("packed", [1000, 1 << 16])
def test_a_log_that_goes_back_forgets_no_line(packed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far above it stands, packed or not yet; and it remembers none that was not there."""
    monkeypatch.setattr(module, "_PACKED", packed)
    block = [_line(second % 60, f"number {second}") for second in range(9000)]
    for all_above in (True, False):
        repeats = Repeats(all_above=all_above)
        for bodies in (block[:4500], block[4500:], [block[0], _line(0, "another")]):
            repeats.begin(bodies)
        assert not repeats.far(1, block[0][1:21])
        assert repeats.far(0, block[0][1:21]) == all_above
