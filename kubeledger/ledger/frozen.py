"""Objects of this program as numbers and texts, to be kept beside records and made again.

What a reading of records or of files knows at one place is many objects that refer to each other.
They are kept as a table: texts and numbers once each, and for each object its class and what it
holds, as places in the table. Nothing of it is run when it is read: a class has to be one of this
program's, of a module that is loaded, and an object is given the fields that it had. What cannot be
kept so (a function within a function, an open file) is an error when it is frozen; the caller does
without.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import repeat
from types import FunctionType, MethodType
from typing import Any, Final, TypeVar

import msgspec

_PROGRAM: Final = "kubeledger."
_PLAIN: Final = frozenset({type(None), bool, int, str, float})
_LISTS: Final[tuple[type, ...]] = (list, deque)
_SETS: Final[tuple[type, ...]] = (set, frozenset)
_DICTS: Final[tuple[type, ...]] = (dict, Counter, OrderedDict, defaultdict)
_BUILT_IN: Final = {kind.__name__: kind for kind in (tuple, *_LISTS, *_SETS, *_DICTS)}
_FACTORIES: Final = {kind.__name__: kind for kind in (list, set, dict, int)}
_OUTSIDE, _CLASS, _METHOD, _MEMBER, _BYTES = "outside", "class", "method", "member", "bytes"
_FUNCTION: Final = "function"
_LONG: Final = 1 << 63
_LETTER_A_BYTE: Final = "latin-1"
_NO_FIELDS: Final = ("__orig_class__", "__dict__", "__weakref__")
"""Attributes that are no state: the type arguments with which an object was made."""

Atom = bool | int | str | float | None
T = TypeVar("T")


class NotFreezableError(Exception):
    """Something among the objects is none that can be kept."""


class NotFrozenError(ValueError):
    """What was kept is not of this program."""


class Frozen(msgspec.Struct, frozen=True):
    """Objects as a table.

    Attributes:
        atoms: texts and numbers, each once; one of more than 64 bits as a list of its text.
        shapes: kind of an object, or its module and class, and the names of what it holds.
        objects: of each its shape and then what it holds: n is object n, -n-1 is atom n. Whatever
            cannot be changed once it is made comes after what of that sort it holds.
    """

    atoms: list[Atom | list[str]]
    shapes: list[tuple[str, str, tuple[str, ...]]]
    objects: list[list[int]]


def freeze(root: object, outside: Mapping[str, object]) -> Frozen:
    """All objects that one of them leads to.

    Args:
        root: that one.
        outside: name -> object that is not kept; :func:`thaw` is given another in its place.

    Raises:
        NotFreezableError: one of them cannot be kept.
    """
    return _Freezer(outside).frozen(root)


def thaw(frozen: Frozen, outside: Mapping[str, object]) -> Any:  # noqa: ANN401 - as it was frozen
    """What was frozen, made again.

    Raises:
        NotFrozenError: it does not fit this program.
    """
    try:
        return _Thawer(frozen, outside).root()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise NotFrozenError(str(error)) from error


def _fields(kind: type) -> tuple[str, ...]:
    """Names of what objects of a class hold, but for those that stand in their ``__dict__``."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    slots = (getattr(each, "__slots__", ()) for each in reversed(kind.__mro__))
    names = (name for each in slots for name in ((each,) if isinstance(each, str) else each))
    return tuple(name for name in names if name not in _NO_FIELDS)


def _is_fixed(kind: type) -> bool:
    """Whether what an object of a class holds has to be there when it is made."""
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen


Shaped = tuple[int, list[object], bool]
"""The shape of an object, what it holds, and whether that has to be there when it is made."""


