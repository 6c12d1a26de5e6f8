"""The arguments of ``replay``: their values, and the errors for invalid ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from relay.core.errors import ConfigError
from relay.spark.jobs.arguments import CommandLine
from relay.spark.jobs.replay.arguments import ReplayArguments

URL = "postgresql://spark:secret@db:5432/shop"
ID = "019b0a00-0000-7000-8000-000000000000"


def read(*arguments: str, url: str = URL) -> ReplayArguments:
    return CommandLine(ReplayArguments, "replay", arguments).read({"url": url} if url else {})


def test_options_become_values() -> None:
    arguments = ["--archive", "a", "--status", "DEAD", "--from", "2d", "--to", "2026-01-31T12:00:00Z", "--type", "t"]
    arguments += ["--type", "u", "--key", "k", "--tenant", "x", "--tenant-header", "who", "--rate", "2.5", "--json"]
    job = read(*arguments, "--replay-id", ID, "--nats-duplicate-window", "2m")
    assert job == ReplayArguments(
        archive="a",
        statuses=("DEAD",),
        since=timedelta(days=2),
        until=datetime(2026, 1, 31, 12, tzinfo=UTC),
        types=("t", "u"),
        keys=("k",),
        tenants=("x",),
        tenant_header="who",
        replay_id=UUID(ID),
        rate=2.5,
        nats_duplicate_window=120.0,
        as_json=True,
        url=URL,
    )
    assert "secret" not in repr(job)


def test_every_replay_has_an_id_of_its_own() -> None:
    assert read("--type", "t").replay_id != read("--type", "t").replay_id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say which events"),
        (["--from", "2026-01-31T12:00:00"], "--from: .* has no time zone; write for example 2026-01-31T12:00:00Z"),
        (["--to", "later"], "--to: 'later' is neither an age like 2h nor a time"),
        (["--type", "t", "--rate", "0"], "--rate: '0' is not a number of events a second"),
        (["--type", "t", "--rate", "fast"], "--rate: 'fast' is not a number of events a second"),
        (["--type", "t", "--replay-id", "7"], "--replay-id: '7' is not a UUID"),
        (["--type", "t", "--nats-duplicate-window", "2"], "--nats-duplicate-window: '2' is not a duration"),
    ],
)
def test_invalid_values_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(*arguments)


def test_a_missing_outbox_is_named() -> None:
    with pytest.raises(ConfigError, match="--url or --url-file: missing"):
        read("--type", "t", url="")


def test_the_record_of_a_selection_differs_for_other_events() -> None:
    selections = {
        read("--type", "t").selection(),
        read("--type", "t", "--archive", "/archive").selection(),
        read("--key", "t").selection(),
        read("--type", "t", "--from", "2d").selection(),
    }
    assert len(selections) == 4
    assert read("--type", "t", "--rate", "5").selection() in selections


def test_the_record_of_a_selection_stays_what_earlier_releases_wrote() -> None:
    """A replay that was interrupted before an upgrade can be completed after it."""
    assert json.loads(read("--type", "t", "--from", "2d").selection()) == {
        "source": "table",
        "statuses": ["DELIVERED", "DEAD"],
        "since": "2 days, 0:00:00",
        "until": None,
        "types": ["t"],
        "keys": [],
        "tenants": [],
        "tenant_header": "tenant_id",
    }
