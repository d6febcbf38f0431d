"""What is written down of ticks: one by one or folded, with the events that they leave."""

from __future__ import annotations

from kubeledger.kubelet.prober.attempts import event_of
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.probe_worker import Found, SimWorker
from kubeledger.simulate.engine.recorder import Ticks

__all__ = ["TickRecords"]


class TickRecords:
    """Writes the ticks of one kubelet process."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._journal = kubelet.sim.journal
        self._facts = kubelet.sim.profile.prober

    def tick(self, worker: SimWorker, now_ns: int, found: Found) -> int | None:
        """Write a tick down, or gather it; seq of its record."""
        worker.count(found[0], 1)
        if worker.folding:
            if not worker.holds(now_ns, found):
                self.unfold(worker)
            worker.gather(now_ns, found)
            return None
        self.unfold(worker)
        seq = self._journal.write(worker.tick(found))
        self._send(worker, found, Ticks(now_ns))
        return seq

    def unfold(self, worker: SimWorker) -> None:
        """Write down what was gathered."""
        body = worker.unfold()
        if body is not None:
            self._journal.write(body)
            found = body.result, body.output or ""
            self._send(worker, found, Ticks(body.first_ts_ns, body.count, body.period_ns))

    def _send(self, worker: SimWorker, found: Found, ticks: Ticks) -> None:
        """The events that ticks leave, if they leave any.

        Source: v1.36.2 pkg/kubelet/prober/prober.go recordContainerEvent
        Differs: ticks in one record have their events in one record, too.
        """
        if found[0] == "success":
            return
        event = event_of(worker.probe_type, found[0], found[1], self._facts)
        if event is not None:
            _, reason, message = event.split(" ", 2)
            self._kubelet.recorder.send(worker.pod, reason, message, worker.key[1], ticks)
