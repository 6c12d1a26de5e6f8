"""Fills a log on the server's side, fast: many attempts over 24 months and 50 tenants, for plan tests and benchmarks.

Attempt i of n belongs to event i, tenant i mod 50, destination, topic and status in turn; one in twenty failed and has
a code. Both drivers get the same rows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from relay.deliverylog.postgres.migration_list import LogSchema
from relay.deliverylog.postgres.partitions import month_after
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres.sql import DEFAULT_LOG_SCHEMA

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
MONTHS = 24
END = month_after(FIRST, MONTHS)
SPAN_MS = (END - FIRST) // timedelta(milliseconds=1)

_POSTGRES_ATTEMPTS = """
INSERT INTO openoutbox_log.attempts (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual, code,
    response_data, event_time, eligible_for_retry, event_data, event_metadata, event_destination_id
)
SELECT
    'att_' || lpad(n::text, 9, '0'), 'evt_' || lpad(n::text, 9, '0'), 'tenant_' || n %% 50, 'dest_' || n / 50 %% 10,
    CASE n %% 3 WHEN 0 THEN 'nats' ELSE 'kafka' END, 'topic_' || n / 7 %% 20,
    CASE WHEN n %% 20 = 0 THEN 'failed' ELSE 'success' END,
    %(first)s + n * %(step)s * interval '1 millisecond' + interval '1 second', 1, false,
    CASE WHEN n %% 20 = 0 THEN 'code_' || n / 20 %% 3 END, '{"offset": 1}',
    %(first)s + n * %(step)s * interval '1 millisecond', true, '\\x7b7d', '{}', ''
FROM generate_series(%(low)s::bigint, %(high)s) AS n
"""
_POSTGRES_EVENTS = """
INSERT INTO openoutbox_log.events
SELECT
    'evt_' || lpad(n::text, 9, '0'), 'tenant_' || n %% 50, '', ARRAY['dest_' || n / 50 %% 10],
    %(first)s + n * %(step)s * interval '1 millisecond', 'topic_' || n / 7 %% 20, true, '\\x7b7d', '{}'
FROM generate_series(%(low)s::bigint, %(high)s) AS n
"""
_POSTGRES_LINKS = """
INSERT INTO openoutbox_log.event_destinations
SELECT
    'tenant_' || n %% 50, 'dest_' || n / 50 %% 10, %(first)s + n * %(step)s * interval '1 millisecond',
    'evt_' || lpad(n::text, 9, '0')
FROM generate_series(%(low)s::bigint, %(high)s) AS n
"""
_CLICKHOUSE = """
INSERT INTO {table} (
    event_id, tenant_id, destination_id, topic, eligible_for_retry, event_time, metadata, data, delivery_id,
    delivery_event_id, status, delivery_time, code, response_data, attempt_number, manual, destination_type,
    event_topic, event_destination_id, matched_destination_ids
)
SELECT
    concat('evt_', leftPad(toString(n), 9, '0')) AS event_id, concat('tenant_', toString(n % 50)),
    concat('dest_', toString(intDiv(n, 50) % 10)) AS destination_id,
    concat('topic_', toString(intDiv(n, 7) % 20)) AS topic, true,
    fromUnixTimestamp64Milli({first} + n * {step}, 'UTC'), '{{}}', '{{}}',
    concat('att_', leftPad(toString(n), 9, '0')), event_id, if(n % 20 = 0, 'failed', 'success'),
    fromUnixTimestamp64Milli({first} + n * {step} + 1000, 'UTC'),
    if(n % 20 = 0, concat('code_', toString(intDiv(n, 20) % 3)), NULL), '{{"offset": 1}}', 1, false,
    if(n % 3 = 0, 'nats', 'kafka'), topic, '', [destination_id]
FROM (SELECT toInt64(number) + {low} AS n FROM numbers({count}))
SETTINGS max_partitions_per_insert_block = 0, max_insert_threads = 1
"""


def load_postgres(url: str, rows: int) -> None:
    """Make the tables, fill them, and only then the indexes: twice as fast as the other way round."""
    sql = PostgresStatements(DEFAULT_LOG_SCHEMA)
    step = SPAN_MS // rows
    values: dict[str, Any] = {"first": FIRST, "step": step, "low": 0, "high": rows - 1}
    with psycopg.connect(url, autocommit=True) as connection:
        history = LogSchema(sql)
        tables = [text for migration in history._migrations for text in migration.statements]
        texts = [sql.text("migrate:create_schema"), *tables, *history._definitions]
        indexes = [text for text in texts if "CREATE INDEX" in text]
        for text in texts:
            if text not in indexes:
                connection.execute(text)
        months = [month_after(FIRST, count) for count in range(MONTHS)]
        connection.execute(sql.text("partitions:ensure_months"), {"months": months})
        for text in (_POSTGRES_EVENTS, _POSTGRES_LINKS, _POSTGRES_ATTEMPTS):
            connection.execute(text.encode(), values)
        for text in indexes:
            connection.execute(text)
        for table in ("events", "event_destinations", "attempts"):
            connection.execute(f"VACUUM (ANALYZE) openoutbox_log.{table}".encode())


async def load_clickhouse(store: ClickHouseDeliveryLog, rows: int, prefix: str, days: int | None = None) -> None:
    """Fill the tables of a migrated store; ``days`` bounds the number of days, each of which is a part."""
    step = (SPAN_MS if days is None else days * 86_400_000) // rows
    first = int(FIRST.timestamp()) * 1000
    chunk = 1_000_000
    for low in range(0, rows, chunk):
        count = min(chunk, rows - low)
        text = _CLICKHOUSE.format(table=f"{prefix}event_log", first=first, step=step, low=low, count=count)
        await store._client.command(text)
