from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kubeledger.ingest.correlate.cgroups import CgroupAssembler
from kubeledger.ingest.correlate.context import BundleContext, ContainerRef
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.documents import Document, read_document
from kubeledger.ingest.sources.items import CgroupFiles, Item
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.bodies.cgroups import CgroupObserved, CgroupRemoved, CgroupUpdated
from kubeledger.model.record import Evidence
from tests.ingest.pieces import feed_items, feed_log, klog
from tests.ingest.scenes import played_by, played_out
from tests.recordings import extract

POD = "kubepods/burstable/podabc"
V1 = {
    "cpu.shares": "256",
    "cpu.cfs_quota_us": "40000",
    "cpu.cfs_period_us": "100000",
    "memory.limit_in_bytes": "9223372036854771712",
    "hugetlb.2MB.limit_in_bytes": "4194304",
    "pids.max": "100",
}
V2 = {
    "cpu.max": "40000 100000",
    "cpu.weight": "10",
    "memory.max": "max",
    "memory.high": "510025728",
    "hugetlb.2MB.max": "0",
}


def snapshot(ts_ns: int, values: Mapping[str, Mapping[str, str]]) -> CgroupFiles:
    """A snapshot whose lines read as an agent writes them."""
    return CgroupFiles(
        ts_ns=ts_ns,
        values={path: dict(files) for path, files in values.items()},
        evidence={
            path: tuple(
                Evidence(file=f"{ts_ns}.txt", line=n, text=f"cpu/{path}/{name} {value}")
                for n, (name, value) in enumerate(files.items(), 1)
            )
            for path, files in values.items()
        },
    )


@pytest.fixture
def assembler() -> CgroupAssembler:
    containers = {"c1": ContainerRef("abc", "app"), "s1": ContainerRef("abc", None, sandbox=True)}
    return CgroupAssembler(Registers(BundleContext(node="n", containers=containers)))


def test_first_snapshot_creates(assembler: CgroupAssembler) -> None:
    """All controllers' files of a path are one record, with every line as evidence."""
    (fact,) = feed_items(assembler, [snapshot(1, {POD: V1})])
    assert fact.body == CgroupUpdated(
        cgroup=POD,
        level="pod",
        qos_class="Burstable",
        pod_uid="abc",
        cpu_shares=256,
        cpu_quota_us=40000,
        cpu_period_us=100000,
        memory_limit_bytes=9223372036854771712,
        hugetlb_limit_bytes={"2MB": 4194304},
        other={"pids.max": "100"},
        created=True,
        changed=(
            "cpu_period_us",
            "cpu_quota_us",
            "cpu_shares",
            "hugetlb_limit_bytes",
            "memory_limit_bytes",
            "other",
        ),
    )
    assert len(fact.evidence) == len(V1)


def test_only_changes_are_recorded(assembler: CgroupAssembler) -> None:
    """An unchanged cgroup is silent; a changed one is whole, with the changed lines."""
    other = "kubepods/besteffort"
    first = snapshot(1, {POD: V1, other: V1})
    second = snapshot(2, {POD: {**V1, "cpu.shares": "512", "cpu.cfs_quota_us": "-1"}, other: V1})
    facts = feed_items(assembler, [first, second])
    assert [fact.ts_ns for fact in facts] == [1, 1, 2]
    body = facts[-1].body
    assert isinstance(body, CgroupUpdated)
    assert (body.cgroup, body.created) == (POD, False)
    assert body.changed == ("cpu_quota_us", "cpu_shares")
    assert (body.cpu_shares, body.cpu_quota_us, body.cpu_period_us) == (512, -1, 100000)
    assert [line.text for line in facts[-1].evidence] == [
        f"cpu/{POD}/cpu.shares 512",
        f"cpu/{POD}/cpu.cfs_quota_us -1",
    ]


COUNTED = {"memory.usage_in_bytes": "4096", "memory.failcnt": "0", "cpuset.cpus": "0-1"}


