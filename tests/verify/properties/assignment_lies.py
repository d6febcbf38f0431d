"""Lies about what managers assign: CPUs, memory of NUMA nodes, resizes, claims.

Each is told in every record that would show it: what a container is said to have stays so in later
sets and state files, a pod that is said to be refused leaves nothing behind. So it is for the
manager's own rules to catch it; only lies about a state file leave the lines as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.model.bodies.cgroups import PodsStateRead
from kubeledger.model.bodies.devicemanager import ClaimPrepared, ClaimReleased, DraManagerStateRead
from kubeledger.model.bodies.images import PullDecided
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodListed, PodRejected, PodResized
from kubeledger.model.bodies.resourcemanagers import (
    CpuAllocationFailed,
    CpuManagerStarted,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    CpuStateRefused,
    MemoryAllocated,
    MemoryAllocationFailed,
    MemoryBlock,
    MemoryManagerStateRead,
    MemoryReleased,
    MemoryStateRefused,
)
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S
from tests.verify.properties.reimported import numbered

Records = Sequence[Record]
Others = Mapping[int, Body | None]
Told = tuple[Record, list[Record]]
"""The record that a lie is about, and the history with it."""
Liar = Callable[[Records], Iterator[Told]]

KINDS: Final = (
    CpusAllocated, CpusReleased, CpuAllocationFailed, CpuStateRefused, MemoryAllocated,
    MemoryReleased, MemoryAllocationFailed, MemoryStateRefused, PodResized, ClaimPrepared,
    ClaimReleased, PullDecided, PodAdmitted, PodRejected,
)  # fmt: skip
"""Decisions of managers, and of admission, which asks them."""
_UNEXPECTED: Final = "UnexpectedAdmissionError"
_NO_CPUS: Final = "not enough cpus available to satisfy request"
_NO_MEMORY: Final = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is "
    "available"
)


def _told(records: Records, others: Others) -> list[Record]:
    """The history with some bodies as others, or gone."""
    kept: list[Record] = []
    for record in records:
        body = others.get(record.seq, record.body)
        if body is not None:
            kept.append(
                record if body is record.body else msgspec.structs.replace(record, body=body)
            )
    return numbered(kept)


def _with(body: Body, **fields: Any) -> Body:  # noqa: ANN401 # any field
    return msgspec.structs.replace(body, **fields)


def _of(records: Records, kind: type[Body]) -> Iterator[tuple[Record, Any]]:
    return ((record, record.body) for record in records if isinstance(record.body, kind))


def _after(records: Records, record: Record) -> Records:
    return records[records.index(record) :]


# -- CPUs ------------------------------------------------------------------------------------------


def _exchanged(records: Records, record: Record, one: int, other: int) -> list[Record]:
    """From a record on two CPUs are each in the place of the other."""

    def text(cpus: str | None) -> str | None:
        of = cpus_of(cpus or "")
        names = {one: other, other: one}
        return cpus and cpu_set_text({names.get(cpu, cpu) for cpu in of})

    others: dict[int, Body | None] = {}
    for each in _after(records, record):
        body: Any = each.body
        if isinstance(body, CpusAllocated | CpusReleased):
            others[each.seq] = _with(
                body, cpu_set=text(body.cpu_set), default_cpu_set=text(body.default_cpu_set)
            )
        elif isinstance(body, CpuManagerStarted):
            others[each.seq] = _with(body, default_cpu_set=text(body.default_cpu_set))
        elif isinstance(body, CpuManagerStateRead):
            of = {uid: {name: text(cpus) for name, cpus in held.items()}
                  for uid, held in body.assignments.items()}  # fmt: skip
            others[each.seq] = _with(
                body, assignments=of, default_cpu_set=text(body.default_cpu_set)
            )
    return _told(records, others)


def _machine(records: Records, record: Record) -> CpuManagerStarted | None:
    starts = [b for r, b in _of(records, CpuManagerStarted) if r.seq < record.seq]
    return starts[-1] if starts and starts[-1].cpus else None


def _other_cpu(records: Records, which: str) -> Iterator[Told]:
    """A grant in which one CPU is another."""
    for record, body in _of(records, CpusAllocated):
        start = _machine(records, record)
        if start is None or start.cpus is None:
            continue
        given, left = cpus_of(body.cpu_set), cpus_of(body.default_cpu_set or "")
        reserved = cpus_of(start.reserved_cpu_set or "")
        own = min(given)
        nodes = {int(cpu): place.numa_node for cpu, place in start.cpus.items()}
        free = {
            "reserved": reserved - given,
            "held": nodes.keys() - given - left - reserved,
            "node": {cpu for cpu in left - reserved if nodes[cpu] != nodes[own]},
            "core": {cpu for cpu in left - reserved if nodes[cpu] == nodes[own]},
        }[which]
        if not free:
            continue
        if which == "held":
            mine = cpu_set_text(given - {own} | {min(free)})
            rest = cpu_set_text(left | {own})
            yield (
                record,
                _told(records, {record.seq: _with(body, cpu_set=mine, default_cpu_set=rest)}),
            )
        else:
            yield record, _exchanged(records, record, own, max(free))


def _count(records: Records) -> Iterator[Told]:
    """One CPU less than the container asks for, here and in all that shows it later."""
    for record, body in _of(records, CpusAllocated):
        given = cpus_of(body.cpu_set)
        own, others = max(given), dict[int, Body | None]()

        def held(uid: str | None, name: str, cpus: str, about: Any = body) -> bool:  # noqa: ANN401
            return (uid, name, cpus) == (about.pod_uid, about.container, about.cpu_set)

        for each in _after(records, record):
            told: Any = each.body
            if isinstance(told, CpusAllocated | CpusReleased | CpuManagerStarted):
                is_his = not isinstance(told, CpuManagerStarted) and held(
                    told.pod_uid, told.container, told.cpu_set or ""
                )
                back = is_his and isinstance(told, CpusReleased)
                pool = cpus_of(told.default_cpu_set or "") | (set() if back else {own})
                fields = {"default_cpu_set": cpu_set_text(pool)}
                if is_his:
                    fields["cpu_set"] = cpu_set_text(given - {own})
                others[each.seq] = _with(told, **fields)
                if back:
                    break
            elif isinstance(told, CpuManagerStateRead):
                of = {uid: {name: cpu_set_text(given - {own}) if held(uid, name, cpus) else cpus
                            for name, cpus in some.items()}
                      for uid, some in told.assignments.items()}  # fmt: skip
                if of != told.assignments:
                    pool = cpus_of(told.default_cpu_set) | {own}
                    others[each.seq] = _with(
                        told, assignments=of, default_cpu_set=cpu_set_text(pool)
                    )
        yield record, _told(records, others)


def _cpus_for_refused(records: Records) -> Iterator[Told]:
    """A container for which there are too few gets some, and its pod is admitted."""
    for record, body in _of(records, CpuAllocationFailed):
        start = _machine(records, record)
        pool = [b.default_cpu_set for r, b in _of(records, CpusAllocated) if r.seq < record.seq]
        if start is None or not start.cpus or body.requested is None:
            continue
        left = cpus_of((pool[-1] if pool else start.default_cpu_set) or "")
        mine = set(sorted(left)[-body.requested :]) or {max(map(int, start.cpus))}
        got = CpusAllocated(
            namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid, container=body.container,
            requested=body.requested, cpu_set=cpu_set_text(mine), numa_nodes=body.numa_nodes,
            default_cpu_set=cpu_set_text(left - mine),
        )  # fmt: skip
        yield record, _let_in(records, record, got)


def _let_in(records: Records, record: Record, got: Body) -> list[Record]:
    """A pod that was refused for want of something has it, and is admitted."""
    body: Any = record.body
    others: dict[int, Body | None] = {record.seq: got}
    for each in _after(records, record):
        told: Any = each.body
        if isinstance(told, PodRejected) and told.pod_uid == body.pod_uid:
            others[each.seq] = PodAdmitted(
                namespace=told.namespace, pod=told.pod, pod_uid=told.pod_uid
            )
            break
    return _told(records, others)


def _turned_away(records: Records, record: Record, failed: Body, error: str) -> list[Record]:
    """A pod whose container is refused something: nothing comes of it afterwards."""
    body: Any = record.body
    others: dict[int, Body | None] = {}
    for each in _after(records, record):
        told: Any = each.body
        if isinstance(told, CpuManagerStateRead | MemoryManagerStateRead):
            others[each.seq] = _without_pod(told, body.pod_uid)
            continue
        if getattr(told, "pod_uid", None) != body.pod_uid:
            continue
        if each is record:
            others[each.seq] = failed
        elif isinstance(told, PodAdmitted):
            message = f"Allocate failed due to {error}, which is unexpected"
            others[each.seq] = PodRejected(
                namespace=told.namespace, pod=told.pod, pod_uid=told.pod_uid,
                reason=_UNEXPECTED, message=message,
            )  # fmt: skip
        elif isinstance(told, PodListed):
            spec_alone = {"phase": "Failed", "reason": _UNEXPECTED, "qosClass": "Guaranteed"}
            others[each.seq] = _with(told, status=spec_alone)
        elif not each.kind.startswith("topologymanager."):
            others[each.seq] = None
    return _told(records, others)


def _without_pod(file: Any, uid: str) -> Body:  # noqa: ANN401 # either file
    """A state file in which a pod has nothing: that is free again."""
    held = file.assignments.get(uid, {})
    rest = {pod: each for pod, each in file.assignments.items() if pod != uid}
    if isinstance(file, CpuManagerStateRead):
        pool = cpus_of(file.default_cpu_set).union(*map(cpus_of, held.values()))
        return _with(file, assignments=rest, default_cpu_set=cpu_set_text(pool))
    machine = file.machine
    for block in (block for blocks in held.values() for block in blocks):
        if len(block.numa_nodes) == 1:
            machine = _moved(machine, block, None)
    return _with(file, assignments=rest, machine=machine)


def _is_first_try(records: Records, record: Record) -> bool:
    body: Any = record.body
    return not any(
        r.seq < record.seq and getattr(r.body, "pod_uid", None) == body.pod_uid
        for r in records
        if isinstance(r.body, CpusAllocated | MemoryAllocated | PodAdmitted)
    )


def _cpus_refused(records: Records) -> Iterator[Told]:
    """A container is refused the CPUs that it got."""
    for record, body in _of(records, CpusAllocated):
        if not _is_first_try(records, record) or body.requested is None:
            continue
        failed = CpuAllocationFailed(
            namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid, container=body.container,
            requested=body.requested, numa_nodes=body.numa_nodes, error=_NO_CPUS,
        )  # fmt: skip
        yield record, _turned_away(records, record, failed, _NO_CPUS)


def _cpu_file(records: Records) -> Iterator[Told]:
    """A state file gives a container's CPU to the pool."""
    for record, body in _of(records, CpuManagerStateRead):
        for uid, held in body.assignments.items():
            for name, cpus in held.items():
                of = cpus_of(cpus)
                less = cpu_set_text(of - {min(of)})
                pool = cpu_set_text(cpus_of(body.default_cpu_set) | {min(of)})
                lied = _with(
                    body,
                    assignments={**body.assignments, uid: {**held, name: less}},
                    default_cpu_set=pool,
                )
                yield record, _told(records, {record.seq: lied})


