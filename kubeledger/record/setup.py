"""Which sources a recorder has, by what the user asked for."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from kubeledger.model.bodies.ledger import KUBELET_LOG
from kubeledger.record.observations import Source
from kubeledger.record.recorder import Make

__all__ = ["Wanted", "found_on", "sources_of"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be recorded; None of what is not.

    Attributes:
        log: file of the kubelet's log.
        journal: journald's directory, or the root of a file system that has one; lines of the
            kernel are read of it, too.
        units: in which the kubelet runs; all that are known where there are none.
        since_ns: time of the journal's, or the kernel's, first line that is wanted.
        kernel: ``/dev/kmsg``, where no journal is read.
        kubelet: URL of its endpoints; ``token``, ``ca``: files, ``insecure``: the certificate is
            not checked.
        state: the kubelet's directory, of which its state files are read.
        pod_resources: socket of the pod-resources API.
        cgroups: where cgroups are mounted.
        once: nothing more will be written to the log.
    """

    log: Path | None = None
    journal: Path | None = None
    units: tuple[str, ...] = ()
    since_ns: int = 0
    kernel: Path | None = None
    kubelet: str | None = None
    token: Path | None = None
    ca: Path | None = None
    insecure: bool = False
    state: Path | None = None
    pod_resources: Path | None = None
    cgroups: Path | None = None
    once: bool = False


_SOCKET = Path("pod-resources/kubelet.sock")
"""Below the kubelet's directory."""


def found_on(root: Path, wanted: Wanted) -> Wanted:
    """What was wanted, with what there is by the usual paths; the kubelet itself must be named.

    Args:
        root: of the machine's file system.
        wanted: without any source.
    """
    state, cgroups = root / "var/lib/kubelet", root / "sys/fs/cgroup"
    journals = (root / place / "log/journal" for place in ("var", "run"))
    return msgspec.structs.replace(
        wanted,
        journal=root if any(each.is_dir() and any(each.iterdir()) for each in journals) else None,
        state=state if state.is_dir() else None,
        cgroups=cgroups if state.is_dir() and cgroups.is_dir() else None,
    )


def sources_of(wanted: Wanted) -> dict[str, Make]:
    """The sources, by their names; what one needs is loaded only if it is wanted."""
    makers = (_log, _journal, _kernel, _kubelet, _pod_resources, _state, _cgroups)
    return dict(found for maker in makers for found in maker(wanted))


_Named = tuple[str, Make]


def _always(name: str, make: Callable[[], Source]) -> _Named:
    """A source that gives the present state again wherever it was left."""
    return name, lambda _: make()


def _log(wanted: Wanted) -> Iterator[_Named]:
    path = wanted.log
    if path is None:
        return
    from kubeledger.record.sources.files import LogFile

    yield KUBELET_LOG, lambda cursor: LogFile(KUBELET_LOG, path, cursor, is_whole=wanted.once)


def _journal(wanted: Wanted) -> Iterator[_Named]:
    """Of the kubelet, unless its log is a file, and of the kernel."""
    directory = wanted.journal
    if directory is None:
        return
    from kubeledger.ingest.sources.libsystemd import Journal, Matches, is_installed
    from kubeledger.record.sources.journal import (
        KERNEL,
        KUBELET_UNITS,
        Entries,
        JournalSource,
        JournalStream,
        kubelet_stream,
    )
    from kubeledger.record.sources.journalctl import JournalCommand

    def opened(matches: Matches) -> Entries:
        reader = Journal if is_installed() else JournalCommand
        return reader(directory, matches)

    def named(stream: JournalStream) -> _Named:
        return (
            JournalSource.name_of(stream),
            lambda cursor: JournalSource(opened, stream, cursor, wanted.since_ns),
        )

    if wanted.log is None:
        yield named(kubelet_stream(wanted.units or KUBELET_UNITS))
    yield named(KERNEL)


def _kernel(wanted: Wanted) -> Iterator[_Named]:
    path = wanted.kernel
    if path is None or wanted.journal is not None:
        return
    from kubeledger.record.sources.kernel_ring import KernelRing, boot_id, open_ring

    host = socket.gethostname()
    yield (
        KernelRing.name,
        lambda cursor: KernelRing(
            lambda: open_ring(path), host, boot_id(), cursor, wanted.since_ns
        ),
    )


def _kubelet(wanted: Wanted) -> Iterator[_Named]:
    if wanted.kubelet is None:
        return
    from kubeledger.record.sources.endpoints import KubeletEndpoints
    from kubeledger.record.sources.kubelet_client import KubeletClient

    client = KubeletClient(
        wanted.kubelet,
        token_file=wanted.token,
        ca_file=wanted.ca,
        insecure=wanted.insecure,
    )
    yield _always(KubeletEndpoints.name, lambda: KubeletEndpoints(client))


def _pod_resources(wanted: Wanted) -> Iterator[_Named]:
    """As it was asked for, or that of the kubelet's directory, if it can be spoken."""
    path = wanted.pod_resources
    if path is None and wanted.state is not None and find_spec("h2") is not None:
        path = wanted.state / _SOCKET
        path = path if path.parent.is_dir() else None
    if path is None:
        return
    from kubeledger.record.sources.pod_resources import PodResourcesSource

    yield _always(PodResourcesSource.name, lambda: PodResourcesSource(path))


def _state(wanted: Wanted) -> Iterator[_Named]:
    directory = wanted.state
    if directory is None:
        return
    from kubeledger.record.sources.state_files import StateFiles

    yield _always(StateFiles.name, lambda: StateFiles(directory))


def _cgroups(wanted: Wanted) -> Iterator[_Named]:
    root = wanted.cgroups
    if root is None:
        return
    from kubeledger.record.sources.cgroup_files import CgroupSnapshots

    yield _always(CgroupSnapshots.name, lambda: CgroupSnapshots(root))
