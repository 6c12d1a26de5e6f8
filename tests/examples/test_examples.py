"""The examples at work: applications insert, a relay sends, consumers count every order once."""

from __future__ import annotations

import base64
import runpy
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import redis
from confluent_kafka import Producer
from nats.js import JetStreamContext

from relay.inbox.table import create
from relay.localservers.process import accepts, free_port
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.cli.running import answer
from tests.examples.running import FOLDER, Log, finished, prints, running
from tests.support.aws import AwsAdmin
from tests.support.daemon import Daemon
from tests.support.fixtures.aws import NewName
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.rabbitmq import MakeQueue
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.aws import CREDENTIALS, REGION, publisher_url
from tests.support.waiting import patience, wait_until

KAFKA_CONSUMER = str(FOLDER / "consumer_kafka.py")
NATS_CONSUMER = str(FOLDER / "consumer_nats.py")
REDIS_CONSUMER = str(FOLDER / "consumer_redis.py")
RABBITMQ_CONSUMER = str(FOLDER / "consumer_rabbitmq.py")
SQS_CONSUMER = str(FOLDER / "consumer_sqs.py")
IMPORT = str(FOLDER / "app_psycopg.py")
SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()


def revenue(outbox: Outbox) -> dict[str, int]:
    """What the consumer has counted; nothing before its first start."""
    if outbox.database.run("SELECT to_regclass('revenue')") == [(None,)]:
        return {}
    return dict(outbox.database.run("SELECT customer, total FROM revenue"))


def replay(outbox: Outbox, folder: Path, *more: str, **env: str) -> None:
    """Have every delivered event sent a second time."""
    outbox.wait_finished(10)
    done = answer(folder, "replay", "--status", "delivered", "--yes", *more, STORAGE_URL=outbox.relay_url, **env)
    assert done["delivered"] == len(outbox.rows("event_id"))


@pytest.fixture
def with_inbox(outbox: Outbox) -> Outbox:
    """The application's database, which is the consumer's, too."""
    create(outbox.url, TableName(DEFAULT_INBOX), ["dead-letters"])
    return outbox


