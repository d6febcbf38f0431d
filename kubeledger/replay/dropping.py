"""Dropping by policy: what stands in place of the records is made here, from the records."""

from __future__ import annotations

from collections import Counter

import msgspec

from kubeledger.kubelet.kube.resources import pod_key
from kubeledger.ledger.base import Base, BaseContent, DroppedImport, encode_content
from kubeledger.ledger.dropping import Choice, Policy, choose
from kubeledger.ledger.kept import KeptSources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import is_superseded
from kubeledger.ledger.reading import Reading, replay_runs
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.bodies.ledger import (
    EarlierDrop,
    ImportCompleted,
    ImportStarted,
    RecordsDropped,
)
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved, SettingsObserved
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import chain_of, decode_line, kind_of
from kubeledger.replay.instants import STATE_VERSION, encode_state, state_of_base
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState

_TOLD = (ImportStarted, ImportCompleted)
_CARRIED = (KubeletStarted, NodeObserved, SettingsObserved, PodListed)
_READ_AGAIN = frozenset(kind.kind for kind in (*_TOLD, *_CARRIED))
_EARLIER_MAX = 100
_SOURCES_MAX = 20_000


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """What was dropped of one node, or would be.

    Attributes:
        node: whose.
        choice: which segments.
        record_seq: of the drop's record; None for what would be dropped.
    """

    node: str
    choice: Choice
    record_seq: int | None = None


def plan_drops(ledger: Ledger, policy: Policy) -> list[Dropped]:
    """What a policy would drop now, of each node.

    Raises:
        KubeledgerError: the ledger cannot be read.
    """
    found: list[Dropped] = []
    for node in ledger.nodes():
        with ledger.reading(node) as look:
            found.append(Dropped(node=node, choice=choose(look, policy)))
    return found


def drop_by_policy(ledger: Ledger, policy: Policy, now_ns: int) -> list[Dropped]:
    """Drop what a policy allows; records that go are all proved before.

    Args:
        ledger: no other writer may be at work.
        policy: what may go.
        now_ns: the time of the drop.

    Returns:
        (n,) what went, of each node.

    Raises:
        DamagedLedgerError: what should go is not what was written; of that node nothing was
            dropped.
        KubeledgerError: as ``Ledger.writer`` and ``LedgerWriter.drop``.
    """
    with ledger.writer() as writer:
        return [drop_of_node(ledger, writer, node, policy, now_ns) for node in ledger.nodes()]


def drop_of_node(
    ledger: Ledger, writer: LedgerWriter, node: str, policy: Policy, now_ns: int
) -> Dropped:
    """As :func:`drop_by_policy`, of one node, by the ledger's writer.

    Raises:
        DamagedLedgerError: as there.
        KubeledgerError: as ``LedgerWriter.drop``.
    """
    with ledger.reading(node) as look:
        choice = choose(look, policy)
        if not choice.last_seq:
            return Dropped(node=node, choice=choice)
        dropped, data, ts_ns = _Gathering(look, choice.last_seq).record(policy, now_ns)
    seq = writer.drop(node, dropped, data, ts_ns)
    standing = {run.digest for run in writer.info(node).runs if run.digest is not None}
    KeptSources(ledger.path, node).forget_before(dropped.latest_ts_ns, standing)
    return Dropped(node=node, choice=choice, record_seq=seq)


