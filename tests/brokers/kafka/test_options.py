"""From options and URL to librdkafka's configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
from confluent_kafka import Producer

from relay.brokers.kafka.options import producer_config, transaction_config
from relay.brokers.kafka.publisher import KafkaPublisher
from relay.core.errors import ConfigError
from tests.support.options import kafka_options


@pytest.mark.parametrize("url", ["a:1,b:2", "kafka://a:1,b:2", "kafka://a:1,b:2/", "KAFKA://a:1,b:2"])
def test_every_way_to_name_brokers(url: str) -> None:
    config = producer_config(kafka_options(url))
    assert config["bootstrap.servers"] == "a:1,b:2"
    assert "sasl.username" not in config


def test_defaults_keep_the_promises() -> None:
    config = producer_config(kafka_options("a:1"))
    assert (config["acks"], config["enable.idempotence"]) == ("all", True)
    assert config["batch.size"] <= 1_000_000 < config["message.max.bytes"]
    assert config["topic.metadata.propagation.max.ms"] < config["message.timeout.ms"]
    assert config["linger.ms"] <= 10
    assert "batch.num.messages" not in config


LARGE, LONG = 1 << 40, 1e9
EXTREMES: list[dict[str, Any]] = [
    {"batch_bytes": 1, "batch_size": 1, "batch_timeout": 0.0, "max_attempts": 0},
    {"batch_bytes": 1 << 31, "batch_size": LARGE, "batch_timeout": LONG, "max_attempts": LARGE},
    {"write_timeout": 0.001, "read_timeout": 0.001, "connection_timeout": 0.001},
    {"write_timeout": LONG, "read_timeout": LONG, "connection_timeout": LONG},
    {"queue_messages": 1, "queue_bytes": 1},
    {"queue_messages": LARGE, "queue_bytes": LARGE << 10},
]


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("required_acks", ["all", "one"])
def test_the_client_takes_every_extreme(extreme: dict[str, Any], required_acks: Literal["all", "one"]) -> None:
    Producer(producer_config(kafka_options("127.0.0.1:1", required_acks=required_acks, **extreme)) | {"log_level": 0})


def test_one_acknowledgement_means_no_idempotence() -> None:
    config = producer_config(kafka_options("a:1", required_acks="one"))
    assert (config["acks"], config["enable.idempotence"]) == ("1", False)


@pytest.mark.parametrize(("lease", "milliseconds"), [(3.0, 1000), (30.0, 10_000), (60.0, 20_000), (180.0, 20_000)])
def test_a_transaction_is_open_for_a_third_of_a_lease_and_20_s_at_most(lease: float, milliseconds: int) -> None:
    config = transaction_config(kafka_options("host:9092", lease_timeout=lease))
    assert config["transaction.timeout.ms"] == milliseconds
    assert config["message.timeout.ms"] <= milliseconds


def test_a_login_is_percent_decoded_and_asks_for_tls() -> None:
    config = producer_config(kafka_options("kafka://us%40er:p%3Aw@a:1,b:2?sasl.mechanism=SCRAM-SHA-256"))
    assert (config["sasl.username"], config["sasl.password"]) == ("us@er", "p:w")
    assert (config["security.protocol"], config["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-256")
    assert producer_config(kafka_options("kafka://u:p@a:1"))["sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "names no Kafka broker"),
        ("kafka://", "names no Kafka broker"),
        ("kafka://u:p@", "names no Kafka broker"),
        ("a:1,b:99999", "names no Kafka broker"),
        ("http://a:1", "not a Kafka scheme"),
        ("a:1?acks=0", "acks"),
        ("a:1?enable.idempotence=false", "enable.idempotence"),
    ],
)
def test_a_wrong_url_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        producer_config(kafka_options(url))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("a:1?no.such.property=1", "no.such.property"),
        ("a:1?security.protocol=nonsense", "security.protocol"),
        ("a:1?security.protocol=ssl&ssl.ca.location=/not/there", "ssl.ca.location"),
    ],
)
async def test_librdkafka_refuses_at_open_and_says_nothing_itself(
    url: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=words):
        await KafkaPublisher(kafka_options(url)).open()
    assert capfd.readouterr() == ("", "")


def test_secrets_are_not_shown() -> None:
    options = kafka_options("kafka://user:hunter2@a:1")
    assert "hunter2" not in repr(options)
    assert "hunter2" not in repr(replace(options, batch_size=1))
