"""Device lines and checkpoints of both kubelets, and what else they may log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kubeledger.ingest.correlate.context import (
    AllocationEntry,
    BundleContext,
    IndexedEvent,
)
from kubeledger.ingest.correlate.device_model import all_ids
from kubeledger.ingest.correlate.devices import DeviceAssembler
from kubeledger.ingest.correlate.registers import Pods, SyncLoop
from kubeledger.ingest.correlate.survey import _take_checkpoint
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Checkpoint,
    Item,
    PodList,
)
from kubeledger.kubelet.devicemanager.checkpoint import read_checkpoint
from kubeledger.kubelet.kube.gospew import fnv1a32
from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    AllocationRequested,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S, parse_ts
from tests.ingest.feeding import DATA, at, bodies, feed, lines, of_kind, recorded

POD_A = "36aa1f99-e71c-4fcf-b3f7-3254b6127099"
POD_C = "0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe"
UNAVAILABLE = "requested number of devices unavailable for r/x. Requested: 3, Available: 1"
REFUSAL = f"Allocate failed due to {UNAVAILABLE}, which is unexpected"
FILE = Evidence(file="checkpoint")


def devices_of(known: BundleContext) -> DeviceAssembler:
    """The assembler of a node whose log tells of no pods."""
    return DeviceAssembler(known, Pods(known), SyncLoop())


def context(*checkpoints: Checkpoint, **pods: str) -> BundleContext:
    """A context that knows pods (UID -> namespace/name) and the entries of checkpoints."""
    made = BundleContext(node="n")
    for uid, name in pods.items():
        namespace, pod = name.split("/")
        made.learn_uid(namespace, pod, uid.replace("_", "-").removeprefix("-"), 0, FILE)
    for item in checkpoints:
        for entry in read_checkpoint(item.data).entries:
            key = (entry.pod_uid, entry.container, entry.resource)
            found = AllocationEntry(item.ts_ns, entry.numa, item.evidence)
            made.allocations.setdefault(key, found)
    return made


def recorded_checkpoints(version: str) -> list[Checkpoint]:
    """The checkpoint files of one node, at the time of their names."""
    items = []
    for path in sorted((DATA / "devices").glob(f"{version}.*.checkpoint.json")):
        stamp = path.name.removeprefix(f"{version}.").split(".")[0]
        clock = f"2026-11-21T{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}Z"
        raw = path.read_bytes()
        items.append(Checkpoint(parse_ts(clock), json.loads(raw), raw, Evidence(file=path.name)))
    return items


def checkpoint(
    ts_ns: int, *entries: tuple[str, str, str, dict[str, list[str]]], **registered: list[str]
) -> Checkpoint:
    """A checkpoint with a right checksum."""
    texts = [
        f"{{PodUID:(string){uid} ContainerName:(string){container} "
        f"ResourceName:(string){resource} DeviceIDs:(checkpoint.DevicesPerNUMA)map["
        + " ".join(f"{node}:[{' '.join(ids)}]" for node, ids in numa.items())
        + "] AllocResp:([]uint8)<nil>}"
        for uid, container, resource, numa in entries
    ]
    lists = " ".join(f"{name}:[{' '.join(ids)}]" for name, ids in sorted(registered.items()))
    text = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
        f"[{' '.join(texts)}] RegisteredDevices:(map[string][]string)map[{lists}]}}"
    )
    names = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")
    data = {
        "Data": {
            "PodDeviceEntries": [dict(zip(names, entry, strict=True)) for entry in entries],
            "RegisteredDevices": registered,
        },
        "Checksum": fnv1a32(text),
    }
    return Checkpoint(ts_ns, data, json.dumps(data).encode(), FILE)


def run(stream: Sequence[Item], **pods: str) -> list[Fact]:
    """Facts of a stream; the context knows its checkpoints."""
    known = [piece for piece in stream if isinstance(piece, Checkpoint)]
    return feed(devices_of(context(*known, **pods)), stream)


def granted(facts: list[Fact]) -> list[tuple[Any, ...]]:
    """UID, container, resource, devices and nodes of every allocation."""
    return [
        (body.pod_uid, body.container, body.resource, body.device_ids, body.numa)
        for body in bodies(facts, DevicesAllocated)
    ]


def need(uid: str, container: str, resource: str = "r/x", count: int = 1) -> str:
    """1.20's line before an allocation."""
    return (
        f'manager.go Needs to allocate {count} "{resource}" for pod "{uid}" container "{container}"'
    )


def make(*devices: str, resource: str = "r/x") -> str:
    """1.20's line of the Allocate call."""
    return (
        f"manager.go Making allocation request for devices [{' '.join(devices)}] "
        f"for device plugin {resource}"
    )


