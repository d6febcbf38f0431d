"""The kubelet's command line flags that set a field of KubeletConfiguration.

``FLAG:`` lines print every flag as it was parsed, whether it was given or not, so a flag
counts as given only when its value is not the default of that version. The defaults here
are those of the command line: four of them (``_FILE_DEFAULTS``) differ from what a
configuration file defaults to, and apply only when there is no such file.

Source: v1.20.2 cmd/kubelet/app/options/options.go AddKubeletConfigFlags, and the same of
    v1.36.2; pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration
"""

from __future__ import annotations

from typing import Literal

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


FLAGS: tuple[FlagField, ...] = (
    FlagField("address", "address", "str", ((0, "0.0.0.0"),)),
    FlagField("allowed-unsafe-sysctls", "allowedUnsafeSysctls", "list", ((0, "[]"),)),
    FlagField("anonymous-auth", "authentication.anonymous.enabled", "bool", ((0, "true"),)),
    FlagField(
        "authentication-token-webhook", "authentication.webhook.enabled", "bool", ((0, "false"),)
    ),
    FlagField(
        "authentication-token-webhook-cache-ttl",
        "authentication.webhook.cacheTTL",
        "str",
        ((0, "2m0s"),),
    ),
    FlagField("authorization-mode", "authorization.mode", "str", ((0, "AlwaysAllow"),)),
    FlagField(
        "authorization-webhook-cache-authorized-ttl",
        "authorization.webhook.cacheAuthorizedTTL",
        "str",
        ((0, "5m0s"),),
    ),
    FlagField(
        "authorization-webhook-cache-unauthorized-ttl",
        "authorization.webhook.cacheUnauthorizedTTL",
        "str",
        ((0, "30s"),),
    ),
    FlagField("cgroup-driver", "cgroupDriver", "str", ((0, "cgroupfs"),)),
    FlagField("cgroup-root", "cgroupRoot", "str", ((0, ""),)),
    FlagField("cgroups-per-qos", "cgroupsPerQOS", "bool", ((0, "true"),)),
    FlagField("client-ca-file", "authentication.x509.clientCAFile", "str", ((0, ""),)),
    FlagField("cluster-dns", "clusterDNS", "list", ((0, "[]"),)),
    FlagField("cluster-domain", "clusterDomain", "str", ((0, ""),)),
    FlagField("container-log-max-files", "containerLogMaxFiles", "int", ((0, "5"),)),
    FlagField("container-log-max-size", "containerLogMaxSize", "str", ((0, "10Mi"),)),
    FlagField(
        "container-runtime-endpoint",
        "containerRuntimeEndpoint",
        "str",
        ((0, "unix:///run/containerd/containerd.sock"),),
        since=27,
    ),
    FlagField("contention-profiling", "enableContentionProfiling", "bool", ((0, "false"),)),
    FlagField("cpu-cfs-quota", "cpuCFSQuota", "bool", ((0, "true"),)),
    FlagField("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", "str", ((0, "100ms"),)),
    FlagField("cpu-manager-policy", "cpuManagerPolicy", "str", ((0, "none"),)),
    FlagField("cpu-manager-policy-options", "cpuManagerPolicyOptions", "map", ((0, ""),)),
    FlagField("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", "str", ((0, "10s"),)),
    FlagField(
        "enable-controller-attach-detach", "enableControllerAttachDetach", "bool", ((0, "true"),)
    ),
    FlagField("enable-debugging-handlers", "enableDebuggingHandlers", "bool", ((0, "true"),)),
    FlagField("enable-server", "enableServer", "bool", ((0, "true"),)),
    FlagField("enforce-node-allocatable", "enforceNodeAllocatable", "list", ((0, "[pods]"),)),
    FlagField("event-burst", "eventBurst", "int", ((0, "10"), (27, "100"))),
    FlagField("event-qps", "eventRecordQPS", "int", ((0, "5"), (27, "50"))),
    FlagField("eviction-hard", "evictionHard", "thresholds", ((0, _THRESHOLDS), (25, ""))),
    FlagField("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", "int", ((0, "0"),)),
    FlagField("eviction-minimum-reclaim", "evictionMinimumReclaim", "map", ((0, ""),)),
    FlagField(
        "eviction-pressure-transition-period",
        "evictionPressureTransitionPeriod",
        "str",
        ((0, "5m0s"),),
    ),
    FlagField("eviction-soft", "evictionSoft", "thresholds", ((0, ""),)),
    FlagField("eviction-soft-grace-period", "evictionSoftGracePeriod", "map", ((0, ""),)),
    FlagField("fail-cgroupv1", "failCgroupV1", "bool", ((0, "false"), (35, "true"))),
    FlagField("fail-swap-on", "failSwapOn", "bool", ((0, "true"),)),
    FlagField("feature-gates", "featureGates", "gates", ((0, ""),)),
    FlagField("file-check-frequency", "fileCheckFrequency", "str", ((0, "20s"),)),
    FlagField("hairpin-mode", "hairpinMode", "str", ((0, "promiscuous-bridge"),)),
    FlagField("healthz-bind-address", "healthzBindAddress", "str", ((0, "127.0.0.1"),)),
    FlagField("healthz-port", "healthzPort", "int", ((0, "10248"),)),
    FlagField("http-check-frequency", "httpCheckFrequency", "str", ((0, "20s"),)),
    FlagField("image-gc-high-threshold", "imageGCHighThresholdPercent", "int", ((0, "85"),)),
    FlagField("image-gc-low-threshold", "imageGCLowThresholdPercent", "int", ((0, "80"),)),
    FlagField("image-service-endpoint", "imageServiceEndpoint", "str", ((0, ""),), since=27),
    FlagField("iptables-drop-bit", "iptablesDropBit", "int", ((0, "15"),)),
    FlagField("iptables-masquerade-bit", "iptablesMasqueradeBit", "int", ((0, "14"),)),
    FlagField("kernel-memcg-notification", "kernelMemcgNotification", "bool", ((0, "false"),)),
    FlagField("kube-api-burst", "kubeAPIBurst", "int", ((0, "10"), (27, "100"))),
    FlagField(
        "kube-api-content-type", "contentType", "str", ((0, "application/vnd.kubernetes.protobuf"),)
    ),
    FlagField("kube-api-qps", "kubeAPIQPS", "int", ((0, "5"), (27, "50"))),
    FlagField("kube-reserved", "kubeReserved", "map", ((0, ""),)),
    FlagField("kube-reserved-cgroup", "kubeReservedCgroup", "str", ((0, ""),)),
    FlagField("kubelet-cgroups", "kubeletCgroups", "str", ((0, ""),)),
    FlagField(
        "local-storage-capacity-isolation", "localStorageCapacityIsolation", "bool", ((0, "true"),)
    ),
    FlagField("log-flush-frequency", "logging.flushFrequency", "str", ((0, "5s"),), since=23),
    FlagField("logging-format", "logging.format", "str", ((0, "text"),)),
    FlagField("make-iptables-util-chains", "makeIPTablesUtilChains", "bool", ((0, "true"),)),
    FlagField("manifest-url", "staticPodURL", "str", ((0, ""),)),
    FlagField("manifest-url-header", "staticPodURLHeader", "headers", ((0, ""),)),
    FlagField("max-open-files", "maxOpenFiles", "int", ((0, "1000000"),)),
    FlagField("max-pods", "maxPods", "int", ((0, "110"),)),
    FlagField("memory-manager-policy", "memoryManagerPolicy", "str", ((0, "None"),)),
    FlagField("minimum-image-ttl-duration", "imageMinimumGCAge", "str", ((0, "2m0s"),)),
    FlagField("node-status-max-images", "nodeStatusMaxImages", "int", ((0, "50"),)),
    FlagField("node-status-update-frequency", "nodeStatusUpdateFrequency", "str", ((0, "10s"),)),
    FlagField("oom-score-adj", "oomScoreAdj", "int", ((0, "-999"),)),
    FlagField("pod-cidr", "podCIDR", "str", ((0, ""),)),
    FlagField("pod-manifest-path", "staticPodPath", "str", ((0, ""),)),
    FlagField("pod-max-pids", "podPidsLimit", "int", ((0, "-1"),)),
    FlagField("pods-per-core", "podsPerCore", "int", ((0, "0"),)),
    FlagField("port", "port", "int", ((0, "10250"),)),
    FlagField("protect-kernel-defaults", "protectKernelDefaults", "bool", ((0, "false"),)),
    FlagField("provider-id", "providerID", "str", ((0, ""),)),
    FlagField("qos-reserved", "qosReserved", "map", ((0, ""),)),
    FlagField("read-only-port", "readOnlyPort", "int", ((0, "10255"),)),
    FlagField("register-node", "registerNode", "bool", ((0, "true"),), since=23),
    FlagField("register-with-taints", "registerWithTaints", "taints", ((0, ""),), since=23),
    FlagField("registry-burst", "registryBurst", "int", ((0, "10"),)),
    FlagField("registry-qps", "registryPullQPS", "int", ((0, "5"),)),
    FlagField("reserved-cpus", "reservedSystemCPUs", "str", ((0, ""),)),
    FlagField("reserved-memory", "reservedMemory", "memory", ((0, ""),)),
    FlagField("resolv-conf", "resolvConf", "str", ((0, "/etc/resolv.conf"),)),
    FlagField("rotate-certificates", "rotateCertificates", "bool", ((0, "false"),)),
    FlagField("rotate-server-certificates", "serverTLSBootstrap", "bool", ((0, "false"),)),
    FlagField("runonce", "runOnce", "bool", ((0, "false"),)),
    FlagField("runtime-request-timeout", "runtimeRequestTimeout", "str", ((0, "2m0s"),)),
    FlagField("seccomp-default", "seccompDefault", "bool", ((0, "false"),)),
    FlagField("serialize-image-pulls", "serializeImagePulls", "bool", ((0, "true"),)),
    FlagField(
        "streaming-connection-idle-timeout",
        "streamingConnectionIdleTimeout",
        "str",
        ((0, "4h0m0s"),),
    ),
    FlagField("sync-frequency", "syncFrequency", "str", ((0, "1m0s"),)),
    FlagField("system-cgroups", "systemCgroups", "str", ((0, ""),)),
    FlagField("system-reserved", "systemReserved", "map", ((0, ""),)),
    FlagField("system-reserved-cgroup", "systemReservedCgroup", "str", ((0, ""),)),
    FlagField("tls-cert-file", "tlsCertFile", "str", ((0, ""),)),
    FlagField("tls-cipher-suites", "tlsCipherSuites", "list", ((0, "[]"),)),
    FlagField("tls-min-version", "tlsMinVersion", "str", ((0, ""),)),
    FlagField("tls-private-key-file", "tlsPrivateKeyFile", "str", ((0, ""),)),
    FlagField("topology-manager-policy", "topologyManagerPolicy", "str", ((0, "none"),)),
    FlagField("topology-manager-policy-options", "topologyManagerPolicyOptions", "map", ((0, ""),)),
    FlagField("topology-manager-scope", "topologyManagerScope", "str", ((0, "container"),)),
    FlagField("v", "logging.verbosity", "int", ((0, "0"),), since=23),
    FlagField("vmodule", "logging.vmodule", "str", ((0, ""),), since=23),
    FlagField(
        "volume-plugin-dir",
        "volumePluginDir",
        "str",
        ((0, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"),),
    ),
    FlagField("volume-stats-agg-period", "volumeStatsAggPeriod", "str", ((0, "1m0s"),)),
)
"""Sorted by flag."""

FLAGS_BY_NAME: dict[str, FlagField] = {row.flag: row for row in FLAGS}
