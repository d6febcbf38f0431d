"""A small node for the assemblers of pods, containers, probes and preemption.

They need one another, so they are tried together.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from kubeledger.ingest.assemblers import IN_ORDER
from kubeledger.ingest.correlate.assembler import Assembler
from kubeledger.ingest.correlate.assignments import CpuAssembler, MemoryAssembler
from kubeledger.ingest.correlate.context import BundleContext, KnownPod
from kubeledger.ingest.correlate.pulls import PullsAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.stages import StagesAssembler
from kubeledger.ingest.correlate.state_files import PodsStateAssembler
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.sources.items import ApiEvent, Fact, LogLine, PodList, PodsState
from kubeledger.model.record import Body, Evidence
from tests.ingest.feeding import at, hear, items_of, listening, log_line

_HEADER = re.compile(r"[IWEF]\d{4} ")


def klog(clock: str, file: str, message: str) -> str:
    """One line of klog text on the recordings' day."""
    return f"I1121 {clock}  4242 {file}:1] {message}"


def world(version: str | None = None) -> BundleContext:
    return BundleContext(node="n", kubelet_version=version)


def know_pod(
    context: BundleContext,
    name: str,
    uid: str,
    *,
    spec: dict[str, Any] | None = None,
    statuses: Sequence[dict[str, Any]] = (),
    seen: str = "00:00:00",
    namespace: str = "default",
) -> None:
    """A pod that some pod list of the bundle shows."""
    known = context.pods[uid] = KnownPod(
        namespace=namespace,
        name=name,
        uid=uid,
        first_seen_ts_ns=at(seen),
        listed_by="kubelet",
        evidence=Evidence(file="pods.json"),
    )
    for status in (None, *statuses):
        known.learn(spec, status)
    context.uids_by_name.setdefault((namespace, name), []).append(uid)


def container(name: str, **probes: dict[str, Any]) -> dict[str, Any]:
    """A pod spec of one container; ``liveness={...}`` and so on are its probes."""
    probe_fields = {f"{kind}Probe": probe for kind, probe in probes.items()}
    return {"containers": [{"name": name, **probe_fields}]}


def pod_list(
    clock: str,
    *pods: dict[str, Any],
    listed_by: Literal["kubelet", "api", "manifest"] = "kubelet",
    complete: bool = True,
) -> PodList:
    return PodList(
        ts_ns=at(clock),
        listed_by=listed_by,
        pods=list(pods),
        complete=complete,
        evidence=Evidence(file=f"{clock}/pods.json"),
    )


Shown = PodList | ApiEvent | PodsState
"""What files show beside a log."""


def ingest_lines(
    context: BundleContext, log: str | Iterable[str], lists: Sequence[Shown] = ()
) -> list[Fact]:
    """All facts of a log and of pod lists or events, numbered in the order they left in.

    Checks what must always hold: a cause leaves before its effect, and every fact stands
    on evidence.
    """
    text = log if isinstance(log, str) else "\n".join(log) + "\n"
    assemblers = _of_pods(context)
    routes = router(listening(*assemblers))
    waiting = sorted(lists, key=lambda item: item.ts_ns)
    facts: list[Fact] = []
    last_ns = 0
    for line in _entries(text):
        last_ns = line.ts_ns
        while waiting and waiting[0].ts_ns <= last_ns:
            _list(assemblers, waiting.pop(0), facts)
        read, handlers = hear(routes, line) or (line, ())
        for handler in handlers:
            _number(facts, handler(read))
    for item in waiting:
        _list(assemblers, item, facts)
        last_ns = item.ts_ns
    for assembler in assemblers:
        _number(facts, assembler.finish(last_ns))
    return facts


def _of_pods(context: BundleContext) -> list[Assembler]:
    """The assemblers about pods, and the managers whose refusals end a kubelet."""
    registers = Registers(context)
    others = (CpuAssembler, MemoryAssembler, PodsStateAssembler, PullsAssembler, StagesAssembler)
    kinds = [kind for kind in IN_ORDER if kind.shares_queue or kind in others]
    return [registers.assembler(kind) for kind in kinds]


def _entries(text: str) -> Iterator[LogLine]:
    """Log lines; one without a header belongs to the one before it."""
    entry: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        if _HEADER.match(line):
            if entry:
                yield log_line("\n".join(entry), first)
            entry, first = [line], number
        else:
            entry.append(line)
    if entry:
        yield log_line("\n".join(entry), first)


def _list(assemblers: Sequence[Assembler], item: Shown, facts: list[Fact]) -> None:
    for assembler in assemblers:
        handler = items_of(assembler).get(type(item))
        if handler is not None:
            _number(facts, handler(item))


def _number(facts: list[Fact], found: Iterable[Fact] | None) -> None:
    for fact in found or ():
        assert fact.seq is None, "a fact leaves once"
        assert fact.evidence, fact.body
        assert fact.cause is None or fact.cause.seq is not None, "a cause leaves first"
        fact.seq = len(facts) + 1
        facts.append(fact)


def values(body: Body, *fields: str) -> tuple[Any, ...]:
    plain = msgspec.structs.asdict(body)
    return tuple(plain[field] for field in fields)
