"""Names of images, by version."""

import base64
import hashlib
import json
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.imagepull.keyring import (
    Coordinates,
    ImageNameError,
    PullSecret,
    lookup,
    parse_image_name,
    trim_image_tag_digest,
)
from kubeledger.kubelet.imagepull.pullrecords import LRUCache
from kubeledger.kubelet.kube.gotypes import UnmarshalError
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, explore
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.images import PullDecided, PullEnded, PullRecordRead, PullUsers
from kubeledger.model.bodies.lifecycle import PodTerminated
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState, document
from tests.verify.container_scenes import WHO, listed
from tests.verify.histories import scene

HEX = "3a1ab29cbd2a6f1bfbd4a5f4b1cbbc39aa1a5a3a02ad6c3c1c2b5b5bfc5a0a11"
DIGEST = f"sha256:{HEX}"


def error_of(image: str, version: str) -> str:
    """Why a name is none, without the words around it; empty for one that is."""
    try:
        parse_image_name(image, resolve(version).imagepull)
    except ImageNameError as error:
        return str(error).partition(f'"{image}": ')[2]
    return ""


@pytest.mark.parametrize("version", ["1.19.0", "1.28.0", "1.36.2"])
@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("busybox", ("docker.io/library/busybox", "latest", "")),
        ("acme/tool:1", ("docker.io/acme/tool", "1", "")),
        ("index.docker.io/x", ("docker.io/library/x", "latest", "")),
        ("localhost/x", ("localhost/x", "latest", "")),
        ("localhost:5000/a/b", ("localhost:5000/a/b", "latest", "")),
        (f"gcr.io/a@{DIGEST}", ("gcr.io/a", "", DIGEST)),
        (f"gcr.io/a:v1@{DIGEST}", ("gcr.io/a", "v1", DIGEST)),
    ],
)
def test_a_name_in_its_parts(version: str, image: str, expected: tuple[str, str, str]) -> None:
    """Host and library are added, and the tag where there is neither tag nor digest."""
    assert parse_image_name(image, resolve(version).imagepull) == expected


@pytest.mark.parametrize(
    ("image", "old", "new"),
    [
        ("", "invalid reference format", "invalid reference format"),
        ("a//b", "invalid reference format", "invalid reference format"),
        ("busybox:", "invalid reference format", "invalid reference format"),
        (f"a@sha256:{HEX[:32]}", *["invalid checksum digest length"] * 2),
        (f"a@md5:{HEX[:32]}", *["unsupported digest algorithm"] * 2),
        (f"a@sha256:{HEX.upper()}", *["invalid checksum digest format"] * 2),
        (HEX, f"invalid repository name ({HEX}), cannot specify 64-byte hexadecimal strings",
         f"invalid repository name ({HEX}), cannot specify 64-byte hexadecimal strings"),
        ("Web:1", "invalid reference format: repository name must be lowercase",
         "invalid reference format: repository name (library/Web) must be lowercase"),
        ("UPPER/case", "invalid reference format: repository name must be lowercase", ""),
        ("[::1]:5000/a", "invalid reference format", ""),
        ("gcr.io/" + "a" * 250, "repository name must not be more than 255 characters", ""),
        ("gcr.io/" + "a" * 256, *["repository name must not be more than 255 characters"] * 2),
    ],
)  # fmt: skip
def test_what_is_no_name(image: str, old: str, new: str) -> None:
    """In the words of the library that the version has: 1.28 and 1.36."""
    assert (error_of(image, "1.28.0"), error_of(image, "1.36.2")) == (old, new)


@pytest.mark.parametrize(
    ("image", "complete", "written"),
    [
        ("busybox:1.36", "docker.io/library/busybox", "busybox"),
        (f"gcr.io/a:v1@{DIGEST}", "gcr.io/a", "gcr.io/a"),
        ("localhost:5000/a/b", "localhost:5000/a/b", "localhost:5000/a/b"),
    ],
)
def test_the_name_in_records(image: str, complete: str, written: str) -> None:
    """Complete until 1.35, then as pods write it."""
    names = [trim_image_tag_digest(image, resolve(v).imagepull) for v in ("1.35.6", "1.36.2")]
    assert names == [complete, written]


# -- Credentials of pull secrets -------------------------------------------------------------------

JSON, CFG = "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"
WHICH = Coordinates("u-1", "shop", "regcred")


