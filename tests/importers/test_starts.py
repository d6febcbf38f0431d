"""Starts of kubelets in their logs."""

from __future__ import annotations

import pytest

from kubeledger.importers.context import BundleContext
from kubeledger.importers.identity import KubeletVersion
from kubeledger.importers.starts import StartAssembler
from kubeledger.node.records import KubeletStarted
from tests.importers.feeding import lines


@pytest.mark.parametrize(
    ("line", "from_start"),
    [
        ('flags.go FLAG: --address="0.0.0.0"', True),
        ("server.go Version: v1.20.2", True),
        ('server.go "Kubelet version" kubeletVersion="v1.36.2"', True),
        ("feature_gate.go feature gates: &{map[]}", True),
        ('envvar.go "Feature gate default state" feature="WatchListClient" enabled=true', True),
        ("kubelet.go SyncLoop (housekeeping)", False),
        ('kubelet.go "SyncLoop ADD" source="api" pods=["ns/apiVersion"]', False),
    ],
)
def test_whether_a_log_holds_the_start(line: str, from_start: bool) -> None:
    """A log that was cut begins with any line."""
    version = KubeletVersion(version="1.36.2", source="log", text="v1.36.2")
    assembler = StartAssembler(BundleContext(node="n"), lambda _: version)
    (fact,) = assembler.new_process(lines(line)[0])
    assert isinstance(fact.body, KubeletStarted)
    assert fact.body.from_start is from_start
