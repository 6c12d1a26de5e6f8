"""The dashboards: what operators look at, in which unit, and what each plot means.

``job`` is one outbox table (docs/operate/alerts.md). The backlog is the table's and every relay exports it,
so it is the maximum over relays; counters are summed.
"""

from __future__ import annotations

from typing import Final

from deploy.grafana.model import Dashboard, Panel, Query, Variable
from relay.core.destination import DestinationState

_CHOSEN: Final = 'job=~"$table", relay_id=~"$relay"'
_SCHEMA: Final = 'database=~"$database", schema=~"$schema"'
_STORE: Final = f'{_SCHEMA}, subscription=~"$subscription"'
_PART: Final = "{{subscription}} {{part}}"
_LISTED: Final = "openoutbox_eventstore_listed_timestamp_seconds"
_WINDOW: Final = "[$__rate_interval]"
_COLOURS: Final = ("green", "yellow", "orange", "red", "purple")
_DESTINATION_STATES: Final = tuple(
    (state.value, state.name.lower(), colour) for state, colour in zip(DestinationState, _COLOURS, strict=True)
)
_METRICS: Final = "reference/metrics.md"
_TABLE: Final = Variable("table", "Table (job)", "openoutbox_relay_state", "job")
_RELAY: Final = Variable("relay", "Relay", 'openoutbox_relay_state{job=~"$table"}', "relay_id")


def _rate(series: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({series}{{{_CHOSEN}{where}}}{_WINDOW}))"


def _increase(series: str, by: str) -> str:
    return f"sum by ({by}) (increase({series}{{{_CHOSEN}}}{_WINDOW}))"


def _largest(series: str, by: str = "job") -> str:
    return f"max by ({by}) ({series}{{{_CHOSEN}}})"


def _ratio(part: str, whole: str, where: str = "") -> str:
    return f"{_rate(part, 'job', where)} / {_rate(whole, 'job')}"


def _checkpoint(series: str, window: str = "") -> str:
    return f"max by (subscription, part) ({series}{{{_STORE}}}{window})"


def _quantile(share: float, series: str, by: str = "", where: str = "") -> str:
    return f"histogram_quantile({share}, {_rate(f'{series}_bucket', f'{by}le', where)})"


FLEET: Final = Dashboard(
    "openoutbox-fleet",
    "Open Outbox: fleet",
    "The relays: which run, in which state and version, how much each carries.",
    (_TABLE, _RELAY),
    (
        Panel(
            "State of each relay",
            "Active; paused: the broker is unreachable, no attempts are used; error: the database is unreachable.",
            "none",
            "operate/alerts.md#outboxrelaypaused",
            (Query(f"openoutbox_relay_state{{{_CHOSEN}}}", "{{relay_id}}"),),
            states=((1, "active", "green"), (2, "paused", "orange"), (3, "error", "red")),
        ),
        Panel(
            "Pauses of operators",
            "Pauses that each relay obeys: it claims nothing of what is paused. All relays should show the same.",
            "short",
            "operate/running.md#pause-and-resume",
            (Query(f"openoutbox_paused{{{_CHOSEN}}}", "{{relay_id}}"),),
        ),
        Panel(
            "Relays by version",
            "During a roll-out two versions run side by side; afterwards one line is left.",
            "short",
            "operate/upgrades.md",
            (Query(f"count by (version) (openoutbox_build_info{{{_CHOSEN}}})", "{{version}}"),),
        ),
        Panel(
            "Attempts written by each relay",
            "Deliveries and failed attempts whose outcome is in the database.",
            "cps",
            _METRICS,
            (Query(_rate("openoutbox_events_total", "relay_id, status"), "{{relay_id}} {{status}}"),),
        ),
        Panel(
            "Events in flight",
            "Claimed and not settled. A relay at its MAX_IN_FLIGHT waits for the broker or the database.",
            "short",
            "operate/sizing.md#throughput",
            (Query(f"openoutbox_in_flight_events{{{_CHOSEN}}}", "{{relay_id}}"),),
        ),
        Panel(
            "Time since the last claim",
            "An empty claim counts. It grows while a relay is paused, cannot claim, or hangs.",
            "s",
            "operate/alerts.md#outboxnotclaiming",
            (Query(f"time() - openoutbox_last_successful_claim_timestamp_seconds{{{_CHOSEN}}}", "{{relay_id}}"),),
            warn_above=300,
        ),
        Panel(
            "Leases that ended without an outcome",
            "Reclaimed: a relay was killed or froze, each a failed attempt. Lost: an outcome came after that.",
            "short",
            "operate/alerts.md#outboxleasesexpiring",
            (
                Query(
                    _increase("openoutbox_leases_reaped_total", "relay_id, result"),
                    "{{relay_id}} reclaimed, {{result}}",
                ),
                Query(_increase("openoutbox_leases_lost_total", "relay_id"), "{{relay_id}} lost"),
            ),
        ),
        Panel(
            "Processor time",
            "Cores in use by each relay's process. A relay uses one core at most, libraries' threads apart.",
            "percentunit",
            "operate/sizing.md",
            (Query(f'rate(process_cpu_seconds_total{{job=~"$table"}}{_WINDOW})', "{{instance}}"),),
        ),
        Panel(
            "Memory",
            "Resident memory of each relay's process; BATCH_BYTES and MAX_IN_FLIGHT bound it.",
            "bytes",
            "operate/sizing.md",
            (Query('process_resident_memory_bytes{job=~"$table"}', "{{instance}}"),),
        ),
    ),
)