class TestRecordings:
    """Two real nodes."""

    def facts_of_node_a(self) -> list[Fact]:
        """1.20.2 with its checkpoints."""
        items = recorded_checkpoints("v1.20.2")
        pods = {f"_{POD_A}": "default/gpu-a", f"_{POD_C}": "default/gpu-c"}
        stream: list[Item] = [*recorded("devices/v1.20.2.log"), *items]
        return feed(devices_of(context(*items, **pods)), stream)

    def test_allocations_of_1_20(self) -> None:
        """The train container holds the device of its pod's init container as well."""
        facts = self.facts_of_node_a()
        first = granted(facts)[:3]
        assert first == [
            (POD_A, "warmup", "example.com/gpu", ("gpu-0",), {"0": ("gpu-0",)}),
            (POD_A, "train", "example.com/gpu", ("gpu-0", "gpu-2"), {"0": ("gpu-0", "gpu-2")}),
            (POD_A, "train", "vendor.io/nic", ("nic-2",), {"0": ("nic-2",)}),
        ]
        assert len(granted(facts)) == 6
        assert [len(fact.evidence) for fact in of_kind(facts, DevicesAllocated)] == [2] * 6
        assert all(fact.cause is not None for fact in of_kind(facts, DevicesAllocated))
        assert bodies(facts, DevicesAllocated)[0].pod == "gpu-a"

    def test_holdings_are_those_of_every_checkpoint(self) -> None:
        """Allocated minus released is what the kubelet's own files show."""
        facts = self.facts_of_node_a()
        seen = 0
        for reading in of_kind(facts, CheckpointRead):
            held: dict[tuple[str | None, str, str], tuple[str, ...]] = {}
            for fact in facts:
                if fact.ts_ns > reading.ts_ns:
                    break
                if isinstance(fact.body, DevicesAllocated):
                    body = fact.body
                    held[body.pod_uid, body.container, body.resource] = body.device_ids
                elif isinstance(fact.body, DevicesReleased):
                    gone = fact.body.pod_uid
                    held = {key: ids for key, ids in held.items() if key[0] != gone}
            assert isinstance(reading.body, CheckpointRead)
            assert held == {
                (entry.pod_uid, entry.container, entry.resource): all_ids(entry.numa)
                for entry in reading.body.entries
            }
            seen += len(held)
        assert seen > 10

    def test_a_restart_allocates_nothing(self) -> None:
        """Restored entries and pre-allocated devices are no news."""
        restart = at("03:03:25")
        allocated = of_kind(self.facts_of_node_a(), DevicesAllocated)
        assert all(fact.ts_ns < restart for fact in allocated)

    def test_one_refusal_of_1_20_with_all_its_lines(self) -> None:
        """Shortage, event and four status lines are one fact."""
        (refusal,) = of_kind(self.facts_of_node_a(), AllocationFailed)
        assert refusal.body == AllocationFailed(
            namespace="default",
            pod="gpu-c",
            pod_uid=POD_C,
            container="train",
            resource="example.com/gpu",
            requested=3,
            available=1,
            error="requested number of devices unavailable for example.com/gpu. "
            "Requested: 3, Available: 1",
        )
        assert len(refusal.evidence) == 6
        assert refusal.cause is not None
        assert isinstance(refusal.cause.body, AllocationRequested)
        assert refusal.cause.body.needed == 3

    def test_health_shows_in_the_checkpoints(self) -> None:
        """Two devices turn unhealthy and come back."""
        reports = bodies(self.facts_of_node_a(), DevicesReported)
        healthy = [r.healthy for r in reports if r.resource == "example.com/gpu" and r.healthy]
        assert healthy == [4, 2, 4]
        assert all(report.total is None for report in reports)

    def test_release_of_1_20(self) -> None:
        """The devices of a deleted pod come free when the next pod asks."""
        assert bodies(self.facts_of_node_a(), DevicesReleased) == [DevicesReleased(pod_uid=POD_A)]

    def test_plugins_of_1_20(self) -> None:
        """Two plugins, before and after the restart; two lines each."""
        facts = of_kind(self.facts_of_node_a(), PluginRegistered)
        assert [
            fact.body.resource for fact in facts if isinstance(fact.body, PluginRegistered)
        ] == [
            "example.com/gpu",
            "vendor.io/nic",
        ] * 2
        assert [len(fact.evidence) for fact in facts] == [2] * 4

    def test_node_b(self) -> None:
        """1.36.2: a sidecar keeps the device of the init container before it."""
        items = recorded_checkpoints("v1.36.2")
        names = {
            "6faae567b5171c79dda9a3e8e04d3a56": "default/gpu-a-node-b",
            "3e50fe57765780f694abbf26d7dc53b0": "default/gpu-c-node-b",
        }
        known = context(*items, **{f"_{uid}": name for uid, name in names.items()})
        facts = feed(devices_of(known), [*recorded("devices/v1.36.2.log"), *items])
        assert [(c, r, ids) for _, c, r, ids, _ in granted(facts)] == [
            ("warmup", "example.com/gpu", ("gpu-0",)),
            ("side", "example.com/gpu", ("gpu-0",)),
            ("train", "example.com/gpu", ("gpu-2",)),
            ("train", "vendor.io/nic", ("nic-0", "nic-2")),
        ]
        assert {uid for uid, *_ in granted(facts)} == {"6faae567b5171c79dda9a3e8e04d3a56"}
        (refusal,) = of_kind(facts, AllocationFailed)
        assert isinstance(refusal.body, AllocationFailed)
        assert (refusal.body.requested, refusal.body.available) == (3, 2)
        assert len(refusal.evidence) == 4
        assert [(r.total, r.healthy) for r in bodies(facts, DevicesReported)[:2]] == [
            (4, 4),
            (3, 3),
        ]
        stopped = of_kind(facts, EndpointStopped)
        assert [len(fact.evidence) for fact in stopped] == [3, 3]
        assert "EOF" in str(bodies(facts, EndpointStopped)[0].error)


