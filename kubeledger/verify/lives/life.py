"""The instances of one container, and the back-off entry that the kubelet keeps for it."""

from __future__ import annotations

import msgspec

from kubeledger.kuberuntime.backoff import (
    EXPIRES_AFTER_NS,
    BackOffPolicy,
    next_back_off,
    series,
)
from kubeledger.lifecycle.records import ContainerDied, ContainerStarted
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S

__all__ = ["Entry", "Instance", "Life", "Lives"]

_FORGOTTEN_PERHAPS_NS = EXPIRES_AFTER_NS - 10 * NS_PER_S
_FORGOTTEN_SURELY_NS = EXPIRES_AFTER_NS + 120 * NS_PER_S
"""Housekeeping drops old entries every two seconds, unless something holds it up."""
_RELIST_NS = NS_PER_S


class Instance(msgspec.Struct):
    """One run of a container.

    Attributes:
        container_id: bare.
        started_ns, died_ns: as the records tell, which is up to a relist later; None: not known.
        killed_ns: when the kubelet decided to kill it.
        reasons: words that a restart after it may give for its end; empty: not known.
        killed_seq, died_seq, started_seq: their records.
        exit_code: None when not known.
        oom: it died of a kill by the kernel.
        counted: its start has raised the back-off, or must not any more.
        created_ns: when the event told of its creation; None where none did.
        unseen: it was created, and ended before anything else showed it.
    """

    container_id: str | None
    started_ns: int | None = None
    started_seq: int | None = None
    killed_ns: int | None = None
    killed_seq: int | None = None
    reasons: tuple[str, ...] = ()
    died_ns: int | None = None
    died_seq: int | None = None
    exit_code: int | None = None
    oom: bool = False
    counted: bool = False
    created_ns: int | None = None
    unseen: bool = False

    def die(self, record: Record, exit_code: int | None, *, by_itself: bool) -> None:
        """It was seen to have ended; told again, nothing changes.

        ``by_itself``: had it been killed, that would have been seen.
        """
        if self.died_ns is None:
            self.died_ns, self.died_seq, self.exit_code = record.ts_ns, record.seq, exit_code
            # A death follows from a kill: by the kubelet, or else by the kernel.
            self.oom = record.cause is not None and self.killed_ns is None
            if by_itself and not self.reasons:
                self.reasons = ("exited",)

    @property
    def has_ended(self) -> bool:
        """Whether it was killed or died."""
        return self.killed_ns is not None or self.died_ns is not None or self.unseen

    @property
    def ended_from_ns(self) -> int | None:
        """It ended no earlier; None: not known.

        Start and end come out of different relists. Told closer together, they waited for the
        sync loop, and nothing tells for how long.
        """
        killed_ns, died_ns = self.killed_ns, self.died_ns
        found_dead = killed_ns is not None and died_ns is not None and died_ns < killed_ns
        if self.killed_ns is not None and not found_dead:
            return self.killed_ns
        told_at_once = (
            self.started_ns is not None
            and self.died_ns is not None
            and self.died_ns - self.started_ns < _RELIST_NS
        )
        return self.created_ns if told_at_once or self.started_ns is None else self.started_ns


