"""How people and log stores change a kubelet's log without damage: filters, splits, other orders.

Nothing of this is a lie, and much of it leaves no trace in what is left: a log that was filtered
looks like one of a kubelet that never logs the rest.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from random import Random

from tests.verify.properties.clocks import time_of

Lines = list[bytes]
Change = Callable[[Path, Random], None]
Keep = Callable[[bytes], bool]

_HEADER = re.compile(rb"([IWEF])(\d{4} [\d:]{8}\.\d{6}) +\d+ ([\w.-]+\.go):(\d+)\] ")
_ENTRY = re.compile(rb'(?:^|"line": "|\]: )[IWEF]\d{4} ')
_STAMP = re.compile(rb"(?<=^[IWEF]\d{4} \d\d:\d\d:\d\d\.)\d{6}")
_NAME = re.compile(rb'pod="([\w.-]+/[\w.-]+)"|"([\w.-]+)_[\w.-]+\(')
_EPOCH = datetime(2026, 1, 1)
_HEAD = 60
_WORDS = (
    *(b"SyncLoop", b"PLEG", b"Killing", b"rob", b"evict", b"evice", b"Event occurred", b"mage"),
    *(b"cgroup", b"container", b"kubelet", b"pod", b"rror", b"opology", b"memory", b"ADD"),
)  # fmt: skip


def holding(lines: Lines, *words: bytes) -> list[int]:
    """Indices of the lines in which one of them stands."""
    return [n for n, line in enumerate(lines) if any(word in line for word in words)]


def read(bundle: Path) -> Lines:
    """The log's lines, with their ends."""
    return (bundle / "kubelet.log").read_bytes().splitlines(keepends=True)


def write(bundle: Path, lines: Lines, name: str = "kubelet.log") -> None:
    """Put a log there; the one that was is a link to the original."""
    (bundle / name).unlink(missing_ok=True)
    (bundle / name).write_bytes(b"".join(lines))


def of_lines(change: Callable[[Lines, Random], Lines]) -> Change:
    """A change of the log's lines."""
    return lambda bundle, random: write(bundle, change(read(bundle), random))


def _kept(draw: Callable[[Lines, Random], Keep], *, rest: bool = False) -> Change:
    """Only the entries that a filter lets through, or only the others."""

    def changed(lines: Lines, random: Random) -> Lines:
        keep = draw(lines, random)
        return [line for line in lines if keep(line) is not rest]

    return of_lines(changed)


def _file(line: bytes) -> bytes:
    header = _HEADER.search(line)
    return b"" if header is None else header[3]


def _call(line: bytes) -> bytes:
    header = _HEADER.search(line)
    return b"" if header is None else header[3] + b":" + header[4]


def _some_of(part: Callable[[bytes], bytes], most: int) -> Callable[[Lines, Random], Keep]:
    """The lines of a few source files, or calls: rare ones as often as those with many lines."""

    def draw(lines: Lines, random: Random) -> Keep:
        parts = sorted(Counter(map(part, lines)))
        chosen = set(random.sample(parts, min(len(parts), random.randint(1, most))))
        return lambda line: part(line) in chosen

    return draw


def _word(_: Lines, random: Random) -> Keep:
    word = random.choice(_WORDS)
    return lambda line: word in line


def _severity(_: Lines, random: Random) -> Keep:
    letters = random.choice((b"I", b"E", b"WE", b"IE"))
    return lambda line: line[:1] in letters


def _pod(lines: Lines, random: Random) -> Keep:
    names = sorted({m[1] or m[2] for line in lines for m in [_NAME.search(line)] if m is not None})
    name = random.choice(names or [b"/"]).rpartition(b"/")[2]
    return lambda line: name in line


def _ends(*ends: bytes) -> Change:
    return of_lines(
        lambda lines, random: [
            line.rstrip(b"\n") + end + b"\n" for end in [random.choice(ends)] for line in lines
        ]
    )


def _stamps(digits: int) -> Change:
    """Stamps cut to some digits of the second, as a store of coarser times gives them back."""
    zeros = b"0" * (6 - digits)
    return of_lines(
        lambda lines, _: [_STAMP.sub(lambda m: m[0][:digits] + zeros, line) for line in lines]
    )


def _turned(lines: Lines, random: Random) -> Lines:
    """Stamps cut to milliseconds, and lines of one stamp in any order, as a store sorts them.

    Some stores add what makes them unequal again.
    """
    cut = [_STAMP.sub(lambda m: m[0][:3] + b"000", line) for line in lines]
    times = [time_of(line) or _EPOCH for line in cut]
    order = sorted(range(len(cut)), key=lambda i: (times[i], random.random()))
    if random.random() < 0.5:
        return [cut[i] for i in order]
    ranks = [rank for _, tie in groupby(order, times.__getitem__) for rank, _ in enumerate(tie)]
    tails = [b"%03d" % min(rank, 999) for rank in ranks]
    return [
        line[:18] + tail + line[21:] if _STAMP.search(line) else line
        for line, tail in zip((cut[i] for i in order), tails, strict=True)
    ]


