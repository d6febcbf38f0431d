"""One task: a source into the lake, or a node verified by new rules; and whose fault it failed.

The same function on every engine: a :class:`NodeSpec` in, a :class:`NodeResult` out, and what
belongs to one source is in it and not raised. A process that dies in it changes nothing but
that a few files may lie in the lake which nobody names.
"""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import duckdb
import msgspec

from kubeledger.fleet.contents import (
    BundleContent,
    Content,
    chain_of_node,
    content_of,
    options_of,
    pods_of_ledger,
)
from kubeledger.fleet.generation import commit_generation, fetch_ledger
from kubeledger.fleet.identity import identity_of, rules_version
from kubeledger.fleet.lake import Lake, MovedOnError, in_turns
from kubeledger.fleet.repair import repaired
from kubeledger.fleet.sealed import scratch_directory
from kubeledger.fleet.sources import Fetched, fetch, refuse_changed
from kubeledger.fleet.types import Failure, Head, NodeResult, NodeSpec, NodeSummary
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import KubeledgerError, LedgerUnavailableError
from kubeledger.remote.store import StorageError

Kind = Literal["input", "storage", "resources", "bug"]

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_REASON_MAX = 500
_PLACE_MAX = 200

_ADVICE: dict[Kind, str] = {
    "resources": "give the workers more disk (below TMPDIR) or memory, or run fewer at once",
    "storage": "what was committed is intact: import again when storage is well",
    "bug": "report it, with the version and what kind of source it is",
}
_OURS = ("resources", "bug")
"""An error's own advice is for the import of one source into one ledger."""


class OtherRulesError(KubeledgerError):
    """The worker is of another version than the run."""

    exit_code: ClassVar[int] = 2


def refuse_other_rules(rules: str) -> None:
    """A worker gives no answer under other rules than those of the run.

    Raises:
        OtherRulesError: it has others.
    """
    if rules != rules_version():
        raise OtherRulesError(
            f"a worker has another kubeledger ({rules_version()}) than this run ({rules})",
            advice="install the same one on all workers, or let them use the same image",
        )


def failure_of(spec: NodeSpec, error: Exception) -> Failure:
    """What to report of a task that failed, in one sentence, without places on the worker."""
    kind = _kind(error)
    advice = error.advice if isinstance(error, KubeledgerError) else ""
    return Failure(
        source=spec.subject,
        kind=kind,
        reason=" ".join(_words(error).split())[:_REASON_MAX],
        advice=_ADVICE[kind] if kind in _OURS else advice or _ADVICE.get(kind, ""),
        ts_ns=spec.started_ns,
    )


def _kind(error: Exception) -> Kind:
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _NO_ROOM:
            return "resources"
        if isinstance(cause, MemoryError | duckdb.OutOfMemoryException):
            return "resources"
    if isinstance(error, StorageError | MovedOnError):
        return "storage"
    if isinstance(error, OtherRulesError | LedgerUnavailableError | OSError | duckdb.IOException):
        return "resources"
    return "input" if isinstance(error, KubeledgerError) else "bug"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it was raised for, also where they are not to be printed."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__


def _words(error: Exception) -> str:
    if isinstance(error, KubeledgerError):
        place = error.place
        if len(place) > _PLACE_MAX:  # a long path is not to push out what is wrong with it
            place = f"{place[: _PLACE_MAX // 2]}…{place[-_PLACE_MAX // 2 :]}"
        return f"{place}: {error.message}" if place else error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


def node_task(spec: NodeSpec) -> NodeResult:
    """Do it.

    Returns:
        what became of it; a source that cannot be brought into the lake is a failure in it.

    Raises:
        OtherRulesError: this worker is of another version than the run, which concerns all tasks.
    """
    refuse_other_rules(spec.rules)
    began_ns, began_cpu_ns = time.monotonic_ns(), time.process_time_ns()
    result = NodeResult(spec=spec)
    try:
        heads, changed = _done(spec)
        result = msgspec.structs.replace(result, heads=heads, changed=changed)
    except Exception as error:  # the fleet continues with the other sources
        result = msgspec.structs.replace(result, failure=failure_of(spec, error))
    return msgspec.structs.replace(
        result,
        wall_ms=(time.monotonic_ns() - began_ns) // 1_000_000,
        cpu_ms=(time.process_time_ns() - began_cpu_ns) // 1_000_000,
    )


_Heads = tuple[tuple[Head, ...], tuple[str, ...]]
"""The heads of a task's nodes, and the keys of those that got a new generation."""


def _done(spec: NodeSpec) -> _Heads:
    with scratch_directory(spec.scratch) as scratch, _without_place(scratch):
        lake = Lake.open_or_create(spec.lake)
        if spec.source is not None:
            return _taken_in(spec, lake, scratch)
        once = _verified_again if spec.repair is None else repaired
        head, is_new = in_turns(partial(once, spec, lake), scratch)
        return (head,), (head.node,) if is_new else ()


