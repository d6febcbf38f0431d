"""What views and shipped queries give for the fixture ledgers, and the files that hold it.

    python -m tests.analyze.sql.expected_rows

writes these files anew; read the difference before it is committed.
"""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.analyze.sql.views import load_library, load_views
from kubeledger.cli.output import write_rows
from tests.analyze.sql.fixture_ledger import manager_story, whole_story, write_ledger

EXPECTED = Path(__file__).parent / "expected"
MANAGERS = {"claims", "cpu_assignments", "memory_assignments"}
"""Views over ``manager_story``."""
GIVEN = {
    "around": {"at": "2026-11-21T03:00:20Z", "seconds": "1.5"},
    "cgroup_changes": {"pod": "default/serve"},
    "pod_timeline": {"pod": "serve"},
}
"""Query -> parameters that are asked with."""

_VIEWS, _LIBRARY = load_views(), load_library()
VIEWS = sorted(set(_VIEWS) - {"records", "verdicts"})
"""Those with rows in ``EXPECTED``; verdicts have their own test."""
QUERIES = sorted(_LIBRARY)


def rows_of_view(whole: Queryable, managers: Queryable, name: str) -> str:
    order = ", ".join(column.name for column in _VIEWS[name].columns)
    rows = (managers if name in MANAGERS else whole).sql(f"SELECT * FROM {name} ORDER BY {order}")
    out = io.StringIO()
    write_rows(rows.columns, rows, "csv", out, types=rows.types)
    return out.getvalue()


def rows_of_query(whole: Queryable, name: str) -> str:
    """The answer of a shipped query, as the command line writes it."""
    query = _LIBRARY[name]
    rows = whole.sql(query.sql, query.bind(GIVEN.get(name, {})))
    out = io.StringIO()
    write_rows(rows.columns, rows, "csv", out, types=rows.types)
    return out.getvalue()


def _files() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as scratch:
        whole = write_ledger(Path(scratch) / "whole", whole_story())
        managers = write_ledger(Path(scratch) / "managers", manager_story())
        with connect(whole) as database, connect(managers) as other:
            yield from ((f"view_{name}.csv", rows_of_view(database, other, name)) for name in VIEWS)
            yield from ((f"query_{name}.csv", rows_of_query(database, name)) for name in QUERIES)


if __name__ == "__main__":
    for file, text in _files():
        (EXPECTED / file).write_text(text, encoding="utf-8")
