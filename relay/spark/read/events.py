"""Events of all tenants by position, out of the event store: what its batch reader and its stream have in common.

The rule by which nothing is missed is the store's own (``event_horizon``): every position up to the horizon belongs to
a transaction that has ended, and is visible to every statement that begins later. The driver asks for the horizon,
then the tasks read up to it and no further. Events never change, so a share that is read again gives the same rows,
but for tenants that were dropped meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, LiteralString
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from relay.core.errors import ConfigError, StorageError, StorageUnavailable
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import DEFAULT_SCHEMA as STORE_SCHEMA
from relay.postgres.sql import PARTITIONS_AT_ONCE, TableName, statement
from relay.spark.connection import connect
from relay.spark.read.copyout import portions
from relay.spark.read.decode import decode
from relay.spark.read.fields import EVENTS, Field, arrow_schema, asked_for, schema_of
from relay.spark.read.options import EventOptions
from relay.spark.slots import slot
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements

_PAGE_EVENTS: Final = 10_000
_EVENTS_WORTH_A_TASK: Final = 2_000
_PATIENCE: Final = 60.0  # seconds that a standby is waited for
_LOOK_EVERY: Final = 0.1
_KINDS: Final = [field.kind for field in EVENTS]
_WHOLE: Final = arrow_schema(schema_of(EVENTS), EVENTS)


@dataclass
class Share(InputPartition):
    """The positions of one task: after the first, up to the second."""

    after: int
    until: int


def shares(after: int, until: int, most: int) -> list[Share]:
    """Up to ``most`` shares of a range of positions; none where it is empty."""
    if until <= after:
        return []
    count = max(1, min(most, (until - after) // _EVENTS_WORTH_A_TASK))
    edges = [after + (until - after) * number // count for number in range(count + 1)]
    return [Share(start, end) for start, end in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Events:
    """The store, as one query reads it."""

    options: EventOptions
    chosen: tuple[Field, ...]
    schema: pa.Schema
    run_id: UUID

    @classmethod
    def of(cls, options: EventOptions, schema: StructType, run_id: UUID) -> Events:
        """Raises ConfigError for columns that there are not."""
        chosen = asked_for(schema, options.columns, EVENTS)
        return cls(options, chosen, arrow_schema(schema, chosen), run_id)

    def connect(self) -> SyncConnection:
        """Raises StorageUnavailable."""
        return connect(self.options.url)

    def check(self, connection: SyncConnection) -> None:
        """Raises ConfigError where this role does not see the events of all tenants."""
        if self.one(connection, "describe", {})[0]:
            raise ConfigError(
                f"row-level security hides events of store {self.options.store_schema} from this role; read as the "
                "store's owner, or as a role with BYPASSRLS"
            )

    def horizon(self, connection: SyncConnection) -> int:
        """How far may be read now."""
        return int(self.one(connection, "horizon", {})[0])

    def nth(self, connection: SyncConnection, after: int, horizon: int, count: int) -> int:
        """How far the next ``count`` wanted events reach."""
        values = {"after": after, "horizon": horizon, "limit": count, **self._wanted()}
        return int(self.one(connection, "nth_position", values)[0])

    def read(self, share: InputPartition) -> Iterator[pa.RecordBatch]:
        """One share, on an executor, page by page as ``relay.eventstore.read`` does."""
        if not isinstance(share, Share):
            raise StorageError("the reader's shares are ranges of positions; it is to be called by Spark")
        statements = SparkStatements(TableName(), DEFAULT_SCHEMA)
        with (
            translating("reading events"),
            slot(self.run_id, self.options.max_connections, statements, self.connect) as connection,
        ):
            self._wait_until_there(connection, share.until)
            after = share.after
            while after < share.until:
                values = {"after": after, "horizon": share.until, "limit": _PAGE_EVENTS, **self._wanted()}
                page = connection.execute(self._text("feed_page"), values).fetchall()
                if page:
                    yield from self._fetch(connection, page, values)
                after = int(page[-1][0]) if len(page) == _PAGE_EVENTS else share.until

    def one(self, connection: SyncConnection, name: str, values: dict[str, Any]) -> tuple[Any, ...]:
        """The one row of a statement of the store's."""
        row = connection.execute(self._text(name), values).fetchone()
        if row is None:
            raise StorageError(f"{name}: the statement gave no row")
        return row

    def _fetch(
        self, connection: SyncConnection, page: Sequence[tuple[Any, ...]], values: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        tenants = list(dict.fromkeys(tenant for _, tenant in page))
        names = [field.name for field in self.chosen]
        for start in range(0, len(tenants), PARTITIONS_AT_ONCE):
            wanted = {**values, "tenants": tenants[start : start + PARTITIONS_AT_ONCE], "last": page[-1][0]}
            for rows in portions(connection, self._text("fetch"), wanted):
                batch = decode(rows, _KINDS, _WHOLE).select(names)
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _wait_until_there(self, connection: SyncConnection, until: int) -> None:
        """A task may be connected to a standby that is behind the server that the driver asked."""
        deadline = time.monotonic() + _PATIENCE
        while int(self.one(connection, "horizon", {})[1]) < until:
            if time.monotonic() > deadline:
                raise StorageUnavailable(f"this server has been behind position {until} for too long; is it a standby?")
            time.sleep(_LOOK_EVERY)

    def _wanted(self) -> dict[str, Any]:
        tenants, types = self.options.tenants, self.options.types
        return {
            "tenants": None if tenants is None else list(tenants),
            "types": None if types is None else list(types),
        }

    def _text(self, name: str) -> LiteralString:
        return statement(f"eventstore/read:{name}", names={STORE_SCHEMA: self.options.store_schema})
