"""A pod's manifest as an API server takes it: its fields, their types, and rules between them.

The fields are those of core/v1 up to 1.36, those that no simulation reads included. As `kubectl
apply` does (strict field validation), a name that is none of them is an error. The values of a
field are checked as far as a simulation reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    create_model,
)

from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.kube.resources import (
    is_extended_resource,
    is_pod_level_resource,
    is_qualified_name,
    nanos_of,
)
from kubeledger.simulate.scenario.models import Resources
from kubeledger.simulate.scenario.problems import Fault, Path, Problems, refuse
from kubeledger.simulate.scenario.validate import read

PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Those that every cluster has."""

_TYPES = """
Pod: apiVersion=v1 kind metadata=Meta! spec=Spec! status=object
Meta: annotations=texts? creationTimestamp=text? deletionGracePeriodSeconds
 deletionTimestamp=text? finalizers generateName generation labels=texts? managedFields
 name=subdomain! namespace=namespace ownerReferences resourceVersion selfLink uid=text
Spec: activeDeadlineSeconds affinity=NodeAffinities? automountServiceAccountToken
 containers=[Container]! dnsConfig=DNSConfig dnsPolicy enableServiceLinks
 ephemeralContainers=Container
 hostAliases=HostAlias hostIPC hostNetwork=bool? hostPID hostUsers hostname hostnameOverride
 imagePullSecrets=Name initContainers=[Container]? nodeName=text? nodeSelector=texts? os=OS?
 overhead=amounts? preemptionPolicy priority=int32? priorityClassName=text?
 readinessGates=ReadinessGate resourceClaims=PodClaim resources=PodResources?
 restartPolicy=policy runtimeClassName schedulerName schedulingGates=Name schedulingGroup
 securityContext=PodSecurity? serviceAccount serviceAccountName setHostnameAsFQDN
 shareProcessNamespace subdomain terminationGracePeriodSeconds=count?
 tolerations=[Toleration]? topologySpreadConstraints=Spread volumes=[Volume]? workloadRef
Container: args command env=Env envFrom=EnvFrom image=image! imagePullPolicy lifecycle=Lifecycle
 livenessProbe=Probe? name=label! ports=[Port]? readinessProbe=Probe? resizePolicy=Resize
 resources=Resources? restartPolicy=text? restartPolicyRules=[RestartRule]?
 securityContext=Security startupProbe=Probe? stdin
 stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty
 volumeDevices=Device volumeMounts=Mount workingDir
Probe: exec=Exec failureThreshold=count grpc=GRPC httpGet=HTTPGet? initialDelaySeconds=count
 periodSeconds=count successThreshold=count tcpSocket=Socket terminationGracePeriodSeconds
 timeoutSeconds=count
Exec: command
GRPC: port service
HTTPGet: host httpHeaders=NameValue path port scheme
Socket: host port
Sleep: seconds
Lifecycle: postStart=Hook preStop=Hook stopSignal
Hook: exec=Exec httpGet=HTTPGet sleep=Sleep tcpSocket=Socket
Resources: claims=Claim limits=requests? requests=requests?
PodResources: claims=Claim limits=requests? requests=requests?
Claim: name request
PodClaim: name resourceClaimName resourceClaimTemplateName source
Resize: resourceName restartPolicy
RestartRule: action=text exitCodes=ExitCodes?
ExitCodes: operator=text values=[int32]?
Port: containerPort hostIP=text? hostPort=int32? name protocol=text?
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
OS: name=text?
NameValue: name value
HostAlias: hostnames ip
DNSConfig: nameservers options=NameValue searches
ReadinessGate: conditionType
Toleration: effect=text? key=text? operator=text? tolerationSeconds value=text?
Spread: labelSelector=Selector matchLabelKeys maxSkew minDomains nodeAffinityPolicy
 nodeTaintsPolicy topologyKey whenUnsatisfiable
Selector: matchExpressions=Expression matchLabels
Expression: key operator values
NodeAffinities: nodeAffinity=NodeAffinity? podAffinity=PodAffinity podAntiAffinity=PodAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution=NodePreference
 requiredDuringSchedulingIgnoredDuringExecution=NodeTerms?
NodePreference: preference=PreferredTerm weight
PreferredTerm: matchExpressions=Expression matchFields=Expression
NodeTerms: nodeSelectorTerms=[NodeTerm]?
NodeTerm: matchExpressions=[Requirement]? matchFields=[Requirement]?
Requirement: key=text! operator=text! values=[text]?
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution=PodPreference
 requiredDuringSchedulingIgnoredDuringExecution=PodTerm
PodPreference: podAffinityTerm=PodTerm weight
PodTerm: labelSelector=Selector matchLabelKeys mismatchLabelKeys namespaceSelector=Selector
 namespaces topologyKey
PodSecurity: appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser
 seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups
 supplementalGroupsPolicy=text? sysctls=NameValue windowsOptions
Security: allowPrivilegeEscalation appArmorProfile capabilities=Capabilities privileged procMount
 readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions seccompProfile
 windowsOptions
Capabilities: add drop
Volume: awsElasticBlockStore azureDisk azureFile cephfs cinder configMap=object? csi
 downwardAPI=object? emptyDir=EmptyDir? ephemeral fc flexVolume flocker gcePersistentDisk
 gitRepo=object? glusterfs hostPath=HostPath? image iscsi name=text? nfs persistentVolumeClaim
 photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume
EmptyDir: medium=text? sizeLimit=amount
HostPath: path type
"""
"""Each type with its fields. After ``=``: what a field holds, a type or one of ``_VALUES``; then
``!``: it must be there, ``?``: it may be null. A type alone says that nothing reads the field, so
that only the names within are checked; nothing: not even those."""


