"""An outbox with a past, and what of it is where: in the table, or in an archive."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from relay.spark.jobs.archive.formats import read_archive
from relay.spark.jobs.archive.model import COLUMNS

if TYPE_CHECKING:  # a driver, which reads archives, has neither pytest nor the relay's libraries
    import pytest

    from tests.support.fixtures.outbox import Outbox

NAMES = tuple(column.split()[0] for column in COLUMNS.split(", "))

_FILL = """
INSERT INTO openoutbox_events (
    event_id, event_type, partition_key, payload, headers, status, attempts, last_error,
    available_at, locked_by, locked_at, delivered_at, created_at, updated_at
)
SELECT
    gen_random_uuid(),
    CASE n %% 5 WHEN 0 THEN 'orders.created' WHEN 1 THEN 'orders/odd = {name} %%' WHEN 2 THEN repeat('long', 40)
        ELSE 'stock.moved' END,
    CASE WHEN n %% 3 = 0 THEN NULL ELSE 'key-' || n %% 7 END,
    decode(lpad(to_hex(n), 8, '0') || 'ff00', 'hex'),
    CASE n %% 4 WHEN 0 THEN '{"big": 12345678901234567890123, "text": "é\\n"}'::jsonb WHEN 1 THEN '[1, "two"]'::jsonb
        ELSE jsonb_build_object('tenant_id', 'tenant-' || n %% 4) END,
    %(status)s,
    n %% 3,
    CASE WHEN n %% 3 > 0 THEN 'it did not work' END,
    at,
    CASE WHEN %(status)s = 'DELIVERING' THEN 'relay' END,
    CASE WHEN %(status)s = 'DELIVERING' THEN at END,
    CASE WHEN %(status)s = 'DELIVERED' THEN at END,
    at - interval '1.234567 seconds',
    at
FROM (
    SELECT n, now() - make_interval(secs => %(age)s) - n * interval '1 hour' AS at
    FROM generate_series(1, %(count)s) AS n
) AS moments
"""

DAY = 86_400


def fill(outbox: Outbox, status: str, count: int, age: float = 8 * DAY) -> None:
    """Rows that came to this status so many seconds ago, and an hour, two hours, … before that."""
    with outbox.database.connect() as connection:
        connection.execute(_FILL, {"status": status, "count": count, "age": age})


def a_past(outbox: Outbox, count: int = 60) -> None:
    """Old rows and young ones of all states; old ones are ``2 * count``."""
    for status in ("DELIVERED", "DEAD"):
        fill(outbox, status, count)
        fill(outbox, status, 5, age=60)
    for status in ("PENDING", "DELIVERING"):
        fill(outbox, status, 5)


def in_table(outbox: Outbox) -> list[tuple[object, ...]]:
    """Every row of the table, in order."""
    columns = ", ".join({"event_id": "event_id::text", "headers": "headers::text"}.get(name, name) for name in NAMES)
    rows = outbox.database.run(f"SELECT {columns} FROM openoutbox_events")
    return sorted((tuple(map(_plain, row)) for row in rows), key=str)


def in_archive(spark: SparkSession, path: Path | str) -> list[tuple[object, ...]]:
    """Every row of the archive, in order."""
    rows = read_archive(spark, str(path)).select(*NAMES).collect()
    return sorted((tuple(map(_plain, row)) for row in rows), key=str)


def in_both(spark: SparkSession, outbox: Outbox, path: Path | str) -> list[tuple[object, ...]]:
    """Every row of table and archive, in order: one that is in both appears twice."""
    return sorted([*in_table(outbox), *in_archive(spark, path)], key=str)


def ids(rows: list[tuple[object, ...]]) -> list[str]:
    """Their event ids."""
    return sorted(str(row[0]) for row in rows)


def _plain(value: object) -> object:
    """Times in UTC (PySpark gives them without a zone, in the process's), bodies as bytes."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


Answer = dict[str, Any]
Ask = Callable[..., Answer]


def answering(run: Callable[..., int], name: str, outbox: Outbox, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A job in this process: ``ask("--keep")`` is what it says as JSON; it must end with ``code``."""

    def ask(*arguments: str, code: int = 0) -> Answer:
        ended = run(name, [*arguments, "--json"], url=outbox.url)
        printed = capsys.readouterr()
        assert ended == code, printed.err
        answer: Answer = json.loads(printed.out)
        return answer

    return ask