DESTINATION: Final = Dashboard(
    "openoutbox-destination",
    "Open Outbox: destination",
    "From the application's insert to the broker's acknowledgement: lag, latency, failures.",
    (_TABLE, _RELAY),
    (
        Panel(
            "State of each destination",
            "Flowing; slow: late answers; blocked: takes nothing; away: no answer; refused: login, TLS or a right.",
            "none",
            "operate/alerts.md#outboxdestinationaway",
            (Query(_largest("openoutbox_destination_state", "job, destination"), "{{job}} {{destination}}"),),
            states=_DESTINATION_STATES,
        ),
        Panel(
            "Lag",
            "How long the oldest event that is due has been due; scheduled and backed-off events do not raise it.",
            "s",
            "operate/alerts.md#outboxlagging",
            (Query(_largest("openoutbox_backlog_oldest_due_age_seconds"), "{{job}}"),),
            warn_above=60,
        ),
        Panel(
            "Backlog",
            "PENDING events: new ones, and those that failed before and wait for their next attempt.",
            "short",
            "operate/alerts.md#outboxeventsfailing",
            (Query(_largest("openoutbox_backlog_pending_count", "job, status"), "{{job}} {{status}}"),),
        ),
        Panel(
            "Deliveries and failed attempts",
            "Attempts whose outcome is written. The rate of deliveries is the throughput.",
            "cps",
            _METRICS,
            (Query(_rate("openoutbox_events_total", "job, status"), "{{job}} {{status}}"),),
        ),
        Panel(
            "Dead letters",
            "Events in DEAD: refused for good, or their attempts are used up. They wait for an operator.",
            "short",
            "operate/alerts.md#outboxeventsdying",
            (Query(_largest("openoutbox_backlog_dead_events"), "{{job}}"),),
        ),
        Panel(
            "From insert to acknowledgement",
            "Quantiles of created_at to the broker's acknowledgement. Exemplars lead to the traces of sampled events.",
            "s",
            "operate/monitoring.md#traces",
            (
                Query(_quantile(0.5, "openoutbox_events_e2e_latency_seconds"), "p50"),
                Query(_quantile(0.95, "openoutbox_events_e2e_latency_seconds"), "p95"),
                Query(_quantile(0.99, "openoutbox_events_e2e_latency_seconds"), "p99", exemplars=True),
            ),
        ),
        Panel(
            "The broker's answer",
            "Quantiles of the time from offering an event to its answer, by result.",
            "s",
            _METRICS,
            (
                Query(_quantile(0.5, "openoutbox_publisher_latency_seconds", "status, "), "p50 {{status}}"),
                Query(_quantile(0.99, "openoutbox_publisher_latency_seconds", "status, "), "p99 {{status}}"),
            ),
        ),
        Panel(
            "Share of failed attempts",
            "Failed attempts among all. Without attempts there is no line.",
            "percentunit",
            "reference/messages.md#errors",
            (
                Query(
                    _ratio("openoutbox_events_total", "openoutbox_events_total", ', status="failed"'),
                    "{{job}}",
                ),
            ),
        ),
        Panel(
            "Events released",
            "Released without using up an attempt: the broker was unreachable, or the relay stopped.",
            "cps",
            "operate/alerts.md#outboxrelaypaused",
            (Query(_rate("openoutbox_events_released_total", "job, relay_id"), "{{job}} {{relay_id}}"),),
        ),
    ),
)

