"""One path for both kinds of connections: what is written for an asynchronous channel also runs over a synchronous one.

The methods of ``Blocking`` block, and never suspend: ``without_loop`` runs a coroutine over it to its end, in any
thread, with or without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, LiteralString, TypeVar

from openoutbox.ports import Row, SyncCaller, Values

T = TypeVar("T")


class Blocking:
    """An ``AsyncCaller`` over a synchronous one."""

    def __init__(self, channel: SyncCaller) -> None:
        self._channel = channel

    async def send(self, statement: LiteralString, values: Values) -> int:
        return self._channel.send(statement, values)

    async def fetch(self, statement: LiteralString, values: Values) -> Sequence[Row]:
        return self._channel.fetch(statement, values)

    async def commits_at_once(self) -> bool:
        return self._channel.commits_at_once()

    async def flush(self) -> None:
        self._channel.flush()

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return entered(self._channel.savepoint())

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return entered(self._channel.transaction())


@asynccontextmanager
async def entered(block: AbstractContextManager[T]) -> AsyncIterator[T]:
    """The block of a synchronous context manager, as one of an asynchronous one."""
    with block as value:
        yield value


def without_loop(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a synchronous channel never suspends")
