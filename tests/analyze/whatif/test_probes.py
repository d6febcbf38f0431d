"""Probes under a variant, held against a simulation of the node with the other probe."""

from collections.abc import Collection, Iterator, Sequence

import pytest

from kubeledger.analyze.whatif import Change, Outlook, outlook, parse_variants
from kubeledger.analyze.whatif.variants import parse_setting
from kubeledger.model.bodies.prober import ProbeTransitioned
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S as S
from kubeledger.model.units import parse_ts
from kubeledger.simulate.engine.plan import ContainerScript, ProbeStep
from tests.simulate.engine.scenes import container, plan, planned, records
from tests.simulate.engine.test_pods import probe
from tests.verify.histories import recorded


def seen(found: Sequence[Record], *texts: str) -> tuple[Outlook, list[Change]]:
    (asked,) = parse_variants([parse_setting(text) for text in texts])

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    result = Outlook(variant=asked.name)
    return result, list(outlook(read, asked, result))


def flapping(script: str, version: str, **fields: int) -> list[Record]:
    """A pod whose readiness probe, every five seconds, sees that (``F`` or ``S``), each for 5 s."""
    steps = tuple(
        ProbeStep(from_ns=5 * number * S, result="failure" if letter == "F" else "success")
        for number, letter in enumerate(script)
    )
    scripts = {"app": ContainerScript(probes={"readiness": steps})}
    pod = planned("flap", container(readinessProbe=probe(**fields)), scripts=scripts)
    return records(plan(pod, version=version, minutes=5))


def transitions(found: Sequence[Record]) -> set[tuple[int, str]]:
    return {
        (r.ts_ns // S, r.body.to_result) for r in found if isinstance(r.body, ProbeTransitioned)
    }


SCRIPT = "SSFFSFFFFSFSSFFFFFFFSSSFSSFFFSSSSFFFFSSSS"


@pytest.mark.parametrize("version", ["1.20.2", "1.28.0", "1.36.2"])
@pytest.mark.parametrize(
    ("was", "would"),
    [((3, 1), (1, 1)), ((1, 1), (4, 1)), ((2, 1), (2, 3)), ((4, 3), (2, 2)), ((2, 2), (3, 1))],
)
def test_readiness_is_what_a_node_with_the_other_probe_decides(
    version: str, was: tuple[int, int], would: tuple[int, int]
) -> None:
    """Of the recorded changes, less those that go and with those that come, the same remain."""
    names = ("failureThreshold", "successThreshold")
    found = flapping(SCRIPT, version, **dict(zip(names, was, strict=True)))
    texts = (f"pod/flap/app.readinessProbe.{n}={v}" for n, v in zip(names, would, strict=True))
    result, changes = seen(found, *texts)
    assert {c.untrusted_since for c in changes} <= {None}
    expected = transitions(found)
    for change in changes:
        if change.recorded is not None:
            record = next(r for r in found if r.seq == change.seq)
            expected -= transitions([record])
        if change.instead is not None:
            at = change.instead.get("at")
            ts_ns = change.ts_ns if at is None else parse_ts(str(at))
            expected.add((ts_ns // S, str(change.instead["to_result"])))
    other = transitions(flapping(SCRIPT, version, **dict(zip(names, would, strict=True))))
    if not result.unknown:
        assert expected == other
    assert result.unknown == 0 or version != "1.20.2"


LIVENESS = "pod/live-fail*/app.livenessProbe"


@pytest.mark.parametrize("name", ["node-a", "node-b"])
@pytest.mark.parametrize("threshold", [1, 2, 3, 5])
def test_a_kill_that_would_not_have_come(name: str, threshold: int) -> None:
    """Nor the restart behind it; with a lower threshold both come before; 3 is recorded."""
    result, changes = seen(recorded(name), f"{LIVENESS}.failureThreshold={threshold}")
    if threshold == 3:
        assert changes == []
        return
    kinds = ["prober.ProbeTransitioned", "lifecycle.ContainerKilled"]
    kinds += ["lifecycle.ContainerRestarted"] if threshold > 3 else []
    sure = [change for change in changes if change.untrusted_since is None]
    assert [change.kind for change in sure] == kinds
    assert {change.instead is None for change in sure} == {threshold > 3}
    assert {change.untrusted_since for change in changes} == {None, changes[0].seq} or all(
        change.untrusted_since is None or change.untrusted_since < sure[0].seq for change in changes
    )
    assert {change.subject for change in changes} == {sure[0].subject}
    assert result.untrusted > 10


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("livenessProbe.periodSeconds=3", "would have seen every 3 s"),
        ("readinessProbe.periodSeconds=60", "would have seen every 60 s"),
    ],
)
def test_other_moments_are_undecided(text: str, phrase: str) -> None:
    """Nothing tells what the probe would have seen then; no change is made up."""
    result, changes = seen(recorded("node-a"), f"pod/*/*.{text}")
    assert changes == []
    assert any(phrase in missing for missing in result.missing)


def test_a_longer_delay_spares_the_first_failures() -> None:
    found = flapping("FFFF" + "S" * 20, "1.28.0")
    _, none = seen(found, "pod/flap/app.readinessProbe.initialDelaySeconds=1")
    _, late = seen(found, "pod/flap/app.readinessProbe.initialDelaySeconds=60")
    assert none == []
    (ready,) = (change for change in late if change.recorded is not None)
    assert "initial delay of 60 s was not over" in ready.why


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pod/x/app.livenessProbe.failureThreshold=0", "1 or more"),
        ("pod/x/app.livenessProbe.failureThreshold=many", "whole number"),
        ("pod/x/app.livenessProbe.successThreshold=2", "must be 1"),
        ("pod/x/app.readinessProbe.terminationGracePeriodSeconds=2", "kills nothing"),
        ("pod/x/app.livenessProbe.failureTreshold=2", "not a field of a probe"),
        ("pod/x.livenessProbe.failureThreshold=2", "names no container"),
        ("pod/x.priorty=2", "not a field of a pod"),
        ("pod/x.activeDeadlineSeconds=5", "kills for a deadline are not decided again"),
        ("pod/a/b/c.priority=2", "names no pod"),
        ("container/x/y.priority=2", "no resource and no probe"),
    ],
)
def test_what_no_api_server_takes(text: str, message: str) -> None:
    with pytest.raises(BadQuestionError, match=message):
        parse_setting(text)
