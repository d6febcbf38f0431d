"""Which node is whose: names, machines, clusters, several nodes in a source, ready ledgers."""

from pathlib import Path

import pytest
from msgspec import structs

import kubeledger
from kubeledger.fleet.identity import rules_version
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import ROW_ROOMS
from kubeledger.fleet.run import plan_import
from kubeledger.fleet.sealed import seal_ledger
from kubeledger.fleet.sources import stamp_of
from kubeledger.fleet.types import NodeResult, NodeSpec
from kubeledger.ledger.standalone import write_recording
from kubeledger.model.errors import BadQuestionError
from tests.fleet.places import MACHINE, head_of, log_lines, task, write_bundle
from tests.fleet.test_task import imported

pytestmark = pytest.mark.slow

OTHER = "b" * 32
NONE = {"cluster": None, "name": None}
FIRST_POD = 980
"""The line before which the log tells of no pod that the API server made."""


def refusal(result: NodeResult) -> str:
    assert result.failure is not None
    assert result.failure.kind == "input"
    return f"{result.failure.reason} ({result.failure.advice})"


def test_another_machine_of_a_name_is_another_node(tmp_path: Path) -> None:
    """Each keeps to its own, also where a later log tells only pods."""
    lake = str(tmp_path / "lake")
    one = write_bundle(tmp_path / "one")
    other = write_bundle(tmp_path / "other", machine=OTHER, log=log_lines(0, FIRST_POD))
    assert head_of(task(lake, str(one))).node == "node-a"
    assert head_of(task(lake, str(other))).node == "node-a@bbbbbbbb"
    later = write_bundle(
        tmp_path / "later" / "node-a", machine=None, log=log_lines(FIRST_POD, 1200)
    )
    assert head_of(task(lake, str(later))).node == "node-a"
    heads = Lake.open(lake).heads()
    assert {key: head.summary.machine_id for key, head in heads.items()} == {
        "node-a": MACHINE,
        "node-a@bbbbbbbb": OTHER,
    }


