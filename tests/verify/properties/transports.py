"""What carries, stores and hides a kubelet's log, and leaves it true.

Shippers and stores double, split and colour lines, clocks and calendars date them, and people hide
names in them or send files of another time and node beside them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import yaml

from tests.verify.properties.clocks import moved_by, time_of
from tests.verify.properties.filters import Change, Lines, holding, of_lines, read, write

_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_POD = re.compile(rb'pod="[\w.-]+/([\w.-]+)"')
_ISO = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")
_KLOG = re.compile(rb"(?m)^([^\n]*?\b[IWEF])(\d{4} \d\d:\d\d:\d\d)(?=\.\d{6} )")
_HEADER = re.compile(rb"[IWEF]\d{4} [\d:.]{15} +(\d+) ([\w.-]+\.go:\d+)\] ")
_PAIR = re.compile(r' ([\w.-]+)=("(?:[^"\\]|\\.)*"|\S*)')
_SNAPSHOT = "%Y%m%dT%H%M%S"


# -- the way of a line ---------------------------------------------------------------------------


def _shipped(lines: Lines, random: Random) -> Lines:
    """A shipper that was not answered sends its last lines again, later."""
    done: Lines = []
    for at, line in enumerate(lines):
        done.append(line)
        if random.random() < 0.005:
            done += lines[max(0, at - random.randrange(1, 60)) : at + 1]
    return done


def _two_shippers(bundle: Path, random: Random) -> None:
    """Two agents ship the log, each with a delay of its own, into files of their own."""
    lines = read(bundle)
    for name in ("kubelet.log", "kubelet-agent.log"):
        late_s = random.uniform(0, 30)
        write(bundle, [_carried_at(line, late_s) for line in lines], name)


def _carried_at(line: bytes, late_s: float) -> bytes:
    time = time_of(line)
    if time is None:
        return line
    stamp = (time + timedelta(seconds=late_s)).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00").encode()
    return stamp + b" node-t kubelet[1]: " + line


def _in_pieces(limit: int) -> Callable[[Lines, Random], Lines]:
    """As a container runtime writes it: each line tagged, long ones in several pieces."""

    def change(lines: Lines, random: Random) -> Lines:
        done: Lines = []
        stamp = b"2026-01-01T00:00:00.000000Z"
        for line in lines:
            time, text = time_of(line), line.rstrip(b"\n")
            if time is not None:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()
            while len(text) > limit:
                done.append(stamp + b" stderr P " + text[:limit] + b"\n")
                text = text[limit:]
            done.append(stamp + b" stderr F " + text + b"\n")
        return done

    return change


def _suppressed(lines: Lines, random: Random) -> Lines:
    """Journald drops what comes too fast, and says how much."""
    most, window, seen, dropped = random.choice((30, 200)), b"", 0, 0
    done: Lines = []
    for line in lines:
        if line[:17] != window:
            if dropped:
                text = b"Suppressed %d messages from kubelet.service\n" % dropped
                stamp = _carried_at(line, 0).partition(b" ")[0]
                if time_of(line) is not None:
                    done.append(stamp + b" node-t systemd-journald[300]: " + text)
            window, seen, dropped = line[:17], 0, 0
        seen += 1
        dropped += seen > most
        if seen <= most:
            done.append(_carried_at(line, 0))
    return done


def _no_traces(lines: Lines, random: Random) -> Lines:
    """Only the first line of each entry is kept: no stack traces, no dumps of objects."""
    return [line for line in lines if time_of(line) is not None]


def _zeros(lines: Lines, random: Random) -> Lines:
    """The machine went down: blocks of the file that were not written are zeros."""
    done = list(lines)
    for _ in range(3):
        at = random.randrange(len(done))
        done[at] = done[at][: random.randrange(len(done[at]))] + b"\0" * 4096 + b"\n"
    return done


def _coloured(lines: Lines, random: Random) -> Lines:
    """Copied from a terminal that showed severities in colours."""
    colour = {b"I": b"\x1b[32m", b"W": b"\x1b[33m", b"E": b"\x1b[31m", b"F": b"\x1b[1;31m"}
    return [
        colour[line[:1]] + line[:1] + b"\x1b[0m" + line[1:] if time_of(line) else line
        for line in lines
    ]


def _as_json(lines: Lines, random: Random) -> Lines:
    """``logging.format: json``: each entry an object; what follows the first line is gone."""
    return [made for line in lines if (made := _json_of(line)) is not None]


def _json_of(line: bytes) -> bytes | None:
    header, time = _HEADER.match(line), time_of(line)
    if header is None or time is None:
        return None
    text = line[header.end() :].rstrip(b"\n").decode("utf-8", "replace")
    ts = (time - datetime(1970, 1, 1)) / timedelta(milliseconds=1)
    row: dict[str, Any] = {"ts": ts, "caller": header[2].decode()}
    said = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    if said is None:
        row["msg"] = text
    else:
        row["msg"] = json.loads(f'"{said[1]}"') if _is_json(said[0]) else said[1]
        for name, value in _PAIR.findall(text[said.end() :]):
            row[name] = json.loads(value) if _is_json(value) else value.strip('"')
            if name == "pod" and row[name].count("/") == 1:
                namespace, _, pod = row[name].partition("/")
                row[name] = {"name": pod, "namespace": namespace}
    if line[:1] != b"E":
        row["v"] = 2
    return json.dumps(row).encode() + b"\n"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# -- clocks and calendars ------------------------------------------------------------------------


def _summer(hours: int) -> Callable[[Lines, Random], Lines]:
    """The node's zone changes to summer time, or back; klog's stamps are local."""

    def change(lines: Lines, random: Random) -> Lines:
        first = random.randrange(len(lines) // 8, len(lines) * 7 // 8)
        return lines[:first] + [moved_by(line, hours * 3600) for line in lines[first:]]

    return change


def _at_midnight(to: datetime) -> Change:
    """The same node at another time: midnight comes in the middle of the log."""

    def changed(bundle: Path, random: Random) -> None:
        times = [time for line in read(bundle) if (time := time_of(line)) is not None]
        by = to - times[len(times) // 2].replace(microsecond=0)
        for path in [path for path in bundle.rglob("*") if path.is_file()]:
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(
                _KLOG.sub(lambda m: _klog(m, by), _ISO.sub(lambda m: _iso(m, by), data))
            )
        for path in sorted((bundle / "snapshots").glob("*")):
            stamp, rest = path.name[:15], path.name[15:]
            path.rename(path.with_name(_moved(stamp, _SNAPSHOT, by) + rest + ".new"))
        for path in sorted((bundle / "snapshots").glob("*.new")):
            path.rename(path.with_name(path.name.removesuffix(".new")))

    return changed


def _moved(text: str, form: str, by: timedelta) -> str:
    return (datetime.strptime(text, form) + by).strftime(form)


def _iso(found: re.Match[bytes], by: timedelta) -> bytes:
    return _moved(found[0].decode(), "%Y-%m-%dT%H:%M:%S", by).encode()


def _klog(found: re.Match[bytes], by: timedelta) -> bytes:
    moved = _moved(f"2026{found[2].decode()}", "%Y%m%d %H:%M:%S", by)
    return found[1] + moved[4:].encode()


def _kernel_off(bundle: Path, random: Random) -> None:
    """The kernel's log goes by another clock."""
    by = timedelta(seconds=random.choice((-600, -30, 7, 45, 3600)))
    for path in bundle.glob("kernel*"):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(_ISO.sub(lambda m: _iso(m, by), data))


