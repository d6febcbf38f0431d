"""Engines: whatever a task does to its worker costs that task only, on all of them alike."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.fleet.engines.choose import engine_of
from kubeledger.fleet.engines.engine import (
    Again,
    Ended,
    Engine,
    EngineError,
    Lost,
    Outcome,
    Session,
)
from kubeledger.model.errors import BadQuestionError
from tests.fleet.tasks import Order, obey
from tests.marks import nightly
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
ON_RAY = (WITH_RAY, pytest.mark.xdist_group("ray"), pytest.mark.slow)


# --- which tasks run when -----------------------------------------------------------------


class _Played(Engine):
    """An engine without workers: which task ends next, and how, is drawn.

    Attributes:
        runs: (number, deed) of the tasks that were in flight at each wait.
    """

    name = "played"
    workers = 3

    def __init__(self, draw: Callable[[Sequence[Any]], Any], *, one_machine: bool) -> None:
        self.draw = draw
        self.one_machine = one_machine
        self.room = self.workers
        self.flying: dict[int, str] = {}
        self.tries: list[str] = []
        self.most = 0

    @contextmanager
    def session(self, function: object, timeout_s: float | None) -> Iterator[Session]:
        yield self

    def start(self, number: int, spec: str) -> None:
        self.flying[number] = spec
        self.tries.append(spec)
        self.most = max(self.most, len(self.flying))
        if self.one_machine and self.tries.count(spec) == 3 and spec[0] in "la":
            assert list(self.flying.values()) == [spec], "a last attempt has the machine alone"

    def ended(self) -> Sequence[Outcome]:
        number = self.draw(sorted(self.flying))
        spec = self.flying.pop(number)
        lost = Lost(kind="lost", reason="-") if spec[0] == "l" else None
        return [Outcome(number, value=spec, lost=lost)]


def _again_of(spec: str) -> Again:
    return {"s": "later", "a": "alone"}.get(spec[0], "no")  # type: ignore[return-value] # of these


@given(st.data(), st.text("-lsa", max_size=12), st.booleans())
def test_each_task_ends_once(data: st.DataObject, words: str, one_machine: bool) -> None:
    """In any order of ends: never too many at once, lost ones three times, the last time alone."""
    specs = [f"{word}{number}" for number, word in enumerate(words)]
    engine = _Played(lambda choices: data.draw(st.sampled_from(choices)), one_machine=one_machine)
    ended = list(engine.run(str, iter(specs), attempts=3, again=_again_of))
    assert sorted(each.spec for each in ended) == sorted(specs)
    for each in ended:
        tried = 1 if each.spec[0] == "-" else 3
        assert (each.attempts, engine.tries.count(each.spec)) == (tried, tried)
        assert (each.lost is not None) == (each.spec[0] == "l")
    assert engine.most <= engine.workers


# --- both engines -------------------------------------------------------------------------


@pytest.fixture(
    params=["local", pytest.param("ray", marks=(*ON_RAY, pytest.mark.nightly))]
)  # test_end_to_end.py has it daily
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "local":
        return engine_of("local", workers=2)
    return engine_of("ray", workers=2, address=request.getfixturevalue("cluster").address)


def _reported(ended: Ended[Order, Any]) -> object:
    if ended.lost is not None:
        return ended.lost.kind, ended.attempts
    return len(ended.result) if isinstance(ended.result, bytes) else ended.result


def test_misdeeds_cost_their_own_task_only(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both engines tell the same of them; and workers leave the screen and its keys alone."""
    deeds = {3: "exit", 5: "raise", 7: "killed once", 9: "large"}
    orders = [
        Order(number, deeds.get(number, "square"), str(tmp_path / "7") if number == 7 else None)
        for number in range(16)
    ]
    found = {each.spec.number: each for each in engine.run(obey, orders, attempts=2)}
    expected: dict[int, object] = {number: number**2 for number in range(16)}
    expected |= {3: ("lost", 2), 5: ("bug", 1), 9: 20_000_000}
    assert {number: _reported(each) for number, each in found.items()} == expected
    assert found[7].attempts == 2
    assert found[5].lost is not None
    reason = found[5].lost.reason
    assert reason.startswith("LookupError: no 5 and more (tests.fleet.tasks:")
    assert capsys.readouterr().out == "", "that is for data"


def test_a_task_that_takes_too_long_is_ended(engine: Engine) -> None:
    """It is not tried again; what takes its place has its own time."""
    orders = [Order(number, "hang") for number in range(3)]
    for ended in engine.run(obey, orders, attempts=2, timeout_s=0.5):
        assert ended.attempts == 1
        assert ended.lost == Lost(kind="timeout", reason="it took longer than 0.5 s")


