"""Hostile tables from a generator: 200 good rows are delivered once, the bad one is named, the relay stays ready.

A seed takes 0.17 s of this process's processor time and 0.5 to 0.9 s in all, and 6 to 8 s where a trigger sleeps or
waits for a lock, as in one of ten: 60 seeds take 87 s on two busy cores, so 300 are too many for `make test`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome
from relay.core.telemetry import RelayState
from relay.engine.relay import Relay
from relay.engine.status import RelayStatus
from relay.outbox.storage import PostgresOutbox
from tests.engine.conftest import RETRY
from tests.engine.hostile_tables import Hostile, hostile
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database, create_database, drop_database
from tests.support.options import engine_options, storage_options
from tests.support.waiting import eventually

GOOD = 200
SECONDS = 15.0


@pytest.fixture
def table(outbox_template: Database) -> Iterator[Outbox]:
    database = create_database(outbox_template.admin_url, template=outbox_template.name)
    yield Outbox(database, database.url)
    drop_database(database)


def make(outbox: Outbox, case: Hostile) -> str:
    """The table with its rows; the id of the bad one."""
    outbox.fill("good", GOOD // 2)
    [bad] = outbox.insert([Row("bad")])
    outbox.fill("good", GOOD - GOOD // 2)
    with outbox.database.connect() as connection:
        connection.execute(case.sql.encode())
        if case.deletes:
            connection.execute("GRANT DELETE ON openoutbox_events TO openoutbox_relay")
    return bad


def is_named(case: Hostile, bad: str, status: RelayStatus, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the bad row is named: in /readyz while it is refused, in the log where it is settled after all."""
    if case.waiting != "DELIVERED":
        return bad in status.readiness().degraded.get("refused_rows", "")
    return any(getattr(one, "action", "") == "delete_kept" and bad in one.getMessage() for one in caplog.records)


async def hold(case: Hostile, outbox: Outbox, bad: str, caplog: pytest.LogCaptureFixture) -> None:
    """Run a relay on the table, and hold it to the promise."""
    caplog.clear()
    broker, telemetry = MemoryPublisher(), MemoryTelemetry()

    def answer(event: OutboxEvent) -> Outcome:
        return case.outcome if event.event_type == "bad" else ACKNOWLEDGED

    broker.answer_with(answer)
    url = outbox.relay_url
    if case.statement_timeout:
        url += f"?options=-cstatement_timeout%3D{int(case.statement_timeout * 1000)}"
    storage = PostgresOutbox(storage_options(url, "relay", retry=RETRY, delete_delivered=case.deletes))
    relay = Relay(storage, broker, telemetry, engine_options(retry=RETRY, shutdown_timeout=0.5))
    status = RelayStatus(relay, "relay", lambda _: pytest.fail("not asked"))
    task = asyncio.create_task(relay.run())
    left = "SELECT count(*) FROM openoutbox_events WHERE event_type = 'good' AND status <> 'DELIVERED'"
    holder = outbox.database.connect(autocommit=False)
    holder.execute((case.held or "SELECT 1").encode())
    try:
        await eventually(lambda: outbox.database.run(left) == [(0,)], SECONDS, what=f"{case.name}: the good ones")
        await eventually(lambda: is_named(case, bad, status, caplog), SECONDS, what=f"{case.name}: the name")
        await eventually(lambda: relay.health.state is RelayState.ACTIVE, what=f"{case.name}: state 1")
        assert outbox.row(bad)["status"] == case.waiting, case.name
        offers = Counter(event.event_id for event in broker.offered if event.event_type == "good")
        assert (len(offers), set(offers.values())) == (GOOD, {1}), case.name
    finally:
        relay.stop()
        await asyncio.gather(task, return_exceptions=True)
        holder.close()


@pytest.mark.parametrize("seed", range(60))
async def test_one_bad_row_costs_the_others_nothing(table: Outbox, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    case = hostile(seed)
    await hold(case, table, make(table, case), caplog)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(0, 2000, 100))
async def test_two_thousand_hostile_tables(
    outbox_template: Database, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[str] = []
    for seed in range(first, first + 100):
        case = hostile(seed)
        database = create_database(outbox_template.admin_url, template=outbox_template.name)
        outbox = Outbox(database, database.url)
        try:
            await hold(case, outbox, make(outbox, case), caplog)
        except (AssertionError, TimeoutError) as error:
            failures.append(f"{case.name}: {error}")
        finally:
            drop_database(database)
    assert failures == []
