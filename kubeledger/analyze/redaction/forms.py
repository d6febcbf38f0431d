"""What may go out as it is: for each field, the values that are known to be harmless.

A place that stands nowhere here holds what somebody chose, and is replaced. So is a value that its
place does not know: an ``effect`` that is none of the three may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import resources

from kubeledger.ingest.sources.detect import FORMATS
from kubeledger.kubelet.kube.containermanager import cpu_set_text, cpus_of
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.wire.catalogue import BODY_TYPES

Form = Callable[[str], bool]


def words(text: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(text.split())


def _one_of(choices: str) -> Form:
    return (words(choices) | {""}).__contains__


def matches(pattern: str) -> Form:
    """Whether all of a text has a form; of digits and letters ASCII's alone."""
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


@cache
def plain_words() -> frozenset[str]:
    """Words of the kubelet's messages (``words.txt``); none of them reveals whose node it is."""
    return frozenset((resources.files(__package__) / "words.txt").read_text("utf-8").split())


is_resource = matches(
    r"cpu|memory|pods|pid|process|inodes|swap|ephemeral-storage|hugepages-(?:[124]|16|8|32|64)Gi"
    r"|hugepages-(?:16|32|64|128|256|512)Ki|hugepages-(?:[1248]|16|32|64|128|256|512)Mi"
    r"|attachable-volumes-(?:aws-ebs|azure-disk|cinder|gce-pd|vsphere)"
    r"|nvidia\.com/(?:gpu(?:\.shared)?|mig-[1-7]g\.\d{1,3}gb)|amd\.com/gpu|google\.com/tpu"
    r"|(?:gpu\.)?intel\.com/(?:gpu|i915|xe)|habana\.ai/gaudi"
    r"|aws\.amazon\.com/neuron(?:core|device)?|devices\.kubevirt\.io/(?:kvm|tun|vhost-net)"
)
"""Resources of the kubelet's, and of device plugins that many clusters have."""

is_qualified = matches(r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}/[A-Za-z0-9][-\w.]*")
"""A resource of some other plugin has such a name, and so may have anything else."""

OUT_OF = "OutOf"


def is_reason(text: str) -> bool:
    """A reason that a kubelet gives, for a pod, a container, a condition or an event."""
    if text.startswith(OUT_OF):
        return is_resource(text.removeprefix(OUT_OF))
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
    if text[:1] == "0" and text[1:2].isdigit():  # no form in which the API gives an amount
        return False
    milli = amount.milli_value()
    if "/" in resource:
        return milli % 1000 == 0 and 0 <= milli <= _LARGEST_OF_DEVICES * 1000
    return 0 <= milli <= _LARGEST.get(resource, _LARGEST_OF_BYTES) * 1000


def is_cpu_set(text: str) -> bool:
    """CPUs as a kubelet writes them, of a machine that there can be."""
    try:
        cpus = cpus_of(text) if len(text) < _LONGEST_CPU_SET else frozenset()
    except ValueError:
        return False
    return cpu_set_text(cpus) == text and max(cpus, default=0) < _LARGEST["cpu"]


_LONGEST_CPU_SET = 5000

SINCE = r"(?:20(?:1[4-9]|[2-9]\d)-\d\d-\d\d|1970-01-0\d)"
"""A day on which there were kubelets, or of a clock that was not set yet: no birthday."""

_TIME = matches(rf"{SINCE}T\d\d:\d\d:\d\d(?:\.\d{{1,9}})?(?:Z|[+-]\d\d:\d\d)|")
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
_SMALL = matches(r"-?\d{1,3}|")
"""Number of a CPU or of a NUMA node."""

is_cgroup_file = matches(
    r"tasks|cgroup\.(?:procs|threads|events|stat)|(?:hugetlb|pids)\.(?:max|current|events)"
    r"|hugetlb\.\d{1,4}[KMG]B\.(?:limit_in_bytes|usage_in_bytes|max|current|rsvd\.max)"
    r"|cpu\.(?:shares|cfs_quota_us|cfs_period_us|weight|weight\.nice|max|max\.burst|idle|stat)"
    r"|cpuset\.(?:cpus|mems)(?:\.effective)?|cpuacct\.(?:usage|stat)|blkio\.weight"
    r"|(?:cpu|io|memory)\.pressure|io\.(?:max|weight|stat)"
    r"|memory\.(?:min|low|high|max|current|peak|stat|events|oom\.group|swap\.(?:max|high|current)"
    r"|failcnt|oom_control|swappiness|(?:memsw\.|kmem\.)?(?:limit|usage)_in_bytes"
    r"|(?:soft_limit|max_usage)_in_bytes)"
)
"""Files of cgroups, of either version."""

