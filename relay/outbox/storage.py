"""The outbox in PostgreSQL: ``relay.core.storage.OutboxStorage`` over any table that meets the contract.

The daemon (``relay.app.run``) wires it and the engine calls it. It needs SELECT on the table and UPDATE on eight of its
columns (with ON_DELIVERED=delete also DELETE, with the extension fan-out also UPDATE on its column), no other right. It
holds four connections: one claims, one settles and renews, one keeps house (reap, ping, pauses, the list of relays),
and one reads what may be slow (the backlog, the lag, looking behind the head of claims), so that none of them waits for
another. A ping that would have to wait for the housekeeping goes over a fifth one, made for it and closed after it: a
server that hangs keeps every statement waiting up to its deadline, and must be found out sooner. All times are those of
the database.

When things fail: a statement either commits or changes nothing; errors are those of the port. The commit of a claim
does not wait for the disk, every other one does. After a failover, or when a server turns read-only, every connection
is opened again from the URL.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from relay.core.clock import DatabaseClock
from relay.core.durations import in_words
from relay.core.errors import SchemaError, StorageUnavailable
from relay.core.event import Claim, EventId, Fence
from relay.core.places import Flow
from relay.core.proofs import ExpiredLeases, LeasedRow
from relay.core.storage import Backlog, Reaped, Renewal, Rest, Settled, Settlement, Upkeep
from relay.outbox.claiming import Claims
from relay.outbox.connections import connections
from relay.outbox.extensions import watched_tables
from relay.outbox.left_out import PausedRows
from relay.outbox.order_sequence import SAMPLE, OrderSequence
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.reaping import Reaping
from relay.outbox.renewal import Renewer
from relay.outbox.settling import SettleStatements
from relay.outbox.slowreads import SlowReads
from relay.outbox.table_check import NOT_RECORDED, OLDEST_POSTGRESQL, check_table
from relay.postgres.connect import Connection, Generation
from relay.postgres.sql import statement
from relay.postgres.url import SECONDS_PER_HOST, connection_parameters, hosts

logger = logging.getLogger(__name__)

_LONGEST_CLOSE = 1.0  # seconds
_SILENT = 3.0  # seconds until a server that does not answer at all is named
_ALL_AGAIN = (
    f"table {{}} has no column acknowledged_by that this user may write: {NOT_RECORDED}; add the column with relay-cli "
    "migrate --with fan-out, grant the relay's user UPDATE (acknowledged_by), and restart the relay"
)


_NEEDED = (
    "table %s has no column acknowledged_by that this user may write, which KAFKA_TRANSACTIONS with routes to several "
    "destinations needs: it remembers which of them a proof has spoken for; add it with relay-cli migrate --with "
    "fan-out, and grant the relay's user UPDATE (acknowledged_by)"
)


class Extensions(NamedTuple):
    """Which optional tables there are, by the last ping."""

    relays: bool = False
    pauses: bool = False
    series: bool = False
    triggers: bool = False
    """Whether the outbox has BEFORE triggers: one that returns OLD leaves a row as it was, which counts as written."""


class PostgresOutbox:
    """The adapter. Constructing it connects to nothing; raises ConfigError for an invalid URL."""

    def __init__(self, options: PostgresOptions, clock: DatabaseClock | None = None) -> None:
        """``clock`` learns the database's time from the claims."""
        self._options = options
        self._generation = Generation()
        self._connections = connections(options, self._generation)
        self._claiming, self._settling, self._housekeeping, self._spare, slow = self._connections
        self.watching = self._housekeeping
        """The connection for what is quick and must not wait for slow reads: pauses, the list of relays, the series."""
        patience = min(options.ping_timeout, options.statement_timeout)
        self._ping_deadline = patience + SECONDS_PER_HOST * (hosts(connection_parameters(options.url, "")) - 1)
        self.paused = PausedRows(options.table, time.monotonic)
        """What claims leave out."""
        self.extensions = Extensions()
        self._no_fan_out = ""
        self.longest_lease = 0.0
        """The longest LEASE_TIMEOUT of the other living relays, in seconds, where it is known."""
        self._claims = Claims(self._claiming, options, self.paused, clock or DatabaseClock())
        self._reaping = Reaping(self._housekeeping, slow, options)
        self._reads = SlowReads(slow, options, self.paused)
        self._ping = statement("outbox/table:ping", options.table)
        self._beside = watched_tables(options.table)
        self._settle = SettleStatements(options)
        self._renewer = Renewer(self._settling, options)

    async def open(self) -> None:
        """Connect and look at the table; SchemaError says what is wrong with it and what to do.

        Reads the pauses, too: no claim begins before they are known. Where this user may not read them it claims all.
        """

        async def check(connection: Connection) -> None:
            await self._look_at_table(connection, fans_out=self._options.fan_out)
            if self._options.key_order is not None:
                await self._look_at_sequence(connection)

        silent = asyncio.get_running_loop().call_later(_SILENT, self._say_silent)
        try:
            await self._housekeeping.run("reading the table", check)
        finally:
            silent.cancel()
        await self.ping()
        if self.extensions.pauses:
            with suppress(SchemaError):  # the loop that reads them says so
                await self._housekeeping.run("reading the pauses", self.paused.read)
        await self._reads.find()

    def _say_silent(self) -> None:
        """A server of another kind may take the connection and say nothing, up to the deadline."""
        if not self._housekeeping.connected:
            text = "the database has not answered for %s; check the host and the port in STORAGE_URL"
            logger.warning(text, in_words(_SILENT), extra={"action": "storage_unavailable", "op": "open"})

    async def _look_at_table(self, connection: Connection, *, fans_out: bool) -> None:
        """Raise SchemaError unless the relay can work on it, and learn whether it has the column of fan-outs."""
        options, version = self._options, connection.info.server_version // 10_000
        if version < OLDEST_POSTGRESQL:
            text = "PostgreSQL %d is not supported; use PostgreSQL %d or newer"
            logger.warning(text, version, OLDEST_POSTGRESQL, extra={"action": "server_unsupported"})
        in_order, deletes = options.key_order is not None, options.delete_delivered
        if await check_table(connection, options.table, key_order=in_order, delete_delivered=deletes):
            self._use_fan_out()
        elif options.fan_out and options.durable_claims:
            raise SchemaError(_NEEDED % options.table)
        elif fans_out:
            self._no_fan_out = _ALL_AGAIN.format(options.table)
            logger.warning("%s", self._no_fan_out, extra={"action": "fan_out_not_recorded"})

    async def _look_at_sequence(self, connection: Connection) -> None:
        """Say when the numbers of order per key do not go on behind those that wait."""
        table = self._options.table
        parameters = {"table": table.quoted, "sample": SAMPLE}
        cursor = await connection.execute(statement("outbox/backlog:order_sequence", table), parameters)
        [row] = await cursor.fetchall()
        sequence = OrderSequence(*row)
        if sequence.is_behind:
            logger.error("%s; %s", sequence.problem, sequence.remedy(table), extra={"action": "order_sequence_behind"})

    def degraded(self) -> dict[str, str]:
        """What routes need and the table lacks, for /readyz."""
        return {"fan-out": self._no_fan_out} if self._no_fan_out else {}

    def _use_fan_out(self) -> None:
        """Read and write the column of the extension fan-out."""
        self._no_fan_out = ""
        self._claims.use_fan_out()
        self._settle = SettleStatements(self._options, self._claims.fan_out)

    async def close(self) -> None:
        """Close the connections, cutting off what still runs; never raises, takes a second at most."""
        closing = [asyncio.ensure_future(connection.close()) for connection in self._connections]
        _, late = await asyncio.wait(closing, timeout=_LONGEST_CLOSE)
        for task in late:
            task.cancel()

    async def claim(
        self,
        limit: int,
        max_bytes: int,
        excluded: Sequence[EventId] = (),
        without: Sequence[str] = (),
        *,
        control: bool = False,
    ) -> Claim:
        """See ``relay.outbox.claiming.Claims.claim``."""
        return await self._claims.claim(limit, max_bytes, excluded, without, control=control)

    def pass_over(self, event_id: EventId) -> None:
        """Go past this row, which the last error of a claim named."""
        self._claims.passed.pass_over(event_id)

    def leave_out(self, flows: Sequence[Flow], in_part: Sequence[Flow] = ()) -> None:
        """Leave these events out of the claims that are sent from now on (``relay.outbox.left_out``).

        Those ``in_part`` as a whole without the extension fan-out.
        """
        if self._claims.fan_out:
            self.paused.leave_out(flows, in_part)
        else:
            self.paused.leave_out(sorted({*flows, *in_part}, key=str))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write verdicts, fenced; all of them commit together, and durably, before this returns."""
        if not any(settlements):
            return [Settled()] * len(settlements)

        async def work(connection: Connection) -> list[Settled]:
            checked = self.extensions.triggers
            return await self._settle.execute(connection, settlements, self.paused.released, checked=checked)

        return await self._settling.run("settling", work)

    async def held(self, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        """Which events of each settlement are still held under its fence."""
        return await self._settling.run("reading back", partial(self._settle.held_of_each, settlements=settlements))

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        """Prolong leases to a full lease from now; a lost reply is read back before this returns."""
        return await self._renewer.renew(fence, event_ids)

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        """Reclaim up to ``limit`` expired leases, each as a failed attempt, and as many that were behind others."""
        return await self._reaping.reap(limit, self._lease, excluded)

    async def expired(self, limit: int, excluded: Sequence[EventId] = (), *, first: bool) -> ExpiredLeases:
        """The next expired leases of a round over all of them, which the ``first`` call begins; no rows: its end."""
        return await self._reaping.expired(limit, self._lease, excluded, first=first)

    async def own_leases(self) -> list[LeasedRow]:
        """What is held under this relay's RELAY_ID."""
        return await self._reaping.own_leases(self._options.relay_id)

    async def reap_exactly(
        self, rows: Sequence[LeasedRow], acknowledged: Mapping[EventId, str], *, former: bool = False
    ) -> Reaped:
        """Reclaim the leases of these rows under these fences; without rows those without a time.

        The destinations that have ``acknowledged`` them are written down. The column may be there since this relay
        began: then it is used from now on.
        """
        if acknowledged and not self._claims.fan_out:
            await self._housekeeping.run("reading the table", partial(self._look_at_table, fans_out=True))
        acknowledged = acknowledged if self._claims.fan_out else {}
        return await self._reaping.reap_exactly(rows, self._lease, acknowledged, former=former)

    @property
    def _lease(self) -> float:
        return max(self._options.lease_timeout, self.longest_lease)

    async def look(self) -> Rest:
        """Look for rows that claims have gone past (``relay.outbox.waiting_rows``)."""
        return await self._reads.look()

    async def backlog(self) -> Backlog:
        """Count and age what waits (may be slow on a huge backlog)."""
        return await self._reads.backlog()

    async def oldest_due_age(self) -> float:
        """The lag alone; one index probe on any table."""
        return await self._reads.oldest_due_age()

    async def upkeep(self) -> Upkeep:
        """How far prune and vacuum are behind; an index probe or two, and the sessions of the server."""
        return await self._reads.upkeep()

    async def ping(self) -> None:
        """Raise unless the database answers and takes writes."""
        over = self._spare if self._housekeeping.busy else self._housekeeping

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(self._ping, self._beside)
            return await cursor.fetchall()

        try:
            [(read_only, *beside)] = await over.run("pinging the database", work, self._ping_deadline)
        finally:
            await self._spare.close()
        self.extensions = Extensions(*beside)
        if read_only:
            self._generation.advance()
            raise StorageUnavailable(
                "the server refuses writes: it is a standby, or default_transaction_read_only is on"
            )
