"""Read the payloads of a claim after it has committed, in pieces, where they are large.

A statement commits only once its result is on its way: while a backend waits for a client to read, it holds its row
locks, and no lease is set. So a claim carries payloads only as far as they fit into the buffers of the two sockets.
Measured on Linux with its default limits and a client that reads nothing: a backend got rid of 801 KiB on a new
connection with the segment size of Ethernet, of 6.5 MiB once 200 KB had been read over it; on loopback of 4 MiB.
Therefore ``INLINE_BYTES`` is 640 KiB. Larger claims commit without payloads, which plain SELECTs read afterwards:
they lock nothing, and each piece has the deadline of a statement, so what counts is progress, not the size of a claim.
What is not read in time, or is damaged, is ``Claim.unread``: the engine releases it.

``Appetite`` adapts to a slow link: a claim or read that takes too long makes the next ones ask for less. On a link so
slow that half a MiB takes a good part of LEASE_TIMEOUT no deadline says so, because bytes arrive all the time: the pace
of the replies does. It begins low, so that the first claim of a relay is not the one that finds out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any, Final, LiteralString

from relay.core.clock import steady_seconds
from relay.core.durations import in_words
from relay.core.errors import StorageError
from relay.core.event import Claim, EventId, Fence, OutboxEvent
from relay.outbox.outbox_options import PostgresOptions
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.sql import statement

logger = logging.getLogger(__name__)

INLINE_BYTES: Final = 640 * 1024
"""Most payload bytes that a claim carries itself."""

_PIECE_BYTES: Final = 512 * 1024  # payload bytes of one statement that reads several rows
_SLICE_BYTES: Final = 4 * 1024 * 1024  # of one row; not smaller, because each slice decompresses what is before it
_READ_WITHIN: Final = 2.0  # seconds for the payloads of one claim; a stop waits for them
_SHARE_OF_LEASE: Final = 0.5  # within which a claim's payloads must be read, or the first of them
_CLAIMS_APART: Final = 1000  # claims that read their payloads apart after one failed on a damaged payload
_LARGEST_DIVISOR: Final = 32  # of what a reply may carry
_FIRST_DIVISOR: Final = 8  # until replies have shown that the link is fast
_REPLY_SHARE_OF_LEASE: Final = 1 / 6  # a reply that takes longer carries too much

Row = tuple[Any, ...]


class Appetite:
    """How many bytes a claim asks for: fewer after one that took too long, more again after each that did not.

    How many rows is the engine's decision. ``lease_timeout`` is LEASE_TIMEOUT in seconds.
    """

    def __init__(self, lease_timeout: float) -> None:
        self._slow = lease_timeout * _REPLY_SHARE_OF_LEASE
        self._divisor = _FIRST_DIVISOR
        self._quick_bytes = 0
        """Most payload of a reply that was in time, since the last claim that was."""
        self._most: int | None = None
        self._apart = 0
        """How many claims in time must come before one carries payloads again."""

    @property
    def inline_bytes(self) -> int:
        """Most payload bytes that the next claim carries itself."""
        return 0 if self._apart else INLINE_BYTES // self._divisor

    @property
    def piece_bytes(self) -> int:
        """Most payload bytes of one statement that reads several rows."""
        return _PIECE_BYTES // self._divisor

    @property
    def slice_bytes(self) -> int:
        """Most bytes that one statement reads of one payload."""
        return _SLICE_BYTES // self._divisor

    def payload(self, max_bytes: int) -> int:
        """Most payload bytes of the next claim: ``max_bytes``, or less."""
        return max_bytes if self._most is None else min(max_bytes, self._most)

    def claim_failed(self) -> None:
        """A claim ran into its deadline: let the next one carry half."""
        self._divisor = min(self._divisor * 2, _LARGEST_DIVISOR)

    def arrived(self, payload_bytes: int, seconds: float) -> None:
        """A reply with that much payload took that long: let the next ones carry what comes in time."""
        if seconds > self._slow:
            self._quick_bytes = 0
            in_time = payload_bytes * self._slow / seconds
            while self._divisor < _LARGEST_DIVISOR and INLINE_BYTES // self._divisor > in_time:
                self._divisor *= 2
        else:
            self._quick_bytes = max(self._quick_bytes, payload_bytes)

    def damage_met(self) -> None:
        """A claim failed on a payload that the database cannot read: let the next ones leave payloads behind."""
        self._apart = _CLAIMS_APART

    def read_late(self, read_bytes: int) -> None:
        """Only that many bytes of payload could be read in time: ask for no more."""
        self._most = max(read_bytes, INLINE_BYTES)

    def in_time(self, max_bytes: int) -> None:
        """A claim and its payloads came in time: ask for twice as much.

        Once a claim, however many replies it took: a link may be fast for one claim and slow for the next.
        """
        self._apart = max(self._apart - 1, 0)
        if self._quick_bytes * 2 >= INLINE_BYTES // self._divisor:
            self._divisor = max(self._divisor // 2, 1)
        self._quick_bytes = 0
        if self._most is not None:
            self._most = self._most * 2 if self._most * 2 < max_bytes else None


class PayloadReader:
    """Completes the claims of one relay, over the connection that made them."""

    def __init__(
        self,
        connection: DeadlineConnection,
        options: PostgresOptions,
        appetite: Appetite,
        clock: Callable[[], float] = steady_seconds,
    ) -> None:
        self._connection = connection
        self._appetite = appetite
        self._clock = clock
        self._relay_id = options.relay_id
        self._in_order = options.key_order is not None
        self._longest = options.lease_timeout * _SHARE_OF_LEASE
        self._sizes = statement("outbox/claim:payloads", options.table, tags=["sizes"])
        self._payloads = statement("outbox/claim:payloads", options.table)
        self._slice = statement("outbox/claim:payloads", options.table, tags=["slice"])
        self.damaged = False
        """Whether the last claim has a row whose payload the database cannot read."""

    async def complete(self, fence: Fence, events: Sequence[OutboxEvent]) -> Claim:
        """Read the payloads of ``events``; what cannot be read, or not in time, is in ``unread``. Raises nothing."""
        self.damaged = False
        payloads: dict[EventId, bytes] = {}
        try:
            async with asyncio.timeout(self._longest):
                await self._read(fence, [event.event_id for event in events], payloads)
        except TimeoutError:
            # A link that has just become slow: a reply that began with the pace of before would outlast the lease.
            self._appetite.claim_failed()
            self._report(len(events) - len(payloads), f"they did not arrive within {in_words(self._longest)}")
        except StorageError as error:
            # Not raised: the claim has committed, and without this reply its rows would wait for their lease to end.
            # The engine releases what is unread, as soon as the database is back.
            self._report(len(events) - len(payloads), error)
        return self._answer(fence, events, payloads)

    async def _read(self, fence: Fence, event_ids: list[EventId], payloads: dict[EventId, bytes]) -> None:
        """Read into ``payloads`` until all are there or enough time has passed. Raises StorageError."""
        began = self._clock()
        sizes: dict[EventId, int] = dict(await self._rows(self._sizes, fence, event_ids))
        held = [event_id for event_id in event_ids if event_id in sizes]
        pieces = deque(_pieces(held, sizes, self._appetite.piece_bytes))
        while pieces and not (payloads and self._clock() - began > _READ_WITHIN):
            piece = pieces.popleft()
            try:
                payloads |= await self._piece(fence, piece, sizes[piece[0]])
            except StorageError as error:
                if not is_damage(error):
                    raise
                self._set_apart(piece, pieces, error)

    def _answer(self, fence: Fence, events: Sequence[OutboxEvent], payloads: dict[EventId, bytes]) -> Claim:
        """The claim with what was read. In order per key, events behind an unread one of their key count as unread."""
        read: list[OutboxEvent] = []
        unread: list[EventId] = []
        stopped: set[str] = set()
        for event in events:
            key = event.partition_key if self._in_order else None
            if event.event_id in payloads and key not in stopped:
                read.append(event._replace(payload=payloads[event.event_id]))
                continue
            unread.append(event.event_id)
            if key is not None:
                stopped.add(key)
        return Claim(fence, read, unread)

    async def _piece(self, fence: Fence, piece: list[EventId], size: int) -> dict[EventId, bytes]:
        """The payloads of one piece, whose first row has ``size`` bytes."""
        if size > self._appetite.slice_bytes:
            return await self._sliced(fence, piece[0], size)
        began = self._clock()
        payloads: dict[EventId, bytes] = dict(await self._rows(self._payloads, fence, piece))
        self._appetite.arrived(sum(map(len, payloads.values())), self._clock() - began)
        return payloads

    def _set_apart(self, piece: list[EventId], pieces: deque[list[EventId]], error: StorageError) -> None:
        """Read the rows of a damaged piece one by one; leave out the row that cannot be read."""
        if len(piece) > 1:
            pieces.extendleft([event_id] for event_id in reversed(piece))
            return
        self.damaged = True
        logger.error(
            "the payload of event %s cannot be read: %s. The event is released and tried again; the others go on. "
            "Restore the row from a backup, or delete it.",
            piece[0],
            error,
            extra={"action": "payload_damaged", "event_id": piece[0]},
        )

    @staticmethod
    def _report(events: int, error: StorageError | str) -> None:
        logger.warning(
            "the payloads of %d claimed events were not read, so these events are released: %s",
            events,
            error,
            extra={"action": "payloads_unread", "events": events},
        )

    async def _sliced(self, fence: Fence, event_id: EventId, size: int) -> dict[EventId, bytes]:
        """The payload of one row, slice by slice; empty when the row is lost."""
        # Its buffer becomes the payload without a copy: a large row is in memory once.
        payload = BytesIO()
        while payload.tell() < size:
            began = self._clock()
            length = self._appetite.slice_bytes
            rows = await self._rows(self._slice, fence, [event_id], start=payload.tell() + 1, length=length)
            if not rows:
                return {}
            payload.write(rows[0][1])
            self._appetite.arrived(len(rows[0][1]), self._clock() - began)
        return {event_id: payload.getvalue()}

    async def _rows(self, sql: LiteralString, fence: Fence, event_ids: Sequence[EventId], **more: int) -> list[Row]:
        parameters = {"ids": id_array(event_ids), "relay_id": self._relay_id, "fence": fence, **more}

        async def work(connection: Connection) -> list[Row]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(sql, parameters)
            return await cursor.fetchall()

        return await self._connection.run("reading payloads", work)


def is_damage(error: StorageError) -> bool:
    """Whether the database answers and cannot read what is stored: class XX is corrupted data."""
    return (error.sqlstate or "").startswith("XX")


def _pieces(event_ids: Sequence[EventId], sizes: dict[EventId, int], most: int) -> Iterator[list[EventId]]:
    """The ids in their order, in groups of at most that many bytes of payload; a larger row is alone."""
    piece: list[EventId] = []
    total = 0
    for event_id in event_ids:
        total += sizes[event_id]
        if piece and total > most:
            yield piece
            piece, total = [], sizes[event_id]
        piece.append(event_id)
    if piece:
        yield piece
