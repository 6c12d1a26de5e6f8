"""Spans of sampled events, as plain records: made by the engine's calls, exported by ``relay.telemetry.otel_traces``.

Names, kinds and attributes follow OpenTelemetry's conventions for messaging (docs/operate/monitoring.md#traces).
Nothing of OpenTelemetry is needed here: the exporter makes the SDK's spans of the records.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from relay.core.errors import StorageError
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Away, Outcome, Unreachable
from relay.core.outside import shown
from relay.core.storage import Settlement
from relay.core.tracecontext import TraceContext, sampled_parents, with_context
from relay.core.verdict import Bury, Deliver, Release, Retry, Verdict

Attributes = Mapping[str, str | int]

_OUTBOX: Final = "openoutbox"
_MOST_LINKS: Final = 128
"""Links of one span, the limit that OpenTelemetry's SDKs have."""
_HEADERS: Final = OutboxEvent._fields.index("headers")


class SpanKind(Enum):
    """The kinds in use, by their names in OpenTelemetry."""

    PRODUCER = "PRODUCER"
    CLIENT = "CLIENT"


class Span(NamedTuple):
    """A span that has ended. Times are nanoseconds since 1970."""

    name: str
    kind: SpanKind
    context: TraceContext
    parent: TraceContext | None
    links: Sequence[TraceContext]
    started_at: int
    ended_at: int
    attributes: Attributes
    error: str = ""
    """Why it failed; empty when it did not."""


class TracedSystems(NamedTuple):
    """What the spans name."""

    publisher: str
    """PUBLISHER_TYPE, as ``messaging.system``."""
    table: str
    """The outbox table, the destination that is claimed from and settled in."""
    destination_of: Callable[[OutboxEvent], tuple[str, str]] | None = None
    """The type and name of an event's destination, where routes decide about it; else ``publisher`` and its type."""

    def destination(self, event: OutboxEvent) -> tuple[str, str]:
        """The system and the name of an event's destination."""
        return (self.publisher, event.event_type) if self.destination_of is None else self.destination_of(event)