def _by_pod(lines: Lines, _: Random) -> Lines:
    """Grouped by the pod that they name."""
    return sorted(lines, key=lambda line: (_NAME.search(line) or [b""])[0])


def _wrapped(lines: Lines, random: Random) -> Lines:
    """Lines that hold a message wrapped between words, with or without an indent."""
    width, indent = random.choice((90, 140, 200)), random.choice((b"", b"  ", b"\t"))
    return [
        b"\n".join(_pieces_of(line, width, indent)) if b"message=" in line else line
        for line in lines
    ]


def _pieces_of(line: bytes, width: int, indent: bytes) -> Iterator[bytes]:
    while len(line) > width and (blank := line.rfind(b" ", 40, width)) > 0:
        yield line[:blank].rstrip()
        line = indent + line[blank + 1 :]
    yield line


def _pieces(lines: Lines, random: Random, most: int = 6) -> list[Lines]:
    """Parts of a log, cut where an entry begins."""
    begins = [i for i, line in enumerate(lines) if i and _ENTRY.search(line)]
    cuts = sorted(random.sample(begins, random.randint(2, most)))
    return [lines[a:b] for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)]


def _shuffled(lines: Lines, random: Random) -> Lines:
    pieces = _pieces(lines, random)
    random.shuffle(pieces)
    return [line for piece in pieces for line in piece]


def _json_chunks(bundle: Path, random: Random) -> None:
    """Rows of a log store, in chunks of any order; rows of one call keep theirs."""
    rows, time = [], "2026-11-21T00:00:00"
    for line in read(bundle):
        header = _HEADER.search(line)
        if header is not None:
            month_day, _, clock = header[2].decode().partition(" ")
            time = f"2026-{month_day[:2]}-{month_day[2:]}T{clock}"
        message = line.decode("utf-8", "replace").rstrip("\n")
        row = {"timestamp": f"{time}Z", "line": message, "labels": {"unit": "kubelet.service"}}
        rows.append(json.dumps(row).encode() + b"\n")
    write(bundle, _shuffled(rows, random))


def _rotated(bundle: Path, random: Random) -> None:
    """A log in rotated pieces, one of which was not collected."""
    pieces = _pieces(read(bundle), random)
    gone = random.choice((0, random.randrange(len(pieces))))
    (bundle / "kubelet.log").unlink()
    for i, piece in enumerate(reversed(pieces)):
        if i != len(pieces) - 1 - gone:
            write(bundle, piece, "kubelet.log" + (f".{i}" if i else ""))


def _chunk_files(bundle: Path, random: Random) -> None:
    """A log in files, whose names say nothing of their order."""
    pieces = _pieces(read(bundle), random)
    random.shuffle(pieces)
    (bundle / "kubelet.log").unlink()
    for i, piece in enumerate(pieces):
        write(bundle, piece, f"kubelet-{i}.log")


def _dealt(bundle: Path, random: Random) -> None:
    """A stream was split: each line goes to one of several files, in turn or as it comes."""
    lines, files = read(bundle), random.choice((2, 3, 5))
    turns = [random.randrange(files) for _ in lines] if random.random() < 0.5 else range(len(lines))
    (bundle / "kubelet.log").unlink()
    for i in range(files):
        mine = [line for line, turn in zip(lines, turns, strict=True) if turn % files == i]
        write(bundle, mine, f"kubelet-{i}.log")


def _out_of_step(lines: Lines, random: Random) -> Lines:
    """Two streams, one of which comes some lines late."""
    late = random.choice((b"E", b"W", b"WE"))
    step = random.choice((3, 30, 300))
    order = sorted(range(len(lines)), key=lambda i: (i + (step if lines[i][:1] in late else 0), i))
    return [lines[i] for i in order]


