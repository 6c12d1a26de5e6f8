"""PUBLISHER_TYPE: implied by the scheme of PUBLISHER_URL, and never guessed."""

from __future__ import annotations

import pytest

from relay.settings.settings import Settings
from tests.settings.test_settings import NEEDED, refusal, settings


@pytest.mark.parametrize("publisher", ["kafka", "nats", "redis", "rabbitmq", "http", "sqs", "sns"])
def test_a_broker_needs_an_address(publisher: str) -> None:
    assert f"PUBLISHER_URL is not set, and PUBLISHER_TYPE={publisher} needs it" in refusal(PUBLISHER_TYPE=publisher)


def test_the_address_of_another_broker_is_refused_without_its_password() -> None:
    message = refusal(PUBLISHER_TYPE="kafka", PUBLISHER_URL="redis://:hunter2@cache:6379")

    assert "is the address of redis, but PUBLISHER_TYPE is kafka" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("url", "publisher"),
    [
        ("kafka://host:9092,host2:9092", "kafka"),
        ("KAFKA://host:9092", "kafka"),
        ("nats://host:4222", "nats"),
        ("tls://host:4222,tls://host2:4222", "nats"),
        ("redis://host:6379/0", "redis"),
        ("rediss://host:6379/0", "redis"),
        ("unix:///run/redis.sock", "redis"),
        ("redis+sentinel://host:26379/mymaster", "redis"),
        ("rediss+cluster://host:6379", "redis"),
        ("amqp://user@host:5672,host2/vhost", "rabbitmq"),
        ("amqps://host", "rabbitmq"),
        ("https://host/hook", "http"),
        ("http://host:8080", "http"),
        ("sqs://eu-central-1", "sqs"),
        ("SNS://eu-central-1?endpoint=http://127.0.0.1:4566", "sns"),
    ],
)
def test_the_scheme_of_the_address_implies_the_publisher(url: str, publisher: str) -> None:
    implied = settings(PUBLISHER_URL=url, HTTP_SECRETS="whsec_x")

    assert (implied.publisher_type, implied.publisher_name, implied.warnings) == (publisher, publisher, ())


def test_a_file_of_endpoints_alone_needs_its_type() -> None:
    """All events were printed on standard output, and counted as delivered."""
    message = refusal(HTTP_ENDPOINTS_FILE="/endpoints.toml")
    assert message.startswith("HTTP_ENDPOINTS_FILE is set without PUBLISHER_TYPE or PUBLISHER_URL; write")
    assert not settings(HTTP_ENDPOINTS_FILE="/endpoints.toml", PUBLISHER_TYPE="http").warnings
    assert not settings(HTTP_ENDPOINTS_FILE="/endpoints.toml", DESTINATIONS_FILE="/destinations.toml").warnings


def test_a_file_of_endpoints_beside_another_publisher_is_said() -> None:
    [warning] = settings(HTTP_ENDPOINTS_FILE="/endpoints.toml", PUBLISHER_URL="nats://host:4222").warnings
    assert warning == "HTTP_ENDPOINTS_FILE is set but not used: PUBLISHER_TYPE is nats"


@pytest.mark.parametrize("url", ["host:9092", "host", "kinesis://host", "wss://host/hook", "kafak://host:9092", "://"])
def test_an_address_that_implies_no_publisher_needs_its_type(url: str) -> None:
    message = refusal(PUBLISHER_URL=url)

    assert message.startswith("PUBLISHER_TYPE is not set, and the scheme of PUBLISHER_URL implies none; write")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("kafka://h", "kafka"),
        ("tls://h", "nats"),
        ("amqps://h", "rabbitmq"),
        ("sqs://eu-central-1", "sqs"),
        ("unix:///s", "redis"),
        ("redis+sentinel://h/m", "redis"),
    ],
)
@pytest.mark.parametrize("publisher", ["kafka", "nats", "redis", "rabbitmq", "sqs", "sns"])
def test_a_type_that_contradicts_the_scheme_is_refused(publisher: str, url: str, owner: str) -> None:
    if publisher == owner:
        assert settings(PUBLISHER_TYPE=publisher, PUBLISHER_URL=url).publisher_type == publisher
    else:
        message = refusal(PUBLISHER_TYPE=publisher, PUBLISHER_URL=url)
        assert f"is the address of {owner}, but PUBLISHER_TYPE is {publisher}" in message


@pytest.mark.parametrize("typed", ["kafak", "natz", "reddis", "Kafka2"])
def test_a_misspelt_publisher_is_refused_with_a_suggestion(typed: str) -> None:
    message = refusal(PUBLISHER_TYPE=typed, PUBLISHER_URL="host:9092")

    assert message.startswith("PUBLISHER_TYPE: ")
    assert "did you mean" in message
    assert "\n" not in message


def test_a_publisher_that_was_chosen_is_not_warned_about() -> None:
    assert Settings.from_env({**NEEDED, "PUBLISHER_TYPE": "stdout"}).warnings == ()
    assert Settings.from_env({**NEEDED, "PUBLISHER_URL": "nats://h"}).warnings == ()
