"""A secret in every place of a node's records where somebody can have put one."""

import re
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kubeledger.analyze.redaction.forms import plain_words, words
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    KubernetesEvent,
    PodConfigChanged,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import (
    ErrorsLogged,
    KubeletExited,
    NodeObserved,
    PodStageFailed,
    Setting,
    SettingsObserved,
)
from kubeledger.model.record import Body, Evidence
from kubeledger.model.wire.catalogue import BODY_TYPES

_hints = cache(get_type_hints)
UID = "0b0e6f3c-6f1e-4d0c-8c1d-0123456789ab"

SECRETS = (
    *("4711471147", "DE89370400440532013000", "1984-07-03", "1984-07-03T04:05:06Z", "1977.25"),
    *("91347Mi", "47m11s", "8190%", "10.98.76.54", "::ffff:1234:5678", "2001:db8::beef"),
    *("jo@acme.internal", "+49 170 5554321", "4111 1111 9222 2333", "AKIAQWERTYUIOPASDFGH"),
    *("0815-1947,88", "hunter2", "deadbeefcafe1234", "c2VjcmV0MDAxZXQ=", "0815", "0x4711"),
    *("10.98.76.54:8443", "[2001:db8::1]:443", "fe80::dead:beef%eth0", "de:ad:be:ef:00:42"),
    *("1.2.3.4711", "1.2.3-hunter2", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqbyJ9.c2lnbmF0dXJl"),
    *("пароль", "密码一二三", "naïve", "𝟜𝟟𝟙𝟙", "٤٧١١", "\u202etercesx", "$%&!!§§", "P@$$w0rd!"),
    *("correct-horse-battery", "hunter_two_key", "Hunter2Secret", "secretword", "s3cr3t/a/b"),
    *(
        "acme.internal/hunter2",
        "registry.acme.internal:5000/a/b:hunter2",
        "OutOfacme.internal/4711",
    ),
    *("hugepages-4711Gi", "attachable-volumes-hunter2", "FeatureHunter2", "memory.hunter2"),
    *("hunter2.go", "max hunter2", "hunter 4711", "containerd://hunter2", "GPU-8f6d7c1a-hunt"),
    *("550e8400-e29b-41d4-a716-446655440000", "u:p4ssw0rd@host", "x\nhunter2\ny", "--pin=47114"),
    *("https://bob:s3cr3tpw@git.acme.internal/x?token=ghp_16C7e42F292c", "four seven eleven"),
    *("postgres://svc:pgpass99@db-7.acme.internal:5432/crm", "ip-10-98-76-54.acme.internal"),
    *("/home/jo.acme/.ssh/id_ed25519", "C:\\Users\\jo.acme\\pin.txt", "xoxb-471147-hunterhunter"),
    *("SGVsbG8gSHVudGVyMg==", "-----BEGIN PRIVATE KEY-----MIIEvQIBADAN", "CRM_PASSWORD_HUNTER2"),
    *("0xDEADBEEFCAFE", "3F2504E04F8911D39A0C0305E82C3301", "arn:aws:iam::471147114711:user/jo"),
    *('{"pin":"4711-jo","iban":["DE4711"]}', "[4711, 815]", '\\"hunter2\\"', "pin%3D4711%26x"),
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    *("hunter2_pin.go:4711", "vault.go:815] hunter2", "AA-BB-CC-DD-EE-42", "001b.4411.3ab7"),
    *("fd00:4711::53/64", "10.47.11.0/24", "4111111111111111", "5500-0000-0000-0004"),
    *("(030) 4711-0815", "0049304711815", "MTIzNDU2Nzg5MGFiY2RlZg", "_-9hdW50ZXIy-_"),
    *("550E8400E29B41D4A716446655440000", "urn:uuid:47110815-aaaa-4bbb-8ccc-47110815aaaa"),
    *("b7e23ec29af22b0b4e41da31e868d57226121c84", "acme.io/pin-4711", "Ünïcödé-Größe"),
    *("ユーザー名", "סיסמה", "密码.acme", "eyJhbGciOiJub25lIn0.eyJwaW4iOjQ3MTF9."),
)
"""PINs, accounts, dates, amounts, addresses, cards, keys, words, names that look like others."""

_LIKE_FIELDS = words(
    "policy type level format plain options source resource default startTime limits signals"
    " kubernetes.io/os kubernetes.io/arch kubernetes.io/config.source kubernetes.io/config.seen"
)

_OF_A_CONTAINER = words(
    "image imagePullPolicy terminationMessagePath terminationMessagePolicy workingDir format level"
    " options health policy message error default phase source restartPolicy acme"
)

_OF_A_SPEC = words(
    "schedulerName restartPolicy serviceAccountName hostname subdomain dnsPolicy runtimeClassName"
    " preemptionPolicy phase source type handler outcome startTime port unknown"
)

MESSAGES = {
    "FailedMount": 'MountVolume.SetUp failed for volume "v" : mount failed: user {} denied',
    "FailedPostStartHook": "PostStartHook failed: command 'sh' exited with 1: pin {}",
    "Unhealthy": "Liveness probe failed: HTTP probe failed with statuscode: 500 {}",
    "ProbeWarning": "Readiness probe warning: {}",
    "Failed": "Error: failed to create containerd task: {}: no such file",
    "BackOff": 'Back-off pulling image "registry.example/{}"',
    "Killing": "Stopping container app {}",
    "FailedCreatePodSandBox": "Failed to create pod sandbox: plugin acme: {}",
    "NetworkNotReady": "network is not ready: {}",
    "Pulled": 'Successfully pulled image "registry.example/{}" in 3.2s',
    "FailedScheduling": "0/1 nodes: {}",
    "Completed": "{}",
    "UnexpectedAdmissionError": "Allocate failed due to plugin said {}, which is unexpected",
    "CreateContainerConfigError": "couldn't find key {} in Secret shop/db",
    "AcmeSaid": "opened for {}",
    "Rebooted": "Node has been rebooted, boot id: {}",
    "": "opened for {}",
}


_LINES = (
    'E1121 02:52:41.296376 4052 pod_workers.go:2430] "Error syncing pod" err="{}" pod="{}/{}"',
    'I1121 event.go:2] "Event occurred" object="{}/{}" reason="{}" message="{}"',
    'I1121 event.go:2] "Event occurred" object="{}/{}" reason="Killing" message="Stopping {}"',
    'I1121 "Event occurred" reason="Killing" message="Container {} failed liveness probe"',
    "Status Manager: adding pod {Failed [] {} Evicted    [{}",
    'Predicate failed on Pod err="{}"',
    "/kubepods/{}/memory.max {}",
    "Hint Provider has no possible NUMA affinities for resource '{}' TopologyHints for pod {}",
    "evicted successfully pod {}_{}(0b0e6f3c)",
)


def records_with(secret: str) -> list[Body]:
    """Bodies, each with the secret wherever it can hold one."""
    named: dict[str, Any] = {"namespace": "shop", "pod": secret, "pod_uid": UID}
    free = dict.fromkeys(_LIKE_FIELDS, secret)
    return [
        PodListed(
            **named,
            listed_by="api",
            spec=spec_with(secret),
            status=status_with(secret),
            labels=free,
            annotations=free | {secret: ""},
        ),
        PodConfigChanged(**named, operation="ADD", source=secret),
        PodRejected(**named, reason=secret, message=f"opened for {secret}"),
        PodStageFailed(
            **named,
            container="app",
            stage="volumes",
            reason="FailedMount",
            message=MESSAGES["FailedMount"].format(secret),
            about=secret,
            first_ts_ns=1,
            last_ts_ns=1,
        ),
        ContainerKilled(
            **named,
            container="app",
            container_id=secret,
            reason=secret,
            message=f"Stopping container {secret}",
            grace_period_s=30,
        ),
        *(
            KubernetesEvent(
                object_kind=kind,
                **named,
                type=secret,
                reason=reason,
                message=message.format(secret),
            )
            for kind in ("Pod", secret)
            for reason, message in MESSAGES.items()
        ),
        KubernetesEvent(object_kind="Pod", **named, type="Normal", reason=secret, message=secret),
        KubeletExited(pid=1, reason="panic", message=f"failed to run Kubelet: {secret}"),
        ErrorsLogged(
            source=secret, severity="E", shape=f"said {secret}", first_ts_ns=1, last_ts_ns=1
        ),
        NodeObserved(
            labels=free,
            capacity={"cpu": secret, "acme.example/gpu": secret, secret: "1"},
            allocatable=None,
            taints=({"key": secret, "value": secret, "effect": secret},),
        ),
        SettingsObserved(
            settings=_settings(secret), conflicts=(f"--x is {secret}", f"{secret}: 1, 2")
        ),
    ]


def every_kind(secret: str) -> list[Body]:
    """Each kind of record, with the secret in every text, list and map that it has."""
    return [_filled(body, secret) for body in BODY_TYPES.values()]


def _filled(struct: type[Any], secret: str) -> Any:  # noqa: ANN401 # of that type
    if struct is Setting:
        return Setting(value=msgspec.json.encode(secret).decode(), source="config")
    hints = _hints(struct)  # type: ignore[arg-type]  # a type can be hashed
    names = (field.name for field in msgspec.structs.fields(struct))
    return struct(**{name: _holding(hints[name], secret) for name in names})


def _holding(declared: Any, secret: str) -> Any:  # noqa: ANN401 # any annotation
    """A value of a type, of nothing but the secret."""
    form, arguments = get_origin(declared), get_args(declared)
    if form in {Union, UnionType}:
        return _holding(next(each for each in arguments if each is not type(None)), secret)
    if form is Literal:
        return arguments[0]
    if form is tuple:
        return (_holding(arguments[0], secret),)
    if form is dict:
        held = spec_with(secret) if arguments[1] is Any else _holding(arguments[1], secret)
        return held if arguments[1] is Any else {secret: held}
    if declared in {bool, int, float}:
        return declared(1)
    return secret if declared is str else _filled(declared, secret)


def lines_with(secret: str) -> tuple[Evidence, ...]:
    """Lines of a log and of a snapshot, of which verification reads a part."""
    files = (secret, f"snapshots/20261121T025401Z/{secret}.json")
    texts = (text.replace("{}", secret) for text in _LINES)
    return tuple(
        Evidence(file=file, line=1, offset=0, text=text) for text in texts for file in files
    )


def parts_of(secret: str) -> set[str]:
    """What must not be seen of it: itself, and words in it that are none of the kubelet's."""
    words = re.findall(r"[^\W_]{4,}", secret)
    return {secret, *(word for word in words if word not in plain_words())}


def _settings(secret: str) -> dict[str, Setting]:
    values: dict[str, Any] = {
        **dict.fromkeys(
            words(
                "acmePassword acmeToken clusterDomain providerID systemCgroups kubeReservedCgroup"
                " tlsMinVersion hairpinMode volumePluginDir topologyManagerPolicy cgroupRoot"
                " --acme-note --provider-id --root-dir --v"
            ),
            secret,
        ),
        "clusterDNS": [secret],
        "allowedUnsafeSysctls": [secret],
        "tlsCipherSuites": [secret],
        "staticPodURLHeader": {"X-Pin": [secret]},
        "registerWithTaints": [{"key": secret, "value": secret, "effect": secret}],
        "systemReserved": {secret: "1Gi", "memory": "1Gi"},
        "evictionHard": {secret: "5%", "memory.available": "100Mi"},
        "featureGates": {"MemoryQoS": True, secret: True},
        secret: secret,
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": secret},
        "logging": {"vmodule": [{"filePattern": secret}], "format": secret},
        "authentication": {"x509": {"clientCAFile": secret}},
        "acmeNumber": 4711471147,
    }
    return {
        name: Setting(value=msgspec.json.encode(value).decode(), source="config")
        for name, value in values.items()
    }


def spec_with(secret: str) -> dict[str, Any]:
    free = dict.fromkeys(_LIKE_FIELDS, secret)
    container = {
        **dict.fromkeys(_OF_A_CONTAINER, secret),
        "name": "app",
        "args": [secret, f"--pin={secret}"],
        "env": [{"name": secret, "value": secret},
                {"name": "r",
                 "valueFrom": {"resourceFieldRef": {"resource": secret, "divisor": secret}}},
                {"name": "k", "valueFrom": {"secretKeyRef": {"name": secret, "key": secret}}}],
        "ports": [{"name": secret, "containerPort": 80, "protocol": secret, "hostIP": secret}],
        "resources": {"limits": {secret: "1"}, "claims": [{"name": secret}]},
        "livenessProbe": {"httpGet": {"path": f"/{secret}", "port": secret, "scheme": secret,
                                      "httpHeaders": [{"name": secret, "value": secret}]}},
        "readinessProbe": {"exec": {"command": ["sh", "-c", f"echo {secret}"]}},
        "securityContext": {"runAsUser": 4711471147, "procMount": secret,
                            "seccompProfile": {"type": secret},
                            "seLinuxOptions": {"level": secret, "type": secret}},
        "resizePolicy": [{"resourceName": secret, "restartPolicy": secret}],
        "settings": {"a": {"value": secret}}, "assignments": {secret: secret},
    }  # fmt: skip
    return {
        **dict.fromkeys(_OF_A_SPEC, secret),
        "nodeSelector": free,
        "priorityClassName": f"system-{secret}",
        "tolerations": [{"key": secret, "operator": secret, "value": secret, "effect": secret}],
        "readinessGates": [{"conditionType": secret}],
        "affinity": {"nodeAffinity": {"matchExpressions": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": [secret, "amd64"]},
        ]}},
        "securityContext": {"sysctls": [{"name": secret, "value": secret}]},
        "containers": [container],
        "volumes": [
            {"name": secret, "csi": {"driver": secret, "volumeAttributes": free}},
            {"name": "w", "flexVolume": {"driver": secret, "options": free}},
            {"name": "x", "hostPath": {"path": f"/{secret}", "type": secret}},
            {"name": "y", "emptyDir": {"medium": secret}},
            {"name": "z", "ephemeral": {"volumeClaimTemplate": {
                "metadata": {"labels": free},
                "spec": {"resources": {"requests": {"storage": secret}}},
            }}},
        ],
        secret: {secret: secret},
    }  # fmt: skip


def status_with(secret: str) -> dict[str, Any]:
    when = "2026-11-21T03:06:40Z"
    return {
        "phase": secret, "reason": secret, "message": f"account {secret}", "podIP": secret,
        "conditions": [
            {"type": secret, "status": secret, "reason": secret, "message": f"opened {secret}",
             "lastTransitionTime": secret},
            {"type": "acme.example/paid", "status": "True", "message": f"for {secret}"},
            {"type": "acme.example/paid", "status": "True", "reason": "Completed",
             "message": f"for {secret}", "lastTransitionTime": when},
        ],
        "containerStatuses": [{
            "name": "app", "image": secret, "imageID": secret, "containerID": secret,
            "allocatedResourcesStatus": [{"name": secret, "resources": [
                {"resourceID": secret, "health": secret, "message": f"says {secret}"},
            ]}],
            "state": {"waiting": {"reason": "CreateContainerError", "message": f"user {secret}"}},
            "lastState": {
                "terminated": {"exitCode": 1, "reason": secret, "message": f"paid {secret}"},
            },
        }],
    }  # fmt: skip
