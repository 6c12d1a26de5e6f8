"""``relay-cli log tail``, ``top`` and ``export``, and what they read."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.deliverylog import AttemptRecord, ListAttempts, LogEntry
from relay.deliverylog.follow import MARGIN, Arrivals, follow
from relay.deliverylog.memory import MemoryDeliveryLog
from relay_cli import log_print
from tests.deliverylog.making import attempt_ids, entry, event, ms
from tests.deliverylog.test_cli import Run, fill, run
from tests.support.fixtures.postgres import Database
from tests.support.waiting import patience

__all__ = ["run"]  # the fixture

NOW = datetime.now(UTC) - timedelta(seconds=30)
EVENT_ID = "0190b0a0-0000-7000-8000-00000000000"


def recent(number: int, **fields: Any) -> LogEntry:
    its = event(f"{EVENT_ID}{number}", NOW + ms(number), topic=f"user.signup.v{number % 2}", data=b"\xff,")
    return entry(f"a{number}", NOW + ms(number), its, **fields)


async def arrivals(readings: AsyncIterator[Arrivals]) -> list[str]:
    async with asyncio.timeout(patience(30)):
        return attempt_ids((await anext(readings)).records)


SOON = datetime.now(UTC) + timedelta(hours=1)
"""A log's clock may be ahead; here it leaves a slow machine time."""


def coming(number: int, **fields: Any) -> LogEntry:
    return entry(f"a{number}", SOON + ms(number), **fields)


async def test_following_shows_the_last_ones_then_each_arrival_once_and_late_ones_too() -> None:
    store = MemoryDeliveryLog()
    await store.insert_many([coming(n) for n in range(4)])
    readings = follow(store, ListAttempts(), last=2, interval=0.01)
    assert await arrivals(readings) == ["a2", "a3"]
    await store.insert_many([coming(6)])
    assert await arrivals(readings) == ["a6"]
    await store.insert_many([coming(5), coming(7)])  # another relay's batch, a little late
    assert await arrivals(readings) == ["a5", "a7"]
    await store.insert_many([entry("old", datetime.now(UTC) - MARGIN - timedelta(minutes=1)), coming(8)])
    assert await arrivals(readings) == ["a8"]


async def test_following_from_now_on_shows_nothing_older() -> None:
    store = MemoryDeliveryLog()
    await store.insert_many([coming(n) for n in range(4)])
    readings = follow(store, ListAttempts(status="failed"), last=0, interval=0.01)
    assert await arrivals(readings) == []
    await store.insert_many([coming(5), coming(6, status="failed")])
    assert await arrivals(readings) == ["a6"]


def test_an_arrival_fits_a_terminal_and_is_whole_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = recent(1, status="failed", code="LEADER_NOT_AVAILABLE", attempt_number=3)
    record = AttemptRecord(one.attempt, one.event)
    log_print.print_arrivals(Arrivals([record], more=False), as_json=False)
    whole = capsys.readouterr().out
    assert whole.endswith(f" failed  {EVENT_ID}1 LEADER_NOT_AVAILABLE user.signup.v1 d1 #3 t1\n")
    monkeypatch.setattr(log_print, "columns", lambda: 80)
    log_print.print_arrivals(Arrivals([record], more=False), as_json=False)
    [line] = capsys.readouterr().out.splitlines()
    assert len(line) == 80
    assert f"failed  {EVENT_ID}1 LEADER_NOT_AVAILABLE" in line


def test_tail_prints_what_arrives_until_it_is_interrupted(log_database: Database) -> None:
    fill(log_database.url, [recent(1)])
    command = [sys.executable, "-m", "relay_cli", "log", "tail", "--json", "--interval", "100ms"]
    environment = {**os.environ, "DELIVERY_LOG_URL": log_database.url}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == "a1"
        fill(log_database.url, [recent(2)])
        assert json.loads(process.stdout.readline())["id"] == "a2"
        process.send_signal(signal.SIGINT)
        assert process.wait(patience(30)) in {0, 130}


def test_top_names_what_fails_most(log_database: Database, run: Run) -> None:
    assert "no attempt failed in the last 1h; 0 were made" in run("top").output
    fill(
        log_database.url,
        [recent(n, status="failed" if n in {1, 2, 3} else "success", code="T" if n < 3 else None) for n in range(6)],
    )
    lines = run("top").output.splitlines()
    assert [line.split() for line in lines] == [
        ["TOPIC", "FAILED", "ATTEMPTS", "ERRORS"],
        ["user.signup.v1", "2", "3", "66.7%"],
        ["user.signup.v0", "1", "3", "33.3%"],
    ]
    assert len(run("top", "--limit", "1").output.splitlines()) == 2
    by_code = json.loads(run("top", "--by", "code", "--json", "--topic", "user.signup.v1").output)
    assert by_code["rows"][0] == {"code": "T", "failed_count": 1, "count": 1, "error_rate": 1.0}
    assert "none of topic" in run("top", "--by", "mood", fails=True).output
    assert "too" in run("tail", "--interval", "1ms", fails=True).output


def test_an_export_holds_every_attempt_in_order(log_database: Database, run: Run, tmp_path: Path) -> None:
    fill(log_database.url, [recent(n, response_data={"n": [n, "a,\n"]}, code=None) for n in range(5)])
    target = tmp_path / "out.csv"
    assert "exported 5 attempts" in run("export", "--output", str(target), "--data").output
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    lines = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8"), newline="")))
    assert [line["id"] for line in lines] == [f"a{n}" for n in range(5)]
    assert json.loads(lines[3]["response_data"]) == {"n": [3, "a,\n"]}
    assert (lines[3]["code"], lines[3]["manual"], lines[3]["event_topic"]) == ("", "false", "user.signup.v1")
    assert base64.b64decode(lines[3]["event_data_base64"]) == b"\xff,"
    target = tmp_path / "out.jsonl"
    run("export", "--format", "jsonl", "--topic", "user.signup.v1", "--since", "1h", "--output", str(target))
    items = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [item["id"] for item in items] == ["a1", "a3"]
    assert "data_base64" not in items[0]["event"]
    empty = run("export", "--since", "1s", "--until", "2026-01-01").stdout
    assert empty.splitlines()[0].startswith("id,event_id,tenant_id,")
    assert "none of csv, jsonl" in run("export", "--format", "xml", fails=True).output