DATABASE: Final = Dashboard(
    "openoutbox-database",
    "Open Outbox: database",
    "What the relays ask of PostgreSQL: statements, their latency and failures, the table's age.",
    (_TABLE, _RELAY),
    (
        Panel(
            "Latency of statements, p99",
            "By operation. A claim that rises steadily means a held xmin horizon or dead index entries.",
            "s",
            "operate/large-table.md",
            (Query(_quantile(0.99, "openoutbox_storage_latency_seconds", "op, "), "{{op}}"),),
        ),
        Panel(
            "Latency of statements, median",
            "By operation.",
            "s",
            _METRICS,
            (Query(_quantile(0.5, "openoutbox_storage_latency_seconds", "op, "), "{{op}}"),),
        ),
        Panel(
            "Statements",
            "By operation. Claims beside an empty table are polls.",
            "cps",
            _METRICS,
            (Query(_rate("openoutbox_storage_latency_seconds_count", "op"), "{{op}}"),),
        ),
        Panel(
            "Failed statements",
            "By operation. Failed settles are repeated: outcomes wait in the relay.",
            "cps",
            "operate/alerts.md#outboxrelayerror",
            (Query(_rate("openoutbox_storage_latency_seconds_count", "op", ', status="failed"'), "{{op}}"),),
        ),
        Panel(
            "Events in a claim",
            "Average of claims that were not empty. At BATCH_SIZE the relays work through a backlog.",
            "short",
            "operate/sizing.md#throughput",
            (
                Query(
                    _ratio("openoutbox_events_batch_size_sum", "openoutbox_events_batch_size_count"),
                    "{{job}}",
                ),
            ),
        ),
        Panel(
            "Age of the oldest delivered row",
            "Above the age that prune retains (seven days in deploy), prune does not run or fails.",
            "s",
            "operate/alerts.md#outboxnotpruned",
            (Query(_largest("openoutbox_oldest_delivered_age_seconds"), "{{job}}"),),
            warn_above=7 * 86400 + 6 * 3600,
        ),
        Panel(
            "Time for which the horizon is held",
            "An open transaction, a prepared one or a slot keeps vacuum from removing dead rows: the table grows.",
            "s",
            "operate/alerts.md#outboxhorizonheld",
            (Query(_largest("openoutbox_horizon_held_seconds"), "{{job}}"),),
            warn_above=1800,
        ),
        Panel(
            "Age of the backlog's counts",
            "Where counting is slow it is done less often; the lag stays fresh.",
            "s",
            "operate/large-table.md",
            (Query(f"time() - {_largest('openoutbox_backlog_read_timestamp_seconds')}", "{{job}}"),),
        ),
    ),
)

