"""What the outbox table must be, by the contract: its columns, constraint and indexes as the catalog describes them.

Pure: nothing here connects. What makes the table is ``openoutbox.schema``; what of it is missing is read from the
catalog (``relay.outbox.migrate``), not from a list of what once was, so that a table made by hand needs no second
truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHECK_NAME: Final = "check_valid_status"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the catalog describes it; ``default`` in PostgreSQL's own words."""

    name: str
    type: str
    required: bool = False
    default: str | None = None

    def __str__(self) -> str:
        required = " NOT NULL" if self.required else ""
        return f"{self.type}{required}{f' DEFAULT {self.default}' if self.default is not None else ''}"


_NOW: Final = "now()"

COLUMNS: Final = (
    Column("event_id", "uuid", required=True),
    Column("event_type", "text", required=True),
    Column("partition_key", "text"),
    Column("payload", "bytea", required=True),
    Column("headers", "jsonb", required=True, default="'{}'::jsonb"),
    Column("status", "text", required=True, default="'PENDING'::text"),
    Column("attempts", "integer", required=True, default="0"),
    Column("last_error", "text"),
    Column("available_at", "timestamp with time zone", required=True, default=_NOW),
    Column("locked_by", "text"),
    Column("locked_at", "timestamp with time zone"),
    Column("delivered_at", "timestamp with time zone"),
    Column("created_at", "timestamp with time zone", required=True, default=_NOW),
    Column("updated_at", "timestamp with time zone", required=True, default=_NOW),
)

INDEXES: Final = {
    "processing_queue": "USING btree (available_at, created_at) WHERE (status = 'PENDING'::text)",
    "stuck_leases": "USING btree (locked_at) WHERE (status = 'DELIVERING'::text)",
    "metrics_count": "USING btree (status) INCLUDE (attempts) WHERE (status = 'PENDING'::text)",
    "metrics_lag": "USING btree (status, created_at) WHERE (status = 'PENDING'::text)",
    "prune_delivered": "USING btree (delivered_at) WHERE (status = 'DELIVERED'::text)",
    "prune_dead": "USING btree (updated_at) WHERE (status = 'DEAD'::text)",
}
"""What the index of each role is, in the words of ``pg_get_indexdef``."""
