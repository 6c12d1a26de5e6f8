"""One destination whose answers cost much to read: the relay answers /healthz, and the others are on time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.localservers.process import accepts, free_port
from relay.localservers.server import LocalServer
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.paths import ROOT
from tests.support.servers.aws import CREDENTIALS
from tests.support.servers.webhooks import HostileServer, WebhookServer
from tests.support.waiting import pace, patience, wait_until
from tests.system.chaos.test_any_row_and_answer import LONGEST_SILENCE, Silence

_SECONDS = 3.0
_LATEST = 2.0  # p99 of the other destination, seconds
_LONG = ("nats-info", "nats-error", "amqp-return", "redis-push", "redis-moving", "redis-empty", "sqs-interim", "sns")
_AWS = ("sqs", "sns")
_ROUTES = """
[[route]]
type = "hostile"
via = "hostile"

[[route]]
type = "*"
via = "good"
"""
_P99 = """
SELECT count(*), percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM delivered_at - created_at))
FROM openoutbox_events WHERE event_type = 'good' AND status = 'DELIVERED'
"""


class FloodingBroker(LocalServer):
    """See ``tests.support.servers.flooding_broker``."""

    name = "Flooding broker"
    ready_within = 30.0

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self.port = 0

    @property
    def url(self) -> str:
        """Its address, by the scheme of its protocol."""
        scheme, address = self._kind.partition("-")[0], f"127.0.0.1:{self.port}"
        return f"{scheme}://{'' if scheme not in _AWS else 'eu-central-1?endpoint=http://'}{address}"

    def _prepare(self) -> None:
        self.port = free_port()

    def _command(self) -> list[str | Path]:
        return [sys.executable, "-P", "-m", "tests.support.servers.flooding_broker", str(self.port), self._kind]

    def _environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def _answers(self) -> bool:
        return accepts(self.port)


@pytest.fixture
def costly(request: pytest.FixtureRequest, hostile_webhooks: HostileServer) -> Iterator[str]:
    """The URL of a destination of that kind."""
    kind: str = request.param
    if kind == "http":
        yield hostile_webhooks.url_of("costly")
    else:
        with FloodingBroker(kind) as server:
            yield server.url


@pytest.mark.http
@pytest.mark.parametrize(
    "costly",
    [
        "http",
        "nats-ping",
        "amqp-nack",
        "sqs",
        *(pytest.param(kind, marks=pytest.mark.soak) for kind in _LONG),
    ],
    indirect=True,
)
def test_a_destination_that_is_costly_to_read_holds_up_no_other(
    outbox: Outbox, daemon: StartDaemon, own_webhooks: WebhookServer, costly: str, tmp_path: Path
) -> None:
    (tmp_path / "routes").write_text(_ROUTES)
    (tmp_path / "destinations").write_text(f'[hostile]\nurl = "{costly}"\n[good]\nurl = "{own_webhooks.url}"\n')
    relay = daemon(
        ROUTES_FILE=str(tmp_path / "routes"),
        DESTINATIONS_FILE=str(tmp_path / "destinations"),
        SNS_TOPIC_ARN_PREFIX="arn:aws:sns:eu-central-1:123456789012:",
        HTTP_ALLOW_PRIVATE="true",
        RETRY_BASE_DELAY="10ms",
        RETRY_MAX_DELAY="10ms",
        POLL_INTERVAL="50ms",
        **CREDENTIALS,
    ).wait_ready()
    silence = Silence(relay)
    outbox.insert([Row("hostile")] * 500)
    inserted, end = 0, time.monotonic() + _SECONDS
    with silence.listened_to():
        while time.monotonic() < end:
            outbox.insert([Row("good")])
            inserted += 1
            pace(0.05)
        wait_until(lambda: outbox.database.run(_P99)[0][0] == inserted, what="the others")
    ((_, p99),) = outbox.database.run(_P99)
    print(f"p99 of {inserted} others {p99:.3f} s, longest silence of /healthz {silence.longest:.3f} s", file=sys.stderr)
    assert p99 < patience(_LATEST)
    assert silence.longest < patience(LONGEST_SILENCE)
