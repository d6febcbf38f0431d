"""From snapshots of the cgroup files and the QoS lines of the log to cgroup decisions.

The log of no version holds the values that were written, so the values come from the
snapshots: two snapshots in a row are compared, and what is new is what the kubelet (or,
for a container, the runtime at its behest) wrote in between, or what the kernel counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast, get_args

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, takes
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import CgroupFiles, Fact
from kubeledger.kubelet.cgroups.paths import CgroupPath, observed_in, parse_cgroup_path
from kubeledger.model.bodies.cgroups import (
    CgroupObserved,
    CgroupRemoved,
    CgroupUpdated,
    CgroupValues,
    QOSCgroupsUpdated,
    QOSClass,
    QOSReserveComputed,
)
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence

_WEIGHTS = {
    "cpu.shares": 0,
    "cpu.weight": 0,
    "memory.limit_in_bytes": 1,
    "memory.max": 1,
    "cpu.cfs_quota_us": 2,
    "cpu.max": 2,
}
_V1_INTS = {
    "cpu.shares": "cpu_shares",
    "cpu.cfs_quota_us": "cpu_quota_us",
    "cpu.cfs_period_us": "cpu_period_us",
    "memory.limit_in_bytes": "memory_limit_bytes",
}
_HUGETLB = regex(r"hugetlb\.(?P<size>[0-9]+[KMG]B)\.(?:limit_in_bytes|max)")
_V1_ONLY = regex(r"cpu\.(?:shares|cfs_.+)|.+_in_bytes|memory\.oom_control|cpuacct\..+")


class CgroupAssembler(Assembler):
    """Cgroup values as they changed, and the updates the log reports."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._containers = registers.containers
        self._previous: dict[str, dict[str, str]] = {}
        self._previous_evidence: dict[str, tuple[Evidence, ...]] = {}
        self._ends_closed = False

    @reads("Updated QoS cgroup configuration", "Failed to update QoS cgroup configuration")
    def _updated(self, entry: Entry) -> None:
        failed = entry.message.startswith("Failed")
        self.queue.add(shown(entry, QOSCgroupsUpdated(failed=failed)))

    @reads("QoS pod memory limit")
    def _reserve(self, entry: Entry) -> None:
        qos, requested = entry.text("qos"), entry.number("limits")
        percent = entry.number("percentReserve")
        if qos in get_args(QOSClass) and requested is not None and percent is not None:
            body = QOSReserveComputed(
                qos_class=cast(QOSClass, qos), requested_bytes=requested, reserve_percent=percent
            )
            self.queue.add(shown(entry, body))

    @takes(CgroupFiles)
    def _snapshot(self, item: CgroupFiles) -> None:
        # An agent that could read nothing writes an empty snapshot; the cgroups are not gone.
        if not item.values:
            return
        cut = item.open_end is not None and self._ends_closed
        if cut and item.open_end is not None:
            path, name = item.open_end
            del item.values[path][name]
        self._ends_closed = self._ends_closed or item.open_end is None
        if cut or self._lacks_files(item):
            item = self._completed(item)
        for fact in (*self._updates(item), *self._removals(item)):
            self.queue.add(fact)
        self._previous = item.values
        self._previous_evidence = item.evidence

    def _lacks_files(self, item: CgroupFiles) -> bool:
        """Whether a kind of file is missing that most cgroups had: the snapshot was cut there."""
        before = Counter(name for files in self._previous.values() for name in files)
        now = {name for files in item.values.values() for name in files}
        return any(2 * before[name] > len(self._previous) for name in before.keys() - now)

    def _completed(self, item: CgroupFiles) -> CgroupFiles:
        """A snapshot that was cut, as one shows that ends inside a line when others do not.

        What it does not show is as it was, and nothing is new.
        """
        values = {
            path: {**files, **item.values.get(path, {})} for path, files in self._previous.items()
        }
        evidence = {
            path: (*item.evidence.get(path, ()), *self._previous_evidence.get(path, ()))
            for path in values
        }
        return CgroupFiles(item.ts_ns, values, evidence)

    def _updates(self, item: CgroupFiles) -> Iterator[Fact]:
        unified = _is_unified(item)
        for path in sorted(item.values):
            files = item.values[path]
            before = self._previous.get(path)
            where = parse_cgroup_path(path)
            if where is None or before == files:
                continue
            seen, had = observed_in(files), observed_in(before or {})
            values = _values(_without(files, seen), unified)
            old = _values(_without(before or {}, had), unified) if before else CgroupValues()
            changed = values.changed(old)
            new = {name for name, text in files.items() if (before or {}).get(name) != text}
            lines = item.evidence.get(path, ())
            if before is None or changed:
                body = self._body(path, where, values, before is None, changed)
                yield Fact(item.ts_ns, body, _lines_of(lines, new - seen.keys()))
            if _stripped(seen) != _stripped(had):
                field = {"unified" if unified else "other": _stripped(seen)}
                observed = CgroupObserved(cgroup=path, pod_uid=where.pod_uid, **field)
                yield Fact(item.ts_ns, observed, _lines_of(lines, new & seen.keys()))

    def _body(
        self,
        path: str,
        where: CgroupPath,
        values: CgroupValues,
        created: bool,
        changed: tuple[str, ...],
    ) -> CgroupUpdated:
        container_id = where.container_id or ""
        known = self.context.container(container_id)
        listed = self._containers.get(container_id)
        sandbox = known.sandbox if known is not None else None
        name = known.container if known is not None else None
        if known is None and listed is not None:
            # The log may report a container that no list shows.
            name = listed.name
            sandbox = True if listed.sandbox else None if name is None else False
        return CgroupUpdated(
            cgroup=path,
            level=where.level,
            qos_class=where.qos_class,
            pod_uid=where.pod_uid,
            container_id=where.container_id,
            container=name,
            sandbox=sandbox,
            created=created,
            changed=changed,
            **msgspec.structs.asdict(values),
        )

    def _removals(self, item: CgroupFiles) -> Iterator[Fact]:
        for path in sorted(self._previous.keys() - item.values.keys()):
            where = parse_cgroup_path(path)
            if where is not None:
                body = CgroupRemoved(cgroup=path, pod_uid=where.pod_uid)
                yield Fact(item.ts_ns, body, self._previous_evidence.get(path, ())[:1])


