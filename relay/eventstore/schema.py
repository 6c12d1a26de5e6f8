"""Makes the store's tables, functions and triggers. For ``EventStore.migrate`` only.

Safe to repeat and to run from several processes at once; a store that is as asked is not touched. Everything happens
in one transaction.
"""

from __future__ import annotations

from typing import Literal

from relay.core.errors import ConfigError
from relay.eventstore.database import Connection, Database, execute
from relay.eventstore.statements import EventStoreStatements

Positions = Literal["gapless", "settled"]


async def migrate(database: Database, statements: EventStoreStatements, positions: str, notify: bool) -> None:
    """Bring the schema to what was asked. Raises ConfigError when the store was made with other positions."""
    if positions not in ("gapless", "settled"):
        raise ConfigError(f"positions: {positions!r}; choose 'gapless' or 'settled'")
    async with database.connection("make the event store") as connection, connection.transaction():
        await execute(connection, statements.text("eventstore/migrate:lock"))
        state = await _settings(connection, statements)
        if state == (positions, notify):
            return
        if state is None:
            await _create(connection, statements, positions)
        elif state[0] != positions:
            raise ConfigError(
                f"positions: this store was made with {state[0]!r} and cannot become {positions!r}; export the "
                f"tenants, make a store in another schema with {positions!r} and import them there"
            )
        await execute(connection, statements.text("eventstore/notify:on" if notify else "eventstore/notify:off"))
        saved = {"positions": positions, "notify": notify}
        await execute(connection, statements.text("eventstore/migrate:save_settings"), saved)


async def isolate(database: Database, statements: EventStoreStatements, role: str) -> None:
    """Switch row-level security on and let ``role`` read and append within one tenant at a time."""
    async with database.connection("isolate tenants") as connection, connection.transaction():
        state = await _settings(connection, statements)
        if state is None:
            raise ConfigError("the event store has not been made yet; call migrate first")
        for statement in statements.definitions("eventstore/isolation", state[0], role=role):
            await execute(connection, statement)


async def _create(connection: Connection, statements: EventStoreStatements, positions: str) -> None:
    exists = await execute(
        connection, statements.text("eventstore/migrate:schema_exists"), {"schema": statements.schema}
    )
    if not exists[0][0]:
        await execute(connection, statements.text("eventstore/migrate:create_schema"))
    kind = "eventstore/positions_gapless" if positions == "gapless" else "eventstore/positions_settled"
    for statement in statements.definitions("eventstore/schema") + statements.definitions(kind):
        await execute(connection, statement)
    await execute(connection, statements.definition("eventstore/append:append_function", positions))


async def _settings(connection: Connection, statements: EventStoreStatements) -> tuple[str, bool] | None:
    exists = await execute(connection, statements.text("eventstore/migrate:is_made"))
    if not exists[0][0]:
        return None
    rows = await execute(connection, statements.text("eventstore/migrate:settings"))
    return (rows[0][0], rows[0][1]) if rows else None
