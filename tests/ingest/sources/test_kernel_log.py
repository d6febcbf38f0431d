"""Reports of the OOM killer, in each form in which kernel logs are kept."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import kubeledger
from kubeledger.ingest.api import import_sources
from kubeledger.ingest.planning.kernel_dates import date_reports
from kubeledger.ingest.sources.items import KernelReport
from kubeledger.ingest.sources.kernel_log import KernelLogReader, is_kernel_log
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.eviction import ProcessKilled
from kubeledger.model.units import NS_PER_S, parse_ts
from tests.ingest.feeding import DATA

BOOT = datetime(2026, 11, 20, 3, 4, 5, 600_000, tzinfo=UTC)
POD = "/kubepods/podfbc755be-043e-487e-9ecf-93184d429c8e"
CONTAINER = f"{POD}/14261f2b384b8f7133fb06167f11e8c8d9ae2dbee0708bf24cfd3ab7b17d3336"
KILLED_NS = parse_ts("2026-11-22T08:07:48.967107Z")


def read(text: str) -> KernelLogReader:
    reader = KernelLogReader("kernel.log")
    reader.read((number, 0, line) for number, line in enumerate(text.split("\n"), 1))
    return reader


def log(name: str) -> str:
    """A file of the tests' data."""
    return (DATA / "kernel" / name).read_text()


def _split() -> Iterator[tuple[datetime, str]]:
    for line in log("cgroup-v1.log").splitlines():
        stamp, _, text = line.partition(" ")
        yield datetime.fromisoformat(stamp.replace(",", ".")), text


def _boot(moment: datetime) -> str:
    return f"{(moment - BOOT).total_seconds():12.6f}"


