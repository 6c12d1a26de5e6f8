"""Events that no broker gets are found before anything works on them, and all others stay as they are."""

from __future__ import annotations

import json

import pytest

from relay.core.event import EventId, OutboxEvent
from relay.core.limits import MOST_HEADER_BYTES, MOST_HEADERS, MOST_TYPE_BYTES, RefusedEvent, limited, may_exceed
from relay.core.tracecontext import parse_traceparent

NESTED = "[" * 20_000 + "]" * 20_000


def event(event_type: str = "t", headers: str = "{}") -> OutboxEvent:
    return OutboxEvent(EventId("id"), event_type, None, b"", headers, 0, 0.0)


def text(headers: dict[str, object]) -> str:
    """As PostgreSQL prints jsonb."""
    return json.dumps(headers, ensure_ascii=False)


@pytest.mark.parametrize(
    "allowed",
    [
        event("a" * MOST_TYPE_BYTES),
        event("\N{EURO SIGN}" * (MOST_TYPE_BYTES // 3)),
        event(headers=text({str(number): number for number in range(MOST_HEADERS)})),
        event(headers=text({"a": "b" * (MOST_HEADER_BYTES - 10)})),
        event(headers=text({"a": '": ' * 20_000})),
        event(headers=text({"a": {str(number): number for number in range(2 * MOST_HEADERS)}})),
        event(headers=text({"a": 1, "b": '": ' * 11_000})[:-1] + f', "c": {NESTED}}}'),
        event(headers=json.dumps(['": '] * 20_000)),
    ],
)
def test_what_is_within_the_limits_stays(allowed: OutboxEvent) -> None:
    assert limited(allowed) is allowed


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (event("a" * (MOST_TYPE_BYTES + 1)), "its event_type has more than 4,096 bytes"),
        (event("\N{EURO SIGN}" * 1366), "its event_type has more than 4,096 bytes"),
        (event(headers=text({"a": "b" * MOST_HEADER_BYTES})), "its headers have more than 1,048,576 bytes"),
        (event(headers=text({"a": "b" * MOST_HEADER_BYTES})[: MOST_HEADER_BYTES + 1]), "its headers have more than"),
        (
            event(headers=text({str(number): 0 for number in range(MOST_HEADERS + 1)})),
            "it has more than 10,000 headers",
        ),
        (
            event(headers=text({str(number): 0 for number in range(MOST_HEADERS)})[:-1] + f', "a": {NESTED}}}'),
            "it has more than 10,000 headers",
        ),
    ],
)
def test_what_exceeds_them_is_refused(refused: OutboxEvent, reason: str) -> None:
    assert may_exceed([event(), refused]) == [1]
    found = limited(refused)
    assert isinstance(found, RefusedEvent)
    assert found.refusal.code == "TOO_LARGE"
    assert found.refusal.reason.startswith(reason)
    assert (found.event_id, found.headers, found.last_code) == ("id", "{}", "TOO_LARGE")


def test_a_tracestate_is_read_up_to_its_length_in_the_specification() -> None:
    value = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    for state, kept in (("a=1", "a=1"), ("a" * 513, "")):
        context = parse_traceparent(value, state)
        assert context is not None
        assert context.state == kept
