"""The SQL views and the shipped queries: one commented ``.sql`` file each.

``records`` is what the loader makes of the Parquet history and of the tail after it, which
is read for no more than the kinds that the views of a query need. Everything else is a view
over it, or, where columns are kept that need not be dug out of bodies, over ``stored.rows``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

import msgspec

from kubeledger.model.errors import BadQuestionError
from kubeledger.model.patterns import regex

# The comment block at the head of a shipped ``.sql`` file, as data.
#
# Lines ``-- word name TYPE: text`` or ``-- word: text`` are fields; every other comment
# line is prose. The files stay plain SQL that any client can run.

_FIELD = regex(
    r"-- (?P<word>column|param|title|kinds)(?: (?P<name>\w+)(?: (?P<type>[^:]+))?)?: (?P<text>.+)"
)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a header.

    Attributes:
        word: what the field is: ``column``, ``param``, ``title`` or ``kinds``.
        name: name of the column or parameter; empty for the other words.
        type: type as written before the colon; empty without one.
        text: what stands after the colon.
    """

    word: str
    name: str
    type: str
    text: str


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The head of one file.

    Attributes:
        prose: the comment lines that are no field, joined by spaces.
        fields: (n,) in the order of the file.
        sql: the rest of the file, from its first line that is no comment.
    """

    prose: str
    fields: tuple[Field, ...]
    sql: str

    def of(self, word: str) -> tuple[Field, ...]:
        """The fields of one word, in order."""
        return tuple(field for field in self.fields if field.word == word)

    def text(self, word: str) -> str:
        """Text of the first field of a word; empty without one."""
        return next((field.text for field in self.fields if field.word == word), "")


def parse_header(source: str) -> Header:
    """Split a file into header and SQL."""
    prose: list[str] = []
    fields: list[Field] = []
    lines = source.splitlines()
    count = 0
    for line in lines:
        if not line.startswith("--"):
            break
        count += 1
        match = _FIELD.fullmatch(line)
        if match is None:
            prose.append(line.removeprefix("--").strip())
            continue
        parts = {key: value or "" for key, value in match.groupdict().items()}
        fields.append(Field(**parts))
    return Header(prose=" ".join(prose), fields=tuple(fields), sql="\n".join(lines[count:]).strip())


ALL_KINDS = "all"
RECORDS = "records"
_STORED = regex(r"\bstored\.\w+")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column: name, DuckDB type, and what it holds."""

    name: str
    type: str
    comment: str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One view.

    Attributes:
        doc: what a row is.
        kinds: kinds of records it reads; None means all.
        evidence: it reads the evidence of the records.
        tables: of the schema ``stored`` that it names.
        columns: (n,) in the order of the view.
        sql: its CREATE VIEW statement; empty for the table ``records``.
    """

    name: str
    doc: str
    kinds: frozenset[str] | None
    evidence: bool
    tables: frozenset[str] = frozenset()
    columns: tuple[Column, ...]
    sql: str


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What must be loaded to answer a query.

    Attributes:
        kinds: kinds of records; None means all.
        evidence: the evidence as well.
        tables: those of the schema ``stored`` that are named, e.g. ``stored.verified``.
    """

    kinds: frozenset[str] | None
    evidence: bool
    tables: frozenset[str] = frozenset()

    @property
    def records(self) -> bool:
        """Whether records are read at all."""
        return self.kinds is None or bool(self.kinds)

    def union(self, other: Needs) -> Needs:
        """What answers both."""
        everything = self.kinds is None or other.kinds is None
        kinds = None if everything else (self.kinds or frozenset()) | (other.kinds or frozenset())
        return Needs(
            kinds=kinds, evidence=self.evidence or other.evidence, tables=self.tables | other.tables
        )


@cache
def load_views(*packages: str) -> dict[str, View]:
    """Name -> view, sorted by name; the table ``records`` is among them.

    Args:
        packages: whose folders ``views`` are read beside this package's.
    """
    views = [msgspec.structs.replace(_parse_view(RECORDS, _RECORDS), evidence=True)]
    for package in (__package__, *packages):
        for file in (resources.files(package) / "views").iterdir():
            if file.name.endswith(".sql"):
                views.append(_parse_view(file.name.removesuffix(".sql"), file.read_text("utf-8")))
    return {view.name: view for view in sorted(views, key=lambda view: view.name)}


def needs_of(names: Iterable[str], views: Mapping[str, View]) -> Needs:
    """What the named views read; names that are no view need nothing."""
    needs = Needs(kinds=frozenset(), evidence=False)
    for name in names:
        view = views.get(name.lower())
        if view is not None:
            needs = needs.union(Needs(kinds=view.kinds, evidence=view.evidence, tables=view.tables))
    return needs


def _parse_view(name: str, source: str) -> View:
    header = parse_header(source)
    kinds = header.text("kinds")
    return View(
        name=name,
        doc=header.prose,
        kinds=None if kinds == ALL_KINDS else frozenset(kinds.split()),
        evidence=re.search(r"\b(evidence|source_file)\b", header.sql) is not None,
        tables=frozenset(_STORED.findall(header.sql)),
        columns=tuple(
            Column(name=field.name, type=field.type, comment=field.text)
            for field in header.of("column")
        ),
        sql=header.sql,
    )


_RECORDS = """\
-- Every record as it is stored, but for superseded ones. The views read this table.
-- kinds: all
-- column node VARCHAR: node the fact is about
-- column seq BIGINT: number of the record on its node; superseded ones are missing
-- column ts TIMESTAMP: when, UTC, cut to microseconds
-- column ts_ns BIGINT: when, in nanoseconds since the Unix epoch, exact
-- column role VARCHAR: `observation` or `decision`
-- column kind VARCHAR: what kind of record, e.g. `lifecycle.PodAdmitted`
-- column v INTEGER: schema version of the kind, after upcasting
-- column cause_seq BIGINT: seq of the record that led to this one
-- column evidence STRUCT(file VARCHAR, line BIGINT, "offset" BIGINT, "text" VARCHAR)[]: where the \
fact stands in its sources
-- column body JSON: the fact itself
"""


# The shipped queries: one ``library/NAME.sql`` each, with its question and parameters.

TIME = "TIME"
_DEFAULT = " default "
_NULL = "NULL"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One ``$name`` of a query.

    Attributes:
        type: DuckDB type the text given is read as, or ``TIME``.
        required: it has no default.
        default: what is meant without it; None is NULL.
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
        from difflib import get_close_matches

        near = get_close_matches(name, known)
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
