"""The hot statements are served by the indexes they name: at every batch size, with good, stale and no statistics.

EXPLAIN is asked for the very statements and parameters that the adapter sends, on a table large enough that a
sequential scan would hurt. No time is asserted.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import psycopg.sql
import pytest

from relay.core.places import Apart
from relay.outbox.left_out import apart_parameters
from relay.outbox.migrate import migrate
from relay.outbox.span import BEHIND_ALL, EVERYWHERE, ClaimSpan
from relay.postgres.sql import DEFAULT_TABLE, TableName, statement, statement_names
from tests.support.fixtures.postgres import Database, create_database, drop_database

ROWS = 60_000
BATCHES = [1, 100, 1000, 5000]
FENCE = datetime(2031, 1, 1, tzinfo=UTC)
FENCED = {"relay_id": "relay", "fence": FENCE}

_PENDING = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at)
SELECT gen_random_uuid(), 't', decode(repeat('ab', 300), 'hex'), now() - make_interval(secs => n)
FROM generate_series(1, %s) AS n
"""
_LEASED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, locked_by, locked_at)
SELECT gen_random_uuid(), 't', decode(repeat('ab', 300), 'hex'), 'DELIVERING', 'relay', %s
FROM generate_series(1, 5000) AS n
"""
_FINISHED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at)
SELECT gen_random_uuid(), 't', decode(repeat('ab', 300), 'hex'), CASE WHEN n % 20 = 0 THEN 'DEAD' ELSE 'DELIVERED' END,
       CASE WHEN n % 20 = 0 THEN NULL ELSE now() END
FROM generate_series(1, 20000) AS n
"""

_PARAMETER = re.compile(r"%\((\w+)\)s")
_NOW = time.time()
_EVERYWHERE: dict[str, Any] = EVERYWHERE.parameters()
_HEAD = ClaimSpan((_NOW - 600.0, _NOW - 600.0), BEHIND_ALL, 0).parameters()
_STRETCH: dict[str, Any] = ClaimSpan((_NOW - 3000.0, float("-inf")), (_NOW - 2998.0, float("-inf")), 0).parameters()
_APART = apart_parameters({Apart("t", "queues", "d.eu", "d.", ("region",), ("",), "d.eu"): False})

