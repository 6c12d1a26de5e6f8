"""What every publisher promises (``relay.core.ports.Publisher`` and docs/reference/messages.md), as tests.

A test module of a destination takes them over with ``from relay.conformance.suite import *`` and defines the fixture
``harness``. Cases that need more than the harness's ``features`` say are skipped, each with its reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from relay.conformance.harness import Collector, Harness, StoredMessage, make_event
from relay.conformance.laws import *  # noqa: F403 -- more cases
from relay.conformance.waiting import eventually, patience, wait_until_async
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Permanent, TimedOut, Transient, Unreachable, Withheld
from relay.core.ports import Publisher


def needs(has: bool | object, what: str) -> None:
    if not has:
        pytest.skip(f"this publisher has no {what}")


async def refusal(publisher: Publisher, event: OutboxEvent | None = None) -> BrokerUnreachable | None:
    """What one probe raises, of the event's destination where there is one."""
    try:
        await (publisher.probe(1.0) if event is None else probe_of(publisher, event, 1.0))
    except BrokerUnreachable as error:
        return error
    return None


async def probed_down(publisher: Publisher, event: OutboxEvent | None = None) -> BrokerUnreachable:
    """Probe until it fails: a stopped broker may still be noticed as answering for a moment."""
    return await wait_until_async(lambda: refusal(publisher, event), what="a probe to fail")


async def probed_up(publisher: Publisher) -> None:
    """Probe until it succeeds."""

    async def answers() -> bool:
        return await refusal(publisher) is None

    await wait_until_async(answers, what="a probe to succeed")


async def probe_of(publisher: Publisher, event: OutboxEvent, timeout: float) -> None:
    """Probe the destination of an event."""
    await publisher.probe_destination(publisher.destination_of(event), timeout)


async def test_a_batch_is_acknowledged_and_arrives_in_order(harness: Harness, publisher: Publisher) -> None:
    destination, sink = await harness.destination(), Collector()
    events = [make_event(destination, str(n).encode(), key="one") for n in range(500)]
    await publisher.publish(events, sink)
    assert await sink.outcomes(events) == [Acknowledged()] * len(events)
    if harness.features.reads_back:
        arrived = await harness.read(destination, len(events))
        assert [message.payload for message in arrived] == [event.payload for event in events]
        assert [message.event_id for message in arrived] == [event.event_id for event in events]


KEYS = (None, "", "key", "ключ 🔑 \n\t\"'")
PAYLOADS = (b"", b"\x00\xff\xfe\r\n", "текст 🎉".encode(), b'{"a": 1}', b"x" * 60_000)


async def stored(harness: Harness, publisher: Publisher, events: Sequence[OutboxEvent]) -> dict[str, StoredMessage]:
    """Publish events of one destination, and read them back by their ids where the harness can."""
    sink = Collector()
    await publisher.publish(events, sink)
    assert await sink.outcomes(events) == [Acknowledged()] * len(events)
    if not harness.features.reads_back:
        return {}
    messages = await harness.read(events[0].event_type, len(events))
    assert {message.event_id for message in messages} == {event.event_id for event in events}
    return {message.event_id: message for message in messages}


async def test_key_and_payload_arrive_as_they_are(harness: Harness, publisher: Publisher) -> None:
    needs(harness.features.reads_back, "way to read back")
    destination = await harness.destination()
    events = [make_event(destination, payload, key=key) for payload in PAYLOADS for key in KEYS]
    messages = await stored(harness, publisher, events)
    for event in events:
        _, *rest = messages[event.event_id]
        assert rest == [event.partition_key, event.payload, []]


HEADERS = (
    ('{"a": "1", "b": ""}', [("a", "1"), ("b", "")]),
    ('{"n": 12345678901234567890123}', [("n", "12345678901234567890123")]),
    ('{"t": true, "z": null}', [("t", "true"), ("z", "null")]),
    ('{"o": {"k": [1, "x"]}}', [("o", '{"k": [1, "x"]}')]),
    ('["a"]', [("X-Raw-Headers", '["a"]')]),
    ('{"trace-id": "ünïcödé 🎉"}', [("trace-id", "ünïcödé 🎉")]),
)


async def test_headers_travel_by_the_contract(harness: Harness, publisher: Publisher) -> None:
    needs(harness.features.reads_back, "way to read back")
    destination = await harness.destination()
    events = [make_event(destination, headers=headers) for headers, _ in HEADERS]
    messages = await stored(harness, publisher, events)
    assert [messages[event.event_id].headers for event in events] == [headers for _, headers in HEADERS]


