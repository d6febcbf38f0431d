"""Inputs to begin with: pieces of the recordings and of the tests' data, each small."""

import io
import json
import re
import tarfile
from functools import cache
from pathlib import Path

import zstandard

from tests.recordings import RECORDINGS

DATA = Path(__file__).parents[1] / "data"

_SHAPE = re.compile(rb"^[IWEF]\d{4} \S+ +\d+ ([^\s:\]]+):\d+\] (\"?[A-Za-z ]{0,24})")
_STRUCTURED = re.compile(rb'^([IWEF])(\d\d)(\d\d) (\S+) +\d+ (\S+)\] "((?:[^"\\]|\\.)*)"(.*)$')
_VALUE = re.compile(rb' ([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)')
_DAY_S = 86400
_WINDOWS_OF_A_SHAPE = 2
_DOCUMENT_MAX = 12_000


def _unpacked(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


@cache
def members() -> dict[str, bytes]:
    """Files of both recorded nodes, by their path."""
    found = {}
    for name in ("node-a", "node-b"):
        data = _unpacked(RECORDINGS / f"{name}.tar.zst")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is not None:
                    found[member.name] = stream.read()
    return found


@cache
def log_windows(size: int = 5) -> tuple[bytes, ...]:
    """A few lines around the first occurrences of every message of both kubelets."""
    windows: list[bytes] = []
    for name, data in sorted(members().items()):
        if not name.endswith("kubelet.log"):
            continue
        seen: dict[bytes, int] = {}
        lines = data.split(b"\n")
        for index, line in enumerate(lines):
            match = _SHAPE.match(line)
            if match is None:
                continue
            count = seen[match[0][30:]] = seen.get(match[0][30:], 0) + 1
            if count <= _WINDOWS_OF_A_SHAPE:
                window = b"\n".join(lines[max(0, index - 1) : index + size - 1])
                windows.append(window[:8000] + b"\n")
    return tuple(windows)


def to_json_log(text: bytes) -> bytes:
    """Structured lines as klog's JSON format writes them; other lines stay."""
    out = []
    for line in text.split(b"\n"):
        match = _STRUCTURED.match(line)
        if match is None:
            out.append(line)
            continue
        hours, minutes, seconds = match[4].split(b":")
        ts = _DAY_S * 300 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        entry: dict[str, object] = {
            "ts": 1_767_225_600_000 + round(ts * 1000, 3),
            "caller": match[5].decode(),
            "msg": match[6].decode(),
        }
        if match[1] == b"I":
            entry["v"] = 2
        for key, value in _VALUE.findall(match[7]):
            entry[key.decode()] = value.decode("utf-8", "replace").strip('"')
        out.append(json.dumps(entry, separators=(",", ":")).encode())
    return b"\n".join(out)


def in_journal(text: bytes) -> bytes:
    """Lines as journald shows them."""
    lines = text.rstrip(b"\n").split(b"\n")
    return b"".join(b"Nov 21 03:01:00 node-x kubelet[8337]: %b\n" % line for line in lines)


def in_docker(text: bytes) -> bytes:
    """Lines as container runtimes keep them: one of CRI's files, one of docker's."""
    out = []
    for number, line in enumerate(text.rstrip(b"\n").split(b"\n")):
        if number % 2:
            entry = {"log": line.decode("utf-8", "replace") + "\n", "stream": "stderr"}
            out.append(json.dumps({**entry, "time": "2026-11-21T03:00:00.5Z"}).encode())
        else:
            out.append(b"2026-11-21T03:00:00.000000000Z stderr %b %b" % (b"FP"[:1], line))
    return b"\n".join(out) + b"\n"


@cache
def documents(pattern: str) -> tuple[bytes, ...]:
    """Files of the recordings whose path matches, different ones, cut down to a few objects."""
    found = {
        _small(data): None
        for name, data in sorted(members().items())
        if re.search(pattern, name) and data
    }
    return tuple(found)[:12]


def _small(data: bytes) -> bytes:
    if len(data) <= _DOCUMENT_MAX:
        return data
    try:
        value = json.loads(data)
    except ValueError:
        lines = data.splitlines(keepends=True)
        step = max(1, len(lines) // 60)
        return b"".join(lines[::step])[:_DOCUMENT_MAX].rpartition(b"\n")[0] + b"\n"
    for key in ("items", "pods"):
        if isinstance(value.get(key), list):
            value[key] = value[key][:3]
    return json.dumps(value).encode()


@cache
def cases(subsystem: str) -> tuple[bytes, ...]:
    """Some cases of a subsystem with the outcomes that real kubelets' code gave, small ones."""
    found: list[bytes] = []
    for path in sorted(DATA.glob(f"conformance/*/{subsystem}.jsonl.zst")):
        lines = [line for line in _unpacked(path).split(b"\n") if line]
        found += sorted(lines, key=len)[: len(lines) // 2][::5]
    return tuple(found)


@cache
def recordings() -> tuple[bytes, ...]:
    files = sorted((RECORDINGS / "golden").glob("*.ledger.jsonl"))
    return tuple(data for file in files if len(data := file.read_bytes()) < _DOCUMENT_MAX)
