"""The spans of a batch: a whole claim is not looked through, a part of it is, with the same result."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.storage import Settlement
from relay.core.tracecontext import TraceContext, sampled_parent
from relay.telemetry.tracer import Span, SpanTracer, TracedSystems

FENCE = Fence(datetime(2026, 3, 10, tzinfo=UTC))
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def event(number: int) -> OutboxEvent:
    """Every third one is sampled."""
    headers = f'{{"traceparent": "00-{TRACE}-{SPAN}-{"00" if number % 3 else "01"}"}}'
    return OutboxEvent(EventId(f"e{number}"), "orders", "k", b"123", headers, 2, 1.5, None, 7.0)


EVENTS = [event(number) for number in range(9)]


@pytest.mark.parametrize(
    "handed",
    [EVENTS, EVENTS[1:], EVENTS[::-1], [EVENTS[6]], [*EVENTS[:-1], event(12)], [EVENTS[1]]],
    ids=["all", "a part", "in another order", "one", "as many", "none that is sampled"],
)
def test_the_sampled_ones_alone_are_replaced_acknowledged_and_linked(handed: list[OutboxEvent]) -> None:
    spans: list[Span] = []
    exemplars: list[TraceContext] = []
    tracer = SpanTracer(
        TracedSystems("kafka", "openoutbox_events"), spans.append, lambda _, context: exemplars.append(context)
    )
    batch = tracer.claim(EVENTS, 0.1)
    assert batch is not None
    expected = [one for one in handed if one in EVENTS and EVENTS.index(one) % 3 == 0]
    sent = batch.hand_over(handed)
    changed = [one for one, before in zip(sent, handed, strict=True) if one is not before]
    contexts = [sampled_parent(one.headers) for one in changed]
    assert [one._replace(headers=before.headers) for one, before in zip(changed, expected, strict=True)] == expected
    batch.acknowledge([one.event_id for one in handed], 0.2)
    published = {span.attributes["messaging.message.id"]: span.context for span in spans[1:]}
    assert published == dict(zip([one.event_id for one in expected], contexts, strict=True))
    assert exemplars == [span.context for span in spans[1:]]
    settlement = Settlement(FENCE, delivered=[one.event_id for one in handed])
    assert sorted(batch.links(settlement)) == sorted(exemplars)


def test_a_settlement_as_large_as_the_claim_that_lacks_one_of_it_has_no_link_of_that_one() -> None:
    tracer = SpanTracer(TracedSystems("kafka", "openoutbox_events"), lambda _: None, lambda _, __: None)
    claimed = [EVENTS[0], EVENTS[3]]
    batch = tracer.claim(claimed, 0.1)
    assert batch is not None
    first, _ = batch.hand_over(claimed)
    unread = EventId("a row whose payload was not read")
    links = batch.links(Settlement(FENCE, delivered=[first.event_id], released=[unread]))
    assert links == [sampled_parent(first.headers)]
