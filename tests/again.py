"""Run the tests that failed in the last run once more, one after the other: ``python -m tests.again``, for ``.ci/run``.

A slow or shared machine breaks a test now and then that passes alone. Each such test is a fault, its own or the
product's, so it is named. A test that fails again fails the whole, and so do more than ``MOST`` failures in one run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
MOST: Final = 3
_GROUP: Final = re.compile(r"@[\w -]+$")


def plain(test: str) -> str:
    """The id without the group that pytest-xdist adds with ``--dist loadgroup``."""
    return _GROUP.sub("", test)


def main() -> int:
    """Returns 0 if all of them pass."""
    failed = [plain(test) for test in json.loads(FAILED.read_text(encoding="utf-8"))] if FAILED.is_file() else []
    if not 0 < len(failed) <= MOST:
        sys.stderr.write(f"{len(failed)} tests failed; only 1 to {MOST} are run again\n")
        return 1
    sys.stderr.write("\n".join(["these failed beside others, and are run again alone; fix them:", *failed, ""]))
    return subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *failed], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