Form = Callable[[datetime, str], str]
FORMS: dict[str, Form] = {
    "dmesg": lambda t, text: f"[{_boot(t)}] {text}",
    "dmesg --raw": lambda t, text: f"<6>[{_boot(t)}] {text}",
    "dmesg --decode": lambda t, text: f"kern  :info  : [{_boot(t)}] {text}",
    "with the caller": lambda t, text: f"[{_boot(t)}][ T17115] {text}",
    "dmesg -T": lambda t, text: t.strftime("[%a %b %e %H:%M:%S %Y] ") + text,
    "iso": lambda t, text: t.isoformat(timespec="microseconds").replace(".", ",") + f" {text}",
    "syslog": lambda t, text: t.strftime("%b %e %H:%M:%S n kernel: ") + f"[{_boot(t)}] {text}",
    "short-precise": lambda t, text: t.strftime("%b %e %H:%M:%S.%f n kernel: ") + text,
    "short-iso": lambda t, text: t.strftime("%Y-%m-%dT%H:%M:%S+0000 n kernel: ") + text,
    "rsyslog": lambda t, text: f"{t.isoformat()} n kernel: [{_boot(t)}] {text}",
    "short-unix": lambda t, text: f"{t.timestamp():.6f} n kernel: {text}",
    "short-full": lambda t, text: t.strftime("%a %Y-%m-%d %H:%M:%S UTC n kernel: ") + text,
    "short-monotonic": lambda t, text: f"[{_boot(t)}] n kernel: {text}",
    "/dev/kmsg": lambda t, text: f"6,9,{(t - BOOT) // timedelta(microseconds=1)},-;{text}",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_report_in_all_forms(form: str) -> None:
    """The same report; its time to the second, where the form or another source holds it."""
    text = "\n".join(FORMS[form](moment, line) for moment, line in _split())
    assert is_kernel_log(text, "some.txt")
    reader = read(text)
    reported = {CONTAINER: [KILLED_NS - NS_PER_S // 2]}
    (report,) = date_reports(reader.reports, (), reported, offset_ns=0, near_ns=KILLED_NS)
    assert (report.process, report.pid, report.oom_score_adj) == ("klhelper", 17151, 1)
    assert (report.cgroup, report.task_cgroup, report.constraint) == (POD, CONTAINER, "memcg")
    assert report.usages["memory"] == (64 << 20, 64 << 20)
    assert report.rss_bytes == 18365 * 4096
    rows = [(t.pid, t.rss_pages, t.page_table_bytes, t.name) for t in report.tasks or ()]
    assert rows[0] == (16114, 383, 40960, "busybox")
    assert rows[2] == (17151, 18365, 245760, "klhelper")
    assert abs(report.ts_ns - KILLED_NS) <= NS_PER_S


def test_a_log_that_counts_from_the_boot_and_nothing_else() -> None:
    """Without a second source its reports have no time; a line of the audit tells the boot's."""
    lines = [FORMS["dmesg"](moment, line) for moment, line in _split()]
    reports = read("\n".join(lines)).reports
    assert date_reports(reports, (), {}, offset_ns=0, near_ns=KILLED_NS) == []
    audit = f"[    5.250000] audit: type=2000 audit({int(BOOT.timestamp()) + 5}.850:1): state=1"
    reader = read("\n".join([audit, *lines]))
    (report,) = date_reports(reader.reports, reader.boots, {}, offset_ns=0, near_ns=KILLED_NS)
    assert abs(report.ts_ns - KILLED_NS) < NS_PER_S // 100


def _one(name: str) -> KernelReport:
    (report,) = read(log(name)).reports
    return report


def test_a_container_on_cgroup_v2() -> None:
    """All its processes die, and names may hold blanks and commas."""
    report = _one("cgroup-v2-systemd.log")
    assert report.pid == 40111
    assert report.also_killed == (40150,)
    assert report.usages["swap"] == (0, 0)
    assert [task.name for task in report.tasks or ()] == ["tini", "java", "my worker, two"]
    assert len(report.evidence) == 7


def test_the_node_itself() -> None:
    """RAM without what the kernel keeps for itself, and no cgroup."""
    report = _one("node.log")
    assert (report.cgroup, report.constraint, report.is_memcg) == (None, "none", False)
    assert (report.ram_pages, report.swap_bytes) == (1_000_000, 0)
    assert report.host == "node-x"


def test_an_old_kernel() -> None:
    """A child was killed for the process that was chosen; pages of page tables are counted."""
    report = _one("linux-3.10.log")
    assert (report.chosen_pid, report.pid, report.process) == (21001, 21002, "apache2")
    assert [task.page_table_pages for task in report.tasks or ()] == [120, 60]
    assert report.cgroup == report.task_cgroup


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("pid=17151", "pid=17150", "two processes"),
        ("oom_memcg=/", "oom_memcg=/other/", "two cgroups"),
        ("pid=17151", "pid=17151", None),
    ],
)
def test_lines_of_one_report_that_differ(old: str, new: str, why: str | None) -> None:
    text = log("cgroup-v1.log")
    assert old in text
    (report,) = read(text.replace(old, new)).reports
    assert (report.conflict is not None) == (why is not None)
    assert why is None or why in str(report.conflict)


def test_what_is_missing_is_not_made_up() -> None:
    """The beginning of a ring buffer, lost lines, and a kill of which nothing else was written."""
    lines = log("cgroup-v1.log").splitlines()
    table = next(n for n, line in enumerate(lines) if "Tasks state" in line)
    (from_table,) = read("\n".join(lines[table:])).reports
    assert from_table.usages == {}
    assert len(from_table.tasks or ()) == 3
    (from_row,) = read("\n".join(lines[table + 3 :])).reports
    assert from_row.tasks is None
    (alone,) = read(lines[-1]).reports
    assert (alone.cgroup, alone.pid, alone.is_memcg) == (None, 17151, True)
    lost = lines[0].partition(" ")[0] + " printk: 12 messages dropped"
    (cut,) = read("\n".join([*lines[: table + 3], lost, *lines[table + 3 :]])).reports
    assert cut.is_cut


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-22T08:07:48.966858+00:00 stderr F Killed process 12 (a)",
        "Nov 22 08:07:48 n containerd[12]: Killed process 12 (a)",
        "I1122 08:07:48.966858   24528 manager.go:1216] Killed process 12 (a)",
        '{"kind": "List"}',
    ],
)
def test_other_logs(line: str) -> None:
    assert not is_kernel_log(f"{line}\n" * 3, "kernel.log")


def _alone(tmp_path: Path, *hosts: str) -> Ledger:
    """An import of nothing but a kernel's log, with the time since the boot alone."""
    form = "[{boot}] {text}" if not hosts else "Nov 22 08:07:48 {host} kernel: [{boot}] {text}"
    path = tmp_path / "var" / "kern.log"
    path.parent.mkdir()
    path.write_text(
        "".join(
            form.format(boot=_boot(moment), text=text, host=host) + "\n"
            for host in hosts or ("",)
            for moment, text in _split()
        )
    )
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(path)], ledger)
    return ledger


@pytest.mark.parametrize("hosts", [("alpha",), ("alpha", "beta")])
def test_a_log_alone_names_its_nodes(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    ledger = _alone(tmp_path, *hosts)
    assert tuple(ledger.nodes()) == hosts
    for host in hosts:
        kills = [r for r in ledger.records(host) if isinstance(r.body, ProcessKilled)]
        assert len(kills) == 1


def test_a_log_that_ends_before_it_says_who_was_killed(tmp_path: Path) -> None:
    """Memory ran out all the same, and the list of what went wrong says so."""
    path = tmp_path / "node" / "kern.log"
    path.parent.mkdir()
    path.write_text(f"Nov 22 08:07:48 node kernel: {next(text for _, text in _split())}\n")
    ledger = kubeledger.open(tmp_path / "ledger")
    assert ledger.import_(path).happened == ("node: 1 shortage of memory",)
    assert not [r for r in ledger.records("node") if isinstance(r.body, ProcessKilled)]
