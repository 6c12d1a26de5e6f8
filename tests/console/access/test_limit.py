"""How often a login may be tried."""

from __future__ import annotations

import pytest

from relay.console.access import limit
from relay.console.access.limit import PER_ADDRESS, REFILL_SECONDS, Buckets, network_of
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_bucket_holds_some_attempts_and_refills(clock: Clock) -> None:
    buckets = Buckets(PER_ADDRESS, clock)
    for _ in range(PER_ADDRESS):
        assert buckets.wait("10.0.0.1") == 0
        buckets.take("10.0.0.1")

    waits = {buckets.wait("10.0.0.1") for _ in range(100)}  # to ask does not make the wait longer
    assert list(waits) == [pytest.approx(REFILL_SECONDS / PER_ADDRESS)]
    assert buckets.wait("10.0.0.2") == 0

    clock.now += waits.pop()
    assert buckets.wait("10.0.0.1") == 0
    buckets.take("10.0.0.1")
    assert buckets.wait("10.0.0.1") > 0


def test_a_right_login_does_not_count(clock: Clock) -> None:
    buckets = Buckets(PER_ADDRESS, clock)

    for _ in range(10 * PER_ADDRESS):
        assert buckets.wait("10.0.0.1") == 0
        buckets.take("10.0.0.1")
        buckets.give_back("10.0.0.1")


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MOST_KEYS", 50)
    buckets = Buckets(PER_ADDRESS, clock)

    for number in range(1000):
        buckets.take(f"10.0.{number % 256}.{number // 256}")

    assert len(buckets) == 50


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("x" * 100, "x" * 200, True),
    ],
)
def test_a_client_is_its_address_or_its_network(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same
