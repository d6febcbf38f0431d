"""Names of images, by version."""

import pytest

from kubeledger.kubelet.imagepull.keyring import (
    ImageNameError,
    parse_image_name,
    trim_image_tag_digest,
)
from kubeledger.kubelet.profile.resolve import resolve

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