def test_a_source_that_may_be_of_either_is_refused_by_name(tmp_path: Path) -> None:
    """Unless its URL is known, or the user says which node, or which cluster it is."""
    lake = str(tmp_path / "lake")
    write_bundle(tmp_path / "in", machine=None, log=log_lines(0, FIRST_POD // 2))
    head_of(task(lake, str(tmp_path / "in")))
    strange = write_bundle(tmp_path / "strange", machine=None, log=log_lines(0, FIRST_POD))
    assert "node-a already" in refusal(task(lake, str(strange)))
    for said in ("if it is the same: --node node-a", "if not: --cluster"):
        assert said in refusal(task(lake, str(strange)))
    assert list(Lake.open(lake).heads()) == ["node-a"]
    (tmp_path / "in" / "kubelet.log").write_bytes(log_lines(0, FIRST_POD // 2 + 9))
    assert head_of(task(lake, str(tmp_path / "in"))).generation == 2
    assert head_of(task(lake, str(strange), cluster="west")).node == "west/node-a"
    assert head_of(task(lake, str(strange), name="node-a")).node == "node-a"
    known = head_of(task(lake, str(tmp_path / "in"), cluster="east"))
    assert (known.node, known.summary.cluster) == ("node-a", "east")
    (strange / "kubelet.log").write_bytes(log_lines(0, FIRST_POD - 9))
    assert head_of(task(lake, str(strange), cluster="east")).node == "node-a"


def test_a_cluster_that_is_told_sooner_or_later_makes_no_second_node(tmp_path: Path) -> None:
    """The machine ID tells that it is the same, in whichever order, and with what key."""
    for first, second, key in ((None, "east", "node-a"), ("east", None, "east/node-a")):
        lake = str(tmp_path / f"lake-{first}")
        for number, cluster in enumerate((first, second)):
            bundle = tmp_path / f"{first}-{number}"
            write_bundle(bundle, log=log_lines(0, 500 + number))
            head = head_of(task(lake, str(bundle), cluster=cluster))
            assert (head.node, head.generation) == (key, number + 1)
        assert head.summary.cluster == "east"
        other = write_bundle(tmp_path / f"{first}-x", machine=OTHER, log=log_lines(0, 400))
        assert head_of(task(lake, str(other), cluster="west")).node == "west/node-a"
        own = head_of(task(lake, str(other), name="node-a@cafe", cluster="north"))
        assert own.node == "north/node-a@cafe"


def test_a_source_read_by_other_options_takes_the_place_of_what_it_told(tmp_path: Path) -> None:
    """What other sources told stays; an option that is not given stays as it is, and labels do."""
    lake, place = str(tmp_path / "lake"), Lake.open_or_create(str(tmp_path / "lake"))
    one = write_bundle(tmp_path / "one", log=log_lines(0, 700))
    two = write_bundle(tmp_path / "two", log=log_lines(600, 1000))
    for source in (one, two):
        head_of(task(lake, str(source), year=2025))
    right = head_of(task(lake, str(two), year=2026))
    assert [(Path(each.url).name, each.options) for each in right.sources] == [
        ("one", {"year": "2025"}),
        ("two", {"year": "2026"}),
    ]
    again = head_of(task(lake, str(one), year=2026, kubelet_version="1.20.2"))
    fresh = str(tmp_path / "fresh")
    for source in (two, one):
        expected = head_of(task(fresh, str(source), kubelet_version="1.20.2"))
    assert again.summary.first_ts_ns == expected.summary.first_ts_ns
    assert again.summary.decisions == expected.summary.decisions > 0
    assert again.sources[-1].options == {"year": "2026", "kubelet-version": "1.20.2"}
    assert task(lake, str(one), year=None).heads == (again,)
    labelled = head_of(task(lake, str(one), pool="gpu"))
    assert (labelled.summary.pool, labelled.generation) == ("gpu", again.generation + 1)
    assert task(lake, None, node="node-a").heads == (labelled,)
    assert place.heads() == {"node-a": labelled}
    named = {file.path for file in labelled.files}
    rooms = (*ROW_ROOMS, "ledgers", "nodes")
    assert {each.path for room in rooms for each in place.store.list(room)} == named


@pytest.mark.parametrize("reported", [{"cluster": "west"}, {"name": "node-b"}])
def test_a_source_that_the_lake_has_is_not_taken_for_another_nodes(
    reported: dict[str, str], tmp_path: Path
) -> None:
    lake = Lake.open_or_create(str(tmp_path / "lake"))
    bundle = str(write_bundle(tmp_path / "in", log=log_lines(0, 400)))
    head_of(task(lake.store.url, bundle, cluster="east"))
    settings = NodeSpec(lake=lake.store.url, rules=rules_version(), **reported)  # type: ignore[arg-type]  # all are text
    with pytest.raises(BadQuestionError, match="as node east/node-a"):
        plan_import(lake, [bundle], settings, stamp_of)
    for known in ({}, {"cluster": "east"}, {"pool": "p"}, {"year": 2025}):
        plan = plan_import(lake, [bundle], structs.replace(settings, **NONE | known), stamp_of)
        nodes = [(spec.source, spec.node) for spec in plan.specs]
        assert nodes == {"pool": [(None, "east/node-a")], "year": [(bundle, None)]}.get(
            next(iter(known), ""), []
        )


def test_each_node_of_a_source_becomes_a_node(tmp_path: Path) -> None:
    """As many as it holds, none with anything of another; and one that is missing comes later."""
    lake = str(tmp_path / "lake")
    names = ("node-x", "node-y")
    for name, machine in zip(names, (MACHINE, OTHER), strict=True):
        write_bundle(tmp_path / "gather" / name, node=name, machine=machine)
    result = task(lake, str(tmp_path / "gather"))
    assert result.failure is None
    assert result.changed == names
    assert [(head.node, head.sources[0].nodes) for head in result.heads] == [
        (name, 2) for name in names
    ]
    assert result.heads[0].summary.records == result.heads[1].summary.records
    again = task(lake, str(tmp_path / "gather"))
    assert (again.heads, again.changed) == (result.heads, ())
    # Whoever is killed between two nodes has brought in the first.
    gone = Lake.open(lake)
    gone.store.delete(each.path for each in gone.store.list("done/node-y"))
    gone.store.delete(each.path for each in gone.store.list("claims/node-y"))
    assert task(lake, str(tmp_path / "gather")).changed == ("node-y",)
    assert {key: head.id for key, head in gone.heads().items()} == {
        head.node: head.id for head in result.heads
    }


def test_a_ledger_or_recording_is_taken_in_as_it_is(tmp_path: Path) -> None:
    """And again where it has grown; what is no continuation is refused."""
    lake = str(tmp_path / "lake")
    part = write_bundle(tmp_path / "part", log=log_lines(0, FIRST_POD))
    whole = write_bundle(tmp_path / "whole")
    ledger = imported(tmp_path / "ledger", part)
    first = head_of(task(lake, str(ledger.path)))
    with kubeledger.open(ledger.path) as opened:
        recording = tmp_path / "x.ledger.jsonl"
        write_recording(recording, opened.records())
        opened.import_(whole, year=2026)
    assert task(lake, str(recording)).heads == (first,)
    grown = head_of(task(lake, str(ledger.path)))
    assert (grown.generation, grown.sources[-1].url) == (2, str(ledger.path))
    assert grown.summary.chain == ledger.info("node-a").segments[-1].head
    assert task(lake, str(recording)).heads == (grown,)
    other = imported(tmp_path / "other", whole)
    assert "does not continue" in refusal(task(lake, str(other.path)))
    bundle = write_bundle(tmp_path / "next", log=log_lines(0, 1250))
    head = head_of(task(lake, str(bundle)))
    assert (head.generation, len(head.sources)) == (3, 3)


def test_a_recording_or_sealed_ledger_alone_gives_what_its_ledger_gives(tmp_path: Path) -> None:
    """The same chain, so that any of them may come first."""
    ledger = imported(tmp_path / "ledger", write_bundle(tmp_path / "in"))
    recording = tmp_path / "x.ledger.jsonl.zst"
    with kubeledger.open(ledger.path) as opened:
        write_recording(recording, opened.records())
    seal_ledger(ledger.path, tmp_path / "sealed")
    heads = [
        head_of(task(str(tmp_path / lake), str(source)))
        for lake, source in (("1", ledger.path), ("2", recording), ("3", tmp_path / "sealed"))
    ]
    assert len({head.summary.chain for head in heads}) == 1
    assert heads[0].summary.machine_id is None  # records do not tell it


def test_an_excerpt_is_refused(tmp_path: Path) -> None:
    ledger = imported(tmp_path / "ledger", write_bundle(tmp_path / "in"))
    with kubeledger.open(ledger.path) as opened:
        records = list(opened.records())[5:]
    recording = tmp_path / "x.ledger.jsonl"
    write_recording(recording, records)
    assert "excerpt" in refusal(task(str(tmp_path / "lake"), str(recording)))


@pytest.mark.parametrize("reported", ["cloud.google.com/gke-nodepool", "karpenter.sh/nodepool"])
def test_a_pool_is_told_by_labels_or_by_the_user(reported: str, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "in", labels=[(reported, "big")])
    assert head_of(task(str(tmp_path / "x"), str(bundle))).summary.pool == "big"
    assert head_of(task(str(tmp_path / "y"), str(bundle), pool="mine")).summary.pool == "mine"
