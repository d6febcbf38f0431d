"""Why a step left an attribute of a worker as it is: the clause that follows "because".

Each attribute has causes of its own: a step that ends early because the initial delay is
not over may still have met a new container and cached a first result for it.
"""

from __future__ import annotations

from typing import NamedTuple

from kubeledger.kubelet.prober.prober import ATTEMPTS_MAX, COUNTS_AS
from kubeledger.kubelet.prober.worker import ERRORED, ON_HOLD, ProbeWorker, Step
from kubeledger.model.bodies.prober import TickResult


class Taken(NamedTuple):
    """A step that was taken.

    Attributes:
        before, after: copies of the worker; its results are those after the step.
        last: of the executions; None without any.
    """

    before: ProbeWorker
    after: ProbeWorker
    step: Step
    last: TickResult | None

    @property
    def is_new(self) -> bool:
        """Whether it turned to a container it had not seen before."""
        return self.before.container_id != self.after.container_id

    def end(self) -> str:
        """How the step ended."""
        skipped = self.step.skipped
        return "the threshold is reached" if skipped is None else skipped.text

    def of_attempts(self) -> str:
        """Why so many executions."""
        if self.last is None:
            return self.end()
        if self.last == "error":
            return f"an error is tried again, but not after {ATTEMPTS_MAX} executions"
        used = f"execution {self.step.attempts} came to {self.last}"
        return f"{used}, and only an error is tried again"

    def of_result_run(self) -> str:
        """Why the run is so long."""
        run, last_result = self.before.result_run, self.before.last_result
        if self.last is None:
            kept = ", and a new container does not begin a new run" if self.is_new and run else ""
            return f"nothing is executed: {self.end()}{kept}"
        counted = COUNTS_AS.get(self.last)
        if counted is None:
            return ERRORED.text
        if self.after.on_hold:
            return "the threshold is reached, and the run begins anew when the worker goes on hold"
        if counted == last_result:
            return f"this is one more {counted} in a row after {run}"
        return f"{counted} comes after {last_result}, so a new run begins"

    def of_on_hold(self) -> str:
        """Why it is on hold, or not."""
        skipped = self.step.skipped
        if self.last is not None:
            if skipped is not None or self.after.on_hold:
                return self.end()
            probe = f"{self.step.then} of a {self.after.probe_type} probe"
            return f"{probe} does not end the probing"
        if self.is_new:
            held = "which ends the hold" if self.before.on_hold else "and nothing is executed yet"
            return f"there is a new container, {held}"
        if not self.after.on_hold:
            return f"nothing is executed: {self.end()}"
        if skipped is ON_HOLD:
            return ON_HOLD.text
        return f"only a new container ends the hold, and {self.end()}"

    def of_keep_going(self) -> str:
        """Why the worker continues, or not."""
        return f"nothing here ends a worker: {self.end()}" if self.step.keep_going else self.end()

    def of_stored(self, *, updates: bool) -> str:
        """Why this is cached, or was sent; the last of two results is what stays."""
        step, causes = self.step, []
        if step.first is not None:
            causes.append(f"there is a new container, for which {step.first} is cached first")
        elif self.is_new:
            causes.append(
                "the container is older than the kubelet, so nothing is cached for it first"
            )
        if step.then is not None:
            same = updates and not self.after.results.updates
            known = f", but {step.then} was cached before" if same else ""
            causes.append(f"{self.end()}{known}")
            if not updates:
                return causes[-1]
        return " and ".join(causes) or f"nothing is stored: {self.end()}"
