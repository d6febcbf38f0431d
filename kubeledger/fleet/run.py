"""A fleet's run: what is to be done, done on an engine, and what came of it.

sources ─► plan ─► specs ─► engine ─► results ─► failures kept in, or taken off, the lake
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

import msgspec

from kubeledger.fleet.engines.engine import ATTEMPTS, Again, Ended, Engine, Lost
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import done_of
from kubeledger.fleet.types import Failure, Head, NodeResult, NodeSpec, SourceSeen
from kubeledger.model.errors import BadQuestionError, KubeledgerError
from kubeledger.remote.store import StorageError

_LOOKERS = 32
"""Sources whose stamps are looked up at once: in object storage each costs a round trip."""

_DIGEST_BYTES = 8

_AGAIN: Mapping[str, Again] = {"storage": "later", "resources": "alone"}
"""Kinds of failures that another attempt may not have."""


class Shard(NamedTuple):
    """One of several runs that share the sources: the ``number``-th of ``of``, from 0."""

    number: int
    of: int

    def holds(self, source: str) -> bool:
        """Whether a source, by its URL, is this shard's; of all shards one says so."""
        digest = hashlib.blake2b(source.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES)
        return int.from_bytes(digest.digest()) % self.of == self.number


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done.

    Attributes:
        specs: (n,) tasks.
        unchanged: (m,) URLs of sources that the lake has, or keys of nodes that are verified.
        elsewhere: how many sources are other shards'.
        heads: key -> node of the lake, as it was before.
        failed: sources, or ``node KEY``, that the lake keeps a failure of.
    """

    specs: tuple[NodeSpec, ...]
    unchanged: tuple[str, ...]
    elsewhere: int
    heads: dict[str, Head]
    failed: frozenset[str]


def parse_shard(text: str) -> Shard:
    """A shard ``i/n``, as the command line has it.

    Raises:
        BadQuestionError: it is none.
    """
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise BadQuestionError(
            f"{text!r} is not a shard", advice="of four shards they are 0/4, 1/4, 2/4 and 3/4"
        )
    return Shard(int(number), int(of))


def plan_import(
    lake: Lake,
    sources: Sequence[str],
    settings: NodeSpec,
    stamp_of: Callable[[str], str],
    shard: Shard | None = None,
) -> Plan:
    """Find the sources that the lake does not have as they are.

    Of those that it has, nodes that other rules than today's verified are verified again, and so
    are those that the settings call by another pool or cluster.

    Args:
        sources: (n,) absolute URLs.
        settings: the spec of all of them, without the source.
        stamp_of: see ``SourceSeen.stamp``; a source that it does not know becomes a task, which
            will say why.
        shard: leave out the sources of others.

    Raises:
        BadQuestionError: the lake has one as another node than the settings say.
        StorageError, DamagedLedgerError: the lake cannot be read.
    """
    heads = lake.heads()
    seen: dict[tuple[str, str], list[tuple[Head, SourceSeen]]] = defaultdict(list)
    for head in heads.values():
        for known in head.sources:
            seen[known.url, known.stamp].append((head, known))

    def is_there(source: str) -> bool:
        try:
            found = seen.get((source, stamp_of(source)), [])
        except KubeledgerError:
            return False
        _refuse_another_node(found, settings)
        # Of a source of several nodes, a run that died may have brought in some of them.
        return len(found) >= max((known.nodes for _, known in found), default=1) and all(
            known.is_read_as(settings.options) for _, known in found
        )

    ours = [source for source in sources if shard is None or shard.holds(source)]
    with ThreadPoolExecutor(_LOOKERS) as lookers:
        there = list(lookers.map(is_there, ours))
    unchanged = tuple(source for source, known in zip(ours, there, strict=True) if known)
    return Plan(
        specs=(
            *(
                msgspec.structs.replace(settings, source=source)
                for source, known in zip(ours, there, strict=True)
                if not known
            ),
            *_verifications(heads, frozenset(unchanged), settings),
        ),
        unchanged=unchanged,
        elsewhere=len(sources) - len(ours),
        heads=heads,
        failed=_failed(lake),
    )


def _verifications(
    heads: Mapping[str, Head], sources: Collection[str], settings: NodeSpec
) -> Iterator[NodeSpec]:
    """Tasks for the nodes of some sources under other rules or labels: sources stay unread."""
    plain = msgspec.structs.replace(settings, name=None, kubelet_version=None, year=None)
    for key, head in heads.items():
        row = head.summary
        is_other = row.rules != settings.rules or settings.labelled(row) != row
        if is_other and any(source.url in sources for source in head.sources):
            yield msgspec.structs.replace(plain, node=key)


def _refuse_another_node(found: Sequence[tuple[Head, SourceSeen]], settings: NodeSpec) -> None:
    """Records are of the node that they were imported for."""
    for head, known in found:
        row = head.summary
        is_in = settings.cluster is None or row.cluster in (None, settings.cluster)
        if is_in and (known.options is None or settings.node_name in (None, row.name)):
            return
    for head, known in found[:1]:
        raise BadQuestionError(
            f"the lake has it already, as node {head.node}",
            advice=f"leave --node and --cluster out, or say --node {head.node}; what is imported "
            "for another node belongs into another lake",
            file=known.url,
        )


def plan_verify(lake: Lake, settings: NodeSpec, *, all_: bool = False) -> Plan:
    """Find the nodes that other rules than today's verified; ``all_``: all nodes.

    Raises:
        StorageError, DamagedLedgerError: the lake cannot be read.
    """
    heads = lake.heads()
    stale = {key for key, head in heads.items() if all_ or head.summary.rules != settings.rules}
    return Plan(
        specs=tuple(msgspec.structs.replace(settings, node=key) for key in heads if key in stale),
        unchanged=tuple(key for key in heads if key not in stale),
        elsewhere=0,
        heads=heads,
        failed=_failed(lake),
    )


def plan_repair(
    lake: Lake, settings: NodeSpec, nodes: Collection[str], *, partly: bool = False
) -> Plan:
    """Plan to look at all files of these nodes, or of all, and to repair what is damaged.

    Args:
        lake: whose small files are sound (``repair.mend_small_files``).
        settings: the spec of all of them, without the node.
        nodes: keys; none: all.
        partly: see ``NodeSpec.repair``.

    Raises:
        BadQuestionError: the lake knows no such node.
        StorageError, DamagedLedgerError: the lake cannot be read.
    """
    heads = lake.heads()
    for unknown in sorted(set(nodes) - heads.keys()):
        raise BadQuestionError(f"the lake knows no node {unknown}", file=lake.store.url)
    how = msgspec.structs.replace(settings, repair="partly" if partly else "wholly")
    chosen = [key for key in heads if not nodes or key in nodes]
    return Plan(
        specs=tuple(msgspec.structs.replace(how, node=key) for key in chosen),
        unchanged=(),
        elsewhere=0,
        heads={key: heads[key] for key in chosen},
        failed=_failed(lake),
    )


def run_plan(
    lake: Lake,
    plan: Plan,
    engine: Engine,
    task: Callable[[NodeSpec], NodeResult],
    *,
    attempts: int = ATTEMPTS,
    timeout_s: float | None = None,
) -> Generator[NodeResult]:
    """Do what is planned; one result a task, as they come.

    A failure is kept in the lake; where the source is in the lake now, what was kept is removed.
    Whoever stops in the middle begins again with a new plan, which has the rest.

    Args:
        attempts: of a task whose worker dies, whose storage fails, or that lacks memory or disk.

    Raises:
        KubeledgerError: no task can run, the lake takes no failures, or workers on other machines
            write to another one.
    """
    _forget(lake, plan.failed.intersection(plan.unchanged))
    unsaved: list[Failure] = []
    with closing(
        engine.run(
            task,
            plan.specs,
            attempts=attempts,
            timeout_s=timeout_s,
            again=lambda result: whether_again(result.failure),
        )
    ) as all_ended:
        for ended in all_ended:
            result = _result(ended, engine)
            if not engine.one_machine and lake.store.directory is not None:
                _need_shared(lake, result)
            if result.failure is None:
                nodes = (f"node {head.node}" for head in result.heads)
                _forget(lake, plan.failed.intersection([ended.spec.subject, *nodes]))
            else:
                try:
                    lake.fail(result.failure)
                except StorageError:  # it may answer when the others are done
                    unsaved.append(result.failure)
            yield result
    for failure in unsaved:
        lake.fail(failure)


def _need_shared(lake: Lake, result: NodeResult) -> None:
    """A lake in a directory must be the same one for workers on other machines."""
    for head in result.heads:
        if not lake.store.list(done_of(head.node)):
            raise BadQuestionError(
                "a worker wrote to a directory of that name on another machine",
                advice="on a cluster, name object storage, or a directory that all machines share",
                file=lake.store.url,
            )


def _failed(lake: Lake) -> frozenset[str]:
    return frozenset(failure.source for failure in lake.failures())


def _forget(lake: Lake, subjects: Collection[str]) -> None:
    for subject in subjects:
        lake.forget_failure(subject)


def whether_again(failure: Failure | None) -> Again:
    """Whether another attempt may not fail so."""
    return "no" if failure is None else _AGAIN.get(failure.kind, "no")


def failure_of_loss(task: NodeSpec, lost: Lost, attempts: int, engine: Engine) -> Failure:
    """What to report of a task that has no result of its own."""
    return Failure(
        source=task.subject,
        kind=lost.kind,
        reason=lost.reason,
        advice=_advice(lost, engine),
        attempts=attempts,
        ts_ns=task.started_ns,
    )


def _result(ended: Ended[NodeSpec, NodeResult], engine: Engine) -> NodeResult:
    """The task's own result, or a failure of what was lost; with the number of attempts."""
    if ended.lost is not None:
        failure = failure_of_loss(ended.spec, ended.lost, ended.attempts, engine)
        return NodeResult(spec=ended.spec, failure=failure)
    assert ended.result is not None
    if ended.result.failure is None:
        return ended.result
    failure = msgspec.structs.replace(ended.result.failure, attempts=ended.attempts)
    return msgspec.structs.replace(ended.result, failure=failure)


def _advice(lost: Lost, engine: Engine) -> str:
    match lost.kind:
        case "timeout":
            return "give it more time: --timeout SECONDS"
        case "bug":
            return "please report it; `kubeledger import` of the source with --debug shows more"
    if not engine.one_machine:
        return "probably memory: give the workers more, or let fewer of them share a machine"
    if engine.workers == 1:
        return "probably memory: it needs a larger machine"
    return (
        f"probably memory, which {engine.workers} workers share: try "
        f"--workers {engine.workers // 2}, or a larger machine"
    )