class TestGrants:
    """Allocations by lines, by checkpoints, by both."""

    def test_without_a_checkpoint_the_nodes_are_unknown(self) -> None:
        """No guess."""
        facts = run(lines(need("u", "c"), make("b", "a")), u="ns/p")
        assert granted(facts) == [("u", "c", "r/x", ("a", "b"), None)]
        assert bodies(facts, DevicesAllocated)[0].pod == "p"

    def test_a_call_that_failed_gave_nothing(self) -> None:
        """The line comes before the call; the refusal tells how it went."""
        error = "rpc error: code = Unavailable desc = transport is closing"
        facts = run(
            lines(
                need("u", "c"),
                make("a"),
                'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" '
                'type="Warning" reason="UnexpectedAdmissionError" '
                f'message="Allocate failed due to {error}, which is unexpected"',
            ),
            u="ns/p",
        )
        assert granted(facts) == []
        (refusal,) = bodies(facts, AllocationFailed)
        assert (refusal.container, refusal.resource, refusal.error) == ("c", "r/x", error)

    def test_only_the_last_call_of_a_refused_pod_failed(self) -> None:
        """The first container's devices stay held."""
        facts = run(
            lines(
                need("u", "one"),
                make("a"),
                need("u", "two", count=3),
                'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
                f'reason="UnexpectedAdmissionError" message="{REFUSAL}"',
            ),
            u="ns/p",
        )
        assert [container for _, container, *_ in granted(facts)] == ["one"]
        assert [body.container for body in bodies(facts, AllocationFailed)] == ["two"]

    def test_errors_of_other_managers_are_not_ours(self) -> None:
        """The CPU manager fails in the same words; the devices stay allocated."""
        facts = run(
            lines(
                need("u", "c"),
                make("a"),
                'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" '
                'type="Warning" reason="UnexpectedAdmissionError" message="Allocate failed due '
                'to not enough cpus available to satisfy request, which is unexpected"',
            ),
            u="ns/p",
        )
        assert len(granted(facts)) == 1
        assert bodies(facts, AllocationFailed) == []

    def test_structured_lines_of_versions_in_between(self) -> None:
        """Go lists instead of JSON, and no pod in the line of the call."""
        facts = run(
            lines(
                'manager.go "Need devices to allocate for pod" deviceNumber=2 '
                'resourceName="r/x" podUID="u" containerName="c"',
                'manager.go "Making allocation request for device plugin" devices=[b a] '
                'resourceName="r/x"',
            ),
            u="ns/p",
        )
        assert granted(facts) == [("u", "c", "r/x", ("a", "b"), None)]

    def test_a_call_without_its_request(self) -> None:
        """The log begins in the middle: the line names pod and container itself."""
        line = (
            'manager.go "Making allocation request for device plugin" devices=["a"] '
            'resourceName="r/x" pod="ns/p" containerName="c"'
        )
        assert granted(run(lines(line), u="ns/p"))[0][:2] == ("u", "c")
        (unknown,) = bodies(run(lines(line)), DevicesAllocated)
        assert (unknown.namespace, unknown.pod, unknown.pod_uid) == ("ns", "p", None)

    def test_a_call_for_another_resource_than_was_asked_for(self) -> None:
        """It is told as it stands, with the request that it answers as its cause."""
        facts = run(lines(need("u", "c"), make("a", resource="r/y")), u="ns/p")
        assert granted(facts) == [("u", "c", "r/y", ("a",), None)]
        asked, given = of_kind(facts, AllocationRequested), of_kind(facts, DevicesAllocated)
        assert [fact.cause for fact in given] == asked
        # Long after the request it is another's, whose own request is not in the log.
        late = run(lines(need("u", "c"), "+5s " + make("a", resource="r/y")), u="ns/p")
        assert granted(late) == []

    def test_a_call_that_stands_twice_in_the_log(self) -> None:
        """One line, repeated."""
        call = (
            'manager.go "Making allocation request for device plugin" devices=["a"] '
            'resourceName="r/x" pod="ns/p" containerName="c"'
        )
        line, other = lines(call, call)
        known = context(u="ns/p")
        assert len(granted(feed(devices_of(known), [line, line]))) == 1
        assert len(granted(feed(devices_of(known), [line, other]))) == 2

    def test_how_an_allocation_became_known(self) -> None:
        """From the call, or from what a new kubelet finds of before."""
        found = (
            'manager.go Found pre-allocated devices for resource r/x container "d" in Pod "u": [b]'
        )
        facts = run(lines(need("u", "c"), make("a"), found), u="ns/p")
        reported = {body.container: body.told_by for body in bodies(facts, DevicesAllocated)}
        assert reported == {"c": "call", "d": "restore"}

    def test_low_verbosity(self) -> None:
        """Only the checkpoint shows what was allocated; told once."""
        first = checkpoint(at("02:01:00"), ("u", "c", "r/x", {"1": ["b", "a"]}), r=["a"])
        again = checkpoint(at("02:02:00"), ("u", "c", "r/x", {"1": ["b", "a"]}), r=["a", "b"])
        facts = run([first, again], u="ns/p")
        assert granted(facts) == [("u", "c", "r/x", ("a", "b"), {"1": ("a", "b")})]
        assert of_kind(facts, DevicesAllocated)[0].ts_ns == at("02:01:00")
        assert [body.told_by for body in bodies(facts, DevicesAllocated)] == ["checkpoint"]
        assert len(bodies(facts, CheckpointRead)) == 2

    def test_a_request_leads_to_what_the_checkpoint_shows(self) -> None:
        """1.36 at verbosity 3 logs the request, not the devices."""
        facts = run(
            [
                *lines(need("u", "c")),
                checkpoint(at("02:01:00"), ("u", "c", "r/x", {"0": ["a"]})),
            ],
            u="ns/p",
        )
        (allocated,) = of_kind(facts, DevicesAllocated)
        assert allocated.cause is not None
        assert isinstance(allocated.cause.body, AllocationRequested)

    def test_a_snapshot_of_the_same_second(self) -> None:
        """It is named by the whole second before the line, and shows what comes after."""
        stamp = at("02:00:00")
        facts = run(
            [checkpoint(stamp, ("u", "c", "r/x", {"0": ["a"]})), *lines(need("u", "c"), make("a"))],
            u="ns/p",
        )
        assert len(granted(facts)) == 1

    def test_log_and_checkpoint_disagree(self) -> None:
        """The log is believed, the finding names both, once."""
        one = checkpoint(at("02:01:00"), ("u", "c", "r/x", {"0": ["b"]}))
        two = checkpoint(at("02:02:00"), ("u", "c", "r/x", {"0": ["b"]}), r=["b"])
        facts = run([*lines(need("u", "c"), make("a")), one, two], u="ns/p")
        assert granted(facts) == [("u", "c", "r/x", ("a",), None)]
        (finding,) = of_kind(facts, FindingReported)
        assert isinstance(finding.body, FindingReported)
        assert finding.body.finding == "contradiction"
        assert {piece.file for piece in finding.evidence} == {"checkpoint", "kubelet.log"}

    def test_a_pod_with_the_same_uid_comes_back(self) -> None:
        """A static pod's UID is a hash: after its release the same UID may hold others."""
        facts = run(
            [
                *lines(
                    need("u", "c"),
                    make("a"),
                    "+9s manager.go pods to be removed: [u]",
                    need("u", "c"),
                    make("b"),
                ),
                checkpoint(at("02:00:05"), ("u", "c", "r/x", {"0": ["a"]})),
                checkpoint(at("02:00:20"), ("u", "c", "r/x", {"0": ["b"]})),
            ],
            u="ns/p",
        )
        assert [ids for *_, ids, _ in granted(facts)] == [("a",), ("b",)]
        assert bodies(facts, FindingReported) == []

    def test_restored_entries_are_told_when_nothing_did_before(self) -> None:
        """The log begins with a restart."""
        facts = run(
            lines(
                "pod_devices.go Get checkpoint entry: u c r/x map[-1:[b] 0:[a]] [10 13]",
                'manager.go Found pre-allocated devices for resource r/x container "c" in Pod "u": '
                "[a b]",
                'manager.go Found pre-allocated devices for resource r/y container "c" in Pod "u": '
                "[z]",
                'pod_devices.go "Get checkpoint entry" podUID="v" containerName="c" '
                'resourceName="r/x" deviceIDs={"1":["d"]} allocated="CgE="',
            ),
            u="ns/p",
        )
        assert granted(facts) == [
            ("u", "c", "r/x", ("a", "b"), {"-1": ("b",), "0": ("a",)}),
            ("u", "c", "r/y", ("z",), None),
            ("v", "c", "r/x", ("d",), {"1": ("d",)}),
        ]

    def test_a_container_keeps_its_devices(self) -> None:
        """A checkpoint that tells others, once, disagrees; nothing is released for it."""
        uid = "0c2c5a4e-0000"
        facts = run(
            [
                checkpoint(at("02:00:10"), (uid, "c", "r/x", {"0": ["a"]})),
                checkpoint(at("02:00:20"), (uid, "c", "r/x", {"0": ["b"]})),
                checkpoint(at("02:00:30"), (uid, "c", "r/x", {"0": ["a"]})),
            ],
            u="ns/p",
        )
        assert [ids for *_, ids, _ in granted(facts)] == [("a",)]
        assert bodies(facts, DevicesReleased) == []
        (finding,) = bodies(facts, FindingReported)
        assert finding.finding == "contradiction"
        assert "all sources so far give r/x a" in finding.message