@pytest.mark.parametrize("program", [*sorted(map(str, FOLDER.glob("consumer_*.py"))), str(FOLDER / "app_fastapi.py")])
def test_of_two_that_start_at_once_the_later_one_finds_the_table(
    outbox: Outbox, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", outbox.url)
    monkeypatch.setenv("SECRET", SECRET)
    database, table = outbox.database, runpy.run_path(program)["TABLE"]
    with database.connect(autocommit=False) as first, database.connect() as second, ThreadPoolExecutor(1) as pool:
        first.execute(table)
        later = pool.submit(second.execute, table)
        wait_until(database.waiting_for_locks, what="the later one to wait")
        first.commit()
        later.result(patience())


def put(client: httpx.Client, order_id: uuid.UUID, customer: str, amount: int) -> tuple[int, object]:
    answered = client.put(f"/orders/{order_id}", json={"customer": customer, "amount": amount})
    return answered.status_code, answered.json()


def test_fastapi_and_kafka(with_inbox: Outbox, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    outbox, name, port = with_inbox, topic(), free_port()
    own = {"DATABASE_URL": outbox.url, "TOPIC": name, "KAFKA": kafka}
    application = ("-m", "uvicorn", "--app-dir", str(FOLDER), "app_fastapi:app", "--port", str(port))
    with (
        running(*application, **own) as log,
        Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}),
        running(KAFKA_CONSUMER, **own) as consumed,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        wait_until(lambda: log() is not None and accepts(port), what="the application")
        place_orders(client)
        counted(outbox, consumed, {"ada": 930, "bob": 20})
        replay(outbox, tmp_path, PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka)
        wait_until(lambda: consumed().count("seen before") == 3, what="the repeats")
        assert revenue(outbox) == {"ada": 930, "bob": 20}


def place_orders(client: httpx.Client) -> None:
    """Three orders, one of them asked for twice, one refused behind its event, and one that is no order."""
    first, refused = uuid.uuid4(), uuid.uuid4()
    assert put(client, first, "ada", 30) == (200, {"new": True})
    assert put(client, first, "ada", 30) == (200, {"new": False})
    assert put(client, uuid.uuid4(), "bob", 20) == (200, {"new": True})
    assert put(client, refused, "ada", 971) == (409, {"detail": "over the credit limit"})
    assert put(client, refused, "ada", 900) == (200, {"new": True})
    assert put(client, uuid.uuid4(), "bob", 0)[0] == 422


def counted(outbox: Outbox, consumed: Log, expected: dict[str, int]) -> None:
    """Wait until that is counted; the consumer has to live that long."""
    wait_until(lambda: consumed() is not None and revenue(outbox) == expected, what=f"{expected}")
    assert "seen before" not in consumed()


async def test_psycopg_and_nats(with_inbox: Outbox, nats_url: str, stream: MakeStream, tmp_path: Path) -> None:
    outbox = with_inbox
    name = await stream(duplicate_window=0.1)  # the shortest there is, so that the repeats reach the consumer
    own = {"DATABASE_URL": outbox.url, "TOPIC": name.subject(), "NATS": nats_url}
    broker = {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": nats_url}
    imported = finished(IMPORT, given="customer,amount\nada,30\nbob,20\nada,5\n", **own)
    assert (imported.returncode, imported.stdout) == (0, "3 orders imported\n"), imported.stderr
    refused = finished(IMPORT, given="customer,amount\nada,1000\nbob,-1\n", **own)
    assert refused.returncode == 1
    assert "CheckViolation" in refused.stderr
    with Daemon(outbox.relay_url, broker), running(NATS_CONSUMER, **own) as consumed:
        counted(outbox, consumed, {"ada": 35, "bob": 20})
        wait_until(lambda: outbox.rows("max(delivered_at) < now() - interval '0.2 s'") == [(True,)], what="the window")
        # --force: what counts is the longest window of all streams, and the server has those of other tests, too.
        replay(outbox, tmp_path, "--force", **broker)
        wait_until(lambda: consumed().count("seen before") == 3, what="the repeats")
        assert revenue(outbox) == {"ada": 35, "bob": 20}


def test_psycopg_and_redis(with_inbox: Outbox, redis_url: str, tmp_path: Path) -> None:
    outbox, name = with_inbox, f"order.{uuid.uuid4().hex[:12]}"
    own = {"DATABASE_URL": outbox.url, "TOPIC": name, "REDIS": redis_url}
    broker = {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": redis_url}
    imported = finished(IMPORT, given="customer,amount\nada,30\nbob,20\n", **own)
    assert imported.returncode == 0, imported.stderr
    prints(IMPORT, imported.stdout)
    with Daemon(outbox.relay_url, broker), running(REDIS_CONSUMER, **own) as consumed:
        counted(outbox, consumed, {"ada": 30, "bob": 20})
        replay(outbox, tmp_path, **broker)
        wait_until(lambda: consumed().count("seen before") == 2, what="the repeats")
        assert revenue(outbox) == {"ada": 30, "bob": 20}
    redis.Redis.from_url(redis_url).delete(name)


GOOD, POISON = b'{"customer": "ada", "amount": 30}', b"no JSON"
LETTERS = "SELECT event_type, payload, tries FROM openoutbox_inbox_tries WHERE state = 'dead' ORDER BY tries"


def is_survived(outbox: Outbox, consumed: Log, program: str, name: str, *strange: bytes) -> None:
    """Good, poison, good: what cannot be handled is kept, with all of it, and what is behind it is handled.

    ``strange`` is in a message that no relay sent.
    """
    count = 1 + len(strange)
    wait_until(lambda: consumed() is not None and len(outbox.database.run(LETTERS)) == count, 60, f"{count} letters")
    (*strangers, poison) = outbox.database.run(LETTERS)
    assert poison == (name, POISON, 5)
    for (kind, payload, tries), text in zip(strangers, strange, strict=True):
        assert (kind, tries, text in payload) == (name, 0, True)
    for _ in range(2):
        outbox.insert([Row(name, GOOD, "7")])
    wait_until(lambda: consumed().count(" counted\n") == 4, 60, "what is behind them")
    assert revenue(outbox) == {"ada": 120}
    prints(program, consumed(), name)


def send_strange(kafka: str, topic: str) -> None:
    """A message that no relay sent."""
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, b"of a stranger", key=b"7")
    assert producer.flush(patience()) == 0


def test_kafka_and_a_poisonous_message(with_inbox: Outbox, kafka: str, topic: MakeTopic) -> None:
    outbox, name = with_inbox, topic()
    send_strange(kafka, name)
    outbox.insert([Row(name, GOOD, "7"), Row(name, POISON, "7"), Row(name, GOOD, "7")])
    with (
        Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}),
        running(KAFKA_CONSUMER, DATABASE_URL=outbox.url, TOPIC=name, KAFKA=kafka) as consumed,
    ):
        is_survived(outbox, consumed, KAFKA_CONSUMER, name, b"of a stranger")


async def test_nats_and_a_poisonous_message(
    with_inbox: Outbox, nats_url: str, stream: MakeStream, jetstream: JetStreamContext
) -> None:
    outbox, name = with_inbox, (await stream()).subject()
    await jetstream.publish(name, b"of a stranger")
    outbox.insert([Row(name, GOOD), Row(name, POISON), Row(name, GOOD)])
    with (
        Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": nats_url}),
        running(NATS_CONSUMER, DATABASE_URL=outbox.url, TOPIC=name, NATS=nats_url) as consumed,
    ):
        is_survived(outbox, consumed, NATS_CONSUMER, name, b"of a stranger")


