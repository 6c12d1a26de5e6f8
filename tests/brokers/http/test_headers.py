"""The headers of a webhook: encoded where HTTP needs it, prefixed, bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.brokers.http.headers import encode_name, encode_value, message_headers
from relay.core.formats import cloudevents
from tests.brokers.harness.base import make_event


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("tenant", "X-User-tenant"),
        ("Content-Length", "X-User-Content-Length"),
        ("webhook-id", "X-User-webhook-id"),
        ("Transfer-Encoding", "X-User-Transfer-Encoding"),
        (":authority", "X-User-%3Aauthority"),
        ("two words", "X-User-two%20words"),
        ("a\r\nHost: x", "X-User-a%0D%0AHost%3A%20x"),
        ("", "X-User-X-Empty-Name"),
        ("traceparent", "traceparent"),
        ("TraceState", "TraceState"),
        ("baggage", "baggage"),
    ],
)
def test_names(name: str, sent: str) -> None:
    assert encode_name(name) == sent


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("", ""),
        ("plain", "plain"),
        ("100%", "100%"),
        ("a b\tc", "a b\tc"),
        (" x ", "%20x%20"),
        ("a\r\nX-Injected: yes", "a%0D%0AX-Injected: yes"),
        ("50% ü", "50%25 %C3%BC"),
        ("\x00\x7f", "%00%7F"),
        ('{"k": [1]}', '{"k": [1]}'),
    ],
)
def test_values(value: str, sent: str) -> None:
    assert encode_value(value) == sent


def test_type_and_key_come_first() -> None:
    event = make_event("order.päid", key="k\n", headers='{"a": 1}')
    assert message_headers(event) == [
        ("X-Event-Type", "order.p%C3%A4id"),
        ("X-Partition-Key", "k%0A"),
        ("X-User-a", "1"),
    ]


def test_names_that_differ_in_case_alone_both_arrive() -> None:
    names = [name for name, _ in message_headers(make_event("t", headers='{"a": "1", "A": "2", "X-a": "3"}'))]
    assert names == ["X-Event-Type", "X-User-a", "X-User-X-A", "X-User-X-X-a"]


def test_what_servers_would_refuse_for_its_size_is_left_out_and_counted() -> None:
    headers = {"long": "v" * 9000, "n" * 7000: "long name", "short": "kept"}
    fields = dict(message_headers(make_event("t", headers=json.dumps(headers))))
    assert fields == {"X-Event-Type": "t", "X-User-short": "kept", "X-Headers-Omitted": "2"}


@pytest.mark.parametrize("mode", [cloudevents.binary, cloudevents.structured])
def test_a_header_that_would_be_an_attribute_has_the_prefix_once(mode: Any) -> None:
    event = make_event("t", headers='{"ce-id": "forged", "content-type": "not\\na type"}')
    fields = message_headers(event, mode("/source", cloudevents.HTTP)(event))
    assert ("X-User-ce-id", "forged") in fields
    assert [name for name, _ in fields if "X-User" in name] == ["X-User-ce-id", "X-User-content-type"]


def test_extension_attributes_count_with_the_other_user_headers() -> None:
    headers = {"blob": "v" * 9000, "tenant": "a", "Upper": "w" * 6200, "short": "kept"}
    event = make_event("t", headers=json.dumps(headers))
    fields = dict(message_headers(event, cloudevents.binary("/source", cloudevents.HTTP)(event)))
    assert fields["ce-id"] == event.event_id
    assert {name: fields.get(name) for name in ("ce-blob", "ce-tenant", "ce-short", "X-User-Upper")} == {
        "ce-blob": None,
        "ce-tenant": "a",
        "ce-short": "kept",
        "X-User-Upper": None,
    }
    assert fields["X-Headers-Omitted"] == "2"
