"""docs/reference/conformance.md#environment and the output rules: every variable is read, and output is log lines."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from relay.localservers.process import free_port
from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import patience, wait_until

EVERY_VARIABLE = {
    "STORAGE_TYPE": "postgres",
    "STORAGE_TABLE_NAME": "public.openoutbox_events",
    "PUBLISHER_TYPE": "kafka",
    "POLL_INTERVAL": "1.5s",
    "BATCH_SIZE": "7",
    "LEASE_TIMEOUT": "1m30s",
    "REAP_BATCH_SIZE": "3",
    "HEALTH_CHECK_INTERVAL": "900ms",
    "PUBLISHER_CONNECT_RETRY_INTERVAL": "700ms",
    "ENVIRONMENT": "development",
    "RELAY_ID": "every-variable",
    "RETRY_MAX_ATTEMPTS": "3",
    "RETRY_BASE_DELAY": "0.5s",
    "RETRY_MAX_DELAY": "1h",
    "RETRY_JITTER": "0",
    "NATS_PUBLISH_TIMEOUT": "4s",
    "NATS_CONNECTION_TIMEOUT": "9s",
    "REDIS_CONNECTION_TIMEOUT": "4s",
    "REDIS_WRITE_TIMEOUT": "2s",
    "KAFKA_BATCH_SIZE": "50",
    "KAFKA_BATCH_BYTES": "1048576",
    "KAFKA_BATCH_TIMEOUT": "5ms",
    "KAFKA_COMPRESSION": "zstd",
    "KAFKA_REQUIRED_ACKS": "none",
    "KAFKA_WRITE_TIMEOUT": "8s",
    "KAFKA_READ_TIMEOUT": "7s",
    "KAFKA_CONNECTION_TIMEOUT": "6s",
    "KAFKA_MAX_ATTEMPTS": "2",
    "KAFKA_ASYNC": "true",
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_SERVICE_NAME": "outbox",
    "SHUTDOWN_TIMEOUT": "3s",
    "MAX_IN_FLIGHT": "30",
    "BATCH_BYTES": "1MiB",
    "ORDERING": "none",
    "ORDERING_ON_DEAD": "block",
    "DELIVERY_LOG_RECORD": "failed",
    "PUBLISHER_NAME": "orders",
    "API_TOKEN": "secret-token",
}


def test_every_variable_at_once_and_the_warnings(outbox: Outbox, daemon: StartDaemon, kafka: str) -> None:
    relay = daemon(**EVERY_VARIABLE, PUBLISHER_URL=f"kafka://{kafka}").wait_ready()
    for said in ("KAFKA_ASYNC=true is ignored", "KAFKA_REQUIRED_ACKS=none is raised to one"):
        assert said in relay.log()
    assert "secret-token" not in relay.log()
    assert not relay.log().lstrip().startswith("{"), "development logs are for people"
    assert relay.metric("openoutbox_relay_state", relay_id="every-variable") == 1
    assert relay.stop() == 0
    assert relay.output() == ""


EXTREMES = {
    "KAFKA_BATCH_SIZE": "1000000",
    "KAFKA_BATCH_BYTES": "2147483648",
    "KAFKA_BATCH_TIMEOUT": "0",
    "KAFKA_REQUIRED_ACKS": "one",
    "KAFKA_WRITE_TIMEOUT": "1ms",
    "KAFKA_READ_TIMEOUT": "24h",
    "KAFKA_CONNECTION_TIMEOUT": "24h",
    "KAFKA_MAX_ATTEMPTS": "1000000",
    "MAX_IN_FLIGHT": "1",
    "RETRY_MAX_DELAY": "1ms",
    "LEASE_TIMEOUT": "1s",
    "POLL_INTERVAL": "1ms",
    "SHUTDOWN_TIMEOUT": "0",
}


UNDELIVERABLE = [
    {"PUBLISHER_URL": "127.0.0.1:9092"},
    {"PUBLISHER_URL": "mqtt://127.0.0.1:1883"},
    {"PUBLISHER_URL": "kafka://127.0.0.1:9092", "PUBLISHER_TYPE": "kafak"},
    {"PUBLISHER_URL": "kafka://127.0.0.1:9092", "PUBLISHER_TYPE": "nats"},
    {"PUBLISHER_TYPE": "redis"},
]


@pytest.mark.parametrize("variables", UNDELIVERABLE, ids=" ".join)
def test_no_event_counts_as_delivered_while_the_publisher_is_unclear(
    outbox: Outbox, daemon: StartDaemon, variables: dict[str, str]
) -> None:
    [event_id] = outbox.insert([Row("some.type")])
    relay = daemon(**variables)

    assert relay.process.wait(patience()) == 2
    assert next(iter(variables)) in relay.log() or "PUBLISHER_TYPE" in relay.log()
    assert relay.output() == ""
    assert outbox.row(event_id)["status"] == "PENDING"


def test_the_scheme_of_the_address_chooses_the_publisher(outbox: Outbox, daemon: StartDaemon, nats_url: str) -> None:
    [event_id] = outbox.insert([Row("no.stream.takes.this")])
    relay = daemon(PUBLISHER_URL=nats_url).wait_ready()

    wait_until(lambda: outbox.row(event_id)["attempts"] != 0, what="the broker's answer")
    assert "no JetStream stream takes this subject" in str(outbox.row(event_id)["last_error"])
    assert relay.output() == ""


def test_extreme_values_do_not_break_the_start(outbox: Outbox, daemon: StartDaemon, kafka: str) -> None:
    relay = daemon(**EXTREMES, PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka)
    wait_until(lambda: relay.running and relay.get("/readyz")[0] == 200, what="the relay to be ready")
    assert all(isinstance(line, dict) for line in relay.log_lines())


def test_a_shell_variable_wins_over_the_file_and_an_empty_one_counts_as_unset(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        connection.execute("ALTER TABLE openoutbox_events ADD seen text")
        connection.execute("""
            CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.seen = COALESCE(NEW.locked_by, OLD.locked_by); RETURN NEW; END $$
        """)
        connection.execute("CREATE TRIGGER see BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION see()")
    relay = Daemon("", {"RELAY_ID": "from the shell", "PUBLISHER_TYPE": ""})
    (relay.folder / ".env").write_text(
        f"STORAGE_URL='{outbox.relay_url}'\nRELAY_ID=from-the-file\nexport PUBLISHER_TYPE=\"null\" # a comment\n"
    )
    outbox.insert([Row("some.type")])
    with relay:
        outbox.wait_finished(30)
        assert outbox.rows("seen, status") == [("from the shell", "DELIVERED")]
        assert relay.stop() == 0
        assert relay.output() == "", "the null publisher of the file was not taken"


def test_standard_error_is_json_lines_and_standard_output_is_events(outbox: Outbox, daemon: StartDaemon) -> None:
    """From the first line to the last, a broker's client and an unknown publisher's variables included."""
    [event_id] = outbox.insert([Row("some.type", b'{"n": 1}', "the key", '{"a": 1.10}')])
    relay = daemon(KAFKA_BATCHSIZE="7", DELIVERY_LOG_URL="postgres://user:hunter2@h/db")
    outbox.wait_finished(30)
    relay.process.send_signal(signal.SIGINT)
    assert relay.process.wait(patience()) == 0
    [line] = relay.output().splitlines()
    message = json.loads(line)
    assert (message["event_id"], message["event_type"], message["partition_key"]) == (event_id, "some.type", "the key")
    assert {entry["level"] for entry in relay.log_lines()} <= {"info", "warning"}
    assert "hunter2" not in relay.log()


def test_a_broker_that_is_not_there_is_logged_as_json_too(outbox: Outbox, daemon: StartDaemon) -> None:
    [event_id] = outbox.insert([Row("some.type")])
    closed = f"127.0.0.1:{free_port()}"
    relays = [
        daemon(PUBLISHER_TYPE=kind, PUBLISHER_URL=f"{kind}://{closed}", RELAY_ID=kind)
        for kind in ("kafka", "nats", "redis")
    ]
    for relay in relays:
        wait_until(lambda relay=relay: relay.running and relay.metric("openoutbox_relay_state") == 2, what="a pause")  # type: ignore[misc]
        status, body = relay.get("/readyz")
        assert (status, json.loads(body)["storage"]) == (503, "ok")
        assert json.loads(body)["broker"] != "ok"
        assert relay.get("/healthz")[0] == 200
    for relay in relays:
        relay.process.send_signal(signal.SIGTERM)
    for relay in relays:
        assert relay.process.wait(patience()) == 0
        assert all(isinstance(line, dict) for line in relay.log_lines())
        assert relay.output() == ""
    row = outbox.row(event_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 0, None)


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        (["--no-such"], {}, 2),
        (["--healthcheck"], {"SERVER_PORT": "here"}, 2),
        ([], {"SERVER_PORT": "here"}, 2),
        ([], {"STORAGE_URL": ""}, 2),
    ],
)
def test_wrong_usage_ends_with_2_and_a_sentence(arguments: list[str], env: dict[str, str], code: int) -> None:
    with Daemon("postgres://127.0.0.1:1/x", env) as relay:
        command = [sys.executable, "-m", "relay", *arguments]
        ended = subprocess.run(
            command, cwd=relay.folder, env=relay.full_env(), capture_output=True, text=True, timeout=30, check=False
        )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr
    assert "Traceback" not in ended.stderr
