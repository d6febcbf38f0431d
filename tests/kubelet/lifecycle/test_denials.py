"""Statuses of pods as the kubelet writes them, and what it does not write together."""

from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.lifecycle.denials import denials
from kubeledger.model.bodies.lifecycle import PodListed

Json = dict[str, Any]
POD: Json = {"namespace": "ns", "pod": "web", "pod_uid": "uid-1"}
STATIC = {"kubernetes.io/config.source": "file"}
MIRROR = {"kubernetes.io/config.mirror": "x"}
PROBE: Json = {"httpGet": {"port": 80}}
RUNS: Json = {"running": {"startedAt": "2026-11-21T03:00:00Z"}}
WAITS: Json = {"waiting": {"reason": "ContainerCreating"}}
LATER: Json = {"startTime": "2026-11-21T03:00:05Z"}
LOOPS: Json = {"waiting": {"reason": "CrashLoopBackOff"}}
FULL: Json = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}


def ended(code: int = 0, of: str = "c-1", reason: str | None = None, at: str = "02:59:50") -> Json:
    why, over = reason or ("Error" if code else "Completed"), f"2026-11-21T{at}Z"
    shown = {"exitCode": code, "reason": why, "containerID": f"x://{of}", "finishedAt": over}
    return {"terminated": shown}


def lived(*seconds: int, code: int = 1) -> Json:
    """Of an instance that began and ended so long after three."""
    times = (f"2026-11-21T03:{second // 60:02}:{second % 60:02}Z" for second in seconds)
    both = dict(zip(("startedAt", "finishedAt"), times, strict=True))
    return {"terminated": ended(code, "c-0")["terminated"] | both}


def entry(state: Json, last: Json | None = None, **fields: Any) -> Json:  # noqa: ANN401 # any field
    runs = "running" in state
    given: Json = {"name": "app", "containerID": "x://c-1", "restartCount": 1 if last else 0}
    given |= {"ready": runs, "started": runs, "state": state, "lastState": last or {}}
    return given | fields


def without(shown: Json, *fields: str) -> Json:
    """A selection of it: what the API always writes, if only empty, is not there."""
    return {field: value for field, value in shown.items() if field not in fields}


def init(state: Json, **fields: Any) -> Json:  # noqa: ANN401 # any field
    return entry(state, name="first", containerID="x://i-1") | {"ready": False} | fields


def after(
    code: int,
    at: str = "02:59:50",
    *,
    policy: str = "Never",
    of_first: str | None = None,
    **app: Any,  # noqa: ANN401 # any field of a container
) -> list[tuple[str, str]]:
    """A container of such a pod runs since three o'clock, and its init container has ended."""
    spec = {"restartPolicy": policy, "initContainers": [{"name": "first"}]}
    if of_first is not None:
        spec |= {"initContainers": [{"name": "first", "restartPolicy": of_first}]}
    first = init(ended(code, "i-1", at=at), ready=not code)
    return told(entry(RUNS), inits=(first,), spec=spec, **app)


def told(
    *own: Json,
    phase: str = "Running",
    inits: tuple[Json, ...] = (),
    conditions: Json | None = None,
    annotations: dict[str, str] | None = None,
    spec: Json | None = None,
    status: Json | None = None,
    **app: Any,  # noqa: ANN401 # any field of a container
) -> list[tuple[str, str]]:
    """What a list's entry of a pod of one container says twice."""
    pod_spec = {"containers": [{"name": "app", **app}], "restartPolicy": "Always"}
    pod_spec |= {"initContainers": [{"name": "first"}]} if inits else {}
    shown = [{"type": kind, **each} for kind, each in (conditions or {}).items()]
    pod_status = {"phase": phase, "containerStatuses": list(own), "conditions": shown}
    pod_status |= {"initContainerStatuses": list(inits), **(status or {})}
    body = PodListed(**POD, spec=pod_spec | (spec or {}), status=pod_status,
                     listed_by="kubelet", annotations=annotations or {})  # fmt: skip
    return [(each.one, each.other) for each in denials(body)]


IS, NOT = {"status": "True"}, {"status": "False", "reason": "ContainersNotReady"}


