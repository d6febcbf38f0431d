"""What a node's records tell, as far as something may have gone wrong: by kind, as episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from kubeledger.model.bodies import eviction, images, ledger, lifecycle, node, prober
from kubeledger.model.record import Body, Record
from kubeledger.replay.episodes import node_conditions, pod_stages, safety

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History

Row = Mapping[str, Any]
"""Something that went wrong once: ``seq`` and ``ts_ns``, and what is said of it."""

_Body = TypeVar("_Body", bound=Body)


_KEPT: Mapping[type[Body], Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            eviction.OutOfMemory, eviction.PodPreempted, eviction.PodSpared,
            eviction.ProcessKilled, eviction.ReclaimAttempted, images.GarbageCollected,
            images.GarbageCollectionStarted, images.ImageDeleted, ledger.FindingReported,
            ledger.LinesNotUnderstood, lifecycle.ContainerDied, lifecycle.ContainerKilled,
            lifecycle.ContainerStarted, lifecycle.PodEvicted, lifecycle.PodRejected,
            lifecycle.PodResized, lifecycle.PodTerminating, lifecycle.RestartBackedOff,
            node.ClockStepped, node.ErrorsLogged, node.KubeletExited, node.KubeletStarted,
            node.LogThinned, node.ShutdownProgressed, prober.ProbeTransitioned,
        ),
        lambda _: True,
    ),
    lifecycle.KubernetesEvent: lambda body: body.type == "Warning" or body.object_kind == "Node",
    lifecycle.PodListed: lambda body: (body.status or {}).get("phase") == "Failed",
}  # fmt: skip
"""Body -> whether one of them counts."""
_EPISODES = pod_stages.KINDS | node_conditions.KINDS | safety.KINDS
KINDS = frozenset(body.kind for body in _KEPT) | _EPISODES


def whole_us(ts_ns: int) -> int:
    """A time in nanoseconds, cut to microseconds as the views have it."""
    return ts_ns // 1000 * 1000


class Told:
    """What the records of a node tell; :func:`told_by` reads them.

    Attributes:
        latest_ns: the time of the last of all its records.
    """

    def __init__(self, latest_ns: int) -> None:
        self.latest_ns = latest_ns
        self._records: dict[type[Body], list[Record]] = {}
        self._stages = pod_stages.PodStages()
        self._conditions = node_conditions.NodeConditions()
        self._safety = safety.Safety()
        self._violations: list[safety.ViolationEpisode] = []
        self._takers = (
            (pod_stages.KINDS, self._stages.take),
            (node_conditions.KINDS, self._conditions.take),
            (safety.KINDS, self._check),
        )

    def take(self, record: Record) -> None:
        """One more record of ``KINDS``, in the order of replay."""
        for kinds, take in self._takers:
            if record.kind in kinds:
                take(record)
        counts = _KEPT.get(type(record.body))
        if counts is not None and counts(record.body):
            self._records.setdefault(type(record.body), []).append(record)

    def _check(self, record: Record) -> None:
        self._violations += self._safety.take(record)

    def of(self, *bodies: type[Body]) -> list[Record]:
        """Its records of these, in the order of their numbers."""
        assert _KEPT.keys() >= {*bodies}, "a kind that is not kept"
        found = (self._records.get(body, ()) for body in bodies)
        return sorted(chain.from_iterable(found), key=lambda record: record.seq)

    def bodies(self, body: type[_Body]) -> Iterator[tuple[Record, _Body]]:
        """Records of one kind, and what they say."""
        for record in self.of(body):
            assert isinstance(record.body, body)
            yield record, record.body

    @cached_property
    def stages(self) -> list[pod_stages.StageEpisode]:
        """As the view ``pod_stages``."""
        return self._stages.episodes()

    @cached_property
    def conditions(self) -> list[node_conditions.ConditionEpisode]:
        """As the view ``node_conditions``."""
        return self._conditions.conditions()

    @cached_property
    def troubles(self) -> list[node_conditions.TroubleEpisode]:
        """As the view ``node_troubles``."""
        return self._conditions.troubles()

    @cached_property
    def violations(self) -> list[safety.ViolationEpisode]:
        """As the view ``violations``."""
        return self._violations

    def within(self, shows: Callable[[Any], bool]) -> Told:
        """The part of it that ``shows`` a record or an episode."""
        part = Told(self.latest_ns)
        part._records = {
            body: [r for r in each if shows(r)] for body, each in self._records.items()
        }
        for name in ("stages", "conditions", "troubles", "violations"):
            setattr(part, name, [each for each in getattr(self, name) if shows(each)])
        return part


def told_by(history: History) -> Told:
    """Read the records of a node.

    Raises:
        KubeledgerError: they cannot be read.
    """
    told = Told(history.span()[1])
    for record in history.read(KINDS):
        told.take(record)
    return told


def lines_cut(told: Told) -> int:
    """How many lines of its log lack their end."""
    return sum(body.lines_cut for _, body in told.bodies(node.LogThinned))