class Entry(msgspec.Struct):
    """What the back-off entry may hold.

    Attributes:
        values: (n,) nanoseconds it may be, 0 for no entry; None when nothing is known.
        raised_ns: when it was last raised; None: not known.
        raises: how often since there was none; None when not known. ``first_ns``: when first.
        is_ahead: it was told, so it may count a start already that is yet to be seen.
    """

    values: tuple[int, ...] | None = None
    raised_ns: int | None = None
    raises: int | None = None
    first_ns: int | None = None
    is_ahead: bool = False

    def at(self, now_ns: int) -> tuple[int, ...] | None:
        """What it may be then: one that is old enough is forgotten."""
        if self.values is None or self.raised_ns is None:
            return self.values
        age_ns = now_ns - self.raised_ns
        if age_ns <= _FORGOTTEN_PERHAPS_NS:
            return self.values
        return (0,) if age_ns > _FORGOTTEN_SURELY_NS else _union((0,), self.values)

    def raise_(self, policy: BackOffPolicy, now_ns: int, *, surely: bool) -> None:
        """One more start that follows an exited instance; or perhaps none did."""
        values = self.at(now_ns)
        surely, self.is_ahead = surely and not self.is_ahead, False
        if values is None:
            self.raised_ns, self.raises = now_ns, None
            return
        self._count(now_ns, is_first=values == (0,), surely=surely)
        raised = tuple(next_back_off(policy, value) for value in values)
        self.values = _union(raised) if surely else _union(values, raised)
        self.raised_ns = now_ns

    def _count(self, now_ns: int, *, is_first: bool, surely: bool) -> None:
        if not surely:
            self.raises = None
        elif is_first:
            self.raises, self.first_ns = 1, now_ns
        elif self.raises is not None:
            self.raises += 1

    def tell(self, value_ns: int) -> None:
        """A record says what it is, and not how it came to be."""
        self.values, self.raised_ns, self.raises = (value_ns,), None, None
        self.is_ahead = True

    def may_be_new(self) -> None:
        """The container's definition may be another one, of which there is no entry yet."""
        if self.values is not None:
            self.values, self.raises = _union((0,), self.values), None

    def may_have_risen(self, policy: BackOffPolicy) -> None:
        """Starts that failed raised it, nobody knows how often."""
        if self.values is not None:
            self.raises = None
            least = min(self.values)
            self.values = _union(self.values, tuple(v for v in series(policy) if v > least))


class Life(msgspec.Struct):
    """A container over its instances.

    Attributes:
        newest: the newest instance; None before the first.
        before: the one before it, and ``earlier`` the one before that.
        is_first: no instance came before ``earlier``, ``before`` and ``newest``.
        count: restart count of ``newest``; None when not known. ``count_before``: of the one
            before it.
        held_back: a start was held back since the newest instance ended.
        in_other_process: the newest end was seen by another kubelet process.
        failed_start: a start may have failed since the last one that did not.
        is_sure: no record about it since ``newest`` started can be missing.
        early_end: an instance that was seen to have ended before it was seen to run.
        attempt_ns: when an event told that an instance was created that nothing has shown yet;
            None for none.
        too_early: why the newest attempt came before its back-off was over.
    """

    newest: Instance | None = None
    before: Instance | None = None
    earlier: Instance | None = None
    is_first: bool = False
    count: int | None = None
    count_before: int | None = None
    held_back: bool = False
    in_other_process: bool = False
    failed_start: bool = False
    early_end: Instance | None = None
    is_sure: bool = True
    attempt_ns: int | None = None
    too_early: str | None = None
    entry: Entry = msgspec.field(default_factory=Entry)

    @property
    def ids(self) -> set[str | None]:
        """IDs of the instances that are remembered."""
        return {each.container_id for each in (self.newest, self.before, self.earlier) if each}

    def tell_count(self, count: int | None) -> None:
        """The restart count of ``newest``; it may tell of more instances than were seen."""
        self.count = count
        seen = 0 if self.before is None else 1
        if self.earlier is None and count is not None and count > seen:
            self.is_older()

    def is_older(self) -> None:
        """Instances came before those that were seen, so the first of these was a restart, too.

        Whether the kubelet process that knows the pod made it is not known.
        """
        if self.is_first:
            self.is_first, self.entry.values = False, None

    def start(self, instance: Instance) -> None:
        """Another instance runs, or ran: one that ends at once is seen at its end only."""
        self.is_sure = True
        self.count_before, self.count = self.count, None
        early, self.early_end = self.early_end, None
        instance.created_ns, self.attempt_ns = self.attempt_ns, None
        if instance.created_ns is not None:
            instance.counted = True  # what it did to the back-off was done when it was created
        if early is not None and early.container_id == instance.container_id:
            instance.died_ns, instance.died_seq = early.died_ns, early.died_seq
            instance.exit_code, instance.reasons = early.exit_code, early.reasons
        elif early is not None:
            # The start of that one is missing.
            self.entry.values = None
            self.earlier, self.before, self.newest = self.before, self.newest, early
        if self.newest is None and self.entry.values != (0,) and instance.created_ns is None:
            # Its back-off was told before any instance was seen: this start may have raised it.
            self.entry.values = None
        self.earlier, self.before, self.newest = self.before, self.newest, instance


