"""``relay-cli inbox`` as an operator runs it."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, answer, call_cli, environment
from tests.inbox.conftest import count_marks, mark_hourly
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.waiting import patience, wait_until

_SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER DELETE ON openoutbox_inbox FOR EACH STATEMENT EXECUTE FUNCTION slow()
"""


def said(folder: Path, *arguments: str, url: str) -> str:
    """What the command prints; it succeeds and complains of nothing."""
    done = call_cli(folder, "inbox", *arguments, STORAGE_URL=url)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def place(outbox: Outbox, tmp_path: Path) -> Outbox:
    """With an inbox, made by the command."""
    assert said(tmp_path, "migrate", url=outbox.owner_url) == "created table openoutbox_inbox\n"
    with outbox.database.connect() as connection:
        give_rights(connection)
    return outbox


def test_migrate_creates_it_once(outbox: Outbox, tmp_path: Path) -> None:
    url = outbox.owner_url
    dry = said(tmp_path, "migrate", "--dry-run", url=url)
    assert "CREATE TABLE" in dry
    assert outbox.database.run("SELECT to_regclass('openoutbox_inbox')") == [(None,)]
    assert "created table openoutbox_inbox" in said(tmp_path, "migrate", url=url)
    assert said(tmp_path, "migrate", url=url) == "table openoutbox_inbox is up to date\n"
    assert said(tmp_path, "migrate", "--dry-run", url=url) == "-- table openoutbox_inbox is up to date\n"
    other = answer(tmp_path, "inbox", "migrate", "--table", "public.other", STORAGE_URL=url)
    assert (other["table"], other["up_to_date"], len(other["statements"])) == ("public.other", False, 2)


def test_prune_says_what_it_deleted(place: Outbox, tmp_path: Path) -> None:
    mark_hourly(place, 40 * 24)
    url = place.pruner_url
    assert re.fullmatch(r"would delete 241 marks from before \S+Z\n", said(tmp_path, "prune", "--dry-run", url=url))
    done = answer(tmp_path, "inbox", "prune", STORAGE_URL=url)
    assert (done["marks"], done["dry_run"], done["exact"], done["complete"]) == (241, False, True, True)
    assert said(tmp_path, "prune", "--older-than", "10d", "--batch-size", "50", url=url).startswith("deleted 480 marks")
    assert count_marks(place) == 10 * 24 - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--older-than", "6d"], "is shorter than a message may come again"),
        (["--older-than", "0"], "has its effect twice"),
        (["--redelivered-within", "60d"], "say how late a repeat may be"),
        (["--older-than", "30"], "it has no unit"),
        (["--batch-size", "0"], "--batch-size"),
        (["--table", "a.b.c"], "is not a table name"),
    ],
)
def test_wrong_usage_fails_with_two(tmp_path: Path, arguments: list[str], message: str) -> None:
    failed = call_cli(tmp_path, "inbox", "prune", "--storage-url", "postgres://127.0.0.1:1/x", *arguments)
    assert failed.returncode == 2
    assert message in " ".join(failed.stderr.split())


def test_an_inbox_that_is_missing_fails_with_one(outbox: Outbox, tmp_path: Path) -> None:
    for command in ("prune", "stats"):
        failed = call_cli(tmp_path, "inbox", command, STORAGE_URL=outbox.url)
        assert failed.returncode == 1
        assert "create it: relay-cli inbox migrate" in " ".join(failed.stderr.split())


def test_interrupted_it_says_what_is_done_and_may_be_run_again(place: Outbox, tmp_path: Path) -> None:
    mark_hourly(place, 70 * 24)
    place.database.run(_SLOW)
    old = 40 * 24 + 1
    kept = 30 * 24 - 1
    with subprocess.Popen(
        [*COMMAND, "inbox", "prune", "--batch-size", "10"],
        cwd=tmp_path,
        env=environment(STORAGE_URL=place.pruner_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: count_marks(place) < old + kept, what="the first batch to be gone")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=patience())
    assert (process.returncode, stderr) == (130, "")
    summary = re.match(r"deleted (\d+) marks .*\nnot complete; run it again to continue\n", stdout)
    assert summary is not None, stdout
    assert count_marks(place) == old + kept - int(summary[1])
    place.database.run("DROP TRIGGER slow ON openoutbox_inbox")
    assert answer(tmp_path, "inbox", "prune", STORAGE_URL=place.pruner_url)["marks"] == old - int(summary[1])


def test_stats(place: Outbox, tmp_path: Path) -> None:
    empty = said(tmp_path, "stats", url=place.reader_url)
    assert re.fullmatch(r"\d+ bytes with indexes; no mark\n", empty)
    mark_hourly(place, 2)
    mark_hourly(place, 1, "ship\nping")
    lines = said(tmp_path, "stats", url=place.reader_url).splitlines()
    assert re.fullmatch(r"\d+ bytes with indexes; the oldest mark is of \S+Z", lines[0])
    assert lines[1].startswith("billing: 2 marks, the newest of ")
    assert lines[2].startswith(r"ship\nping: 1 mark, the newest of ")
    figures = answer(tmp_path, "inbox", "stats", STORAGE_URL=place.reader_url)
    assert [(each["consumer"], each["marks"]) for each in figures["consumers"]] == [("billing", 2), ("ship\nping", 1)]
    assert figures["exact"] is True
