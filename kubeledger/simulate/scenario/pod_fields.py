"""The names of a pod's fields, so that a misspelt one is not silently left out of a simulation.

These are the fields of core/v1 up to 1.36, those that no simulation reads included. As `kubectl
apply` does (strict field validation), a name that is none of them is an error.
"""

from __future__ import annotations

from typing import Any

from kubeledger.simulate.scenario.problems import Path, Problems, suggestion

__all__ = ["check_fields"]

_TYPES = """
Pod: apiVersion kind metadata=Meta spec=Spec status
Meta: annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers
 generateName generation labels managedFields name namespace ownerReferences resourceVersion
 selfLink uid
Spec: activeDeadlineSeconds affinity=Affinity automountServiceAccountToken containers=Container
 dnsConfig=DNSConfig dnsPolicy enableServiceLinks ephemeralContainers=Container
 hostAliases=HostAlias hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride
 imagePullSecrets=Name
 initContainers=Container nodeName nodeSelector os=Name overhead preemptionPolicy priority
 priorityClassName readinessGates=ReadinessGate resourceClaims=PodClaim resources=Resources
 restartPolicy runtimeClassName schedulerName schedulingGates=Name schedulingGroup
 securityContext=PodSecurity serviceAccount serviceAccountName setHostnameAsFQDN
 shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations=Toleration
 topologySpreadConstraints=Spread volumes=Volume workloadRef
Container: args command env=Env envFrom=EnvFrom image imagePullPolicy lifecycle=Lifecycle
 livenessProbe=Probe name ports=Port readinessProbe=Probe resizePolicy=Resize resources=Resources
 restartPolicy restartPolicyRules=RestartRule securityContext=Security startupProbe=Probe stdin
 stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty
 volumeDevices=Device volumeMounts=Mount workingDir
Probe: exec=Exec failureThreshold grpc=GRPC httpGet=HTTPGet initialDelaySeconds periodSeconds
 successThreshold tcpSocket=Socket terminationGracePeriodSeconds timeoutSeconds
Exec: command
GRPC: port service
HTTPGet: host httpHeaders=NameValue path port scheme
Socket: host port
Sleep: seconds
Lifecycle: postStart=Hook preStop=Hook stopSignal
Hook: exec=Exec httpGet=HTTPGet sleep=Sleep tcpSocket=Socket
Resources: claims=Claim limits requests
Claim: name request
PodClaim: name resourceClaimName resourceClaimTemplateName source
Resize: resourceName restartPolicy
RestartRule: action exitCodes=ExitCodes
ExitCodes: operator values
Port: containerPort hostIP hostPort name protocol
Env: name value valueFrom=EnvSource
EnvSource: configMapKeyRef=Key fieldRef=FieldRef fileKeyRef resourceFieldRef=ResourceRef
 secretKeyRef=Key
EnvFrom: configMapRef=Ref prefix secretRef=Ref
Key: key name optional
Ref: name optional
FieldRef: apiVersion fieldPath
ResourceRef: containerName divisor resource
Device: devicePath name
Mount: mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
Name: name
NameValue: name value
HostAlias: hostnames ip
DNSConfig: nameservers options=NameValue searches
ReadinessGate: conditionType
Toleration: effect key operator tolerationSeconds value
Spread: labelSelector=Selector matchLabelKeys maxSkew minDomains nodeAffinityPolicy
 nodeTaintsPolicy topologyKey whenUnsatisfiable
Selector: matchExpressions=Expression matchLabels
Expression: key operator values
Affinity: nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution=NodePreference
 requiredDuringSchedulingIgnoredDuringExecution=NodeTerms
NodePreference: preference=NodeTerm weight
NodeTerms: nodeSelectorTerms=NodeTerm
NodeTerm: matchExpressions=Expression matchFields=Expression
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution=PodPreference
 requiredDuringSchedulingIgnoredDuringExecution=PodTerm
PodPreference: podAffinityTerm=PodTerm weight
PodTerm: labelSelector=Selector matchLabelKeys mismatchLabelKeys namespaceSelector=Selector
 namespaces topologyKey
PodSecurity: appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser
 seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups supplementalGroupsPolicy
 sysctls=NameValue windowsOptions
Security: allowPrivilegeEscalation appArmorProfile capabilities=Capabilities privileged procMount
 readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions seccompProfile
 windowsOptions
Capabilities: add drop
Volume: awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI
 emptyDir=EmptyDir ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs
 hostPath=HostPath image iscsi name nfs persistentVolumeClaim photonPersistentDisk portworxVolume
 projected quobyte rbd scaleIO secret storageos vsphereVolume
EmptyDir: medium sizeLimit
HostPath: path type
"""


def _tree(text: str) -> dict[str, dict[str, str]]:
    """Name of a type -> field -> the type of its value or of its items; empty: not looked into."""
    types: dict[str, dict[str, str]] = {}
    name = ""
    for word in text.split():
        if word.endswith(":"):
            name = word[:-1]
            types[name] = {}
        else:
            field, _, type_ = word.partition("=")
            types[name][field] = type_
    return types


_FIELDS = _tree(_TYPES)


def check_fields(pod: dict[str, Any], path: Path, problems: Problems) -> None:
    """Note every field of a pod that there is none of, with the name that may have been meant.

    Args:
        pod: the manifest.
        path: where it stands.
        problems: where to.
    """
    _check(pod, "Pod", path, problems)


def _check(value: object, type_: str, at: Path, problems: Problems) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, type_, (*at, index), problems)
    elif isinstance(value, dict):
        known = _FIELDS[type_]
        for name, inner in value.items():
            if name not in known:
                problems.add((*at, name), "unknown field", suggestion(str(name), known))
            elif known[name]:
                _check(inner, known[name], (*at, name), problems)