_N = r"(?:0|[1-9]\d{0,18})"
_cgroup_values = matches(
    rf"max|-1|{_N}|max {_N}|{_N} {_N}|"
    rf"|(?:(?:low|high|max|oom|oom_kill|oom_group_kill|oom_kill_disable|under_oom) {_N}\n?)*"
)


_PARTS = words(
    """
    attacher attributed checksum clientconn contradiction crictl delivered dispatcher doubtful
    dynamic executor gaps gc generator generic getters guessed helper hostport linux malformed mem
    mismatch nestedpendingoperations nodecache nodelease nodeshutdown overlap programs projected
    reconciler renamed setters single stepped sys truncated unreadable userns utils worker workers
    zone
    """
)
"""Beside the kubelet's words, in names of its source files and of an import's findings."""


def _of_words(text: str) -> bool:
    """A name that an import or the kubelet's authors made of such words."""
    return (plain_words() | _PARTS).issuperset(text.split("_"))


BODY_FIELDS: dict[str, Form] = {
    **dict.fromkeys(("cpu_set", "default_cpu_set", "reserved_cpu_set"), is_cpu_set),
    **dict.fromkeys(("resource", "reclaimed"), is_resource),
    **dict.fromkeys(("signal", "signals"), _SIGNALS),
    **dict.fromkeys(("unified", "other"), lambda text: _cgroup_values(text) or is_cpu_set(text)),
    "finding": _of_words,
    "format": FORMATS.__contains__,
    "type": lambda text: is_resource(text) or text in {"Normal", "Warning"},
    "reason": lambda text: _KILLED_FOR(text) or is_reason(text),
    "object_kind": _one_of("Pod Node"),
    "source": lambda text: (
        text in {"api", "file", "http", "stats-summary"}
        or (text.endswith(".go") and _of_words(text.removesuffix(".go")))
    ),
    "changed": frozenset(CgroupUpdated.__struct_fields__).__contains__,
    "policy": _one_of("none static Static None best-effort restricted single-numa-node"),
    "options": _one_of(
        "FullPhysicalCPUsOnly DistributeCPUsAcrossNUMA AlignBySocket DistributeCPUsAcrossCores"
        " StrictCPUReservation PreferAlignByUncoreCacheOption full-pcpus-only"
        " distribute-cpus-across-numa align-by-socket distribute-cpus-across-cores"
        " strict-cpu-reservation prefer-align-cpus-by-uncorecache"
    ),
    "kubeledger_version": matches(r"\d{1,2}\.\d{1,3}\.\d{1,3}(?:(?:a|b|rc|\.dev)\d{1,3})?"),
}
"""A record's own strings, by field; of a map those of its values."""

