"""Replies that have arrived together, taken from the parser without a turn of redis-py for each.

redis-py passes each reply through three coroutines, which takes a fifth of what a message costs the publisher
(benchmarks/lab/README.md). Connecting, reading from the socket and the first reply of what arrives are the
library's; the replies behind it are in its parser already.

The only module of this room that uses private parts of the library. ``tests/brokers/redis/test_arrived.py`` holds them
to the library's behaviour, and ``make lowest`` runs it on the lowest version that pyproject.toml allows. With a version
that lacks them every reply comes through the public method, and one warning says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from hiredis import Reader
from redis.asyncio.connection import AbstractConnection

try:
    from redis._parsers.hiredis import NOT_ENOUGH_DATA
except ImportError:  # in a version to come
    NOT_ENOUGH_DATA = None

NOTHING: Final[object] = NOT_ENOUGH_DATA or object()
"""There is no whole reply yet."""

logger = logging.getLogger(__name__)


class ArrivedReplies:
    """What the parser of one connection holds."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._parser: Any = getattr(connection, "_parser", None)
        reader: Any = getattr(self._parser, "_reader", None)
        self.take: Callable[[], object] = _nothing
        """The next reply: an exception for an error reply, a list for what the server pushes, ``NOTHING`` for none.
        Raises RedisError for bytes that are no reply."""
        if not (isinstance(reader, Reader) and hasattr(self._parser, "handle_push_response")):
            _warn()
        elif not reader.has_data():  # else something was pushed right after the login: this session does without
            # What stands for no reply must never be taken for one: it is looked at where there is none.
            if reader.gets() is NOTHING:
                self.take = reader.gets
            else:
                _warn()

    async def pass_on(self, pushed: list[Any]) -> None:
        """Give the library what the server pushed, which is no reply."""
        await self._parser.handle_push_response(pushed)


def _nothing() -> object:
    return NOTHING


@cache
def _warn() -> None:
    logger.warning(
        "redis-py %s has other internals than this relay knows: replies are taken one by one, for a fifth more of the "
        "publisher's processor time; pip install 'redis>=6.2,<9' has them",
        version("redis"),
        extra={"action": "redis_slow_path"},
    )
