"""The examples at work: applications insert, a relay sends, consumers count every order once."""

from __future__ import annotations

import uuid
from pathlib import Path

import httpx

from relay.localservers.process import accepts, free_port
from tests.cli.running import answer
from tests.examples.running import FOLDER, Log, finished, running
from tests.support.daemon import Daemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

KAFKA_CONSUMER = str(FOLDER / "consumer_kafka.py")
NATS_CONSUMER = str(FOLDER / "consumer_nats.py")
IMPORT = str(FOLDER / "app_psycopg.py")


def revenue(outbox: Outbox) -> dict[str, int]:
    """What the consumer has counted; nothing before its first start."""
    if outbox.database.run("SELECT to_regclass('revenue')") == [(None,)]:
        return {}
    return dict(outbox.database.run("SELECT customer, total FROM revenue"))


def replay(outbox: Outbox, folder: Path, **env: str) -> None:
    """Have every delivered event sent a second time."""
    outbox.wait_finished(10)
    done = answer(folder, "replay", "--status", "delivered", "--yes", STORAGE_URL=outbox.relay_url, **env)
    assert done["delivered"] == len(outbox.rows("event_id"))


def put(client: httpx.Client, order_id: uuid.UUID, customer: str, amount: int) -> tuple[int, object]:
    answered = client.put(f"/orders/{order_id}", json={"customer": customer, "amount": amount})
    return answered.status_code, answered.json()


def test_fastapi_and_kafka(outbox: Outbox, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name, port = topic(), free_port()
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


async def test_psycopg_and_nats(outbox: Outbox, nats_url: str, stream: MakeStream, tmp_path: Path) -> None:
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
        replay(outbox, tmp_path, **broker)
        wait_until(lambda: consumed().count("seen before") == 3, what="the repeats")
        assert revenue(outbox) == {"ada": 35, "bob": 20}