class TestReleases:
    """Devices given back."""

    def test_by_a_line_once(self) -> None:
        """The kubelet may say it again after a restart, of what it restored."""
        facts = run(
            lines(
                need("u", "c"),
                make("a"),
                'manager.go "Pods to be removed" podUIDs=["u","v"]',
                "manager.go pods to be removed: [u]",
            ),
            u="ns/p",
        )
        assert [body.pod_uid for body in bodies(facts, DevicesReleased)] == ["u", "v"]

    def test_a_stale_entry_is_no_allocation(self) -> None:
        """The checkpoint is not rewritten when devices come free."""
        facts = run(
            [
                *lines(need("u", "c"), make("a"), "+9s manager.go pods to be removed: [u]"),
                checkpoint(at("02:00:05"), ("u", "c", "r/x", {"0": ["a"]})),
                checkpoint(at("02:00:20"), ("u", "c", "r/x", {"0": ["a"]}), r=["a"]),
            ],
            u="ns/p",
        )
        assert len(granted(facts)) == 1
        assert len(bodies(facts, DevicesReleased)) == 1

    def test_by_absence(self) -> None:
        """An entry missing later: one container's, then the whole pod's."""
        both = (("u", "c", "r/x", {"0": ["a"]}), ("u", "d", "r/x", {"0": ["b"]}))
        facts = run(
            [
                checkpoint(at("02:01:00"), *both),
                checkpoint(at("02:02:00"), both[1]),
                checkpoint(at("02:03:00")),
            ],
            u="ns/p",
        )
        assert bodies(facts, DevicesReleased) == [
            DevicesReleased(pod_uid="u", container="c", resource="r/x", inferred=True),
            DevicesReleased(pod_uid="u", inferred=True),
        ]

    def test_other_devices_in_a_later_checkpoint(self) -> None:
        """A re-allocation that the log does not show: released and granted."""
        facts = run(
            [
                checkpoint(at("02:01:00"), ("u", "c", "r/x", {"0": ["a"]})),
                checkpoint(at("02:02:00"), ("u", "c", "r/x", {"0": ["b"]})),
            ],
            u="ns/p",
        )
        assert [ids for *_, ids, _ in granted(facts)] == [("a",), ("b",)]
        assert [body.inferred for body in bodies(facts, DevicesReleased)] == [True]


