"""Settings belong to a process: which of a bundle's documents are whose."""

import json
from typing import Any

import pytest

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.node import NodeAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import KubeletConfigFile
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.record import Evidence
from kubeledger.model.units import parse_ts
from tests.ingest.pieces import feed_items, feed_log, klog

OLD, NEW = {"podPidsLimit": -1, "maxPods": 30}, {"podPidsLimit": 200, "maxPods": 26}


def at(time: str) -> int:
    return parse_ts(f"2026-11-21T{time}Z")


def document(
    config: dict[str, Any], file: str, time: str, *, served: bool = False
) -> KubeletConfigFile:
    return KubeletConfigFile(at(time), config, Evidence(file=file), served=served)


def start(pid: int, time: str, limit: int, *, flags: bool = True) -> str:
    """What a process at verbosity 2 tells of its settings."""
    time += ".000000"
    version = klog("server.go", '"Kubelet version" kubeletVersion="v1.30.14"', pid=pid, time=time)
    config = json.dumps({"PodPidsLimit": limit, "KubeReserved": {"memory": "256Mi"}})
    node = f'"Creating Container Manager object based on Node Config" nodeConfig={config}'
    given = klog("flags.go", 'FLAG: --config="/etc/kubelet.yaml"', pid=pid, time=time)
    return (given if flags else "") + version + klog("cm.go", node, pid=pid, time=time)


def reported(
    log: str, *documents: KubeletConfigFile, starts: tuple[str, ...], until: str | None = None
) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    """Settings of each process, and what its sources or a file say otherwise."""
    context = BundleContext(
        node="n",
        kubelet_version="1.30.14",
        starts_ns=tuple(map(at, starts)),
        logged_until_ns=None if until is None else at(until),
        served=[item for item in documents if item.served],
        last_ts_ns=at("12:00:00"),
    )
    assembler = NodeAssembler(Registers(context))
    files = [item for item in documents if not item.served]
    facts = [*feed_items(assembler, files), *feed_log(assembler, log)]
    facts += feed_items(assembler, context.served)
    facts += assembler.finish(context.last_ts_ns)
    return [
        (
            {f: json.loads(fact.body.settings[f].value) for f in OLD if f in fact.body.settings},
            (*fact.body.conflicts, *fact.body.outdated),
        )
        for fact in facts
        if isinstance(fact.body, SettingsObserved)
    ]


TWO = start(1, "10:00:00", -1) + start(2, "11:00:00", 200)
STARTS = ("10:00:00", "11:00:00")
FILE = document(NEW, "kubelet-config.yaml", "10:00:00")
"""Of the second run."""


def test_a_file_is_no_settings_of_a_process_that_says_otherwise() -> None:
    """The first process tells another limit itself; the rest of its settings nobody knows."""
    assert reported(TWO, FILE, starts=STARTS) == [({"podPidsLimit": -1}, ()), (NEW, ())]


def test_what_a_kubelet_served_holds_from_its_start_to_its_end() -> None:
    """Also before it was asked; no other process runs with it, and no file contradicts it."""
    first = document(OLD, "a/configz.json", "10:10:00", served=True)
    again = document(OLD, "b/configz.json", "10:20:00", served=True)
    second = document(NEW, "c/configz.json", "11:10:00", served=True)
    assert reported(TWO, FILE, first, again, second, starts=STARTS) == [(OLD, ()), (NEW, ())]
    assert reported(TWO, first, starts=STARTS) == [(OLD, ()), ({"podPidsLimit": 200}, ())]


def test_without_a_log_each_answer_that_differs_is_another_process() -> None:
    first = document(OLD, "a/configz.json", "10:10:00", served=True)
    again = document(OLD, "b/configz.json", "10:20:00", served=True)
    second = document(NEW, "c/configz.json", "11:10:00", served=True)
    assert reported("", first, again, second, starts=()) == [(OLD, ()), (NEW, ())]
    assert reported("", FILE, first, again, second, starts=()) == [(OLD, ()), (NEW, ())]


def test_nobody_knows_whose_a_file_is_when_the_log_begins_in_the_middle() -> None:
    """Only if the process tells something, or there is no other."""
    middle = klog("kubelet_node_status.go", "Updating node status", pid=1, time="10:30:00.000000")
    log = middle + start(2, "11:00:00", 200)
    assert reported(log, FILE, starts=STARTS[1:]) == [(NEW, ())]
    assert reported(middle, FILE, starts=()) == [(NEW, ())]


def test_a_file_that_fits_no_process_is_a_conflict() -> None:
    """Said once, of the last; what else it says counts for nothing."""
    other = document({**NEW, "podPidsLimit": 7}, "kubelet-config.yaml", "10:00:00")
    (_, none), (last, (conflict,)) = reported(TWO, other, starts=STARTS)
    assert (none, last) == ((), {"podPidsLimit": 200})
    assert conflict.startswith("podPidsLimit: ")


@pytest.mark.parametrize("order", [1, -1])
def test_the_file_that_the_process_was_started_with(order: int) -> None:
    """``--config`` names it; of copies of it, the one that lay there at the start."""
    files = [
        document({"podPidsLimit": 200, "maxPods": 1}, "other.yaml", "09:00:00"),
        document({"podPidsLimit": 200, "maxPods": 2}, "20261121T090000Z/kubelet.yaml", "09:00:00"),
        document({"podPidsLimit": 200, "maxPods": 3}, "20261121T095959Z/kubelet.yaml", "09:59:59"),
        document({"podPidsLimit": 200, "maxPods": 4}, "20261121T100100Z/kubelet.yaml", "10:01:00"),
    ]
    log = start(1, "10:00:00", 200)
    expected = {"podPidsLimit": 200, "maxPods": 3}
    assert reported(log, *files[::order], starts=STARTS[:1]) == [(expected, ())]


@pytest.mark.parametrize("flags", [True, False])
def test_an_answer_behind_the_end_of_the_log_may_be_another_process(flags: bool) -> None:
    """Only one that differs is; while the log goes on, the sources contradict each other."""
    first = start(1, "10:00:00", -1, flags=flags)
    same = document(OLD, "1/configz.json", "10:40:00", served=True)
    other = document(NEW, "2/configz.json", "10:50:00", served=True)
    *before, last = reported(first, same, other, starts=STARTS[:1], until="10:30:00")
    assert last == (NEW, ())
    assert all(settings["podPidsLimit"] == -1 and not odd for settings, odd in before)
    assert reported(first, other, starts=STARTS[:1], until="11:30:00")[-1][1]
    apart = reported(first, other, starts=STARTS[:1], until="10:30:00")
    assert apart == [({"podPidsLimit": -1}, ()), (NEW, ())]
