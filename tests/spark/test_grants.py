"""A role with exactly the grants that docs/guide/spark.md names can write, and can do nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from relay.core.errors import ConfigError, SchemaError
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from relay.spark.jobs.archive.job import run as run_archive
from relay.spark.jobs.ingest.job import run as run_ingest
from relay.spark.jobs.replay.job import run as run_replay
from tests.cli.running import call_cli
from tests.spark.history import fill
from tests.spark.ledger import staging_tables
from tests.spark.plain import save
from tests.spark.write.test_saves import orders
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.paths import ROOT


@pytest.fixture
def role(outbox: Outbox) -> Iterator[str]:
    """A role that may log in, and nothing more."""
    name = f"spark {uuid.uuid4().hex[:8]}"
    outbox.database.run(f'CREATE ROLE "{name}" LOGIN')
    outbox.database.run("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    outbox.database.run("GRANT USAGE ON SCHEMA public TO PUBLIC")
    yield name
    outbox.database.run(f'DROP OWNED BY "{name}"')
    outbox.database.run(f'DROP ROLE "{name}"')


def as_role(outbox: Outbox, role: str) -> str:
    parts = urlsplit(outbox.url)
    return parts._replace(netloc=f"{role.replace(' ', '%20')}@{parts.hostname}:{parts.port}").geturl()


def submitted(name: str, url: str, folder: str) -> list[str]:
    """The arguments that ``deploy/spark/kubernetes.yaml`` gives to a job, for this URL and this machine's folder."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "spark" / "kubernetes.yaml").read_text(encoding="utf-8"))
    pods = [each["spec"]["jobTemplate"]["spec"]["template"]["spec"] for each in documents if each["kind"] == "CronJob"]
    (command,) = [pod["containers"][0]["args"] for pod in pods if f"/{name}.py" in str(pod)]
    arguments: list[str] = command[command.index(f"/opt/openoutbox/{name}.py") + 1 :]
    return [{arguments[0]: folder, "/secrets/url": url}.get(argument, argument) for argument in arguments]


def test_without_grants_the_driver_says_what_is_missing(outbox: Outbox, role: str) -> None:
    with pytest.raises(SchemaError, match="may not insert into openoutbox_events"):
        save(orders(10), idColumns="number", url=as_role(outbox, role))
    outbox.database.run(f'GRANT INSERT ON openoutbox_events TO "{role}"')
    with pytest.raises(ConfigError, match="relay-cli spark setup"):
        save(orders(10), idColumns="number", url=as_role(outbox, role))


def test_the_documented_grants_are_enough(outbox: Outbox, role: str, tmp_path: Path) -> None:
    done = call_cli(tmp_path, "spark", "setup", "--role", role, "--storage-url", outbox.url)
    assert done.returncode == 0, done.stderr
    assert f'available_at) ON "openoutbox_events" TO "{role}"' in done.stdout
    documented = (ROOT / "docs/guide/spark.md").read_text(encoding="utf-8").replace("spark_writer", f'"{role}"')
    for line in done.stdout.splitlines()[1:]:
        assert (
            line.replace('"openoutbox_events"', "openoutbox_events").replace('"openoutbox_spark"', "openoutbox_spark")
            in documented
        )
    assert documented.count("\nGRANT ") == len(done.stdout.splitlines()[1:])
    url = as_role(outbox, role)
    save(orders(100), idColumns="number", url=url)
    save(orders(150), idColumns="number", url=url, commit="partition")
    save(orders(200), idColumns="number", url=url, commit="partition")
    assert len(outbox.rows("event_id")) == 200
    assert staging_tables(outbox) == []
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT event_id FROM openoutbox_events")


def test_setup_grants_what_compares_repeats_where_it_is_installed(
    outbox: Outbox, role: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_extension(outbox.url, TableName(), "sql-api")
    done = call_cli(tmp_path, "spark", "setup", "--role", role, "--storage-url", outbox.url)
    assert f'"openoutbox_same"(UUID, TEXT, BYTEA) TO "{role}"' in done.stdout
    save(orders(10), idColumns="number", url=as_role(outbox, role))
    save(orders(10), idColumns="number", url=as_role(outbox, role))
    assert "unchecked" not in caplog.text


@pytest.mark.parametrize("job", ["archive", "replay"])
def test_each_job_works_with_the_grants_of_its_page_and_not_without(
    spark: SparkSession, outbox: Outbox, role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    url = as_role(outbox, role)
    secret = tmp_path / "url"
    secret.write_text(url)
    run, arguments = {
        "archive": (run_archive, submitted("archive", str(secret), str(tmp_path / "archive"))),
        "replay": (run_replay, ["--status", "dead", "--url-file", str(secret)]),
    }[job]
    fill(outbox, "DEAD", 10)
    assert run(job, arguments) == 1
    assert "this role may not" in capsys.readouterr().err
    done = call_cli(tmp_path, "spark", "setup", "--for", job, "--role", role, "--storage-url", outbox.url)
    assert done.returncode == 0, done.stderr
    granted = sorted(f"{line};" for line in done.stdout.splitlines()[1:])
    page = (ROOT / f"docs/guide/spark-{job}.md").read_text(encoding="utf-8")
    documented = sorted(line for line in page.splitlines() if line.startswith("GRANT "))
    name = {"archive": "archiver", "replay": "replayer"}[job]
    assert [line.replace(role, name).replace('"', "") for line in granted] == documented
    checked = call_cli(tmp_path, "check", "--for", "spark", STORAGE_URL=url)
    assert f"has the rights for: {job} (" in checked.stdout
    assert run(job, arguments) == 0
    assert capsys.readouterr().out.startswith("10 ")


def test_the_ingest_of_deploy_works_with_its_role(
    spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with outbox.database.connect() as connection:
        give_rights(connection)  # the copy of a database has no rights on the database itself
    rows = [{"order_number": number, "customer": f"c{number}"} for number in range(5)]
    spark.createDataFrame(rows).write.parquet(str(tmp_path / "orders"))
    setup = ("spark", "setup", "--role", "openoutbox_spark_writer")
    assert call_cli(tmp_path, *setup, STORAGE_URL=outbox.owner_url).returncode == 0
    url = outbox.url_of("spark_writer")
    checked = call_cli(tmp_path, "check", "--for", "spark", STORAGE_URL=url)
    assert "has the rights for: write (" in checked.stdout
    secret = tmp_path / "url"
    secret.write_text(url)
    assert run_ingest("ingest", submitted("ingest", str(secret), str(tmp_path / "orders"))) == 0
    assert "5 rows: 5 new" in capsys.readouterr().out