class TestRefusals:
    """All ways in which the device manager says no."""

    @pytest.mark.parametrize(
        ("error", "found"),
        [
            (UNAVAILABLE, ("c", "r/x", 3, 1)),
            ("can't allocate unregistered device r/x", ("c", "r/x", None, None)),
            ("cannot allocate unregistered device r/x", ("c", "r/x", None, None)),
            (
                "no healthy devices present; cannot allocate unhealthy devices r/x",
                ("c", "r/x", None, None),
            ),
            (
                "previously allocated devices are no longer healthy; cannot allocate unhealthy "
                "devices r/x",
                ("c", "r/x", None, None),
            ),
            (
                'pod "u" container "other" changed request for resource "r/x" from 1 to 2',
                ("other", "r/x", 2, None),
            ),
            (
                "unexpectedly allocated less resources than required. Requested: 3, Got: 2",
                ("c", "r/x", 3, None),
            ),
            ("unknown Device Plugin r/x", ("c", "r/x", None, None)),
            (
                "device plugin GetPreferredAllocation rpc failed with err: x",
                ("c", "r/x", None, None),
            ),
        ],
    )
    def test_errors(self, error: str, found: tuple[str, str, int | None, int | None]) -> None:
        """Container and resource come from the request when the text has none."""
        quoted = f"Allocate failed due to {error}, which is unexpected".replace('"', '\\"')
        facts = run(
            lines(
                need("u", "c"),
                'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
                f'reason="UnexpectedAdmissionError" message="{quoted}"',
            ),
            u="ns/p",
        )
        (body,) = bodies(facts, AllocationFailed)
        assert (body.container, body.resource, body.requested, body.available) == found
        assert body.error == error

    def test_a_pod_refused_again_is_a_second_refusal(self) -> None:
        """A static pod is admitted anew after each restart."""
        denied = (
            'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
            f'reason="UnexpectedAdmissionError" message="{REFUSAL}"'
        )
        facts = run(lines(denied, f"+60s {denied}"), u="ns/p")
        assert len(bodies(facts, AllocationFailed)) == 2

    def test_other_words_at_once_are_no_second_refusal(self) -> None:
        """A pod is refused once an admission; what tells it otherwise stands by as evidence."""
        other = REFUSAL.replace("Available: 1", "Available: 2")
        assert other != REFUSAL
        facts = run(
            lines(
                'status_manager.go Status Manager: adding pod: "u", with status: (1, {Failed [] '
                f"Pod {REFUSAL} UnexpectedAdmissionError    [] <nil> [] []  []}}) to x",
                'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" '
                f'type="Warning" reason="UnexpectedAdmissionError" message="{other}"',
                'status_manager.go Status Manager: syncing pod: "u", with status: (1, {Failed [] '
                f"Pod {REFUSAL} UnexpectedAdmissionError    [] <nil> [] []  []}}) from x",
            ),
            u="ns/p",
        )
        (fact,) = of_kind(facts, AllocationFailed)
        assert isinstance(fact.body, AllocationFailed)
        assert fact.body.error in REFUSAL
        assert len(fact.evidence) == 3

    def test_a_status_that_is_repeated_later_is_not(self) -> None:
        """Only an admission refuses."""
        status = (
            'status_manager.go Status Manager: syncing pod: "u", with status: (2, {Failed [] '
            f"Pod {REFUSAL} UnexpectedAdmissionError    [] <nil> [] []  []}}) from podStatusChannel"
        )
        facts = run(lines(status, f"+60s {status}"), u="ns/p")
        assert len(bodies(facts, AllocationFailed)) == 1

    def test_topology_refusal_for_want_of_devices(self) -> None:
        """With a strict policy the topology manager refuses before the device manager can."""
        facts = run(
            lines(
                "topology_hints.go [devicemanager] Unable to generate topology hints: requested "
                "number of devices unavailable for 'r/x': requested: 3, available: 1",
                'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" '
                'type="Warning" reason="TopologyAffinityError" message="Resources cannot be '
                'allocated with Topology locality"',
            ),
            u="ns/p",
        )
        (body,) = bodies(facts, AllocationFailed)
        assert (body.pod_uid, body.resource, body.requested, body.available) == ("u", "r/x", 3, 1)

    def test_topology_refusal_for_other_reasons(self) -> None:
        """No device was short."""
        event = (
            'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" type="Warning" '
            'reason="TopologyAffinityError" message="Resources cannot be allocated with '
            'Topology locality"'
        )
        assert run(lines(event), u="ns/p") == []

    def test_two_pods_short_of_the_same(self) -> None:
        """Each refusal takes its own shortage, by the counts."""
        facts = run(
            lines(
                "topology_hints.go [devicemanager] Unable to generate topology hints: requested "
                "number of devices unavailable for 'r/x': requested: 5, available: 1",
                "topology_hints.go [devicemanager] Unable to generate topology hints: requested "
                "number of devices unavailable for 'r/x': requested: 3, available: 1",
                'event.go "Event occurred" object="ns/p" kind="Pod" apiVersion="v1" '
                f'type="Warning" reason="UnexpectedAdmissionError" message="{REFUSAL}"',
            ),
            u="ns/p",
        )
        (refusal,) = of_kind(facts, AllocationFailed)
        assert [piece.line for piece in refusal.evidence] == [2, 3]

    def test_the_oldest_event_form(self) -> None:
        """Up to 1.19 events were free text."""
        facts = run(
            lines(
                'event.go Event(v1.ObjectReference{Kind:"Pod", Namespace:"ns", Name:"p", '
                'UID:"u", APIVersion:"v1", ResourceVersion:"7", FieldPath:""}): type: \'Warning\' '
                f"reason: 'UnexpectedAdmissionError' {REFUSAL}"
            )
        )
        (body,) = bodies(facts, AllocationFailed)
        assert (body.namespace, body.pod, body.pod_uid) == ("ns", "p", "u")