def test_what_the_kernel_counts_is_observed(assembler: CgroupAssembler) -> None:
    """A decision is a record whose limits changed; each value stands in one record."""
    more = {**COUNTED, "memory.usage_in_bytes": "8192"}
    first, second = snapshot(1, {POD: V1 | COUNTED}), snapshot(2, {POD: V1 | more})
    third = snapshot(3, {POD: {**V1, **more, "pids.max": "7"}})
    made, counted, again, written = feed_items(assembler, [first, second, third])
    assert isinstance(made.body, CgroupUpdated)
    assert made.body.other == {"pids.max": "100"}
    assert counted.body == CgroupObserved(cgroup=POD, pod_uid="abc", other=COUNTED)
    assert (again.ts_ns, again.body) == (2, CgroupObserved(cgroup=POD, pod_uid="abc", other=more))
    assert [line.text for line in again.evidence] == [f"cpu/{POD}/memory.usage_in_bytes 8192"]
    assert isinstance(written.body, CgroupUpdated)
    assert (written.body.changed, written.body.other) == (("other",), {"pids.max": "7"})


def test_counters_of_v2(assembler: CgroupAssembler) -> None:
    counted = {"memory.current": "1", "cpu.stat": "nr_throttled 2", "memory.events.local": "oom 0"}
    made, seen = feed_items(assembler, [snapshot(1, {POD: V2 | counted})])
    assert isinstance(made.body, CgroupUpdated)
    assert not made.body.unified.keys() & counted.keys()
    assert seen.body == CgroupObserved(cgroup=POD, pod_uid="abc", unified=counted)


def test_other_spelling_is_no_change(assembler: CgroupAssembler) -> None:
    """The same value with a space after it is not another one."""
    again = {**V1, "cpu.shares": "256 "}
    assert len(feed_items(assembler, [snapshot(1, {POD: V1}), snapshot(2, {POD: again})])) == 1


def test_removed(assembler: CgroupAssembler) -> None:
    """A cgroup that is no longer there, with the line that showed it last."""
    facts = feed_items(
        assembler, [snapshot(1, {POD: V1, "kubepods": V1}), snapshot(2, {"kubepods": V1})]
    )
    assert facts[-1].body == CgroupRemoved(cgroup=POD, pod_uid="abc")
    assert [line.file for line in facts[-1].evidence] == ["1.txt"]


def test_back_again_is_created_again(assembler: CgroupAssembler) -> None:
    """A cgroup that went and came is created, whatever its values."""
    root = {"kubepods": V1}
    facts = feed_items(
        assembler,
        [snapshot(1, {POD: V1, **root}), snapshot(2, root), snapshot(3, {POD: V1, **root})],
    )
    body = facts[-1].body
    assert isinstance(body, CgroupUpdated)
    assert body.created


def test_empty_snapshot_says_nothing(assembler: CgroupAssembler) -> None:
    """An agent that could read nothing does not remove every cgroup."""
    facts = feed_items(assembler, [snapshot(1, {POD: V1}), snapshot(2, {}), snapshot(3, {POD: V1})])
    assert len(facts) == 1


def told_of(contents: Sequence[bytes], file: Path) -> tuple[set[str], dict[str, object]]:
    """Cgroups that snapshots of these contents tell to be gone, and the last values of each."""
    items: list[Item] = []
    for ts_ns, content in enumerate(contents, 1):
        file.write_bytes(content)
        items += read_document(Document(SourceFile(file.name, file), "cgroup-files", ts_ns))[0]
    gone: set[str] = set()
    values: dict[str, object] = {}
    for fact in feed_items(CgroupAssembler(Registers(BundleContext(node="n"))), items):
        body = fact.body
        if isinstance(body, CgroupRemoved):
            gone.add(body.cgroup)
        elif isinstance(body, CgroupUpdated):
            values[body.cgroup] = (body.cpu_shares, body.memory_limit_bytes, body.other)
    return gone, values


@pytest.mark.parametrize("at_line", [False, True], ids=["inside a line", "between lines"])
def test_a_snapshot_that_was_cut_tells_of_no_removal(tmp_path: Path, at_line: bool) -> None:
    """Wherever it ends: what it does not show is as it was, and no value is half of one."""
    files = sorted(extract("node-b", tmp_path).glob("snapshots/*/cgroupfs.txt"))[7:10]
    contents = [file.read_bytes() for file in files]
    gone, values = told_of(contents, tmp_path / "f")
    middle = contents[1]
    # The last controller's values are all that a cut between lines may take unseen.
    ends = range(1, middle.index(b"pids/") if at_line else len(middle), 601)
    for end in ends:
        cut = middle[: middle.rfind(b"\n", 0, end) + 1] if at_line else middle[:end]
        if not at_line and cut.endswith(b"\n"):
            cut = cut[:-1]
        found, last = told_of([contents[0], cut, contents[2]], tmp_path / "f")
        assert found <= gone
        assert last == values


