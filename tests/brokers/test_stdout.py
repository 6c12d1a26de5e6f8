"""The lines that the stdout publisher writes, and a reader that goes away."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from relay.brokers.stdout import StdoutPublisher, line
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.waiting import eventually, wait_until_async


def test_the_line_holds_every_field() -> None:
    event = make_event('a"b', b"text", key="k", headers='{"n": 1.10, "s": "x"}')
    assert line(event) == (
        f'{{"event_id":"{event.event_id}","event_type":"a\\"b","partition_key":"k",'
        '"payload":"text","headers":{"n": 1.10, "s": "x"}}\n'
    )


def test_a_payload_that_is_no_text_is_base64() -> None:
    record = json.loads(line(make_event("t", b"\xff\x00")))
    assert (record["payload"], record["payload_encoding"]) == ("/wA=", "base64")


@pytest.mark.parametrize("payload", [b"", b"a\nb\r\x00", "\u2028ü".encode()])
def test_a_text_payload_stays_on_one_line(payload: bytes) -> None:
    text = line(make_event("t", payload))
    assert text.count("\n") == 1
    assert json.loads(text)["payload"].encode() == payload
    assert "payload_encoding" not in json.loads(text)


def test_headers_that_are_no_object_become_one() -> None:
    assert json.loads(line(make_event("t", headers="[1]")))["headers"] == {"X-Raw-Headers": "[1]"}


async def test_a_closed_reader_is_unreachable() -> None:
    read_end, write_end = os.pipe()
    publisher, sink, events = StdoutPublisher(write_end), Collector(), [make_event("t")] * 1
    os.close(read_end)
    await publisher.publish(events, sink)
    [outcome] = await sink.outcomes(events)
    assert isinstance(outcome, Unreachable)
    with pytest.raises(BrokerUnreachable, match="closed"):
        await publisher.probe(1.0)
    await publisher.close()
    os.close(write_end)


async def test_a_file_takes_the_lines(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+b") as file:
        publisher, sink = StdoutPublisher(file.fileno()), Collector()
        events = [make_event("t", b"x" * 100_000) for _ in range(10)]
        await publisher.probe(1.0)
        await publisher.publish(events, sink)
        assert await sink.outcomes(events) == [Acknowledged()] * 10
        file.seek(0)
        assert [json.loads(text)["event_id"] for text in file] == [event.event_id for event in events]


async def test_a_line_that_was_begun_is_finished_before_the_next() -> None:
    read_end, write_end = os.pipe()
    publisher, sink = StdoutPublisher(write_end), Collector()
    lost = [make_event("t", b"x" * 200_000)]
    with pytest.raises(BrokerUnreachable):
        await _stuck(publisher, lost, sink)
    [outcome] = await sink.outcomes(lost)
    assert outcome == Unreachable("no reader")
    os.set_blocking(read_end, False)
    text = b""
    after, again = [make_event("t", b"short")], Collector()
    publishing = asyncio.create_task(publisher.publish(after, again))

    def are_read() -> bool:
        nonlocal text
        with suppress(BlockingIOError):
            text += os.read(read_end, 1 << 16)
        return text.endswith(b"}\n") and text.count(b"\n") == 2

    await eventually(are_read)
    await publishing
    assert [json.loads(part)["event_id"] for part in text.splitlines()] == [lost[0].event_id, after[0].event_id]
    os.close(read_end)
    os.close(write_end)


async def _stuck(publisher: StdoutPublisher, events: list[OutboxEvent], sink: Collector) -> None:
    publishing = asyncio.create_task(publisher.publish(events, sink))
    try:
        await wait_until_async(lambda: publisher.probe(0.2), what="a probe without an answer")
    finally:
        await publisher.abandon("no reader")
        await publishing
