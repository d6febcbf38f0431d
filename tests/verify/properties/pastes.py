"""What terminals, stores and people make of a kubelet's log on its way, and of files beside it.

A log is copied out of a pager or a page, numbered, wrapped, escaped, dated by other clocks and
hosts; lists are cut to what an account may see. Nothing of this is a lie.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tests.verify.properties.clocks import moved_by, received, time_of
from tests.verify.properties.filters import Change, Lines, holding, of_lines, read, write

_PID = re.compile(rb"^([IWEF]\d{4} [\d:.]{15}) +")
_CONTAINER = re.compile(rb'containerName="([\w-]+)"')
_REGISTRY = re.compile(rb"(?<![\w./-])[\w.-]+(?::\d+)?/lab/")
_ADDRESS = re.compile(rb"(?<![\d.])10\.(\d+)\.(\d+)\.(\d+)(?![\d.])")
_CREATED = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


def _each(line: bytes) -> bytes:
    return line.rstrip(b"\n")


def _received(lines: Lines) -> Iterator[tuple[datetime, bytes]]:
    """When a carrier took each line in."""
    return zip(received(lines), lines, strict=True)


def _syslog(lines: Lines, random: Random) -> Lines:
    """As rsyslog writes it: no year, whole seconds, control characters by their numbers."""
    return [
        now.strftime("%b %e %H:%M:%S node-t kubelet[1]: ").encode() + line.replace(b"\t", b"#011")
        for now, line in _received(lines)
    ]


def _other_hosts(lines: Lines, random: Random) -> Lines:
    """Carried, and the host was renamed."""
    first, form = random.randrange(len(lines)), "%Y-%m-%dT%H:%M:%S.%f+00:00 {} kubelet[1]: "
    return [
        now.strftime(form.format("two.example.org" if at >= first else "one")).encode() + line
        for at, (now, line) in enumerate(_received(lines))
    ]


def _docker(lines: Lines, random: Random) -> Lines:
    """The kubelet ran in a container of docker's."""
    rows = (
        {"log": line.decode("utf-8", "replace"), "stream": "stderr",
         "time": now.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")}
        for now, line in _received(lines)
    )  # fmt: skip
    return [json.dumps(row).encode() + b"\n" for row in rows]


def _remote(lines: Lines, random: Random) -> Lines:
    """Dated by a log server, whose clock goes on where that of the node is set back."""
    first, back_s = random.randrange(len(lines) * 7 // 8), random.choice((1, 2, 10))
    return [
        now.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00 node-t kubelet[1]: ").encode()
        + (line if at < first else moved_by(line, -back_s))
        for at, (now, line) in enumerate(_received(lines))
    ]


def _export(lines: Lines, random: Random) -> Lines:
    """A store's hits by the millisecond: rows of one come in any order."""
    stamped = [(f"{now:%Y-%m-%dT%H:%M:%S.%f}"[:-3], line) for now, line in _received(lines)]
    rows = sorted((at, random.random(), _each(line).decode("utf-8", "replace"))
                  for at, line in stamped)  # fmt: skip
    return [
        json.dumps({"@timestamp": f"{at}Z", "message": text}).encode() + b"\n"
        for at, _, text in rows
    ]


def _by_caller(lines: Lines, random: Random) -> Lines:
    """Sorted by the source file that wrote them."""
    return sorted((line for line in lines if time_of(line) is not None), key=lambda x: x[29:50])


def _half_copies(bundle: Path, random: Random) -> None:
    """Two copies, each of which lacks a part; the first begins later."""
    lines = read(bundle)
    for name, begin in (("kubelet.log", len(lines) // 8), ("kubelet-copy.log", 0)):
        first = random.randrange(begin, len(lines))
        last = first + random.randrange(len(lines) // 5)
        write(bundle, lines[begin:first] + lines[last:], name)


def _journal_json(lines: Lines, random: Random) -> Lines:
    """``journalctl -o json``: the time since the boot goes on where the clock is set back."""
    rows = (
        {"__REALTIME_TIMESTAMP": str((now - datetime(1970, 1, 1)) // timedelta(microseconds=1)),
         "_BOOT_ID": "1", "__MONOTONIC_TIMESTAMP": str(at),
         "SYSLOG_IDENTIFIER": "kubelet", "_SYSTEMD_UNIT": "kubelet.service", "_PID": "1",
         "_HOSTNAME": "node-t", "MESSAGE": _each(line).decode("utf-8", "replace")}
        for at, (now, line) in enumerate(_received(lines))
    )  # fmt: skip
    return [json.dumps(row).encode() + b"\n" for row in rows]


def _errors_and_pod(lines: Lines, random: Random) -> Lines:
    """Whatever is no information, and all that names one pod."""
    found = (re.search(rb'pod="[\w.-]+/([\w.-]+)"', line) for line in lines)
    name = random.choice(sorted({one[1] for one in found if one}) or [b"/"])
    return [line for line in lines if line[:1] in b"WEF" or name in line]


def _wrapped(between: bytes) -> Change:
    """Copied from a terminal, which broke lines; ``between``: what stands there now."""

    def change(lines: Lines, random: Random) -> Lines:
        width = random.choice((80, 120, 200, 400))
        cut = ([line[at : at + width] for at in range(0, max(len(line), 1), width)]
               for line in map(_each, lines))  # fmt: skip
        return [between.join(pieces) + b"\n" for pieces in cut]

    return of_lines(change)


def _omitted(lines: Lines, random: Random) -> Lines:
    """Somebody left out a part, and says so; the first line is half there."""
    first = random.randrange(len(lines))
    last = min(len(lines), first + random.randrange(1, len(lines) // 3))
    mark = random.choice(
        (b"[...]\n", b"... %d lines omitted ...\n" % (last - first), b"--More--\n")
    )
    return [lines[0][15:], *lines[1:first], mark, *lines[last:]]


def _quiet_at_first(quiet: Change) -> Change:
    """The verbosity was raised at a restart."""

    def changed(bundle: Path, random: Random) -> None:
        lines = read(bundle)
        starts = holding(lines, b"ubelet version", b"kubeletVersion")
        first = random.choice(starts) if starts else 0
        write(bundle, lines[:first])
        quiet(bundle, random)
        write(bundle, read(bundle) + lines[first:])

    return changed


def _compressed(bundle: Path, random: Random) -> None:
    """Rotated, and what was is compressed."""
    lines = read(bundle)
    first = random.randrange(len(lines))
    write(bundle, lines[first:])
    (bundle / "kubelet.log.1.gz").write_bytes(gzip.compress(b"".join(lines[:first]), 1))


def _slewed(lines: Lines, random: Random) -> Lines:
    """The clock is slewed for a time: it goes a little too fast, or too slow."""
    rate, first = random.choice((-500e-6, 500e-6)), random.randrange(len(lines) // 2)
    start, done = None, lines[:first]
    for line in lines[first:]:
        if (time := time_of(line)) is not None:
            start = start or time
            line = moved_by(line, (time - start).total_seconds() * rate)
        done.append(line)
    return done


def _renamed_containers(lines: Lines, random: Random) -> Lines:
    """Names of containers have pseudonyms, in the log alone."""
    return [_CONTAINER.sub(rb'containerName="c-\1"', line) for line in lines]


def _everywhere(pattern: re.Pattern[bytes], put: bytes) -> Change:
    """Addresses, or registries, have pseudonyms in all files."""

    def changed(bundle: Path, random: Random) -> None:
        for path in [path for path in bundle.rglob("*") if path.is_file()]:
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(pattern.sub(put, data))

    return changed


def _lists(keep: str, random: Random, item: Any) -> bool:  # noqa: ANN401 # JSON
    metadata = item.get("metadata") or {}
    if keep == "namespace":
        return bool(metadata.get("namespace") == "default")
    if keep == "spec":
        item.pop("status", None)
    if keep == "status":
        item["metadata"] = {k: v for k, v in metadata.items() if k in ("name", "namespace", "uid")}
        item.pop("spec", None)
    return True


def _listed(keep: str) -> Change:
    """Lists hold one namespace, or only the objects' specs, or only their statuses."""

    def changed(bundle: Path, random: Random) -> None:
        for path in sorted(bundle.rglob("pods.json")):
            whole = json.loads(path.read_bytes() or b"{}")
            whole["items"] = [i for i in whole.get("items") or () if _lists(keep, random, i)]
            path.unlink()
            path.write_text(json.dumps(whole))

    return changed


def _api_clock(bundle: Path, random: Random) -> None:
    """The API server's clock is another: when objects were made, by its time."""
    by = timedelta(seconds=random.choice((-40, -3, 2, 30)))

    def moved(name: str, value: Any) -> Any:  # noqa: ANN401 # JSON
        if isinstance(value, dict):
            return {key: moved(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [moved(name, each) for each in value]
        if name != "creationTimestamp" or not _CREATED.match(str(value)):
            return value
        at = time_of(f"I{value[5:7]}{value[8:10]} {value[11:19]}.000000 ".encode())
        return value if at is None else (at + by).strftime("%Y-%m-%dT%H:%M:%SZ")

    for path in sorted(bundle.rglob("pods.json")):
        whole = moved("", json.loads(path.read_bytes() or b"{}"))
        path.unlink()
        path.write_text(json.dumps(whole))


def pastes(quiet: Change) -> Iterator[tuple[str, Change]]:
    """Names of the ways, and what each does to a copy of a node's files.

    Args:
        quiet: what a lower verbosity leaves out.
    """
    yield "syslog", of_lines(_syslog)
    yield "other-hosts", of_lines(_other_hosts)
    yield "docker", of_lines(_docker)
    yield "journal-json", of_lines(_journal_json)
    yield "remote", of_lines(_remote)
    yield "export", of_lines(_export)
    yield "by-caller", of_lines(_by_caller)
    yield "half-copies", _half_copies
    yield "errors-and-pod", of_lines(_errors_and_pod)
    yield "wrapped", _wrapped(b"\n")
    yield "indented", _wrapped(b"\n    ")
    yield "blanks-within", _wrapped(b"\\ ")
    yield "omitted", of_lines(_omitted)
    yield "one-blank", of_lines(lambda lines, _: [_PID.sub(rb"\1 ", line) for line in lines])
    yield "numbered", of_lines(lambda lines, _: [b"%6d\t" % n + x for n, x in enumerate(lines)])
    yield "grep-n", of_lines(lambda lines, _: [b"%d:" % n + x for n, x in enumerate(lines)])
    yield "prefixed", of_lines(lambda lines, _: [b"[pod/kubelet/k] " + line for line in lines])
    yield (
        "html",
        of_lines(
            lambda lines, _: [html.escape(x.decode("utf-8", "replace")).encode() for x in lines]
        ),
    )
    yield (
        "byte-order-mark",
        of_lines(
            lambda lines, _: [
                b"\xef\xbb\xbf" + _each(lines[0]),
                *(b"\r\n" + _each(x) for x in lines[1:]),
            ]
        ),
    )
    yield "cut4096", of_lines(lambda lines, _: [_each(line)[:4096] + b"\n" for line in lines])
    yield "loud-restart", _quiet_at_first(quiet)
    yield "compressed", _compressed
    yield "slewed", of_lines(_slewed)
    yield "renamed-containers", of_lines(_renamed_containers)
    yield "other-registry", _everywhere(_REGISTRY, rb"registry.example/lab/")
    yield "other-addresses", _everywhere(_ADDRESS, rb"192.\1.\2.\3")
    yield "one-namespace", _listed("namespace")
    yield "specs-alone", _listed("spec")
    yield "statuses-alone", _listed("status")
    yield "api-clock", _api_clock
