"""The rights that docs/operate/trust.md has to copy are enough, and no more: a broker with an authorizer."""

from __future__ import annotations

import argparse
import shlex

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from relay.brokers.kafka.publisher import KafkaPublisher
from relay.core.outcome import Acknowledged, Outcome
from tests.brokers.harness.base import Collector, make_event
from tests.support.documents import blocks
from tests.support.fixtures.kafka import create_topic
from tests.support.options import kafka_options
from tests.support.servers.kafka_granting import GrantingKafka
from tests.support.waiting import patience

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("granting kafka")]


def granted(command: str) -> list[AclBinding]:
    """What a command of ``kafka-acls.sh`` allows; the tests' Kafka has no such tool."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--resource-pattern-type", required=True)
    each = parser.parse_args(shlex.split(command)[1:])
    return [
        AclBinding(
            ResourceType.TOPIC,
            each.topic,
            ResourcePatternType[each.resource_pattern_type.upper()],
            each.allow_principal,
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for operation in each.operation
    ]


@pytest.fixture(scope="module")
def granting(granting_kafka: GrantingKafka) -> GrantingKafka:
    """A broker with the rights of the page, and topics that they are for and not for."""
    admin = AdminClient({"bootstrap.servers": granting_kafka.url})
    for name in ("orders.placed", "mails.sent"):
        create_topic(admin, name)
    [block] = [one for one in blocks("docs/operate/trust.md") if "kafka-acls.sh" in one.text]
    for command in block.text.replace("\\\n", "").splitlines():
        for done in admin.create_acls(granted(command)).values():
            done.result(patience())
    return granting_kafka


async def _outcomes(url: str, *types: str) -> list[Outcome]:
    publisher, sink, events = KafkaPublisher(kafka_options(url)), Collector(), [make_event(name) for name in types]
    await publisher.open()
    await publisher.probe(patience(10))
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    await publisher.close()
    return outcomes


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_the_least_rights_of_the_page_are_enough_and_no_more(granting: GrantingKafka, mechanism: str) -> None:
    url = granting.login_url(mechanism)
    placed, other = await _outcomes(url, "orders.placed", "mails.sent")
    assert placed == Acknowledged()
    assert getattr(other, "code", "") == "TOPIC_AUTHORIZATION_FAILED"