def _without(files: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: text for name, text in files.items() if name not in names}


def _stripped(files: Mapping[str, str]) -> dict[str, str]:
    return {name: text.strip() for name, text in sorted(files.items())}


def _is_unified(item: CgroupFiles) -> bool:
    """Cgroup v2: no file of the snapshot has a name that only v1 knows."""
    return not any(_V1_ONLY.fullmatch(name) for files in item.values.values() for name in files)


def _values(files: Mapping[str, str], unified: bool) -> CgroupValues:
    found: dict[str, Any] = {}
    hugetlb: dict[str, int] = {}
    rest: dict[str, str] = {}
    for name, raw in sorted(files.items()):
        text = raw.strip()
        if match := _HUGETLB.fullmatch(name):
            if (limit := _integer(text)) is not None:
                hugetlb[match["size"]] = limit
            else:
                rest[name] = text
        elif name in _V1_INTS:
            found[_V1_INTS[name]] = _integer(text)
        else:
            rest[name] = text
    if unified:
        found |= _from_unified(rest)
    found["unified" if unified else "other"] = rest
    return CgroupValues(hugetlb_limit_bytes=hugetlb, **found)


def _from_unified(files: Mapping[str, str]) -> dict[str, int | None]:
    """``cpu.max`` and ``memory.max`` in the fields that v1 has files of their own for."""
    found = {"memory_limit_bytes": _limit(files.get("memory.max", ""))}
    quota, _, period = files.get("cpu.max", "").partition(" ")
    if quota:
        found["cpu_quota_us"] = _limit(quota)
        found["cpu_period_us"] = _integer(period)
    return found


def _limit(text: str) -> int | None:
    """A limit of cgroup v2; -1 where there is none."""
    return -1 if text == "max" else _integer(text)


def _integer(text: str) -> int | None:
    """A number however long it is: one that no record can hold is reported where it is recorded."""
    try:
        return int(text)
    except ValueError:
        return None


def _lines_of(evidence: tuple[Evidence, ...], names: Iterable[str]) -> tuple[Evidence, ...]:
    """Those lines that hold the named files, the weightiest first; all if none stands out."""
    wanted = tuple(f"/{name}" for name in names)
    lines = [line for line in evidence if line.text and line.text.split(" ", 1)[0].endswith(wanted)]
    return tuple(sorted(lines or evidence, key=_weight))


def _weight(line: Evidence) -> int:
    """Place of a line among those of a cgroup; what is asked about most often comes first."""
    name = (line.text or "").split(" ", 1)[0].rpartition("/")[2]
    return _WEIGHTS.get(name, len(_WEIGHTS))
