"""Every metric that a relay's process serves: name, type, labels and meaning, each in one row.

The only list of them. The parts of the process provide samples (``relay.telemetry.providers``); /metrics
(``prometheus``), OTLP (``otel``) and docs/reference/metrics.md (``python -m relay.telemetry``) render rows and samples,
and name no metric themselves. A new metric is a row here and a provider of its samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from relay.core.telemetry import EngineCounter


class MetricType(StrEnum):
    """The three types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Section(StrEnum):
    """The part that provides a metric, by the title of its section in docs/reference/metrics.md."""

    RELAY = "The relay"
    DESTINATIONS = "Destinations"
    BESIDE = "Beside the events"
    LOG = "Delivery log"
    STORE = "Event store"


class Metric(NamedTuple):
    """One metric."""

    name: str
    """As Prometheus shows it, a counter with its ``_total``."""
    type: MetricType
    labels: tuple[str, ...]
    """Without ``relay_id``."""
    meaning: str
    section: Section = Section.RELAY
    counts: EngineCounter | None = None
    """What the engine counts, where it counts and nothing more."""

    @property
    def all_labels(self) -> tuple[str, ...]:
        """With ``relay_id``: every metric has it, except those of the event store, which no relay owns."""
        return self.labels if self.section is Section.STORE else (*self.labels, "relay_id")


_ROWS: list[Metric] = []


def _row(
    name: str,
    kind: MetricType,
    labels: tuple[str, ...],
    meaning: str,
    section: Section = Section.RELAY,
    counts: EngineCounter | None = None,
) -> Metric:
    metric = Metric(name, kind, labels, meaning, section, counts)
    _ROWS.append(metric)
    return metric


def _count(name: str, what: EngineCounter, meaning: str) -> Metric:
    return _row(name, MetricType.COUNTER, (), meaning, counts=what)


_C, _G, _H = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM

EVENTS = _row(
    "openoutbox_events_total",
    _C,
    ("status",),
    "Attempts whose outcome was written: success or failed. A lease that this relay reclaimed is a failed one.",
)
BATCH_SIZE = _row("openoutbox_events_batch_size", _H, (), "Events in one claim, without empty claims.")
E2E_LATENCY = _row(
    "openoutbox_events_e2e_latency_seconds", _H, (), "From an event's created_at to the broker's acknowledgement."
)
STORAGE_LATENCY = _row(
    "openoutbox_storage_latency_seconds", _H, ("op", "status"), "One call to the database, by operation and result."
)
PUBLISHER_LATENCY = _row(
    "openoutbox_publisher_latency_seconds", _H, ("status",), "From offering an event to the broker to its answer."
)
PENDING = _row(
    "openoutbox_backlog_pending_count",
    _G,
    ("status",),
    "PENDING events: new (no failed attempt) or retrying (failed before).",
)
OLDEST_AGE = _row(
    "openoutbox_backlog_oldest_age_seconds",
    _G,
    (),
    "Age of the oldest PENDING event by created_at, scheduled and backed-off ones included.",
)
OLDEST_DUE_AGE = _row(
    "openoutbox_backlog_oldest_due_age_seconds",
    _G,
    (),
    "The lag: how long the oldest event that is due has been due. Alert on this one.",
)
DEAD = _row("openoutbox_backlog_dead_events", _G, (), "Events in DEAD, waiting for an operator.")
BACKLOG_AT = _row(
    "openoutbox_backlog_read_timestamp_seconds",
    _G,
    (),
    "Unix time at which the counts of the backlog and its oldest age were read, 0 before.",
)
OLDEST_DELIVERED_AGE = _row(
    "openoutbox_oldest_delivered_age_seconds",
    _G,
    (),
    "Age of the oldest DELIVERED row, 0 without one; read once a minute. Above the age that prune retains, prune does "
    "not run or fails.",
)
HORIZON_HELD = _row(
    "openoutbox_horizon_held_seconds",
    _G,
    (),
    "For how long a transaction or a replication slot has kept vacuum from removing dead rows, 0 without one; read "
    "once a minute. The log and relay-cli check name it.",
)
CLOCK_OFFSET = _row(
    "openoutbox_clock_offset_seconds",
    _G,
    (),
    "Seconds by which the database's clock is ahead of this host's, at the last claim that brought events, 0 before.",
)
TIMES_AHEAD = _row(
    "openoutbox_times_ahead_rows",
    _G,
    ("column",),
    "Rows whose time is more than a minute ahead of the database's clock, 10,000 at most, read once a minute: "
    "locked_at of leases, created_at of events that wait.",
)
IN_FLIGHT = _row("openoutbox_in_flight_events", _G, (), "Events claimed by this relay and not settled.")
RELAY_STATE = _row(
    "openoutbox_relay_state", _G, (), "1 active, 2 paused (broker unreachable), 3 error (database unreachable)."
)
PAUSED = _row(
    "openoutbox_paused",
    _G,
    (),
    "Pauses of an operator that this relay obeys: relay-cli pause --list shows them.",
)
LEASES_REAPED = _row(
    "openoutbox_leases_reaped_total",
    _C,
    ("result",),
    "Expired leases reclaimed, each a failed attempt: retried or dead.",
)
_count(
    "openoutbox_leases_lost_total",
    EngineCounter.LEASES_LOST,
    "Outcomes and renewals that came after the lease was lost.",
)
ROWS_REFUSED = _row(
    "openoutbox_rows_refused_total",
    _C,
    ("op",),
    "Times that the database refused one row: to claim, settle, renew or reap it. The log and /readyz name it.",
)
_count("openoutbox_events_released_total", EngineCounter.RELEASED, "Events released without using up an attempt.")
_count(
    "openoutbox_events_dropped_as_duplicates_total",
    EngineCounter.DROPPED,
    "Events that NATS acknowledged as duplicates though this relay had not offered them before: another outbox uses "
    "their ids, a replay came within the duplicate window, or another relay sent them and was cut off.",
)
_count(
    "openoutbox_events_restamped_total",
    EngineCounter.RESTAMPED,
    "Events that Kafka has with the time at which they were sent, since it refuses their created_at "
    "(KAFKA_TIMESTAMP=created_at).",
)
LAST_CLAIM = _row(
    "openoutbox_last_successful_claim_timestamp_seconds",
    _G,
    (),
    "Unix time of the last claim that succeeded, also an empty one.",
)
BUILD = _row("openoutbox_build_info", _G, ("version",), "Always 1; the version is a label.")

