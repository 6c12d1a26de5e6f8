"""Questions the position from which a reader continues: is what was read there still in the store?

A store that was restored, or whose standby took over without the newest events, assigns positions again. A reader that
went on from its old position would skip the events that now stand below it. So a checkpoint names the event that was
read, and every read first compares it with the event that stands there now.

Called by the reader and by subscriptions. Every function raises ``PositionsWentBack`` where the store went back.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import datetime
from typing import NamedTuple

from psycopg import AsyncCursor
from psycopg.rows import TupleRow, tuple_row

from relay.core.checkpoint import START, Checkpoint, checkpoint_values
from relay.core.errors import PositionsWentBack
from relay.eventstore.database import Connection, execute
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.pipeline import one_transaction


class Horizon(NamedTuple):
    """How far a reader may read; the columns of ``read:horizon``."""

    settled: int
    """Every position up to here belongs to a transaction that has ended."""
    newest: int
    """The newest assigned position."""
    read_at: datetime
    """The database's clock."""
    on_standby: bool
    server: str
    """Another one after a failover, a restore or a restart."""


async def look(connection: Connection, statements: EventStoreStatements, after: Checkpoint = START) -> Horizon:
    """The horizon, once ``after`` was compared with the event that stands there now; in one trip to the database.

    A standby may not have received the position yet: there it is accepted.
    """
    async with one_transaction(connection), AsyncExitStack() as stack:
        horizons = await stack.enter_async_context(AsyncCursor[TupleRow](connection, row_factory=tuple_row))
        await horizons.execute(statements.text("eventstore/read:horizon"), prepare=False)
        same = None
        if after.tenant_id is not None:
            same = await stack.enter_async_context(AsyncCursor[TupleRow](connection, row_factory=tuple_row))
            await same.execute(statements.text("eventstore/read:same_event"), checkpoint_values(after), prepare=False)
        horizon = Horizon(*(await horizons.fetchall())[0])
        is_same = same is None or (await same.fetchall())[0][0]
    if after.position > horizon.newest:
        if not horizon.on_standby:
            raise PositionsWentBack(after.position, horizon.newest)
    elif not is_same:
        raise PositionsWentBack(after.position, horizon.newest)
    return horizon


async def last_up_to(connection: Connection, statements: EventStoreStatements, position: int) -> Checkpoint:
    """The checkpoint of the last event up to a position that this reader may see; ``START`` where there is none."""
    rows = await execute(connection, statements.text("eventstore/read:last_row"), {"position": position})
    if not rows:
        return START
    found = Checkpoint(*rows[0])
    dates = await execute(connection, statements.text("eventstore/read:log_date"), checkpoint_values(found))
    return found._replace(log_date=dates[0][0]) if dates else found
