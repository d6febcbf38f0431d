"""What ``deploy`` and the fleet's page tell people to run is what there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.parsing import parse

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = ("kuberay/rayjob.yaml", "job/indexed-job.yaml")


def _documents(name: str) -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / name).read_text())}


def _pods(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 # YAML
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inner in value.values():
            yield from _pods(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _pods(inner)


def _commands() -> Iterator[Any]:
    job = _documents(MANIFESTS[1])["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    args = [arg.replace("$(JOB_COMPLETION_INDEX)", "3") for arg in container["args"]]
    yield pytest.param(["kubeledger", *args], id="indexed-job")
    yield pytest.param(shlex.split(_documents(MANIFESTS[0])["RayJob"]["spec"]["entrypoint"]))
    text = (ROOT / "docs" / "fleet.md").read_text().replace("\\\n", " ")
    for line in re.findall(r"^(?:\$ |    )?(kubeledger fleet .*)$", text, re.MULTILINE):
        yield pytest.param(shlex.split(line.partition(" #")[0]))


@pytest.mark.parametrize("words", list(_commands()))
def test_commands_are_real(words: list[str]) -> None:
    assert words[0] == "kubeledger"
    parse([re.sub(r"\$\{?\w+\}?", "3", word) for word in words[1:]])


@pytest.mark.parametrize("name", MANIFESTS)
def test_pods_hold_no_secret_and_are_bounded(name: str) -> None:
    """Credentials come by the service account; memory and scratch have limits; nobody is root."""
    documents = _documents(name)
    account = documents["ServiceAccount"]["metadata"]["name"]
    pods = [pod for document in documents.values() for pod in _pods(document)]
    assert pods
    for pod in pods:
        assert pod["serviceAccountName"] == account
        assert pod["securityContext"]["runAsNonRoot"] is True
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert not {"env", "envFrom"} & container.keys()
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert volumes[mounts["/scratch"]]["emptyDir"]["sizeLimit"]
    text = (DEPLOY / name).read_text().lower()
    assert not re.search(r"secret_?access|secretkeyref|password|akia|session_token", text)


def test_shards_are_as_many_as_pods() -> None:
    job = _documents(MANIFESTS[1])["Job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (shard,) = [arg for arg in container["args"] if arg.startswith("--shard=")]
    assert int(shard.rpartition("/")[2]) == job["completions"]


def test_manifests_and_image_have_one_ray() -> None:
    (ray,) = re.findall(r"^ray==(\S+)", (DEPLOY / "locks" / "fleet.txt").read_text(), re.MULTILINE)
    assert _documents(MANIFESTS[0])["RayJob"]["spec"]["rayClusterSpec"]["rayVersion"] == ray
