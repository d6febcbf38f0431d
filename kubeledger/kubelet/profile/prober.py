"""Version differences of the prober subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven


class ProberFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.prober``: what a kubelet version does in this subsystem."""

    restartable_init_containers: bool = proven(
        "Sidecars get workers, a worker looks among the init container statuses too, and init "
        "containers get a started value.",
        since=28,
        source="prober_manager.go AddPod, UpdatePodStatus; worker.go doProbe (#116429, #119168); "
        "not behind the gate SidecarContainers",
    )
    kubelet_restart_keeps_results: bool = proven(
        "Containers that ran 10 s before the kubelet started get no initial result, stay started, "
        "and are ready as their pod was.",
        since=35,
        source="worker.go doProbe, prober_manager.go isContainerStarted and "
        "setReadyStateOnKubeletRestart (#134746); ChangeContainerStatusOnKubeletRestart off",
    )
    started_sidecar_seeds_success: bool = proven(
        "The startup worker of a sidecar published as started caches Success at once.",
        since=36,
        backports={35: 4},
        source="worker.go doProbe (#137146, for 1.35 #137885)",
    )
    container_restart_rules: bool = proven(
        "Whether a worker outlives its container's exit follows the container's restart policy "
        "and exit code rules before the pod's policy.",
        since=35,
        source="worker.go doProbe (#134631); ContainerRestartRules on",
    )
    exited_container_keeps_worker: bool = fact(
        "Every worker outlives its container's exit, and one of a container that waits to run "
        "ends if no policy or rule may restart that.",
        since=34,
        until=35,
        gate="ContainerRestartRules",
        source="worker.go doProbe, api/v1/pod/util.go IsContainerRestartable: v1.33.13 and "
        "v1.34.9, v1.34.9 and v1.35.6 differ",
    )
    restart_all_containers: bool = fact(
        "Rules may restart all containers, which keeps every worker of the pod.",
        since=36,
        source="worker.go doProbe, helpers.go ShouldAllContainersRestart; "
        "RestartAllContainersOnContainerExits on",
    )
    sidecar_worker_outlives_exit: bool = fact(
        "A sidecar's worker outlives its exit in a pod that is never restarted.",
        since=35,
        backports={34: 2, 33: 6},
        source="worker.go doProbe: v1.34.1 and v1.35.0 differ (#133072, for 1.34 #134800, for "
        "1.33 #134801)",
    )
    deletion_ends_liveness_and_startup: bool = proven(
        "Liveness and startup workers of a pod that is being deleted cache Success and end.",
        since=21,
        backports={20: 6, 19: 10},
        source="worker.go doProbe (#98571, for 1.20 #100525, for 1.19 #100526)",
    )
    start_ends_startup_worker: bool = fact(
        "A startup worker ends when it sees its container started, unless the next fact holds as "
        "well.",
        since=21,
        backports={20: 6, 19: 10},
        source="worker.go doProbe (#98571)",
    )
    startup_worker_stays_for_restarts: bool = proven(
        "A startup worker stays when its container has started, for the next instance.",
        since=22,
        backports={21: 1, 20: 7, 19: 11},
        source="worker.go doProbe (#101093, for 1.20 #101224)",
    )
    startup_success_holds: bool = proven(
        "A startup worker goes on hold after a success that reached the threshold, with the run "
        "back at 0.",
        since=32,
        source="worker.go doProbe (#121206)",
    )
    errored_event_names_state: bool = fact(
        "The event of an errored probe names the state it resulted in.",
        since=33,
        source="prober.go probe (#125901)",
    )
    unknown_without_error_sends_no_event: bool = fact(
        "An unknown result without an error leaves no event.",
        since=33,
        source="prober.go probe (#125901)",
    )
    results_wake_sync_loop: bool = fact(
        "Readiness and startup results are handled by the sync loop, which syncs the pod; before, "
        "two goroutines only set the status.",
        since=21,
        source="kubelet.go syncLoopIteration, handleProbeSync (#98376)",
        recorded=True,
    )
    unready_named: bool = fact(
        'The sync loop names the status of a lost readiness "not ready"; before, not at all.',
        since=32,
        source="kubelet.go syncLoopIteration",
    )
    cached_readiness_is_final: bool = proven(
        "Any cached readiness result decides ready; since, only Success does, and without a "
        "worker the container is ready whatever is cached.",
        until=22,
        source="prober_manager.go UpdatePodStatus (#101738)",
    )
    unready_triggers_probe: bool = proven(
        "A started container that is not ready gets its readiness probe run at once.",
        since=21,
        source="prober_manager.go UpdatePodStatus (#98376)",
    )
    jitter_ends_with_first_period: bool = fact(
        "A worker waits for a random part of its period only while the kubelet is younger than "
        "the period; before, always.",
        since=21,
        source="worker.go run",
    )
    manual_run_resets_period: bool = fact(
        "A readiness probe that is run at once begins its period anew.",
        since=32,
        source="worker.go run",
    )
    exec_timeout_fails: bool = fact(
        "An exec probe that times out fails; before, it errored and was thrown away.",
        since=20,
        source="pkg/probe/exec/exec.go Probe (#94115); ExecProbeTimeout on",
    )
    exec_timeout_in_output: bool = fact(
        "The output of an exec probe that timed out is the runtime's text; before, nothing.",
        since=23,
        source="pkg/probe/exec/exec.go Probe (#106111)",
    )
    accept_header: bool = fact(
        "HTTP probes send Accept: */*, or none where the spec gives an empty one.",
        since=20,
        source="pkg/probe/http/http.go DoHTTPProbe (#95641)",
    )
    canonical_header_names: bool = fact(
        "Names of a probe's headers are taken in any case; before, `host` was sent as a second "
        "Host header, and `accept` and `user-agent` beside the kubelet's own.",
        since=28,
        backports={27: 2, 26: 5, 25: 10, 24: 14},
        source="pkg/probe/http/request.go v1HeaderToHTTPHeader (#117182, for 1.27 #117324, for "
        "1.26 #117323, for 1.25 #117333, for 1.24 #117331); before 1.26 prober.go buildHeader",
    )
    scheme_defaults_to_http: bool = fact(
        "An HTTP probe without a scheme is made by HTTP; before, it failed. The API server sets "
        "one.",
        since=26,
        source="pkg/probe/http/request.go NewRequestForHTTPGetAction; before, prober.go runProbe",
    )
    tls_1_2_at_least: bool = fact(
        "HTTPS probes offer TLS 1.2 and later; before, 1.0 and 1.1 as well.",
        since=24,
        source="Go 1.18, crypto/tls Config.MinVersion: 1.24.0 was built with it, 1.23.0 with 1.17",
    )
    sockets_linger_a_second: bool = fact(
        "Sockets of HTTP and TCP probes have SO_LINGER of one second.",
        since=27,
        backports={26: 2, 25: 7, 24: 11, 23: 17},
        source="pkg/probe/dialer_others.go ProbeDialer (#115143, for 1.24 #115280, for 1.23 "
        "#115281)",
    )
    redirect_without_location_warns: bool = fact(
        "A redirect without a Location is a reply like any other, so it warns; before, the probe "
        "failed for 301, 302 and 303.",
        since=25,
        source="Go 1.19, net/http Client.do (golang#49281): 1.25.0 was built with it, 1.24.0 with "
        "1.18",
    )
    redirect_in_output: bool = fact(
        "The warning of an HTTP probe says that redirects were not followed; before, it was the "
        "body alone.",
        since=24,
        source="pkg/probe/http/http.go DoHTTPProbe",
    )
    bad_request_errors: bool = fact(
        "An HTTP probe whose request cannot be made errors; before, it failed.",
        since=26,
        source="pkg/probe/http/request.go newProbeRequest",
    )
    grpc_probes: bool = fact(
        "gRPC probes are executed; before, such a probe has no handler and errors.",
        since=24,
        source="prober.go runProbe (#106463); GRPCContainerProbe on",
    )
    grpc_dials_like_others: bool = fact(
        "Sockets of gRPC probes linger as those of other probes, and no proxy of the kubelet's "
        "environment is asked; before, gRPC's own dialer took HTTPS_PROXY.",
        since=27,
        source="pkg/probe/grpc/grpc.go Probe (#115321)",
    )
