"""Connect to the first of several addresses that answers, as RFC 8305 says: one that drops packets delays nothing.

For connections to brokers and the database. The families take turns, and each address has a quarter of a second before
the next one is tried beside it.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

Address = tuple[int, tuple[Any, ...]]
"""Family and socket address, with a numeric host."""

_NEXT_AFTER: Final = 0.25  # seconds


async def connect_first(addresses: Sequence[Address]) -> socket.socket:
    """Return a connected socket, which is the caller's to close. Raises OSError, of the last address that failed.

    Cancelled, it leaves no socket open.
    """
    waiting = _in_turn(addresses)
    attempts: set[asyncio.Task[socket.socket]] = set()
    error: BaseException = OSError("there is no address")
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.ensure_future(_connect(waiting.pop(0))))
            done, _ = await asyncio.wait(
                attempts, timeout=_NEXT_AFTER if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                attempts.discard(attempt)
                if (failure := attempt.exception()) is None:
                    return attempt.result()
                error = failure
    finally:
        for attempt in attempts:  # one of them may have succeeded just now
            attempt.cancel()
            attempt.add_done_callback(_discard)
    raise error


def _in_turn(addresses: Iterable[Address]) -> list[Address]:
    by_family: dict[int, list[Address]] = {}
    for address in addresses:
        by_family.setdefault(address[0], []).append(address)
    rounds = itertools.zip_longest(*by_family.values())
    return [address for one_of_each in rounds for address in one_of_each if address is not None]


async def _connect(address: Address) -> socket.socket:
    family, where = address
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, where)
    except BaseException:
        connecting.close()
        raise
    return connecting


def _discard(attempt: asyncio.Task[socket.socket]) -> None:
    with suppress(asyncio.CancelledError, OSError):
        attempt.result().close()
