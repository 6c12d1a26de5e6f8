"""Numbered migrations of a room's schema, and the version that the database has recorded.

A room (the event store, the delivery log) describes its schema as a ``SchemaHistory``:

- ``migrations``: changes of what holds data (tables, columns, rights), numbered 1, 2, 3 …. Each runs once. A migration
  that was released is never edited; a further change is a further migration.
- ``definitions``: what holds no data (functions, triggers, who may execute them), as it must be now. They can be
  repeated, and run after the migrations whenever one was applied. So a changed definition reaches an existing schema
  only together with a new migration, which may have no statements of its own.
- ``adopted_version``: a query for the version of a schema that was created before versions were recorded, 0 when the
  schema is new. Its migrations up to that version are recorded and not run.

The record is a table in the room's schema (``sql/migrations.sql``): number, name and time of each applied migration.
The version of a schema is the highest number.

Who runs it, and when:

- One transaction holds everything, behind one advisory lock for each schema. Concurrent runs wait for one another and
  the later ones find nothing to do. A run that fails has changed nothing.
- A statement that waits longer than ``LOCK_TIMEOUT`` seconds for a table ends the run with ``StorageBusy``, because
  writers queue behind it. Run it again when the long transaction has ended.
- A schema with a higher version than this release knows is left as it is: during a rolling upgrade the old processes
  may still run migrate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from relay.postgres.sql import Name, statement

if TYPE_CHECKING:  # the plan is read where no database library is imported
    from relay.postgres.connect import Connection

LOCK_TIMEOUT: Final = 5
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One change of a schema."""

    number: int
    name: str
    """What it changes, for operators; recorded with the number."""
    statements: tuple[LiteralString, ...]
    """Sent in this order, without parameters."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What a run would apply, or has applied."""

    version: int
    """The version of the schema before; 0 for a new one."""
    recorded: bool
    """Whether the database has a record of it."""
    pending: tuple[Migration, ...]
    definitions: tuple[LiteralString, ...]
    """Sent after the pending migrations; empty when there is none."""

    @property
    def up_to_date(self) -> bool:
        """Nothing is pending."""
        return not self.pending


class SchemaHistory:
    """The migrations of one room's schema. ``names`` places the record: ``public`` and ``schema_migration``.

    The caller opens the transaction that ``apply`` needs, and translates the driver's errors.
    """

    def __init__(
        self,
        names: Mapping[str, Name],
        migrations: tuple[Migration, ...],
        definitions: tuple[LiteralString, ...],
        adopted_version: LiteralString,
    ) -> None:
        """Raises ValueError unless the migrations are numbered 1, 2, 3 … in their order."""
        if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
            raise ValueError("migrations: their numbers must be 1, 2, 3 … without a gap")
        self._names = dict(names)
        self._migrations = migrations
        self._definitions = definitions
        self._adopted_version = adopted_version

    @property
    def newest(self) -> int:
        """The version that this release creates."""
        return len(self._migrations)

    async def lock(self, connection: Connection) -> None:
        """Wait until no other transaction migrates this schema; then hold that right until this one ends."""
        await self._run(connection, "migrations:lock")

    async def plan(self, connection: Connection) -> MigrationPlan:
        """What ``apply`` would do now. Reads only, and locks nothing."""
        recorded = bool((await self._run(connection, "migrations:exists"))[0][0])
        if recorded:
            version = int((await self._run(connection, "migrations:version"))[0][0])
        else:
            cursor = await connection.execute(self._adopted_version, prepare=False)
            row = await cursor.fetchone()
            version = 0 if row is None else int(row[0])
        pending = self._migrations[version:]
        return MigrationPlan(version, recorded, pending, self._definitions if pending else ())

    async def apply(self, connection: Connection) -> MigrationPlan:
        """Apply and record what is pending, in the open transaction. Call ``lock`` first; returns what was applied."""
        plan = await self.plan(connection)
        if plan.up_to_date and plan.recorded:
            return plan
        await self._run(connection, "migrations:lock_timeout", {"seconds": LOCK_TIMEOUT})
        await self._run(connection, "migrations:create")
        if not plan.recorded:
            for migration in self._migrations[: plan.version]:
                await self._record(connection, migration)
        for migration in plan.pending:
            for sql in migration.statements:
                await connection.execute(sql, prepare=False)
            await self._record(connection, migration)
        for sql in plan.definitions:
            await connection.execute(sql, prepare=False)
        return plan

    async def _record(self, connection: Connection, migration: Migration) -> None:
        await self._run(connection, "migrations:record", {"number": migration.number, "name": migration.name})

    async def _run(
        self, connection: Connection, path: str, values: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        sql = statement(path, names=self._names)
        cursor = await connection.execute(sql, values, prepare=False)
        return await cursor.fetchall() if cursor.description else []
