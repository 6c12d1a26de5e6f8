"""``relay-cli kafka-setup`` and what ``relay-cli check`` says of its result, on a Kafka that grants nothing unasked."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from relay.brokers.kafka.asking import KafkaAsking
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.cli.running import call_cli
from tests.support.daemon import Daemon
from tests.support.fixtures.kafka import create_topic
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.options import kafka_options
from tests.support.servers.kafka_granting import GrantingKafka
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("granting kafka")]


@pytest.fixture
def granting(granting_kafka: GrantingKafka) -> GrantingKafka:
    return granting_kafka


def prefix_of(outbox: Outbox) -> str:
    return f"{outbox.url.rpartition('/')[2].partition('?')[0]}.public.openoutbox_events"


def set_up(folder: Path, outbox: Outbox, kafka: str, *arguments: str) -> CompletedProcess[str]:
    return call_cli(folder, "kafka-setup", "--publisher-url", kafka, *arguments, STORAGE_URL=outbox.url)


def transactions(folder: Path, outbox: Outbox, kafka: str, subject: str = "transactions") -> list[tuple[str, str]]:
    """What check says of them."""
    variables = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_URL": kafka, "PUBLISHER_TYPE": "kafka"}
    done = call_cli(folder, "check", "--json", KAFKA_TRANSACTIONS="true", **variables)
    findings = json.loads(done.stdout)["findings"]
    return [(one["level"], one["message"]) for one in findings if one["subject"] == subject]


def allow_topic(granting: GrantingKafka, topic: str) -> None:
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:relay",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    admin = AdminClient({"bootstrap.servers": granting.url})
    for each in admin.create_acls(acls).values():
        each.result(patience())


def test_what_it_makes_is_all_that_a_relay_needs(outbox: Outbox, granting: GrantingKafka, tmp_path: Path) -> None:
    topic, proofs = f"orders.{uuid.uuid4().hex}", f"{prefix_of(outbox)}.proofs"
    create_topic(AdminClient({"bootstrap.servers": granting.url}), topic)
    allow_topic(granting, topic)
    assert [level for level, _ in transactions(tmp_path, outbox, granting.login_url())] == ["error", "error"]
    first = set_up(tmp_path, outbox, granting.url, "--principal", "User:relay")
    assert (first.returncode, first.stdout.splitlines()) == (
        0,
        [f"topic of proofs {proofs}: made", "User:relay: 6 rights"],
    )
    again = set_up(tmp_path, outbox, granting.url, "--principal", "User:relay", "--json")
    assert json.loads(again.stdout)["done"] == {"topic_made": False, "acls": 6, "open_to_all": False}
    assert [level for level, _ in transactions(tmp_path, outbox, granting.login_url())] == ["ok", "ok"]
    outbox.insert([Row(topic)])
    env = {"PUBLISHER_URL": granting.login_url(), "PUBLISHER_TYPE": "kafka", "KAFKA_TRANSACTIONS": "true"}
    with Daemon(outbox.relay_url, env) as relay:
        wait_until(lambda: relay.running and outbox.counts() == {"DELIVERED": 1}, what="its delivery")


async def test_a_relay_without_transactions_that_may_not_see_the_topic_asks_nothing(granting: GrantingKafka) -> None:
    prefix = uuid.uuid4().hex
    asking = KafkaAsking(kafka_options(granting.login_url(), transactions_prefix=prefix))
    await asking.open()
    admin = AdminClient({"bootstrap.servers": granting.url})
    assert not await asking.keeps_proofs()
    await asyncio.to_thread(create_topic, admin, f"{prefix}.proofs")
    await asking.close()
    asking = KafkaAsking(kafka_options(granting.login_url(), transactions_prefix=prefix))
    await asking.open()
    assert not await asking.keeps_proofs()
    await asking.close()


def test_without_an_authorizer_there_is_nothing_to_grant(outbox: Outbox, kafka: str, tmp_path: Path) -> None:
    done = set_up(tmp_path, outbox, kafka, "--principal", "User:relay")
    assert done.returncode == 0
    assert "no ACLs: the broker has no authorizer" in done.stdout
    [(level, message), _] = transactions(tmp_path, outbox, kafka)
    assert level == "ok"
    assert message.endswith("keeps each proof for 30 d: an outage of all relays must be shorter")


def test_check_warns_of_proofs_that_are_deleted_by_size(outbox: Outbox, kafka: str, tmp_path: Path) -> None:
    admin, name = AdminClient({"bootstrap.servers": kafka}), f"{prefix_of(outbox)}.proofs"
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.bytes": "1048576"})])[name].result()
    [(level, message), _] = transactions(tmp_path, outbox, kafka)
    assert (level, "retention.bytes=1048576" in message) == ("warning", True)


@pytest.mark.parametrize(
    ("partitions", "config", "said"),
    [(2, {}, "has 2 partitions and must have one"), (1, {"cleanup.policy": "compact"}, "cleanup.policy=compact")],
)
def test_a_topic_of_proofs_of_another_shape_is_refused_everywhere(
    outbox: Outbox, kafka: str, tmp_path: Path, partitions: int, config: dict[str, str], said: str
) -> None:
    """By the command, by check, and by a relay at its start."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name := f"{prefix_of(outbox)}.proofs", partitions, 1, config=config)])[name].result()
    done = set_up(tmp_path, outbox, kafka)
    assert (done.returncode, said in done.stderr) == (2, True)
    [(level, message), _] = transactions(tmp_path, outbox, kafka)
    assert (level, said in message) == ("error", True)
    env = {"PUBLISHER_URL": kafka, "PUBLISHER_TYPE": "kafka", "KAFKA_TRANSACTIONS": "true"}
    with Daemon(outbox.relay_url, env) as relay:
        assert relay.process.wait(patience()) == 2
        assert said in relay.log()


def test_check_names_living_relays_without_the_setting(outbox: Outbox, kafka: str, tmp_path: Path) -> None:
    [(level, message)] = transactions(tmp_path, outbox, kafka, "fleet")
    assert (level, "cannot be seen" in message) == ("warning", True)
    add_extension(outbox.owner_url, TableName(), "fleet")
    with outbox.database.connect() as connection:
        give_rights(connection)
    assert transactions(tmp_path, outbox, kafka, "fleet") == []
    outbox.database.run(
        "INSERT INTO openoutbox_relays (instance, relay_id, version, host, state, destination_type, destination, "
        "lease_timeout, ordering, on_delivered) "
        "VALUES (gen_random_uuid(), 'older', '0.1', 'host', 'active', 'kafka', 'ab', 60, 'none', 'keep')"
    )
    [(level, message)] = transactions(tmp_path, outbox, kafka, "fleet")
    assert (level, message.endswith("so none uses transactions: older")) == ("warning", True)


def test_a_dry_run_prints_commands_of_kafkas_own_tools_and_connects_to_nothing(tmp_path: Path) -> None:
    arguments = ["--publisher-url", "kafka://relay:x@nowhere:9092", "--dry-run"]
    done = call_cli(tmp_path, "kafka-setup", *arguments, STORAGE_URL="postgres://u@h/shop")
    topic, on_topic, on_ids = done.stdout.splitlines()
    assert topic.startswith("kafka-topics.sh --bootstrap-server nowhere:9092 --create --if-not-exists")
    assert "--topic shop.public.openoutbox_events.proofs --partitions 1 --config cleanup.policy=delete" in topic
    assert "--allow-principal User:relay --operation Describe --operation DescribeConfigs" in on_topic
    assert on_ids.endswith("--transactional-id shop.public.openoutbox_events/ --resource-pattern-type prefixed")
