"""From a settled attempt to a log entry (DELIVERY_LOG_* and PUBLISHER_* name the tenant header and the destination).

All times are the outbox database's: the event's ``created_at`` is its claim's time less its age, the attempt's time
is the claim's plus the seconds until the outcome.

An attempt is *manual* when it follows an operator's replay directly: the first one after a replay, not the retries
after it. A copy that Spark's replay inserted has the header ``replay_id``. ``relay-cli replay``
sets ``attempts`` back to 0 and leaves no other trace in the row, so the record of replays (the extension
``replay-audit``) is looked up; without that record such an attempt counts as not manual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from openoutbox.identity import uuid7
from relay.core.event import EventId, OutboxEvent
from relay.core.headers import REPLAY_HEADER, wire_headers
from relay.core.outcome import Acknowledged, Away, ConnectionCut, Outcome, Permanent, Unreachable, Withheld
from relay.core.recorder import SettledAttempt
from relay.deliverylog.records import FAILED, SUCCESS, LogEntry, LoggedAttempt, LoggedEvent
from relay.deliverylog.times import to_ms

_NONE: Final[Mapping[EventId, datetime]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Naming:
    """The tenant header, and the names of this relay's destination in the log."""

    tenant_header: str
    destination_id: str
    """PUBLISHER_NAME, by default the publisher's type."""
    destination_type: str
    """PUBLISHER_TYPE."""
    destination_of: Callable[[OutboxEvent], tuple[str, str]] | None = None
    """The name and type of an event's destination, for a relay with several; else the two above."""

    def destination(self, event: OutboxEvent, *, succeeded: bool) -> tuple[str, str]:
        """Name and type. Of an event for several a delivery has all, a failure those that have not acknowledged it."""
        if self.destination_of is None:
            return self.destination_id, self.destination_type
        return self.destination_of(event._replace(acknowledged_by=None) if succeeded else event)


def log_entry(settled: SettledAttempt, naming: Naming, first_replays: Mapping[EventId, datetime] = _NONE) -> LogEntry:
    """The entry of one attempt. The id of the attempt is generated here, from its time.

    ``first_replays`` holds when events were first replayed in place, from the record of replays.
    """
    event, claimed_at = settled.event, settled.claimed_at
    metadata = dict(wire_headers(event.headers))
    tenant_id = metadata.get(naming.tenant_header, "")
    time = claimed_at + timedelta(seconds=settled.seconds)
    succeeded = isinstance(settled.outcome, Acknowledged)
    code, response = _answer(settled.outcome)
    destination_id, destination_type = naming.destination(event, succeeded=succeeded)
    logged = LoggedEvent(
        id=event.event_id,
        tenant_id=tenant_id,
        matched_destination_ids=[destination_id] if naming.destination_of is None else destination_id.split(","),
        time=claimed_at - timedelta(seconds=event.age),
        topic=event.event_type,
        eligible_for_retry=not isinstance(settled.outcome, Permanent),
        data=event.payload,
        metadata=metadata,
    )
    attempt = LoggedAttempt(
        id=str(uuid7(to_ms(time))),
        event_id=event.event_id,
        tenant_id=tenant_id,
        destination_id=destination_id,
        destination_type=destination_type,
        topic=event.event_type,
        status=SUCCESS if succeeded else FAILED,
        time=time,
        attempt_number=event.attempts + 1,
        manual=_is_manual(settled, metadata, first_replays),
        code=code,
        response_data=response,
    )
    return LogEntry(logged, attempt)


def _is_manual(settled: SettledAttempt, metadata: Mapping[str, str], first_replays: Mapping[EventId, datetime]) -> bool:
    """Whether an attempt is the first one after a replay.

    A claim later than the first replay with no failed attempt follows some replay: a delivered event is
    not claimed again without one.
    """
    if settled.event.attempts > 0:
        return False
    replayed_at = first_replays.get(settled.event.event_id)
    return REPLAY_HEADER in metadata or (replayed_at is not None and replayed_at <= settled.claimed_at)


def _answer(outcome: Outcome) -> tuple[str | None, dict[str, Any] | None]:
    """The broker's error name, and where it put the message or why it did not."""
    if isinstance(outcome, Acknowledged):
        return None, dict(outcome.receipt) if outcome.receipt else None
    if isinstance(outcome, Unreachable | ConnectionCut | Away):
        return "UNREACHABLE", {"reason": outcome.reason}
    if isinstance(outcome, Withheld):
        return "WITHHELD", {"reason": outcome.reason}
    return outcome.code, {"reason": outcome.reason} if outcome.reason else None
