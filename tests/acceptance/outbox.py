"""The outbox as an application and an operator see it: plain SQL on the contract's table."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

from relay.core.sqltext import load_sql
from tests.fixtures.postgres import Database
from tests.waiting import wait_until

_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers)
VALUES (%s, %s, %s, %s, %s)
"""

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers)
SELECT gen_random_uuid(), %(event_type)s, 'key-' || n %% 1000, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'),
       jsonb_build_object('n', n, 'source', 'test')
FROM generate_series(1, %(count)s) AS n
"""

_BROKEN = """
SELECT count(*) FROM openoutbox_events
WHERE (status = 'DELIVERING') IS DISTINCT FROM (locked_at IS NOT NULL)
   OR (status = 'DELIVERING') IS DISTINCT FROM (locked_by IS NOT NULL)
   OR (status = 'DELIVERED') IS DISTINCT FROM (delivered_at IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What an application inserts."""

    event_type: str
    payload: bytes = b"{}"
    partition_key: str | None = None
    headers: str = "{}"


@dataclass(frozen=True, slots=True)
class Outbox:
    """One outbox table in one database."""

    database: Database

    @classmethod
    def create(cls, database: Database) -> Outbox:
        """Make the table by the golden schema."""
        with database.connect() as connection:
            connection.execute(load_sql("outbox/schema.sql").encode())
        return cls(database)

    @property
    def url(self) -> str:
        """The database's URL."""
        return self.database.url

    def insert(self, rows: Sequence[Row]) -> list[str]:
        """Insert rows in one transaction; their event ids."""
        ids = [str(uuid.uuid4()) for _ in rows]
        with self.database.connect(autocommit=False) as connection:
            connection.cursor().executemany(
                _INSERT,
                [
                    (event_id, row.event_type, row.partition_key, row.payload, row.headers)
                    for event_id, row in zip(ids, rows, strict=True)
                ],
            )
        return ids

    def fill(self, event_type: str, count: int) -> None:
        """Insert ``count`` events of 512 bytes on the server's side, in one transaction."""
        with self.database.connect() as connection:
            connection.execute(_FILL, {"event_type": event_type, "count": count})

    def counts(self) -> dict[str, int]:
        """Rows of each status."""
        return dict(self.database.run("SELECT status, count(*) FROM openoutbox_events GROUP BY status"))

    def row(self, event_id: str) -> dict[str, object]:
        """One row, by column."""
        with self.database.connect() as connection:
            cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
            found = cursor.execute("SELECT * FROM openoutbox_events WHERE event_id = %s", [event_id]).fetchone()
            assert found is not None, f"no event {event_id}"
            return found

    def rows(self, columns: str) -> list[TupleRow]:
        """These columns of every row."""
        return self.database.run(f"SELECT {columns} FROM openoutbox_events")

    def unfinished(self) -> bool:
        """Whether anything is PENDING or DELIVERING."""
        statement = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING'))"
        return bool(self.database.run(statement)[0][0])

    def wait_finished(self, deadline: float) -> None:
        """Wait until every row is DELIVERED or DEAD."""
        wait_until(lambda: not self.unfinished(), deadline, "every event to be delivered or dead")

    def check_invariants(self) -> None:
        """Invariants 1 and 2 hold on every row."""
        assert self.database.run(_BROKEN) == [(0,)]