def _released_alive(records: Records) -> Iterator[Told]:
    """A container gives its CPUs or its memory back while its pod goes on."""
    for record in records:
        body: Any = record.body
        if not isinstance(body, CpusAllocated | MemoryAllocated):
            continue
        later = next((i for i, r in enumerate(records) if r.ts_ns > record.ts_ns + NS_PER_S), None)
        if later is None:
            continue
        who: dict[str, Any] = {
            name: getattr(body, name) for name in ("namespace", "pod", "pod_uid", "container")
        }
        if isinstance(body, MemoryAllocated):
            back: Body = MemoryReleased(**who)
        else:
            pool = cpus_of(body.default_cpu_set or "") | cpus_of(body.cpu_set)
            back = CpusReleased(**who, cpu_set=body.cpu_set, default_cpu_set=cpu_set_text(pool))
        inserted = msgspec.structs.replace(
            record, seq=0, ts_ns=record.ts_ns + NS_PER_S, kind=back.kind, v=back.v, body=back,
            cause=None,
        )  # fmt: skip
        yield record, numbered([*records[:later], inserted, *records[later:]])


def _never_released(records: Records) -> Iterator[Told]:
    """What a pod had that ended is not given back, and stays in state files."""
    for record, body in _of(records, CpusReleased):
        cpus = cpus_of(body.cpu_set or "")
        others: dict[int, Body | None] = {record.seq: None}
        for each in _after(records, record)[1:]:
            told: Any = each.body
            if isinstance(told, CpuManagerStateRead | CpuManagerStarted):
                pool = cpu_set_text(cpus_of(told.default_cpu_set or "") - cpus)
                others[each.seq] = _with(told, default_cpu_set=pool)
            if isinstance(told, CpuManagerStateRead):
                held = {**told.assignments.get(body.pod_uid, {}), body.container: body.cpu_set}
                of = {**told.assignments, body.pod_uid: held}
                others[each.seq] = _with(others[each.seq] or told, assignments=of)
            elif isinstance(told, CpusAllocated | CpusReleased):
                if cpus & cpus_of(told.cpu_set or ""):
                    break
                pool = cpu_set_text(cpus_of(told.default_cpu_set or "") - cpus)
                others[each.seq] = _with(told, default_cpu_set=pool)
        yield record, _told(records, others)