def test_unified_hierarchy(assembler: CgroupAssembler) -> None:
    """Version 2: what has no field stays as text, and ``max`` is no limit."""
    (fact,) = feed_items(assembler, [snapshot(1, {POD: V2})])
    body = fact.body
    assert isinstance(body, CgroupUpdated)
    assert (body.cpu_quota_us, body.cpu_period_us) == (40000, 100000)
    assert (body.cpu_shares, body.memory_limit_bytes) == (None, -1)
    assert body.hugetlb_limit_bytes == {"2MB": 0}
    assert body.unified == {n: v for n, v in V2.items() if not n.startswith("hugetlb")}
    assert body.other == {}


@pytest.mark.parametrize(
    ("text", "quota", "limit"),
    [("max 100000", -1, -1), ("50000 250000", 50000, 4096), (None, None, None)],
)
def test_unified_limits(
    assembler: CgroupAssembler, text: str | None, quota: int | None, limit: int | None
) -> None:
    """``cpu.max`` and ``memory.max`` in the fields of version 1; None: no such file."""
    memory = "max" if limit == -1 else str(limit)
    limits = {} if text is None else {"cpu.max": text, "memory.max": memory}
    item = snapshot(1, {POD: {"pids.max": "max", **limits}})
    (fact,) = feed_items(assembler, [item])
    body = fact.body
    assert isinstance(body, CgroupUpdated)
    assert (body.cpu_quota_us, body.memory_limit_bytes) == (quota, limit)


def test_containers_and_sandboxes(assembler: CgroupAssembler) -> None:
    """A sandbox is one only when a source says so; foreign cgroups are left out."""
    paths = [f"{POD}/c1", f"{POD}/s1", f"{POD}/x1", "system.slice/ssh.service"]
    facts = feed_items(assembler, [snapshot(1, dict.fromkeys(paths, V1))])
    bodies = [fact.body for fact in facts if isinstance(fact.body, CgroupUpdated)]
    assert [(body.container_id, body.sandbox) for body in bodies] == [
        ("c1", False),
        ("s1", True),
        ("x1", None),
    ]


_QOS = "qos_container_manager_linux.go"
_MANAGER = f"{_QOS} [Container Manager]"
SCENES = f"""
the QoS cgroups were written, in free text
    0 {_QOS} [ContainerManager]: Updated QoS cgroup configuration
    = QOSCgroupsUpdated failed=False
the QoS cgroups were written
    0 {_QOS} "Updated QoS cgroup configuration"
    = QOSCgroupsUpdated failed=False
the kernel did not take a write, in free text: it is recorded, and that it failed
    0 {_QOS} [ContainerManager]: Failed to update QoS cgroup configuration
    = QOSCgroupsUpdated failed=True
the kernel did not take a write
    0 {_QOS} "Failed to update QoS cgroup configuration" err="device or resource busy"
    = QOSCgroupsUpdated failed=True
what a class requests, in free text
    0 {_MANAGER} Burstable pod requests total 373293056 bytes (reserve 50%)
    = QOSReserveComputed qos_class=Burstable requested_bytes=373293056 reserve_percent=50
what a class requests
    0 {_QOS} "QoS pod memory limit" qos="Burstable" limits=373293056 percentReserve=50
    = QOSReserveComputed qos_class=Burstable requested_bytes=373293056 reserve_percent=50
"""

test_scene = played_out(
    SCENES, {}, played_by(lambda _: CgroupAssembler(Registers(BundleContext(node="n"))))
)


def test_what_was_not_computed_is_no_record(assembler: CgroupAssembler) -> None:
    text = (
        "[Container Manager] Allocatable memory value could not be determined.  "
        "Not setting QOS memory limts."
    )
    assert feed_log(assembler, klog(_QOS, text)) == []
