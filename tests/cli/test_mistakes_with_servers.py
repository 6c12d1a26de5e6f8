"""Mistakes that a server answers: missing rights, a wrong database, a broker of another type."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from relay.brokers.greeting import what_listens
from relay.brokers.kafka.publisher import KafkaPublisher
from relay.brokers.redis.publisher import RedisPublisher
from relay.core.errors import BrokerUnreachable, ConfigError, SchemaError
from relay.outbox.storage import PostgresOutbox
from tests.cli.mistakes import Mistake, answer
from tests.support.fixtures.outbox import Outbox, as_user
from tests.support.options import kafka_options, redis_options, storage_options


def place(url: str) -> str:
    """Host and port of a URL."""
    return urlsplit(url).netloc.rpartition("@")[2] if "://" in url else url


def test_migrate_as_a_user_who_may_not_names_the_grant(outbox: Outbox, tmp_path: Path) -> None:
    env = {"STORAGE_URL": as_user(outbox.url, "test_writer")}
    grant = 'GRANT USAGE, CREATE ON SCHEMA "public" TO "test_writer"'
    answer(tmp_path, Mistake("migrate --table other", env, 1, ("permission denied for schema public", grant)))
    extension = ("permission denied", "run it as the owner of table openoutbox_events")
    answer(tmp_path, Mistake("migrate --with replay-audit", env, 1, extension))
    outbox.database.run("DROP INDEX idx_openoutbox_prune_dead")
    not_owner = ("must be owner of table openoutbox_events", "as the owner of the table")
    answer(tmp_path, Mistake("migrate", env, 1, not_owner))


@pytest.mark.parametrize(
    ("command", "role", "right"),
    [
        ("prune --delivered-age 1m", "test_relay", "GRANT SELECT, DELETE, UPDATE (updated_at)"),
        ("replay --status dead --yes", "test_reader", "GRANT SELECT, UPDATE (status, "),
        ("list", "test_writer", "GRANT SELECT"),
    ],
)
def test_a_missing_right_comes_with_its_grant(
    outbox: Outbox, tmp_path: Path, command: str, role: str, right: str
) -> None:
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD', updated_at = now() - interval '90 days'")
    env = {"STORAGE_URL": as_user(outbox.url, role)}
    says = ("permission denied", right, f'ON "openoutbox_events" TO "{role}"')
    answer(tmp_path, Mistake(command, env, 1, says))


def test_a_server_that_refuses_comes_with_what_to_correct(outbox: Outbox, nats_url: str, tmp_path: Path) -> None:
    """One server for all: each mistake takes milliseconds."""
    other = outbox.url.rpartition("/")[0]
    for url, *says in (
        (f"{other}/no_such", 'database "no_such" does not exist', "CREATE DATABASE"),
        (as_user(outbox.url, "no_such"), 'role "no_such" does not exist', "CREATE ROLE ... LOGIN"),
        (as_user(outbox.url, "openoutbox_reader"), "not permitted to log in", "ALTER ROLE ... LOGIN"),
        (f"{outbox.url}?sslmode=require", "does not support SSL", "remove sslmode from the URL"),
        (
            f"postgres://u:hunter2@{place(nats_url)}/d",
            "the server that answers is not PostgreSQL; correct the host or the port",
        ),
    ):
        answer(tmp_path, Mistake("stats", {"STORAGE_URL": url}, 1, (*says, "check STORAGE_URL", "relay-cli check")))
    standby = {"STORAGE_URL": f"{outbox.url}?options=-cdefault_transaction_read_only%3Don"}
    read_only = ("read-only transaction", "check STORAGE_URL: it leads to a standby or a read-only database")
    answer(tmp_path, Mistake("migrate --table other", standby, 1, read_only))


def test_a_table_that_is_missing_or_no_outbox(outbox: Outbox, tmp_path: Path) -> None:
    env = {"STORAGE_URL": outbox.url}
    missing = ("there is no table gone", "relay-cli migrate --table gone")
    answer(tmp_path, Mistake("stats --table gone", env, 1, missing, ("unreachable", "check STORAGE_URL")))
    outbox.database.run("CREATE VIEW seen AS SELECT * FROM openoutbox_events")
    answer(tmp_path, Mistake("stats --table seen", env, 1, ("seen is a view; the relay needs a plain table",)))
    outbox.database.run("CREATE TABLE other (event_id UUID)")
    answer(
        tmp_path,
        Mistake("list --table other", env, 1, ("table other lacks the columns event_type", "relay-cli migrate")),
    )
    answer(tmp_path, Mistake("migrate --table no.such", env, 1, ("schema no does not exist", 'CREATE SCHEMA "no"')))
    answer(tmp_path, Mistake("log events", {"DELIVERY_LOG_URL": outbox.url}, 1, ("run relay-cli log migrate",)))
    answer(tmp_path, Mistake("tenant list", env, 1, ("does not exist", "run relay-cli store migrate")))
    answer(tmp_path, Mistake("spark setup --role no_such", env, 1, ('role "no_such" does not exist',)))
    event = "0190b0a0-0000-7000-8000-000000000001"
    answer(tmp_path, Mistake(f"show {event}", env, 1, (f"there is no event {event} in table openoutbox_events",)))


async def test_a_relay_whose_table_is_dropped_says_what_examines_it(outbox: Outbox) -> None:
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay"))
    await storage.open()
    try:
        outbox.database.run("DROP TABLE openoutbox_events CASCADE")
        with pytest.raises(SchemaError, match=r"does not exist .* relay-cli check says what is missing"):
            await storage.claim(1, 1000)
    finally:
        await storage.close()


def test_migrate_says_whether_an_extension_is_new(outbox: Outbox, tmp_path: Path) -> None:
    for extension in (
        "fan-out",
        "fleet",
        "key-order",
        "pause",
        "replay-audit",
        "series",
        "sql-api",
        "tuning",
        "wake-up",
    ):
        command, env = f"migrate --with {extension}", {"STORAGE_URL": outbox.owner_url}
        answer(tmp_path, Mistake(command, env, 0, (f"added extension {extension}",)))
        answer(tmp_path, Mistake(command, env, 0, (f"extension {extension} is up to date",), ("added",)))


async def test_what_listens_is_recognized(
    postgres: str, kafka: str, nats_url: str, redis_url: str, rabbitmq_url: str
) -> None:
    servers = {
        kafka: "a Kafka broker",
        nats_url: "a NATS server",
        redis_url: "a Redis server",
        rabbitmq_url: "a RabbitMQ node",
        postgres: "PostgreSQL",
    }
    for url, name in servers.items():
        host, _, port = place(url).rpartition(":")
        assert await what_listens(f"nats://u:hunter2@{host}:{port}/?x=1", 4222) == f"{host} port {port} is {name}"
    assert await what_listens("nats://127.0.0.1:1", 4222) == ""


@pytest.mark.parametrize(
    "broker",
    [
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("redis_url", marks=pytest.mark.redis),
        pytest.param("nats_url", marks=pytest.mark.nats),
    ],
)
def test_a_broker_in_the_place_of_the_database_is_named(
    request: pytest.FixtureRequest, tmp_path: Path, broker: str
) -> None:
    host, _, port = place(request.getfixturevalue(broker)).rpartition(":")
    url = f"postgres://u:hunter2@{host}:{port}/d?connect_timeout=2"
    says = (f"{host} port {port} is a ", "correct the host or the port in STORAGE_URL")
    answer(tmp_path, Mistake("check", {"STORAGE_URL": url, "PUBLISHER_TYPE": "null"}, 1, says))


def test_check_names_the_server_that_answers_instead(
    outbox: Outbox, kafka: str, nats_url: str, redis_url: str, rabbitmq_url: str, tmp_path: Path
) -> None:
    for kind, url, *says in (
        ("nats", f"nats://u:hunter2@{kafka}", "no NATS server has answered", "is a Kafka broker: correct the address"),
        ("nats", f"nats://u:hunter2@{place(redis_url)}", "is a Redis server: correct the address"),
        ("redis", f"redis://u:hunter2@{place(nats_url)}", "is not a Redis server", "is a NATS server: correct"),
        ("redis", f"redis://{kafka}", "Connection closed", "is a Kafka broker: correct"),
        ("redis", f"redis://u:hunter2@{place(redis_url)}", "WRONGPASS: invalid username", "check the login"),
        ("redis", "redis://127.0.0.1:1", "127.0.0.1:1: CONNECTION: Connection refused", "nothing listens"),
        ("rabbitmq", f"amqp://u:hunter2@{place(nats_url)}", "is not a RabbitMQ server", "is a NATS server: correct"),
        ("rabbitmq", f"amqp://u:hunter2@{place(rabbitmq_url)}", "ACCESS_REFUSED", "check the login"),
        ("redis", f"rediss://{place(redis_url)}/0?ssl_ca_certs=/nowhere/ca", "ssl_ca_certs='/nowhere/ca' cannot be"),
    ):
        env = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": kind, "PUBLISHER_URL": url}
        answer(tmp_path, Mistake("check", env | {"NATS_CONNECTION_TIMEOUT": "1s"}, 1, tuple(says), ("NOAUTH",)))


async def test_kafkas_publisher_says_that_another_server_answers(nats_url: str) -> None:
    publisher = KafkaPublisher(kafka_options(url=place(nats_url)))
    await publisher.open()
    try:
        with pytest.raises(BrokerUnreachable, match="the server that answers is not a Kafka broker") as refusal:
            await publisher.probe(1.0)
    finally:
        await publisher.close()
    assert "receive.message.max.bytes" not in str(refusal.value)


async def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate", encoding="utf-8")
    publisher = KafkaPublisher(kafka_options(url=f"127.0.0.1:1?security.protocol=SSL&ssl.ca.location={file}"))
    with pytest.raises(ConfigError, match=f"PEM files are needed in ssl.ca.location='{file}'"):
        await publisher.open()


async def test_a_redis_that_is_away_is_named(redis_url: str) -> None:
    publisher = RedisPublisher(redis_options(url="redis://u:hunter2@127.0.0.1:1/0"))
    await publisher.open()
    with pytest.raises(BrokerUnreachable, match=r"^127\.0\.0\.1:1: CONNECTION: Connection refused$"):
        await publisher.probe(1.0)
