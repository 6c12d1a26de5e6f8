"""redis-py's parser of replies, which ends a connection whose reply, or what the server pushes, does not end.

It uses private parts of the library, as ``relay.brokers.redis.arrived`` does, and runs with the lowest version that
pyproject.toml allows.
"""

from __future__ import annotations

from typing import Any, Final

from redis._parsers import _AsyncHiredisParser
from redis.exceptions import InvalidResponse

_ENDLESS: Final = "messages that were not asked for, without end"
MOST_READS: Final = 500
"""Of up to 64 KiB each, for one reply: those that the relay asks for have 100 KiB at most, in a large cluster."""
MOST_PUSHES: Final = 1000
"""Messages that were not asked for, on one connection: a server that is moved sends a few."""


class BoundedParser(_AsyncHiredisParser):
    """Raises InvalidResponse, which ends the connection."""

    _reads = 0
    _pushes = 0

    async def read_from_socket(self) -> bool:
        """Read a part of a reply."""
        self._reads += 1
        if self._reads > MOST_READS:
            raise InvalidResponse("a reply that does not end")
        await super().read_from_socket()  # type: ignore[no-untyped-call]
        return True

    async def read_response(self, disable_decoding: bool = False, push_request: bool = False) -> Any:  # noqa: ANN401 - as the library's
        """The next reply."""
        self._reads = 0
        try:
            return await super().read_response(disable_decoding, push_request)
        except RecursionError:  # the library calls itself for each message that the server pushes
            raise InvalidResponse(_ENDLESS) from None

    async def handle_push_response(self, response: Any, **options: Any) -> Any:  # noqa: ANN401 - as the library's
        """One message that the server pushes."""
        self._pushes += 1
        if self._pushes > MOST_PUSHES:
            raise InvalidResponse(_ENDLESS)
        try:
            return await super().handle_push_response(response, **options)  # type: ignore[no-untyped-call]
        except (LookupError, TypeError, ValueError):  # an empty one, or one that is no text
            raise InvalidResponse("a message that was not asked for and cannot be read") from None
