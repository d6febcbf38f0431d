"""A kubelet's effective settings, recovered from all that a bundle holds of them.

What the kubelet does: defaults, then the configuration file (and its drop-ins), then the
flags that were given. What is left of that, from the surest on:

1. lines in which it says that it replaces a setting (``log``);
2. its dump of the whole configuration, after files and flags, at verbosity 5, or its answer
   at ``/configz``, which is the same;
3. the container manager's ``NodeConfig``, a part of it, at every verbosity (``log``);
4. ``FLAG:`` lines: every flag as parsed, *before* the file is applied, so the value of a
   flag that was not given (one equal to the default) says nothing when there is a file;
5. the configuration file in the bundle, which may be younger than the process.

What a part of the kubelet logs that it runs with is compared, and fills what nothing shows.
Where 2 or 3 contradict what follows from 4 and 5, they are believed and it is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from kubeledger.ingest.messages.settings_flags import FLAGS, FLAGS_BY_NAME, FlagField, FlagKind
from kubeledger.ingest.messages.settings_text import STRUCT_FIELDS, parse_flag
from kubeledger.kubelet.kube.configuration import problem
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.model.bodies.node import Setting, SettingsObserved
from kubeledger.model.record import Evidence
from kubeledger.model.units import parse_go_duration

_JSON = msgspec.json.Encoder(order="sorted")
_FILE_FLAGS = ("config", "config-dir")
_DROP_IN = ".conf"
_UNSET_AT_ZERO = frozenset(
    {
        *("cpuManagerReconcilePeriod", "evictionPressureTransitionPeriod", "fileCheckFrequency"),
        *("httpCheckFrequency", "imageMinimumGCAge", "nodeStatusReportFrequency"),
        *("nodeStatusUpdateFrequency", "runtimeRequestTimeout", "streamingConnectionIdleTimeout"),
        *("syncFrequency", "volumeStatsAggPeriod"),
    }
)
"""Durations that a file cannot set to zero: the default is taken instead.

Source: v1.19.0 to v1.36.2 pkg/kubelet/apis/config/v1beta1 SetDefaults_KubeletConfiguration
"""
_MASKED = frozenset(
    {"address", "clusterDNS", "healthzBindAddress", "podCIDR", "staticPodURLHeader"}
)
"""Fields whose values the dump hides, or people do; no decision rests on them."""

_FLAGLESS_DEFAULTS: dict[str, tuple[int, Any]] = {
    "crashLoopBackOff": (35, {"maxContainerRestartPeriod": "5m0s"}),
}
"""Field without a flag, which decisions need -> minor version from which on it has a default."""

_ZEROS: dict[FlagKind, Any] = {
    "int": 0,
    **{kind: {} for kind in ("map", "gates", "thresholds", "headers")},
    **{kind: [] for kind in ("list", "taints", "memory")},
}
"""Go's zero value of a field, by the kind of its flag."""

_ROWS = {row.field: [each for each in FLAGS if each.field == row.field] for row in FLAGS}
"""Field -> the flags that set it."""


class Statement(msgspec.Struct):
    """Something a source says, and where."""

    value: Any
    evidence: Evidence


class SettingsSources(msgspec.Struct):
    """What is known of one kubelet process.

    Attributes:
        minor: ``36`` of version 1.36.2; None when not known.
        files: configuration documents, in the order in which they are merged.
        flags: flag name -> its text.
        dump: the configuration's fields as the process dumped them.
        served: the same as it answered at ``/configz``.
        node_config: KubeletConfiguration fields that ``NodeConfig`` shows.
        replaced: fields that a line says were replaced -> new value.
        stated: what lines of parts of the kubelet say they run with: the field, who says so
            and its value.
    """

    minor: int | None = None
    files: list[Statement] = []
    flags: dict[str, Statement] = {}
    dump: Statement | None = None
    served: Statement | None = None
    node_config: Statement | None = None
    replaced: dict[str, Statement] = {}
    stated: dict[tuple[str, str], Statement] = {}

    @property
    def full(self) -> Statement | None:
        """The whole configuration as the process itself shows it; None when it does not."""
        return self.dump if self.dump is not None else self.served

    @property
    def has_whole_file(self) -> bool:
        """Whether a document is there that is not only laid over another one.

        Source: v1.35.0 cmd/kubelet/app/server.go mergeKubeletConfigurations
        """
        given = {name: str(self.flags[name].value) for name in _FILE_FLAGS if name in self.flags}
        main = PurePosixPath(given.get("config", "")).name
        return any(
            not given.get("config-dir")
            or (path := PurePosixPath(each.evidence.file)).suffix != _DROP_IN
            or path.name == main
            for each in self.files
        )

    @property
    def has_any(self) -> bool:
        """Whether the process itself shows anything of its configuration."""
        return self.full is not None or self.node_config is not None or bool(self.stated)

    def field_of(self, flag: str) -> FlagField | None:
        """The flag's row, if it has a field in the version that ran."""
        row = FLAGS_BY_NAME.get(flag)
        if row is None or not row.since:
            return row
        if self.minor is not None:
            return row if self.minor >= row.since else None
        if self.full is not None:
            return row if _get(self.full.value, row.field) is not None else None
        # A flag of 1.22, about when the first of these fields came.
        return row if not self.flags or "seccomp-default" in self.flags else None


