"""What a pod's spec asks of one probe worker."""

from __future__ import annotations

from kubeledger.prober.records import ProbeResult, ProbeType
from kubeledger.units import NS_PER_S
from kubeledger.verify.lives.specs import PodAsk, ProbeAsk

__all__ = ["Probed"]


class Probed:
    """A container's probe.

    Attributes:
        ask: the pod, as lists show it; None when none does.
        probe: the probe's spec; None when no list shows it.
    """

    def __init__(self, key: str, container: str, probe_type: ProbeType, ask: PodAsk | None) -> None:
        self.key = key
        self.container = container
        self.probe_type = probe_type
        self.ask = ask
        self._entry = None if ask is None else ask.container(container)
        self.probe: ProbeAsk | None = None
        if self._entry is not None:
            self.probe = self._entry.probe(probe_type)

    @property
    def period_ns(self) -> int:
        """Between two ticks."""
        return (self.probe.period_s if self.probe else 10) * NS_PER_S

    @property
    def break_ns(self) -> int:
        """A longer time between two ticks hides one."""
        assert self.probe is not None
        longest_s = max(self.probe.period_s, self.probe.timeout_s)
        return longest_s * NS_PER_S * 9 // 5

    @property
    def begins_within_ns(self) -> int:
        """The first tick comes so soon after the start of a container."""
        probe = self.probe
        if probe is None or self._entry is None:
            return 0
        within_ns = probe.initial_delay_seconds * NS_PER_S + self.break_ns
        startup = self._entry.startup_probe
        if self.probe_type != "startup" and startup is not None:
            ticks_s = startup.failures * max(startup.period_s, startup.timeout_s)
            within_ns += (startup.initial_delay_seconds + ticks_s) * NS_PER_S
        return within_ns

    @property
    def waits_for_startup(self) -> bool:
        """Whether its first tick comes only after a startup probe has succeeded."""
        has_startup = self._entry is not None and self._entry.startup_probe is not None
        return has_startup and self.probe_type != "startup"

    @property
    def is_readiness(self) -> bool:
        """Whether its failure leaves the container alone."""
        return self.probe_type == "readiness"

    def threshold(self, result: ProbeResult) -> int:
        """Ticks in a row that store that result."""
        assert self.probe is not None
        return self.probe.failures if result == "failure" else self.probe.successes
