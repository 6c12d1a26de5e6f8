"""A row that the log's database refuses is quarantined and named, whatever refuses it, and the others are recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from relay.core.outcome import Transient
from relay.deliverylog import DeliveryLog, DeliveryLogError, ListAttempts, open_delivery_log
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, ms
from tests.deliverylog.test_recorder import QUICK, recording, settled
from tests.support.fixtures.outbox import as_user
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually

_FUNCTION = "CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
_BEFORE = "CREATE TRIGGER hostile BEFORE INSERT ON openoutbox_log.{table} FOR EACH ROW WHEN ({when}) "
_DEFERRED = (
    "CREATE CONSTRAINT TRIGGER hostile AFTER INSERT ON openoutbox_log.attempts DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW WHEN ({when}) "
)
_RUN = "EXECUTE FUNCTION hostile()"
_RAISE = "RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; RETURN NEW;"
_AUDITED = """
CREATE TABLE audit (at timestamptz DEFAULT now());
CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {raises} END $$;
CREATE CONSTRAINT TRIGGER hostile AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION hostile();
CREATE FUNCTION audited() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS
$$ BEGIN INSERT INTO audit DEFAULT VALUES; RETURN TRUE; END $$;
GRANT USAGE ON SCHEMA openoutbox_log TO test_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA openoutbox_log TO test_reader;
CREATE POLICY everything ON openoutbox_log.attempts USING (TRUE);
CREATE POLICY audited ON openoutbox_log.attempts AS RESTRICTIVE USING (audited());
ALTER TABLE openoutbox_log.attempts ENABLE ROW LEVEL SECURITY
"""
BAD = "NEW.code = 'bad'"
STATES = ["P0001", "42P01", "3F000", "42501", "55P03", "57014", "40001", "53100", "XX000", "57P01"]


def refuse(database: Database, body: str, trigger: str = _BEFORE, when: str = BAD) -> None:
    table = "attempts" if "code" in when else "events"
    database.run(_FUNCTION.format(body=body))
    database.run(trigger.format(when=when, table=table) + _RUN)


async def only_the_bad_one_is_quarantined(store: DeliveryLog, reason: str) -> None:
    batch = [entry(f"a{n:03d}", BASE + ms(n), code="bad" if n == 40 else "T") for n in range(100)]
    good = [one.attempt.id for one in batch if one.attempt.code == "T"]
    for _ in range(2):  # the second time all the others are there
        await store.insert_many(batch)
        assert attempt_ids(await all_items(store, ListAttempts(order="asc"))) == good
        assert "quarantined 1 of 100 log entries" in store.last_quarantine
        assert reason in store.last_quarantine
    [quarantined] = await store.list_quarantine(10)
    assert quarantined.fields["attempt"]["id"] == "a040"
    assert reason in quarantined.reason


@pytest.fixture
async def log(log_database: Database) -> AsyncIterator[DeliveryLog]:
    store = await open_delivery_log(log_database.url, months_ahead=0)
    await store.insert_many([entry("first", BASE - ms(1))])  # so that the month has its partition
    log_database.run("DELETE FROM openoutbox_log.attempts")
    yield store
    await store.close()


@pytest.mark.parametrize("trigger", [_BEFORE, _DEFERRED], ids=["at the statement", "at the commit"])
@pytest.mark.parametrize("state", STATES)
async def test_any_state_of_a_trigger_costs_its_own_row_alone(
    log: DeliveryLog, log_database: Database, state: str, trigger: str
) -> None:
    refuse(log_database, _RAISE.format(state=state), trigger)
    await only_the_bad_one_is_quarantined(log, "not this one")


async def test_a_row_that_a_trigger_leaves_out_is_no_recorded_one(log: DeliveryLog, log_database: Database) -> None:
    refuse(log_database, "RETURN NULL;")
    await only_the_bad_one_is_quarantined(log, "a BEFORE trigger or a rule kept it as it was")


async def test_an_event_that_a_trigger_leaves_out_is_quarantined_with_its_attempt(
    log: DeliveryLog, log_database: Database
) -> None:
    refuse(log_database, "RETURN NULL;", when="NEW.id = 'e-a1'")
    await log.insert_many([entry(f"a{n}", BASE + ms(n)) for n in range(3)])
    assert attempt_ids(await all_items(log, ListAttempts(order="asc"))) == ["a0", "a2"]


async def test_of_many_refused_rows_before_good_ones_each_is_quarantined(
    log: DeliveryLog, log_database: Database
) -> None:
    refuse(log_database, _RAISE.format(state="42P01"))
    batch = [entry(f"a{n:03d}", BASE + ms(n), code="bad" if n < 150 else "T", topic="t" * (n % 7)) for n in range(300)]
    await log.insert_many(batch)
    assert len(await all_items(log, ListAttempts(limit=200))) == 150
    assert log.quarantined == 150


@pytest.mark.parametrize("trigger", [_BEFORE, _DEFERRED], ids=["at the statement", "at the commit"])
@pytest.mark.parametrize("rows", [1, 2, 30])
async def test_what_all_rows_meet_is_the_database_and_quarantines_none(
    log: DeliveryLog, log_database: Database, rows: int, trigger: str
) -> None:
    refuse(log_database, _RAISE.format(state="55P03"), trigger)
    with pytest.raises(DeliveryLogError, match=r"not this one \(SQLSTATE 55P03"):
        await log.insert_many([entry(f"a{n}", BASE + ms(n), code="bad") for n in range(rows)])
    assert (await log.list_quarantine(10), log.quarantined) == ([], 0)


@pytest.mark.parametrize("state", ["P0001", "55P03"])
async def test_an_error_at_the_commit_of_a_page_keeps_its_state(
    log: DeliveryLog, log_database: Database, outbox_template: Database, state: str
) -> None:
    """Of a page that is read with JIT off: two statements of one transaction, which a policy's function refuses."""
    assert outbox_template.url  # it brings the users
    await log.insert_many([entry("a1", BASE, tenant_id="a")])
    with log_database.connect() as connection:
        connection.execute(_AUDITED.format(raises=_RAISE.format(state=state)).encode())
    reader = await open_delivery_log(as_user(log_database.url, "test_reader"), months_ahead=0)
    with pytest.raises(DeliveryLogError, match="not this one") as reading:
        await reader.list_attempts(ListAttempts(tenant_ids=["a", "b"]))
    assert state in str(reading.value)
    log_database.run("DROP POLICY audited ON openoutbox_log.attempts")
    await reader.list_attempts(ListAttempts(tenant_ids=["a", "b"]))
    await reader.close()


