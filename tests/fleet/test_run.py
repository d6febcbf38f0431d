"""A run: what is planned, what is tried again, what is kept of what failed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.fleet.engines.engine import Engine, Lost, Outcome, Session
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.run import Shard, parse_shard, plan_import, plan_verify, run_plan
from kubeledger.fleet.types import Failure, Head, NodeResult, NodeSpec, NodeSummary, SourceSeen
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.remote.store import StorageError

RULES = "0.1.0+today"


class _Here(Engine):
    """Runs each task at once, in this process; a task that raises is one whose worker died."""

    name = "here"
    one_machine = True
    workers = 4
    room = 1

    @contextmanager
    def session(self, function: Callable[[Any], Any], timeout_s: float | None) -> Iterator[Session]:
        self.function = function
        yield self

    def start(self, number: int, spec: object) -> None:
        try:
            self.outcome = Outcome(number, value=self.function(spec))
        except LookupError as error:
            self.outcome = Outcome(number, lost=Lost(kind="lost", reason=str(error)))

    def ended(self) -> Sequence[Outcome]:
        return [self.outcome]


def _settings(lake: Lake) -> NodeSpec:
    return NodeSpec(lake=lake.store.url, rules=RULES, started_ns=7)


def _stamp(url: str) -> str:
    if "missing" in url:
        raise BadInputError("there is nothing", file=url)
    return f"stamp of {url}"


def _take_in(
    lake: Lake, source: str, node: str = "", *, rules: str = RULES, nodes: int = 1
) -> Head:
    key = node or source.rpartition("/")[2]
    base = lake.head(key)
    seen = SourceSeen(url=source, stamp=_stamp(source), digest=source, size_bytes=1, nodes=nodes)
    head = Head(
        layout=1,
        id=f"{key}-{rules}",
        generation=1 if base is None else base.generation + 1,
        sources=(seen,),
        files=(),
        summary=NodeSummary(node=key, name=key, rules=rules),
    )
    lake.commit(head, base)
    return head


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open_or_create(str(tmp_path / "lake"))


@given(st.lists(st.text()), st.integers(min_value=1, max_value=9))
def test_each_source_is_of_one_shard(sources: list[str], count: int) -> None:
    shards = [parse_shard(f"{number}/{count}") for number in range(count)]
    for source in sources:
        assert sum(shard.holds(source) for shard in shards) == 1


def test_shards_are_about_as_large() -> None:
    sizes = [
        sum(Shard(number, 8).holds(f"s3://bucket/node-{n:04}.tar.gz") for n in range(4000))
        for number in range(8)
    ]
    assert min(sizes) > 400


@pytest.mark.parametrize("text", ["4/4", "1", "-1/4", "0/0", "a/b", "1/4/2", ""])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(BadQuestionError, match="is not a shard"):
        parse_shard(text)


def test_the_plan_leaves_out_what_the_lake_has(lake: Lake) -> None:
    """As it is, with all its nodes; what cannot be looked at is a task.

    What other rules verified is verified again, and its source not read.
    """
    for source in ("/in/same", "/in/grown"):
        _take_in(lake, source)
    _take_in(lake, "/in/old", rules="0.0.1+yesterday")
    _take_in(lake, "/in/pair", "pair-1", nodes=2)
    for node in ("both-1", "both-2"):
        _take_in(lake, "/in/both", node, nodes=2)
    sources = [f"/in/{name}" for name in ("same", "grown", "old", "pair", "both", "missing", "new")]

    def stamp(url: str) -> str:
        return _stamp(url) + (", more" if url == "/in/grown" else "")

    plan = plan_import(lake, sources, _settings(lake), stamp)
    assert plan.unchanged == ("/in/same", "/in/old", "/in/both")
    names = ("grown", "pair", "missing", "new")
    assert [spec.subject for spec in plan.specs] == [*(f"/in/{each}" for each in names), "node old"]
    assert plan.specs[0] == NodeSpec(
        lake=lake.store.url, rules=RULES, started_ns=7, source="/in/grown"
    )
    parts = [plan_import(lake, sources, _settings(lake), stamp, Shard(n, 3)) for n in range(3)]
    assert sorted(spec for part in parts for spec in map(repr, part.specs)) == sorted(
        map(repr, plan.specs)
    )
    assert sum(part.elsewhere for part in parts) == 2 * len(sources)


def test_verifying_again_is_for_nodes_of_other_rules(lake: Lake) -> None:
    _take_in(lake, "/in/a")
    _take_in(lake, "/in/b", rules="0.0.1+yesterday")
    plan = plan_verify(lake, _settings(lake))
    assert ([spec.node for spec in plan.specs], plan.unchanged) == (["b"], ("a",))
    plan = plan_verify(lake, _settings(lake), all_=True)
    assert [spec.node for spec in plan.specs] == ["a", "b"]


class _Fate:
    """A task by the source's name: ``storage-2`` fails so twice, and then ends well."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.tries: list[str] = []

    def __call__(self, spec: NodeSpec) -> NodeResult:
        assert spec.source is not None
        name = spec.source.rpartition("/")[2]
        self.tries.append(name)
        kind, _, times = name.partition("-")
        if kind == "well" or self.tries.count(name) > int(times):
            return NodeResult(spec=spec, heads=(_take_in(self.lake, spec.source),), changed=(name,))
        if kind == "lost":
            raise LookupError("the worker process died (signal 9, Killed)")
        reported = {"source": spec.subject, "kind": kind, "reason": f"{kind} failed"}
        return NodeResult(spec=spec, failure=msgspec.convert(reported, Failure))


