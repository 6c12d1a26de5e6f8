"""Examine whether a database user may do what its role needs, and name the command or GRANT for what it lacks.

Called by ``relay-cli check --for``. The rights come from the statements that grant them. Changes nothing. A fault is a
finding with advice; only unreadable settings raise ConfigError.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from relay.app.database_roles import RolesRequest, inbox_migrate, not_owned, schema_option, store_positions
from relay.core.errors import ConfigError, OutboxError
from relay.core.finding import Finding, Level
from relay.core.role import Role
from relay.deliverylog import open_delivery_log
from relay.deliverylog.postgres.driver import PostgresDeliveryLog
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.eventstore.schema import Access, grants
from relay.eventstore.statements import EventStoreStatements
from relay.inbox.grants import grants as inbox_grants
from relay.inbox.grants import inbox_beside
from relay.outbox.admin.grants import lacking_rights
from relay.outbox.admin.rolecheck import check_role
from relay.postgres.connect import SyncConnection, connect
from relay.postgres.errors import translating
from relay.postgres.grants import Holding, Right, bare, holding, rights_of
from relay.postgres.operating import OPERATOR
from relay.postgres.roles import groups_of
from relay.postgres.sql import DEFAULT_SCHEMA, Name, TableName, quote_identifier, statement, without_parameters
from relay.postgres.url import connection_parameters
from relay.settings.readers import POSTGRES
from relay.settings.settings import Settings
from relay.spark.statements import DEFAULT_SCHEMA as SPARK_SCHEMA
from relay.spark.statements import SparkStatements

_NEARLY: Final = 0.5


class _Purpose(NamedTuple):
    name: str
    grants: Sequence[str]
    advice: str
    """What grants them, as the owner."""


class _Lacking(NamedTuple):
    """What a user lacks of a purpose. What is in a schema that the user may not use is not asked."""

    rights: Sequence[tuple[Right, Holding]]
    asked: int

    @property
    def share(self) -> float:
        """How much of it, from 0 to 1."""
        return len(self.rights) / self.asked


def examine_role(
    role: Role, settings: Settings, retention: float, schema: str | None = None, inbox: TableName | None = None
) -> list[Finding]:
    """Examine one role but RELAY, which ``relay.app.doctor`` examines.

    ``retention`` is the age in seconds up to which prune retains delivered events; ``schema`` that of the event store
    or of Spark's ledgers, None for the default one; so is ``inbox``. Raises ConfigError for a missing or invalid URL.
    """
    if role is Role.DELIVERYLOG:
        return _delivery_log(settings)
    inbox = inbox_beside(settings.storage_table_name, inbox)
    url = settings.required("STORAGE_URL")
    match role:
        case Role.SPARK:
            return _spark(url, settings, schema)
        case Role.EVENTSTORE:
            return _event_store(url, schema or DEFAULT_SCHEMA)
        case Role.CONSUMER:
            return _consumer(url, inbox)
        case Role.MIGRATE:
            return _migrate(url, settings)
        case _:
            findings = check_role(url, settings.storage_table_name, role, retention)
            answers = not any(finding.subject == "database" and finding.level is Level.ERROR for finding in findings)
            if answers:
                findings += _inbox(url, inbox, role)
            if answers and role is Role.CONSOLE:
                findings += _console(url, settings, schema)
            return findings


def _consumer(url: str, inbox: TableName) -> list[Finding]:
    """The inbox; the tries beside it where they exist."""

    def work(connection: SyncConnection) -> list[Finding]:
        user = connection.info.user
        grants = [*_usage(inbox, user), *inbox_grants(inbox, user, Role.CONSUMER)]
        there = [grant for grant in grants if _objects_exist(connection, grant)] or grants
        advice = f"run: {'; '.join(bare(grant) for grant in there)}"
        create = f"run as the owner: relay-cli {inbox_migrate(inbox)}"
        return _rights(connection, [_Purpose("the inbox", there, advice)], create)

    return _examined(url, work)


def _usage(table: TableName, user: str) -> list[str]:
    """The right on the schema of a table, where its name has one."""
    names: dict[str, Name] = {"public": str(table.schema), "app_role": user}
    return [without_parameters(statement("roles:use_schema", names=names))] if table.schema else []


def _inbox(url: str, inbox: TableName, role: Role) -> list[Finding]:
    """What a role lacks on an inbox, where there is one."""

    def work(connection: SyncConnection) -> list[Finding]:
        user = connection.info.user
        grants = inbox_grants(inbox, user, role)
        lacking = [found for grant in grants for found in lacking_rights(connection, grant, user, where_it_exists=True)]
        return _as_warnings(lacking) if role is Role.CONSOLE else lacking

    return _examined(url, work)


def _as_warnings(findings: Iterable[Finding]) -> list[Finding]:
    """Where the rest works without it: what only some consoles show, a log that never holds deliveries up."""
    return [each._replace(level=Level.WARNING) if each.level is Level.ERROR else each for each in findings]


def _objects_exist(connection: SyncConnection, grant: str) -> bool:
    return all(holding(connection, right) is not Holding.NO_OBJECT for right in rights_of([grant]))


def _migrate(url: str, settings: Settings) -> list[Finding]:
    """Whether this user acts as the owner of everything of ours."""

    def work(connection: SyncConnection) -> list[Finding]:
        user = connection.info.user
        request = RolesRequest(settings.storage_table_name)
        findings = [
            Finding(
                Level.ERROR,
                "rights",
                f"{user} does not act for {owner}, who owns {', '.join(objects)}",
                f"run: GRANT {quote_identifier(owner)} TO {quote_identifier(user)}",
            )
            for owner, objects in not_owned(connection, request).items()
        ]
        return findings or [Finding(Level.OK, "rights", f"{user} acts for the owner of all that is there")]

    return _examined(url, work)


def _console(url: str, settings: Settings, schema: str | None) -> list[Finding]:
    """What the console shows where it is there: the event store, and the delivery log."""
    findings = _console_store(url, schema or settings.event_store_schema or DEFAULT_SCHEMA)
    if settings.delivery_log_url is not None:
        findings += _delivery_log(settings, "read")
    return findings


def _console_store(url: str, schema: str) -> list[Finding]:
    def work(connection: SyncConnection) -> list[Finding]:
        if store_positions(connection, schema) is None:
            return [Finding(Level.OK, "store", f"there is no event store in schema {schema}")]
        purpose = _store_purpose(connection, schema, "console")._replace(name="the event store's page")
        return _as_warnings(_rights(connection, [purpose], purpose.advice))

    return _examined(url, work)


def _store_purpose(connection: SyncConnection, schema: str, access: str) -> _Purpose:
    user, positions = connection.info.user, store_positions(connection, schema) or "settled"
    command = f"relay-cli store grant {shlex.quote(user)} {access}{schema_option(schema)}"
    rights = grants(EventStoreStatements(schema), positions, user, cast("Access", access))
    return _Purpose(access, rights, f"run as the owner: {command}")


def _spark(url: str, settings: Settings, schema: str | None) -> list[Finding]:
    statements = SparkStatements(settings.storage_table_name, schema or SPARK_SCHEMA)
    setup = "relay-cli spark setup" + (f" --schema {shlex.quote(schema)}" if schema else "")

    def purposes(connection: SyncConnection) -> Iterator[_Purpose]:
        user = connection.info.user
        for purpose in (group.access for group in groups_of(Role.SPARK)):
            command = f"{setup} --role {shlex.quote(user)} --for {purpose}"
            grants = [*_usage(settings.storage_table_name, user), *statements.grants(user, purpose)]
            if purpose == "write" and _objects_exist(connection, comparing := statements.comparing(user)):
                grants.append(comparing)
            yield _Purpose(purpose, grants, f"run as the owner: {command}")

    return _examined(url, lambda connection: _rights(connection, purposes(connection), f"run as the owner: {setup}"))


def _event_store(url: str, schema: str) -> list[Finding]:
    def work(connection: SyncConnection) -> list[Finding]:
        purposes = [_store_purpose(connection, schema, group.access) for group in groups_of(Role.EVENTSTORE)]
        return _rights(connection, purposes, f"run as the owner: relay-cli store migrate{schema_option(schema)}")

    return _examined(url, work)


def _delivery_log(settings: Settings, only: str | None = None) -> list[Finding]:
    url = settings.required("DELIVERY_LOG_URL")
    if not url.startswith(POSTGRES):
        return asyncio.run(_log_answers(settings, url))
    statements = PostgresStatements(settings.delivery_log_schema)

    def purposes(connection: SyncConnection) -> Iterator[_Purpose]:
        user = connection.info.user
        for group in groups_of(Role.DELIVERYLOG):
            if only in (None, group.access):
                grants = statements.grants(user, group.access)
                lines = "; ".join(map(bare, grants))
                yield _Purpose(group.access, grants, f'run: GRANT {group.name} TO "{user}", or: {lines}')

    create = "run as the owner: relay-cli log migrate"
    findings = _examined(url, lambda connection: _rights(connection, purposes(connection), create), "DELIVERY_LOG_URL")
    if not any(finding.level is Level.ERROR for finding in findings):
        findings += asyncio.run(_log_answers(settings, url))
    return findings


def check_log(settings: Settings) -> list[Finding]:
    """Whether a relay's log takes what it records."""
    return [] if settings.delivery_log_url is None else _as_warnings(_delivery_log(settings, "record"))