async def recorded_around(opened: Callable[[], Awaitable[DeliveryLog]]) -> None:
    """The recorder has one bad row and no other: it says so, and the next one shows that the row is to blame."""
    async with recording(opened, QUICK) as recorder:
        recorder.record([settled(1, Transient("bad", "refused"))])
        await eventually(lambda: recorder.trouble != "")
        assert recorder.quarantined == 0
        recorder.record([settled(2)])
        await eventually(lambda: (recorder.written, recorder.quarantined) == (1, 1))
        assert "quarantined 1 of 2 log entries" in recorder.trouble
        recorder.record([settled(3)])
        await eventually(lambda: recorder.written == 2)
        assert recorder.trouble == ""
        recorder.record([settled(n, Transient("bad", "refused")) for n in range(10, 60)])

        def all_quarantined() -> bool:
            recorder.record([settled(4)])  # as many as come show what is to blame for the others
            return recorder.quarantined == 51

        await eventually(all_quarantined, 20)


async def test_the_recorder_takes_the_next_attempts_as_controls(log: DeliveryLog, log_database: Database) -> None:
    refuse(log_database, _RAISE.format(state="42P01"))
    await recorded_around(lambda: open_delivery_log(log_database.url, months_ahead=0))


@pytest.mark.clickhouse
@pytest.mark.xdist_group("clickhouse")
async def test_a_constraint_in_clickhouse_costs_its_own_row_alone(
    clickhouse: ClickHouseDeliveryLog, prefix: str
) -> None:
    await clickhouse._client.command(f"ALTER TABLE {prefix}event_log ADD CONSTRAINT hostile CHECK code != 'bad'")
    await only_the_bad_one_is_quarantined(clickhouse, "VIOLATED_CONSTRAINT")


@pytest.mark.clickhouse
@pytest.mark.xdist_group("clickhouse")
async def test_a_view_in_clickhouse_that_fails_for_a_row_costs_that_row_alone(
    clickhouse: ClickHouseDeliveryLog, prefix: str
) -> None:
    numbers = "CREATE TABLE {0}numbers (n UInt8) ENGINE = MergeTree ORDER BY n"
    view = (
        "CREATE MATERIALIZED VIEW {0}hostile TO {0}numbers AS "
        "SELECT toUInt8(if(code = 'bad', 'bad', '1')) AS n FROM {0}event_log"
    )
    for statement in (numbers, view):
        await clickhouse._client.command(statement.format(prefix))
    with pytest.raises(DeliveryLogError, match="refused"):
        await clickhouse.insert_many([entry("alone", BASE, code="bad")])
    batch = [entry(f"a{n}", BASE + ms(n), code="bad" if n == 5 else "T") for n in range(20)]
    await clickhouse.insert_many(batch)
    assert clickhouse.quarantined == 1
    listed = attempt_ids(await all_items(clickhouse, ListAttempts()))
    assert {f"a{n}" for n in range(20) if n != 5} <= set(listed)
    for kind in ("VIEW", "TABLE"):
        await clickhouse._client.command(f"DROP {kind} {prefix}{'hostile' if kind == 'VIEW' else 'numbers'} SYNC")
