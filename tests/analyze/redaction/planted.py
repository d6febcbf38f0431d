"""A secret in every place of a node's records where somebody can have put one."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeledger.analyze.redaction.forms import words
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    KubernetesEvent,
    PodConfigChanged,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import KubeletExited, NodeObserved, Setting, SettingsObserved
from kubeledger.model.bodies.stages import ErrorsLogged, PodStageFailed
from kubeledger.model.record import Body

UID = "0b0e6f3c-6f1e-4d0c-8c1d-0123456789ab"

SECRETS = (
    *("4711471147", "DE89370400440532013000", "1984-07-03", "1984-07-03T04:05:06Z", "1977.25"),
    *("91347Mi", "47m11s", "8190%", "10.98.76.54", "::ffff:1234:5678", "2001:db8::beef"),
    *("jo@example.org", "+49 170 5554321", "4111 1111 9222 2333", "AKIAQWERTYUIOPASDFGH"),
    *("0815-1947,88", "hunter2", "deadbeefcafe1234", "c2VjcmV0MDAxZXQ="),
)
"""PINs, accounts, dates, amounts, addresses, cards, keys, words."""

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

_MESSAGES = {
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


def records_with(secret: str) -> list[Body]:
    """Bodies, each with the secret wherever it can hold one."""
    named: dict[str, Any] = {"namespace": "shop", "pod": secret, "pod_uid": UID}
    free = dict.fromkeys(_LIKE_FIELDS, secret)
    return [
        PodListed(
            **named, listed_by="api", spec=_spec(secret), status=_status(secret),
            labels=free, annotations=free | {secret: ""},
        ),
        PodConfigChanged(**named, operation="ADD", source=secret),
        PodRejected(**named, reason=secret, message=f"opened for {secret}"),
        PodStageFailed(
            **named, container="app", stage="volumes", reason="FailedMount",
            message=_MESSAGES["FailedMount"].format(secret), about=secret,
            first_ts_ns=1, last_ts_ns=1,
        ),
        ContainerKilled(
            **named, container="app", container_id=secret, reason=secret,
            message=f"Stopping container {secret}", grace_period_s=30,
        ),
        *(
            KubernetesEvent(
                object_kind=kind, **named, type=secret, reason=reason,
                message=message.format(secret),
            )
            for kind in ("Pod", secret)
            for reason, message in _MESSAGES.items()
        ),
        KubernetesEvent(object_kind="Pod", **named, type="Normal", reason=secret, message=secret),
        KubeletExited(pid=1, reason="panic", message=f"failed to run Kubelet: {secret}"),
        ErrorsLogged(
            source=secret, severity="E", shape=f"said {secret}", first_ts_ns=1, last_ts_ns=1
        ),
        NodeObserved(
            labels=free, capacity={"cpu": secret, "acme.example/gpu": secret, secret: "1"},
            allocatable=None, taints=({"key": secret, "value": secret, "effect": secret},),
        ),
        SettingsObserved(settings=_settings(secret), conflicts=(f"--x is {secret}",)),
    ]  # fmt: skip


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
        "featureGates": {"MemoryQoS": True},
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": secret},
        "logging": {"vmodule": [{"filePattern": secret}], "format": secret},
        "authentication": {"x509": {"clientCAFile": secret}},
        "acmeNumber": 4711471147,
    }
    return {
        name: Setting(value=msgspec.json.encode(value).decode(), source="config")
        for name, value in values.items()
    }


def _spec(secret: str) -> dict[str, Any]:
    free = dict.fromkeys(_LIKE_FIELDS, secret)
    container = {
        **dict.fromkeys(_OF_A_CONTAINER, secret),
        "name": "app",
        "args": [secret, f"--pin={secret}"],
        "env": [
            {"name": secret, "value": secret},
            {"name": "r", "valueFrom": {
                "resourceFieldRef": {"resource": secret, "divisor": secret},
            }},
            {"name": "k", "valueFrom": {"secretKeyRef": {"name": secret, "key": secret}}},
        ],
        "ports": [{"name": secret, "containerPort": 80, "protocol": secret, "hostIP": secret}],
        "resources": {"limits": {secret: "1"}, "claims": [{"name": secret}]},
        "livenessProbe": {
            "httpGet": {"path": f"/{secret}", "port": secret, "scheme": secret,
                        "httpHeaders": [{"name": secret, "value": secret}]},
        },
        "readinessProbe": {"exec": {"command": ["sh", "-c", f"echo {secret}"]}},
        "securityContext": {
            "runAsUser": 4711471147, "procMount": secret, "seccompProfile": {"type": secret},
            "seLinuxOptions": {"level": secret, "type": secret},
        },
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


def _status(secret: str) -> dict[str, Any]:
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
