"""Creates the store's tables, functions and triggers, and upgrades a store of an earlier release.

Safe to repeat and to run from several processes at once; a store that already matches is not changed. Everything
happens in one transaction. What an upgrade applies is in ``relay.eventstore.migration_list``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, LiteralString

from relay.core.errors import ConfigError
from relay.eventstore.database import NO_DEADLINE, Connection, execute
from relay.eventstore.migration_list import StoreSchema
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.store_part import StorePart
from relay.postgres.migrate import migrate_async
from relay.postgres.migrations import MigrationPlan

Positions = Literal["gapless", "settled"]
Access = Literal["reader", "writer", "subscriber", "console"]

_GRANTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reader": ("grants_read",),
    "writer": ("grants_append",),
    "subscriber": ("grants_read", "grants_subscribe"),
    "console": ("grants_console",),
}


@dataclass(frozen=True, slots=True)
class StoreMigration:
    """What ``migrate`` applied, or would apply."""

    plan: MigrationPlan
    notify_changed: bool
    """Whether notifications were switched."""

    @property
    def up_to_date(self) -> bool:
        """Nothing was to be done."""
        return self.plan.up_to_date and not self.notify_changed


def grants(statements: EventStoreStatements, positions: str, role: str, access: Access) -> list[LiteralString]:
    """The statements that grant ``role`` an access, for a store with these positions."""
    return [
        statement
        for file in _GRANTS[access]
        for statement in statements.definitions(f"eventstore/{file}", positions, role=role)
    ]


class SchemaPart(StorePart):
    """Creating the store, and securing it."""

    async def migrate(
        self, *, positions: Positions = "gapless", notify: bool = True, dry_run: bool = False
    ) -> StoreMigration:
        """Create the store, or upgrade it; repeatable. ``notify`` may change, ``positions`` may not.

        Returns what was applied, or with ``dry_run`` what would be; then nothing changes. Appends and reads go on,
        except for an instant. Raises ``ConfigError`` when the store exists with other positions, and ``StorageBusy``
        when a transaction in progress keeps a table locked; nothing was changed then, run it again.
        """
        if positions not in ("gapless", "settled"):
            raise ConfigError(f"positions: {positions!r}; choose 'gapless' or 'settled'")
        schema = StoreSchema(self._statements, positions, notify=notify)
        # No deadline: a step may rewrite a table, and what it waits for has a timeout of its own.
        plan = await self._database.run(
            schema.doing, lambda connection: migrate_async(connection, schema, dry_run=dry_run), NO_DEADLINE
        )
        return StoreMigration(plan, schema.notify_changed)

    async def grant(self, role: str, access: Access) -> None:
        """Grant database role ``role`` the rights of a reader, a writer, a subscriber or the console.

        The documents list them. Repeatable. A subscriber may also read. No role but the owner may use the store
        before. Raises ``ConfigError`` for another access, and when the store does not exist.
        """
        if access not in _GRANTS:
            raise ConfigError(f"access: {access!r}; choose from {', '.join(_GRANTS)}")
        await self._database.transaction(
            f"grant {access} to {role}", lambda connection: self._grant(connection, role, *_GRANTS[access])
        )

    async def isolate_tenants(self, role: str) -> None:
        """Let database role ``role`` append, read and subscribe, but only within the tenant of its session.

        That is the setting ``eventstore.tenant``, which ``connect(tenant=...)`` sets. The store's owner still sees
        everything. Notifications have no content from now on. It guards against mistakes, not against an application
        that sends SQL of its own choosing.
        """
        files = ("isolation", *_GRANTS["subscriber"], *_GRANTS["writer"])
        # No deadline: it locks the tables, after the transactions that use them.
        await self._database.transaction(
            "isolate tenants", lambda connection: self._grant(connection, role, *files), NO_DEADLINE
        )

    async def _positions(self, connection: Connection) -> str:
        if (await execute(connection, self._statements.text("eventstore/migrate:exists")))[0][0]:
            rows = await execute(connection, self._statements.text("eventstore/migrate:settings"))
            if rows:
                return str(rows[0][0])
        raise ConfigError("the event store does not exist yet; call migrate first")

    async def _grant(self, connection: Connection, role: str, *files: str) -> None:
        positions = await self._positions(connection)
        for file in files:
            for statement in self._statements.definitions(f"eventstore/{file}", positions, role=role):
                await execute(connection, statement)
