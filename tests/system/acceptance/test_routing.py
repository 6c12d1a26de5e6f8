"""A relay with routes and several real brokers, seen from outside."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import pytest
import redis
from nats.js.api import StreamConfig

from relay.localservers.server import LocalServer
from tests.cli.running import call_cli
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.nats import NatsServer
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.timeout(180), pytest.mark.nats, pytest.mark.redis]

ACME = '{"tenant_id": "acme"}'
ROUTES = """
[[route]]
type = "orders.*"
via = "stream"
to = "shop.{type}"

[[route]]
type = "noise.*"
drop = true

[[route]]
type = "*"
via = "cache"
to = "{tenant}:{type}"
"""


@pytest.fixture
async def files(tmp_path: Path, own_nats: NatsServer, own_redis: ValkeyServer) -> dict[str, str]:
    """The variables of a relay with both destinations; NATS has a stream for ``shop.>``."""
    client = await nats.connect(own_nats.url)
    await client.jetstream().add_stream(StreamConfig(name="SHOP", subjects=["shop.>"]))
    await client.close()
    routes, destinations = tmp_path / "routes.toml", tmp_path / "destinations.toml"
    routes.write_text(ROUTES)
    destinations.write_text(f'[stream]\nurl = "{own_nats.url}"\n[cache]\nurl = "{own_redis.url}"\n')
    return {"ROUTES_FILE": str(routes), "DESTINATIONS_FILE": str(destinations)}


def entries(server: ValkeyServer, name: str) -> int:
    with redis.Redis.from_url(server.url, socket_timeout=patience()) as client:
        return int(client.xlen(name))


async def subjects(server: NatsServer) -> dict[str, int]:
    client = await nats.connect(server.url)
    try:
        info = await client.jetstream().stream_info("SHOP", subjects_filter=">")
        return dict(info.state.subjects or {})
    finally:
        await client.close()


def delivered(outbox: Outbox, event_type: str) -> int:
    return outbox.rows("event_type, status").count((event_type, "DELIVERED"))


async def test_events_go_where_the_routes_say(
    outbox: Outbox,
    daemon: StartDaemon,
    files: dict[str, str],
    own_nats: NatsServer,
    own_redis: ValkeyServer,
    tmp_path: Path,
) -> None:
    outbox.insert(
        [*[Row("orders.created")] * 3, *[Row("noise.x")] * 5, *[Row("mails", headers=ACME)] * 2, Row("mails")]
    )
    examined = call_cli(tmp_path, "check", "--json", STORAGE_URL=outbox.relay_url, **files)
    findings = [(one["subject"], one["message"]) for one in json.loads(examined.stdout)["findings"]]
    assert ("broker", "destination stream: nats: connected and authenticated") in findings
    assert ("broker", "destination cache: redis: connected and authenticated") in findings
    assert ("routes", "route 2 drops events of type 'noise.x'") in findings
    relay = daemon(RETRY_BASE_DELAY="1h", RETRY_MAX_DELAY="2h", **files)
    wait_until(lambda: relay.running and outbox.counts() == {"DELIVERED": 10, "PENDING": 1}, what="all but one")
    assert await subjects(own_nats) == {"shop.orders.created": 3}
    assert entries(own_redis, "acme:mails") == 2
    assert relay.metric("openoutbox_events_dropped_total", event_type="noise.x") == 5
    [(attempts, error)] = [row[1:] for row in outbox.rows("status, attempts, last_error") if row[0] == "PENDING"]
    assert attempts == 1
    assert str(error).startswith("ROUTE_INCOMPLETE: route 3 sends * to {tenant}:{type}, and the event has no header")
    outbox.check_invariants()


@pytest.mark.parametrize("stopped", ["cache", "stream"])
async def test_one_destination_that_is_away_holds_up_its_own_events_alone(
    outbox: Outbox,
    daemon: StartDaemon,
    files: dict[str, str],
    own_nats: NatsServer,
    own_redis: ValkeyServer,
    stopped: str,
) -> None:
    server: LocalServer = own_redis if stopped == "cache" else own_nats
    lost, flowing = ("mails", "orders.created") if stopped == "cache" else ("orders.created", "mails")

    def insert(count: int) -> None:
        outbox.insert([Row(one, headers=ACME) for one in (lost, flowing) for _ in range(count)])

    relay = daemon(**files).wait_ready()
    insert(5)
    wait_until(lambda: outbox.counts() == {"DELIVERED": 10}, what="both to deliver")
    server.stop()
    for round_ in range(1, 4):
        insert(5)
        wait_until(lambda: relay.running and delivered(outbox, flowing) == 5 + 5 * round_, what="the other to flow")  # noqa: B023
    status, body = relay.get("/readyz")
    assert status == 200
    named = [name for name, condition in json.loads(body).items() if str(condition).startswith("degraded")]
    assert named == [f"destination {stopped}"], "one outage, one name"
    assert relay.metric("openoutbox_destination_away", event_type=lost) == 1
    assert relay.metric("openoutbox_destination_up", destination=stopped) == 0
    assert relay.metric("openoutbox_relay_state") == 1
    server.start()
    wait_until(lambda: outbox.counts() == {"DELIVERED": 40}, 90, "the events of the one that is back")
    assert {row[0] for row in outbox.rows("attempts")} == {0}
    assert relay.metric("openoutbox_destination_away") == 0
    assert relay.stop() == 0
    outbox.check_invariants()