async def _log_answers(settings: Settings, url: str) -> list[Finding]:
    """Whether the log answers, and in PostgreSQL has the partitions of the coming months."""
    try:
        log = await open_delivery_log(url, schema=settings.delivery_log_schema, prefix=settings.delivery_log_prefix)
        try:
            await log.ping()
            months = await log.missing_months() if isinstance(log, PostgresDeliveryLog) else []
        finally:
            await log.close()
    except ConfigError:
        raise
    except OutboxError as error:
        return [Finding(Level.ERROR, "log", str(error), "check DELIVERY_LOG_URL and that the server runs")]
    if months:
        names = ", ".join(f"{month:%Y-%m}" for month in months)
        advice = "run as the owner, daily: relay-cli log maintain"
        return [Finding(Level.WARNING, "partitions", f"the log has no partition for {names}", advice)]
    return [Finding(Level.OK, "log", "the delivery log answers, and lacks no partition")]


def _examined(url: str, work: Callable[[SyncConnection], list[Finding]], source: str = "STORAGE_URL") -> list[Finding]:
    """The findings of ``work``; an error of the database is a finding, too."""
    parameters = connection_parameters(url, OPERATOR, source=source)
    try:
        with translating():
            connection = connect(parameters)
    except OutboxError as error:
        advice = f"check that the server runs and that {source} is right"
        return [Finding(Level.ERROR, "database", str(error), advice)]
    try:
        with translating("checking"), connection:
            return work(connection)
    except OutboxError as error:
        return [Finding(Level.ERROR, "database", str(error), "fix this, then run relay-cli check again")]


