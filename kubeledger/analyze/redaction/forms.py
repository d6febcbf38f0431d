"""What may go out as it is: for each field, the values that are known to be harmless.

A place that stands nowhere here holds what somebody chose, and is replaced. So is a value that its
place does not know: an ``effect`` that is none of the three may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import resources

from kubeledger.kubelet.kube.quantity import Quantity, QuantityError

Form = Callable[[str], bool]


def words(text: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(text.split())


def _one_of(choices: str) -> Form:
    return (words(choices) | {""}).__contains__


def _matches(pattern: str) -> Form:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


@cache
def plain_words() -> frozenset[str]:
    """Words of the kubelet's messages (``words.txt``); none of them reveals whose node it is."""
    return frozenset((resources.files(__package__) / "words.txt").read_text("utf-8").split())


is_resource = _matches(
    r"cpu|memory|pods|pid|process|inodes|swap|ephemeral-storage"
    r"|hugepages-[0-9]{1,4}[KMG]i?|attachable-volumes-[a-z0-9-]{1,40}"
    r"|(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}/[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?"
)
"""A resource's name has a form of its own; that of a device plugin begins with a domain."""

_OUT_OF = "OutOf"


def is_reason(text: str) -> bool:
    """A reason that a kubelet gives, for a pod, a container, a condition or an event."""
    if text.startswith(_OUT_OF):
        return is_resource(text.removeprefix(_OUT_OF))
    return text[:1].isupper() and text in plain_words()


_LARGEST = {"cpu": 1024, "pods": 100_000, "pid": 1 << 32}
_LARGEST_OF_BYTES = 1 << 60
_LARGEST_OF_DEVICES = 1_000_000


def is_amount(resource: str, text: str) -> bool:
    """An amount of a resource that a machine can have: a PIN of ten digits is no number of CPUs."""
    try:
        amount = Quantity.from_api(text)
    except QuantityError:
        return False
    milli = amount.milli_value()
    if "/" in resource:
        return milli % 1000 == 0 and 0 <= milli <= _LARGEST_OF_DEVICES * 1000
    return 0 <= milli <= _LARGEST.get(resource, _LARGEST_OF_BYTES) * 1000


