"""Image pulls: what versions do otherwise, several outcomes of one case, reasons."""

import base64
import json
from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines

LINES = Lines("imagepull")
IMAGE = "gcr.io/acme/app:v1"
SECRET = {"uid": "u-1", "namespace": "team", "name": "regcred"}


def call(pod: str = "a", policy: str = "IfNotPresent", ref: str = "", **more: Any) -> Any:  # noqa: ANN401  # JSON
    """A request; the registry answers at once."""
    answers = [{"imageRef": "sha256:1", "size": 7}]
    given = {"podUID": pod, "image": IMAGE, "imagePullPolicy": policy, "imageRef": ref}
    return given | {"answers": answers} | more


def fails(error: str, duration: str = "0s") -> list[dict[str, str]]:
    """Answers of a registry that does not give the image."""
    return [{"error": error, "duration": duration}]


def ensure(at_s: int, *calls: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    at = f"2026-01-05T08:{at_s // 60:02}:{at_s % 60:02}Z"
    return {"at": at, "op": "ensure", "calls": list(calls)}


def case(*steps: dict[str, Any], **settings: object) -> dict[str, Any]:
    """An input, with the kubelet's defaults."""
    return {
        "serializeImagePulls": True,
        "registryPullQPS": 5,
        "registryBurst": 10,
        "backOffInitial": "10s",
        "backOffMax": "5m0s",
        "kubeletStartedAt": "2026-01-05T08:00:00Z",
        "steps": list(steps),
    } | settings


def calls(version: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for step in LINES.decided(version, given)["steps"] for each in step["calls"]]


def reasons(version: str, given: dict[str, Any]) -> list[str]:
    """Why containers wait, request by request; empty: they do not."""
    return [each["error"] for each in calls(version, given)]


@pytest.mark.parametrize("version", ["1.19.0", "1.27.0", "1.30.0", "1.36.2"])
def test_a_back_off(version: str) -> None:
    """Of one pod and one name; doubled; a success does not end it; 600 s later it is forgotten."""
    bad = fails("404")
    steps = [
        ensure(0, call("a", answers=bad), call("b")),
        ensure(9, call("a"), call("b", answers=bad)),
        ensure(10, call("a", answers=bad)),
        ensure(29, call("a")),
        ensure(30, call("a")),
        ensure(31, call("a", answers=bad)),
        ensure(70, call("a")),
        ensure(31 + 600, call("a", answers=bad)),
        ensure(31 + 600 + 601, call("a", answers=bad)),
        ensure(31 + 600 + 610, call("a")),
    ]
    waits, failed = "ImagePullBackOff", "ErrImagePull"
    assert reasons(version, case(*steps)) == [
        failed, "", waits, failed, failed, waits, "", failed, waits, failed, failed, waits,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "first", "then"),
    [
        ("1.27.0", "ErrImagePull", 'Back-off pulling image "gcr.io/acme/app:v1"'),
        ("1.31.0", "RegistryUnavailable", 'Back-off pulling image "gcr.io/acme/app:v1"'),
        ("1.32.0", "RegistryUnavailable", 'Back-off pulling image "gcr.io/acme/app:v1": '
         "RegistryUnavailable: image pull failed for gcr.io/acme/app:v1 because the registry is "
         "unavailable: down"),
    ],
)  # fmt: skip
def test_what_failed_is_said_while_nothing_is_tried(version: str, first: str, then: str) -> None:
    """From 1.32 on; until the kubelet starts anew."""
    error = fails("RegistryUnavailable: down")
    restart = {"at": "2026-01-05T08:00:02Z", "op": "restart"}
    steps = [ensure(0, call(answers=error)), ensure(1, call()), restart, ensure(3, call())]
    found = calls(version, case(*steps))
    assert [each["error"] for each in found] == [first, "ImagePullBackOff", ""]
    assert found[1]["message"] == then


@pytest.mark.parametrize(
    ("version", "policy", "ref", "expected"),
    [
        ("1.31.0", "Always", "", ("ImageInspectError", 'image "gcr.io/acme/app:v1": boom')),
        ("1.32.0", "Always", "", ("", "")),
        ("1.32.0", "IfNotPresent", "", ("ImageInspectError", 'image "": boom')),
        ("1.36.2", "", "sha256:1", ("", "")),
    ],
)
def test_whether_the_runtime_is_asked(
    version: str, policy: str, ref: str, expected: tuple[str, str]
) -> None:
    """Always until 1.31; then only if the policy depends on it."""
    (found,) = calls(version, case(ensure(0, call("a", policy, ref, inspectError="boom"))))
    assert found["error"] == expected[0]
    assert found["message"].endswith(expected[1])


