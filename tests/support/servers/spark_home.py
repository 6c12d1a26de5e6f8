"""The folder of Spark that the tests run: the wheel's, but for the archives of PySpark's modules.

Spark puts ``python/lib/pyspark.zip`` in front of the path of each Python process that it starts: five for the first
``save()`` of a driver, two more for its first read. Python stores no compiled modules of an archive, so each process
compiles PySpark again. Without the archive it imports the same modules from the wheel, where they are compiled: 3
instead of 6 CPU seconds for a first ``save()``, and 1.2 instead of 2.5 for a first read (two shared cores).
"""

from __future__ import annotations

import functools
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from tests.support.paths import CACHE

WHEEL: Final = Path(pyspark.__file__).parent
"""Where the wheel ``pyspark`` has Spark."""


@functools.cache
def spark_home() -> Path:
    """``SPARK_HOME``; made on the first call in a checkout, by several processes at once too."""
    home = CACHE / f"spark-home-{hashlib.sha256(str(WHEEL).encode()).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):  # the wheel of PySpark 4.1 has no sbin
        if (WHEEL / name).exists():
            with suppress(FileExistsError):
                (home / name).symlink_to(WHEEL / name)
    return home
