"""Every metric of the relay: name, type, labels and meaning. Source of the exporters and docs/reference/metrics.md."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class MetricType(StrEnum):
    """The three types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric; ``relay_id`` is a label of every one and not listed."""

    name: str
    """As Prometheus shows it, a counter with its ``_total``."""
    type: MetricType
    labels: tuple[str, ...]
    meaning: str


_C, _G, _H = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM

EVENTS = Metric(
    "openoutbox_events_total",
    _C,
    ("status",),
    "Attempts whose outcome was written: success or failed. A lease that this relay reclaimed is a failed one.",
)
BATCH_SIZE = Metric("openoutbox_events_batch_size", _H, (), "Events in one claim, without empty claims.")
E2E_LATENCY = Metric(
    "openoutbox_events_e2e_latency_seconds", _H, (), "From an event's created_at to the broker's acknowledgement."
)
STORAGE_LATENCY = Metric(
    "openoutbox_storage_latency_seconds", _H, ("op", "status"), "One call to the database, by operation and result."
)
PUBLISHER_LATENCY = Metric(
    "openoutbox_publisher_latency_seconds", _H, ("status",), "From offering an event to the broker to its answer."
)
PENDING = Metric(
    "openoutbox_backlog_pending_count",
    _G,
    ("status",),
    "PENDING events: new (no failed attempt) or retrying (failed before).",
)
OLDEST_AGE = Metric(
    "openoutbox_backlog_oldest_age_seconds",
    _G,
    (),
    "Age of the oldest PENDING event by created_at, scheduled and backed-off ones included.",
)
OLDEST_DUE_AGE = Metric(
    "openoutbox_backlog_oldest_due_age_seconds",
    _G,
    (),
    "The lag: how long the oldest event that is due has been due. Alert on this one.",
)
OLDEST_DELIVERED_AGE = Metric(
    "openoutbox_oldest_delivered_age_seconds",
    _G,
    (),
    "Age of the oldest DELIVERED row by delivered_at, 0 without one; read once a minute. Above the age that prune "
    "retains, prune does not run or fails.",
)
DEAD = Metric("openoutbox_backlog_dead_events", _G, (), "Events in DEAD, waiting for an operator.")
IN_FLIGHT = Metric("openoutbox_in_flight_events", _G, (), "Events claimed by this relay and not settled.")
RELAY_STATE = Metric(
    "openoutbox_relay_state", _G, (), "1 active, 2 paused (broker unreachable), 3 error (database unreachable)."
)
PAUSED = Metric(
    "openoutbox_paused",
    _G,
    (),
    "Pauses of an operator that this relay obeys, 0 without one: relay-cli pause --list shows them.",
)
AWAY = Metric(
    "openoutbox_destination_away",
    _G,
    ("event_type",),
    "1 for each event type whose destination does not answer while others do, 100 of them at most; no series without "
    "one. Its events wait and use no attempt.",
)
LEASES_REAPED = Metric(
    "openoutbox_leases_reaped_total",
    _C,
    ("result",),
    "Expired leases reclaimed, each a failed attempt: retried or dead.",
)
LEASES_LOST = Metric(
    "openoutbox_leases_lost_total", _C, (), "Outcomes and renewals that came after the lease was lost."
)
RELEASED = Metric("openoutbox_events_released_total", _C, (), "Events released without using up an attempt.")
LAST_CLAIM = Metric(
    "openoutbox_last_successful_claim_timestamp_seconds",
    _G,
    (),
    "Unix time of the last claim that succeeded, also an empty one.",
)
BUILD = Metric("openoutbox_build_info", _G, ("version",), "Always 1; the version is a label.")

CATALOGUE: tuple[Metric, ...] = (
    EVENTS,
    BATCH_SIZE,
    E2E_LATENCY,
    STORAGE_LATENCY,
    PUBLISHER_LATENCY,
    PENDING,
    OLDEST_AGE,
    OLDEST_DUE_AGE,
    DEAD,
    OLDEST_DELIVERED_AGE,
    IN_FLIGHT,
    RELAY_STATE,
    PAUSED,
    AWAY,
    LEASES_REAPED,
    LEASES_LOST,
    RELEASED,
    LAST_CLAIM,
    BUILD,
)
"""All of them, those of the contract first."""
