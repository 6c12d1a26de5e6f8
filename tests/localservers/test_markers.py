"""A test without the marker of a server does not get it: this is what keeps servers out of ``make check``."""

from __future__ import annotations

import pytest

from relay.localservers.postgres import PostgresServer
from relay.localservers.server import LocalServer
from tests.support.needs import UnmarkedNeed
from tests.support.servers.nats import NatsServer
from tests.support.servers.rabbitmq import RabbitServer
from tests.support.servers.valkey import ValkeyServer


@pytest.mark.parametrize(
    ("server", "need"),
    [(PostgresServer, "postgres"), (NatsServer, "nats"), (ValkeyServer, "redis"), (RabbitServer, "rabbitmq")],
)
def test_a_server_that_no_marker_names_is_not_started(server: type[LocalServer], need: str) -> None:
    with pytest.raises(UnmarkedNeed, match=f"without the marker '{need}'"):
        server().start()
