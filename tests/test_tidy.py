"""The shape of the code base: who may import whom, what pure code may not call, sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "kubeledger"
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = {
    ".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts): module
    for module in MODULES
    if module.name != "__init__.py"
}

Rows = tuple[frozenset[str], ...]


def _rows(*rows: str) -> Rows:
    return tuple(frozenset(row.split()) for row in rows)


LAYOUT: dict[str, Rows] = {
    "model": _rows("errors record units", "bodies", "wire"),
    "kubelet": _rows(
        "kube profile",
        "topologymanager",
        "cgroups cpumanager devicemanager eviction images kuberuntime lifecycle memorymanager "
        "oom preemption prober",
        "cases",
    ),
    "ledger": _rows("", "history"),
    "remote": _rows(""),
    "replay": _rows("node episodes", ""),
    "verify": _rows(""),
    "ingest": _rows("sources", "klog", "messages", "correlate", "derive", "planning", ""),
    "analyze": _rows(
        "clock histories logged_errors",
        "sql",
        "phrases",
        "problems",
        "completeness diff headlines why",
        "whatif",
        "audit",
    ),
    "simulate": _rows("engine", "scenario"),
    "record": _rows("metrics observations", "sources", ""),
    "probe": _rows(""),
    "timeline": _rows(""),
    "api": _rows(""),
    "fleet": _rows(""),
    "testing": _rows(""),
    "cli": _rows(""),
}
"""The rooms in the order of the data flow, and the rows of packages inside of each ("" for the
modules that stand in the room itself, where some stand in packages). A module imports only from
rooms before its own, from rows before its own in its room, and from its own package."""

PURE = ("model", "kubelet", "replay/episodes", "replay/node", "verify", "simulate/engine")
"""Parts in which the same input must give the same output on every machine."""

IMPURE_MODULES = frozenset(
    {"getpass", "os", "pathlib", "random", "secrets", "socket", "subprocess",
     "tempfile", "threading", "time", "uuid"}
)  # fmt: skip
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval"})
FUNCTION_LINES_MAX = 70


def place_of(module: str) -> tuple[int, int, str] | None:
    """Where a module stands: its room, its row in it, its package (``a/b/c``: path or name)."""
    room, _, rest = module.partition("/")
    if room not in LAYOUT:
        return None
    rows = LAYOUT[room]
    inner = rest.split("/")[0].removesuffix(".py")
    if inner == "__init__":
        return None
    row = next((i for i, names in enumerate(rows) if inner in names), None)
    if row is None:
        row, inner = next(i for i, names in enumerate(rows) if not names), ""
    return list(LAYOUT).index(room), row, f"{room}/{inner}"


def path_of(module: Path) -> str:
    """Its path below the package."""
    return str(module.relative_to(PACKAGE))


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


def test_rooms_cover_the_package() -> None:
    """Every package and top module has a place, so none escapes the rule."""
    known = {*LAYOUT, "__init__.py", "__main__.py", "_recordings"}
    assert {path_of(module).split("/")[0] for module in MODULES} <= known


def test_the_architecture_page_has_this_layout() -> None:
    """In the same order."""
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    shown = {
        room: tuple(frozenset(re.findall(r"`(\w+)`", row)) for row in inside.split("→"))
        for room, inside in re.findall(r"^\| `(\w+)/` \| (.*?) \|", page, re.MULTILINE)
    }
    assert list(shown.items()) == list(LAYOUT.items())


@pytest.mark.parametrize("module", MODULES, ids=path_of)
def test_imports_point_upwards(module: Path) -> None:
    """A module imports only from what stands before it."""
    own = place_of(path_of(module))
    if own is None:
        return
    for name in imported(ast.parse(module.read_text(encoding="utf-8"))):
        if not name.startswith("kubeledger.") or name.split(".")[1] in {"__version__", "open"}:
            continue
        other = place_of("/".join(name.split(".")[1:]))
        assert other is not None, f"{name} has no place"
        assert other[2] == own[2] or other[:2] < own[:2], f"{name} does not stand before {own[2]}"


def _needed(module: Path) -> Iterator[str]:
    """Modules of the package that a module imports, wherever in it, as dotted names."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            yield from (name for name in names if name in NAMES)


def test_no_circle_of_imports() -> None:
    """Not even one that is closed only inside functions or for type checkers."""
    needs = {name: tuple(_needed(module)) for name, module in NAMES.items()}
    TopologicalSorter(needs).prepare()  # raises CycleError, which names a circle


@pytest.mark.parametrize(
    "module",
    [m for m in MODULES if path_of(m).startswith(PURE)],
    ids=path_of,
)
def test_pure_code_has_no_way_out(module: Path) -> None:
    """No clock, randomness or I/O in the core."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    roots = {name.split(".")[0] for name in imported(tree)}
    assert not roots & IMPURE_MODULES
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in IMPURE_CALLS, f"line {node.lineno}: {node.func.id}()"
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"now", "utcnow", "today"}, f"line {node.lineno}: a clock"


@pytest.mark.parametrize("module", MODULES, ids=path_of)
def test_sizes(module: Path) -> None:
    """Functions stay small enough to read at a glance."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("module", MODULES, ids=path_of)
def test_no_leftovers(module: Path) -> None:
    """No marks of unfinished work."""
    text = module.read_text(encoding="utf-8")
    for mark in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert mark not in text
