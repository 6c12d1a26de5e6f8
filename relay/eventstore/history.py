"""The migrations of the event store's schema, oldest first. The mechanism is ``relay.postgres.migrations``.

A change of a table is a new migration here and a new file below ``sql/eventstore/migrations``. A change of a function
is an edit of its definition, and a new migration as well, which brings it to the stores that exist.
"""

from __future__ import annotations

from typing import LiteralString

from relay.eventstore.statements import EventStoreStatements
from relay.postgres.migrations import Migration, SchemaHistory


def schema_history(statements: EventStoreStatements, positions: str) -> SchemaHistory:
    """The history of a store with these positions, in the schema of ``statements``."""

    def files(*names: str) -> tuple[LiteralString, ...]:
        return tuple(sql for name in names for sql in statements.definitions(f"eventstore/migrations/{name}"))

    gapless = positions == "gapless"
    migrations = (
        Migration(1, "tables", files("0001_tables", "0001_tables_gapless" if gapless else "0001_tables_settled")),
        Migration(2, "functions for granted roles only, settled horizon in signed numbers", ()),
        Migration(3, "positions from the store only", files(*(["0003_gapless"] if gapless else []))),
        Migration(4, "an id of the store, for its announcements", files("0004_store_id")),
        Migration(5, "notifications without content where tenants are isolated", ()),
        Migration(6, "ids of events, for appends that may be repeated", files("0006_event_ids")),
        Migration(7, "subscriptions consumed in parts", files("0007_consumer_groups")),
        Migration(8, "deleted streams, and stored events that refuse changes", files("0008_tombstones")),
        Migration(9, "time in proportion to the events of a transaction, where positions have no gaps", ()),
    )
    return SchemaHistory(
        statements.record_names,
        migrations,
        tuple(_definitions(statements, positions)),
        statements.definition("eventstore/migrate:adopted_version"),
    )


def _definitions(statements: EventStoreStatements, positions: str) -> list[LiteralString]:
    kind = "eventstore/positions_gapless" if positions == "gapless" else "eventstore/positions_settled"
    functions = ("eventstore/append_function", "eventstore/append_once_function", "eventstore/announce_function")
    files = (kind, "eventstore/definitions", "eventstore/protection", *functions, "eventstore/rights")
    return [sql for file in files for sql in statements.definitions(file, positions)]
