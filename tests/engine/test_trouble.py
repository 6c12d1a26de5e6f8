"""What happens to events when the broker, the database or the relay itself is in trouble."""

from __future__ import annotations

import asyncio

import psycopg

from relay.core.outcome import ACKNOWLEDGED, TimedOut
from relay.core.telemetry import RelayState
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually, pace_async, patience


async def test_a_broker_that_is_down_pauses_claiming_and_costs_no_attempt(outbox: Outbox, start: StartRelay) -> None:
    outbox.fill("topic", 300)
    broker = MemoryPublisher()
    broker.down("connection refused")
    running = await start(broker)
    await eventually(lambda: running.relay.health.state is RelayState.PAUSED)
    assert outbox.counts() == {"PENDING": 300}
    assert "connection refused" in running.relay.health.broker_error
    broker.up()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 300})
    assert outbox.rows("max(attempts)") == [(0,)]
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)


async def test_a_broker_that_goes_down_in_the_middle_gets_its_events_released(
    outbox: Outbox, start: StartRelay
) -> None:
    outbox.fill("topic", 200)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker)
    await eventually(lambda: len(broker.held) == 200)
    broker.down("connection reset")
    await eventually(lambda: outbox.counts() == {"PENDING": 200})
    assert outbox.rows("max(attempts), max(last_error)") == [(0, None)]
    assert broker.held == []
    await eventually(lambda: running.telemetry.counts["released"] == 200)
    outbox.check_invariants()


async def test_a_timeout_while_the_broker_hangs_is_the_brokers_fault(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("topic")] * 5)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker)
    await eventually(lambda: len(broker.held) == 5)
    broker.hang()
    broker.answer(TimedOut("TIMED_OUT", "no acknowledgement"))
    await eventually(lambda: outbox.counts() == {"PENDING": 5})
    assert outbox.rows("max(attempts)") == [(0,)]
    assert running.relay.health.state is RelayState.PAUSED
    broker.answer_with(lambda _: ACKNOWLEDGED)
    broker.up()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 5})


async def test_at_most_one_probe_an_interval_while_the_broker_is_away(outbox: Outbox, start: StartRelay) -> None:
    broker = MemoryPublisher()
    broker.down()
    running = await start(broker, connect_retry_interval=0.2)
    loop = asyncio.get_running_loop()
    await eventually(lambda: broker.probes >= 1)
    first_probes, started = broker.probes, loop.time()
    await eventually(lambda: broker.probes >= first_probes + 5)
    assert (loop.time() - started) >= 4 * 0.2
    assert running.relay.health.state is RelayState.PAUSED


async def test_leases_are_renewed_while_publishing_takes_longer(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("topic")] * 3)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, lease_timeout=3.0)
    await eventually(lambda: len(broker.held) == 3)
    first = outbox.rows("min(locked_at)")[0][0]
    await start(relay_id="other", lease_timeout=3.0)  # would reap what is not renewed

    def renewed_past_the_first_lease() -> bool:
        return bool(outbox.rows(f"min(locked_at) > timestamptz '{first}' + interval '4 s'")[0][0])

    await eventually(renewed_past_the_first_lease)
    broker.answer()
    await eventually(lambda: outbox.counts() == {"DELIVERED": 3})
    assert outbox.rows("max(attempts)") == [(0,)]
    assert running.telemetry.counts["leases_lost"] == 0


async def test_what_may_kill_relays_and_has_one_attempt_left_travels_alone(outbox: Outbox, start: StartRelay) -> None:
    broker = MemoryPublisher()
    broker.hold()
    await start(broker)
    outbox.insert([Row("before")] * 3)
    await eventually(lambda: len(broker.held) == 3)
    [(suspect,)] = outbox.database.run(
        "INSERT INTO openoutbox_events (event_id, event_type, payload, attempts, last_error) "
        "VALUES (gen_random_uuid(), 'suspect', '', 2, 'LEASE_EXPIRED: of one that is gone') RETURNING event_id::text"
    )
    await eventually(lambda: outbox.row(suspect)["status"] == "DELIVERING")
    outbox.insert([Row("after")] * 3)
    assert {event.event_type for event in broker.held} == {"before"}
    broker.answer()
    await eventually(lambda: [event.event_type for event in broker.held] == ["suspect"])
    assert outbox.counts() == {"DELIVERED": 3, "DELIVERING": 1, "PENDING": 3}
    broker.answer()
    await eventually(lambda: [event.event_type for event in broker.held] == ["after"] * 3)


