"""A file that ends anywhere is read up to there, or refused in a sentence."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import KubeledgerError
from tests.ingest.feeding import DATA

_ROOMS = ("devices", "images", "kernel", "kubelet", "managers", "settings", "topology")
_FILES = sorted(
    path.relative_to(DATA).as_posix()
    for room in _ROOMS
    for path in (DATA / room).iterdir()
    if path.suffix != ".md"
)
_CUTS = 5


def imports(path: Path, ledger: Path) -> None:
    """An import, or the error that a user is shown; nothing else is raised."""
    with suppress(KubeledgerError):
        import_sources([str(path)], Ledger.open_or_create(ledger))


@pytest.mark.parametrize("name", _FILES)
def test_any_beginning_of_a_file(tmp_path: Path, name: str) -> None:
    """Cut in the middle of lines, at places that differ from file to file."""
    content = (DATA / name).read_bytes()
    for number in range(_CUTS):
        path = tmp_path / f"{number}-{name.rpartition('/')[2]}"
        path.write_bytes(content[: (number * len(content) + 7 * len(name)) // _CUTS])
        imports(path, tmp_path / f"{number}.ledger")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", [str(p.relative_to(DATA)) for p in sorted(DATA.rglob("*")) if p.is_file()]
)
def test_a_file_that_ends_anywhere(tmp_path: Path, name: str) -> None:
    """At fifty places, other ones for each file; what is imported is explained."""
    content, places = (DATA / name).read_bytes(), Random(name)
    for number in range(50):
        path = tmp_path / f"{number}-{name.rpartition('/')[2]}"
        path.write_bytes(content[: places.randrange(len(content))])
        for words in (["import", str(path)], ["why", "node"]):
            answer = CliRunner().invoke(cli, [*words, "--ledger", f"{tmp_path}/{number}.ledger"])
            assert answer.exit_code in (0, 2, 3, 4), answer.output


@pytest.mark.parametrize("name", [name for name in _FILES if name.startswith("kernel/")])
def test_a_report_that_ends_after_any_line(tmp_path: Path, name: str) -> None:
    """The ring buffer was copied while the kernel wrote."""
    lines = (DATA / name).read_bytes().splitlines(keepends=True)
    for number in range(1, min(len(lines), 60)):
        path = tmp_path / f"kern-{number}.log"
        path.write_bytes(b"".join(lines[:number]))
        imports(path, tmp_path / f"{number}.ledger")
