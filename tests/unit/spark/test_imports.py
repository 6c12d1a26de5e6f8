"""What an executor imports, as import-linter cannot see it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from relay.core.sqltext import sql_root

ROOT = Path(__file__).parents[3]

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


def test_the_wheel_works_as_it_is_without_being_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "openoutbox_relay.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for folder, inside in ((ROOT / "relay", "relay"), (sql_root(), "relay/sql")):
            for path in [*folder.rglob("*.py"), *folder.rglob("*.sql")]:
                archive.write(path, f"{inside}/{path.relative_to(folder)}")
        archive.write(ROOT / "pyspark_openoutbox.py", "pyspark_openoutbox.py")
    program = (
        "import pyspark_openoutbox; from relay.core.sqltext import TableName; "
        "from relay.spark.statements import Statements as S; print(S(TableName('t'), 's').query('copy_events'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 'COPY "t" (event_id' in done.stdout, done.stderr


def test_sparks_own_module_imports_core_client_and_psycopg_only() -> None:
    program = f"import sys, pyspark_openoutbox as m; print(m.DefaultSource.name(), set({FOREIGN}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "openoutbox set()"
