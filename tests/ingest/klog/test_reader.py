"""The reader of logs: forms of lines, chunks, continuation lines, accounts."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kubeledger.ingest.klog.account import (
    Account,
    ClockStep,
    LogEntry,
    LogOutput,
    WrongStamp,
)
from kubeledger.ingest.klog.cut_lines import NOT_CUT, CutLineError, EndsSurvey, LineEnds
from kubeledger.ingest.klog.lines import LINE_MAX
from kubeledger.ingest.klog.reader import KlogReader
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.messages.catalogue import router
from kubeledger.ingest.sources.items import CutLine, Fact, LogLine
from kubeledger.model.bodies.ledger import LinesNotUnderstood

HEAD = "1121 02:52:41.296376    8337"
NOISE = f'I{HEAD} labels.go:5] "Label not found" label="x"'
PROBE = f'I{HEAD} prober.go:107] "Probe failed" probeType="Liveness" pod="ns/a" output="no"'
OLD_PROBE = f'I{HEAD} prober.go:117] Liveness probe for "a_ns(u):c" failed (failure): no'
UNKNOWN = f'I{HEAD} kubelet.go:9] "Never heard of" pod="ns/a"'


class Log:
    """What reading a log gave."""

    def __init__(
        self, data: bytes | str, cut: Callable[[bytes], Iterable[bytes]], ends: LineEnds = NOT_CUT
    ) -> None:
        raw = data.encode() if isinstance(data, str) else data
        routes = router({"Probe failed": (lambda line: (),)})
        self.reader = KlogReader(Account("kubelet.log"), routes, Clock(2026), ends=ends)
        self.out: list[LogOutput] = list(self.reader.read(cut(raw)))
        self.account = self.reader.account

    @property
    def lines(self) -> list[LogLine]:
        return [item.line for item in self.out if isinstance(item, LogEntry)]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape -> lines that nobody understands."""
        bodies = [item.body for item in self.out if isinstance(item, Fact)]
        return {body.shape: body.lines for body in bodies if isinstance(body, LinesNotUnderstood)}

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Lines, understood, noise, not understood."""
        account = self.account
        assert account.understood + account.noise + account.not_understood == account.lines
        return account.lines, account.understood, account.noise, account.not_understood


def whole(data: bytes) -> Iterable[bytes]:
    return [data]


def bytewise(data: bytes) -> Iterable[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


def log(*lines: str, cut: Callable[[bytes], Iterable[bytes]] = whole) -> Log:
    return Log("".join(f"{line}\n" for line in lines), cut)


def test_free_text_line() -> None:
    """The message of an old line is all behind its header; its values have names."""
    (line,) = log(OLD_PROBE).lines
    assert line.values is not None
    assert line.values["output"] == "no"
    assert line.message.endswith("failed (failure): no")


PREFIXES = [
    "",
    "Nov 21 02:52:41 node-a kubelet[8337]: ",
    "Nov 21 02:52:41.296376 node-a kubelet[8337]: ",
    "2026-11-21T02:52:41+0000 node-a kubelet[8337]: ",
    "2026-11-21T02:52:41.296376+00:00 node-a k3s[8337]: ",
    "2026-11-21T02:52:41.296376000Z stderr F ",
    "2026-11-21T02:52:41.296376000Z ",
    "2026-11-21 02:52:41.000 | ",
    "kubelet[8337]: ",
    "node-a: ",
    "[pod/kubelet-x/kubelet] ",
    "12月 25 21:16:17 office k3s[794]: ",
    "11月  1 21:16:17 office kubelet: ",
    "déc. 25 21:16:17 node-a kubelet[8337]: ",
    "грд 25 21:16:17 node-a kubelet[8337]: ",
    "Sat 2026-11-21 02:52:41 UTC node-a kubelet[8337]: ",
    "Sat 2026-11-21 02:52:41 UTC node-a kubelet.service[8337]: ",
    "1795229561.296376 node-a kubelet[8337]: ",
    "[   12.345678] node-a kubelet[8337]: ",
    "<30>Nov 21 02:52:41 node-a kubelet[8337]: ",
    "<30>1 2026-11-21T02:52:41.296376+00:00 node-a kubelet 8337 - - ",
    '<30>1 2026-11-21T02:52:41Z node-a kubelet 8337 ID47 [x@1 a="b c"] ',
    "2026-11-21T02:52:41.948 node-a kubelet[8337]: info ",
    "Nov 21 02:52:41 node-a kubelet[8337]: info ",
    "Nov 21 02:52:41 node-a (kubelet)[8337]: ",
    " 1月 28 17:55:38 node-a microshift[8337]: kubelet ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("body", [PROBE, OLD_PROBE])
def test_prefixes(prefix: str, body: str) -> None:
    """What carried the log here is taken off; the evidence is the raw line."""
    read = log(prefix + NOISE, prefix + body)
    bare = log(NOISE, body)
    assert [(line.message, line.values) for line in read.lines] == [
        (line.message, line.values) for line in bare.lines
    ]
    assert read.lines[0].text == prefix + body
    assert read.counts == (2, 1, 1, 0)


def json_form(message: str, values: dict[str, Any], **head: object) -> str:
    entry = {"ts": 0, "caller": "prober/prober.go:107", "msg": message, **head, **values}
    text = json.dumps(entry, separators=(",", ":"))
    return text.replace('{"ts":0', '{"ts":1795229561296.376')


def test_json_free_text() -> None:
    message = 'Liveness probe for "a_ns(u):c" failed (failure): no'
    (line,) = log(json_form(message, {}, v=1)).lines
    assert (line.message, line.values) == (message, log(OLD_PROBE).lines[0].values)


def test_json_errors_and_cut_entries() -> None:
    """An entry without verbosity is an error; one that is cut is not understood."""
    good = json_form("Probe failed", {"err": "x"})
    read = log(good, good[:50], good.replace(".376,", ".377,"))
    assert [line.severity for line in read.lines] == ["E", "E"]
    assert read.counts == (3, 2, 0, 1)


def test_json_without_caller() -> None:
    """Old JSON does not name the caller: the message alone decides."""
    entry = '{"ts":1795229561296.376,"msg":"Liveness probe for \\"a_ns(u):c\\" failed","v":0}'
    assert [line.file for line in log(entry, entry.replace(".376", ".377")).lines] == [""] * 2


BLOCK = (
    PROBE.replace('"no"', "<"),
    "\tcat: no such file",
    "\tI1121 02:52:41.296376 1 fake.go:1] a header in a probe's output",
    ' > extra="x"',
)


CRI = "2026-11-21T02:52:41.296376000Z stderr"
JOURNAL = "Nov 21 02:52:41 n kubelet[1]: "
CONTAINERD = "Nov 21 02:52:41 n containerd[9]: "
MICROSHIFT = " 1月 28 17:55:38 node-a microshift[8337]: "
HEADLESS = "12月 25 21:16:17 office k3s[794]: "
QUOTED = f"a kubelet[8337]: {PROBE[:40]}"
CAT = {"output": "cat: no such file", "extra": "x"}


def carried(prefix: str, *lines: str) -> list[str]:
    """Lines with what a carrier puts before each."""
    return [prefix + line for line in lines]


@pytest.mark.parametrize(
    ("lines", "values", "counts"),
    [
        ([], [], (0, 0, 0, 0)),
        # The runtime cuts long lines; they are put together again, and all are counted.
        ([f"{CRI} F {NOISE}", f"{CRI} P {PROBE[:60]}", f"{CRI} F {PROBE[60:]}"], [{"output": "no"}],
         (3, 2, 1, 0)),
        # A line of another unit neither ends nor continues the kubelet's entry.
        ([*carried(JOURNAL, PROBE[:-4] + "<", "\tline 1"), CONTAINERD + "level=error oops",
          *carried(JOURNAL, "\tline 2", " >")], [{"output": "line 1\nline 2"}], (5, 4, 1, 0)),
        ([*carried(JOURNAL, *BLOCK[:2]), CONTAINERD + "    at main.go", JOURNAL + BLOCK[3]], [CAT],
         (4, 3, 1, 0)),
        # MicroShift names the component before each entry.
        ([f"{MICROSHIFT}service-manager {PROBE.replace('.296376', '.396376')}",
          f"{MICROSHIFT}kubelet {PROBE}"], [{"output": "no"}], (2, 1, 1, 0)),
        # What looks like a prefix inside the values of a bare log is none.
        ([NOISE, PROBE.replace('"no"', f'"{QUOTED}"')], [{"output": QUOTED}], (2, 1, 1, 0)),
        # A prefix without a header after it proves no klog line.
        ([f"{HEADLESS}X1121 02:52:41.296376 8337 prober.go:107] x"], [], (1, 0, 0, 1)),
        ([f"{HEADLESS}I1121 02:52:41 8337 prober.go:107] x"], [], (1, 0, 0, 1)),
        ([f"{HEADLESS}I1121 02:52:41.296376 8337 prober.go] x"], [], (1, 0, 0, 1)),
        ([f"{HEADLESS}said I1121 02:52:41.296376 8337 prober.go:107] x"], [], (1, 0, 0, 1)),
        # A block belongs to its entry, whatever its lines look like.
        ([*BLOCK, NOISE], [{"output": f"cat: no such file\n{BLOCK[2].strip()}", "extra": "x"}],
         (5, 4, 1, 0)),
        # Its lines have the prefix of the line that opened it.
        *(
            (carried(prefix, NOISE, *BLOCK[:2], BLOCK[3]), [CAT], (4, 3, 1, 0))
            for prefix in PREFIXES
        ),
        # What carried the log here writes a block's tabs in its own way.
        *(
            (
                carried(
                    prefix,
                    *(NOISE, BLOCK[0], f"{tab}line 3: kill: `': no", f"{tab}  > indented", " >"),
                    NOISE,
                ),
                [{"output": "line 3: kill: `': no\n  > indented"}],
                (6, 4, 2, 0),
            )
            for prefix in ("", "May 12 04:58:57 n.local kubelet.sh[2473]: ")
            for tab in ("\t", "        ", "#011")
        ),
        # A log cut inside a block: the next header begins a new entry.
        ([*BLOCK[:2], PROBE], [{"output": CAT["output"]}, {"output": "no"}], (3, 3, 0, 0)),
        # A log that went through grep has only the lines that open blocks.
        ([BLOCK[0], BLOCK[0].replace(".296376", ".296377"), NOISE],
         [{"output": None}, {"output": None}], (3, 2, 1, 0)),
        # A foreign line is counted on its own, and the block goes on.
        ([*BLOCK[:2], "Failed to connect to bus: Host is down", BLOCK[3]], [CAT], (4, 3, 1, 0)),
        # A carriage return is no part of a value.
        ([f"{line}\r" for line in (NOISE, PROBE, BLOCK[0], "\tx", " >")],
         [{"output": "no"}, {"output": "x"}], (5, 4, 1, 0)),
        # The container GC names no container: each one that goes has a line of its own.
        ([f"I{HEAD} container_gc.go:85] attempting to delete unused containers"], [], (1, 0, 1, 0)),
        ([f'I{HEAD} container_gc.go:85] "Attempting to delete unused containers"'], [],
         (1, 0, 1, 0)),
    ],
)  # fmt: skip
def test_lines_and_their_entries(
    lines: list[str], values: list[dict[str, Any]], counts: tuple[int, int, int, int]
) -> None:
    """What the entries of a log hold besides the probe and its pod, and where each line went."""
    read = log(*lines)
    known = {"probeType": "Liveness", "pod": "ns/a"}
    assert [line.values for line in read.lines] == [known | each for each in values]
    assert read.counts == counts


def test_old_probe_output_over_lines() -> None:
    """The output of an old failed probe goes on without headers."""
    read = log(OLD_PROBE, "second", "third", NOISE)
    assert read.lines[0].message.endswith("no\nsecond\nthird")
    assert read.counts == (4, 3, 1, 0)


def test_unknown_lines_are_findable() -> None:
    """Shape, count and line numbers of what nobody understands."""
    read = log(UNKNOWN, NOISE, UNKNOWN)
    assert read.shapes == {"kubelet.go Never heard of": (1, 3)}


def test_many_unknown_lines_come_in_several_records() -> None:
    """A record holds at most a thousand line numbers."""
    read = log(*[UNKNOWN] * 2500)
    facts = [item.body for item in read.out if isinstance(item, Fact)]
    counts = [body.count for body in facts if isinstance(body, LinesNotUnderstood)]
    assert counts == [1000, 1000, 500]


def test_chunks_do_not_matter() -> None:
    """Whole and byte by byte give the same."""
    lines = (NOISE, PROBE, *BLOCK, OLD_PROBE, "more", UNKNOWN, "", "junk ü", NOISE)
    first, second = log(*lines), log(*lines, cut=bytewise)
    assert first.lines == second.lines
    assert first.counts == second.counts
    assert first.shapes == second.shapes


def test_binary_and_bad_bytes_are_counted() -> None:
    """NULs of a log cut in place, and bytes that are no UTF-8."""
    data = b"\0" * 40 + PROBE.encode() + b"\n" + PROBE.replace("no", "\xff").encode("latin-1")
    read = Log(data, whole)
    assert len(read.lines) == 2
    assert read.lines[1].values is not None
    assert read.lines[1].values["output"] == "\ufffd"
    stats = read.reader.cutter.stats
    assert (stats.nul_bytes, stats.ends_with_newline) == (40, False)


@pytest.mark.parametrize(
    "cut", [whole, lambda raw: [raw[i : i + 64] for i in range(0, len(raw), 64)]]
)
@pytest.mark.parametrize("form", ["text", "json", "journal"])
def test_a_line_that_was_sent_twice_counts_once(
    form: str, cut: Callable[[bytes], Iterable[bytes]]
) -> None:
    """Right away, a few lines later, or with all that goes before and behind it."""
    first, other, second = (
        PROBE.replace(".296376", stamp).replace("ns/a", pod)
        for stamp, pod in ((".296376", "ns/a"), (".296376", "ns/b"), (".396376", "ns/a"))
    )
    lines = [first, first, other, NOISE, first, NOISE, second, first, other, second, second]
    if form == "json":
        entry = '{"ts":1795229561296.%d,"caller":"prober/prober.go:107","msg":"Probe failed",'
        values = '"v":1,"pod":{"name":"%s"}}'
        text = {first: (376, "a"), other: (376, "b"), second: (976, "a")}
        lines = [entry % text[x][0] + values % text[x][1] if x in text else x for x in lines]
        lines = [line for line in lines if line != NOISE]
    elif form == "journal":
        lines = [f"Nov 21 02:52:41 n kubelet[8337]: {line}" for line in lines]
    read = Log("\n".join(lines) + "\n", cut)
    assert len(read.lines) == 3
    assert not [item for item in read.out if isinstance(item, ClockStep)]
    assert read.account.repeated == len(lines) - 3 - (0 if form == "json" else 1)
    assert read.counts[1] == 3


@pytest.mark.parametrize("form", ["text", "json", "journal"])
@pytest.mark.parametrize(("stamp", "ahead"), [("02:54:41", True), ("02:50:41", False)])
def test_a_wrong_stamp(form: str, stamp: str, *, ahead: bool) -> None:
    """Reported after the lines that show it, also where these need no look."""
    lines = [NOISE.replace(".296376", f".{296376 + n * 1000}") for n in range(20)]
    lines[8] = PROBE.replace("02:52:41.296376", f"{stamp}.304376")
    lines[13] = PROBE.replace(".296376", ".309376")
    if form == "json":
        lines = [_as_json(line) for line in lines]
    elif form == "journal":
        lines = [f"Nov 21 02:52:41 n kubelet[8337]: {line}" for line in lines]
    read = Log("\n".join(lines) + "\n", whole)
    (wrong,) = [item for item in read.out if isinstance(item, WrongStamp)]
    assert not [item for item in read.out if isinstance(item, ClockStep)]
    first, second = read.lines
    assert wrong.doubt.logged_ns == first.ts_ns
    before_ns = second.ts_ns - 6_000_000
    assert wrong.doubt.before_ns == before_ns
    assert wrong.doubt.after_ns == (before_ns + 2_000_000 if ahead else wrong.doubt.after_ns)


def _as_json(line: str) -> str:
    stamp, rest = line[6:21], line.partition("] ")[2]
    seconds = 1795229561 + (int(stamp[3:5]) - 52) * 60
    message = rest.split('"')[1]
    return json.dumps(
        {"ts": float(f"{seconds}{stamp[9:12]}.{stamp[12:15]}"), "caller": "a/b.go:1",
         "msg": message, "v": 1, "output": "no"}, separators=(",", ":"),
    )  # fmt: skip


def test_lines_of_an_entry_that_was_sent_twice() -> None:
    """Its further lines belong to the first of two that stand together, or are left out."""
    later = PROBE.replace(".296376", ".396376")
    read = log(*BLOCK[:1], *BLOCK, later, *BLOCK, NOISE.replace(".296376", ".496376"))
    assert [line.values["output"] for line in read.lines if line.values] == [
        f"cat: no such file\n{BLOCK[2].strip()}",
        "no",
    ]
    assert read.account.repeated == 1 + len(BLOCK)


@pytest.mark.parametrize("length", [5, 30, 500])
def test_a_block_that_was_sent_twice_counts_once(length: int) -> None:
    """However long it is; what comes a little late in between is no repeat."""
    lines = [
        PROBE.replace(".296376", f".{296376 + n * 10}").replace("ns/a", f"ns/p{n}")
        for n in range(1000)
    ]
    late = PROBE.replace(".296376", f".{296376 + 5003}")
    read = log(*lines[:600], late, *lines[600 - length : 600], *lines[600:])
    assert len(read.lines) == 1001
    assert read.account.repeated == length


def test_equal_lines_of_a_coarse_clock_are_two() -> None:
    """Stamps without microseconds do not tell two lines of one millisecond apart."""
    coarse = PROBE.replace(".296376", ".296000")
    assert len(log(coarse, coarse).lines) == 2
    assert len(log(PROBE, coarse.replace(":41", ":42"), coarse.replace(":41", ":42")).lines) == 2


def test_overlong_line() -> None:
    """A huge line is cut; what follows is read, at its right place."""
    huge = NOISE + "x" * (LINE_MAX + 10)
    data = f"{huge}\n{PROBE}\n".encode()
    for cut in (whole, lambda raw: [raw[i : i + 65536] for i in range(0, len(raw), 65536)]):
        read = Log(data, cut)
        assert read.lines[0].offset == len(huge) + 1
        assert read.reader.cutter.stats.overlong == 1
        assert read.counts == (2, 1, 1, 0)


def cut_lines(log: Log) -> list[int]:
    return [out.line.line for out in log.out if isinstance(out, CutLine)]


def test_a_line_that_was_cut_tells_the_values_before_the_cut() -> None:
    """What is left of the cut one would be taken for another."""
    later = PROBE.replace(".296376", ".296377")
    read = log(PROBE, PROBE[:-2], later)
    assert [line.values for line in read.lines] == [
        {"probeType": "Liveness", "pod": "ns/a", "output": "no"},
        {"probeType": "Liveness", "pod": "ns/a"},
        {"probeType": "Liveness", "pod": "ns/a", "output": "no"},
    ]
    values = read.lines[1].values
    assert values is not None
    with pytest.raises(CutLineError):
        values.get("output")
    assert cut_lines(read) == [2]


def test_a_line_that_was_cut_anywhere_goes_on_in_no_other() -> None:
    """One that was cut in its header is none of the entry above, which is free text."""
    above = f'W{HEAD} prober.go:107] Liveness probe for "a_ns(u):c" failed'
    for end in range(2, len(PROBE)):
        read = log(above, PROBE[:end], NOISE)
        (line,) = [line for line in read.lines if line.line == 1]
        assert line.message == 'Liveness probe for "a_ns(u):c" failed', end
        assert cut_lines(read) in ([2], []), end


def test_a_line_of_free_text_that_was_cut_is_not_understood() -> None:
    line = f'W{HEAD} prober.go:107] Liveness probe for "a'
    read = log(line, NOISE)
    assert (read.counts, cut_lines(read)) == ((2, 0, 1, 1), [1])


def test_the_last_line_without_an_end_is_no_cut_one() -> None:
    assert cut_lines(Log(f"{NOISE}\n{PROBE[:-2]}", whole)) == []


def test_all_lines_of_one_length_are_cut() -> None:
    """As the survey saw of the log; of each the value at its end is not whole."""
    ends = LineEnds(cut_at=len(PROBE))
    short = PROBE.replace('"no"', "5")
    read = Log(f"{PROBE[:-4]}5000\n{short}\n{NOISE}\n", whole, ends)
    assert [line.values for line in read.lines] == [
        {"probeType": "Liveness", "pod": "ns/a"},
        {"probeType": "Liveness", "pod": "ns/a", "output": 5},
    ]
    assert cut_lines(read) == [1]


def test_in_a_torn_log_a_value_at_the_end_is_not_believed() -> None:
    """Nor that a line has no more keys than it shows, where others of its call have."""
    bare = PROBE.replace('"no"', "5")
    read = Log(f"{PROBE}\n{bare}\n{PROBE[:-12]}\n{NOISE}\n", whole, LineEnds(torn=True))
    assert [line.values for line in read.lines] == [
        {"probeType": "Liveness", "pod": "ns/a", "output": "no"},
        {"probeType": "Liveness", "pod": "ns/a"},
        {"probeType": "Liveness", "pod": "ns/a"},
    ]
    assert cut_lines(read) == [3]


@pytest.mark.parametrize("prefix", ["", "Nov 21 02:52:41.296376 host kubelet[8337]: "])
@pytest.mark.parametrize("length", [90, 120])
def test_the_survey_finds_where_lines_are_cut(prefix: str, length: int) -> None:
    """By their one length, with a carrier's prefix or behind it."""
    long = [PROBE[:-1] + "x" * number + '"' for number in range(40)]
    wholes = [(f"{prefix}{line}".encode(), line.encode()) for line in (NOISE, *long)]
    assert survey(wholes) == LineEnds()
    raws = [(raw[:length], raw[len(prefix) : length]) for raw, _ in wholes]
    assert survey(raws) == LineEnds(length)
    bodies = [(raw[: len(prefix) + length], body[:length]) for raw, body in wholes]
    uneven = [(b"-" * (number % 3) + raw, body) for number, (raw, body) in enumerate(bodies)]
    assert survey(uneven) == LineEnds(length, of_body=True)
    assert survey([*wholes, (b"", long[7][:-4].encode())]) == LineEnds(torn=True)


def survey(lines: list[tuple[bytes, bytes]]) -> LineEnds:
    found = EndsSurvey()
    found.look(lines)
    return found.found()
