"""Whose fault it is gets tried out: any SQLSTATE of any statement, raised for one row, costs the others nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

import pytest

from relay.core.telemetry import RelayState
from relay.engine import refusal
from relay.engine.status import RelayStatus
from relay.outbox.claiming import Claims
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.engine.conftest import Running, StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

STATES = [
    *("P0001", "23505", "22012", "23514", "54000"),  # a first guess of the row
    *("42P01", "3F000", "42703", "42501", "42804", "42883"),  # of the table
    *("40001", "40P01", "55P03", "57014", "55006"),  # of a lost race
    *("53100", "53200", "53300", "58030", "58P01", "XX000", "XX001"),  # of the database
    *("25006", "57P01", "57P03", "08006", "3D000", "0A000", "21000"),
]
"""What an application's trigger may raise, by what the state alone would be taken for."""
QUICK = {"P0001", "42P01", "40001", "57014", "53100", "57P01", "0A000"}
"""One of each kind, and those that pass for a timeout or a stop; the others are in the soak."""
_RAISE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (NEW.event_type LIKE 'bad%' AND NEW.status = '{status}') EXECUTE FUNCTION refuse()
"""
_DEFERRED = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON openoutbox_events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.event_type LIKE 'bad%' AND NEW.status = '{status}') EXECUTE FUNCTION refuse()
"""
_KEEP = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (NEW.event_type LIKE 'bad%' AND NEW.status = '{status}') EXECUTE FUNCTION refuse()
"""
_OLD = _KEEP.replace("RETURN NULL", "RETURN OLD")
"""Which leaves the row as it was, too, and it counts as written."""
_DROP = "DROP TRIGGER refuse ON openoutbox_events; DROP FUNCTION refuse()"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "_FIRST_EXCLUSION", 0.5)


def make(outbox: Outbox, sql: str, **values: str) -> None:
    with outbox.database.connect() as connection:
        connection.execute(sql.format(**values).encode())


async def degraded(running: Running) -> str:
    status = RelayStatus(running.relay, "relay", lambda _: pytest.fail("not asked"))
    await eventually(lambda: status.readiness().degraded.get("refused_rows"))
    assert status.readiness().ready
    return status.readiness().degraded["refused_rows"]


async def only_the_bad_one_waits(
    outbox: Outbox, running: Running, bad: str, waiting: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The good ones are delivered, the bad one is named everywhere, and the state is never 3 after the start."""
    good = "SELECT count(*) FROM openoutbox_events WHERE event_type = 'good' AND status <> 'DELIVERED'"
    await eventually(lambda: outbox.database.run(good) == [(0,)], 15, what="the good ones to be delivered")
    assert outbox.row(bad)["status"] == waiting
    assert bad in await degraded(running)
    assert running.relay.health.state is RelayState.ACTIVE
    # In order per key or not, what the state says is what the trial found.
    reported = [state for state, reason in running.telemetry.states if "not connected" not in reason]
    assert RelayState.ERROR not in reported
    lines = [one for one in caplog.records if one.levelno == logging.ERROR and bad in one.getMessage()]
    assert lines
    doing = "claim" if waiting == "PENDING" else "settle"
    assert running.telemetry.counts[f"{doing} refused"] >= 1


@pytest.mark.session
@pytest.mark.parametrize("status", ["DELIVERING", "DELIVERED"])
@pytest.mark.parametrize(
    "state", [one if one in QUICK else pytest.param(one, marks=pytest.mark.soak) for one in STATES]
)
async def test_any_state_of_a_trigger_stops_its_own_row_alone(
    outbox: Outbox, start: StartRelay, state: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.insert([Row("good")] * 20)
    [bad] = outbox.insert([Row("bad")])
    outbox.insert([Row("good")] * 30)
    make(outbox, _RAISE, state=state, status=status)
    running = await start()
    await only_the_bad_one_waits(outbox, running, bad, "PENDING" if status == "DELIVERING" else "DELIVERING", caplog)
    assert len(running.broker.offered) == 50 + (status == "DELIVERED")


@pytest.mark.session
@pytest.mark.parametrize("status", ["DELIVERING", "DELIVERED"])
@pytest.mark.parametrize("sql", [_DEFERRED, _KEEP, _OLD], ids=["at the commit", "in silence", "by returning OLD"])
async def test_a_row_that_is_refused_at_the_commit_or_in_silence_stops_itself_alone(
    outbox: Outbox, start: StartRelay, sql: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.insert([Row("good")] * 20)
    [bad] = outbox.insert([Row("bad")])
    outbox.insert([Row("good")] * 30)
    make(outbox, sql, state="P0001", status=status)
    running = await start()
    await only_the_bad_one_waits(outbox, running, bad, "PENDING" if status == "DELIVERING" else "DELIVERING", caplog)
    await asyncio.to_thread(make, outbox, _DROP)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 51}, 30)
    assert len(running.broker.offered) == 51
    outbox.check_invariants()


