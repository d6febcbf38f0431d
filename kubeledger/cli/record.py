"""``kubeledger record``, ``ship`` and ``restore``: a node while it runs, and its copies."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kubeledger.cli.files import warn_of_readers
from kubeledger.cli.options import Seconds, kubelet_options, ledger_option, option, reports_errors
from kubeledger.cli.output import counted, printable
from kubeledger.cli.service import give_back_freed, metrics_option, served, until_stopped

if TYPE_CHECKING:
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.record.metrics import Metrics
    from kubeledger.record.reading import Limits
    from kubeledger.record.recorder import Recorder, Wanted
    from kubeledger.record.shipping import ShippingThread
    from kubeledger.remote.shipping import Shipment

_STEP_S = 1.0
_END_S = 1.0
"""After SIGTERM, what is not ended by then is left as by a kill: all that counts is on disk."""
_SEGMENT_BYTES = 16 << 20
_LEVEL = 6
"""To seal a segment takes 9 MiB of memory then, and 27 by the writer's own default."""
_DAY_NS = 24 * 3600 * 10**9
_SHIPPED_SEGMENT_NS = 3600 * 10**9
"""Age at which a segment that is shipped is sealed: a lost node takes no more with it."""

_path = click.Path(path_type=Path)


@click.command(epilog="Example: kubeledger record --log /var/log/kubelet.log")
@ledger_option
@option("--node NAME", "Name of this node.  [default: its host name]")
@option("--log FILE", "The kubelet's log; rotation is followed.", type=_path)
@option("--journal DIR", "Journald's directory, or the root /.", type=_path)
@option("--unit units UNIT", "The kubelet's unit, if unusual.", multiple=True)
@option("--since TIME", "Oldest entry that is read.", default="-1h", show_default=False)
@option("--kernel FILE", "/dev/kmsg, where there is no journal.", type=_path)
@kubelet_options
@option("--state DIR", "The kubelet's directory, for state files.", type=_path)
@option("--pod-resources SOCKET", "[default: below --state]", type=_path)
@option("--cgroups DIR", "Mount point of the cgroup file system.", type=_path)
@option("--keep keep_days DAYS", "Drop records older than that.", type=click.IntRange(2))
@option("--ship URL", "Store sealed segments there, as `ship` does.")
@metrics_option()
@option("--once", "Record what there is, and stop.")
@reports_errors
def record(
    ledger: Path,
    node: str | None,
    since: str,
    keep_days: int | None,
    ship: str | None,
    metrics_address: str | None,
    **sources: Any,  # noqa: ANN401 # as of Wanted
) -> None:
    """Record this node while it runs: what it logs and shows becomes records within seconds.

    What is observed is kept in the ledger's directory before it is read, with the position of each
    source. A recorder that is started again, however it ended, goes on there:
    nothing is lost, nothing comes twice, and what could not be observed is a record
    (ledger.GapObserved). Once a day, or when much was captured, and with --once, all that was
    captured is imported as a whole, which has the last word on what was recorded live.

    With --keep, records that are older are dropped as that is done, as by `compact --keep`. With
    --ship, segments are sealed each hour at the latest and stored below the URL; storage that
    fails is tried again later and delays nothing; what is not stored yet is not dropped.

    Without any option that names a source, those at the usual paths are recorded: the journal, the
    kubelet's directory with its pod-resources API, cgroups. The kubelet's endpoints are read with
    --kubelet only.

    On SIGTERM and SIGINT it finishes the current step, then stops. Other commands read the ledger
    meanwhile; `kubeledger ls -f` shows what comes.
    """
    from kubeledger.analyze.clock import parse_time
    from kubeledger.model.errors import BadQuestionError
    from kubeledger.record.reading import Limits
    from kubeledger.record.recorder import Wanted, found_on, sources_of

    wanted = Wanted(since_ns=parse_time(since), **sources)
    wanted = wanted if sources_of(wanted) else found_on(Path("/"), wanted)
    if not sources_of(wanted):
        raise BadQuestionError(
            "no kubelet is found here", advice="name a source, e.g. with --log FILE"
        )
    if wanted.log is not None and wanted.log.exists() and not wanted.log.is_file():
        raise BadQuestionError(
            "no file, which could be read again where it was left",
            advice="have the kubelet write a file; what comes from a pipe `import -` reads",
            file=str(wanted.log),
        )
    with _beside(ledger, ship, metrics_address) as beside:
        limits = Limits(
            keep_ns=keep_days * _DAY_NS if keep_days is not None else None,
            segment_age_max_ns=_SHIPPED_SEGMENT_NS if ship is not None else None,
        )
        _record(beside, node or socket.gethostname().lower(), wanted, limits)