class _Chosen(msgspec.Struct):
    """Settings as they are pieced together; values are JSON values."""

    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    conflicts: list[str] = []

    def put(self, field: str, value: Any, source: str) -> None:  # noqa: ANN401  (any JSON value)
        if self.sources.get(field, "default") != "default" and problem(field, value):
            return  # no kubelet runs with it: the text is damaged
        self.values[field] = value
        self.sources[field] = source

    def dispute(self, field: str, *sides: tuple[str, object]) -> None:
        """Sources differ; what no kubelet runs with is damaged text, and says nothing."""
        texts = [_text(value) for _, value in sides]
        is_hidden = any('"<' in text for text in texts)  # somebody put a mask over a part
        damaged = is_hidden or any(problem(field, value) for _, value in sides)
        if not damaged and not _has_put_in(*texts):
            said = ", ".join(f"{who} says {_text(value)}" for who, value in sides)
            self.conflicts.append(f"{field}: {said}")

    def confirm(self, field: str) -> None:
        """The process itself shows what a file says."""
        if self.sources[field] == "file":
            self.sources[field] = "config"


def effective_settings(sources: SettingsSources) -> SettingsObserved:
    """Piece the settings together; contradictions become ``conflicts``."""
    chosen = _Chosen()
    file = _merged_files(sources, chosen)
    for field, value in file.items():
        chosen.put(field, value, "file")
    _apply_defaults(sources, file, chosen)
    _apply_flags(sources, file, chosen)
    _apply_dump(sources, chosen)
    _apply_node_config(sources, chosen)
    for field, statement in sources.replaced.items():
        chosen.put(field, statement.value, "log")
    _apply_stated(sources, chosen)
    for flag, statement in sources.flags.items():
        if sources.field_of(flag) is None:
            chosen.put(f"--{flag}", statement.value, "flag")
    return SettingsObserved(
        settings={
            field: msgspec.convert(
                {"value": _text(chosen.values[field]), "source": chosen.sources[field]}, Setting
            )
            for field in sorted(chosen.values)
        },
        conflicts=tuple(chosen.conflicts),
    )


def evidence_of(sources: SettingsSources) -> tuple[Evidence, ...]:
    """Where the settings stand: files, flags that were given, dump, replacements."""
    given = [statement for _, statement, _ in _given_flags(sources)]
    # All flags at their defaults is a statement too; one line stands for them.
    flags = given or list(sources.flags.values())[:1]
    single = [each for each in (sources.full, sources.node_config) if each is not None]
    every = [*sources.files, *flags, *single, *sources.replaced.values()]
    return tuple(dict.fromkeys(statement.evidence for statement in every))


def _merged_files(sources: SettingsSources, chosen: _Chosen) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    owner: dict[str, str] = {}
    for statement in sources.files:
        name = statement.evidence.file
        patch = {k: v for k, v in statement.value.items() if k not in {"apiVersion", "kind"}}
        # Only a drop-in (``*.conf``) is meant to replace what another file says.
        for field in sorted(patch.keys() & merged.keys()) if not name.endswith(".conf") else ():
            if not _same(patch[field], merged[field]):
                chosen.dispute(field, (owner[field], merged[field]), (name, patch[field]))
        merged = _merge_patch(merged, patch)
        owner |= dict.fromkeys(patch, name)
    return {k: v for k, v in merged.items() if k not in _UNSET_AT_ZERO or not _same(v, "0s")}


