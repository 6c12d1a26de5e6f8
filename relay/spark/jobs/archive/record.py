"""The record of an archive in a folder: its format, and the outbox that it belongs to.

It is ``ARCHIVE/archive.json``: ``{"format": 1, "outbox": …}`` for Parquet files. For tables the number is higher, since
earlier releases would add Parquet files, and ``tables`` names their format. Archives of earlier releases have
``_archive.json``, which Spark's own reader, that of Spark Connect, leaves out as a hidden file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from relay.spark.jobs.archive.ledger import parse
from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.folder import Folder

PARQUET: Final = "parquet"
DELTA: Final = "delta"

EARLIER_RECORD: Final = "_archive.json"
RECORD: Final = "archive.json"
_NUMBERS: Final = {PARQUET: 1, DELTA: 2}


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """The format of an archive, and its outbox."""

    format: str
    outbox: str


def read_record(folder: Folder) -> ArchiveRecord | None:
    """The folder's record; None without one. Raises ArchiveError for a format of a later release."""
    text = folder.read(RECORD) or folder.read(EARLIER_RECORD)
    if text is None:
        return None
    content = parse(text, f"{folder.path}/{RECORD}")
    name = content.get("tables", PARQUET)
    if content.get("format") != _NUMBERS.get(name, 0):
        raise ArchiveError(
            f"{folder.path}: format {content.get('format')}; this release reads formats "
            f"{' and '.join(map(str, _NUMBERS.values()))}"
        )
    return ArchiveRecord(name, str(content["outbox"]))


def write_record(folder: Folder, record: ArchiveRecord) -> None:
    """Write the record, unless the folder has one under this name."""
    if folder.read(RECORD) is None:
        tables = {} if record.format == PARQUET else {"tables": record.format}
        folder.write(RECORD, json.dumps({"format": _NUMBERS[record.format], "outbox": record.outbox, **tables}))