class TestRefusalsWithoutTheLog:
    """API events and pod lists tell refusals too."""

    def event(self, ts_ns: int) -> ApiEvent:
        """The event of the refusal."""
        return ApiEvent(
            ts_ns,
            {
                "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"},
                "reason": "UnexpectedAdmissionError",
                "message": REFUSAL,
            },
            Evidence(file="events.json", line=3),
        )

    def test_an_event_alone(self) -> None:
        """At the event's time."""
        (refusal,) = of_kind(run([self.event(at("02:00:07"))]), AllocationFailed)
        assert refusal.ts_ns == at("02:00:07")

    def test_an_event_and_the_line_a_moment_later(self) -> None:
        """The event has whole seconds: the line's time is the better one."""
        line = (
            'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
            f'reason="UnexpectedAdmissionError" message="{REFUSAL}"'
        )
        (refusal,) = of_kind(run([self.event(at("02:00:00")), *lines(line)]), AllocationFailed)
        assert refusal.ts_ns > at("02:00:00")
        assert {piece.file for piece in refusal.evidence} == {"kubelet.log", "events.json"}

    def test_an_indexed_event_is_evidence(self) -> None:
        """It was found by the first look over the bundle."""
        line = (
            'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
            f'reason="UnexpectedAdmissionError" message="{REFUSAL}"'
        )
        known = context(u="ns/p")
        when = at("02:00:00")
        known.events["Pod", "ns", "p", "UnexpectedAdmissionError", REFUSAL] = IndexedEvent(
            event={}, count=1, first_ts_ns=when, last_ts_ns=when, evidence=(FILE,)
        )
        (refusal,) = of_kind(feed(devices_of(known), lines(line)), AllocationFailed)
        assert FILE in refusal.evidence

    def test_pod_lists(self) -> None:
        """The status of a failed pod, in as many lists as there are; mirror pods by their hash."""
        pod = {
            "metadata": {
                "namespace": "ns",
                "name": "p",
                "uid": "mirror",
                "annotations": {"kubernetes.io/config.mirror": "u"},
            },
            "status": {
                "phase": "Failed",
                "reason": "UnexpectedAdmissionError",
                "message": f"Pod was rejected: {REFUSAL}",
            },
        }
        lists = [
            PodList(
                ts_ns=at(f"02:0{minute}:00"),
                listed_by="api",
                pods=[pod],
                complete=True,
                evidence=FILE,
            )
            for minute in range(3)
        ]
        (body,) = bodies(run(lists), AllocationFailed)
        assert (body.pod_uid, body.requested, body.told_by) == ("u", 3, "status")


