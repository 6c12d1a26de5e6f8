"""Every metric that a relay's process serves: name, type, labels and meaning, each in one row.

The only list of them. The parts of the process provide samples (``relay.telemetry.providers``); /metrics
(``prometheus``), OTLP (``otel``) and docs/reference/metrics.md (``python -m relay.telemetry``) render rows and samples,
and name no metric themselves. A new metric is a row here and a provider of its samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
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
    kind: MetricType,
    name: str,
    meaning: str,
    labels: tuple[str, ...] = (),
    section: Section = Section.RELAY,
    counts: EngineCounter | None = None,
) -> Metric:
    metric = Metric(name, kind, labels, meaning, section, counts)
    _ROWS.append(metric)
    return metric


_counter = partial(_row, MetricType.COUNTER)
_gauge = partial(_row, MetricType.GAUGE)
_histogram = partial(_row, MetricType.HISTOGRAM)

EVENTS = _counter(
    "openoutbox_events_total",
    "Attempts whose outcome was written: success or failed. A lease that this relay reclaimed is a failed one.",
    labels=("status",),
)
BATCH_SIZE = _histogram("openoutbox_events_batch_size", "Events in one claim, without empty claims.")
E2E_LATENCY = _histogram(
    "openoutbox_events_e2e_latency_seconds", "From an event's created_at to the broker's acknowledgement."
)
STORAGE_LATENCY = _histogram(
    "openoutbox_storage_latency_seconds", "One call to the database, by operation and result.", labels=("op", "status")
)
PUBLISHER_LATENCY = _histogram(
    "openoutbox_publisher_latency_seconds", "From offering an event to the broker to its answer.", labels=("status",)
)
PENDING = _gauge(
    "openoutbox_backlog_pending_count",
    "PENDING events: new (no failed attempt) or retrying (failed before).",
    labels=("status",),
)
OLDEST_AGE = _gauge(
    "openoutbox_backlog_oldest_age_seconds",
    "Age of the oldest PENDING event by created_at, scheduled and backed-off ones included.",
)
OLDEST_DUE_AGE = _gauge(
    "openoutbox_backlog_oldest_due_age_seconds",
    "The lag: how long the oldest event that is due has been due. Alert on this one.",
)
DEAD = _gauge("openoutbox_backlog_dead_events", "Events in DEAD, waiting for an operator.")
BACKLOG_AT = _gauge(
    "openoutbox_backlog_read_timestamp_seconds",
    "Unix time at which the counts of the backlog and its oldest age were read, 0 before.",
)
OLDEST_DELIVERED_AGE = _gauge(
    "openoutbox_oldest_delivered_age_seconds",
    "Age of the oldest DELIVERED row, 0 without one; read once a minute. Above the age that prune retains, prune does "
    "not run or fails.",
)
HORIZON_HELD = _gauge(
    "openoutbox_horizon_held_seconds",
    "For how long a transaction or a replication slot has kept vacuum from removing dead rows, 0 without one; read "
    "once a minute. The log and relay-cli check name it.",
)
CLOCK_OFFSET = _gauge(
    "openoutbox_clock_offset_seconds",
    "Seconds by which the database's clock is ahead of this host's, at the last claim that brought events, 0 before.",
)
TIMES_AHEAD = _gauge(
    "openoutbox_times_ahead_rows",
    "Rows whose time is more than a minute ahead of the database's clock, 10,000 at most, read once a minute: "
    "locked_at of leases, created_at of events that wait.",
    labels=("column",),
)
IN_FLIGHT = _gauge("openoutbox_in_flight_events", "Events claimed by this relay and not settled.")
RELAY_STATE = _gauge(
    "openoutbox_relay_state", "1 active, 2 paused (broker unreachable), 3 error (database unreachable or refusing)."
)
PAUSED = _gauge("openoutbox_paused", "Pauses of an operator that this relay obeys: relay-cli pause --list shows them.")
LEASES_REAPED = _counter(
    "openoutbox_leases_reaped_total",
    "Expired leases reclaimed, each a failed attempt: retried or dead.",
    labels=("result",),
)
_counter(
    "openoutbox_leases_lost_total",
    "Outcomes and renewals that came after the lease was lost.",
    counts=EngineCounter.LEASES_LOST,
)
ROWS_REFUSED = _counter(
    "openoutbox_rows_refused_total",
    "Times that the database refused one row: to claim, settle, renew or reap it. The log and /readyz name it.",
    labels=("op",),
)
_counter(
    "openoutbox_events_released_total", "Events released without using up an attempt.", counts=EngineCounter.RELEASED
)
_counter(
    "openoutbox_events_dropped_as_duplicates_total",
    "Events that NATS acknowledged as duplicates though this relay had not offered them before: another outbox uses "
    "their ids, a replay came within the duplicate window, or another relay sent them and was cut off.",
    counts=EngineCounter.DROPPED,
)
_counter(
    "openoutbox_events_restamped_total",
    "Events that Kafka has with the time at which they were sent, since it refuses their created_at "
    "(KAFKA_TIMESTAMP=created_at).",
    counts=EngineCounter.RESTAMPED,
)
LAST_CLAIM = _gauge(
    "openoutbox_last_successful_claim_timestamp_seconds",
    "Unix time of the last claim that succeeded, also an empty one.",
)
BUILD = _gauge("openoutbox_build_info", "Always 1; the version is a label.", labels=("version",))

DESTINATION_STATE = _gauge(
    "openoutbox_destination_state",
    "State of each destination: 1 flowing, 2 slow, 3 blocked, 4 away, 5 refused. A single one has the name of "
    "PUBLISHER_NAME; NAME/PART is a queue, topic or node, while it does not flow.",
    labels=("destination",),
    section=Section.DESTINATIONS,
)
DESTINATION_RATE = _gauge(
    "openoutbox_destination_rate",
    "PUBLISHER_RATE of the destination: events a second; no series without one.",
    labels=("destination",),
    section=Section.DESTINATIONS,
)
DESTINATION_RATE_WAITING = _gauge(
    "openoutbox_destination_rate_waiting",
    "Claimed events that wait for that rate. More wait in the table while it is not 0.",
    labels=("destination",),
    section=Section.DESTINATIONS,
)
DESTINATION_AWAY = _gauge(
    "openoutbox_destination_away",
    "1 for each event type whose destination does not answer while others do, 100 of them at most; no series without "
    "one. Deprecated: use openoutbox_destination_state.",
    labels=("event_type",),
    section=Section.DESTINATIONS,
)
DESTINATION_UP = _gauge(
    "openoutbox_destination_up",
    "1 while a destination of DESTINATIONS_FILE answers, 0 while it does not. Deprecated: use "
    "openoutbox_destination_state.",
    labels=("destination",),
    section=Section.DESTINATIONS,
)
DROPPED = _counter(
    "openoutbox_events_dropped_total",
    "Events that a route dropped, by event type: they count as delivered and were not sent.",
    labels=("event_type",),
    section=Section.DESTINATIONS,
)
DEGRADED = _gauge(
    "openoutbox_degraded",
    "1 while fan-out, fleet, pauses, series or wake-up does not work, although deliveries go on; else 0. The log and "
    "/readyz say why.",
    labels=("part",),
    section=Section.BESIDE,
)
LOG_WRITTEN = _counter("openoutbox_log_written_total", "Attempts written to the delivery log.", section=Section.LOG)
LOG_DROPPED = _counter(
    "openoutbox_log_dropped_total", "Attempts that were dropped instead of logged.", section=Section.LOG
)
LOG_QUARANTINED = _counter(
    "openoutbox_log_quarantined_total", "Attempts that the log could not store.", section=Section.LOG
)
LOG_DEGRADED = _gauge(
    "openoutbox_log_degraded",
    "1 while the delivery log takes no attempts, or quarantines the newest; else 0.",
    section=Section.LOG,
)
LOG_READY_UNTIL = _gauge(
    "openoutbox_log_ready_until_timestamp_seconds",
    "Unix time until which the log has tables for new attempts.",
    section=Section.LOG,
)

_PART = ("database", "schema", "subscription", "part")

CHECKPOINT_ACTIVE = _gauge(
    "openoutbox_eventstore_checkpoint_active",
    "1 where an instance holds the lease",
    labels=_PART,
    section=Section.STORE,
)
CHECKPOINT_POSITION = _gauge(
    "openoutbox_eventstore_checkpoint_position", "Position of the checkpoint", labels=_PART, section=Section.STORE
)
CHECKPOINT_LAG_EVENTS = _gauge(
    "openoutbox_eventstore_checkpoint_lag_events",
    "Events of all tenants and types after the checkpoint, up to 100,000",
    labels=_PART,
    section=Section.STORE,
)
CHECKPOINT_LAG_SECONDS = _gauge(
    "openoutbox_eventstore_checkpoint_lag_seconds",
    "Age of the oldest event after the checkpoint",
    labels=_PART,
    section=Section.STORE,
)
PARKED_STREAMS = _gauge(
    "openoutbox_eventstore_parked_streams",
    "Streams that the subscription has set aside, behind an event that failed",
    labels=_PART[:3],
    section=Section.STORE,
)
LISTED_AT = _gauge(
    "openoutbox_eventstore_listed_timestamp_seconds",
    "Unix time at which the subscriptions were listed",
    labels=_PART[:2],
    section=Section.STORE,
)

CATALOGUE: tuple[Metric, ...] = tuple(_ROWS)
"""All of them, those of the contract first."""
COUNTED: Mapping[EngineCounter, Metric] = {metric.counts: metric for metric in CATALOGUE if metric.counts is not None}
"""The row of each counter of the engine."""
