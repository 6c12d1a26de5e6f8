"""What a page costs: buffers on PostgreSQL, rows read on ClickHouse, on a deep page of a large log.

The ordinary run uses fewer attempts than ``make scale``, which has 2 million over 24 months; the bounds are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from relay.deliverylog import ListAttempts, ListEvents, TimeWindow, open_delivery_log
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from relay.deliverylog.cursor import Position, encode
from relay.deliverylog.paging import Scan, scan_attempts, scan_events
from relay.deliverylog.postgres.statements import PostgresStatements, Statement
from relay.deliverylog.times import from_ms, to_ms
from relay.postgres.sql import DEFAULT_LOG_SCHEMA
from tests.deliverylog.conftest import drop_tables
from tests.deliverylog.loading import END, FIRST, SPAN_MS, load_clickhouse, load_postgres
from tests.support.fixtures.postgres import create_database, drop_database

pytestmark = pytest.mark.timeout(600)

LIMIT = 100
FEW = 200_000
MANY = 2_000_000
CLICKHOUSE_FEW = (80_000, 3)  # rows, days
CLICKHOUSE_MANY = pytest.param((2_000_000, None), marks=pytest.mark.scale)

TENANTS: list[dict[str, Any]] = [{}, {"tenant_ids": ["tenant_7"]}]
ATTEMPT_FILTERS: list[dict[str, Any]] = [
    {},
    {"destination_ids": ["dest_3"]},
    {"destination_types": ["nats"]},
    {"status": "failed"},
    {"status": "success"},
    {"topics": ["topic_11"]},
    {"codes": ["code_1"]},
]
POSTGRES_FILTERS: list[dict[str, Any]] = [*ATTEMPT_FILTERS, {"destination_ids": ["dest_0"], "status": "failed"}]
"""PostgreSQL has indexes of a destination's failures."""
EVENT_FILTERS: list[dict[str, Any]] = [{}, {"destination_ids": ["dest_3"]}, {"topics": ["topic_11"]}]
_ALL_DELIVERED = """
INSERT INTO openoutbox_log.attempts (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, event_time,
    eligible_for_retry, event_data, event_metadata
)
SELECT
    'new' || id, event_id, tenant_id, destination_id, 'kafka', topic, 'success', time + %(by)s, 1, event_time + %(by)s,
    true, event_data, event_metadata
FROM openoutbox_log.attempts
WHERE time < '2024-02-01Z'
"""
_NEVER_MET = """
INSERT INTO openoutbox_log.attempts (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, event_time,
    eligible_for_retry, event_data, event_metadata
)
SELECT
    kind || id, event_id, tenant_id, 'dest_' || kind, 'kafka', 'topic_' || kind, 'success', time, 1, event_time, true,
    event_data, event_metadata
FROM openoutbox_log.attempts CROSS JOIN (VALUES ('a'), ('b')) AS kinds (kind)
WHERE time < '2024-02-01Z'
"""
# Every twentieth attempt fails: only some tenants have any.
FAILED_TENANT: dict[str, Any] = {"tenant_ids": ["tenant_20"]}


def deep(span_ms: int) -> Position:
    """A place in the middle of everything."""
    middle = to_ms(FIRST) + span_ms // 2
    return Position(middle, "att_", None, middle, "evt_")


def listings(span_ms: int, attempt_filters: list[dict[str, Any]]) -> Iterator[tuple[str, Scan]]:
    """Every listing that promises a page at a page's cost, forward and backward, at a deep page."""
    for order in ("desc", "asc"):
        for tenant in TENANTS:
            for only in attempt_filters:
                scope = FAILED_TENANT if tenant and (only.get("status") == "failed" or "codes" in only) else tenant
                query = ListAttempts(limit=LIMIT, order=order, next=encode("att", deep(span_ms)), **scope, **only)
                if tenant and "destination_types" in only:
                    continue  # two filters, no index of their own
                yield f"attempts {order} {scope} {only}", scan_attempts(query)
            sort = ListAttempts(
                limit=LIMIT,
                order=order,
                sort_by="event_time",
                next=encode("att", deep(span_ms), version=2, order=order),
                **tenant,
            )
            yield f"attempts by event {order} {tenant}", scan_attempts(sort)
            for only in EVENT_FILTERS:
                listed = ListEvents(limit=LIMIT, order=order, next=encode("evt", deep(span_ms)), **tenant, **only)
                yield f"events {order} {tenant} {only}", scan_events(listed)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(FEW, marks=pytest.mark.xdist_group("log plans 0")),
        pytest.param(MANY, marks=[pytest.mark.scale, pytest.mark.xdist_group("log plans 1")]),
    ],
)
def full_postgres(request: pytest.FixtureRequest, postgres: str) -> Iterator[str]:
    """The URL of a database with a large log."""
    database = create_database(postgres)
    load_postgres(database.url, request.param)
    yield database.url
    drop_database(database)