class TestPlugins:
    """Registration, reports and ends."""

    def test_a_bad_registration_is_none(self) -> None:
        """The request alone is not enough when the answer is an error."""
        facts = run(
            lines(
                "manager.go Got registration request from device plugin with resource name "
                '"bad name"',
                'manager.go Bad registration request from device plugin with resource name "bad '
                'name": invalid name',
                'server.go "Got registration request from device plugin with resource" '
                'resourceName="r/x"',
                'server.go "Error connecting to device plugin client" err="dial failed"',
            )
        )
        assert facts == []

    def test_at_low_verbosity_the_request_counts(self) -> None:
        """Nothing else is logged."""
        line = 'manager.go Got registration request from device plugin with resource name "r/x"'
        assert bodies(run(lines(line)), PluginRegistered) == [PluginRegistered(resource="r/x")]

    def test_a_replaced_endpoint_ends_without_effect(self) -> None:
        """The plugin restarted: its new endpoint is in place before the old one ends."""
        facts = run(
            lines(
                'manager.go Got registration request from device plugin with resource name "r/x"',
                "manager.go Registered endpoint &{0xc0 0xc1 r/x}",
                "endpoint.go listAndWatch ended unexpectedly for device plugin r/x with error EOF",
                "manager.go Endpoint (r/x, &{0xc0}) became unhealthy",
            )
        )
        assert [type(fact.body) for fact in facts] == [PluginRegistered]

    def test_an_endpoint_that_ends(self) -> None:
        """Three lines, one fact."""
        facts = run(
            lines(
                "endpoint.go listAndWatch ended unexpectedly for device plugin r/x with error EOF",
                "manager.go Mark all resources Unhealthy for resource r/x",
                "manager.go Endpoint (r/x, &{0xc0}) became unhealthy",
            )
        )
        assert bodies(facts, EndpointStopped) == [EndpointStopped(resource="r/x", error="EOF")]
        assert len(facts[0].evidence) == 3

    def test_reports_by_version(self) -> None:
        """Without counts, with a total, with both."""
        facts = run(
            lines(
                "endpoint.go State pushed for device plugin r/x",
                'endpoint.go "State pushed for device plugin" resource="r/y" resourceCapacity=4',
                'client.go "State pushed for device plugin" resource="r/z" resourceCapacity=4',
                'manager.go "Processed device updates for resource" resourceName="r/z" '
                "totalCount=4 healthyCount=2",
            )
        )
        assert bodies(facts, DevicesReported) == [
            DevicesReported(resource="r/x"),
            DevicesReported(resource="r/y", total=4),
            DevicesReported(resource="r/z", total=4, healthy=2),
        ]


