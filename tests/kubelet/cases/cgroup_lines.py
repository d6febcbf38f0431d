"""Deciding and judging lines of one subsystem, and the checks that recorded cases share."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from kubeledger.kubelet.cases.registry import decider_of, judge_of
from tests.kubelet.cases.conformance import canonical, impossible_claims, load

__all__ = ["Lines", "container", "pod"]

_SUM = re.compile(r"and ([0-9]+) \* ([0-9]+) / ([0-9]+) = ([0-9]+)")

_RULE = re.compile(": ")
"""A rule that is told."""
_CASES = 20


class Lines:
    """Cases and claims of a subsystem, as JSON both ways."""

    def __init__(self, subsystem: str) -> None:
        self.subsystem = subsystem
        self._decide = decider_of(subsystem)
        self._judge = judge_of(subsystem)

    def decided(self, kubelet: str, case_input: object) -> Any:  # noqa: ANN401  # JSON
        """The outcome."""
        line = msgspec.json.encode({"id": "c", "kubelet": kubelet, "input": case_input})
        return json.loads(self._decide(line))["outcome"]

    def judged(self, kubelet: str, case_input: object, outcome: object) -> tuple[str, str]:
        """Verdict and why."""
        claim = {"id": "c", "kubelet": kubelet, "input": case_input, "outcome": outcome}
        answer = json.loads(self._judge(msgspec.json.encode(claim)))
        return answer["verdict"], answer["why"]

    def check_recorded(self, version: str) -> None:
        """Each recorded case is decided as recorded, which is a match."""
        cases = load(version, self.subsystem)
        assert len(cases) >= _CASES
        for case in cases:
            (recorded,) = case["outcomes"]
            decided = self.decided(version, case["input"])
            assert canonical(decided) == canonical(recorded), case["id"]
            assert self.judged(version, case["input"], recorded) == ("match", "")

    def check_impossible(self, version: str, sentence: re.Pattern[str] = _RULE) -> None:
        """Changed outcomes, and those of other cases, are impossible, and ``sentence`` says why.

        Its sums come out.
        """
        for case, wrong in impossible_claims(load(version, self.subsystem), seed=5):
            verdict, why = self.judged(version, case["input"], wrong)
            assert verdict == "impossible", case["id"]
            assert sentence.search(why), case["id"]
            for factor, other, divisor, result in _SUM.findall(why):
                assert int(factor) * int(other) // int(divisor) == int(result), case["id"]


def container(
    name: str = "c0",
    requests: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **more: object,
) -> dict[str, Any]:
    """A container of the API; ``more`` are other keys."""
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {k: v for k, v in resources.items() if v}, **more}


def pod(*containers: dict[str, Any], uid: str = "u-1", **spec: object) -> dict[str, Any]:
    """A pod of the API; ``spec`` are other keys of its spec."""
    metadata = {"name": "p", "namespace": "default", "uid": uid}
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}
