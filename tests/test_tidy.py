"""The shape of the code base: who may import whom, what pure code may not call, sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kubeledger"
MODULES = sorted(PACKAGE.rglob("*.py"))

ROWS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "machine", "units"}),
    frozenset({"kube", "profile"}),
    frozenset({"topologymanager"}),
    frozenset(
        {
            "cgroups",
            "oom",
            "devicemanager",
            "eviction",
            "images",
            "kuberuntime",
            "lifecycle",
            "preemption",
            "prober",
            "cpumanager",
            "memorymanager",
        }
    ),
    frozenset({"node"}),
    frozenset({"cases"}),
    frozenset({"simulate", "verify"}),
    frozenset({"wire"}),
    frozenset({"clock", "ledger"}),
    frozenset({"history", "replay"}),
    frozenset({"query"}),
    frozenset({"completeness", "diff", "explain", "headlines", "importers"}),
    frozenset({"whatif"}),
    frozenset({"audit", "scenario", "timeline"}),
    frozenset({"api", "fleet"}),
    frozenset({"testing"}),
    frozenset({"cli"}),
)
"""A module imports only from rows above its own, and from its own package."""

PURE = frozenset().union(*ROWS[:8])
"""Packages in which the same input must give the same output on every machine."""

IMPURE_MODULES = frozenset(
    {"getpass", "os", "pathlib", "random", "secrets", "socket", "subprocess",
     "tempfile", "threading", "time", "uuid"}
)  # fmt: skip
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval"})
PURE_EXCEPTIONS = frozenset({"testing/schemas.py"})
"""Modules of pure packages with an entry point that writes files; nothing imports them."""

LINES_MAX = 400
FUNCTION_LINES_MAX = 70


def row_of(package: str) -> int | None:
    """Index of the row that holds ``package``."""
    return next((i for i, row in enumerate(ROWS) if package in row), None)


def package_of(module: Path) -> str:
    """First path element below the package, without ``.py``."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all imports, wherever they stand; none is relative."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "a relative import"
            assert not node.level, "a relative import"
            if node.module == PACKAGE.name:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_rows_cover_the_package() -> None:
    """Every package and top module has a row, so none escapes the rule."""
    known = frozenset().union(*ROWS) | {"__init__", "__main__", "_recordings"}
    assert {package_of(module) for module in MODULES} <= known


def test_the_architecture_page_has_these_rows() -> None:
    """In the same order."""
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in told] == list(range(1, len(ROWS) + 1))
    assert tuple(frozenset(re.findall(r"`(\w+)`", row)) for _, row in told) == ROWS


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_imports_point_upwards(module: Path) -> None:
    """A module imports only from rows above its own (the ledger's own bodies excepted)."""
    package = package_of(module)
    own_row = row_of(package)
    if own_row is None:
        return
    for name in imported(ast.parse(module.read_text(encoding="utf-8"))):
        if not name.startswith("kubeledger."):
            continue
        other = name.split(".")[1]
        if other in {package, "__version__", "open"} or name == "kubeledger.model.bodies.ledger":
            continue
        other_row = row_of(other)
        assert other_row is not None, f"{name} has no row"
        assert other_row < own_row, f"{module.name} imports {name} from a row not above its own"


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES if package_of(m) in PURE],
    ids=lambda m: str(m.relative_to(PACKAGE)),
)
def test_pure_code_has_no_way_out(module: Path) -> None:
    """No clock, randomness or I/O in the core."""
    if str(module.relative_to(PACKAGE)) in PURE_EXCEPTIONS:
        return
    tree = ast.parse(module.read_text(encoding="utf-8"))
    roots = {name.split(".")[0] for name in imported(tree)}
    assert not roots & IMPURE_MODULES
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in IMPURE_CALLS, f"line {node.lineno}: {node.func.id}()"
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"now", "utcnow", "today"}, f"line {node.lineno}: a clock"


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_sizes(module: Path) -> None:
    """Modules and functions stay small enough to read at a glance."""
    text = module.read_text(encoding="utf-8")
    assert text.count("\n") <= LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_no_leftovers(module: Path) -> None:
    """No marks of unfinished work."""
    text = module.read_text(encoding="utf-8")
    for mark in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert mark not in text
