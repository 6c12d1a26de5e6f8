"""The time for an answer does not run while the relay itself does not."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from relay.brokers.http.deadline import Deadline
from relay.brokers.http.session import HttpSession
from tests.support.waiting import eventually, pace


async def test_time_in_which_the_relay_does_not_run_is_no_timeout() -> None:
    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(read, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[:2]
    transport, _ = await asyncio.get_running_loop().create_connection(HttpSession, *address)
    transport.write(b"POST")
    expired: list[bool] = []
    deadline = Deadline(transport, 4, 1.5, lambda: expired.append(True))
    await eventually(lambda: deadline._progress.received == 4)
    pace(2.0)
    for _ in range(3):  # an answer that has arrived meanwhile is read in these turns
        await asyncio.sleep(0)
        assert not expired
    await eventually(lambda: expired)
    transport.abort()
    server.close()
