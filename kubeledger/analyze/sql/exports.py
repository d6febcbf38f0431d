"""Records for other programs: excerpts of a ledger, CloudEvents, one Parquet file."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from kubeledger.analyze.sql.listing import Filter, body_of, pods_of, selection
from kubeledger.analyze.summaries import subject_of
from kubeledger.ledger.engine import engine
from kubeledger.ledger.history.parts import create_lines, quoted, rows_sql, upcast_lines
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reading import replays_in_seq_order
from kubeledger.ledger.standalone import encode_recording
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    LogThinned,
    NodeObserved,
    SettingsObserved,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.model.wire.codec import decode_line
from kubeledger.replay.instants import renumbered
from kubeledger.verify import Contradiction, Finding, Outcome, Reader, verify
from kubeledger.verify.evidence.sync_loop import PodsWithoutAdd
from kubeledger.verify.registry import kinds_seen_for

_NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that no attribute may hold; names in a damaged log may."""


def event_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """A line a record: its event as JSON."""
    encode = msgspec.json.Encoder().encode
    return (encode(cloud_event(record)) + b"\n" for record in records)


def cloud_event(record: Record) -> dict[str, Any]:
    """The event of a record.

    ``id`` follows from what the record says, so that the same record is the same event in every
    export. ``subject`` is left out where a record is about the node as a whole, the extensions
    ``cause`` and ``evidence`` (``file:line`` of the first piece) where the record has none.

    Returns:
        attributes by name, ``data`` among them: the body as it is on disk.
    """
    body = body_of(record)
    texts = (
        ("subject", subject_of(body)),
        ("node", record.node),
        ("role", record.role),
        ("evidence", record.evidence[0].place if record.evidence else ""),
    )
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": _digest(record),
        "source": f"node/{quote(record.node, safe='')}",
        "type": f"io.kubeledger.{record.kind}.v{record.v}",
        "time": format_ts(record.ts_ns),
        "datacontenttype": "application/json",
        **{name: _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text) for name, text in texts if text},
        "seq": record.seq,
    }
    if record.cause is not None:
        event["cause"] = record.cause
    return {**event, "data": body}


def _digest(record: Record) -> str:
    """BLAKE2b-128 of what the record says, as hexadecimal digits."""
    identity = (record.node, record.seq, record.ts_ns, record.kind, record.v, record.body)
    data = msgspec.json.encode(identity, order="sorted")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# Records as one Parquet file, for programs that read no ledger.

_OPTIONS = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v1"


def write_parquet(lines: Iterable[bytes], scratch: Path) -> tuple[Path, int]:
    """A row for each record: the columns of the view ``events`` and the evidence.

    Args:
        lines: of the records, each with its newline.
        scratch: an empty directory, whose name holds no pattern.

    Returns:
        The file, below ``scratch``, and how many rows it has.

    Raises:
        DamagedLedgerError: a record is of a newer version.
        duckdb.Error, OSError: the file cannot be written.
    """
    copy, made = scratch / "lines.jsonl", scratch / "records.parquet"
    with copy.open("wb") as file:
        file.writelines(lines)
    with engine(scratch) as connection:
        connection.execute(create_lines("part", str(copy)))
        upcast_lines(connection, "part", scratch)
        connection.execute(
            f"COPY ({rows_sql('part')} ORDER BY node, seq) TO {quoted(str(made))} ({_OPTIONS})"
        )
        (count,) = connection.execute("SELECT count(*) FROM part").fetchone() or (0,)
    return made, int(count)


# Excerpts of a ledger: what passes a filter, and what a reader needs besides.

_LISTS = frozenset(kind.kind for kind in PodsWithoutAdd.KINDS)
"""Lists, and the pods' arrivals: a pod that only a list shows has lost its lines."""
_BEFORE_NS, _AFTER_NS = 600 * NS_PER_S, 60 * NS_PER_S
_GROWTH = 4
"""A step with kinds lets what is kept grow by one in so many at least: each is verified."""


class _Step(IntEnum):
    """Where to look, as the module says."""

    NAMED = 1
    PODS = 2
    LISTS = 3
    MINUTES = 4
    ALL_TIMES = 5
    EVERYTHING = 6


