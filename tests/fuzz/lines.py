"""Which lines of the package an input reaches, by the interpreter's own tracing.

A function all of whose lines were reached is traced no more, so tracing gets cheaper as a
run goes on.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import kubeledger

_PACKAGE = str(Path(kubeledger.__file__).parent) + "/"
_Trace = Callable[[FrameType, str, Any], Any]


class Lines:
    """Lines reached so far.

    Attributes:
        reached: count of them.
    """

    def __init__(self) -> None:
        self.reached = 0
        self._left: dict[CodeType, set[int] | None] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take down what is reached inside the context."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, _: object) -> _Trace | None:
        code = frame.f_code
        try:
            left = self._left[code]
        except KeyError:
            left = self._left[code] = _lines_of(code)
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, _: object) -> _Trace | None:
        left = self._left[frame.f_code]
        if event == "line" and left and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.reached += 1
        return self._line if left else None


def _lines_of(code: CodeType) -> set[int] | None:
    if not code.co_filename.startswith(_PACKAGE):
        return None
    return {
        line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno
    }
