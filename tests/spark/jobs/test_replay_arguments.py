"""The arguments of ``replay``: what is made of them, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from relay.core.errors import ConfigError
from relay.spark.jobs.replay.arguments import read_replay_arguments
from relay.spark.jobs.replay.steps import CopySelection

URL = "postgresql://spark:secret@db:5432/shop"
ID = "019b0a00-0000-7000-8000-000000000000"


def test_a_replay_takes_what_is_given() -> None:
    given = ["--archive", "a", "--status", "DEAD", "--from", "2d", "--to", "2026-01-31T12:00:00Z", "--type", "t"]
    given += ["--type", "u", "--key", "k", "--tenant", "x", "--tenant-header", "who", "--rate", "2.5", "--json"]
    job = read_replay_arguments("replay", [*given, "--replay-id", ID, "--nats-duplicate-window", "2m"], url=URL)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert job.options.selection == CopySelection(("DEAD",), timedelta(days=2), noon, ("t", "u"), ("k",), ("x",), "who")
    assert (job.options.archive, job.options.rate, job.options.replay_id) == ("a", 2.5, UUID(ID))
    assert (job.options.duplicate_window, job.as_json, job.dry_run) == (120.0, True, False)
    assert "secret" not in repr(job)


def test_every_replay_has_an_id_of_its_own() -> None:
    first, second = (read_replay_arguments("replay", ["--type", "t"], url=URL) for _ in range(2))
    assert first.options.replay_id != second.options.replay_id


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "say which events"),
        (["--from", "2026-01-31T12:00:00"], "has no time zone; write for example 2026-01-31T12:00:00Z"),
        (["--to", "later"], "--to: 'later' is neither an age like 2h nor a time"),
        (["--type", "t", "--rate", "0"], "--rate: '0' is not a number of events a second"),
        (["--type", "t", "--rate", "fast"], "--rate: 'fast' is not a number of events a second"),
        (["--type", "t", "--replay-id", "7"], "--replay-id: '7' is not a UUID"),
        (["--type", "t", "--nats-duplicate-window", "2s"], "--nats-duplicate-window: '2s' is not an age"),
    ],
)
def test_what_a_replay_cannot_mean_is_refused(arguments: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace(".", r"\.")):
        read_replay_arguments("replay", arguments, url=URL)


def test_without_an_outbox_it_says_where_to_name_it() -> None:
    with pytest.raises(ConfigError, match="--url or --url-file: missing"):
        read_replay_arguments("replay", ["--type", "t"])


def test_a_selection_is_told_apart_from_another() -> None:
    texts = {
        CopySelection(types=("t",)).as_text("table"),
        CopySelection(types=("t",)).as_text("/archive"),
        CopySelection(keys=("t",)).as_text("table"),
        CopySelection(types=("t",), since=timedelta(days=2)).as_text("table"),
    }
    assert len(texts) == 4
    assert CopySelection(types=("t",)).as_text("table") in texts
