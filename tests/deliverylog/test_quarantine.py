"""The quarantine on every driver: listing it, writing its entries again, and purging it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relay.deliverylog import DeliveryLog, ListAttempts, LogEntry, QuarantinedEntry
from relay.deliverylog.entries import Rejected
from relay.deliverylog.quarantine import as_text, id_of
from tests.deliverylog.making import BASE, all_items, entry, event, ms

GOOD = [
    entry(f"a{n}", BASE + ms(n), event(f"e{n}", BASE + ms(n), data=bytes(range(256)), metadata={"k": "ü\n"}), code="T")
    for n in range(3)
]
BAD = entry("bad", BASE, attempt_number=-1)


def quarantined(text: str) -> QuarantinedEntry:
    return QuarantinedEntry(id_of(text), BASE, "reason", text)


async def test_what_can_be_stored_meanwhile_is_written_and_the_rest_remains(store: DeliveryLog) -> None:
    its = replace(GOOD[0].attempt, response_data={"nested": [1, {"a": None}]}, manual=True)
    aside = [LogEntry(GOOD[0].event, its), *GOOD[1:]]
    await store._set_aside([Rejected(one, "its month has no partition") for one in aside])
    await store.insert_many([BAD])
    entries = await store.list_quarantine(10)
    assert sorted((one.reason, one.fields["attempt"]["id"]) for one in entries) == [
        ("attempt_number is -1", "bad"),
        *(("its month has no partition", f"a{n}") for n in range(3)),
    ]
    assert len(await store.list_quarantine(2)) == 2
    assert await store.retry_quarantine() == (3, 1)
    records = await all_items(store, ListAttempts(order="asc"))
    assert [LogEntry(record.event, record.attempt) for record in records] == aside
    assert [one.entry() for one in await store.list_quarantine(10)] == [BAD]
    assert await store.retry_quarantine() == (0, 1)


async def test_more_entries_than_are_read_at_once(store: DeliveryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.deliverylog.interface._RETRY_BATCH", 2)
    several = [entry(f"b{n}", BASE + ms(n), attempt_number=-1) for n in range(3)]
    await store._set_aside([Rejected(one, "reason") for one in (*GOOD, *several)])
    assert await store.retry_quarantine() == (3, 3)
    assert len(await all_items(store, ListAttempts())) == 3


async def test_the_quarantine_is_purged_by_age_or_whole(store: DeliveryLog) -> None:
    await store.insert_many([BAD])
    assert await store.purge_quarantine(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert len(await store.list_quarantine(10)) == 1
    assert await store.purge_quarantine(None) == 1
    assert await store.list_quarantine(10) == []
    assert await store.purge_quarantine(None) == 0


@pytest.mark.parametrize("data", [b"", b"plain", bytes(range(256)), memoryview(b"view")])
def test_an_entry_reads_back_as_it_was(data: bytes) -> None:
    time = datetime(2026, 3, 10, 12, 0, 5, 123456, tzinfo=UTC)
    one = entry("a\x00b", time, event("\ud800", time, data=data, metadata={"k": "v"}), response_data={"a": [1.5]})
    text = as_text(one)
    assert text.isascii()
    read = quarantined(text).entry()
    assert (read.attempt, replace(read.event, data=data)) == (one.attempt, one.event)
    assert read.event.data == bytes(data)


def test_entries_of_earlier_releases_read_back_too() -> None:
    one = replace(GOOD[0].event, time=datetime(2026, 3, 10, 12, 0, 0, 5000, tzinfo=UTC))
    fields = {
        "event": {name: getattr(one, name) for name in one.__slots__},
        "attempt": {name: getattr(GOOD[0].attempt, name) for name in GOOD[0].attempt.__slots__},
    }
    assert quarantined(json.dumps(fields, default=repr)).entry() == LogEntry(one, GOOD[0].attempt)


@pytest.mark.parametrize("text", ['"LogEntry(event="', "[]", "{}", '{"event": {}, "attempt": {}}', "no JSON"])
def test_a_text_that_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        quarantined(text).entry()


def test_data_that_were_no_bytes_do_not_become_bytes() -> None:
    text = as_text(LogEntry(replace(GOOD[0].event, data="b'text'x"), GOOD[0].attempt))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not an entry"):
        quarantined(text).entry()
