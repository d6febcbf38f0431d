"""What a log shows about itself, also when it is one node's share of a file of several."""

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.klog.log_survey import survey_log
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.units import NS_PER_S
from tests.ingest.layouts import iso_precise, journal, plain, slices, write
from tests.ingest.node_files import log_text

A, B = "node-a", "node-b"


def lines_of(node: str) -> list[str]:
    """A node's journal, with the full time and the host before each line."""
    return plain(journal(slices()[node], iso_precise)).splitlines()


def test_text_that_follows_json_is_of_its_year(tmp_path: Path) -> None:
    """The kubelet came back with another form of logs; none of its lines is of 1970."""
    begin_s = 1_795_230_000
    json = [
        f'{{"ts":{begin_s + second}.5,"caller":"kubelet/labels.go:5","msg":"Label not found"}}\n'
        for second in range(-4000, 0)
    ]
    write(tmp_path / "kubelet.log", "".join(json) + log_text())
    ledger = Ledger.open_or_create(tmp_path / "ledger")
    import_sources([str(tmp_path / "kubelet.log")], ledger)
    (node,) = ledger.nodes()
    times = [each.ts_ns for each in ledger.records(node) if isinstance(each.body, ProbeExecuted)]
    assert len(times) == 19
    assert all(begin_s < ts_ns // NS_PER_S < begin_s + 3600 for ts_ns in times)


def test_a_log_that_begins_within_a_line(tmp_path: Path) -> None:
    """The program that the rest of the first line begins with hides nothing of the others."""
    first, *lines = lines_of(B)
    torn = first[first.index("kubelet[") + 1 :]
    write(tmp_path / "kubelet.log", "".join(f"{line}\n" for line in (torn, *lines)))
    path = tmp_path / "kubelet.log"
    survey = survey_log(SourceFile(path.name, path, 0), [])
    assert survey.first_stamp is not None
    assert survey.caller_version == "1.36.2"


@pytest.mark.parametrize(
    ("zone", "lag_s", "offset_s"),
    [("Z", 1, 0), ("+02:00", 1, 7200), ("-03:30", 9, -12600), ("+02:00", 300, None)],
)
def test_lines_between_the_entries_show_their_zone(
    tmp_path: Path, zone: str, lag_s: int, offset_s: int | None
) -> None:
    """As k3s writes them; one of some other moment shows nothing."""
    entry = 'I0812 10:{:02}:{:02}.000000    1234 server.go:467] "Kubelet version" x="y"\n'
    k3s = 'time="2024-08-12T10:{:02}:00{}" level=info msg="Running kubelet"\n'
    text = "".join(
        k3s.format(minute, zone) + 2 * entry.format(minute + lag_s // 60, lag_s % 60)
        for minute in range(5)
    )
    write(tmp_path / "k3s.log", text)
    found = survey_log(SourceFile("k3s.log", tmp_path / "k3s.log", 0), [])
    assert list(found.offsets_ns) == ([] if offset_s is None else [offset_s * NS_PER_S])


@pytest.mark.parametrize(
    "said",
    [
        "kubelet_node_status.go:1] Node became not ready: {Type:Ready Status:False "
        "LastHeartbeatTime:2017-08-01 15:11:34.12 +0800 CST LastTransitionTime:2017-08-01 "
        "15:11:34.12 +0800 CST}",
        'nestedpendingoperations.go:1] Operation for "x" failed. No retries permitted until '
        "2017-08-01 15:11:34.62 +0800 CST (durationBeforeRetry 500ms). no",
    ],
)
def test_times_without_a_monotonic_clock_show_the_zone(tmp_path: Path, said: str) -> None:
    """Kubelets up to 1.8 have none; CST alone means several zones."""
    write(tmp_path / "kubelet.log", f"E0801 15:11:34.123456    2479 {said}\n")
    found = survey_log(SourceFile("kubelet.log", tmp_path / "kubelet.log", 0), [])
    assert list(found.offsets_ns) == [8 * 3600 * NS_PER_S]
