"""Where a reader of an event store continues. Pure; for the event store and for Spark's executors."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from relay.core.errors import EventError


class Checkpoint(NamedTuple):
    """A position, and the event that was read there, by which a reader notices that the store went back.

    ``str`` writes it as one line of text, ``Checkpoint.parse`` reads that again: store it with your own data.
    """

    position: int
    """0 before the first event."""
    tenant_id: UUID | None = None
    """None: the position alone, which is accepted up to the newest one."""
    stream_id: UUID | None = None
    version: int | None = None
    log_date: datetime | None = None
    """None where it is not known; then it is not compared."""

    def __str__(self) -> str:
        if self.tenant_id is None:
            return str(self.position)
        written = "" if self.log_date is None else self.log_date.astimezone(UTC).isoformat()
        return f"{self.position}/{self.tenant_id}/{self.stream_id}/{self.version}/{written}"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """The checkpoint of its text, or of a position alone. Raises EventError for any other text."""
        with suppress(ValueError):
            match text.split("/"):
                case [position]:
                    return cls(int(position))
                case [position, tenant, stream, version, date]:
                    log_date = datetime.fromisoformat(date) if date else None
                    return cls(int(position), UUID(tenant), UUID(stream), int(version), log_date)
        raise EventError(f"checkpoint: {text!r} is none; pass what str() of a Checkpoint returned")


def checkpoint_values(checkpoint: Checkpoint) -> dict[str, object]:
    """The values of the statements that compare a checkpoint with what is stored."""
    position, tenant, stream, version, log_date = checkpoint
    return {"position": position, "tenant": tenant, "stream": stream, "version": version, "log_date": log_date}


START: Final = Checkpoint(0)
"""Before the first event."""