def secret(content: object, of: str = CFG) -> PullSecret:
    """One that holds this; bytes as they are."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return PullSecret(WHICH, of, data)


def users(repo: str, *auths: dict[str, str]) -> list[str]:
    """User names that are tried for a repository; secrets as registry -> user."""
    secrets = [secret({at: {"username": user} for at, user in each.items()}) for each in auths]
    return [found.username for found in lookup(secrets, repo, FIRST_ORDER)]


@pytest.mark.parametrize(
    ("repo", "auths", "expected"),
    [
        ("quay.io/acme/api", {"quay.io": "a", "quay.io/acme": "b", "gcr.io": "c"}, ["b", "a"]),
        ("quay.io/acme/api", {"quay.io/acmex": "a", "*.io": "b"}, ["b"]),
        ("quay.io/a/b", {"https://quay.io/v2/": "a", "http://quay.io/v1/a": "b"}, ["b", "a"]),
        ("a.b.io/x", {"*.io": "a", "*.b.io": "b"}, ["b"]),
        ("localhost:5000/x", {"localhost": "a", "localhost:5000": "b"}, ["b"]),
        ("docker.io/library/busybox", {"https://index.docker.io/v1/": "a"}, ["a"]),
        ("docker.io/library/busybox", {"docker.io": "a", "index.docker.io": "b"}, ["a"]),
        ("gcr.io/x", {"index.docker.io": "a", "bad host": "b"}, []),
    ],
)  # fmt: skip
def test_the_most_specific_registry_first(
    repo: str, auths: dict[str, str], expected: list[str]
) -> None:
    """Hosts match part by part, paths by their beginning, Docker Hub by its old name last."""
    assert users(repo, auths) == expected


def test_secrets_in_their_order_and_entries_of_one_registry_in_any() -> None:
    auths = [{"gcr.io": "a", "https://gcr.io/v2/": "b"}, {"gcr.io": "c"}]
    secrets = [secret({at: {"username": user} for at, user in each.items()}) for each in auths]
    found = explore(lambda order: [c.username for c in lookup(secrets, "gcr.io/x", order)])
    assert list(found) == [["a", "b", "c"], ["b", "a", "c"]]


@pytest.mark.parametrize(
    ("entry", "hashed"),
    [
        ({"username": "ann", "password": "p"}, '{"username":"ann","password":"p"}'),
        ({"USERNAME": "ann", "email": "e"}, '{"username":"ann","email":"e"}'),
        ({"auth": base64.b64encode(b"bob:a:b").decode()}, '{"username":"bob","password":"a:b"}'),
        ({"auth": "Ym9iOnA"}, '{"username":"bob","password":"p"}'),
        ({"username": "<é&>"}, '{"username":"\\u003cé\\u0026\\u003e"}'),
        (None, "{}"),
    ],
)
def test_the_hash_of_a_credential(entry: dict[str, Any] | None, hashed: str) -> None:
    (found,) = lookup([secret({"auths": {"gcr.io": entry}}, JSON)], "gcr.io/x", FIRST_ORDER)
    assert found.hash == hashlib.sha256(hashed.encode()).hexdigest()
    assert found.secret == WHICH


_STRUCT = "credentialprovider.dockerConfigEntryWithAuth"


@pytest.mark.parametrize(
    ("content", "of", "error"),
    [
        (b"{", JSON, "unexpected end of JSON input"),
        (b"not json", JSON, "invalid character 'o' in literal null (expecting 'u')"),
        ([], JSON, "json: cannot unmarshal array into Go value of type "
         "credentialprovider.DockerConfigJSON"),
        ({"auths": []}, JSON, "json: cannot unmarshal array into Go struct field "
         "DockerConfigJSON.auths of type credentialprovider.DockerConfig"),
        ({"auths": {}, "HttpHeaders": 1}, JSON, "json: cannot unmarshal number into Go struct "
         "field DockerConfigJSON.HttpHeaders of type map[string]string"),
        ("x", CFG, "json: cannot unmarshal string into Go value of type "
         "credentialprovider.DockerConfig"),
        ({"a": True}, CFG, f"json: cannot unmarshal bool into Go value of type {_STRUCT}"),
        ({"a": {"username": 1}}, CFG, "json: cannot unmarshal number into Go struct field "
         "dockerConfigEntryWithAuth.username of type string"),
        ({"a": {"auth": "a!b"}}, CFG, "illegal base64 data at input byte 1"),
        ({"a": {"auth": "Ym9i"}}, CFG, "unable to parse auth field, must be formatted as "
         "base64(username:password)"),
    ],
)  # fmt: skip
def test_a_secret_that_cannot_be_read(content: object, of: str, error: str) -> None:
    """In Go's words; one of another type holds nothing."""
    with pytest.raises(UnmarshalError) as caught:
        lookup([secret(content, of)], "gcr.io/x", FIRST_ORDER)
    assert str(caught.value) == error
    assert lookup([secret(content, "Opaque")], "gcr.io/x", FIRST_ORDER) == []


