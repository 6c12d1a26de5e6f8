"""How the daemon starts, and how it says that it cannot."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import uuid

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import patience, wait_until


def test_wrong_settings_are_reported_all_at_once_before_anything_connects() -> None:
    env = {"BATCH_SIZE": "many", "LEASE_TIMEOUT": "3 minutes", "PUBLISHER_TYPE": "kafka"}
    with Daemon("postgres://relay:hunter2@127.0.0.1:1/x", env) as daemon:
        assert daemon.process.wait(patience()) == 2
        messages = "\n".join(str(line["msg"]) for line in daemon.log_lines())
    for name in ("BATCH_SIZE", "LEASE_TIMEOUT", "PUBLISHER_URL"):
        assert name in messages
    assert "hunter2" not in messages


def test_a_server_that_is_silent_in_the_place_of_the_database_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"postgres://relay:hunter2@127.0.0.1:{other.getsockname()[1]}/app"
        with Daemon(url, {"PUBLISHER_TYPE": "null"}) as relay:
            advice = "the database has not answered for 3 s; check the host and the port in STORAGE_URL"
            wait_until(lambda: advice in relay.log(), what="the advice")
            [first, *_] = [line for line in relay.log_lines() if line.get("action") == "storage_unavailable"]
            assert first["msg"] == advice
            assert relay.stop() == 0


def test_a_partitioned_table_is_refused(outbox: Outbox, daemon: StartDaemon) -> None:
    outbox.database.run("DROP TABLE openoutbox_events")
    outbox.database.run("CREATE TABLE openoutbox_events (event_id uuid) PARTITION BY HASH (event_id)")
    relay = daemon(PUBLISHER_TYPE="null")
    assert relay.process.wait(patience()) == 2
    assert "partitioned" in relay.log()


def test_a_port_that_is_taken_is_named(outbox: Outbox, daemon: StartDaemon) -> None:
    first = daemon(PUBLISHER_TYPE="null").wait_ready()
    second = daemon(PUBLISHER_TYPE="null", SERVER_PORT=first.env["SERVER_PORT"])
    assert second.process.wait(patience()) == 2
    assert "SERVER_PORT" in second.log()
    assert all("exception" not in line for line in second.log_lines())


def test_an_event_that_is_tried_again_is_logged_once_a_second(outbox: Outbox, daemon: StartDaemon, kafka: str) -> None:
    missing = f"missing.{uuid.uuid4().hex}"
    outbox.insert([Row(missing)] * 20)
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka)
    wait_until(lambda: relay.running and f"type {missing} failed" in relay.log(), what="the failure in the log")
    lines = [line for line in relay.log_lines() if line.get("action") == "event_retried"]
    assert lines[0]["msg"].startswith(f"an event of type {missing} failed and is tried again: ")
    assert "UNKNOWN_TOPIC" in lines[0]["msg"]
    assert lines[0]["attempts"] == 1
    assert len(lines) < 20


def test_the_health_check_of_the_container(outbox: Outbox, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null").wait_ready()
    command = [sys.executable, "-m", "relay", "--healthcheck"]
    for expected in (0, 1):
        ended = subprocess.run(command, env=relay.full_env(), check=False, capture_output=True, timeout=patience())
        assert ended.returncode == expected
        relay.kill()


def test_help_and_version_need_nothing() -> None:
    for argument in ("--help", "--version"):
        ended = subprocess.run(
            [sys.executable, "-m", "relay", argument], check=True, capture_output=True, text=True, timeout=30
        )
        assert ended.stdout
        assert not ended.stderr


def test_stats_are_fresh(outbox: Outbox, daemon: StartDaemon) -> None:
    relay = daemon(PUBLISHER_TYPE="null").wait_ready()
    outbox.database.run("""
        INSERT INTO openoutbox_events (event_id, event_type, payload, available_at, attempts)
        SELECT gen_random_uuid(), 't', '', now() + interval '1 hour', n % 2 FROM generate_series(1, 10) AS n
    """)

    def retrying() -> int:
        status, body = relay.get("/stats")
        assert status == 200
        return int(json.loads(body)["retrying_count"])

    # At once, but where a busy machine made the sample before slow: then at the pace of its cost.
    wait_until(lambda: retrying() == 5)
