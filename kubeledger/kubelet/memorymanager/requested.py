"""What containers and pods request of each type of memory, as the static policy counts it.

Source: v1.36.2 pkg/kubelet/cm/memorymanager/policy_static.go
"""

from __future__ import annotations

from functools import lru_cache

from kubeledger.kubelet.kube.admission import EMPTY_POOL_REASON, AllocationError
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.names import HUGE_PAGES
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of, is_sidecar
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.kubelet.kube.requests import Amount, ResourceList
from kubeledger.kubelet.memorymanager.machine import MEMORY, UINT64
from kubeledger.kubelet.topologymanager.resource_manager import PodAmounts, runs_on

Requested = dict[str, int]
"""Type of memory -> bytes."""


class RequestedMemory(PodAmounts[Requested]):
    """What containers and pods request; it is not changed."""

    def count(self, pod: Pod, container: Container) -> Requested:
        """What a container requests; in a pod with resources of its own only if it is exclusive.

        Raises:
            AllocationError: an amount is no integer.

        Source: v1.36.2 policy_static.go getContainerRequestedResources
        """
        return _sizes(self.amounts_of(pod, container))

    def count_pod(self, pod: Pod) -> Requested:
        """What a pod requests at most at once; not what only its init containers do.

        Raises:
            AllocationError: an amount is no integer.

        Source: v1.36.2 policy_static.go getPodRequestedResources
        """
        whole = pod.spec.resources
        if whole is not None and self.is_managed_as_a_whole(pod):
            return {name: size for name, size in _sizes(whole.requests).items() if 0 < size < 2**63}
        by_init: Requested = {}
        by_sidecars: Requested = {}
        for container in pod.spec.init_containers or ():
            for name, size in self.of_container(pod, container).items():
                beside = by_sidecars.get(name, 0) + size & UINT64
                if runs_on(container, self.facts):
                    by_sidecars[name] = beside
                else:
                    by_init[name] = max(by_init.get(name, 0), beside)
        total: Requested = {}
        for container in pod.spec.containers or ():
            _add(total, self.of_container(pod, container))
        return {
            name: max(size + by_sidecars.get(name, 0) & UINT64, by_init.get(name, 0))
            for name, size in total.items()
        }

    def gets(self, pod: Pod) -> bool:
        """Whether containers of the pod get memory of NUMA nodes.

        Source: v1.36.2 policy_static.go Allocate
        """
        return self.is_guaranteed(pod) and not self.is_skipped(pod)

    def sizes_after_reuse(self, pod: Pod, container: str, memory_type: str) -> frozenset[int]:
        """Sizes in bytes that a block may show at any time.

        That of an init container shrinks by what each later container takes of it.

        Source: v1.36.2 policy_static.go updateInitContainersMemoryBlocks
        Differs: all blocks of the pod are taken to be on the same NUMA nodes.
        """
        init, sizes, sizes_used = pod.spec.init_containers or (), dict[str, int](), set[int]()
        for current in containers_of(pod):
            asked = self.of_container(pod, current).get(memory_type)
            if asked is None:
                continue
            rest = asked if self.facts.init_memory_reused else 0
            for earlier in init:
                name = earlier.name or ""
                if earlier is current:
                    break
                kept = runs_on(earlier, self.facts)
                taken = 0 if kept else min(rest, sizes.get(name, 0))
                rest -= taken
                if name in sizes:
                    sizes[name] -= taken
            sizes[current.name or ""] = asked
            if container in sizes:
                sizes_used.add(sizes[container])
        return frozenset(sizes_used)

    def validate_pod_scope_resources(self, pod: Pod, order: MapOrder = FIRST_ORDER) -> None:
        """Make sure that exclusive containers leave something for the others.

        Raises:
            AllocationError: they do not, or an amount is no integer.
        """
        budget = self.of_pod(pod)
        exclusive: Requested = {}
        shares = False
        for container in pod.spec.init_containers or ():
            asked = self.of_container(pod, container)
            if is_sidecar(container):
                shares = shares or not asked
                _add(exclusive, asked)
            elif not asked and (short := _exhausted(budget, exclusive, order)):
                raise AllocationError(
                    f"pod rejected, pod has shared init containers but no {short} available for "
                    "them",
                    EMPTY_POOL_REASON,
                )
        for container in pod.spec.containers or ():
            asked = self.of_container(pod, container)
            shares = shares or not asked
            _add(exclusive, asked)
        if shares and (short := _exhausted(budget, exclusive, order)):
            raise AllocationError(
                f"pod rejected, sum of exclusive container {short} requests equals pod budget, "
                "leaving no memory for shared containers",
                EMPTY_POOL_REASON,
            )


def _sizes(amounts: ResourceList | None) -> Requested:
    if not amounts:
        return {}
    return {
        name: _size(amount)
        for name, amount in amounts.items()
        if name == MEMORY or name.startswith(HUGE_PAGES)
    }


@lru_cache(maxsize=1 << 14)
def _size(amount: Amount) -> int:
    size = Quantity.from_api(amount).as_int64()
    if size is None:
        raise AllocationError("[memorymanager] failed to represent quantity as int64")
    return size & UINT64


def _add(total: Requested, asked: Requested) -> None:
    for name, size in asked.items():
        total[name] = total.get(name, 0) + size & UINT64


def _exhausted(budget: Requested, exclusive: Requested, order: MapOrder) -> str:
    """A type of which nothing is left of the budget; "" where some of each is."""
    short = [name for name, size in budget.items() if exclusive.get(name, 0) >= size]
    return order.of(short)[0] if short else ""
