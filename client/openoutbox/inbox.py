"""The inbox: the effect of an event happens once, however often its message arrives.

The relay delivers at least once, and so does every broker. ``once`` marks the event in the consumer's own database, in
the transaction that has the effect:

    with psycopg.connect(url) as connection:  # one transaction
        with inbox.once(connection, event_id, consumer="billing") as first:
            if first:
                connection.execute("UPDATE accounts ...")
    consumer.commit(message)  # acknowledge after the commit, never before

- The mark and the effect are committed together or not at all, because they are in one transaction: the caller's.
- A repeat that arrives while the first one's transaction is open waits for its end. Then it is a repeat, or the first.
- An error that leaves the block takes back the mark and what the block did, by a savepoint. What the transaction did
  before stays, and it can go on.

``first_of`` marks a whole batch with one statement, for effects that are one transaction anyway: a ``once`` for each
is a savepoint for each. ``process`` also counts the tries of a message and sets one that keeps failing aside
(``openoutbox.processing``).

The table is made by ``relay-cli inbox migrate``; ``relay-cli inbox prune`` removes old marks. An event whose mark was
pruned is new again. docs/guide/inbox.md says what this does not cover: effects outside the database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Final, overload

from openoutbox.blocking import Blocking, without_loop
from openoutbox.channel import OPEN_A_TRANSACTION, async_channel, naming_table, no_target, sync_channel
from openoutbox.errors import InboxRefused
from openoutbox.marks import MIGRATE, EventId, Mark, canonical, mark_of
from openoutbox.names import DEFAULT_INBOX, TableName
from openoutbox.ports import AsyncCaller, SyncCaller
from openoutbox.processing import (
    Processed,
    process,
    process_async,
    retries,
    retries_async,
    set_aside,
    set_aside_async,
)
from openoutbox.repeats import check_repeats, mark_first

if TYPE_CHECKING:
    from openoutbox.targets import AsyncTarget, SyncTarget

__all__ = [
    "Processed",
    "first_of",
    "once",
    "process",
    "process_async",
    "retries",
    "retries_async",
    "set_aside",
    "set_aside_async",
]

_AUTOCOMMIT: Final = (
    "the connection is in autocommit mode with no transaction open: the mark would be committed before the effect. "
    f"{OPEN_A_TRANSACTION}"
)


@overload
def once(
    target: SyncTarget, event_id: EventId, *, consumer: str, table: str | TableName = DEFAULT_INBOX
) -> AbstractContextManager[bool]: ...
@overload
def once(
    target: AsyncTarget, event_id: EventId, *, consumer: str, table: str | TableName = DEFAULT_INBOX
) -> AbstractAsyncContextManager[bool]: ...
def once(
    target: SyncTarget | AsyncTarget,
    event_id: EventId,
    *,
    consumer: str,
    table: str | TableName = DEFAULT_INBOX,
) -> AbstractContextManager[bool] | AbstractAsyncContextManager[bool]:
    """Mark an event as handled by ``consumer``; the block receives True the first time, and False for a repeat.

    ``target`` is what ``enqueue`` takes, and then the block is a ``with``; or what ``enqueue_async`` takes, and
    then it is an ``async with``. ``event_id`` is the text of the message's header (Kafka ``X-Event-ID``, NATS
    ``Nats-Msg-Id`` up to a colon, RabbitMQ property ``message_id``, Redis field ``id``); bytes are read as UTF-8. Each
    ``consumer`` has marks of its own: name what has the effect, not the process. ``table`` is ``table`` or
    ``schema.table``. The statement needs the INSERT privilege only.

    Nothing here commits. An error inside the block takes the mark back and is raised.

    Raises ``InboxRefused`` for an invalid event id or consumer, and on entering the block for a connection in
    autocommit mode with no transaction open, and for a mark that a BEFORE trigger leaves out; ``ConfigError`` for an
    invalid table name; ``TypeError`` for any other target. Errors of the database are the driver's own, among them a
    serialization failure (SQLSTATE 40001) where the transaction is REPEATABLE READ or SERIALIZABLE and another one
    marked the event meanwhile: roll back and repeat.
    """
    mark = mark_of("mark", {"event_id": canonical(event_id)}, consumer, table)
    if (channel := sync_channel(target)) is not None:
        return _once(channel, mark)
    if (waiting := async_channel(target)) is not None:
        return _once_async(waiting, mark)
    raise no_target("once", target)


@overload
def first_of(
    target: SyncTarget, event_ids: Iterable[EventId], *, consumer: str, table: str | TableName = DEFAULT_INBOX
) -> list[str]: ...
@overload
def first_of(
    target: AsyncTarget, event_ids: Iterable[EventId], *, consumer: str, table: str | TableName = DEFAULT_INBOX
) -> Awaitable[list[str]]: ...
def first_of(
    target: SyncTarget | AsyncTarget,
    event_ids: Iterable[EventId],
    *,
    consumer: str,
    table: str | TableName = DEFAULT_INBOX,
) -> list[str] | Awaitable[list[str]]:
    """Mark a batch of events as handled by ``consumer``; those that are new, in the order given, each once.

    One statement, in the caller's transaction: have the effects of the new ones in it, commit, then acknowledge all of
    them. The ids come in one form, a UUID in small letters with hyphens, whatever form they had. Give them as ``once``
    takes them, all arguments likewise; for what ``enqueue_async`` takes, await the answer. The statement needs INSERT
    on the table and SELECT on its column ``event_id``.

    The marks go with the transaction: roll it back after an error. Raises as ``once`` does.
    """
    if isinstance(event_ids, str | bytes):
        raise InboxRefused(f"event_ids: a {type(event_ids).__name__}; pass a list of ids")
    ids = list(dict.fromkeys(map(canonical, event_ids)))
    mark = mark_of("mark_all", {"event_ids": ids}, consumer, table)
    if (channel := sync_channel(target)) is not None:
        return without_loop(_first_of(Blocking(channel), mark, ids))
    if (waiting := async_channel(target)) is not None:
        return _first_of(waiting, mark, ids)
    raise no_target("first_of", target)


async def _first_of(channel: AsyncCaller, mark: Mark, ids: list[str]) -> list[str]:
    if await channel.commits_at_once():
        raise InboxRefused(_AUTOCOMMIT)
    with naming_table(MIGRATE, mark.table, DEFAULT_INBOX):
        marked = {event_id for (event_id,) in await channel.fetch(mark.statement, mark.values)}
        await check_repeats(channel, mark, [one for one in ids if one not in marked])
    return [one for one in ids if one in marked]


@contextmanager
def _once(channel: SyncCaller, mark: Mark) -> Iterator[bool]:
    if channel.commits_at_once():
        raise InboxRefused(_AUTOCOMMIT)
    with channel.savepoint():
        with naming_table(MIGRATE, mark.table, DEFAULT_INBOX):
            first = without_loop(mark_first(Blocking(channel), mark))
        yield first


@asynccontextmanager
async def _once_async(channel: AsyncCaller, mark: Mark) -> AsyncIterator[bool]:
    if await channel.commits_at_once():
        raise InboxRefused(_AUTOCOMMIT)
    async with channel.savepoint():
        with naming_table(MIGRATE, mark.table, DEFAULT_INBOX):
            first = await mark_first(channel, mark)
        yield first