STATISTICS = ["fresh", "analyzed when empty", "never analyzed", "all were PENDING", "nothing was PENDING"]


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=pytest.mark.xdist_group(f"plans, {one}")) for one in STATISTICS],
)
def connection(request: pytest.FixtureRequest, postgres: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A big table whose statistics are as the parameter says; autovacuum leaves it alone."""
    database = create_database(postgres)
    try:
        with database.connect() as connection:
            _fill(database, connection, request.param)
            yield connection
    finally:
        drop_database(database)


def _fill(database: Database, connection: psycopg.Connection[tuple[Any, ...]], statistics: str) -> None:
    migrate(database.url, TableName())
    connection.execute("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
    if statistics == "analyzed when empty":
        connection.execute("ANALYZE openoutbox_events")
    if statistics == "nothing was PENDING":
        connection.execute(_FINISHED)
        connection.execute("VACUUM ANALYZE openoutbox_events")
    connection.execute(_PENDING, [ROWS])
    if statistics == "all were PENDING":
        connection.execute("ANALYZE openoutbox_events")
    connection.execute(_LEASED, [FENCE])
    connection.execute(_FINISHED)
    if statistics == "fresh":
        connection.execute("VACUUM ANALYZE openoutbox_events")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def explain(
    connection: psycopg.Connection[tuple[Any, ...]],
    path: str,
    *tags: str,
    whole_table_is_pending: bool = False,
    **parameters: Any,
) -> list[dict[str, Any]]:
    """The nodes of the plan of one statement, for example ``outbox/claim:claim``; a tag may follow after ``+``.

    Only a count of PENDING may read the table itself, when nothing but PENDING is believed to be in it.
    """
    name, _, tag = path.partition("+")
    sql = "EXPLAIN (FORMAT JSON) " + statement(name, TableName(), tags=[tag, *tags])
    row = connection.execute(sql.encode(), parameters).fetchone()
    assert row is not None
    plan = list(nodes(row[0][0]["Plan"]))
    scans = [node for node in plan if (node["Node Type"], node.get("Relation Name")) == ("Seq Scan", DEFAULT_TABLE)]
    assert not scans or whole_table_is_pending, f"{path} scans the whole table"
    return plan


def kept_plan(
    connection: psycopg.Connection[tuple[Any, ...]], options: str, sql: str, session: str, parameters: dict[str, Any]
) -> list[dict[str, Any]]:
    """EXPLAIN's nodes of the plan that is kept for all parameters; ``session`` is the tag of ``session:prepared``."""
    names = list(dict.fromkeys(_PARAMETER.findall(sql)))
    sql = _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", sql).replace("%%", "%")
    values = psycopg.sql.SQL(", ").join([psycopg.sql.Literal(parameters[name]) for name in names])
    with connection.transaction(force_rollback=True):
        process = {"process": connection.info.backend_pid}
        set_up = connection.execute(statement("session:prepared", tags=[session]), process).fetchone()
        assert set_up is not None
        assert set_up[1] is not None
        connection.execute(b"PREPARE hot AS " + sql.encode())
        execute = psycopg.sql.SQL(f"EXPLAIN ({options}) EXECUTE hot ({{}})").format(values)
        [(rows,)] = connection.execute(execute).fetchall()
        connection.execute("DEALLOCATE hot")
    assert re.search(r"\$\d", json.dumps(rows)), "it is not the plan for all parameters"
    return list(nodes(rows[0]["Plan"]))


def explain_prepared(
    connection: psycopg.Connection[tuple[Any, ...]], path: str, session: str = "", **parameters: Any
) -> list[dict[str, Any]]:
    """As ``explain``, of the plan that is kept."""
    name, *tags = path.split("+")
    sql = statement(name, TableName(), tags=[*tags, "prepared"])
    plan = kept_plan(connection, "FORMAT JSON", sql, session, parameters)
    assert (DEFAULT_TABLE, "Seq Scan") not in {(node.get("Relation Name"), node["Node Type"]) for node in plan}
    return plan


def walks_in_order(plan: list[dict[str, Any]]) -> None:
    """The order comes from the index, not from a sort of all that qualifies."""
    assert [node["Node Type"] for node in plan if "Index Name" in node] == ["Index Scan"]


def indexes(plan: list[dict[str, Any]]) -> set[str]:
    return {node["Index Name"] for node in plan if "Index Name" in node}


@pytest.mark.parametrize("place", [_EVERYWHERE, _HEAD, _STRETCH], ids=["oldest entry", "head", "stretch"])
@pytest.mark.parametrize("batch", BATCHES)
def test_claim(connection: psycopg.Connection[tuple[Any, ...]], batch: int, place: dict[str, Any]) -> None:
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        plan = explain(
            connection,
            "outbox/claim:claim",
            limit=batch,
            max_bytes=1 << 26,
            inline_bytes=1 << 19,
            max_attempts=25,
            relay_id="relay",
            **place,
        )
    assert indexes(plan) == {"idx_openoutbox_processing_queue"}
    assert [node["Node Type"] for node in plan].count("Tid Scan") == 1
    walks_in_order(plan)


@pytest.mark.parametrize("tag", ["", "excluding", "paused", "paused+apart"])
def test_a_claim_that_is_prepared(connection: psycopg.Connection[tuple[Any, ...]], tag: str) -> None:
    """Its plan is the same for the oldest entry, the head and a stretch, whatever the batch."""
    plan = explain_prepared(
        connection,
        f"outbox/claim:claim+{tag}",
        "walk",
        limit=100,
        max_bytes=1 << 26,
        inline_bytes=1 << 19,
        max_attempts=25,
        relay_id="relay",
        excluded="{}",
        without=["other"],
        paused=["held.%"],
        **_APART,
        **_EVERYWHERE,
    )
    assert indexes(plan) == {"idx_openoutbox_processing_queue"}
    assert [node["Node Type"] for node in plan].count("Tid Scan") == 1
    walks_in_order(plan)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_claim_of_a_tie_reads_a_range_of_the_table(
    connection: psycopg.Connection[tuple[Any, ...]], *, prepared: bool
) -> None:
    plan = (partial(explain_prepared, session="walk") if prepared else explain)(
        connection,
        "outbox/claim:claim+tied",
        limit=100,
        max_bytes=1 << 26,
        inline_bytes=1 << 19,
        max_attempts=25,
        relay_id="relay",
        tid_from="(3,7)",
        tid_until="(1027,0)",
        **_STRETCH,
    )
    assert indexes(plan) == set()
    assert [node["Node Type"] for node in plan if node["Node Type"].startswith("Tid")] == ["Tid Range Scan", "Tid Scan"]


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    "path",
    [
        *(f"outbox/settle:{kind}" for kind in statement_names("outbox/settle")),
        "outbox/settle:delivered+delete",
        "outbox/lease:renew",
        "outbox/claim:payloads+sizes",
        "outbox/claim:payloads",
        "outbox/lease:held",
        "outbox/lease:read_back",
    ],
)
def test_settle_and_renew(
    connection: psycopg.Connection[tuple[Any, ...]], path: str, batch: int, *, prepared: bool
) -> None:
    ids = connection.execute(
        "SELECT event_id::text FROM openoutbox_events WHERE status = 'DELIVERING' LIMIT %s", [batch]
    ).fetchall()
    parameters: dict[str, Any] = {**FENCED, "ids": "{" + ",".join(one for (one,) in ids) + "}"}
    if path in {"outbox/settle:retried", "outbox/settle:buried"}:
        parameters["errors"] = ["error"] * batch
    if path == "outbox/settle:retried":
        parameters["delays"] = [1.0] * batch
    if path == "outbox/lease:read_back":
        parameters["renewed"] = FENCE.replace(year=2032)
    plan = (explain_prepared if prepared else explain)(connection, path, **parameters)
    assert indexes(plan) <= {"idx_openoutbox_stuck_leases", "openoutbox_events_pkey"}


