"""How the tables of a room come to be what this release needs: one run for every room.

A room (the outbox, its extensions, the inbox, the event store, the delivery log, Spark's ledgers) is a ``Schema``: it
reads what is there and lists the steps that are missing, in their order. How these are run is decided here:

- One run at a time for each schema. A run that waits ``LONGEST_WAIT`` seconds for another one raises ``StorageBusy``.
  What is missing is read behind that lock, so of several runs at once the later ones find nothing to do.
- The steps are one transaction: a run that fails has changed nothing. Steps ``alone`` (CREATE INDEX CONCURRENTLY) are
  run one by one on a second connection; after a failure the next run continues there.
- A statement that waits longer than ``lock_timeout`` seconds for a table ends the run with ``StorageBusy``, because
  writers queue behind it. Run it again when the long transaction has ended.
- A missing right raises ``SchemaError``, which names the GRANT.
- A dry run reads only, and locks nothing.

A ``SchemaHistory`` records what it has applied, for rooms whose tables change between releases:

- ``migrations``: changes of what holds data (tables, columns, rights), numbered 1, 2, 3 …. Each runs once. A migration
  that was released is never edited; a further change is a further migration.
- ``definitions``: what holds no data (functions, triggers, who may execute them), as it must be now. They can be
  repeated, and run after the migrations whenever one was applied. So a changed definition reaches an existing schema
  only together with a new migration, which may have no statements of its own.
- ``adopted_version``: a query for the version of a schema that was created before versions were recorded, 0 when the
  schema is new. Its migrations up to that version are recorded and not run.
- The record is a table in the room's schema (``sql/migrations.sql``): number, name and time of each applied migration.
  The version of a schema is the highest number. A schema with a higher version than this release knows is left as it
  is: during a rolling upgrade the old processes may still run migrate.

A run is a generator of statements, so that synchronous connections, asynchronous ones (``relay.postgres.migrate``) and
ClickHouse run the same. No database library is imported: the plan is read where there is none.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString, NamedTuple, TypeAlias, TypeVar

from relay.core.durations import in_words
from relay.core.errors import StorageBusy
from relay.postgres.sql import statement

LOCK_TIMEOUT: Final = 5
"""Seconds for which a statement waits for a table."""
LONGEST_WAIT: Final = 600.0
"""Seconds for which a run waits for another one."""
_POLL: Final = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: a change of a schema."""

    number: int
    name: str
    """What it changes, for operators."""
    statements: tuple[LiteralString, ...]
    """Sent in this order, without parameters."""
    alone: bool = False
    """Whether each statement must be outside a transaction."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What a run would apply, or has applied."""

    version: int
    """The recorded version of the schema before; 0 for a new one, and where none is recorded."""
    recorded: bool
    """Whether the database has a record of it."""
    pending: tuple[Migration, ...]
    definitions: tuple[LiteralString, ...]
    """Sent after the pending migrations; empty when there is none."""

    @property
    def up_to_date(self) -> bool:
        """Nothing is pending."""
        return not self.pending


class Query(NamedTuple):
    """A statement of a run."""

    sql: LiteralString
    values: Mapping[str, Any] | None = None
    """None sends the statement without parameters."""
    reads: bool = True
    """Whether it returns rows."""
    alone: bool = False
    """Outside the run's transaction, on the second connection."""


Item: TypeAlias = Query | Migration | float
"""What a run asks for: the rows of a query; that an applied migration is reported; a pause in seconds."""
Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")
Run: TypeAlias = Generator[Item, Any, T]


