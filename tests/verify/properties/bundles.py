"""How the files of a recorded node are degraded; then they are imported like any others."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random

import yaml

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from tests.benchmarks import later_days
from tests.recordings import extract
from tests.verify.properties import clocks
from tests.verify.properties.filters import FILTERS
from tests.verify.properties.pastes import pastes
from tests.verify.properties.transports import transports
from tests.verify.properties.verbosity import LOGGED_AT

NODES = ("node-a", "node-b", "node-e-evictions", "node-e-oom", "node-f")
"""Recordings whose files are degraded."""

_SNAPSHOT = "%Y%m%dT%H%M%S"
_ENOUGH = 8
"""Statistics that show by which clock snapshots are named, though some are lost."""

Lines = list[bytes]
Change = Callable[[Path, Random], None]


@cache
def unpacked(node: str) -> Path:
    """A recording's files; the log without what journald wrote before its lines."""
    scratch = Path(tempfile.mkdtemp(prefix="kubeledger-properties-"))
    import atexit

    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    bundle = extract(node, scratch / node)
    log = bundle / "kubelet.log"
    log.write_bytes(b"".join(_uncarried(log.read_bytes().splitlines(keepends=True))))
    return bundle


_CARRIED = re.compile(rb"\d{4}-\d\d-\d\dT\S+ \S+ (\w+)\[\d+\]: ")


def _uncarried(lines: Lines) -> Iterator[bytes]:
    """What the kubelet wrote of a log that journald carried: what falsifies knows klog's lines."""
    for line in lines:
        carried = _CARRIED.match(line)
        if carried is None or carried[1] == b"kubelet":
            yield line if carried is None else line[carried.end() :]


def degraded_bundle(node: str, how: str, random: Random) -> list[Record]:
    """Records that an import of a degraded copy of a recording gives."""
    original = unpacked(node)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / original.name
        shutil.copytree(original, copy, copy_function=os.link)
        BUNDLES[how](copy, random)
        return imported([Path(scratch)], original.name)


def imported(paths: Sequence[Path], name: str = "") -> list[Record]:
    """Records that an import of files gives; of the node of that name where there are several."""
    try:
        with open_histories([str(path) for path in paths]) as histories:
            mine = [history for history in histories if name.startswith(history.node)] or histories
            return list(mine[0].read(None)) if mine else []
    except BadInputError:  # nothing is left that can be imported
        return []


def _log(change: Callable[[Lines, Random], Lines]) -> Change:
    def changed(bundle: Path, random: Random) -> None:
        path = bundle / "kubelet.log"
        lines = path.read_bytes().splitlines(keepends=True)
        path.unlink()  # it is a link to the original
        path.write_bytes(b"".join(change(lines, random)))

    return changed


def _drop(percent: float) -> Change:
    return _log(lambda lines, random: [x for x in lines if random.random() * 100 >= percent])


def _line(lines: Lines, random: Random) -> Lines:
    gone = random.randrange(len(lines))
    return lines[:gone] + lines[gone + 1 :]


