"""A recorder beside a node of 110 pods: share of a core, memory, and how late its records are.

A recording's log is written again with the present as its time, at true speed and faster, while a
stand-in answers as its kubelet did, its pods repeated to 110, of which one changes now and then.
What the process takes is read from /proc.

Run: python -m tests.benchmarks.bench_record [NODE_DIRECTORY [SECONDS]]
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kubeledger.ingest.klog.stamps import stamp_ns
from kubeledger.ledger.ledger import Ledger
from tests.certificates import make_certificate
from tests.record.standin import Standin, answers_of, serve_kubelet
from tests.recordings import extract

PODS = 110
SPEEDS = (1, 10)
_TICKS = os.sysconf("SC_CLK_TCK")
_CHANGES_S = 5


class Line(NamedTuple):
    """A line of the log and when it came, in seconds after the first."""

    after_s: float
    text: bytes


def lines_of(log: Path) -> list[Line]:
    """The entries of a log, those in front of them left out."""
    lines: list[Line] = []
    first_ns, latest_ns = None, 0
    for text in log.read_bytes().splitlines(keepends=True):
        if text[:1] in b"IWEF" and text[5:6] == b" ":
            latest_ns = max(latest_ns, stamp_ns(text[1:21], 2026))
            first_ns = latest_ns if first_ns is None else first_ns
        if first_ns is not None:
            lines.append(Line((latest_ns - first_ns) / 1e9, text))
    return lines


def busiest(lines: list[Line], seconds: float) -> list[Line]:
    """The part of the log of so many seconds that has the most lines, from its start on."""
    begin = best = 0
    count = 0
    for end, line in enumerate(lines):
        while line.after_s - lines[begin].after_s > seconds:
            begin += 1
        if end - begin > count:
            count, best = end - begin, begin
    first_s = lines[best].after_s
    return [Line(line.after_s - first_s, line.text) for line in lines[best : best + count]]


def stamped(text: bytes, now: datetime) -> bytes:
    if text[:1] in b"IWEF" and text[5:6] == b" ":
        return text[:1] + now.strftime("%m%d %H:%M:%S.%f").encode() + text[21:]
    return text


def many_pods(data: bytes) -> dict[str, Any]:
    """A list of pods, repeated to as many as a node has at most."""
    pods: dict[str, Any] = json.loads(data)
    originals = pods["items"]
    pods["items"] = []
    for number in range(PODS):
        pod = copy.deepcopy(originals[number % len(originals)])
        pod["metadata"]["name"] += f"-{number}"
        pod["metadata"]["uid"] = f"{number:08x}-{pod['metadata']['uid'][9:]}"
        pods["items"].append(pod)
    return pods


class Usage(NamedTuple):
    """Of a process."""

    cpu_s: float
    rss_bytes: int
    peak_bytes: int


def usage_of(pid: int) -> Usage:
    """What a process has taken by now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    rss, peak = (int(status[key].split()[0]) << 10 for key in ("VmRSS", "VmHWM"))
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, rss, peak)


@contextmanager
def recorder(directory: Path, standin: Standin, ca: Path) -> Iterator[subprocess.Popen[bytes]]:
    arguments = [
        *("--ledger", directory / "ledger", "--node", "node-x", "--log", directory / "kubelet.log"),
        *("--kubelet", standin.url, "--ca", ca),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "kubeledger", "record", *map(str, arguments)], stderr=subprocess.PIPE
    )
    with process:
        assert process.stderr is not None
        process.stderr.readline()
        yield process
        process.terminate()


def late_s(ledger: Path) -> float | None:
    """How long ago it was what the newest record but those of the ledger itself is about."""
    opened = Ledger.open(ledger)
    newest_ns = max(
        (r.ts_ns for r in opened.records("node-x") if not r.kind.startswith("ledger.")),
        default=None,
    )
    return None if newest_ns is None else time.time() - newest_ns / 1e9


def main(root: Path, seconds: float) -> None:
    """Write the log at each speed."""
    lines = lines_of(root / "kubelet.log")
    snapshots = [path for path in (root / "snapshots").iterdir() if (path / "pods.json").exists()]
    answers = answers_of(sorted(snapshots)[len(snapshots) // 2])
    pods = many_pods(answers["/pods"])
    for speed in SPEEDS:
        with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as scratch:
            _run(Path(scratch), busiest(lines, seconds * speed), answers, pods, speed)


def _run(
    directory: Path, lines: list[Line], answers: dict[str, bytes], pods: dict[str, Any], speed: int
) -> None:
    certificate = make_certificate(directory)
    standin = Standin(answers | {"/pods": json.dumps(pods).encode()})
    with (
        serve_kubelet(standin, certificate),
        recorder(directory, standin, certificate.file) as process,
        (directory / "kubelet.log").open("ab", buffering=0) as log,
    ):
        begun_s, written, changes, lates = time.time(), 0, 0, list[float]()
        before = usage_of(process.pid)
        while written < len(lines):
            time.sleep(0.05)
            now_s = time.time()
            due = written
            while due < len(lines) and lines[due].after_s <= (now_s - begun_s) * speed:
                due += 1
            log.write(b"".join(stamped(line.text, _time(now_s)) for line in lines[written:due]))
            written = due
            if now_s - begun_s > changes * _CHANGES_S:
                changes += 1
                pods["items"][changes % PODS]["status"]["message"] = f"change {changes}"
                standin.answers["/pods"] = json.dumps(pods).encode()
                late = late_s(directory / "ledger") if changes > 1 else None
                lates += [late] if late is not None else []
        after, took_s = usage_of(process.pid), time.time() - begun_s
    print(
        f"{speed:>3} x  {len(lines) / took_s:8,.0f} lines/s  {PODS} pods"
        f"  {100 * (after.cpu_s - before.cpu_s) / took_s:6.2f} % of a core"
        f"  {after.rss_bytes / (1 << 20):6.1f} MiB (peak {after.peak_bytes / (1 << 20):.1f})"
        f"  newest record {sum(lates) / max(1, len(lates)):.1f} s old (worst {max(lates):.1f})"
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


if __name__ == "__main__":
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kubeledger-bench-") as unpacked:
        place = Path(given[0]) if given else extract("node-b", Path(unpacked))
        main(place, float(given[1]) if len(given) > 1 else 120)
