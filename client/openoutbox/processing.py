"""Process one message: handler and mark in one transaction, tries counted, and a dead letter after the last.

    done = inbox.process(pool.connection, Message.from_kafka(message), handle, consumer="billing", attempts=5)
    if done.acknowledge:
        consumer.commit(message)

The order is what keeps the promises:

1. A first transaction locks the row that counts the tries, looks at the mark, counts this try and commits. So a try
   that kills its process is counted, and a repeat of a handled event is not.
2. A second one, on the same connection, locks the row again, marks the event and runs the handler. All of it is
   committed together; an error takes all of it back.
3. An error is written into the row. With the last try the row becomes a dead letter: the whole message and its error.

A consumer that finds the row locked counts nothing and must not acknowledge: another one is at work. Between 1 and 2
the row is not locked; a try that began less than 5 s ago counts as being at work. So after a crash the next try waits
that long, and a process that stands still for longer between the two has its try counted in vain.

Needs the table of ``relay-cli inbox migrate --with dead-letters``, and READ COMMITTED, PostgreSQL's default. Errors of
the database outside the handler are the driver's own, and leave the message to be delivered again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, LiteralString, TypeVar

from openoutbox.blocking import Blocking, without_loop
from openoutbox.channel import async_channel, naming_table, no_target, sync_channel
from openoutbox.errors import ConfigError, InboxRefused
from openoutbox.marks import MIGRATE, Mark, canonical, mark_of
from openoutbox.message import Message
from openoutbox.names import DEFAULT_INBOX, DEFAULT_TRIES, TableName, tries_of
from openoutbox.ports import AsyncCaller, Row, Values
from openoutbox.repeats import mark_first
from openoutbox.statements import statement

C = TypeVar("C")

_LONGEST_ERROR: Final = 4096
_KILLED: Final = "the process ended during the last try"
_AUTOCOMMIT: Final = "connection_factory: the connection commits each statement alone (isolation_level=AUTOCOMMIT)"

Call = tuple[LiteralString, Values]
Connect = Callable[[], AbstractAsyncContextManager[tuple[C, AsyncCaller]]]
"""Opens a connection, and has its channel."""


@dataclass(frozen=True, slots=True)
class Processed:
    """What became of one delivery."""

    event_id: str
    outcome: Literal["handled", "repeat", "dead", "failed", "busy"]
    """``repeat``: handled before. ``dead``: a dead letter, now or before. ``failed``: to be tried again. ``busy``:
    another consumer is at work on it."""
    tries: int = 0
    """How often a handler was begun, this one included."""
    error: Exception | None = None
    """The handler's, of this try."""

    @property
    def acknowledge(self) -> bool:
        """Whether the broker may forget the message. If not, have it delivered again, after a pause."""
        return self.outcome not in {"failed", "busy"}


def process(
    connection_factory: Callable[[], AbstractContextManager[C]],
    message: Message,
    handler: Callable[[C, Message], object],
    *,
    consumer: str,
    attempts: int = 5,
    table: str | TableName = DEFAULT_INBOX,
) -> Processed:
    """Run ``handler(connection, message)`` unless the event was handled, in one transaction with its mark.

    ``connection_factory`` returns a context manager of what ``enqueue`` takes, without an open transaction, as
    ``pool.connection`` does. The handler must not commit. What it raises is in the answer; an interruption is raised.
    Raises ``InboxRefused`` for an invalid id, name or connection, and where a BEFORE trigger leaves out what counts the
    try or sets the message aside; ``ConfigError``, ``TypeError``, the driver's errors.
    """
    work = _Work.of(message, consumer, attempts, table)

    def handle(connection: C) -> None:
        handler(connection, message)

    return without_loop(_process(partial(_blocking, connection_factory), work, handle))


async def process_async(
    connection_factory: Callable[[], AbstractAsyncContextManager[C]],
    message: Message,
    handler: Callable[[C, Message], Coroutine[Any, Any, object]],
    *,
    consumer: str,
    attempts: int = 5,
    table: str | TableName = DEFAULT_INBOX,
) -> Processed:
    """As ``process``, with what ``enqueue_async`` takes: an asynchronous pool's ``connection``, ``pool.acquire``."""
    work = _Work.of(message, consumer, attempts, table)
    return await _process(partial(_awaited, connection_factory), work, lambda connection: handler(connection, message))