# -- memory of NUMA nodes --------------------------------------------------------------------------


def _blocks(
    records: Records, change: Callable[[MemoryBlock, Sequence[int]], MemoryBlock | None]
) -> Iterator[Told]:
    """A container's memory is another one, in its grant, all files, and their machine tables."""
    files = [(r, b) for r, b in _of(records, MemoryManagerStateRead) if b.machine]
    for record, body in _of(records, MemoryAllocated):
        if not body.blocks or not files:
            continue
        block = body.blocks[0]
        nodes = sorted(map(int, files[0][1].machine))
        lied = change(block, nodes)
        if lied is None:
            continue
        others: dict[int, Body | None] = {
            record.seq: _with(body, blocks=(lied, *body.blocks[1:]), affinity=body.affinity)
        }
        for each, file in files:
            held = file.assignments.get(body.pod_uid, {})
            if each.seq > record.seq and held.get(body.container) == body.blocks:
                own = {**held, body.container: (lied, *body.blocks[1:])}
                others[each.seq] = _with(
                    file,
                    assignments={**file.assignments, body.pod_uid: own},
                    machine=_moved(file.machine, block, lied),
                )
        yield record, _told(records, others)


def _moved(machine: dict[str, Any], block: MemoryBlock, lied: MemoryBlock | None) -> dict[str, Any]:
    """The machine's tables with one block as another, or gone; each lies on one node."""
    done = dict(machine)
    for sign, of in ((-1, block), (1, lied)):
        if of is None:
            continue
        node = str(of.numa_nodes[0])
        state = done[node]
        table = state.memory[of.type]
        size = sign * of.size_bytes
        moved = _with(
            table, reserved_bytes=table.reserved_bytes + size, free_bytes=table.free_bytes - size
        )
        done[node] = msgspec.structs.replace(
            state, assignments=state.assignments + sign, memory={**state.memory, of.type: moved}
        )
    return done


