"""How often a login may be tried."""

from __future__ import annotations

import pytest

from relay.console.access import limit
from relay.console.access.limit import PER_ADDRESS, PER_NAME, PER_PAIR, REFILL_SECONDS, LoginLimit, network_of
from tests.console.access.test_logins import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_one_address_may_try_one_name_a_few_times(clock: Clock) -> None:
    limits = LoginLimit(clock)

    assert [limits.take("10.0.0.1", "ada") for _ in range(PER_PAIR)] == [0.0] * PER_PAIR
    wait = limits.take("10.0.0.1", "ada")
    assert wait == pytest.approx(REFILL_SECONDS / PER_PAIR)
    assert limits.take("10.0.0.1", "bob") == limits.take("10.0.0.2", "ada") == 0

    clock.now += wait
    assert limits.take("10.0.0.1", "ada") == 0
    assert limits.take("10.0.0.1", "ada") > 0


def test_one_address_may_not_try_many_names(clock: Clock) -> None:
    limits = LoginLimit(clock)

    waits = [limits.take("10.0.0.1", f"name-{number}") for number in range(PER_ADDRESS + 1)]

    assert waits[:-1] == [0.0] * PER_ADDRESS
    assert waits[-1] > 0


def test_many_addresses_may_not_try_one_name_without_end(clock: Clock) -> None:
    limits = LoginLimit(clock)

    waits = [limits.take(f"10.0.{number}.1", "ada") for number in range(PER_NAME + 1)]

    assert waits[:-1] == [0.0] * PER_NAME
    assert waits[-1] > 0


def test_a_right_login_does_not_count(clock: Clock) -> None:
    limits = LoginLimit(clock)

    for _ in range(10 * PER_NAME):
        assert limits.take("10.0.0.1", "ada") == 0
        limits.give_back("10.0.0.1", "ada")


def test_a_refused_attempt_does_not_make_the_wait_longer(clock: Clock) -> None:
    limits = LoginLimit(clock)
    for _ in range(PER_PAIR):
        limits.take("10.0.0.1", "ada")

    waits = {limits.take("10.0.0.1", "ada") for _ in range(100)}

    assert list(waits) == [pytest.approx(REFILL_SECONDS / PER_PAIR)]


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MOST_KEYS", 50)
    limits = LoginLimit(clock)

    for number in range(1000):
        limits.take(f"10.0.{number % 256}.{number // 256}", "n" * 100_000 + str(number))

    assert [len(buckets) for buckets in (limits._pairs, limits._addresses, limits._names)] == [50, 50, 50]


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
