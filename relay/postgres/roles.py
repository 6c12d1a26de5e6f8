"""The database's roles: which there are, what each lacks, and making it so; for ``relay-cli roles``.

Which rights a role has stands in the ``grants.sql`` of each room, whose statements the caller hands over. Here they are
compared with the catalog, so that a plan has only what is missing, and a second run finds nothing to do. No superuser
is needed: each step is a transaction of its own, and what this user may not do is left: the next plan still has it,
with the role that must run it. An existing role is used as it is. Raises SchemaError and StorageError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import psycopg

from relay.core.role import Role
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.grants import Holding, Right, bare, holding, rights_of
from relay.postgres.migrations import LOCK_TIMEOUT
from relay.postgres.sql import DEFAULT_TABLE, Name, TableName, quote_identifier, statement, without_parameters

OWNER: Final = "openoutbox_owner"
"""Owns every object of ours; who migrates works as this."""
_DOING: Final = "setting up the roles"
_ROUNDS: Final = 5
_FIRST: Final = re.compile(" ON (SCHEMA|DATABASE) ")
"""Who gets an object must already have the right to create in its schema."""
_AN_ADMINISTRATOR: Final = "a role with CREATEROLE"


class RoleGroup(NamedTuple):
    """A role of the database without login, of which users are made members."""

    name: str
    role: Role
    access: str
    """What the grants of its room call it."""
    work: str
    """What works as this, for people."""


GROUPS: Final = (
    RoleGroup("openoutbox_writer", Role.WRITER, "writer", "the application"),
    RoleGroup("openoutbox_consumer", Role.CONSUMER, "consumer", "a consumer with an inbox in this database"),
    RoleGroup("openoutbox_relay", Role.RELAY, "relay", "the relay; relay-cli check, stats, list, show, replay"),
    RoleGroup("openoutbox_pruner", Role.PRUNE, "prune", "relay-cli prune, inbox prune"),
    RoleGroup("openoutbox_reader", Role.READER, "reader", "dashboards; relay-cli stats, list, show"),
    RoleGroup("openoutbox_operator", Role.OPERATOR, "operator", "relay-cli pause, resume, fleet, inbox retry, skip"),
    RoleGroup("openoutbox_console", Role.CONSOLE, "console", "relay-cli console"),
    RoleGroup(OWNER, Role.MIGRATE, "owner", "relay-cli migrate, also of inbox, log and store; spark setup"),
    RoleGroup("openoutbox_log_recorder", Role.DELIVERYLOG, "record", "the relay's DELIVERY_LOG_URL"),
    RoleGroup("openoutbox_log_reader", Role.DELIVERYLOG, "read", "relay-cli log, Spark's report"),
    RoleGroup("openoutbox_store_writer", Role.EVENTSTORE, "writer", "an application that appends"),
    RoleGroup("openoutbox_store_reader", Role.EVENTSTORE, "reader", "an application that reads"),
    RoleGroup("openoutbox_store_subscriber", Role.EVENTSTORE, "subscriber", "an application that subscribes"),
    RoleGroup("openoutbox_spark_writer", Role.SPARK, "write", "Spark's writes"),
    RoleGroup("openoutbox_spark_archiver", Role.SPARK, "archive", "Spark's archive"),
    RoleGroup("openoutbox_spark_replayer", Role.SPARK, "replay", "Spark's replay"),
)


def groups_of(role: Role) -> list[RoleGroup]:
    """The groups of one role, in their order."""
    return [group for group in GROUPS if group.role is role]


class Grant(NamedTuple):
    """A statement that gives a group its rights, as it stands in its file."""

    group: str
    sql: str


@dataclass(frozen=True, slots=True)
class WantedRoles:
    """How the roles are to be."""

    groups: Sequence[str]
    grants: Sequence[Grant]
    objects: Sequence[str] = ()
    """What the owner is to own where it exists: names of tables, sequences and functions, with schema, quoted."""
    schemas: Sequence[str] = ()
    """Likewise whole schemas of ours."""
    outbox: TableName = field(default_factory=TableName)
    writing: Sequence[str] = ()
    """The rights of a writer on the outbox, granted to ``"app_role"``."""
    migrators: Sequence[str] = ()
    """Users whose sessions are to begin as the owner."""


class RoleStep(NamedTuple):
    """Statements of one transaction."""

    statements: tuple[str, ...]
    by: str
    """Who may run it."""
    needs: str = ""
    """The first statement of a step without which this one would take rights away."""


@dataclass(frozen=True, slots=True)
class RolesPlan:
    """What is missing."""

    steps: tuple[RoleStep, ...]
    user: str

    @property
    def up_to_date(self) -> bool:
        """Nothing is missing."""
        return not self.steps


def plan(connection: SyncConnection, wanted: WantedRoles) -> RolesPlan:
    """What is missing now. Reads the catalog only."""
    with translating(_DOING):
        return _Planner(connection, wanted).plan()


def apply(connection: SyncConnection, wanted: WantedRoles, report: Callable[[str], None] = lambda _: None) -> RolesPlan:
    """Do what this user may, and return what is left. ``report`` receives each statement that has taken effect.

    Raises StorageBusy, to be run again, where a table stays locked by others for ``LOCK_TIMEOUT`` seconds.
    """
    missing = plan(connection, wanted)
    for _ in range(_ROUNDS):
        done = 0
        refused: set[str] = set()
        for step in missing.steps:
            if step.needs in refused or not _taken(connection, step):
                refused.add(step.statements[0])
                continue
            done += 1
            for sql in step.statements:
                report(sql)
        left = plan(connection, wanted)
        if left.up_to_date or not done or left == missing:
            return left
        missing = left
    return missing


def _taken(connection: SyncConnection, step: RoleStep) -> bool:
    """Run a step; False where this user may not, or another run was at the same place: the next plan shows it."""
    try:
        with connection.transaction():
            connection.execute(statement("migrations:lock_timeout"), {"seconds": LOCK_TIMEOUT})
            for sql in step.statements:
                connection.execute(sql.encode())
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.InvalidGrantOperation,
        psycopg.errors.DuplicateObject,
        psycopg.errors.UniqueViolation,
    ):
        return False
    except psycopg.errors.InternalError_ as error:
        if "concurrently" not in str(error):
            raise
        return False
    except psycopg.Error:
        with translating(_DOING):
            raise
    return True


class Foreign(NamedTuple):
    """An object of ours that another role than the owner has."""

    move: str
    holder: str
    superuser: bool
    inherits: bool
    is_member: bool
    has_rights: bool
    is_outbox: bool

    @property
    def object(self) -> str:
        """What it is."""
        return self.move.removeprefix("ALTER ").rpartition(" OWNER TO ")[0].lower()

    @property
    def keeps(self) -> bool:
        """Whether its owner now can go on as before once the object is another's."""
        return self.superuser or (self.has_rights if self.inherits else self.is_member)


