"""YAML as Kubernetes reads it, with a bound on what aliases can blow up to."""

from __future__ import annotations

import yaml

NODES_MAX = 1_000_000
"""Nodes of a document with its aliases written out; a cluster's pods have fewer."""


class _Loader(yaml.SafeLoader):
    """Times stay texts, as in JSON; a document is measured before it is made."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_data(self) -> object:
        """The next document.

        Raises:
            ValueError: it refers to itself or has too many nodes.
        """
        node = self.get_node()
        _measure(node)
        try:
            return self.construct_document(node)
        except (ValueError, OverflowError):  # numbers of thousands of digits, days that are none
            raise ValueError("a value cannot be read") from None


def load_yaml(data: bytes) -> list[object]:
    """The documents of a file.

    Raises:
        ValueError: the bytes are no YAML (with the line), a document is nested too deep, or
            its aliases lead to itself or blow up.
    """
    loader = None
    try:
        loader = _Loader(data)
        documents = []
        while loader.check_data():  # type: ignore[no-untyped-call]  # pyyaml's stubs lack it
            documents.append(loader.get_data())
        return documents
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"no valid YAML{place}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    finally:
        if loader is not None:
            loader.dispose()


def compose_yaml(data: bytes) -> list[yaml.Node]:
    """The documents of a file as nodes, each of which knows its place; empty ones are left out.

    Raises:
        ValueError: as :func:`load_yaml`.
        yaml.YAMLError: the bytes are no YAML; its ``problem_mark`` shows where.
    """
    loader = _Loader(data)
    try:
        documents = []
        while loader.check_node():
            node = loader.get_node()
            _measure(node)
            if node is not None:
                documents.append(node)
        return documents
    except RecursionError:
        raise ValueError("nested too deep") from None
    finally:
        loader.dispose()


def scalar_of(node: yaml.ScalarNode) -> object:
    """The value of a scalar; times stay texts.

    Raises:
        ValueError: it cannot be read, such as a number of thousands of digits.
    """
    loader = _Loader(b"")
    try:
        value: object = loader.construct_object(node)
        return value
    except (ValueError, OverflowError, yaml.YAMLError):
        raise ValueError("a value cannot be read") from None
    finally:
        loader.dispose()


def _measure(root: yaml.Node | None) -> None:
    """Count nodes as if each alias were written out, each distinct node looked at once."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    stack: list[yaml.Node] = [root] if root is not None else []
    while stack:
        node = stack[-1]
        if id(node) in sizes:
            stack.pop()
            continue
        children = _children(node)
        waiting = [child for child in children if id(child) not in sizes]
        if waiting:
            if any(id(child) in open_ or child is node for child in waiting):
                raise ValueError(f"an alias leads to itself{_place(node)}")
            open_.add(id(node))
            stack += waiting
            continue
        open_.discard(id(node))
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
        if sizes[id(node)] > NODES_MAX:
            raise ValueError(f"its aliases blow up to more than {NODES_MAX} nodes{_place(node)}")
        stack.pop()


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _place(node: yaml.Node) -> str:
    return f" (line {node.start_mark.line + 1})" if node.start_mark is not None else ""
