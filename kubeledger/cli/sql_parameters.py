"""Values for the ``$NAME`` parameters of a query, as users give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeledger.cli.options import parse_time
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import format_ts

if TYPE_CHECKING:
    from kubeledger.analyze.clock import Span
    from kubeledger.analyze.sql.library import ShippedQuery

__all__ = ["bound", "named"]


def bound(shipped: ShippedQuery, given: dict[str, str], span: Span) -> dict[str, str | None]:
    """Values of a shipped query's parameters; a TIME becomes RFC 3339.

    Args:
        shipped: the query.
        given: name -> value as the user wrote it.
        span: of the records that are asked about.

    Raises:
        BadQuestionError: a parameter is missing, unknown, or no time where it must be one.
    """
    values = shipped.bind(given)
    for parameter in shipped.parameters:
        text = values[parameter.name]
        if parameter.is_time and text is not None:
            values[parameter.name] = format_ts(parse_time(text, span))
    return values


def named(params: tuple[str, ...]) -> dict[str, str]:
    """Name -> value of texts ``NAME=VALUE``.

    Raises:
        BadQuestionError: one is no such text.
    """
    named = {}
    for param in params:
        name, separator, value = param.partition("=")
        if not separator or not name.isidentifier():
            raise BadQuestionError(f"{param!r} is not NAME=VALUE")
        named[name] = value
    return named
