"""Questions of one node: rows of a view by column name, times as nanoseconds."""

from __future__ import annotations

from typing import Any

from kubeledger.query.api import Queryable

__all__ = ["NodeView"]

Row = dict[str, Any]


class NodeView:
    """The views of a ledger, of one node.

    Attributes:
        node: whose.
    """

    def __init__(self, queryable: Queryable, node: str) -> None:
        self._queryable = queryable
        self.node = node
        # One question that needs all there is: a wider question later would load everything again.
        queryable.sql("SELECT 1 FROM events, evidence, verdicts LIMIT 0").fetchall()

    def __call__(self, query: str, params: dict[str, Any] | None = None) -> list[Row]:
        """Rows of a query; ``$node`` is the node."""
        return self._queryable.sql(query, {"node": self.node, **(params or {})}).dicts()

    def rows(self, view: str, columns: str = "*", where: str = "true") -> list[Row]:
        """Rows of a view in the order of their time, ``ts_ns`` for ``ts``."""
        return self(
            f"SELECT {columns}, seq, epoch_ns(ts) AS ts_ns FROM {view}"
            f" WHERE node = $node AND ({where}) ORDER BY ts, seq"
        )