HOSTILE = [
    '{"": "empty name"}',
    '{"two words": "v", "co:lon": "v", "line\\nbreak": "v", "nöt-ascii": "v", "per%cent": "v"}',
    '{"v": "a\\r\\nX-Injected: yes", "w": " padded ", "x": "\\u0001\\u007f", "y": "100%", "z": "%0A"}',
    '{"X-Event-ID": "mine", "x-event-id": "mine too", "X-Partition-Key": "k", "Nats-Msg-Id": "m", "id": "i"}',
    '{"nats-expected-stream": "nowhere", "Nats-Rollup": "all", "NATS-TTL": "1s", "Nats-Expected-Last-Sequence": "99"}',
    '{"long": "' + "v" * 9000 + '", "' + "n" * 300 + '": "long name"}',
]


async def test_no_header_loses_the_event_or_replaces_ours(harness: Harness, publisher: Publisher) -> None:
    destination = await harness.destination()
    events = [make_event(destination, b"body", key="the key", headers=headers) for headers in HOSTILE]
    messages = await stored(harness, publisher, events)
    assert {(message.key, message.payload) for message in messages.values()} <= {("the key", b"body")}


async def test_two_claims_at_once_have_their_own_sinks(harness: Harness, publisher: Publisher) -> None:
    destination, first, second = await harness.destination(), Collector(), Collector()
    mine = [make_event(destination) for _ in range(50)]
    twins = [make_event(destination, event_id=event.event_id) for event in mine]
    await asyncio.gather(publisher.publish(mine, first), publisher.publish(twins, second))
    assert all(isinstance(outcome, Acknowledged) for outcome in await first.outcomes(mine))
    assert all(isinstance(outcome, Acknowledged) for outcome in await second.outcomes(twins))


async def test_an_event_names_its_destination_before_anything_is_open(harness: Harness, publisher: Publisher) -> None:
    destination = await harness.destination()
    event, twin = make_event(destination), make_event(destination, b"another", key="k")
    assert (
        harness.publisher().destination_of(event) == publisher.destination_of(event) == publisher.destination_of(twin)
    )
    await probe_of(publisher, event, patience())


async def test_two_destinations_have_two_names_where_each_can_fail_on_its_own(
    harness: Harness, publisher: Publisher
) -> None:
    events = [make_event(await harness.destination()) for _ in range(2)]
    names = {publisher.destination_of(event) for event in events}
    assert len(names) == (2 if harness.features.parts else 1)
    await asyncio.gather(*(probe_of(publisher, event, patience()) for event in events))


async def test_the_probe_of_an_event_that_has_nowhere_to_go_is_answered(harness: Harness, publisher: Publisher) -> None:
    for name in ("missing", *harness.features.invalid_names):
        await probe_of(publisher, make_event(name), patience())


async def test_nothing_to_publish_resolves_nothing(publisher: Publisher) -> None:
    sink = Collector()
    await publisher.publish([], sink)
    assert sink.resolutions == []


async def test_a_receipt_says_where_the_message_is(harness: Harness) -> None:
    needs(harness.features.receipts, "receipts")
    publisher = harness.publisher(receipts=True)
    await publisher.open()
    destination, sink = await harness.destination(), Collector()
    events = [make_event(destination) for _ in range(3)]
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    await publisher.close()
    receipts = [outcome.receipt for outcome in outcomes if isinstance(outcome, Acknowledged)]
    assert all(receipts)
    assert len({tuple((receipt or {}).items()) for receipt in receipts}) == len(events)


async def test_names_the_broker_can_never_accept_are_permanent(harness: Harness, publisher: Publisher) -> None:
    needs(harness.features.invalid_names, "name it refuses")
    good = make_event(await harness.destination())
    bad = [make_event(name) for name in harness.features.invalid_names]
    sink = Collector()
    await publisher.publish([*bad, good], sink)
    *refused, taken = await sink.outcomes([*bad, good])
    assert [type(outcome) for outcome in refused] == [Permanent] * len(bad)
    assert isinstance(taken, Acknowledged)


async def test_a_missing_destination_is_transient_and_holds_up_no_other_event(
    harness: Harness, publisher: Publisher
) -> None:
    code = harness.features.missing_destination
    needs(code, "missing destination")
    sink = Collector()
    good, missing = make_event(await harness.destination()), make_event("missing")
    await publisher.publish([missing, good], sink)
    refused, taken = await sink.outcomes([missing, good])
    assert isinstance(refused, Transient)
    assert refused.code == code
    assert isinstance(taken, Acknowledged)


async def test_too_large_is_permanent_and_its_neighbours_arrive(harness: Harness, publisher: Publisher) -> None:
    size = harness.features.too_large
    needs(size, "limit of size")
    destination, sink = await harness.destination(), Collector()
    events = [make_event(destination, b"small") for _ in range(50)]
    events.insert(25, make_event(destination, os.urandom(size or 0)))
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    large = outcomes.pop(25)
    assert isinstance(large, Permanent), large
    assert all(isinstance(outcome, Acknowledged) for outcome in outcomes)