def _head(lines: Lines, random: Random) -> Lines:
    return lines[random.randrange(len(lines) // 8, len(lines) * 3 // 4) :]


def _tail(lines: Lines, random: Random) -> Lines:
    return lines[: random.randrange(len(lines) // 3, len(lines) * 7 // 8)]


def _window(lines: Lines, random: Random) -> Lines:
    first = random.randrange(len(lines) // 2)
    return lines[first : first + len(lines) // 3]


def _hole(lines: Lines, random: Random) -> Lines:
    first = random.randrange(len(lines) // 8, len(lines) * 3 // 4)
    return lines[:first] + lines[first + random.randrange(1, len(lines) // 4) :]


_PID = re.compile(rb"[IWEF]\d{4} [\d:.]{15} +(\d+) ")


def _starts(lines: Lines) -> list[int]:
    """Numbers of the lines with which kubelet processes begin, the first one among them."""
    found: list[int] = []
    last = b""
    for i, line in enumerate(lines):
        pid = _PID.match(line)
        if pid is not None and pid[1] != last:
            last = pid[1]
            found.append(i)
    return found


def _start(lines: Lines, random: Random) -> Lines:
    return lines[random.choice(_starts(lines)) :]


def _another_clock(bundle: Path, random: Random) -> None:
    """The machine that took the snapshots names them by its own clock; statistics show it."""
    if len(list(bundle.glob("snapshots/*/stats-summary.json"))) < _ENOUGH:
        return
    ahead = timedelta(seconds=random.choice((-20, 20, 60)))
    snapshots = sorted((bundle / "snapshots").iterdir(), reverse=ahead > timedelta())
    for path in snapshots:
        taken = datetime.strptime(path.name[:15], _SNAPSHOT) + ahead
        named = path.with_name(taken.strftime(_SNAPSHOT) + path.name[15:])
        if not named.exists():
            path.rename(named)


def _lists_of_the_round_before(bundle: Path, _: Random) -> None:
    """A list lies with the files of the next round."""
    lists = sorted(bundle.glob("snapshots/*/pods.json"))
    texts = [path.read_bytes() for path in lists]
    for path, text in zip(lists[1:], texts, strict=False):
        path.unlink()  # it is a link to the original
        path.write_bytes(text)


def _a_file_a_pod(bundle: Path, _: Random) -> None:
    """As ``kubectl get pod NAME -o json`` writes them, one after the other."""
    for path in bundle.glob("pods.json"):
        listed = json.loads(path.read_bytes())
        path.unlink()
        for number, pod in enumerate(listed["items"]):
            text = json.dumps({"apiVersion": "v1", "kind": "Pod"} | pod)
            (bundle / f"pod-{number}.json").write_text(text)


_OTHER_SETTINGS = {
    "podPidsLimit": 4321,
    "topologyManagerScope": "pod",
    "topologyManagerPolicy": "restricted",
    "imageGCHighThresholdPercent": 99,
    "evictionHard": {"memory.available": "1Mi"},
    "maxPods": 7,
}


def _other_settings(bundle: Path, random: Random) -> None:
    """The log begins little behind a start; the first snapshot is of a process before that one."""
    skipped = random.randrange(600)
    _log(lambda lines, random: _start(lines, random)[skipped:])(bundle, random)
    first = min(path.name for path in (bundle / "snapshots").iterdir())
    taken = datetime.strptime(first[:15], _SNAPSHOT) - timedelta(minutes=2)
    snapshot = bundle / "snapshots" / f"{taken.strftime(_SNAPSHOT)}Z"
    snapshot.mkdir()
    file = unpacked("node-b") / "kubelet-config.yaml"
    own = bundle / file.name
    config = yaml.safe_load((own if own.exists() else file).read_bytes()) | _OTHER_SETTINGS
    (snapshot / "configz.json").write_text(json.dumps({"kubeletconfig": config}))


_LATER_SETTINGS = (
    {"maxPods": 5},
    {"evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%"}},
    {"imageGCHighThresholdPercent": 60, "imageGCLowThresholdPercent": 50},
    {"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"},
    {"topologyManagerPolicy": "none"},
    {"podPidsLimit": 77},
    {"shutdownGracePeriod": "7s", "shutdownGracePeriodCriticalPods": "3s"},
    {"systemReserved": {"memory": "1Gi", "cpu": "1"}},
    {"serializeImagePulls": False},
    {
        "evictionSoft": {"memory.available": "90%"},
        "evictionSoftGracePeriod": {"memory.available": "1s"},
    },
)


def _later_settings(bundle: Path, random: Random) -> None:
    """The configuration file was changed after the run; at ``-v=2`` it shows most settings."""
    _without("configz.json")(bundle, random)
    for path in bundle.glob("kubelet-config.yaml"):
        config = yaml.safe_load(path.read_bytes()) | random.choice(_LATER_SETTINGS)
        path.unlink()  # it is a link to the original
        path.write_text(yaml.safe_dump(config))
    if random.random() < 0.7:
        _quiet(2)(bundle, random)


def _boots(lines: Lines, random: Random) -> Lines:
    """What one of its processes wrote, and those after it, stands before the others."""
    first = random.choice(_starts(lines))
    return lines[first:] + lines[:first]


def _quiet(level: int, *, later: bool = False) -> Change:
    """The kubelet ran with ``-v=level``; ``later``: from some time on."""

    def changed(bundle: Path, random: Random) -> None:
        logged = LOGGED_AT.get(bundle.name.rpartition("-v")[0])
        if logged is None:
            return
        there = frozenset().union(
            *(calls for verbosity, calls in logged.items() if verbosity <= level)
        )
        since = random.random() if later else 0
        _log(
            lambda lines, _: [
                line
                for at, line in enumerate(lines)
                if at < since * len(lines) or _is_logged(line, there)
            ]
        )(bundle, random)

    return changed


_CALL = re.compile(rb"I\d{4} [\d:.]{15} +\d+ ([\w.-]+\.go:\d+)\]")


def _is_logged(line: bytes, calls: frozenset[bytes]) -> bool:
    call = _CALL.match(line)
    return call is None or call[1] in calls


def _late(lines: Lines, random: Random) -> Lines:
    """A goroutine takes the time of its line, and writes it up to a millisecond later."""
    done = list(lines)
    for i in range(len(done) - 1):
        if random.random() > 0.02:
            continue
        own, at = _micros(done[i]), i
        while own is not None and at + 1 < len(done):
            other = _micros(done[at + 1])
            if other is None or not 0 <= other - own < 1000:
                break
            done[at], done[at + 1] = done[at + 1], done[at]
            at += 1
    return done


def _stranger(bundle: Path, random: Random) -> None:
    """The directory of another node was put beside it."""
    other = random.choice([node for node in NODES if not bundle.name.startswith(node)])
    shutil.copytree(unpacked(other), bundle.parent / unpacked(other).name, copy_function=os.link)


def _double(lines: Lines, random: Random) -> Lines:
    return [line for line in lines for _ in range(2 if random.random() < 0.02 else 1)]


def _twice(lines: Lines, random: Random) -> Lines:
    """A part of the log is there twice, as where a rotated file was collected again."""
    first = random.randrange(len(lines))
    end = first + random.randrange(len(lines) // 4)
    return lines[:end] + lines[first:]


def _cut(length: int) -> Change:
    return _log(lambda lines, _: [line.rstrip(b"\n")[:length] + b"\n" for line in lines])


def _next_day(lines: Lines, random: Random) -> Lines:
    """Another process the day after does all of it again, with other pods of the same names."""
    return [*lines, *later_days.log_of(b"".join(lines), 1).splitlines(keepends=True)]


def _torn(lines: Lines, random: Random) -> Lines:
    return [
        line[: random.randrange(len(line))] + b"\n" if random.random() < 0.1 else line
        for line in lines
    ]


def _swapped(lines: Lines, random: Random) -> Lines:
    """Klog takes a line's time before it waits to write it: neighbours change places."""
    done = list(lines)
    at = 0
    while at + 1 < len(done):
        near = _micros(done[at]), _micros(done[at + 1])
        if None not in near and abs(near[0] - near[1]) < 100 and random.random() < 0.3:  # type: ignore[operator]
            done[at], done[at + 1] = done[at + 1], done[at]
            at += 1
        at += 1
    return done


def _micros(line: bytes) -> int | None:
    """Microseconds of the minute at which a line was written."""
    stamp = line[11:20]
    digits = stamp.replace(b".", b"")
    return int(digits) if len(digits) == 8 and digits.isdigit() else None


def _without(*names: str) -> Change:
    """Files and directories of these names are not there, wherever."""

    def changed(bundle: Path, random: Random) -> None:
        for name in names:
            for path in sorted(bundle.rglob(name)):
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.exists():
                    path.unlink()

    return changed


def _files(bundle: Path, random: Random) -> None:
    """Half of the kinds of files were not collected."""
    names = sorted({path.name for path in bundle.rglob("*") if path.is_file()})
    gone = [name for name in names if name != "kubelet.log" and random.random() < 0.5]
    _without(*gone)(bundle, random)


def _snapshots(bundle: Path, random: Random) -> None:
    """Some snapshots were not taken."""
    for path in sorted((bundle / "snapshots").glob("*")):
        if random.random() < 0.5:
            shutil.rmtree(path)


BUNDLES: dict[str, Change] = {
    "whole": lambda bundle, random: None,
    "drop1": _drop(1),
    "drop10": _drop(10),
    "drop30": _drop(30),
    "line": _log(_line),
    "head": _log(_head),
    "tail": _log(_tail),
    "window": _log(_window),
    "hole": _log(_hole),
    "start": _log(_start),
    "other-settings": _other_settings,
    "later-settings": _later_settings,
    "late": _log(_late),
    "stranger": _stranger,
    "v2": _quiet(2),
    "v3": _quiet(3),
    "later-v2": _quiet(2, later=True),
    "boots": _log(_boots),
    "double": _log(_double),
    "twice": _log(_twice),
    "swapped": _log(_swapped),
    "clock-10": _log(clocks.set_back(10)),
    "clock-60": _log(clocks.set_back(60)),
    "clock-1": _log(clocks.set_back(1)),
    "clock-90": _log(clocks.set_back(90)),
    "clock+5": _log(clocks.set_back(-5)),
    "clock+90": _log(clocks.set_back(-90)),
    "relists": _log(clocks.relists),
    "carried": _log(clocks.carried),
    "zones": _log(clocks.zones),
    "next-day": _log(_next_day),
    "cut120": _cut(120),
    "cut200": _cut(200),
    "torn": _log(_torn),
    "files": _files,
    "snapshots": _snapshots,
    "another-clock": _another_clock,
    "a-file-a-pod": _a_file_a_pod,
    "lists-of-the-round-before": _lists_of_the_round_before,
    "no-snapshots": _without("snapshots"),
    "no-settings": _without("kubelet-config.yaml", "configz.json", "kubelet-config"),
    "no-pods": _without("pods.json", "events.json", "events-watch.json"),
    "no-checkpoints": _without(
        "kubelet_internal_checkpoint", "cpu_manager_state", "memory_manager_state"
    ),
    "no-statistics": _without("stats-summary.json"),
    "no-metrics": _without("metrics-probes.txt"),
    "no-log": _without("kubelet.log"),
    **FILTERS,
    **dict(transports(unpacked, _quiet(2))),
    **dict(pastes(_quiet(2))),
}
_SINGLE = tuple(way for way in BUNDLES if "leap-day" not in way)  # others take any year for 2026


def _mixed(bundle: Path, random: Random) -> None:
    """Several things are lost in turn."""
    for how in random.sample(_SINGLE, random.randint(2, 3)):
        if (bundle / "kubelet.log").exists() and (bundle / "snapshots").exists():
            BUNDLES[how](bundle, random)


BUNDLES["mixed"] = _mixed
"""Name of a way to lose evidence -> what it does to a copy of a node's files."""
