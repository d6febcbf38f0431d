"""Credentials of pull secrets."""

import base64
import hashlib
import json
from typing import Any

import pytest

from kubeledger.kubelet.imagepull.keyring import Coordinates, PullSecret, lookup
from kubeledger.kubelet.kube.gotypes import UnmarshalError
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, explore

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
