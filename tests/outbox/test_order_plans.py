"""A claim in order per key is served by its indexes, and costs the same whatever waits.

At every batch size, with good, stale and no statistics; one key has a backlog of 50,000 rows, the oldest of all. What
is bounded is the number of rows that a claim reads, counted by EXPLAIN ANALYZE; no time is asserted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from relay.outbox.extensions import add_extension
from relay.outbox.migrate import migrate
from relay.outbox.span import EVERYWHERE
from relay.postgres.sql import TableName, statement
from tests.outbox.test_plans import indexes, kept_plan, nodes
from tests.support.fixtures.postgres import Database, create_database, drop_database

HOT = 50_000
BATCHES = [1, 100, pytest.param(1000, marks=pytest.mark.soak), 5000]
"""Each is carried out; what 1000 chooses stands between its two neighbours."""
KEYS = 1000
RUN = 100
FIRST_HASH = -(2**63)
QUEUE = "idx_openoutbox_processing_queue"
WAITING = "idx_openoutbox_order_waiting"
KEYLESS = "idx_openoutbox_order_keyless"
DEAD = "idx_openoutbox_order_dead"
AGAIN = "idx_openoutbox_order_again"

_EXECUTED = "ANALYZE, TIMING OFF, FORMAT JSON"
_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, status, available_at, delivered_at)
SELECT gen_random_uuid(), 't', {key}, decode(repeat('ab', 200), 'hex'), {status}, now() - {age},
       CASE WHEN {status} = 'DELIVERED' THEN now() END
FROM generate_series(1, {count}) AS n
"""
_NO_FLOORS = """
SELECT jsonb_object_agg(hashtextextended(partition_key, 0)::text, NULL)::text
FROM openoutbox_events WHERE status = 'PENDING' AND partition_key IS NOT NULL
"""
_WAITING = [
    {"key": "'hot'", "status": "'PENDING'", "age": "interval '1 day'", "count": HOT},
    {"key": "'key-' || n % 1000", "status": "'PENDING'", "age": "interval '1 hour'", "count": 10_000},
    {"key": "NULL", "status": "'PENDING'", "age": "interval '1 minute'", "count": 1_000},
]
_FINISHED = [
    {"key": "'key-' || n % 1000", "status": "'DELIVERED'", "age": "interval '2 days'", "count": 20_000},
    {"key": "'key-' || n % 10", "status": "'DEAD'", "age": "interval '2 days'", "count": 1_000},
]

Connection = psycopg.Connection[tuple[Any, ...]]


STATISTICS = ["fresh", "analyzed when empty", "never analyzed", "all were PENDING", "nothing was PENDING"]


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=pytest.mark.xdist_group(f"order plans, {one}")) for one in STATISTICS],
)
def connection(request: pytest.FixtureRequest, postgres: str) -> Iterator[Connection]:
    """The table, its statistics as the parameter says; autovacuum leaves it alone."""
    database = create_database(postgres)
    try:
        with database.connect() as connection:
            _fill(database, connection, request.param)
            yield connection
    finally:
        drop_database(database)


