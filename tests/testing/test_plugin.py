"""The pytest plugin, run as a user runs it."""

from pathlib import Path
from typing import Any

import pytest

from kubeledger.ledger.standalone import read_recording
from kubeledger.model.bodies.lifecycle import ContainerStarted, PodConfigChanged, PodListed
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeResult, ProbeTransitioned
from kubeledger.testing.scene import Scene

pytest_plugins = ["pytester"]

POD: dict[str, Any] = {
    "namespace": "default",
    "pod": "web",
    "pod_uid": "11111111-2222-3333-4444-555555555555",
}
PROBE = {"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 2}


def scene(to_result: ProbeResult = "success") -> Scene:
    """A readiness probe that succeeds once; the transition is recorded as ``to_result``."""
    made = Scene("1.36.2", settings={"maxPods": 110})
    spec = {
        "restartPolicy": "Always",
        "containers": [{"name": "app", "image": "app:1", "readinessProbe": PROBE}],
    }
    made.at(
        1,
        PodConfigChanged(**POD, operation="ADD", source="api"),
        ContainerStarted(**POD, container="app", container_id="c" * 64),
    )
    created_ns = made.records[0].ts_ns  # so that its container is not older than the kubelet
    made.at(
        1,
        PodListed(**POD, created_ts_ns=created_ns, spec=spec, status={}, listed_by="kubelet"),
    )
    tick = made.at(
        5,
        ProbeExecuted(
            **POD, container="app", container_id="c" * 64, probe_type="readiness",
            result="success", output=None,
        ),
    )  # fmt: skip
    made.at(
        5,
        ProbeTransitioned(
            **POD, container="app", container_id="c" * 64, probe_type="readiness",
            from_result="failure", to_result=to_result,
        ),
        cause=tick,
    )  # fmt: skip
    return made


def test_nothing_is_collected_unasked(pytester: pytest.Pytester) -> None:
    """A recording beside tests is no test without the option."""
    scene().save(pytester.path / "a.ledger.jsonl")
    assert pytester.runpytest_subprocess().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_recording_that_holds_passes(pytester: pytest.Pytester) -> None:
    """One test a kind of decision, and one for those that are missing."""
    scene().save(pytester.path / "a.ledger.jsonl")
    result = pytester.runpytest_subprocess("--kubeledger", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*a.ledger.jsonl::node-1:prober.ProbeTransitioned PASSED*"])


def test_a_difference_is_shown_as_a_sentence(pytester: pytest.Pytester) -> None:
    scene("failure").save(pytester.path / "a.ledger.jsonl")
    result = pytester.runpytest_subprocess("--kubeledger")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["record * prober.ProbeTransitioned *", "  expected *"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_update_rewrites_deliberately(pytester: pytest.Pytester) -> None:
    """Afterwards the file says what is decided now, and passes."""
    path = pytester.path / "a.ledger.jsonl"
    scene("failure").save(path)
    result = pytester.runpytest_subprocess("--kubeledger", "--kubeledger-update")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*a.ledger.jsonl: 1 decisions rewritten"])
    transition = list(read_recording(path))[-1].body
    assert isinstance(transition, ProbeTransitioned)
    assert transition.to_result == "success"


def test_update_needs_one_process(pytester: pytest.Pytester) -> None:
    """Two processes would write one file."""
    result = pytester.runpytest_subprocess("--kubeledger", "--kubeledger-update", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_directory_may_be_named(pytester: pytest.Pytester) -> None:
    """``--kubeledger DIR`` collects below it."""
    below = pytester.mkdir("golden")
    scene().save(below / "a.ledger.jsonl.zst")
    pytester.runpytest_subprocess("--kubeledger=golden").assert_outcomes(passed=2)


@pytest.mark.slow
def test_several_processes(pytester: pytest.Pytester) -> None:
    for name in ("a", "b", "c"):
        scene().save(pytester.path / f"{name}.ledger.jsonl")
    pytester.runpytest_subprocess("--kubeledger", "-n", "2").assert_outcomes(passed=6)


@pytest.mark.slow
def test_a_damaged_recording_fails_with_its_place(pytester: pytest.Pytester) -> None:
    """File and line, no traceback; the others are tested all the same."""
    scene().save(pytester.path / "b.ledger.jsonl")
    path = pytester.path / "a.ledger.jsonl"
    scene().save(path)
    path.write_bytes(path.read_bytes()[:-50])
    for options in ((), ("--kubeledger-update",)):
        result = pytester.runpytest_subprocess("--kubeledger", *options)
        result.assert_outcomes(failed=1, passed=2)
        result.stdout.fnmatch_lines(["*a.ledger.jsonl:*"])
        result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.slow
def test_a_recording_changed_by_hand(pytester: pytest.Pytester) -> None:
    """The place is named, its decisions are tested as they stand, and an update seals it."""
    path = pytester.path / "a.ledger.jsonl"
    scene().save(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0].replace(b"1.36.2", b"1.36.1"), *lines[1:]]))
    result = pytester.runpytest_subprocess("--kubeledger")
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.fnmatch_lines(["*a.ledger.jsonl:1:*CRC*", "*--kubeledger-update seals it*"])
    pytester.runpytest_subprocess("--kubeledger", "--kubeledger-update").assert_outcomes(passed=2)
    pytester.runpytest_subprocess("--kubeledger").assert_outcomes(passed=2)
    assert b"1.36.1" in path.read_bytes()


def test_the_scene_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from kubeledger.model.bodies.lifecycle import PodConfigChanged

        def test_scene(kubeledger_scene):
            scene = kubeledger_scene("1.36.2")
            scene.at(1, PodConfigChanged(namespace="default", pod="web", pod_uid="u",
                                         operation="ADD", source="api"))
            assert list(scene.state().lifecycle.pods) == ["u"]
            assert scene.findings() == []
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_loading_the_plugin_is_cheap(pytester: pytest.Pytester) -> None:
    """The engine is not imported before it is needed."""
    script = (
        "import sys, kubeledger.testing.plugin\n"
        "heavy = {'duckdb', 'pydantic', 'msgspec', 'zstandard'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    path = Path(pytester.makepyfile(script))
    assert pytester.runpython(path).ret == 0
