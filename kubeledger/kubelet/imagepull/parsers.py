"""Names of images: ``pkg/util/parsers``, and what it asks of ``distribution/reference``."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.profile.imagepull import ImagePullFacts

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
    return re.compile(_REFERENCE.replace("{ipv6}", ipv6), re.ASCII)


_OLD: Final = _compiled("")
_NEW: Final = _compiled(r"|\[[a-fA-F0-9:]+\]")
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_HEX_DIGITS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_LOWER_HEX: Final = re.compile(r"[a-f0-9]+")
_ANY_DIGEST: Final = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")


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