def _fill(database: Database, connection: Connection, statistics: str) -> None:
    migrate(database.url, TableName())
    add_extension(database.url, TableName(), "key-order")
    connection.execute("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
    if statistics == "analyzed when empty":
        connection.execute("ANALYZE openoutbox_events")
    if statistics == "nothing was PENDING":
        for rows in _FINISHED:
            connection.execute(_INSERT.format(**rows).encode())
        connection.execute("VACUUM ANALYZE openoutbox_events")
    for rows in _WAITING:
        connection.execute(_INSERT.format(**rows).encode())
    if statistics == "all were PENDING":
        connection.execute("ANALYZE openoutbox_events")
    for rows in _FINISHED:
        connection.execute(_INSERT.format(**rows).encode())
    if statistics == "fresh":
        connection.execute("VACUUM ANALYZE openoutbox_events")


def run(connection: Connection, *tags: str, prepared: bool = False, **parameters: Any) -> list[dict[str, Any]]:
    """The nodes of the plan, as carried out; what was claimed is rolled back."""
    sql = statement("outbox/claim_ordered:ordered", TableName(), tags=[*tags, *(["prepared"] if prepared else [])])
    [(no_floors,)] = connection.execute(_NO_FLOORS).fetchall()
    fixed = {
        **EVERYWHERE.parameters(),
        "max_bytes": 1 << 26,
        "inline_bytes": 1 << 19,
        "max_attempts": 25,
        "relay_id": "relay",
        "from": FIRST_HASH,
        "firsts": parameters["limit"],
        "run": RUN,
        "floors": no_floors,
    }
    if prepared:
        plan = kept_plan(connection, _EXECUTED, sql, "walk", {**fixed, **parameters})
    else:
        with connection.transaction(force_rollback=True):
            connection.execute(statement("outbox/claim:guard"))
            row = connection.execute(f"EXPLAIN ({_EXECUTED}) {sql}".encode(), {**fixed, **parameters}).fetchone()
        assert row is not None
        plan = list(nodes(row[0][0]["Plan"]))
    executed = [node for node in plan if node["Actual Loops"]]
    scans = {"Seq Scan"} if "chosen" in tags else {"Seq Scan", "Bitmap Heap Scan"}  # a bitmap of ids is as good
    assert not [node for node in executed if node["Node Type"] in scans]
    return executed


def rows_read(executed: list[dict[str, Any]]) -> int:
    """Rows that the scans of the table returned, and those that they read and threw away."""
    scans = [node for node in executed if "Scan" in node["Node Type"] and "Relation Name" in node]
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    read: float = 0
    for node in scans:
        read += (node["Actual Rows"] + sum(node.get(name, 0) for name in removed)) * node["Actual Loops"]
    return round(read)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_the_oldest_due_rows(connection: Connection, batch: int, *, block: bool, prepared: bool) -> None:
    window = 3 * batch
    executed = run(connection, "oldest", prepared=prepared, limit=batch, window=window, block=block)
    assert indexes(executed) <= {QUEUE, WAITING} | ({DEAD} if block else set())
    # One row for each one looked at, one probe each; then locked, updated, and the run behind the one key.
    assert rows_read(executed) <= 2 * window + (window if block else 0) + 4 * (RUN + batch)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_with_floors(connection: Connection, batch: int, *, prepared: bool) -> None:
    window = 3 * batch
    executed = run(connection, "oldest", "floors", prepared=prepared, limit=batch, window=window, block=False)
    assert indexes(executed) <= {QUEUE, WAITING, AGAIN}
    assert rows_read(executed) <= 3 * window + 4 * (RUN + batch)


@pytest.mark.parametrize("prepared", [False, True])
def test_chosen_rows_are_found_by_their_ids(connection: Connection, *, prepared: bool) -> None:
    chosen = [uuid.uuid4() for _ in range(20)]
    executed = run(connection, "oldest", "chosen", prepared=prepared, limit=20, window=20, block=True, chosen=chosen)
    assert indexes(executed) == {"openoutbox_events_pkey"}


@pytest.mark.parametrize("window", BATCHES)
def test_the_keys_of_a_window(connection: Connection, window: int) -> None:
    sql = statement("outbox/floors:keys", TableName())
    parameters = {**EVERYWHERE.parameters(), "window": window, "again": AGAIN}
    plan = kept_plan(connection, _EXECUTED, sql, "walk", parameters)
    assert indexes(plan) == {QUEUE, "pg_index_indexrelid_index"}
    assert rows_read(plan) <= window + 1


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_from_key_to_key(connection: Connection, batch: int, *, block: bool, prepared: bool) -> None:
    executed = run(connection, "by_key", prepared=prepared, limit=batch, keys=KEYS, block=block)
    assert indexes(executed) <= {WAITING, KEYLESS} | ({DEAD} if block else set())
    assert rows_read(executed) <= (3 if block else 2) * min(batch, KEYS) + 4 * (RUN + 2 * batch)


def test_a_long_backlog_of_one_key_is_one_probe(connection: Connection) -> None:
    executed = run(connection, "by_key", limit=100, keys=KEYS, block=False)
    [claimed] = [node for node in executed if node.get("Operation") == "Update"]
    assert claimed["Actual Rows"] == 100
