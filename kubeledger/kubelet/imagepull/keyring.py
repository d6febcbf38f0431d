"""Credentials of pull secrets for an image: ``pkg/credentialprovider``.

One thing is left to chance: two entries of one secret that stand for the same registry
(``gcr.io`` and ``https://gcr.io/v2/``) come in the order of a Go map.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.gojson import GoJSONError, kind_of, loads
from kubeledger.kubelet.kube.urls import URL, URLError, parse_url

_DEFAULT_REGISTRY: Final = "index.docker.io"
_TYPES: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
_SCHEME: Final = re.compile("https?://")
_ESCAPED: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_ENTRY: Final = "dockerConfigEntryWithAuth"


class Coordinates(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Which secret, or service account."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


class Credential(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A user name and a password (``TrackedAuthConfig``).

    Attributes:
        hash: of all of it.
        secret, service_account: where it is from; neither: every pod of the node may use it.
    """

    username: str
    hash: str | None = None
    secret: Coordinates | None = None
    service_account: Coordinates | None = None


class PullSecret(msgspec.Struct, frozen=True, gc=False):
    """A secret that a pod names in its imagePullSecrets."""

    coordinates: Coordinates
    type: str
    content: bytes


def key_of(secret_type: str) -> str | None:
    """Under which key a secret has its ``content``; None for one that is no pull secret."""
    return _TYPES.get(secret_type)


class _Login(NamedTuple):
    username: str
    password: str
    email: str


Choose = Callable[[int], int]
"""Which of so many comes next."""


def lookup(secrets: Iterable[PullSecret], repo: str, choose: Choose) -> list[Credential]:
    """The credentials of secrets for a repository, the most specific registry first.

    Args:
        secrets: in the pod's order; those of other types hold none.
        repo: with its host.
        choose: which of the entries that stand for one registry comes next.

    Raises:
        GoJSONError: a secret cannot be read.

    Source: v1.36.2 pkg/credentialprovider/secrets/secrets.go MakeDockerKeyring,
        pkg/credentialprovider/keyring.go BasicDockerKeyring; v1.20.2
    """
    keyring: dict[str, list[Credential]] = {}
    for secret in secrets:
        if key_of(secret.type) is None or not secret.content:
            continue
        for key, logins in _entries(secret.type, secret.content).items():
            into, entries = keyring.setdefault(key, []), list(logins)
            while entries:
                username, digest = entries.pop(choose(len(entries)) if len(entries) > 1 else 0)
                into.append(Credential(username, digest, secret.coordinates))
    matching = [key for key in sorted(keyring, reverse=True) if _urls_match(key, repo)]
    if not matching and _is_default_registry(repo) and _DEFAULT_REGISTRY in keyring:
        matching = [_DEFAULT_REGISTRY]
    return [each for key in matching for each in keyring[key]]


