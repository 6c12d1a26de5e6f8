"""The SDK's HTTP client, which reads no more of an answer than the services ever send, and asks no other host.

Counted is what arrives, before anything parses it: interim answers, heads and the frames of a body cost time, too.
Used by ``relay.brokers.aws.client``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from aiobotocore.httpsession import AIOHTTPSession
from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler

_LARGEST: Final = 1 << 18  # bytes of an answer; of ten messages a few kilobytes, of a topic with the largest policy 100
_MOST_MARKS: Final = 5000  # lines, chunks, values of JSON and tags of XML in it: each takes 3 us
_MARKS: Final = b"\n,[{<"


class BoundedSession(AIOHTTPSession):  # type: ignore[misc]  # the library has no types
    """See the module's text."""

    async def _get_session(self, proxy_url: str | None) -> SimpleNamespace:
        """What sends the SDK's requests. A cookie would stay in memory, and a redirect would take events elsewhere."""
        session = await super()._get_session(proxy_url)
        session.connector._factory = partial(_Connection, loop=asyncio.get_running_loop())  # noqa: SLF001 - no other way
        session.cookie_jar.clear()
        return SimpleNamespace(request=partial(session.request, allow_redirects=False))


class _Connection(ResponseHandler):
    """A connection that is cut where an answer is larger than any of the service."""

    _bytes = _LARGEST
    """How many more are read of this answer."""
    _marks = _MOST_MARKS

    def set_response_params(self, **parameters: Any) -> None:  # noqa: ANN401 - the library's
        """Begin to count: a request follows."""
        self._bytes, self._marks = _LARGEST, _MOST_MARKS
        super().set_response_params(**parameters)

    def data_received(self, data: bytes) -> None:
        """Count, then parse."""
        self._bytes -= len(data)
        self._marks -= sum(map(data.count, _MARKS))
        if self._bytes >= 0 and self._marks >= 0:
            super().data_received(data)
            return
        error = ClientPayloadError("an answer that is larger than any of the service")
        body, self._payload = self._payload, None
        for reader in (self, body):
            if reader is not None:
                reader.set_exception(error)
        if self.transport is not None:
            self.transport.abort()
