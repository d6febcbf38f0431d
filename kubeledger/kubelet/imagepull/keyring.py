"""Names of images, and credentials of pull secrets for them: ``pkg/credentialprovider``.

One thing is left to chance: two entries of one secret that stand for the same registry
(``gcr.io`` and ``https://gcr.io/v2/``) come in the order of a Go map.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.kube.gotypes import STRING, Map, Struct, UnmarshalError, decoded, unmarshal
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.urls import URL, URLError, parse_url
from kubeledger.kubelet.profile.images import ImagePullFacts
from kubeledger.model.patterns import regex

_NAME_MAX: Final = 255
_DEFAULT_DOMAIN: Final = "docker.io"
_DOMAIN: Final = (
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
    r"(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*{ipv6})(?::[0-9]+)?"
)
_COMPONENT: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = (
    rf"(?P<name>(?:{_DOMAIN}/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*))"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)


def _compiled(ipv6: str) -> re.Pattern[str]:
    return regex(_REFERENCE.replace("{ipv6}", ipv6), re.ASCII)


_OLD: Final = _compiled("")
_NEW: Final = _compiled(r"|\[[a-fA-F0-9:]+\]")
_IDENTIFIER: Final = regex(r"[a-f0-9]{64}")
_HEX_DIGITS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_LOWER_HEX: Final = regex(r"[a-f0-9]+")
_ANY_DIGEST: Final = regex(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")


class ImageNameError(ValueError):
    """Go's text of why something is no name of an image."""


class ImageName(NamedTuple):
    """The parts of a name; what is not there is empty.

    Attributes:
        repo: of what the parser was given.
    """

    repo: str
    tag: str
    digest: str


@lru_cache(maxsize=1 << 10)
def parse_image_name(image: str, facts: ImagePullFacts) -> ImageName:
    """Repository with its host, tag and digest; ``latest`` where there is neither.

    Raises:
        ImageNameError: as the kubelet words it.

    Source: v1.28.0 pkg/util/parsers/parsers.go ParseImageName; v1.20.2
        pkg/kubelet/images/image_manager.go applyDefaultImageTag
    Differs: the name with the default tag, with which the runtime is asked, is not made.
    """
    try:
        named = parse_normalized_named(image, facts)
    except ImageNameError as error:
        what = "name" if facts.image_name_parsed_by_util else "reference"
        raise ImageNameError(f"couldn't parse image {what} {quoted(image)}: {error}") from None
    return named if named.tag or named.digest else named._replace(tag="latest")


def parse_normalized_named(image: str, facts: ImagePullFacts) -> ImageName:
    """The parts of a name that may leave out ``docker.io/library/``.

    Raises:
        ImageNameError: as the library words it.

    Source: distribution/reference v0.6.0 normalize.go ParseNormalizedNamed, splitDockerDomain;
        docker/distribution v2.8.2
    """
    if _IDENTIFIER.fullmatch(image):
        raise ImageNameError(
            f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
        )
    domain, slash, remainder = image.partition("/")
    is_host = any(mark in domain for mark in ".:") or domain == "localhost"
    if facts.names_read_by_reference_library:
        is_host = is_host or domain != domain.lower()
    if not slash or not is_host:
        domain, remainder = _DEFAULT_DOMAIN, image
    elif domain == "index.docker.io":
        domain = _DEFAULT_DOMAIN
    if domain == _DEFAULT_DOMAIN and "/" not in remainder:
        remainder = f"library/{remainder}"
    remote = remainder.partition(":")[0]
    if remote != remote.lower():
        named = f" ({remote})" if facts.names_read_by_reference_library else ""
        raise ImageNameError(f"invalid reference format: repository name{named} must be lowercase")
    return parse(f"{domain}/{remainder}", facts)


def parse(reference: str, facts: ImagePullFacts) -> ImageName:
    """The parts of a name as it is written.

    Raises:
        ImageNameError: as the library words it.

    Source: distribution/reference v0.6.0 reference.go Parse; opencontainers/go-digest v1.0.0
        digest.go Validate
    """
    pattern = _NEW if facts.names_read_by_reference_library else _OLD
    match = pattern.fullmatch(reference)
    if match is None:
        if not reference:
            raise ImageNameError("repository name must have at least one component")
        if pattern.fullmatch(reference.lower()):
            raise ImageNameError("repository name must be lowercase")
        raise ImageNameError("invalid reference format")
    counted = match["path"] if facts.name_length_without_host else match["name"]
    if len(counted) > _NAME_MAX:
        raise ImageNameError(f"repository name must not be more than {_NAME_MAX} characters")
    digest = match["digest"] or ""
    if digest:
        _validate(digest)
    return ImageName(match["name"], match["tag"] or "", digest)


def _validate(digest: str) -> None:
    algorithm, _, encoded = digest.partition(":")
    digits = _HEX_DIGITS.get(algorithm)
    if digits is None:
        known = _ANY_DIGEST.fullmatch(digest)
        raise ImageNameError(
            "unsupported digest algorithm" if known else "invalid checksum digest format"
        )
    if len(encoded) != digits:
        raise ImageNameError("invalid checksum digest length")
    if not _LOWER_HEX.fullmatch(encoded):
        raise ImageNameError("invalid checksum digest format")


