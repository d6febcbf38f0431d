"""The keys that handlers ask for are those that their messages have in the tables."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import kubeledger.ingest
from kubeledger.ingest.assemblers import IN_ORDER
from kubeledger.ingest.klog.log_signs import FATAL
from kubeledger.ingest.messages.catalogue import KEYS

PACKAGE = Path(kubeledger.ingest.__file__).parent
FILES = [file for part in ("", "correlate/", "derive/") for file in PACKAGE.glob(f"{part}*.py")]
OF_PROPERTIES = {
    "pod": {"pod"},
    "pods": {"pods"},
    "subject": {"pod", "podUID", "containerName"},
    "event_subject": {"object"},
    "container_id": {"containerID"},
}
"""Property of an entry -> keys of which its messages have one at least."""

EXCEPTIONS: dict[str, set[str]] = {}
"""Handler -> keys that it asks for though no message of its own has them."""

WORDS_ALONE = {
    "Container runtime status is nil",
    "Creating topology manager with none policy",
    "Failed to admit pod: GeneralPredicates failed due to unknown reason, which is unexpected",
    "Fast updating node status as it just became ready",
    "Registered endpoint",
    FATAL,
}
"""Messages without any key, though what reads them asks for the keys of others."""

Function = ast.FunctionDef
Functions = Mapping[str, ast.FunctionDef]


def functions_by_file() -> Iterator[tuple[str, Functions]]:
    """File -> functions that it knows by name: its own, and those that only one other defines."""
    trees = {str(file): ast.parse(file.read_text(encoding="utf-8")) for file in FILES}
    own = {
        file: {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}
        for file, tree in trees.items()
    }
    count = Counter(name for functions in own.values() for name in functions)
    shared = {
        name: function
        for functions in own.values()
        for name, function in functions.items()
        if count[name] == 1
    }
    for file, functions in own.items():
        yield file, shared | functions


def asked(
    function: Function, entry: str, functions: Functions, seen: set[str]
) -> Iterator[set[str]]:
    """Keys that a function, or what it gives its entry to, asks for: of each set, any of it."""
    if function.name in seen:
        return
    seen.add(function.name)
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and is_name(node.value, entry):
            if node.attr in OF_PROPERTIES:
                yield OF_PROPERTIES[node.attr]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            ways = ("get", "text", "told", "number", "values.get")
            if called in {f"{entry}.{way}" for way in ways}:
                keys = {str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)}
                if keys:
                    yield keys
                continue
            callee = functions.get(called.rpartition(".")[2])
            if callee is None or called not in (callee.name, f"self.{callee.name}"):
                continue
            names = [arg.arg for arg in callee.args.args if arg.arg != "self"]
            for argument, name in zip(node.args, names, strict=False):
                if is_name(argument, entry):
                    yield from asked(callee, name, functions, seen)


def is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def handlers() -> list[Any]:
    """The methods that read messages, by name."""
    found: set[Any] = {
        getattr((kind, *kind.part_kinds)[each.part], each.name)
        for kind in IN_ORDER
        for each in kind.declared("reads")
        if each.name
    }
    return sorted(found, key=attrgetter("__qualname__"))


def test_keys_of_the_handlers() -> None:
    """One of its messages has each key that a handler asks for; else one is misspelled there.

    And a handler that asks for keys has keys behind each of its messages, not behind one.
    """
    by_file = dict(functions_by_file())
    found, keyless = list[str](), set[str]()
    for method in handlers():
        functions = by_file[inspect.getfile(inspect.unwrap(method))]
        function = functions[method.__name__]
        its = list(asked(function, function.args.args[1].arg, functions, set()))
        found += _unknown_keys(method, its)
        if its:
            keyless |= {message for message in method.reads if message not in KEYS}
    assert found == []
    assert sorted(keyless ^ WORDS_ALONE) == [], "name their keys behind the message"


def _unknown_keys(method: Any, its: list[set[str]]) -> Iterator[str]:  # noqa: ANN401 - a function that has ``reads``
    known = {key for each in method.reads if each in KEYS for key in KEYS[each].read}
    known |= EXCEPTIONS.get(method.__qualname__, set())
    unknown = [sorted(keys) for keys in its if not keys & known]
    if unknown:
        yield (
            f"{method.__qualname__} asks for {unknown}, which the tables name for none of "
            f"its messages {method.reads}: spell the key as it stands there, or add it there"
        )
