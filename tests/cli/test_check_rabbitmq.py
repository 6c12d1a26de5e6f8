"""``relay-cli check`` with RabbitMQ: the exchange and the queues of the waiting events."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.cli.running import call_cli
from tests.cli.test_check import check
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.rabbitmq import MakeQueue
from tests.support.rabbitmq import RabbitAdmin


def test_a_whole_relay_on_rabbitmq_is_fine(outbox: Outbox, rabbitmq_url: str, queue: MakeQueue, tmp_path: Path) -> None:
    outbox.insert([Row(queue()), Row(queue(x_queue_type="quorum"))])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_URL": rabbitmq_url}
    assert check(tmp_path, variables, "--strict") == {}
    assert "ok       queues: a queue exists for each event type" in call_cli(tmp_path, "check", **variables).stdout


def test_a_queue_that_is_missing_is_named(
    outbox: Outbox, rabbitmq_url: str, queue: MakeQueue, rabbit: RabbitAdmin, tmp_path: Path
) -> None:
    missing = [f"missing.{uuid.uuid4().hex}" for _ in range(2)]
    outbox.insert([Row(missing[0]), Row(queue()), Row(missing[1])])
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_URL": rabbitmq_url}
    findings = check(tmp_path, variables, status=1)["queues"]
    assert {message for _, message, _ in findings} == {f"queue {name!r} does not exist" for name in missing}
    for name in missing:
        rabbit.declare(name, {"x-queue-type": "quorum"})
    assert "queues" not in check(tmp_path, variables)
    for name in missing:
        rabbit.delete(name)


def test_an_exchange_that_is_missing_is_named(
    outbox: Outbox, rabbitmq_url: str, rabbit: RabbitAdmin, tmp_path: Path
) -> None:
    exchange = f"test.{uuid.uuid4().hex}"
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_URL": rabbitmq_url, "RABBITMQ_EXCHANGE": exchange}
    [(level, message, _)] = check(tmp_path, variables, status=1)["exchange"]
    assert (level, message) == ("error", f"exchange {exchange!r} does not exist")
    rabbit.channel.exchange_declare(exchange, "topic", durable=True)
    assert "exchange" not in check(tmp_path, variables)
    [(level, message, advice)] = check(tmp_path, variables | {"RABBITMQ_MANDATORY": "false"})["exchange"]
    assert (level, "is DELIVERED and lost" in message) == ("warning", True)
    assert "unless the exchange keeps messages itself" in advice
    rabbit.channel.exchange_delete(exchange)
