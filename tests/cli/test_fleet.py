"""Relays of one table: the second destination is refused with exit code 2, and ``relay-cli fleet`` lists who lives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import call_cli
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres


def members(outbox: Outbox, tmp_path: Path) -> list[dict[str, Any]]:
    listed = call_cli(tmp_path, "fleet", "--json", STORAGE_URL=outbox.reader_url)
    assert listed.returncode == 0, listed.stderr
    relays: list[dict[str, Any]] = json.loads(listed.stdout)["relays"]
    return relays


def test_a_relay_with_another_destination_refuses_to_start(outbox: Outbox, tmp_path: Path) -> None:
    added = call_cli(tmp_path, "migrate", "--with", "fleet", STORAGE_URL=outbox.owner_url)
    assert added.returncode == 0, added.stderr
    with outbox.database.connect() as connection:
        give_rights(connection)

    def states() -> list[str]:
        return [one["state"] for one in members(outbox, tmp_path)]

    with Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "null", "RELAY_ID": "first"}) as first:
        first.wait_ready()
        wait_until(lambda: states() == ["active"], 10.0, "the first heartbeat")
        with Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "stdout", "RELAY_ID": "second"}) as second:
            assert second.process.wait(20) == 2
            assert "relay first on host" in second.log()
            assert "FLEET_ALLOW_MIXED=true" in second.log()
        assert [one["relay_id"] for one in members(outbox, tmp_path)] == ["first"]
        lines = call_cli(tmp_path, "fleet", STORAGE_URL=outbox.reader_url).stdout
        assert lines.startswith("1 living relay\nfirst on ")
        assert first.stop() == 0
    assert members(outbox, tmp_path) == []


def test_stats_say_what_destinations_are_like(outbox: Outbox, tmp_path: Path) -> None:
    call_cli(tmp_path, "migrate", "--with", "fleet", STORAGE_URL=outbox.owner_url)
    with outbox.database.connect() as connection:
        give_rights(connection)
    away = {"PUBLISHER_URL": "redis://127.0.0.1:9", "RELAY_ID": "first", "PUBLISHER_CONNECT_RETRY_INTERVAL": "1s"}
    with Daemon(outbox.relay_url, away):

        def shown() -> str:
            return call_cli(tmp_path, "stats", STORAGE_URL=outbox.reader_url).stdout

        wait_until(lambda: "error: Destination redis is away since" in " ".join(shown().split()), 30.0)
        assert "Connection refused, according to first." in " ".join(shown().split())
        answer = json.loads(call_cli(tmp_path, "stats", "--json", STORAGE_URL=outbox.reader_url).stdout)
        assert [(one["relay_id"], one["state"]) for one in answer["relays"]] == [("first", "paused")]
