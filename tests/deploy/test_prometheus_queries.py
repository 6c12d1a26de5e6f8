"""Every query of the dashboards and rules, tried by a Prometheus that scrapes a running relay."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import pytest

from deploy.grafana.dashboards import DASHBOARDS
from relay.core.event import Status
from relay.deliverylog import open_delivery_log
from relay.eventstore import ANY, EventStore, NewEvent
from tests.deploy.test_grafana import dashboard
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.prometheus import PrometheusServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.prometheus

TENANT = STREAM = "00000000-0000-0000-0000-000000000001"
CHOICES = {"$__rate_interval": "5s", "$table": ".*", "$relay": ".*"}
CHOICES |= {"$database": ".*", "$schema": ".*", "$subscription": ".*"}


def chosen(expr: str) -> str:
    """A query as Grafana sends it: with each variable's value."""
    for variable, value in CHOICES.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return expr


def panels() -> Iterator[tuple[str, str]]:
    """The place of each query, and the query."""
    for name in DASHBOARDS:
        for panel in dashboard(name)["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']} {target['refId']}", chosen(target["expr"])


async def prepare(outbox: Outbox) -> None:
    """A delivery log, and an event store with a subscription, beside the outbox."""
    log = await open_delivery_log(outbox.url)
    await log.migrate()
    await log.close()
    async with await EventStore.connect(outbox.url, schema="store") as store:
        await store.migrate()
        await store.provision_tenant(TENANT)
        await store.append(TENANT, STREAM, [NewEvent("A")], ANY)
        batches = store.subscribe("billing")
        await anext(batches)
        await batches.aclose()


def is_number(series: object) -> bool:
    """Whether a result's value is a number; a share of nothing is not."""
    text = json.dumps(series)
    match = re.search(r'"value": \[[\d.]+, "([^"]+)"\]', text)
    return match is not None and math.isfinite(float(match[1]))


async def test_every_query_has_an_answer(outbox: Outbox) -> None:
    await prepare(outbox)
    env = {"PUBLISHER_TYPE": "null", "DELIVERY_LOG_URL": outbox.url, "EVENT_STORE_SCHEMA": "store", "RELAY_ID": "r1"}
    with Daemon(outbox.url, env | {"DELIVERY_LOG_FLUSH_INTERVAL": "100ms"}) as relay:
        relay.wait_ready()
        with PrometheusServer(f"127.0.0.1:{relay.port}") as prometheus:
            wait_until(lambda: prometheus.query("openoutbox_relay_state"), what="the first scrape")
            outbox.fill("t", 500)  # between two scrapes, so that there are rates
            outbox.wait_finished(30)
            unanswered = dict(panels())

            def all_answered() -> bool:
                for place, expr in list(unanswered.items()):
                    if any(is_number(series) for series in prometheus.query(expr)):
                        del unanswered[place]
                return not unanswered

            try:
                wait_until(all_answered, 20.0)
            except TimeoutError:
                pytest.fail(f"no number for {unanswered}")
            wait_until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), 20.0, "healthy rules")
            recorded = "job_op:openoutbox_storage_latency_seconds:p99_5m"
            wait_until(lambda: len(prometheus.query(recorded)) > 1, 20.0, "recorded series")
            assert prometheus.query('ALERTS{alertstate="firing"}') == []
    assert outbox.counts() == {Status.DELIVERED: 500}


def test_a_query_that_is_wrong_is_refused(outbox: Outbox) -> None:
    with PrometheusServer("127.0.0.1:1") as prometheus, pytest.raises(OSError, match="400"):
        prometheus.query("sum by (job) (")