class _Freezer:
    def __init__(self, outside: Mapping[str, object]) -> None:
        self._outside = {id(each): name for name, each in outside.items()}
        self._atoms: dict[tuple[type, Atom], int] = {}
        self._shapes: dict[tuple[str, str, tuple[str, ...]], int] = {}
        self._codes: dict[int, int] = {}
        self._objects: list[list[int]] = []
        self._held: list[object] = []
        self._shapers: dict[type, Callable[[Any], Shaped]] = {}

    def frozen(self, root: object) -> Frozen:
        codes, shapers, objects = self._codes, self._shapers, self._objects
        waiting: list[tuple[object, Shaped | None]] = [((root,), None)]
        filled: list[tuple[list[int], list[Any]]] = []
        while waiting:
            each, shaped = waiting.pop()
            if id(each) in codes:
                continue
            if shaped is None:
                if id(each) in self._outside:
                    shaped = (self._shape(_OUTSIDE, self._outside[id(each)]), [], True)
                else:
                    shaped = (shapers.get(type(each)) or self._shaper(type(each)))(each)
            shape, parts, is_fixed = shaped
            open_ = [part for part in parts if id(part) not in codes and not self._is_atom(part)]
            if is_fixed and open_:  # what it holds comes first
                waiting.append((each, shaped))
                waiting += zip(open_, repeat(None))
                continue
            waiting += zip(open_, repeat(None))
            codes[id(each)] = len(objects)
            objects.append([shape])
            filled.append((objects[-1], parts))
            self._held.append(each)  # its identity is only good while it lives
        for made, parts in filled:
            made += [codes[id(part)] for part in parts]
        written = [[str(atom)] if _is_long(atom) else atom for _, atom in self._atoms]
        return Frozen(written, list(self._shapes), objects)

    def _is_atom(self, part: Any) -> bool:  # noqa: ANN401 - whatever an object holds
        kind = type(part)
        if kind not in _PLAIN:
            return False
        self._codes[id(part)] = -1 - self._atoms.setdefault((kind, part), len(self._atoms))
        return True

    def _shape(self, module: str, name: str, names: tuple[str, ...] = ()) -> int:
        return self._shapes.setdefault((module, name, names), len(self._shapes))

    def _shaper(self, kind: type) -> Callable[[Any], Shaped]:
        """What shapes objects of a class."""
        name = kind.__name__
        found: Callable[[Any], Shaped]
        if kind in _DICTS:
            found = self._dictionary
        elif kind in (tuple, list):
            shape, is_fixed = self._shape(name, ""), kind is tuple
            found = lambda each: (shape, [*each], is_fixed)  # noqa: E731 - one of many
        elif kind in _SETS:
            found = self._set
        elif kind is deque:
            found = lambda each: (self._shape(name, "", (str(each.maxlen),)), [*each], False)  # noqa: E731
        elif kind is bytes:
            shape = self._shape(_BYTES, "")
            found = lambda each: (shape, [each.decode(_LETTER_A_BYTE)], True)  # noqa: E731
        elif kind is MethodType:
            found = lambda each: (self._shape(_METHOD, each.__name__), [each.__self__], True)  # noqa: E731
        elif kind is FunctionType:
            found = lambda each: (self._shape(_FUNCTION, *_one_name(each)), [], True)  # noqa: E731
        elif issubclass(kind, type):
            found = self._class
        elif issubclass(kind, Enum):
            found = lambda each: (self._shape(_MEMBER, *_member(each)), [], True)  # noqa: E731
        else:
            found = self._of_program(kind)
        self._shapers[kind] = found
        return found

    def _dictionary(self, each: dict[Any, Any]) -> Shaped:
        names = (_factory_of(each),) if isinstance(each, defaultdict) else ()
        shape = self._shape(type(each).__name__, "", names)
        return shape, [part for pair in each.items() for part in pair], False

    def _set(self, each: set[Any] | frozenset[Any]) -> Shaped:
        shows_itself = all(type(member) in (str, int, tuple) for member in each)
        members = sorted(each, key=repr) if shows_itself else each
        return self._shape(type(each).__name__, ""), [*members], isinstance(each, frozenset)

    def _class(self, each: type) -> Shaped:
        module, name = _named(each)
        return self._shape(_CLASS, module, (name,)), [], True

    def _of_program(self, kind: type) -> Callable[[Any], Shaped]:
        module, name = _named(kind)
        if issubclass(kind, tuple):
            shape = self._shape(module, name)
            return lambda each: (shape, [*each], True)
        if issubclass(kind, dict) and kind not in _DICTS:
            shape = self._shape(module, name)
            return lambda each: (shape, [part for pair in each.items() for part in pair], False)
        if issubclass(kind, list | set | frozenset | int | str | bytes | float):
            raise NotFreezableError(f"{module}.{name}")
        fields, is_fixed = _fields(kind), _is_fixed(kind)
        if issubclass(kind, msgspec.Struct):
            shape = self._shape(module, name, fields)
            return lambda each: (shape, [*msgspec.structs.astuple(each)], is_fixed)

        def shaped(each: object) -> Shaped:
            own = getattr(each, "__dict__", {})
            names = [field for field in fields if hasattr(each, field)]
            more = [key for key in own if key not in _NO_FIELDS]
            shape = self._shape(module, name, (*names, *more))
            return shape, [*(getattr(each, field) for field in names), *map(own.get, more)], False

        return shaped


def _is_long(atom: Atom) -> bool:
    return type(atom) is int and not -_LONG <= atom < _LONG


def _member(each: Enum) -> tuple[str, tuple[str, ...]]:
    module, name = _named(type(each))
    return module, (name, each.name)


def _one_name(each: FunctionType) -> tuple[str, tuple[str, ...]]:
    module, name = _named(each)
    return module, (name,)


def _named(kind: type | FunctionType) -> tuple[str, str]:
    module, name = kind.__module__, kind.__qualname__
    if not module.startswith(_PROGRAM) or "<" in name:
        raise NotFreezableError(f"{module}.{name}")
    return module, name


def _factory_of(each: defaultdict[object, object]) -> str:
    name = getattr(each.default_factory, "__name__", "")
    if _FACTORIES.get(name) is not each.default_factory:
        raise NotFreezableError(f"a dictionary that makes {name or 'nothing'}")
    return name


