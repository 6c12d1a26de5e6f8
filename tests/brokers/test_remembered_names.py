"""What is known of names is remembered for short ones, and for so many of them alone."""

from __future__ import annotations

import gc
import sys

from relay.brokers.aws import names as aws
from relay.brokers.kafka.errors import invalid_topic
from relay.brokers.nats.errors import invalid_subject
from relay.brokers.nats.headers import encode_name
from relay.brokers.rabbitmq.frames import publish_frame
from relay.brokers.rabbitmq.headers import safe_name
from relay.core.remembered import remembered


def test_a_short_name_is_looked_at_once_and_a_long_one_each_time() -> None:
    seen: list[str] = []

    @remembered
    def length(name: str) -> int:
        seen.append(name)
        return len(name)

    assert [length(name) for name in ("a", "bb", "a", "c" * 300, "c" * 300)] == [1, 2, 1, 300, 300]
    assert seen == ["a", "bb", "c" * 300, "c" * 300]


def test_memory_has_a_bound() -> None:
    seen: list[str] = []

    @remembered
    def note(name: str) -> None:
        seen.append(name)

    for number in range(10_000):
        note(str(number))
    note("9999")
    assert len(seen) == 10_000
    note("0")
    assert len(seen) == 10_001


def test_no_broker_keeps_a_long_name() -> None:
    long = [f"{number}{'x' * 100_000}" for number in range(20)]
    for name in long:
        invalid_topic(name)
        invalid_subject(name)
        encode_name(name)
        safe_name(name)
        publish_frame("", name, mandatory=True)
        aws.name_of(name, "sqs", "-")
    del name
    gc.collect()
    assert [sys.getrefcount(name) - sys.getrefcount(f"{len(name)}{'x' * 100_000}") for name in long] == [2] * 20
