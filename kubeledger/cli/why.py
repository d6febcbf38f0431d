"""``kubeledger why``: a headline, dated steps, then their numbered evidence."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from kubeledger.analyze.logged_errors import HEADER
from kubeledger.analyze.summaries import cut, cut_chain
from kubeledger.analyze.why import Answer, Explanation, Piece, StoryStep
from kubeledger.analyze.why.pieces import time
from kubeledger.analyze.why.story import STEPS_MAX, most_important
from kubeledger.cli.complete import complete_targets
from kubeledger.cli.options import (
    instant,
    ledger_option,
    node_option,
    option,
    output_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import counted, printable, write_document
from kubeledger.cli.screen import paged, verdict_text
from kubeledger.model.patterns import regex
from kubeledger.model.units import format_ts
from kubeledger.verify import Finding

_WIDTH, _HEIGHT = 80, 24
_WIDTH_MAX = 200
_STEP_LINES_MAX = 10
_COUNTS_LINES_MAX = 3
_WORST_MAX = 3
_WORST_LINES_MAX = 5
_RANKING_SHOWN = 2
_NAMESAKES_SHOWN = 2
_LAST = regex(r", last [^)]*")
_CHAINS = frozenset(
    {
        "lifecycle.PodListed", "lifecycle.PodStageFailed", "lifecycle.ReasonReported",
        "node.ConditionChanged", "node.KubeletExited", "node.Troubled",
    }
)  # fmt: skip
"""Kinds of steps whose text ends with the cause: the middle is cut out, if anything."""
_ERROR = regex(r"\"?err(?:or)?\"?[=:]|failed to |[Ee]rror")
_CIRCUMSTANCES = frozenset({"node.NodeObserved", "node.SettingsObserved"})
_OPENED = regex(r" \w+=<$")
_PROOFS = tuple(
    regex(pattern)
    for pattern in (
        r"→ ",
        r"containerMessage=",
        r"output=",
        r"back-off \S+ restarting",
        r"message=",
        r"\berr(or)?=",
        r"requested: ",
        r"(?<=event=){",
        r"[Ff]ailed|[Ee]vict|[Pp]reempt|[Kk]ill",
    )
)
"""What in a log line is proof, the best first."""


def screen_size() -> tuple[int, int]:
    """Columns (at most 200) and lines that an answer may take, that of the prompt not counted."""
    if not sys.stdout.isatty():
        return _WIDTH, _HEIGHT - 1
    size = shutil.get_terminal_size((_WIDTH, _HEIGHT))
    return min(max(size.columns, 40), _WIDTH_MAX), max(size.lines, _HEIGHT) - 1


def short_text(answer: Answer, width: int, height: int, steps_max: int = STEPS_MAX) -> list[str]:
    """Lines of an answer, none wider than ``width`` columns, at most ``height`` of them."""
    head = textwrap.wrap(printable(answer.headline), width, break_on_hyphens=False)
    lines = [click.style(line, bold=True) for line in head]
    lines += _namesakes(answer, width)
    lines += textwrap.wrap(cut(_counts(answer), _COUNTS_LINES_MAX * (width - 4)), width)
    lines += _worst(answer, width)
    tail = [*_ranking(answer, width), _verdict(answer, width)]
    shown = most_important(answer.steps, steps_max)
    left = len(answer.steps) - len(shown)
    taken = len(_steps(shown, {step.evidence: step.evidence for step in shown}, width, left))
    lines_left = height - len(lines) - bool(taken) - taken - len(tail) - 1
    proofs, kept, cited = _evidence(answer, shown, width, lines_left - 1)
    cited = cited if proofs else {}
    body = _steps(shown, cited, width, left)  # without some numbers they take no more lines
    lines += ["", *body] if body else []
    left = len(answer.evidence) - len({n for n in cited.values() if n in kept})
    if proofs:
        more = f" ({left} more with --full)" if left else ""
        heads = f"Evidence on {printable(answer.node)}{more}:", f"Evidence{more}:"
        lines += ["", next((head for head in heads if len(head) <= width), heads[-1]), *proofs]
    return [*lines, *tail][:height]


def _counts(answer: Answer) -> str:
    return f"In all: {answer.counts}." if answer.counts else ""


def _worst(answer: Answer, width: int) -> list[str]:
    """What befell the pods of a node; little of it where the node has a story of its own."""
    lines: list[str] = []
    for text in answer.worst[: _WORST_MAX - bool(answer.steps)]:
        room = 2 if lines else 3
        shown = _wrapped(printable(text), "", width - 4, room, cut)
        if len(lines) + len(shown) > _WORST_LINES_MAX - bool(answer.steps):
            break
        lines += [f"  - {shown[0]}", *(f"    {line}" for line in shown[1:])]
    return lines


def _namesakes(answer: Answer, width: int) -> Iterator[str]:
    """Which other pods had the name, and when."""
    others = answer.namesakes
    for each in others[-_NAMESAKES_SHOWN:]:
        begin, end = time(each.first_ts_ns)[11:16], time(each.last_ts_ns)[11:16]
        text = f"Another pod of that name: {printable(each.pod_uid)}, {begin} to {end}"
        yield click.style(cut(text, width), dim=True)
    if len(others) > _NAMESAKES_SHOWN:
        yield click.style(f"and {len(others) - _NAMESAKES_SHOWN} before them", dim=True)


def _steps(
    shown: list[StoryStep], cited: Mapping[int | None, int | None], width: int, left: int
) -> list[str]:
    """Lines of the steps; each names its evidence if ``cited`` has the number it goes by."""
    if not shown:
        return []
    days = {time(ts)[:10] for step in shown for ts in (step.ts_ns, step.last_ts_ns)}
    day = f" on {days.pop()}" if len(days) == 1 else ""
    more = f", {left} more with --full" if left > 0 else ""
    lines = [cut(f"What happened{day} (UTC{more}):", width)]
    begin = 11 if day else 5
    rows = {step.seq: _row(step, begin, cited.get(step.evidence)) for step in shown}
    spare = max(_STEP_LINES_MAX - len(shown), 0)
    texts: dict[int, list[str]] = {}
    for step in sorted(shown, key=lambda step: -step.weight):
        when, end = rows[step.seq]
        text, room, most = printable(step.text), width - len(when) - 4, 2 if spare else 1
        if len(textwrap.wrap(text + end, room, break_on_hyphens=False)) > most:
            end = _LAST.sub("", end)  # what is said tells more than when it was said last
        shorten = cut_chain if step.kind in _CHAINS else cut
        texts[step.seq] = _wrapped(text, end, room, most, shorten)
        spare -= len(texts[step.seq]) - 1
    for step in shown:
        when, _ = rows[step.seq]
        first, *rest = texts[step.seq]
        lines.append(f"  {when}  {first}")
        lines += [" " * (len(when) + 4) + line for line in rest]
    return lines


def _wrapped(
    text: str, end: str, width: int, lines_max: int, shorten: Callable[[str, int], str]
) -> list[str]:
    """At most so many lines: the text is cut, its end stays."""
    length = len(text)
    while True:
        lines = textwrap.wrap(shorten(text, length) + end, width, break_on_hyphens=False)
        if len(lines) <= lines_max or length <= 1:
            return lines[:lines_max]
        length = min(length - 1, lines_max * width)


def _row(step: StoryStep, begin: int, evidence: int | None) -> tuple[str, str]:
    """When it happened first; how often, and the number of its evidence."""
    end = ""
    if step.count > 1:
        end = f" ({step.count}×, last {time(step.last_ts_ns)[begin:-1]})"
    return time(step.ts_ns)[begin:-1], end if evidence is None else f"{end} [{evidence}]"


def _evidence(
    answer: Answer, shown: list[StoryStep], width: int, lines_left: int
) -> tuple[list[str], set[int], dict[int | None, int | None]]:
    """Lines of the pieces that prove the steps shown, those of the weightiest first.

    Returns:
        The lines, at most ``lines_left``, in the order of the pieces; the numbers of these; and the
        number that each piece goes by, here or in full: of pieces from one place one is shown.
    """
    by_number = {piece.number: piece for piece in answer.evidence}
    ranked = sorted(shown, key=lambda step: -step.weight)
    numbers = dict.fromkeys(step.evidence for step in ranked if step.evidence is not None)
    if isinstance(answer, Explanation):
        seqs = {piece.seq: piece.number for piece in answer.evidence}
        wanted = (answer.finding.seq, *answer.finding.inputs)
        numbers |= dict.fromkeys(seqs[seq] for seq in wanted if seq in seqs)
    known = [n for n in numbers if n in by_number and not _is_aside(answer, by_number[n])]
    name = answer.target.split("/")[2 if len(answer.target.split("/")) > 2 else -1]
    known.sort(key=lambda n: by_number[n].line is None)
    places = {_place(by_number[n]): n for n in reversed(known)}
    shown_as = {n: places[_place(by_number[n])] for n in known}
    kept = [n for n in known if shown_as[n] == n][: max(lines_left, 0)]
    proofs = {n: _proof(by_number[n], width, 1, name) for n in kept}
    spare = lines_left - len(kept)
    for n in kept:
        longer = _proof(by_number[n], width, 2, name)
        if len(longer) == 2 and spare > 0:  # lines
            proofs[n], spare = longer, spare - 1
    cited: dict[int | None, int | None] = dict(shown_as.items())
    return [line for n in sorted(proofs) for line in proofs[n]], set(proofs), cited


def _place(piece: Piece) -> tuple[str | None, int]:
    """Where it stands; what stands on no line has a place of its own."""
    return (None, piece.number) if piece.line is None else (piece.file, piece.line)


def _is_aside(answer: Answer, piece: Piece) -> bool:
    """Whether it is a circumstance, as settings and the lists of other pods are."""
    is_list = piece.kind == "lifecycle.PodListed"
    return piece.kind in _CIRCUMSTANCES or (is_list and piece.subject not in answer.target)


def _proof(piece: Piece, width: int, lines_max: int, name: str) -> list[str]:
    """One or two lines: where the fact stands, and the relevant part of it."""
    mark = f"[{piece.number}] "
    if piece.file is None:
        text = printable(f"{piece.subject} {piece.summary}".strip())
        return [cut(f"{mark}{time(piece.ts_ns)} {text}", width)]
    place = printable(piece.place)
    if piece.text is None:
        return [cut(f"{mark}{place}  {printable(piece.summary)}", width)]
    text = printable(HEADER.sub("", piece.text))
    if opened := _OPENED.search(text):  # the value stands on the lines that follow
        text = f"{text[: opened.start()]} → {printable(piece.summary)}"
    first = f"{mark}{place}  "
    if len(first) + len(text) <= width:
        return [first + text]
    if lines_max == 1:
        return [first + _around_proof(text, max(width - len(first), 10), name)]
    indent = " " * len(mark)
    whole = textwrap.wrap(
        first + text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if len(whole) == lines_max and max(map(len, whole)) <= width:
        return whole
    return [cut(first.rstrip(), width), indent + _around_proof(text, width - len(indent), name)]


def _around_proof(text: str, width: int, name: str) -> str:
    """The beginning of a line and the part that proves, an ellipsis where it is cut."""
    if len(text) <= width:
        return text
    proof = next((found for pattern in _PROOFS if (found := pattern.search(text))), None)
    head = text[: width // 3].rpartition(" ")[0] or text[: width // 3]
    begin = proof.start() if proof else text.find(name)
    tail = text[max(begin, 0) :]
    shorten = cut_chain if _ERROR.match(tail) else cut
    if begin < width - len(head):
        return shorten(text, width)
    return f"{head} … {shorten(tail, width - len(head) - 3)}"


def _ranking(answer: Answer, width: int) -> Iterator[str]:
    if not isinstance(answer, Explanation) or not answer.ranking:
        return
    own = [i for i, line in enumerate(answer.ranking) if _is_own(answer, line)]
    places = sorted({*range(min(_RANKING_SHOWN, len(answer.ranking))), *own[:1]})
    yield cut(f"Ranking of {len(answer.ranking)} pods, the first to go first:", width)
    for place in places:
        yield cut(f"  {place + 1}. {printable(answer.ranking[place])}", width)


def _is_own(answer: Answer, line: str) -> bool:
    pod = "/".join(answer.target.split("/")[1:3])
    return line == pod or line.startswith(f"{pod} ")


def _verdict(answer: Answer, width: int) -> str:
    hint = "--full prints everything"
    if not isinstance(answer, Explanation):
        return cut(f"({hint})", width)
    finding = answer.finding
    kind = finding.kind.rpartition(".")[2]
    lacks = f" without {' and '.join(finding.missing)}" if finding.missing else ""
    before, after = f"Verdict of record {finding.seq} ({kind}): ", f"{printable(lacks)}; {hint}"
    if len(before) + len(finding.verdict) >= width:
        before = "Verdict: "
    after = cut(after, width - len(before) - len(finding.verdict))
    return f"{before}{verdict_text(finding.verdict)}{after}"


def full_text(answer: Answer) -> Iterator[str]:
    """All that is known: every step, reason, piece of evidence and decision."""
    yield click.style(printable(answer.headline), bold=True)
    for other in answer.namesakes:
        begin, end = format_ts(other.first_ts_ns), format_ts(other.last_ts_ns)
        yield f"Another pod of that name: {printable(other.pod_uid)}, {begin} to {end}"
    if counts := _counts(answer):
        yield counts
    yield from (f"  - {printable(text)}" for text in answer.worst)
    if answer.steps:
        yield ""
        yield "What happened:"
        for step in answer.steps:
            when, end = _row(step, 0, step.evidence)
            yield f"  {when}Z  {printable(step.text)}{end}"
    yield ""
    yield f"In full: {printable(answer.sentence)}"
    if isinstance(answer, Explanation) and answer.ranking:
        yield ""
        yield f"Ranking of {len(answer.ranking)} pods, the first to go first:"
        for place, line in enumerate(answer.ranking, start=1):
            yield f"  {place}. {printable(line)}"
    yield ""
    yield f"Evidence on {printable(answer.node)}:"
    for piece in answer.evidence:
        yield from _piece(piece)
    if isinstance(answer, Explanation):
        yield ""
        yield from _finding(answer.finding)
    if len(answer.history) > 1 and isinstance(answer, Explanation):
        yield ""
        yield f"All {counted(len(answer.history), 'decision')} about {printable(answer.target)}:"
        for each in answer.history:
            words = f"{format_ts(each.ts_ns)}  {each.kind}: {each.summary} [{each.verdict}]"
            yield f"  {each.seq:>7}  {printable(words)}"


def _finding(finding: Finding) -> Iterator[str]:
    import msgspec

    yield f"Decision: record {finding.seq}, {finding.kind} at {format_ts(finding.ts_ns)}"
    yield f"Verdict:  {verdict_text(finding.verdict)}"
    if finding.rule:
        yield f"Rule:     {printable(finding.rule)}"
    for title, fields in (("Expected", finding.expected), ("Recorded", finding.recorded)):
        if fields is not None:
            yield f"{title}: {printable(msgspec.json.encode(fields).decode())}"


def _piece(piece: Piece) -> Iterator[str]:
    inferred = " (inferred)" if piece.inferred else ""
    words = f"{format_ts(piece.ts_ns)}  {piece.subject}: {piece.summary}".replace("  : ", "  ")
    yield f"  [{piece.number}] {printable(words)}{inferred}"
    if piece.file is not None:
        text = "" if piece.text is None else f"  {printable(piece.text[:300])}"
        yield f"      {printable(piece.place)}{text}"


@click.command(epilog="Example: kubeledger why web-0")
@click.argument("target", shell_complete=complete_targets)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@time_option("--at", "As of then", default="Default: the end.")
@option("--full", "All steps, reasons, evidence and decisions.")
@output_option("table", "json")
@reports_errors
def why(
    target: str,
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    at: str | None,
    full: bool,
    output: str,
) -> None:
    """Say why something is as it is: what happened, when, and the lines that prove it.

    TARGET is a pod's name, POD/CONTAINER, NAMESPACE/POD, a pod's UID, a container ID, an image's
    name or ID, a device, a cgroup path, or `node`; IDs may be cut to six digits. In full it is
    pod/NS/NAME, container/NS/POD/C, image/ID, device/RESOURCE/ID, cgroup/PATH or node/NAME.

    The answer is about the last pod of that name; give a UID for an earlier one. It fits a
    screen; --full prints all reasons, evidence and decisions.
    """
    from kubeledger.analyze.histories.history import span_of_histories
    from kubeledger.analyze.why import answers_to
    from kubeledger.cli.verify import histories_for

    with ExitStack() as stack:
        is_of_node = target.partition("/")[0] == "node"
        histories = stack.enter_context(histories_for(sources, ledger, node))
        upto_ts_ns = instant(at, partial(span_of_histories, histories))
        found = answers_to(target, histories, upto_ts_ns=upto_ts_ns)
        if is_of_node and at is None:
            from kubeledger.analyze.headlines import besides_on
            from kubeledger.analyze.problems.told import told_by
            from kubeledger.analyze.why import with_besides

            besides = {each.node: besides_on(told_by(each)) for each in histories}
            found = [with_besides(each, *besides[each.node]) for each in found]
    if output == "json":
        write_document(found[0] if len(histories) == 1 else found)
        return
    width, height = screen_size()
    with paged(wanted=full):
        for number, answer in enumerate(found):
            text = full_text(answer) if full else short_text(answer, width, height)
            click.echo(("\n" if number else "") + "\n".join(text))
