"""Percent and target in the kubelet's integers; sizes for people."""

import pytest

from kubeledger.kubelet.images.policy import (
    ImageFsStats,
    ImageGCPolicy,
    bytes_to_free,
    effective_max_age_ns,
    format_size,
    int64,
    loop_disabled,
    policy_error,
    read_usage,
)
from kubeledger.kubelet.profile.resolve import resolve


@pytest.mark.parametrize(
    ("capacity", "available", "percent", "target"),
    [
        (100, 100, 0, -80),
        (100, 16, 84, 4),
        (1000, 159, 85, 41),  # 84.1 % counts as 85
        (1000, 160, 84, 40),
        (100, 200, 0, -80),  # more available than there is
        (100, None, 100, 20),
        (3, 0, 100, 0),  # the low threshold itself is rounded down
    ],
)
def test_usage_and_target(
    capacity: int | None, available: int | None, percent: int, target: int
) -> None:
    """The used share is rounded up; the target follows from the low threshold."""
    usage = read_usage(ImageFsStats(capacity, available))
    assert usage is not None
    policy = ImageGCPolicy(high_threshold_percent=85, low_threshold_percent=80, min_age_ns=0)
    assert (usage.percent, bytes_to_free(usage, policy)) == (percent, target)


@pytest.mark.parametrize("stats", [ImageFsStats(0, 0), ImageFsStats(None, 5), ImageFsStats(0, 9)])
def test_no_capacity(stats: ImageFsStats) -> None:
    assert read_usage(stats) is None


def test_products_beyond_64_bits_wrap() -> None:
    """On a disk of 2**57 bytes (128 PiB) the share of what is available is nonsense."""
    usage = read_usage(ImageFsStats(2**57, 2**57))
    assert usage is not None
    assert int64(2**57 * 100) == -28 * 2**57
    assert usage.percent == 128


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1024.0 KiB"),
        (28346784973, "26.4 GiB"),
        (1024**4, "1.0 TiB"),
        (5 * 1024**5, "5120.0 TiB"),
        (-5000, "-5000 B"),
    ],
)
def test_format_size(size: int, text: str) -> None:
    """Binary units with one decimal; nothing above TiB."""
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("high", "low", "error"),
    [
        (85, 80, ""),
        (100, 100, ""),
        (0, 0, ""),
        (-1, 0, "invalid HighThresholdPercent -1, must be in range [0-100]"),
        (101, 102, "invalid HighThresholdPercent 101, must be in range [0-100]"),
        (85, -1, "invalid LowThresholdPercent -1, must be in range [0-100]"),
        (85, 101, "invalid LowThresholdPercent 101, must be in range [0-100]"),
        (80, 85, "LowThresholdPercent 85 can not be higher than HighThresholdPercent 80"),
    ],
)
def test_policy_error(high: int, low: int, error: str) -> None:
    """High before low before their order; equal ones are taken."""
    policy = ImageGCPolicy(high_threshold_percent=high, low_threshold_percent=low, min_age_ns=0)
    assert policy_error(policy) == error


@pytest.mark.parametrize(("version", "max_age_ns"), [("1.29.0", 0), ("1.30.0", 7)])
def test_the_gate_of_the_maximum_age(version: str, max_age_ns: int) -> None:
    """In 1.29 the configured age does not reach the manager by default."""
    assert effective_max_age_ns(7, resolve(version).images) == max_age_ns


OLD = "ImageGCHighThresholdPercent is set 100, Disable image GC"
NEW = "ImageGCHighThresholdPercent is set 100 and ImageMaximumGCAge is 0, Disable image GC"


@pytest.mark.parametrize(
    ("version", "high", "max_age_ns", "message"),
    [
        ("1.20.2", 99, 0, ""),
        ("1.20.2", 100, 0, OLD),
        ("1.29.0", 100, 5, OLD),
        ("1.30.0", 100, 0, NEW),
        ("1.30.0", 100, 5, ""),
        ("1.36.2", 100, 0, NEW),
    ],
)
def test_a_threshold_of_100(version: str, high: int, max_age_ns: int, message: str) -> None:
    """It stops the loop, unless images can still go for their age."""
    assert loop_disabled(high, max_age_ns, resolve(version).images) == message
