"""From events to batch requests: ten messages at most, of one queue or topic, within the limit of bytes.

Events keep their order within a destination, but for those that have failed before. A message that is larger than a
batch may be is a batch of its own, so that a refusal for its size is about it alone.

A request may fail as a whole because of one of its messages, without an answer or with one that does not say which. So
messages that have failed before have few neighbours at the next attempt, and none from the third on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from relay.brokers.aws.message import to_message
from relay.brokers.aws.names import FIFO, name_of
from relay.brokers.aws.options import AwsOptions
from relay.brokers.aws.services import Entry as RequestEntry
from relay.brokers.aws.services import Service
from relay.brokers.entries import Entry, resolve
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Permanent

MOST_ENTRIES: Final = (10, 3, 1)
"""Messages of one request, by their failed attempts; the last one for all further ones, too."""

_GROUP: Final = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")


class RequestBatch:
    """The messages of one request, and what is unresolved of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Of the queue or topic."""
        self.requests: list[RequestEntry] = []
        self.size = 0
        self._waiting: dict[str, Entry] = {}
        """By the id of the request's entry."""

    @property
    def groups(self) -> set[str]:
        """The message groups of a FIFO queue or topic; empty for a standard one."""
        return {request["MessageGroupId"] for request in self.requests if "MessageGroupId" in request}

    @property
    def waiting(self) -> list[str]:
        """The ids of what is unresolved, in order."""
        return list(self._waiting)

    def add(self, request: RequestEntry, entry: Entry, size: int) -> None:
        """Add a message."""
        request["Id"] = str(len(self.requests))
        self.requests.append(request)
        self._waiting[request["Id"]] = entry
        self.size += size

    def settle(self, outcomes: Sequence[tuple[str, Outcome]]) -> None:
        """Resolve entries by their ids; what is resolved already stays so."""
        resolve([(self._waiting.pop(key), outcome) for key, outcome in outcomes if key in self._waiting])

    def settle_all(self, outcome: Outcome) -> None:
        """Resolve what is left."""
        self.settle([(key, outcome) for key in self.waiting])


def batches(
    events: Iterable[OutboxEvent], sink: OutcomeSink, service: Service, options: AwsOptions
) -> Iterator[RequestBatch]:
    """Every batch as it is complete; what can never be sent goes to the sink.

    The events are encoded as the batches are taken, so that what waits is not held twice.
    """
    opened: dict[tuple[str, int], RequestBatch] = {}
    for event in events:
        name = name_of(event.event_type, options.kind, options.name_replacement)
        if isinstance(name, Permanent):
            sink([(event, name)])
            continue
        message = to_message(event)
        if message.size > options.max_message:
            sink([(event, too_large(message.size, options.max_message))])
            continue
        most = MOST_ENTRIES[min(event.attempts, len(MOST_ENTRIES) - 1)]
        place = name, most
        if place in opened and opened[place].size + message.size > options.max_batch:
            yield opened.pop(place)
        batch = opened.setdefault(place, RequestBatch(name))
        request = service.entry(message)
        if name.endswith(FIFO):
            request["MessageGroupId"] = group_id(event)
            request["MessageDeduplicationId"] = str(event.event_id)
        batch.add(request, (event, sink), message.size)
        if len(batch.requests) == most:
            yield opened.pop(place)
    yield from opened.values()


def group_id(event: OutboxEvent) -> str:
    """The message group of an event: its key, or itself. A key that cannot be one stands there as its digest."""
    key = event.partition_key
    if key is None:
        return str(event.event_id)
    return key if _GROUP.fullmatch(key) else f"sha256-{hashlib.sha256(key.encode()).hexdigest()}"


def too_large(size: int, most: int) -> Permanent:
    """The outcome of a message over the limit of every queue and topic."""
    return Permanent("TOO_LARGE", f"{size} bytes with its attributes; a message may have {most}")