def _rights(connection: SyncConnection, choices: Iterable[_Purpose], create: str) -> list[Finding]:
    """The purposes that the user has the rights for; without any, what it lacks for the nearest one."""
    user = connection.info.user
    purposes = list(choices)
    lacking = {purpose.name: _lacking(connection, purpose) for purpose in purposes}
    able = [purpose.name for purpose in purposes if not lacking[purpose.name].rights]
    if able:
        others = [
            f"{purpose.name}: {_advice(purpose, lacking[purpose.name], user, nearly=True)}"
            for purpose in purposes
            if purpose.name not in able
        ]
        message = f"{user} has the rights for: {', '.join(able)}"
        return [Finding(Level.OK, "rights", f"{message} (for {'; '.join(others)})" if others else message)]
    nearest = min(purposes, key=lambda purpose: lacking[purpose.name].share)
    absent = {right.object for right, held in lacking[nearest.name].rights if held is Holding.NO_OBJECT}
    if absent:
        return [Finding(Level.ERROR, "objects", f"{', '.join(sorted(absent))} does not exist", create)]
    rights = ", ".join(str(right) for right, _ in lacking[nearest.name].rights)
    names = " or ".join(purpose.name for purpose in purposes)
    message = f"{user} has no rights for {names}; for {nearest.name} it lacks {rights}"
    return [Finding(Level.ERROR, "rights", message, _advice(nearest, lacking[nearest.name], user))]


def _advice(purpose: _Purpose, lacking: _Lacking, user: str, *, nearly: bool = False) -> str:
    """The advice with the first GRANT that is missing; with ``nearly`` only where the user lacks less than half."""
    if "GRANT " in purpose.advice or (nearly and lacking.share > _NEARLY):
        return purpose.advice
    return f"first is missing: {lacking.rights[0][0].grant(user)}; for all of it, {purpose.advice}"


def _lacking(connection: SyncConnection, purpose: _Purpose) -> _Lacking:
    closed: set[str] = set()
    asked: list[tuple[Right, Holding]] = []
    for right in rights_of(purpose.grants):
        if right.object.rpartition(".")[0] in closed:
            continue
        asked.append((right, holding(connection, right)))
        if (right.kind, *asked[-1][1:]) == ("schema", Holding.NO):
            closed.add(right.object)
    return _Lacking([each for each in asked if each[1] is not Holding.YES], len(asked))
