"""``relay-cli tenant`` and ``relay-cli store``, as an operator runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay.core.errors import ConfigError, OutboxError
from relay.eventstore import UnknownTenant, VersionConflict
from relay_cli.app import app
from tests.cli.running import COMMAND, call_cli, environment
from tests.eventstore.conftest import STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import patience, wait_until


def test_parked_streams_are_listed_shown_retried_and_skipped(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cli(*arguments: str, fails: bool = False) -> str:
        done = CliRunner().invoke(app, ["store", *arguments, "--storage-url", database.url])
        assert isinstance(done.exception, ConfigError) if fails else done.exit_code == 0, done.exception
        return str(done.exception) if fails else done.stdout

    tenant, stream = str(TENANT), str(STREAM)
    cli("migrate")
    CliRunner().invoke(app, ["tenant", "provision", tenant, "--storage-url", database.url])
    cli("append", tenant, stream, "Opened", "--data", '{"n": 1}')
    database.run("INSERT INTO event_subscription (Name, Position) VALUES ('sums', 1)")
    insert = "INSERT INTO event_parked (Name, TenantId, StreamId, Position, Version, Tries, Error) VALUES "
    database.run(insert + "('sums', %s, %s, 1, 1, 5, 'ValueError: no sum')", (TENANT, STREAM))
    assert re.search(f"^sums  {tenant} {stream}  version 1 .*  5 attempts  ValueError: no sum$", cli("parked", "list"))
    assert json.loads(cli("parked", "list", "sums", "--json"))["tries"] == 5
    assert cli("parked", "list", "other") == ""
    shown, event = map(json.loads, cli("parked", "show", "sums", tenant, stream).splitlines())
    assert (shown["error"], event["data"]) == ("ValueError: no sum", {"n": 1})
    assert cli("parked", "skip", "sums", tenant, stream).startswith("skipped one event")
    assert "to be retried" in cli("parked", "list")
    assert "retries it now" in cli("parked", "skip", "sums", tenant, stream, fails=True)
    assert cli("parked", "retry", "sums") == "1 stream of sums will be retried\n"
    assert cli("parked", "retry", "sums", tenant, stream) == "1 stream of sums will be retried\n"
    assert "openoutbox_eventstore_parked_streams{" in cli("subscriptions", "--prometheus")
    assert "has not parked" in cli("parked", "show", "other", tenant, stream, fails=True)


def test_the_life_of_a_tenant(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def cli(*arguments: str, fails: type[OutboxError] | None = None) -> str:
        """The output, or the error's text; ``main`` turns errors into exit codes for all commands."""
        done = CliRunner().invoke(app, [*arguments, "--storage-url", database.url])
        if fails is not None:
            assert isinstance(done.exception, fails)
            return str(done.exception)
        assert done.exit_code == 0, done.exception
        return done.stdout

    tenant, stream = str(TENANT), str(STREAM)
    planned = cli("store", "migrate", "--dry-run")
    assert planned.startswith("-- migration 1: tables\n")
    assert 'CREATE TABLE IF NOT EXISTS "public".Event (' in planned
    assert cli("store", "migrate", "--positions", "gapless", "--no-notify").endswith("positions gapless, notify off\n")
    assert cli("store", "grant", "postgres", "reader") == "granted reader to postgres\n"
    assert "provision" in cli("store", "append", tenant, stream, "Opened", fails=UnknownTenant)
    assert cli("tenant", "provision", tenant) == f"provisioned {tenant}\n"
    assert cli("tenant", "list") == f"{tenant}\n"
    assert (
        cli("store", "append", tenant, stream, "Opened", "--data", '{"n": 1}') == "appended version 1 at position 1\n"
    )
    cli("store", "append", tenant, stream, "Closed", "--expected-version", "1", "--meta", '{"by": "me"}')
    conflict = cli("store", "append", tenant, stream, "Closed", "--expected-version", "none", fails=VersionConflict)
    assert "expected to have version 0, but it has version 2" in conflict
    first, second = (json.loads(line) for line in cli("store", "stream", tenant, stream).splitlines())
    assert (first["type"], first["data"], first["tenant_id"]) == ("Opened", {"n": 1}, tenant)
    assert (second["version"], second["meta"]) == (2, {"by": "me"})
    assert len(cli("store", "stream", tenant, stream, "--backward", "--limit", "1").splitlines()) == 1
    assert json.loads(cli("store", "tail", "--no-follow", "--type", "Closed"))["sequence_num"] > 1
    assert cli("tenant", "export", tenant, "file.jsonl") == "exported 2 events to file.jsonl\n"
    assert "irreversible" in cli("tenant", "drop", tenant, fails=ConfigError)
    assert cli("tenant", "drop", tenant, "--confirm", tenant) == f"dropped {tenant}\n"
    assert cli("tenant", "import", "file.jsonl") == f"imported 2 events of {tenant}\n"
    copy = str(uuid.uuid4())
    assert cli("tenant", "import", "file.jsonl", "--tenant", copy) == f"imported 2 events of {copy}\n"
    assert "JSON" in cli("store", "append", tenant, stream, "X", "--data", "{", fails=ConfigError)


