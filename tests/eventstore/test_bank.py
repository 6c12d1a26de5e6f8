"""The example, as its README tells to run it: the events of two tenants reach Kafka through the relay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.daemon import Daemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.postgres import Database
from tests.support.messages import kafka_headers, kafka_key
from tests.support.paths import ROOT
from tests.support.waiting import patience

pytestmark = pytest.mark.timeout(240)

ACCOUNTS, EVENTS_EACH = 4, 12


def test_the_bank_runs_and_its_events_reach_kafka(outbox_database: Database, kafka: str, topic: MakeTopic) -> None:
    name = topic(partitions=3)
    command = [sys.executable, "-m", "examples.bank.main", "--url", outbox_database.url, "--topic", name]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("has 750 cents") == ACCOUNTS
    assert done.stdout.count("was refused") == ACCOUNTS
    with Daemon(outbox_database.url, {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}):
        received = _read(kafka, name, ACCOUNTS * EVENTS_EACH)
    versions: dict[str, list[int]] = {}
    for headers, key, body in received:
        assert headers["stream_id"] == key
        assert ("owner" in body) == (headers["type"] == "AccountOpened")
        versions.setdefault(key, []).append(int(headers["version"]))
    assert sorted(map(sorted, versions.values())) == [list(range(1, EVENTS_EACH + 1))] * ACCOUNTS
    assert Counter(headers["tenant_id"] for headers, _, _ in received).most_common()[-1][1] == 2 * EVENTS_EACH


def _read(bootstrap: str, topic: str, count: int) -> list[tuple[dict[str, str], str, dict[str, object]]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=patience()).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    received: list[tuple[dict[str, str], str, dict[str, object]]] = []
    try:
        while len(received) < count:
            messages = consumer.consume(count, timeout=patience())
            assert messages, f"only {len(received)} of {count} messages came"
            for message in messages:
                assert message.error() is None
                body = message.value()
                assert isinstance(body, bytes)
                received.append((kafka_headers(message), kafka_key(message) or "", json.loads(body)))
    finally:
        consumer.close()
    return received
