"""When the bytes of a message were last seen leaving this host."""

from __future__ import annotations

import asyncio
import math
from typing import cast

from relay.brokers.sending import SendProgress


class Buffered:
    """A transport that holds so many bytes, of a socket that says nothing."""

    def __init__(self) -> None:
        self.held = 0

    def get_write_buffer_size(self) -> int:
        return self.held

    def get_extra_info(self, name: str) -> None:
        """Nothing is known."""


def test_a_look_that_follows_closely_takes_back_nothing() -> None:
    transport = Buffered()
    sending = SendProgress(cast("asyncio.WriteTransport", transport))
    sending.written, transport.held = 100, 60
    assert sending.seen_leaving(100) == -math.inf
    sending.look(1.0)
    assert (sending.seen_leaving(30), sending.seen_leaving(100)) == (1.0, 1.0)
    sending.look(1.05)  # nothing has left since
    assert (sending.seen_leaving(30), sending.seen_leaving(100)) == (1.0, 1.0)
    transport.held = 0
    sending.look(2.0)
    assert (sending.seen_leaving(30), sending.seen_leaving(100)) == (-math.inf, 2.0)