@pytest.mark.parametrize(
    ("version", "ref", "expected"),
    [
        ("1.31.0", "", "ErrImageNeverPull"),
        ("1.31.0", "sha256:1", ""),
        ("1.32.0", "", ""),
        ("1.32.0", "sha256:1", ""),
    ],
)
def test_without_a_policy(version: str, ref: str, expected: str) -> None:
    """Never pulled until 1.31, always pulled then."""
    (found,) = calls(version, case(ensure(0, call("a", "", ref))))
    assert found["error"] == expected
    assert bool(found["pulls"]) == (version == "1.32.0")


PULL = 'Successfully pulled image "gcr.io/acme/app:v1" in '


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.24.0", f"{PULL}3.0005s"),
        ("1.25.8", f"{PULL}1.0005s (3.0005s including waiting)"),
        ("1.28.0", f"{PULL}1s (3s including waiting)"),
        ("1.30.0", f"{PULL}1s (3s including waiting). Image size: 7 bytes."),
    ],
)
def test_the_event_of_a_pull(version: str, expected: str) -> None:
    slow = [{"imageRef": "sha256:2", "size": 9, "duration": "2s"}]
    mine = [{"imageRef": "sha256:1", "size": 7, "duration": "1.0005s"}]
    given = case(ensure(0, call("b", image="other", answers=slow), call(answers=mine)))
    assert f"Normal Pulled {expected}" in LINES.decided(version, given)["steps"][0]["events"]


@pytest.mark.parametrize(
    ("settings", "version", "ends"),
    [
        ({"serializeImagePulls": True}, "1.36.2", [2, 4, 6]),
        ({"serializeImagePulls": False}, "1.36.2", [2, 2, 2]),
        ({"serializeImagePulls": False, "maxParallelImagePulls": 2}, "1.36.2", [2, 2, 4]),
        ({"serializeImagePulls": False, "maxParallelImagePulls": 2}, "1.26.0", [2, 2, 2]),
    ],
)
def test_how_many_are_pulled_at_once(
    settings: dict[str, object], version: str, ends: list[int]
) -> None:
    """One, all, or so many, from 1.27 on."""
    slow = [{"imageRef": "sha256:1", "size": 7, "duration": "2s"}]
    requests = [call(pod, answers=slow) for pod in "abc"]
    found = calls(version, case(ensure(0, *requests), **settings))
    assert [each["finishedAt"][17:19] for each in found] == [f"{end:02}" for end in ends]


@pytest.mark.parametrize(
    ("version", "verifies", "ref", "expected"),
    [
        ("1.32.0", False, "", "ErrImagePull"),
        ("1.33.0", False, "", "unexpected end of JSON input"),
        ("1.33.0", False, "sha256:1", "unexpected end of JSON input"),
        ("1.34.9", False, "sha256:1", ""),
        ("1.34.9", True, "sha256:1", "unexpected end of JSON input"),
        ("1.36.2", True, "sha256:1", ""),
        ("1.36.2", True, "", "unexpected end of JSON input"),
    ],
)
def test_a_pull_secret_that_cannot_be_read(
    version: str, verifies: bool, ref: str, expected: str
) -> None:
    """Whom it hurts: a pull that fails; anyone; whoever needs it."""
    data = {".dockercfg": base64.b64encode(b"{").decode()}
    secret = {"metadata": SECRET, "type": "kubernetes.io/dockercfg", "data": data}
    policy = {"imagePullCredentialsVerificationPolicy": "NeverVerify"}
    given = case(
        ensure(0, call("a", "IfNotPresent", ref, pullSecrets=[secret])),
        ensureSecretPulledImages=verifies,
        **policy,
    )
    assert reasons(version, given) == [expected]


def recorded(version: str, **credentials: object) -> dict[str, Any]:
    """A record of the image, in the version's form, and what verifies it."""
    api = "v1beta1" if version >= "1.35" else "v1alpha1"
    record = {
        "imageRef": "sha256:1",
        "apiVersion": f"kubelet.config.k8s.io/{api}",
        "lastUpdatedTime": "2026-01-05T07:00:00Z",
        "credentialMapping": {"gcr.io/acme/app": credentials},
    }
    return {
        "ensureSecretPulledImages": True,
        "imagePullCredentialsVerificationPolicy": "AlwaysVerify",
        "maxPods": 110,
        "pulledRecords": [record],
    }


