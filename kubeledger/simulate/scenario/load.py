"""A scenario's file, with all that it refers to, read and checked."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

import msgspec

from kubeledger.simulate.scenario.check import check
from kubeledger.simulate.scenario.defaults import read_settings
from kubeledger.simulate.scenario.models import Pods, Scenario
from kubeledger.simulate.scenario.problems import Path, Place, Problems, ScenarioError
from kubeledger.simulate.scenario.validate import (
    Document,
    Sound,
    parse_documents,
    read_documents,
    validate,
)


class Manifest(msgspec.Struct):
    """A pod as the user wrote it, and where."""

    data: Any
    path: Path


class Loaded(msgspec.Struct, kw_only=True):
    """A scenario that can be run.

    Attributes:
        manifests: for each of ``scenario.pod_types``: its pods.
        given: fields of the configuration as written.
        settings: effective KubeletConfiguration, defaults of the version included.
    """

    scenario: Scenario
    manifests: list[list[Manifest]]
    given: dict[str, Any]
    settings: dict[str, Any]


def load_scenario(file: FilePath | str, data: bytes | None = None) -> Loaded:
    """Read a scenario and check all of it.

    Args:
        file: where it is; what it refers to is beside it.
        data: its content, where that was read already.

    Raises:
        ScenarioError: it cannot be run; all faults are reported.
    """
    path = FilePath(file)
    documents = read_documents(path) if data is None else parse_documents(str(path), data)
    place = Place(str(path), 1)
    problems = Problems({(): place}, place)
    if len(documents) != 1:
        problems.add((), "must hold one document", "a scenario is one mapping; see the docs")
        raise ScenarioError(problems.found)
    document = documents[0]
    return load_data(document, path.parent)


def load_data(document: Document, directory: FilePath) -> Loaded:
    """As :func:`load_scenario`, for data from elsewhere; files are relative to ``directory``."""
    problems = Problems(document.places, Place(document.file, 1))
    problems.found += document.problems
    if not isinstance(document.data, dict):
        problems.add((), "must be a mapping of keys to values", "begin with `kubeletVersion:`")
        raise ScenarioError(problems.found)
    sound = validate(document.data, problems)
    manifests = _manifests(sound, document, directory, problems)
    config = _config(sound.scenario, document, directory, problems)
    given, settings = read_settings(sound.scenario, config, problems)
    check(
        sound,
        [(index, [(m.data, m.path) for m in each]) for index, each in manifests],
        settings,
        problems,
    )
    if problems.found:
        raise ScenarioError(problems.found)
    return Loaded(
        scenario=Scenario.model_validate(document.data),
        manifests=[each for _, each in manifests],
        given=given,
        settings=settings,
    )


def _manifests(
    sound: Sound, document: Document, directory: FilePath, problems: Problems
) -> list[tuple[int, list[Manifest]]]:
    found: list[tuple[int, list[Manifest]]] = []
    for index, pods in sound.items["pods"]:
        at: Path = ("pods", index)
        if pods.pod is not None:
            found.append((index, [Manifest(pods.pod, (*at, "pod"))]))
        else:
            found.append((index, _from_files(pods, at, document, directory, problems)))
    return found


def _from_files(
    pods: Pods, at: Path, document: Document, directory: FilePath, problems: Problems
) -> list[Manifest]:
    names = [pods.manifests] if isinstance(pods.manifests, str) else pods.manifests or []
    found: list[Manifest] = []
    for name in names:
        for number, each in enumerate(_read(directory / name, (*at, "manifests"), problems)):
            path = (*at, "manifests", name, number)
            document.places.update({(*path, *rest): place for rest, place in each.places.items()})
            problems.found += each.problems
            found += _pods_in(each.data, path)
        if not any(manifest.path[3] == name for manifest in found) and not problems.inside(
            (*at, "manifests")
        ):
            problems.add((*at, "manifests"), f"{name} holds nothing", "name a file with pods")
    return found


def _pods_in(data: object, path: Path) -> list[Manifest]:
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
        items = data.get("items")
        return [
            Manifest(item, (*path, "items", index))
            for index, item in enumerate(items if isinstance(items, list) else [])
        ]
    return [Manifest(data, path)]


def _config(
    scenario: Scenario, document: Document, directory: FilePath, problems: Problems
) -> tuple[dict[str, Any], Path]:
    """Fields of the configuration, and where it stands."""
    if scenario.config_file is None:
        return scenario.config or {}, ("config",)
    at: Path = ("configFile",)
    if scenario.config is not None:
        problems.add(at, "stands beside `config`", "keep one of them")
    documents = _read(directory / scenario.config_file, at, problems)
    for each in documents[:1]:
        document.places.update({(*at, *rest): place for rest, place in each.places.items() if rest})
        problems.found += each.problems
        if isinstance(each.data, dict):
            return each.data, at
    if not problems.inside(at):
        problems.add(at, "holds no configuration", "name a file with a KubeletConfiguration")
    return {}, at


def _read(file: FilePath, at: Path, problems: Problems) -> list[Document]:
    try:
        return read_documents(file)
    except ScenarioError as error:
        for each in error.problems:
            # A missing file is reported where it is named.
            if each.place.line:
                problems.found.append(each)
            else:
                problems.add(at, f"{each.place.file} {each.message}", each.advice)
        return []
