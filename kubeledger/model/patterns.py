"""What is asked of texts: expressions that are compiled when first asked, and caches of answers.

Who imports one kind of file or explains one message needs few of hundreds, and to compile them all
takes a tenth of the time in which a short log is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from operator import attrgetter
from typing import Any, AnyStr, ParamSpec, TypeVar, cast

_PUBLIC = [each for each in dir(re.Pattern) if not each.startswith("_")]
_public_of = attrgetter(*_PUBLIC)


class _Compiled:
    """Has all that a compiled expression has, to be looked up as fast as there."""


class _Uncompiled:
    """Stands for an expression until it is asked for anything but its text."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the compiled one has
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update(zip(_PUBLIC, _public_of(compiled), strict=True))
        self.__class__ = _Compiled  # type: ignore[assignment] # which looks nothing up by name
        return getattr(compiled, name)


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As ``re.compile``, later: a wrong expression is an error when it is first used."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))


_SHORT_LENGTH = 1 << 14
_P = ParamSpec("_P")
_R = TypeVar("_R")


def cached_if_short(size: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """As ``lru_cache``, but of what is asked about long texts nothing is held.

    A line of a log has up to 1 MiB, and some hundreds of those are no cache but a leak.
    """

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        cached = lru_cache(size)(function)

        @wraps(function)
        def asked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for each in (*args, *kwargs.values()) if kwargs else args:
                if isinstance(each, str) and len(each) > _SHORT_LENGTH:
                    return function(*args, **kwargs)
            return cached(*args, **kwargs)  # type: ignore[arg-type]  # all of them are hashable

        return asked

    return decorated
