"""Creates the store's tables, functions and triggers.

Safe to repeat and to run from several processes at once; a store that already matches is not changed. Everything
happens in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, LiteralString

from relay.core.errors import ConfigError
from relay.eventstore.database import Connection, execute
from relay.eventstore.part import StorePart
from relay.eventstore.statements import EventStoreStatements

Positions = Literal["gapless", "settled"]
Access = Literal["reader", "writer", "subscriber"]

_GRANTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reader": ("grants_read",),
    "writer": ("grants_append",),
    "subscriber": ("grants_read", "grants_subscribe"),
}


def grants(statements: EventStoreStatements, positions: str, role: str, access: Access) -> list[LiteralString]:
    """The statements that grant ``role`` an access, for a store with these positions."""
    return [
        statement
        for file in _GRANTS[access]
        for statement in statements.definitions(f"eventstore/{file}", positions, role=role)
    ]


class SchemaPart(StorePart):
    """Creating the store, and securing it."""

    async def migrate(self, *, positions: Positions = "gapless", notify: bool = True) -> None:
        """Create the store, or bring it up to date; repeatable. ``notify`` may change, ``positions`` may not.

        Raises ``ConfigError`` when the store exists with other positions.
        """
        if positions not in ("gapless", "settled"):
            raise ConfigError(f"positions: {positions!r}; choose 'gapless' or 'settled'")
        statements = self._statements
        async with self._database.connection("create the event store") as connection, connection.transaction():
            await execute(connection, statements.text("eventstore/migrate:lock"))
            state = await _settings(connection, statements)
            if state == (positions, notify):
                return
            if state is None:
                await _create(connection, statements, positions)
            elif state[0] != positions:
                raise ConfigError(
                    f"positions: this store has {state[0]!r}, which cannot change to {positions!r}; export the "
                    f"tenants, create a store in another schema with {positions!r} and import them there"
                )
            await execute(connection, statements.text("eventstore/notify:on" if notify else "eventstore/notify:off"))
            saved = {"positions": positions, "notify": notify}
            await execute(connection, statements.text("eventstore/migrate:save_settings"), saved)

    async def grant(self, role: str, access: Access) -> None:
        """Grant database role ``role`` the rights of a reader, a writer or a subscriber, and no more. Repeatable.

        A subscriber may also read. No role but the owner may use the store before. Raises ``ConfigError`` for another
        access, and when the store does not exist.
        """
        if access not in _GRANTS:
            raise ConfigError(f"access: {access!r}; choose from {', '.join(_GRANTS)}")
        async with self._database.connection(f"grant {access} to {role}") as connection, connection.transaction():
            await self._grant(connection, await self._positions(connection), role, _GRANTS[access])

    async def isolate_tenants(self, role: str) -> None:
        """Let database role ``role`` append and read, but only within the tenant of its session.

        That is the setting ``eventstore.tenant``, which ``connect(tenant=...)`` sets. The store's owner still sees
        everything. It guards against mistakes, not against an application that sends SQL of its own choosing.
        """
        async with self._database.connection("isolate tenants") as connection, connection.transaction():
            positions = await self._positions(connection)
            await self._grant(connection, positions, role, ("isolation", *_GRANTS["reader"], *_GRANTS["writer"]))

    async def _positions(self, connection: Connection) -> str:
        state = await _settings(connection, self._statements)
        if state is None:
            raise ConfigError("the event store does not exist yet; call migrate first")
        return state[0]

    async def _grant(self, connection: Connection, positions: str, role: str, files: tuple[str, ...]) -> None:
        for file in files:
            for statement in self._statements.definitions(f"eventstore/{file}", positions, role=role):
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
    await execute(connection, statements.definition("eventstore/append:close_append"))


async def _settings(connection: Connection, statements: EventStoreStatements) -> tuple[str, bool] | None:
    exists = await execute(connection, statements.text("eventstore/migrate:exists"))
    if not exists[0][0]:
        return None
    rows = await execute(connection, statements.text("eventstore/migrate:settings"))
    return (rows[0][0], rows[0][1]) if rows else None
