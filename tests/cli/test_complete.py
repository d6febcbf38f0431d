"""Completion: what the shell offers after Tab, from snapshots alone."""

import shutil
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from kubeledger.cli.complete import _PARTS
from kubeledger.cli.main import cli
from kubeledger.ledger.ledger import Ledger
from kubeledger.replay import refresh_snapshots
from kubeledger.replay.node.state import PARTS
from tests.cli.nodes import run


@pytest.fixture(scope="module")
def ledger(query_ledger: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("complete") / "l"
    shutil.copytree(query_ledger, path)
    refresh_snapshots(Ledger.open(path), "node-a")
    return path


def offered(words: str, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("KUBELEDGER", str(ledger))
    *before, incomplete = words.split(" ")
    complete = ShellComplete(cli, {}, "kubeledger", "_KUBELEDGER_COMPLETE")
    return [item.value for item in complete.get_completions(before, incomplete)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("sta", ["state"]),
        ("ls --node ", ["node-a"]),
        ("ls --pod ", ["big", "brief", "serve", "slow", "train", "web"]),
        ("ls --pod default/w", ["default/web"]),
        ("ls --pod web --container ", ["app"]),
        ("ls --kind Image", ["ImageDeleted", "ImageFsObserved", "ImagesDetected"]),
        ("why pod/default/t", ["pod/default/train"]),
        ("why container/default/w", ["container/default/web/app"]),
        ("why no", ["node"]),
        ("get p", ["pods", "probes"]),
        ("probe default/w", ["default/web"]),
        ("probe default/web/", ["default/web/app"]),
        ("get pods w", ["web"]),
        ("sql --run device_h", ["device_history"]),
        ("state --only pods,p", ["pods,preemptions", "pods,probes", "pods,pulls"]),
        ("ls -o w", ["wide"]),
        ("collect n", ["node-a"]),
        ("collect node-a --via k", ["kubectl-debug"]),
    ],
)
def test_names_of_the_ledger(
    words: str, expected: list[str], ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(words, ledger, monkeypatch) == expected


@pytest.mark.parametrize("words", ["ls --pod w", "ls --node ", "why pod/", "get pods w"])
def test_nothing_is_offered_where_something_is_wrong(
    words: str, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [name for name in offered(words, tmp_path, monkeypatch) if name[-1] != "/"]
    shutil.copytree(ledger, tmp_path / "l")
    for snapshot in (tmp_path / "l").rglob("*.snapshot"):
        snapshot.write_bytes(snapshot.read_bytes()[:-20])
    assert "web" not in "".join(offered(words, tmp_path / "l", monkeypatch))


def test_commands_are_offered_without_importing_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are the parts of the state, of which the names stand here again."""
    assert set(PARTS) == set(_PARTS)
    monkeypatch.delitem(sys.modules, "kubeledger.cli.audit", raising=False)
    assert "audit" in offered("", Path("/nowhere"), monkeypatch)
    assert "kubeledger.cli.audit" not in sys.modules


def test_the_help_says_how_to_switch_it_on() -> None:
    text = run("--help").stdout
    for shell in ("bash", "zsh", "fish"):
        assert f"_KUBELEDGER_COMPLETE={shell}_source kubeledger" in text
