"""What removes the repeats of a relay that was killed between the acknowledgement and the settle, by destination.

Each relay publishes all, can settle none, and is killed; the next one publishes all again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig

from openoutbox import inbox
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.support.aws import AwsAdmin
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.aws import CREDENTIALS, publisher_url
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import routed
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.looking import delivered
from tests.system.chaos.test_mixed_fleet import REFUSE

pytestmark = pytest.mark.timeout(180)

EVENTS = 40


def published_twice(outbox: Outbox, event_types: Sequence[str], env: dict[str, str]) -> None:
    env = {**env, "LEASE_TIMEOUT": "5s", "RETRY_BASE_DELAY": "100ms"}
    count = EVENTS * len(event_types)
    for event_type in event_types:
        outbox.fill(event_type, EVENTS)
    outbox.database.run(REFUSE)
    with Daemon(outbox.relay_url, {**env, "RELAY_ID": "first"}) as first:
        metric = "openoutbox_publisher_latency_seconds_count"
        wait_until(lambda: first.running and first.metric(metric, status="success") >= count, 60, "acknowledgements")
        first.kill()
    assert delivered(outbox) == 0
    outbox.database.run("DROP TRIGGER refuse_delivered ON openoutbox_events")
    with Daemon(outbox.relay_url, {**env, "RELAY_ID": "second"}) as second:
        wait_until(lambda: second.running and delivered(outbox) == count, 60, "every event to be delivered")


async def set_window(url: str, stream: str, subject: str, seconds: float) -> None:
    client = await nats.connect(url)
    await client.jetstream().update_stream(StreamConfig(name=stream, subjects=[subject], duplicate_window=seconds))
    await client.close()


def test_nats_stores_no_repeat_within_the_window_of_the_stream(
    outbox: Outbox, make_broker: MakeBroker, nats_url: str
) -> None:
    """And stores each of them in a stream whose window is shorter."""
    wide, narrow = make_broker("nats"), make_broker("nats")
    for broker, window in ((wide, 120.0), (narrow, 0.1)):
        asyncio.run(set_window(nats_url, broker.destination.partition(".")[0], broker.destination, window))
    published_twice(outbox, [wide.destination, narrow.destination], wide.env())
    for broker, repeats in ((wide, 0), (narrow, EVENTS)):
        received = broker.received()
        assert (len(received), received.total() - EVENTS) == (EVENTS, repeats)


@pytest.mark.parametrize(("kind", "repeats"), [("sqs", {".fifo": 0}), ("sns", {".fifo": 0, "": EVENTS})])
def test_a_fifo_queue_or_topic_stores_no_repeat_within_five_minutes(
    outbox: Outbox, aws_url: str, kind: str, repeats: dict[str, int]
) -> None:
    """On an emulator. A standard topic stores each of them; a standard queue, too, as the next test says."""
    admin, names = AwsAdmin(aws_url), {f"repeats-{uuid.uuid4().hex}{ending}": repeats[ending] for ending in repeats}
    for name in names:
        (admin.create_queue if kind == "sqs" else admin.create_topic)(name)
    env = {"PUBLISHER_TYPE": kind, "PUBLISHER_URL": publisher_url(kind, aws_url), **CREDENTIALS}
    published_twice(outbox, [*names], env)
    for name, stored in names.items():
        ids = [message.attributes["X-Event-ID"] for message in admin.drain(name)]
        assert (len(set(ids)), len(ids) - EVENTS) == (EVENTS, stored)


@pytest.mark.redis
@pytest.mark.rabbitmq
@pytest.mark.http
@pytest.mark.aws
def test_elsewhere_each_repeat_arrives_and_the_inbox_has_one_effect(
    outbox: Outbox, make_broker: MakeBroker, tmp_path: Path
) -> None:
    brokers = {kind: make_broker(kind) for kind in ("redis", "rabbitmq", "http", "sqs")}
    published_twice(outbox, [one.destination for one in brokers.values()], routed(tmp_path, brokers))
    create(outbox.url, TableName(DEFAULT_INBOX), [])
    for kind, broker in brokers.items():
        received = broker.received()
        assert (len(received), set(received.values())) == (EVENTS, {2}), kind
        effects = Counter[str]()
        with outbox.database.connect() as connection:
            for event_id in received.elements():
                with connection.transaction(), inbox.once(connection, event_id, consumer="billing") as first:
                    effects[event_id] += first
        assert (len(effects), set(effects.values())) == (EVENTS, {1}), kind
