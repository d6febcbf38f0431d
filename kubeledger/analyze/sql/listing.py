"""Records by filter, and one record with what led to it and what came of it.

These read through the ledger's own reader, which proves the bytes of every line and
the chain.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from kubeledger.analyze.histories.derived import stretches_of
from kubeledger.analyze.histories.noting import SUBJECT_INDEX, Places, Stretch, seqs_naming, uids_of
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Body, Record

_MISSING_MAX = 20_000
"""Of more records that the index lacks, looking through their lines costs less than to add them."""

_CAUSE = re.compile(rb'"cause":(\d+),"evidence":')
_POD_FIELDS = (
    ("namespace", "pod", "pod_uid"),
    ("victim_namespace", "victim_pod", "victim_uid"),
    ("preemptor_namespace", "preemptor_pod", "preemptor_uid"),
)
EFFECTS_MAX = 1000
"""More effects of one record are not listed."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records; every condition must hold.

    Attributes:
        node: one node; None is all.
        pod: ``NAMESPACE/NAME``, ``NAME`` or UID; records that hold only the UID count too.
        kinds: (n,) glob patterns on the kind (``images.*``) or on its last part
            (``Pod*``), one of which must fit; empty is all.
        since_ns, until_ns: times, both included; None is open.
    """

    node: str | None = None
    pod: str | None = None
    container: str | None = None
    kinds: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A record in its chain.

    Attributes:
        causes: (n,) what led to it, the nearest first.
        effects: (n,) what it led to, directly or not, in the order of seq.
    """

    record: Record
    causes: tuple[Record, ...]
    effects: tuple[Record, ...]


def body_of(record: Record) -> dict[str, Any]:
    """The body as plain JSON values, with the names of the fields on disk."""
    body: dict[str, Any] = msgspec.to_builtins(record.body)
    return body


def list_records(ledger: Ledger, wanted: Filter) -> Iterator[Record]:
    """Records that pass the filter, in the order of seq, one node after the other.

    Of a pod only the records that name it are read where the ledger knows them, each proved by its
    CRC and as the one that follows on the line before it; else only their lines are parsed.

    Raises:
        BadQuestionError: the ledger has no such node.
        DamagedLedgerError: a line is not as it was written; all before it were given.
    """
    if wanted.pod is None:
        return filter(selection(ledger, wanted), ledger.records(wanted.node))
    uids = _uids_of(ledger, wanted)
    names = {wanted.pod.rpartition("/")[2], *uids}
    found = _naming(ledger, wanted.node, names)
    return (each for each in found if _passes(each, wanted) and _is_about(each, wanted, uids))


def _naming(ledger: Ledger, node: str | None, names: Collection[str]) -> Iterator[Record]:
    """Records that hold one of these names or UIDs of pods, and maybe others, by node and seq."""
    for name in ledger.nodes() if node is None else (node,):
        stretches = _index_of(ledger, name)
        if stretches is None:
            yield from ledger.records(name, holding=sorted(names))
            continue
        with ledger.reading(name) as look:
            yield from look.picked(seqs_naming(names, stretches))


def pods_of(body: Body) -> Iterator[str]:
    """UIDs and ``NAMESPACE/NAME`` of the pods that a body is about."""
    for fields in _POD_FIELDS:
        namespace, name, uid = (getattr(body, field, None) for field in fields)
        if uid is not None:
            yield uid
        if name is not None:
            yield f"{namespace}/{name}"


def selection(ledger: Ledger, wanted: Filter) -> Callable[[Record], bool]:
    """Whether a record of the ledger passes the filter; its node is not looked at.

    Raises:
        BadQuestionError: the ledger has no such node.
        DamagedLedgerError: a line is not as it was written.
    """
    uids = _uids_of(ledger, wanted) if wanted.pod else set()

    def wants(record: Record) -> bool:
        if wanted.pod:  # records that are appended later may name a new pod of this name
            _take_uids(record, wanted.pod, uids)
        return _passes(record, wanted) and _is_about(record, wanted, uids)

    return wants


def show_record(ledger: Ledger, seq: int, node: str | None = None) -> Shown:
    """One record, its causes and its effects.

    Raises:
        BadQuestionError: there is no such record, or several nodes have one of that number.
        DamagedLedgerError: a line is not as it was written.
    """
    record = _only_record(ledger, seq, node)
    causes: list[Record] = []
    above = record.cause
    while above is not None and above < (causes[-1] if causes else record).seq:
        cause = ledger.record(record.node, above)
        if cause is None:
            break
        causes.append(cause)
        above = cause.cause
    effects = tuple(
        effect
        for number in _effects_of(ledger, record)
        if (effect := ledger.record(record.node, number)) is not None
    )
    return Shown(record=record, causes=tuple(causes), effects=effects)


