"""Regular expressions that are compiled when they are first asked.

Who imports one kind of file or explains one message needs few of hundreds, and to compile them all
takes a tenth of the time in which a short log is imported.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Compiled:
    """Has all that a compiled expression has, to be looked up as fast as there."""


class _Uncompiled:
    """Stands for an expression until it is asked for anything but its text."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the compiled one has
        compiled = re.compile(self.pattern, self._flags)
        public = [each for each in dir(compiled) if not each.startswith("_")]
        vars(self).update((each, getattr(compiled, each)) for each in public)
        self.__class__ = _Compiled  # type: ignore[assignment] # which looks nothing up by name
        return getattr(compiled, name)


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As ``re.compile``, later: a wrong expression is an error when it is first used."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))
