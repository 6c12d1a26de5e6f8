"""Two endpoints in one table: one host is gone, or one path hangs or is slow, and the other's events flow."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.identities import Identities
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience, wait_until


def test_a_host_whose_clock_is_wrong_signs_by_the_databases(
    outbox: Outbox, webhooks: WebhookServer, http_authority: Identities
) -> None:
    """Receivers refuse a signature whose time is five minutes off."""
    variables = {
        "PUBLISHER_TYPE": "http",
        "PUBLISHER_URL": webhooks.url.replace("127.0.0.1", "localhost"),
        "HTTP_TLS_CA": str(http_authority.ca_file),
        "HTTP_ALLOW_PRIVATE": "true",
    }
    with Daemon(outbox.relay_url, variables, module="tests.system.chaos.late_host") as relay:
        relay.wait_ready()
        outbox.insert([Row("late.host")] * 20)
        outbox.wait_finished(60)
        assert outbox.counts() == {"DELIVERED": 20}
        times = [float(post.header("webhook-timestamp") or 0) for post in webhooks.received("late.host")]
        assert max(abs(one - time.time()) for one in times) < 300
        assert '"clock_offset"' in relay.log()
        assert relay.metric("openoutbox_clock_offset_seconds") == pytest.approx(600.0, abs=5.0)


# One that refuses is noticed sooner.
@pytest.mark.parametrize(
    "fault",
    [Mode.SILENCE, pytest.param(Mode.REFUSE, marks=pytest.mark.soak)],
    ids=lambda fault: fault.name.lower(),
)
def test_a_host_that_is_gone_holds_up_no_event_of_another(
    outbox: Outbox,
    webhooks: WebhookServer,
    http_authority: Identities,
    daemon: StartDaemon,
    tmp_path: Path,
    fault: Mode,
) -> None:
    table = tmp_path / "endpoints.toml"
    with TcpProxy(webhooks.port) as proxy:
        proxy.set(fault)
        urls = {"gone": f"https://127.0.0.1:{proxy.port}/gone", "there": f"https://localhost:{webhooks.port}/there"}
        rows = [f'[[endpoints]]\nevents = "{name}.*"\nurl = "{url}"\n' for name, url in urls.items()]
        table.write_text("\n".join(rows))
        relay = daemon(
            PUBLISHER_TYPE="http",
            HTTP_ENDPOINTS_FILE=str(table),
            HTTP_TLS_CA=str(http_authority.ca_file),
            HTTP_ALLOW_PRIVATE="true",
            HTTP_TIMEOUT="1s",
            HTTP_CONNECTION_TIMEOUT="500ms",
            PUBLISHER_CONNECT_RETRY_INTERVAL="500ms",
        ).wait_ready()
        outbox.insert([Row("gone.a"), Row("there.a")] * 100)
        wait_until(lambda: outbox.counts().get("DELIVERED") == 100, what="the events of the other host")
        wait_until(lambda: f"destination 127.0.0.1:{proxy.port}" in relay.get("/readyz")[1], what="/readyz to name it")
        outbox.insert([Row("there.a")] * 50)
        wait_until(lambda: outbox.counts().get("DELIVERED") == 150, what="more of them")
        status, body = relay.get("/readyz")
        assert status == 200, body
        assert relay.metric("openoutbox_relay_state") == 1
        proxy.set(Mode.FLOW)
        outbox.wait_finished(60)
    assert outbox.counts() == {"DELIVERED": 250}
    assert outbox.rows("max(attempts)") == [(0,)]
    ids = [post.header("webhook-id") for post in webhooks.received("gone.a")]
    assert len(set(ids)) >= 100


@pytest.mark.parametrize(
    ("fault", "ordering"),
    [
        ("hang", "key"),
        ("slow", "none"),
        pytest.param("hang", "none", marks=pytest.mark.soak),
        pytest.param("slow", "key", marks=pytest.mark.soak),
    ],
)
def test_a_path_that_hangs_or_is_slow_holds_up_no_event_of_another_path(
    outbox: Outbox, own_webhooks: WebhookServer, daemon: StartDaemon, tmp_path: Path, fault: str, ordering: str
) -> None:
    """Of one host, and with more events waiting than may be in flight."""
    table = tmp_path / "endpoints.toml"
    url = own_webhooks.url
    table.write_text(
        "\n".join(f'[[endpoints]]\nevents = "{name}"\nurl = "{url}/{name}"\n' for name in (fault, "there"))
    )
    if ordering == "key":
        add_extension(outbox.owner_url, TableName(), "key-order")
    relay = daemon(
        PUBLISHER_TYPE="http",
        HTTP_ENDPOINTS_FILE=str(table),
        HTTP_ALLOW_PRIVATE="true",
        BATCH_SIZE="50",
        MAX_IN_FLIGHT="200",
        ORDERING=ordering,
    ).wait_ready()
    outbox.insert([Row(fault)] * 1000)

    def delivered(events: int) -> bool:
        return outbox.rows("count(*) FILTER (WHERE event_type = 'there' AND status = 'DELIVERED')") == [(events,)]

    longest = "max(delivered_at - created_at) FILTER (WHERE event_type = 'there')"
    held = f"count(*) FILTER (WHERE event_type = '{fault}' AND status = 'DELIVERING')"
    wait_until(lambda: outbox.rows(held)[0][0] >= 100, what="the path to hold places")
    for number in range(1, 11):
        outbox.insert([Row("there")] * 20)
        wait_until(partial(delivered, 20 * number), what="the other path's events")
    [(slowest,)] = outbox.rows(longest)
    assert slowest.total_seconds() < patience(2.0)
    wait_until(
        lambda: f"destination 127.0.0.1:{own_webhooks.port}" in relay.get("/readyz")[1], what="/readyz to say so"
    )
    assert relay.get("/readyz")[0] == 200