def test_a_stream_is_deleted_when_its_id_is_repeated(database: Database, tmp_path: Path) -> None:
    def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
        return call_cli(tmp_path, *arguments, STORAGE_URL=database.url)

    cli("store", "migrate")
    cli("tenant", "provision", str(TENANT))
    cli("store", "append", str(TENANT), str(STREAM), "Opened")
    delete = ("store", "delete-stream", str(TENANT), str(STREAM))
    assert f"confirm with: --confirm {STREAM}" in cli(*delete, "--confirm", str(TENANT)).stderr
    assert cli(*delete, "--confirm", str(STREAM)).stdout == f"deleted 1 event of {STREAM}\n"
    assert cli("store", "stream", str(TENANT), str(STREAM)).stdout == ""


def test_a_dry_run_prints_the_pending_sql(database: Database, tmp_path: Path) -> None:
    planned = call_cli(tmp_path, "store", "migrate", "--dry-run", STORAGE_URL=database.url).stdout
    assert planned.startswith("-- migration 1: tables\n")
    assert 'CREATE TABLE IF NOT EXISTS "public".Event (' in planned
    applied = call_cli(tmp_path, "store", "migrate", STORAGE_URL=database.url).stdout
    assert applied.startswith("applied migration 1: tables\n")
    again = call_cli(tmp_path, "store", "migrate", "--dry-run", STORAGE_URL=database.url).stdout
    assert again == "-- the event store is up to date\n"


def test_subscriptions_are_listed_moved_and_deleted(database: Database, tmp_path: Path) -> None:
    def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
        return call_cli(tmp_path, *arguments, STORAGE_URL=database.url)

    cli("store", "migrate")
    cli("tenant", "provision", str(TENANT))
    for name in ("First", "Second"):
        cli("store", "append", str(TENANT), str(STREAM), name)
    database.run("INSERT INTO event_subscription (Name, Position) VALUES ('balances', 1), ('mails', 2)")
    balances, mails = cli("store", "subscriptions").stdout.splitlines()
    assert re.fullmatch(r"balances  position 1  lag 1 event, \d+\.\d s  not active", balances)
    assert mails == "mails  position 2  lag 0 events, 0.0 s  not active"
    metrics = cli("store", "subscriptions", "--prometheus").stdout
    labels = f'database="{database.name}",part="",schema="public",subscription="balances"'
    assert f"openoutbox_eventstore_checkpoint_lag_events{{{labels}}} 1.0" in metrics
    assert "pass one" in cli("store", "subscriptions", "--prometheus", "--json").stderr
    moved = cli("store", "subscriptions", "--move", "mails", "--to", "1", "--delete", "balances", "--json").stdout
    state = json.loads(moved)
    assert (state["name"], state["position"], state["lag_events"]) == ("mails", 1, 1)
    assert json.loads(cli("store", "subscriptions", "--reset", "mails", "--json").stdout)["lag_events"] == 2
    assert "does not exist" in cli("store", "subscriptions", "--delete", "unknown").stderr
    assert "pass both" in cli("store", "subscriptions", "--move", "mails").stderr


def test_tail_follows_until_it_is_interrupted(database: Database, tmp_path: Path) -> None:
    call_cli(tmp_path, "store", "migrate", STORAGE_URL=database.url)
    call_cli(tmp_path, "tenant", "provision", str(TENANT), STORAGE_URL=database.url)
    command = [*COMMAND, "store", "tail"]
    env = environment(STORAGE_URL=database.url, PYTHONUNBUFFERED="1")
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        for name in ("First", "Second"):
            call_cli(tmp_path, "store", "append", str(TENANT), str(STREAM), name, STORAGE_URL=database.url)
            assert json.loads(tail.stdout.readline())["type"] == name
        os.kill(tail.pid, signal.SIGINT)
        assert tail.wait(patience()) == 130


def test_a_terminated_export_leaves_no_file(database: Database, tmp_path: Path) -> None:
    for arguments in (["store", "migrate"], ["tenant", "provision", str(TENANT)]):
        assert CliRunner().invoke(app, [*arguments, "--storage-url", database.url]).exit_code == 0
    command = [*COMMAND, "tenant", "export", str(TENANT), str(tmp_path / "tenant.jsonl")]
    with database.connect(autocommit=False) as blocker:
        blocker.execute(f"LOCK TABLE event_{TENANT.hex}".encode())  # after the head of the file was written
        with subprocess.Popen([*command, "--storage-url", database.url], env=environment()) as export:
            wait_until(database.waiting_for_locks)
            assert (tmp_path / "tenant.jsonl.part").exists()
            export.terminate()
            assert export.wait(patience()) == 143
    assert list(tmp_path.iterdir()) == []
