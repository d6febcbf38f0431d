"""What the server answers from: a ledger, or the ledgers of a lake; with pseudonyms or as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol

from kubeledger.analyze.sql.api import Queryable
from kubeledger.api.opened import OpenLedger
from kubeledger.cli.files import redacted_ledger
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError

_VERSIONS = "FROM kubelet_starts SELECT kubelet_version WHERE node = $node ORDER BY seq DESC"

Names = Callable[[str], str]
"""What a name is shown as."""

Connect = Callable[[Path], Queryable]
"""Opens a ledger for SQL, with the limits of a query."""


class Known(NamedTuple):
    """What is known of a node without reading its records.

    Attributes:
        kubelet_version: the last one that ran; None: no source says it.
        span: first and last time of its records, ns; None: it has none.
        records: how many.
    """

    kubelet_version: str | None
    span: tuple[int, int] | None
    records: int


class Source(Protocol):
    """Ledgers by node.

    Attributes:
        is_here: all of them can be read at once.
    """

    is_here: bool

    def known(self, node: str) -> Known:
        """What is known of a node without asking it."""

    def nodes(self) -> list[str]:
        """Names as they are shown, sorted."""

    def opened(self, node: str) -> OpenLedger:
        """A ledger that holds the node, under its shown name."""

    def shown(self, name: str) -> str:
        """What a real name is shown as; one that is shown already stays."""


class LedgerSource:
    """One ledger: as it is, or a copy of it with pseudonyms that is thrown away at the end.

    A ledger that grows is answered as it was when the server started, where it is redacted.
    """

    is_here = True

    def __init__(self, path: Path, key: bytes | None, connect: Connect, stack: ExitStack) -> None:
        """Open it.

        Args:
            key: of the pseudonyms; None: shown as it is.

        Raises:
            KubeledgerError: it cannot be read.
        """
        from kubeledger.analyze.sql.listing import Filter

        ledger = Ledger.open(path)
        self._shown = names_of(ledger.nodes(), key)
        if key is not None:
            path = stack.enter_context(redacted_ledger(ledger, Filter(), key))
        self._opened = stack.enter_context(OpenLedger(path, connect))

    def nodes(self) -> list[str]:
        return self._opened.nodes

    def known(self, node: str) -> Known:
        opened = self.opened(node)
        records = opened.ledger.info(node).last_seq
        versions = opened.sql(_VERSIONS, {"node": node}).fetchall()
        span = opened.ledger.span(node) if records else None
        return Known(versions[0][0] if versions else None, span, records)

    def opened(self, node: str) -> OpenLedger:
        """As of the protocol.

        Raises:
            BadQuestionError: no such node.
        """
        if node not in self.nodes():
            raise no_node(node, self.nodes())
        return self._opened

    def shown(self, name: str) -> str:
        return self._shown(name)


class LakeSource:
    """The nodes of a lake; each one's ledger is fetched when it is first asked about."""

    is_here = False

    def __init__(
        self, url: str, key: bytes | None, connect: Connect, scratch: Path, stack: ExitStack
    ) -> None:
        """Look what the lake holds.

        Args:
            key: of the pseudonyms; None: shown as it is.
            scratch: where ledgers are unpacked; gone at the end.

        Raises:
            KubeledgerError: there is no lake, or it cannot be read.
        """
        from kubeledger.fleet.lake import Lake

        self._lake = Lake.open(url)
        self._key = key
        self._connect = connect
        self._scratch = scratch
        self._stack = stack
        self._heads = self._lake.heads()
        keys = list(self._heads)
        self._shown = names_of(keys, key)
        self._keys: Mapping[str, str] = {self._shown(each): each for each in keys}
        self._fetched: dict[str, LedgerSource] = {}

    def nodes(self) -> list[str]:
        return sorted(self._keys)

    def known(self, node: str) -> Known:
        summary = self._heads[self._keys[node]].summary
        versions, first, last = summary.kubelet_versions, summary.first_ts_ns, summary.last_ts_ns
        span = None if first is None or last is None else (first, last)
        return Known(versions[-1] if versions else None, span, summary.records)

    def opened(self, node: str) -> OpenLedger:
        """As of the protocol.

        Raises:
            BadQuestionError: no such node.
            KubeledgerError: its ledger cannot be fetched.
        """
        from kubeledger.fleet.generation import fetch_ledger

        if node not in self._keys:
            raise no_node(node, self.nodes())
        if node not in self._fetched:
            directory = self._scratch / f"{len(self._fetched)}"
            fetch_ledger(self._lake, self._lake.node(self._keys[node]), directory)
            self._fetched[node] = LedgerSource(directory, self._key, self._connect, self._stack)
        (name,) = self._fetched[node].nodes()
        return self._fetched[node].opened(name)

    def shown(self, name: str) -> str:
        return self._shown(name)


def names_of(nodes: list[str], key: bytes | None) -> Names:
    """Pseudonyms of names; without a key each name is shown as it is."""
    if key is None:
        return str
    from kubeledger.analyze.redaction.pseudonyms import Pseudonyms

    pseudonyms = Pseudonyms(key)
    for node in nodes:
        pseudonyms.add_node(node)
    return pseudonyms.name


def no_node(node: str, nodes: list[str]) -> BadQuestionError:
    """There is no such node."""
    known = ", ".join(nodes[:10]) + (" ..." if len(nodes) > 10 else "")
    return BadQuestionError(f"no node {node!r}", advice=f"there are {known}")