async def test_of_a_run_nothing_is_stored_before_an_event_that_is_refused(harness: Harness) -> None:
    needs(harness.features.runs, "runs")
    publisher, destination, sink = harness.publisher(in_order=True), await harness.destination(), Collector()
    await publisher.open()
    assert publisher.keeps_runs
    events = [make_event(destination, b"small", key="k") for _ in range(5)]
    events[2] = make_event(destination, os.urandom(harness.features.too_large or 0), key="k")
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    assert [type(outcome) for outcome in outcomes] == [Acknowledged, Acknowledged, Permanent, Withheld, Withheld]
    again = Collector()
    await publisher.publish(events[3:], again)
    assert await again.outcomes(events[3:]) == [Acknowledged()] * 2
    await publisher.close()
    stored = [message.event_id for message in await harness.read(destination, 4)]
    assert stored == [event.event_id for event in events if event is not events[2]]


@pytest.mark.parametrize("connected", [True, False])
async def test_a_broker_that_hangs_is_unreachable_and_abandon_ends_the_wait(
    harness: Harness, publisher: Publisher, connected: bool
) -> None:
    needs(harness.features.hangs, "broker that hangs")
    destination, sink = await harness.destination(), Collector()
    if connected:
        first, events = Collector(), [make_event(destination)]
        await publisher.publish(events, first)
        assert await first.outcomes(events) == [Acknowledged()]
    harness.hang()
    events = [make_event(destination, b"x" * 1000) for _ in range(300)]
    publishing = asyncio.create_task(publisher.publish(events, sink))
    errors = await asyncio.gather(probed_down(publisher), probed_down(publisher, events[0]))
    assert all(map(str, errors))
    await publisher.abandon("the broker hangs")
    await publishing
    outcomes = await sink.outcomes(events)
    assert not all(isinstance(outcome, Acknowledged) for outcome in outcomes)
    lost = {outcome for outcome in outcomes if not isinstance(outcome, Acknowledged | TimedOut)}
    assert lost <= {Unreachable("the broker hangs")}
    harness.resume()
    await probed_up(publisher)
    again = [make_event(destination, b"again")]
    sink = Collector()
    await publisher.publish(again, sink)
    assert await sink.outcomes(again) == [Acknowledged()]


async def test_a_broker_that_comes_back_is_used_again(harness: Harness, publisher: Publisher) -> None:
    """By a publisher that was open before, and by one that was opened while it was absent."""
    needs(harness.features.stops, "broker that stops")
    destination, late = await harness.destination(), harness.publisher()
    await probed_up(publisher)
    harness.stop()
    await probed_down(publisher)
    await late.open()
    assert str(await probed_down(late))
    sink, lost = Collector(), [make_event(destination, b"lost")]
    with pytest.raises(BrokerUnreachable):
        await probe_of(publisher, lost[0], 1.0)
    publishing = asyncio.create_task(publisher.publish(lost, sink))
    await asyncio.sleep(0)
    await publisher.abandon("the broker is down")
    await publishing
    [outcome] = await sink.outcomes(lost)
    assert isinstance(outcome, Unreachable)
    harness.start()
    for each in (publisher, late):
        await probed_up(each)
        sink, events = Collector(), [make_event(destination, b"after") for _ in range(10)]
        await each.publish(events, sink)
        assert await sink.outcomes(events) == [Acknowledged()] * 10
    await late.close()
    arrived = await harness.read(destination, 20)
    assert [message.payload for message in arrived] == [b"after"] * 20


async def test_close_resolves_what_is_left(harness: Harness, publisher: Publisher) -> None:
    needs(harness.features.hangs, "broker that hangs")
    destination, sink = await harness.destination(), Collector()
    await publisher.probe(patience())
    harness.hang()
    events = [make_event(destination, b"x" * 1000) for _ in range(300)]
    publishing = asyncio.create_task(publisher.publish(events, sink))
    await probed_down(publisher)
    async with asyncio.timeout(patience()):
        await publisher.close()
        await publishing
    await sink.outcomes(events)
    harness.resume()


async def test_the_event_loop_stays_free_while_a_big_batch_is_offered(harness: Harness, publisher: Publisher) -> None:
    destination, sink = await harness.destination(), Collector()
    events = [make_event(destination, b"x" * 200, headers='{"a": "b"}') for _ in range(harness.features.big_batch)]
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    ticking = asyncio.create_task(tick())
    await publisher.publish(events, sink)
    await sink.outcomes(events)
    ticking.cancel()
    if not harness.features.at_once:
        assert turns > 10
    await eventually(ticking.done)