def foreign_objects(connection: SyncConnection, owner: str, wanted: WantedRoles) -> list[Foreign]:
    """What of ``wanted.objects`` and ``wanted.schemas`` another role than ``owner`` has. Raises psycopg.Error."""
    values = {"owner": owner, "names": list(wanted.objects), "schemas": list(wanted.schemas)}
    values["outbox"] = wanted.outbox.quoted
    return [Foreign(*row) for row in connection.execute(statement("roles:foreign_objects"), values).fetchall()]


class _Planner:
    """One reading of the catalog."""

    def __init__(self, connection: SyncConnection, wanted: WantedRoles) -> None:
        self._connection = connection
        self._wanted = wanted
        names = [*wanted.groups, OWNER]
        self._existing = {name for (name,) in self._rows("roles:existing", {"names": names})}
        setting = "SET" if connection.info.server_version >= 160_000 else "MEMBER"
        [(self._user, self._acts)] = self._rows("roles:runner", {"owner": OWNER, "setting": setting})

    def plan(self) -> RolesPlan:
        """The steps, in the order in which each has what it needs."""
        roles = [
            RoleStep((_text("roles:create_role", {"app_role": name}),), _AN_ADMINISTRATOR)
            for name in self._wanted.groups
            if name not in self._existing
        ]
        moves = foreign_objects(self._connection, OWNER, self._wanted) if OWNER in self._wanted.groups else []
        grants = list(self._grants())
        members = list(self._members(moves, grants))
        moved = [self._moved(move) for move in moves]
        first = [step for step in grants if _FIRST.search(step.statements[0])]
        others = [step for step in grants if step not in first]
        return RolesPlan((*roles, *members, *first, *moved, *others, *self._acting(members)), self._user)

    def _members(self, moves: Sequence[Foreign], grants: Sequence[RoleStep]) -> Iterator[RoleStep]:
        """Old owners stay able to do what they could; and this user acts for the owner, where that is needed."""
        members = [move.holder for move in moves if not move.keeps]
        if not self._acts and (moves or any(step.by == OWNER for step in grants)):
            members.append(self._user)
        for member in dict.fromkeys(members):
            yield RoleStep((_membership(member),), self._administrators())

    def _acting(self, members: Sequence[RoleStep]) -> Iterator[RoleStep]:
        """The users that migrate are members of the owner, and begin each session as that."""
        values: dict[str, object] = {"users": list(self._wanted.migrators), "role": OWNER}
        able, acting = ({name for (name,) in self._rows(f"roles:{of}", values)} for of in ("members", "acting"))
        for user in self._wanted.migrators:
            needs = "" if user in able else _membership(user)
            if needs and all(needs not in step.statements for step in members):
                yield RoleStep((needs,), self._administrators())
            if user not in acting:
                act = _text("roles:act", {"app_role": user, "group_role": OWNER})
                yield RoleStep((act,), _AN_ADMINISTRATOR, needs)

    def _administrators(self) -> str:
        if self._connection.info.server_version < 160_000 or OWNER not in self._existing:
            return _AN_ADMINISTRATOR
        [(names,)] = self._rows("roles:administrators", {"role": OWNER})
        return f"{names}, or a superuser" if names else "a superuser"

    def _moved(self, found: Foreign) -> RoleStep:
        statements = [found.move]
        if found.is_outbox and not (found.superuser or found.inherits):
            writer = quote_identifier(found.holder)
            statements += [bare(grant.replace('"app_role"', writer)) for grant in self._wanted.writing]
        return RoleStep(tuple(statements), found.holder, "" if found.keeps else _membership(found.holder))

    def _grants(self) -> Iterator[RoleStep]:
        for group, sql in self._wanted.grants:
            rights = rights_of([sql])
            held = [self._held(group, right) for right in rights]
            if Holding.NO_OBJECT in held:
                continue
            narrower = list(self._narrower(group, rights))
            if narrower or Holding.NO in held:
                yield RoleStep((*narrower, bare(sql)), self._owner_of(rights[0]))

    def _held(self, group: str, right: Right) -> Holding:
        known = group in self._existing
        held = holding(self._connection, right, group if known else self._user)
        return Holding.NO if held is Holding.YES and not known else held

    def _narrower(self, group: str, rights: Sequence[Right]) -> Iterator[str]:
        """INSERT on all columns, which earlier releases granted, is taken back before some are granted."""
        by_column = {right.object for right in rights if right.privilege == "INSERT" and right.column}
        for name in by_column if group in self._existing else ():
            if self._rows("roles:whole_insert", {"object": name, "role": group}) == [(True,)]:
                yield _text("roles:revoke_insert", {"app_role": group}).replace(DEFAULT_TABLE, name)

    def _owner_of(self, right: Right) -> str:
        [(owner,)] = self._rows("roles:owner_of", {"kind": right.kind, "object": right.object})
        return str(owner)

    def _rows(self, path: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement(path), values).fetchall()


def _membership(member: str) -> str:
    return _text("roles:membership", {"group_role": OWNER, "app_role": member})


def _text(path: str, names: dict[str, Name]) -> str:
    return bare(without_parameters(statement(path, names=names)))
