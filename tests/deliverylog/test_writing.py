"""Writing and retrieving, on every driver (docs/operate/delivery-log.md#what-is-recorded)."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relay.deliverylog import DeliveryLog, InvalidEntry, ListAttempts, ListEvents, LogEntry, LoggedAttempt, LoggedEvent
from relay.deliverylog.entries import LONGEST_KEY
from tests.deliverylog.conftest import Reopen
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, event, ms


async def test_nothing_is_written_for_nothing(store: DeliveryLog) -> None:
    await store.insert_many([])
    assert (await store.list_attempts(ListAttempts())).items == []


async def test_duplicates_in_a_batch_collapse_and_the_last_copy_wins(store: DeliveryLog) -> None:
    its = event("e", data=b"first")
    last = event("e", data=b"last")
    await store.insert_many(
        [
            entry("a", of=its, status="failed", code="1"),
            entry("b", of=last),
            entry("a", of=its, status="success", code="2"),
            entry("c", BASE + ms(1), of=last),
        ]
    )
    records = (await store.list_attempts(ListAttempts(order="asc"))).items
    assert [(record.attempt.id, record.attempt.code) for record in records] == [("a", "2"), ("b", None), ("c", None)]
    assert [event.data for event in (await store.list_events(ListEvents())).items] == [b"last"]


async def test_a_long_code_is_cut_by_every_driver_alike(store: DeliveryLog) -> None:
    """Not compressible, so that no index row of PostgreSQL would hold it; and not within a character."""
    long = random.Random(1).randbytes(2500).hex()
    codes = {"a": long, "b": "e" + "\u20ac" * 5000, "c": "x" * LONGEST_KEY}
    await store.insert_many([entry(name, status="failed", code=code) for name, code in codes.items()])
    assert store.quarantined == 0
    records = (await store.list_attempts(ListAttempts(order="asc"))).items
    cut = [long[:LONGEST_KEY], "e" + "\u20ac" * ((LONGEST_KEY - 1) // 3), "x" * LONGEST_KEY]
    assert [record.attempt.code for record in records] == cut
    assert attempt_ids(await all_items(store, ListAttempts(codes=cut[:1]))) == ["a"]


async def test_an_event_is_written_once_however_many_attempts_follow(store: DeliveryLog) -> None:
    first = event("e", data=b"one", eligible_for_retry=True)
    await store.insert_many([entry("a", BASE, first, status="failed")])
    await store.insert_many([entry("b", BASE + ms(50), replace(first, eligible_for_retry=False), attempt_number=2)])
    (stored,) = (await store.list_events(ListEvents())).items
    assert stored.eligible_for_retry
    records = (await store.list_attempts(ListAttempts(order="asc"))).items
    assert [record.event.eligible_for_retry for record in records] == [True, False]


async def test_the_tenant_of_both_rows_is_the_events(store: DeliveryLog) -> None:
    await store.insert_many([entry("a", of=event("e", tenant_id="right"), tenant_id="wrong")])
    assert attempt_ids((await store.list_attempts(ListAttempts(tenant_ids=["right"]))).items) == ["a"]
    assert (await store.list_attempts(ListAttempts(tenant_ids=["wrong"]))).items == []


async def test_delivering_a_batch_again_is_harmless(store: DeliveryLog) -> None:
    batch = [entry(f"a{i:03d}", BASE + ms(i), event(f"e{i // 3}", BASE)) for i in range(24)]
    await store.insert_many(batch)
    before = await all_items(store, ListAttempts(limit=7)), await all_items(store, ListEvents(limit=7))
    await store.insert_many(batch)
    await store.insert_many(batch[::-1])
    assert (await all_items(store, ListAttempts(limit=7)), await all_items(store, ListEvents(limit=7))) == before


async def test_an_attempt_inserted_again_is_updated_and_moves_between_lists(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"a{i}", BASE + ms(i), status="failed", code="T") for i in range(6)])
    await store.insert_many(
        [entry(f"a{i}", BASE + ms(i), status="success", code="OK", response_data={"n": i}) for i in (1, 2, 3, 4)]
    )
    failed = await all_items(store, ListAttempts(status="failed", limit=1))
    assert attempt_ids(failed) == ["a5", "a0"]
    done = await all_items(store, ListAttempts(status="success", tenant_ids=["t1"], limit=3))
    assert [(record.attempt.id, record.attempt.code, record.attempt.response_data) for record in done] == [
        (f"a{i}", "OK", {"n": i}) for i in (4, 3, 2, 1)
    ]
    assert attempt_ids(await all_items(store, ListAttempts(codes=["T"], limit=1))) == ["a5", "a0"]
    assert attempt_ids(await all_items(store, ListAttempts(codes=["OK"], tenant_ids=["t1"]))) == [
        "a4",
        "a3",
        "a2",
        "a1",
    ]


TEXTS = [
    "\\N",
    "\\",
    "\\.",
    "a\tb",
    "a\nb\r",
    "\\x41\\t",
    '"q"',
    "{a,NULL}",
    "%s %(x)s",
    "'",
    "\x01\x7f",
    "é\U0001f600",
]


async def test_any_text_reads_back_as_it_was(store: DeliveryLog) -> None:
    """What has a meaning in SQL, in JSON, in COPY or in an array, in every column, new and written again."""
    entries = []
    for number, text in enumerate(TEXTS):
        its = event(
            f"e{text}",
            BASE,
            tenant_id=text,
            topic=text,
            destination_id=text,
            matched_destination_ids=[text, f"{text},x"],
            metadata={text: text},
            data=text.encode(),
        )
        fields = {"destination_id": text, "destination_type": text, "topic": f"{text}2", "code": text}
        entries.append(entry(f"a{text}", BASE + ms(number), its, response_data={text: [text]}, **fields))
    for round_ in range(2):
        await store.insert_many(entries)
        records = await all_items(store, ListAttempts(order="asc"))
        assert [LogEntry(one.event, one.attempt) for one in records] == entries, round_
        events = await all_items(store, ListEvents())
        assert {one.id: one for one in events} == {one.event.id: one.event for one in entries}


async def test_two_tenants_with_the_same_ids_do_not_meet(store: DeliveryLog) -> None:
    ones = entry("a", of=event("e", tenant_id="one", data=b"one"), code="1")
    twos = entry("a", of=event("e", tenant_id="two", data=b"two"), code="2", status="failed")
    await store.insert_many([ones, twos])
    await store.insert_many([ones])
    for tenant, data, code in (("one", b"one", "1"), ("two", b"two", "2")):
        stored = await store.retrieve_event("e", tenant_id=tenant)
        assert stored is not None
        assert (stored.tenant_id, stored.data) == (tenant, data)
        record = await store.retrieve_attempt("a", tenant_id=tenant)
        assert record is not None
        assert (record.attempt.tenant_id, record.attempt.code, record.event.data) == (tenant, code, data)
        assert len((await store.list_events(ListEvents(tenant_ids=[tenant], event_ids=["e"]))).items) == 1
    assert await store.retrieve_event("e", tenant_id="three") is None
    assert await store.retrieve_attempt("a", tenant_id="three") is None
    assert len(await all_items(store, ListAttempts(limit=1))) == 2


async def test_an_event_is_retrieved_for_a_destination_it_was_sent_to(store: DeliveryLog) -> None:
    its = event("e", destination_id="asked", matched_destination_ids=["d1", "d2"])
    await store.insert_many(
        [entry("a", of=its, destination_id="d1"), entry("b", of=event("e", tenant_id="t2"), destination_id="d2")]
    )
    assert await store.retrieve_event("e", tenant_id="t1") == its
    assert await store.retrieve_event("e", tenant_id="t1", destination_id="d1") == replace(its, destination_id="d1")
    assert await store.retrieve_event("e", tenant_id="t1", destination_id="d2") is None
    sent = await store.retrieve_event("e", destination_id="d2")
    assert sent is not None
    assert (sent.tenant_id, sent.destination_id) == ("t2", "d2")
    for absent in ("nothing", "a\x00b", "\ud800", "0190163d-8694-739b-aea5-966c26f8ad90"):
        assert await store.retrieve_event(absent) is None
        assert await store.retrieve_attempt(absent) is None


async def test_time_ordered_ids_are_found_even_where_their_time_lies(store: DeliveryLog) -> None:
    near, far = "019d0000-0000-7000-8000-000000000000", "01900000-0000-7000-8000-000000000000"
    await store.insert_many([entry(near, datetime(2026, 3, 18, tzinfo=UTC)), entry(far, BASE)])
    for attempt_id in (near, far):
        record = await store.retrieve_attempt(attempt_id)
        assert record is not None
        assert record.attempt.id == attempt_id


BAD: list[tuple[str, dict[str, dict[str, object]]]] = [
    ("NUL in an id", {"attempt": {"id": "a\x00b"}}),
    ("NUL in the topic", {"event": {"topic": "a\x00"}}),
    ("half a letter", {"event": {"id": "\ud800"}}),
    ("NUL in a header", {"event": {"metadata": {"k": "v\x00"}}}),
    ("half a letter in a header's name", {"event": {"metadata": {"\udfff": "v"}}}),
    ("NUL in a nested response", {"attempt": {"response_data": {"a": [{"b": "x\x00"}]}}}),
    ("half a letter in a response", {"attempt": {"response_data": {"a": "\ud83d"}}}),
    ("a response that is not JSON", {"attempt": {"response_data": {"a": float("nan")}}}),
    ("an object in a response", {"attempt": {"response_data": {"a": object()}}}),
    ("a code with NUL", {"attempt": {"code": "\x00"}}),
    ("a number out of range", {"attempt": {"attempt_number": 2**40}}),
    ("an id too long for an index", {"attempt": {"id": "x" * (LONGEST_KEY + 1)}}),
    ("a destination with NUL", {"event": {"matched_destination_ids": ["d\x00"]}}),
    ("a time before 1970", {"attempt": {"time": datetime(1969, 12, 31, tzinfo=UTC)}}),
    ("a time beyond every driver", {"event": {"time": datetime(2400, 1, 1, tzinfo=UTC)}}),
    ("text for data", {"event": {"data": "text"}}),
]


def bad_entry(change: dict[str, dict[str, object]]) -> LogEntry:
    good = entry("bad", BASE)
    return LogEntry(
        replace(good.event, **change.get("event", {})),  # type: ignore[arg-type]
        replace(good.attempt, **change.get("attempt", {})),  # type: ignore[arg-type]
    )


async def test_poisoned_entries_are_set_aside_and_the_rest_is_written(
    store: DeliveryLog, caplog: pytest.LogCaptureFixture
) -> None:
    good = [entry(f"a{i:02d}", BASE + ms(i)) for i in range(len(BAD) + 1)]
    batch = [good[-1]]
    for one, (_, change) in zip(good, BAD, strict=False):
        batch += [one, bad_entry(change)]
    with caplog.at_level(logging.WARNING, "relay.deliverylog"):
        await store.insert_many(batch)
    assert attempt_ids(await all_items(store, ListAttempts(order="asc"))) == [one.attempt.id for one in good]
    assert len(await all_items(store, ListEvents())) == len(good)
    assert store.quarantined == len(BAD)
    [line] = [line for line in caplog.messages if "quarantined" in line]
    assert line.startswith(f"quarantined {len(BAD)} of {len(batch)} log entries: ")
    assert "(attempt '" in line


def test_what_can_only_be_a_mistake_is_refused_at_once() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the point of the test
    with pytest.raises(InvalidEntry, match="time zone"):
        LoggedEvent(id="e", time=naive)
    with pytest.raises(InvalidEntry, match="time zone"):
        LoggedAttempt(id="a", event_id="e", time=naive, status="success")
    with pytest.raises(InvalidEntry, match="lost"):
        LoggedAttempt(id="a", event_id="e", time=BASE, status="lost")


async def test_a_key_as_long_as_allowed_fits(store: DeliveryLog) -> None:
    long = [chr(ord("a") + n) + "ü" * (LONGEST_KEY // 2 - 1) for n in range(4)]
    rng = random.Random(7)  # incompressible, or an index would compress what it cannot hold
    scrambled = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=LONGEST_KEY)) for _ in long]
    for number, (tenant, topic, name, destination) in enumerate((long, scrambled)):
        its = event(name, tenant_id=tenant, topic=topic, matched_destination_ids=[destination])
        await store.insert_many([entry(name, BASE + ms(number), its, destination_id=destination)])
    assert store.quarantined == 0
    for sort_by in ("time", "event_time"):
        assert len(await all_items(store, ListAttempts(limit=1, sort_by=sort_by))) == 2


async def test_ten_writers_at_once_lose_and_double_nothing(reopen: Reopen) -> None:
    shared = [event(f"e{i:03d}", BASE + ms(i)) for i in range(60)]
    store = await reopen()

    async def writer(number: int) -> None:
        mine = await reopen()
        rng = random.Random(number)
        own = [entry(f"w{number}-{i:03d}", BASE + ms(i), its) for i, its in enumerate(shared)]
        common = [entry(f"common-{i:03d}", BASE + ms(i), its) for i, its in enumerate(shared)]
        for _ in range(2):
            batch = own + common
            rng.shuffle(batch)
            await mine.insert_many(batch[:70])
            await mine.insert_many(batch[50:])

    await asyncio.gather(*(writer(number) for number in range(10)))
    assert [event.id for event in await all_items(store, ListEvents(order="asc", limit=50))] == [
        its.id for its in shared
    ]
    ids = attempt_ids(await all_items(store, ListAttempts(limit=200)))
    assert len(ids) == len(set(ids)) == 60 * 11


async def test_what_was_written_is_visible_to_another_client_at_once(reopen: Reopen) -> None:
    writer, reader = await reopen(), await reopen()
    for i in range(10):
        await writer.insert_many([entry(f"a{i}", BASE + ms(i))])
        assert len((await reader.list_attempts(ListAttempts())).items) == i + 1
        assert await reader.retrieve_attempt(f"a{i}") is not None


async def test_migrating_again_changes_nothing(store: DeliveryLog) -> None:
    await store.insert_many([entry("a")])
    await store.migrate()
    await store.ping()
    assert len((await store.list_attempts(ListAttempts())).items) == 1


async def test_retention_forgets_what_is_older(store: DeliveryLog) -> None:
    now = datetime.now(UTC)
    await store.insert_many([entry("old", now - timedelta(days=200)), entry("new", now - timedelta(minutes=1))])
    await store.apply_retention(30)
    assert attempt_ids(await all_items(store, ListAttempts())) == ["new"]
    assert [event.id for event in await all_items(store, ListEvents())] == ["e-new"]
    await store.apply_retention(None)
    await store.insert_many([entry("newer", now)])
    assert attempt_ids(await all_items(store, ListAttempts(order="asc"))) == ["new", "newer"]


async def test_an_old_backlog_spanning_years_fits_in_one_batch(store: DeliveryLog) -> None:
    start = datetime(2023, 1, 15, tzinfo=UTC)
    await store.insert_many([entry(f"a{i:03d}", start + timedelta(days=i * 11)) for i in range(105)])
    assert attempt_ids(await all_items(store, ListAttempts(order="asc", limit=60))) == [f"a{i:03d}" for i in range(105)]