_TIME = _matches(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|")
_CPUS = _matches(r"(?:\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*)?")
_OPERATORS = _one_of("In NotIn Exists DoesNotExist Gt Lt Equal")
_SIGNALS = _one_of(
    "memory.available allocatableMemory.available nodefs.available nodefs.inodesFree"
    " imagefs.available imagefs.inodesFree containerfs.available containerfs.inodesFree"
    " pid.available emptydirfs.limit ephemeralpodfs.limit ephemeralcontainerfs.limit"
)
_KILLED_FOR = _one_of(
    "liveness_probe startup_probe preempted pod_deleted spec_changed evicted post_start_hook"
    " pod_ended deadline_exceeded orphaned node_shutdown sandbox_changed resized exited"
)
_OURS = _matches(r"[a-z]+(?:[_-][a-z0-9]+)*")
"""Words that an import writes, never a source."""

BODY_FIELDS: dict[str, Form] = {
    **dict.fromkeys(("cpu_set", "default_cpu_set", "reserved_cpu_set"), _CPUS),
    **dict.fromkeys(("resource", "reclaimed"), is_resource),
    **dict.fromkeys(("signal", "signals"), _SIGNALS),
    **dict.fromkeys(("finding", "format"), _OURS),
    "type": lambda text: is_resource(text) or text in {"Normal", "Warning"},
    "reason": lambda text: _KILLED_FOR(text) or is_reason(text),
    "object_kind": _one_of("Pod Node"),
    "source": _matches(r"api|file|http|stats-summary|log|[a-z_0-9]{1,40}\.go"),
    "changed": _matches(r"[a-z][a-z0-9_]*(?:[.][A-Za-z0-9_.]+)?"),
    "device_ids": lambda _: True,
    "numa": lambda _: True,
    "registered": lambda _: True,
    "policy": _one_of("none static Static None best-effort restricted single-numa-node"),
    "options": _one_of(
        "FullPhysicalCPUsOnly DistributeCPUsAcrossNUMA AlignBySocket DistributeCPUsAcrossCores"
        " StrictCPUReservation PreferAlignByUncoreCacheOption full-pcpus-only"
        " distribute-cpus-across-numa align-by-socket distribute-cpus-across-cores"
        " strict-cpu-reservation prefer-align-cpus-by-uncorecache"
    ),
    "kubeledger_version": _matches(r"\d+\.\d+\.\d+\w*"),
    "unified": _matches(r"max|\d+|\d+ \d+|max \d+|(?:\w+ \d+\n?)*"),
    "other": _matches(r"max|-?\d+|\d+ \d+|max \d+|(?:\w+ \d+\n?)*"),
}
"""A record's own strings, by field; of a map those of its values."""

BODY_KEYS: dict[str, Form] = {
    **dict.fromkeys(("allocatable", "capacity", "hints", "memory"), is_resource),
    **dict.fromkeys(("numa", "machine", "cpus"), str.isdigit),
    **dict.fromkeys(("unified", "other", "hugetlb_limit_bytes"), _matches(r"[\w.]{1,60}")),
    **dict.fromkeys(("records", "beats"), lambda _: True),
    "registered": is_resource,
}
"""Keys of a record's own maps, by the map's field."""

_NEVER = _one_of("Always IfNotPresent Never OnFailure NotRequired RestartContainer")

TIMES = words(
    """
    creationTimestamp deletionTimestamp startTime startedAt finishedAt lastTransitionTime
    lastProbeTime lastHeartbeatTime
    """
)
"""Fields of a status in which the kubelet or the API server says when."""

API_FIELDS: dict[str, Form] = {
    **dict.fromkeys(("restartPolicy", "imagePullPolicy"), _NEVER),
    **dict.fromkeys(TIMES, _TIME),
    **dict.fromkeys(("port", "targetPort"), _matches(r"\d{1,5}")),
    **dict.fromkeys(("reason", "resize"), is_reason),
    "action": _one_of("Restart RestartAllContainers"),
    "divisor": _matches(r"0|1(?:[mkMGT]i?)?"),
    "dnsPolicy": _one_of("ClusterFirst ClusterFirstWithHostNet Default None"),
    "effect": _one_of("NoSchedule PreferNoSchedule NoExecute"),
    "health": _one_of("Healthy Unhealthy Unknown"),
    "medium": _matches(r"|Memory|HugePages(?:-\d{1,4}[KMG]i)?"),
    "operator": _OPERATORS,
    "phase": _one_of("Pending Running Succeeded Failed Unknown"),
    "preemptionPolicy": _one_of("Never PreemptLowerPriority"),
    "priorityClassName": _one_of("system-node-critical system-cluster-critical"),
    "protocol": _one_of("TCP UDP SCTP"),
    "qosClass": _one_of("Guaranteed Burstable BestEffort"),
    "resource": _matches(r"(?:limits|requests)\.(?:cpu|memory|ephemeral-storage)"),
    "resourceName": is_resource,
    "schedulerName": _one_of("default-scheduler"),
    "scheme": _one_of("HTTP HTTPS"),
    "sizeLimit": lambda text: is_amount("memory", text),
    "status": _one_of("True False Unknown"),
    "supplementalGroupsPolicy": _one_of("Merge Strict"),
    "terminationMessagePolicy": _one_of("File FallbackToLogsOnError"),
    "type": _one_of(
        "Ready PodScheduled Initialized ContainersReady PodReadyToStartContainers DisruptionTarget"
        " PodResizePending PodResizeInProgress MemoryPressure DiskPressure PIDPressure"
        " NetworkUnavailable RuntimeDefault Unconfined Localhost Directory DirectoryOrCreate File"
        " FileOrCreate Socket CharDevice BlockDevice"
    ),
}
"""Strings of the API's objects, by field, wherever it stands in one."""

API_NUMBERS = words(
    """
    activeDeadlineSeconds containerPort defaultMode deletionGracePeriodSeconds exitCode
    failureThreshold hostPort initialDelaySeconds mode observedGeneration periodSeconds port
    priority restartCount seconds signal successThreshold targetPort terminationGracePeriodSeconds
    timeoutSeconds tolerationSeconds values weight
    """
)
"""Numbers of the API's objects that decisions rest on; others may be an account, or a user's ID."""

WELL_KNOWN_KEYS = words(
    """
    app app.kubernetes.io/component app.kubernetes.io/instance app.kubernetes.io/managed-by
    app.kubernetes.io/name app.kubernetes.io/part-of app.kubernetes.io/version
    batch.kubernetes.io/controller-uid batch.kubernetes.io/job-completion-index
    batch.kubernetes.io/job-name beta.kubernetes.io/arch beta.kubernetes.io/instance-type
    beta.kubernetes.io/os cluster-autoscaler.kubernetes.io/safe-to-evict component
    controller-revision-hash controller-uid controller.kubernetes.io/pod-deletion-cost
    failure-domain.beta.kubernetes.io/region failure-domain.beta.kubernetes.io/zone job-name
    k8s-app kubectl.kubernetes.io/default-container
    kubectl.kubernetes.io/last-applied-configuration kubectl.kubernetes.io/restartedAt
    kubernetes.io/arch kubernetes.io/config.hash kubernetes.io/config.mirror
    kubernetes.io/config.seen kubernetes.io/config.source kubernetes.io/hostname
    kubernetes.io/metadata.name kubernetes.io/os node-role.kubernetes.io/control-plane
    node-role.kubernetes.io/master node-role.kubernetes.io/worker
    node.cloudprovider.kubernetes.io/shutdown node.cloudprovider.kubernetes.io/uninitialized
    node.kubernetes.io/disk-pressure node.kubernetes.io/exclude-from-external-load-balancers
    node.kubernetes.io/instance-type node.kubernetes.io/memory-pressure
    node.kubernetes.io/network-unavailable node.kubernetes.io/not-ready
    node.kubernetes.io/out-of-service node.kubernetes.io/pid-pressure
    node.kubernetes.io/unreachable node.kubernetes.io/unschedulable pod-template-hash
    role.kubernetes.io/control-plane scheduler.alpha.kubernetes.io/critical-pod
    statefulset.kubernetes.io/pod-name tier topology.kubernetes.io/region
    topology.kubernetes.io/zone
    """
)
"""Keys of labels, annotations and taints that Kubernetes defines; every other one is a user's."""

_ARCHITECTURES = _one_of("386 amd64 arm arm64 ppc64le riscv64 s390x")
_SYSTEMS = _one_of("linux windows")

VALUES_OF_KEYS: dict[str, Form] = {
    "beta.kubernetes.io/arch": _ARCHITECTURES,
    "beta.kubernetes.io/os": _SYSTEMS,
    "kubernetes.io/arch": _ARCHITECTURES,
    "kubernetes.io/config.source": _one_of("api file http"),
    "kubernetes.io/os": _SYSTEMS,
}
"""Values of such keys that may stay."""
