"""One trace from the application's span over the relay's to the message, through PostgreSQL, Redis and a collector."""

from __future__ import annotations

import re
import urllib.request
import uuid

import psycopg
import pytest
import redis
from opentelemetry import trace as api

from openoutbox import NewEvent, enqueue
from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.otlp import attributes_of, running_collector
from tests.support.waiting import patience, wait_until

pytestmark = pytest.mark.timeout(120)

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


def announce(outbox: Outbox, stream: str, *, sampled: bool) -> str:
    """Announce an event within an application's span; its id."""
    state = api.TraceState.from_header(["vendor=1"])
    span = api.NonRecordingSpan(api.SpanContext(TRACE, SPAN, False, api.TraceFlags(int(sampled)), state))
    event = NewEvent(stream, b"{}", headers={"n": 12345678901234567890123})
    with api.use_span(span), psycopg.connect(outbox.writer_url) as connection:
        enqueue(connection, event, trace=True)
    return str(event.event_id)


def openmetrics(relay: Daemon) -> str:
    """The metrics as Prometheus asks for them."""
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    request = urllib.request.Request(f"http://127.0.0.1:{relay.port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=patience(10)) as response:
        text: str = response.read().decode()
    return text


def test_a_message_continues_the_trace_of_the_application(outbox: Outbox, daemon: StartDaemon, redis_url: str) -> None:
    stream = f"traces-{uuid.uuid4().hex}"
    with running_collector() as collector, redis.Redis.from_url(redis_url, decode_responses=True) as client:
        sampled, unsampled = announce(outbox, stream, sampled=True), announce(outbox, stream, sampled=False)
        relay = daemon(
            PUBLISHER_TYPE="redis", PUBLISHER_URL=redis_url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, RELAY_ID="r1"
        )
        wait_until(lambda: client.xlen(stream) == 2)
        outbox.wait_finished(30)
        messages = {entry["id"]: entry for _, entry in client.xrange(stream)}
        exposed = openmetrics(relay)
        assert relay.stop() == 0
        spans = {span.name: span for span in collector.spans()}
    assert messages[unsampled]["h:traceparent"] == f"00-{TRACE:032x}-{SPAN:016x}-00"
    published = spans[f"publish {stream}"]
    assert messages[sampled]["h:traceparent"] == f"00-{TRACE:032x}-{published.span_id.hex()}-01"
    assert (messages[sampled]["h:tracestate"], messages[sampled]["h:n"]) == ("vendor=1", "12345678901234567890123")
    assert (published.trace_id.hex(), published.parent_span_id.hex()) == (f"{TRACE:032x}", f"{SPAN:016x}")
    assert attributes_of(list(published.attributes))["messaging.message.id"] == sampled
    assert set(spans) == {f"publish {stream}", "claim openoutbox_events", "settle openoutbox_events"}
    [exemplar] = re.findall(r"^openoutbox_events_e2e_latency_seconds_bucket.* # {(.*)}", exposed, re.MULTILINE)
    assert set(exemplar.split(",")) == {f'trace_id="{TRACE:032x}"', f'span_id="{published.span_id.hex()}"'}
    assert "otel_" not in relay.log()


@pytest.mark.parametrize("status", [0, 503])
def test_a_collector_that_hangs_or_refuses_holds_up_no_delivery_and_no_stop(
    outbox: Outbox, daemon: StartDaemon, status: int
) -> None:
    with running_collector() as collector:
        if status:
            collector.status = status
        else:
            collector.may_answer.clear()
        relay = daemon(
            PUBLISHER_TYPE="null",
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces",
            OTEL_EXPORTER_OTLP_TIMEOUT="600000",  # longer than the test: nothing may wait for it
            OTEL_BSP_SCHEDULE_DELAY="20",
            OTEL_BSP_MAX_QUEUE_SIZE="20",
        )
        announce(outbox, "orders", sampled=True)
        wait_until(lambda: collector.traces, what="the request that does not succeed")
        for _ in range(40):
            announce(outbox, "orders", sampled=True)
        outbox.wait_finished(30)
        assert relay.metric("openoutbox_events_total", status="success") == 41
        assert relay.stop() == 0
        dropped = [line["spans"] for line in relay.log_lines() if line.get("action") == "spans_dropped"]
    assert sum(dropped) >= 40
