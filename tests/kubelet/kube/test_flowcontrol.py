"""The rate limit; back-offs are in the tests of restarts and of image pulls."""

from kubeledger.kubelet.kube.flowcontrol import TokenBucket

S = 1_000_000_000


def test_a_bucket_is_full_at_first_and_fills_again() -> None:
    """A refusal takes nothing; more than the burst is not kept."""
    bucket = TokenBucket(0.5, 2)
    accepted = [bucket.try_accept(second * S) for second in (0, 0, 0, 1, 2, 3, 4, 100, 100, 100)]
    assert accepted == [True, True, False, False, True, False, True, True, True, False]


def test_what_lacks_less_than_a_nanosecond_is_there() -> None:
    """Go's wait is in whole nanoseconds; its rate is a float32."""
    for early_ns, accepted in ((1, True), (2, False)):
        bucket = TokenBucket(5, 1)
        assert bucket.try_accept(0)
        assert bucket.try_accept(S // 5 - early_ns) == accepted
    for early_ns, accepted in ((149, True), (151, False)):
        bucket = TokenBucket(0.1, 1)
        assert bucket.try_accept(0)
        assert bucket.try_accept(10 * S - early_ns) == accepted
    assert not TokenBucket(5, 0).try_accept(0)
