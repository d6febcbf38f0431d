"""The pytest plugin: golden recordings are collected as tests, one per group of decisions.

    pytest --kubeledger recordings/            collect and check *.ledger.jsonl below it
    pytest --kubeledger --kubeledger-update    put what is decided now into the files

Nothing of kubeledger but this module is imported before a recording is collected, or a
fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubeledger.testing.golden import Group
    from kubeledger.testing.scene import Scene
    from kubeledger.verify import Finding

_SUFFIXES = (".ledger.jsonl", ".ledger.jsonl.zst")
_OTHERS = "decisions that are missing"
_REWRITTEN = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin."""
    group = parser.getgroup("kubeledger", "golden recordings of kubelet decisions")
    group.addoption(
        "--kubeledger",
        nargs="?",
        const="",
        default=None,
        metavar="PATH",
        help="Collect *.ledger.jsonl files as tests (below PATH, if given).",
    )
    group.addoption(
        "--kubeledger-update",
        action="store_true",
        help="Rewrite recordings whose decisions come out otherwise now.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Look below PATH, too; and refuse what would have two processes write one file."""
    asked = config.getoption("--kubeledger")
    if config.getoption("--kubeledger-update"):
        if asked is None:
            raise pytest.UsageError("--kubeledger-update needs --kubeledger")
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError("--kubeledger-update writes files: run it without -n")
    if asked:
        if not Path(asked).exists():
            raise pytest.UsageError(f"--kubeledger: {asked} is not there")
        if config.args_source is pytest.Config.ArgsSource.ARGS:
            config.args.append(asked)
        else:
            config.args[:] = [asked]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say what was rewritten, once nothing captures the output any more."""
    return config.stash.get(_REWRITTEN, [])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a recording, if they are asked for."""
    if parent.config.getoption("--kubeledger") is None:
        return None
    if not file_path.name.endswith(_SUFFIXES):
        return None
    collected: pytest.Collector = RecordingFile.from_parent(parent, path=file_path)
    return collected


class GoldenDifferenceError(Exception):
    """Decisions that come out otherwise than recorded; the text is for people."""


class RecordingFile(pytest.File):
    """One recording."""

    _found: dict[Group, list[Finding]] | None = None

    def collect(self) -> Iterable[pytest.Item]:
        """One test a node and kind of decision, and one for decisions that are missing."""
        from kubeledger.model.errors import KubeledgerError
        from kubeledger.testing.golden import groups_of, rewrite, unproved

        try:
            if self.config.getoption("--kubeledger-update"):
                count = rewrite(self.path)
                if count is not None:
                    lines = self.config.stash.setdefault(_REWRITTEN, [])
                    lines.append(f"{self.path}: {count} decisions rewritten")
            groups, changed = groups_of(self.path), unproved(self.path)
        except KubeledgerError as error:
            # A test that fails, so that the other recordings are tested all the same.
            yield Unproved.from_parent(self, name="can be read", why=str(error))
            return
        if changed is not None:
            why = f"{changed}\nif the change is meant, --kubeledger-update seals it"
            yield Unproved.from_parent(self, name="is as it was written", why=why)
        for node, kind in groups:
            yield DecisionGroup.from_parent(self, name=f"{node}:{kind}", group=(node, kind))
        yield DecisionGroup.from_parent(self, name=_OTHERS, group=None)

    def findings(self, group: Group | None) -> list[Finding]:
        """Findings of a group; with None those of kinds that the file does not hold."""
        from kubeledger.testing.golden import groups_of, verify_file

        if self._found is None:
            self._found = verify_file(self.path)
        if group is not None:
            return self._found.get(group, [])
        held = set(groups_of(self.path))
        return [f for key, found in self._found.items() if key not in held for f in found]


class GoldenItem(pytest.Item):
    """A test of a recording: failures are shown without a traceback."""

    def repr_failure(  # type: ignore[override] # pytest passes no more than this to an item
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> str:
        """The difference, or the error, itself."""
        from kubeledger.model.errors import KubeledgerError

        if isinstance(excinfo.value, GoldenDifferenceError | KubeledgerError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands."""
        return self.path, None, f"{self.path.name}: {self.name}"


class Unproved(GoldenItem):
    """A recording whose lines do not prove themselves."""

    def __init__(self, *, why: str, **kwargs: Any) -> None:  # noqa: ANN401 # pytest's own
        super().__init__(**kwargs)
        self._why = why

    def runtest(self) -> None:
        """Fail."""
        raise GoldenDifferenceError(self._why)


class DecisionGroup(GoldenItem):
    """All decisions of one kind on one node."""

    def __init__(self, *, group: Group | None, **kwargs: Any) -> None:  # noqa: ANN401 # pytest's own
        super().__init__(**kwargs)
        self._group = group

    def runtest(self) -> None:
        """Fail with the first difference; skip what cannot be verified at all."""
        from kubeledger.testing.golden import differences, words_of

        assert isinstance(self.parent, RecordingFile)
        findings = self.parent.findings(self._group)
        if wrong := differences(findings):
            raise GoldenDifferenceError(words_of(wrong))
        if findings and all(finding.verdict == "unverifiable" for finding in findings):
            missing = dict.fromkeys(what for finding in findings for what in finding.missing)
            pytest.skip(f"cannot be verified without {' and '.join(missing)}")


@pytest.fixture
def kubeledger_scene() -> Callable[..., Scene]:
    """Begin a small history: see :class:`kubeledger.testing.scene.Scene` for the arguments."""
    from kubeledger.testing.scene import Scene

    return Scene