def test_an_error_that_concerns_all_ends_the_run(engine: Engine) -> None:
    """As it was raised, with its advice; and specs are not taken long before they can run."""
    taken: list[int] = []

    def orders() -> Iterator[Order]:
        for number in range(1000):
            taken.append(number)
            yield Order(number, "refuse" if number == 3 else "square")

    with pytest.raises(BadQuestionError, match="other rules") as caught:
        list(engine.run(obey, orders()))
    assert caught.value.advice == "install the same"
    assert len(taken) < 100


@pytest.mark.nightly  # test_end_to_end.py loses one, too
@pytest.mark.parametrize("engine", [pytest.param("ray", marks=ON_RAY)], indirect=True)
def test_a_machine_that_is_lost_costs_nothing(engine: Engine, cluster: Any) -> None:  # noqa: ANN401 # Ray's
    third = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    with closing(engine_of("ray", address=cluster.address).run(
        obey, [Order(number, "wait") for number in range(24)]
    )) as all_ended:  # fmt: skip
        results = [next(all_ended).result]
        cluster.remove_node(third, allow_graceful=False)
        results += [each.result for each in all_ended]
    assert sorted(result or 0 for result in results) == [number**2 for number in range(24)]


@pytest.mark.parametrize("engine", [pytest.param("ray", marks=ON_RAY)], indirect=True)
def test_workers_that_lack_what_they_shall_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a cluster without kubeledger: told once, and not of each task."""
    only_here = ModuleType("only_here")
    exec("def double(number): return 2 * number", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    with pytest.raises(EngineError, match=r"cannot run tasks: .*only_here") as caught:
        list(engine.run(only_here.double, range(100)))
    assert caught.value.advice == "they need this version of kubeledger, installed as here"


@WITH_RAY
def test_a_cluster_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(EngineError, match=r"Ray cannot be used: .*refused") as caught:
        list(engine_of(f"ray={address}").run(obey, [Order(1)]))
    assert caught.value.file == address


# --- processes of this machine ------------------------------------------------------------


def test_a_worker_that_dies_while_it_sends_takes_no_other_along(tmp_path: Path) -> None:
    orders = [Order(number) for number in range(20)]
    orders[4] = Order(4, "killed while it sends", str(tmp_path / "4"))
    ended = list(engine_of("local", workers=2).run(obey, orders))
    assert sorted(each.result or 0 for each in ended) == [number**2 for number in range(20)]
    assert {each.spec.number: each.attempts for each in ended}[4] == 2


def test_who_stops_early_leaves_no_worker() -> None:
    before = set(multiprocessing.active_children())
    orders = [Order(1), *(Order(number, "hang") for number in range(2, 9))]
    with closing(engine_of("local", workers=3).run(obey, orders)) as all_ended:
        assert next(all_ended).result == 1
        assert set(multiprocessing.active_children()) > before
    assert set(multiprocessing.active_children()) == before


SCRIPT = """
import sys
from kubeledger.fleet.engines.choose import engine_of
from tests.fleet.tasks import Order, obey
from tests.waiting import PATIENCE_S, until

if __name__ == "__main__":
    orders = [Order(0, "print"), Order(0, "interrupt"), *(Order(0, "hang") for _ in range(9))]
    for ended in engine_of("local", workers=2).run(obey, orders):
        print(ended.result, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL, *nightly(signal.SIGTERM)])
def test_workers_end_with_whoever_started_them(signal_number: int, tmp_path: Path) -> None:
    """By Ctrl-C, which the whole group hears, or a signal to it alone; and say nothing."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == ["0\n", "0\n"]
            send = os.killpg if signal_number == signal.SIGINT else os.kill
            send(process.pid, signal_number)
            # What they write to is closed when the last of them has ended.
            out, err = process.communicate(timeout=PATIENCE_S)
            until(lambda: not has_processes(process.pid))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert out == ""
    assert err.count("Traceback") == (signal_number == signal.SIGINT), err


def has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_workers_that_cannot_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeledger.fleet.engines.local._serve", _die_at_once)
    with pytest.raises(EngineError, match="die before their first task"):
        list(engine_of("local", workers=1).run(obey, [Order(number) for number in range(9)]))


def _die_at_once(*_: object) -> None:
    os._exit(9)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("dask", {}, "there is no engine 'dask'"),
        ("local=x", {}, "there is no engine 'local=x'"),
        ("local", {"workers": 0}, "0 workers do nothing"),
        ("local", {"address": "x:1"}, "only Ray has an address"),
        ("ray=x:1", {"address": "y:1"}, "two addresses"),
    ],
)
def test_engines_that_there_are_not(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadQuestionError, match=words):
        engine_of(name, **settings)


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadQuestionError) as caught:
        engine_of("ray")
    assert caught.value.advice == "pip install 'kubeledger[fleet]'"
