"""A relay that may open 256 files: ``python -m tests.server.few_descriptors`` with the environment of the daemon."""

from __future__ import annotations

import resource
import sys

from relay.__main__ import main

DESCRIPTORS = 256

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    sys.exit(main())
