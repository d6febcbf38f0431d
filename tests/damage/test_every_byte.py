"""Each byte of a small ledger, its copy and a small lake is turned, and each file removed.

Then whoever looks for damage finds it, and every command answers as before, or refuses. All of it
is a long run; each day a change of every file is tried.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.kept import KEPT
from kubeledger.ledger.ledger import Ledger
from kubeledger.remote.restore import find_copies, restore
from kubeledger.remote.shipping import Shipper
from kubeledger.remote.store import Store
from tests.damage.stored import (
    NODE,
    Change,
    Stored,
    changes,
    copy_answers,
    grown_answers,
    import_next,
    is_lake_told,
    is_ledger_told,
    keep_of_few,
    lake_answers,
    ledger_answers,
    write_grown,
    write_lake,
    write_ledger,
)

pytestmark = pytest.mark.slow

WITHOUT = (".snapshot", "shipped.json", ".open", "index/", "compact/")
"""Files that nothing names: caches, notes, and what is known of nowhere else. Without them each
command answers as before, but that what was only captured is not imported."""

_EVERY = {"ledger": 8, "grown": 8, "copy": 1, "lake": 64}
"""Of so many changes that are told one is tried on the commands, too."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Stored]]:
    place = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        keep_of_few(patch)
        ledger = write_ledger(place)
        lake = Path(write_lake(place, ledger))
        yield {
            "ledger": Stored(ledger, ledger_answers, is_ledger_told),
            "grown": Stored(write_grown(place), grown_answers, is_ledger_told),
            "copy": Stored(place / "copy", copy_answers, lambda _: False),
            "lake": Stored(lake, lake_answers, is_lake_told),
        }


def check(stored: Stored, chosen: list[Change], every: int) -> None:
    for change in stored.untold(chosen, every):
        path = change.path.relative_to(stored.root).as_posix()
        if change.at is None:
            harmless = any(part in path for part in WITHOUT)
        else:  # few flips of what is compressed change no content
            harmless = ("/kept/" in path or "/base/" in path) and path.endswith(".zst")
        assert harmless or stored.answers is copy_answers, str(change)


@pytest.mark.parametrize("name", list(_EVERY))
def test_a_change_of_every_file(stored: dict[str, Stored], name: str) -> None:
    """One that is drawn for it; of a lake, whose files come in pairs, of every other one."""
    random = Random(7)
    by_file: dict[Path, list[Change]] = {}
    for change in changes(stored[name].root):
        by_file.setdefault(change.path, []).append(change)
    drawn = [random.choice(each) for each in by_file.values()]
    check(stored[name], drawn[::2] if name == "lake" else drawn, 1)


@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1, 2]])
def test_a_list_of_kept_sources_is_gone(tmp_path: Path, gone: list[int]) -> None:
    """Audit and the next import say so, until the same files were imported again."""
    ledger = Ledger.create(tmp_path / "ledger")
    places = [tmp_path / f"{number}" for number in range(4)]
    for number, place in enumerate(places[:3]):
        assert import_next(ledger, place, 60 * number) == []
    runs = ledger.info(NODE).runs
    kept = next(ledger.path.rglob(KEPT))
    for number in gone:
        (kept / f"{runs[number].digest}.json").unlink()
    is_told = [each.problem for each in audit(ledger).findings if "is not there" in each.problem]
    assert len(is_told) == len(gone)
    other = Ledger.open(Path(shutil.copytree(ledger.path, tmp_path / "other")))
    assert import_next(other, places[3], 180) == ["kept_sources_damaged"]
    for number, place in enumerate(places[:3]):
        import_next(ledger, place, 60 * number)
    assert not audit(ledger).findings
    assert import_next(ledger, places[3], 180) == []


def test_all_that_was_kept_is_gone(tmp_path: Path) -> None:
    """Audit and imports say so; a restored copy, which never had any of it, is sound."""
    ledger = Ledger.create(tmp_path / "ledger")
    for number in range(2):
        assert import_next(ledger, tmp_path / f"{number}", 60 * number) == []
    list(Shipper(ledger, Store(str(tmp_path / "copy"), make=True)).ship())
    store = Store(str(tmp_path / "copy"))
    restore(store, find_copies(store), tmp_path / "restored")
    restored = Ledger.open(tmp_path / "restored")
    shutil.rmtree(next(ledger.path.rglob(KEPT)))
    for copy, lists, said in (ledger, 2, "damaged"), (restored, 0, "too_much"):
        for number in (2, 3):
            assert len(audit(copy).findings) == lists
            next_said = import_next(copy, tmp_path / f"{number}", 60 * number)
            assert next_said == [f"kept_sources_{said}"]
        for number in range(2):
            import_next(copy, tmp_path / f"{number}", 60 * number)
        assert not audit(copy).findings
        assert import_next(copy, tmp_path / "4", 240) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", list(_EVERY))
def test_every_change(stored: dict[str, Stored], name: str) -> None:
    check(stored[name], changes(stored[name].root), _EVERY[name])
