"""Whether a file is another one than before, without reading it."""

from __future__ import annotations

import os
from typing import TypeAlias

FileMark: TypeAlias = tuple[int, int, int, int] | None


def file_mark(path: str | os.PathLike[str]) -> FileMark:
    """Changes when the file is written or replaced: time (ns), size, inode and device. None where none can be seen."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat, once a request of the console
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
