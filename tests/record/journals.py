"""Real journal files, made of export text by systemd's own program."""

import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.tools import tool

_BEGIN_US = 1_795_229_521_000_000
"""2026-11-21T02:52:01Z"""

Entry = Mapping[str, str | bytes]


def entry(index: int, message: str | bytes, **fields: str) -> Entry:
    return {
        "__REALTIME_TIMESTAMP": str(_BEGIN_US + index * 1_000_000),
        "__MONOTONIC_TIMESTAMP": str(5_000_000 + index * 1_000_000),
        "_BOOT_ID": "00000000000000000000000000000001",
        "_MACHINE_ID": "00000000000000000000000000000002",
        "_HOSTNAME": "node-a",
        "_SYSTEMD_UNIT": "kubelet.service",
        "SYSLOG_IDENTIFIER": "kubelet",
        "_PID": "8337",
        "MESSAGE": message,
        **fields,
    }


def write_journal(file: Path, entries: Iterable[Entry]) -> None:
    """Append entries to a journal file; without the program the test is skipped."""
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [tool("systemd-journal-remote"), "-o", file, "-"],
        input=b"".join(map(_exported, entries)),
        capture_output=True,
        check=True,
    )


def _exported(entry: Entry) -> bytes:
    """Its export form: text as it is, anything else with its length."""
    lines = []
    for name, value in entry.items():
        data = value.encode() if isinstance(value, str) else value
        if isinstance(value, str) and "\n" not in value:
            lines.append(b"%b=%b\n" % (name.encode(), data))
        else:
            lines.append(b"%b\n%b%b\n" % (name.encode(), struct.pack("<Q", len(data)), data))
    return b"".join(lines) + b"\n"