@pytest.mark.session
async def test_more_silent_rows_than_a_claim_has(
    outbox: Outbox, start: StartRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    outbox.insert([Row("bad")] * 150)
    make(outbox, _KEEP, status="DELIVERING")
    outbox.insert([Row("good")] * 20)
    running = await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 20, "PENDING": 150}, 30)
    assert "kept it as it was" in await degraded(running)


@pytest.mark.session
async def test_a_row_alone_is_named_and_the_next_one_decides(outbox: Outbox, start: StartRelay) -> None:
    [bad] = outbox.insert([Row("bad")])
    make(outbox, _RAISE, state="42P01", status="DELIVERING")
    running = await start()
    assert bad in await degraded(running)
    assert running.relay.health.state is RelayState.ACTIVE
    outbox.insert([Row("good")])
    await eventually(lambda: outbox.counts() == {"DELIVERED": 1, "PENDING": 1})
    assert running.relay.health.state is RelayState.ACTIVE


@pytest.mark.session
@pytest.mark.parametrize("status", ["DELIVERING", "DELIVERED"])
async def test_what_all_rows_meet_is_the_database(outbox: Outbox, start: StartRelay, status: str) -> None:
    outbox.insert([Row("bad")] * 50)
    make(outbox, _RAISE, state="53100", status=status)
    running = await start(broker := MemoryPublisher())
    await eventually(lambda: "not this one" in running.relay.health.storage_error)
    await asyncio.to_thread(make, outbox, _DROP)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 50}, 30)
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)
    assert len(broker.offered) == 50


def delivered(outbox: Outbox, count: int) -> bool:
    """Whether so many events are."""
    return outbox.counts().get("DELIVERED") == count


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """One more entry for each call of this method of ``Claims``."""
    calls: list[str] = []
    method = getattr(Claims, name)

    def count(*arguments: object) -> object:
        calls.append(name)
        return method(*arguments)

    monkeypatch.setattr(Claims, name, count)
    return calls


