"""What an executor imports, as import-linter cannot see it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOREIGN = [
    "psycopg_pool",
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
    "relay.outbox",
    "relay.engine",
    "relay.brokers",
    "relay.eventstore",
    "relay.deliverylog",
]


def test_the_wheel_works_as_it_is_without_being_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "openoutbox_relay.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for folder, inside in (
            (ROOT / "relay", "relay"),
            (ROOT / "sql", "relay/sql"),
            (ROOT / "client" / "openoutbox", "openoutbox"),
        ):
            for path in [*folder.rglob("*.py"), *folder.rglob("*.sql")]:
                archive.write(path, f"{inside}/{path.relative_to(folder)}")
        for module in ROOT.glob("pyspark_openoutbox*.py"):
            archive.write(module, module.name)
    program = (
        "import pyspark_openoutbox, pyspark_openoutbox_eventstore, pyspark_openoutbox_deliverylog; "
        "from relay.postgres.sql import TableName; "
        "from relay.spark.statements import SparkStatements as S; "
        "from openoutbox import insert_statement; "
        "print(S(TableName('t'), 's').query('direct:copy_events'), insert_statement(TableName('t')))"
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
    assert 'INSERT INTO "t" (event_id' in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["openoutbox", "openoutbox_eventstore", "openoutbox_deliverylog"])
def test_sparks_own_modules_import_core_postgres_client_and_psycopg_only(name: str) -> None:
    program = f"import sys, pyspark_{name} as m; print(m.DefaultSource.name(), set({FOREIGN}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == f"{name} set()"