def _copied(bundle: Path, random: Random) -> None:
    """A part of the log is there again, under another name."""
    lines = read(bundle)
    first = random.randrange(len(lines))
    write(bundle, lines[first : first + len(lines) // 2], "kubelet-copy.log")


def _two_streams(bundle: Path, random: Random) -> None:
    """Errors in a file of their own."""
    lines = read(bundle)
    write(bundle, [line for line in lines if line[:1] in b"WEF"], "kubelet-errors.log")
    write(bundle, [line for line in lines if line[:1] not in b"WEF"])


def _limited(lines: Lines, random: Random) -> Lines:
    """A rate limit: of each so many seconds only the first lines."""
    most = random.choice((20, 100, 400))
    seen: Counter[bytes] = Counter()
    kept = []
    for line in lines:
        second = line[:18]  # ten seconds
        seen[second] += 1
        if seen[second] <= most:
            kept.append(line)
    return kept


def _first_of(most: int, seconds: int, part: Callable[[bytes], bytes]) -> Change:
    """A store keeps one of all that say the same, or a limit lets few of each call through."""

    def changed(lines: Lines, random: Random) -> Lines:
        seen: Counter[tuple[bytes, int]] = Counter()
        kept: Lines = []
        for line in lines:
            time = time_of(line)
            if time is not None:
                key = part(line), int((time - _EPOCH).total_seconds()) // seconds
                seen[key] += 1
                if seen[key] > most:
                    continue
            kept.append(line)
        return kept

    return of_lines(changed)


def _said(line: bytes) -> bytes:
    header = _HEADER.match(line)
    return line if header is None else line[header.end() :]


def _words_within(lines: Lines, random: Random) -> Lines:
    """A page put something into the middle of some lines."""
    word = random.choice((b" ", b" [cut] ", b"<br>", "\u200b".encode()))
    done: Lines = []
    for line in lines:
        at = random.randrange(len(line)) if random.random() < 0.02 else 0
        done.append(line[:at] + word + line[at:] if at > _HEAD else line)
    return done


def _every(lines: Lines, random: Random) -> Lines:
    """Sampled."""
    step = random.choice((2, 5, 20))
    return lines[random.randrange(step) :: step]


def _alone(*names: str) -> Change:
    """Only files of these names were collected."""

    def changed(bundle: Path, random: Random) -> None:
        name = random.choice(names)
        for path in bundle.rglob("*"):
            if path.is_file() and path.name != name:
                path.unlink()

    return changed


def _few_lists(bundle: Path, random: Random) -> None:
    """One snapshot of ten."""
    paths = sorted((bundle / "snapshots").glob("*"))
    for path in paths:
        if random.random() < 0.9:
            for file in path.iterdir():
                file.unlink() if file.is_file() else None


def _both(*changes: Change) -> Change:
    def changed(bundle: Path, random: Random) -> None:
        for change in changes:
            change(bundle, random)

    return changed


def _start_lines(lines: Lines, random: Random) -> Keep:
    """The first lines of each process are gone."""
    seen: Counter[bytes] = Counter()

    def keep(line: bytes) -> bool:
        pid = line[21:30].split()[:1]
        seen[pid[0] if pid else b""] += 1
        return seen[pid[0] if pid else b""] > 200

    return keep


FILTERS: dict[str, Change] = {
    "only-files": _kept(_some_of(_file, 6)),
    "only-many-files": _kept(_some_of(_file, 60)),
    "not-files": _kept(_some_of(_file, 6), rest=True),
    "only-calls": _kept(_some_of(_call, 20)),
    "not-calls": _kept(_some_of(_call, 20), rest=True),
    "grep": _kept(_word),
    "grep-v": _kept(_word, rest=True),
    "severity": _kept(_severity),
    "pod": _kept(_pod),
    "not-pod": _kept(_pod, rest=True),
    "no-start-lines": _kept(_start_lines),
    "ends": _ends(b" ", b"  ", b"\t", b"\r"),
    "milliseconds": _stamps(3),
    "seconds": _stamps(0),
    "turned-milliseconds": of_lines(_turned),
    "by-pod": of_lines(_by_pod),
    "wrapped-messages": of_lines(_wrapped),
    "sorted": of_lines(lambda lines, _: sorted(lines)),
    "reversed": of_lines(lambda lines, _: lines[::-1]),
    "chunks": of_lines(_shuffled),
    "json-chunks": _json_chunks,
    "chunk-files": _chunk_files,
    "rotated": _rotated,
    "dealt": _dealt,
    "out-of-step": of_lines(_out_of_step),
    "two-streams": _two_streams,
    "copied": _copied,
    "limited": of_lines(_limited),
    "every": of_lines(_every),
    "one-of-equal": _first_of(1, 10**9, _said),
    "one-of-equal-each-second": _first_of(1, 1, _said),
    "one-of-equal-each-minute": _first_of(1, 60, _said),
    "few-of-a-call": _first_of(3, 60, _call),
    "words-within": of_lines(_words_within),
    "unique": of_lines(lambda lines, _: list(dict.fromkeys(lines))),
    "alone": _alone("cpu_manager_state", "memory_manager_state", "pods.json", "events.json",
                    "kubelet_internal_checkpoint", "stats-summary.json", "kubelet.log"),
    "few-lists": _few_lists,
    "files-few-lists": _both(_kept(_some_of(_file, 60)), _few_lists),
    "not-files-few-lists": _both(_kept(_some_of(_file, 6), rest=True), _few_lists),
}  # fmt: skip
"""Name of a way to change a log without damage -> what it does to a copy of a node's files."""
