"""Two excerpts of one node's log in one ledger: in any order they show what the log shows once."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Record
from tests.recordings import extract
from tests.verify.properties.measure import judged

Lines = list[bytes]
Excerpt = Callable[[Lines], Lines]


def _between(begin: float, end: float) -> Excerpt:
    return lambda lines: lines[int(begin * len(lines)) : int(end * len(lines))]


def _some(kept: int, begin: float = 0, end: float = 1) -> Excerpt:
    def chosen(lines: Lines) -> Lines:
        part = _between(begin, end)(lines)
        return [line for n, line in enumerate(part) if n % 3 != kept]

    return chosen


_PAIRS: dict[str, tuple[Excerpt, Excerpt]] = {
    "overlapping": (_between(0, 0.6), _between(0.3, 1)),
    "adjacent": (_between(0, 0.5), _between(0.5, 1)),
    "distant": (_between(0, 0.4), _between(0.7, 1)),
    "one inside the other": (_between(0, 1), _between(0.4, 0.6)),
    "each with lines of its own": (_some(1), _some(2)),
    "some lines, then all": (_some(1), _between(0.2, 0.7)),
    "both in the middle": (_between(0.2, 0.5), _some(0, 0.4, 0.9)),
}
_WHOLE = frozenset(_PAIRS) - {"distant", "both in the middle", "some lines, then all"}
_SIZE = 1250


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded node: the first lines of its log, and what was beside it."""
    bundle = extract("node-e-oom", tmp_path_factory.mktemp("recording"))
    path = bundle / "kubelet.log"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:_SIZE]))
    (bundle / "kernel.log").unlink()
    return path


def _bundles(log: Path, directory: Path, excerpts: tuple[Excerpt, ...]) -> list[Path]:
    lines = log.read_bytes().splitlines(keepends=True)
    bundles = []
    for number, excerpt in enumerate(excerpts):
        bundle = directory / f"{number}" / log.parent.name
        shutil.copytree(log.parent, bundle)
        (bundle / log.name).write_bytes(b"".join(excerpt(lines)))
        bundles.append(bundle)
    return bundles


def _records(ledger: Ledger) -> list[Record]:
    with open_histories([str(ledger.path)]) as histories:
        (history,) = histories
        return list(history.read(None))


def _said(records: list[Record]) -> Counter[str]:
    return Counter(
        f"{record.ts_ns} {record.body}"
        for record in records
        if not record.body.kind.startswith("ledger.")
    )


@pytest.mark.parametrize("name", _PAIRS)
def test_two_excerpts_in_any_order(name: str, log: Path, tmp_path: Path) -> None:
    """Nothing is impossible, and each record is there once, whichever came first."""
    bundles = _bundles(log, tmp_path, _PAIRS[name])
    said = []
    for order in (bundles, bundles[::-1]):
        ledger = Ledger.create(tmp_path / f"ledger-{order[0].parent.name}")
        for bundle in order:
            import_sources([str(bundle)], ledger)
        records = _records(ledger)
        assert [outcome.why for outcome in judged(records).wrong] == []
        starts = [record.body for record in records if isinstance(record.body, KubeletStarted)]
        assert [start.pid for start in starts] == [24910]
        said.append(_said(records))
    assert said[0] == said[1]
    if name in _WHOLE:
        whole = Ledger.create(tmp_path / "whole")
        import_sources([str(log.parent)], whole)
        assert said[0] == _said(_records(whole))


def test_sources_of_one_import(log: Path, tmp_path: Path) -> None:
    """Two directories given at once are read like one after the other; also for a while only."""
    bundles = _bundles(log, tmp_path, _PAIRS["some lines, then all"])
    with open_histories([str(bundle) for bundle in bundles]) as histories:
        (history,) = histories
        records = list(history.read(None))
    assert sum(isinstance(record.body, KubeletStarted) for record in records) == 1
    assert max(_said(records).values()) == 1
