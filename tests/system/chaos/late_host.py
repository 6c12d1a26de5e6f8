"""A relay on a host whose clock is ten minutes late: ``python -m tests.system.chaos.late_host``."""

from __future__ import annotations

import runpy
import time

LATE = 600.0  # seconds

if __name__ == "__main__":
    true_time = time.time
    time.time = lambda: true_time() - LATE
    runpy.run_module("relay", run_name="__main__")
