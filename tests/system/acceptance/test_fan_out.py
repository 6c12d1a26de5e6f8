"""A relay that sends each event to two real brokers, of which one is stopped for a while."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import pytest
import redis
from nats.js.api import StreamConfig

from relay.localservers.server import LocalServer
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.cli.running import call_cli
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.servers.nats import NatsServer
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import patience, wait_until, wait_until_async

pytestmark = [pytest.mark.timeout(180), pytest.mark.nats, pytest.mark.redis]

ROUTES = """
[[route]]
type = "orders.*"
via = ["stream", "cache"]
to = ["shop.{type}", "orders"]
"""


@pytest.fixture
async def files(tmp_path: Path, own_nats: NatsServer, own_redis: ValkeyServer) -> dict[str, str]:
    """The variables of a relay with both destinations. NATS forgets the ids of messages at once."""
    client = await nats.connect(own_nats.url)
    await client.jetstream().add_stream(StreamConfig(name="SHOP", subjects=["shop.>"], duplicate_window=0.1))
    await client.close()
    routes, destinations = tmp_path / "routes.toml", tmp_path / "destinations.toml"
    routes.write_text(ROUTES)
    destinations.write_text(f'[stream]\nurl = "{own_nats.url}"\n[cache]\nurl = "{own_redis.url}"\n')
    return {"ROUTES_FILE": str(routes), "DESTINATIONS_FILE": str(destinations)}


def add_column(outbox: Outbox) -> None:
    assert add_extension(outbox.owner_url, TableName(), "fan-out")
    with outbox.database.connect() as connection:
        give_rights(connection)


def cached(server: ValkeyServer) -> int:
    with redis.Redis.from_url(server.url, socket_timeout=patience()) as client:
        return int(client.xlen("orders"))


async def streamed(server: NatsServer) -> int:
    client = await nats.connect(server.url)
    try:
        return (await client.jetstream().stream_info("SHOP")).state.messages
    finally:
        await client.close()


@pytest.mark.parametrize("stopped", ["cache", "stream"])
async def test_the_one_that_flows_gets_every_event_once_and_the_other_all_of_them_when_it_is_back(
    outbox: Outbox,
    daemon: StartDaemon,
    files: dict[str, str],
    own_nats: NatsServer,
    own_redis: ValkeyServer,
    stopped: str,
) -> None:
    add_column(outbox)
    server: LocalServer = own_redis if stopped == "cache" else own_nats
    relay = daemon(**files).wait_ready()
    outbox.insert([Row("orders.created")] * 5)
    wait_until(lambda: outbox.counts() == {"DELIVERED": 5}, what="both to have the first ones")
    server.stop()

    async def flowing() -> int:
        return await streamed(own_nats) if stopped == "cache" else cached(own_redis)

    for round_ in range(1, 5):
        outbox.insert([*[Row("orders.created")] * 5, Row("orders.paid")])

        async def has_all() -> bool:
            return relay.running and await flowing() == 5 + 6 * round_  # noqa: B023

        await wait_until_async(has_all, what="the other to flow")
    wait_until(lambda: outbox.counts() == {"DELIVERED": 5, "PENDING": 24}, what="the claims to be given back")
    other = "stream" if stopped == "cache" else "cache"
    wait_until(lambda: [*outbox.rows("acknowledged_by")].count(([other],)) == 24, what="the names to be written")
    assert relay.metric("openoutbox_destination_up", destination=stopped) == 0
    assert relay.get("/readyz")[0] == 200
    assert relay.metric("openoutbox_relay_state") == 1
    server.start()
    wait_until(lambda: outbox.counts() == {"DELIVERED": 29}, 90, "the one that is back to have all")
    assert (await streamed(own_nats), cached(own_redis)) == (29, 29)
    assert set(outbox.rows("attempts, acknowledged_by")) == {(0, None)}
    assert relay.stop() == 0
    outbox.check_invariants()


async def test_after_a_failure_one_gets_it_again_a_dead_event_goes_to_those_that_lack_it_and_a_delivered_one_to_all(
    outbox: Outbox,
    daemon: StartDaemon,
    files: dict[str, str],
    own_nats: NatsServer,
    own_redis: ValkeyServer,
    tmp_path: Path,
) -> None:
    add_column(outbox)
    with redis.Redis.from_url(own_redis.url) as client:
        client.set("orders", "in the way")  # XADD is refused: the key holds no stream
    relay = daemon(RETRY_MAX_ATTEMPTS="2", RETRY_BASE_DELAY="100ms", **files).wait_ready()
    [event] = outbox.insert([Row("orders.created")])
    wait_until(lambda: outbox.counts() == {"DEAD": 1}, what="the event to use up its attempts")
    row = outbox.row(event)
    assert (row["attempts"], row["acknowledged_by"]) == (2, ["stream"])
    assert "destination cache: " in str(row["last_error"])
    assert str(row["last_error"]).endswith("; acknowledged by stream")
    assert (await streamed(own_nats)) == 1
    with redis.Redis.from_url(own_redis.url) as client:
        client.delete("orders")

    def replay(*arguments: str) -> None:
        done = call_cli(tmp_path, "replay", *arguments, "--yes", STORAGE_URL=outbox.relay_url)
        assert done.returncode == 0, done.stderr

    replay("--status", "dead")
    wait_until(lambda: outbox.counts() == {"DELIVERED": 1}, what="the other to have it")
    assert (await streamed(own_nats), cached(own_redis)) == (1, 1)
    replay("--status", "delivered", "--id", event, "--force")
    wait_until(lambda: cached(own_redis) == 2, what="the replay to go to both")
    wait_until(lambda: outbox.counts() == {"DELIVERED": 1}, what="the replay to end")
    assert (await streamed(own_nats), cached(own_redis)) == (2, 2)
    assert relay.stop() == 0


async def test_without_the_column_it_says_so_and_all_get_it_again(
    outbox: Outbox,
    daemon: StartDaemon,
    files: dict[str, str],
    own_nats: NatsServer,
    own_redis: ValkeyServer,
    tmp_path: Path,
) -> None:
    checked = call_cli(tmp_path, "check", "--json", STORAGE_URL=outbox.relay_url, **files)
    findings = [one["message"] for one in json.loads(checked.stdout)["findings"] if one["subject"] == "fan-out"]
    assert [message.partition(":")[0] for message in findings] == ["there is no column acknowledged_by"]
    with redis.Redis.from_url(own_redis.url) as client:
        client.set("orders", "in the way")
    relay = daemon(RETRY_MAX_ATTEMPTS="3", RETRY_BASE_DELAY="200ms", **files).wait_ready()
    assert "fan_out_not_recorded" in {line.get("action") for line in relay.log_lines()}
    assert "degraded: " in json.loads(relay.get("/readyz")[1])["fan-out"]
    assert relay.metric("openoutbox_degraded", part="fan-out") == 1
    outbox.insert([Row("orders.created")])
    wait_until(lambda: outbox.counts() == {"DEAD": 1}, what="the event to use up its attempts")
    assert (await streamed(own_nats)) == 3


async def test_two_names_of_a_route_in_one_stream_get_all_copies(
    outbox: Outbox, daemon: StartDaemon, own_nats: NatsServer, tmp_path: Path
) -> None:
    """The stream knows a repeat by its id, whichever of its subjects it comes to."""
    client = await nats.connect(own_nats.url)
    await client.jetstream().add_stream(StreamConfig(name="SHOP", subjects=["shop.>"], duplicate_window=600))
    await client.close()
    routes, destinations = tmp_path / "routes.toml", tmp_path / "destinations.toml"
    routes.write_text('[[route]]\ntype = "orders.*"\nvia = ["a", "b"]\nto = ["shop.a", "shop.b"]\n')
    destinations.write_text(f'[a]\nurl = "{own_nats.url}"\n[b]\nurl = "{own_nats.url}"\n')
    files = {"ROUTES_FILE": str(routes), "DESTINATIONS_FILE": str(destinations)}
    add_column(outbox)
    outbox.insert([Row("orders.placed")] * 20)
    checked = call_cli(tmp_path, "check", STORAGE_URL=outbox.relay_url, **files)
    assert checked.returncode == 0, checked.stdout
    assert "stream SHOP recognizes a repeated event" in checked.stdout
    daemon(**files)
    wait_until(lambda: outbox.counts() == {"DELIVERED": 20}, what="all to be delivered")
    assert await streamed(own_nats) == 40
