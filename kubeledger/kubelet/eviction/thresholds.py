"""Thresholds: how they follow from the settings, and which of them are met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeVar

import msgspec

from kubeledger.kubelet.eviction.signals import (
    ALLOCATABLE_MEMORY,
    MEMORY,
    DiskLayout,
    SignalObservation,
    is_known,
)
from kubeledger.kubelet.kube.configuration import (
    EvictionThresholdError,
    parse_minimum_reclaim,
    parse_threshold,
)
from kubeledger.kubelet.kube.gotexts import parse_duration
from kubeledger.kubelet.kube.quantity import Format, Quantity, int64_of_float
from kubeledger.kubelet.profile.resolve import KubeletProfile

ThresholdValue = Quantity | float
"""An amount, or a fraction of the capacity in single precision."""

ValueT = TypeVar("ValueT")

_NANOS = 10**9


class ThresholdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that thresholds come from, under the configuration's names: signal -> text.

    Attributes:
        enforce_node_allocatable: levels; ``pods`` adds a threshold for the memory of all pods.
    """

    eviction_hard: Mapping[str, str] = {}
    eviction_soft: Mapping[str, str] = {}
    eviction_soft_grace_period: Mapping[str, str] = {}
    eviction_minimum_reclaim: Mapping[str, str] = {}
    enforce_node_allocatable: tuple[str, ...] = ("pods",)


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold: it is met when less than ``value`` is available.

    Attributes:
        value: amount, or fraction of the capacity.
        minimum: to be reclaimed on top of it before it counts as resolved; None for none.
        grace_ns: how long it must be met before anything follows; 0 makes it a hard one.
        setting: where it was configured.
        taken_from: signal it was configured for, where that is another one; else empty.
    """

    signal: str
    value: ThresholdValue
    minimum: ThresholdValue | None = None
    grace_ns: int = 0
    setting: Literal["evictionHard", "evictionSoft"] = "evictionHard"
    taken_from: str = ""

    @property
    def is_hard(self) -> bool:
        """Whether it acts at once; a soft one without a grace period does, too."""
        return not self.grace_ns


class ThresholdConfigError(EvictionThresholdError):
    """Settings that the kubelet does not start with.

    Attributes:
        texts: (n,) every error it may name: of several wrong entries of one map any comes first.
    """

    def __init__(self, texts: tuple[str, ...]) -> None:
        super().__init__(texts[0])
        self.texts = texts


def parse_threshold_config(
    settings: ThresholdSettings, profile: KubeletProfile
) -> tuple[Threshold, ...]:
    """Hard thresholds, soft ones, then that of all pods' memory.

    Raises:
        ThresholdConfigError: the kubelet refuses the settings.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go ParseThresholdConfig; v1.19
    Differs: in the order of the settings, where the kubelet has the order of a Go map.
    """
    hard = _statements(settings.eviction_hard, profile)
    soft = _statements(settings.eviction_soft, profile)
    graces = _each(settings.eviction_soft_grace_period, _grace_ns, profile)
    minimums = _each(settings.eviction_minimum_reclaim, parse_minimum_reclaim, profile)
    if lacking := [signal for signal in soft if signal not in graces]:
        raise ThresholdConfigError(
            tuple(
                f"grace period must be specified for the soft eviction threshold {signal}"
                for signal in lacking
            )
        )
    found = [
        Threshold(signal=signal, value=value, minimum=minimums.get(signal))
        for signal, value in hard.items()
    ]
    found += [
        Threshold(
            signal=signal,
            value=value,
            minimum=minimums.get(signal),
            grace_ns=graces[signal],
            setting="evictionSoft",
        )
        for signal, value in soft.items()
    ]
    if "pods" in settings.enforce_node_allocatable:
        found += [
            msgspec.structs.replace(t, signal=ALLOCATABLE_MEMORY, taken_from=MEMORY)
            for t in found
            if t.signal == MEMORY and t.is_hard
        ]
    return tuple(found)


def with_container_fs(
    thresholds: tuple[Threshold, ...], layout: DiskLayout
) -> tuple[tuple[Threshold, ...], tuple[Threshold, ...]]:
    """The thresholds of a kubelet that knows containerfs: in its first synchronization, and later.

    The disk of containers has the thresholds of the disk it is part of, whatever was configured
    for it. What was configured is replaced at once; what was not is added for the next time.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go UpdateContainerFsThresholds; synchronize
        takes the list before it has grown
    Differs: a threshold made of one that is not there, which is never met, is left out.
    """
    if layout == "containers":
        return thresholds, thresholds
    disk = "imagefs" if layout == "dedicated" else "nodefs"
    places: dict[tuple[str, bool], int] = {}
    models: dict[tuple[str, bool], Threshold] = {}
    for place, threshold in enumerate(thresholds):
        fs, _, amount = threshold.signal.partition(".")
        if fs == "containerfs":
            places[amount, threshold.is_hard] = place
        elif fs == disk:
            models[amount, threshold.is_hard] = threshold
    first: list[Threshold | None] = list(thresholds)
    added: list[Threshold] = []
    for key in ((a, h) for a in ("available", "inodesFree") for h in (True, False)):
        model = models.get(key)
        copied = model and msgspec.structs.replace(
            model, signal=f"containerfs.{key[0]}", taken_from=model.signal
        )
        if key in places:
            first[places[key]] = copied
        elif copied is not None:
            added.append(copied)
    kept = tuple(threshold for threshold in first if threshold is not None)
    return kept, kept + tuple(added)


def threshold_quantity(value: ThresholdValue, capacity: int) -> Quantity:
    """A threshold as an amount.

    Source: v1.36.2 pkg/kubelet/eviction/api/types.go GetThresholdQuantity
    """
    if isinstance(value, float):
        return Quantity.of(int64_of_float(float(capacity) * value), Format.BINARY_SI)
    return value


def is_short(threshold: Threshold, available: int, capacity: int, *, minimum: bool = False) -> bool:
    """Whether a threshold is met; with ``minimum``, whether it is not yet resolved."""
    limit = _nanos(threshold.value, capacity)
    if minimum and threshold.minimum is not None:
        limit += _nanos(threshold.minimum, capacity)
    return limit > available * _NANOS


def thresholds_met(
    thresholds: Iterable[Threshold], observations: Mapping[str, SignalObservation], *, minimum: bool
) -> tuple[Threshold, ...]:
    """Those under which a signal is; with ``minimum``, under their minimum above them.

    A signal that was not observed meets none.

    Source: v1.36.2 pkg/kubelet/eviction/helpers.go thresholdsMet
    """
    found: list[Threshold] = []
    for threshold in thresholds:
        seen = observations.get(threshold.signal)
        if seen is not None and is_short(threshold, seen.available, seen.capacity, minimum=minimum):
            found.append(threshold)
    return tuple(found)


def _nanos(value: ThresholdValue, capacity: int) -> int:
    if isinstance(value, float):
        return int64_of_float(float(capacity) * value) * _NANOS
    return value.nanos() if value.exponent else value.unscaled * _NANOS


def _statements(texts: Mapping[str, str], profile: KubeletProfile) -> dict[str, ThresholdValue]:
    most = 1.0 if profile.cgroups.eviction_percentage_at_most_100 else 100.0

    def parsed(signal: str, text: str) -> ThresholdValue | None:
        return parse_threshold(signal, text, most)

    found = _each(texts, parsed, profile)
    return {signal: value for signal, value in found.items() if value is not None}


def _grace_ns(_: str, text: str) -> int:
    try:
        grace_ns = parse_duration(text)
    except ValueError as error:
        raise EvictionThresholdError(str(error)) from None
    if grace_ns < 0:
        raise EvictionThresholdError(
            f"invalid eviction grace period specified: {text}, must be a positive value"
        )
    return grace_ns


def _each(
    texts: Mapping[str, str], parse: Callable[[str, str], ValueT], profile: KubeletProfile
) -> dict[str, ValueT]:
    """All entries of a map read."""
    found: dict[str, ValueT] = {}
    errors: list[str] = []
    for signal, text in texts.items():
        if not is_known(signal, profile.eviction):
            errors.append(f"unsupported eviction signal {signal}")
            continue
        try:
            found[signal] = parse(signal, text)
        except EvictionThresholdError as error:
            errors.append(str(error))
    if errors:
        raise ThresholdConfigError(tuple(errors))
    return found