def test_redis_and_a_poisonous_message(with_inbox: Outbox, redis_url: str) -> None:
    outbox, name = with_inbox, f"order.{uuid.uuid4().hex[:12]}"
    client = redis.Redis.from_url(redis_url)
    client.xadd(name, {"from": "a stranger"})
    outbox.insert([Row(name, GOOD), Row(name, POISON), Row(name, GOOD)])
    own = {"DATABASE_URL": outbox.url, "TOPIC": name, "REDIS": redis_url, "CLAIM_AFTER_MS": "200"}
    with (
        Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": redis_url}),
        running(REDIS_CONSUMER, **own) as consumed,
    ):
        is_survived(outbox, consumed, REDIS_CONSUMER, name, b"a stranger")
    client.delete(name)


def test_rabbitmq_and_a_poisonous_message(
    with_inbox: Outbox, rabbitmq_url: str, rabbit: RabbitAdmin, queue: MakeQueue
) -> None:
    outbox, name = with_inbox, queue(x_queue_type="quorum", x_delivery_limit=1_000_000)  # as the consumer declares it
    rabbit.channel.basic_publish("", name, b"of a stranger")
    outbox.insert([Row(name, GOOD), Row(name, POISON), Row(name, GOOD)])
    with (
        Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "rabbitmq", "PUBLISHER_URL": rabbitmq_url}),
        running(RABBITMQ_CONSUMER, DATABASE_URL=outbox.url, TOPIC=name, RABBITMQ=f"{rabbitmq_url}%2F") as consumed,
    ):
        is_survived(outbox, consumed, RABBITMQ_CONSUMER, name, b"of a stranger")
        wait_until(lambda: rabbit.count(name) == 0, what="the acknowledgements")


def test_sqs_and_a_poisonous_message(with_inbox: Outbox, aws_url: str, aws: AwsAdmin, new_queue: NewName) -> None:
    outbox, name = with_inbox, new_queue("")
    aws.send(name, "of a stranger")
    outbox.insert([Row(name, GOOD), Row(name, POISON), Row(name, GOOD)])
    relay = {"PUBLISHER_TYPE": "sqs", "PUBLISHER_URL": publisher_url("sqs", aws_url), **CREDENTIALS}
    own = {"DATABASE_URL": outbox.url, "TOPIC": name, "AWS_ENDPOINT_URL": aws_url, "AWS_DEFAULT_REGION": REGION}
    with Daemon(outbox.relay_url, relay), running(SQS_CONSUMER, **own, **CREDENTIALS) as consumed:
        is_survived(outbox, consumed, SQS_CONSUMER, name, b"of a stranger")


def test_webhooks_and_a_poisonous_event(with_inbox: Outbox) -> None:
    outbox, name, port = with_inbox, f"order.{uuid.uuid4().hex[:12]}", free_port()
    url = f"http://127.0.0.1:{port}/events"
    outbox.insert([Row(name, GOOD), Row(name, POISON), Row(name, GOOD)])
    relay = {"PUBLISHER_TYPE": "http", "PUBLISHER_URL": url, "HTTP_SECRETS": SECRET, "RETRY_BASE_DELAY": "100ms"}
    receiver = ("-m", "uvicorn", "--app-dir", str(FOLDER), "consumer_webhook:app", "--log-level", "warning", "--port")
    with running(*receiver, str(port), DATABASE_URL=outbox.url, SECRET=SECRET) as consumed:
        wait_until(lambda: consumed() is not None and accepts(port), what="the receiver")
        stranger = {"webhook-id": str(uuid.uuid4()), "webhook-timestamp": f"{time.time():.0f}"}
        for signature in ({}, {"webhook-signature": "v1,AAAA"}, {"webhook-signature": "none"}):
            assert httpx.post(url, content=GOOD, headers=stranger | signature).status_code == 401
        with Daemon(outbox.relay_url, {**relay, "HTTP_ALLOW_PRIVATE": "true"}):
            is_survived(outbox, consumed, str(FOLDER / "consumer_webhook.py"), name)


def test_the_bank_writes_each_letter_once(with_inbox: Outbox, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    outbox, name = with_inbox, topic()
    broker = {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}
    send_strange(kafka, name)
    bank = finished("-m", "examples.bank.main", "--url", outbox.url, "--topic", name, given="")
    assert bank.returncode == 0, bank.stderr
    prints(str(FOLDER / "bank/main.py"), bank.stdout)
    letters = ("-m", "examples.bank.letters", "--url", outbox.url, "--kafka", kafka, "--topic", name)
    written = "SELECT count(*), count(DISTINCT account_id), min(cents), max(cents) FROM letters"
    with Daemon(outbox.relay_url, broker), running(*letters) as consumed:
        wait_until(lambda: consumed().count(" handled") == 48, what="the events of the day")
        assert outbox.database.run(written) == [(4, 4, 250, 250)]
        assert outbox.database.run(LETTERS) == [(name, b"of a stranger", 0)]
        replay(outbox, tmp_path, **broker)
        wait_until(lambda: consumed().count("seen before") == 48, what="the repeats")
        assert outbox.database.run(written) == [(4, 4, 250, 250)]
        prints(str(FOLDER / "bank/letters.py"), consumed(), name)
