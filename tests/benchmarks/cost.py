"""What work costs: processor time, which other programs on the machine hardly change."""

import resource
import subprocess
from collections.abc import Callable, Sequence


def processor_s(work: Callable[[], object]) -> float:
    """Seconds of the processor that some work takes, with those of the programs it starts."""
    before_s = _used_s()
    work()
    return _used_s() - before_s


def least_s(rounds: int, *works: Callable[[], object]) -> list[float]:
    """The least of several rounds for each work; they take turns."""
    taken = [[processor_s(work) for work in works] for _ in range(rounds)]
    return [min(times) for times in zip(*taken, strict=True)]


def command(words: Sequence[str]) -> Callable[[], object]:
    """A program as work; what it prints goes nowhere."""
    return lambda: subprocess.run(words, capture_output=True, check=True)


def _used_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
