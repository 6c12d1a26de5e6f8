"""What an executor imports, as import-linter cannot see it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys

FOREIGN = [
    "confluent_kafka",
    "nats",
    "redis",
    "pydantic",
    "structlog",
    "prometheus_client",
    "starlette",
    "typer",
    "rich",
    "relay.settings",
    "relay.storage",
    "relay.engine",
    "relay.publishers",
]


def test_sparks_own_module_imports_core_client_and_psycopg_only() -> None:
    program = f"import sys, pyspark_openoutbox as m; print(m.DefaultSource.name(), set({FOREIGN}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "openoutbox set()"
