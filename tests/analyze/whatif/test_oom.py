"""OOM kills under other limits, requests, settings and versions, on simulated nodes."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

from kubeledger.analyze.whatif import Change, Outlook, outlook, parse_variants
from kubeledger.analyze.whatif.variants import parse_setting
from kubeledger.model.bodies.eviction import OutOfMemory, ProcessKilled
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.verify import Variant
from tests.simulate.engine.scenes import container, plan, planned, records
from tests.simulate.engine.test_memory import MIB, crowd, limited, on_v2, uses


def variant(*texts: str, version: str | None = None) -> Variant:
    (found,) = parse_variants([parse_setting(t) for t in texts], [version] if version else [])
    return found


def kills(found: Sequence[Record], asked: Variant) -> tuple[Outlook, list[Change]]:
    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    result = Outlook(variant=asked.name)
    changes = list(outlook(read, asked, result))
    return result, [c for c in changes if c.kind == ProcessKilled.kind]


def leak() -> list[Record]:
    """A pod that comes to its limit of 64Mi."""
    script = uses((0, 20), (60, 90))
    return records(plan(planned("leak", limited("app", 64), scripts={"app": script}), minutes=2))


LIMIT = "container/default/leak/app.resources.limits.memory"
REQUEST = "container/*/*/*.resources.requests.memory"


@pytest.mark.parametrize(
    ("settings", "instead"),
    [
        ((f"{LIMIT}=128Mi",), None),
        ((f"{LIMIT}=null", f"{REQUEST}=null"), None),
        ((f"{LIMIT}=32Mi", f"{REQUEST}=32Mi"), {"limit_bytes": 32 * MIB}),
    ],
)
@pytest.mark.parametrize("has_table", [True, False])
def test_another_limit(settings: tuple[str, ...], instead: Any, has_table: bool) -> None:  # noqa: ANN401 # JSON
    """A higher one is not reached then, a lower one before; the table is not needed for that."""
    found = [r for r in leak() if has_table or not isinstance(r.body, OutOfMemory)]
    result, changes = kills(found, variant(*settings))
    first, *later = changes
    assert (first.instead, first.untrusted_since) == (instead, None)
    assert {change.untrusted_since for change in later} == {first.seq}
    assert result.changed


def test_the_same_limit_changes_nothing() -> None:
    assert kills(leak(), variant(f"{LIMIT}=64Mi"))[1] == []


def test_no_kill_is_recorded() -> None:
    """Whether a lower limit would have been reached is undecided, and named."""
    found = records(plan(planned("calm", limited("app", 64), scripts={"app": uses((0, 20))})))
    texts = ("container/default/calm/app.resources.limits.memory=32Mi", f"{REQUEST}=32Mi")
    result, changes = kills(found, variant(*texts))
    assert changes == []
    (missing,) = (each for each in result.missing if "calm" in each)
    assert "could not take back" in missing


def test_other_requests_make_the_kernel_choose_another() -> None:
    found = crowd(
        planned("asks", container(requests={"memory": "7Gi"}),
                scripts={"app": uses((0, 6000), (60, 7600))}),
        planned("idle", scripts={"app": uses((0, 700))}),
        version="1.30.14",
    )  # fmt: skip
    asks = "container/default/asks/app.resources.requests.memory"
    _, changes = kills(found, variant(f"{asks}=1Gi"))
    assert changes[0].instead is not None
    assert changes[0].instead["process"] == "app"
    assert "oom_score_adj 875" in changes[0].why
    _, changes = kills(found, variant(f"{asks}=6900Mi"))
    assert changes == []


@pytest.mark.parametrize(
    ("version", "setting", "now", "changed"),
    [
        ("1.36.2", "singleProcessOOMKill=true", None, True),
        ("1.36.2", "singleProcessOOMKill=false", None, False),
        ("1.30.14", "singleProcessOOMKill=true", None, False),
        ("1.30.14", "maxPods=110", "1.27.0", True),
        ("1.27.0", "maxPods=110", "1.28.0", True),
    ],
)
def test_one_process_or_all(version: str, setting: str, now: str | None, changed: bool) -> None:
    pod = planned("forks", limited("app", 64), limited("other", 64),
                  scripts={"app": uses((0, 20), (60, 90), child=True)})  # fmt: skip
    found = records(on_v2(plan(pod, version=version)))
    _, changes = kills(found, variant(setting, version=now))
    assert bool(changes) is changed
    if changed:
        whole = changes[0].instead
        assert whole is not None
        assert bool(whole["also_killed"]) is (version == "1.27.0")


def test_a_bigger_reserve_is_undecided() -> None:
    """All pods together would have had less; what they used is in no record."""
    found = crowd(planned("idle", scripts={"app": uses((0, 700))}), version="1.30.14")
    result, _ = kills(found, variant("systemReserved.memory=4Gi"))
    assert [m for m in result.missing if m.startswith("what all pods together used of memory")]


@pytest.mark.parametrize(
    "text",
    [
        "container/default/web=1Gi",
        "container/default/web/app.resources.memory=1Gi",
        "container/default/web/app.resources.limits.memory=lots",
        "container/default/web/app.resources.limits.memory=-1",
    ],
)
def test_no_resource(text: str) -> None:
    with pytest.raises(BadQuestionError):
        parse_setting(text)
