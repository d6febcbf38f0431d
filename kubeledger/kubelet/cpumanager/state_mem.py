"""What the CPU manager holds in memory: who has which CPUs, and the shared pool."""

from __future__ import annotations

from kubeledger.kubelet.kube.cpuset import CPUSet

Assignments = dict[str, dict[str, CPUSet]]
"""Pod UID -> container -> its CPUs; a pod may be there without containers."""


class State:
    """The shared pool and all assignments.

    Attributes:
        default: the shared pool.
        assignments: by container.
        pod_assignments: pod UID -> CPUs of the pod as a whole.
        revision: grows with each change, which the kubelet writes to its file.

    Source: v1.36.2 pkg/kubelet/cm/cpumanager/state/state_mem.go stateMemory
    """

    __slots__ = ("assignments", "default", "pod_assignments", "revision")

    def __init__(
        self,
        default: CPUSet = 0,
        assignments: Assignments | None = None,
        pod_assignments: dict[str, CPUSet] | None = None,
    ) -> None:
        self.default = default
        self.assignments: Assignments = assignments if assignments is not None else {}
        self.pod_assignments = pod_assignments if pod_assignments is not None else {}
        self.revision = 0

    def get(self, pod: str, container: str) -> CPUSet | None:
        """CPUs that a container has alone; None where it has none."""
        held = self.assignments.get(pod)
        return None if held is None else held.get(container)

    def get_or_default(self, pod: str, container: str) -> CPUSet:
        """CPUs that a container has alone, else the shared pool."""
        cpus = self.get(pod, container)
        return self.default if cpus is None else cpus

    def set_default(self, cpus: CPUSet) -> None:
        """Change the shared pool."""
        self.default = cpus
        self.revision += 1

    def set(self, pod: str, container: str, cpus: CPUSet) -> None:
        """Give a container CPUs alone."""
        self.assignments.setdefault(pod, {})[container] = cpus
        self.revision += 1

    def set_pod(self, pod: str, cpus: CPUSet) -> None:
        """Give a pod CPUs as a whole."""
        self.pod_assignments[pod] = cpus
        self.revision += 1

    def delete(self, pod: str, container: str) -> None:
        """A container has none any more."""
        held = self.assignments.get(pod, {})
        held.pop(container, None)
        if not held:
            self.assignments.pop(pod, None)
        self.revision += 1

    def delete_pod(self, pod: str) -> None:
        """A pod has none as a whole any more."""
        self.pod_assignments.pop(pod, None)
        self.revision += 1

    def siblings(self, pod: str, container: str) -> CPUSet:
        """CPUs of the pod's other containers.

        Source: v1.36.2 pkg/kubelet/cm/cpumanager/policy_static.go getAssignedCPUsOfSiblings
        """
        cpus = 0
        for name, held in self.assignments.get(pod, {}).items():
            if name != container:
                cpus |= held
        return cpus
