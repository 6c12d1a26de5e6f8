"""Prune deletes exactly what is old, beside everybody else."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from relay.core.errors import SchemaError, StorageBusy
from relay.outbox.admin.connection import Connection, rows
from relay.outbox.admin.prune import Pruned, PruneOptions, preview, prune
from relay.outbox.span import EVERYWHERE
from relay.postgres.sql import TableName, statement
from tests.outbox.admin.filling import fill_aged, fill_old, left
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import Database

TABLE = TableName()
DAY = 86_400.0
MILLION = pytest.param(1_000_000, marks=[pytest.mark.scale, pytest.mark.timeout(600)])


def test_only_delivered_and_dead_rows_of_that_age_go(outbox: Outbox) -> None:
    for status in ("PENDING", "DELIVERED", "DEAD"):
        fill_aged(outbox, status, 100)
    done = prune(outbox.pruner_url, TABLE, PruneOptions(delivered_age=2 * DAY, dead_age=3 * DAY, batch_size=7))
    assert (done.delivered, done.dead, done.exact) == (53, 29, True)
    assert left(outbox, "DELIVERED") == list(range(1, 48))
    assert left(outbox, "DEAD") == list(range(1, 72))
    assert len(left(outbox, "PENDING")) == 100


def test_leased_rows_are_never_pruned(outbox: Outbox) -> None:
    fill_aged(outbox, "PENDING", 50)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'r', locked_at = NOW()")
    assert prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0)).total == 0


def test_an_age_of_zero_leaves_that_status_alone(outbox: Outbox) -> None:
    fill_aged(outbox, "DELIVERED", 5)
    fill_aged(outbox, "DEAD", 5)
    nothing = prune(outbox.pruner_url, TABLE, PruneOptions(0.0, 0.0))
    assert nothing == Pruned(at=nothing.at)
    options = PruneOptions(0.0, 60.0)
    previewed = preview(outbox.pruner_url, TABLE, options)
    done = prune(outbox.pruner_url, TABLE, options)
    assert (done.delivered, done.dead, done.delivered_before) == (0, 5, None)
    assert (previewed.delivered, previewed.dead) == (0, 5)


def test_a_dry_run_counts_what_the_run_then_deletes(outbox: Outbox) -> None:
    fill_aged(outbox, "DELIVERED", 100)
    fill_aged(outbox, "DEAD", 50)
    options = PruneOptions(DAY, DAY, 10)
    previewed = preview(outbox.pruner_url, TABLE, options)
    assert sum(outbox.counts().values()) == 150
    done = prune(outbox.pruner_url, TABLE, options)
    assert (previewed.delivered, previewed.dead) == (done.delivered, done.dead) == (77, 27)


def test_a_dry_run_that_stops_counting_says_so(outbox: Outbox) -> None:
    fill_aged(outbox, "DELIVERED", 100)
    counts = preview(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0), 20)
    assert (counts.delivered, counts.exact) == (20, False)


def test_a_row_that_another_session_holds_is_left_to_the_next_run(outbox: Outbox) -> None:
    fill_aged(outbox, "DELIVERED", 30)
    with outbox.database.connect(autocommit=False) as other:
        other.execute("SELECT FROM openoutbox_events WHERE event_type = 'DELIVERED-10' FOR UPDATE")
        assert prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 4)).delivered == 29
        other.rollback()
    assert prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 4)).delivered == 1


def test_it_stands_back_behind_a_locked_table(outbox: Outbox) -> None:
    fill_aged(outbox, "DELIVERED", 3)
    with outbox.database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE openoutbox_events IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StorageBusy, match="lock timeout"):
            prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0))
        other.rollback()


@pytest.mark.parametrize("due", [True, False])
def test_it_stands_back_while_events_wait(outbox: Outbox, due: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_aged(outbox, "DELIVERED", 30)
    outbox.fill("scheduled", 1)
    outbox.database.run("UPDATE openoutbox_events SET available_at = now() + interval '1 h' WHERE status = 'PENDING'")
    if due:
        outbox.fill("waiting", 1)
    rests: list[float] = []
    # The module's own name alone: other threads of the tests sleep, too.
    monkeypatch.setattr("relay.outbox.admin.prune.time", SimpleNamespace(monotonic=time.monotonic, sleep=rests.append))
    assert prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 10)).delivered == 30
    assert len(rests) == (3 if due else 0)
    assert all(rest > 0 for rest in rests)


def test_a_look_for_waiting_events_that_is_slow_is_rare(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_aged(outbox, "DELIVERED", 30)
    now, looks = 0.0, []

    def timed(connection: Connection, path: str, *rest: Any) -> list[tuple[Any, ...]]:
        nonlocal now
        look = path == "outbox/backlog:oldest_due_age"
        now += 0.5 if look else 1.0
        looks.extend([now] if look else [])
        return rows(connection, path, *rest)

    monkeypatch.setattr("relay.outbox.admin.prune.rows", timed)
    monkeypatch.setattr("relay.outbox.admin.prune.time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    assert prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 1)).delivered == 30
    assert [round(later - earlier, 3) for earlier, later in pairwise(looks)] == [10.5, 10.5]


def test_rows_of_any_time_do_not_end_it(outbox: Outbox) -> None:
    fill_old(outbox, "DELIVERED", 3)
    outbox.database.run("UPDATE openoutbox_events SET delivered_at = '-infinity' WHERE status = 'DELIVERED'")
    fill_old(outbox, "DEAD", 2)
    outbox.database.run("UPDATE openoutbox_events SET updated_at = '4000-01-01 BC' WHERE status = 'DEAD'")
    done = prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 1))
    assert (done.delivered, done.dead) == (3, 2)


def test_what_was_reported_is_gone_when_it_is_interrupted(outbox: Outbox) -> None:
    fill_aged(outbox, "DELIVERED", 100)
    reported = Pruned()

    def on_batch(sums: Pruned) -> None:
        nonlocal reported
        reported = sums
        if sums.delivered >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 10), on_batch)
    assert reported.delivered == 30
    assert outbox.counts() == {"DELIVERED": 70}
    assert prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0, 10)).delivered == 70


def test_without_the_rights_it_says_so(outbox: Outbox) -> None:
    role = f"reader_{outbox.database.name}"
    outbox.database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'")
    outbox.database.run(f"GRANT SELECT ON openoutbox_events TO {role}")
    fill_aged(outbox, "DELIVERED", 1)
    info = psycopg.conninfo.conninfo_to_dict(outbox.url)
    url = f"postgres://{role}:reader@{info['host']}:{info['port']}/{info['dbname']}"
    try:
        with pytest.raises(SchemaError, match="permission denied"):
            prune(url, TABLE, PruneOptions(60.0, 60.0))
    finally:
        outbox.database.run(f"DROP OWNED BY {role}")
        outbox.database.run(f"DROP ROLE {role}")


def test_a_table_that_is_none_of_ours_is_refused(database: Database) -> None:
    with pytest.raises(SchemaError, match="there is no table nothing"):
        prune(database.url, TableName("nothing"), PruneOptions())
    database.run("CREATE TABLE other (id int)")
    with pytest.raises(SchemaError, match="lacks the columns event_id"):
        prune(database.url, TableName("other"), PruneOptions())


def _claim_until(outbox: Outbox, stop: threading.Event, claims: list[float]) -> None:
    """Claim and give back like a relay; note how long each claim took."""
    claim = statement("outbox/claim:claim", TABLE)
    with outbox.database.connect() as connection:
        while not stop.is_set():
            began = time.monotonic()
            with connection.transaction(force_rollback=True):
                bounds = {**EVERYWHERE.parameters(), "limit": 100, "max_bytes": 2**26, "inline_bytes": 2**19}
                connection.execute(claim, {**bounds, "max_attempts": 25, "relay_id": "beside"})
            claims.append(time.monotonic() - began)


def _watch_until(outbox: Outbox, stop: threading.Event, ages: list[float]) -> None:
    """Note the age of the transaction that prune has open."""
    with outbox.database.connect() as connection:
        while not stop.wait(0.005):
            rows = connection.execute(
                "SELECT EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity "
                "WHERE application_name = 'openoutbox-relay-cli' AND xact_start IS NOT NULL"
            ).fetchall()
            ages += [seconds for (seconds,) in rows]


@pytest.mark.parametrize("count", [50_000, MILLION])
def test_a_relay_goes_on_claiming_beside_it(outbox: Outbox, count: int) -> None:
    fill_old(outbox, "DELIVERED", count)
    outbox.fill("live", 1000)
    outbox.database.run("VACUUM ANALYZE openoutbox_events")
    stop = threading.Event()
    claims: list[float] = []
    ages: list[float] = []
    beside = [
        threading.Thread(target=_claim_until, args=(outbox, stop, claims)),
        threading.Thread(target=_watch_until, args=(outbox, stop, ages)),
    ]
    for thread in beside:
        thread.start()
    began = time.monotonic()
    try:
        done = prune(outbox.pruner_url, TABLE, PruneOptions(60.0, 60.0))
    finally:
        stop.set()
        for thread in beside:
            thread.join()
    took = time.monotonic() - began
    print(f"{count} rows in {took:.1f} s beside {len(claims)} claims")
    print(f"longest claim {max(claims):.3f} s, longest transaction of prune {max(ages, default=0):.3f} s")
    assert done.delivered == count
    assert outbox.counts() == {"PENDING": 1000}
    assert claims
    if count == 1_000_000:
        assert max(ages) < took / 10  # many transactions; how short they are depends on the machine