def buffers(connection: psycopg.Connection[Any], statement: Statement) -> tuple[int, int, str]:
    """Buffers that running a statement touches, the rows it returns, and its plan."""
    text, values = statement
    explained = connection.execute(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode(), values, prepare=False
    ).fetchone()
    assert explained is not None
    plan = explained[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], plan["Actual Rows"], json.dumps(plan, indent=1)


def test_a_deep_page_costs_a_page_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    with psycopg.connect(full_postgres, autocommit=True) as connection:
        for name, scan in listings(SPAN_MS, POSTGRES_FILTERS):
            statement = sql.list_events(scan) if scan.resource == "evt" else sql.list_attempts(scan)
            touched, rows, plan = buffers(connection, statement)
            assert rows == scan.fetch, name
            # A row from the heap each (destinations: one from the link and some for its event), and the way down the
            # indexes; sorted by event, every month's index is looked into, for an event's attempts may be in any.
            page = 7 * LIMIT if "events" in name and "destination" in name else 3 * LIMIT
            assert touched <= page, f"{name}: {touched} buffers\n{plan}"


def test_a_month_without_a_value_is_not_read_for_it_on_postgres(full_postgres: str) -> None:
    """The newest month has but one status and one type, which the planner knows: it must know which is asked for."""
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    with psycopg.connect(full_postgres) as connection:
        connection.execute(sql.text("partitions:ensure_months"), {"months": [END]})
        connection.execute(_ALL_DELIVERED.encode(), {"by": END - FIRST})
        connection.execute("ANALYZE openoutbox_log.attempts")
        for query in (
            ListAttempts(status="failed"),
            ListAttempts(status="failed", **FAILED_TENANT),
            ListAttempts(destination_types=["nats"]),
        ):
            touched, rows, plan = buffers(connection, sql.list_attempts(scan_attempts(query)))
            assert rows == LIMIT + 1
            assert touched <= 3 * LIMIT, plan
        connection.rollback()


def test_only_the_failures_of_a_destination_are_read_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    query = sql.list_attempts(scan_attempts(ListAttempts(destination_ids=["dest_0"], status="failed", limit=LIMIT)))
    with psycopg.connect(full_postgres) as connection:
        touched, rows, plan = buffers(connection, query)
        assert rows == LIMIT + 1
        assert touched <= 1.5 * LIMIT, plan
        connection.execute("DROP INDEX openoutbox_log.idx_attempts_dest_failed_time")
        assert buffers(connection, query)[0] > 1.5 * LIMIT
        connection.rollback()


def test_a_destination_and_a_topic_that_never_meet_cost_next_to_nothing_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    query = sql.list_attempts(scan_attempts(ListAttempts(destination_ids=["dest_a"], topics=["topic_b"])))
    with psycopg.connect(full_postgres) as connection:
        connection.execute(_NEVER_MET.encode())
        connection.execute("ANALYZE openoutbox_log.attempts")
        touched, rows, plan = buffers(connection, query)
        assert rows == 0
        assert touched <= 24 * 4, plan  # four levels of an index in each month
        connection.execute("DROP INDEX openoutbox_log.idx_attempts_dest_topic_time")
        assert buffers(connection, query)[0] > 24 * 4
        connection.rollback()


def test_no_rows_cost_next_to_nothing_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    with psycopg.connect(full_postgres, autocommit=True) as connection:
        for query in (
            ListAttempts(tenant_ids=["absent"]),
            ListAttempts(tenant_ids=["absent"], topics=["topic_1"]),
            ListAttempts(tenant_ids=["absent"], sort_by="event_time"),
        ):
            touched, rows, plan = buffers(connection, sql.list_attempts(scan_attempts(query)))
            assert rows == 0
            assert touched <= 24 * 4, plan  # four levels of an index in each month
        touched, rows, plan = buffers(connection, sql.list_events(scan_events(ListEvents(tenant_ids=["absent"]))))
        assert (rows, touched <= 24 * 4) == (0, True), plan


