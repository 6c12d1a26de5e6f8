"""The program of ``WebhookServer``: an HTTP server that keeps what it is sent.

aiohttp's server speaks HTTP/1.1, hypercorn HTTP/2: neither is the code under test.

    python -m tests.support.servers.webhook_receiver PORT PROTOCOL [CERTIFICATE KEY [AUTHORITY]]

With AUTHORITY it demands a client's certificate. What a POST is answered with is in the type of its event: ``missing``
404, ``status.503.7`` a status and a Retry-After, ``hang`` nothing, ``cut`` an aborted connection, a body over a million
bytes 413, unless the type is ``large``; anything else is kept and answered with 204. ``GET /?type=X`` returns what came
of a type, as JSON, and ``GET /`` the number of requests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

import uvloop
from aiohttp import web
from hypercorn.asyncio import serve
from hypercorn.config import Config

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


async def run_http1(received: Received, port: int, context: ssl.SSLContext | None) -> None:
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
        status, headers, body = received.take(request.path_qs, pairs, content)
        return web.Response(status=status, headers=headers, body=body or None)

    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, backlog=1024).start()
    await asyncio.Event().wait()


async def run_http2(received: Received, port: int, certificate: str, key: str) -> None:
    """Serve without end."""

    async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        content, more = b"", True
        while more:
            message = await receive()
            content, more = content + message.get("body", b""), message.get("more_body", False)
        pairs = [(name.decode(), value.decode()) for name, value in scope["headers"]]
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        if dict(pairs).get("x-event-type") == "hang":
            await asyncio.Event().wait()
        if scope["method"] == "GET":
            status, headers, body = received.show(query)
        else:
            target = scope["path"] + (f"?{scope['query_string'].decode()}" if scope["query_string"] else "")
            pairs.append(("http-version", scope["http_version"]))
            status, headers, body = received.take(target, pairs, content)
        fields = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    config = Config.from_mapping(bind=[f"127.0.0.1:{port}"], certfile=certificate, keyfile=key, accesslog=None)
    config.keep_alive_max_requests = 1_000_000
    await serve(app, config, mode="asgi")


async def main(port: str, protocol: str, certificate: str = "", key: str = "", authority: str = "") -> None:
    received = Received()
    if protocol == "2":
        await run_http2(received, int(port), certificate, key)
        return
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority or None)
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_REQUIRED if authority else ssl.CERT_NONE
    await run_http1(received, int(port), context)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