async def hold_beside(
    outbox: Outbox, start: StartRelay, refused: int, good: int, how: str, key: str | None = None
) -> None:
    """Refused rows of one type beside good ones of the same and of other types, in turn and in one transaction.

    With a ``key`` in order: a number in it is the row's.
    """
    every = refused // good
    sql = (
        "INSERT INTO openoutbox_events (event_id, event_type, payload, headers, created_at, partition_key) "
        "SELECT gen_random_uuid(), CASE WHEN g %% %s > 0 OR (g / %s) %% 2 = 0 THEN 'T' ELSE 'other' END, '', "
        "jsonb_build_object('bad', g %% %s > 0), now() + g * interval '1 microsecond' * %s, "
        "CASE WHEN g %% 3 > 0 THEN replace(%s, 'N', g::text) END FROM generate_series(1, %s) AS g"
    )
    if key is not None:
        add_extension(outbox.url, TableName(), "key-order")
    for apart in (0, 1):  # in one place of the queue, and each at its own
        outbox.database.run(sql, [every, every, every, apart, key, (refused + good) // 2])
    hostile = how.replace("NEW.event_type LIKE 'bad%'", "NEW.headers @> '{{\"bad\": true}}'")
    make(outbox, hostile, state="42P01", status="DELIVERING")
    outbox.database.run("ANALYZE openoutbox_events")
    running = await start(key_order=None if key is None else KeyOrder.SKIP)
    left = "SELECT count(*) FROM openoutbox_events WHERE headers @> '{\"bad\": false}' AND status <> 'DELIVERED'"
    rounds = 1 if key is None else 3  # over all that is refused; the second row of a key comes in the next one
    # Asked of the broker: a count of the table for each look would hold up the relay, which is in the same loop.
    await eventually(lambda: len(running.broker.offered) >= good, 30 + rounds * refused / 30, what="the good ones")
    await eventually(lambda: outbox.database.run(left) == [(0,)])
    offered = [event.event_id for event in running.broker.offered]
    assert len(offered) == len(set(offered))
    later = outbox.insert([Row("T"), Row("other")] * 10)
    await eventually(lambda: {outbox.row(one)["status"] for one in later} == {"DELIVERED"}, 10, what="what came later")
    await degraded(running)
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)


@pytest.mark.session
@pytest.mark.parametrize("how", [_RAISE, _KEEP], ids=["raised", "in silence"])
async def test_refused_rows_in_any_number_beside_good_ones(
    outbox: Outbox, start: StartRelay, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    await hold_beside(outbox, start, 1000, 20, how)


@pytest.mark.session
@pytest.mark.parametrize(
    ("how", "refused"),
    [
        pytest.param(_RAISE, 400, id="400 raised"),
        pytest.param(_RAISE, 1200, id="1200 raised", marks=pytest.mark.soak),
        pytest.param(_KEEP, 1200, id="1200 in silence"),
    ],
)
async def test_in_order_per_key_any_number_of_refused_rows_beside_good_ones(
    outbox: Outbox, start: StartRelay, how: str, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key has two rows, both refused or both good; every third row has none."""
    monkeypatch.undo()
    await hold_beside(outbox, start, refused, 40, how, key="N")


@pytest.mark.session
@pytest.mark.parametrize("how", [_RAISE, _KEEP, _OLD], ids=["raised", "in silence", "by returning OLD"])
async def test_in_order_per_key_the_rows_behind_a_refused_one_wait_and_the_line_says_so(
    outbox: Outbox, start: StartRelay, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    add_extension(outbox.url, TableName(), "key-order")
    [bad, *_] = outbox.insert(
        [Row("bad", partition_key="a"), *[Row("good", partition_key="a")] * 3, *[Row("good", partition_key="b")] * 5]
    )
    make(outbox, how, state="42P01", status="DELIVERING")
    running = await start(key_order=KeyOrder.SKIP)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 5, "PENDING": 4}, 15)
    assert bad in await degraded(running)
    lines = [one.getMessage() for one in caplog.records if bad in one.getMessage()]
    assert any("but for those behind it in its key where ORDERING=key" in line for line in lines)
    await asyncio.to_thread(make, outbox, _DROP)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 9}, 30)
    assert [event.event_type for event in running.broker.offered if event.partition_key == "a"] == [
        "bad",
        *["good"] * 3,
    ]


@pytest.mark.session
async def test_a_row_that_claims_leave_as_it_is_is_looked_for_once_a_second(
    outbox: Outbox, start: StartRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many claims find nothing meanwhile."""
    monkeypatch.undo()
    [bad] = outbox.insert([Row("bad")])
    make(outbox, _KEEP, status="DELIVERING")
    running = await start()
    assert bad in await degraded(running)
    looks, claims = counted(monkeypatch, "_due_first"), counted(monkeypatch, "_claim_undamaged")
    began = time.monotonic()
    for number in range(60):
        outbox.insert([Row("good")])
        await eventually(partial(delivered, outbox, number + 1))
    assert len(claims) > 60
    assert len(looks) <= time.monotonic() - began + 2


@pytest.mark.session
@pytest.mark.parametrize("how", [_RAISE, _KEEP], ids=["raised", "in silence"])
async def test_a_type_that_is_refused_as_a_whole_keeps_no_other_waiting(
    outbox: Outbox, start: StartRelay, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are amid 10,000 of its events; one of it that is good shows that not each is refused."""
    sql = (
        "INSERT INTO openoutbox_events (event_id, event_type, payload, headers, created_at) SELECT gen_random_uuid(), "
        "CASE WHEN g %% 50 = 0 THEN 'other' ELSE 'T' END, '', jsonb_build_object('bad', g %% 50 > 0), "
        "now() - interval '1 min' + g * interval '1 microsecond' FROM generate_series(1, %s) AS g"
    )
    outbox.database.run(sql, [10_000])
    hostile = how.replace("NEW.event_type LIKE 'bad%'", "NEW.headers @> '{{\"bad\": true}}'")
    make(outbox, hostile, state="42P01", status="DELIVERING")
    await start()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 200, "PENDING": 9800}, 60)
    [line] = [record for record in caplog.records if getattr(record, "action", "") == "type_refused"]
    assert "each event of type T" in line.getMessage()
    good = outbox.insert([Row("T")])[0]
    await eventually(lambda: outbox.row(good)["status"] == "DELIVERED", 60)
    await asyncio.to_thread(make, outbox, _DROP)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 10_001}, 60)


@pytest.mark.scale
@pytest.mark.session
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("how", [_RAISE, _KEEP], ids=["raised", "in silence"])
async def test_100_000_refused_rows_beside_1_000_good_ones(
    outbox: Outbox, start: StartRelay, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    await hold_beside(outbox, start, 100_000, 1000, how)
