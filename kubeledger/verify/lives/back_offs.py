"""The back-off of containers, raised by each start that follows an exited instance."""

from __future__ import annotations

from kubeledger.kuberuntime.backoff import BackOffPolicy, back_off_policy
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives import waits
from kubeledger.verify.lives.life import Instance, Life

__all__ = ["BackOffs"]

_SYNC_KILLS = frozenset({"liveness_probe", "startup_probe", "spec_changed"})
"""A sync that kills for these starts the container again itself."""
_FAILED_START = frozenset({"post_start_hook"})
"""The start has failed with it: the next sync tries again."""
_LATE_NS = 2 * NS_PER_S
"""An event may be told so long after what it is about."""
_MARGIN_NS = NS_PER_S // 2


class BackOffs:
    """Follows the back-off entries of one kubelet by what starts and attempts tell."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def policy(self) -> BackOffPolicy | str:
        """The kubelet's first and greatest back-off, or what is missing to know them."""
        profile = self._bench.profile
        if profile is None:
            return self._bench.missing_profile
        facts = profile.kuberuntime
        gates = self._bench.settings.get("featureGates")
        if not isinstance(gates, dict):
            if facts.restart_max_gate:
                return "the feature gates"
            gates = {}
        setting = self._bench.settings.get("crashLoopBackOff")
        configured = setting.get("maxContainerRestartPeriod") if isinstance(setting, dict) else None
        try:
            found = back_off_policy(
                facts, gates, configured if isinstance(configured, str) else None
            )
        except ValueError:
            found = None
        return found or "crashLoopBackOff.maxContainerRestartPeriod"

    def in_sync(self, life: Life, before: Instance) -> bool | None:
        """Whether the sync that killed the instance started the next; None: not known."""
        if before.killed_ns is None or life.held_back or life.in_other_process:
            return False
        if before.reasons and _FAILED_START.issuperset(before.reasons):
            return False
        if life.failed_start or not any(reason in _SYNC_KILLS for reason in before.reasons):
            return None
        return True

    def _keeps_dead(self) -> bool:
        """Whether the newest dead instance of each container is kept."""
        each = self._bench.settings.get("--maximum-dead-containers-per-container")
        all_ = self._bench.settings.get("--maximum-dead-containers")
        return each != "0" and isinstance(each, str) and all_ == "-1"

    def too_early(
        self, record: Record, life: Life, before: Instance | None, earlier: Instance | None
    ) -> str | None:
        """Why a start that follows these instances came before its back-off was over."""
        values = life.entry.at(record.ts_ns)
        in_sync = None if before is None else self.in_sync(life, before)
        if values is None or before is None or in_sync is None:
            return None
        looked_at = earlier if in_sync else before
        if looked_at is None or (in_sync and not self._keeps_dead()):
            return None
        return waits.too_early(record.ts_ns + _MARGIN_NS, looked_at, values)

    def started(self, life: Life, record: Record) -> None:
        """The start that was judged raised the entry, if there was an exited instance."""
        newest = life.newest
        if newest is not None and newest.counted:
            return  # what came since knew of it
        if newest is not None:
            newest.counted = True
        self._raise(life, record, life.before, life.earlier)

    def _raise(
        self, life: Life, record: Record, before: Instance | None, earlier: Instance | None
    ) -> None:
        """A start that follows these instances."""
        policy = self.policy()
        if before is None and life.newest is None and life.is_first:
            pass  # the first of all: there is no exited instance
        elif isinstance(policy, str) or before is None:
            life.entry.values = None
        else:
            in_sync = self.in_sync(life, before)
            if life.failed_start:
                life.entry.may_have_risen(policy)
            if in_sync and earlier is None:
                if not life.is_first:
                    life.entry.raise_(policy, record.ts_ns, surely=False)
            else:
                surely = in_sync is False or (in_sync is True and self._keeps_dead())
                life.entry.raise_(policy, record.ts_ns, surely=surely)
        life.held_back = life.in_other_process = life.failed_start = False

    def created(self, record: Record, life: Life) -> None:
        """A start is tried: the event tells of it before, or without, the instance."""
        newest = life.newest
        if (
            newest is not None
            and newest.created_ns is None
            and newest.started_ns is not None
            and record.ts_ns - newest.started_ns < _LATE_NS
        ):
            newest.created_ns = 0  # told late: it was before that, nobody knows when
            return
        if life.attempt_ns is not None:
            life.start(Instance(None, unseen=True))
        life.too_early = self.too_early(record, life, life.newest, life.before)
        self._raise(life, record, life.newest, life.before)
        life.attempt_ns = record.ts_ns
