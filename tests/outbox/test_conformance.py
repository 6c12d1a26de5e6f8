"""Every outbox keeps the port's promises and the contract's invariants: in memory, and in a real PostgreSQL."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.event import Claim, EventId, Fence
from relay.core.storage import OutboxStorage, Reaped, Renewal, Settled, Settlement
from tests.outbox.harness import DELETED, LEASE, RETRY, StorageHarness, both_modes

ANY_BYTES = 1 << 40


def ids(claim: Claim) -> list[EventId]:
    return [event.event_id for event in claim.events]


def fence_of(claim: Claim) -> Fence:
    assert claim.fence is not None
    return claim.fence


async def claim_one(table: StorageHarness, relay: OutboxStorage, attempts: int = 0) -> tuple[EventId, Fence]:
    event_id = table.insert(attempts=attempts)
    claim = await relay.claim(1, ANY_BYTES)
    assert ids(claim) == [event_id]
    return event_id, fence_of(claim)


async def test_a_claim_leases_rows_and_says_all_about_them(table: StorageHarness) -> None:
    relay = table.relay("relay \N{SNOWMAN} 1")
    await relay.open()
    event_id = table.insert(b"\x00\xff", headers='{"a": 1.50}', attempts=2)
    table.advance(5)
    before = table.row(event_id)
    claim = await relay.claim(10, ANY_BYTES)
    (event,) = claim.events
    assert event[:6] == (event_id, "test", None, b"\x00\xff", '{"a": 1.50}', 2)
    assert 5 <= event.age < 60
    row = table.row(event_id)
    assert (row["status"], row["locked_by"], row["locked_at"]) == ("DELIVERING", "relay \N{SNOWMAN} 1", claim.fence)
    assert row["updated_at"] > before["updated_at"]
    unchanged = set(before) - {"status", "locked_by", "locked_at", "updated_at"}
    assert {name: row[name] for name in unchanged} == {name: before[name] for name in unchanged}


async def test_the_oldest_come_first_by_available_at_then_created_at(table: StorageHarness) -> None:
    relay = table.relay()
    late, early, middle = table.insert(due_in=-10), table.insert(due_in=-30), table.insert(due_in=-20)
    if table.key_order is None:
        assert ids(await relay.claim(10, ANY_BYTES)) == [early, middle, late]
    else:  # a claim returns its rows in the order of insertion, and yet takes the oldest
        assert [ids(await relay.claim(1, ANY_BYTES)) for _ in range(3)] == [[early], [middle], [late]]


async def test_a_claim_takes_no_more_than_its_limit(table: StorageHarness) -> None:
    relay = table.relay()
    inserted = [table.insert() for _ in range(5)]
    assert ids(await relay.claim(2, ANY_BYTES)) == inserted[:2]
    assert ids(await relay.claim(10, ANY_BYTES)) == inserted[2:]
    assert await relay.claim(10, ANY_BYTES) == Claim(None, [])


async def test_a_claim_is_bounded_in_bytes(table: StorageHarness) -> None:
    relay = table.relay()
    a, b, c, d = (table.insert(b"x" * size) for size in (40_000, 60_000, 1_000, 99_000))
    assert ids(await relay.claim(10, 100_200)) == [a, b]
    assert table.row(c)["status"] == "PENDING"
    assert ids(await relay.claim(10, 100_200)) == [c, d]


async def test_rows_for_some_destinations_are_left(table: StorageHarness) -> None:
    relay = table.relay()
    a, b = table.insert(), table.insert()
    first = await relay.claim(1, ANY_BYTES)
    assert ids(first) == [a]
    if table.key_order is not None:
        return
    assert (await relay.claim(10, ANY_BYTES, without=[first.events[0].event_type])).events == []
    assert ids(await relay.claim(10, ANY_BYTES, without=["another", "a third"])) == [b]


@pytest.mark.parametrize("field", ["headers", "key"])
async def test_headers_and_keys_count_as_bytes(table: StorageHarness, field: str) -> None:
    relay = table.relay()
    large = '{"a": "' + "x" * 5_000 + '"}'  # compressible, and counted as what it is in memory
    a, b = (
        table.insert(headers=large) if field == "headers" else table.insert(key=f"{number}{large}")
        for number in range(2)
    )
    assert ids(await relay.claim(10, 8_000)) == [a]
    assert ids(await relay.claim(10, 8_000)) == [b]


async def test_a_row_larger_than_the_budget_is_claimed_alone(table: StorageHarness) -> None:
    relay = table.relay()
    empty, large, small = table.insert(b""), table.insert(b"x" * 50_000), table.insert(b"x")
    assert ids(await relay.claim(10, 1000)) == [empty]
    assert ids(await relay.claim(10, 1000)) == [large]
    assert ids(await relay.claim(10, 1000)) == [small]


async def test_scheduled_rows_wait_for_their_time(table: StorageHarness) -> None:
    relay = table.relay()
    scheduled = table.insert(due_in=100)
    assert (await relay.claim(10, ANY_BYTES)).events == []
    table.advance(101)
    assert ids(await relay.claim(10, ANY_BYTES)) == [scheduled]


async def test_two_claimers_at_once_never_share_a_row(table: StorageHarness) -> None:
    inserted = {table.insert() for _ in range(200)}
    relays = [table.relay(f"relay-{number}") for number in range(2)]
    taken: list[EventId] = []

    async def drain(relay: OutboxStorage) -> None:
        while events := ids(await relay.claim(7, ANY_BYTES)):
            taken.extend(events)

    await asyncio.gather(*(drain(relay) for relay in relays))
    for relay in relays:  # what one of them had locked and not taken at the very end
        await drain(relay)
    assert len(taken) == 200
    assert set(taken) == inserted


async def test_an_acknowledged_event_is_delivered_and_keeps_its_attempts(table: StorageHarness) -> None:
    relay = table.relay()
    event_id, fence = await claim_one(table, relay, attempts=2)
    before = table.row(event_id)
    assert await relay.settle([Settlement(fence, delivered=[event_id])]) == [Settled(delivered=1)]
    row = table.row(event_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("DELIVERED", 2, None)
    assert (row["locked_by"], row["locked_at"]) == (None, None)
    assert row["delivered_at"] == row["updated_at"] > before["updated_at"]


@both_modes
async def test_a_retried_event_waits_for_its_delay_with_its_error(table: StorageHarness) -> None:
    relay = table.relay()
    event_id, fence = await claim_one(table, relay)
    assert await relay.settle([Settlement(fence, retried=[(event_id, "BROKER: busy", 30.0)])]) == [Settled(retried=1)]
    row = table.row(event_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 1, "BROKER: busy")
    assert (row["locked_by"], row["locked_at"], row["delivered_at"]) == (None, None, None)
    assert row["available_at"] - row["updated_at"] == timedelta(seconds=30)


@both_modes
async def test_a_buried_event_is_dead_and_an_attempt_more(table: StorageHarness) -> None:
    relay = table.relay()
    event_id, fence = await claim_one(table, relay, attempts=1)
    assert await relay.settle([Settlement(fence, buried=[(event_id, "TOO_LARGE")])]) == [Settled(buried=1)]
    row = table.row(event_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("DEAD", 2, "TOO_LARGE")
    assert (row["locked_by"], row["locked_at"], row["delivered_at"]) == (None, None, None)


@both_modes
async def test_a_released_event_is_available_at_once_in_its_old_place(table: StorageHarness) -> None:
    relay = table.relay()
    event_id, fence = await claim_one(table, relay, attempts=1)
    before = table.row(event_id)
    younger = table.insert()
    assert await relay.settle([Settlement(fence, released=[event_id])]) == [Settled(released=1)]
    row = table.row(event_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 1, None)
    assert (row["locked_by"], row["locked_at"], row["available_at"]) == (None, None, before["available_at"])
    assert row["updated_at"] > before["updated_at"]
    assert ids(await relay.claim(10, ANY_BYTES)) == [event_id, younger]


@both_modes
async def test_verdicts_of_every_kind_and_of_several_claims_go_in_one_call(table: StorageHarness) -> None:
    relay = table.relay()
    first = [table.insert() for _ in range(4)]
    one = await relay.claim(4, ANY_BYTES)
    second = [table.insert() for _ in range(2)]
    two = await relay.claim(4, ANY_BYTES)
    done = await relay.settle(
        [
            Settlement(fence_of(one), first[:1], [(first[1], "e", 5.0)], [(first[2], "e")], first[3:]),
            Settlement(fence_of(two), delivered=second),
            Settlement(fence_of(two)),
        ]
    )
    assert done == [Settled(1, 1, 1, 1), Settled(2), Settled()]
    delivered = DELETED if table.delete_delivered else "DELIVERED"
    statuses = [table.status(event_id) for event_id in first + second]
    assert statuses == [delivered, "PENDING", "DEAD", "PENDING", delivered, delivered]
    assert await relay.settle([]) == []
    assert await relay.settle([Settlement(fence_of(two))]) == [Settled()]


@pytest.mark.parametrize(
    "text", ["NUL \x00 in it", "lone \udcff surrogate", "{quoted, \"'\\ %s}", "", "line\nbreak ☃", "NULL"]
)
async def test_odd_error_texts_are_stored(table: StorageHarness, text: str) -> None:
    relay = table.relay()
    event_id, fence = await claim_one(table, relay)
    assert await relay.settle([Settlement(fence, retried=[(event_id, text, 1.0)])]) == [Settled(retried=1)]
    stored = text.replace("\x00", "\ufffd").replace("\udcff", "?")
    assert table.row(event_id)["last_error"] == stored


@both_modes
@pytest.mark.parametrize("kind", ["delivered", "retried", "buried", "released"])
@pytest.mark.parametrize("who", ["stale fence", "other relay", "reaped and claimed again by the same id"])
async def test_only_the_holder_of_the_lease_settles(table: StorageHarness, kind: str, who: str) -> None:
    relay, twin, other = table.relay(), table.relay(), table.relay("relay-b")
    event_id, fence = await claim_one(table, relay)
    settler = relay
    if who == "stale fence":
        fence = Fence(fence - timedelta(microseconds=1))
    elif who == "other relay":
        settler = other
    else:
        table.advance(LEASE + 1)
        assert await twin.reap(10) == Reaped(1, 0)
        table.advance(100)
        assert ids(await twin.claim(1, ANY_BYTES)) == [event_id]
        fence = table.aged(fence, LEASE + 101)
    verdicts = {"delivered": [event_id], "retried": [(event_id, "e", 1.0)], "buried": [(event_id, "e")]}
    before = table.row(event_id)
    settlement = Settlement(fence, **{kind: verdicts.get(kind, [event_id])})  # type: ignore[arg-type]
    assert await settler.settle([settlement]) == [Settled()]
    assert (await settler.renew(fence, [event_id])).held == frozenset()
    assert table.row(event_id) == before


@both_modes
async def test_a_renewal_moves_the_fence_of_what_is_held(table: StorageHarness) -> None:
    relay = table.relay()
    kept, gone = table.insert(), table.insert()
    fence = fence_of(await relay.claim(2, ANY_BYTES))
    await relay.settle([Settlement(fence, delivered=[gone])])
    table.advance(LEASE - 1)
    fence = table.aged(fence, LEASE - 1)
    renewal = await relay.renew(fence, [kept, gone])
    assert renewal.held == {kept}
    assert renewal.fence > fence
    row = table.row(kept)
    assert (row["status"], row["locked_at"], row["updated_at"]) == ("DELIVERING", renewal.fence, renewal.fence)
    table.advance(2)
    assert await relay.reap(10) == Reaped(0, 0)
    assert await relay.settle([Settlement(table.aged(fence, 2), delivered=[kept])]) == [Settled()]
    assert await relay.settle([Settlement(table.aged(renewal.fence, 2), delivered=[kept])]) == [Settled(delivered=1)]


@both_modes
async def test_a_renewal_has_a_later_fence_even_when_the_clock_was_set_back(table: StorageHarness) -> None:
    table.insert()
    relay = table.relay()
    claim = await relay.claim(1, ANY_BYTES)
    table.advance(-30.0)
    before = table.aged(fence_of(claim), -30.0)
    renewal = await relay.renew(before, ids(claim))
    assert renewal.held == set(ids(claim))
    assert renewal.fence > before


async def test_a_renewal_of_nothing_keeps_the_fence(table: StorageHarness) -> None:
    relay = table.relay()
    event_id, fence = await claim_one(table, relay)
    await relay.settle([Settlement(fence, delivered=[event_id])])
    assert await relay.renew(fence, [event_id]) == Renewal(fence, frozenset())
    assert await relay.renew(fence, []) == Renewal(fence, frozenset())


async def test_an_expired_lease_is_a_failed_attempt_with_backoff(table: StorageHarness) -> None:
    relay, reaper = table.relay(), table.relay("relay-b")
    event_id, _ = await claim_one(table, relay, attempts=1)
    table.advance(LEASE - 5)
    assert await reaper.reap(10) == Reaped(0, 0)
    table.advance(6)
    assert await reaper.reap(10) == Reaped(1, 0)
    row = table.row(event_id)
    assert (row["status"], row["attempts"], row["locked_by"], row["locked_at"]) == ("PENDING", 2, None, None)
    assert row["last_error"].startswith("LEASE_EXPIRED: lease of relay-a expired")
    delay = (row["available_at"] - row["updated_at"]).total_seconds()
    assert RETRY.delay(2, 0.0) <= delay <= RETRY.delay(2, 1.0)


async def test_an_event_that_used_up_its_attempts_by_expired_leases_is_dead(table: StorageHarness) -> None:
    relay = table.relay()
    event_id, _ = await claim_one(table, relay, attempts=RETRY.max_attempts - 1)
    table.advance(LEASE + 1)
    assert await relay.reap(10) == Reaped(0, 1)
    row = table.row(event_id)
    assert (row["status"], row["attempts"]) == ("DEAD", RETRY.max_attempts)
    assert (row["locked_by"], row["locked_at"], row["delivered_at"]) == (None, None, None)
    assert row["last_error"].startswith("LEASE_EXPIRED")


async def test_what_has_one_attempt_left_after_an_expired_lease_is_claimed_alone(table: StorageHarness) -> None:
    relay = table.relay()
    suspect = table.insert(attempts=1)
    await relay.claim(1, ANY_BYTES)
    table.advance(LEASE + 1)
    assert await relay.reap(10) == Reaped(1, 0)
    before = table.insert(due_in=1.0)
    table.advance(100.0)
    after, refused = table.insert(attempts=2), table.insert(attempts=2)
    claims = [ids(await relay.claim(10, ANY_BYTES)) for _ in range(4)]
    assert claims == [[before], [suspect], [after, refused], []]


async def test_the_reaper_is_bounded_and_takes_the_oldest_first(table: StorageHarness) -> None:
    relay = table.relay()
    inserted = []
    for _ in range(3):
        event_id, _ = await claim_one(table, relay)
        inserted.append(event_id)
    table.advance(LEASE + 1)
    assert await relay.reap(2) == Reaped(2, 0)
    assert [table.row(event_id)["status"] for event_id in inserted] == ["PENDING", "PENDING", "DELIVERING"]
    assert await relay.reap(2) == Reaped(1, 0)
    assert await relay.reap(2) == Reaped(0, 0)


@pytest.mark.parametrize("attempts", [0, 70, 4998, 2**31 - 1])
async def test_no_number_of_attempts_overflows(table: StorageHarness, attempts: int) -> None:
    relay = table.relay(retry=RetryPolicy(max_attempts=2**40, base_delay=1.0, max_delay=86_400.0, jitter=0.0))
    event_id, fence = await claim_one(table, relay, attempts=attempts)
    assert await relay.settle([Settlement(fence, retried=[(event_id, "e", 0.0)])]) == [Settled(retried=1)]
    failed = min(attempts + 1, 2**31 - 1)
    assert table.row(event_id)["attempts"] == failed
    assert ids(await relay.claim(1, ANY_BYTES)) == [event_id]
    table.advance(LEASE + 1)
    assert await relay.reap(10) == Reaped(1, 0)
    row = table.row(event_id)
    assert row["attempts"] == min(failed + 1, 2**31 - 1)
    expected = RetryPolicy(2**40, 1.0, 86_400.0, 0.0).delay(failed + 1, 0.0)
    assert (row["available_at"] - row["updated_at"]).total_seconds() == expected


async def test_it_answers_a_ping_and_closes_more_than_once(table: StorageHarness) -> None:
    relay = table.relay()
    await relay.open()
    await relay.open()
    await relay.ping()
    await relay.close()
    await relay.close()