@contextmanager
def _without_place(scratch: Path) -> Iterator[None]:
    """Errors without the temporary place of something: it is no longer there."""
    try:
        yield
    except KubeledgerError as error:
        if error.file is not None and error.file.startswith(str(scratch)):
            error.file = None
        raise


# --- a source -----------------------------------------------------------------------------


class _Work(NamedTuple):
    """One node of a source.

    Attributes:
        began_cpu_ns: processor time of the process when it began.
    """

    spec: NodeSpec
    lake: Lake
    fetched: Fetched
    content: Content
    name: str
    began_cpu_ns: int


def _taken_in(spec: NodeSpec, lake: Lake, scratch: Path) -> _Heads:
    """All nodes of a source into the lake."""
    assert spec.source is not None
    began_cpu_ns = time.process_time_ns()
    source, opened = scratch / "source", scratch / "opened"
    source.mkdir()
    opened.mkdir()
    fetched = fetch(spec.source, source)
    heads, changed = [], []
    try:
        content = content_of(fetched.path, opened, _options(spec, spec.options))
        is_read = isinstance(content, BundleContent)
        seen = msgspec.structs.replace(
            fetched.seen, nodes=len(content.names), options=spec.options if is_read else None
        )
        fetched = Fetched(fetched.path, seen)
        for name in content.names:
            work = _Work(spec, lake, fetched, content, name, began_cpu_ns)
            head, is_new = in_turns(partial(_node_taken_in, work), scratch)
            heads.append(head)
            changed += [head.node] if is_new else []
            began_cpu_ns = time.process_time_ns()
    except KubeledgerError as error:
        if error.file is not None:
            error.file = error.file.replace(str(fetched.path), spec.source)
        raise
    return tuple(heads), tuple(changed)


def _node_taken_in(work: _Work, scratch: Path) -> tuple[Head, bool]:
    """What a source adds of a node to what the lake has; the head, and if it is new."""
    spec, lake, seen = work.spec, work.lake, work.fetched.seen

    def pods(head: Head) -> frozenset[str]:
        place = scratch / f"{head.id}.ledger"
        fetch_ledger(lake, head, place)
        return pods_of_ledger(Ledger.open(place), head.summary.name)

    who = identity_of(lake, spec, seen, work.content, work.name, pods)
    base = who.base
    sources = base.sources if base is not None else ()
    before = [known for known in sources if seen.digest == known.digest or seen.url == known.url]
    is_read_anew = not all(known.is_read_as(spec.options) for known in before)
    directory = scratch / "ledger"
    if base is not None:
        if not is_read_anew and any(seen.digest == known.digest for known in before):
            return _by_these_rules(spec, lake, base, scratch)
        fetch_ledger(lake, base, scratch / "before" if is_read_anew else directory)
    if before and seen.options is not None:  # an option that is not given stays as it is
        seen = msgspec.structs.replace(seen, options=(before[-1].options or {}) | spec.options)
    if is_read_anew and isinstance(work.content, BundleContent):
        options = _options(spec, seen.options or {})
        work.content.add_anew(work.name, scratch / "before", directory, options)
        sources = tuple(known for known in sources if known.digest != seen.digest)
    else:
        work.content.add_to(work.name, directory)
    refuse_changed(seen)
    if (
        base is not None
        and not is_read_anew
        and base.summary.chain == chain_of_node(Ledger.open(directory), work.name)
    ):
        return _by_these_rules(spec, lake, base, scratch)
    summary = NodeSummary(
        node=who.key,
        name=work.name,
        cluster=base.summary.cluster if base is not None else None,
        pool=base.summary.pool if base is not None else None,
        machine_id=who.machine,
        import_cpu_ms=(time.process_time_ns() - work.began_cpu_ns) // 1_000_000,
    )
    head = commit_generation(lake, scratch, (*sources, seen), spec.labelled(summary), base)
    return head, True


def _options(spec: NodeSpec, given: Mapping[str, str]) -> ImportOptions:
    """How to read a source, by ``SourceSeen.options``."""
    return options_of(given, spec.node_name)


# --- a node of the lake -------------------------------------------------------------------


def _verified_again(spec: NodeSpec, lake: Lake, scratch: Path) -> tuple[Head, bool]:
    """A node that the lake has, by the rules of this program."""
    assert spec.node is not None
    return _anew(spec, lake, lake.node(spec.node), scratch)


def _by_these_rules(spec: NodeSpec, lake: Lake, base: Head, scratch: Path) -> tuple[Head, bool]:
    """A head of these rules and labels: the one that is there, or a new one."""
    if base.summary.rules == spec.rules and spec.labelled(base.summary) == base.summary:
        return base, False
    return _anew(spec, lake, base, scratch)


def _anew(spec: NodeSpec, lake: Lake, base: Head, scratch: Path) -> tuple[Head, bool]:
    """Verify a head again; it stays the same by the same rules and labels."""
    directory = scratch / "ledger"
    if not directory.exists():
        fetch_ledger(lake, base, directory)
    head = commit_generation(lake, scratch, base.sources, spec.labelled(base.summary), base)
    return head, head.id != base.id
