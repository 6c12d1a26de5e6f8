"""PostgreSQL's own programs, which the wheel of the server brings: psql, pg_dump."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Final

from relay.localservers.postgres import DEFAULT_BUILD, NEWEST_BUILD
from tests.support.waiting import patience


def _tools(build: str) -> Path:
    spec = importlib.util.find_spec(build)  # to import the newest build warns of the machine's folders
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall/bin"


TOOLS: Final = _tools(DEFAULT_BUILD)
NEWEST_TOOLS: Final = _tools(NEWEST_BUILD)
"""Those that work with a server of every supported version."""
WITH_PSQL: Final = f"{TOOLS}:/usr/local/bin:/usr/bin:/bin"
"""The PATH of a machine that has them."""


def psql(url: str, *options: str, script: str = "") -> str:
    """Run files (``-f``) or a script to the end; what was printed. Fails with the first statement that fails."""
    command = [str(TOOLS / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *options, url]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
