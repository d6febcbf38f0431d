"""Rotated logs of which one begins with the end of the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.ingest.api import NodeReport, import_sources
from kubeledger.ingest.planning.options import ImportOptions
from kubeledger.ledger.ledger import Ledger
from tests.ingest.pieces import klog

OPTIONS = ImportOptions(node="n", kubelet_version="1.36.2", year=2026)


def whole() -> list[bytes]:
    """A log with facts, noise, a value over lines and a line of nobody."""
    lines = []
    for second in range(40):
        time = f"02:52:{second:02}.549548"
        output = "<\n\tcat: no such file\n >" if second % 5 == 0 else '"no"'
        for text in (
            klog("labels.go", '"Label not found" label="x"', time=time),
            klog(
                "prober.go",
                '"Probe failed" probeType="Liveness" pod="ns/a" podUID="u" containerName="c"'
                f' probeResult="failure" output={output}',
                time=time.replace(".5", ".6"),
            ),
        ):
            lines += text.encode().splitlines(keepends=True)
    return lines


def journal(lines: list[bytes]) -> list[bytes]:
    """The same as journald prints it."""
    return [b"Nov 21 02:52:41 n kubelet[8337]: " + line for line in lines]


def same(lines: list[bytes]) -> list[bytes]:
    """As it is."""
    return lines


def imported(tmp_path: Path, **files: bytes) -> tuple[list[Any], NodeReport]:
    """Bodies of what files tell, and the report."""
    source = tmp_path / "source"
    source.mkdir(parents=True)
    for name, content in files.items():
        (source / name).write_bytes(content)
    ledger = Ledger.create(tmp_path / "ledger")
    report = import_sources([str(source)], ledger, OPTIONS).bundles[0]
    constants = [
        (record.ts_ns, record.kind, msgspec.to_builtins(record.body))
        for record in ledger.records()
        if not record.kind.startswith("ledger.")
    ]
    for account in report.accounts:
        parts = account.understood + account.noise + account.not_understood
        assert parts == account.lines
    return constants, report


@pytest.mark.parametrize("carried", [same, journal])
@pytest.mark.parametrize(("first_end", "second_begin"), [(60, 40), (61, 33), (90, 1), (50, 49)])
def test_what_two_logs_hold_counts_once(
    first_end: int,
    second_begin: int,
    carried: Callable[[list[bytes]], list[bytes]],
    tmp_path: Path,
) -> None:
    """Wherever they are cut, and whatever carried one of them here."""
    lines = whole()
    old, new = lines[:first_end], carried(lines[second_begin:])
    constants, report = imported(
        tmp_path / "two", **{"kubelet.log.1": b"".join(old), "kubelet.log": b"".join(new)}
    )
    expected, _ = imported(tmp_path / "one", **{"kubelet.log": b"".join(lines)})
    assert constants == expected
    assert sum(account.repeated for account in report.accounts) > 0
    assert [f.finding for f in report.findings if f.file == "kubelet.log.1"] == ["overlap"]
    lost = [f.message for f in report.findings if f.finding == "clock_stepped_back"]
    assert lost == []


def test_a_half_written_last_line_is_whole_in_the_next_log(tmp_path: Path) -> None:
    """The copy was made while a line was written."""
    lines = whole()
    old, new = b"".join(lines[:60])[:-20], b"".join(lines[40:])
    constants, report = imported(tmp_path / "two", **{"kubelet.log.1": old, "kubelet.log": new})
    expected, _ = imported(tmp_path / "one", **{"kubelet.log": b"".join(lines)})
    assert constants == expected
    assert [f.finding for f in report.findings] == ["overlap"]


def test_logs_that_only_touch_are_both_read_whole(tmp_path: Path) -> None:
    """The next line may have the stamp of the last one."""
    lines = whole()
    last = lines[59].replace(b"no", b"yes")
    logs = {"kubelet.log.1": b"".join(lines[:60]), "kubelet.log": b"".join([last, *lines[60:]])}
    constants, report = imported(tmp_path / "two", **logs)
    expected, _ = imported(
        tmp_path / "one", **{"kubelet.log": b"".join([*lines[:60], last, *lines[60:]])}
    )
    assert constants == expected
    assert sum(account.repeated for account in report.accounts) == 0


def test_logs_of_one_time_with_other_lines_are_both_read(tmp_path: Path) -> None:
    """A log that lacks lines of the other is not taken for its end: the two are woven."""
    lines = whole()
    logs = {
        "kubelet.log.1": b"".join(lines[:60]),
        "kubelet.log": b"".join([*lines[40:50], *lines[53:]]),
    }
    constants, report = imported(tmp_path / "two", **logs)
    expected, _ = imported(tmp_path / "one", **{"kubelet.log": b"".join(lines)})
    assert constants == expected
    assert [f.finding for f in report.findings] == ["overlap"]
