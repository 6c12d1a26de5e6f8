"""The entry of ``relay-cli`` and of ``python -m relay_cli``: what comes before the first import of a library.

Errors are one message on standard error; results are plain lines on standard output.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from relay.version import __version__, client_problem
from relay_cli.codes import FAILED, INTERRUPTED


def main() -> None:
    """Run the command line; ends the process with the exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        return
    if problem := client_problem():
        sys.stderr.write(f"relay-cli: {problem}\n")
        sys.exit(FAILED)
    # Imports take most of the time of a short command. An exception in the middle of one would end in a traceback, and
    # nothing is open yet that had to be closed.
    signal.signal(signal.SIGINT, _leave)
    from relay_cli.run import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run())


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