class _Beside(NamedTuple):
    """What goes on beside the recorder."""

    ledger: Ledger
    metrics: Metrics
    shipping: ShippingThread | None

    def sealed(self) -> None:
        from kubeledger.record.metrics import SEALED

        self.metrics.add(SEALED)
        if self.shipping is not None:
            self.shipping.sealed()


@contextmanager
def _beside(directory: Path, ship: str | None, metrics_address: str | None) -> Iterator[_Beside]:
    """The ledger, its numbers served, its segments shipped until all of them are sealed."""
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.writer import WriterOptions

    give_back_freed()
    with ExitStack() as stack:
        metrics = stack.enter_context(served(metrics_address))
        if ship is not None:
            from kubeledger.remote.shipping import refuse_inside

            refuse_inside(directory, ship)
        options = WriterOptions(segment_bytes=_SEGMENT_BYTES, level=_LEVEL)
        ledger = Ledger.open_or_create(directory, options)
        warn_of_readers(directory)
        shipping = None
        if ship is not None:
            from kubeledger.record.shipping import ShippingThread

            shipping = ShippingThread(ledger, ship, metrics, _not_shipped)
            stack.enter_context(shipping)
        yield _Beside(ledger, metrics, shipping)


def _not_shipped(words: str) -> None:
    click.echo(f"not shipped, and put off: {printable(words)}", err=True)


def _record(beside: _Beside, node: str, wanted: Wanted, limits: Limits) -> None:
    from kubeledger.record.recorder import Recorder, sources_of

    ledger, metrics, shipping = beside
    with until_stopped(_END_S) as waits, ledger.writer() as writer:
        writer.on_sealed = beside.sealed
        for report in writer.recovery:
            click.echo(f"recovered: {printable(report.message)}", err=True)
        sources, told = sources_of(wanted), set[str]()
        started = Recorder(ledger, writer, node, sources, time.time_ns(), limits, metrics)
        with closing(started) as recorder:
            click.echo(printable(f"recording {node}: {', '.join(sources)}"), err=True)
            _warn_of_absent(wanted.log, "" if wanted.once else "; it is waited for")
            if wanted.once:
                recorder.drain(time.time_ns)
                if shipping is not None:
                    writer.seal_open()
            else:
                recorder.read_beside()
                while waits(0 if recorder.step(time.time_ns()) else _STEP_S):
                    _report(recorder, told)
        _report(recorder, told)
        click.echo(printable(f"recorded {node}: {counted(recorder.appended, 'record')}"), err=True)


def _warn_of_absent(log: Path | None, waits: str) -> None:
    if log is not None and not log.exists():
        click.echo(printable(f"warning: {log} is not there{waits}"), err=True)


def _report(recorder: Recorder, told: set[str]) -> None:
    """What happened to chapters since the last report; ``told``: what is said once, not of each."""
    reader = recorder.reader
    for path in recorder.put_back():
        click.echo(printable(f"warning: {path} was removed, and is written anew"), err=True)
    while reader.ended:
        report = reader.ended.pop(0)
        click.echo(
            printable(
                f"a chapter of {report.node} was ended: {counted(report.added, 'record')} added, "
                f"{report.superseded} superseded by what all of it shows"
            ),
            err=True,
        )
        for finding in report.findings:
            if finding.finding.startswith("kept_sources") and finding.finding not in told:
                told.add(finding.finding)
                click.echo(f"warning: {finding.message}", err=True)
    while reader.dropped:
        choice = reader.dropped.pop(0).choice
        words = f"dropped as too old: records {choice.first_seq} to {choice.last_seq}"
        click.echo(words, err=True)
    while reader.unread:
        path, error = reader.unread.pop(0)
        click.echo(
            printable(f"warning: {path} cannot be imported, and is kept: {error.message}"),
            err=True,
        )


_LEFT_OUT = 1
"""Exit code: the copies are restored, and odd objects stand beside them."""


