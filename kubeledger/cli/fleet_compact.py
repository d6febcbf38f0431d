"""``kubeledger fleet compact``: few large files in place of many small ones."""

from __future__ import annotations

import time

import click

from kubeledger.cli.fleet_options import lake_option
from kubeledger.cli.options import output_option, reports_errors
from kubeledger.cli.output import write_rows
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import parse_go_duration

_COLUMNS = ("what", "files", "bytes")


@click.command(epilog="Example: kubeledger fleet compact --lake s3://bucket/lake")
@lake_option
@click.option(
    "--older-than",
    default="24h",
    show_default=True,
    metavar="D",
    help="Remove what died imports left when it is older; no import may take longer.",
)
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def compact(lake: str, older_than: str, output: str) -> None:
    """Copy many nodes' small files into large ones, and remove what died imports left.

    Afterwards `fleet sql` and the others open few files. The nodes' own files stay, and a node
    that grows is read from them, until the next time. Run it after a large import, or daily.
    """
    from kubeledger.cli.progress import progress
    from kubeledger.fleet.compaction import compact as compact_files
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.scratch import scratch_directory

    try:
        age_ns = parse_go_duration(older_than)
    except ValueError:
        age_ns = -1
    if age_ns < 0:
        raise BadQuestionError(f"{older_than!r} is not a duration", advice="write e.g. 24h or 90m")
    place = Lake.open(lake)
    with (
        progress("looking for what died imports left") as bar,
        scratch_directory(None) as scratch,
    ):
        before = len(place.compacted())
        swept = place.sweep(time.time_ns() - age_ns)
        bar.report("copying small files into large ones")
        written = compact_files(place, scratch)
        bar.report("writing the index")
        markers = place.write_index()
    stay = len(place.compacted()) - len(written)
    rows = (
        ("remains of died imports removed", swept.files, swept.size_bytes),
        ("small files copied", sum(len(each.nodes) for each in written), None),
        ("large files written", len(written), sum(each.file.size_bytes for each in written)),
        ("large files that stay", stay, None),
        ("large files removed", before - stay, None),
        ("markers in the index", markers, None),
    )
    write_rows(_COLUMNS, rows, output)
