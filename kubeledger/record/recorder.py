"""A node is recorded while it runs, from the sources that the user asked for.

One step takes what all sources have and makes it durable (``capture``). What is durable becomes
records (``reading``), in the same step or beside it, in a thread of its own: however much there is
to be read, after a restart or when a chapter ends, sources are followed meanwhile.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import msgspec

from kubeledger.ingest.sources.prefix import ANY_ENTRY
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.bodies.ledger import KUBELET_LOG
from kubeledger.record.accounting import Accounting
from kubeledger.record.capture import Capture
from kubeledger.record.metrics import BYTES_WRITTEN, Metrics
from kubeledger.record.observations import (
    POLL_BYTES,
    Gap,
    Lines,
    Mark,
    Observation,
    Source,
    size_of,
)
from kubeledger.record.reading import Limits, Reader, ReadingThread
from kubeledger.record.sources.state_files import BackgroundSource, CgroupSnapshots, StateFiles

_ROUND_S = 60
"""How long a recorder that is to end waits for answers."""

Make = Callable[[str | None], Source]
"""Makes a source with the cursor at which it was left."""


class Recorder:
    """Records one node into a ledger, as its only writer.

    Attributes:
        reader: of what is captured; used by one thread.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: LedgerWriter,
        node: str,
        sources: Mapping[str, Make],
        now_ns: int,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Go on where the capture was left, or begin; nothing is read yet.

        Args:
            node: whose; the name that its records get.
            sources: name -> source; made with their cursors.

        Raises:
            KubeledgerError: the capture cannot be opened, a source cannot be made.
        """
        self._limits = limits or Limits()
        self._metrics = metrics or Metrics()
        self._accounting = Accounting(self._metrics)
        self._capture = Capture(ledger.path, node, now_ns)
        if self._capture.damaged is not None:
            self._leave_damaged(now_ns)
        cursors = self._capture.cursors
        self._sources = [make(cursors.get(name)) for name, make in sources.items()]
        self.reader = Reader(ledger, writer, node, self._capture, self._limits, self._accounting)
        self._thread: ReadingThread | None = None

    @property
    def appended(self) -> int:
        return self.reader.appended

    def step(self, now_ns: int) -> bool:
        """Capture what the sources have by now, and have it read; whether there may be more.

        Raises:
            KubeledgerError: a source can no longer be read, or the disk is full; what is durable
                stays so, and another recorder goes on after it.
        """
        more = self.capture(now_ns)
        if self._thread is None:
            self.reader.read()
        else:
            self._thread.wake()
        return more

    def put_back(self) -> list[Path]:
        """Chapters that somebody has removed and that were made again since the last call."""
        found, self._capture.put_back = self._capture.put_back, []
        return found

    def read_beside(self) -> None:
        """From now on what is captured is read in a thread of its own."""
        self._thread = ReadingThread(self.reader)

    def capture(self, now_ns: int) -> bool:
        """Make durable what the sources have by now; whether there may be more at once.

        Raises:
            KubeledgerError: as :meth:`step`.
        """
        cursors: dict[str, str] = {}
        seen: list[Observation] = []
        more = False
        for source in self._sources:
            given = list(source.poll(now_ns))
            moved = [each.cursor for each in given if each.cursor is not None]
            cursors |= {source.name: moved[-1]} if moved else {}
            observed = [each for each in given if not isinstance(each, Mark)]
            self._accounting.polled(source.name, given, now_ns)
            more = more or len(observed) < len(given) or size_of(observed) >= POLL_BYTES // 2
            seen += observed
        if self._is_full(now_ns) and not _is_inside_an_entry(seen):
            self._capture.end_chapter(now_ns)
        if seen or cursors:
            size_bytes = self._capture.append(now_ns, cursors, seen)
            self._metrics.add(BYTES_WRITTEN, size_bytes, "capture")
        self._capture.polled(now_ns, is_all=not more)
        self._accounting.stepped(now_ns, given=bool(seen), more=more)
        return more

    def _is_full(self, now_ns: int) -> bool:
        """Whether the chapter is to end, once no entry of its log goes on after it."""
        durable = self._capture.durable
        return (
            durable.size_bytes >= self._limits.bytes_max
            or now_ns - durable.begun_ns >= self._limits.age_max_ns
        )

    def drain(self, clock: Callable[[], int]) -> None:
        """Take all that the sources have, and end the chapter with it.

        Raises:
            KubeledgerError: as :meth:`step`.
        """
        self.capture(clock())
        for source in self._sources:
            if isinstance(source, BackgroundSource):
                source.wait(_ROUND_S)
        while self.capture(clock()):
            pass
        self.end_chapter(clock())

    def end_chapter(self, now_ns: int) -> None:
        """End the open chapter and have all of it imported; the next one begins.

        Raises:
            KubeledgerError: as :meth:`step`.
        """
        self._capture.end_chapter(now_ns)
        self.reader.read()

    def _leave_damaged(self, now_ns: int) -> None:
        """End a chapter of which some is lost, and say so in it."""
        chapter = self._capture.damaged
        assert chapter is not None
        reason = f"{chapter.damaged} bytes of what had been captured are damaged"
        gap = Gap("capture", reason, chapter.begun_ns, chapter.at_ns)
        self._capture.append(now_ns, {}, [gap])
        self._capture.end_chapter(now_ns)

    def close(self) -> None:
        """Close sources and capture; the chapter stays open for the next recorder."""
        if self._thread is not None:
            self._thread.close()
        for source in self._sources:
            source.close()
        self._capture.close()


def _is_inside_an_entry(seen: Iterable[Observation]) -> bool:
    """Whether what came goes on with an entry of the log: it may have several lines."""
    come = [each.data for each in seen if isinstance(each, Lines) and each.stream == KUBELET_LOG]
    return bool(come) and ANY_ENTRY.search(come[0].partition(b"\n")[0]) is None


# Which sources a recorder has, by what the user asked for.


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
    """What was wanted, with what there is by the usual paths; the kubelet itself must be named."""
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
        from kubeledger.record.sources.endpoints import KubeletClient, KubeletEndpoints

        client = KubeletClient(
            wanted.kubelet, token_file=wanted.token, ca_file=wanted.ca, insecure=wanted.insecure
        )
        makes[KubeletEndpoints.name] = lambda _: KubeletEndpoints(client)
    path = wanted.pod_resources or _socket_below(wanted.state)
    if path is not None:
        from kubeledger.record.sources.pod_resources import PodResourcesSource

        makes[PodResourcesSource.name] = lambda _: PodResourcesSource(path)
    state, cgroups = wanted.state, wanted.cgroups
    if state is not None:
        makes[StateFiles.name] = lambda _: StateFiles(state)
    if cgroups is not None:
        makes[CgroupSnapshots.name] = lambda _: CgroupSnapshots(cgroups)
    return makes


def _of_journal(directory: Path, wanted: Wanted) -> dict[str, Make]:
    """Of the kubelet, unless its log is a file, and of the kernel."""
    from kubeledger.ingest.sources.libsystemd import Journal, Matches, is_installed
    from kubeledger.record.sources.journal import (
        KERNEL,
        KUBELET_UNITS,
        Entries,
        JournalCommand,
        JournalSource,
        JournalStream,
        kubelet_stream,
    )

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
