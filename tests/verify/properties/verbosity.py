"""What a kubelet logs at which verbosity, for the two recordings whose verbosity is raised.

Lines of other severities than I are always there.
"""

from __future__ import annotations

_A_2 = """
container_manager_linux.go:274 container_manager_linux.go:279 container_manager_linux.go:310
container_manager_linux.go:315 container_manager_linux.go:435 cpu_manager.go:193
cpu_manager.go:194 desired_state_of_world_populator.go:142 endpoint.go:112 file.go:68
flags.go:59 fs_resource_analyzer.go:64 helpers.go:814 image_gc_manager.go:304
image_gc_manager.go:375 kubelet.go:1256 kubelet.go:1888 kubelet.go:1901 kubelet.go:2160
kubelet.go:262 kubelet.go:273 kubelet_network_linux.go:56 kubelet_node_status.go:109
kubelet_node_status.go:339 kubelet_node_status.go:531 kubelet_node_status.go:71
kubelet_node_status.go:74 kubelet_pods.go:1253 kuberuntime_container.go:636
kuberuntime_manager.go:216 kuberuntime_manager.go:439 kuberuntime_manager.go:656 manager.go:133
manager.go:236 manager.go:278 manager.go:408 manager.go:462 manager.go:987 oom_linux.go:82
plugin_manager.go:112 plugin_manager.go:114 plugin_watcher.go:52 pod_devices.go:214 policy.go:70
policy.go:78 policy.go:84 policy_none.go:43 predicate.go:143 preemption.go:119 preemption.go:98
prober.go:117 qos_container_manager_linux.go:232 reconciler.go:157 scope.go:95
scope_container.go:53 scope_container.go:63 scope_container.go:80 scope_container.go:88
server.go:1117 server.go:1176 server.go:148 server.go:170 server.go:416 server.go:645
setters.go:343 setters.go:389 setters.go:577 state_checkpoint.go:136 state_checkpoint.go:137
state_mem.go:36 state_mem.go:88 state_mem.go:96 status_manager.go:158 status_manager.go:537
topology_hints.go:46 topology_manager.go:120 topology_manager.go:187 volume_manager.go:269
volume_manager.go:271
"""
_A_3 = """
event.go:291 eviction_manager.go:243 eviction_manager.go:334 file.go:201 kubelet_pods.go:145
kubelet_pods.go:1492 kubelet_pods.go:1972 kubelet_pods.go:952 kubelet_pods.go:966
kubelet_pods.go:975 kubelet_volumes.go:145 kuberuntime_container.go:642
kuberuntime_manager.go:607 kuberuntime_manager.go:678 kuberuntime_manager.go:712
kuberuntime_manager.go:881 kuberuntime_manager.go:891 manager.go:629 manager.go:645
manager.go:657 manager.go:842 manager.go:888 oom_linux.go:75 prober.go:126 remote_image.go:41
remote_runtime.go:54 status_manager.go:429 status_manager.go:544 status_manager.go:564
status_manager.go:570 status_manager.go:572 status_manager.go:591 status_manager.go:651
worker.go:194
"""
_B_2 = """
allocation_manager.go:619 cadvisor_linux.go:111 client.go:114 client.go:97
container_log_manager.go:146 container_manager_linux.go:273 container_manager_linux.go:278
container_manager_linux.go:309 container_manager_linux.go:318 cpu_manager.go:235
cpu_manager.go:236 cpu_manager.go:440 desired_state_of_world_populator.go:146
desired_state_of_world_populator.go:154 eviction_manager.go:194 file.go:67 flags.go:64
fs_resource_analyzer.go:69 generic.go:413 handler.go:111 handler.go:119 handler.go:175
handler.go:94 kubelet.go:1002 kubelet.go:1029 kubelet.go:1705 kubelet.go:1888 kubelet.go:1898
kubelet.go:2622 kubelet.go:2709 kubelet.go:2737 kubelet.go:2826 kubelet.go:3499 kubelet.go:386
kubelet.go:491 kubelet_network_linux.go:53 kubelet_node_status.go:346 kubelet_node_status.go:639
kuberuntime_container.go:909 kuberuntime_manager.go:1374 kuberuntime_manager.go:308
manager.go:1211 manager.go:145 manager.go:242 manager.go:254 manager.go:320 manager.go:421
memory_manager.go:190 memory_manager.go:384 oom_linux.go:81 plugin_manager.go:119
plugin_manager.go:121 plugin_watcher.go:53 pod_container_deletor.go:53
pod_container_deletor.go:80 policy.go:79 policy.go:93 policy_none.go:44 policy_none.go:50
predicate.go:194 preemption.go:104 preemption.go:127 prober.go:122 prober.go:173 ratelimit.go:56
reconciler.go:29 reconstruct.go:97 scope.go:122 scope_container.go:101 scope_container.go:57
scope_container.go:69 scope_container.go:93 server.go:1257 server.go:1285 server.go:1425
server.go:161 server.go:193 server.go:231 server.go:264 server.go:354 server.go:545
server.go:547 server.go:598 server.go:709 server.go:74 server.go:808 server.go:869 server.go:87
server.go:932 server_v1.go:49 setters.go:268 state_mem.go:161 state_mem.go:40 state_mem.go:43
state_mem.go:45 status_manager.go:273 status_manager.go:939 topology_hints.go:250
topology_hints.go:73 topology_manager.go:181 util.go:34 util.go:52 volume_host.go:76
volume_manager.go:308 volume_manager.go:310 volume_manager.go:316 watchdog_linux.go:137
watchdog_linux.go:94
"""
_B_3 = """
event.go:389 eviction_manager.go:256 eviction_manager.go:292 eviction_manager.go:371 file.go:200
helpers.go:977 kubelet.go:2494 kubelet.go:3552 kubelet.go:3573 kubelet_pods.go:1237
kubelet_pods.go:1287 kubelet_pods.go:1291 kubelet_pods.go:1296 kubelet_pods.go:1308
kubelet_pods.go:1319 kubelet_pods.go:1461 kubelet_pods.go:1893 kubelet_pods.go:280
kubelet_pods.go:2877 kuberuntime_container.go:888 kuberuntime_container.go:918
kuberuntime_manager.go:1310 kuberuntime_manager.go:1454 kuberuntime_manager.go:1488
kuberuntime_manager.go:1922 kuberuntime_manager.go:1934 manager.go:617 manager.go:854
oom_linux.go:74 pod_workers.go:969 pod_workers.go:991 prober.go:113 state_mem.go:114
state_mem.go:154 status_manager.go:972 volume_manager.go:480 volume_manager.go:508 worker.go:240
"""

LOGGED_AT: dict[str, dict[int, frozenset[bytes]]] = {
    "node-a": {2: frozenset(_A_2.encode().split()), 3: frozenset(_A_3.encode().split())},
    "node-b": {2: frozenset(_B_2.encode().split()), 3: frozenset(_B_3.encode().split())},
}
"""Recording -> verbosity (2: up to it) -> ``file.go:line`` of the calls that log there."""
