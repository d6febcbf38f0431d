"""The kubelet's command line flags that set a field of KubeletConfiguration.

``FLAG:`` lines print every flag as it was parsed, whether it was given or not, so a flag
counts as given only when its value is not the default of that version. The defaults here
are those of the command line: four of them (``_FILE_DEFAULTS``) differ from what a
configuration file defaults to, and apply only when there is no such file.

Source: v1.20.2 cmd/kubelet/app/options/options.go AddKubeletConfigFlags, and the same of
    v1.36.2; pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from kubeledger.model.units import whole_number

FlagKind = Literal[
    "bool", "int", "str", "list", "map", "gates", "thresholds", "headers", "taints", "memory"
]


class FlagField(msgspec.Struct, frozen=True):
    """One flag and the field it sets.

    Attributes:
        flag: name without dashes.
        field: KubeletConfiguration field; dots lead into nested ones.
        kind: how the flag's text is read; durations stay text.
        defaults: (minor version from which it holds, text), oldest first.
        since: minor version in which the field appeared; before it the flag has no field.
    """

    flag: str
    field: str
    kind: FlagKind
    defaults: tuple[tuple[int, str], ...]
    since: int = 0

    def default(self, minor: int) -> str:
        """Text of the default on the command line."""
        return [text for since, text in self.defaults if since <= minor][-1]

    def is_default(self, text: str, minor: int | None) -> bool:
        """Whether the text is the default of that version, of any version when it is None."""
        if minor is None:
            return any(text == default for _, default in self.defaults)
        return text == self.default(minor)

    @property
    def is_file_dependent(self) -> bool:
        """The default is another one when there is a configuration file."""
        return self.flag in _FILE_DEFAULTS

    def file_defaults(self, minor: int | None) -> list[str]:
        """Default of a field which a file leaves out; of all versions when minor is None."""
        found = _FILE_DEFAULTS.get(self.flag, self.defaults)
        if minor is None:
            return [text for _, text in found]
        return [[text for since, text in found if since <= minor][-1]]


_THRESHOLDS = (
    "imagefs.available<15%,memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%"
)

_FILE_DEFAULTS: dict[str, tuple[tuple[int, str], ...]] = {
    "anonymous-auth": ((0, "false"),),
    "authentication-token-webhook": ((0, "true"),),
    "authorization-mode": ((0, "Webhook"),),
    "read-only-port": ((0, "0"),),
    "eviction-hard": ((0, _THRESHOLDS), (30, f"{_THRESHOLDS},imagefs.inodesFree<5%")),
}


def minor_version(version: str | None) -> int | None:
    """``36`` of ``1.36.2``; None when the version is not known or not of that form."""
    parts = (version or "").removeprefix("v").split(".")
    return whole_number(parts[1]) if len(parts) > 1 and parts[0] == "1" else None


_TABLE = """
address str address 0.0.0.0
allowed-unsafe-sysctls list allowedUnsafeSysctls []
anonymous-auth bool authentication.anonymous.enabled true
authentication-token-webhook bool authentication.webhook.enabled false
authentication-token-webhook-cache-ttl str authentication.webhook.cacheTTL 2m0s
authorization-mode str authorization.mode AlwaysAllow
authorization-webhook-cache-authorized-ttl str authorization.webhook.cacheAuthorizedTTL 5m0s
authorization-webhook-cache-unauthorized-ttl str authorization.webhook.cacheUnauthorizedTTL 30s
cgroup-driver str cgroupDriver cgroupfs
cgroup-root str cgroupRoot -
cgroups-per-qos bool cgroupsPerQOS true
client-ca-file str authentication.x509.clientCAFile -
cluster-dns list clusterDNS []
cluster-domain str clusterDomain -
container-log-max-files int containerLogMaxFiles 5
container-log-max-size str containerLogMaxSize 10Mi
container-runtime-endpoint str containerRuntimeEndpoint@27 unix:///run/containerd/containerd.sock
contention-profiling bool enableContentionProfiling false
cpu-cfs-quota bool cpuCFSQuota true
cpu-cfs-quota-period str cpuCFSQuotaPeriod 100ms
cpu-manager-policy str cpuManagerPolicy none
cpu-manager-policy-options map cpuManagerPolicyOptions -
cpu-manager-reconcile-period str cpuManagerReconcilePeriod 10s
enable-controller-attach-detach bool enableControllerAttachDetach true
enable-debugging-handlers bool enableDebuggingHandlers true
enable-server bool enableServer true
enforce-node-allocatable list enforceNodeAllocatable [pods]
event-burst int eventBurst 10 27=100
event-qps int eventRecordQPS 5 27=50
eviction-hard thresholds evictionHard THRESHOLDS 25=-
eviction-max-pod-grace-period int evictionMaxPodGracePeriod 0
eviction-minimum-reclaim map evictionMinimumReclaim -
eviction-pressure-transition-period str evictionPressureTransitionPeriod 5m0s
eviction-soft thresholds evictionSoft -
eviction-soft-grace-period map evictionSoftGracePeriod -
fail-cgroupv1 bool failCgroupV1 false 35=true
fail-swap-on bool failSwapOn true
feature-gates gates featureGates -
file-check-frequency str fileCheckFrequency 20s
hairpin-mode str hairpinMode promiscuous-bridge
healthz-bind-address str healthzBindAddress 127.0.0.1
healthz-port int healthzPort 10248
http-check-frequency str httpCheckFrequency 20s
image-gc-high-threshold int imageGCHighThresholdPercent 85
image-gc-low-threshold int imageGCLowThresholdPercent 80
image-service-endpoint str imageServiceEndpoint@27 -
iptables-drop-bit int iptablesDropBit 15
iptables-masquerade-bit int iptablesMasqueradeBit 14
kernel-memcg-notification bool kernelMemcgNotification false
kube-api-burst int kubeAPIBurst 10 27=100
kube-api-content-type str contentType application/vnd.kubernetes.protobuf
kube-api-qps int kubeAPIQPS 5 27=50
kube-reserved map kubeReserved -
kube-reserved-cgroup str kubeReservedCgroup -
kubelet-cgroups str kubeletCgroups -
local-storage-capacity-isolation bool localStorageCapacityIsolation true
log-flush-frequency str logging.flushFrequency@23 5s
logging-format str logging.format text
make-iptables-util-chains bool makeIPTablesUtilChains true
manifest-url str staticPodURL -
manifest-url-header headers staticPodURLHeader -
max-open-files int maxOpenFiles 1000000
max-pods int maxPods 110
memory-manager-policy str memoryManagerPolicy None
minimum-image-ttl-duration str imageMinimumGCAge 2m0s
node-status-max-images int nodeStatusMaxImages 50
node-status-update-frequency str nodeStatusUpdateFrequency 10s
oom-score-adj int oomScoreAdj -999
pod-cidr str podCIDR -
pod-manifest-path str staticPodPath -
pod-max-pids int podPidsLimit -1
pods-per-core int podsPerCore 0
port int port 10250
protect-kernel-defaults bool protectKernelDefaults false
provider-id str providerID -
qos-reserved map qosReserved -
read-only-port int readOnlyPort 10255
register-node bool registerNode@23 true
register-with-taints taints registerWithTaints@23 -
registry-burst int registryBurst 10
registry-qps int registryPullQPS 5
reserved-cpus str reservedSystemCPUs -
reserved-memory memory reservedMemory -
resolv-conf str resolvConf /etc/resolv.conf
rotate-certificates bool rotateCertificates false
rotate-server-certificates bool serverTLSBootstrap false
runonce bool runOnce false
runtime-request-timeout str runtimeRequestTimeout 2m0s
seccomp-default bool seccompDefault false
serialize-image-pulls bool serializeImagePulls true
streaming-connection-idle-timeout str streamingConnectionIdleTimeout 4h0m0s
sync-frequency str syncFrequency 1m0s
system-cgroups str systemCgroups -
system-reserved map systemReserved -
system-reserved-cgroup str systemReservedCgroup -
tls-cert-file str tlsCertFile -
tls-cipher-suites list tlsCipherSuites []
tls-min-version str tlsMinVersion -
tls-private-key-file str tlsPrivateKeyFile -
topology-manager-policy str topologyManagerPolicy none
topology-manager-policy-options map topologyManagerPolicyOptions -
topology-manager-scope str topologyManagerScope container
v int logging.verbosity@23 0
vmodule str logging.vmodule@23 -
volume-plugin-dir str volumePluginDir /usr/libexec/kubernetes/kubelet-plugins/volume/exec/
volume-stats-agg-period str volumeStatsAggPeriod 1m0s
"""
"""Flag, kind, field (behind ``@`` since when it is one), defaults (before ``=`` since when)."""


def _flag(row: str) -> FlagField:
    flag, kind, field, *defaults = row.split()
    name, _, since = field.partition("@")
    texts = (text.rpartition("=")[::2] for text in defaults)
    named = {"-": "", "THRESHOLDS": _THRESHOLDS}
    told = tuple((int(minor or 0), named.get(text, text)) for minor, text in texts)
    return FlagField(flag, name, cast(FlagKind, kind), told, int(since or 0))


FLAGS = tuple(map(_flag, _TABLE.strip().splitlines()))
"""Sorted by flag."""

FLAGS_BY_NAME: dict[str, FlagField] = {row.flag: row for row in FLAGS}
