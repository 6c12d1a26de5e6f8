"""The Python of a cluster's drivers and executors: of this environment, it finds what pyproject.toml lists alone.

A missing import that only a whole installation of the relay would satisfy fails there as it does for a user.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from tests.support.paths import CACHE, ROOT

_EXTRAS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
LISTED: Final = {
    re.split(r"\W", each)[0]: each for each in _EXTRAS["spark"] + _EXTRAS["spark-local"] if "openoutbox" not in each
}
"""The requirements by their names. Archive and replay need pandas, since PySpark's ``mapInArrow`` asks for it."""
_THEIRS: Final = ("py4j", "psycopg-binary", "typing_extensions", "python-dateutil", "six", "pytz", "tzdata")


@functools.cache
def lean_python() -> Path:
    """A program that is this Python without its ``site-packages``, but for what is listed."""
    name = Path(sys.prefix).name.replace(".", "")
    folder = CACHE / f"spark-python-{name}-{sys.version_info.major}{sys.version_info.minor}"
    folder.mkdir(parents=True, exist_ok=True)
    for package in (*LISTED, *_THEIRS):
        with suppress(ImportError):  # pandas 3 does without pytz
            files = distribution(package)
            for top in {path.parts[0] for path in files.files or ()} - {"..", "__pycache__"}:
                with suppress(FileExistsError):
                    (folder / top).symlink_to(str(files.locate_file(top)))
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{folder}" exec "{sys.executable}" -S "$@"\n')
    program.chmod(0o755)
    return program
