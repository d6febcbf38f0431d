"""The shipped queries: one ``library/NAME.sql`` each, with its question and parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

from kubeledger.analyze.sql.header import Field, parse_header
from kubeledger.model.errors import BadQuestionError

TIME = "TIME"
_DEFAULT = " default "
_NULL = "NULL"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One ``$name`` of a query.

    Attributes:
        type: DuckDB type the text given is read as, or ``TIME``.
        required: it has no default.
        default: what is meant without it; None is NULL.
        doc: what it is.
    """

    name: str
    type: str
    required: bool
    default: str | None
    doc: str

    @property
    def is_time(self) -> bool:
        """Its text is a TIME as on the command line."""
        return self.type == TIME


class ShippedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One shipped query.

    Attributes:
        title: the question it answers.
        doc: what a row is.
    """

    name: str
    title: str
    doc: str
    parameters: tuple[Parameter, ...]
    sql: str

    def bind(self, given: Mapping[str, str]) -> dict[str, str | None]:
        """Values of all parameters.

        Args:
            given: name -> text, as the user gave it.

        Raises:
            BadQuestionError: a required one is missing, or one is not known.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise BadQuestionError(f"{self.name} has no parameter {name}", advice=self._usage())
        for parameter in self.parameters:
            if parameter.required and parameter.name not in given:
                raise BadQuestionError(
                    f"{self.name} needs --param {parameter.name}=...", advice=self._usage()
                )
        return {name: given.get(name, parameter.default) for name, parameter in known.items()}

    def _usage(self) -> str:
        if not self.parameters:
            return "it takes no parameters"
        return "; ".join(f"{parameter.name}: {parameter.doc}" for parameter in self.parameters)


@cache
def load_library(package: str = __package__) -> dict[str, ShippedQuery]:
    """Name -> query, sorted by name, of a package's folder ``library``."""
    folder = resources.files(package) / "library"
    queries = [
        _parse_query(file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return {query.name: query for query in sorted(queries, key=lambda query: query.name)}


def find_query(name: str, library: Mapping[str, ShippedQuery] | None = None) -> ShippedQuery:
    """The query of that name, of the library for one ledger or of another one.

    Raises:
        BadQuestionError: there is none.
    """
    known = load_library() if library is None else library
    if name not in known:
        near = difflib.get_close_matches(name, known)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise BadQuestionError(
            f"there is no shipped query {name!r}", advice=f"{meant}--list shows all of them"
        )
    return known[name]


def _parse_query(name: str, source: str) -> ShippedQuery:
    header = parse_header(source)
    return ShippedQuery(
        name=name,
        title=header.text("title"),
        doc=header.prose,
        parameters=tuple(_parse_parameter(field) for field in header.of("param")),
        sql=header.sql,
    )


def _parse_parameter(field: Field) -> Parameter:
    type_, separator, default = field.type.partition(_DEFAULT)
    return Parameter(
        name=field.name,
        type=type_,
        required=not separator,
        default=None if default in {"", _NULL} else default,
        doc=field.text,
    )