@pytest.mark.parametrize("batch", BATCHES)
def test_reap(connection: psycopg.Connection[tuple[Any, ...]], batch: int) -> None:
    retry: dict[str, Any] = {"base_delay": 1.0, "max_delay": 60.0, "jitter": 0.1, "max_attempts": 25}
    plan = explain(connection, "outbox/lease:reap", limit=batch, lease=180.0, locked_from=float("-inf"), **retry)
    walks_in_order(plan)
    assert indexes(plan) == {"idx_openoutbox_stuck_leases"}
    assert [node["Node Type"] for node in plan].count("Tid Scan") == 1


@pytest.mark.parametrize("path", ["outbox/claim:claim", "outbox/claim:first_due", "outbox/lease:reap"])
def test_chosen_rows_are_found_by_their_ids(connection: psycopg.Connection[tuple[Any, ...]], path: str) -> None:
    """An index of what waits looks small to the planner, and may be full of dead entries."""
    plan = explain(
        connection,
        f"{path}+chosen",
        chosen=[uuid.uuid4() for _ in range(20)],
        limit=20,
        max_bytes=1 << 26,
        inline_bytes=1 << 19,
        relay_id="relay",
        excluded="{}",
        without="{}",
        tid_from="(0,0)",
        lease=180.0,
        base_delay=1.0,
        max_delay=60.0,
        jitter=0.1,
        max_attempts=25,
        **_EVERYWHERE,
    )
    assert indexes(plan) == {"openoutbox_events_pkey"}


@pytest.mark.parametrize("batch", BATCHES[:-1])
@pytest.mark.parametrize(
    ("path", "status", "tags"),
    [
        ("outbox/bulk:replay", "DEAD", ["dead"]),
        ("outbox/bulk:replay", "DELIVERED", ["delivered"]),
        ("outbox/bulk:change", "PENDING", ["retry", "later"]),
        ("outbox/bulk:change", "PENDING", ["bury", "untried"]),
    ],
)
def test_what_an_operator_changes_is_found_by_its_place(
    connection: psycopg.Connection[tuple[Any, ...]], path: str, status: str, tags: list[str], batch: int
) -> None:
    rows = connection.execute(
        "SELECT ctid::text, event_id FROM openoutbox_events WHERE status = %s LIMIT %s", [status, batch]
    ).fetchall()
    chosen: dict[str, Any] = {"tids": [tid for tid, _ in rows], "ids": [event_id for _, event_id in rows]}
    plan = explain(connection, path, *tags, **chosen, unchanged=FENCE, error="by hand")
    assert indexes(plan) <= {"openoutbox_events_pkey"}


