"""A broker that keeps the relay busy: it takes a login, and then sends without end what costs the most to read.

python -m tests.support.servers.flooding_broker PORT KIND

NATS and RabbitMQ flood a client that has logged in; Redis and AWS
(``costly_answers``) answer each request at great length.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from pamqp import commands, frame

from tests.support.servers.costly_answers import ANSWERS

_AT_ONCE = 100_000  # bytes
_INFO = b'INFO {"server_id":"a","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}\r\n'


def _amqp(*answers: frame.FrameTypes, channel: int = 0) -> bytes:
    return b"".join(frame.marshal(answer, channel) for answer in answers)


_FIRST = {
    "nats": [(b"", _INFO), (b"PING", b"PONG\r\n")],
    "amqp": [
        (b"AMQP", _amqp(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"))),
        (b"PLAIN", _amqp(commands.Connection.Tune(0, 131_072, 60))),
        (b"\x00\x0a\x00\x28", _amqp(commands.Connection.OpenOk())),
        (b"\x00\x14\x00\x0a", _amqp(commands.Channel.OpenOk(), channel=1)),
        (b"\x00\x55\x00\x0a", _amqp(commands.Confirm.SelectOk(), channel=1)),
    ],
}
"""What is answered to a text of the client, in this order."""

_AGAIN = {
    "nats-ping": b"PING\r\n",
    "nats-info": _INFO,
    "nats-error": b"-ERR 'a'\r\n",
    "amqp-nack": _amqp(commands.Basic.Nack(10**6, False, False), channel=1),
    "amqp-return": _amqp(commands.Basic.Return(312, "NO_ROUTE", "e", "k"), channel=1),
}


async def flood(kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection."""
    received = b""
    for wanted, answer in _FIRST[kind.partition("-")[0]]:
        while wanted not in received:
            if not (some := await reader.read(65_536)):
                return
            received += some
        received = received.partition(wanted)[2]
        writer.write(answer)
    await writer.drain()
    again = _AGAIN[kind] * (_AT_ONCE // len(_AGAIN[kind]))
    while True:
        writer.write(again)
        await writer.drain()


async def main(port: str, kind: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await (ANSWERS[kind](reader, writer) if kind in ANSWERS else flood(kind, reader, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
