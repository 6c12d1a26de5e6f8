"""``relay-cli log`` as a person and as a program use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from relay.core.errors import OutboxError
from relay.deliverylog import DeliveryLog, ListAttempts, LogEntry, open_delivery_log
from relay_cli.app import app
from tests.deliverylog.making import BASE, all_items, entry, event, ms
from tests.support.fixtures.postgres import Database

Run = Callable[..., Result]


@pytest.fixture
def run(log_database: Database, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("DELIVERY_LOG_URL", log_database.url)

    def invoke(*arguments: str, fails: bool = False) -> Result:
        result = CliRunner().invoke(app, ["log", *arguments])
        assert (result.exit_code != 0) == fails, result.output + repr(result.exception)
        return result

    return invoke


def fill(url: str, entries: list[LogEntry]) -> None:
    async def insert() -> None:
        store = await open_delivery_log(url, months_ahead=0)
        await store.insert_many(entries)
        await store.close()

    asyncio.run(insert())


def read(url: str) -> list[str]:
    async def listed() -> list[str]:
        store: DeliveryLog = await open_delivery_log(url, months_ahead=0)
        records = await all_items(store, ListAttempts(order="asc"))
        await store.close()
        return [record.attempt.id for record in records]

    return asyncio.run(listed())


ENTRIES = [
    entry(
        f"a{i}",
        BASE + ms(i),
        event(f"e{i}", BASE + ms(i), topic=f"x{i % 2}", data=b'{"n": 1}'),
        status="failed" if i == 3 else "success",
        code="T" if i == 3 else None,
    )
    for i in range(5)
]


def test_pages_for_people_and_their_cursors(run: Run, log_database: Database) -> None:
    fill(log_database.url, ENTRIES)
    first = run("attempts", "--limit", "2", "--order", "asc").stdout.splitlines()
    assert " ".join(first[0].split()) == "TIME ATTEMPT EVENT TENANT TOPIC DESTINATION NUMBER STATUS CODE"
    assert [line.split()[1] for line in first[1:3]] == ["a0", "a1"]
    option, cursor = first[3].split()
    assert option == "--next"
    second = run("attempts", "--limit", "2", "--order", "asc", option, cursor).stdout.splitlines()
    assert [line.split()[1] for line in second[1:3]] == ["a2", "a3"]
    assert second[2].split()[-2:] == ["failed", "T"]
    assert [line.split()[0] for line in second[3:]] == ["--next", "--prev"]
    assert run("events", "--topic", "x1").stdout.count("x1") == 2


def test_pages_for_programs(run: Run, log_database: Database) -> None:
    fill(log_database.url, ENTRIES)
    page = json.loads(run("attempts", "--json", "--status", "failed", "--tenant", "t1", "--since", "2026-03-10").stdout)
    assert ([item["id"] for item in page["items"]], page["next"], page["prev"]) == (["a3"], None, None)
    both = json.loads(run("attempts", "--json", "--status", "failed", "--status", "success").stdout)
    assert len(both["items"]) == len(ENTRIES)
    events = json.loads(run("events", "--json", "--event", "e1", "--event", "e2", "--order", "asc").stdout)
    assert [item["id"] for item in events["items"]] == ["e1", "e2"]


def test_one_row(run: Run, log_database: Database) -> None:
    fill(log_database.url, ENTRIES)
    assert 'data: {"n": 1}' in run("event", "e2").stdout
    assert json.loads(run("attempt", "a3", "--json").stdout)["event"]["id"] == "e3"
    assert "code: T" in run("attempt", "a3").stdout
    assert "no event 'nothing'" in run("event", "nothing", fails=True).stderr


def test_metrics(run: Run, log_database: Database) -> None:
    fill(log_database.url, ENTRIES)
    window = ("--start", "2026-03-10T12:00:00Z", "--end", "2026-03-10T14:00:00Z")
    lines = run("metrics", "attempts", *window, "--granularity", "1h", "--measure", "failed_count").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["TIME", "FAILED_COUNT"],
        ["2026-03-10T12:00:00.000Z", "1"],
        ["2026-03-10T13:00:00.000Z", "0"],
    ]
    answer = json.loads(run("metrics", "events", *window, "--by", "topic", "--filter", "topic=x1", "--json").stdout)
    assert answer["rows"] == [{"topic": "x1", "count": 2}]
    month = ("--start", "2026-03-01", "--end", "2026-04-01", "--measure", "rate", "--filter", "topic=x1")
    assert run("metrics", "events", *month).stdout.split() == ["RATE", "0.000000746714"]


def test_partitions_and_retention(run: Run, log_database: Database) -> None:
    assert "missing" in run("partitions", "check", fails=True).stdout
    run("partitions", "ensure")
    assert run("partitions", "check").stdout == "nothing is missing\n"
    fill(log_database.url, [entry("old", BASE - timedelta(days=800))])
    assert "dropped attempts_2023_12" in run("partitions", "drop", "--days", "30").stdout
    assert read(log_database.url) == []
    assert run("retention", "--days", "30").stdout == "keeping 30 days\n"
    run("partitions", "drop", fails=True)
    run("partitions", "repair", fails=True)


def test_the_quarantine_is_listed_retried_and_purged(run: Run, log_database: Database) -> None:
    fill(log_database.url, [entry("bad", attempt_number=-1), entry("old", BASE), entry("other", attempt_number=-2)])
    lines = run("quarantine", "list").stdout.splitlines()
    assert lines[0].split() == ["TIME", "ATTEMPT", "EVENT", "TENANT", "TOPIC", "REASON"]
    assert sorted(line.split()[1:3] for line in lines[1:]) == [["bad", "e-bad"], ["other", "e-other"]]
    assert "raise --limit" in run("quarantine", "list", "--limit", "1").stderr
    page = json.loads(run("quarantine", "list", "--limit", "1", "--json").stdout)
    assert (len(page["items"]), page["more"]) == (1, True)
    assert page["items"][0]["attempt"]["id"] in ("bad", "other")
    log_database.run("UPDATE openoutbox_log.quarantine SET entry = replace(entry, ': -1', ': 1')")
    retried = run("quarantine", "retry", fails=True)
    assert (retried.exit_code, retried.stdout) == (1, "written: 1, still quarantined: 1\n")
    assert sorted(read(log_database.url)) == ["bad", "old"]
    assert json.loads(run("quarantine", "purge", "--before", "1h", "--json").stdout) == {"purged": 0}
    assert run("quarantine", "purge", "--all").stdout == "purged: 1\n"
    assert json.loads(run("quarantine", "retry", "--json").stdout) == {"written": 0, "remaining": 0}
    for options in ((), ("--all", "--before", "1h")):
        assert "--before TIME or --all" in run("quarantine", "purge", *options, fails=True).output


def test_maintaining_creates_months_and_drops_old_ones(
    run: Run, log_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log_database.url, [entry("old", BASE - timedelta(days=800))])
    assert "keeping everything" in run("maintain").stdout
    assert read(log_database.url) == ["old"]
    assert run("partitions", "check").stdout == "nothing is missing\n"
    monkeypatch.setenv("DELIVERY_LOG_RETENTION_DAYS", "90")
    assert "keeping everything" in run("maintain", "--days", "0").stdout
    answer = json.loads(run("maintain", "--json").stdout)
    assert answer["days"] == 90
    assert answer["ready_until"].endswith("-01T00:00:00.000000Z")
    assert read(log_database.url) == []


def test_migrating_from_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELIVERY_LOG_URL", raising=False)
    options = ["--delivery-log-url", database.url, "--schema", "other"]
    early = CliRunner().invoke(app, ["log", "events", *options])
    assert isinstance(early.exception, OutboxError)
    assert "relay-cli log migrate" in str(early.exception)
    assert CliRunner().invoke(app, ["log", "migrate", *options]).exit_code == 0
    assert CliRunner().invoke(app, ["log", "events", *options]).exit_code == 0
    monkeypatch.setenv("DELIVERY_LOG_SCHEMA", "other")
    for former in (["--log-store-url", database.url], [f"--log-store-url={database.url}"]):
        done = CliRunner().invoke(app, ["log", "events", *former])
        assert (done.exit_code, done.stderr) == (0, "warning: --log-store-url is now --delivery-log-url\n")
    missing = CliRunner().invoke(app, ["log", "events"])
    assert "DELIVERY_LOG_URL" in str(missing.exception)


def test_what_was_asked_wrongly_is_named(run: Run) -> None:
    for arguments, named in (
        (("events", "--next", "!"), "base62"),
        (("attempts", "--since", "yesterday"), "yesterday"),
        (("metrics", "attempts", "--start", "2026-01-01", "--end", "2026-01-02", "--granularity", "1y"), "1y"),
    ):
        assert named in str(run(*arguments, fails=True).exception)


def test_a_copy_goes_on_where_it_stopped(run: Run, log_database: Database, database: Database, tmp_path: Path) -> None:
    fill(log_database.url, [entry(f"a{i:04d}", BASE + ms(i // 2)) for i in range(2100)])
    CliRunner().invoke(app, ["log", "migrate", "--delivery-log-url", database.url])
    state = tmp_path / "cursor"
    arguments = ("copy", "--from", log_database.url, "--to", database.url, "--state", str(state))
    result = run(*arguments)
    lines = result.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("copied 2100 attempts", "both are equal")
    assert lines[1].removeprefix("source") == lines[2].removeprefix("target")
    assert lines[1].startswith("source: 2100 attempts, digest ")
    assert read(database.url) == [f"a{i:04d}" for i in range(2100)]
    at_once = (*arguments, "--margin", "0s", "--no-compare")
    assert run(*at_once).stdout == "copied 0 attempts\n"
    fill(log_database.url, [entry("b1", BASE + timedelta(days=1))])
    assert "copied 1 attempts" in run(*at_once).stdout
    cursor = result.stderr.splitlines()[0].split()[-1]
    resumed = ("copy", "--from", log_database.url, "--to", database.url, "--after", cursor, "--margin", "0s")
    assert "copied 1101 attempts" in run(*resumed).stdout
    assert len(read(database.url)) == 2101


def test_a_copy_again_brings_what_was_written_late(
    run: Run, log_database: Database, database: Database, tmp_path: Path
) -> None:
    """A relay whose log was away writes attempts after newer ones of other relays."""
    fill(log_database.url, ENTRIES)
    CliRunner().invoke(app, ["log", "migrate", "--delivery-log-url", database.url])
    arguments = ("copy", "--from", log_database.url, "--to", database.url, "--state", str(tmp_path / "cursor"))
    run(*arguments)
    fill(log_database.url, [entry("late", BASE - timedelta(hours=2)), entry("later", BASE - timedelta(days=2))])
    again = run(*arguments, fails=True)
    assert "missing 1, different 0, only in target 0; the first is attempt later" in again.stdout
    assert "late" in read(database.url)
    database.run("UPDATE openoutbox_log.attempts SET code = 'other' WHERE id = 'a0'")
    database.run("DELETE FROM openoutbox_log.attempts WHERE id = 'a1'")
    fill(database.url, [entry("new", BASE)])
    answer = json.loads(run(*arguments, "--margin", "3d", "--json").stdout)
    assert answer["source"]["digest"] != answer["target"]["digest"]
    assert [answer[name] for name in ("copied", "missing", "different", "only_in_target")] == [7, 0, 0, 1]


@pytest.mark.xdist_group("clickhouse")
def test_a_copy_to_the_other_kind(run: Run, log_database: Database, chdb_folder: Path, prefix: str) -> None:
    fill(log_database.url, ENTRIES)
    target = f"chdb:///{chdb_folder}"
    other = ("--delivery-log-url", target, "--prefix", prefix)
    run("migrate", *other)
    run("copy", "--from", log_database.url, "--to", target, "--prefix", prefix)
    page = json.loads(run("attempts", "--json", *other).stdout)
    assert page["items"] == json.loads(run("attempts", "--json").stdout)["items"]
    assert "only a PostgreSQL log" in str(
        run("partitions", "ensure", "--delivery-log-url", target, fails=True).exception
    )
    assert run("retention", "--days", "7", *other).exit_code == 0
