"""A whole node on a virtual clock: the world, kubelet processes, and what a scenario does.

A kubelet's first line comes when its process starts, its settings 100 ms later, the node
object after 300 ms, and its loops begin after 800 ms, as on a real machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.allocation.state import State
from kubeledger.kubelet.dra.claiminfo import ClaimInfoCache
from kubeledger.kubelet.kube.pod import GRACE_PERIOD_S
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve, with_gates
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted, Setting, SettingsObserved
from kubeledger.model.bodies.resourcemanagers import CpuStateRefused, MemoryStateRefused
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_MS, NS_PER_S
from kubeledger.simulate.engine.admission import change_spec, sim_pod
from kubeledger.simulate.engine.agent import Agent, node_observed
from kubeledger.simulate.engine.cgroups import CgroupLoop
from kubeledger.simulate.engine.devices import DeviceLoop, SimPlugin
from kubeledger.simulate.engine.eviction import EvictionLoop
from kubeledger.simulate.engine.failures import Failures
from kubeledger.simulate.engine.health import ApiServer, HealthLoop, ShutdownLoop
from kubeledger.simulate.engine.images import ImageLoop
from kubeledger.simulate.engine.journal import Journal
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.machine import Machine, machine_of
from kubeledger.simulate.engine.memory import Memory
from kubeledger.simulate.engine.plan import (
    DiskChange,
    ImageArrival,
    KubeletRestart,
    Plan,
    PlannedPod,
    PlannedUpdate,
)
from kubeledger.simulate.engine.pods import PodLoop
from kubeledger.simulate.engine.probes import ProbeLoop
from kubeledger.simulate.engine.resizes import ResizeLoop
from kubeledger.simulate.engine.resource_managers import ClaimLoop, CpuLoop, NumaMemoryLoop
from kubeledger.simulate.engine.runtime import Runtime
from kubeledger.simulate.engine.schedule import Draws, Schedule
from kubeledger.simulate.engine.world import DeviceCheckpoint, Disk, SimPod, World

_SETTINGS_NS, _NODE_NS, _LOOPS_NS = 100 * NS_PER_MS, 300 * NS_PER_MS, 800 * NS_PER_MS
_FIRST_PID = 1000
_HOUSEKEEPING_NS = 2 * NS_PER_S
_GROWTH_NS = 60 * NS_PER_S
_GROWTHS_PER_HOUR = 60
_FLAGS = {"--maximum-dead-containers": "-1", "--maximum-dead-containers-per-container": "1"}
"""Flags without a field in the configuration that bear on what a kubelet decides."""


class Sim:
    """One run of a plan.

    Attributes:
        failures, api_server: what outside of the kubelet fails, and what that keeps from it.
        checkpoint: the device manager's file; None before the first write.
        cpu_manager_state, memory_manager_state: text of these managers' files; None: there is none.
        offered: UID -> pod that a config source has, whether or not a kubelet knows of it.
        newest_kubelet: the last process that was started, perhaps not alive any more.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.schedule = Schedule(plan.start_ns)
        self.journal = Journal(plan.node.name, lambda: self.schedule.now_ns)
        self.draws = Draws(plan.seed, "sim")
        self._use(plan.kubelet_version, plan.settings)
        self.failures = Failures(plan.failures, plan.start_ns, self.schedule)
        self.world = _world(plan)
        self.runtime = Runtime(self)
        self.memory = Memory(self)
        self.plugins = tuple(SimPlugin(self, script) for script in plan.plugins)
        self.checkpoint: DeviceCheckpoint | None = None
        self.cpu_manager_state: str | None = None
        self.memory_manager_state: str | None = None
        self.allocated = State()
        self.claims = ClaimInfoCache()
        self.offered: dict[str, SimPod] = {}
        self.agent = Agent(self)
        self.api_server = ApiServer(self)
        self._loops_run = False
        self._run = -1

    def run(self) -> Iterator[Record]:
        """Everything that the node writes down, in order; can be called once."""
        plan = self.plan
        for image in plan.images:
            if not image.at_ns:  # in the store before a kubelet looks for its sandbox image
                self._add_image(image)
        self._start_kubelet()
        for index, planned in enumerate(plan.pods):
            from_source = self._from_source(planned)
            from_source(planned.arrives_ns, partial(self._arrive, index, planned))
            if planned.deleted_ns is not None:
                from_source(planned.deleted_ns, partial(self._delete, planned))
            for update in planned.updates:
                from_source(update.at_ns, partial(self._change, update))
        for image in plan.images:
            if image.at_ns:
                self._at(image.at_ns, partial(self._add_image, image))
        for change in plan.disk_changes:
            self._at(change.at_ns, partial(self._change_disk, change))
        for restart in plan.kubelet_restarts:
            self._at(restart.at_ns, partial(self._stop, restart))
        if plan.shutdown_ns is not None:
            self._at(plan.shutdown_ns, self._shut_down)
        self.agent.start()
        end_ns = plan.start_ns + plan.duration_ns
        while self.schedule.run_next(end_ns):
            yield from self.journal.take()
        if self.newest_kubelet.alive and self._loops_run:
            self.newest_kubelet.probes.flush()
            self.newest_kubelet.told.end()
        yield from self.journal.take()

    def setting(self, name: str) -> Any:  # noqa: ANN401 # any JSON value
        """The value of a setting; None for one that is not set."""
        return self.settings.get(name)

    def running_kubelet(self) -> Kubelet | None:
        """The kubelet, if its loops run."""
        return self.newest_kubelet if self.newest_kubelet.alive and self._loops_run else None

    # -- kubelet processes -----------------------------------------------------------------

    def _use(self, version: str, settings: dict[str, Any]) -> None:
        self._version = version
        flags = {**_FLAGS, "--hostname-override": self.plan.node.name}
        self.settings: dict[str, Any] = {**flags, **settings}
        gates = self.settings.get("featureGates")
        self.profile: KubeletProfile = with_gates(
            resolve(version), gates if isinstance(gates, dict) else None
        )
        self.machine: Machine = machine_of(self.plan.node, self.settings, self.profile)

    def _start_kubelet(self, cause: int | None = None) -> None:
        self._run += 1
        kubelet = self.newest_kubelet = Kubelet(self, self._run)
        self.journal.write(
            KubeletStarted(
                pid=_FIRST_PID + self._run,
                kubelet_version=self._version,
                version_source="option",
                restart=self._run > 0,
            ),
            cause=cause,
        )
        kubelet.devices, kubelet.cpus = DeviceLoop(kubelet), CpuLoop(kubelet)
        kubelet.numa_memory = NumaMemoryLoop(kubelet)
        kubelet.pods = PodLoop(kubelet)
        kubelet.probes, kubelet.images = ProbeLoop(kubelet), ImageLoop(kubelet)
        kubelet.cgroups, kubelet.eviction = CgroupLoop(kubelet), EvictionLoop(kubelet)
        kubelet.health, kubelet.shutdown = HealthLoop(kubelet), ShutdownLoop(kubelet)
        kubelet.resizes, kubelet.claims = ResizeLoop(kubelet), ClaimLoop(kubelet)
        kubelet.after(_SETTINGS_NS, self._record_settings)
        kubelet.after(_NODE_NS, lambda: self._record_node(kubelet))
        kubelet.after(_LOOPS_NS, lambda: self._start_loops(kubelet))

    def _record_settings(self) -> None:
        used = {
            name: Setting(
                value=msgspec.json.encode(value, order="deterministic").decode(),
                source=self._source_of(name),
            )
            for name, value in sorted(self.settings.items())
        }
        self.journal.write(SettingsObserved(settings=used))

    def _source_of(self, name: str) -> Literal["flag", "config", "default"]:
        if name.startswith("--"):
            return "flag"
        return "config" if name in self.plan.given_settings else "default"

    def _record_node(self, kubelet: Kubelet) -> None:
        body = node_observed(self, kubelet)
        self.journal.write(body)
        self.agent.node_seen(body, kubelet)

    def _start_loops(self, kubelet: Kubelet) -> None:
        self._loops_run = True
        kubelet.images.start()
        kubelet.cgroups.start()
        refused: type[CpuStateRefused | MemoryStateRefused]
        manager, refused = "cpu", CpuStateRefused
        try:
            kubelet.cpus.start()
            manager, refused = "memory", MemoryStateRefused
            kubelet.numa_memory.start()
        except ValueError as error:
            self._give_up(refused(error=str(error)), manager)
            return
        for loop in (kubelet.devices, kubelet.eviction, kubelet.health, kubelet.resizes):
            loop.start()
        kubelet.claims.start()
        kubelet.pods.start()

    def _give_up(self, refused: CpuStateRefused | MemoryStateRefused, manager: str) -> None:
        """A manager does not start: neither does the kubelet.

        Source: v1.36.2 pkg/kubelet/kubelet.go initializeRuntimeDependentModules
        """
        cause = self.journal.write(refused)
        error = f"start {manager} manager error: {refused.error}"
        self._write_exit(f"Failed to start ContainerManager: {error}", cause)
        self.newest_kubelet.stop()
        self._loops_run = False

    def _write_exit(self, message: str, cause: int | None = None) -> int:
        body = KubeletExited(pid=_FIRST_PID + self._run, reason="error", message=message)
        return self.journal.write(body, cause=cause)

    def _stop(self, restart: KubeletRestart) -> None:
        self.newest_kubelet.stop()
        self._loops_run = False
        cause = self._write_exit(restart.error) if restart.error else None
        self.schedule.after(restart.down_ns, partial(self._start_again, restart, cause))

    def _start_again(self, restart: KubeletRestart, cause: int | None) -> None:
        settings = self.settings if restart.settings is None else restart.settings
        self._use(restart.kubelet_version or self._version, settings)
        self._start_kubelet(cause)

    def _shut_down(self) -> None:
        kubelet = self.running_kubelet()
        if kubelet is not None:
            kubelet.shutdown.begin()

    # -- what a scenario does --------------------------------------------------------------

    def _at(self, since_start_ns: int, action: Callable[[], None]) -> None:
        self.schedule.at(self.plan.start_ns + since_start_ns, action)

    def _from_source(self, planned: PlannedPod) -> Callable[[int, Callable[[], None]], None]:
        """When what a pod's source does is done: the API server's waits while that is gone."""
        if planned.source == "file":
            return self._at
        wait = self.api_server.when_there
        return lambda at_ns, action: self._at(at_ns, lambda: wait(action))

    def _arrive(self, index: int, planned: PlannedPod) -> None:
        if planned.manifest["metadata"]["uid"] in self.world.pods:
            # The same static pod again: it waits until the one before is gone.
            self.schedule.after(_HOUSEKEEPING_NS, partial(self._arrive, index, planned))
            return
        pod = sim_pod(planned, index, self.schedule.now_ns, self.profile)
        self.offered[pod.uid] = pod
        self._ask_for_memory(pod, planned)
        self.with_pods(lambda pods: pods.arrive(pod))

    def _ask_for_memory(self, pod: SimPod, planned: PlannedPod) -> None:
        """What a container uses changes at times that its script has."""
        since_ns = self.schedule.now_ns - self.plan.start_ns
        times = {u.from_ns for script in planned.scripts.values() for u in script.usage}
        for from_ns in sorted(times):
            if from_ns > since_ns:
                self._at(from_ns, lambda: self.memory.ask(pod))

    def _delete(self, planned: PlannedPod) -> None:
        pod = self.offered.get(planned.manifest["metadata"]["uid"])
        if pod is None:
            return
        pod.deleting = True
        if pod.source == "api":
            grace_s = pod.spec.get("terminationGracePeriodSeconds", GRACE_PERIOD_S)
            pod.deletion_ns = self.schedule.now_ns + grace_s * NS_PER_S
        if pod.source == "file" and self.running_kubelet() is None:
            self.offered.pop(pod.uid)  # the next kubelet finds an orphan
        self.with_pods(lambda pods: pods.delete(pod))

    def _change(self, update: PlannedUpdate) -> None:
        pod = self.offered.get(update.manifest["metadata"]["uid"])
        if pod is not None and not pod.deleting:
            change_spec(pod, update.manifest)
            self.with_pods(lambda pods: pods.update(pod))

    def with_pods(self, action: Callable[[PodLoop], None]) -> None:
        """Do something with the pods of the kubelet that runs, if there is one."""
        kubelet = self.running_kubelet()
        if kubelet is not None:
            action(kubelet.pods)

    def _add_image(self, image: ImageArrival) -> None:
        self.world.images[image.name] = image

    def _change_disk(self, change: DiskChange) -> None:
        disk = self.world.image_fs() if change.disk == "image" else self.world.disk
        disk.base_bytes = max(disk.base_bytes + change.bytes, 0)

        def grow() -> None:
            disk.base_bytes += change.bytes_per_hour // _GROWTHS_PER_HOUR

        if change.bytes_per_hour:
            self.schedule.every(_GROWTH_NS, grow)


def _world(plan: Plan) -> World:
    node = plan.node
    image_disk = None
    if node.image_disk_bytes is not None:
        image_disk = Disk(
            capacity_bytes=node.image_disk_bytes, base_bytes=node.image_disk_used_bytes
        )
    disk = Disk(capacity_bytes=node.disk_bytes, base_bytes=node.disk_used_bytes)
    return World(disk=disk, image_disk=image_disk)
