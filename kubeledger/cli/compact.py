"""``kubeledger compact`` and ``index``: everything sealed, dropped by policy, or as Parquet."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from kubeledger.analyze.clock import parse_time
from kubeledger.cli.options import ledger_option, option, reports_errors, time_option
from kubeledger.cli.output import counted, printable
from kubeledger.model.errors import BadQuestionError, LedgerUnavailableError
from kubeledger.model.units import format_ts, parse_size

if TYPE_CHECKING:
    from kubeledger.analyze.clock import Span
    from kubeledger.ledger.dropping import Policy
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.manifest import SegmentInfo
    from kubeledger.replay.dropping import Dropped


@click.command(epilog="Example: kubeledger index --rebuild")
@ledger_option
@option("--rebuild", "Remove the files first and write all of them again.")
@reports_errors
def index(ledger: Path, rebuild: bool) -> None:
    """Write the records as Parquet below LEDGER/history, for SQL and for other engines.

    `kubeledger sql` does so by itself where it pays. The files hold nothing that the ledger
    does not hold, and may be removed at any time.
    """
    from kubeledger.cli.progress import progress
    from kubeledger.ledger.history.history import History
    from kubeledger.ledger.history.parts import HISTORY
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.storage import storage_errors

    opened = Ledger.open(ledger)
    with progress("writing Parquet"), TemporaryDirectory(prefix="kubeledger-") as scratch:
        if (ledger / HISTORY).is_symlink():
            raise LedgerUnavailableError(
                "the history is a link, and nothing is written through one",
                advice="remove the link",
                file=str(ledger / HISTORY),
            )
        if rebuild and (ledger / HISTORY).is_dir():
            with storage_errors("remove the history", ledger / HISTORY):
                shutil.rmtree(ledger / HISTORY)
        history = History(opened, Path(scratch))
        covered = history.cover(1)
        history.require_kept()
    for node, seq in covered.ends.items():
        click.echo(f"{printable(node)}: records {opened.begin(node).seq + 1} to {seq}")
    click.echo(f"{len(covered.paths)} Parquet files below {ledger / HISTORY}")


@click.command(epilog="Example: kubeledger compact --ledger /var/lib/kubeledger --keep 90d")
@ledger_option
@option("--level", "Of zstd; higher is smaller and slower.", type=click.IntRange(1, 19), default=10)
@option("--keep DURATION", "Drop what is older than this: 90d, 12h, 1d12h.")
@time_option("--before", "Drop what is from before")
@option(
    "--keep-bytes SIZE",
    "Drop what is not needed to keep so many bytes of each node on disk: 500MB, 20GiB.",
)
@option("--unshipped", "Drop also what `ship` has not stored yet, of a node that it ships.")
@option("--dry-run", "Only say what would be dropped; change nothing.")
@reports_errors
def compact(
    ledger: Path,
    level: int,
    keep: str | None,
    before: str | None,
    keep_bytes: str | None,
    unshipped: bool,
    dry_run: bool,
) -> None:
    """Seal the segments that are still open, compress them, and drop the oldest by a policy.

    Without a policy nothing is lost: each compressed file is read back and compared before the
    plain one is removed, and the chain covers the same lines as before.

    With one or several of --keep, --before and --keep-bytes, what any of them allows is dropped:
    whole segments from a node's beginning, never its last one. The state after them is kept, a
    record says what was dropped when and why, and `audit` proves the chain from there on. If
    a node is shipped elsewhere, what is not stored there yet stays, unless --unshipped is given.
    """
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.ledger.writer import WriterOptions

    now_ns = time.time_ns()
    opened = Ledger.open(ledger, WriterOptions(level=level))
    policy = _policy(keep, before, keep_bytes, opened.span, unshipped=unshipped)
    if dry_run and policy is None:
        raise BadQuestionError(
            "--dry-run says what a policy would drop, and none is given",
            advice="give --keep, --before or --keep-bytes",
        )
    if not dry_run:
        _seal(opened)
    if policy is not None:
        _drop(opened, policy, now_ns, dry_run=dry_run)
    if not dry_run:
        _print_sizes(opened)


def _policy(
    keep: str | None, before: str | None, keep_bytes: str | None, span: Span, *, unshipped: bool
) -> Policy | None:
    """The policy that the options name; None when they name none."""
    from kubeledger.ledger.dropping import Policy

    times: list[int] = []
    words: list[str] = []
    if keep is not None:
        times.append(_span_ago(keep))
        words.append(f"keep {keep.strip()}")
    if before is not None:
        times.append(parse_time(before, span))
        words.append(f"before {format_ts(times[-1])}")
    size = None if keep_bytes is None else _size(keep_bytes)
    if size is not None:
        words.append(f"keep {size} bytes")
    if not words:
        return None
    return Policy(
        before_ns=max(times, default=None),
        keep_bytes=size,
        unshipped=unshipped,
        words=" or ".join(words),
    )


def _span_ago(text: str) -> int:
    word = text.strip()
    try:
        if word[:1].isdigit():
            return parse_time(f"-{word}")
    except BadQuestionError:
        pass
    raise BadQuestionError(f"{text!r} is not a duration", advice="write it as 90d, 12h or 1d12h")


def _size(text: str) -> int:
    """As ``parse_size``."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise BadQuestionError(str(error), advice="write it as 500MB or 20GiB") from None