@click.command(
    epilog="Example: kubeledger ship --ledger /var/lib/kubeledger --to s3://bucket/nodes"
)
@ledger_option
@option("--to url URL", "A directory, s3://, gs:// or az://.", required=True)
@option("--once", "Store what is sealed now, and end.")
@option(
    "--every look_s SECONDS",
    "How often to check for sealed segments.",
    type=Seconds(min=0.1, max=240),
    default=30.0,
)
@metrics_option()
@reports_errors
def ship(ledger: Path, url: str, once: bool, look_s: float, metrics_address: str | None) -> None:
    """Store a ledger's sealed segments below a URL, each once, and read them back.

    A copy of each node's ledger grows there (URL/NODE/ID), which `restore` or any tool that
    copies objects brings back. It continues until it is stopped, beside a recorder or any other
    writer; storage that fails is tried again later. What is stored nowhere yet is not dropped by
    `compact`. Credentials come from the environment.
    """
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.storage import shipper_lock
    from kubeledger.remote.shipping import refuse_inside

    opened = Ledger.open(ledger)
    refuse_inside(opened.path, url)
    with shipper_lock(opened.path):
        if once:
            _ship_once(opened, url)
        else:
            _follow(opened, url, look_s, metrics_address)


def _ship_once(opened: Ledger, url: str) -> None:
    from kubeledger.remote.shipping import Shipper
    from kubeledger.remote.store import Store

    count = 0
    for shipment in Shipper(opened, Store(url, make=True)).ship():
        _print(shipment)
        count += 1
    click.echo(f"{counted(count, 'segment')} shipped")
    for node, info in sorted(opened.manifest().nodes.items()):
        last = info.segments[-1] if info.segments else None
        if last is not None and not last.sealed and last.last_seq >= last.first_seq:
            click.echo(
                f"{printable(node)}: records from {last.first_seq} on are in a segment that is "
                "not sealed yet; `kubeledger compact` seals it",
                err=True,
            )


def _follow(opened: Ledger, url: str, look_s: float, metrics_address: str | None) -> None:
    from kubeledger.record.metrics import READY
    from kubeledger.record.shipping import follow

    with served(metrics_address) as metrics, until_stopped() as waits:
        metrics.set(READY, 1)

        def wait(seconds: float) -> bool:
            metrics.loop_turned()
            return waits(seconds)

        follow(
            opened,
            url,
            metrics,
            on_shipped=_print,
            on_trouble=lambda words: click.echo(f"put off: {printable(words)}", err=True),
            wait=wait,
            hurried=lambda: waits.interrupted,
            look_s=look_s,
        )


def _print(shipment: Shipment) -> None:
    done = "was there" if shipment.was_there else "stored"
    click.echo(
        f"{printable(shipment.node)}: records {shipment.first_seq} to {shipment.last_seq} {done}, "
        f"{shipment.size_bytes:,} bytes: {printable(shipment.address)}"
    )


@click.command(epilog="Example: kubeledger restore --from s3://bucket/nodes/node-a --ledger back")
@ledger_option
@option(
    "--from url URL",
    "What was shipped to, or what is below it: URL/NODE, URL/NODE/ID.",
    required=True,
)
@option("--node NAME", "Only the ledger of this node.")
@reports_errors
def restore(ledger: Path, url: str, node: str | None) -> None:
    """Make a new ledger of what `ship` stored, and prove every byte of it.

    A restore that was interrupted does not download anything twice. The ledger appears only once it
    is proved. Objects that belong to no copy are left out, and so is a node whose copy is damaged;
    each is named. Exits with 1 if an object was left out that lies where a copy's do, with 4 if a
    node is not restored.
    """
    from kubeledger.remote.restore import find_copies
    from kubeledger.remote.restore import restore as restored_from
    from kubeledger.remote.store import Store

    store = Store(url)
    outcome = restored_from(store, find_copies(store, node), ledger)
    for node_found in outcome.nodes:
        name = printable(node_found.node)
        records = node_found.last_seq - node_found.first_seq + 1
        click.echo(
            f"{name}: {records:,} records, seq {node_found.first_seq} to {node_found.last_seq}\n"
            f"  digest {name}={node_found.head}"
        )
    for odd in outcome.left_out:
        place = printable(store.address(odd.path))
        click.echo(f"left out: {place}: {printable(odd.reason)}", err=True)
    for directory, error in outcome.failed:
        click.echo(f"not restored: {printable(directory)}: {printable(str(error))}", err=True)
    if outcome.failed:
        sys.exit(outcome.failed[0][1].exit_code)
    if outcome.left_out:
        sys.exit(_LEFT_OUT)