async def test_what_comes_after_the_lease_was_lost_changes_nothing(outbox: Outbox, start: StartRelay) -> None:
    [event_id] = outbox.insert([Row("topic")])
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker)
    await eventually(lambda: len(broker.held) == 1)
    outbox.database.run("""
        UPDATE openoutbox_events SET status = 'PENDING', locked_by = NULL, locked_at = NULL, attempts = attempts + 1,
            last_error = 'reaped', available_at = now() + interval '1 hour', updated_at = now()
    """)
    before = outbox.row(event_id)
    broker.answer()
    await eventually(lambda: running.telemetry.counts["leases_lost"] == 1)
    assert outbox.row(event_id) == before
    assert running.telemetry.counts["delivered"] == 0


async def test_stopping_lets_the_broker_answer(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("topic")] * 10)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker)
    await eventually(lambda: len(broker.held) == 10)
    running.relay.stop()
    broker.answer()
    await running.task
    assert outbox.counts() == {"DELIVERED": 10}


async def test_stopping_releases_what_has_no_answer(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("topic")] * 10)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, shutdown_timeout=patience(1.0))
    await eventually(lambda: len(broker.held) == 10)
    await running.stop()
    assert outbox.counts() == {"PENDING": 10}
    assert outbox.rows("max(attempts), bool_and(available_at <= now())") == [(0, True)]
    assert broker.abandons
    assert broker.held == []


async def test_lost_connections_lose_and_repeat_nothing(outbox: Outbox, start: StartRelay) -> None:
    outbox.fill("topic", 3_000)
    broker = MemoryPublisher()
    running = await start(broker, batch_size=50)
    kill = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'openoutbox%'
    """
    for _ in range(80):
        outbox.database.run(kill)
        await pace_async(0.05)  # connections are killed in the middle of what they do
        if "PENDING" not in outbox.counts():
            break
    # A claim whose reply was lost stays DELIVERING until its lease ends; everything else is delivered, once.
    await eventually(lambda: running.relay.inflight.events == 0 and "PENDING" not in outbox.counts())
    counts = outbox.counts()
    assert len(broker.offered) == counts["DELIVERED"] == len({event.event_id for event in broker.offered})
    assert sum(counts.values()) == 3_000
    outbox.check_invariants()


async def test_a_database_that_answers_and_refuses_claims_is_not_called_well(outbox: Outbox, start: StartRelay) -> None:
    outbox.database.run("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE 'no space left' USING ERRCODE = '53100'; END $$
    """)
    outbox.database.run("CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events EXECUTE FUNCTION refuse()")
    running = await start(health_check_interval=0.1, lease_timeout=2.0)
    await eventually(lambda: "claiming: no space left" in running.relay.health.storage_error)
    seen = len(running.telemetry.states)
    await eventually(lambda: running.telemetry.ops["claim", False] > 4)
    assert RelayState.ACTIVE not in [reported for reported, _ in running.telemetry.states[seen:]]
    outbox.database.run("DROP TRIGGER refuse ON openoutbox_events")
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)


async def test_outcomes_outlive_a_database_that_is_away(outbox: Outbox, start: StartRelay) -> None:
    outbox.insert([Row("topic")] * 20)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker)
    await eventually(lambda: len(broker.held) == 20)
    name = outbox.database.name
    admin = outbox.database.admin_url
    _run(admin, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    _run(admin, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    broker.answer()
    await eventually(lambda: running.relay.health.state is RelayState.ERROR)
    _run(admin, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    await eventually(lambda: outbox.counts() == {"DELIVERED": 20})
    assert len(broker.offered) == 20
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)


def _run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
