"""Starts of kubelets in their logs."""

import msgspec
import pytest

from kubeledger.ingest.assemblers import StartAssembler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.planning.plan import KubeletVersion
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.units import NS_PER_S
from tests.ingest.feeding import lines, listening


@pytest.mark.parametrize(
    ("line", "from_start"),
    [
        ('flags.go FLAG: --address="0.0.0.0"', True),
        ("server.go Version: v1.20.2", True),
        ('server.go "Kubelet version" kubeletVersion="v1.36.2"', True),
        ("feature_gate.go feature gates: &{map[]}", True),
        ('envvar.go "Feature gate default state" feature="WatchListClient" enabled=true', True),
        ('server.go "--pod-infra-container-image will not be pruned by the image GC"', True),
        ("server.go Warning: For remote container runtime, --pod-infra-container-image is", True),
        ('codec.go "Using lenient decoding as strict decoding failed" err="x"', True),
        ("kubelet.go SyncLoop (housekeeping)", False),
        ('kubelet.go "SyncLoop ADD" source="api" pods=["ns/apiVersion"]', False),
    ],
)
def test_whether_a_log_holds_the_start(line: str, from_start: bool) -> None:
    """A log that was cut begins with any line."""
    version = KubeletVersion(version="1.36.2", source="log", text="v1.36.2")
    assembler = StartAssembler(Registers(BundleContext(node="n")), lambda _: version)
    (fact,) = assembler.new_process(lines(line)[0])
    assert isinstance(fact.body, KubeletStarted)
    assert fact.body.from_start is from_start


@pytest.mark.parametrize(
    ("pid", "by", "soon", "from_start"),
    [
        (4052, 4052, True, True),
        (4052, 4052, False, False),
        (4052, 4066, True, False),
        (1, 1, True, False),
        (None, None, True, False),
    ],
)
def test_what_stands_right_before_the_version_is_of_the_start(
    pid: int | None, by: int | None, soon: bool, from_start: bool
) -> None:
    """Whatever it says: its own words may be wrapped, or those of a build of one's own."""
    line = msgspec.structs.replace(lines("server.go Hello")[0], pid=pid)
    at = line.ts_ns + (NS_PER_S // 10 if soon else NS_PER_S)
    version = KubeletVersion("1.36.2", "log", "v1.36.2", by, at)
    assembler = StartAssembler(Registers(BundleContext(node="n")), lambda _: version)
    (fact,) = assembler.new_process(line)
    assert isinstance(fact.body, KubeletStarted)
    assert fact.body.from_start is from_start


def test_a_log_without_process_ids_that_begins_in_the_middle_shows_the_next_start() -> None:
    """Its flags and version are those of another process, for its own stood before the cut."""
    version = KubeletVersion(version="1.36.2", source="log", text="v1.36.2")
    assembler = StartAssembler(Registers(BundleContext(node="n")), lambda _: version)
    assembler.new_process(msgspec.structs.replace(lines("kubelet.go SyncLoop ADD")[0], pid=None))
    flag = msgspec.structs.replace(lines('flags.go FLAG: --address="0.0.0.0"')[0], pid=None)
    flags = listening(assembler)["FLAG"][0]
    (start,) = flags(flag) or ()
    assert isinstance(start.body, KubeletStarted)
    assert (start.body.restart, start.body.from_start) == (True, True)
    assert not flags(flag)