# -- Records of pulls that are kept in memory ------------------------------------------------------


def full() -> LRUCache[int]:
    cache = LRUCache[int](2)
    cache.refresh([("a", 1)], complete=True)
    cache.set("b", 2)
    return cache


def test_what_was_not_used_for_longest_goes_and_is_looked_for_on_the_disk_again() -> None:
    """A use counts; a value that is set again makes nothing go."""
    cache = full()
    cache.set("b", 3)
    assert cache.authoritative
    assert cache.get("a") == 1
    cache.set("c", 4)
    assert [cache.get(key) for key in "abc"] == [1, None, 4]
    assert not cache.authoritative


def test_a_list_is_taken_over_if_it_is_whole_and_fits_or_nothing_is_kept() -> None:
    """Else what was used stays, and the disk is asked."""
    cache = full()
    cache.refresh([("x", 9)], complete=False)
    assert cache.get("x") is None
    cache.refresh([("x", 9), ("y", 8)], complete=True)
    assert (cache.get("x"), cache.get("a")) == (None, 1)
    cache.refresh([("x", 9)], complete=True)
    assert (cache.get("x"), cache.get("a"), cache.authoritative) == (9, None, True)
    empty = LRUCache[int](2)
    empty.refresh([("x", 9), ("y", 8), ("z", 7)], complete=True)
    assert (empty.get("x"), empty.get("z"), empty.authoritative) == (9, None, False)


# -- Pulls in the state: what fails, by pod, and who may use which image ---------------------------

NAMES: dict[str, Any] = WHO | {"container": "app", "image": "x/y:1"}
FAILED = PullEnded(**NAMES, outcome="failed", error="not found", reason="ErrImagePull")
HELD = PullDecided(**NAMES, decision="back_off")
PULLED = PullEnded(**NAMES, outcome="pulled")
INTENT = PullRecordRead(api_version="v1beta1", image="x/y:1")
RECORD = PullRecordRead(
    api_version="v1beta1", image_ref="sha256:a", users={"x/y": PullUsers(secrets=("shop/s",))}
)


def pulls(*steps: tuple[float, Body]) -> dict[str, Any]:
    """What the state says of pulls behind some records."""
    state = NodeState()
    for record in scene((0, listed()), *steps):
        evolve(state, record)
    found: dict[str, Any] = document(state, ["pulls"])["pulls"]
    return found


def test_what_fails_stands_there_until_it_is_pulled() -> None:
    """By pod and image, with how often and why."""
    found = pulls((1, FAILED), (12, FAILED), (13, HELD))["failing"]["u-1"]["x/y:1"]
    at = {"failed_ts_ns": 1_012 * NS_PER_S, "held_back_ts_ns": 1_013 * NS_PER_S}
    assert found == at | {"failures": 2, "reason": "ErrImagePull", "error": "not found"}
    assert pulls((1, FAILED), (33, PULLED))["failing"] == {}
    assert pulls((33, PULLED))["failing"] == {}


def test_it_ends_with_pod_and_process() -> None:
    """Both forget it; a pod that nothing shows has none."""
    ended = PodTerminated(**WHO)
    other = KubeletStarted(pid=2, kubelet_version="1.36.2", version_source="log", restart=True)
    assert pulls((1, FAILED), (2, ended))["failing"] == {}
    assert pulls((1, FAILED), (2, other))["failing"] == {}
    stranger = msgspec.structs.replace(FAILED, pod_uid="u-2", pod="q")
    assert pulls((1, stranger))["failing"] == {}


def test_a_uid_that_becomes_known_takes_over() -> None:
    """What stood under the name stands under the UID."""
    nameless = msgspec.structs.replace(listed(), pod_uid=None)
    without = msgspec.structs.replace(FAILED, pod_uid=None)
    state = NodeState()
    for record in scene((0, nameless), (1, without), (2, listed())):
        evolve(state, record)
    assert list(state.imagepull.failing) == ["u-1"]


def test_files_of_pulls() -> None:
    """Who may use an image; what is to be pulled, until that has ended."""
    found = pulls((1, RECORD), (2, INTENT))
    assert found["pulled"]["sha256:a"]["users"]["x/y"]["secrets"] == ("shop/s",)
    assert found["pulling"] == {"x/y:1": 1_002 * NS_PER_S}
    assert pulls((2, INTENT), (3, FAILED))["pulling"] == {}