@pytest.mark.parametrize(
    "sound",
    [
        told(entry(RUNS), conditions={"Ready": IS, "ContainersReady": IS}),
        told(entry(RUNS, ended(1, "c-0"))),
        told(entry(ended())),
        told(entry(LOOPS, ended(1))),
        # A probe's result of a container that just ended.
        told(entry(ended(1), ready=True), readinessProbe=PROBE),
        told(entry(ended(1), started=True), startupProbe=PROBE),
        # Only the next sync makes ready what has started, or what another probe finds ready.
        told(entry(RUNS, ready=False), startupProbe=PROBE),
        told(entry(RUNS, ready=False), readinessProbe=PROBE),
        told(entry(RUNS, started=False, ready=False), startupProbe=PROBE),
        # What was not found at the end keeps the rest of its status.
        told(entry(ended(137, reason="ContainerStatusUnknown"), ready=True, started=True)),
        told(entry(WAITS), inits=(init(ended(of="i-1"), ready=True),), phase="Pending"),
        told(entry(WAITS), inits=(init(RUNS, started=False),), phase="Pending"),
        # The controller of nodes sets it.
        told(entry(RUNS), conditions={"Ready": NOT, "ContainersReady": IS}),
        told(entry(RUNS), phase="Failed"),
        told(entry(RUNS), phase="Failed", annotations=STATIC, status={"reason": "Terminated"}),
        told(entry(ended()), spec={"restartPolicy": "Never"}),  # the end of the phase is delayed
        told(entry(RUNS), status={"qosClass": "Guaranteed"}, resources=FULL),
        told(entry(RUNS), status={"qosClass": "Burstable"}, spec={"resources": {
            "requests": {"cpu": "1"}}}),
        after(1, policy="Always"),  # its sandbox is another by now
        after(1, "03:00:01"),  # a runtime that lost all makes it run anew
        after(255),
        after(1, restartPolicyRules=[{"action": "RestartAllContainers"}]),
        after(0),
        told(entry(RUNS), status=LATER, annotations=STATIC),  # one before ends while it begins
        told(entry(RUNS, lived(9, 10)), annotations=STATIC),
        told(entry(LOOPS, lived(9, 5))),  # while the runtime still starts it
        told(entry(RUNS, lived(0, 2))),  # no clock is set to the second
        told(entry(RUNS, lived(0, 9, code=255))),  # the runtime had lost it
        told(without(entry(LOOPS), "lastState")),
        told(without(entry(WAITS), "lastState")),
        told(without(entry(RUNS), "ready", "started"), conditions={"ContainersReady": IS}),
        told(without(entry(RUNS), "ready", "started"), conditions={"ContainersReady": NOT}),
        told(entry(RUNS), status={"qosClass": "Guaranteed"}),
        told(entry(RUNS, ready=False), annotations=MIRROR),  # its spec may be an older one
        told(entry(RUNS, ready=False), spec={"containers": []}),
        told(),
    ],
)  # fmt: skip
def test_what_a_kubelet_writes(sound: list[tuple[str, str]]) -> None:
    assert sound == []


@pytest.mark.parametrize(
    ("found", "one"),
    [
        (told(entry(ended(1), ready=True)), "ready"),
        (told(entry(WAITS, ready=True), phase="Pending"), "ready"),
        (told(entry(ended(1), started=True)), "started"),
        (told(entry(RUNS, started=False, ready=False)), "not started"),
        (told(entry(RUNS, ready=False)), "not ready"),
        (told(entry(WAITS), inits=(init(RUNS, ready=True),), phase="Pending"), "ready"),
        (told(entry(ended(1, "c-2"))), "container c-1"),
        (told(entry(RUNS, ended(1, "c-1"))), "it is running"),
        (told(entry(RUNS, ended(1, "c-0"), restartCount=0)), "restartCount 0"),
        (told(entry(LOOPS), phase="Pending"), "CrashLoopBackOff"),
        (told(entry(ended(2, reason="Completed"))), "reason Completed"),
        (told(entry(LOOPS, ended(0, reason="Error"))), "reason Error"),
        (told(entry(RUNS, name="other")), "a container's status"),
        (told(entry(RUNS), spec={"containers": [{"name": "app"}, {"name": "log"}]}),
         "statuses of containers app"),
        (after(1), "it started at 2026-11-21T03:00:00Z"),
        (after(1, policy="OnFailure", of_first="Never"),
         "it started at 2026-11-21T03:00:00Z"),
        (told(entry(ended(1)), conditions={"ContainersReady": IS}), "not ready"),
        (told(entry(RUNS), conditions={"ContainersReady": NOT}), "all containers are ready"),
        (told(entry(ended(1)), conditions={"Ready": IS, "ContainersReady": NOT}),
         "condition Ready is True"),
        (told(entry(RUNS), conditions={"ContainersReady": IS}, phase="Pending"), "phase Pending"),
        (told(entry(WAITS)), "phase Running"),
        (told(entry(RUNS), phase="Succeeded"), "phase Succeeded"),
        (told(entry(ended(3)), phase="Succeeded"), "phase Succeeded"),
        (told(entry(RUNS), phase="Failed", annotations=STATIC), "phase Failed"),
        (told(entry(RUNS), status=LATER), "the pod began at 2026-11-21T03:00:05Z"),
        (told(entry(RUNS, lived(0, 9))), "the instance before ended at 2026-11-21T03:00:09Z"),
        (told(entry(LOOPS, lived(900, 5)), annotations=STATIC),
         "container c-0 began at 2026-11-21T03:15:00Z"),
        (told(entry(ended()), spec={"restartPolicy": "Never"}, annotations=STATIC),
         "phase Running"),
        (told(entry(RUNS), status={"qosClass": "BestEffort"}, resources=FULL),
         "qosClass BestEffort"),
    ],
)  # fmt: skip
def test_what_no_kubelet_writes(found: list[tuple[str, str]], one: str) -> None:
    assert [each for each, _ in found][:1] == [one]


def test_a_container_of_its_own_policy_may_run_again() -> None:
    never = {"restartPolicy": "Never"}
    found = told(entry(ended(1)), spec={"containers": [{"name": "app", **never}], **never},
                 annotations=STATIC)  # fmt: skip
    assert found == []


def test_whatever_is_not_of_the_api_is_passed_over() -> None:
    spec: Json = {"containers": [{"name": "app", "resources": 3}]}
    status: Json = {"containerStatuses": 3, "conditions": {}}
    body = PodListed(**POD, spec=spec, status=status, listed_by="api")
    odd = {"containerStatuses": [{"name": "app", "state": 1}], "qosClass": "Guaranteed"}
    assert not [*denials(body), *denials(msgspec.structs.replace(body, status=odd))]