async def _process(connect: Connect[C], work: _Work, handle: Callable[[C], Awaitable[object] | None]) -> Processed:
    async with connect() as (connection, channel):
        async with channel.transaction():
            with work.naming_table():
                begun = await _begin(channel, work)
        if begun.outcome != "handled":
            return begun
        try:
            async with channel.transaction():
                if not await channel.fetch(*work.call("hold", tries=begun.tries)):
                    return work.done("busy")
                if (marked := await mark_first(channel, work.mark)) and (handling := handle(connection)) is not None:
                    await handling
                work.check_held(await channel.send(*work.call("finish")))
            return begun if marked else work.done("repeat")
        except Exception as error:  # noqa: BLE001 - of the handler, or of its transaction's COMMIT
            failed, call = work.fail(begun.tries, error)
    await _send(connect, work, call)
    return failed


async def _begin(channel: AsyncCaller, work: _Work) -> Processed:
    """The first transaction's statements; ``handled`` means that the handler may run now."""
    work.refuse(autocommit=await channel.commits_at_once())
    await channel.send(*work.call("enter"))
    begun, call = work.begin(await channel.fetch(*work.call("look")))
    if begun.outcome == "busy":
        work.check_seen(await channel.fetch(*work.call("seen")), None)
    if call is not None:
        written = await channel.send(*call)
        if begun.outcome != "repeat":  # which may have no row
            work.check_held(written)
    return begun


def set_aside(
    connection_factory: Callable[[], AbstractContextManager[Any]],
    message: Message,
    error: Exception,
    *,
    consumer: str,
    table: str | TableName = DEFAULT_INBOX,
) -> Processed:
    """Make a dead letter of a message at once, of one that has no event id for example. Raises as ``process`` does.

    Give such a message an id that names its place at the broker: ``"orders/3/1042"``.
    """
    work = _Work.of(message, consumer, 1, table)
    without_loop(_send(partial(_blocking, connection_factory), work, work.letter("set_aside", _text_of(error))))
    return work.done("dead", error=error)


async def set_aside_async(
    connection_factory: Callable[[], AbstractAsyncContextManager[Any]],
    message: Message,
    error: Exception,
    *,
    consumer: str,
    table: str | TableName = DEFAULT_INBOX,
) -> Processed:
    """As ``set_aside``, with what ``enqueue_async`` takes."""
    work = _Work.of(message, consumer, 1, table)
    await _send(partial(_awaited, connection_factory), work, work.letter("set_aside", _text_of(error)))
    return work.done("dead", error=error)


def retries(
    connection_factory: Callable[[], AbstractContextManager[C]],
    handler: Callable[[C, Message], object],
    *,
    consumer: str,
    attempts: int = 5,
    most: int = 100,
    table: str | TableName = DEFAULT_INBOX,
) -> list[Processed]:
    """Process the dead letters that ``relay-cli inbox retry`` has marked, each as ``process`` does; at most ``most``.

    Call it from time to time, in the consumer. One that fails comes again with the next call, until its last try.
    """
    return [
        process(connection_factory, message, handler, consumer=consumer, attempts=attempts, table=table)
        for message in without_loop(_retries(partial(_blocking, connection_factory), consumer, most, table))
    ]


async def retries_async(
    connection_factory: Callable[[], AbstractAsyncContextManager[C]],
    handler: Callable[[C, Message], Coroutine[Any, Any, object]],
    *,
    consumer: str,
    attempts: int = 5,
    most: int = 100,
    table: str | TableName = DEFAULT_INBOX,
) -> list[Processed]:
    """As ``retries``, with what ``enqueue_async`` takes."""
    return [
        await process_async(connection_factory, message, handler, consumer=consumer, attempts=attempts, table=table)
        for message in await _retries(partial(_awaited, connection_factory), consumer, most, table)
    ]


async def _retries(connect: Connect[C], consumer: str, most: int, table: str | TableName) -> list[Message]:
    mark = mark_of("mark", {}, consumer, table)
    query = statement("inbox/process:retries", names=_names(mark.table))
    async with connect() as (_, channel), channel.transaction():
        rows = await channel.fetch(query, {**mark.values, "most": most})
    return [
        Message(event_id, event_type, key, bytes(payload), json.loads(headers))
        for event_id, event_type, key, payload, headers in rows
    ]