def with_inputs(read: Reader, kept: Collection[int], wanted: Collection[int]) -> set[int]:
    """Records that verify by themselves as they do among all.

    Args:
        read: opens all records of a node.
        kept: (n,) seqs of records that are kept in any case.
        wanted: (n,) seqs of the decisions among them whose verdicts must be the same.

    Returns:
        seqs of all that is to be kept, with their causes. Of these records no decision is
        impossible that is not so among all, and nothing is a contradiction that is not one among
        all. Memory grows with the number of records.
    """
    whole = _Whole(read)
    chosen = whole.with_causes(kept)
    steps: dict[Hashable, list[_Step]] = defaultdict(lambda: list(_Step))
    while True:
        grown: set[Hashable] = set()
        for outcome in list(whole.differences(chosen, wanted)):
            left = steps[_key(outcome)]
            while left:
                of_node = left[0] >= _Step.LISTS
                group = _kinds_for(outcome) if of_node else _key(outcome)
                if group in grown:  # the verifier has had a step of the node's records already
                    break
                added = whole.step(left[0], outcome, chosen) - chosen
                if added:
                    chosen |= added if of_node else whole.with_causes(added)
                    grown.add(group)
                    break
                del left[0]
        if not grown:
            return chosen


class _Whole:
    """All records of a node, and what verification says of them."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._by_kind: dict[str, list[int]] = defaultdict(list)
        self._by_pod: dict[str, set[int]] = defaultdict(set)
        self._causes: dict[int, int] = {}
        self._effects: dict[int, list[int]] = defaultdict(list)
        self._pods: dict[int, tuple[str, ...]] = {}
        self._times: dict[int, int] = {}
        for record in read(None):
            self._by_kind[record.kind].append(record.seq)
            self._times[record.seq] = record.ts_ns
            self._pods[record.seq] = pods = tuple(pods_of(record.body))
            for pod in pods:
                self._by_pod[pod].add(record.seq)
            if record.cause is not None:
                self._causes[record.seq] = record.cause
                self._effects[record.cause].append(record.seq)
        self._outcomes = {_key(outcome): outcome for outcome in verify(read)}

    def with_causes(self, seqs: Iterable[int]) -> set[int]:
        """These records and all that led to them."""
        found: set[int] = set()
        for seq in seqs:
            above: int | None = seq
            while above is not None and above not in found:
                found.add(above)
                above = self._causes.get(above)
        return found & self._pods.keys()

    def differences(self, chosen: set[int], wanted: Collection[int]) -> Iterator[Outcome]:
        """What verification says of the chosen records alone, and must not."""
        for outcome in verify(
            lambda kinds: (record for record in self._read(kinds) if record.seq in chosen)
        ):
            known = self._outcomes.get(_key(outcome))
            if isinstance(outcome, Contradiction):
                if known is None:
                    yield outcome
                continue
            verdict = known.verdict if isinstance(known, Finding) else None
            is_wanted = outcome.seq in wanted and outcome.recorded is not None
            if outcome.verdict != verdict and (is_wanted or outcome.verdict == "impossible"):
                yield outcome

    def step(self, step: _Step, outcome: Outcome, chosen: set[int]) -> set[int]:
        """What the outcome may rest on, more with each step."""
        match step:
            case _Step.NAMED:
                return self._named(outcome)
            case _Step.PODS:
                pods = {pod for seq in self._named(outcome) for pod in self._pods.get(seq, ())}
                about = {seq for pod in pods for seq in self._by_pod[pod]}
                return about & self._of_kinds(_kinds_for(outcome))
            case _Step.LISTS:
                return self._of_kinds(_LISTS)
            case _Step.MINUTES:
                span = outcome.ts_ns - _BEFORE_NS, outcome.ts_ns + _AFTER_NS
                return self._rarest(_kinds_for(outcome), chosen, span)
            case _Step.ALL_TIMES:
                return self._rarest(_kinds_for(outcome), chosen)
            case _Step.EVERYTHING:
                return set(self._pods)

    def _named(self, outcome: Outcome) -> set[int]:
        if isinstance(outcome, Contradiction):
            return {side.seq for side in outcome.sides}
        named = {outcome.seq, *outcome.inputs, *self._effects[self._causes.get(outcome.seq, 0)]}
        known = self._outcomes.get(_key(outcome))
        return named | set(known.inputs) if isinstance(known, Finding) else named

    def _of_kinds(self, kinds: frozenset[str] | None) -> set[int]:
        names = self._by_kind if kinds is None else kinds & self._by_kind.keys()
        return {seq for kind in names for seq in self._by_kind[kind]}

    def _rarest(
        self, kinds: frozenset[str] | None, chosen: set[int], span: tuple[int, int] | None = None
    ) -> set[int]:
        """What is not chosen yet (in a span of time), kinds with the fewest records first."""
        names = self._by_kind if kinds is None else kinds & self._by_kind.keys()
        missing = []
        for kind in names:
            left = {
                seq
                for seq in self._by_kind[kind]
                if seq not in chosen and (span is None or span[0] <= self._times[seq] <= span[1])
            }
            if left:
                missing.append((len(left), kind, left))
        added: set[int] = set()
        for _, _, left in sorted(missing):
            added |= left
            if len(added) * _GROWTH >= len(chosen):
                break
        return added


def _key(outcome: Outcome) -> Hashable:
    if isinstance(outcome, Contradiction):
        return outcome.why, tuple(side.seq for side in outcome.sides)
    return outcome.seq, outcome.kind, outcome.recorded is None


def _kinds_for(outcome: Outcome) -> frozenset[str] | None:
    """What its verifier looks at; None, any kind, where nobody says which verifier it was."""
    return kinds_seen_for(outcome.kind) if isinstance(outcome, Finding) else None


_ALWAYS = (ClockStepped, KubeletStarted, LogThinned, NodeObserved, SettingsObserved)


def excerpt(ledger: Ledger, wanted: Filter) -> Iterator[Record]:
    """Records that pass the filter, in the order of replay and with their own numbers.

    Besides these, up to the end of the time asked for: starts of the kubelet, its settings, the
    node, the lists of pods (of the pod asked for, if there is one), and what is known to be lost.
    Of one pod also what its decisions rest on, so that they verify as in the ledger
    (:func:`with_inputs`).

    Raises:
        BadQuestionError: the ledger has no such node.
        DamagedLedgerError: a line is not as it was written; all before it were given.
    """
    wants = selection(ledger, wanted)
    until = msgspec.structs.replace(wanted, since_ns=None, kinds=())
    in_time = selection(ledger, msgspec.structs.replace(until, pod=None, container=None))
    of_pod = selection(ledger, msgspec.structs.replace(until, container=None))
    for node in ledger.nodes() if wanted.node is None else [wanted.node]:
        missing = {loss.seq for loss in ledger.info(node).missing}

        def is_needed(record: Record, missing: Collection[int] = missing) -> bool:
            always = isinstance(record.body, _ALWAYS) or record.seq in missing
            return (always and in_time(record)) or (
                isinstance(record.body, PodListed) and of_pod(record)
            )

        if wanted.pod is None:
            yield from (r for r in ledger.replay(node) if wants(r) or is_needed(r))
            continue
        read = partial(_read, ledger, node, in_time)
        kept = {record.seq for record in read(None) if wants(record) or is_needed(record)}
        mine = {record.seq for record in read(None) if record.role == "decision" and wants(record)}
        if mine:
            kept = with_inputs(read, kept, mine)
        yield from (record for record in read(None) if record.seq in kept)


def _read(
    ledger: Ledger, node: str, in_time: Callable[[Record], bool], kinds: Collection[str] | None
) -> Iterator[Record]:
    for record in ledger.replay(node):
        if in_time(record) and (kinds is None or record.kind in kinds):
            yield record


def lines_of_excerpt(ledger: Ledger, wanted: Filter) -> Iterator[bytes]:
    """Lines of a recording; the ledger's own lines where nothing is left out.

    A recording is replayed in the order of its lines. So records are numbered again where some
    are left out, and where imports overlap in time.

    Raises:
        KubeledgerError: as :func:`excerpt`.
    """
    if wanted != Filter(node=wanted.node):
        yield from encode_recording(renumbered(excerpt(ledger, wanted)))
        return
    for node in ledger.nodes() if wanted.node is None else [wanted.node]:
        info = ledger.info(node)
        latest_ts_ns = max((run.max_ts_ns for run in info.runs), default=0)
        if replays_in_seq_order(info.runs, info.last_seq, latest_ts_ns):
            for raw in ledger.raw_lines(node):
                yield raw.line
        else:
            yield from encode_recording(renumbered(ledger.replay(node)))


def records_of_excerpt(ledger: Ledger, wanted: Filter) -> Iterator[Record]:
    """The records whose lines :func:`lines_of_excerpt` gives.

    Raises:
        KubeledgerError: as :func:`excerpt`.
    """
    for line in lines_of_excerpt(ledger, wanted):
        yield decode_line(line)
