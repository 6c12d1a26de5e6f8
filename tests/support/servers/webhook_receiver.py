"""The program of ``WebhookServer``: an HTTP server that keeps what it is sent.

aiohttp serves, which is not the code under test.

    python -m tests.support.servers.webhook_receiver PORT [CERTIFICATE KEY [AUTHORITY]]

With AUTHORITY it demands a client's certificate. What a POST is answered with is in the type of its event: ``missing``
404, ``status.503.7`` a status and a Retry-After, ``hang`` nothing, ``slow`` 204 after two seconds, ``cut`` an aborted
connection, a body over a million bytes 413, unless the type is ``large``; anything else is kept and answered with 204.
``GET /?type=X`` returns what came of a type, as JSON, and ``GET /`` the number of requests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import uvloop
from aiohttp import web

from tests.support.waiting import pace_async

LARGEST = 1_000_000
"""Bytes of a body that are taken."""

Reply = tuple[int, dict[str, str], bytes]


class Received:
    """Requests by event type."""

    def __init__(self) -> None:
        self._by_type: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._requests = 0

    def take(self, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> Reply:
        """Keep a POST; the answer to it."""
        self._requests += 1
        pairs = list(headers)
        kind = {name.lower(): value for name, value in pairs}.get("x-event-type", "")
        if kind == "missing":
            return 404, {}, b"no such hook"
        if len(body) > LARGEST and kind != "large":
            return 413, {}, b""
        if kind.startswith("status."):
            _, status, *after = kind.split(".", 2)
            return int(status), {"Retry-After": unquote(after[0])} if after else {}, b"as asked"
        message = {"target": target, "headers": pairs, "body": base64.b64encode(body).decode()}
        self._by_type[kind].append(message)
        return 204, {}, b""

    def show(self, query: Mapping[str, str]) -> Reply:
        """What came."""
        found = self._by_type[query["type"]] if "type" in query else self._requests
        return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()


async def run(received: Received, port: int, context: ssl.SSLContext | None) -> None:
    """Serve without end."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            status, headers, body = received.show(dict(request.query))
            return web.Response(status=status, headers=headers, body=body)
        content = await request.content.read()
        pairs = [(name.decode(), value.decode()) for name, value in request.raw_headers]
        kind = request.headers.get("X-Event-Type", "")
        if kind == "cut":
            assert request.transport is not None
            request.transport.abort()
        if kind in {"hang", "cut"}:
            await asyncio.Event().wait()
        if kind == "slow":
            await pace_async(2.0)
        status, headers, body = received.take(request.path_qs, pairs, content)
        return web.Response(status=status, headers=headers, body=body or None)

    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, backlog=1024).start()
    await asyncio.Event().wait()


async def main(port: str, certificate: str = "", key: str = "", authority: str = "") -> None:
    received = Received()
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority or None)
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_REQUIRED if authority else ssl.CERT_NONE
    await run(received, int(port), context)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
