"""The delivery log: a searchable record of every event and of every attempt to deliver it.

``open_delivery_log`` opens one of three drivers (``postgres``, ``clickhouse``, ``memory``) behind one ``interface``;
importing this imports no database library. ``records`` and ``query`` are its types.

The relay's ``recorder`` writes, and tries again while the log does not answer: ``mapping`` makes an entry of an
attempt, ``entries`` checks it, ``quarantine`` keeps what no driver can store, ``pace`` leaves the engine its time.
Reading: ``paging`` and ``cursor`` for lists, ``measures`` and ``buckets`` for counts, ``limits`` for both; ``text`` is
their form for people and programs. ``follow``, ``export`` and ``copy`` are for ``relay-cli``. Retention: the recorder
calls ``prepare_ahead()`` and ``drop_expired()`` every hour; each driver says what it drops.

A new filter is a field of ``query``, a name in ``paging``, and of both databases a tagged line of ``list.sql`` and a
choice in ``statements.py``. ``log_options`` has the options of log and recorder, ``relay.settings`` their defaults.
"""

from relay.deliverylog.errors import (
    DeliveryLogBusy,
    DeliveryLogError,
    DeliveryLogUnavailable,
    InvalidCursor,
    InvalidEntry,
    InvalidQuery,
    InvalidTimeRange,
    ResourceLimit,
    VersionMismatch,
)
from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.log_options import DeliveryLogOptions
from relay.deliverylog.open import open_delivery_log
from relay.deliverylog.quarantine import QuarantinedEntry, QuarantineRetry
from relay.deliverylog.query import (
    Granularity,
    ListAttempts,
    ListEvents,
    MetricsQuery,
    MetricsResult,
    Page,
    TimeWindow,
)
from relay.deliverylog.records import AttemptRecord, LogEntry, LoggedAttempt, LoggedEvent

__all__ = [
    "AttemptRecord",
    "DeliveryLog",
    "DeliveryLogBusy",
    "DeliveryLogError",
    "DeliveryLogOptions",
    "DeliveryLogUnavailable",
    "Granularity",
    "InvalidCursor",
    "InvalidEntry",
    "InvalidQuery",
    "InvalidTimeRange",
    "ListAttempts",
    "ListEvents",
    "LogEntry",
    "LoggedAttempt",
    "LoggedEvent",
    "MetricsQuery",
    "MetricsResult",
    "Page",
    "QuarantineRetry",
    "QuarantinedEntry",
    "ResourceLimit",
    "TimeWindow",
    "VersionMismatch",
    "open_delivery_log",
]
