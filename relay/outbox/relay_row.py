"""A relay's row in the list of the table's relays: ``relay.core.optional_parts.Fleet`` on the optional table.

It uses the connection of the storage that nothing else of the relay waits for, with a short deadline, and none while
the table is missing: whether it is there comes with each ping. It needs SELECT, INSERT, UPDATE and DELETE on the table
of ``sql/outbox/extensions/fleet.sql``.

A relay joins in a transaction that holds a lock: of two that start at the same moment, the second sees the row of the
first. A relay that runs is never ended for what its heartbeat reads: it says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, LiteralString
from uuid import UUID, uuid4

from openoutbox.schema import tables_beside
from relay.core.durations import in_words
from relay.core.errors import ConfigError
from relay.core.heartbeats import DESTINATION, FORGOTTEN, LIVING, ROUTES, CommonSettings, settings_that_differ
from relay.core.optional_parts import Heartbeat
from relay.outbox.extensions import relays_of
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import Connection, Work
from relay.postgres.grants import THE_USER, granting, rights_text
from relay.postgres.pipeline import one_transaction
from relay.postgres.sql import TableName, statement

_DEADLINE = 2.0  # seconds
_LOCK_TIMEOUT = "1500"  # milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayIdentity:
    """What a relay says of itself once; the columns of the table."""

    relay_id: str
    version: str
    host: str
    destination_type: str
    destination: str
    """Fingerprints of its servers, without secrets, for ``same_destination``."""
    lease_timeout: float
    """Seconds."""
    ordering: str
    on_delivered: str
    settings: str = "{}"
    """What it runs with, by variable, secrets masked: a JSON object."""
    instance: UUID = field(default_factory=uuid4)


class OutboxFleet:
    """The row of one relay. ``storage.longest_lease`` follows the living relays."""

    def __init__(
        self, storage: PostgresOutbox, table: TableName, identity: RelayIdentity, *, allow_mixed: bool
    ) -> None:
        self._storage = storage
        self._table = table
        self._identity = identity
        self._allow_mixed = allow_mixed
        self._common = _common_settings(identity)
        self.without_proofs: Sequence[str] | None = None
        self._columns: dict[str, Any] = {**asdict(identity), "living": LIVING, "forgotten": FORGOTTEN}

    async def join(self) -> None:
        """Add the row. Raises ConfigError when a living relay of the table delivers to another destination."""
        if not self._storage.extensions.relays:
            return

        async def work(connection: Connection) -> tuple[list[tuple[Any, ...]], tuple[float, list[str]]]:
            cursor, leases = connection.cursor(), connection.cursor()
            async with one_transaction(connection):
                await connection.execute(statement("session:lock_guard"), {"timeout": _LOCK_TIMEOUT})
                await connection.execute(self._sql("lock"), {"relays": relays_of(self._table).quoted})
                await cursor.execute(self._sql("join"), {**self._columns, "allow_mixed": self._allow_mixed})
                await leases.execute(self._sql("longest_lease"), self._columns)
            return await cursor.fetchall(), (await leases.fetchall())[0]

        others, (longest, without_proofs) = await self._run("joining the fleet", work)
        if others and not self._allow_mixed:
            relay_id, host, kind, destination = others[0]
            own = f"{self._identity.destination_type} ({self._identity.destination})"
            raise ConfigError(
                f"PUBLISHER_URL: relay {relay_id} on host {host} delivers the events of table {self._table} to {kind} "
                f"({destination}), and this relay would deliver a part of them to {own}. Give all relays of the table "
                "one destination (two lists of servers of one cluster must have a server in common), or stop that "
                f"relay first: it counts as gone after {in_words(LIVING)}. "
                "FLEET_ALLOW_MIXED=true starts this relay anyway"
            )
        self._storage.longest_lease = longest  # the reaper begins at once, and the first heartbeat comes beside it
        self.without_proofs = without_proofs

    async def beat(self, heartbeat: Heartbeat) -> Sequence[str]:
        """Write the heartbeat; returns how other living relays differ from this one, one sentence each."""
        if not self._storage.extensions.relays:
            self._storage.longest_lease, self.without_proofs = 0.0, None
            return ()

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(self._sql("beat"), {**self._columns, **heartbeat._asdict()})
            return await cursor.fetchall()

        rows = await self._run("writing the heartbeat", work)
        neighbours = [(relay_id, CommonSettings(*values)) for relay_id, *values in rows]
        self._storage.longest_lease = max((common.lease_timeout for _, common in neighbours), default=0.0)
        self.without_proofs = [relay_id for relay_id, common in neighbours if common.transactions != "true"]
        return [sentence for relay_id, common in neighbours for sentence in self._differences(relay_id, common)]

    async def leave(self) -> None:
        """Delete the row. Raises StorageError."""
        if not self._storage.extensions.relays:
            return

        async def work(connection: Connection) -> None:
            await connection.execute(self._sql("leave"), {"instance": self._identity.instance})

        await self._run("leaving the fleet", work)

    def _differences(self, relay_id: str, other: CommonSettings) -> list[str]:
        differing = settings_that_differ([("", self._common), (relay_id, other)])
        return [
            f"relay {relay_id} has {name} {theirs.value}, this relay {ours.value}"
            for name, (ours, theirs) in differing.items()
            if not (self._allow_mixed and name == DESTINATION)
        ]

    async def _run(self, doing: str, work: Work[Any]) -> Any:  # noqa: ANN401 - as the work returns
        with granting(rights_text("outbox/grants", "relay_relays"), relays_of(self._table), THE_USER):
            return await self._storage.watching.run(doing, work, _DEADLINE)

    def _sql(self, name: str) -> LiteralString:
        return statement(f"outbox/fleet:{name}", self._table, tables_beside(self._table))


def _common_settings(identity: RelayIdentity) -> CommonSettings:
    settings: dict[str, dict[str, Any]] = json.loads(identity.settings)
    return CommonSettings(
        identity.destination_type,
        identity.destination,
        identity.lease_timeout,
        identity.ordering,
        identity.on_delivered,
        settings.get("MESSAGE_FORMAT", {}).get("value"),
        settings.get("ROUTE_PREFIX", {}).get("value"),
        settings.get("KAFKA_TRANSACTIONS", {}).get("value"),
        settings.get(ROUTES, {}).get("digest"),
    )
