"""Which sources a recorder has, by what the user asked for."""

from __future__ import annotations

import socket
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from kubeledger.model.bodies.ledger import KUBELET_LOG
from kubeledger.record.recorder import Make


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
    makes: dict[str, Make] = {}
    if wanted.log is not None:
        from kubeledger.record.sources.files import LogFile

        makes[KUBELET_LOG] = partial(LogFile, KUBELET_LOG, wanted.log, is_whole=wanted.once)
    if wanted.journal is not None:
        makes |= _of_journal(wanted.journal, wanted)
    elif wanted.kernel is not None:
        from kubeledger.record.sources.kernel_ring import KernelRing, boot_id, open_ring

        opened, host = partial(open_ring, wanted.kernel), socket.gethostname()
        makes[KernelRing.name] = lambda cursor: KernelRing(
            opened, host, boot_id(), cursor, wanted.since_ns
        )
    if wanted.kubelet is not None:
        from kubeledger.record.sources.endpoints import KubeletEndpoints
        from kubeledger.record.sources.kubelet_client import KubeletClient

        client = KubeletClient(
            wanted.kubelet,
            token_file=wanted.token,
            ca_file=wanted.ca,
            insecure=wanted.insecure,
        )
        makes[KubeletEndpoints.name] = lambda _: KubeletEndpoints(client)
    path = wanted.pod_resources or _socket_below(wanted.state)
    if path is not None:
        from kubeledger.record.sources.pod_resources import PodResourcesSource

        makes[PodResourcesSource.name] = lambda _: PodResourcesSource(path)
    state, cgroups = wanted.state, wanted.cgroups
    if state is not None:
        from kubeledger.record.sources.state_files import StateFiles

        makes[StateFiles.name] = lambda _: StateFiles(state)
    if cgroups is not None:
        from kubeledger.record.sources.cgroup_files import CgroupSnapshots

        makes[CgroupSnapshots.name] = lambda _: CgroupSnapshots(cgroups)
    return makes


def _of_journal(directory: Path, wanted: Wanted) -> dict[str, Make]:
    """Of the kubelet, unless its log is a file, and of the kernel."""
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

    def make(stream: JournalStream) -> Make:
        return lambda cursor: JournalSource(opened, stream, cursor, wanted.since_ns)

    kubelets = [kubelet_stream(wanted.units or KUBELET_UNITS)] if wanted.log is None else []
    return {JournalSource.name_of(stream): make(stream) for stream in (*kubelets, KERNEL)}


def _socket_below(state: Path | None) -> Path | None:
    """The pod-resources API's in the kubelet's directory, if it can be spoken."""
    if state is None or find_spec("h2") is None or not (state / _SOCKET).parent.is_dir():
        return None
    return state / _SOCKET
