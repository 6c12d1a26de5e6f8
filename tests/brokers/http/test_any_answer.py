"""Whatever bytes a receiver answers with, in whatever pieces: one outcome, soon, and never an exception."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, cast

from relay.brokers.http.errors import Answer, BadAnswer, Cut
from relay.brokers.http.request import HttpRequest
from relay.brokers.http.session import HttpSession
from tests.support.servers.any_answer import pieces

_CASES = 3000


class Wire:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.aborted = False

    def write(self, data: bytes) -> None:
        """Take it."""

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        """Know nothing."""


async def test_any_bytes_have_one_outcome_soon() -> None:
    draw = random.Random(43)
    request = HttpRequest(b"POST / HTTP/1.1\r\n\r\n", b"body")
    outcomes: set[type] = set()
    longest = 0.0
    for _ in range(_CASES):
        session, wire = HttpSession(), Wire()
        session.connection_made(cast("Any", wire))
        answer = asyncio.ensure_future(session.post(request, 60.0))
        await asyncio.sleep(0)
        sent = pieces(draw)
        for piece in sent:
            began = time.thread_time()
            session.data_received(piece)
            longest = max(longest, time.thread_time() - began)
            if wire.aborted:
                break
        session.connection_lost(None)
        try:
            result: object = await asyncio.wait_for(answer, 10.0)
        except (BadAnswer, Cut) as error:
            result = error
        outcomes.add(type(result))
        assert b"".join(sent)[:13] not in (b"HTTP/1.1 200 ", b"HTTP/1.1 200\r") or isinstance(result, Answer)
    assert outcomes == {Answer, BadAnswer, Cut}
    assert longest < 0.5
