"""Lists of pods that somebody pruned, or masked."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeledger.ingest.correlate.list_signs import ListSigns

Pod = dict[str, Any]

_DAY = "2026-11-21T"


def served(name: str, *, source: str = "api") -> Pod:
    """As an API server writes it, and a kubelet, of an instance that ended and the next one."""
    ended = {"reason": f"Reason{name}", "message": f"of {name}", "startedAt": f"{_DAY}03:01:09Z"}
    container = {
        "name": "app",
        "image": "app:1",
        "imagePullPolicy": "Always",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
    }
    status = {
        "name": "app",
        "containerID": f"containerd://{name * 64}",
        "lastState": {"terminated": ended},
        "state": {"running": {"startedAt": f"{_DAY}03:01:30Z"}},
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": f"{_DAY}03:00:00Z",
            "annotations": {"kubernetes.io/config.source": source},
        },
        "spec": spec | ({"priority": 0} if source == "api" else {}),
        "status": {"containerStatuses": [status]},
    }


def _nothing(pod: Pod) -> None:
    """Leave it as it is."""


def _no_resources(pod: Pod) -> None:
    del pod["spec"]["containers"][0]["resources"]


def _no_priority(pod: Pod) -> None:
    pod["spec"].pop("priority", None)


def _by_hand(pod: Pod) -> None:
    pod["spec"] = {"containers": [{"name": "app", "image": "app:1"}]}


def _only_containers(pod: Pod) -> None:
    pod["spec"] = {"containers": pod["spec"]["containers"]}


def _masked_ids(pod: Pod) -> None:
    pod["status"]["containerStatuses"][0]["containerID"] = "containerd://REDACTED"


def _masked_uids(pod: Pod) -> None:
    pod["metadata"]["uid"] = "xxxxxxxx"


def _masked_messages(pod: Pod) -> None:
    pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"] = "***"


def _days(pod: Pod) -> None:
    status = pod["status"]["containerStatuses"][0]
    for times in (pod["metadata"], status["lastState"]["terminated"], status["state"]["running"]):
        field = "creationTimestamp" if times is pod["metadata"] else "startedAt"
        times[field] = f"{_DAY}00:00:00Z"


@pytest.mark.parametrize(
    ("change", "finding", "words"),
    [
        (_nothing, None, ""),
        (_by_hand, None, ""),
        (_no_resources, "lists_pruned", "resources"),
        (_no_priority, "lists_pruned", "priority"),
        (_only_containers, "lists_pruned", "dnsPolicy, priority, restartPolicy"),
        (_masked_ids, "lists_masked", "one ID"),
        (_masked_uids, "lists_masked", "one ID"),
        (_masked_messages, "lists_masked", "one message"),
        (_days, "lists_masked", "days"),
    ],
)
def test_what_all_lists_show(
    change: Callable[[Pod], None], finding: str | None, words: str
) -> None:
    """What was done to all pods shows; one pod that is odd is wrong by itself."""
    for of_all in (True, False):
        signs = ListSigns()
        for name in "abcd":
            pod = served(name)
            if of_all or name == "a":
                change(pod)
            signs.take(pod)
        found = list(signs.findings())
        assert [each.finding for each in found] == [finding] * (of_all and finding is not None)
        assert all(words in each.message for each in found)


def test_pods_that_no_admission_saw() -> None:
    """A kubelet that reads all of its pods from files knows no priorities."""
    signs = ListSigns()
    for name in "abcd":
        signs.take(served(name, source="file"))
    assert not list(signs.findings())


def test_one_container_in_several_lists() -> None:
    """A mirror comes anew under another UID, and its container runs on."""
    signs = ListSigns()
    for number in range(4):
        pod = served("a")
        pod["metadata"]["uid"] = f"uid-{number}"
        signs.take(pod)
    assert not list(signs.findings())
