"""Deciding and judging lines of one subsystem, and pods of the API for them."""

from typing import Any

import msgspec

from kubeledger.kubelet.cases.registry import decider_of, judge_of


class Lines:
    """Cases and claims of a subsystem, as JSON both ways."""

    def __init__(self, subsystem: str) -> None:
        self._decide = decider_of(subsystem)
        self._judge = judge_of(subsystem)

    def decided(self, kubelet: str, case_input: object) -> Any:  # noqa: ANN401  # JSON
        line = msgspec.json.encode({"id": "c", "kubelet": kubelet, "input": case_input})
        return msgspec.json.decode(self._decide(line))["outcome"]

    def judged(self, kubelet: str, case_input: object, outcome: object) -> tuple[str, str]:
        claim = {"id": "c", "kubelet": kubelet, "input": case_input, "outcome": outcome}
        answer = msgspec.json.decode(self._judge(msgspec.json.encode(claim)))
        return answer["verdict"], answer["why"]


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
