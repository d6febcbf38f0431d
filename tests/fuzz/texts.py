"""Targets: scenarios, traces, cases, the words of a command line, SQL, and tables of output."""

import io
import json
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random

import yaml

from kubeledger.analyze.clock import parse_time
from kubeledger.analyze.whatif.variants import parse_setting, parse_variants
from kubeledger.analyze.why import parse_target
from kubeledger.cli.output import FORMATS, printable, write_rows
from kubeledger.cli.screen import cut
from kubeledger.ingest.klog.values import split_structured, text_values
from kubeledger.ingest.planning.bundle import ImportOptions
from kubeledger.kubelet.cases.registry import SUBSYSTEMS, decider_of, judge_of
from kubeledger.kubelet.kube.int64amount import DIGITS_MAX, stripped
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.quantity import parse as parse_quantity
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import (
    format_go_duration,
    format_ts,
    parse_api_ts,
    parse_go_duration,
    parse_go_time,
    parse_ts,
)
from kubeledger.simulate.scenario import load_scenario
from tests.fuzz import seeds
from tests.fuzz.mutators import ODD_TEXTS, mutate_alike, mutate_json, mutate_text, mutate_value
from tests.fuzz.target import Target, holds, scratch
from tests.recordings import RECORDINGS

# --- scenarios ----------------------------------------------------------------------


@cache
def _scenarios() -> Sequence[bytes]:
    files = sorted((RECORDINGS / "scenarios").glob("*.yaml"))
    return tuple(data for file in files if len(data := file.read_bytes()) < 6000)


def _mutated_yaml(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Values changed, as YAML or as JSON; now and then the text."""
    if random.randrange(3) == 0:
        return mutate_text(random, data, others)
    try:
        value = mutate_value(random, yaml.safe_load(data), others)
        if random.randrange(2):
            return json.dumps(value).encode()[: 64 << 10]
        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace")[: 64 << 10]
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError):
        return mutate_text(random, data, others)


def _scenario(data: bytes) -> None:
    with scratch() as root:
        path = Path(root) / "scenario.yaml"
        path.write_bytes(data)
        load_scenario(path)


# --- cases --------------------------------------------------------------------------


def _decided(subsystem: str, data: bytes) -> None:
    """A case has an outcome that a judge takes, or a refusal that names what is wrong."""
    line = data.replace(b"\n", b" ")
    outcome = json.loads(decider_of(subsystem)(line))
    holds(set(outcome) == {"id", "outcome"}, "an outcome of another form")
    claim = {**json.loads(line.decode("utf-8", "replace")), "outcome": outcome["outcome"]}
    try:
        verdict = json.loads(judge_of(subsystem)(json.dumps(claim).encode()))
    except BadInputError as error:
        raise AssertionError(f"what was decided cannot be judged: {error}") from error
    holds(verdict["verdict"] in ("match", "admissible"), f"not its own match: {verdict}")


def _judged(subsystem: str, data: bytes) -> None:
    verdict = json.loads(judge_of(subsystem)(data.replace(b"\n", b" ")))
    holds(verdict["verdict"] in ("match", "admissible", "impossible"), "another verdict")


@cache
def _claims(subsystem: str) -> Sequence[bytes]:
    """The cases with what is decided on them."""
    decide = decider_of(subsystem)
    lines = seeds.cases(subsystem)
    outcomes = (json.loads(decide(line))["outcome"] for line in lines)
    return tuple(
        json.dumps({**json.loads(line), "outcome": outcome}, separators=(",", ":")).encode()
        for line, outcome in zip(lines, outcomes, strict=True)
    )


def _cases(subsystem: str) -> tuple[Target, ...]:
    cases, claims = partial(seeds.cases, subsystem), partial(_claims, subsystem)
    return (
        Target(f"decide-{subsystem}", cases, _mutated_case, partial(_decided, subsystem), 2),
        Target(f"judge-{subsystem}", claims, _mutated_case, partial(_judged, subsystem), 2),
    )


def _mutated_case(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Mostly input and outcome in their own form, so that what is decided changes."""
    if random.randrange(4) == 0:
        return mutate_json(random, data, others)
    try:
        case = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_text(random, data, others)
    for key in ("input", "outcome"):
        if isinstance(case, dict) and key in case:
            for _ in range(random.choice((1, 1, 2, 4))):
                case[key] = mutate_alike(random, case[key])
    return json.dumps(case, separators=(",", ":")).encode()[: 64 << 10]


# --- words --------------------------------------------------------------------------


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # as Python gives arguments


def _time(data: bytes) -> None:
    text = _text(data)
    for parse in (parse_ts, parse_api_ts, parse_go_time):
        try:
            ts_ns = parse(text)
        except ValueError:
            continue
        if abs(ts_ns) < 1 << 62:
            holds(parse_ts(format_ts(ts_ns)) == ts_ns, "a time changed on its way")
    parse_time(text, lambda: (0, 10**18))


def _duration(data: bytes) -> None:
    try:
        span_ns = parse_go_duration(_text(data))
    except ValueError:
        return
    holds(parse_go_duration(format_go_duration(span_ns)) == span_ns, "a duration changed")


EXA = 18
"""Power of ten of the last suffix."""


def _quantity(data: bytes) -> None:
    try:
        quantity = parse_quantity(_text(data))
    except QuantityError as error:
        holds(len(str(error)) < 20_000, "an error message of any length")
        return
    try:
        # Like Go's, it has no suffix for what is far too large, and leaves it out; a narrow one
        # of 17 digits may be written with 19 and read as a wide one, whose power is cut.
        again = Quantity.from_api(str(quantity))
        cut = again.wide and quantity.exponent > DIGITS_MAX
        suffixless = stripped(quantity.unscaled, quantity.exponent)[1] > EXA
        same = quantity.wide or suffixless or cut or again == quantity
        holds(same, "a quantity changed on its way")
        quantity.value()
        quantity.milli_value()
    except QuantityError:
        return


def _setting(data: bytes) -> None:
    parse_variants([parse_setting(_text(data))], ["1.20.2"])


def _values(data: bytes) -> None:
    """Values of a structured line, also in Go's own notation."""
    parts = split_structured(_text(data))
    try:
        text_values(parts[1] if parts else _text(data))
    except ValueError as error:
        holds(str(error) == "a quoted value has no end", f"refused for another reason: {error}")


def _words(name: str, run: Callable[[bytes], object], *words: str, share: int = 20) -> Target:
    return Target(name, lambda: tuple(word.encode() for word in words), mutate_text, run, share)


def _structured_parts() -> Sequence[bytes]:
    found = re.findall(rb'\] (".*)', b"".join(seeds.log_windows()))
    return tuple(dict.fromkeys(found))[:600]


# --- output -------------------------------------------------------------------------

_PLAIN = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]*")


