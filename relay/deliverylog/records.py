"""The records of the delivery log: events, attempts to deliver them, and the pair of both that is written and read.

All are frozen and take keyword arguments. Their constructors refuse what can only be a mistake of the caller
(a time without a zone, an unknown status); ``relay.deliverylog.entries`` refuses what no driver can store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from relay.deliverylog.errors import InvalidEntry, InvalidTimeRange
from relay.deliverylog.times import utc

SUCCESS = "success"
FAILED = "failed"
STATUSES = (SUCCESS, FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """An event that was handed to the relay."""

    id: str
    tenant_id: str = ""
    destination_id: str = ""
    """The explicit target named at publish; may be empty."""
    matched_destination_ids: list[str] = field(default_factory=list)
    time: datetime
    topic: str = ""
    eligible_for_retry: bool = True
    data: bytes = b""
    """The payload, byte for byte."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Headers; None is kept and read back as {}."""

    def __post_init__(self) -> None:
        if self.time.tzinfo is not UTC:  # as it is on the path of every attempt and of every row
            object.__setattr__(self, "time", _zoned(self.time, "an event's time"))
        object.__setattr__(self, "matched_destination_ids", list(self.matched_destination_ids or ()))
        object.__setattr__(self, "metadata", dict(self.metadata or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAttempt:
    """One attempt to deliver an event to one destination."""

    id: str
    event_id: str
    tenant_id: str = ""
    destination_id: str = ""
    destination_type: str = ""
    topic: str = ""
    status: str
    """``success`` or ``failed``."""
    time: datetime
    attempt_number: int = 0
    """Counted from 1; 0 means unknown."""
    manual: bool = False
    """Whether an operator caused it by a replay."""
    code: str | None = None
    """For example ``200`` or ``MSG_SIZE_TOO_LARGE``."""
    response_data: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.time.tzinfo is not UTC:
            object.__setattr__(self, "time", _zoned(self.time, "an attempt's time"))
        if self.status not in STATUSES:
            raise InvalidEntry(f"an attempt's status is {self.status!r}; it must be {SUCCESS!r} or {FAILED!r}")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The unit that is written: an attempt and its event."""

    event: LoggedEvent
    attempt: LoggedAttempt


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """The unit that is read: an attempt and its embedded event, as it was at the time of the attempt."""

    attempt: LoggedAttempt
    event: LoggedEvent


def _zoned(time: datetime, what: str) -> datetime:
    try:
        return utc(time, what)
    except InvalidTimeRange as error:
        raise InvalidEntry(str(error)) from error