class SpanTracer:
    """Implements ``relay.core.tracing.Tracer``. For one thread."""

    def __init__(
        self,
        systems: TracedSystems,
        sink: Callable[[Span], None],
        exemplify: Callable[[float, TraceContext], None],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """``sink`` takes spans that have ended, ``exemplify`` latencies in seconds with the span of their event."""
        self.systems = systems
        self.sink = sink
        self.exemplify = exemplify
        self.clock = clock

    def claim(self, events: Sequence[OutboxEvent], seconds: float) -> BatchSpans | None:
        sampled = list(sampled_parents([event.headers for event in events]))
        if not sampled:
            return None
        claim = self._batch("receive", "claim", [parent for _, parent in sampled], len(events), seconds)
        return BatchSpans(self, events, sampled, claim)

    def settle(
        self, links: Sequence[TraceContext], events: int, seconds: float, error: StorageError | None = None
    ) -> None:
        self._batch("settle", "settle", links, events, seconds, error)

    def _batch(
        self,
        kind: str,
        name: str,
        links: Sequence[TraceContext],
        events: int,
        seconds: float,
        error: StorageError | None = None,
    ) -> TraceContext:
        """A span of a whole batch that ends now: a trace of its own, since its events belong to many."""
        context = TraceContext(f"{random.getrandbits(128) or 1:032x}", span_id())
        ended_at = self.clock()
        attributes: dict[str, str | int] = {
            "messaging.system": _OUTBOX,
            "messaging.destination.name": self.systems.table,
            "messaging.operation.type": kind,
            "messaging.operation.name": name,
            "messaging.batch.message_count": events,
        }
        if error:
            attributes["error.type"] = error.sqlstate or type(error).__name__
        self.sink(
            Span(
                f"{name} {self.systems.table}",
                SpanKind.CLIENT,
                context,
                None,
                links[:_MOST_LINKS],
                ended_at - round(seconds * 1e9),
                ended_at,
                attributes,
                shown(str(error)) if error else "",
            )
        )
        return context


class _Publish(NamedTuple):
    """A publish span that has not ended."""

    event: OutboxEvent
    context: TraceContext
    started_at: int
    events: int
    """Handed to the publisher together."""


class BatchSpans:
    """Implements ``relay.core.tracing.BatchTrace``."""

    __slots__ = ("_claim", "_claimed", "_contexts", "_open", "_parents", "_places", "_tracer")

    def __init__(
        self,
        tracer: SpanTracer,
        events: Sequence[OutboxEvent],
        sampled: Sequence[tuple[int, TraceContext]],
        claim: TraceContext,
    ) -> None:
        """``sampled`` has the places of sampled events among those of the claim, and their parents."""
        self._tracer = tracer
        self._claimed = len(events)
        self._places = {place: events[place].event_id for place, _ in sampled}
        self._parents = {events[place].event_id: parent for place, parent in sampled}
        self._claim = claim
        self._open: dict[EventId, _Publish] = {}
        self._contexts: dict[EventId, TraceContext] = {}
        """The latest publish span of each event."""

    def hand_over(self, events: list[OutboxEvent]) -> list[OutboxEvent]:
        now = self._tracer.clock()
        sent = list(events)
        for place in self._places_in(events):
            sent[place] = self._begin(events[place], now, len(events))
        return sent

    def acknowledge(self, event_ids: Sequence[EventId], since_claim: float) -> None:
        # Few of them are sampled: nothing is done for the others. Where they are the whole claim, none is looked at.
        for event_id in list(self._open) if len(event_ids) == self._claimed else self._open.keys() & event_ids:
            publish = self._open[event_id]
            self._tracer.exemplify(publish.event.age + since_claim, publish.context)
            self._end(event_id, "delivered")

    def decide(self, event_id: EventId, verdict: Verdict, outcome: Outcome) -> None:
        match verdict:
            case Deliver():
                self._end(event_id, "delivered")
            case Retry(_, error):
                self._end(event_id, "retried", error)
            case Bury(error):
                self._end(event_id, "dead", error)
            case Release():
                reason = outcome.reason if isinstance(outcome, Unreachable | Away) else ""
                self._end(event_id, "released", f"UNREACHABLE: {reason}")

    def cut_off(self, events: Collection[OutboxEvent]) -> None:
        for event in events:
            self._end(event.event_id, "cut_off", "CONNECTION_CUT: the connection was cut; offered again")

    def lose(self, event_ids: Collection[EventId]) -> None:
        for event_id in event_ids:
            self._end(event_id, "lease_lost", "LEASE_LOST: the lease was lost before the broker answered")

    def end(self, outcome: str) -> None:
        for event_id in list(self._open):
            self._end(event_id, outcome, "NO_ANSWER: released before the broker answered")

    def links(self, settlement: Settlement) -> list[TraceContext]:
        contexts = self._contexts
        if len(settlement.delivered) == self._claimed:
            return [*contexts.values()]
        return [contexts[event_id] for event_id in contexts.keys() & settlement.event_ids()]

    def _places_in(self, events: list[OutboxEvent]) -> Iterable[int]:
        """Where the sampled ones are among events of the claim: all of it, as most often, or a part in any order."""
        if len(events) == self._claimed and all(events[place].event_id == id_ for place, id_ in self._places.items()):
            return self._places
        return [place for place, event in enumerate(events) if event.event_id in self._parents]

    def _begin(self, event: OutboxEvent, now: int, events: int) -> OutboxEvent:
        parent = self._parents[event.event_id]
        context = TraceContext(parent.trace_id, span_id(), parent.flags, parent.state)
        self._contexts[event.event_id] = context
        self._open[event.event_id] = _Publish(event, context, now, events)
        # As _replace, whose keywords take three times as long.
        return OutboxEvent._make((*event[:_HEADERS], with_context(event.headers, context), *event[_HEADERS + 1 :]))

    def _end(self, event_id: EventId, outcome: str, error: str = "") -> None:
        publish = self._open.pop(event_id, None)
        if publish is None:  # not sampled, never handed over, or ended before
            return
        event = publish.event
        system, destination = self._tracer.systems.destination(event)
        attributes: dict[str, str | int] = {
            "messaging.system": system,
            "messaging.destination.name": destination,
            "messaging.operation.type": "send",
            "messaging.operation.name": "publish",
            "messaging.message.id": event_id,
            "messaging.message.body.size": len(event.payload),
            "openoutbox.attempt": event.attempts + 1,
            "openoutbox.batch.message_count": publish.events,
            "openoutbox.outcome": outcome,
        }
        if error:
            attributes["error.type"] = error.partition(":")[0]
        self._tracer.sink(
            Span(
                f"publish {destination}",
                SpanKind.PRODUCER,
                publish.context,
                self._parents[event_id],
                (self._claim,),
                publish.started_at,
                self._tracer.clock(),
                attributes,
                shown(error) if error else "",
            )
        )


def span_id() -> str:
    """A new random id."""
    return f"{random.getrandbits(64) or 1:016x}"