def _table(data: bytes) -> None:
    """Whatever the text is, a table has one line a row and nothing that a terminal acts on."""
    text = data.decode("utf-8", "surrogatepass" if data.isascii() else "replace")
    rows = [(text, 1, [text]), ("a", None, {text: text})]
    narrow = io.StringIO()
    write_rows(["a", text[:50], "c"], rows, "table", narrow, width_max=30)
    fits = all(cut(line, 30) == line for line in narrow.getvalue().split("\n"))
    holds(fits, "a row is wider than the screen")
    for format_ in FORMATS:
        out = io.StringIO()
        write_rows(["a", text[:50], "c"], rows, format_, out)
        if format_ == "table":
            holds(out.getvalue().count("\n") == 4, "a text forged a row")
            holds(_PLAIN.fullmatch(out.getvalue()) is not None, "a control character got through")
            holds("\u202e" not in printable(text), "text can be turned around")


TARGETS: tuple[Target, ...] = (
    Target("scenario", _scenarios, _mutated_yaml, _scenario, 2),
    *(target for subsystem in SUBSYSTEMS for target in _cases(subsystem)),
    _words("time", _time, "2026-11-21T03:00:00Z", "2026-11-21T03:00:00.123456789+01:00", "now",
           "-2h30m", "-3d", "2026-11-21 03:01:00.4 +0000 UTC m=+1.5", "0001-01-01T00:00:00Z"),
    _words("duration", _duration, "1h30m", "-1.5s", "100ms", "1h2m3.000000004s", "0", "1µs"),
    _words("quantity", _quantity, "100m", "1.5Gi", "1e3", "12E", "0.000001", "-5Ki", "1E6", ".5"),
    _words("target", lambda data: parse_target(_text(data)), "pod/default/web", "image/sha256:1",
           "container/default/web/app", "device/example.com/gpu/gpu-0", "cgroup/kubepods/pod1"),
    _words("setting", _setting, "imageGCHighThresholdPercent=80|90", "featureGates.MemoryQoS=true",
           "evictionHard.memory.available=5%", 'systemReserved={"cpu":"1"}', "cgroupRoot=/",
           "imageMinimumGCAge=2m", "evictionSoft={}", "--port=1"),
    _words("node-name", lambda data: ImportOptions(node=_text(data)), "node-x", "a.b", *ODD_TEXTS),
    Target("values", _structured_parts, mutate_text, _values, 20),
    _words("table", _table, "web", "a\tb", *ODD_TEXTS),
)  # fmt: skip
