"""The loop: draw a target, grow an input, read it, keep it when it reaches new lines."""

import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

import msgspec

from tests.fuzz.lineage import Lineage, grown
from tests.fuzz.lines import Lines
from tests.fuzz.target import Target

CPU_S_MAX = 20.0
"""Of one input. By the process's own time, so that a busy machine makes no failures."""

_AGAIN_CPU_S = 0.05
_WATCHED_SHARE = 5
_KEPT_MAX = 400
_DEEP_MAX = 12
_NUMBERS = 1 << 32


class HangError(BaseException):
    """An input takes too long; not an ``Exception``, so that nothing on the way handles it."""


class Failure(msgspec.Struct):
    """Something that an input must not do.

    Attributes:
        target, lineage: which input.
        where: tells failures apart: what was raised, and where.
        trace: for a reader.
    """

    target: str
    lineage: Lineage
    where: str
    trace: str

    @property
    def again(self) -> str:
        return f"python -m tests.fuzz {self.target} {'.'.join(map(str, self.lineage))}"


class Tally(msgspec.Struct):
    """What a run did.

    Attributes:
        inputs: read, by target and how they ended.
        seconds: spent on a target.
        lines: of the package that were reached.
        failures: the first of each kind.
    """

    inputs: Counter[tuple[str, str]]
    seconds: dict[str, float]
    kept: Counter[str]
    lines: int = 0
    failures: dict[str, Failure] = {}


@contextmanager
def _limited(cpu_s: float) -> Iterator[None]:
    def over(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        raise HangError(f"more than {cpu_s:g} s for one input")

    before = signal.signal(signal.SIGPROF, over)
    # Again and again: the kernel may hand the signal to a thread of DuckDB's, and then CPython
    # 3.11 sometimes forgets to call the handler.
    signal.setitimer(signal.ITIMER_PROF, cpu_s, _AGAIN_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attempt_within(target: Target, data: bytes, cpu_s: float = CPU_S_MAX) -> str:
    """Read one input within a time.

    Raises:
        BaseException: as :meth:`Target.attempt`; ``HangError`` when it takes too long.
    """
    with _limited(cpu_s):
        return target.attempt(data)


def fuzz(
    targets: Sequence[Target],
    inputs: int,
    seed: int,
    *,
    tell: Callable[[Tally, int], None] | None = None,
    note: Path | None = None,
) -> Tally:
    """Read so many inputs, drawn by their targets' shares.

    Args:
        targets: what is fuzzed.
        inputs: how many.
        seed: the same gives the same run, but for the times.
        tell: told now and then how far it is.
        note: a file that always holds the input under way, for whoever watches from outside.
    """
    random = Random(seed)
    tally = Tally(Counter(), dict.fromkeys((target.name for target in targets), 0.0), Counter())
    lines = Lines()
    kept: dict[str, list[tuple[Lineage, bytes]]] = {target.name: [] for target in targets}
    shares = [target.share for target in targets]
    for count in range(inputs):
        (target,) = random.choices(targets, shares)
        parents = kept[target.name]
        lineage, parent = random.choice(parents) if parents and random.randrange(2) else ((), None)
        lineage = (*lineage, random.randrange(_NUMBERS))
        started = time.process_time()
        data = grown(target, parent, lineage[-1])
        if note is not None:
            note.write_text(f"{target.name} {'.'.join(map(str, lineage))} {count}")
        watched = count % _WATCHED_SHARE == 0
        if _read(target, data, lineage, lines if watched else None, tally):
            tally.kept[target.name] += 1
            if len(lineage) < _DEEP_MAX:
                if len(parents) >= _KEPT_MAX:
                    parents.pop(random.randrange(len(parents)))
                parents.append((lineage, data))
        tally.seconds[target.name] += time.process_time() - started
        tally.lines = lines.reached
        if tell is not None and count % 1000 == 999:
            tell(tally, count + 1)
    return tally


def _read(target: Target, data: bytes, lineage: Lineage, lines: Lines | None, tally: Tally) -> bool:
    """Read one input and take down how it went; whether it reached new lines."""
    before = lines.reached if lines is not None else 0
    try:
        if lines is None:
            ended = attempt_within(target, data)
        else:
            with lines.watched():
                ended = attempt_within(target, data, 5 * CPU_S_MAX)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        ended = "failed"
        last = traceback.extract_tb(error.__traceback__)[-1]
        what = str(error)[:60] if isinstance(error, AssertionError) else ""
        where = f"{target.name}: {type(error).__name__} {what} {last.filename}:{last.lineno}"
        if where not in tally.failures:
            trace = "".join(traceback.format_exception(error)[-6:])[-3000:]
            tally.failures[where] = Failure(target.name, lineage, where, trace)
    tally.inputs[target.name, ended] += 1
    return lines is not None and lines.reached > before


def rss_bytes() -> int:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
