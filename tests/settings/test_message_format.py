"""MESSAGE_FORMAT and what belongs to it: refused at the start, or warned about, by name."""

from __future__ import annotations

import pytest

from tests.settings.test_settings import refusal, settings

KAFKA = {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": "host:9092"}
NATS = {"PUBLISHER_URL": "nats://host:4222"}


@pytest.mark.parametrize("name", ["cloudevents", "cloudevents-structured"])
def test_a_cloudevent_needs_a_source(name: str) -> None:
    message = refusal(**NATS, MESSAGE_FORMAT=name)
    assert message.startswith(f"CLOUDEVENTS_SOURCE is not set, and MESSAGE_FORMAT={name} needs it")
    accepted = settings(**NATS, MESSAGE_FORMAT=name, CLOUDEVENTS_SOURCE="https://shop.example/orders?a=%20")
    assert (accepted.message_format, accepted.warnings) == (name, ())


@pytest.mark.parametrize("source", ["two words", "ü", "100%", '"', "a\nb"])
def test_a_source_that_is_no_uri_reference_is_refused(source: str) -> None:
    message = refusal(**NATS, MESSAGE_FORMAT="cloudevents", CLOUDEVENTS_SOURCE=source)
    assert message.startswith(f"CLOUDEVENTS_SOURCE: {source!r} is not a URI reference; write for example /shop/orders")


@pytest.mark.parametrize("name", ["debezium", "debezium-server"])
def test_what_debezium_sends_to_kafka_goes_to_kafka_alone(name: str) -> None:
    assert f"MESSAGE_FORMAT={name} is not for PUBLISHER_TYPE=nats, only for kafka" in refusal(
        **NATS, MESSAGE_FORMAT=name
    )
    assert settings(**KAFKA, MESSAGE_FORMAT=name).warnings == ()


def test_what_has_no_effect_is_warned_about() -> None:
    assert settings(PUBLISHER_TYPE="stdout", MESSAGE_FORMAT="debezium").warnings == (
        "MESSAGE_FORMAT=debezium is not used: PUBLISHER_TYPE is stdout",
    )
    assert settings(**KAFKA, CLOUDEVENTS_SOURCE="/shop").warnings == (
        "CLOUDEVENTS_SOURCE is set but not used: MESSAGE_FORMAT is openoutbox",
    )


def test_a_misspelt_format_is_refused_with_a_suggestion() -> None:
    assert "did you mean cloudevents?" in refusal(**KAFKA, MESSAGE_FORMAT="cloudevent")