DESTINATION_STATE = _row(
    "openoutbox_destination_state",
    _G,
    ("destination",),
    "State of each destination: 1 flowing, 2 slow, 3 blocked, 4 away, 5 refused. A single one has the name of "
    "PUBLISHER_NAME; NAME/PART is a queue, topic or node, while it does not flow.",
    Section.DESTINATIONS,
)
DESTINATION_RATE = _row(
    "openoutbox_destination_rate",
    _G,
    ("destination",),
    "PUBLISHER_RATE of the destination: events a second; no series without one.",
    Section.DESTINATIONS,
)
DESTINATION_RATE_WAITING = _row(
    "openoutbox_destination_rate_waiting",
    _G,
    ("destination",),
    "Claimed events that wait for that rate. More wait in the table while it is not 0.",
    Section.DESTINATIONS,
)
DESTINATION_AWAY = _row(
    "openoutbox_destination_away",
    _G,
    ("event_type",),
    "1 for each event type whose destination does not answer while others do, 100 of them at most; no series without "
    "one. Deprecated: use openoutbox_destination_state.",
    Section.DESTINATIONS,
)
DESTINATION_UP = _row(
    "openoutbox_destination_up",
    _G,
    ("destination",),
    "1 while a destination of DESTINATIONS_FILE answers, 0 while it does not. Deprecated: use "
    "openoutbox_destination_state.",
    Section.DESTINATIONS,
)
DROPPED = _row(
    "openoutbox_events_dropped_total",
    _C,
    ("event_type",),
    "Events that a route dropped, by event type: they count as delivered and were not sent.",
    Section.DESTINATIONS,
)
DEGRADED = _row(
    "openoutbox_degraded",
    _G,
    ("part",),
    "1 while fan-out, fleet, pauses, series or wake-up does not work, although deliveries go on; else 0. The log and "
    "/readyz say why.",
    Section.BESIDE,
)
LOG_WRITTEN = _row("openoutbox_log_written_total", _C, (), "Attempts written to the delivery log.", Section.LOG)
LOG_DROPPED = _row("openoutbox_log_dropped_total", _C, (), "Attempts that were dropped instead of logged.", Section.LOG)
LOG_QUARANTINED = _row(
    "openoutbox_log_quarantined_total", _C, (), "Attempts that the log could not store.", Section.LOG
)
LOG_DEGRADED = _row(
    "openoutbox_log_degraded",
    _G,
    (),
    "1 while the delivery log takes no attempts, or quarantines the newest; else 0.",
    Section.LOG,
)
LOG_READY_UNTIL = _row(
    "openoutbox_log_ready_until_timestamp_seconds",
    _G,
    (),
    "Unix time until which the log has tables for new attempts.",
    Section.LOG,
)

_PART = ("database", "schema", "subscription", "part")

CHECKPOINT_ACTIVE = _row(
    "openoutbox_eventstore_checkpoint_active", _G, _PART, "1 where an instance holds the lease", Section.STORE
)
CHECKPOINT_POSITION = _row(
    "openoutbox_eventstore_checkpoint_position", _G, _PART, "Position of the checkpoint", Section.STORE
)
CHECKPOINT_LAG_EVENTS = _row(
    "openoutbox_eventstore_checkpoint_lag_events",
    _G,
    _PART,
    "Events of all tenants and types after the checkpoint, up to 100,000",
    Section.STORE,
)
CHECKPOINT_LAG_SECONDS = _row(
    "openoutbox_eventstore_checkpoint_lag_seconds",
    _G,
    _PART,
    "Age of the oldest event after the checkpoint",
    Section.STORE,
)
PARKED_STREAMS = _row(
    "openoutbox_eventstore_parked_streams",
    _G,
    _PART[:3],
    "Streams that the subscription has set aside, behind an event that failed",
    Section.STORE,
)
LISTED_AT = _row(
    "openoutbox_eventstore_listed_timestamp_seconds",
    _G,
    _PART[:2],
    "Unix time at which the subscriptions were listed",
    Section.STORE,
)

CATALOGUE: tuple[Metric, ...] = tuple(_ROWS)
"""All of them, those of the contract first."""
COUNTED: Mapping[EngineCounter, Metric] = {metric.counts: metric for metric in CATALOGUE if metric.counts is not None}
"""The row of each counter of the engine."""