@lru_cache(maxsize=1 << 10)
def _entries(secret_type: str, content: bytes) -> Mapping[str, Sequence[tuple[str, str]]]:
    """What a secret holds: registry -> user names, and the hashes of their credentials.

    Source: v1.36.2 pkg/credentialprovider/keyring.go Add; v1.20.2
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for location, login in _logins(secret_type, content).items():
        if (key := _registry(location)) is not None:
            found.setdefault(key, []).append((login.username, _digest(login)))
    return found


@lru_cache(maxsize=256)
def _registry(location: str) -> str | None:
    """The host, and path, that an entry is for; None for no URL."""
    try:
        url = parse_url(location if _SCHEME.match(location) else f"https://{location}")
    except URLError:
        return None
    path = url.path[3:] if url.path.startswith(("/v1/", "/v2/")) else url.path
    return url.host if path in ("", "/") else url.host + path


@lru_cache(maxsize=1 << 10)
def _urls_match(glob: str, target: str) -> bool:
    """Whether each part of the host matches, and the path begins with the glob's.

    Source: v1.36.2 pkg/credentialprovider/keyring.go URLsMatch; v1.20.2
    """
    try:
        wanted, url = parse_url(f"https://{glob}"), parse_url(f"https://{target}")
    except URLError:
        return False
    (wanted_parts, wanted_port), (parts, port) = _split(wanted), _split(url)
    if wanted_port != port or len(wanted_parts) != len(parts):
        return False
    if not url.path.startswith(wanted.path):
        return False
    return all(map(fnmatchcase, parts, wanted_parts))


def _split(url: URL) -> tuple[list[str], str]:
    host, colon, port = url.host.rpartition(":")
    return (host.split("."), port) if colon and ":" not in host else (url.host.split("."), "")


def _is_default_registry(repo: str) -> bool:
    """Source: v1.36.2 pkg/credentialprovider/keyring.go isDefaultRegistryMatch; v1.20.2."""
    first, slash, _ = repo.partition("/")
    if not first:
        return False
    if not slash or first in ("docker.io", _DEFAULT_REGISTRY):
        return True
    return "." not in first and ":" not in first


def _digest(login: _Login) -> str:
    """Source: v1.36.2 pkg/credentialprovider/keyring.go hashAuthConfig."""
    config = {name: value for name, value in zip(login._fields, login, strict=True) if value}
    text = json.dumps(config, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _logins(secret_type: str, content: bytes) -> dict[str, _Login]:
    """What a secret holds: location -> login.

    Source: v1.36.2 pkg/credentialprovider/config.go DockerConfigJSON, DockerConfigEntry; v1.20.2
    """
    config, fault = loads(content), _Fault()
    where = "Go value of type credentialprovider.DockerConfig"
    if key_of(secret_type) == ".dockerconfigjson":
        fields = fault.object_of(config, f"{where}JSON")
        headers = _field(fields, "HttpHeaders")
        where = "Go struct field DockerConfigJSON.HttpHeaders of type"
        for value in fault.object_of(headers, f"{where} map[string]string").values():
            fault.text_of(value, f"{where} string")
        config = _field(fields, "auths")
        where = "Go struct field DockerConfigJSON.auths of type credentialprovider.DockerConfig"
    logins = {at: _login(one, fault) for at, one in fault.object_of(config, where).items()}
    if fault.first:
        raise GoJSONError(fault.first)
    return logins


def _login(value: object, fault: _Fault) -> _Login:
    fields = fault.object_of(value, f"Go value of type credentialprovider.{_ENTRY}")
    texts = {
        name: fault.text_of(_field(fields, name), f"Go struct field {_ENTRY}.{name} of type string")
        for name in ("username", "password", "email", "auth")
    }
    username, password = texts["username"], texts["password"]
    if texts["auth"] and not fault.first:
        username, password = _decoded(texts["auth"], fault)
    return _Login(username, password, texts["email"])


def _decoded(auth: str, fault: _Fault) -> tuple[str, str]:
    """Source: v1.36.2 pkg/credentialprovider/config.go decodeDockerConfigFieldAuth; v1.20.2."""
    data = auth.replace("\r", "").replace("\n", "")
    if not data.rstrip().endswith("="):
        data += "=" * (-len(data) % 4)
    try:
        text = base64.b64decode(data, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/]", auth)
        at = bad.start() if bad else len(auth) - len(auth) % 4
        fault.say(f"illegal base64 data at input byte {at}")
        return "", ""
    username, colon, password = text.partition(":")
    if not colon:
        fault.say("unable to parse auth field, must be formatted as base64(username:password)")
        return "", ""
    return username, password


def _field(fields: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401  # any JSON value
    """A field of a Go struct: its key in whatever case, the last one counts."""
    found = None
    for key, value in fields.items():
        if key == name or key.lower() == name.lower():
            found = value
    return found


class _Fault:
    """The first thing that does not fit its Go type; what comes after it is read all the same."""

    def __init__(self) -> None:
        self.first = ""

    def say(self, what: str) -> None:
        self.first = self.first or what

    def object_of(self, value: object, where: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        if value is not None:
            self.say(f"json: cannot unmarshal {kind_of(value)} into {where}")
        return {}

    def text_of(self, value: object, where: str) -> str:
        if isinstance(value, str):
            return value
        if value is not None:
            self.say(f"json: cannot unmarshal {kind_of(value)} into {where}")
        return ""
