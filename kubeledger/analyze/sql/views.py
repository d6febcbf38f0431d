"""The SQL views: one ``views/NAME.sql`` each, every column commented in its header.

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

from kubeledger.analyze.sql.header import parse_header

ALL_KINDS = "all"
RECORDS = "records"
_STORED = re.compile(r"\bstored\.\w+")


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
            kinds=kinds,
            evidence=self.evidence or other.evidence,
            tables=self.tables | other.tables,
        )


@cache
def load_views(*packages: str) -> dict[str, View]:
    """Name -> view, sorted by name; the table ``records`` is among them.

    Args:
        packages: whose folders ``views`` are read beside this package's.
    """
    views = [_records_table()]
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


def _records_table() -> View:
    columns = (
        ("node", "VARCHAR", "node the fact is about"),
        ("seq", "BIGINT", "number of the record on its node; superseded ones are missing"),
        ("ts", "TIMESTAMP", "when, UTC, cut to microseconds"),
        ("ts_ns", "BIGINT", "when, in nanoseconds since the Unix epoch, exact"),
        ("role", "VARCHAR", "`observation` or `decision`"),
        ("kind", "VARCHAR", "what kind of record, e.g. `lifecycle.PodAdmitted`"),
        ("v", "INTEGER", "schema version of the kind, after upcasting"),
        ("cause_seq", "BIGINT", "seq of the record that led to this one"),
        (
            "evidence",
            'STRUCT(file VARCHAR, line BIGINT, "offset" BIGINT, "text" VARCHAR)[]',
            "where the fact stands in its sources",
        ),
        ("body", "JSON", "the fact itself"),
    )
    return View(
        name=RECORDS,
        doc="Every record as it is stored, but for superseded ones. The views read this table.",
        kinds=None,
        evidence=True,
        columns=tuple(Column(name=n, type=t, comment=c) for n, t, c in columns),
        sql="",
    )
