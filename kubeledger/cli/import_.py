"""``kubeledger import``: a node's files into the ledger, every line accounted for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from kubeledger.cli.files import warn_of_readers
from kubeledger.cli.options import (
    DEFAULT_LEDGER,
    ledger_option,
    option,
    output_option,
    reports_errors,
)
from kubeledger.cli.output import counted, printable, write_document, write_wrapped
from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.headlines import Incident
    from kubeledger.ingest.api import ImportReport, NodeReport
    from kubeledger.ingest.planning.bundle import ImportOptions
    from kubeledger.model.bodies.ledger import SourceAccount

_FILES_MAX = 20
"""More have a row a format."""

_NAMED_MAX = 3
"""Of more files with one message the first are named."""

_ALIKE_MAX = 2
"""Of more warnings than ``_NAMED_MAX`` that differ in values only so many are printed."""

_NODES_MAX = 8
"""Of more nodes the worst are told of in full, and the quiet ones that are alike at once."""

_COPY = re.compile(r"(same (?:content|entries) as) ")
_PARAGRAPH_WIDTH = 80
_COUNTS = ("bytes", "lines", "noise", "not understood", "records")


@click.command(name="import", epilog="Example: kubeledger import /var/tmp/node-a --year 2026")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@ledger_option
@option("--node NAME", "Node that all sources are from.")
@option("--kubelet-version VERSION", "Version of its kubelet, e.g. 1.36.2.")
@option("--year", "Year of the first log line; klog writes none.", type=int)
@option("--format format_ FORMAT", "Read only the files of this format.")
@option("-q --quiet", "Print only the totals.")
@option("--files", "Name every file, print all warnings, and count the records of each kind.")
@output_option("table", "json")
@reports_errors
def import_(
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    kubelet_version: str | None,
    year: int | None,
    format_: str | None,
    quiet: bool,
    files: bool,
    output: str,
) -> None:
    """Read files, directories and archives of a node, and append what they say as records.

    Formats are detected: kubelet logs (klog text or JSON, plain or behind journald's prefix),
    checkpoints, pod lists, events, /stats/summary, probe metrics, cgroup values, the
    kubelet's configuration; .gz, .zst and tar of them. `-` is standard input. Importing the
    same sources again adds nothing; run again, an import that was killed is completed.
    """
    from kubeledger.ingest.planning.bundle import ImportOptions

    options = ImportOptions(node=node, kubelet_version=kubelet_version, year=year, format=format_)
    import_into(ledger, sources, options, brief=quiet, all_files=files, output=output)


def import_into(
    directory: Path,
    sources: Sequence[str | Path],
    options: ImportOptions | None = None,
    *,
    brief: bool = False,
    all_files: bool = False,
    output: str = "table",
) -> None:
    """Import into the ledger at ``directory``, made if need be, and print what was done.

    Raises:
        KubeledgerError: as ``import_sources``; a ledger that was made for nothing is removed.
    """
    from kubeledger.cli.progress import progress
    from kubeledger.ingest.api import import_and_snapshot

    if any(not str(source) for source in sources):
        raise BadQuestionError("a source has no name", advice="`.` is the present directory")
    with progress("looking at the files") as bar:

        def show(done: int, total: int) -> None:
            bar.words, bar.unit = "reading", "MB"
            bar.done, bar.total = done // 1_000_000, total // 1_000_000

        report = import_and_snapshot(directory, [str(source) for source in sources], options, show)
    _warn(report, all_files=all_files)
    if output == "json":
        write_document(report)
    else:
        _print_tables(report, directory, brief=brief, all_files=all_files)


def _warn(report: ImportReport, *, all_files: bool) -> None:
    from kubeledger.ingest.klog.account import constant_words

    for recovery in report.recovery:
        click.echo(f"recovered: {printable(recovery.message)}", err=True)
    alike: dict[str, Counter[str]] = {}
    for bundle in report.bundles:
        for message, files in _by_message((f.message, f.file) for f in bundle.findings):
            place = f"{_named(files, all_files=all_files)}: " if files else ""
            alike.setdefault(constant_words(message), Counter())[place + message] += 1
    for said in alike.values():
        shown_max = len(said) if all_files or len(said) <= _NAMED_MAX else _ALIKE_MAX
        for text, times in islice(said.items(), shown_max):
            nodes = f" ({times:,} times)" if times > 1 else ""
            click.echo(f"warning: {printable(text)}{nodes}", err=True)
        if more := sum(islice(said.values(), shown_max, None)):
            click.echo(f"warning: and {more:,} more of that kind (--files prints them)", err=True)


def _print_tables(report: ImportReport, directory: Path, *, brief: bool, all_files: bool) -> None:
    for bundle in report.bundles:
        version = f"kubelet {bundle.kubelet_version}" if bundle.kubelet_version else "kubelet ?"
        guess = "a guess, by the directory's name: see --node; " if bundle.is_node_guessed else ""
        click.echo(f"{printable(bundle.node)} ({guess}{version}) from {printable(bundle.label)}")
        if bundle.already:
            click.echo("  everything in it had been imported before: nothing added")
            continue
        if bundle.resumed:
            click.echo("  an import that had been cut short was completed")
        if not brief and (all_files or len(report.bundles) <= _NODES_MAX):
            _print_sources(bundle, all_files=all_files)
        if all_files:
            write_wrapped(("kind", "records"), sorted(bundle.by_kind.items()))
            click.echo()
        click.echo(_totals(bundle))
        if bundle.is_zone_assumed:
            click.echo("  nothing shows the zone of the log's times: they are read as UTC")
        if bundle.superseded:
            records = counted(bundle.superseded, "record")
            click.echo(f"  {records} of earlier imports superseded: these files show otherwise")
        if bundle.left_out:
            facts = counted(bundle.left_out, "fact")
            click.echo(f"  left out: {facts} of a time whose records were dropped", err=True)
        named = {finding.file for finding in bundle.findings}
        skipped = ((why, file) for file, why in sorted(bundle.skipped.items()) if file not in named)
        for why, files in _by_message(skipped):
            names = printable(_named(files, all_files=all_files))
            click.echo(f"  not read: {names}: {printable(why)}", err=True)
    click.echo(f"{counted(report.added, 'record')} added to {directory}")
    warn_of_readers(directory)
    if not brief:
        added = {bundle.node: None for bundle in report.bundles if bundle.added}
        report_import(directory, list(added))


def report_import(directory: Path, nodes: list[str], *, advise: bool = True) -> None:
    """A paragraph a node, and the commands that show more.

    Args:
        advise: name the commands.
    """
    from kubeledger.analyze.headlines import happened, in_a_sentence, incidents
    from kubeledger.analyze.histories.history import histories_of_ledger
    from kubeledger.analyze.problems.told import lines_cut, told_by
    from kubeledger.analyze.wording import ended
    from kubeledger.ledger.ledger import Ledger

    quiet: dict[str, list[str]] = {}
    told: dict[str, list[Incident]] = {}
    cut: dict[str, int] = {}
    for history in histories_of_ledger(Ledger.open(directory)) if nodes else ():
        if history.node in nodes:
            records = told_by(history)
            told[history.node], cut[history.node] = incidents(records), lines_cut(records)
    worst = {*sorted(nodes, key=lambda node: -_severity(told[node]))[:_NODES_MAX]}
    for node in nodes:
        found = told[node]
        sentence = ended(in_a_sentence(found))
        if len(nodes) > _NODES_MAX and not happened(found[:1]):
            quiet.setdefault(sentence, []).append(node)
            continue
        _paragraph(f"What happened on {node}: {sentence}")
        if happened(found[:1]):
            _paragraph(f"Worst: {ended(found[0].text)}")
        if advise and node in worst:
            if cut[node] >= _CUT_MIN:
                _paragraph(f"The ends of {cut[node]:,} lines are missing{_UNCUT}")
            which = f" --node {quote(node)}" if len(nodes) > 1 else ""
            more = [f"why {quote(each.target)}" for each in found if each.target]
            if happened(found[:1]):
                more.append(f"show {found[0].seq}")
            is_usual = directory == Path(DEFAULT_LEDGER)
            where = "" if is_usual else f" --ledger {quote(str(directory))}"
            _advise(more[:1], f"{which}{where}")
    for sentence, others in quiet.items():
        _paragraph(f"What happened on {_named(others, what='nodes')}: {sentence}")


def _severity(found: Sequence[Incident]) -> int:
    return found[0].severity if found else 0


_CUT_MIN = 3
"""Fewer are what the kubelet was writing when its log was copied."""
_UNCUT = (
    ", and with them what they say; a pager cuts lines at the screen's edge: "
    "`journalctl -u kubelet --no-pager` prints them whole."
)


def _paragraph(text: str) -> None:
    click.echo()
    click.echo(click.wrap_text(printable(text), width=_PARAGRAPH_WIDTH))


def _advise(commands: list[str], where: str) -> None:
    lines = [printable(f"kubeledger {each}{where}") for each in (*commands, "ui --open", "verify")]
    click.echo("\nNext:  " + "\n       ".join(lines))


def _by_message(pairs: Iterable[tuple[str, str | None]]) -> Iterator[tuple[str, list[str]]]:
    """Messages in the order of their first file, each with the files that it is about."""
    found: dict[str, list[str]] = {}
    for message, file in pairs:
        if file is None:
            yield message, []
            continue
        copy = _COPY.match(message)
        found.setdefault(f"{copy[1]} another file" if copy else message, []).append(file)
    yield from found.items()


def _named(files: list[str], *, all_files: bool = False, what: str = "files") -> str:
    """Files by name, or nodes; of many the first ones, and how many there are."""
    if all_files or len(files) <= _NAMED_MAX:
        return ", ".join(files)
    return f"{len(files):,} {what} ({', '.join(files[:_NAMED_MAX])}, ...)"


def _totals(bundle: NodeReport) -> str:
    lines = sum(account.lines for account in bundle.accounts)
    lost = sum(account.not_understood for account in bundle.accounts)
    noise = sum(account.noise for account in bundle.accounts)
    repeated = sum(account.repeated for account in bundle.accounts)
    again = f" ({repeated:,} duplicates)" if repeated else ""
    size = sum(bundle.sizes.values())
    own = bundle.added - sum(sum(account.records.values()) for account in bundle.accounts)
    itself = f", {own:,} of them about the import itself" if own > 0 and not bundle.resumed else ""
    return click.wrap_text(
        f"{counted(len(bundle.sizes), 'file')}, {counted(size, 'byte')}, "
        f"{counted(lines, 'line')}: {noise:,} known noise{again}, {lost:,} not understood; "
        f"{counted(bundle.added, 'record')}{itself}",
        _PARAGRAPH_WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
    )


def _print_sources(bundle: NodeReport, *, all_files: bool) -> None:
    """A row a file, or a format where there are many files."""
    if all_files or len(bundle.accounts) <= _FILES_MAX:
        rows = [
            (one.file, bundle.formats.get(one.file), *_counts(bundle, one))
            for one in bundle.accounts
        ]
        write_wrapped(("file", "format", *_COUNTS), rows)
        _confirming(bundle, {one.file: [one] for one in bundle.accounts})
        click.echo()
        return
    groups: dict[str, list[SourceAccount]] = {}
    for one in bundle.accounts:
        groups.setdefault(bundle.formats.get(one.file, "unknown"), []).append(one)
    counts = {form: [_counts(bundle, one) for one in each] for form, each in groups.items()}
    write_wrapped(
        ("format", "files", *_COUNTS),
        [
            (form, len(each), *map(sum, zip(*each, strict=True)))
            for form, each in sorted(counts.items())
        ],
    )
    _confirming(bundle, groups)
    click.echo("\n  (with --files a row a file; -o json has them, too)\n")


def _confirming(bundle: NodeReport, groups: Mapping[str, Sequence[SourceAccount]]) -> None:
    """Say where the entries of a source went that has no record of its own."""
    for name, accounts in sorted(groups.items()):
        confirmed = sum(bundle.confirmed.get(each.file, 0) for each in accounts)
        if confirmed and not any(each.records for each in accounts):
            records = counted(confirmed, "record")
            click.echo(printable(f"  {name}: merged into {records} of other sources"))


def _counts(bundle: NodeReport, account: SourceAccount) -> tuple[int, ...]:
    return (
        bundle.sizes.get(account.file, 0),
        account.lines,
        account.noise,
        account.not_understood,
        sum(account.records.values()),
    )