class Schema:
    """A room's tables. A subclass says what is missing; ``doing`` names the work in errors."""

    doing: str = "migrating"
    lock_timeout: float | None = None
    """Seconds; None means ``LOCK_TIMEOUT``."""

    def lock(self) -> Query | None:
        """A query for whether this run now holds the right to change the schema; None where nothing can be locked.

        It must not wait: a statement that waits holds a snapshot, for which CREATE INDEX CONCURRENTLY would wait.
        """
        raise NotImplementedError

    def plan(self) -> Run[MigrationPlan]:
        """What is missing, read from the database."""
        raise NotImplementedError

    def remedy(self, user: str) -> str:
        """What to do where ``user`` lacks a right."""
        raise NotImplementedError

    def apply(self, plan: MigrationPlan) -> Run[None]:
        """Apply what is pending."""
        if any(migration.alone for migration in plan.pending):
            # A statement with parameters keeps its snapshot until the next one in its transaction, and CREATE INDEX
            # CONCURRENTLY would wait for that. The lock has none, and is held already.
            lock = self.lock()
            if lock is not None:
                yield lock
        elif plan.pending:
            yield from self._bound_waits()
        for migration in plan.pending:
            for sql in migration.statements:
                yield Query(sql, reads=False, alone=migration.alone)
            yield from self._applied(migration)
            yield migration
        for sql in plan.definitions:
            yield Query(sql, reads=False)

    def _bound_waits(self) -> Run[None]:
        seconds = LOCK_TIMEOUT if self.lock_timeout is None else self.lock_timeout
        yield Query(statement("migrations:lock_timeout"), {"seconds": seconds})

    def _applied(self, migration: Migration) -> Run[None]:  # noqa: ARG002 - only a record needs it
        yield from ()


class SchemaHistory(Schema):
    """The migrations of one room's schema, with their record."""

    def __init__(
        self,
        statements: Callable[[str], LiteralString],
        migrations: tuple[Migration, ...],
        definitions: tuple[LiteralString, ...],
        adopted_version: LiteralString | None,
    ) -> None:
        """``statements`` returns those of the record, by name: ``record_statements``.

        Raises ValueError unless the migrations are numbered 1, 2, 3 … in their order.
        """
        if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
            raise ValueError("migrations: their numbers must be 1, 2, 3 … without a gap")
        self._statements = statements
        self._migrations = migrations
        self._definitions = definitions
        self._adopted_version = adopted_version

    @property
    def newest(self) -> int:
        """The version that this release creates."""
        return len(self._migrations)

    def lock(self) -> Query | None:
        """One lock for each schema."""
        return Query(self._statements("lock"), {})

    def plan(self) -> Run[MigrationPlan]:
        """The migrations above the recorded version."""
        recorded = bool((yield self._exists())[0][0])
        version = 0
        if recorded:
            version = int((yield Query(self._statements("version"), {}))[0][0])
        elif self._adopted_version is not None:
            version = int((yield Query(self._adopted_version))[0][0])
        pending = self._migrations[version:]
        return MigrationPlan(version, recorded, pending, self._definitions if pending else ())

    def apply(self, plan: MigrationPlan) -> Run[None]:
        """Apply and record what is pending; record what an earlier release has applied."""
        if plan.up_to_date and plan.recorded:
            return
        yield Query(self._statements("create"), {}, reads=False)
        if not plan.recorded:
            for migration in self._migrations[: plan.version]:
                yield from self._applied(migration)
        yield from super().apply(plan)

    def _exists(self) -> Query:
        return Query(self._statements("exists"), {})

    def _applied(self, migration: Migration) -> Run[None]:
        yield Query(self._statements("record"), {"number": migration.number, "name": migration.name}, reads=False)


def migrating(schema: Schema, *, dry_run: bool = False, wait: float = LONGEST_WAIT) -> Run[MigrationPlan]:
    """One run, as the statements that it sends. Returns what it applied, or with ``dry_run`` what is missing."""
    lock = schema.lock()
    if lock is not None and not dry_run:
        yield from _locked(schema.doing, lock, wait)
    plan = yield from schema.plan()
    if not dry_run:
        yield from schema.apply(plan)
    return plan


def drive(run: Run[T], answer: Callable[[Item], Rows]) -> T:
    """Answer all that a run asks for; returns its result."""
    rows: Rows | None = None
    while True:
        try:
            item = run.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result
        rows = answer(item)


async def drive_async(run: Run[T], answer: Callable[[Item], Awaitable[Rows]]) -> T:
    """As ``drive``, where answers are awaited."""
    rows: Rows | None = None
    while True:
        try:
            item = run.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result
        rows = await answer(item)


def record_statements(names: Mapping[str, Any]) -> Callable[[str], LiteralString]:
    """The statements of a record in PostgreSQL; ``names`` places it: ``public`` and ``schema_migration``."""
    return lambda name: statement(f"migrations:{name}", names=names)


def _locked(doing: str, lock: Query, wait: float) -> Run[None]:
    until = time.monotonic() + wait
    while not (yield lock)[0][0]:
        if time.monotonic() >= until:
            raise StorageBusy(f"{doing}: another migrate has been running in this database for {in_words(wait)}")
        yield _POLL