@dataclass(frozen=True, slots=True)
class _Work:
    """One delivery: its statements, and what the answers to them mean."""

    message: Message
    mark: Mark
    attempts: int
    names: Mapping[str, TableName]

    @classmethod
    def of(cls, message: Message, consumer: str, attempts: int, table: str | TableName) -> _Work:
        if attempts < 1:
            raise ConfigError(f"attempts: {attempts}; pass 1 or more")
        mark = mark_of("mark", {"event_id": canonical(message.event_id)}, consumer, table)
        return cls(message, mark, attempts, _names(mark.table))

    def call(self, name: str, **values: object) -> Call:
        """A statement of ``inbox/process`` about this event."""
        return statement(f"inbox/process:{name}", names=self.names), {**self.mark.values, **values}

    def naming_table(self) -> AbstractContextManager[None]:
        """Around the first statement: say which command makes a missing table."""
        return _naming_table(self.mark.table)

    def done(
        self, outcome: Literal["repeat", "dead", "failed", "busy"], tries: int = 0, error: Exception | None = None
    ) -> Processed:
        return Processed(self.mark.values["event_id"], outcome, tries, error)

    @staticmethod
    def refuse(*, autocommit: bool) -> None:
        if autocommit:
            raise InboxRefused(_AUTOCOMMIT)

    def check_held(self, written: int) -> None:
        """Raise InboxRefused where a statement about the row that this transaction holds wrote none."""
        if written == 0:
            raise InboxRefused(
                f"a BEFORE trigger of table {self.names[DEFAULT_TRIES]} left out what was written about "
                f"event {self.mark.values['event_id']}, and no error said so. Let it return NEW, or OLD for a DELETE"
            )

    def check_seen(self, rows: Sequence[Row], tries: int | None) -> None:
        """Raise InboxRefused where a statement wrote none, and the row is still the one that it was for.

        ``tries`` are those of the row, None where the statement was to make it.
        """
        [(handled, seen, state)] = rows
        if not handled and seen == tries and state != "dead":
            self.check_held(0)

    def begin(self, rows: Sequence[Row]) -> tuple[Processed, Call | None]:
        """What the first transaction found, and what it does; ``handled`` means that the handler may run now."""
        [(handled, tries, state, just_begun)] = rows
        if handled:
            return self.done("repeat"), self.call("finish")
        if tries is None or (just_begun and state != "dead"):
            return self.done("busy"), None
        if state == "dead":
            return self.done("dead", tries), None
        if tries >= self.attempts:
            return self.done("dead", tries), self.letter("bury", _KILLED, tries=tries)
        return Processed(self.mark.values["event_id"], "handled", tries + 1), self.call("begin")

    def fail(self, tries: int, error: Exception) -> tuple[Processed, Call]:
        """What a try that failed leaves."""
        text = _text_of(error)
        if tries < self.attempts:
            return self.done("failed", tries, error), self.call("fail", tries=tries, error=text)
        return self.done("dead", tries, error), self.letter("bury", text, tries=tries)

    def letter(self, name: str, error: str, **values: object) -> Call:
        """A statement that writes the whole message."""
        message = self.message
        return self.call(
            name,
            error=error,
            event_type=_storable(message.event_type),
            partition_key=_storable(message.partition_key),
            payload=message.payload,
            headers=json.dumps(dict(message.headers)),
            **values,
        )


async def _send(connect: Connect[C], work: _Work, call: Call) -> None:
    """Send one statement in a transaction of its own."""
    async with connect() as (_, channel), channel.transaction():
        with work.naming_table():
            if await channel.send(*call) == 0:
                work.check_seen(await channel.fetch(*work.call("seen")), call[1].get("tries"))


def _names(inbox: TableName) -> dict[str, TableName]:
    return {DEFAULT_INBOX: inbox, DEFAULT_TRIES: tries_of(inbox)}


@contextmanager
def _naming_table(inbox: TableName) -> Iterator[None]:
    tries = tries_of(inbox)
    option = "" if str(inbox) == DEFAULT_INBOX else f" --table {inbox}"
    with naming_table(f"{MIGRATE} --with dead-letters{option}", tries, str(tries)):
        yield


@asynccontextmanager
async def _blocking(
    connection_factory: Callable[[], AbstractContextManager[C]],
) -> AsyncIterator[tuple[C, AsyncCaller]]:
    with connection_factory() as connection:
        channel = sync_channel(connection)
        if channel is None:
            raise no_target("connection_factory of process", connection)
        yield connection, Blocking(channel)


@asynccontextmanager
async def _awaited(
    connection_factory: Callable[[], AbstractAsyncContextManager[C]],
) -> AsyncIterator[tuple[C, AsyncCaller]]:
    async with connection_factory() as connection:
        channel = async_channel(connection)
        if channel is None:
            raise no_target("connection_factory of process_async", connection)
        yield connection, channel


def _text_of(error: Exception) -> str:
    return (_storable(f"{type(error).__name__}: {error}") or "")[:_LONGEST_ERROR]


def _storable(text: str | None) -> str | None:
    """PostgreSQL's text has no NUL and no half of a surrogate pair."""
    return None if text is None else text.replace("\x00", "\ufffd").encode(errors="replace").decode()