def test_what_another_attempt_may_help_gets_one(lake: Lake) -> None:
    """The rest is kept in the lake as a failure; again, what succeeds is taken off."""
    names = ("well", "storage-2", "storage-9", "resources-1", "lost-1", "lost-9", "input-1")
    sources = [f"/in/{name}" for name in names]
    fate = _Fate(lake)

    def run() -> dict[str, NodeResult]:
        plan = plan_import(lake, sources, _settings(lake), _stamp)
        return {
            (result.spec.source or "")[4:]: result
            for result in run_plan(lake, plan, _Here(), fate, attempts=3)
        }

    results = run()
    assert sorted(results) == sorted(names)
    failed = {f.source[4:]: (f.kind, f.attempts, f.ts_ns) for f in lake.failures()}
    assert failed == {
        "storage-9": ("storage", 3, 0),  # the task itself tells when
        "lost-9": ("lost", 3, 7),
        "input-1": ("input", 1, 0),
    }
    assert {name for name, result in results.items() if result.failure} == set(failed)
    lost = next(failure for failure in lake.failures() if failure.kind == "lost")
    assert lost.reason == "the worker process died (signal 9, Killed)"
    assert lost.advice.startswith("probably memory, which 4 workers share: try --workers 2")

    assert sorted(run()) == sorted(failed), "it takes up where it stopped"
    assert [failure.source for failure in lake.failures()] == ["/in/lost-9", "/in/storage-9"]
    assert sorted(run()) == ["lost-9", "storage-9"]
    run()
    assert lake.failures() == []
    assert run() == {}


def test_who_stops_in_the_middle_has_what_was_done(lake: Lake) -> None:
    sources = [f"/in/well-{number}" for number in range(9)]
    fate = _Fate(lake)
    plan = plan_import(lake, sources, _settings(lake), _stamp)
    results = run_plan(lake, plan, _Here(), fate)
    next(results)
    results.close()
    left = plan_import(lake, sources, _settings(lake), _stamp)
    assert len(left.specs) == 9 - len(fate.tries)
    assert len(list(run_plan(lake, left, _Here(), fate))) == len(left.specs)
    assert sorted(fate.tries) == [f"well-{number}" for number in range(9)]


def test_failures_that_another_import_mended_are_forgotten(lake: Lake) -> None:
    lake.fail(Failure(source="/in/a", kind="lost", reason="-"))
    _take_in(lake, "/in/a")
    plan = plan_import(lake, ["/in/a"], _settings(lake), _stamp)
    assert list(run_plan(lake, plan, _Here(), _Fate(lake))) == []
    assert lake.failures() == []


def test_a_lake_that_takes_a_failure_late_has_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = lake.fail
    calls: list[str] = []

    def fail_later(failure: Failure) -> None:
        calls.append(failure.source)
        if len(calls) == 1:
            raise StorageError("503")
        fail(failure)

    monkeypatch.setattr(lake, "fail", fail_later)
    plan = plan_import(lake, ["/in/input-1", "/in/well"], _settings(lake), _stamp)
    assert len(list(run_plan(lake, plan, _Here(), _Fate(lake)))) == 2
    assert [failure.source for failure in lake.failures()] == ["/in/input-1"]


def test_a_directory_that_machines_do_not_share_is_no_lake_of_a_cluster(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each machine would have a lake of its own, and all would seem well."""
    monkeypatch.setattr(_Here, "one_machine", False)
    plan = plan_import(lake, ["/in/well"], _settings(lake), _stamp)
    elsewhere = Lake.open_or_create(str(tmp_path / "elsewhere"))
    with pytest.raises(BadQuestionError, match="on another machine"):
        list(run_plan(lake, plan, _Here(), _Fate(elsewhere)))
    assert len(list(run_plan(lake, plan, _Here(), _Fate(lake)))) == 1
