"""``docs/sql.md``, made from the comments in the ``.sql`` files.

``python -m tests.generated.sql_page > docs/sql.md`` makes it again.
"""

import sys
from collections.abc import Iterator

from kubeledger.analyze.sql.views import Parameter, ShippedQuery, View, load_library, load_views

_HEAD = """\
# SQL over a ledger

<!-- Made by `python -m tests.generated.sql_page > docs/sql.md` from the comments in
     kubeledger/analyze/sql/views and kubeledger/analyze/sql/library; a test compares. -->

`kubeledger sql QUERY` answers one `SELECT` over the views below, in DuckDB's dialect. Queries
only read: they reach no file, no setting and no extension. A fact that no source holds is
NULL. Times are UTC.

    kubeledger sql "SELECT pod, reason FROM admissions WHERE NOT admitted"
    kubeledger sql --run probe_kills -o csv
    kubeledger sql --run pod_timeline --param pod=default/web
    kubeledger sql                        # a shell, with .help

Long ledgers are read as Parquet: `LEDGER/history` holds a copy of the records, partitioned by
node and date, that `sql` (or `kubeledger index`) makes and extends by itself. It is proved when
it is written and its bytes are checked before each session; it may be removed at any time. The
last MiB after it are read from the ledger itself, only the kinds of records that the named
views read, so ask `device_allocations` rather than `events` where either would do. `--timeout`
and `--memory` bound a query.
"""


def render() -> str:
    """The whole page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    yield "## Views\n"
    for view in load_views().values():
        yield from _view(view)
    yield "## Shipped queries\n"
    yield "`kubeledger sql --list` shows them; parameters are given as `--param NAME=VALUE`.\n"
    for query in load_library().values():
        yield from _query(query)


def _view(view: View) -> Iterator[str]:
    yield f"### `{view.name}`\n"
    yield f"{view.doc}\n"
    yield "| column | type | what it holds |"
    yield "|---|---|---|"
    for column in view.columns:
        yield f"| `{column.name}` | {column.type} | {column.comment} |"
    yield ""


def _query(query: ShippedQuery) -> Iterator[str]:
    yield f"### `{query.name}`\n"
    yield f"**{query.title}** {query.doc}\n"
    for parameter in query.parameters:
        yield f"- `{parameter.name}` ({parameter.type}, {_default(parameter)}): {parameter.doc}"
    if query.parameters:
        yield ""


def _default(parameter: Parameter) -> str:
    if parameter.required:
        return "required"
    return f"default {parameter.default}" if parameter.default is not None else "optional"


if __name__ == "__main__":
    sys.stdout.write(render())
