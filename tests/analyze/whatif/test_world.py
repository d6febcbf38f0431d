"""Who would be on the node, held against a simulation of the same node under the other settings."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from kubeledger.analyze.whatif import Outlook, changes, outlook
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.record import Record
from kubeledger.simulate.engine.plan import PlannedPod
from kubeledger.verify import Finding, Variant
from tests.marks import slow
from tests.simulate.engine.scenes import container, plan, planned, records

ADMISSIONS = (PodAdmitted.kind, PodRejected.kind)


def judged(found: Sequence[Record], variant: Variant) -> list[tuple[Finding, int | None]]:
    """Each finding under a variant, and the change that it follows."""

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    reported: list[tuple[Finding, int | None]] = []
    plain = changes._with_probes

    def noted(*args: Any) -> Iterator[tuple[Finding, int | None]]:  # noqa: ANN401 # passed on
        for each in plain(*args):
            reported.append(each)
            yield each

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "_with_probes", noted)
        list(outlook(read, variant, Outlook(variant="")))
    return reported


def crowd(seed: int) -> list[PlannedPod]:
    """Pods that come and go on four cpus, some with ports, some critical, some that end."""
    random = Random(seed)
    pods = []
    for number in range(14):
        at_s = 10 + 12 * number + random.choice((0, 1))
        ports = [{"containerPort": 80, "hostPort": 8080}] if random.random() < 0.2 else []
        cpu = f"{random.choice((0, 100, 400, 900, 1500))}m"
        more: dict[str, Any] = {}
        if random.random() < 0.25:
            more = {"priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"}
        requests = {"cpu": cpu, "memory": "64Mi"} if random.random() < 0.8 else None
        stays = random.random() < 0.5
        pods.append(
            planned(
                f"p{number}",
                container(requests=requests, ports=ports),
                at_s=at_s,
                deleted_s=None if stays else at_s + random.choice((20, 50, 90)),
                **more,
            )
        )
    return pods


def decided(found: Sequence[Record]) -> dict[str, tuple[bool, str, str]]:
    reported = {}
    for record in found:
        body = record.body
        if isinstance(body, PodAdmitted):
            reported[f"pod/{body.namespace}/{body.pod}"] = (True, "", "")
        elif isinstance(body, PodRejected):
            reported[f"pod/{body.namespace}/{body.pod}"] = (False, body.reason, body.message)
    return reported


def killed(found: Sequence[Record]) -> set[tuple[str, str]]:
    return {
        (f"pod/{r.body.victim_namespace}/{r.body.victim_pod}", str(r.body.preemptor_pod))
        for r in found
        if isinstance(r.body, PodPreempted)
    }


VARIANTS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {"maxPods": 4}),
    ({"maxPods": 4}, {"maxPods": 6}),
    ({}, {"systemReserved": {"cpu": "1500m"}}),
    ({"systemReserved": {"cpu": "1500m"}}, {"systemReserved": {"cpu": "300m"}}),
)


@pytest.mark.parametrize(
    ("version", "pair"),
    [("1.36.2", 0), *slow(("1.20.2", 0), *product(("1.20.2", "1.36.2"), range(1, len(VARIANTS))))],
)
def test_what_is_trusted_is_what_the_other_node_decides(version: str, pair: int) -> None:
    """Admissions and victims, as recorded or changed; and not few of them are trusted."""
    settings, other = VARIANTS[pair]
    trusted: Counter[str] = Counter()
    for seed in range(20):
        pods = crowd(seed)
        was = records(plan(*pods, version=version, settings=settings))
        would = records(plan(*pods, version=version, settings={**settings, **other}))
        expected, kills = decided(would), killed(would)
        for finding, doubt in judged(was, Variant(settings=other)):
            if finding.verdict == "unverifiable" or finding.recorded is None:
                continue
            if doubt is not None:
                trusted["no"] += finding.kind in ADMISSIONS
                continue
            place = (version, pair, seed, finding.seq, finding.subject, finding.why)
            reported = finding.expected if finding.verdict == "impossible" else finding.recorded
            assert reported is not None
            if finding.kind in ADMISSIONS:
                trusted["yes"] += 1
                trusted["changed"] += finding.verdict == "impossible"
                admit, reason, message = expected[finding.subject]
                asked = reported.get("admit", False)
                assert admit is asked, place
                if not asked and not admit:
                    assert reason == reported["reason"], place
                    assert message == reported["message"], place
            elif finding.kind == PodPreempted.kind:
                preemptor = str(finding.recorded["preemptor_pod"])
                victim = reported.get("victim_pod", finding.subject.rpartition("/")[2])
                if victim is None:
                    assert (finding.subject, preemptor) not in kills, place
                else:
                    assert (f"pod/default/{victim}", preemptor) in kills, place
    assert trusted["yes"] > trusted["no"]
    assert trusted["changed"]
