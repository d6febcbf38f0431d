"""Rotated logs of which one begins with the end of the other."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.ingest.api import NodeReport, import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from tests.ingest.pieces import klog

OPTIONS = ImportOptions(node="n", kubelet_version="1.36.2", year=2026)
CUTS = ((60, 40), (61, 33), (90, 1), (50, 49))
"""Where the older log ends and the newer one begins."""


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
    return [b"Nov 21 02:52:41 n kubelet[8337]: " + line for line in lines]


def imported(tmp_path: Path, **files: list[bytes]) -> tuple[list[Any], NodeReport]:
    """Time, kind and body of the records of files, but for those about sources; the report."""
    source = tmp_path / "source"
    source.mkdir(parents=True)
    for name, content in files.items():
        (source / name).write_bytes(b"".join(content))
    ledger = Ledger.create(tmp_path / "ledger")
    report = import_sources([str(source)], ledger, OPTIONS).bundles[0]
    records = [
        (record.ts_ns, record.kind, msgspec.to_builtins(record.body))
        for record in ledger.records()
        if not record.kind.startswith("ledger.")
    ]
    for account in report.accounts:
        parts = account.understood + account.noise + account.not_understood
        assert parts == account.lines
    return records, report


LINES = whole()
LAST = LINES[59].replace(b"no", b"yes")


@pytest.mark.parametrize(
    ("old", "new", "all_lines", "overlaps"),
    [
        *((LINES[:end], LINES[begin:], LINES, True) for end, begin in CUTS),
        *((LINES[:end], journal(LINES[begin:]), LINES, True) for end, begin in CUTS),
        # The copy was made while a line was written.
        ([*LINES[:59], LINES[59][:-20]], LINES[40:], LINES, True),
        # A log that lacks lines of the other is not taken for its end: the two are woven.
        (LINES[:60], [*LINES[40:50], *LINES[53:]], LINES, True),
        # The next line may have the stamp of the last one.
        (LINES[:60], [LAST, *LINES[60:]], [*LINES[:60], LAST, *LINES[60:]], False),
    ],
)
def test_two_logs_say_what_one_says(
    old: list[bytes], new: list[bytes], all_lines: list[bytes], overlaps: bool, tmp_path: Path
) -> None:
    """What both hold counts once, wherever they are cut, and whatever carried one of them here."""
    records, report = imported(tmp_path / "two", **{"kubelet.log.1": old, "kubelet.log": new})
    expected, _ = imported(tmp_path / "one", **{"kubelet.log": all_lines})
    assert records == expected
    assert [found.finding for found in report.findings] == ["overlap"] * overlaps
    repeated = sum(account.repeated for account in report.accounts)
    assert repeated > 0 if overlaps else repeated == 0


@pytest.mark.parametrize("files", [3, 5])
def test_lines_dealt_to_several_files(files: int, tmp_path: Path) -> None:
    """A stream was split entry by entry: each file has all of its time, and no line twice."""
    begins = [*(i for i, line in enumerate(whole()) if line[:1] == b"I"), len(whole())]
    entries = [b"".join(whole()[i:j]) for i, j in pairwise(begins)]
    dealt = {f"{i}.log": entries[i::files] for i in range(files)}
    alone, report = imported(tmp_path / "alone", **{"kubelet.log": whole()})
    both, _ = imported(tmp_path / "both", **dealt)
    assert report.accounts[0].understood
    assert [record for record in both if record not in alone] == []
    assert [record for record in alone if record not in both] == []
    # Of another process they are another log.
    other = [entry.replace(b" 8337 ", b" 8338 ") for entry in entries[1::2]]
    apart, _ = imported(tmp_path / "apart", **{"0.log": entries[::2], "1.log": other})
    assert apart != alone
