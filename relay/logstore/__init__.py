"""The delivery log: a searchable record of every event and of every attempt to deliver it.

``open_logstore`` opens one of three drivers behind one interface; importing this imports no database library.
"""

from relay.logstore.errors import (
    InvalidCursor,
    InvalidEntry,
    InvalidQuery,
    InvalidTimeRange,
    LogStoreBusy,
    LogStoreError,
    LogStoreUnavailable,
    ResourceLimit,
    VersionMismatch,
)
from relay.logstore.model import AttemptRecord, LogEntry, LoggedAttempt, LoggedEvent
from relay.logstore.open import LogStoreOptions, open_logstore
from relay.logstore.query import (
    Granularity,
    ListAttempts,
    ListEvents,
    MetricsQuery,
    MetricsResult,
    Page,
    TimeWindow,
)
from relay.logstore.store import LogStore

__all__ = [
    "AttemptRecord",
    "Granularity",
    "InvalidCursor",
    "InvalidEntry",
    "InvalidQuery",
    "InvalidTimeRange",
    "ListAttempts",
    "ListEvents",
    "LogEntry",
    "LogStore",
    "LogStoreBusy",
    "LogStoreError",
    "LogStoreOptions",
    "LogStoreUnavailable",
    "LoggedAttempt",
    "LoggedEvent",
    "MetricsQuery",
    "MetricsResult",
    "Page",
    "ResourceLimit",
    "TimeWindow",
    "VersionMismatch",
    "open_logstore",
]