@lru_cache(maxsize=1 << 10)
def trim_image_tag_digest(image: str, facts: ImagePullFacts) -> str:
    """The name under which a record of pulls has an image.

    Raises:
        ImageNameError: as the kubelet words it.

    Source: v1.36.2 pkg/kubelet/images/pullmanager/image_pull_policies.go trimImageTagDigest;
        v1.34.9 image_pull_manager.go
    """
    if not facts.pull_records_by_name_as_written:
        return parse_image_name(image, facts).repo
    _, tag, digest = parse(image, facts)
    # The pattern has both at the end, so they are there to be cut off.
    trimmed = image.removesuffix(f"@{digest}") if digest else image
    return trimmed.removesuffix(f":{tag}") if tag else trimmed


def default_pull_policy(image: str, facts: ImagePullFacts) -> str:
    """What a container, or an image that a pod mounts, has that was given no policy.

    The API server fills it in, and the kubelet itself for a pod that it reads from a file.

    Source: v1.24.0 pkg/apis/core/v1/defaults.go SetDefaults_Container
    Differs: no. A name that cannot be read has no tag.
    """
    with suppress(ImageNameError):
        if parse_image_name(image, facts).tag == "latest":
            return "Always"
    return "IfNotPresent"


_DEFAULT_REGISTRY: Final = "index.docker.io"
_TYPES: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
_SCHEME: Final = regex("https?://")
_ESCAPED: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Coordinates(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Which secret, or service account."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


class Credential(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A user name and a password (``TrackedAuthConfig``).

    Attributes:
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


def lookup(secrets: Iterable[PullSecret], repo: str, order: MapOrder) -> list[Credential]:
    """The credentials of secrets for a repository, the most specific registry first.

    Args:
        secrets: in the pod's order; those of other types hold none.
        order: of the entries that stand for one registry.

    Raises:
        UnmarshalError: a secret cannot be read.

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
                username, digest = entries.pop(order.pick(range(len(entries))))
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
            found.setdefault(key, []).append((login["Username"], _digest(login)))
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


def _digest(login: Mapping[str, str]) -> str:
    """Source: v1.36.2 pkg/credentialprovider/keyring.go hashAuthConfig."""
    config = {name.lower(): login[name] for name in ("Username", "Password", "Email")}
    given = {name: value for name, value in config.items() if value}
    text = json.dumps(given, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _logins(secret_type: str, content: bytes) -> dict[str, dict[str, str]]:
    """What a secret holds: location -> login.

    Source: v1.36.2 pkg/credentialprovider/config.go DockerConfigJSON; v1.20.2
    """
    if key_of(secret_type) == ".dockerconfigjson":
        return unmarshal(content, _DOCKER_CONFIG_JSON)["Auths"] or {}
    return unmarshal(content, _DOCKER_CONFIG)


class _DockerConfigEntry(Struct):
    """A login, which Go reads by a method of its own.

    Source: v1.36.2 pkg/credentialprovider/config.go DockerConfigEntry UnmarshalJSON; v1.20.2
    """

    def read(self, data: Any) -> dict[str, str]:  # noqa: ANN401  # decoded JSON
        """Its fields, of which the user name and the password may stand in one."""
        login = decoded(data, _WITH_AUTH)
        if login["Auth"]:
            login["Username"], login["Password"] = _decoded(login["Auth"])
        return login


_LOGIN: Final = {name: (name.lower(), STRING) for name in ("Username", "Password", "Email", "Auth")}
_WITH_AUTH: Final = Struct("credentialprovider.dockerConfigEntryWithAuth", _LOGIN)
_ENTRY: Final = _DockerConfigEntry("credentialprovider.DockerConfigEntry", _LOGIN)
_DOCKER_CONFIG: Final = Map(STRING, _ENTRY, "credentialprovider.DockerConfig")
_DOCKER_CONFIG_JSON: Final = Struct(
    "credentialprovider.DockerConfigJSON",
    {"Auths": ("auths", _DOCKER_CONFIG), "HttpHeaders": ("HttpHeaders", Map(STRING, STRING))},
)


def _decoded(auth: str) -> tuple[str, str]:
    """Source: v1.36.2 pkg/credentialprovider/config.go decodeDockerConfigFieldAuth; v1.20.2."""
    data = auth.replace("\r", "").replace("\n", "")
    if not data.rstrip().endswith("="):
        data += "=" * (-len(data) % 4)
    try:
        text = base64.b64decode(data, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/]", auth)
        at = bad.start() if bad else len(auth) - len(auth) % 4
        raise UnmarshalError(f"illegal base64 data at input byte {at}") from None
    username, colon, password = text.partition(":")
    if not colon:
        raise UnmarshalError(
            "unable to parse auth field, must be formatted as base64(username:password)"
        )
    return username, password
