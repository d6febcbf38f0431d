"""For which images credentials are verified: ``images/pullmanager/image_pull_policies.go``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from kubeledger.kubelet.imagepull.parsers import (
    ImageNameError,
    parse_normalized_named,
    trim_image_tag_digest,
)
from kubeledger.kubelet.profile.imagepull import ImagePullFacts

NEVER_VERIFY: Final = "NeverVerify"
NEVER_VERIFY_PRELOADED: Final = "NeverVerifyPreloadedImages"
NEVER_VERIFY_ALLOWLISTED: Final = "NeverVerifyAllowlistedImages"
ALWAYS_VERIFY: Final = "AlwaysVerify"

Requires = Callable[[str, bool], bool]
"""Whether credentials are verified for an image, by its name and whether the kubelet pulled it."""


class PolicyError(ValueError):
    """The kubelet's text of why it does not start with a policy."""


@lru_cache(maxsize=256)
def new_policy(policy: str, allowlist: tuple[str, ...], facts: ImagePullFacts) -> Requires:
    """What ``imagePullCredentialsVerificationPolicy`` asks for.

    Raises:
        PolicyError: no such policy, or a pattern that is none.

    Source: v1.36.2 NewImagePullCredentialVerificationPolicy; v1.34.9
    """
    if policy == NEVER_VERIFY:
        return lambda image, by_kubelet: False
    if policy == NEVER_VERIFY_PRELOADED:
        return lambda image, by_kubelet: by_kubelet
    if policy == ALWAYS_VERIFY:
        return lambda image, by_kubelet: True
    if policy != NEVER_VERIFY_ALLOWLISTED:
        raise PolicyError(f"unknown image pull credential verification policy: {policy}")
    patterns = [_pattern(pattern, facts) for pattern in allowlist]
    exact = frozenset(name for name, is_prefix in patterns if not is_prefix)
    prefixes = tuple(name for name, is_prefix in patterns if is_prefix)

    def requires(image: str, by_kubelet: bool) -> bool:
        name = _matched_name(image, facts)
        return name not in exact and not name.startswith(prefixes)

    return requires


def _matched_name(image: str, facts: ImagePullFacts) -> str:
    """Source: v1.36.2 imageMatches; v1.34.9."""
    if not facts.pull_records_by_name_as_written:
        return image
    try:
        return trim_image_tag_digest(image, facts)
    except ImageNameError:
        return image


def _pattern(pattern: str, facts: ImagePullFacts) -> tuple[str, bool]:
    """The name, or its beginning (then True), that a pattern of the allow list stands for.

    Source: v1.36.2 getAllowlistImagePattern; v1.34.9
    """
    if pattern != pattern.strip():
        raise PolicyError(f"leading/trailing spaces are not allowed: {pattern}")
    is_prefix = pattern.endswith("/*")
    name = pattern[:-1] if is_prefix else pattern
    if not name:
        raise PolicyError(f"the supplied pattern is too short: {pattern}")
    if "*" in name:
        raise PolicyError(
            "not a valid wildcard pattern, only patterns ending with '/*' are allowed: " + pattern
        )
    if is_prefix:
        if len(name) == 1:
            raise PolicyError("at least registry hostname is required")
        return name, True
    try:
        trimmed = (
            trim_image_tag_digest(name, facts)
            if facts.pull_records_by_name_as_written
            else parse_normalized_named(name, facts).repo
        )
    except ImageNameError as error:
        raise PolicyError(f"failed to parse as an image name: {error}") from None
    if trimmed != name:
        raise PolicyError(f"neither tag nor digest is accepted in an image reference: {pattern}")
    return name, False
