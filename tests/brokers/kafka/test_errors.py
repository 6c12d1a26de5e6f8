"""The error table against the codes that the library has."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from relay.brokers.kafka.errors import (
    BATCH_REFUSALS,
    FATAL_UNTIL_GRANTED,
    REFUSED_LOGIN,
    TABLE,
    classify,
    invalid_topic,
)
from relay.core.outcome import ConnectionCut, Permanent, TimedOut, Transient, Unreachable

CODES = {
    KafkaError(value).name(): value
    for name, value in vars(KafkaError).items()
    if isinstance(value, int) and name.lstrip("_").isupper()
}


@pytest.mark.parametrize("name", sorted({*TABLE, *BATCH_REFUSALS, *FATAL_UNTIL_GRANTED, *REFUSED_LOGIN}))
def test_the_table_names_codes_that_exist(name: str) -> None:
    assert name in CODES


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_code_of_the_library_has_an_outcome(name: str) -> None:
    outcome = classify(name, "text")
    assert type(outcome) is TABLE.get(name, Transient)


@pytest.mark.parametrize(
    "name",
    [
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_TOPIC",
        "TOPIC_AUTHORIZATION_FAILED",
        "NOT_LEADER_FOR_PARTITION",
        "THROTTLING_QUOTA_EXCEEDED",
        "NOT_ENOUGH_REPLICAS",
        "UNKNOWN",
        "A_CODE_OF_TOMORROW",
    ],
)
def test_what_an_operator_or_time_can_correct_is_transient(name: str) -> None:
    assert isinstance(classify(name, ""), Transient)


def test_outcomes_carry_code_and_text() -> None:
    assert classify("_MSG_TIMED_OUT", "too slow") == TimedOut("_MSG_TIMED_OUT", "too slow")
    assert classify("_SSL", "bad certificate") == Unreachable("_SSL: bad certificate")
    assert classify("_TRANSPORT", "reset") == ConnectionCut("_TRANSPORT: reset")


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a\n", "ünï", "a/b", "x" * 250])
def test_impossible_topics(name: str) -> None:
    assert isinstance(invalid_topic(name), Permanent)


@pytest.mark.parametrize("name", ["a", "user.signup", "...", "A-_.9", "x" * 249])
def test_possible_topics(name: str) -> None:
    assert invalid_topic(name) is None


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "_schemas", "__a"])
def test_a_topic_of_kafkas_own_is_refused_unless_a_pattern_begins_so(name: str) -> None:
    patterns: list[list[str]] = [[], ["*"], ["_*"], ["orders.*", "__other"]]
    for allowed in patterns:
        refused = invalid_topic(name, allowed)
        assert isinstance(refused, Permanent)
        assert refused.code == "NOT_ALLOWED"
    assert invalid_topic(name, ("__*", "_schemas")) is None


@pytest.mark.parametrize("name", ["_schemas2", "_a", "a__b"])
def test_other_topics_are_not_refused(name: str) -> None:
    assert invalid_topic(name) is None