class _Gathering:
    """What is kept of a node's records up to one, and what is recorded of them.

    Two passes, each with flat memory: one in the order of time for the state, one in the order
    of seq that proves every byte and takes out what is kept.
    """

    def __init__(self, look: Reading, last_seq: int) -> None:
        self._look = look
        self._last_seq = last_seq
        self._before = look.content()
        info = look.info()
        self._runs, self._superseded = info.runs, info.superseded
        self._counts: Counter[str] = Counter()
        self._imports: dict[str, DroppedImport] = {}
        self._begun: list[str] = []
        self._carried: dict[object, tuple[int, bytes]] = {}
        self._chain = b""
        self._first_ts_ns = self._last_ts_ns = 0
        self._state = self._fold()
        self._read_again()

    def record(self, policy: Policy, now_ns: int) -> tuple[RecordsDropped, bytes, int]:
        """The body of the drop's record, the file that is kept, and the record's time."""
        latest_ts_ns = self._state.latest_ts_ns
        assert latest_ts_ns is not None
        imports, forgotten = self._known_imports()
        content = BaseContent(
            seq=self._last_seq,
            ts_ns=latest_ts_ns,
            version=STATE_VERSION,
            imports=imports,
            imports_forgotten=forgotten,
            state=encode_state(self._state),
            lines=tuple(line for _, line in sorted(self._carried.values())),
        )
        data, digest = encode_content(self._look.node, content)
        across = next((r for r in self._runs if r.first_seq <= self._last_seq < r.last_seq), None)
        open_import = across.digest if across else None
        known = self._imports.get(open_import) if open_import else None
        dropped = RecordsDropped(
            first_seq=self._look.begin.seq + 1,
            last_seq=self._last_seq,
            first_ts_ns=self._first_ts_ns,
            last_ts_ns=self._last_ts_ns,
            latest_ts_ns=latest_ts_ns,
            records=dict(sorted(self._counts.items())),
            chain=self._chain.hex(),
            policy=policy.words,
            dropped_ts_ns=now_ns,
            imports=tuple(self._begun),
            open_import=open_import,
            open_import_complete=known is not None and known.complete,
            open_run=across is not None,
            base_digest=digest,
            earlier=_earlier(self._look.begin.base),
        )
        # In the order of replay the record belongs after the run that it stands in, whatever
        # the clock of this machine says.
        return dropped, data, max(self._runs[-1].max_ts_ns, self._runs[-1].first_ts_ns)

    def _fold(self) -> NodeState:
        """The state after all that goes."""
        state = state_of_base(self._look)
        runs = [
            msgspec.structs.replace(run, last_seq=min(run.last_seq, self._last_seq))
            for run in self._runs
            if run.first_seq <= self._last_seq
        ]
        for record in replay_runs(runs, lambda seq: self._look.records(seq, verify="crc")):
            superseded = is_superseded(record.seq, self._superseded)
            if not self._counts:
                self._first_ts_ns = self._last_ts_ns = record.ts_ns
            self._first_ts_ns = min(self._first_ts_ns, record.ts_ns)
            self._last_ts_ns = max(self._last_ts_ns, record.ts_ns)
            self._counts[record.kind] += 1
            if not superseded:
                evolve(state, record)
        # The state after all of them, whichever came last in the order of time.
        state.seq = self._last_seq
        return state

    def _read_again(self) -> None:
        """Prove the chain; take out imports, and records that are carried on."""
        if self._before is not None:
            self._imports = {known.digest: known for known in self._before.imports}
            for record, line in zip(self._before.records, self._before.lines, strict=True):
                self._carry(record, line)
        for raw in self._look.raw_lines():
            if raw.seq > self._last_seq:
                break
            self._chain = chain_of(raw.line)
            if kind_of(raw.line) in _READ_AGAIN:
                record = decode_line(raw.line)
                self._note(record)
                if not is_superseded(record.seq, self._superseded):
                    self._carry(record, raw.line)

    def _note(self, record: Record) -> None:
        body = record.body
        if isinstance(body, ImportStarted):
            self._begun.append(body.digest)
            self._imports[body.digest] = DroppedImport(
                digest=body.digest, sources=body.sources, year=body.year
            )
        elif isinstance(body, ImportCompleted) and (known := self._imports.get(body.digest)):
            self._imports[body.digest] = msgspec.structs.replace(known, complete=True)

    def _carry(self, record: Record, line: bytes) -> None:
        """Keep the newest of what later decisions rest on: settings, and pods that are there."""
        body = record.body
        if not isinstance(body, _CARRIED):
            return
        key: object = body.kind
        if isinstance(body, PodListed):
            pod = pod_key(body.pod_uid, body.namespace, body.pod)
            if pod not in self._state.lifecycle.pods or body.gone:
                return
            key = (pod, body.listed_by)
        self._carried[key] = (record.seq, line)

    def _known_imports(self) -> tuple[tuple[DroppedImport, ...], int]:
        """The newest imports, as many as have a bounded number of sources; how many have not."""
        forgotten_before = self._before.imports_forgotten if self._before else 0
        kept: list[DroppedImport] = []
        sources = 0
        for known in reversed(self._imports.values()):
            sources += len(known.sources) + 1
            if sources > _SOURCES_MAX:
                break
            kept.append(known)
        return tuple(reversed(kept)), forgotten_before + len(self._imports) - len(kept)


def _earlier(base: Base | None) -> tuple[EarlierDrop, ...]:
    """The drops up to a base; the oldest ones as one."""
    if base is None:
        return ()
    dropped = base.dropped
    newest = EarlierDrop(
        seq=base.record_seq,
        first_seq=dropped.first_seq,
        last_seq=dropped.last_seq,
        chain=dropped.chain,
        dropped_ts_ns=dropped.dropped_ts_ns,
        policy=dropped.policy,
    )
    drops = [*dropped.earlier, newest]
    if len(drops) > _EARLIER_MAX:
        first, second = drops[:2]
        merged = msgspec.structs.replace(
            second, first_seq=first.first_seq, drops=first.drops + second.drops
        )
        drops[:2] = [merged]
    return tuple(drops)