@pytest.mark.parametrize("tag", ["dead", "delivered"])
@pytest.mark.parametrize("batch", BATCHES[:-1])
def test_prune_deletes_by_place(connection: psycopg.Connection[tuple[Any, ...]], batch: int, tag: str) -> None:
    plan = explain(connection, "outbox/prune:prune", tag, limit=batch, before=FENCE, after="-infinity", excluded="{}")
    assert indexes(plan) == {f"idx_openoutbox_prune_{tag}"}
    assert [node["Node Type"] for node in plan].count("Tid Scan") == 1


def test_whether_rows_became_delivered_is_one_probe(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    plan = explain(connection, "outbox/backlog:delivered_recently", seconds=60.0)
    assert indexes(plan) == {"idx_openoutbox_prune_delivered"}


def test_leases_and_what_becomes_of_them_walk_indexes(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    plan = explain(connection, "outbox/backlog:leases", sample=1000)
    assert indexes(plan) == {"idx_openoutbox_stuck_leases"}
    walks_in_order(plan)
    ids = connection.execute("SELECT event_id::text FROM openoutbox_events LIMIT 1000").fetchall()
    plan = explain(connection, "outbox/backlog:statuses", ids="{" + ",".join(one for (one,) in ids) + "}")
    assert indexes(plan) == {"openoutbox_events_pkey"}


def test_signs_of_other_lease_timeouts_walk_indexes(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        plan = explain(connection, "outbox/backlog:recent_reclaims", sample=100, seconds=600.0)
        assert indexes(plan) == {"idx_openoutbox_processing_queue", "idx_openoutbox_prune_delivered"}
        plan = explain(
            connection,
            "outbox/backlog:held_beyond",
            seconds=60.0,
            sample=100,
            prefix="openoutbox-relay/",
            longest=63,
        )
        assert "idx_openoutbox_stuck_leases" in indexes(plan)


def test_the_lag_is_one_probe(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        plan = explain(connection, "outbox/backlog:oldest_due_age", **_EVERYWHERE)
    assert indexes(plan) == {"idx_openoutbox_processing_queue"}
    assert "Limit" in {node["Node Type"] for node in plan}


def test_the_oldest_delivery_is_one_probe(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        plan = explain(connection, "outbox/backlog:oldest_delivered_age")
    assert indexes(plan) == {"idx_openoutbox_prune_delivered"}
    assert {node["Node Type"] for node in plan} & {"Limit", "Bitmap Heap Scan", "Sort"} == {"Limit"}


def test_the_backlog_is_counted_on_indexes_alone(
    connection: psycopg.Connection[tuple[Any, ...]], request: pytest.FixtureRequest
) -> None:
    plan = explain(connection, "outbox/backlog:backlog", whole_table_is_pending=True, **_EVERYWHERE)
    assert "idx_openoutbox_prune_dead" in indexes(plan)
    if request.node.callspec.params["connection"] == "nothing was PENDING":
        return  # counting reads all that waits; a MIN that does so, too, looks as cheap as a probe then
    assert indexes(plan) >= {"idx_openoutbox_prune_dead", "idx_openoutbox_processing_queue"}
    assert [node["Node Type"] for node in plan].count("Limit") == 2, "each MIN is one probe"
    if connection.execute("SELECT relallvisible > 0 FROM pg_class WHERE relname = 'openoutbox_events'").fetchone() == (
        True,
    ):
        assert indexes(plan) >= {"idx_openoutbox_metrics_count", "idx_openoutbox_metrics_lag"}
        assert {node["Node Type"] for node in plan if "Index Name" in node} == {"Index Only Scan"}


def test_ids_that_are_not_there_cost_no_scan(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    ids = "{" + ",".join(str(uuid.uuid4()) for _ in range(5000)) + "}"
    explain(connection, "outbox/settle:delivered", ids=ids, relay_id="twin", fence=FENCE.replace(year=2029))
