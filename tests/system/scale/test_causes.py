"""What causes and searches cost on a million rows of a thousand causes. Figures are printed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from relay.outbox.admin import explain
from relay.outbox.admin.causes import LONGEST
from relay.outbox.admin.explain import explain_event, read_causes
from relay.outbox.admin.overview import read_overview
from relay.outbox.admin.search import SEARCH_SECONDS, EventSearch, find_events, search_events
from relay.postgres.sql import TableName, statement
from relay.routing.reported import read_reported
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database, drop_database
from tests.support.waiting import pace
from tests.system.scale.test_console import timed

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

TABLE = TableName()
_FILL = """
INSERT INTO openoutbox_events (
    event_id, event_type, partition_key, payload, headers, status, attempts, last_error, created_at, delivered_at,
    updated_at, available_at
)
SELECT
    gen_random_uuid(), 'type-' || mod(n, 8), 'key-' || mod(n, 20000), convert_to('body ' || n, 'UTF8'),
    jsonb_build_object('n', n), status, CASE status WHEN 'DELIVERED' THEN 0 ELSE 3 END,
    CASE WHEN status <> 'DELIVERED' THEN 'HTTP_503: partner' || mod(n, 1000) || '.example.com answered 503 '
        || CASE WHEN %(unique)s THEN 'to request ' || n ELSE '' END END,
    at, CASE status WHEN 'DELIVERED' THEN at END, at, CASE status WHEN 'PENDING' THEN now() + interval '1 h' ELSE at END
FROM (
    SELECT
        n, now() - n * interval '50 ms' AS at,
        CASE mod(n, 33) WHEN 0 THEN 'DEAD' WHEN 1 THEN 'PENDING' ELSE 'DELIVERED' END AS status
    FROM generate_series(1, 1000000) AS n
) AS numbered
"""


@pytest.fixture(scope="module", params=[False, True], ids=["repeated-errors", "unique-errors"])
def filled(request: pytest.FixtureRequest, postgres: str) -> Iterator[Outbox]:
    """An outbox of a million rows, 30,000 of them dead and as many retrying, which all tests here share."""
    database = create_database(postgres)
    outbox = Outbox.create(database)
    with outbox.database.connect() as connection:
        connection.execute(_FILL, {"unique": request.param})
        connection.execute("VACUUM ANALYZE openoutbox_events")
    yield outbox
    drop_database(database)


def test_a_thousand_causes_take_a_tenth_of_a_second_of_either_server(
    filled: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = read_causes(filled.reader_url, TABLE)
    seconds = timed(lambda: read_causes(filled.reader_url, TABLE))
    ours, databases = _processor_seconds(filled.reader_url)
    with capsys.disabled():
        print(f"\n{len(reading.causes)} causes in {seconds * 1000:.0f} ms; {reading.sample}", end="")
        print(f"\nof a processor: {ours * 1000:.0f} ms here, {databases * 1000:.0f} ms in PostgreSQL", end="")
    assert len(reading.causes) == 1000
    assert reading.sample
    assert ours < 0.1
    assert databases < 0.1


def _processor_seconds(url: str) -> tuple[float, float]:
    """What reading the causes takes of a processor in this process and in PostgreSQL's, the least of five times.

    Other work on the machine does not count.
    """
    ours, databases = [], []
    bounds = {"most": explain.MOST_READ, "longest": LONGEST, "groups": explain.MOST_GROUPS}
    with psycopg.connect(url) as connection:
        connection.execute(statement("outbox/claim:guard"))
        figures = Path(f"/proc/{connection.info.backend_pid}/schedstat")
        for _ in range(5):
            began = time.process_time()
            read_causes(url, TABLE)
            ours.append(time.process_time() - began)
            before = int(figures.read_text().split()[0])
            connection.execute(statement("outbox/causes:failing", TABLE), bounds)
            databases.append((int(figures.read_text().split()[0]) - before) / 1e9)
    return min(ours), min(databases)


_WATCHED: Final = 5.0
"""Seconds after which the console's live pages ask again."""


def test_an_operator_who_watches_takes_less_than_a_twentieth_of_a_processor(
    filled: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    [(event_id,)] = filled.database.run("SELECT event_id FROM openoutbox_events WHERE status = 'PENDING' LIMIT 1")
    readings: dict[str, Callable[[], object]] = {
        "overview": lambda: read_overview(filled.reader_url, TABLE),
        "causes": lambda: read_causes(filled.reader_url, TABLE),
        "why": lambda: explain_event(filled.reader_url, TABLE, event_id, read_reported),
    }
    for name, read in readings.items():
        ours, theirs = _seconds_of_both(filled, read)
        share = (ours + theirs) / _WATCHED
        with capsys.disabled():
            print(f"\n{name}: {ours * 1000:.0f} ms of a processor here, {theirs * 1000:.0f} ms in PostgreSQL", end="")
            print(f"; asked every {_WATCHED:g} s, {share:.1%} of a processor", end="")
        assert share < 0.05


def _seconds_of_both(outbox: Outbox, read: Callable[[], object], times: int = 20) -> tuple[float, float]:
    """What a reading takes of a processor in this process, and in backends of its own, which end with it."""
    [(folder,)] = outbox.database.run("SHOW data_directory")
    server = int(Path(folder, "postmaster.pid").read_text().split()[0])

    def ended() -> float:
        fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")

    read()
    pace(0.2)  # what ended before is counted
    began, before = time.process_time(), ended()
    for _ in range(times):
        read()
    ours = (time.process_time() - began) / times
    pace(0.2)
    return ours, (ended() - before) / times


def test_few_events_of_a_key_are_found_by_one_search(filled: Outbox, capsys: pytest.CaptureFixture[str]) -> None:
    for search, count in (
        (EventSearch(partition_key="key-7"), 50),
        (EventSearch(header=("n", "999999")), 1),
        (EventSearch(payload=b"body 999998"), 1),
    ):
        started = time.perf_counter()
        page = search_events(filled.reader_url, TABLE, search)
        seconds = time.perf_counter() - started
        events = find_events(filled.reader_url, TABLE, search)
        with capsys.disabled():
            print(f"\n{search}: {len(page.events)} of {len(events)} in {seconds:.2f} s", end="")
        assert len(events) == count
        assert seconds < SEARCH_SECONDS + 1
