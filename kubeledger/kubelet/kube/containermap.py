"""Which container of which pod has which ID, as the CPU and the memory manager know it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kubeledger.kubelet.kube.maporder import MapOrder

ContainerRef = tuple[str, str]
"""Pod UID and container."""


class ContainerMap(dict[str, ContainerRef]):
    """Container ID -> pod UID and container.

    Source: v1.36.2 pkg/kubelet/cm/containermap/container_map.go
    Differs: no
    """

    def remove_by_ref(self, ref: ContainerRef, order: MapOrder) -> None:
        """Forget one ID of a container: any, where it has several."""
        if ids := [container_id for container_id, of in self.items() if of == ref]:
            del self[order.of(ids)[0]]

    def visit_removing(
        self,
        refs: Collection[ContainerRef],
        remove: Callable[[ContainerRef], None],
        order: MapOrder,
    ) -> None:
        """Remove containers while going through the map.

        Go comes to an entry at most once, and not to one that was removed before: where a
        container has several IDs, one of them may stay.

        Args:
            remove: forgets one ID of a container; see ``remove_by_ref``.
        """
        stale = [container_id for container_id, ref in self.items() if ref in refs]
        while left := [container_id for container_id in stale if container_id in self]:
            of = self._of_one_container(left)
            visited = order.of(of)[0]
            stale.remove(visited)
            remove(self[visited])

    def _of_one_container(self, ids: Iterable[str]) -> list[str]:
        """IDs of the first one's container: the order of containers does not show."""
        ids = list(ids)
        return [container_id for container_id in ids if self[container_id] == self[ids[0]]]
