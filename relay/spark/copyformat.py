"""Header and trailer of PostgreSQL's binary COPY format, in both directions."""

from __future__ import annotations

from typing import Final

HEADER: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER: Final = b"\xff\xff"
