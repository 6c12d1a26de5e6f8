"""Every example does what it says, as a process against real servers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from nats.js import JetStreamContext

from tests.fixtures.kafka import MakeTopic
from tests.fixtures.nats import MakeStream
from tests.fixtures.outbox import Outbox

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]


def environment(**given: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **given}


def run(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / example), *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=90, check=False)


def test_an_order_and_its_events_are_one(outbox: Outbox) -> None:
    given = ["--storage-url", outbox.url, "--customer", "ada"]
    placed = run("plain_app.py", *given, "--item", "lamp", "--item", "desk")
    assert (placed.returncode, placed.stdout, placed.stderr) == (0, "order 1 placed\n", "")
    rows = outbox.database.run(
        "SELECT event_type, partition_key, available_at > NOW() + INTERVAL '2 days', convert_from(payload, 'UTF8') "
        "FROM openoutbox_events ORDER BY event_type"
    )
    assert [row[:3] for row in rows] == [("order.placed", "ada", False), ("order.reminder", "ada", True)]
    assert json.loads(rows[0][3]) == {"order_id": 1, "customer": "ada", "items": ["lamp", "desk"]}
    refused = run("plain_app.py", *given)
    assert "CheckViolation" in refused.stderr
    assert sum(outbox.counts().values()) == 2


def test_a_sign_up_and_its_event_are_one(outbox: Outbox) -> None:
    code = (
        "import sys, uvicorn; from examples.fastapi_app import app; "
        "uvicorn.run(app, host='127.0.0.1', fd=int(sys.argv[1]), log_level='warning')"
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/users"
        command = [sys.executable, "-c", code, str(listening.fileno())]
        with subprocess.Popen(
            command, env=environment(STORAGE_URL=outbox.url), pass_fds=[listening.fileno()]
        ) as service:
            try:
                assert _post(url, "ada@example.org") == 201
                assert _post(url, "ada@example.org") == 409
            finally:
                service.terminate()
    events = outbox.database.run("SELECT event_type, convert_from(payload, 'UTF8') FROM openoutbox_events")
    assert [(name, json.loads(body)) for name, body in events] == [
        ("user.signup", {"id": 1, "email": "ada@example.org"})
    ]


def _post(url: str, email: str) -> int:
    request = urllib.request.Request(
        url, json.dumps({"email": email}).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def effects(outbox: Outbox) -> list[tuple[str, bytes]]:
    return [(str(id_), body) for id_, body in outbox.database.run("SELECT event_id, body FROM effects ORDER BY body")]


def test_a_kafka_consumer_handles_each_event_once(outbox: Outbox, kafka: str, topic: MakeTopic) -> None:
    name, first, second = topic(), str(uuid.uuid4()), str(uuid.uuid4())
    producer = Producer({"bootstrap.servers": kafka})
    for event_id, body in ((first, b"1"), (first, b"1"), (second, b"2"), (first, b"1")):
        producer.produce(name, body, headers=[("X-Event-ID", event_id.encode())])
    assert producer.flush(30) == 0
    given = ["--storage-url", outbox.url, "--brokers", kafka, "--topic", name, "--group", name, "--idle", "8"]
    done = run("consume_kafka.py", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"handled {first}",
        f"dropped a copy of {first}",
        f"handled {second}",
        f"dropped a copy of {first}",
    ]
    assert effects(outbox) == [(first, b"1"), (second, b"2")]


async def test_a_nats_consumer_handles_each_event_once(
    outbox: Outbox, nats_url: str, jetstream: JetStreamContext, stream: MakeStream
) -> None:
    made = await stream(duplicate_window=0.1)
    subject, first, second = made.subject(), str(uuid.uuid4()), str(uuid.uuid4())
    await jetstream.publish(subject, b"1", headers={"Nats-Msg-Id": first})
    await jetstream.publish(subject, b"2", headers={"Nats-Msg-Id": second})
    given = ["--storage-url", outbox.url, "--server", nats_url, "--subject", subject, "--idle", "2"]
    done = run("consume_nats.py", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"handled {first}", f"handled {second}"]
    later = await jetstream.publish(subject, b"1", headers={"Nats-Msg-Id": first})
    assert not later.duplicate
    assert run("consume_nats.py", *given).stdout.splitlines() == [f"dropped a copy of {first}"]
    assert effects(outbox) == [(first, b"1"), (second, b"2")]