# -- what is hidden ------------------------------------------------------------------------------


def _hidden(
    pattern: re.Pattern[bytes], put: Callable[[bytes], bytes], *, all_files: bool
) -> Change:
    """Parts are replaced, in the log alone or in every file."""

    def changed(bundle: Path, random: Random) -> None:
        for path in [p for p in bundle.rglob("*") if p.is_file()]:
            if all_files or path.name == "kubelet.log":
                data = path.read_bytes()
                path.unlink()
                path.write_bytes(pattern.sub(lambda m: put(m[0]), data))

    return changed


def _another(uid: bytes) -> bytes:
    """A pseudonym that looks like a UID."""
    return str(UUID(bytes=md5(uid).digest())).encode()


def _renamed(*, all_files: bool) -> Change:
    """Pods have pseudonyms."""

    def changed(bundle: Path, random: Random) -> None:
        names = sorted({found[1] for line in read(bundle) for found in _POD.finditer(line)})
        given = {name: b"redacted-%d" % n for n, name in enumerate(names)}
        if given:
            each = rb"|".join(map(re.escape, sorted(given, key=len, reverse=True)))
            pattern = re.compile(rb"(?<![\w.-])(?:" + each + rb")(?![\w.-])")
            _hidden(pattern, lambda name: given[name], all_files=all_files)(bundle, random)

    return changed


def _some_pods(lines: Lines, random: Random) -> Lines:
    """Lines that name a pod are there for a few of them; all others are."""
    names = sorted({found[1] for line in lines for found in _POD.finditer(line)})
    gone = [name for name in names if random.random() < 0.5]
    pattern = re.compile(rb"|".join(map(re.escape, gone)) or rb"$^")
    return [line for line in lines if not pattern.search(line)]


# -- files beside it -----------------------------------------------------------------------------