@pytest.mark.parametrize("version", ["1.33.13", "1.34.9", "1.35.6", "1.36.2"])
def test_who_may_use_an_image_that_is_there(version: str) -> None:
    """Whoever has the same password or secret; both are then on record."""
    known = recorded(version, kubernetesSecrets=[{**SECRET, "credentialHash": "aaaa"}])
    other = {**SECRET, "uid": "u-2"}
    mine = [{"username": "u", "hash": "aaaa", "secret": SECRET}]
    same_password = [{"username": "u", "hash": "aaaa", "secret": other}]
    same_secret = [{"username": "u", "hash": "bbbb", "secret": SECRET}]
    stranger = [{"username": "u", "hash": "cccc", "secret": {**SECRET, "name": "x"}}]
    given = case(
        *(
            ensure(n, call(str(n), "IfNotPresent", "sha256:1", credentials=each))
            for n, each in enumerate((mine, same_password, same_secret, stranger, []))
        ),
        ensure(9, call("9", "Never", "sha256:1")),
        **known,
    )
    outcome = LINES.decided(version, given)
    found = [each for step in outcome["steps"] for each in step["calls"]]
    assert [len(each["pulls"]) for each in found] == [0, 0, 0, 1, 1, 0]
    assert [each["error"] for each in found[-2:]] == ["", ""]
    assert outcome["records"]["pulled"]["sha256:1"]["credentialMapping"] == {
        "gcr.io/acme/app": {"nodePodsAccessible": True}
        | ({} if version >= "1.35" else {"kubernetesSecrets": None})
    }


def test_a_pod_that_may_not_use_an_image_cannot_tell_it_from_one_that_is_not_there() -> None:
    known = recorded("1.36.2", kubernetesServiceAccounts=[SECRET])
    mine = [{"username": "u", "serviceAccount": SECRET}]
    steps = [
        ensure(0, call("a", "Never", "sha256:1", credentials=mine)),
        ensure(1, call("b", "Never", "sha256:1")),
        ensure(2, call("c", "Never", "")),
    ]
    _, denied, absent = calls("1.36.2", case(*steps, **known))
    assert denied == absent | {"finishedAt": denied["finishedAt"]}
    assert denied["error"] == "ErrImageNeverPull"


def test_a_record_that_cannot_be_read_is_pulled_for_whatever_the_policy() -> None:
    """And replaced then; v1beta1 is such a record for 1.34."""
    of_newer = recorded("1.36.2", nodePodsAccessible=True)
    of_newer["imagePullCredentialsVerificationPolicy"] = "NeverVerify"
    given = case(ensure(0, call("a", "IfNotPresent", "sha256:1")), **of_newer)
    assert [len(each["pulls"]) for each in calls("1.34.9", given)] == [1]
    assert [len(each["pulls"]) for each in calls("1.36.2", given)] == [0]


def test_several_outcomes() -> None:
    """Two logins for one registry in one secret come in any order, and so does who ends first."""
    auths = {"gcr.io": {"username": "a"}, "https://gcr.io/v2/": {"username": "b"}}
    data = {".dockercfg": base64.b64encode(json.dumps(auths).encode()).decode()}
    secret = {"metadata": SECRET, "type": "kubernetes.io/dockercfg", "data": data}
    given = case(ensure(0, call(pullSecrets=[secret])))
    outcome = LINES.decided("1.36.2", given)
    assert outcome["steps"][0]["calls"][0]["pulls"] == ["a"]
    for users, verdict in ((["a"], "match"), (["b"], "admissible"), (["c"], "impossible")):
        outcome["steps"][0]["calls"][0]["pulls"] = users
        assert LINES.judged("1.36.2", given, outcome)[0] == verdict
    slow = "2s"
    requests = [call("a", answers=fails(error, slow)) for error in ("one", "two")]
    given = case(ensure(0, *requests), ensure(5, call()), serializeImagePulls=False)
    outcome = LINES.decided("1.36.2", given)
    backed_off = outcome["steps"][1]["calls"][0]
    for error, verdict in (("two", "match"), ("one", "admissible"), ("both", "impossible")):
        backed_off["message"] = f'Back-off pulling image "{IMAGE}": ErrImagePull: {error}'
        assert LINES.judged("1.36.2", given, outcome)[0] == verdict
