"""Each collection of the field imports to what the plain files import to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.ingest.api import ImportReport, import_sources
from kubeledger.ledger.ledger import Ledger
from tests.ingest.layouts import LAYOUTS, Written, slices, write


def imported(path: Path, directory: Path) -> tuple[Ledger, ImportReport]:
    """An import into a new ledger."""
    ledger = Ledger.open_or_create(directory)
    return ledger, import_sources([str(path)], ledger)


def told(ledger: Ledger, node: str) -> list[tuple[int, str, str]]:
    """What happened on a node, whatever files tell it."""
    return sorted(
        (record.ts_ns, record.body.kind, repr(record.body))
        for record in ledger.records(node)
        if not record.body.kind.startswith("ledger.")
    )


def plainly(written: Written, node: str, root: Path) -> list[tuple[int, str, str]]:
    """The same of a node's plain files."""
    if node in written.logs:
        write(root / node / "kubelet.log", written.logs[node])
    for name, content in written.documents.get(node, {}).items():
        write(root / node / name, content)
    return told(imported(root / node, root / f"{node}.ledger")[0], node)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_tells_what_the_plain_files_tell(tmp_path: Path, name: str) -> None:
    """The same records, each node's its own."""
    layout = LAYOUTS[name]
    written = layout.write(tmp_path / "bundle", [slices()[node] for node in layout.nodes])
    ledger, report = imported(tmp_path / "bundle", tmp_path / "ledger")
    assert ledger.nodes() == sorted(layout.nodes)
    for node in layout.nodes:
        assert told(ledger, node) == plainly(written, node, tmp_path / "plain")
    for bundle in report.bundles:
        for account in bundle.accounts:
            whole = account.understood + account.noise + account.not_understood
            assert account.lines == whole
