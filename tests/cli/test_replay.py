"""``relay-cli replay`` as an operator runs it."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from pathlib import Path

import nats
import pytest
from nats.js.api import StreamConfig

from tests.cli.running import COMMAND, answer, call_cli, environment
from tests.outbox.admin.filling import fill_aged
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.nats import NatsServer
from tests.support.waiting import patience


def test_a_selector_is_needed(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DEAD", 3)
    failed = call_cli(tmp_path, "replay", "--limit", "1", STORAGE_URL=outbox.relay_url)
    assert failed.returncode == 2
    assert "say which events" in failed.stderr
    assert outbox.counts() == {"DEAD": 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "yesterday"], "'yesterday' is neither an age like 2h nor a time"),
        (["--to", "2026-01-01T00:00:00"], "has no time zone"),
        (["--id", "nonsense"], "'nonsense' is not an event's id, which is a UUID"),
        (["--status", "pending"], "pending"),
    ],
)
def test_wrong_usage_fails_with_two(tmp_path: Path, arguments: list[str], said: str) -> None:
    failed = call_cli(tmp_path, "replay", *arguments, STORAGE_URL="postgres://127.0.0.1:1/x")
    assert failed.returncode == 2
    assert said in " ".join(failed.stderr.split())


def test_it_counts_then_replays_and_says_whether_it_is_recorded(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DEAD", 3)
    fill_aged(outbox, "DELIVERED", 3)
    dry = call_cli(tmp_path, "replay", "--status", "dead", "--dry-run", STORAGE_URL=outbox.relay_url)
    note = "not recorded: relay-cli migrate --with replay-audit adds the record\n"
    assert (dry.returncode, dry.stdout) == (0, f"would replay 3 dead events and 0 delivered events\n{note}")
    migrated = call_cli(tmp_path, "migrate", "--with", "replay-audit", STORAGE_URL=outbox.owner_url)
    assert migrated.stdout == "table openoutbox_events is up to date\nadded extension replay-audit\n"
    outbox.database.run("GRANT INSERT ON openoutbox_replays TO openoutbox_relay")
    done = call_cli(tmp_path, "replay", "--status", "dead", "--reason", "why not", STORAGE_URL=outbox.relay_url)
    assert (done.returncode, done.stdout) == (0, "replayed 3 dead events and 0 delivered events\n")
    assert outbox.database.run("SELECT DISTINCT reason FROM openoutbox_replays") == [("why not",)]
    assert outbox.counts() == {"PENDING": 3, "DELIVERED": 3}


def test_what_migrate_would_do_for_an_extension_runs_in_psql(outbox: Outbox, tmp_path: Path) -> None:
    shown = call_cli(tmp_path, "migrate", "--dry-run", "--with", "replay-audit", STORAGE_URL=outbox.owner_url)
    outbox.database.run(shown.stdout)
    assert outbox.database.run("SELECT count(*) FROM openoutbox_replays") == [(0,)]


def test_an_id_is_taken_back_from_either_status(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DEAD", 2)
    fill_aged(outbox, "DELIVERED", 2)
    wanted = "SELECT event_id FROM openoutbox_events WHERE event_type IN ('DEAD-1', 'DELIVERED-2')"
    options = [part for (id_,) in outbox.database.run(wanted) for part in ("--id", str(id_))]
    result = answer(tmp_path, "replay", *options, "--rate", "1000", STORAGE_URL=outbox.relay_url)
    assert (result["dead"], result["delivered"], result["complete"]) == (1, 1, True)


@pytest.mark.parametrize(("typed", "status", "counts"), [(b"n\n", 1, {"DEAD": 3}), (b"y\n", 0, {"PENDING": 3})])
def test_a_terminal_is_asked_first(
    outbox: Outbox, tmp_path: Path, typed: bytes, status: int, counts: dict[str, int]
) -> None:
    fill_aged(outbox, "DEAD", 3)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "replay", "--status", "dead"],
        cwd=tmp_path,
        env=environment(STORAGE_URL=outbox.relay_url),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.write(ours, typed)
        _, stderr = process.communicate(timeout=patience())
    os.close(ours)
    os.close(theirs)
    assert "replay 3 dead events and 0 delivered events?" in stderr
    assert process.returncode == status
    assert outbox.counts() == counts


def test_within_the_duplicate_window_of_nats_it_is_refused(
    outbox: Outbox, own_nats: NatsServer, tmp_path: Path
) -> None:
    async def add_stream() -> None:
        client = await nats.connect(own_nats.url)
        config = StreamConfig(name=f"s{outbox.database.name}", subjects=[outbox.database.name], duplicate_window=5400)
        await client.jetstream().add_stream(config)
        await client.close()

    asyncio.run(add_stream())
    fill_aged(outbox, "DELIVERED", 3)
    broker = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "nats", "PUBLISHER_URL": own_nats.url}
    refused = call_cli(tmp_path, "replay", "--status", "delivered", **broker)
    assert refused.returncode == 1
    assert "of these events, 1 arrived less than 1 h 30 min ago" in refused.stderr
    assert outbox.counts() == {"DELIVERED": 3}
    older = answer(tmp_path, "replay", "--status", "delivered", "--to", "90m", **broker)
    assert older["delivered"] == 2
    forced = answer(tmp_path, "replay", "--status", "delivered", "--force", **broker)
    assert forced["delivered"] == 1


def test_an_unreachable_nats_is_said_and_the_window_may_be_given(outbox: Outbox, tmp_path: Path) -> None:
    fill_aged(outbox, "DELIVERED", 1)
    broker = {"STORAGE_URL": outbox.relay_url, "PUBLISHER_TYPE": "nats", "PUBLISHER_URL": "nats://127.0.0.1:1"}
    broker["NATS_CONNECTION_TIMEOUT"] = "1s"
    failed = call_cli(tmp_path, "replay", "--status", "delivered", **broker)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: nats://127.0.0.1:1: Connection refused")
    result = answer(tmp_path, "replay", "--status", "delivered", "--nats-duplicate-window", "2m", **broker)
    assert result["delivered"] == 1


def test_with_on_delivered_delete_it_says_where_delivered_events_are(outbox: Outbox, tmp_path: Path) -> None:
    variables = {"STORAGE_URL": outbox.relay_url, "ON_DELIVERED": "delete"}
    done = call_cli(tmp_path, "replay", "--status", "delivered", "--yes", **variables)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "replayed 0 dead events and 0 delivered events")
    assert "delivery log" in done.stderr
    assert "archive" in done.stderr
    assert call_cli(tmp_path, "replay", "--status", "dead", "--yes", **variables).stderr == ""


def test_for_an_event_without_a_row_it_names_the_delivery_log_and_the_archive(outbox: Outbox, tmp_path: Path) -> None:
    absent = "0190b0a0-0000-7000-8000-000000000001"
    done = call_cli(tmp_path, "replay", "--id", absent, "--yes", STORAGE_URL=outbox.relay_url)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "replayed 0 dead events and 0 delivered events")
    assert done.stderr.startswith("no event matched. An event that was pruned, or deleted on delivery (ON_DELIVERED=")