class TestCheckpointFiles:
    """Files as observations."""

    def test_a_wrong_checksum(self) -> None:
        """Recorded, found, and not relied on."""
        item = checkpoint(at("02:01:00"), ("u", "c", "r/x", {"0": ["a"]}), r=["a"])
        item.data["Checksum"] ^= 1
        facts = run([item])
        assert [type(fact.body) for fact in facts] == [CheckpointRead, FindingReported]
        assert bodies(facts, CheckpointRead)[0].checksum_ok is False
        assert bodies(facts, FindingReported)[0].finding == "checksum_mismatch"

    def test_the_first_look_relies_on_no_wrong_checksum(self) -> None:
        """What such a file holds is no evidence of a grant, and a sound one behind it is."""
        wrong = checkpoint(at("02:01:00"), ("u", "c", "r/x", {"0": ["a"]}), r=["a"])
        wrong.data["Checksum"] ^= 1
        sound = checkpoint(at("02:02:00"), ("u", "c", "r/x", {"1": ["a"]}), r=["a"])
        broken = Checkpoint(at("02:03:00"), {"Data": {"PodDeviceEntries": []}}, b"{", FILE)
        looked = BundleContext(node="n")
        for item in (wrong, sound, broken):
            _take_checkpoint(looked, item)
        assert looked.allocations["u", "c", "r/x"].numa == {"1": ("a",)}

    def test_half_a_checkpoint(self) -> None:
        """A finding, no crash."""
        half = Checkpoint(at("02:01:00"), {"Data": {"PodDeviceEntries": 3}}, b"{", FILE)
        facts = feed(devices_of(BundleContext(node="n")), [half])
        assert [body.finding for body in bodies(facts, FindingReported)] == ["malformed_checkpoint"]

    def test_an_unchanged_file_is_read_once(self) -> None:
        """As often as an agent copies it."""
        items = [checkpoint(at(f"02:0{minute}:00"), r=["a"]) for minute in range(3)]
        assert len(bodies(run([*items]), CheckpointRead)) == 1

    def test_a_plugin_that_is_away_reports_nothing(self) -> None:
        """An empty list is not a list that a plugin sent."""
        facts = run([checkpoint(at("02:01:00"), r=["a"]), checkpoint(at("02:02:00"), r=[])])
        assert [report.healthy for report in bodies(facts, DevicesReported)] == [1]


def test_heartbeats_end_the_wait() -> None:
    """A refusal leaves with the next housekeeping line, not at the end of the log."""
    assembler = devices_of(context(u="ns/p"))
    denied, beat = lines(
        'allocation_manager.go "Pod admission denied" podUID="u" pod="ns/p" '
        f'reason="UnexpectedAdmissionError" message="{REFUSAL}"',
        '+2s kubelet.go "SyncLoop (housekeeping)"',
    )
    assert list(assembler.structured()[denied.message](denied) or ()) == []
    (fact,) = assembler.structured()[beat.message](beat) or ()
    assert isinstance(fact.body, AllocationFailed)
    assert beat.ts_ns - fact.ts_ns > NS_PER_S
