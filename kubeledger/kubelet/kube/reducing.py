"""What the reducers of all subsystems do: records to state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from kubeledger.model.record import Body

StateT = TypeVar("StateT")
T = TypeVar("T", bound=msgspec.Struct)

Handlers = Mapping[type[Body], Callable[[StateT, int, Any], None]]
"""Body type -> what it does to the state, with the time of its record."""


def as_told(kind: type[T], body: Body, **more: object) -> T:
    """A part of a state that holds what a body says under the same names, and ``more``.

    For what is not told often: naming the fields is twice as quick.
    """
    names, values = _shared(kind, type(body))
    return kind(**(dict(zip(names, values(body), strict=True)) | more))


def let_go(held: dict[str, dict[str, Any]], pod: str, name: str) -> None:
    """A container, or a claim, of a pod holds nothing any more; nor does a pod without any."""
    of_pod = held.get(pod, {})
    of_pod.pop(name, None)
    if not of_pod:
        held.pop(pod, None)


@lru_cache(maxsize=256)
def _shared(kind: type[T], body: type[Body]) -> tuple[tuple[str, ...], Callable[[Body], Any]]:
    names = tuple(name for name in kind.__struct_fields__ if name in body.__struct_fields__)
    getter = attrgetter(*names)
    return names, getter if len(names) > 1 else lambda each: (getter(each),)
