"""PostgreSQL's binary COPY format read back, by its documentation and nothing of ours."""

from __future__ import annotations

import struct

Field = bytes | None


def read_rows(data: bytes | memoryview) -> list[list[Field]]:
    """The fields of each row; ``data`` has neither header nor trailer."""
    rest = bytes(data)
    rows: list[list[Field]] = []
    at = 0
    while at < len(rest):
        (count,) = struct.unpack_from("!h", rest, at)
        at += 2
        row: list[Field] = []
        for _ in range(count):
            (length,) = struct.unpack_from("!i", rest, at)
            at += 4
            row.append(None if length < 0 else rest[at : at + length])
            at += max(length, 0)
        rows.append(row)
    return rows
