"""Secrets from mounted files, and a bad one: what `/readyz` and the log say of it, and what they do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.daemon import Daemon
from tests.fixtures.outbox import Outbox, as_user
from tests.services.nats import NatsServer
from tests.waiting import wait_until

pytestmark = pytest.mark.acceptance

RIGHT, WRONG, STORAGE = "r1ght-secret", "wr0ng-secret", "st0rage-secret"


@pytest.fixture
def guarded() -> Iterator[NatsServer]:
    with NatsServer(config=f"authorization {{ user: relay, password: {RIGHT} }}") as server:
        yield server


def mounted(folder: Path, outbox: Outbox, server: NatsServer, password: str) -> dict[str, str]:
    storage, publisher = folder / "storage-url", folder / "publisher-url"
    storage.write_text(as_user(outbox.url, f"test_relay:{STORAGE}") + "\n", encoding="utf-8")
    publisher.write_text(f"nats://relay:{password}@127.0.0.1:{server.port}\n", encoding="utf-8")
    files = {"STORAGE_URL_FILE": str(storage), "PUBLISHER_URL_FILE": str(publisher)}
    return {"STORAGE_URL": "", "PUBLISHER_TYPE": "nats", **files}


def test_a_good_secret_from_a_file_makes_the_relay_ready(outbox: Outbox, guarded: NatsServer, tmp_path: Path) -> None:
    with Daemon("", mounted(tmp_path, outbox, guarded, RIGHT)) as relay:
        relay.wait_ready()
        assert relay.stop() == 0
        for secret in (RIGHT, STORAGE):
            assert secret not in relay.log()


def test_a_bad_secret_is_told_everywhere_without_itself(outbox: Outbox, guarded: NatsServer, tmp_path: Path) -> None:
    outbox.fill("t", 5)
    with Daemon("", mounted(tmp_path, outbox, guarded, WRONG)) as relay:
        wait_until(lambda: relay.running and "uthorization" in relay.get("/readyz")[1], 30, "the reason in /readyz")
        status, ready = relay.get("/readyz")
        assert status == 503
        wait_until(lambda: relay.metric("openoutbox_relay_state") == 2, 10, "the relay to be paused")
        told = ready + relay.get("/metrics")[1] + relay.get("/stats")[1]
        assert relay.stop() == 0
        told += relay.log() + relay.output()
    assert "uthorization" in relay_reasons(told)
    for secret in (WRONG, STORAGE):
        assert secret not in told
    assert outbox.database.run("SELECT DISTINCT status, attempts FROM openoutbox_events") == [("PENDING", 0)]


def relay_reasons(told: str) -> str:
    """The lines that speak of the broker."""
    return "\n".join(line for line in told.splitlines() if "broker" in line)