def _seal(opened: Ledger) -> None:
    with opened.writer() as writer:
        for report in writer.recovery:
            click.echo(f"recovered: {printable(report.message)}", err=True)
        count = writer.seal_open()
    click.echo(f"{counted(count, 'segment')} sealed")


def _drop(opened: Ledger, policy: Policy, now_ns: int, *, dry_run: bool) -> None:
    from kubeledger.ledger.history.history import forget_dropped
    from kubeledger.replay.dropping import drop_by_policy, plan_drops

    if dry_run:
        for found in plan_drops(opened, policy):
            click.echo(_words(found, "would be dropped", opened, policy))
        return
    for found in drop_by_policy(opened, policy, now_ns):
        click.echo(_words(found, "dropped", opened, policy))
    forget_dropped(opened)


def _words(found: Dropped, done: str, opened: Ledger, policy: Policy) -> str:
    choice = found.choice
    place = f" (record {found.record_seq})" if found.record_seq is not None else ""
    held = ""
    if choice.allowed_seq > choice.last_seq:
        held = (
            f"; records up to {choice.allowed_seq} stay, for later imports add to times before "
            "their end"
        )
    if choice.unshipped_seq:
        held += f"; records up to {choice.unshipped_seq} stay until they are shipped"
    if not choice.last_seq:
        why = held or f": {_why_nothing(opened.info(found.node).segments, policy)}"
        return f"{printable(found.node)}: nothing {done}{why}"
    return (
        f"{printable(found.node)}: records {choice.first_seq} to {choice.last_seq} {done}, "
        f"{counted(choice.segments, 'segment')}, {choice.stored_bytes:,} bytes on disk{place}{held}"
    )


def _why_nothing(segments: Sequence[SegmentInfo], policy: Policy) -> str:
    """Why a policy lets no segment go."""
    whole = [segment for segment in segments if segment.last_seq >= segment.first_seq]
    if len(whole) < 2:
        return "all its records are in one segment, and the last segment stays"
    reasons = []
    latest_ns = whole[0].max_ts_ns
    if policy.before_ns is not None and latest_ns is not None:
        reasons.append(f"its first segment has records up to {format_ts(latest_ns)}")
    if policy.keep_bytes is not None:
        reasons.append(f"it takes no more than {policy.keep_bytes:,} bytes on disk")
    return ", and ".join(reasons)


def _print_sizes(opened: Ledger) -> None:
    for node, info in sorted(opened.manifest().nodes.items()):
        size_bytes = sum(segment.size_bytes for segment in info.segments)
        stored_bytes = sum(segment.stored_bytes for segment in info.segments)
        share = f", {100 * stored_bytes / size_bytes:.1f} %" if size_bytes else ""
        click.echo(
            f"{printable(node)}: {counted(info.last_seq - info.dropped_seq, 'record')}, "
            f"{size_bytes:,} bytes of lines in {stored_bytes:,} on disk{share}"
        )
