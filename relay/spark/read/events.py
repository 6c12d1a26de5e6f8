"""Events of all tenants by position, for the event store's batch reader and its stream.

No event is skipped, by the store's own rule (``event_horizon``): every position up to the horizon belongs to a
transaction that has ended, and is visible to every later statement. The driver reads the horizon, then the tasks read
up to it. Events never change, so a repeated read of a share returns the same rows, except for tenants that were dropped
meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, LiteralString

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from relay.core.checkpoint import START, Checkpoint, checkpoint_values
from relay.core.errors import ConfigError, PositionsWentBack, StorageError, StorageUnavailable
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import DEFAULT_SCHEMA as STORE_SCHEMA
from relay.postgres.sql import PARTITIONS_AT_ONCE, statement
from relay.spark.connection import Wait, closing, connect, transaction
from relay.spark.read.copyout import portions
from relay.spark.read.decode import decode
from relay.spark.read.fields import EVENTS, Field, arrow_schema, requested_fields, schema_of
from relay.spark.read.read_options import EventOptions

_PAGE_EVENTS: Final = 10_000
_EVENTS_WORTH_A_TASK: Final = 2_000
_PATIENCE: Final = 60.0  # seconds for which a standby is retried
_POLL_INTERVAL: Final = 0.1  # seconds
_KINDS: Final = [field.kind for field in EVENTS]
_WHOLE: Final = arrow_schema(schema_of(EVENTS), EVENTS)


@dataclass
class Share(InputPartition):
    """The positions of one task: after the first, up to the second."""

    after: int
    until: int


def shares(after: int, until: int, most: int) -> list[Share]:
    """Up to ``most`` shares of a range of positions; none of an empty one."""
    if until <= after:
        return []
    count = max(1, min(most, (until - after) // _EVENTS_WORTH_A_TASK))
    edges = [after + (until - after) * number // count for number in range(count + 1)]
    return [Share(start, end) for start, end in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Events:
    """The event store for one query."""

    options: EventOptions
    chosen: tuple[Field, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, options: EventOptions, schema: StructType) -> Events:
        """The store for the columns of ``schema``. Raises ConfigError for an unknown column."""
        chosen = requested_fields(schema, options.columns, EVENTS)
        return cls(options, chosen, arrow_schema(schema, chosen))

    def connect(self, wait: Wait | None = None) -> SyncConnection:
        """Open a connection. Raises StorageUnavailable."""
        return connect(self.options.url, wait=wait or Wait(self.options.max_wait))

    def check(self, connection: SyncConnection) -> None:
        """Raises ConfigError for a role that does not see the events of all tenants."""
        if self.one(connection, "describe", {})[0]:
            raise ConfigError(
                f"row-level security hides events of store {self.options.store_schema} from this role; read as the "
                "store's owner, or as a role with BYPASSRLS"
            )

    def horizon(self, connection: SyncConnection) -> int:
        """The position up to which may be read now."""
        return int(self.one(connection, "horizon", {})[0])

    def newest(self, connection: SyncConnection) -> int:
        """The position of the newest event, whether it may be read already or not."""
        return int(self.one(connection, "horizon", {})[1])

    def reached(self, connection: SyncConnection, position: int) -> Checkpoint:
        """The checkpoint of the last event up to a position; ``START`` where there is none."""
        row = connection.execute(self._text("last_row"), {"position": position}).fetchone()
        if row is None:
            return START
        found = Checkpoint(*row)
        date = connection.execute(self._text("log_date"), checkpoint_values(found)).fetchone()
        return found._replace(log_date=date[0] if date else None)

    def check_position(self, connection: SyncConnection, checkpoint: Checkpoint) -> None:
        """Raises PositionsWentBack when the event at a checkpoint is another one. A standby may be behind it."""
        _, newest, _, on_standby, *_ = self.one(connection, "horizon", {})
        same = not checkpoint.position > newest
        if same and checkpoint.tenant_id is not None:
            same = self.one(connection, "same_event", checkpoint_values(checkpoint))[0]
        elif on_standby:
            return
        if not same:
            raise PositionsWentBack(checkpoint.position, newest)

    def nth(self, connection: SyncConnection, after: int, horizon: int, count: int) -> int:
        """The position of the ``count``-th next event that the options select."""
        values = {"after": after, "horizon": horizon, "limit": count, **self._selection()}
        return int(self.one(connection, "nth_position", values)[0])

    def read(self, share: InputPartition) -> Iterator[pa.RecordBatch]:
        """One share, on an executor, page by page as ``relay.eventstore.read`` does."""
        if not isinstance(share, Share):
            raise StorageError("the reader's shares are ranges of positions; only Spark may call the reader")
        with (
            translating("reading events"),
            closing(self.connect()) as connection,
            transaction(connection, reads=True),
        ):
            self._wait_until_visible(connection, share.until)
            after = share.after
            while after < share.until:
                values = {"after": after, "horizon": share.until, "limit": _PAGE_EVENTS, **self._selection()}
                page = connection.execute(self._text("feed_page"), values).fetchall()
                if page:
                    yield from self._fetch(connection, page, values)
                after = int(page[-1][0]) if len(page) == _PAGE_EVENTS else share.until

    def one(self, connection: SyncConnection, name: str, values: dict[str, Any]) -> tuple[Any, ...]:
        """The only row of a statement of the store's."""
        (row,) = connection.execute(self._text(name), values).fetchall()
        return row

    def _fetch(
        self, connection: SyncConnection, page: Sequence[tuple[Any, ...]], values: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        tenants = list(dict.fromkeys(tenant for _, tenant in page))
        names = [field.name for field in self.chosen]
        for start in range(0, len(tenants), PARTITIONS_AT_ONCE):
            page_values = {**values, "tenants": tenants[start : start + PARTITIONS_AT_ONCE], "last": page[-1][0]}
            for rows in portions(connection, self._text("fetch"), page_values):
                batch = decode(rows, _KINDS, _WHOLE).select(names)
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def _wait_until_visible(self, connection: SyncConnection, until: int) -> None:
        """Wait for a standby that is behind the driver's server. Raises StorageUnavailable after a minute."""
        deadline = time.monotonic() + _PATIENCE
        while int(self.one(connection, "horizon", {})[1]) < until:
            if time.monotonic() > deadline:
                raise StorageUnavailable(
                    f"this server has been behind position {until} for {_PATIENCE:.0f} s; is it a standby?"
                )
            time.sleep(_POLL_INTERVAL)

    def _selection(self) -> dict[str, Any]:
        tenants, types = self.options.tenants, self.options.types
        return {
            "tenants": None if tenants is None else list(tenants),
            "types": None if types is None else list(types),
        }

    def _text(self, name: str) -> LiteralString:
        return statement(f"eventstore/read:{name}", names={STORE_SCHEMA: self.options.store_schema})
