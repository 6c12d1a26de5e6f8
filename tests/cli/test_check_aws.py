"""``relay-cli check`` with SQS and SNS: the queues and topics of the waiting events, on an emulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import call_cli
from tests.cli.test_check import check
from tests.support.aws import AwsAdmin
from tests.support.fixtures.aws import NewName
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.aws import CREDENTIALS, publisher_url


def variables(outbox: Outbox, kind: str, endpoint: str) -> dict[str, str]:
    return {"STORAGE_URL": outbox.relay_url, "PUBLISHER_URL": publisher_url(kind, endpoint), **CREDENTIALS}


@pytest.mark.parametrize(("kind", "noun"), [("sqs", "queue"), ("sns", "topic")])
def test_a_destination_that_is_missing_is_named(
    kind: str,
    noun: str,
    outbox: Outbox,
    aws_url: str,
    new_queue: NewName,
    new_topic: NewName,
    tmp_path: Path,
) -> None:
    name = (new_queue if kind == "sqs" else new_topic)("")
    environment = variables(outbox, kind, aws_url)
    outbox.insert([Row(name)])
    assert f"ok       {noun}s: a {noun} exists for each event type" in call_cli(tmp_path, "check", **environment).stdout
    outbox.insert([Row("missing.type"), Row("no name")])
    findings = check(tmp_path, environment, status=1)[f"{noun}s"]
    messages = {message for _, message, _ in findings}
    assert f"event type 'missing.type': {noun} 'missing-type' does not exist" in messages
    assert any(message.startswith("event type 'no name': 'no name' cannot name a queue") for message in messages)


def test_without_credentials_the_advice_is_about_them(outbox: Outbox, aws_url: str, tmp_path: Path) -> None:
    environment = variables(outbox, "sqs", aws_url)
    del environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
    [(level, message, advice)] = check(tmp_path, environment, status=1)["broker"]
    assert (level, "Unable to locate credentials" in message) == ("error", True)
    assert "check the credentials" in advice


def test_a_topic_without_a_subscription_is_named(
    outbox: Outbox, aws_url: str, aws: AwsAdmin, new_topic: NewName, tmp_path: Path
) -> None:
    name = new_topic("")
    outbox.insert([Row(name)])
    environment = variables(outbox, "sns", aws_url)
    assert "topics" not in check(tmp_path, environment)
    aws.unsubscribe(name)
    [(level, message, advice)] = check(tmp_path, environment)["topics"]
    assert (level, "acknowledges events and keeps none" in message) == ("warning", True)
    assert "subscribe a queue" in advice
