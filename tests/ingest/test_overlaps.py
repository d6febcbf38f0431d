"""The same history in other files: copies cut otherwise, a log before its bundle, two years."""

from collections import Counter
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadInputError, BadQuestionError
from tests.recordings import extract

pytestmark = pytest.mark.slow

OPTIONS = ImportOptions(node="node-a", kubelet_version="1.20.2", year=2026)


@pytest.fixture(scope="module")
def node_a(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded node's directory."""
    return extract("node-a", tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def cuts(node_a: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The log whole, its first half, and rotated: a directory each."""
    lines = (node_a / "kubelet.log").read_bytes().splitlines(keepends=True)
    pieces = {
        "full": {"kubelet.log": lines},
        "half": {"kubelet.log": lines[:9000]},
        "rotated": {"kubelet.log.1": lines[:7000], "kubelet.log": lines[7000:]},
    }
    root = tmp_path_factory.mktemp("cuts")
    for name, files in pieces.items():
        (root / name).mkdir()
        for file, content in files.items():
            (root / name / file).write_bytes(b"".join(content))
    return {name: root / name for name in pieces}


def kinds(ledger: Ledger) -> Counter[str]:
    """Records by kind, without what the ledger says about its imports."""
    return Counter(r.kind for r in ledger.records() if not r.kind.startswith("ledger."))


@pytest.mark.slow
@pytest.mark.parametrize("order", [("half", "rotated", "full"), ("rotated", "full", "half")])
def test_a_log_cut_otherwise_tells_nothing_twice(
    order: tuple[str, ...], cuts: dict[str, Path], tmp_path: Path
) -> None:
    """Whatever copy came first, each decision is there once, and once only."""
    ledger = Ledger.create(tmp_path / "ledger")
    for name in order:
        import_sources([str(cuts[name])], ledger, OPTIONS)
    at_once = Ledger.create(tmp_path / "at-once")
    import_sources([str(cuts["full"])], at_once, OPTIONS)
    ours, true = kinds(ledger), kinds(at_once)
    for kind in (
        "prober.ProbeExecuted",
        "preemption.PodPreempted",
        "lifecycle.ContainerRestarted",
        "lifecycle.PodRejected",
        "lifecycle.PodAdmitted",
        "images.ImageDeleted",
        "images.GarbageCollected",
        "devicemanager.DevicesAllocated",
    ):
        assert ours[kind] == true[kind], kind
    assert audit(ledger).findings == ()


def test_a_bundle_after_its_log_adds_what_only_it_knows(node_a: Path, tmp_path: Path) -> None:
    """Thresholds come with the pod lists: the transitions that follow from them are added."""
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(node_a / "kubelet.log")], ledger, OPTIONS)
    before = kinds(ledger)
    import_sources([str(node_a)], ledger)
    after = kinds(ledger)
    at_once = Ledger.create(tmp_path / "at-once")
    import_sources([str(node_a)], at_once)
    assert before["prober.ProbeTransitioned"] < after["prober.ProbeTransitioned"]
    assert after == kinds(at_once)


def test_another_year_cannot_be_given_later(cuts: dict[str, Path], tmp_path: Path) -> None:
    """Records never change: it is refused, and the way out is named."""
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(cuts["half"])], ledger, OPTIONS)
    other = ImportOptions(node="node-a", kubelet_version="1.20.2", year=2025)
    with pytest.raises(BadQuestionError, match="2026") as caught:
        import_sources([str(cuts["half"])], ledger, other)
    assert "new ledger" in caught.value.advice


def test_a_bundle_without_one_readable_file_is_bad_input(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "kubelet_internal_checkpoint").write_text('{"Data":{"PodDeviceEntries":[{"Po')
    with pytest.raises(BadInputError):
        import_sources([str(bundle)], Ledger.create(tmp_path / "ledger"))
