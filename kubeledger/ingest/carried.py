"""What an import of a node's logs hands on to the next, which goes on where it ended.

A bundle that comes in pieces tells what the whole tells: an import of one more piece reads the
pieces before it again (``pieces``). Where the new piece is a log that begins after the end of all
that was read, that would only bring all that reads a log to where it was at that end, before what
waited there was told as far as it was known. So that state is kept, and the next import goes on
from it. Records of what had been waiting are compared with what it comes to now, as if all had been
read again; those before stay.

It is kept for one last record of the ledger and one version of this program, and thrown away where
anything else is not as it was: where the whole shows another version, year or zone, where a line
of the new piece names a container that an earlier line asked for in vain, or a document is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from kubeledger.ingest.dispatch import DispatcherState
from kubeledger.ingest.klog.account import Account
from kubeledger.ingest.klog.log_survey import LogSurvey
from kubeledger.ingest.klog.reorder import begins_after
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.planning.bundle import FoundFile
from kubeledger.ingest.planning.plan import KubeletVersion, Plan
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.streams import Digests, SourceFile
from kubeledger.ledger.frozen import Frozen, NotFreezableError, NotFrozenError, freeze, thaw
from kubeledger.ledger.kept import KeptSource
from kubeledger.ledger.manifest import Span, is_superseded
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.snapshots import Snapshot, SnapshotStore, modules_version

_ROOMS: Final = ("model", "kubelet", "ledger", "replay", "ingest")
_PLAN: Final = "plan"
KEPT_MAX: Final = 32
"""Of so many imports it is kept: what a line shows of one of their times is read again from there.
"""
_NOT_KEPT: Final = frozenset({"source", "writers", "digests", "may_report"})
"""Of a survey: who wrote the entries of a log is asked where logs overlap, and these do not."""


class ReadState(msgspec.Struct):
    """All that reads logs, at the end of the last one.

    Attributes:
        dispatcher: the assemblers, and facts that wait.
        clock: of the stamps.
        accounts: file -> account of its lines.
        findings, confirmed: as the pipeline's.
        key_ns: time of the last item in the order of the bundle.
        logs: how many were read.
        plan_findings: what was found before anything was read.
        version, basis: of the kubelet, and what all times rest on.
        starts_ns: when kubelets stated their version.
    """

    dispatcher: DispatcherState
    clock: Clock
    accounts: dict[str, Account]
    findings: list[Finding]
    confirmed: Counter[str]
    key_ns: int
    logs: int
    plan_findings: list[Finding]
    version: KubeletVersion
    basis: tuple[int | str | None, ...]
    starts_ns: tuple[int, ...]


class Seam(msgspec.Struct):
    """As it is kept: the state at the end of a log, and where the records stood there.

    Attributes:
        logs: content's digest -> name under which it was read, in the order of reading.
        surveys: content's digest -> what a survey of the log found, and its format.
        state: a :class:`ReadState`.
        instant_ns: latest time of a fact, and ``instant_seq`` the last record of that time.
        seq: the last record of the import.
        superseded: how many records up to that one were superseded.
        tail: records that the import told afterwards, each with its time in the order of replay.
    """

    logs: dict[str, str]
    surveys: Frozen
    state: Frozen
    instant_ns: int
    instant_seq: int | None
    seq: int = 0
    superseded: int = 0
    tail: list[tuple[int, int]] = []


def is_plain(plan: Plan) -> bool:
    """Whether all that is read are logs, as they stand, and none holds lines of the kernel."""
    is_kubelets = not plan.context.kernel_reports and not plan.context.kernel_boots
    return is_kubelets and plan.recorded is None and all(map(_is_plain_log, plan.bundle.files))


def seam_of(plan: Plan, state: ReadState, instant_ns: int, instant_seq: int | None) -> Seam | None:
    """What is handed on from here; None where it cannot be kept.

    Args:
        instant_seq: the last record of that time.
    """
    logs = plan.timing.logs[: state.logs]
    formats = {file.digests.digest: file.format for file in plan.bundle.files}
    surveys = {log.digests.digest: (formats[log.digests.digest], _fields_of(log)) for log in logs}
    names = {log.digests.digest: log.source.name for log in logs}
    with suppress(NotFreezableError):
        frozen = freeze(surveys, {}), freeze(state, {_PLAN: plan})
        return Seam(names, *frozen, instant_ns, instant_seq)
    return None


def _is_plain_log(file: FoundFile) -> bool:
    survey = file.survey
    return (
        file.format in LOG_FORMATS
        and type(file.source) is SourceFile
        and survey is not None
        and not survey.goes_back
    )


def _fields_of(survey: LogSurvey) -> dict[str, Any]:
    names = (name for name in survey.__struct_fields__ if name not in _NOT_KEPT)
    return {name: getattr(survey, name) for name in names}


class Surveys:
    """Surveys of logs that were read, so that they need not be read for them again."""

    def __init__(self, seam: Seam | None) -> None:
        """None: there are none."""
        self._known: Mapping[str, tuple[str, dict[str, Any]]] = {}
        if seam is not None:
            self._known = thaw(seam.surveys, {})

    @property
    def digests(self) -> Collection[str]:
        """Of their contents."""
        return self._known.keys()

    def file(self, source: KeptSource, content: SourceFile) -> FoundFile | None:
        """A kept log, as if its content had been read."""
        form, fields = self._known.get(source.digest, ("", {}))
        if form != source.format:
            return None
        digests = Digests(source.size_bytes, source.digest, {})
        return FoundFile(content, form, digests, LogSurvey(content, digests, **fields))


def thawed_state(seam: Seam, plan: Plan) -> ReadState | int:
    """The state from which the rest of a plan can be read, in its terms.

    Returns:
        where it cannot, how many logs may be read before a seam from which it can.
    """
    logs = plan.timing.logs
    known, new = logs[: len(seam.logs)], logs[len(seam.logs) :]
    if [log.digests.digest for log in known] != [*seam.logs] or not new or not is_plain(plan):
        return len(known) - 1
    following = zip([*known[-1:], *new], new, strict=False)
    if not all(_surely_after(log, later) for log, later in following):
        return len(known) - 1
    names = {log.digests.digest: log.source.name for log in known}
    renamed = {old: names[digest] for digest, old in seam.logs.items() if names[digest] != old}
    atoms = [renamed.get(atom, atom) if type(atom) is str else atom for atom in seam.state.atoms]
    state = thaw(msgspec.structs.replace(seam.state, atoms=atoms), {_PLAN: plan})
    if not isinstance(state, ReadState):
        raise NotFrozenError
    context, whole = state.dispatcher.context, plan.context
    told = context.node, context.kubelet_version, state.version, state.basis, state.plan_findings
    tells = whole.node, whole.kubelet_version, plan.version, basis_of(plan), plan.findings
    if told != tells or whole.starts_ns[: len(state.starts_ns)] != state.starts_ns:
        return len(known) - 1
    asked = context.learn_containers(whole.containers)
    context.first_ts_ns, context.last_ts_ns = whole.first_ts_ns, whole.last_ts_ns
    context.starts_ns, context.logged_until_ns = whole.starts_ns, whole.logged_until_ns
    context.logs_read = len(known)
    return state if asked is None else asked


def _surely_after(log: LogSurvey, following: LogSurvey) -> bool:
    has_stamps = None not in (following.first_stamp, log.last_stamp)
    has_times = None not in (following.first_ns, log.last_ns)
    return (has_stamps or has_times) and begins_after(following, log)


def basis_of(plan: Plan) -> tuple[int | str | None, ...]:
    """What the times of all records rest on."""
    timing = plan.timing
    return timing.year, timing.year_source, timing.offset_ns, timing.first_ts_ns


class _Kept(msgspec.Struct):
    seams: list[Seam]


def load_seams(store: SnapshotStore, look: Reading) -> Iterator[Seam]:
    """What imports of a node handed on, and fits the chain and this program; the newest first."""
    for seq in reversed(store.seqs()):
        snapshot = store.load(seq, modules_version(_ROOMS))
        digest = None if snapshot is None else look.digest_at(seq)
        if snapshot is None or digest is None or digest.hex() != snapshot.chain:
            continue
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            for seam in reversed(msgspec.msgpack.decode(snapshot.state, type=_Kept).seams):
                if _is_settled(seam, look.info().superseded):
                    yield seam


def _is_settled(seam: Seam, superseded: Sequence[Span]) -> bool:
    """Whether all that was told before a seam still holds."""
    of_tail = sum(is_superseded(seq, superseded) for _, seq in seam.tail)
    return _count(superseded, seam.seq) == seam.superseded + of_tail


def _count(spans: Sequence[Span], upto_seq: int) -> int:
    return sum(min(last, upto_seq) - first + 1 for first, last in spans if first <= upto_seq)


def save_seams(store: SnapshotStore, look: Reading, seams: list[Seam]) -> None:
    """Keep what is handed on with the ledger's last record, as :data:`KEPT_MAX` says.

    Raises:
        LedgerUnavailableError: it cannot be written.
    """
    seq = look.info().last_seq
    digest = look.digest_at(seq)
    for seam in seams:
        seam.seq, seam.superseded = seq, _count(look.info().superseded, seq)
    with suppress(OverflowError, UnicodeEncodeError):
        if digest is not None:
            state, version = msgspec.msgpack.encode(_Kept(seams)), modules_version(_ROOMS)
            store.save(Snapshot(seq=seq, ts_ns=0, version=version, chain=digest.hex(), state=state))
    for other in store.seqs()[:-KEPT_MAX]:
        store.drop(other, other)
