"""Follows what starts containers and ends them, and what that does to their back-off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeledger.kuberuntime.backoff import BackOffPolicy
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    PodTerminated,
    ReasonReported,
)
from kubeledger.machine import Body, Record
from kubeledger.node.records import ClockStepped, KubeletStarted
from kubeledger.node.state import NodeState
from kubeledger.prober.records import ProbeTransitioned
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import RuleVerifier
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.back_off import BackOff, policy_of
from kubeledger.verify.rules.causes import Causes, corrected
from kubeledger.verify.rules.containers import (
    Container,
    Containers,
    Instance,
    key_for,
)
from kubeledger.verify.rules.restart_policy import reason_meant
from kubeledger.verify.verifier import See

__all__ = ["Starts"]

_PAUSE_NS: Final = 5 * NS_PER_S
"""After a pause so long it is asked whether probes that had to be made are missing."""
_SILENCE_NS: Final = 300 * NS_PER_S
"""No log with containers that are restarted is silent for so long."""
_RETRY_NS: Final = 5 * NS_PER_S
"""A kill that is tried again later is of another instance."""
_SYNC_KILLS: Final = frozenset({"liveness_probe", "startup_probe", "spec_changed"})
"""A sync that kills for these starts the container again itself."""
_HOOK: Final = "post_start_hook"
"""The start has failed with it: the next sync tries again."""
_QUIET: Final = frozenset({"Unhealthy", "ProbeWarning", "FailedPreStopHook"})
"""Warnings about a container that are no failed start."""
_OF_CREATED: Final = frozenset({"Failed", "FailedPostStartHook"})
"""Warnings that may be about an instance that was created, and counted then."""


class Starts(RuleVerifier):
    """What a rule of restarts knows of instances and back-off entries; it judges nothing."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._containers = Containers()
        self._containers.on_start = self._start
        self._containers.on_name = self._named
        self._back_offs: dict[tuple[str, str], BackOff] = {}
        self._causes = Causes(bench)
        self._seen_ns = 0

    def sees(self) -> Mapping[type[Body], See]:
        """All that starts a container, ends it, or changes what it is."""
        return {
            KubeletStarted: self._kubelet_started,
            ClockStepped: self._clock_stepped,
            PodConfigChanged: self._config_changed,
            PodListed: self._pod_listed,
            PodTerminated: self._terminated,
            ContainerStarted: self._container_started,
            ContainerDied: self._container_died,
            ContainerKilled: self._killed,
            ReasonReported: self._reported,
            ProbeTransitioned: self._causes.see,
        }

    def _back_off(self, container: Container) -> BackOff:
        name = container.key, container.name
        found = self._back_offs.get(name)
        if found is None:
            found = self._back_offs[name] = BackOff(container.name)
            if container.is_first:
                found.reset()
        return found

    def _pass_time(self, record: Record) -> None:
        now_ns, seen_ns = record.ts_ns, self._seen_ns
        if seen_ns and now_ns > seen_ns:
            pause_ns = now_ns - seen_ns
            untold = self.bench.coverage.hole(seen_ns, now_ns) is not None
            if pause_ns > _PAUSE_NS and not untold:
                untold = self.bench.cached_results.hole(seen_ns, now_ns)
            if untold or pause_ns > _SILENCE_NS:
                self._lose()
        self._seen_ns = now_ns

    def _lose(self) -> None:
        """Lines are missing: starts may have been among them."""
        self._containers.lose()
        for back_off in self._back_offs.values():
            back_off.lose()

    # -- the kubelet and its pods ------------------------------------------------------------

    def _kubelet_started(self, record: Record, body: KubeletStarted, state: NodeState) -> None:
        known = state.kubelet
        if body.restart or known.started_ts_ns is None or body.pid not in {None, known.pid}:
            self._containers.kubelet_started()
            self._back_offs.clear()  # they were in the memory of the process before
        self._seen_ns = record.ts_ns

    def _clock_stepped(self, record: Record, body: ClockStepped, state: NodeState) -> None:
        self._lose()

    def _config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        self._pass_time(record)
        key = key_for(state, body)
        if body.operation == "ADD":
            self._containers.pod_added(key)
        for container in self._containers.of_pod(key).values():
            back_off = self._back_off(container)
            if body.operation == "ADD":
                back_off.reset()
            elif body.operation == "UPDATE":
                back_off.failed_start = True
                back_off.may_be_new()

    def _pod_listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        self._pass_time(record)
        if body.gone and body.listed_by == "kubelet":
            self._gone(key_for(state, body))

    def _terminated(self, record: Record, body: PodTerminated, state: NodeState) -> None:
        self._pass_time(record)
        self._gone(key_for(state, body))

    def _gone(self, key: str) -> None:
        for name in self._containers.of_pod(key):
            self._back_offs.pop((key, name), None)
        self._containers.pod_gone(key)

    # -- containers --------------------------------------------------------------------------

    def _container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        self._pass_time(record)
        self._containers.started(record, body, key_for(state, body))

    def _container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        self._pass_time(record)
        self._containers.died(record, body, key_for(state, body))
        self._causes.see(record, body)

    def _killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        self._pass_time(record)
        known = self._containers.find(key_for(state, body), body.container)
        if known is None or known.find(body.container_id) is None:
            body = corrected(body, self._causes.judge(record, body))
        self._causes.see(record, body)
        if body.container is None:
            return
        container = self._containers.get(key_for(state, body), body.container)
        back_off, newest = self._back_off(container), container.at(0)
        runs = newest is not None and newest.container_id is not None and not newest.has_ended
        if runs and container.find(body.container_id) is None and (
            not self.bench.instances.knows(body.container_id)
        ):  # fmt: skip
            return  # an ID that nothing else tells, while another one runs
        killed = self._containers.show(record, container, body.container_id)
        if killed.first_killed_ns is None:
            killed.first_killed_ns = record.ts_ns
            back_off.held_back = container.was_inherited = False
        elif killed.first_killed_ns + _RETRY_NS < record.ts_ns:
            back_off.lose()  # its successor was not seen to start
        killed.killed_ns, killed.killed_seq = record.ts_ns, record.seq
        reasons = (body.reason, reason_meant(body.message))
        killed.reasons = tuple(
            dict.fromkeys((*killed.reasons, *(reason for reason in reasons if reason)))
        )
        if "spec_changed" in killed.reasons:
            back_off.reset()  # another definition has no entry yet
            back_off.failed_start = False

    def _reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        key, name = key_for(state, body), body.container
        if body.object_kind != "Pod":
            return
        if body.reason == "Created" and name is not None:
            # Lists tell only the last of several; words of another event are no creation.
            is_line = any(piece.line is not None for piece in record.evidence)
            if is_line and "created" in body.message.lower():
                self._containers.created(record, key, name)
            return
        is_back_off = "restarting failed container" in body.message
        if body.type != "Warning" or body.reason in _QUIET or is_back_off:
            return
        for container in self._containers.of_pod(key).values():
            newest = container.at(0)
            created = newest is not None and newest.created_ns is not None
            if name is None or (name == container.name
                                and not (created and body.reason in _OF_CREATED)):  # fmt: skip
                self._back_off(container).failed_start = True

    def _named(self, container: Container, instance: Instance) -> None:
        """The ID of the newest instance: lists may tell of instances before it."""
        listed = self.bench.instances.count(instance.container_id)
        if container.is_first and listed is not None and listed >= container.shown:
            container.is_first = False
            self._back_off(container).lose()
        instance.count = listed

    # -- starts ------------------------------------------------------------------------------

    def _start(self, container: Container, record: Record, is_event: bool) -> None:
        """Another instance starts: was it too early, and does it raise the entry?"""
        back_off, before = self._back_off(container), container.at(0)
        if before is not None and not before.is_told and container.at(1) is not None:
            back_off.lose()  # the line about its start is missing
        if before is None and not back_off.is_none() and not is_event:
            # Told before any instance was seen: this start may have raised it.
            back_off.lose()
        back_off.pass_time(record.ts_ns)
        policy = policy_of(self.bench)
        in_sync = self._in_sync(container, back_off)
        looked_at = container.at(1) if in_sync else before
        back_off.early = ()
        if looked_at is not None and (in_sync is False or (in_sync and self._keeps_dead())):
            back_off.early = back_off.too_early(record.ts_ns, looked_at.ended_from_ns)
        raises: bool | None = True if in_sync is False or self._keeps_dead() else None
        untold = container.was_inherited and not is_event
        if in_sync is None or (untold and self._containers.is_first_relist(record.ts_ns)):
            raises = None
        if before is None:
            raises = False
            if not container.is_first:
                back_off.lose()
        elif in_sync and container.at(1) is None:
            raises = False if container.is_first else None
        if back_off.failed_start and isinstance(policy, BackOffPolicy):
            back_off.may_have_risen(policy, back_off.failures)
        back_off.start(policy, record.ts_ns, raises=raises)

    def _in_sync(self, container: Container, back_off: BackOff) -> bool | None:
        """Whether the sync that killed the newest instance starts the next; None: not known."""
        before = container.at(0)
        killed = before is not None and before.killed_ns is not None
        if before is None or not killed or back_off.held_back or container.was_inherited:
            return False
        if set(before.reasons) == {_HOOK}:
            return False
        if back_off.failed_start or not _SYNC_KILLS.intersection(before.reasons):
            return None
        return True

    def _keeps_dead(self) -> bool:
        """Whether the newest dead instance of each container is kept."""
        each = self.bench.settings.get("--maximum-dead-containers-per-container")
        all_ = self.bench.settings.get("--maximum-dead-containers")
        return each != "0" and isinstance(each, str) and all_ == "-1"
