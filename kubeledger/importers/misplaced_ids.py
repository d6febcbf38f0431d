"""Lines that tell of a container of one pod, and name one that is another pod's.

An ID belongs to one pod for ever. Whose it is, pod lists tell, or two lines against one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kubeledger.importers.context import ContainerRef
from kubeledger.importers.instances import Instance
from kubeledger.importers.started_ids import replaced_starts
from kubeledger.importers.stray_ids import Telling, stray_ids

__all__ = ["misplaced_ids"]

_MOST = 16
"""So many are looked at: a log with more of them is no log of one kubelet."""
_NAMELESS = "?"


def misplaced_ids(
    tellings: Iterable[Telling],
    listed: Mapping[str, ContainerRef],
    instances: Mapping[str, Instance],
) -> dict[tuple[str, str], str | None]:
    """ID and UID of the pod for which a line tells it -> the ID that is meant, if only one can be.

    Args:
        tellings: what the lines about starts and ends tell.
        listed: container ID -> whose it is by the pod lists.
        instances: container ID -> what their statuses tell of it.
    """
    told = sorted(set(tellings))
    found: dict[tuple[str, str], str | None] = {}
    for each in _misplaced(told, listed):
        if len(found) >= _MOST:
            break
        others = [other for other in told if other is not each]
        others.append(each._replace(container_id=_NAMELESS))
        meant = stray_ids(others, listed) | replaced_starts(others, instances)
        found[each.container_id, each.pod] = meant.get(_NAMELESS)
    return found


def _misplaced(told: list[Telling], listed: Mapping[str, ContainerRef]) -> Iterator[Telling]:
    pods: dict[str, Counter[str]] = {}
    for each in told:
        if each.pod:
            pods.setdefault(each.container_id, Counter())[each.pod] += 1
    for each in told:
        if not each.pod:
            continue
        ref, lines = listed.get(each.container_id), pods[each.container_id]
        (owner, most), *others = lines.most_common(2)
        if ref is not None:
            owner = ref.pod_uid
        elif not others or most < 2 or others[0][1] > 1:
            continue
        if each.pod != owner:
            yield each
