"""Which sources a recorder has, by what the user asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from kubeledger.record.observations import Source
from kubeledger.record.recorder import Make

__all__ = ["Wanted", "sources_of"]

LOG = "kubelet.log"
"""The kubelet's log in the capture, wherever its lines come from."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be recorded; None of what is not.

    Attributes:
        log: file of the kubelet's log.
        kubelet: URL of its endpoints; ``token``, ``authority``: files, ``insecure``: the
            certificate is not checked.
        state: the kubelet's directory, of which its state files are read.
        cgroups: where cgroups are mounted.
        once: nothing more will be written to the log.
    """

    log: Path | None = None
    kubelet: str | None = None
    token: Path | None = None
    authority: Path | None = None
    insecure: bool = False
    state: Path | None = None
    cgroups: Path | None = None
    once: bool = False


def sources_of(wanted: Wanted) -> dict[str, Make]:
    """The sources, by their names; what one needs is loaded only if it is wanted."""
    makers = (_log, _kubelet, _state, _cgroups)
    return dict(found for maker in makers if (found := maker(wanted)) is not None)


_Named = tuple[str, Make]


def _always(name: str, make: Callable[[], Source]) -> _Named:
    """A source that gives the present state again wherever it was left."""
    return name, lambda _: make()


def _log(wanted: Wanted) -> _Named | None:
    path = wanted.log
    if path is None:
        return None
    from kubeledger.record.sources.files import LogFile

    return LOG, lambda cursor: LogFile(LOG, path, cursor, is_whole=wanted.once)


def _kubelet(wanted: Wanted) -> _Named | None:
    if wanted.kubelet is None:
        return None
    from kubeledger.record.sources.endpoints import KubeletEndpoints
    from kubeledger.record.sources.kubelet_client import KubeletClient

    client = KubeletClient(
        wanted.kubelet,
        token_file=wanted.token,
        ca_file=wanted.authority,
        insecure=wanted.insecure,
    )
    return _always(KubeletEndpoints.name, lambda: KubeletEndpoints(client))


def _state(wanted: Wanted) -> _Named | None:
    directory = wanted.state
    if directory is None:
        return None
    from kubeledger.record.sources.state_files import StateFiles

    return _always(StateFiles.name, lambda: StateFiles(directory))


def _cgroups(wanted: Wanted) -> _Named | None:
    root = wanted.cgroups
    if root is None:
        return None
    from kubeledger.record.sources.cgroup_files import CgroupSnapshots

    return _always(CgroupSnapshots.name, lambda: CgroupSnapshots(root))
