"""The fleet: the relays of an outbox, by the rows that each of them writes every five seconds.

The rows are in the table of ``sql/outbox/extensions/fleet.sql``. A relay is *living* as long as its row is younger than
``LIVING`` seconds; a row that is older than ``FORGOTTEN`` is deleted by the next relay that writes its own.

The database user needs SELECT on that table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from openoutbox.schema import tables_beside
from relay.core.heartbeats import LIVING, CommonSettings, compared, settings_that_differ
from relay.core.pause import Pause
from relay.outbox.admin.connection import Connection, fetch, operating_beside
from relay.outbox.admin.readings import bounded_reading, rows_beside
from relay.outbox.extensions import relays_of
from relay.outbox.pauses import pauses_in_force
from relay.postgres.sql import TableName, statement


class FleetMember(NamedTuple):
    """One relay as it described itself at ``seen_at``. Times are the database's.

    What it is and runs with is as in ``relay.core.heartbeats.CommonSettings``, how it is as in
    ``relay.core.optional_parts.Heartbeat``.
    """

    relay_id: str
    instance: UUID
    """Of this process: a restart has another one."""
    version: str
    host: str
    started_at: datetime
    seen_at: datetime
    silence: float
    """Seconds since ``seen_at``."""
    living: bool
    state: str
    reason: str
    destination_type: str
    destination: str
    lease_timeout: float
    ordering: str
    on_delivered: str
    delivered_per_second: float
    failed_per_second: float
    in_flight: int
    pauses: int
    message_format: str | None
    route_prefix: str | None
    transactions: str | None = None
    routes: str | None = None

    @property
    def common(self) -> CommonSettings:
        """What it must have in common with the other relays."""
        return CommonSettings(*(getattr(self, name) for name in CommonSettings._fields))


def list_relays(url: str, table: TableName) -> list[FleetMember]:
    """The relays of the table, the one seen last first, those that are gone for a short time included.

    Raises SchemaError without the extension (``sqlstate`` 42P01) or without the right; the message says what to run.
    """
    with operating_beside(url, table, "listing the relays", "fleet", relays_of(table), "SELECT") as connection:
        sql = statement("outbox/fleet:list", table, tables_beside(table))
        return [FleetMember(*row) for row in fetch(connection, sql, {"living": LIVING})]


class FleetReading(NamedTuple):
    """The relays of a table, and what is paused; None without the extension of either."""

    members: list[FleetMember] | None
    pauses: list[Pause] | None


def read_members(connection: Connection, table: TableName) -> list[FleetMember] | None:
    """The relays of the table; None without the extension. Raises SchemaError without the right."""
    relays = rows_beside(connection, table, "relays", "outbox/fleet:list", {"living": LIVING})
    return None if relays is None else [FleetMember(*row) for row in relays]


def read_fleet(url: str, table: TableName) -> FleetReading:
    """Over one connection. Raises SchemaError without the right to read one of the two."""
    with bounded_reading(url, table, "reading the relays") as connection:
        return FleetReading(read_members(connection, table), pauses_in_force(connection, table))


class RelaySetting(NamedTuple):
    """One variable of one relay."""

    value: str | None
    """As a user would write it, secrets masked; None when it is unset."""
    changed: bool
    """Whether it is another value than the default."""


class RelaySettings(NamedTuple):
    """What one relay runs with."""

    relay_id: str
    host: str
    version: str
    living: bool
    settings: dict[str, RelaySetting]
    """By variable, in alphabetical order."""


class SettingValue(NamedTuple):
    """A value of a variable, and the relays that run with it."""

    value: str | None
    changed: bool
    relays: list[str]


class ComparedSetting(NamedTuple):
    """One variable over all living relays."""

    name: str
    values: list[SettingValue]
    """One where the relays agree."""

    @property
    def differs(self) -> bool:
        """Whether the relays run with different values of what they need not differ in."""
        return len(self.values) > 1 and self.name != "RELAY_ID"

    @property
    def changed(self) -> bool:
        """Whether a relay runs with another value than the default."""
        return any(value.changed for value in self.values)


def list_settings(url: str, table: TableName) -> list[RelaySettings]:
    """What the relays of the table run with, the living ones first. Raises as ``list_relays``."""
    place = relays_of(table)
    with operating_beside(url, table, "listing the relays' settings", "fleet", place, "SELECT") as connection:
        sql = statement("outbox/fleet:settings", table, tables_beside(table))
        rows = fetch(connection, sql, {"living": LIVING})
    return [
        RelaySettings(
            relay_id,
            host,
            version,
            living,
            {name: RelaySetting(**each) for name, each in sorted(json.loads(text).items())},
        )
        for relay_id, host, version, living, text in rows
    ]


def compared_settings(relays: Sequence[RelaySettings]) -> list[ComparedSetting]:
    """Each variable over the living relays, the values with the most relays first.

    A variable that a relay does not know, being of another version, is no difference.
    """
    result = []
    for name, shared in compared([(relay.relay_id, relay.settings) for relay in relays if relay.living]).items():
        values = [SettingValue(*one.value, one.relays) for one in shared]
        result.append(ComparedSetting(name, sorted(values, key=lambda value: -len(value.relays))))
    return result


def differences(members: Sequence[FleetMember]) -> list[str]:
    """What the living relays must have in common and have not, one sentence each."""
    differing = settings_that_differ([(member.relay_id, member.common) for member in members if member.living])
    return [
        f"the relays differ in {name}: {', '.join(f'{one.value} ({len(one.relays)})' for one in values)}"
        for name, values in differing.items()
    ]
