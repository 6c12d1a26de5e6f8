"""What a Kafka session has handed to its client, until it is answered; used by ``relay.brokers.kafka.session``.

All events of one ``offer`` call share an ``Offer``, so that an event costs a callback with its index, and no entry in a
table. ``in_client`` of that object alone says what is unanswered: the code that takes an event out of it resolves the
event, so an event is resolved at most once, and a late report meets no event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from relay.brokers.entries import Entry
from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, OutcomeSink, Receipt, Resolution

_Note = Callable[[int, KafkaError | None, Message], None]


def receipt_of(message: Message) -> Receipt:
    """Where the broker put it."""
    return {"partition": message.partition() or 0, "offset": message.offset() or 0}


class Failure(NamedTuple):
    """A delivery report with an error."""

    code: str
    text: str
    fatal: bool


def failure_of(error: KafkaError) -> Failure:
    """The client's error, as events are told of it."""
    return Failure(error.name(), error.str(), error.fatal())


class Reports:
    """What the client has reported and the session has not passed on yet."""

    __slots__ = ("answered", "failed")

    def __init__(self) -> None:
        self.answered: deque[Offer] = deque()
        """Offers with reports, each at least once."""
        self.failed: list[tuple[Entry, Failure]] = []


class Offer:
    """The events of one ``offer`` call while the client holds them."""

    __slots__ = ("_reports", "acknowledged", "deadline", "ended", "in_client", "sink", "unanswered")

    def __init__(self, events: int, sink: OutcomeSink, reports: Reports) -> None:
        self.in_client: list[OutboxEvent | None] = [None] * events
        """By index in the call. None for an event that is not handed over yet, was refused, or is resolved."""
        self.unanswered = 0
        """Events that the client holds, and those whose acknowledgement is not passed on yet."""
        self.acknowledged: list[Resolution] = []
        """Not passed on yet."""
        self.sink = sink
        self.deadline = 0.0
        """When its answers are overdue, in a session that keeps runs; seconds on the event loop's clock."""
        self.ended: set[str | None] = set()
        """Keys of which an event was refused, in a session that keeps runs."""
        self._reports = reports

    def note(self, index: int, error: KafkaError | None, _: Message) -> None:
        """Take the client's report on one event."""
        event = self.in_client[index]
        if event is None:
            return
        self.in_client[index] = None
        if error is not None:
            self.unanswered -= 1
            self._reports.failed.append(((event, self.sink), failure_of(error)))
            self._reports.answered.append(self)
            return
        if not self.acknowledged:
            self._reports.answered.append(self)
        self.acknowledged.append((event, ACKNOWLEDGED))

    def notes(self, *, receipts: bool) -> tuple[_Note, _Note]:
        """What takes reports, and reports on events whose message has another time than theirs."""
        plain = partial(self._note_more, receipts, False) if receipts else self.note
        return plain, partial(self._note_more, receipts, True)

    def _note_more(
        self, receipts: bool, restamped: bool, index: int, error: KafkaError | None, message: Message
    ) -> None:
        """The same, and where the message is."""
        event = self.in_client[index]
        if event is None or error is not None:
            self.note(index, error, message)
            return
        self.in_client[index] = None
        if not self.acknowledged:
            self._reports.answered.append(self)
        self.acknowledged.append((event, Acknowledged(receipt_of(message) if receipts else None, restamped=restamped)))

    def take_acknowledged(self) -> list[Resolution]:
        """The acknowledgements to pass on now."""
        acknowledged, self.acknowledged = self.acknowledged, []
        self.unanswered -= len(acknowledged)
        return acknowledged

    def take_unanswered(self) -> list[OutboxEvent]:
        """The events that will have no report; a late one is ignored."""
        events = [event for event in self.in_client if event is not None]
        self.in_client = [None] * len(self.in_client)
        return events
