"""The migrations of the event store's schema, oldest first. The mechanism is ``relay.postgres.migrations``.

A change of a table is a new migration here and a new file below ``sql/eventstore/migrations``. A change of a function
is an edit of its definition, and a new migration as well, which brings it to the stores that exist.
"""

from __future__ import annotations

from typing import LiteralString

from relay.core.errors import ConfigError
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.grants import create_schema_remedy
from relay.postgres.migrations import Migration, MigrationPlan, Query, Run, SchemaHistory, record_statements


class StoreSchema(SchemaHistory):
    """The history of a store with these positions, in the schema of ``statements``, which it creates."""

    doing = "migrate the event store"

    def __init__(self, statements: EventStoreStatements, positions: str, *, notify: bool = True) -> None:
        super().__init__(
            record_statements(statements.record_names),
            _migrations(statements, gapless=positions == "gapless"),
            tuple(_definitions(statements, positions)),
            statements.definition("eventstore/migrate:adopted_version"),
        )
        self._sql = statements
        self._positions = positions
        self._notify = notify
        self.notify_changed = False
        """Whether notifications are switched; known after ``plan``."""

    def plan(self) -> Run[MigrationPlan]:
        """Raises ConfigError for a store with other positions."""
        state = None
        if (yield self._query("exists"))[0][0]:
            rows = yield self._query("settings")
            state = rows[0] if rows else None
        if state is not None and state[0] != self._positions:
            raise ConfigError(
                f"positions: this store has {state[0]!r}, which cannot change to {self._positions!r}; export the "
                f"tenants, create a store in another schema with {self._positions!r} and import them there"
            )
        self.notify_changed = state is None or state[1] != self._notify
        return (yield from super().plan())

    def apply(self, plan: MigrationPlan) -> Run[None]:
        """Create the schema first, and switch notifications last."""
        exists = yield self._query("schema_exists", schema=self._sql.schema)
        if not exists[0][0]:
            yield self._query("create_schema")._replace(reads=False)
        yield from super().apply(plan)
        if self.notify_changed:
            yield Query(
                self._sql.text("eventstore/notify:on" if self._notify else "eventstore/notify:off"), {}, reads=False
            )
            saved = self._query("save_settings", positions=self._positions, notify=self._notify)
            yield saved._replace(reads=False)

    def remedy(self, user: str) -> str:
        """Its owner has the rights."""
        return create_schema_remedy(self._sql.schema, user)

    def _query(self, name: str, **values: object) -> Query:
        return Query(self._sql.text(f"eventstore/migrate:{name}"), values)


def _migrations(statements: EventStoreStatements, *, gapless: bool) -> tuple[Migration, ...]:
    def files(*names: str) -> tuple[LiteralString, ...]:
        return tuple(sql for name in names for sql in statements.definitions(f"eventstore/migrations/{name}"))

    return (
        Migration(1, "tables", files("0001_tables", "0001_tables_gapless" if gapless else "0001_tables_settled")),
        Migration(2, "functions for granted roles only, settled horizon in signed numbers", ()),
        Migration(3, "positions from the store only", files(*(["0003_gapless"] if gapless else []))),
        Migration(4, "an id of the store, for its announcements", files("0004_store_id")),
        Migration(5, "notifications without content where tenants are isolated", ()),
        Migration(6, "ids of events, for appends that may be repeated", files("0006_event_ids")),
        Migration(7, "subscriptions consumed in parts", files("0007_consumer_groups")),
        Migration(8, "deleted streams, and stored events that refuse changes", files("0008_tombstones")),
        Migration(9, "time in proportion to the events of a transaction, where positions have no gaps", ()),
        Migration(10, "checkpoints that name the event that was read", files("0010_checkpoints")),
        Migration(11, "repeated appends whose metadata differs", ()),
        Migration(12, "streams that a subscription has set aside", files("0012_parked")),
        Migration(13, "no stranger's lock stops the readers of settled positions", ()),
        Migration(
            14,
            "appends as quick while an old snapshot is open, where positions have no gaps",
            files(*(["0014_gapless"] if gapless else [])),
        ),
        Migration(15, "no gap behind a row that was left out, and no counter that was not carried over", ()),
        Migration(
            16,
            "a secret of the store, for what a session must not forge: announcements' ids, registrations of positions",
            files("0016_secret"),
        ),
        Migration(17, "no registration outlives its savepoint, and no stranger's lock stops a stream", ()),
        Migration(18, "notifications sent after the commit of their append", ()),
        Migration(19, "no notification from another's transaction while the server's queue fills", ()),
    )


def _definitions(statements: EventStoreStatements, positions: str) -> list[LiteralString]:
    kind = "eventstore/positions_gapless" if positions == "gapless" else "eventstore/positions_settled"
    appending = ("append_function", "append_once_function", "append_procedure", "announce_function")
    files = (kind, *(f"eventstore/{file}" for file in ("definitions", "protection", *appending, "rights")))
    return [sql for file in files for sql in statements.definitions(file, positions)]