BODY_KEYS: dict[str, Form] = {
    **dict.fromkeys(("allocatable", "capacity", "hints", "memory", "registered"), is_resource),
    **dict.fromkeys(("numa", "machine", "cpus"), _SMALL),
    **dict.fromkeys(("unified", "other"), is_cgroup_file),
    "hugetlb_limit_bytes": matches(r"\d{1,4}[KMG]B"),
    "records": BODY_TYPES.__contains__,
    "beats": {"housekeeping", "end of housekeeping", "eviction manager"}.__contains__,
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
    **dict.fromkeys(("port", "targetPort"), matches(r"[1-9]\d{0,4}")),
    **dict.fromkeys(("reason", "resize"), is_reason),
    "action": _one_of("Restart RestartAllContainers"),
    "divisor": matches(r"0|1(?:[mkMGT]i?)?"),
    "dnsPolicy": _one_of("ClusterFirst ClusterFirstWithHostNet Default None"),
    "effect": _one_of("NoSchedule PreferNoSchedule NoExecute"),
    "health": _one_of("Healthy Unhealthy Unknown"),
    "medium": matches(r"|Memory|HugePages(?:-(?:2Mi|1Gi))?"),
    "operator": _OPERATORS,
    "phase": _one_of("Pending Running Succeeded Failed Unknown"),
    "preemptionPolicy": _one_of("Never PreemptLowerPriority"),
    "priorityClassName": _one_of("system-node-critical system-cluster-critical"),
    "protocol": _one_of("TCP UDP SCTP"),
    "qosClass": _one_of("Guaranteed Burstable BestEffort"),
    "resource": matches(r"(?:limits|requests)\.(?:cpu|memory|ephemeral-storage)"),
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
    activeDeadlineSeconds containerPort deletionGracePeriodSeconds exitCode exitCodes
    failureThreshold hostPort initialDelaySeconds observedGeneration periodSeconds port priority
    restartCount seconds signal successThreshold targetPort terminationGracePeriodSeconds
    timeoutSeconds tolerationSeconds values
    """
)
"""Numbers of the API's objects that decisions rest on; others may be an account, or a user's ID."""

API_NAMES = words(
    """
    action activeDeadlineSeconds add affinity allocatedResources allocatedResourcesStatus
    allowPrivilegeEscalation annotations appArmorProfile apiVersion args
    automountServiceAccountToken awsElasticBlockStore azureDisk azureFile capabilities cephfs
    cinder claimName clusterTrustBundle command conditionType conditions configMap configMapKeyRef
    configMapRef
    containerID containerPort containerStatuses containers csi data defaultMode devicePath
    dnsConfig dnsPolicy downwardAPI driver drop effect emptyDir enableServiceLinks env envFrom
    ephemeral ephemeralContainerStatuses ephemeralContainers exec exitCode exitCodes
    failureThreshold fc fieldPath fieldRef finishedAt flexVolume flocker fsGroup
    fsGroupChangePolicy fsType gcePersistentDisk gitRepo glusterfs grpc health host hostAliases
    hostIP hostIPs hostIPC hostNetwork hostPID hostPath hostPort hostUsers hostname
    httpGet httpHeaders image imageID imagePullPolicy imagePullSecrets initContainerStatuses
    initContainers initialDelaySeconds ip iscsi items key kind labelSelector labels lastProbeTime
    lastState lastTransitionTime level lifecycle limits livenessProbe localhostProfile
    matchExpressions matchFields matchLabelKeys matchLabels maxSkew medium message metadata
    mismatchLabelKeys mode mountPath mountPropagation name nameservers namespace namespaceSelector
    namespaces nfs nodeAffinity nodeInfo nodeName nodePublishSecretRef nodeSelector
    nodeSelectorTerms observedGeneration operator optional options os overhead partition path
    periodSeconds persistentVolumeClaim phase photonPersistentDisk podAffinity podAffinityTerm
    podAntiAffinity podIP podIPs podInfoOnHost port portworxVolume ports postStart preStop
    preemptionPolicy preference preferredDuringSchedulingIgnoredDuringExecution priority
    priorityClassName privileged procMount projected protocol qosClass quobyte rbd readOnly
    readOnlyRootFilesystem readinessGates readinessProbe ready reason recursiveReadOnly requests
    requiredDuringSchedulingIgnoredDuringExecution resize resizePolicy resource resourceClaimName
    resourceClaimStatuses resourceClaimTemplateName resourceClaims resourceFieldRef resourceID
    resourceName resources restartCount restartPolicy restartPolicyRules runAsGroup runAsNonRoot
    runAsUser runAsUserName running runtimeClassName scaleIO schedulerName schedulingGates scheme
    seLinuxOptions searches seccompProfile secret secretKeyRef secretName secretRef seconds
    securityContext server service serviceAccount serviceAccountName serviceAccountToken
    setHostnameAsFQDN shareProcessNamespace signal sizeLimit sleep sources spec startTime started
    startedAt startupProbe state status stdin stdinOnce stopSignal storage storageClassName
    storageos subPath subPathExpr subdomain successThreshold supplementalGroups
    supplementalGroupsPolicy sysctls targetContainerName targetPort tcpSocket template
    terminated terminationGracePeriodSeconds terminationMessagePath terminationMessagePolicy
    timeAdded timeoutSeconds tolerationSeconds tolerations topologyKey topologySpreadConstraints
    tty type uid value valueFrom values volumeAttributes volumeClaimTemplate volumeDevices
    volumeID volumeMode volumeMounts volumeName volumes vsphereVolume waiting weight
    whenUnsatisfiable windowsOptions workingDir
    """
)
"""Names of fields of a pod, and of a taint; any other key is a name that somebody chose."""

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
    kubernetes.io/metadata.name kubernetes.io/os metadata.name node-role.kubernetes.io/control-plane
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
