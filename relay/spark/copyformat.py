"""The frame of PostgreSQL's binary COPY format, which a stream of rows stands in, both ways."""

from __future__ import annotations

from typing import Final

HEADER: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER: Final = b"\xff\xff"
