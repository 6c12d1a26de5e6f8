"""Bodies, attributes, names, message groups and batches."""

from __future__ import annotations

import base64
import json

import pytest

from relay.brokers.aws.batching import RequestBatch, batches, group_id
from relay.brokers.aws.message import AwsMessage, to_message
from relay.brokers.aws.names import name_of
from relay.brokers.aws.options import AwsOptions
from relay.brokers.aws.services import Sqs
from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Permanent
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import aws_options


def message(payload: bytes = b"x", *, key: str | None = None, headers: str = "{}") -> AwsMessage:
    return to_message(make_event("a", payload, key=key, headers=headers))


@pytest.mark.parametrize("text", ["{}", "\t\n\r ", "\ud7ff\ue000\ufffd\U00010000\U0010ffff"])
def test_text_is_sent_as_it_is(text: str) -> None:
    sent = message(text.encode())
    assert sent.body == text
    assert "X-Payload-Encoding" not in sent.attributes


@pytest.mark.parametrize("payload", [b"\xff", b"a\x00", b"\x0b", "\ufffe".encode(), "\uffff".encode()])
def test_what_a_body_cannot_hold_is_base64(payload: bytes) -> None:
    sent = message(payload)
    assert base64.b64decode(sent.body) == payload
    assert sent.attributes["X-Payload-Encoding"] == "base64"


def test_nothing_is_a_hyphen() -> None:
    sent = message(b"")
    assert (sent.body, sent.attributes["X-Payload-Encoding"]) == ("-", "empty")


def test_headers_are_attributes_as_far_as_ten_reach() -> None:
    headers = {f"h{n}": str(n) for n in range(8)}
    sent = message(key="k", headers=json.dumps(headers))
    assert sent.attributes.keys() == {"X-Event-ID", "X-Partition-Key", *headers}
    headers["h8"] = "8"
    sent = message(key="k", headers=json.dumps(headers))
    assert len(sent.attributes) == 10
    assert json.loads(sent.attributes["X-More-Headers"]) == {"h7": "7", "h8": "8"}


@pytest.mark.parametrize("name", ["", "a b", "a..b", ".a", "a.", "AWS.x", "amazon.x", "ü", "n" * 257])
def test_a_name_that_no_attribute_has_travels_in_json(name: str) -> None:
    sent = message(headers=json.dumps({name: "v", "good.name": "w"}))
    assert sent.attributes["good.name"] == "w"
    assert json.loads(sent.attributes["X-More-Headers"]) == {name: "v"}


@pytest.mark.parametrize("value", ["", "a\x01", "\uffff"])
def test_a_value_that_no_attribute_has_travels_in_json(value: str) -> None:
    sent = message(key=value, headers=json.dumps({"a": value}))
    assert json.loads(sent.attributes["X-More-Headers"]) == {"X-Partition-Key": value, "a": value}


def test_no_header_takes_the_place_of_ours() -> None:
    headers = {"x-event-id": "1", "X-Partition-Key": "2", "X-More-Headers": "3", "X-User-X-Partition-Key": "4"}
    sent = message(key="k", headers=json.dumps(headers))
    assert sent.attributes["X-Partition-Key"] == "k"
    assert sent.attributes["X-User-x-event-id"] == "1"
    assert sent.attributes["X-User-X-Partition-Key"] == "2"
    assert sent.attributes["X-X-User-X-Partition-Key"] == "4"


@pytest.mark.parametrize(
    ("event_type", "name"),
    [("user.signup", "user-signup"), ("a/b:c.d", "a-b-c-d"), ("a.b.fifo", "a-b.fifo"), ("a_B-9", "a_B-9")],
)
def test_an_event_type_names_a_queue(event_type: str, name: str) -> None:
    assert name_of(event_type, "sqs", "-") == name
    assert name_of(event_type, "sns", "-") == name


def test_the_replacement_can_be_chosen() -> None:
    assert name_of("user.signup", "sqs", "_") == "user_signup"


@pytest.mark.parametrize("event_type", ["", ".fifo", "a b", "дом", "x" * 81, "x" * 76 + ".fifo"])
def test_what_can_name_no_queue_is_permanent(event_type: str) -> None:
    outcome = name_of(event_type, "sqs", "-")
    assert isinstance(outcome, Permanent)
    assert outcome.code == "INVALID_NAME"


@pytest.mark.parametrize(("key", "group"), [("order-7", "order-7"), ("~!/", "~!/"), ("x" * 128, "x" * 128)])
def test_a_key_is_the_group(key: str, group: str) -> None:
    assert group_id(make_event("a.fifo", key=key)) == group


@pytest.mark.parametrize("key", ["", "a b", "ключ", "x" * 129])
def test_a_key_that_is_no_group_is_its_digest(key: str) -> None:
    group = group_id(make_event("a.fifo", key=key))
    assert group.startswith("sha256-")
    assert len(group) <= 128
    assert group == group_id(make_event("b.fifo", key=key))


def test_an_event_without_a_key_is_a_group_of_its_own() -> None:
    event = make_event("a.fifo")
    assert group_id(event) == event.event_id


def batched(events: list[OutboxEvent], **changes: int) -> list[RequestBatch]:
    options: AwsOptions = aws_options("sqs://eu-central-1", **changes)
    return list(batches(events, Collector(), Sqs(), options))


def test_batches_have_ten_messages_of_one_queue_in_order() -> None:
    events = [make_event(name, str(n).encode()) for n in range(12) for name in ("a", "b")]
    made = batched(events)
    assert [(batch.name, len(batch.requests)) for batch in made] == [("a", 10), ("b", 10), ("a", 2), ("b", 2)]
    bodies = [request["MessageBody"] for batch in made if batch.name == "a" for request in batch.requests]
    assert bodies == [str(n) for n in range(12)]


def test_a_batch_ends_at_the_limit_of_bytes_and_a_large_message_is_alone() -> None:
    events = [make_event("a", b"x" * size) for size in (400, 400, 400, 2000, 100)]
    made = batched(events, max_batch=1000)
    assert [len(batch.requests) for batch in made] == [2, 1, 1, 1]


def test_a_message_over_every_limit_is_not_sent() -> None:
    sink, event = Collector(), make_event("a", b"x" * 1000)
    options = aws_options("sqs://eu-central-1", max_message=1000)
    assert list(batches([event], sink, Sqs(), options)) == []
    [(_, outcome)] = sink.resolutions
    assert isinstance(outcome, Permanent)
    assert outcome.code == "TOO_LARGE"


def test_an_entry_is_resolved_once() -> None:
    sink, batch = Collector(), RequestBatch("a")
    batch.add({}, (make_event("a"), sink), 1)
    batch.settle([("0", ACKNOWLEDGED)])
    batch.settle_all(Permanent("X", "y"))
    assert [outcome for _, outcome in sink.resolutions] == [ACKNOWLEDGED]