class _Thawer:
    def __init__(self, frozen: Frozen, outside: Mapping[str, object]) -> None:
        self._frozen = frozen
        self._outside = outside
        atoms = [int(one[0]) if type(one) is list else one for one in frozen.atoms]
        self._values: list[Any] = [None] * len(frozen.objects) + atoms[::-1]
        self._makers = [self._maker(*shape) for shape in frozen.shapes]

    def root(self) -> Any:  # noqa: ANN401 - as it was frozen
        values, makers, count = self._values, self._makers, len(self._frozen.objects)
        fixed: list[tuple[int, Callable[[list[Any]], Any]]] = []
        filled: list[tuple[int, Callable[[Any, list[Any]], None]]] = []
        keyed: list[tuple[int, Callable[[Any, list[Any]], None]]] = []
        objects = self._frozen.objects
        for place, parts in enumerate(objects):
            maker = makers[parts[0]]
            if maker.fixed is not None:
                fixed.append((place, maker.fixed))
                continue
            assert maker.empty is not None
            assert maker.fill is not None
            values[place] = maker.empty()
            (keyed if maker.is_keyed else filled).append((place, maker.fill))
        value = values.__getitem__
        for place, make in fixed:
            values[place] = make([*map(value, objects[place][1:])])
        # What is looked up by its value has to be whole before it is a key.
        for place, fill in (*filled, *keyed):
            fill(values[place], [*map(value, objects[place][1:])])
        (root,) = values[count - 1]
        return root

    def _maker(self, module: str, name: str, names: tuple[str, ...]) -> _Maker:
        if module == _OUTSIDE:
            outside = self._outside[name]
            return _Maker(fixed=lambda _: outside)
        if module == _METHOD:
            return _Maker(fixed=lambda parts: getattr(parts[0], name))
        if module == _BYTES:
            return _Maker(fixed=lambda parts: parts[0].encode(_LETTER_A_BYTE))
        if module == _CLASS:
            kind = _class(name, names[0])
            return _Maker(fixed=lambda _: kind)
        if module == _FUNCTION:
            function = _of_module(name, names[0], FunctionType)
            return _Maker(fixed=lambda _: function)
        if module == _MEMBER:
            member = getattr(_class(name, names[0]), names[1])
            return _Maker(fixed=lambda _: member)
        if module in _BUILT_IN:
            return _built_in(_BUILT_IN[module], names)
        return _of_class(_class(module, name), names)


class _Maker(msgspec.Struct):
    """How objects of one shape are made: at once, or empty and then filled.

    Attributes:
        is_keyed: what is filled in is looked up by its value.
    """

    fixed: Callable[[list[Any]], Any] | None = None
    empty: Callable[[], Any] | None = None
    fill: Callable[[Any, list[Any]], None] | None = None
    is_keyed: bool = False


def _class(module: str, name: str) -> type:
    return _of_module(module, name, type)


def _of_module(module: str, name: str, kind: type[T]) -> T:
    if not module.startswith(_PROGRAM):
        raise ValueError(f"{module} is no module of this program")
    found: object = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, kind):
        raise ValueError(f"{module}.{name} is no {kind.__name__}")
    return found


def _built_in(kind: Any, names: tuple[str, ...]) -> _Maker:  # noqa: ANN401 - one of several types
    if kind in (tuple, frozenset):
        return _Maker(fixed=kind)
    if kind is deque:
        length = None if names[0] == "None" else int(names[0])
        return _Maker(empty=lambda: deque(maxlen=length), fill=deque.extend)
    if kind is list:
        return _Maker(empty=list, fill=list.extend)
    if kind is set:
        return _Maker(empty=set, fill=set.update, is_keyed=True)
    empty = (lambda: defaultdict(_FACTORIES[names[0]])) if kind is defaultdict else kind
    return _Maker(empty=empty, fill=_fill_dict, is_keyed=True)


def _fill_dict(into: dict[Any, Any], parts: list[Any]) -> None:
    pairs: Iterator[Any] = iter(parts)
    for key in pairs:
        into[key] = next(pairs)


def _of_class(kind: Any, names: tuple[str, ...]) -> _Maker:  # noqa: ANN401 - any class of ours
    if issubclass(kind, tuple):
        return _Maker(fixed=lambda parts: tuple.__new__(kind, parts))
    if issubclass(kind, dict):
        return _Maker(empty=lambda: kind.__new__(kind), fill=_fill_dict, is_keyed=True)
    if _is_fixed(kind):
        return _Maker(fixed=lambda parts: kind(**dict(zip(names, parts, strict=True))))

    def fill(each: object, parts: list[Any]) -> None:
        for name, part in zip(names, parts, strict=True):
            setattr(each, name, part)

    if issubclass(kind, msgspec.Struct):
        return _Maker(empty=lambda: kind(**dict.fromkeys(kind.__struct_fields__)), fill=fill)
    return _Maker(empty=lambda: kind.__new__(kind), fill=fill)