DELIVERY_LOG: Final = Dashboard(
    "openoutbox-delivery-log",
    "Open Outbox: delivery log",
    "Whether every attempt is recorded. Needs DELIVERY_LOG_URL.",
    (_TABLE, _RELAY),
    (
        Panel(
            "Attempts recorded",
            "Written to the delivery log.",
            "cps",
            "operate/delivery-log.md",
            (Query(_rate("openoutbox_log_written_total", "job, relay_id"), "{{job}} {{relay_id}}"),),
        ),
        Panel(
            "Attempts that are not in the log",
            "Dropped: the log was too slow or away, and the queue was full. Quarantined: the log could not store them.",
            "cps",
            "operate/delivery-log.md",
            (
                Query(_rate("openoutbox_log_dropped_total", "job"), "{{job}} dropped"),
                Query(_rate("openoutbox_log_quarantined_total", "job"), "{{job}} quarantined"),
            ),
        ),
        Panel(
            "Share of attempts that is recorded",
            "Written among those settled; below 1 with DELIVERY_LOG_RECORD=failed, or while attempts are dropped.",
            "percentunit",
            "operate/delivery-log.md",
            (Query(_ratio("openoutbox_log_written_total", "openoutbox_events_total"), "{{job}}"),),
        ),
        Panel(
            "Time for which there are tables",
            "PostgreSQL: until the last month that is ready. Below zero, attempts are quarantined.",
            "s",
            "operate/alerts.md#outboxlogmonthmissing",
            (Query(f"min by (job) (openoutbox_log_ready_until_timestamp_seconds{{{_CHOSEN}}}) - time()", "{{job}}"),),
        ),
    ),
)

EVENT_STORE: Final = Dashboard(
    "openoutbox-event-store",
    "Open Outbox: event store",
    "Subscriptions: how far each is, and how far behind. Needs EVENT_STORE_SCHEMA, or the listing as a text file.",
    (
        Variable("database", "Database", _LISTED, "database"),
        Variable("schema", "Schema", f'{_LISTED}{{database=~"$database"}}', "schema"),
        Variable("subscription", "Subscription", "openoutbox_eventstore_checkpoint_position", "subscription"),
    ),
    (
        Panel(
            "Lag",
            "Age of the oldest event after the checkpoint.",
            "s",
            "operate/alerts.md#outboxsubscriptionlagging",
            (Query(_checkpoint("openoutbox_eventstore_checkpoint_lag_seconds"), _PART),),
            warn_above=300,
        ),
        Panel(
            "Events behind",
            "Events of all tenants and types after the checkpoint, counted up to 100,000.",
            "short",
            "guide/event-store.md#watching-the-lag",
            (Query(_checkpoint("openoutbox_eventstore_checkpoint_lag_events"), _PART),),
        ),
        Panel(
            "Positions a second",
            "How fast each checkpoint moves; 0 where nothing is appended or the consumer stands still.",
            "cps",
            "guide/event-store.md#watching-the-lag",
            (Query(_checkpoint("rate(openoutbox_eventstore_checkpoint_position", f"{_WINDOW})"), _PART),),
        ),
        Panel(
            "Consumers",
            "Whether an instance holds the lease of the subscription or part.",
            "none",
            "operate/alerts.md#outboxsubscriptionlagging",
            (Query(_checkpoint("openoutbox_eventstore_checkpoint_active"), _PART),),
            states=((0, "no consumer", "orange"), (1, "active", "green")),
        ),
        Panel(
            "Streams set aside",
            "Behind an event that failed: they wait for an operator.",
            "short",
            "operate/alerts.md#outboxsubscriptionparked",
            (Query(_checkpoint("openoutbox_eventstore_parked_streams"), "{{subscription}}"),),
            warn_above=1,
        ),
        Panel(
            "Age of the listing",
            "The other plots show the state of that moment.",
            "s",
            "operate/alerts.md#outboxsubscriptionsnotlisted",
            (Query(f"time() - max by (database, schema) ({_LISTED}{{{_SCHEMA}}})", "{{database}} {{schema}}"),),
            warn_above=600,
        ),
    ),
)

DASHBOARDS: Final = {
    "fleet": FLEET,
    "destination": DESTINATION,
    "database": DATABASE,
    "delivery-log": DELIVERY_LOG,
    "event-store": EVENT_STORE,
}
"""By the name of the file."""