def test_a_window_spares_the_other_months_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    month = TimeWindow(gte=from_ms(to_ms(FIRST) + SPAN_MS // 2), lt=from_ms(to_ms(FIRST) + SPAN_MS // 2 + 86_400_000))
    with psycopg.connect(full_postgres, autocommit=True) as connection:
        scan = scan_attempts(ListAttempts(tenant_ids=["tenant_7"], time=month))
        _, _, plan = buffers(connection, sql.list_attempts(scan))
        assert plan.count("attempts_20") <= 4, plan
        cursor = scan_attempts(ListAttempts(order="asc", next=encode("att", deep(SPAN_MS * 2 - 100_000_000))))
        _, _, plan = buffers(connection, sql.list_attempts(cursor))
        assert plan.count("attempts_20") <= 4, plan


def test_an_events_rows_are_found_at_once_on_postgres(full_postgres: str) -> None:
    """The filters with few rows: they are not looked for in what else is there, whatever the page."""
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    with psycopg.connect(full_postgres, autocommit=True) as connection:
        for tenant in TENANTS:
            only: dict[str, Any] = {"event_ids": ["evt_000000007"], **tenant}
            for place in _places("att"):
                touched, _, plan = buffers(connection, sql.list_attempts(scan_attempts(ListAttempts(**only, **place))))
                assert touched <= 24 * 4 + 2, plan
            for place in _places("evt"):
                touched, _, plan = buffers(connection, sql.list_events(scan_events(ListEvents(**only, **place))))
                assert touched <= 24 * 4 + 2, plan


def _places(resource: str) -> list[dict[str, Any]]:
    """The first page, and one behind and one before the middle of everything."""
    middle = encode(resource, deep(SPAN_MS))
    return [{}, {"next": middle}, {"prev": middle}]


def test_several_values_are_merged_and_not_filtered_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    with psycopg.connect(full_postgres, autocommit=True) as connection:
        query = ListAttempts(
            limit=LIMIT, tenant_ids=["tenant_1", "tenant_2", "tenant_3"], topics=["topic_1", "topic_2"]
        )
        touched, rows, plan = buffers(connection, sql.list_attempts(scan_attempts(query)))
        assert rows == LIMIT + 1
        assert touched <= 6 * 3 * LIMIT, plan


def test_one_id_is_looked_for_near_its_time_on_postgres(full_postgres: str) -> None:
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    with psycopg.connect(full_postgres, autocommit=True) as connection:
        values = {"attempt_id": "att_000000007", "from": FIRST, "to": FIRST.replace(day=2)}
        near, rows, plan = buffers(connection, (sql.text("find:attempt", "window"), values))
        assert (rows, near <= 5) == (1, True), plan
        everywhere, rows, plan = buffers(connection, (sql.text("find:attempt"), values))
        assert (rows, everywhere <= 24 * 4) == (1, True), plan


@pytest.mark.xdist_group("clickhouse")
@pytest.mark.parametrize("size", [CLICKHOUSE_FEW, CLICKHOUSE_MANY])
async def test_a_deep_page_costs_a_page_on_clickhouse(
    size: tuple[int, int | None], chdb_folder: Path, prefix: str
) -> None:
    rows, days = size
    store = await open_delivery_log(f"chdb:///{chdb_folder}", prefix=prefix)
    assert isinstance(store, ClickHouseDeliveryLog)
    await store.migrate()
    await load_clickhouse(store, rows, prefix, days)
    span = SPAN_MS if days is None else days * 86_400_000

    async def read_rows() -> int:
        rows = await store._client.rows("SELECT value FROM system.events WHERE event = 'SelectedRows'")
        return int(rows[0][0])

    for name, scan in listings(span, ATTEMPT_FILTERS):
        before = await read_rows()
        page = await (store._scan_events(scan) if scan.resource == "evt" else store._scan_attempts(scan))
        cost = await read_rows() - before
        assert len(page.items) > LIMIT // 4, name  # of a few values there are not more
        # One range of a list, of which the server reads a block or two ahead, and for each row the granules of 128
        # that its key may lie in: up to two over all tenants, less for a tenant, whose rows lie together. None of it
        # grows with the log; half of the list of all, which is what reading it to the end costs, is 40,000 at least.
        bound = 200 if scan.filters.get("tenant_id") else 300
        if scan.resource == "evt" and {"topic", "destination_id"} & set(scan.filters):
            bound += 300  # the copies of each event, which lie in up to two granules of 256 in the list by event
        assert cost <= bound * LIMIT, f"{name}: {cost} rows"
    before = await read_rows()
    assert (await store._scan_attempts(scan_attempts(ListAttempts(tenant_ids=["absent"])))).items == []
    assert await read_rows() - before <= 20 * 256
    for of_one in (ListAttempts(event_ids=["evt_000000007"]), ListAttempts(event_ids=["evt_000000007"], **TENANTS[1])):
        before = await read_rows()
        assert len((await store._scan_attempts(scan_attempts(of_one))).items) == 1
        assert await read_rows() - before <= 20 * 256
    await drop_tables(store, prefix)
    await store.close()
