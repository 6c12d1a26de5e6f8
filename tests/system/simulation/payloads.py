"""A relay reads the payloads that its claim left behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, LiteralString, cast

from relay.core.event import EventId, Fence
from relay.outbox.outbox_options import KeyOrder, PostgresOptions
from relay.outbox.payloads import Appetite, PayloadReader, Row
from relay.postgres.connect import DeadlineConnection
from relay.postgres.prepared import Preparation
from relay.postgres.sql import TableName
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.options import retry_policy

Send = Callable[..., Awaitable[Any]]


class SimulatedPayloads(PayloadReader):
    """The relay's own reader, with the rows of the scripted database."""

    def __init__(
        self,
        send: Send,
        held: Callable[[Fence, Sequence[EventId]], list[MemoryRow]],
        lease: float,
        key_order: KeyOrder | None,
        appetite: Appetite,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(cast("DeadlineConnection", None), _options(lease, key_order), appetite, clock)
        self._send = send
        self._held = held

    async def _rows(self, sql: LiteralString, fence: Fence, event_ids: Sequence[EventId], **more: int) -> list[Row]:
        def work() -> list[Row]:
            rows = self._held(fence, event_ids)
            if sql == self._sizes:
                return [(row.event_id, len(row.payload)) for row in rows]
            if sql == self._payloads:
                return [(row.event_id, row.payload) for row in rows]
            first = more["start"] - 1
            return [(row.event_id, row.payload[first : first + more["length"]]) for row in rows]

        rows: list[Row] = await self._send("read", work, weigh=_payload_bytes)
        return rows


def _payload_bytes(rows: list[Row]) -> int:
    return sum(len(value) for row in rows for value in row if isinstance(value, bytes))


@cache
def _options(lease: float, key_order: KeyOrder | None) -> PostgresOptions:
    return PostgresOptions(
        url="",
        relay_id="",
        table=TableName(),
        lease_timeout=lease,
        retry=retry_policy(),
        key_order=key_order,
        delete_delivered=False,
        fan_out=False,
        durable_claims=False,
        prepared=Preparation.OFF,
    )


@cache
def payload(size: int) -> bytes:
    """A payload of that many bytes, one object for all rows."""
    return b"x" * size