def _other_node(block: MemoryBlock, nodes: Sequence[int]) -> MemoryBlock | None:
    left = [node for node in nodes if node not in block.numa_nodes]
    if len(block.numa_nodes) > 1 or not left:
        return None
    return msgspec.structs.replace(block, numa_nodes=(left[-1],))


def _too_much(block: MemoryBlock, nodes: Sequence[int]) -> MemoryBlock | None:
    more = msgspec.structs.replace(block, size_bytes=block.size_bytes + (1 << 40))
    return more if len(block.numa_nodes) == 1 else None


def _too_little(block: MemoryBlock, nodes: Sequence[int]) -> MemoryBlock | None:
    less = msgspec.structs.replace(block, size_bytes=block.size_bytes // 2)
    return less if len(block.numa_nodes) == 1 and block.size_bytes else None


def _memory_refused(records: Records) -> Iterator[Told]:
    """A container is refused the memory that it got."""
    for record, body in _of(records, MemoryAllocated):
        if not _is_first_try(records, record):
            continue
        failed = MemoryAllocationFailed(
            namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid,
            container=body.container, error=_NO_MEMORY,
        )  # fmt: skip
        yield record, _turned_away(records, record, failed, _NO_MEMORY)


def _memory_for_refused(records: Records) -> Iterator[Told]:
    """A container for which there is too little gets some."""
    for record, body in _of(records, MemoryAllocationFailed):
        if body.container is not None:
            got = MemoryAllocated(
                namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid,
                container=body.container,
            )  # fmt: skip
            yield record, _let_in(records, record, got)


def _memory_file(records: Records) -> Iterator[Told]:
    """A state file shows a container's memory on another node; its tables are as they were."""
    for record, body in _of(records, MemoryManagerStateRead):
        nodes = sorted(map(int, body.machine))
        for uid, held in body.assignments.items():
            for name, blocks in held.items():
                lied = _other_node(blocks[0], nodes) if blocks else None
                if lied is not None:
                    of = {**body.assignments, uid: {**held, name: (lied, *blocks[1:])}}
                    yield record, _told(records, {record.seq: _with(body, assignments=of)})


# -- resizes and claims ----------------------------------------------------------------------------


def _resize(was: str, said: str) -> Liar:
    """A resize that came to one outcome is said to have come to another; no file is there."""

    def tell(records: Records) -> Iterator[Told]:
        files = {r.seq: None for r, _ in _of(records, PodsStateRead)}
        for record, body in _of(records, PodResized):
            if body.outcome != was or body.reason == "Error":
                continue
            reason = "OutOfcpu" if said == "deferred" else None
            others: dict[int, Body | None] = {
                **files, record.seq: _with(body, outcome=said, reason=reason, message=None)
            }  # fmt: skip
            if was == "allocated":
                rest = _of(_after(records, record)[1:], PodResized)
                same = [(r, b) for r, b in rest if b.pod_uid == body.pod_uid]
                if same and same[0][1].outcome == "actuated":
                    others[same[0][0].seq] = None
            yield record, _told(records, others)

    return tell


def _resized_file(records: Records) -> Iterator[Told]:
    """The allocated state shows something else than what was allocated, and the file before."""
    known: set[str] = set()
    for record, body in _of(records, PodsStateRead):
        for uid, pod in body.pods.items() if body.which == "allocated" else ():
            if uid not in known:
                known.add(uid)
                continue
            for name, of in pod.containers.items():
                if not of.requests or "cpu" not in of.requests:
                    continue
                lied = _with_struct(of, requests={**of.requests, "cpu": "77m"})
                containers = {**pod.containers, name: lied}
                pods = {**body.pods, uid: _with_struct(pod, containers=containers)}
                yield record, _told(records, {record.seq: _with(body, pods=pods)})


def _with_struct(of: Any, **fields: Any) -> Any:  # noqa: ANN401 # any part of a body
    return msgspec.structs.replace(of, **fields)


def _later(record: Record, body: Body, seconds: int) -> Record:
    return msgspec.structs.replace(
        record, seq=0, ts_ns=record.ts_ns + seconds * NS_PER_S, kind=body.kind, v=body.v,
        body=body, cause=None,
    )  # fmt: skip


def _inserted(records: Records, record: Record, without: frozenset[int]) -> list[Record]:
    kept = [each for each in records if each.seq not in without]
    return numbered(sorted([*kept, record], key=lambda each: each.ts_ns))


def _prepared_twice(records: Records) -> Iterator[Told]:
    """The drivers are asked again for a pod that has its claim, and give the devices again."""
    for record, body in _of(records, ClaimPrepared):
        twice = {driver: (*devices, *devices) for driver, devices in body.drivers.items()}
        again = _later(record, _with(body, drivers=twice), 5)
        yield record, _inserted(records, again, frozenset())


def _unprepared(records: Records) -> Iterator[Told]:
    """A claim is unprepared under the pod that has it; no file is there."""
    files = frozenset(r.seq for r, _ in _of(records, DraManagerStateRead))
    for record, body in _of(records, ClaimPrepared):
        back = ClaimReleased(
            namespace=body.namespace, pod=body.pod, pod_uid=body.pod_uid, claim=body.claim,
            claim_uid=body.claim_uid, unprepared=True,
        )  # fmt: skip
        yield record, _inserted(records, _later(record, back, 5), files)


def _other_devices(records: Records) -> Iterator[Told]:
    """A pod is given other devices than those that its claim is prepared with."""
    seen: set[str] = set()
    for record, body in _of(records, ClaimPrepared):
        if body.claim_uid in seen:
            lied = {
                driver: tuple(_with_struct(each, device="other") for each in devices)
                for driver, devices in body.drivers.items()
            }
            yield record, _told(records, {record.seq: _with(body, drivers=lied)})
        seen.add(body.claim_uid)


def _shared_device(records: Records) -> Iterator[Told]:
    """The devices of one claim are those of another one, too; files show it."""
    claims = [(r, b) for r, b in _of(records, ClaimPrepared)]
    for record, body in claims:
        other = next((b for r, b in claims if b.claim != body.claim and r.seq < record.seq), None)
        if other is None:
            continue
        others: dict[int, Body | None] = {record.seq: _with(body, drivers=other.drivers)}
        for each, file in _of(records, DraManagerStateRead):
            held = tuple(
                _with_struct(claim, drivers=other.drivers) if claim.uid == body.claim_uid else claim
                for claim in file.claims
            )
            others[each.seq] = _with(file, claims=held)
        yield record, _told(records, others)


def _released_shared(records: Records) -> Iterator[Told]:
    """Who gives a claim back is said to be, or not to be, the last one."""
    for record, body in _of(records, ClaimReleased):
        lied = _with(body, unprepared=not body.unprepared)
        yield record, _told(records, {record.seq: lied})


def _claim_file(records: Records) -> Iterator[Told]:
    """A state file has another device for a claim that a pod holds."""
    for record, body in _of(records, DraManagerStateRead):
        for index, claim in enumerate(body.claims):
            lied = {
                driver: tuple(_with_struct(each, device="other") for each in devices)
                for driver, devices in claim.drivers.items()
            }
            other = _with_struct(claim, drivers=lied)
            claims = (*body.claims[:index], other, *body.claims[index + 1 :])
            yield record, _told(records, {record.seq: _with(body, claims=claims)})


LIARS: dict[str, Liar] = {
    "CPU given twice": lambda records: _other_cpu(records, "held"),
    "reserved CPU given": lambda records: _other_cpu(records, "reserved"),
    "wrong number of CPUs": _count,
    "CPU of another NUMA node": lambda records: _other_cpu(records, "node"),
    "another CPU of the node": lambda records: _other_cpu(records, "core"),
    "CPUs refused although free": _cpus_refused,
    "CPUs given although none": _cpus_for_refused,
    "CPU state file differs": _cpu_file,
    "given back by a live pod": _released_alive,
    "CPUs not given back": _never_released,
    "memory of another node": lambda records: _blocks(records, _other_node),
    "more memory than is free": lambda records: _blocks(records, _too_much),
    "less memory than asked": lambda records: _blocks(records, _too_little),
    "memory refused although free": _memory_refused,
    "memory given although none": _memory_for_refused,
    "memory state file differs": _memory_file,
    "allocated though infeasible": _resize("infeasible", "allocated"),
    "allocated though deferred": _resize("deferred", "allocated"),
    "deferred though it fits": _resize("allocated", "deferred"),
    "deferred though infeasible": _resize("infeasible", "deferred"),
    "infeasible though it fits": _resize("allocated", "infeasible"),
    "infeasible though deferred": _resize("deferred", "infeasible"),
    "allocated state differs": _resized_file,
    "claim prepared twice": _prepared_twice,
    "unprepared under its pod": _unprepared,
    "other devices of a claim": _other_devices,
    "devices of another claim": _shared_device,
    "last holder of a claim": _released_shared,
    "claim state file differs": _claim_file,
}
"""What is said -> who says it."""