def _matches(pattern: str, words: str) -> AfterValidator:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(words)
        return text

    return AfterValidator(check)


def _amount(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise ValueError("must be a quantity such as 250m or 128Mi")
    return value


def _requests(amounts: dict[str, Any]) -> dict[str, Any]:
    refuse(fault for each in amounts.items() if (fault := _amount_fault(*each)))
    return amounts


def _amount_fault(name: str, amount: str | float | None) -> Fault | None:
    if not is_qualified_name(name):
        return (name,), "is not the name of a resource", "e.g. cpu, memory, nvidia.com/gpu"
    try:
        nanos = None if amount is None else nanos_of(amount)
    except QuantityError:
        nanos = None
    if nanos is None:
        return (name,), f"{amount!r} is not a quantity", "write e.g. 250m or 128Mi"
    if nanos < 0:
        return (name,), f"{amount} is less than nothing", "write 0 or more"
    if nanos % 10**9 and is_extended_resource(name):
        return (name,), f"{amount} is not a whole number of devices", "write a whole number"
    return None


_INT32 = 2**31
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_label = _matches(_LABEL, "must be a DNS label: lower case letters, digits and dashes")
_Amount = Annotated[Any, PlainValidator(_amount)]
_VALUES: dict[str, Any] = {
    "amount": _Amount,
    "amounts": dict[str, _Amount],
    "bool": bool,
    "count": Annotated[int, Field(ge=0, lt=_INT32)],
    "image": Annotated[str, Field(min_length=1)],
    "int32": Annotated[int, Field(ge=-_INT32, lt=_INT32)],
    "label": Annotated[str, _label],
    "namespace": Annotated[str, _label, BeforeValidator(lambda name: name or "default")],
    "object": dict[str, Any],
    "policy": Literal["Always", "OnFailure", "Never"],
    "requests": Annotated[dict[str, _Amount], AfterValidator(_requests)],
    "subdomain": Annotated[
        str,
        _matches(
            r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
            "must be a DNS name: lower case letters, digits, dashes and dots",
        ),
    ],
    "text": str,
    "texts": dict[str, str],
    "v1": Literal["v1"],
}


def _spec_faults(spec: Any) -> Iterator[Fault]:  # noqa: ANN401  (a model made of the table)
    if not spec.containers:
        yield ("containers",), "a pod needs a container", "add one to `containers:`"
    name = spec.priorityClassName
    if name and name not in PRIORITY_CLASSES and "priority" not in spec.model_fields_set:
        text = f"the priority of class {name!r} is not known"
        yield ("priorityClassName",), text, "add its number as `priority:`"
    first: dict[str, tuple[str, int]] = {}
    for key in ("initContainers", "containers"):
        for index, container in enumerate(getattr(spec, key) or ()):
            here = first.setdefault(container.name, (key, index))
            if here != (key, index):
                text = f"the name {container.name!r} is taken"
                yield (key, index, "name"), text, "the container in line {} has it", here


def _container_faults(container: Any) -> Iterator[Fault]:  # noqa: ANN401  (as above)
    for key in ("livenessProbe", "startupProbe"):
        probe = getattr(container, key)
        if probe is not None and probe.successThreshold not in (None, 0, 1):
            yield (key, "successThreshold"), f"must be 1 for a {key}", "leave it out"


def _probe_faults(probe: Any) -> Iterator[Fault]:  # noqa: ANN401  (as above)
    handlers = ("exec", "httpGet", "tcpSocket", "grpc")
    if (count := sum(getattr(probe, each) is not None for each in handlers)) != 1:
        what = "has no handler" if not count else "has more than one handler"
        yield (), what, f"give one of {', '.join(handlers)}"


def _resource_faults(resources: Any) -> Iterator[Fault]:  # noqa: ANN401  (as above)
    requests, limits = resources.requests or {}, resources.limits or {}
    for name, limit in limits.items():
        at = ("requests", name)
        request = requests.get(name, limit)
        if nanos_of(request) > nanos_of(limit):
            yield at, f"asks for more than its limit of {limit}", "raise the limit, or ask for less"
        elif nanos_of(request) != nanos_of(limit) and is_extended_resource(name):
            yield at, "must be equal to its limit: devices cannot be shared", "leave it out"
    for name in requests.keys() - limits.keys():
        if is_extended_resource(name):
            yield ("requests", name), "needs a limit too", "write it below `limits:`"


def _pod_resource_faults(resources: Any) -> Iterator[Fault]:  # noqa: ANN401  (as above)
    yield from _resource_faults(resources)
    for key in ("requests", "limits"):
        for name in getattr(resources, key) or ():
            if not is_pod_level_resource(name):
                text = f"a pod as a whole cannot have {name}"
                yield (key, name), text, "only cpu, memory and huge pages"


_RULES: dict[str, Callable[[Any], Iterator[Fault]]] = {
    "Container": _container_faults,
    "PodResources": _pod_resource_faults,
    "Probe": _probe_faults,
    "Resources": _resource_faults,
    "Spec": _spec_faults,
}


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


@cache
def _tree() -> dict[str, list[str]]:
    """Name of a type -> its fields as the table has them."""
    types: dict[str, list[str]] = {}
    for word in _TYPES.split():
        if word.endswith(":"):
            fields = types[word[:-1]] = []
        else:
            fields.append(word)
    return types


@cache
def _model(name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for word in _tree()[name]:
        field, _, type_ = word.partition("=")
        hint, needed = _hint(type_.rstrip("!?")), type_.endswith("!")
        if type_ in _tree():
            hint = _only_names(hint)
        elif type_.endswith("?"):
            hint = hint | None
        fields[field] = (hint, ... if needed else None)
    return create_model(name, __base__=_Object, **fields)


def _hint(type_: str) -> Any:  # noqa: ANN401  (a type)
    if type_.startswith("["):
        return list[_hint(type_[1:-1])]  # type: ignore[misc]  # a type that the table says
    if type_ not in _tree():
        return _VALUES.get(type_, Any)
    faults = _RULES.get(type_)
    return Annotated[_model(type_), AfterValidator(_checked(faults))] if faults else _model(type_)


def _checked(faults: Callable[[Any], Iterator[Fault]]) -> Callable[[BaseModel], BaseModel]:
    def check(value: BaseModel) -> BaseModel:
        refuse(faults(value))
        return value

    return check


def _form(value: object) -> str:
    return "one" if isinstance(value, dict) else "many" if isinstance(value, list) else "other"


def _only_names(hint: Any) -> Any:  # noqa: ANN401  (a type)
    """Objects of a type, or a list of them; anything else passes."""

    def either(many: Any) -> Any:  # noqa: ANN401  (a type)
        return Annotated[
            Annotated[hint, Tag("one")]
            | Annotated[many, Tag("many")]
            | Annotated[Any, Tag("other")],
            Discriminator(_form),
        ]

    return either(list[either(Any)])  # type: ignore[misc]  # as above


def pod_model() -> type[BaseModel]:
    """The model of a manifest; made when first needed."""
    return _model("Pod")


# Pods as users write them: what stands where in a manifest, and whether a kubelet can get it.


def name_of(pod: Any) -> tuple[str, str] | None:  # noqa: ANN401  (what a user wrote)
    """Namespace and name; None while they are wrong."""
    meta = pod.get("metadata") if isinstance(pod, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return None
    namespace = meta.get("namespace") or "default"
    return (namespace, meta["name"]) if isinstance(namespace, str) else None


def containers_of(pod: Any) -> Iterator[tuple[dict[str, Any], Path, bool]]:  # noqa: ANN401
    """(container, its place in the pod, whether it is an init container) of all that are read."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    for key in ("initContainers", "containers"):
        given = spec.get(key) if isinstance(spec, dict) else None
        for index, container in enumerate(given if isinstance(given, list) else []):
            if isinstance(container, dict):
                yield container, ("spec", key, index), key == "initContainers"


def probes_of(container: dict[str, Any]) -> set[str]:
    """Types of the probes that a container has."""
    kinds = ("liveness", "readiness", "startup")
    return {kind for kind in kinds if isinstance(container.get(f"{kind}Probe"), dict)}


def with_resources(container: dict[str, Any], asked: Resources) -> dict[str, Any]:
    """A container's resources as an update changes them."""
    before = container.get("resources") or {}
    changes = {"requests": asked.requests, "limits": asked.limits}
    changed = {key: {**(before.get(key) or {}), **amounts} for key, amounts in changes.items()}
    return {**before, **{key: amounts for key, amounts in changed.items() if amounts}}


def check_pod(pod: Any, path: Path, problems: Problems) -> None:  # noqa: ANN401  (what a user wrote)
    """Note all that is wrong with a manifest."""
    if not isinstance(pod, dict):
        problems.add(path, "must be a pod", "write `metadata:` and `spec:` below it")
    elif pod.get("kind", "Pod") != "Pod":
        advice = "take the pod out of its template, and use `replicas`"
        problems.add((*path, "kind"), f"is {pod['kind']}, not Pod", advice)
    else:
        read(pod_model(), pod, path, problems)
