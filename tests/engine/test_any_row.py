"""Whatever an application that may insert writes into a row: the relay goes on, and every row has an end."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from typing import Any

import pytest

from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.engine.conftest import StartRelay
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually, pace_async, patience

_ROWS = 150
_LONGEST_TURN = 1.0  # seconds
_TEXTS = ("", "a", "a.b", "ü", "\x1b[2J\x07", "\u202e", "'; --", "%40" + "%3A%2F%2F" * 9000 + " b", "a:@" * 20_000)
_TIMES = ("now()", "'infinity'", "'-infinity'", "'290000-01-01'", "'4000-01-01 BC'", "now() - INTERVAL '1 day'")
_COLUMNS = (
    "event_id, event_type, payload, partition_key, headers, status, attempts, last_error, available_at, locked_by, "
    "locked_at, delivered_at, created_at, updated_at"
)


def text(draw: random.Random) -> str:
    return draw.choice(_TEXTS) * draw.choice((1, 1, 1, 50)) if draw.random() < 0.9 else "x" * 1_000_000


def headers(draw: random.Random) -> str:
    depth = draw.choice((1, 50, 2000))
    values: list[Any] = [1, None, "a", "\x1b", {"a": [1, {}]}, "b" * 300_000, 10**300]
    match draw.randint(0, 4):
        case 0:
            return "[" * depth + "]" * depth
        case 1:
            return json.dumps(draw.choice(values))
        case 2:
            return json.dumps(
                {str(number): draw.choice(values[:5]) for number in range(draw.choice((1, 9000, 30_000)))}
            )
        case _:
            names = ("a", "", "X-Event-ID", "traceparent", "a b", "\n", "n" * 70_000)
            return json.dumps({draw.choice(names): draw.choice(values) for _ in range(3)})


def row(draw: random.Random) -> tuple[str, list[object]]:
    """The values of a row, times as SQL."""
    available, created, updated = (draw.choice(_TIMES) for _ in range(3))
    locked, delivered = (draw.choice((*_TIMES, "NULL")) for _ in range(2))
    # Of its own: an event that waits for the end of time holds up its key, as the order asks.
    key = draw.choice((None, f"{uuid.uuid4()}\x1b", "k" * 2000 + str(uuid.uuid4())))
    values: list[object] = [
        str(uuid.uuid4()),
        text(draw),
        b"x" * draw.choice((0, 1, 1_000_000)),
        key,
        headers(draw),
        draw.choice(("PENDING", "PENDING", "DELIVERING")),
        draw.choice((0, -1, -(2**31), 2**31 - 1, 7)),
        draw.choice((None, "LEASE_EXPIRED: x", text(draw))),
        draw.choice((None, "relay", text(draw)[:2000])),
    ]
    return (
        f"(%s, %s, %s, %s, %s, %s, %s, %s, {available}, %s, {locked}, {delivered}, {created}, {updated})",
        values,
    )


class Loop:
    """The longest turn of the event loop, in processor time: another process may slow it down."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            began = time.thread_time()
            await pace_async(0.001)
            self.longest = max(self.longest, time.thread_time() - began)


@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_any_row_has_an_end_and_holds_up_no_other(
    outbox: Outbox, start: StartRelay, key_order: KeyOrder | None
) -> None:
    add_extension(outbox.owner_url, TableName(), "key-order")
    draw = random.Random(43)
    with outbox.database.connect() as connection:
        for _ in range(_ROWS):
            values, parameters = row(draw)
            connection.execute(f"INSERT INTO openoutbox_events ({_COLUMNS}) VALUES {values}".encode(), parameters)
    good = outbox.insert([Row("good")] * 20)
    loop = Loop()
    watch = asyncio.create_task(loop.watch())
    await start(key_order=key_order, lease_timeout=2.0, health_check_interval=0.2)
    statuses = "SELECT count(*) FROM openoutbox_events WHERE status = 'DELIVERED' AND event_id = ANY(%s::uuid[])"
    await eventually(lambda: outbox.database.run(statuses, [good]) == [(20,)])
    left = (
        "SELECT count(*) FROM openoutbox_events WHERE status = 'DELIVERING' "
        "OR status = 'PENDING' AND available_at <= now()"
    )
    await eventually(lambda: outbox.database.run(left) == [(0,)], patience(60))
    watch.cancel()
    assert loop.longest < patience(_LONGEST_TURN)
