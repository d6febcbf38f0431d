"""The shape of the code base: who may import whom, what pure code may not call, sizes."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from kubeledger.kubelet.profile.resolve import FACT_TABLES

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
    "model": _rows("errors patterns record units", "bodies", "wire"),
    "kubelet": _rows("kube profile", "topologymanager",
                     "allocation cgroups cpumanager devicemanager dra eviction imagepull images "
                     "kuberuntime lifecycle memorymanager oom preemption prober", "cases"),
    "ledger": _rows("", "history"),
    "remote": _rows(""),
    "replay": _rows("node episodes", ""),
    "ingest": _rows("sources", "klog", "messages", "correlate", "derive", "planning", ""),
    "verify": _rows(""),
    "analyze": _rows("clock histories redaction summaries", "wording", "problems",
                     "logged_errors sql", "completeness diff headlines why", "whatif", "audit"),
    "simulate": _rows("engine", "scenario"),
    "record": _rows("metrics observations", "sources", ""),
    "probe": _rows(""),
    "timeline": _rows(""),
    "api": _rows(""),
    "fleet": _rows(""),
    "testing": _rows(""),
    "cli": _rows(""),
    "mcp": _rows(""),
}  # fmt: skip
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

UNDECIDED = {
    "evicted_status_kept", "disruption_target_generation", "kill_error_ends_wait",
    "huge_page_reservations_limited", "over_reservation_names_capacity",
    "loop_event_is_a_format", "exec_timeout_fails", "exec_timeout_in_output",
    "preempted_pod_status_kept", "preempted_pod_condition", "preempted_pod_condition_generation",
}  # fmt: skip
"""Facts that stand on the parity page alone: no decider has a part in them."""

COMPARE_VERSIONS = {
    "analyze/completeness/correlator.py": "how client-go combines events",
    "analyze/completeness/verbosity.py": "verbosity at which a line is logged",
    "analyze/whatif/variants.py": "defaults of settings",
    "ingest/correlate/settings.py": "defaults of settings",
    "ingest/messages/settings_flags.py": "defaults of settings",
    "simulate/engine/eviction.py": "statistics at the start",
    "simulate/engine/images.py": "statistics at the start",
    "simulate/scenario/defaults.py": "fields of the API and of settings, and their defaults",
}
"""Modules outside of the profile that compare versions, and what they decide by it."""


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
    return str(module.relative_to(PACKAGE))


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Dotted names of all imports, wherever they stand; none is relative."""
    for node in nodes:
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
    page = (PACKAGE.parent / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
    shown = {
        room: tuple(frozenset(re.findall(r"`(\w+)`", row)) for row in inside.split("→"))
        for room, inside in re.findall(r"^\| `(\w+)/` \| (.*?) \|", page, re.MULTILINE)
    }
    assert list(shown.items()) == list(LAYOUT.items())


def _against_the_flow(module: Path, nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Imports that do not point upwards."""
    own = place_of(path_of(module))
    if own is None:
        return
    for name in imported(nodes):
        if not name.startswith("kubeledger.") or name.split(".")[1] in {"__version__", "open"}:
            continue
        other = place_of("/".join(name.split(".")[1:]))
        if other is None:
            yield f"{name} has no place"
        elif other[2] != own[2] and other[:2] >= own[:2]:
            yield f"{name} does not stand before {own[2]}"


def _needed(tree: ast.Module) -> Iterator[str]:
    """Modules of the package that a module needs to run, as dotted names."""
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            yield from (name for name in names if name in NAMES)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a tree, but for what stands there for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        typed_only = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        if typed_only or isinstance(node, ast.expr):
            continue
        yield node
        yield from _statements(node)


def _ways_out(module: Path, nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Clocks, randomness and I/O of a module."""
    if not path_of(module).startswith(PURE):
        return
    yield from {name.split(".")[0] for name in imported(nodes)} & IMPURE_MODULES
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in IMPURE_CALLS:
                yield f"line {node.lineno}: {node.func.id}()"
        elif isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            yield f"line {node.lineno}: a clock"


def _long_functions(module: Path, nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Functions that cannot be read at a glance."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"


def _names_minor(node: ast.AST) -> bool:
    return "minor" in {getattr(node, "attr", None), getattr(node, "id", None)}


def _compares_versions(node: ast.AST) -> bool:
    order = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    return (
        isinstance(node, ast.Compare)
        and any(isinstance(op, order) for op in node.ops)
        and any(map(_names_minor, (node.left, *node.comparators)))
    )


class Survey:
    """All modules, each parsed once.

    Attributes:
        found: what is against the rules.
        needs: what a module imports to run.
        asked: attributes that are named outside of the profile.
        comparing: modules outside of it that compare versions.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.needs: dict[str, tuple[str, ...]] = {}
        self.asked: set[str] = set()
        self.comparing: list[str] = []
        self._names = {module: name for name, module in NAMES.items()}
        for module in MODULES:
            self._see(module, module.read_text(encoding="utf-8"))

    def _see(self, module: Path, text: str) -> None:
        tree, path = ast.parse(text), path_of(module)
        nodes = tuple(ast.walk(tree))
        for rule in (_against_the_flow, _ways_out, _long_functions):
            self.found += [f"{path}: {each}" for each in rule(module, nodes)]
        marks = ("TODO", "FIXME", "XXX", "NotImplementedError")
        self.found += [f"{path}: {mark}" for mark in marks if mark in text]
        if module in self._names:
            self.needs[self._names[module]] = tuple(_needed(tree))
        if not path.startswith("kubelet/profile/"):
            self.asked |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            self.comparing += [path] if any(map(_compares_versions, nodes)) else []


survey = cache(Survey)


def test_every_module_keeps_to_the_rules() -> None:
    """Imports only from what stands before it; none of the world in the core; short functions.

    No circle of imports, not even one that is closed only inside functions; types may name each
    other.
    """
    assert survey().found == []
    TopologicalSorter(survey().needs).prepare()  # raises CycleError, which names a circle


def test_facts_are_asked_and_versions_are_not_compared() -> None:
    """A fact that nobody asks is misspelled or superfluous; the profile alone knows versions."""
    declared = {name for facts in FACT_TABLES.values() for name in facts}
    assert declared - survey().asked == UNDECIDED
    assert sorted(survey().comparing) == sorted(COMPARE_VERSIONS)