class Lives:
    """The containers of all pods on the node, as starts and ends that were seen tell of them."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Life]] = {}
        self._added: set[str] = set()
        self._sandboxes: dict[str, int] = {}

    def all_of(self, key: str) -> dict[str, Life]:
        """Container -> its life, of one pod."""
        return self._pods.get(key, {})

    def find(self, key: str, container: str | None) -> Life | None:
        """The life of a container that was seen."""
        return self._pods.get(key, {}).get(container or "")

    def of(self, key: str, container: str) -> Life:
        """The life of a container, made when it is seen first."""
        lives = self._pods.setdefault(key, {})
        life = lives.get(container)
        if life is None:
            life = lives[container] = Life(is_first=key in self._added)
            if key in self._added:
                life.entry.values = (0,)
        return life

    def running(self, key: str, container: str | None) -> Instance | None:
        """The newest instance."""
        life = self.find(key, container)
        return None if life is None else life.newest

    def kubelet_started(self) -> None:
        """Back-offs were in the memory of the process before."""
        self._added.clear()
        for lives in self._pods.values():
            for life in lives.values():
                life.entry.values = life.entry.raised_ns = None
                life.in_other_process = True
                life.is_sure = False  # until this process tells of it
                life.held_back = life.failed_start = False

    def pod_added(self, key: str) -> None:
        """The first that a kubelet process knows of a pod; it has no back-off yet."""
        self._added.add(key)
        for life in self.all_of(key).values():
            life.entry.values = (0,)

    def pod_updated(self, key: str) -> None:
        """Another definition may have another back-off."""
        for life in self.all_of(key).values():
            life.failed_start = True
            life.entry.may_be_new()

    def pod_gone(self, key: str) -> None:
        """The pod left the node."""
        self._pods.pop(key, None)
        self._sandboxes.pop(key, None)
        self._added.discard(key)

    def started(self, record: Record, body: ContainerStarted, key: str) -> None:
        """An instance runs; the same one again is nothing new."""
        if body.sandbox:
            self._sandboxes[key] = record.ts_ns
        if body.sandbox or body.container is None:
            return
        life = self.of(key, body.container)
        if life.newest is None or life.newest.container_id != body.container_id:
            life.start(Instance(body.container_id, record.ts_ns, record.seq))
        life.is_sure = True

    def died(self, record: Record, body: ContainerDied, key: str) -> None:
        """An instance ended."""
        if body.container is None and body.sandbox is not True:
            self._ended_unnamed(key)
        if body.container is None or body.sandbox:
            return
        life = self.of(key, body.container)
        if life.attempt_ns is not None and body.container_id not in life.ids:
            life.start(Instance(body.container_id))
        elif life.newest is None:
            life.newest = Instance(body.container_id)
        for instance in (life.newest, life.before):
            if instance is not None and instance.container_id == body.container_id:
                seen = instance.started_ns is not None
                instance.die(record, body.exit_code, by_itself=seen)
                return
        life.early_end = Instance(body.container_id)
        life.early_end.die(record, body.exit_code, by_itself=True)

    def _ended_unnamed(self, key: str) -> None:
        """What ended may have been an instance before those that were seen of any container."""
        self._added.discard(key)
        for life in self.all_of(key).values():
            if life.before is None:
                life.is_older()

    def lose(self) -> None:
        """Records are missing: starts may have been among them."""
        for lives in self._pods.values():
            for life in lives.values():
                life.entry.values = None
                life.is_sure = False

    def remade_since(self, key: str, ts_ns: int) -> bool:
        """Whether the pod got a new sandbox after that."""
        made_ns = self._sandboxes.get(key)
        return made_ns is not None and made_ns > ts_ns


def _union(*groups: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({value for group in groups for value in group}))