def _only_record(ledger: Ledger, seq: int, node: str | None) -> Record:
    nodes = [node] if node is not None else ledger.nodes()
    found = [record for name in nodes if (record := ledger.record(name, seq)) is not None]
    if len(found) > 1:
        names = ", ".join(record.node for record in found)
        raise BadQuestionError(
            f"record {seq} exists for several nodes: {names}", advice="name one with --node"
        )
    if not found:
        for begin in map(ledger.begin, nodes):
            if begin.base is not None and seq <= begin.seq:
                raise begin.base.refusal(f"record {seq} no longer exists")
        raise BadQuestionError(
            f"there is no record {seq}", advice="`kubeledger ls` shows the records' numbers"
        )
    return found[0]


def _effects_of(ledger: Ledger, record: Record) -> list[int]:
    led_by = {record.seq}
    effects: list[int] = []
    for raw in ledger.raw_lines(record.node, record.seq):
        # The envelope stands before the body, so the first match is the record's own cause.
        match = _CAUSE.search(raw.line)
        if match is not None and int(match[1]) in led_by:
            led_by.add(raw.seq)
            effects.append(raw.seq)
            if len(effects) == EFFECTS_MAX:
                break
    return effects


def _passes(record: Record, wanted: Filter) -> bool:
    if wanted.since_ns is not None and record.ts_ns < wanted.since_ns:
        return False
    if wanted.until_ns is not None and record.ts_ns > wanted.until_ns:
        return False
    name = record.kind.partition(".")[2]
    return not wanted.kinds or any(
        fnmatchcase(record.kind, pattern) or fnmatchcase(name, pattern) for pattern in wanted.kinds
    )


def _is_about(record: Record, wanted: Filter, uids: set[str]) -> bool:
    body = record.body
    if wanted.container is not None and getattr(body, "container", None) != wanted.container:
        return False
    if wanted.pod is None:
        return True
    return any(
        _names(body, fields, wanted.pod) or getattr(body, fields[2], None) in uids
        for fields in _POD_FIELDS
    )


def _names(body: object, fields: tuple[str, str, str], pod: str) -> bool:
    namespace, name, uid = (getattr(body, field, None) for field in fields)
    if name is None:
        return uid == pod
    return pod in {name, f"{namespace}/{name}", uid}


def _uids_of(ledger: Ledger, wanted: Filter) -> set[str]:
    """UIDs that the wanted pod had, so that records without its name are found."""
    uids: set[str] = set()
    pod = wanted.pod or ""
    for node in ledger.nodes() if wanted.node is None else (wanted.node,):
        stretches = _index_of(ledger, node)
        if stretches is not None:
            uids |= uids_of(pod, stretches)
            continue
        for record in ledger.records(node, verify="crc", holding=(pod.rpartition("/")[2],)):
            _take_uids(record, pod, uids)
    return uids


def _index_of(ledger: Ledger, node: str) -> list[Stretch[Places]] | None:
    with ledger.reading(node) as look:
        return stretches_of(ledger, look, SUBJECT_INDEX, missing_max=_MISSING_MAX)


def _take_uids(record: Record, pod: str, uids: set[str]) -> None:
    for fields in _POD_FIELDS:
        uid = getattr(record.body, fields[2], None)
        if uid is not None and _names(record.body, fields, pod):
            uids.add(uid)


_SUGGESTIONS_MAX = 3


def similar_pods(records: Iterable[Record], asked: str) -> list[str]:
    """Pods as ``NAMESPACE/NAME`` whose name may have been meant, the most likely first.

    Args:
        records: of any kinds.

    Returns:
        (n,) n <= 3: of the same name in another namespace; of a name that it begins, as
        a static pod's does with the node's name and others' with what their controller adds;
        of a name that is written much like it.
    """
    name = asked.rpartition("/")[2]
    pods: dict[str, str] = {}
    for record in records:
        body: Any = record.body
        if getattr(body, "object_kind", "Pod") == "Pod" and getattr(body, "pod", None):
            pods["/".join(filter(None, (body.namespace, body.pod)))] = body.pod
    same = sorted(pod for pod, its in pods.items() if its == name)
    longer = sorted(pod for pod, its in pods.items() if its.startswith(f"{name}-"))
    names = difflib.get_close_matches(name, sorted(set(pods.values())), _SUGGESTIONS_MAX)
    alike = sorted((pod for pod in pods if pods[pod] in names), key=lambda p: names.index(pods[p]))
    found = dict.fromkeys([*same, *longer, *alike])
    found.pop(asked, None)
    return list(found)[:_SUGGESTIONS_MAX]