def _merge_patch(base: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396, as the kubelet merges drop-ins; null takes a field away."""
    merged = dict(base)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merge_patch(merged[name], value)
        else:
            merged[name] = value
    return merged


def _given_flags(sources: SettingsSources) -> Iterator[tuple[FlagField, Statement, Any]]:
    """Flags with a field whose value is not the default."""
    for flag, statement in sources.flags.items():
        row = sources.field_of(flag)
        if row is None or row.is_default(statement.value, sources.minor):
            continue
        if row.kind == "headers" or not any(map(str.isspace, statement.value)):  # else damaged
            yield row, statement, _flag_value(row, statement.value)


def _flag_value(row: FlagField, text: str) -> Any:  # noqa: ANN401  (any JSON value)
    try:
        return parse_flag(row.kind, text)
    except ValueError:
        return text


def _apply_defaults(sources: SettingsSources, file: dict[str, Any], chosen: _Chosen) -> None:
    """Defaults of the fields that no file sets; a flag not printed might have been given."""
    config = sources.flags.get("config")
    # Where the flag that names a file is not reported, there may be one.
    has_file = sources.has_whole_file
    file_missing = not has_file and (config is None or config.value != "")
    for flag, statement in sources.flags.items():
        row = sources.field_of(flag)
        if row is None or file_missing or _get(file, row.field) is not None:
            continue
        texts = {statement.value}
        if has_file and row.is_file_dependent:
            texts = set(row.file_defaults(sources.minor))
        # Which of several defaults holds is not known without a version.
        if len(texts) == 1:
            _set(chosen, row.field, _flag_value(row, texts.pop()), "default")
    if file_missing or not (has_file or sources.flags) or sources.minor is None:
        return
    for field, (since, default) in _FLAGLESS_DEFAULTS.items():
        if sources.minor >= since and field not in file:
            chosen.put(field, default, "default")


def _apply_flags(sources: SettingsSources, file: dict[str, Any], chosen: _Chosen) -> None:
    for row, _, value in _given_flags(sources):
        if row.kind == "gates" and isinstance(value, dict):
            value = {**file.get(row.field, {}), **value}
        _set(chosen, row.field, value, "flag")


def _apply_dump(sources: SettingsSources, chosen: _Chosen) -> None:
    if sources.full is None:
        return
    whence = "the kubelet's dump of its configuration"
    if sources.dump is None:
        whence = f"{sources.full.evidence.file}, which the kubelet served,"
    for field, dumped in sources.full.value.items():
        value = _filled(field, dumped)
        if field not in chosen.values:
            known = bool(sources.files) or _is_default(field, value, sources.minor)
            chosen.put(field, value, "default" if known else "config")
            continue
        expected, source = chosen.values[field], chosen.sources[field]
        if _same(expected, value) or field in _MASKED:
            chosen.confirm(field)
            continue
        if field in STRUCT_FIELDS and _within(expected, value):
            chosen.put(field, value, source)
            chosen.confirm(field)
            continue
        if sources.dump is not None and isinstance(expected, dict) and _agree(expected, value):
            continue  # the dump has a line for each member, and some of them are lost
        if source != "default":
            chosen.dispute(field, (_named(source), expected), (whence, value))
        chosen.put(field, value, "config")
    if sources.dump is None:
        _apply_omitted(sources, sources.full.value, chosen)


def _apply_omitted(sources: SettingsSources, served: Mapping[str, Any], chosen: _Chosen) -> None:
    """What the kubelet serves leaves out fields at Go's zero value, which is not the default."""
    for row in FLAGS:
        zero = _ZEROS.get(row.kind)
        if zero is None or "." in row.field or row.field in served:
            continue
        if row.since and (sources.minor is None or sources.minor < row.since):
            continue
        if chosen.sources.get(row.field, "default") == "default":
            known = _is_default(row.field, zero, sources.minor)
            chosen.put(row.field, zero, "default" if known else "config")


def _apply_node_config(sources: SettingsSources, chosen: _Chosen) -> None:
    if sources.node_config is None:
        return
    for field, value in sources.node_config.value.items():
        expected = chosen.values.get(field)
        if field in chosen.values and (
            _no_other(expected, value) if isinstance(value, dict | list) else _same(expected, value)
        ):
            chosen.confirm(field)
            continue
        source = chosen.sources.get(field)
        if source in {"config", "file", "flag"} and expected and field not in sources.replaced:
            whence = "the container manager's NodeConfig"
            chosen.dispute(field, (_named(source), expected), (whence, value))
        if expected is None or value != "":
            chosen.put(field, value, "log")


def _apply_stated(sources: SettingsSources, chosen: _Chosen) -> None:
    """What a part of the kubelet says it runs with shows what nothing else shows, or differs."""
    named: dict[str, str] = {}
    for (field, who), statement in sources.stated.items():
        expected = chosen.values.get(field)
        if field not in chosen.values:
            chosen.put(field, statement.value, "log")
            named[field] = who
        elif not _same(expected, statement.value):
            other = named.get(field) or _named(chosen.sources[field])
            chosen.dispute(field, (other, expected), (who, statement.value))
        else:
            chosen.confirm(field)


def _has_put_in(one: str, other: str) -> bool:
    """Whether the texts are the same but for a word that a page put into the longer one."""
    short, long = sorted((one, other), key=len)
    differs = (n for n, (own, its) in enumerate(zip(short, long, strict=False)) if own != its)
    at, size = next(differs, len(short)), len(long) - len(short)
    put = long[at : at + size]
    is_word = not put.isascii() or any(mark in put for mark in "<[ ")
    return is_word and short == long[:at] + long[at + size :]


def _named(source: str) -> str:
    return {"flag": "the flag", "default": "the default"}.get(source, "the configuration")


def _is_default(field: str, value: Any, minor: int | None) -> bool:  # noqa: ANN401  (any JSON value)
    return any(
        _same(_flag_value(row, text), value)
        for row in _ROWS.get(field, ())
        for text in row.file_defaults(minor)
    )


def _filled(field: str, value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """Go's nil map or slice is an empty one."""
    rows = _ROWS.get(field)
    zero = _ZEROS.get(rows[0].kind) if rows else None
    return zero if value is None and zero != 0 else value


def _get(tree: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401  (any JSON value)
    value: Any = tree
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _set(chosen: _Chosen, path: str, value: Any, source: str) -> None:  # noqa: ANN401  (any JSON value)
    """Set a field, or a part of one; a part at its default does not change the whole's source."""
    field, *below = path.split(".")
    if not below:
        chosen.put(field, value, source)
        return
    patch: Any = value
    for name in reversed(below):
        patch = {name: patch}
    merged = _merge_patch(chosen.values.get(field, {}), patch)
    kept = chosen.sources.get(field) if source == "default" else None
    chosen.put(field, merged, kept or source)


def _same(left: Any, right: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """Equal as settings: ``1m`` is ``60s``."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, str) and isinstance(right, str) and left != right:
        try:
            return parse_go_duration(left) == parse_go_duration(right)
        except ValueError:
            return False
    return bool(left == right)


def _no_other(expected: Any, normalised: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """No member of both maps has two values; on its way, members of one come and go.

    The kubelet leaves out thresholds of 0 and adds defaults; it reserves whole CPUs instead
    of what was set. Percentages come back from 32 bit floats.
    """
    if not (isinstance(expected, dict) and isinstance(normalised, dict)):
        return True
    common = expected.keys() & normalised.keys()
    return all(_same_amount(expected[name], normalised[name]) for name in common)


def _agree(left: Any, right: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """No member of both maps, however deep, has two values."""
    if not (isinstance(left, dict) and isinstance(right, dict)):
        return _same(left, right)
    return all(_agree(left[name], right[name]) for name in left.keys() & right.keys())


def _same_amount(left: Any, right: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """Equal as quantities or percentages; what is neither is not compared."""
    try:
        percentages = [str(each).endswith("%") for each in (left, right)]
        if all(percentages):
            return abs(float(str(left)[:-1]) - float(str(right)[:-1])) < 0.01
        return not any(percentages) and Quantity.from_api(left) == Quantity.from_api(right)
    except ValueError:
        return True


def _within(part: Any, full: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """Every member of ``part`` stands in ``full`` too; Go leaves empty ones out."""
    if isinstance(part, dict) and isinstance(full, dict):
        return all(
            _within(value, full[name]) if name in full else not value
            for name, value in part.items()
        )
    return _same(part, full)


def _text(value: Any) -> str:  # noqa: ANN401  (any JSON value)
    return _JSON.encode(value).decode()
