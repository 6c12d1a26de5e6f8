"""Rows that the database refuses to change cost the others nothing (docs/design/guarantees.md#failures)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from relay.core.outcome import ACKNOWLEDGED, Transient
from relay.core.telemetry import RelayState
from relay.engine import refusal
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

_RAISE = "RAISE EXCEPTION 'not this one'"
_FUNCTION = f"""
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN {_RAISE}; END $$
"""
WAYS = pytest.mark.parametrize(
    "body", [_RAISE, "RETURN NULL", "RETURN OLD"], ids=["raised", "in silence", "by returning OLD"]
)
_TRIGGER = """
CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN ({}) EXECUTE FUNCTION refuse()
"""
REFUSALS = {
    "check": [
        "ALTER TABLE openoutbox_events ADD CONSTRAINT no_bad CHECK (NOT (status = 'DELIVERED' AND event_type = 'bad'))"
    ],
    "not null": [
        "ALTER TABLE openoutbox_events ADD COLUMN note TEXT NOT NULL DEFAULT ''",
        """
        CREATE FUNCTION empty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := NULL; RETURN NEW; END $$
        """,
        _TRIGGER.format("NEW.status = 'DELIVERED' AND NEW.event_type = 'bad'").replace("refuse()", "empty()"),
    ],
    "trigger": [_FUNCTION, _TRIGGER.format("NEW.status = 'DELIVERED' AND NEW.event_type = 'bad'")],
    "out of range": [
        "ALTER TABLE openoutbox_events ADD COLUMN small SMALLINT NOT NULL DEFAULT 0",
        """
        CREATE FUNCTION large() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.small := 40000; RETURN NEW; END $$
        """,
        _TRIGGER.format("NEW.status = 'DELIVERED' AND NEW.event_type = 'bad'").replace("refuse()", "large()"),
    ],
}
_UNDO = {
    "check": "ALTER TABLE openoutbox_events DROP CONSTRAINT no_bad",
    "not null": "DROP TRIGGER refuse ON openoutbox_events",
    "trigger": "DROP TRIGGER refuse ON openoutbox_events",
    "out of range": "DROP TRIGGER refuse ON openoutbox_events",
}


def refuse(outbox: Outbox, how: str) -> None:
    """Make the table refuse to set events of type ``bad`` DELIVERED."""
    for statement in REFUSALS[how]:
        outbox.database.run(statement)


@pytest.mark.parametrize("how", REFUSALS)
async def test_a_refused_settle_holds_up_no_other_event(
    outbox: Outbox, start: StartRelay, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    [bad] = outbox.insert([Row("bad")])
    outbox.fill("good", 300)
    refuse(outbox, how)
    running = await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 300, "DELIVERING": 1})
    later = outbox.insert([Row("good")] * 20)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 320, "DELIVERING": 1})
    assert outbox.row(later[0])["status"] == "DELIVERED"
    assert running.relay.health.state is RelayState.ACTIVE
    [line] = [record for record in caplog.records if getattr(record, "action", "") == "settle_refused"]
    assert line.levelno == logging.ERROR
    assert bad in line.getMessage()
    assert "Correct the row" in line.getMessage()
    outbox.database.run(_UNDO[how])
    await eventually(lambda: outbox.counts() == {"DELIVERED": 321}, 20)
    assert len(running.broker.offered) == 321
    outbox.check_invariants()


async def test_many_refused_rows_among_good_ones(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("bad"), Row("good")] * 500)
    refuse(outbox, "check")
    running = await start(batch_size=1000, max_in_flight=8000)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 500, "DELIVERING": 500}, 90)
    outbox.insert([Row("good")] * 50)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 550, "DELIVERING": 500})
    assert running.relay.health.state is RelayState.ACTIVE


async def test_every_kind_of_verdict_beside_a_refused_row_is_written(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("bad")] + [Row("good"), Row("failing")] * 20)
    refuse(outbox, "trigger")
    broker = MemoryPublisher()
    broker.answer_with(lambda one: Transient("NOPE", "") if one.event_type == "failing" else ACKNOWLEDGED)
    await start(broker)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 20, "PENDING": 20, "DELIVERING": 1})
    assert outbox.rows("sum(attempts)") == [(20,)]


@WAYS
async def test_a_refused_renewal_costs_the_batch_no_other_lease(outbox: Outbox, start: StartRelay, body: str) -> None:
    outbox.insert([Row("bad")] + [Row("good")] * 29)
    outbox.database.run(_FUNCTION.replace(_RAISE, body))
    outbox.database.run(
        _TRIGGER.format("OLD.status = 'DELIVERING' AND NEW.status = 'DELIVERING' AND NEW.event_type = 'bad'")
    )
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, lease_timeout=3.0)
    await eventually(lambda: len(broker.held) == 30)
    claimed = outbox.rows("min(locked_at)")[0][0]
    good = f"SELECT count(*) FROM openoutbox_events WHERE event_type = 'good' AND locked_at > timestamptz '{claimed}'"
    await eventually(lambda: outbox.database.run(good) == [(29,)])
    await start(relay_id="other", lease_timeout=3.0)  # would reap what is not renewed
    later = f"{good} + interval '4 s'"
    await eventually(lambda: outbox.database.run(later) == [(29,)], 30)
    assert running.relay.health.state is RelayState.ACTIVE
    broker.answer()
    await eventually(lambda: outbox.database.run(f"{good[: good.index(' AND locked_at')]} AND attempts = 0") == [(29,)])
    await eventually(lambda: outbox.counts().get("DELIVERED", 0) >= 29)
    assert broker.abandons == []


@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_a_refused_claim_holds_up_no_other_event(
    outbox: Outbox, start: StartRelay, key_order: KeyOrder | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal, "_FIRST_EXCLUSION", 0.5)  # doubled each time: on a busy machine 20 s before the last
    if key_order is not None:
        add_extension(outbox.url, TableName(), "key-order")
    outbox.insert([Row("good", partition_key="a")] * 30 + [Row("bad", partition_key="b")] * 2)
    outbox.insert([Row("good", partition_key="c")] * 200)
    outbox.database.run(_FUNCTION)
    outbox.database.run(_TRIGGER.format("NEW.event_type = 'bad'"))
    running = await start(key_order=key_order)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 230, "PENDING": 2})
    assert running.relay.health.state is RelayState.ACTIVE
    # In a thread: the relay of this event loop may hold a lock that only it can give back.
    await asyncio.to_thread(outbox.database.run, "DROP TRIGGER refuse ON openoutbox_events")
    await eventually(lambda: outbox.counts() == {"DELIVERED": 232}, 30)


async def test_expired_leases_around_a_refused_one_are_reclaimed(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("good")] * 10 + [Row("bad")] + [Row("behind")] * 10)
    outbox.database.run("""
        UPDATE openoutbox_events SET
            status = 'DELIVERING', locked_by = 'gone', available_at = now() + interval '1 hour',
            locked_at = now() - CASE event_type WHEN 'good' THEN interval '2 h' WHEN 'bad' THEN '1 h' ELSE '30 min' END
    """)
    outbox.database.run(_FUNCTION)
    outbox.database.run(_TRIGGER.format("NEW.event_type = 'bad'"))
    await start()
    await eventually(lambda: outbox.counts() == {"PENDING": 20, "DELIVERING": 1})
    assert outbox.rows("sum(attempts)") == [(20,)]


@pytest.mark.session
@WAYS
async def test_expired_leases_among_more_than_a_thousand_refused_ones_are_reclaimed(
    outbox: Outbox, start: StartRelay, body: str
) -> None:
    """Those of one claim share one time, and good ones are among them and behind them."""
    outbox.database.run("""
        INSERT INTO openoutbox_events (event_id, event_type, payload, status, locked_by, locked_at, available_at)
        SELECT gen_random_uuid(), CASE WHEN g % 50 = 0 THEN 'good' ELSE 'bad' END, '', 'DELIVERING', 'gone',
            now() - interval '2 h' + g / 400 * interval '1 min', now() + interval '1 h'
        FROM generate_series(1, 1200) AS g
    """)
    outbox.database.run(_FUNCTION.replace(_RAISE, body))
    outbox.database.run(_TRIGGER.format("NEW.event_type = 'bad'"))
    running = await start(lease_timeout=4.0)
    await eventually(lambda: outbox.counts() == {"PENDING": 24, "DELIVERING": 1176}, 30)
    assert outbox.rows("sum(attempts)") == [(24,)]
    assert running.telemetry.counts["reap refused"] >= 1000
    assert running.relay.health.state is RelayState.ACTIVE
