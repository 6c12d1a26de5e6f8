"""Spans of sampled events, whatever becomes of the events: each hand-over to the broker has one, which ends once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest

from relay.core.event import EventId, OutboxEvent, Status
from relay.core.headers import wire_headers
from relay.core.outcome import ACKNOWLEDGED, Away, Outcome, Permanent, TimedOut, Transient
from relay.core.recorder import SettledAttempt
from relay.core.tracecontext import TraceContext, parse_traceparent
from relay.outbox.outbox_options import KeyOrder
from relay.telemetry.tracer import Span, SpanTracer, TracedSystems
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = TraceContext(TRACE, SPAN)
SAMPLED = json.dumps({"n": 1, "traceparent": PARENT.traceparent, "tracestate": "a=b"})
UNSAMPLED = json.dumps({"traceparent": f"00-{TRACE}-{SPAN}-00"})
MALFORMED = json.dumps({"traceparent": "00-what-is-this-01"})


class Traced:
    """A relay on doubles with a tracer, and its spans."""

    def __init__(
        self,
        engine: MakeEngine,
        broker: MemoryPublisher | None = None,
        systems: TracedSystems = TracedSystems("memory", "openoutbox_events"),  # noqa: B008 - a tuple
        **options: object,
    ) -> None:
        self.spans: list[Span] = []
        self.exemplars: list[tuple[float, TraceContext]] = []
        tracer = SpanTracer(
            systems,
            self.spans.append,
            lambda seconds, span: self.exemplars.append((seconds, span)),
            lambda: round(self.one.seconds() * 1e9),
        )
        self.one: VirtualRelay = engine(broker, tracer=tracer, **options)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def published(self, event_type: str = "good") -> list[Span]:
        return self.named(f"publish {event_type}")

    def outcomes(self, event_type: str = "good") -> list[object]:
        return [span.attributes["openoutbox.outcome"] for span in self.published(event_type)]

    def attempts(self) -> list[object]:
        return [span.attributes["openoutbox.attempt"] for span in self.published()]


def sent(events: Sequence[OutboxEvent]) -> list[str]:
    """The traceparents that the broker was offered."""
    return [dict(wire_headers(event.headers))["traceparent"] for event in events]


def test_a_delivery_is_a_span_below_the_applications_and_the_message_carries_it(engine: MakeEngine) -> None:
    traced = Traced(engine)
    [event_id] = traced.one.insert(1, headers=SAMPLED, payload=b"12345")
    traced.one.insert(2)
    traced.one.run()
    [claim], [settle] = traced.named("claim openoutbox_events"), traced.named("settle openoutbox_events")
    [span] = traced.published()
    [message] = [event for event in traced.one.broker.messages if event.event_id == event_id]
    assert span.parent == PARENT._replace(state="a=b")
    assert span.context == span.parent._replace(span_id=span.context.span_id)
    assert span.context.span_id != SPAN
    assert message.headers == SAMPLED.replace(PARENT.traceparent, span.context.traceparent)
    assert span.attributes == {
        "messaging.system": "memory",
        "messaging.destination.name": "good",
        "messaging.operation.type": "send",
        "messaging.operation.name": "publish",
        "messaging.message.id": event_id,
        "messaging.message.body.size": 5,
        "openoutbox.attempt": 1,
        "openoutbox.batch.message_count": 3,
        "openoutbox.outcome": "delivered",
    }
    assert (span.links, claim.links, settle.links) == ((claim.context,), [span.parent], [span.context])
    assert claim.attributes["messaging.batch.message_count"] == settle.attributes["messaging.batch.message_count"] == 3
    assert claim.started_at < claim.ended_at <= span.started_at <= span.ended_at <= settle.started_at < settle.ended_at
    [(seconds, context)] = traced.exemplars
    assert (seconds > 0, context) == (True, span.context)
    assert traced.one.row(event_id).headers == SAMPLED


@pytest.mark.parametrize("headers", [UNSAMPLED, MALFORMED, "{}", '"text"'])
def test_what_is_not_sampled_leaves_no_span_and_arrives_as_it_was(engine: MakeEngine, headers: str) -> None:
    traced = Traced(engine)
    traced.one.insert(3, headers=headers)
    traced.one.run()
    assert traced.spans == []
    assert [message.headers for message in traced.one.broker.messages] == [headers] * 3


def test_each_attempt_is_a_span_of_its_own_and_says_how_it_ended(engine: MakeEngine) -> None:
    traced = Traced(engine)
    answers: list[Outcome] = [Transient("BUSY", "later"), TimedOut("NO_ACK", "silence")]
    waiting = iter([*answers, Permanent("TOO_LARGE", "never")])
    traced.one.broker.answer_with(lambda _: next(waiting))
    traced.one.insert(1, headers=SAMPLED)
    traced.one.run(400.0)
    assert traced.attempts() == [1, 2, 3]
    assert traced.outcomes() == ["retried", "retried", "dead"]
    assert [span.error for span in traced.published()] == ["BUSY: later", "NO_ACK: silence", "TOO_LARGE: never"]
    assert [span.attributes["error.type"] for span in traced.published()] == ["BUSY", "NO_ACK", "TOO_LARGE"]
    assert {span.parent for span in traced.published()} == {PARENT._replace(state="a=b")}
    assert sent(traced.one.broker.offered) == [span.context.traceparent for span in traced.published()]
    assert len(set(sent(traced.one.broker.offered))) == 3


def test_a_replay_has_the_same_parent_and_is_a_first_attempt(engine: MakeEngine) -> None:
    traced = Traced(engine)
    traced.one.broker.answer_with(lambda _: Permanent("TOO_LARGE", "never"))
    [event_id] = traced.one.insert(1, headers=SAMPLED)
    traced.one.run()
    traced.one.broker.up()
    traced.one.broker.answer_with(MemoryPublisher()._script)
    row = traced.one.row(event_id)
    row.status, row.attempts, row.last_error = Status.PENDING, 0, None
    traced.one.run()
    assert traced.outcomes() == ["dead", "delivered"]
    assert traced.attempts() == [1, 1]
    assert len({span.parent for span in traced.published()}) == 1


def test_a_span_names_the_destination_that_routes_decide_about(engine: MakeEngine) -> None:
    systems = TracedSystems("none", "openoutbox_events", lambda event: ("nats", f"shop.{event.event_type}"))
    traced = Traced(engine, systems=systems)
    traced.one.insert(1, headers=SAMPLED)
    traced.one.run()
    [span] = traced.published("shop.good")
    assert span.attributes["messaging.system"] == "nats"
    assert span.attributes["messaging.destination.name"] == "shop.good"


def test_an_event_whose_destination_is_away_ends_its_span_with_the_reason(engine: MakeEngine) -> None:
    traced = Traced(engine)
    traced.one.broker.answer_with(lambda _: Away("connection refused"))
    traced.one.insert(1, headers=SAMPLED)
    traced.one.run(1.0)
    [span] = traced.published()
    assert (span.attributes["openoutbox.outcome"], span.error) == ("released", "UNREACHABLE: connection refused")


def test_an_outage_releases_without_an_attempt(engine: MakeEngine) -> None:
    traced = Traced(engine)
    traced.one.broker.hold()
    [event_id] = traced.one.insert(1, headers=SAMPLED)
    traced.one.until(lambda: traced.one.broker.held)
    traced.one.do(traced.one.broker.down)
    traced.one.run(30.0)
    assert traced.outcomes() == ["released"]
    assert traced.one.row(event_id).attempts == 0
    traced.one.broker.answer_with(MemoryPublisher()._script)
    traced.one.do(traced.one.broker.up)
    traced.one.run(30.0)
    assert traced.outcomes() == ["released", "delivered"]
    assert traced.attempts() == [1, 1]


def test_a_suspect_has_a_span_for_each_offer(engine: MakeEngine) -> None:
    broker = MemoryPublisher()
    broker.round_trip = 0.005
    broker.cuts("poison")
    traced = Traced(engine, broker)
    traced.one.insert(10, headers=SAMPLED)
    traced.one.insert(1, "poison", headers=SAMPLED)
    traced.one.insert(10, headers=SAMPLED)
    traced.one.run(10.0)
    assert traced.outcomes().count("delivered") == 20
    assert set(traced.outcomes()) == {"delivered", "cut_off"}
    assert traced.outcomes("poison")[-1] == "retried"
    assert set(traced.outcomes("poison")[:-1]) == {"cut_off"}
    spans = traced.published() + traced.published("poison")
    contexts = [span.context.traceparent for span in spans]
    assert len(set(contexts)) == len(contexts)
    delivered = {
        span.context.traceparent for span in traced.published() if span.attributes["openoutbox.outcome"] == "delivered"
    }
    assert set(sent(broker.messages)) == delivered


def test_in_order_each_event_of_a_key_begins_when_the_one_before_has_ended(engine: MakeEngine) -> None:
    broker = MemoryPublisher()
    broker.round_trip = 0.005
    traced = Traced(engine, broker, key_order=KeyOrder.SKIP)
    traced.one.insert(5, headers=SAMPLED, partition_key="k")
    traced.one.run()
    spans = traced.published()
    assert traced.outcomes() == ["delivered"] * 5
    assert all(first.ended_at <= then.started_at for first, then in itertools.pairwise(spans))
    assert {span.attributes["openoutbox.batch.message_count"] for span in spans} == {1}


def test_a_lost_lease_ends_the_span_and_the_late_answer_changes_nothing(engine: MakeEngine) -> None:
    traced = Traced(engine, lease_timeout=6.0)
    traced.one.broker.hold()
    [event_id] = traced.one.insert(1, headers=SAMPLED)
    traced.one.until(lambda: traced.one.broker.held)
    row = traced.one.row(event_id)
    row.locked_at = traced.one.table.now.replace(year=2031)
    traced.one.run(5.0)
    assert traced.outcomes() == ["lease_lost"]
    traced.one.do(traced.one.broker.answer)
    traced.one.run(0.5)
    assert traced.outcomes() == ["lease_lost"]


def test_a_stop_ends_every_span(engine: MakeEngine) -> None:
    traced = Traced(engine)
    traced.one.broker.hold()
    traced.one.insert(3, headers=SAMPLED)
    traced.one.until(lambda: len(traced.one.broker.held) == 3)
    traced.one.do(traced.one.relay.stop)
    traced.one.until(traced.one.task.done)
    assert traced.outcomes() == ["released"] * 3
    assert len(traced.named("settle openoutbox_events")[0].links) == 3
    assert traced.one.counts() == {"PENDING": 3}


def test_a_client_that_does_not_let_go_leaves_no_span_open(engine: MakeEngine) -> None:
    class Clinging(MemoryPublisher):
        async def abandon(self, reason: str) -> None:
            """Hold on to the events for longer than the relay waits."""
            await virtual_sleep(1000.0)

    traced = Traced(engine, Clinging())
    traced.one.broker.hold()
    traced.one.insert(2, headers=SAMPLED)
    traced.one.until(lambda: len(traced.one.broker.held) == 2)
    traced.one.do(traced.one.relay.stop)
    traced.one.until(traced.one.task.done)
    assert traced.outcomes() == ["unanswered"] * 2


def test_a_settle_that_fails_is_a_span_that_says_why(engine: MakeEngine) -> None:
    traced = Traced(engine)
    traced.one.fail("settle", Fault.BUSY)
    traced.one.insert(2, headers=SAMPLED)
    traced.one.run(5.0)
    settles = traced.named("settle openoutbox_events")
    assert settles[0].attributes.get("error.type") == "40001"
    assert [bool(span.error) for span in settles] == [True] + [False] * (len(settles) - 1)
    assert len(settles[0].links) == 2


def test_a_refused_row_is_settled_in_spans_of_its_own(engine: MakeEngine) -> None:
    def refuse(_before: MemoryRow, after: MemoryRow) -> str | None:
        return "check" if after.event_type == "bad" and after.status is Status.DELIVERED else None

    traced = Traced(engine)
    traced.one.table.trigger = refuse
    traced.one.insert(4, headers=SAMPLED)
    traced.one.insert(1, "bad", headers=SAMPLED)
    traced.one.run(1.0)
    assert traced.one.delivered() == 4
    [bad] = traced.published("bad")
    failed = [span for span in traced.named("settle openoutbox_events") if span.error]
    assert failed
    assert all(bad.context in span.links for span in failed)


def test_a_claim_of_more_events_than_a_span_may_link_links_the_first(engine: MakeEngine) -> None:
    traced = Traced(engine, batch_size=300, max_in_flight=300)
    ids: list[EventId] = traced.one.insert(300, headers=SAMPLED)
    traced.one.run()
    assert len(traced.published()) == len(ids)
    assert max(len(span.links) for span in traced.named("claim openoutbox_events")) == 128


def test_the_delivery_log_gets_the_header_that_was_sent(engine: MakeEngine) -> None:
    class Log:
        wants_successes = True

        def __init__(self) -> None:
            self.attempts: list[SettledAttempt] = []

        def refuses(self, count: int) -> bool:
            return False

        def record(self, attempts: Sequence[SettledAttempt]) -> None:
            self.attempts += attempts

    log = Log()
    traced = Traced(engine, recorder=log)
    answers: list[Outcome] = [Transient("BUSY", "later"), ACKNOWLEDGED]
    waiting = iter(answers)
    traced.one.broker.answer_with(lambda _: next(waiting))
    traced.one.insert(1, headers=SAMPLED)
    traced.one.run(100.0)
    assert sent([attempt.event for attempt in log.attempts]) == [
        span.context.traceparent for span in traced.published()
    ]
    assert len(log.attempts) == 2


def test_a_context_is_read_back(engine: MakeEngine) -> None:
    traced = Traced(engine)
    traced.one.insert(1, headers=SAMPLED)
    traced.one.run()
    [value] = sent(traced.one.broker.messages)
    assert parse_traceparent(value, "a=b") == traced.published()[0].context
