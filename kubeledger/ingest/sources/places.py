"""What lies where in the collections of the field, and what that says about a file.

The content of a file shows what it is. A path is asked only where the content leaves it open:
a line with nothing but a version or a host's name, the log of a container that writes klog
as the kubelet does, a table that a tool made for people. This table is the one place where paths
of collections are known.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Role = Literal[
    "collected-at",
    "container-log",
    "kubelet-version",
    "manifest",
    "node-name",
    "table",
]

COLLECTIONS = (
    "OpenShift must-gather",
    "kind export logs",
    "sosreport",
    "minikube logs",
    "EKS log collector",
    "AKS log collector",
    "Rancher logs collector",
    "talosctl support",
    "kubectl cluster-info dump",
    "kubeledger collect",
)
"""Whose layouts are known and tried."""


class Place(NamedTuple):
    """A kind of file by its path.

    Attributes:
        role: what it is; ``kubelet-version``, ``node-name`` and ``collected-at`` are formats.
        whose: the collection that has it there.
    """

    role: Role
    whose: str


_TABLE: tuple[tuple[str, Role, str], ...] = (
    # A line with the version, among others or alone.
    (r"(?:^|/)kubernetes-version\.txt$", "kubelet-version", "kind export logs"),
    (r"(?:^|/)kubelet[_-]{1,3}version(?:\.txt)?$", "kubelet-version", "kubeledger collect"),
    (r"(?:^|/)(?:rke2|k3s)/version$", "kubelet-version", "Rancher logs collector"),
    # The machine's name, alone.
    (r"(?:^|/)sos_commands/host/hostname$", "node-name", "sosreport"),
    (r"(?:^|/)systeminfo/hostname$", "node-name", "Rancher logs collector"),
    (r"(?:^|/)node-name\.txt$", "node-name", "kubeledger collect"),
    # When the collection was made.
    (r"(?:^|/)must-gather[^/]*/(?:[^/]+/)?timestamp$", "collected-at", "OpenShift must-gather"),
    (r"^timestamp$", "collected-at", "OpenShift must-gather"),
    (r"(?:^|/)sos_commands/date/date(?:_--utc)?$", "collected-at", "sosreport"),
    (r"(?:^|/)systeminfo/date$", "collected-at", "Rancher logs collector"),
    (r"(?:^|/)collected-at\.txt$", "collected-at", "kubeledger collect"),
    # What was taken and what was absent.
    (r"(?:^|/)manifest\.txt$", "manifest", "kubeledger collect"),
    # Logs of containers: what they hold is nothing that the kubelet said.
    (r"(?:^|/)(?:pods|containers)/[^/]*[_/-]", "container-log", "the kubelet's /var/log/pods"),
    (r"(?:^|/)(?:[^/_]+_){2}[0-9a-f-]{32,36}/[^/]+/\d+\.log", "container-log", "/var/log/pods"),
    (r"(?:^|/)(?:[^/_]+_){2}[^/_]+-[0-9a-f]{64}\.log$", "container-log", "/var/log/containers"),
    (r"(?:^|/)kubernetes-logs/", "container-log", "talosctl support"),
    (r"(?:^|/)(?:containers-varlogs|podlogs)/", "container-log", "Rancher logs collector"),
    (r"(?:^|/)[^/]+/[^/]+/logs\.txt$", "container-log", "kubectl cluster-info dump"),
    # Tables for people: IDs are cut and sizes rounded in them.
    (r"(?:^|/)crictl/(?:images|imagefsinfo|pods|psa|statsa)$", "table", "Rancher logs collector"),
    (r"(?:^|/)crictl_(?:images|pods|ps|stats)(?:_-\w+)?$", "table", "sosreport"),
    (r"(?:^|/)images\.log$", "table", "kind export logs"),
)
_PLACES = tuple((re.compile(pattern), Place(role, whose)) for pattern, role, whose in _TABLE)

_NODES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:^|/)([^/]+)/\1_logs_kubelet(?:\.gz)?$",  # must-gather of performance profiles
        r"(?:^|/)([^/]+)/service-logs/kubelet\.log$",  # talosctl support
        r"(?:^|/)sosreport-(.+?)(?:-\d{6,8})?-20\d\d-\d\d-\d\d-\w+/",
    )
)
"""Paths that name the node whose log lies there."""


@lru_cache(4096)
def place_of(path: str) -> Place | None:
    """What the path says of a file; None where it says nothing."""
    return next((place for pattern, place in _PLACES if pattern.search(path)), None)


def node_of_place(path: str) -> str | None:
    """The node that the path of a kubelet's log names; None where it names none."""
    found = (pattern.search(path) for pattern in _NODES)
    return next((match[1] for match in found if match is not None), None)
