"""PostgreSQL whose data is in memory, for the server that a whole run shares, and for those of single tests.

Every test with a database copies 300 files and deletes them again. On a disk that takes 0.09 CPU seconds, in memory
0.02 (two shared cores), for more than two thousand tests.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from relay.localservers.postgres import DEFAULT_BUILD, PostgresServer

_MEMORY: Final = Path("/dev/shm")
_LEAST_FREE: Final = 4 << 30
"""Bytes: many times what the tests' databases and the log take; containers often have 64 MiB."""


class MemoryPostgres(PostgresServer):
    """A server whose folder is in memory where the machine has room for it, else on disk."""

    def __init__(self, *, build: str = DEFAULT_BUILD) -> None:
        super().__init__(build=build, settings={"max_wal_size": "256MB"})
        self._parent = _MEMORY if _is_usable() else None


def _is_usable() -> bool:
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _LEAST_FREE:
        return False
    return not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC  # the binaries may be copied to the folder
