"""TLS in front of a server that has none: ends the encryption and passes the bytes on, as stunnel would.

Certificates come from an authority of the test's own, made on the spot.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class TlsEndpoint:
    """Where TLS is spoken, and the authority that vouches for it."""

    port: int
    ca_file: Path


@contextlib.asynccontextmanager
async def tls_in_front_of(port: int, folder: Path) -> AsyncIterator[TlsEndpoint]:
    """Listen on a port of 127.0.0.1 with a certificate for it, in front of ``port``; the CA's file is in ``folder``."""
    authority = trustme.CA()
    ca_file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copy(reader, behind_writer), _copy(behind_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield TlsEndpoint(server.sockets[0].getsockname()[1], ca_file)
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until either end is closed, then close the other."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