def _local_names(bundle: Path, random: Random) -> None:
    """Directories of snapshots are named by the node's clock on the wall, which statistics show."""
    if not any(bundle.rglob("stats-summary.json")):
        return
    ahead = timedelta(hours=random.choice((-8, -3.5, 1, 5.5, 9)))
    for path in sorted((bundle / "snapshots").glob("*")):
        rest = path.name[15:].removesuffix("Z")
        path.rename(path.with_name(_moved(path.name[:15], _SNAPSHOT, ahead) + rest + ".new"))
    for path in sorted((bundle / "snapshots").glob("*.new")):
        path.rename(path.with_suffix(""))


def _far_lists(bundle: Path, random: Random) -> None:
    """The only lists are of long before the log, or of long after it; nothing shows settings."""
    lines, paths = read(bundle), sorted((bundle / "snapshots").iterdir())
    is_late = random.random() < 0.5
    third = len(lines) // 3
    write(bundle, lines[:third] if is_late else lines[-third:])
    kept = paths[-1] if is_late else paths[0]
    for path in paths:
        if path != kept:
            shutil.rmtree(path)
    for path in [*bundle.rglob("configz.json"), *bundle.glob("kubelet-config*")]:
        path.unlink()


def _others(node: Callable[[str], Path]) -> Change:
    """Lists of the cluster: pods of another node stand in them, too."""

    def changed(bundle: Path, random: Random) -> None:
        names = ("node-a", "node-b", "node-e-oom")
        other = node(random.choice([name for name in names if not bundle.name.startswith(name)]))
        lists = sorted(other.rglob("pods.json"))
        for path in sorted(bundle.glob("snapshots/*/pods.json")):  # others are dated by their pods
            own, strange = (
                json.loads(path.read_bytes()),
                json.loads(random.choice(lists).read_bytes()),
            )
            own["items"] = [*(own.get("items") or ()), *(strange.get("items") or ())]
            path.unlink()
            path.write_text(json.dumps(own))

    return changed


_DEFAULTS = {
    "cgroupsPerQOS": True,
    "containerLogMaxFiles": 5,
    "cpuManagerPolicy": "none",
    "evictionPressureTransitionPeriod": "5m0s",
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "maxPods": 110,
    "memoryManagerPolicy": "None",
    "podPidsLimit": -1,
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
}


def _sparse_settings(bundle: Path, random: Random) -> None:
    """The configuration file holds only what is no default, and nothing else shows settings."""
    for path in bundle.rglob("configz.json"):
        path.unlink()
    path = bundle / "kubelet-config.yaml"
    if path.exists():
        settings = yaml.safe_load(path.read_bytes())
        path.unlink()
        kept = {k: v for k, v in settings.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
        path.write_text(yaml.safe_dump(kept))


def _quiet_since_a_start(quiet: Change) -> Change:
    """At a restart the verbosity was lowered."""

    def changed(bundle: Path, random: Random) -> None:
        lines = read(bundle)
        starts = holding(lines, b"Kubelet version", b"kubeletVersion")
        first = random.choice(starts) if starts else len(lines)
        write(bundle, lines[first:])
        quiet(bundle, random)
        write(bundle, lines[:first] + read(bundle))

    return changed


def transports(node: Callable[[str], Path], quiet: Change) -> Iterator[tuple[str, Change]]:
    """Names of the ways, and what each does to a copy of a node's files.

    Args:
        node: the files of another recording.
        quiet: what a lower verbosity leaves out.
    """
    yield "shipped", of_lines(_shipped)
    yield "two-shippers", _two_shippers
    yield "cri", of_lines(_in_pieces(16384))
    yield "cri-pieces", of_lines(_in_pieces(600))
    yield "suppressed", of_lines(_suppressed)
    yield "no-traces", of_lines(_no_traces)
    yield "zeros", of_lines(_zeros)
    yield "coloured", of_lines(_coloured)
    yield "json", of_lines(_as_json)
    yield "summer", of_lines(_summer(1))
    yield "winter", of_lines(_summer(-1))
    yield "new-year", _at_midnight(datetime(2027, 1, 1))
    yield "leap-day", _at_midnight(datetime(2028, 2, 29))
    yield "after-leap-day", _at_midnight(datetime(2028, 3, 1))
    yield "kernel-off", _kernel_off
    yield "short-ids", _hidden(_ID, lambda found: found[:12], all_files=False)
    yield "masked-uids", _hidden(_UID, lambda _: b"x" * 8, all_files=False)
    yield "masked-ids", _hidden(_ID, lambda _: b"<id>", all_files=False)
    yield "all-masked-uids", _hidden(_UID, lambda _: b"x" * 8, all_files=True)
    yield "other-uids", _hidden(_UID, _another, all_files=False)
    yield "renamed", _renamed(all_files=True)
    yield "renamed-log", _renamed(all_files=False)
    yield "local-names", _local_names
    yield "some-pods", of_lines(_some_pods)
    yield "far-lists", _far_lists
    yield "others", _others(node)
    yield "sparse-settings", _sparse_settings
    yield "quiet-restart", _quiet_since_a_start(quiet)
